"""Kernels small enough to follow by hand: instructions, bytes and cycles."""

from dataclasses import replace

import pytest

import tilestitch
from tests.helpers.graphs import Net, cramped
from tests.helpers.kernel_runs import EXACT, Run, error, product, resolved, run, spans, toy, two_windows
from tests.helpers.pairs import first
from tilestitch.base.errors import DoesNotFit
from tilestitch.hardware.accelerator import Level
from tilestitch.hardware.load import load_machine
from tilestitch.ir.program import Kind
from tilestitch.ir.verify import verify_graph
from tilestitch.lower import blocks
from tilestitch.pipeline.compile import compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import STRATEGIES

# ---- by hand


@pytest.mark.quick
def test_a_product_in_one_tile_takes_what_it_takes_by_hand():
    """32 x 16 times 16 x 8 on one core, one step after another:

    launch                     1,000                    -> 1,000
    x, 1,024 B, from DDR         100 + 1,024/8 = 228    -> 1,228
    x to the local buffer         20 + 1,024/64 = 36    -> 1,264, while w follows from DDR
    w, 256 B, from DDR           100 + 256/8 = 132      -> 1,360
    w to the weight area          20 + 256/64 = 24      -> 1,384
    one fold of 32 rows            4 + 32 = 36          -> 1,420
    y, 512 B, to GB               20 + 512/64 = 28      -> 1,448
    y to DDR                     100 + 512/8 = 164      -> 1,612
    """
    found = run(product(32, 16, 8), toy())
    lines = [(one.engine, one.kind.name, one.size_bytes) for one in found.program]
    assert lines == [
        ("control", "LAUNCH", 0),
        ("dma_in", "COPY", 1024),
        ("mover0", "COPY", 1024),
        ("dma_in", "COPY", 256),
        ("mover0", "COPY", 256),
        ("matrix0", "COMPUTE", 0),
        ("mover0", "COPY", 512),
        ("dma_out", "COPY", 512),
    ]
    assert spans(found) == [
        (0, 1000),
        (1000, 1228),
        (1228, 1264),
        (1228, 1360),
        (1360, 1384),
        (1384, 1420),
        (1420, 1448),
        (1448, 1612),
    ]
    assert found.trace.latency_cycles == 1612
    assert found.ddr_bytes() == 1024 + 256 + 512
    assert error(found.trace) < EXACT


@pytest.mark.quick
def test_a_tile_loads_while_the_one_before_is_computed():
    """Four tiles of 32 x 64 times 64 x 64: 32 folds of 32 rows, 1,028 cycles a tile, which hide all but the rims.

    x and w arrive at 2,884: 1,000 + (100 + 4,096/8) + (100 + 8,192/8), then 20 + 8,192/64 for w to its area. Then
    4 x 1,028 -> 6,996, 84 to GB and 612 to DDR for the last y -> 7,692. Without overlap each tile would add its own
    612 + 84 for x and 84 + 612 for y.
    """
    found = run(product(128, 64, 64), toy(), tile=(32, 64, 64), order=(0, 1, 2), resident=())
    computes = [span for span, one in zip(spans(found), found.program, strict=True) if one.kind is Kind.COMPUTE]
    assert computes == [(2884 + 1028 * i, 2884 + 1028 * (i + 1)) for i in range(4)]
    assert found.trace.latency_cycles == 7692
    assert sum(end - start for start, end in spans(found)) > 7692 + 3 * (612 + 84 + 84 + 612) - 1000
    assert error(found.trace) < EXACT


def test_a_core_has_two_places_for_what_changes_and_one_for_what_stays():
    """Tiles of x and y alternate between two addresses, at GB and at the core; w has one at each."""
    found = run(product(128, 64, 64), toy(), tile=(32, 64, 64), order=(0, 1, 2), resident=())
    places: dict[tuple[str, Level], list[int]] = {}
    program = found.program
    for space, tensor, address in zip(
        program.buffers.space, program.buffers.tensor, program.buffers.address, strict=True
    ):
        places.setdefault((program.tensors[tensor], program.spaces[space].level), []).append(int(address))
    for name, level in (("x", Level.GB), ("x", Level.LB), ("y", Level.LB), ("y", Level.GB)):
        first, second, *others = places[name, level]
        assert first != second
        assert others == [first, second]
    assert len(places["w0", Level.GB]) == len(places["w0", Level.WEIGHTS]) == 1


