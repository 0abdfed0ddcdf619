"""What must hold of a mapping is said where it does not, whoever made the mapping."""

import json
from dataclasses import replace
from random import Random

import pytest

from tests.helpers.nests import DMAZERUNNER, random_mapping, random_nest
from tilestitch.base.errors import InputError, InvalidIR
from tilestitch.commands.map import sources
from tilestitch.commands.map.sources import MachineSource, open_mapping
from tilestitch.ir.choices import CostMode
from tilestitch.ir.loop_nest import LoopMapping, product
from tilestitch.ir.verify_mapping import verify_mapping
from tilestitch.mapping import network
from tilestitch.mapping.network import MapOptions, RepeatedNest, map_layer
from tilestitch.mapping.search import search

pytestmark = pytest.mark.quick

NEST = product("gemm", m=4, n=6, k=8)
ORDER = (0, 1, 2)
RIGHT = LoopMapping((2, 1, 2), (1, 3, 1), (2, 1, 4), (1, 2, 1), ORDER, ORDER)
WRONG = {
    "a factor too few": (replace(RIGHT, rf=(2, 1)), r"has the factors \(2, 1\) at rf"),
    "no iterations": (replace(RIGHT, spm=(1, 0, 1)), r"has the factors \(1, 0, 1\) at spm"),
    "iterations left out": (
        replace(RIGHT, dram=(1, 1, 2)),
        "the factors of loop M multiply to 2, not to its extent, 4",
    ),
    "iterations twice": (replace(RIGHT, dram=(2, 1, 4)), "the factors of loop K multiply to 16, not to its extent, 8"),
    "a loop twice": (replace(RIGHT, dram_order=(0, 0, 2)), r"the order \(0, 0, 2\) at dram"),
    "a loop that does not exist": (replace(RIGHT, spm_order=(0, 1, 3)), r"the order \(0, 1, 3\) at spm"),
}


def test_a_mapping_that_runs_everything_once_is_right():
    verify_mapping(RIGHT, NEST)


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_mappings_that_are_drawn_are_right(seed, ragged):
    random = Random(seed)
    nest = random_nest(random)
    verify_mapping(random_mapping(nest, random, ragged=ragged), nest, ragged=ragged)


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_in_a_mapping_is_said(what):
    mapping, message = WRONG[what]
    with pytest.raises(InvalidIR, match=message):
        verify_mapping(mapping, NEST)


def test_ragged_factors_cover_a_loop_with_no_tile_to_spare():
    ragged = replace(RIGHT, dram=(2, 1, 3), rf=(2, 1, 3))
    verify_mapping(ragged, NEST, ragged=True)
    with pytest.raises(InvalidIR, match="multiply to 9, not to its extent, 8"):
        verify_mapping(ragged, NEST)
    with pytest.raises(InvalidIR, match="tiles without iterations"):
        verify_mapping(replace(RIGHT, dram=(2, 1, 4)), NEST, ragged=True)


@pytest.mark.parametrize("what", WRONG)
def test_what_the_search_finds_is_verified(what, monkeypatch):
    """A search that went wrong is a bug that is said, and no result."""

    def damaged(*arguments, **options):
        found = search(*arguments, **options)
        return replace(found, best=(replace(found.best[0], mapping=WRONG[what][0]),))

    class Unpriced:
        def __init__(self, *arguments):
            pass

        def __call__(self, mapping):
            return None

    monkeypatch.setattr(network, "search", damaged)
    monkeypatch.setattr(network, "Pricer", Unpriced)
    with pytest.raises(InvalidIR, match=WRONG[what][1]):
        map_layer(RepeatedNest(NEST, ("gemm",)), DMAZERUNNER, MapOptions())


def test_a_mapping_in_a_file_is_verified(tmp_path, monkeypatch):
    """Also where the reader of its format let something pass."""
    file = tmp_path / "mapping.json"
    file.write_text(json.dumps({"factors": {}, "orders": {}}))
    source = MachineSource(DMAZERUNNER)
    for mapping, message in WRONG.values():
        monkeypatch.setattr(sources, "mapping_of", lambda *_, mapping=mapping: mapping)
        if "multiply to 16" in message:
            message = "tiles without iterations"
        with pytest.raises(InputError, match=rf"mapping\.json: the mapping of gemm: .*{message}"):
            open_mapping(str(file), NEST, source, CostMode.DEFAULT)
