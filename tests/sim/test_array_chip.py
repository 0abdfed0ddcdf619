"""On cores with an array of processing elements a product takes what its mapping takes."""

import numpy as np
import pytest

from tests.helpers.graphs import Net
from tilestitch import api
from tilestitch.hardware.array_machine import array_alone
from tilestitch.hardware.load import load_machine
from tilestitch.ir.loop_nest import LoopNest
from tilestitch.ir.program import EngineKind, Flag, Kind
from tilestitch.mapping.evaluate import price
from tilestitch.mapping.network import nest_of_part, nest_of_tile
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


def test_products_take_what_the_mapper_says(done) -> None:
    """All tiles of a mapping together, and depthwise or not every product goes there."""
    array = load_machine("eyeriss").cores[0].array
    assert array is not None
    found: dict[str, int] = {}
    for op, _, cycles in products(done.program):
        found[op.name] = found.get(op.name, 0) + cycles  # this machine has no set-up of a computation
    assert set(found) == {op.name for op in done.program.graph.operators if is_contraction(op)}
    for kernel in done.schedule.kernels:
        if kernel.anchor is not None:
            op = done.program.graph.by_name[kernel.anchor]
            nest = nest_of_part(done.program.graph, op, op.whole.extents)
            assert found[op.name] == price(nest, array_alone(array), kernel.mapping).cycles


def test_a_tile_alone_takes_its_fastest_mapping() -> None:
    """Where sums have a memory of their own, tiles are not those of a mapping."""
    graph = layers_graph()
    (op,) = graph.operators
    array = load_machine("eyeriss").cores[0].array
    assert array is not None
    cost = tile_cost(graph, op, op.whole.extents, array)
    nest: LoopNest = nest_of_tile(graph, op, op.whole.extents)
    assert cost.mapping.is_exact(nest)
    assert set(cost.mapping.dram) == {1}
    assert cost.cycles >= nest.macs / (array.rows * array.columns)


def layers_graph():
    net = Net()
    return net.graph(net.op("MatMul", net.input(4, 32), net.random(32, 16)))


def test_an_array_does_one_thing_at_a_time(done) -> None:
    """There is one engine for products and everything else."""
    kinds = [engine.kind for engine in done.program.engines]
    assert (kinds.count(EngineKind.MATRIX), kinds.count(EngineKind.VECTOR)) == (1, 0)


def test_the_energy_of_products_is_that_of_their_mappings(done) -> None:
    """Added up over all tiles."""
    machine = load_machine("eyeriss")
    of_tile = tile_energy(machine, {one.anchor: one.mapping for one in done.schedule.kernels if one.mapping})
    expected = sum(of_tile(done.program.graph, op, extents, 0) for op, extents, _ in products(done.program))
    with_mapper, without = (energy(done.trace, machine, one) for one in (of_tile, None))
    assert with_mapper.matrix_pj == pytest.approx(expected)
    assert with_mapper.matrix_pj > without.matrix_pj > 0
