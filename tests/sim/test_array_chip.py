"""On cores with an array of processing elements a tile takes what its fastest mapping takes."""

import numpy as np
import pytest

from tilestitch import api
from tilestitch.hardware.load import load_machine
from tilestitch.ir.loop_nest import LoopNest
from tilestitch.ir.program import EngineKind, Flag, Kind
from tilestitch.mapping.network import nest_of_tile
from tilestitch.mapping.tile import tile_cost, tile_energy
from tilestitch.ops import is_contraction
from tilestitch.sim.chip.energy import energy


@pytest.fixture(scope="module")
def done():
    return api.compile("resnet18:small", "eyeriss", strategy="tvm")


def products(program):
    """Operator, extents and cycles of every tile of a product."""
    chosen = (program.kind == Kind.COMPUTE) & ((program.flags & Flag.MATRIX) > 0)
    for number in np.flatnonzero(chosen):
        op = program.graph.by_name[program.operators[program.operator[number]]]
        yield op, program.regions[program.box[number]].extents, int(program.cycles[number])


def test_tiles_take_what_the_mapper_says(done) -> None:
    """Every one of the program, and depthwise or not every product goes there."""
    array = load_machine("eyeriss").cores[0].array
    assert array is not None
    found = list(products(done.program))
    assert {op.name for op, _, _ in found} == {op.name for op in done.program.graph.operators if is_contraction(op)}
    for op, extents, cycles in found:
        cost = tile_cost(done.program.graph, op, extents, array)
        assert cycles == cost.cycles  # this machine has no set-up of a computation
        nest: LoopNest = nest_of_tile(done.program.graph, op, extents)
        assert cost.mapping.is_exact(nest)
        assert set(cost.mapping.dram) == {1}
        assert cycles >= nest.macs / (array.rows * array.columns)


def test_an_array_does_one_thing_at_a_time(done) -> None:
    """There is one engine for products and everything else."""
    kinds = [engine.kind for engine in done.program.engines]
    assert (kinds.count(EngineKind.MATRIX), kinds.count(EngineKind.VECTOR)) == (1, 0)


def test_the_energy_of_products_is_that_of_their_mappings(done) -> None:
    """Added up over all tiles."""
    machine = load_machine("eyeriss")
    price = tile_energy(machine)
    expected = sum(price(done.program.graph, op, extents, 0) for op, extents, _ in products(done.program))
    with_mapper, without = (energy(done.trace, machine, one) for one in (price, None))
    assert with_mapper.matrix_pj == pytest.approx(expected)
    assert with_mapper.matrix_pj > without.matrix_pj > 0