def test_what_stays_in_gb_is_read_from_ddr_once():
    """Columns outermost: x is needed again for each of four cuts of w, from DDR or from GB."""
    graph = product(128, 64, 64)
    x, w, y = 128 * 64 * 2, 64 * 64 * 2, 128 * 64 * 2
    again, kept = (run(graph, toy(), tile=(64, 16, 64), order=(1, 0, 2), resident=r) for r in ((), ("x",)))
    assert again.ddr_bytes() == 4 * x + w + y
    assert kept.ddr_bytes() == x + w + y
    assert error(again.trace) < EXACT
    assert error(kept.trace) < EXACT


def test_what_stays_at_the_core_is_not_loaded_again():
    """Rows outermost, w cut in two: x once, w for each of two row tiles. Columns outermost: w once, x twice."""
    graph = product(128, 64, 64)
    x, w, y = 128 * 64 * 2, 64 * 64 * 2, 128 * 64 * 2
    rows, columns = (run(graph, toy(), tile=(64, 32, 64), order=order, resident=()) for order in ((0, 1, 2), (1, 0, 2)))
    assert rows.ddr_bytes() == x + 2 * w + y
    assert columns.ddr_bytes() == 2 * x + w + y


def test_what_all_cores_need_is_broadcast():
    """Rows over four cores: w moves from DDR once and to the four weight areas in one copy, and every core computes."""
    found = run(product(128, 64, 64), toy(4), splits=(4, 1, 1), tile=(32, 64, 64), order=(0, 1, 2), resident=())
    assert found.ddr_bytes() == 128 * 64 * 2 + 64 * 64 * 2 + 128 * 64 * 2
    (broadcast,) = [one for one in found.program if Level.WEIGHTS in found.levels(one.number) and one.kind is Kind.COPY]
    assert found.levels(broadcast.number) == [Level.GB, *[Level.WEIGHTS] * 4]
    engines = [one.engine for one in found.program if one.kind is Kind.COMPUTE]
    assert engines == ["matrix0", "matrix1", "matrix2", "matrix3"]
    assert error(found.trace) < EXACT


@pytest.mark.parametrize("cores, pieces", [(2, [51, 52]), (3, [34, 34, 35]), (4, [25, 26, 26, 26])])
def test_rows_are_divided_evenly_and_the_last_tile_is_ragged(cores, pieces):
    """103 rows in tiles of at most 10: as many rows on each core, to within one, and none forgotten."""
    found = run(product(103, 16, 8), toy(cores), splits=(cores, 1, 1), tile=(10, 8, 16), order=(0, 1, 2), resident=())
    rows: dict[str, list[int]] = {}
    for one in found.program:
        if one.box is not None:
            rows.setdefault(one.engine, []).append(one.box.extents[0])
    assert [sum(tiles) for tiles in rows.values()] == pieces
    assert all(tiles[:-1] == [10] * (len(tiles) - 1) for tiles in rows.values())
    assert error(found.trace) < EXACT


@pytest.mark.quick
def test_a_reduction_in_parts_adds_up_and_takes_its_bias_once():
    """64 products in parts of 16, on each of two row tiles: only the first part clears the sums, the last one ends."""
    found = run(product(32, 64, 8, bias=True), toy(), tile=(16, 8, 64), reduction=(16, 8, 16), resident=())
    computes = [one for one in found.program if one.kind is Kind.COMPUTE]
    assert [one.flags for one in computes] == 2 * [4 | 1, 4, 4, 4 | 2]
    modes = ["".join("RWA"[o.mode] for o in one.operands) for one in computes]
    assert modes == 2 * ["RRA", "RRA", "RRA", "RRRAW"]
    assert [one.box.start[2] for one in computes if one.box is not None] == 2 * [0, 16, 32, 48]
    assert error(found.trace) < EXACT


