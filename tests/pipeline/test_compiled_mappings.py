"""On arrays, `compile` runs the mappings of `map`: their tiles, the parts of their sums, and their time."""

from dataclasses import replace
from math import prod

import numpy as np
import onnx
import pytest

from tests.helpers.graphs import Net, conv, cramped
from tilestitch import api
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.hardware.array_machine import array_of_core
from tilestitch.hardware.load import load_machine
from tilestitch.ir.by_hand import HandGroup, HandItem, HandSchedule
from tilestitch.ir.choices import Objective
from tilestitch.ir.program import Kind, Mode
from tilestitch.ir.tiles import core_parts
from tilestitch.mapping.network import MapOptions, layers_of, map_layers, totals_of
from tilestitch.ops import is_contraction
from tilestitch.ops.work import vector_operations
from tilestitch.passes import simplify

ARRAYS = ("eyeriss", "dmazerunner-256")
NETWORKS = ("resnet18:small", "mobilenet-v2:small", "bert-base-128:small")


def block(channels: int = 32, size: int = 8) -> onnx.ModelProto:
    """Two convolutions around which the input goes, as in ResNet."""
    net = Net()
    x = net.input(1, channels, size, size)
    y = net.op("Relu", conv(net, x, channels, channels, 3))
    return net.model(net.op("Relu", net.op("Add", conv(net, y, channels, channels, 3), x)))


def expect_law(model: str | onnx.ModelProto, machine: Accelerator) -> None:
    """No slower than 1.05 times the layers mapped one by one and what has no product; and right."""
    done = api.compile(model, machine, strategy="tvm", verify=True)
    assert done.report is not None
    assert done.graph is not None
    assert done.schedule is not None
    assert all(check.ratio <= 1 for check in done.report.checks)
    assert done.report.checks
    layers, _ = layers_of(simplify(api.load_graph(model)))
    mapped = map_layers(layers, array_of_core(machine), MapOptions(objective=Objective.LATENCY))
    vector = machine.cores[0].vector
    assert vector is not None
    alone = sum(kernel.cycles for kernel in done.report.kernels if not kernel.macs)
    fused = [done.graph.by_name[name] for one in done.schedule.kernels if one.anchor for name in one.operators]
    behind = sum(vector_operations(op, op.whole) for op in fused if not is_contraction(op)) / vector.usual_lanes
    assert done.report.latency_cycles <= 1.05 * (totals_of(mapped).cycles + alone + behind)


