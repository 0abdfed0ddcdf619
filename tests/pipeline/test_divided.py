"""Kernels divided among cores as a rule says, and constants that a kernel brings as a whole."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.graphs import Net
from tests.helpers.kernel_runs import product
from tilestitch import api
from tilestitch.base.errors import InputError
from tilestitch.hardware.accelerator import Level
from tilestitch.hardware.load import load_machine
from tilestitch.ir.by_hand import HandGroup, HandSchedule
from tilestitch.ir.choices import BindingRule, Stage
from tilestitch.ir.program import EngineKind, Kind
from tilestitch.ir.tile_rule import KernelRule, Once, TileRoom, TileRule
from tilestitch.kernels.surroundings import Room, Surroundings
from tilestitch.pipeline.compilation import Compilation
from tilestitch.pipeline.compile import resume_network
from tilestitch.pipeline.hand_schedule import hand_schedule_of
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.stage_files import stage_text, started
from tilestitch.schedule import tiling
from tilestitch.schedule.tiling import Shapes, tile_in_rooms
from tilestitch.schedule.whole import with_whole_constants as whole

MACHINE, BATCH = "stcp920", 4


def begun(network: str) -> tuple[Compilation, HandSchedule]:
    done = api.compile(network, MACHINE, strategy="astitch", batch=BATCH)
    return done, hand_schedule_of(done)


def by_hand(network: str, schedule: HandSchedule, binding: BindingRule = BindingRule.NEAREST) -> Compilation:
    """Executed, and compared with onnxruntime."""
    options = Options(batch_per_cluster=1, binding=binding)
    done = api.compile(network, MACHINE, strategy=schedule, batch=BATCH, options=options, verify=True)
    assert done.report is not None
    assert done.report.outcome == "passed"
    return done


def splits_of(done: Compilation) -> dict[str, tuple[int, ...]]:
    assert done.schedule is not None
    return {kernel.sink: kernel.tiling.splits for kernel in done.schedule.kernels}


@pytest.mark.parametrize("binding", list(BindingRule))
def test_kernels_are_divided_as_a_rule_says(binding):
    """Whatever the rule for the others; the program computes the same, and the schedule is read back from a file."""
    done, schedule = begun("resnet18:small")
    assert done.schedule is not None
    graph = done.schedule.graph
    asked = {}
    for kernel in done.schedule.kernels:
        sink = graph.by_name[kernel.sink]
        if len(sink.dims) > 3 and sink.dims[1].extent >= 8 and kernel.tiling.splits[1] < 8:
            asked[kernel.sink] = (1, 8, *(1 for _ in sink.dims[2:]))
    assert len(asked) > 3
    rules = tuple(KernelRule(sink, splits=splits) for sink, splits in asked.items())
    found = by_hand("resnet18:small", replace(schedule, rules=rules), binding)
    now = splits_of(found)
    assert {sink: now[sink] for sink in asked} == asked
    text = stage_text(found, Stage.SCHEDULE)
    model, _ = api.open_model("resnet18:small")
    again = resume_network(model, started(text, "value.json"), found.machine, Options(stop_after=Stage.SCHEDULE))
    assert stage_text(again, Stage.SCHEDULE) == text


@pytest.mark.parametrize("splits", [(1, 3, 1, 1), (1, 8), (0, 1, 1, 1), (8, 1, 1, 1), (1, 4, 4, 1), (1, -8, 1, 1)])
def test_a_division_that_cannot_be_is_refused(splits):
    """Each dim of the operator has a number, which it can be cut into, and all together divide the cores."""
    done, schedule = begun("resnet18:small")
    assert done.schedule is not None
    sink = next(kernel.sink for kernel in done.schedule.kernels if len(kernel.tiling.splits) == 4)
    with pytest.raises(InputError, match=f"rule of {sink}: splits .* expected one for each dim, at most 1, "):
        by_hand("resnet18:small", replace(schedule, rules=(KernelRule(sink, splits=splits),)))


def test_a_reduction_is_not_divided():
    """Cores that add up parts of one result would need their sums to meet."""
    done, schedule = begun("resnet18:small")
    assert done.schedule is not None
    kernel = next(kernel for kernel in done.schedule.kernels if len(kernel.tiling.splits) > 4)
    splits = (*(1 for _ in kernel.tiling.splits[1:]), 2)
    with pytest.raises(InputError, match="whose product divides 8 cores"):
        by_hand("resnet18:small", replace(schedule, rules=(KernelRule(kernel.sink, splits=splits),)))


def transfers(done: Compilation) -> dict[str, list[int]]:
    """By constant, the bytes of each transfer from DDR in an iteration."""
    program = done.program
    assert program is not None
    engines = np.array([engine.kind is EngineKind.DMA_IN for engine in program.engines])
    length = len(program) // program.iterations
    found: dict[str, list[int]] = {}
    for at in np.flatnonzero(engines[program.engine[:length]] & (program.kind[:length] == Kind.COPY)).tolist():
        name = program.tensors[program.buffers.tensor[program.operand_buffer[program.operand_offsets[at]]]]
        if name in program.graph.constants:
            found.setdefault(name, []).append(int(program.size_bytes[at]))
    return found


@pytest.mark.parametrize("network", ["resnet18:small", "bert-base-128:small"])
def test_a_kernel_brings_constants_as_a_whole(network):
    """In fewer transfers and no more bytes than tile by tile; the others come as before."""
    done, schedule = begun(network)
    assert done.schedule is not None
    fine = tuple(KernelRule(kernel.sink, TileRule(least=8)) for kernel in done.schedule.kernels)
    before = transfers(by_hand(network, replace(schedule, rules=fine)))
    whole = tuple(replace(rule, once=Once.KERNEL) for rule in fine)
    after = transfers(by_hand(network, replace(schedule, rules=whole)))
    assert set(before) == set(after)
    fewer = [name for name in before if len(after[name]) < len(before[name])]
    assert fewer
    for name in before:
        assert len(after[name]) <= len(before[name])
        assert sum(after[name]) <= sum(before[name])
    assert all(len(after[name]) == 1 for name in fewer if sum(after[name]) < 65536)


def test_constants_come_as_a_whole_as_far_as_there_is_room():
    """A product whose weights have no room in GB brings them tile by tile, and is tiled alike in rooms that hold it."""
    graph, machine = product(64, 128, 384), load_machine(MACHINE)
    weights = next(iter(graph.constants))
    size_bytes = graph.tensors[weights].size_bytes
    rule, sizes = TileRule(least=8, whole=True), (8 << 20, size_bytes // 2)
    for number, held in enumerate((True, False)):
        rooms = {Level.LB: Room(1 << 20), Level.GB: Room(sizes[number])}
        around = Surroundings(rooms=rooms)
        kernel, known = tile_in_rooms(Shapes(graph, machine), graph.operators, "k", around, rule=rule)
        assert (weights in kernel.tiling.resident) is held
        assert known is not None
        assert known.hold(rooms, machine)
        assert not known.hold({**rooms, Level.GB: Room(sizes[1 - number])}, machine)


def test_constants_that_would_come_again_come_as_a_whole(monkeypatch):
    """Weights in 16 parts, as many as transfers, for each of three samples: the whole is a third of the bytes."""
    calls = []
    monkeypatch.setattr(tiling, "with_whole_constants", lambda *given: calls.append(given) or whole(*given))
    net = Net()
    conv = net.op(
        "Conv", net.op("Relu", net.input("N", 256, 126, 39)), net.random(256, 256, 3, 3), strides=[2, 2], name="conv"
    )
    rule = KernelRule("conv", TileRule(columns=True, room=TileRoom.WHOLE, parts=True), once=Once.KERNEL)
    schedule = HandSchedule("whole", (HandGroup("all"),), rules=(rule,))
    options = Options(batch_per_cluster=3, stop_after=Stage.SCHEDULE)
    api.compile(net.model(conv), "stcp920-paper", strategy=schedule, batch=12, options=options)
    shape, nest, rates, place, tiled, tested = calls[-1]
    assert tiled.tile.tolist()[:2] == [1, 64]
    without = tiled._replace(resident=np.zeros_like(tiled.resident))
    found, _ = whole(shape, nest, rates, place, without, tested)
    weights = [number for number, one in enumerate(shape.operands) if one.tensor in shape.graph.constants]
    assert [found[number] for number in weights] == [1]
