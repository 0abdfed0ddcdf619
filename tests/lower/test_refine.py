"""Orders that a simulation made better: no slower, as right as any other, and kept by a file of a schedule."""

from dataclasses import replace
from functools import partial
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
from tilestitch.lower.hazards import corners
from tilestitch.lower.moved import Stays, at_longer_gaps, together
from tilestitch.lower.refine import FULL, GLIMPSE, Depth, refined
from tilestitch.lower.reorder import scheduled, waiting
from tilestitch.pipeline import stages
from tilestitch.pipeline.compilation import Compilation, given
from tilestitch.pipeline.compile import compile_network, resume_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.stage_files import stage_text, started
from tilestitch.pipeline.strategies import strategy_named
from tilestitch.sim.chip.timing import simulate

UNCUT = HandSchedule("uncut", (HandGroup("all"),), ring=True)


def _of_uncut(network: str = "bert-base-128") -> Trace:
    """Of a program that is not refined."""
    done = api.compile(model(network, True), "toy", strategy=replace(UNCUT, refined=False), batch=4)
    return given(done.trace)


def _of_cycles(trace: Trace, cycles: int) -> Trace:
    return replace(trace, end_ticks=np.array([cycles * trace.ticks_per_cycle]))


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
def test_an_order_is_left_once_four_steps_do_not_make_it_faster(network: str) -> None:
    """Or after twelve; there are two that are begun with."""
    trace = _of_uncut(network)
    found = list[int]()

    def run(program: Program) -> Trace:
        one = simulate(program)
        found.append(one.latency_cycles)
        return one

    refined(trace.program, trace, run, depth=Depth(12, 0))
    left = iter(found)
    for _ in range(2):
        steps = list[int]()
        while len(steps) < 12 and (len(steps) < 5 or min(steps[-4:]) < min(steps[:-4])):
            steps.append(next(left))
    assert list(left) == []


@pytest.mark.parametrize("faster", [GLIMPSE.rounds, FULL.rounds])
def test_refining_in_full_goes_on_from_the_faster_of_two_beginnings(
    monkeypatch: pytest.MonkeyPatch, faster: int
) -> None:
    """One as in a glimpse, one with more steps before buffers move; of equals the latter, so that one is never lost."""
    trace = _of_uncut()
    cycles = {FULL.rounds: 900, GLIMPSE.rounds: 900 - (faster == GLIMPSE.rounds)}
    begun, gone_on_from = dict[int, refine._Found](), list[tuple[refine._Found, int]]()

    def moved(now: refine._Found, run: object, boxes: object, rounds: int) -> refine._Found:
        begun[rounds] = now._replace(trace=_of_cycles(now.trace, cycles[rounds]))
        return begun[rounds]

    def walked(now: refine._Found, run: object, boxes: object, moves: int) -> refine._Found:
        gone_on_from.append((now, moves))
        return now._replace(trace=_of_cycles(now.trace, 800))

    monkeypatch.setattr(refine, "_moved", moved)
    monkeypatch.setattr(refine, "_walked", walked)
    found = refined(trace.program, trace, simulate)
    assert list(begun) == [FULL.rounds, GLIMPSE.rounds]
    assert gone_on_from == [(begun[faster], FULL.moved - 1)]
    assert found is not None
    assert found[1].latency_cycles == 800


