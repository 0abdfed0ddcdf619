"""A compiled network beside the sum of its layers mapped alone: the numbers of `map`, and parts that add up."""

import itertools
import json
from dataclasses import replace
from functools import cache

import numpy as np
import onnx
import pytest

from tests.helpers.five_levels import FIVE_LEVELS
from tests.helpers.graphs import Net
from tests.helpers.verified import machine_named, model
from tilestitch import MapOptions, TreeOptions, api
from tilestitch import map as mapped_by_command
from tilestitch.base.errors import InputError
from tilestitch.hardware.load import parse_machine
from tilestitch.ir.beside import BesideMap
from tilestitch.ir.program import Kind
from tilestitch.ir.trace import Trace
from tilestitch.pipeline.beside import beside_map
from tilestitch.pipeline.compilation import Compilation, given
from tilestitch.pipeline.options import Options

MACHINES = ("eyeriss", "nvdla")


@cache
def small() -> onnx.ModelProto:
    """Two products with an addition behind one, and a softmax."""
    net = Net()
    first, second = (net.constant(np.full(shape, 0.1, np.float32)) for shape in ((32, 48), (48, 16)))
    x = net.op("MatMul", net.input(16, 32, name="x"), first)
    y = net.op("Add", net.op("MatMul", net.op("Relu", x), second), net.input(16, 16, name="y"))
    return net.model(net.op("Softmax", y))


@cache
def compared(machine: str, strategy: str = "tvm", network: str = "") -> tuple[Compilation, BesideMap]:
    given_model = model(network, True) if network else small()
    options = Options(beside_map=True)
    done = api.compile(given_model, machine_named(machine), strategy=strategy, options=options)
    assert done.report is not None
    assert done.report.beside is not None
    return done, done.report.beside


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("network", ["", pytest.param("resnet18", marks=pytest.mark.slow)])
def test_the_sum_of_layers_is_that_of_map_which_points_to_it(machine: str, network: str) -> None:
    options = MapOptions("latency") if machine == "eyeriss" else TreeOptions("latency")  # pyright: ignore[reportArgumentType]
    found = mapped_by_command(model(network, True) if network else small(), machine, options)
    _, beside = compared(machine, network=network)
    expected = found.totals.cycles if machine == "eyeriss" else json.loads(found.to_json())["latency_cycles"]  # pyright: ignore[reportAttributeAccessIssue]
    assert beside.mapped_cycles == expected
    assert beside.proven
    assert f"--machine {machine} --beside-map" in str(found)


@pytest.mark.parametrize("strategy", ["tvm", "graphturbo"])
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("network", ["", pytest.param("resnet18", marks=pytest.mark.slow)])
def test_the_parts_add_up_to_both_numbers(machine: str, strategy: str, network: str) -> None:
    """Rounded up to a whole cycle at the end; each part is some time, and layers are no more than all."""
    done, beside = compared(machine, strategy, network)
    assert sum(row.mapped_cycles for row in beside.times) == beside.mapped_cycles
    total = sum(row.compiled_cycles for row in beside.times)
    assert 0 <= beside.compiled_cycles - total < 1 + 1e-6 * total
    assert beside.compiled_cycles == given(done.report).latency_cycles
    assert all(row.mapped_cycles >= 0 and row.compiled_cycles >= 0 for row in beside.times)
    with_product = sum(row.compiled_cycles for row in beside.times[:3])
    assert sum(row.compiled_cycles for row in beside.layers) <= with_product * (1 + 1e-9)
    assert 0 < beside.compiled_work <= 1
    assert 0 < beside.mapped_work <= 1


def test_an_array_is_busy_with_products_and_what_is_behind_them() -> None:
    """As long as its engine says, but for kernels without a product."""
    done, beside = compared("eyeriss")
    (busy,) = (row.busy_cycles for row in given(done.report).engines if row.kind == "matrix")
    behind = beside.times[2].compiled_cycles
    assert beside.times[0].compiled_cycles + behind + _busy_alone(done) == pytest.approx(busy)
    assert behind > 0


def _busy_alone(done: Compilation) -> float:
    """Cycles for which the array works in kernels without a product."""
    trace, schedule = given(done.trace), given(done.schedule)
    numbers = [number for number, kernel in enumerate(schedule.kernels) if kernel.anchor is None]
    own = np.isin(trace.program.kernel, numbers) & (trace.program.operator >= 0)
    units = np.array([one.kind.name in ("MATRIX", "VECTOR") for one in trace.program.engines])
    own &= units[trace.program.engine]
    return float((trace.end_ticks - trace.start_ticks)[own].sum()) / trace.ticks_per_cycle


