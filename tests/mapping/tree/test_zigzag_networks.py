"""ZigZag 3.9.1's best mapping of every layer of ResNet-18 and MobileNet-v2, and ours, both priced by its evaluator.

Its figures were recorded by `python -m benchmarks zigzag_networks`; ours are searched again here.
"""

import json
from functools import cache

import pytest

from benchmarks.zigzag_networks import MACHINES, placed
from tests.helpers.zigzag_trees import DATA
from tilestitch.base.errors import DoesNotFit
from tilestitch.mapping.tree.search import best_mapping
from tilestitch.mapping.tree.tables import Sums


@cache
def recorded():
    return json.loads((DATA / "networks.json").read_text())


LAYERS = 43
FITTING = dict.fromkeys(MACHINES, LAYERS) | {"gemm_l1": 29}  # its outermost memory has 512 KiB


@pytest.mark.parametrize("sums", Sums)
@pytest.mark.parametrize("machine", MACHINES)
def test_no_layer_costs_more_than_zigzag_s_best(machine, sums):
    """In its own evaluator, by either rule for sums."""
    rows = [row for row in recorded()["rows"] if row["machine"] == machine]
    assert {row["network"] for row in rows} == {"resnet18", "mobilenetv2"}
    assert len(recorded()["layers"]) == LAYERS
    assert len(rows) == FITTING[machine]
    for row in rows:
        assert row[f"ours_{sums}_pj"] <= row["zigzag_pj"] * (1 + 1e-12), row


def test_what_zigzag_has_no_mapping_of_does_not_fit():
    """The 14 layers that are too large for `gemm_l1`, which has no DRAM."""
    known = {row["layer"] for row in recorded()["rows"] if row["machine"] == "gemm_l1"}
    large = [layer for layer in recorded()["layers"] if layer["name"] not in known]
    assert len(large) == LAYERS - FITTING["gemm_l1"]
    for layer in large:
        with pytest.raises(DoesNotFit, match="larger"):
            best_mapping(_placed("gemm_l1", MACHINES["gemm_l1"], layer), Sums.FULL)


def _placed(machine, mapping, layer):
    nest = placed(machine, mapping, layer)
    assert nest is not None
    return nest


def _found_again(rows):
    layers = {layer["name"]: layer for layer in recorded()["layers"]}
    for row in rows:
        nest = _placed(row["machine"], row["mapping"], layers[row["layer"]])
        for sums in Sums:
            found = best_mapping(nest, sums)
            assert found.is_proven
            assert found.price.energy_pj == pytest.approx(row[f"ours_{sums}_pj"], rel=1e-12), (row, sums)


def test_our_search_finds_what_zigzag_priced():
    """The energy that we prove least is what ZigZag's evaluator says of the mapping: of every 17th layer."""
    _found_again(recorded()["rows"][::17])


@pytest.mark.slow
def test_our_search_finds_what_zigzag_priced_of_every_layer():
    _found_again(recorded()["rows"])