def test_what_is_a_little_slower_is_gone_on_from_and_the_fastest_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is much slower is not: the next one is made of the fastest."""
    trace = _of_uncut()
    begin = refine._Found(trace.program, _of_cycles(trace, 10_000))
    comes = iter([10_040, 9_990, 10_030, 10_050, 9_980, 10_010])
    moved_of, horizons = list[int](), list[int]()

    def moved(program: Program, trace: Trace, horizon_ticks: int) -> Program:
        moved_of.append(trace.latency_cycles)
        horizons.append(horizon_ticks)
        return program

    def justified(*_: object) -> list[refine._Found]:
        return [begin._replace(trace=_of_cycles(trace, cycles)) for cycles in (20_000, next(comes))]

    monkeypatch.setattr(refine, "with_buffers_moved", moved)
    monkeypatch.setattr(refine, "_justified", justified)
    found = refine._walked(begin, simulate, corners(trace.program.regions), 6)
    assert found.latency_cycles == 9_980
    assert moved_of == [10_000, 10_040, 9_990, 10_030, 9_990, 9_980]
    assert len(set(horizons)) > 3, "other gaps are looked for, by turns"


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


def test_buffers_get_other_places_by_the_order_that_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
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
    inside = np.array([space.level is not Level.DDR for space in trace.program.spaces])[buffers.space[pairs[0]]]
    assert trace.program.iterations == 2
    assert (buffers.address[pairs[0][inside]] == buffers.address[pairs[1][inside]]).all()
    assert too_early(trace) == []
    monkeypatch.setattr(stages, "refined", partial(refined, depth=Depth(FULL.rounds, moved=0)))
    assert trace.latency_cycles < given(compiled().trace).latency_cycles


def test_a_buffer_moves_to_where_its_gap_is_longest() -> None:
    """The third comes right behind the first. The second is over sooner, and elsewhere is room for the first."""
    stays = _stays([64, 64, 64], [0, 1, 7], [6, 4, 9], [0, 10, 70])
    assert at_longer_gaps(stays, np.array([0, 64, 0]), 1000, 128, False).tolist() == [0, 64, 64]
    assert at_longer_gaps(stays, np.array([0, 64, 0]), 1000, 192, False).tolist() == [128, 64, 0]
    assert at_longer_gaps(stays, np.array([0, 64, 0]), 10, 192, False).tolist() == [0, 64, 0]


def test_what_shares_bytes_moves_as_one() -> None:
    """The third is computed in place of the second, and the fourth in its half; the first is over before."""
    sizes, address = np.array([64, 128, 128, 64]), np.array([0, 0, 0, 64])
    first, last = np.array([0, 2, 4, 6]), np.array([1, 4, 8, 9])
    assert together(sizes, address, first, last).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_moved_buffers_never_share_bytes_at_the_same_time(seed: int, apart: bool) -> None:
    """Unless they did so before; and the shortest gap of all grows no shorter.

    `apart`: by the order of the program, from which engines are further apart than what is near in time.
    """
    random = Random(seed)
    begins = sorted(random.sample(range(60), 14))
    lasts = [begin + random.choice((0, 1, 3, 9, 30)) for begin in begins]
    step, odd = random.choice(((64, 0), (3_000_064, 128)))  # in a large memory what is taken is known less exactly
    sizes = [step * random.randint(1, 3) + random.choice((0, odd)) for _ in begins]
    room, address = step * random.randint(8, 14), list[int]()
    for number, size in enumerate(sizes):
        there = [at for at in range(number) if lasts[at] >= begins[number]]
        free = [
            at
            for at in sorted({0, *(address[one] + sizes[one] for one in there)})
            if at + size <= room and all(at >= address[one] + sizes[one] or at + size <= address[one] for one in there)
        ]
        if there and (not free or random.random() < 0.1):
            free = [address[there[-1]]]  # in place of another
        if not free or free[0] + size > room:
            pytest.skip("no room for all of them")
        address.append(random.choice(free))
    stays = _stays(sizes, begins, lasts, [10 * begin for begin in begins], np.array(address))
    if apart:
        shift = np.array([random.choice((0, 900, 1800)) for _ in begins])
        stays = stays._replace(begin_ticks=stays.begin_ticks + shift, end_ticks=stays.end_ticks + shift)
    found = at_longer_gaps(stays, np.array(address), 400, room, apart)
    assert found.min() >= 0
    assert (found + stays.size_bytes).max() <= room
    gaps = []
    for places in (np.array(address), found):
        pairs = [
            (a, b)
            for a in range(len(sizes))
            for b in range(a)
            if stays.group[a] != stays.group[b]
            and places[a] < places[b] + sizes[b]
            and places[b] < places[a] + sizes[a]
        ]
        assert all(lasts[b] < begins[a] for a, b in pairs)
        gaps.append(min((stays.begin_ticks[a] - stays.end_ticks[b] for a, b in pairs), default=400))
    assert apart or gaps[1] >= min(gaps[0], 400)
    shifts = found - np.array(address)
    assert (shifts == shifts[stays.group]).all()
    assert found.tolist() == _moved_plainly(stays, address, 400, room)


def _moved_plainly(stays: Stays, address: list[int], horizon_ticks: int, room_bytes: int) -> list[int]:
    """Where each group goes: of the places beside others near in time the first one with the longest gap."""
    found, sizes = list(address), stays.size_bytes.tolist()
    begins, ends = stays.begin_ticks.tolist(), stays.end_ticks.tolist()
    for group in sorted(set(stays.group.tolist())):
        members = np.flatnonzero(stays.group == group).tolist()
        low = min(found[one] for one in members)
        length = max(found[one] + sizes[one] for one in members) - low
        near = [
            other
            for other in np.argsort(stays.begin_ticks, kind="stable")[::-1].tolist()
            if other not in members
            and begins[other] < max(ends[one] for one in members) + horizon_ticks
            and ends[other] > min(begins[one] for one in members) - horizon_ticks
        ]
        meanwhile = [
            other
            for other in range(len(sizes))
            if other not in (*members, *near)
            and stays.first[other] <= max(stays.last[members])
            and stays.last[other] >= min(stays.first[members])
        ]
        around = [*near, *meanwhile]

        def gap(place: int, members: list[int] = members, near: list[int] = around, low: int = low) -> int:
            gaps = [horizon_ticks]
            for one in members:
                begin = found[one] + place - low
                for other in near:
                    if found[other] < begin + sizes[one] and begin < found[other] + sizes[other]:
                        if stays.first[one] <= stays.last[other] and stays.first[other] <= stays.last[one]:
                            return -1
                        before, behind = (other, one) if stays.last[other] < stays.first[one] else (one, other)
                        gaps.append(max(0, begins[behind] - ends[before]))
            return min(gaps)

        places = [low, 0]
        for other in near:
            places += [found[other] + sizes[other], found[other] - length]
        best = max((place for place in places if 0 <= place <= room_bytes - length), key=gap)
        for one in members:
            found[one] += best - low
    return found


def _stays(
    sizes: list[int], first: list[int], last: list[int], begins: list[int], address: np.ndarray | None = None
) -> Stays:
    """Buffers that are used until the tick of their last instruction, ten ticks each."""
    size_bytes, firsts, lasts = np.array(sizes), np.array(first), np.array(last)
    group = np.arange(len(sizes)) if address is None else together(size_bytes, address, firsts, lasts)
    return Stays(size_bytes, firsts, lasts, np.array(begins), 10 * lasts, group)


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
