"""ZigZag 3.9.1's best mapping of every layer of ResNet-18 and MobileNet-v2, and ours, both priced by its evaluator.

Its figures were recorded by `python -m benchmarks zigzag_networks`; ours are searched again here.
"""

import json
from functools import cache

import pytest

from benchmarks.zigzag_networks import placed
from tests.helpers.zigzag_trees import DATA
from tilestitch.mapping.tree.search import best_mapping
from tilestitch.mapping.tree.tables import Sums


@cache
def recorded():
    return json.loads((DATA / "networks.json").read_text())


MACHINES = ("tpu_like", "eyeriss_like", "edge_tpu_like", "meta_prototype")


@pytest.mark.parametrize("sums", Sums)
@pytest.mark.parametrize("machine", MACHINES)
def test_no_layer_costs_more_than_zigzag_s_best(machine, sums):
    """In its own evaluator, by either rule for sums."""
    rows = [row for row in recorded()["rows"] if row["machine"] == machine]
    assert {row["network"] for row in rows} == {"resnet18", "mobilenetv2"}
    assert len(rows) == len(recorded()["layers"]) == 43
    for row in rows:
        assert row[f"ours_{sums}_pj"] <= row["zigzag_pj"] * (1 + 1e-12), row


def _found_again(rows):
    layers = {layer["name"]: layer for layer in recorded()["layers"]}
    for row in rows:
        nest = placed(row["machine"], row["mapping"], layers[row["layer"]])
        for sums in Sums:
            found = best_mapping(nest, sums)
            assert found.is_proven
            assert found.price.energy_pj == pytest.approx(row[f"ours_{sums}_pj"], rel=1e-12), (row, sums)


def test_our_search_finds_what_zigzag_priced():
    """The energy that we prove least is what ZigZag's evaluator says of the mapping: of every ninth layer."""
    _found_again(recorded()["rows"][::9])


@pytest.mark.slow
def test_our_search_finds_what_zigzag_priced_of_every_layer():
    _found_again(recorded()["rows"])
