"""What a machine may have or lack, followed by hand on kernels small enough for that."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from tests.helpers.graphs import Net
from tests.helpers.kernel_runs import EXACT, Run, error, product, resolved, run, spans, toy, with_rates
from tests.helpers.random_networks import random_machine, random_model
from tilestitch.base.dtypes import DType
from tilestitch.base.errors import DoesNotFit
from tilestitch.cost.bounds import bounds
from tilestitch.cost.kernel import DESCRIPTORS, MISFIT, estimate, measure
from tilestitch.cost.place import GB, place_of, rates_of
from tilestitch.hardware.accelerator import Accelerator, Core, Level
from tilestitch.ir.graph import Graph
from tilestitch.ir.program import Flag, Kind, Mode
from tilestitch.kernels.nest import flatten
from tilestitch.kernels.runnable import by_units
from tilestitch.kernels.shape import kernel_shape
from tilestitch.ops.work import on_matrix_unit, operand_dtype
from tilestitch.pipeline.compile import compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import STRATEGIES
from tilestitch.sim.chip.energy import energy


def with_channels(machine: Accelerator, channels: int) -> Accelerator:
    memories = (replace(m, channels=channels) if m.level is Level.DDR else m for m in machine.memories)
    return replace(machine, memories=tuple(memories))


def estimated(found: Run, machine: Accelerator) -> float:
    """What the search believes of the one kernel of a schedule, whose tiling was given by hand."""
    (kernel,) = found.schedule.kernels
    graph, tiling = found.schedule.graph, kernel.tiling
    shape = kernel_shape(graph, graph.operators, machine, machine.cores[kernel.cores[0]])
    nest, rates = flatten(shape, machine), rates_of(machine)
    place = place_of(shape, machine, tiling.splits, tiling.steps)
    counts, cut = np.zeros(len(tiling.tile), np.int64), np.zeros(nest.dims.shape[1], np.int64)
    cut[: len(tiling.reduction)] = tiling.reduction
    operands, made = np.zeros((len(nest.operands), DESCRIPTORS + 1)), np.zeros((len(nest.made), DESCRIPTORS + 1))
    whole = measure(nest, rates, place, np.array(tiling.tile, np.int64), cut, counts, operands, made)
    resident = np.array([operand.tensor in tiling.resident for operand in shape.operands], np.int64)
    order = np.array(tiling.order, np.int64)
    cycles, _, staged = estimate(nest, rates, place, whole, operands, made, counts, order, resident)
    assert whole[MISFIT] < 0
    assert not rates.gb or staged <= place.rooms[GB]
    return cycles


# ---- channels of DDR


@pytest.mark.parametrize("gb", [{}, {"gb": 0}])
def test_a_kernel_on_one_core_draws_from_one_channel(gb):
    """A quarter of the 8 bytes a cycle: every transfer to or from DDR takes its set-up and 1 cycle for 2 bytes."""
    found = run(product(32, 16, 8), with_channels(toy(1, **gb), 4))
    setup = 20 if gb else 100
    for one, (start, end) in zip(found.program, spans(found), strict=True):
        if Level.DDR in found.levels(one.number):
            assert end - start == setup + one.size_bytes // 2
    assert error(found.trace) < EXACT


def test_a_kernel_on_several_cores_draws_from_all_channels():
    """So it takes what it takes where there is but one."""
    traces = [
        run(product(32, 16, 8), with_channels(toy(2), channels), splits=(2, 1, 1), tile=(16, 8, 16)).trace
        for channels in (1, 4)
    ]
    assert traces[0].end_ticks.tolist() == traces[1].end_ticks.tolist()
    assert traces[1].program.resources[-1].name == "channel"
    assert traces[1].resource_bytes[-1] == 0


def test_the_search_knows_that_one_core_has_one_channel():
    """The estimate of a kernel that waits for DDR alone is near the simulation, on one core and on two."""
    for cores in (1, 2):
        machine = with_channels(toy(cores), 8)
        found = run(product(256, 256, 256), machine, splits=(cores, 1, 1))
        (kernel,) = found.schedule.kernels
        assert 0.8 < found.trace.latency_cycles / kernel.estimated_cycles < 1.4


def test_rows_are_gathered_by_one_channel_too():
    """Whatever moves between DDR and a single core passes its channel."""
    net = Net()
    graph = resolved(net.graph(net.op("Gather", net.random(100, 6), net.input(3, dtype=7))))
    found = run(graph, with_channels(toy(1), 4))
    moved = sum(one.size_bytes for one in found.program if Level.DDR in found.levels(one.number))
    assert any(one.kind is Kind.GATHER for one in found.program)
    assert found.trace.resource_bytes[-1] >= moved


# ---- cores without a local buffer


def in_gb(machine: Accelerator) -> Accelerator:
    """The machine with cores that have nothing but accumulators of their own."""
    return replace(machine, cores=tuple(replace(core, levels=(Level.ACCUMULATORS,)) for core in machine.cores))


def test_a_core_without_a_local_buffer_works_in_gb_by_hand():
    """32 x 16 times 16 x 8, the units reading and writing GB; no byte passes a link:

    launch                     1,000                    -> 1,000
    x, 1,024 B, from DDR         100 + 1,024/8 = 228    -> 1,228
    w, 256 B, from DDR           100 + 256/8 = 132      -> 1,360
    one fold of 32 rows            4 + 32 = 36          -> 1,396
    y, 512 B, to DDR             100 + 512/8 = 164      -> 1,560
    """
    found = run(product(32, 16, 8), in_gb(toy()), resident=())
    assert [one.engine for one in found.program] == ["control", "dma_in", "dma_in", "matrix0", "dma_out"]
    assert spans(found) == [(0, 1000), (1000, 1228), (1228, 1360), (1360, 1396), (1396, 1560)]
    assert found.levels(3) == [Level.GB, Level.GB, Level.ACCUMULATORS, Level.GB]
    assert error(found.trace) < EXACT


def test_what_is_kept_in_gb_is_read_there():
    """A tensor that stays whole in GB takes one place, which the unit reads for every tile."""
    found = run(product(64, 16, 8), in_gb(toy()), tile=(8, 8, 16), order=(0, 1, 2), resident=("x", "w0"))
    loads = [one for one in found.program if one.engine == "dma_in"]
    assert sum(one.size_bytes for one in loads) == 2 * (64 * 16 + 16 * 8)
    assert {one.engine for one in found.program} == {"control", "dma_in", "matrix0", "dma_out"}
    assert error(found.trace) < EXACT


def test_each_core_that_works_in_gb_has_a_place_of_its_own():
    """What two cores need is read from DDR once and written to GB twice, which the port of GB pays for.

    So the second core need not wait for the first one's results to leave.
    """
    found = run(product(32, 16, 8), in_gb(toy(2)), splits=(2, 1, 1), tile=(16, 8, 16), resident=())
    starts = {one.engine: span for one, span in zip(found.program, spans(found), strict=True)}
    assert starts["matrix1"][0] < starts["matrix0"][1] + 100
    (shared,) = [one for one in found.program if len(one.operands) == 3 and one.kind is Kind.COPY]
    assert found.levels(shared.number) == [Level.DDR, Level.GB, Level.GB]
    names = [resource.name for resource in found.program.resources]
    moved = dict(zip(names, found.trace.resource_bytes.tolist(), strict=True))
    assert moved["ddr"] == 2 * (32 * 16 + 16 * 8 + 32 * 8)
    assert moved["gb"] == 2 * (32 * 16 + 2 * 16 * 8 + 32 * 8)
    assert error(found.trace) < EXACT


def test_a_weight_area_is_filled_from_gb():
    """A core that has a weight area and no local buffer has its second operand there."""
    machine = replace(toy(), cores=(replace(toy().cores[0], levels=(Level.WEIGHTS, Level.ACCUMULATORS)),))
    found = run(product(32, 16, 8), machine, resident=())
    (multiply,) = [one for one in found.program if one.kind is Kind.COMPUTE]
    assert found.levels(multiply.number) == [Level.GB, Level.WEIGHTS, Level.ACCUMULATORS, Level.GB]
    assert error(found.trace) < EXACT


@pytest.mark.parametrize("slow", ["ddr", "gb", "arithmetic"])
def test_the_estimate_of_a_core_that_works_in_gb_is_near_the_simulation(slow):
    """Whatever it waits for."""
    rates = {"ddr": {"ddr": 1}, "gb": {"ddr": 64, "gb": 1}, "arithmetic": {"ddr": 512, "gb": 512}}
    for resident in ((), ("x",), ("w0",)):
        machine = with_rates(in_gb(toy(1, accumulators=1 << 16, gb=1 << 20)), **rates[slow])
        found = run(product(1024, 256, 256), machine, tile=(64, 256, 256), resident=resident)
        expected = estimated(found, machine)
        assert 0.8 < found.trace.latency_cycles / expected < 1.4


def test_a_kernel_that_does_not_fit_in_gb_is_told():
    """Operands and results count, each rounded up to 64 bytes."""
    net = Net()
    graph = resolved(net.graph(net.op("Softmax", net.input(1, 400))))
    with pytest.raises(DoesNotFit, match=r"needs 1,664 B in gb, which holds 1,663 B"):
        run(graph, in_gb(toy(gb=1663)))
    assert error(run(graph, in_gb(toy(gb=1664))).trace) < EXACT


# ---- matrix units without accumulators


def test_without_accumulators_a_reduction_is_one_part():
    """Its results go straight to the local buffer, and no partial sum is written or read anywhere.

    The weights fill three quarters of their area, so two of their parts would not fit in it.
    """
    machine = toy(1, accumulators=0)
    found = run(product(16, 384, 8, bias=True), machine)
    (kernel,) = found.schedule.kernels
    assert (kernel.tiling.tile[1], kernel.tiling.reduction[2]) == (8, 384)
    for one in found.program:
        if one.kind is Kind.COMPUTE:
            assert Mode.ACCUMULATE not in [o.mode for o in one.operands]
            assert one.flags == Flag.MATRIX | Flag.FIRST | Flag.LAST
    assert "accumulators" not in dict(energy(found.trace, machine).memories_pj)
    assert error(found.trace) < EXACT


# ---- unlike cores


def two_kinds(*, vector_cores: int = 2) -> Accelerator:
    """A core that only multiplies, in GB, and cores that only do the rest, each in a local buffer."""
    machine = toy(1 + vector_cores, weights=0)
    multiplier = replace(machine.cores[0], vector=None, levels=(Level.ACCUMULATORS,))
    other = Core(None, machine.cores[0].vector, levels=(Level.LB,))
    return replace(machine, cores=(multiplier, *[other] * vector_cores))


def conv_relu() -> Graph:
    net = Net()
    x = net.op("Conv", net.input(1, 8, 8, 8), net.random(16, 8, 3, 3), pads=[1] * 4, name="conv")
    return resolved(net.graph(net.op("Relu", x, name="relu")))


def test_a_kernel_runs_on_the_cores_that_have_its_units():
    """The convolution on the first core, the activation on the others."""
    graph, machine = conv_relu(), two_kinds()
    pieces = by_units(graph, graph.operators, machine)
    assert [[op.kind for op in piece] for piece in pieces] == [["conv"], ["relu"]]
    found = run(graph, machine, [[op.name for op in piece] for piece in pieces])
    assert [kernel.cores for kernel in found.schedule.kernels] == [(0,), (1, 2)]
    engines = {one.engine for one in found.program if one.kind is Kind.COMPUTE}
    assert {"matrix0", "vector1"} <= engines <= {"matrix0", "vector1", "vector2"}
    for one in found.program:
        if one.kind is Kind.COMPUTE and one.engine != "matrix0":
            assert found.levels(one.number) == [Level.LB, Level.LB]
    assert error(found.trace) < EXACT


def test_cores_that_have_every_unit_run_a_kernel_whole():
    """Where one group of cores can, nothing is cut, whatever others lack."""
    graph, machine = conv_relu(), two_kinds()
    machine = replace(machine, cores=(*machine.cores, *toy().cores))
    assert by_units(graph, graph.operators, machine) == [graph.operators]


def test_a_kernel_runs_on_the_cores_that_finish_it_first():
    """Of two groups that can run it, the one with the wider units."""
    core = toy().cores[0]
    assert core.vector is not None
    narrow = replace(core, vector=replace(core.vector, lanes=((DType.FLOAT16, 1),)))
    net = Net()
    graph = resolved(net.graph(net.op("Exp", net.input(64, 64))))
    for cores, expected in (((narrow, core), (1,)), ((core, narrow), (0,)), ((narrow, core, core), (1, 2))):
        (kernel,) = run(graph, replace(toy(len(cores)), cores=cores)).schedule.kernels
        assert kernel.cores == expected


def test_work_that_goes_back_and_forth_is_cut_each_time():
    """Two products with an activation before, between and behind: five kernels, each after what it reads."""
    net = Net()
    x = net.op("Relu", net.input(8, 8))
    x = net.op("Tanh", net.op("MatMul", x, net.random(8, 8)))
    graph = resolved(net.graph(net.op("Exp", net.op("MatMul", x, net.random(8, 8)))))
    pieces = by_units(graph, graph.operators, two_kinds())
    assert [[op.kind for op in piece] for piece in pieces] == [["relu"], ["matmul"], ["tanh"], ["matmul"], ["exp"]]
    assert error(run(graph, two_kinds(), [[op.name for op in piece] for piece in pieces]).trace) < EXACT


def test_engines_are_those_that_the_cores_have():
    found = run(conv_relu(), two_kinds(), [["conv"], ["relu"]])
    assert [engine.name for engine in found.program.engines[3:]] == [
        "matrix0",
        "mover0",
        "vector1",
        "mover1",
        "vector2",
        "mover2",
    ]


def test_utilization_is_that_of_the_units_that_exist():
    """The only matrix unit is busy while it multiplies, whatever the number of cores beside it."""
    net = Net()
    model = net.model(net.op("MatMul", net.input(64, 64), net.random(64, 64)))
    busy = []
    for vector_cores in (1, 3):
        done = compile_network(model, "net", two_kinds(vector_cores=vector_cores), STRATEGIES[0], Options())
        assert done.report is not None
        (kernel,) = done.report.kernels
        busy.append(kernel.matrix_busy_cycles)
        assert kernel.cores == 1
    assert busy[0] == busy[1] >= 64 * 4 * 8


def test_bounds_of_unlike_cores_by_hand():
    """Matrix units of 128 and of 32 multiplications a cycle, vector units of 16 and 4 lanes, one each.

    10 x 17 x 9: 1,530 products at 160 a cycle; folds 2 x 2 x 10 on the large unit, and 17/16 x 9/2 of them, at a
    quarter of its peak, on the small one: the cheaper of 128 x 40 and 32 x 100 shared by both.
    """
    core = toy().cores[0]
    assert core.matrix is not None
    assert core.vector is not None
    small = Core(replace(core.matrix, k=16, n=2), replace(core.vector, lanes=((DType.FLOAT16, 4),)))
    machine = replace(toy(2), cores=(core, small))
    found = bounds(product(10, 17, 9), machine, iterations=1)
    assert found.compute_cycles == -(-1530 // 160)
    assert found.attainable_cycles == min(128 * 40, 32 * 10 * 2 * 5) // 160
    net = Net()
    found = bounds(resolved(net.graph(net.op("Exp", net.input(10, 10)))), machine, iterations=1)
    assert found.compute_cycles == 100 // 20


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_every_kernel_runs_on_cores_that_can_run_it(network, machine):
    """All operators once, each on units that its cores have."""
    hardware = random_machine(machine)
    try:
        done = compile_network(random_model(network), "random", hardware, STRATEGIES[1], Options(batch=1))
    except DoesNotFit:
        reject()
    assert done.schedule is not None
    names = [name for kernel in done.schedule.kernels for name in kernel.operators]
    graph = done.schedule.graph
    assert sorted(names) == sorted(op.name for op in graph.operators)
    for kernel in done.schedule.kernels:
        cores = [hardware.cores[number] for number in kernel.cores]
        assert len(set(cores)) == 1
        for op in (graph.by_name[name] for name in kernel.operators):
            matrix = on_matrix_unit(op, operand_dtype(op, graph), hardware)
            assert (cores[0].matrix if matrix else cores[0].vector) is not None