@pytest.mark.parametrize("name", ARRAYS)
def test_a_network_takes_what_its_mapped_layers_take(name: str) -> None:
    expect_law(block(), load_machine(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("model", NETWORKS)
def test_networks_take_what_their_mapped_layers_take(model: str, name: str) -> None:
    expect_law(model, load_machine(name))


@pytest.fixture(scope="module")
def in_parts():
    """A buffer in which no tile has all that its sums need."""
    machine = cramped(load_machine("eyeriss"), local_bytes=24576)
    return api.compile(block(64), machine, strategy="tvm", verify=True)


def test_sums_stay_in_the_buffer_between_the_parts_of_a_reduction(in_parts) -> None:
    """As numbers of 32 bits, which the float16 check would not excuse to be fewer."""
    program, report = in_parts.program, in_parts.report
    assert all(check.ratio <= 1 for check in report.checks)
    sums = program.operand_mode == Mode.ACCUMULATE
    assert sums.any()
    for buffer in set(program.operand_buffer[sums].tolist()):
        region = program.regions[program.buffers.region[buffer]]
        assert program.buffers.size_bytes[buffer] == 4 * region.size
        assert program.spaces[program.buffers.space[buffer]].name == "lb0"


def test_what_joins_a_sum_at_its_end_comes_between_its_parts(in_parts) -> None:
    """The operand of the addition; while the last part is computed the tile before no longer has its place."""
    program, (kernel,) = in_parts.program, [one for one in in_parts.schedule.kernels if len(one.operators) == 3]
    anchor = in_parts.graph.by_name[kernel.anchor]
    parts = prod(-(-dim.extent // part) for dim, part in zip(anchor.dims, kernel.tiling.reduction, strict=True))
    assert parts > 1
    number = program.kernels.index(kernel.name)
    own = np.flatnonzero(program.kernel == number)
    products = [at for at in own if program.kind[at] == Kind.COMPUTE and program[at].operator == kernel.anchor]
    late = [
        at for at in own if program.kind[at] == Kind.COPY and program[at].operands[0].buffer in _buffers(program, "in0")
    ]
    assert late
    for at in late:
        assert np.searchsorted(products, at) % parts != 0


def test_results_leave_between_the_parts_of_the_next_tile(in_parts) -> None:
    """Half of a tile's beside one product and half beside the next, and before their place is written again."""
    program = in_parts.program
    (at_home,) = program.outputs[0]
    stores = [at for at in range(len(program)) if program[at].operands and program[at].operands[-1].buffer == at_home]
    tiles = {program[at].operands[0].buffer for at in stores}
    assert len(stores) == 2 * len(tiles) == 4
    products = [at for at in range(len(program)) if program.kind[at] == Kind.COMPUTE and stores[0] < at < stores[1]]
    assert len(products) == 1


def test_what_follows_a_product_takes_the_places_of_its_sums_and_of_what_joins_them(in_parts) -> None:
    """So of three tensors as large as the result two have no place of their own; both are right all the same."""
    program, graph = in_parts.program, in_parts.graph
    (kernel,) = [one for one in in_parts.schedule.kernels if len(one.operators) == 3]
    product, added, _ = (graph.by_name[name].outputs[0] for name in kernel.operators)
    sums = {program.operand_buffer[at] for at in np.flatnonzero(program.operand_mode == Mode.ACCUMULATE)}
    address, space = program.buffers.address, program.buffers.space

    def places(buffers) -> set[int]:
        local = [buffer for buffer in buffers if program.spaces[space[buffer]].name == "lb0"]
        return set(address[local].tolist())

    kept = {buffer for buffer in sums if program.tensors[program.buffers.tensor[buffer]] == f"sums of {product}"}
    assert places(_buffers(program, product)) == places(kept)
    assert len(places(_buffers(program, added))) == 1
    assert places(_buffers(program, added)) <= places(_buffers(program, "in0"))


@pytest.mark.parametrize(
    ("channels", "size", "local_bytes", "along"),
    [
        (64, 16, 81920, ((1, 2),)),  # tiles read other parts than the one that lies in the buffer
        (64, 28, 57344, ((1, 3),)),
        (32, 28, 14336, ((1, 4), (3, 2))),  # the largest tile is the first along one dim and the second along another
        (64, 28, 24576, ((1, 3), (3, 2))),
    ],
)
def test_tiles_fit_beside_a_part_of_what_their_network_reads(channels, size, local_bytes, along) -> None:
    """Of the first block's result the last piece stays in the buffer until the second block has read all of it."""
    net = Net()
    x = net.input(1, channels, size, size)
    ends = []
    for _ in range(2):
        y = net.op("Relu", conv(net, x, channels, channels, 3))
        x = net.op("Relu", net.op("Add", conv(net, y, channels, channels, 3), x))
        ends += [y, x]
    first, *further = along
    cut = {"axis": first[0], "pieces": first[1], "further": tuple(further)}
    count = prod(pieces for _, pieces in along)
    groups = (
        HandGroup("a", (ends[0],)),
        HandGroup("b", (ends[1],), **cut),
        HandGroup("c", (ends[2],)),
        HandGroup("d", **cut),
    )
    last = f"b[{count - 1}]"
    names = ["a[0]", *(f"b[{at}]" for at in range(count)), "c[0]", *(f"d[{at}]" for at in range(count))]
    order = [HandItem(name, Level.LB if name in {"a[0]", last, "c[0]"} else Level.DDR) for name in names]
    machine = cramped(load_machine("eyeriss"), local_bytes=local_bytes)
    schedule = HandSchedule("beside a part", groups, order=order, ring=True, lean=True)
    done = api.compile(net.model(x), machine, strategy=schedule, verify=True)
    assert done.report is not None
    assert done.schedule is not None
    assert all(check.ratio <= 1 for check in done.report.checks)
    (kept,) = [home for home in done.schedule.homes if home.tensor == ends[1]]
    assert kept.level is Level.LB
    assert kept.last > kept.first + count


@pytest.mark.parametrize("rows", [32, 256])
def test_a_bound_lets_every_element_finish_a_sum_in_a_cycle(rows: int) -> None:
    """As they do behind a product; what has no product before it does not run so fast."""
    net = Net()
    x = net.op("MatMul", net.input(rows, 4, name="x"), net.constant(np.ones((4, 128), np.float32)))
    for _ in range(12):
        x = net.op("Relu", net.op("Neg", x))
    done = api.compile(net.model(x), "eyeriss", strategy="tvm")
    assert done.report is not None
    assert 168 * done.report.compute_bound_cycles >= rows * 128 * 24
    assert done.report.latency_cycles >= done.report.bound_cycles


def _buffers(program, tensor: str) -> set[int]:
    return set(np.flatnonzero(program.buffers.tensor == program.tensors.index(tensor)).tolist())


def test_parts_of_cores_may_differ() -> None:
    """Two arrays divide seven rows: the tiles of the second are not those of the mapping."""
    machine = load_machine("eyeriss")
    machine = replace(cramped(machine, local_bytes=8192), cores=machine.cores * 2)
    done = api.compile(block(16, 7), machine, strategy="tvm", verify=True)
    graph, schedule, report = done.graph, done.schedule, done.report
    assert graph is not None
    assert schedule is not None
    assert report is not None
    assert all(check.ratio <= 1 for check in report.checks)
    mapped = [kernel for kernel in schedule.kernels if kernel.mapping is not None]
    assert mapped
    assert any(len({piece.size for _, piece in core_parts(graph, kernel)}) > 1 for kernel in mapped)
