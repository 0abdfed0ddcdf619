"""What the search believes of a kernel: estimates are near the simulation, bounds under it."""

import numpy as np
import pytest

from tests.helpers.graphs import Net
from tests.helpers.kernel_runs import EXACT, error, product, resolved, run, toy, with_rates
from tilestitch.cost.bounds import Bounds, bounds, least_cycles
from tilestitch.ir.graph import Graph

# Machines on which one thing after another is what a kernel waits for: arithmetic, a memory, the link, a set-up.
SLOW: dict[str, dict[str, int]] = {
    "as it is": {},
    "arithmetic": {"ddr": 128, "gb": 256, "link": 256},
    "ddr": {"ddr": 1},
    "gb": {"ddr": 64, "gb": 2},
    "link": {"ddr": 64, "link": 1},
    "dma set-up": {"dma_cycles": 20_000},
    "mover set-up": {"mover_cycles": 8_000},
    "compute set-up": {"compute_cycles": 20_000},
    "launch": {"launch_cycles": 1_000_000},
}


def typical_kernels() -> dict[str, Graph]:
    """One kernel each: element by element, row by row, on images, on the vector and on the matrix unit."""
    found = {}
    net = Net()
    found["add"] = net.graph(net.op("Add", net.input(256, 256), net.input(256, 256)))
    net = Net()
    found["softmax"] = net.graph(net.op("Softmax", net.input(256, 256)))
    for name, group in (("conv", 1), ("depthwise", 32)):
        net = Net()
        weight = net.random(32, 32 // group, 3, 3)
        x = net.op("Conv", net.input(1, 32, 28, 28), weight, pads=[1] * 4, group=group)
        found[name] = net.graph(net.op("Relu", x))
    return {**{name: resolved(graph) for name, graph in found.items()}, "product": product(256, 256, 256)}


@pytest.mark.parametrize("slow", SLOW)
def test_the_estimate_is_near_the_simulation(slow):
    """45 kernels on one core: simulated ÷ estimated lies between 0.8 and 1.4, whatever it is that takes the time.

    Found: 0.82 to 1.31. A term that is left out, or counted twice, makes a factor of
    2 or more on the machine that it is about. Four cores, whose transfers queue for one DDR: 0.64 to 1.38.
    """
    for cores, low, high in ((1, 0.8, 1.4), (4, 0.6, 1.5)):
        for name, graph in typical_kernels().items():
            found = run(graph, with_rates(toy(cores), **SLOW[slow]))
            (kernel,) = found.schedule.kernels
            ratio = found.trace.latency_cycles / kernel.estimated_cycles
            assert low < ratio < high, (name, cores, ratio)


@pytest.mark.quick
@pytest.mark.parametrize("without", ["gb", "weights"])
def test_the_estimate_knows_which_memories_there_are(without):
    """Without GB everything moves between DDR and the cores, without a weight area all of it through one buffer."""
    for name, graph in typical_kernels().items():
        found = run(graph, toy(1, **{without: 0}))
        (kernel,) = found.schedule.kernels
        ratio = found.trace.latency_cycles / kernel.estimated_cycles
        assert 0.55 < ratio < 1.4, (name, ratio)
        assert error(found.trace) < EXACT


@pytest.mark.quick
def test_bounds_of_a_product_by_hand():
    """10 x 17 x 9 on two cores of 16 x 8: 1,530 products at 256 a cycle, but 2 x 2 folds of 10 rows each.

    Every iteration moves x and y, all of them together w: 170 + 90 elements, and 153 once, at 8 bytes a cycle.
    """
    once, often = (bounds(product(10, 17, 9), toy(2), iterations=n) for n in (1, 5))
    assert (once.macs, once.vector_operations) == (1530, 0)
    assert (once.compute_cycles, once.attainable_cycles) == (6, 20)
    assert (once.compulsory_bytes, once.traffic_cycles) == (2 * (170 + 90 + 153), 104)
    assert (often.macs, often.compute_cycles, often.attainable_cycles) == (7650, 30, 100)
    assert (often.compulsory_bytes, often.traffic_cycles) == (2 * (5 * (170 + 90) + 153), 364)
    shared = bounds(product(10, 17, 9), toy(2), iterations=5, sharers=3)
    assert (shared.compulsory_bytes, shared.traffic_cycles) == (often.compulsory_bytes, 1014)
    assert (once.latency_cycles, once.binding) == (104, "memory")


@pytest.mark.quick
def test_what_kernels_pass_on_through_ddr_counts_once_each_way():
    """Where no kernel has both operators, though they may run in pieces, and the tensor does not stay on chip."""
    net = Net()
    graph = resolved(net.graph(net.op("Exp", net.op("Sigmoid", net.input(64, 1024)))))
    maker, reader = (op.name for op in graph.operators)
    made = graph.operators[0].outputs[0]

    def cycles(*kernels, on_chip=()):
        kept = {"through_ddr": kernels, "on_chip": on_chip}
        return least_cycles(graph, toy(2), iterations=1, constant_loads=1, **kept)

    ends = cycles()
    assert cycles([maker], [reader]) == cycles([maker], [reader], [reader]) == 2 * ends
    assert cycles([maker, reader], [maker, reader], [maker]) == ends
    assert cycles([maker], [reader], on_chip=(made,)) == ends


@pytest.mark.quick
def test_bounds_count_only_what_is_touched():
    """A window of 1 with stride 2 reads a quarter of the image; a gather moves a row for each index."""
    net = Net()
    graph = resolved(net.graph(net.op("MaxPool", net.input(1, 4, 8, 8), kernel_shape=[1, 1], strides=[2, 2])))
    found = bounds(graph, toy(2), iterations=1)
    assert found.compulsory_bytes == 2 * (4 * 16 + 4 * 16)
    assert (found.vector_operations, found.compute_cycles, found.attainable_cycles) == (64, 2, 2)
    net = Net()
    graph = resolved(net.graph(net.op("Gather", net.random(100, 6), net.input(3, dtype=7))))
    assert bounds(graph, toy(), iterations=1).compulsory_bytes == 3 * 6 * 2 + 3 * 4 + 3 * 6 * 2


@pytest.mark.quick
@pytest.mark.parametrize(
    ("indices", "rows"),
    [([3, 50, 7], 3), ([3, 50, 3], 2), ([-1, 99, 0], 2), ([[4, 4], [9, 8]], 3)],
)
def test_bounds_count_the_rows_that_constant_indices_name(indices: list, rows: int):
    net = Net()
    picked = np.array(indices)
    graph = resolved(net.graph(net.op("Gather", net.input(100, 6), indices)))
    moved = bounds(graph, toy(), iterations=1).compulsory_bytes
    assert moved == 2 * 6 * rows + 4 * picked.size + 2 * 6 * picked.size


@pytest.mark.quick
def test_bounds_count_no_more_rows_than_a_table_has():
    """Of a small table whatever is asked for; and of a column that each index picks an element of, one."""
    net = Net()
    graph = resolved(net.graph(net.op("Gather", net.random(5, 6), net.input(40, dtype=7))))
    assert bounds(graph, toy(), iterations=1).compulsory_bytes == 5 * 6 * 2 + 40 * 4 + 40 * 6 * 2
    net = Net()
    graph = resolved(net.graph(net.op("Gather", net.random(50, 6), net.input(8, dtype=7))))
    for iterations, rows in ((1, 8), (6, 48), (7, 50)):
        moved = bounds(graph, toy(), iterations=iterations).compulsory_bytes
        assert moved == rows * 6 * 2 + iterations * (8 * 4 + 8 * 6 * 2)
    net = Net()
    graph = resolved(net.graph(net.op("GatherElements", net.random(50, 6), net.input(3, 6, dtype=7), axis=0)))
    assert bounds(graph, toy(), iterations=1).compulsory_bytes >= 6 * 2 + 18 * 4 + 18 * 2


@pytest.mark.quick
def test_bounds_count_rows_behind_a_part_that_is_no_product():
    """Three of 16 products of pairs need the rows 0, 2, 3 and the columns 1, 3 that they are made of."""
    net = Net()
    pairs = [0 * 4 + 1, 2 * 4 + 3, 3 * 4 + 3]
    left, right = net.input(4, 10), net.input(10, 4)
    flat = net.op("Reshape", net.op("MatMul", left, right), [16])
    graph = resolved(net.graph(net.op("Gather", flat, pairs)))
    found = bounds(graph, toy(), iterations=1)
    assert found.macs == 20  # the second and the third of the three
    assert found.compulsory_bytes == 2 * (3 * 10 + 2 * 10 + 3) + 4 * 3


@pytest.mark.quick
@pytest.mark.parametrize(
    ("start", "end", "step", "needed"), [(0, 16, 1, 16), (1, 15, 1, 12), (0, 16, 2, 8), (1, 16, 4, 4), (6, 7, 1, 1)]
)
def test_bounds_count_a_transposed_convolution_before_a_crop(start: int, end: int, step: int, needed: int):
    """Its phases are a loop of their own: of places 1 to 14 they write 2 to 13 with both phases in 6 steps."""
    net = Net()
    x = net.op("ConvTranspose", net.input(1, 3, 8), net.random(3, 5, 4), strides=[2], pads=[1, 1])
    graph = resolved(net.graph(net.op("Slice", x, [start], [end], [2], [step])))
    assert bounds(graph, toy(), iterations=1).macs == needed * 5 * 3 * 2


@pytest.mark.quick
def test_bounds_join_what_several_operators_read():
    """Three slices of one projection need all of it, two of them two thirds; a row and a column need the larger."""

    def limits(*slices: tuple[int, int, int]) -> Bounds:
        net = Net()
        x = net.op("MatMul", net.input(8, 10), net.random(10, 12))
        parts = [net.op("Exp", net.op("Slice", x, [low], [high], [axis])) for low, high, axis in slices]
        return bounds(resolved(net.graph(*parts)), toy(), iterations=1)

    assert limits((0, 4, 1), (4, 8, 1), (8, 12, 1)).macs == 8 * 10 * 12
    assert limits((0, 4, 1), (6, 10, 1)).macs == 8 * 10 * 8
    assert limits((0, 4, 1), (2, 6, 1)).macs == 8 * 10 * 6
    assert limits((0, 2, 0), (0, 4, 1)).macs == 8 * 10 * 4
    assert limits((0, 2, 0), (0, 4, 1), (4, 12, 1)).macs == 8 * 10 * 12


@pytest.mark.quick
def test_bounds_leave_out_what_no_output_needs():
    """Two of eight rows of a product, every third column of a sum, a diagonal, and one of the parts of a tensor."""

    def limits(*nodes: str) -> Bounds:
        net = Net()
        x = net.input(8, 12)
        if "product" in nodes:
            x = net.op("MatMul", x, net.random(12, 6))
        if "sum" in nodes:
            x = net.op("Relu", net.op("Concat", net.op("Exp", x), net.input(8, 12), axis=0))
        if "rows" in nodes:
            x = net.op("Slice", x, [2], [4], [0])
        if "columns" in nodes:
            x = net.op("Slice", x, [0], [12], [1], [3])
        return bounds(resolved(net.graph(x)), toy(), iterations=1)

    rows = limits("product", "rows")
    assert (rows.macs, rows.compulsory_bytes) == (2 * 6 * 12, 2 * (2 * 12 + 12 * 6 + 2 * 6))
    part = limits("sum", "rows", "columns")
    assert (part.vector_operations, part.compulsory_bytes) == (2 * 2 * 4, 2 * (2 * 4 + 2 * 4))
    whole = limits("product")
    assert (whole.macs, whole.compulsory_bytes) == (8 * 6 * 12, 2 * (8 * 12 + 12 * 6 + 8 * 6))


def test_no_kernel_is_faster_than_its_bound():
    """On one core and on four, with everything in its way that a machine can have."""
    for rates in SLOW.values():
        machine = with_rates(toy(4), **rates)
        for graph in typical_kernels().values():
            found, limits = run(graph, machine, iterations=2), bounds(graph, machine, iterations=2)
            assert found.trace.latency_cycles >= limits.latency_cycles
            assert found.ddr_bytes() >= limits.compulsory_bytes