def test_an_operand_of_a_reduction_in_parts_may_have_another_reader():
    """x @ w + x: the addition needs all of the rows that the parts of the product need piece by piece."""
    net = Net()
    x = net.input(8, 64, name="x")
    graph = resolved(net.graph(net.op("Add", net.op("MatMul", x, net.random(64, 64)), x)))
    for tile in ((8, 64), (4, 64), (4, 16)):
        found = run(graph, toy(), tile=tile, reduction=(8, 64, 16), resident=())
        assert error(found.trace) < EXACT


# ---- strides, bursts and set-up


def copies(found: Run, tensor: str) -> list[tuple[int, int, int]]:
    """Bytes, bytes a run, and set-up of every copy of a tensor to or from DDR."""
    program = found.program
    return [
        (one.size_bytes, int(program.run_bytes[one.number]), one.cycles)
        for one in program
        if one.kind is Kind.COPY
        and Level.DDR in found.levels(one.number)
        and program.tensors[program.buffers.tensor[one.operands[0].buffer]] == tensor
    ]


def test_a_copy_pays_for_the_shape_of_what_it_moves():
    """An image of 8 x 8 x 12 channels, channels innermost, in tiles along one axis at a time.

    Rows: one run. Columns: a run a row. Channels: a run a pixel. Runs are what DDR rounds up to bursts of 64 B, so
    half of the channels of the image, 12 B a pixel, keep its port as long as 64 B a pixel.
    """
    net = Net()
    graph = resolved(net.graph(net.op("Relu", net.input(1, 12, 8, 8, name="x"), name="y")))
    last = {name: replace(tensor, layout=(0, 2, 3, 1)) for name, tensor in graph.tensors.items()}
    graph = replace(graph, tensors=last)
    by_rows, by_columns, by_channels = (
        run(graph, toy(), tile=tile, resident=()) for tile in ((1, 12, 4, 8), (1, 12, 8, 4), (1, 6, 8, 8))
    )
    assert copies(by_rows, "x") == copies(by_rows, "y") == [(768, 768, 100)] * 2
    assert copies(by_columns, "x") == copies(by_columns, "y") == [(768, 96, 100)] * 2
    assert copies(by_channels, "x") == copies(by_channels, "y") == [(768, 12, 100)] * 2
    traffic = [int(found.trace.resource_bytes[0]) for found in (by_rows, by_columns, by_channels)]
    assert traffic == [4 * 768, 4 * 8 * 128, 4 * 64 * 64]
    for found in (by_rows, by_columns, by_channels):
        assert error(found.trace) < EXACT


def test_each_descriptor_has_its_set_up():
    """A box of 2 x 2 x 2 x 2 runs has four loops, one more than a descriptor: two of them, 100 cycles each."""
    net = Net()
    graph = resolved(net.graph(net.op("Relu", net.input(4, 4, 4, 4, 4, name="x"), name="y")))
    found = run(graph, toy(), tile=(2, 2, 2, 2, 2), resident=())
    assert copies(found, "x") == copies(found, "y") == [(64, 4, 200)] * 32
    assert error(found.trace) < EXACT


# ---- several readers of one tensor


@pytest.mark.parametrize("sizes", [(1, 5), (5, 1), (3, 5), (5, 3)])
@pytest.mark.parametrize("cores", [1, 4])
def test_a_tile_has_what_all_its_readers_need(sizes, cores):
    """The larger window may be that of the first reader or of the last: each tile loads the image around both, once."""
    splits = (1, 1, 2, 2) if cores == 4 else (1, 1, 1, 1)
    found = run(two_windows(*sizes), toy(cores), splits=splits, tile=(1, 8, 4, 4), order=(0, 1, 2, 3), resident=())
    assert error(found.trace) < EXACT
    halo = max(sizes) // 2
    loaded = [one.operands[0].region for one in found.program if one.engine == "dma_in" and one.size_bytes != 0]
    inner = [region for region in loaded if region.start[2:] == (4 - halo, 4 - halo)]
    if cores == 1:
        assert [region.stop[2:] for region in inner] == [(8 + halo, 8 + halo)]