def test_cores_are_a_mean() -> None:
    """Of a product of one row two of four cores have work, and the others none."""
    machine = parse_machine(FIVE_LEVELS, "five.yaml")
    net = Net()
    weight = net.constant(np.ones((32, 2), np.float32))
    product = net.model(net.op("MatMul", net.input(1, 32, name="x"), weight))
    done = api.compile(product, machine, strategy="tvm", options=Options(beside_map=True))
    beside = given(given(done.report).beside)
    working = given(done.report).kernels[0].cores
    assert 0 < working < len(machine.cores) == 4
    assert beside.times[4].compiled_cycles == pytest.approx((4 - working) / 4 * beside.compiled_cycles)
    assert sum(row.compiled_cycles for row in beside.times) == pytest.approx(beside.compiled_cycles)


def test_cores_that_a_kernel_leaves_out_have_no_work_meanwhile() -> None:
    """Nor behind the last one that they are part of: two of four products have too few rows for all cores."""
    net = Net()
    first, second, third = (net.constant(np.ones(one, np.float32)) for one in ((32, 2), (32, 2), (2, 2)))
    wide = net.op("MatMul", net.input(64, 32, name="x"), first)
    narrow = net.op("MatMul", net.input(1, 32, name="y"), second)
    again = net.op("MatMul", net.op("Add", wide, narrow), third)
    product = net.model(net.op("MatMul", net.input(1, 64, name="z"), again))
    done = api.compile(
        product, parse_machine(FIVE_LEVELS, "five.yaml"), strategy="tvm", options=Options(beside_map=True)
    )
    beside, trace = given(given(done.report).beside), given(done.trace)
    program, end = trace.program, int(trace.end_ticks.max())
    core_of = np.array([-1 if one.core is None else one.core for one in program.engines])[program.engine]
    is_work = (program.kind == Kind.COMPUTE) & (trace.end_ticks > trace.start_ticks)
    without = 0
    for core in range(4):
        own = [np.flatnonzero(is_work & (core_of == core) & (program.kernel == at)) for at in range(5)]
        rows = [at for at, one in enumerate(own) if len(one)]
        for here, there in itertools.pairwise([-1, *rows]):
            since = int(trace.end_ticks[own[here]].max()) if here >= 0 else 0
            until = int(trace.start_ticks[own[there]].min())
            others = is_work & (program.kernel > here) & (program.kernel < there)
            without += max(0, int(trace.end_ticks[others].max(initial=since)) - since) if until > since else 0
        without += end - int(trace.end_ticks[own[rows[-1]]].max()) if rows[-1] < len(program.kernels) - 1 else 0
    assert without > 0
    assert beside.times[4].compiled_cycles == pytest.approx(without / 4 / trace.ticks_per_cycle)


def test_a_later_program_waits_longer() -> None:
    """If every instruction comes ten cycles later, a core waits ten cycles longer before its first."""
    done, before = compared("nvdla")
    trace = given(done.trace)
    late = 10 * trace.ticks_per_cycle
    moved: Trace = replace(trace, start_ticks=trace.start_ticks + late, end_ticks=trace.end_ticks + late)
    after = beside_map(given(done.simplified), given(done.schedule), moved, done.machine)
    assert after is not None
    assert after.times[1].compiled_cycles == pytest.approx(before.times[1].compiled_cycles + 10)
    assert after.times[0] == before.times[0]


def test_text_json_and_page_have_it() -> None:
    done, beside = compared("nvdla")
    page = str(done)
    assert "Beside the layers mapped alone" in page
    assert f"{beside.mapped_cycles:,}" in page
    tree = json.loads(done.to_json())
    assert tree["beside_map"]["mapped_cycles"] == beside.mapped_cycles
    assert [row["of"] for row in tree["beside_map"]["times"]] == [row.of for row in beside.times]
    assert f"Layers mapped alone take {beside.mapped_cycles:,} cycles" in done.to_html()


def test_without_the_option_it_is_not_there() -> None:
    done = api.compile(small(), machine_named("nvdla"), strategy="tvm")
    assert given(done.report).beside is None
    assert "beside_map" not in json.loads(done.to_json())


def test_a_network_without_products_has_none() -> None:
    net = Net()
    done = api.compile(
        net.model(net.op("Relu", net.input(4, 4))), "nvdla", strategy="tvm", options=Options(beside_map=True)
    )
    assert given(done.report).beside is None


@pytest.mark.parametrize(("machine", "batches", "says"), [("stcp920", 1, "neither"), ("nvdla", 2, "one batch")])
def test_what_cannot_be_compared_is_refused(machine: str, batches: int, says: str) -> None:
    """Before anything is compiled."""
    with pytest.raises(InputError, match=says):
        api.compile(model("resnet18", True), machine_named(machine), options=Options(beside_map=True, batches=batches))
