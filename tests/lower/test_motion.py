"""Kernels that begin elsewhere: which may share one block of instructions, and that nothing else is different."""

import pytest

from tests.helpers.graphs import Net
from tests.helpers.kernel_runs import resolved
from tilestitch import zoo
from tilestitch.hardware.load import load_machine
from tilestitch.ir.region import Region
from tilestitch.lower import blocks
from tilestitch.lower.builder import Owner
from tilestitch.lower.cluster import Cluster
from tilestitch.lower.motion import Motion, motion_of, moved
from tilestitch.pipeline import batches
from tilestitch.pipeline.compile import compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import strategy_named


def motion_along(net: Net, output: str, axis: int, fixed: tuple[str, ...] = ()) -> Motion:
    """Of all operators of a network as one kernel that covers one index of an axis of the result."""
    graph = resolved(net.graph(output))
    whole = graph.operators[-1].whole
    stop = tuple(1 if number == axis else size for number, size in enumerate(whole.stop))
    return motion_of(graph, graph.operators, Region(whole.start, stop), fixed)


def test_everything_of_a_sample_moves_with_it():
    """Rows of a convolution with a stride move two by two, weights do not move."""
    net = Net()
    x = net.input(4, 3, 9, 9)
    y = net.op("Relu", net.op("Conv", x, net.random(5, 3, 3, 3), strides=[2, 2]))
    along = motion_along(net, y, 0)
    assert along.shift(Owner(x), (3, 0, 0, 0)) == (3, 0, 0, 0)
    rows = motion_along(net, y, 2)
    assert rows.shift(Owner(x), (0, 0, 2, 0)) == (0, 0, 4, 0)
    weights = next(owner for owner in rows.steps[2] if owner.name.startswith("w") and not owner.is_operator)
    assert not any(rows.shift(weights, (0, 0, 2, 0)))
    assert rows.base(Region((2, 1, 3, 0), (3, 2, 4, 1))) == (2, 1, 0, 0)


def test_what_is_padded_does_not_move():
    """The first row needs less of the image than the second."""
    net = Net()
    y = net.op("Conv", net.input(4, 3, 9, 9), net.random(5, 3, 3, 3), pads=[1, 1, 1, 1])
    assert not motion_along(net, y, 2).steps
    assert motion_along(net, y, 0).steps


def test_what_is_needed_whole_and_what_stays_whole_in_gb_does_not_move():
    net = Net()
    x = net.input(6, 8)
    assert not motion_along(net, net.op("Softmax", x, axis=1), 1).steps
    net = Net()
    x = net.input(6, 8)
    y = net.op("MatMul", x, net.random(8, 8))
    assert motion_along(net, y, 0).steps
    assert not motion_along(net, y, 0, (x,)).steps


def test_a_region_moves_along_each_axis():
    assert moved(Region((0, 2), (1, 4)), (3, -2)) == Region((3, 0), (4, 2))


@pytest.mark.parametrize(("name", "batch"), [("mobilenet-v2", 16), pytest.param("unet", 4, marks=pytest.mark.slow)])
def test_pieces_share_blocks_and_the_program_is_as_without(monkeypatch, name, batch):
    """The pieces of a sub-graph differ in where they begin and in their places; instruction by instruction the same."""
    monkeypatch.setattr(batches, "_ways", lambda partition: [partition])  # in pieces, not whole as well
    lowered: list[str] = []
    original = blocks.lower_kernel
    monkeypatch.setattr(blocks, "lower_kernel", lambda *args: lowered.append(args[2].name) or original(*args))

    def text() -> str:
        lowered.clear()
        options = Options(batch=2 * batch, batch_per_cluster=batch)
        strategy = strategy_named("graphturbo-ordering")
        done = compile_network(zoo.build(name, small=True), name, load_machine("toy"), strategy, options)
        assert done.program is not None
        assert done.schedule is not None
        kernels.append(len(done.schedule.kernels))
        return done.program.text()

    kernels: list[int] = []
    shared = text()
    count = len(lowered)
    monkeypatch.setattr(blocks, "motion_of", lambda *args: Motion({}))
    unmoved = text()
    assert count < len(lowered) <= kernels[0]
    assert unmoved == shared
    monkeypatch.setattr(blocks, "kernel_key", lambda signatures, kernel: kernel.name)
    assert text() == shared
    assert len(lowered) == kernels[0]


def test_a_block_is_the_same_on_other_cores(monkeypatch):
    """Cores take turns at being the first; each instruction, its memories and its path are those of its own core."""

    def text() -> str:
        network, strategy = zoo.build("googlenet", small=True), strategy_named("astitch")
        done = compile_network(network, "googlenet", load_machine("stcp920"), strategy, Options(batch=4))
        assert done.program is not None
        assert done.schedule is not None
        orders.update(kernel.cores for kernel in done.schedule.kernels)
        return done.program.text()

    orders: set[tuple[int, ...]] = set()
    renamed = text()
    assert len(orders) > 1
    monkeypatch.setattr(Cluster, "alike", property(lambda self: False))
    assert text() == renamed