@pytest.mark.quick
def test_a_window_may_read_what_a_window_made():
    """Halo upon halo inside one kernel, with strides, a ragged last tile, and padding that only the border has."""
    net = Net()
    x = net.input(1, 3, 19, 17, name="x")
    y = net.op("Relu", net.op("Conv", x, net.random(6, 3, 3, 3), pads=[1, 1, 1, 1]))
    y = net.op("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    y = net.op("Conv", y, net.random(4, 6, 3, 2), strides=[2, 1], pads=[1, 0, 1, 1])
    graph = resolved(net.graph(net.op("Neg", y)))
    for cores, splits in ((1, (1, 1, 1, 1)), (4, (1, 1, 2, 2)), (3, (1, 1, 3, 1))):
        found = run(graph, toy(cores), splits=splits, tile=(1, 4, 2, 4), order=(0, 1, 2, 3), resident=())
        assert error(found.trace) < EXACT


def test_a_result_takes_no_place_that_somebody_still_reads():
    """relu(c) and c both go into the sum, so relu(c) lies beside c; the sum itself may lie where relu(c) was."""
    net = Net()
    c = net.op("Conv", net.input(1, 4, 8, 8), net.random(4, 4, 3, 3), pads=[1, 1, 1, 1])
    graph = resolved(net.graph(net.op("Add", net.op("Relu", c), net.op("Tanh", c))))
    assert error(run(graph, toy()).trace) < EXACT


@pytest.mark.parametrize("order", [("relu", "neg", "conv", "add"), ("relu", "conv", "neg", "add")])
def test_an_inner_tile_is_what_all_its_readers_need(order):
    """A window and an element-wise operator read what a third one made, whichever comes first."""
    net = Net()
    x = net.op("Relu", net.input(1, 4, 12, 12), name="relu")
    window = net.op("Conv", x, net.random(4, 4, 5, 5), pads=[2] * 4, name="conv")
    graph = resolved(net.graph(net.op("Add", net.op("Neg", x, name="neg"), window, name="add")))
    graph = replace(graph, operators=tuple(sorted(graph.operators, key=lambda op: order.index(op.name))))
    verify_graph(graph)
    assert error(run(graph, toy(), tile=(1, 4, 4, 4), resident=()).trace) < EXACT


def test_a_result_may_take_the_place_of_more_than_it_is():
    """A softmax computes its whole axis, of which a tile of what follows needs a part: the place is as large as both.

    Whatever the size of the local buffer, a tiling that is said to fit does.
    """
    net = Net()
    x = net.op("Softmax", net.input(1, 14, 8, 8), axis=1)
    graph = resolved(net.graph(net.op("Neg", x)))
    fitting = 0
    for size in range(64, 8192, 256):
        try:
            found = run(graph, toy(1, gb=0, lb=size))
        except DoesNotFit:
            continue
        assert error(found.trace) < EXACT
        fitting += 1
    assert 10 < fitting < 32


def test_a_part_of_a_tensor_takes_no_place_of_a_smaller_one():
    """The first part of a concatenation begins where its operand might end, and the whole is larger than that place."""
    net = Net()
    x, z, v = (net.input(1, channels, 16, 16) for channels in (4, 12, 16))
    first, beside = net.op("Relu", x), net.op("Exp", v)  # `beside` lies behind `first`
    graph = resolved(net.graph(net.op("Add", net.op("Concat", first, z, axis=1), beside)))
    assert error(run(graph, toy(), tile=(1, 16, 4, 16)).trace) < EXACT


def test_parts_of_a_tensor_may_be_written_in_several_kernels():
    """A concatenation inside another one, whose parts TVM groups apart: who reads the whole waits for all of them."""
    net = Net()
    x = net.input(1, 4, name="x")
    inner = net.op("Concat", x, net.op("Neg", x), axis=1)
    part = net.op("Softmax", net.op("Slice", inner, [0], [4], [1]))
    outer = net.op("Relu", net.op("Concat", net.op("Exp", x), inner, axis=1))
    for strategy in STRATEGIES:
        done = compile_network(net.model(outer, part), "net", toy(2), strategy, Options(batch=2, verify=True))
        assert done.report is not None
        assert done.report.verified, (strategy.name, done.report.checks)


def test_a_part_of_a_tensor_may_be_read_by_nobody():
    """Of three parts of a concatenation the first lies outside the slice that is read: it costs next to nothing."""
    net = Net()
    x = net.input(1, 4, name="x")
    parts = net.op("Concat", x, net.op("Neg", x), net.op("Exp", x), axis=1)
    y = net.op("Tanh", net.op("Slice", parts, [5], [12], [1]))
    for strategy in STRATEGIES:
        done = compile_network(net.model(y), "net", toy(2), strategy, Options(batch=1, verify=True))
        assert done.report is not None
        assert done.report.verified, (strategy.name, done.report.checks)


def test_a_tensor_may_be_both_operands_of_a_product():
    """x times its own transpose: once in the local buffer, once in the weight area."""
    net = Net()
    x = net.input(24, 32, name="x")
    graph = resolved(net.graph(net.op("MatMul", x, net.op("Transpose", x), name="y")))
    for cores, splits in ((1, (1, 1, 1)), (4, (2, 2, 1))):
        for resident in ((), ("x",)):
            found = run(graph, toy(cores), splits=splits, tile=(8, 6, 32), reduction=(24, 24, 16), resident=resident)
            assert error(found.trace) < EXACT


def test_rows_are_gathered_from_ddr():
    """Only the rows that are named, a run each, straight to the core: 5 of 9 rows of 12 B."""
    net = Net()
    table, rows = net.random(9, 6), net.input(5, dtype=7, name="rows")
    found = run(resolved(net.graph(net.op("Gather", table, rows, name="y"))), toy())
    (gather,) = [one for one in found.program if one.kind is Kind.GATHER]
    assert (gather.size_bytes, int(found.program.run_bytes[gather.number]), gather.cycles) == (60, 12, 5 * 20)
    assert error(found.trace) == 0


def test_a_softmax_of_large_numbers_is_finite():
    """The largest is subtracted first: the exponential of 200 has no float32, nor float16."""
    net = Net()
    graph = resolved(net.graph(net.op("Softmax", net.op("Mul", net.input(6, 40), 200.0))))
    found = run(graph, toy(), [[op.name] for op in graph.operators])
    assert error(found.trace) < 1e-5
    assert error(found.trace, wide=False) < 0.1


# ---- iterations


@pytest.mark.quick
@pytest.mark.parametrize("iterations", [1, 2, 3, 6])
def test_every_iteration_has_its_own_inputs_and_outputs(iterations):
    """Each with inputs of its own, through the same places on chip and between kernels."""
    net = Net()
    x = net.op("Relu", net.op("Conv", net.input(1, 3, 9, 9), net.random(4, 3, 3, 3), pads=[1, 1, 1, 1]))
    graph = resolved(net.graph(net.op("MaxPool", x, kernel_shape=[2, 2]), net.op("Neg", x)))
    conv, relu, pool, neg = (op.name for op in graph.operators)
    found = run(graph, toy(2), [[conv, relu], [pool], [neg]], iterations=iterations)
    assert error(found.trace) < EXACT
    assert error(found.trace, wide=False) < 1e-2
    once = run(graph, toy(2), [[conv, relu], [pool], [neg]])
    assert len(found.program) == iterations * len(once.program)
    assert found.ddr_bytes() == iterations * once.ddr_bytes()
    assert found.trace.latency_cycles == iterations * once.trace.latency_cycles  # kernels begin one after another


def test_kernels_that_differ_only_in_names_are_lowered_once(monkeypatch):
    """Five products of one shape, the last with another activation: two are lowered, and nothing else is different."""
    net = Net()
    x = net.input(32, 32)
    for kind in ("Relu", "Relu", "Relu", "Relu", "Tanh"):
        x = net.op(kind, net.op("MatMul", x, net.random(32, 32)))
    graph = resolved(net.graph(x))
    groups = [[op.name for op in graph.operators[at : at + 2]] for at in range(0, 10, 2)]
    lowered = []
    original = blocks.lower_kernel
    monkeypatch.setattr(blocks, "lower_kernel", lambda *args: lowered.append(args[2].name) or original(*args))
    once = run(graph, toy(2), groups, iterations=2)
    assert lowered == ["k0", "k4"]
    assert error(once.trace) < EXACT
    tensors = [once.program.tensors[tensor] for tensor in once.program.buffers.tensor]
    for one in once.program:
        if one.operator is not None:
            op = graph.by_name[one.operator]
            assert {tensors[o.buffer] for o in one.operands} == {*op.inputs, *op.outputs}
    monkeypatch.setattr(blocks, "kernel_key", lambda signatures, kernel: kernel.name)
    assert run(graph, toy(2), groups, iterations=2).program.text() == once.program.text()
    assert lowered == ["k0", "k4", "k0", "k1", "k2", "k3", "k4"]


def test_a_kernel_begins_when_the_one_before_has_ended():
    """And everything of it after its own launch."""
    net = Net()
    x = net.op("Relu", net.input(1, 4, 8, 8))
    graph = resolved(net.graph(net.op("MaxPool", x, kernel_shape=[2, 2])))
    found = run(graph, toy(2), [[op.name] for op in graph.operators], iterations=3)
    when = spans(found)
    ended = 0
    for one, (start, end) in zip(found.program, when, strict=True):
        if one.kind is Kind.LAUNCH:
            assert start == max(ends for _, ends in when[: one.number] or [(0, 0)])
            ended = end
        assert end >= start >= (0 if one.kind is Kind.LAUNCH else ended)


# ---- what fits


def test_a_grouped_convolution_is_cut_inside_a_group_where_nothing_else_fits() -> None:
    """The weights of one group do not fit a vector core of Goya's, whose tiles then hold a part of its channels."""
    net = Net()
    x = net.op("Conv", net.input(1, 384, 3, 3), net.random(256, 192, 3, 3), group=2, pads=[1, 1, 1, 1])
    done = tilestitch.compile(net.model(net.op("Relu", x)), "goya", verify=True)
    assert done.report is not None
    assert done.report.verified
    assert done.schedule is not None
    (kernel,) = (kernel for kernel in done.schedule.kernels if len(kernel.operators) == 2)
    assert 1 <= kernel.tiling.tile[1] < 128


@pytest.mark.parametrize("cores", first(1, [2, 4]))
def test_the_second_of_two_tiles_may_need_more_than_the_first(cores):
    """A window of stride 2 begins in the padding and ends inside: whatever room there is, what is said to fit does."""
    net = Net()
    x = net.op("MaxPool", net.input(1, 8, 16, 16), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    graph = resolved(net.graph(x))
    fitting = 0
    for size_bytes in range(256, 6144, 64):
        machine = toy(cores, **{Level.LB: size_bytes})
        try:
            run(graph, machine)
        except DoesNotFit:
            continue
        fitting += 1
    assert fitting > 50


def test_tiles_narrower_than_the_padding_are_measured_away_from_it():
    """Of seven rows with two of padding on each side only the middle ones read all five rows of a window."""
    machine = cramped(load_machine("toy"), local_bytes=1024)
    assert tilestitch.compile("alexnet:small", machine, strategy="tvm").report is not None
