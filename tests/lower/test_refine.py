"""Orders that a simulation made better: no slower, as right as any other, and kept by a file of a schedule."""

from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from tests.helpers.pairs import first
from tests.helpers.random_networks import random_machine, random_model
from tests.helpers.touched_bytes import misread, too_early
from tests.helpers.verified import machine_named, model
from tilestitch import api
from tilestitch.base.errors import DoesNotFit
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.by_hand import HandGroup, HandSchedule
from tilestitch.ir.choices import Stage
from tilestitch.ir.program import Program
from tilestitch.ir.trace import Trace
from tilestitch.ir.verify import verify_program
from tilestitch.lower import refine
from tilestitch.lower.refine import refined
from tilestitch.lower.reorder import scheduled, waiting
from tilestitch.lower.staging import places_by_use
from tilestitch.pipeline.compilation import Compilation, given
from tilestitch.pipeline.compile import compile_network, resume_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.stage_files import stage_text, started
from tilestitch.pipeline.strategies import strategy_named
from tilestitch.sim.chip.timing import simulate

UNCUT = HandSchedule("uncut", (HandGroup("all"),), ring=True)


@pytest.mark.parametrize("seed", first(6, range(18)))
def test_no_byte_is_touched_too_early_in_any_order_that_is_looked_at(seed: int) -> None:
    """Any operators, any machine, two iterations."""
    machine, looked_at = random_machine(seed), list[Trace]()
    options = Options(batch=2 * machine.clusters, batch_per_cluster=1)
    try:
        done = compile_network(random_model(seed), "random", machine, strategy_named("astitch"), options)
    except DoesNotFit:
        return

    def run(program: Program) -> Trace:
        verify_program(program)
        looked_at.append(simulate(program))
        return looked_at[-1]

    trace = given(done.trace)
    found = refined(trace.program, trace, run)
    least = min((one.latency_cycles for one in looked_at), default=trace.latency_cycles)
    assert (trace if found is None else found[1]).latency_cycles == min(least, trace.latency_cycles)
    for one in looked_at[:: len(looked_at) // 3] if len(trace.program) < 600 else ():
        assert too_early(one) == []
        assert misread(one) == set()


@pytest.mark.parametrize("network", ["bert-base-128", "resnet18"])
def test_a_refined_schedule_is_faster_and_computes_the_same(network: str) -> None:
    """Two iterations of each of two clusters; and a file of it says so."""
    plain, better = (
        api.compile(
            model(network, True),
            "toy",
            strategy=replace(UNCUT, refined=refines),
            batch=4,
            options=Options(batch_per_cluster=1),
            verify=True,
        )
        for refines in (False, True)
    )
    assert plain.report is not None
    assert better.report is not None
    assert better.report.outcome == "passed", better.report.checks
    assert better.report.latency_cycles < plain.report.latency_cycles
    start = started(stage_text(better, Stage.SCHEDULE), "file.json")
    again = resume_network(model(network, True), start, machine_named("toy"), Options())
    assert again.report is not None
    assert again.report.latency_cycles == better.report.latency_cycles


def test_sums_get_other_places_by_the_order_that_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two iterations; no byte is touched too early, the values are right, and the program is faster than with places
    by the order of lowering."""

    def compiled() -> Compilation:
        return api.compile(
            model("bert-base-128", True),
            "toy",
            strategy=replace(UNCUT, ring=False, refined=True),
            batch=4,
            options=Options(batch_per_cluster=1),
            verify=True,
        )

    better = compiled()
    assert better.report is not None
    assert better.report.outcome == "passed", better.report.checks
    trace = given(better.trace)
    verify_program(trace.program)
    buffers = trace.program.buffers
    pairs = trace.program.operand_buffer.reshape(2, -1)
    inside = np.array([space.level is Level.ACCUMULATORS for space in trace.program.spaces])[buffers.space[pairs[0]]]
    assert trace.program.iterations == 2
    assert (buffers.address[pairs[0][inside]] == buffers.address[pairs[1][inside]]).all()
    assert too_early(trace) == []
    monkeypatch.setattr(refine, "MOVED", 0)
    assert trace.latency_cycles < given(compiled().trace).latency_cycles


def test_a_buffer_lies_where_nothing_was_for_longest() -> None:
    """Never where one is still used; none of them gets an address if one has no room."""
    sizes, first, last = np.array([64, 64, 64, 128]), np.array([0, 1, 2, 7]), np.array([6, 1, 3, 9])
    assert places_by_use(sizes, first, last, 256).tolist() == [0, 64, 128, 64]
    assert places_by_use(sizes[:3], first[:3], last[:3], 128).tolist() == [0, 64, 64]
    assert places_by_use(sizes, first, last, 128).tolist() == [0, 64, 64, 0]
    assert places_by_use(sizes, first, np.array([8, 1, 3, 9]), 128).tolist() == []
    assert places_by_use(sizes, first, last, 96).tolist() == []


@pytest.mark.parametrize("seed", range(20))
def test_time_can_run_backwards(seed: int) -> None:
    """What waits for what is reversed; nothing starts early, and each engine runs one instruction at a time."""
    random = Random(seed)
    length, nodes = random.randint(1, 12), random.randint(0, 3)
    total = length + nodes
    order = list(range(total))
    random.shuffle(order)  # nodes behind the instructions may come anywhere between them
    place = {node: at for at, node in enumerate(order)}
    needs = [sorted(other for other in order[: place[node]] if random.random() < 0.3) for node in range(total)]
    ends = np.cumsum([len(one) for one in needs])
    known = waiting(np.array([one for some in needs for one in some], np.int64), ends)
    engine = np.array([random.randint(0, 2) for _ in range(length)], np.int64)
    ticks = np.array([random.randint(1, 9) for _ in range(length)], np.int64)
    found, starts = scheduled(engine, ticks, known, np.array(random.sample(range(length), length)))
    assert sorted(found.tolist()) == list(range(length))
    assert (np.diff(starts[found]) >= 0).all()
    until = dict[int, int]()  # when a node is over: instructions end, others pass on
    for node in order:
        before = max((until[one] for one in needs[node]), default=0)
        if node < length:
            assert starts[node] >= before
        until[node] = int(starts[node] + ticks[node]) if node < length else before
    for number in range(3):
        own = sorted(np.flatnonzero(engine == number), key=starts.__getitem__)
        assert all(starts[a] + ticks[a] <= starts[b] for a, b in pairwise(own))
