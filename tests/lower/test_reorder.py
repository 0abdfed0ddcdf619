"""Instructions in another order do the same, none earlier than it may, and an engine takes the longest path first."""

import re
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from tests.helpers.pairs import first
from tests.helpers.random_networks import random_machine, random_model
from tests.helpers.touched_bytes import conflicts, misread, too_early
from tilestitch import zoo
from tilestitch.base.errors import DoesNotFit
from tilestitch.base.tiers import interpreted
from tilestitch.hardware.load import load_machine
from tilestitch.ir.trace import Trace
from tilestitch.ir.verify import verify_program
from tilestitch.lower import reorder
from tilestitch.lower.dependences import Dependences, find_dependences
from tilestitch.lower.hazards import Text
from tilestitch.lower.reorder import list_schedule, reordered, waits_of
from tilestitch.pipeline.compilation import Compilation
from tilestitch.pipeline.compile import compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import strategy_named
from tilestitch.sim.chip.check import checked
from tilestitch.sim.chip.reference import Reference
from tilestitch.sim.chip.timing import simulate
from tilestitch.zoo.inputs import iteration_inputs


def other_order(done: Compilation, seed: int) -> Trace | None:
    """The simulated program in the order that follows from random times of its instructions."""
    assert done.program is not None
    times = np.random.default_rng(seed).integers(1, 1000, len(done.program) // done.program.iterations)
    program = reordered(done.program, times)
    if program is None:
        return None
    verify_program(program)
    return simulate(program)


@pytest.mark.parametrize("seed", first(8, range(24)))
def test_no_byte_is_touched_too_early_in_another_order(seed: int) -> None:
    """Any operators, any machine, two iterations."""
    machine, looked_at = random_machine(seed), 0
    for strategy in ("astitch", "graphturbo"):
        try:
            options = Options(batch=2 * machine.clusters, batch_per_cluster=1)
            done = compile_network(random_model(seed), "random", machine, strategy_named(strategy), options)
        except DoesNotFit:
            continue
        trace = other_order(done, seed)
        if trace is not None and len(trace.program) < 600:
            assert done.trace is not None
            assert sum(1 for _ in conflicts(trace.program)) == sum(1 for _ in conflicts(done.trace.program))
            assert too_early(trace) == []
            assert misread(trace) == set()
            looked_at += 1


@pytest.mark.parametrize("network", first(2, ["resnet18", "bert-base-16", "conformer", "densenet121"]))
def test_a_program_in_another_order_computes_the_same(network: str) -> None:
    """Compared with onnxruntime, two iterations."""
    machine, model = load_machine("stcp920"), zoo.build(network, small=True)
    options = Options(batch=8, batch_per_cluster=1)
    done = compile_network(model, network, machine, strategy_named("astitch"), options)
    assert done.schedule is not None
    trace = other_order(done, 1)
    assert trace is not None
    assert done.program is not None
    assert (trace.program.operator != done.program.operator).any()
    shapes = {name: done.schedule.graph.tensors[name].shape for name in done.schedule.graph.inputs}
    feeds = iteration_inputs(model, shapes, batch=1, iterations=2, exported_batch=None)
    reference = Reference(model, done.schedule.graph, feeds, exported_batch=None)
    assert all(row.passed for row in checked(trace, reference).rows)


def test_a_compilation_is_never_slower_for_it_and_says_what_it_gained() -> None:
    done = compile_network(
        zoo.build("resnet50", small=True),
        "net",
        load_machine("stcp920"),
        strategy_named("graphturbo"),
        Options(batch=8),
    )
    assert done.report is not None
    (note,) = (note for note in done.report.notes if note.startswith("Instructions reordered"))
    now, before = (int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", note))
    assert done.report.latency_cycles == now < before


def test_a_program_in_which_too_much_waits_keeps_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options(batch=4)
    done = compile_network(
        zoo.build("resnet18", small=True), "net", load_machine("toy"), strategy_named("astitch"), options
    )
    assert other_order(done, 0) is not None
    monkeypatch.setattr(reorder, "MOST_NEEDS", 50)
    assert other_order(done, 0) is None


@pytest.mark.parametrize("updates", [3, 40])
def test_what_is_updated_in_place_waits_for_the_update_before_alone(updates: int) -> None:
    """Halves are read, and the whole is updated, again and again: an update needs what came since the one before."""
    halves, whole = [1, 2], 0
    steps = [(whole, True), *[(region, writes) for _ in range(updates) for region, writes in _round(halves, whole)]]
    length = 1 + len(steps)
    known = find_dependences(
        Text(
            engine=np.arange(length),
            launches=np.arange(length) == 0,
            operand_ends=np.arange(length),
            buffer=np.zeros(len(steps), np.int64),
            region=np.array([region for region, _ in steps]),
            writes=np.array([writes for _, writes in steps]),
            space=np.zeros(1, np.int64),
            start=np.zeros(1, np.int64),
            stop=np.full(1, 64),
            born=np.ones(1, np.int64),
            low=np.array([[0], [0], [4]]),
            high=np.array([[8], [4], [8]]),
            control=0,
            engines=length,
            spaces=1,
        ),
        10_000,
    )
    needs = [sorted(known.needs[begin:end].tolist()) for begin, end in pairwise([0, *known.ends.tolist()])]
    assert needs[:2] == [[], [0]]
    for at in range(2, length, 3):
        assert needs[at : at + 3] == [[at - 1], [at - 1], [at - 1, at, at + 1]]


def _round(halves: list[int], whole: int) -> list[tuple[int, bool]]:
    return [*((half, False) for half in halves), (whole, True)]


@pytest.mark.parametrize("seed", range(40))
def test_the_schedule_is_that_of_the_definition(seed: int) -> None:
    """An engine that is free starts the ready instruction of the longest path, the first of several."""
    random = Random(seed)
    length, engines = random.randint(2, 40), random.randint(1, 4)
    engine = [0] + [random.randrange(engines) for _ in range(length - 1)]
    ticks = [random.randint(1, 9) for _ in range(length)]
    needs = [sorted(random.sample(range(n), min(n, random.randint(1, 3)))) for n in range(length)]
    path = ticks.copy()
    for number in range(length - 1, 0, -1):
        for needed in needs[number]:
            path[needed] = max(path[needed], ticks[needed] + path[number])
    start: dict[int, int] = {}
    for now in range(sum(ticks)):
        for one in range(engines):
            ended = {n for n in start if start[n] + ticks[n] <= now}
            waiting = [n for n in range(length) if engine[n] == one and n not in start and ended.issuperset(needs[n])]
            if waiting and all(engine[n] != one or n in ended for n in start):
                start[min(waiting, key=lambda n: (-path[n], n))] = now
    ends = np.cumsum([len(found) for found in needs])
    nothing = np.zeros(0, np.int64)
    known = Dependences(np.array([m for one in needs for m in one]), ends, nothing)
    order = list_schedule(np.array(engine), np.array(ticks), known).tolist()
    again: dict[int, int] = {}  # when each starts if the engines take them in that order
    free = [0] * engines
    for number in order:
        again[number] = max([free[engine[number]], *(again[m] + ticks[m] for m in needs[number])])
        free[engine[number]] = again[number] + ticks[number]
    assert again == start


@pytest.mark.parametrize("seed", range(40))
def test_nodes_between_instructions_stand_for_all_that_they_need(seed: int) -> None:
    """Order and waits are those of the same needs without such nodes, also where one node needs another.

    None stands for the launch, which uses no buffer.
    """
    random = Random(seed)
    length, engines = random.randint(4, 40), random.randint(1, 4)
    engine = np.array([0] + [random.randrange(engines) for _ in range(length - 1)])
    ticks = np.array([random.randint(1, 9) for _ in range(length)])
    born = np.array(sorted(random.choices(range(2, length), k=random.randint(1, 8))))
    own: list[list[int]] = []  # what each node needs, and all instructions that stand behind that
    behind: list[set[int]] = []
    for at, first_reader in enumerate(born.tolist()):
        own.append(random.sample(range(1, first_reader), min(first_reader - 1, random.randint(1, 4))))
        own[-1] += [length + random.randrange(at)] if at and random.random() < 0.5 else []
        behind.append({n for need in own[-1] for n in ({need} if need < length else behind[need - length])})
    needs: list[list[int]] = [[]]
    for number in range(1, length):
        can = [length + at for at, first_reader in enumerate(born.tolist()) if first_reader <= number]
        needs.append([0, *random.sample(range(number), min(number, 2)), *random.sample(can, min(len(can), 2))])
    alone = [sorted({n for need in one for n in ({need} if need < length else behind[need - length])}) for one in needs]

    def known(rows: list[list[int]], born: np.ndarray) -> Dependences:
        flat = np.array([need for row in rows for need in row], np.int64)
        return Dependences(flat, np.cumsum([len(row) for row in rows]), born)

    with_nodes, without = known([*needs, *own], born), known(alone, born[:0])
    order = list_schedule(engine, ticks, with_nodes)
    assert order.tolist() == list_schedule(engine, ticks, without).tolist()
    for found, right in zip(waits_of(engine, with_nodes, order), waits_of(engine, without, order), strict=True):
        assert found.tolist() == right.tolist()


@pytest.mark.parametrize("readers", range(1016, 1024))
def test_what_ends_without_another_use_has_room_in_the_table(readers):
    """Two buffers end with so many uses that the table is full where one of them, in part left, is displaced again."""
    spans = np.array([(0, 10), (10, 20), (5, 15), (0, 20)], np.int64)  # the third takes a part of both, the last all
    users = [1, 2, *range(3, 3 + readers), 3 + readers, 4 + readers]
    buffers = np.array([0, 1, *([0] * readers), 2, 3], np.int64)
    length = 5 + readers
    text = Text(
        engine=np.arange(length),
        launches=np.arange(length) == 0,
        operand_ends=np.cumsum(np.bincount(users, minlength=length)),
        buffer=buffers,
        region=np.zeros(len(users), np.int64),
        writes=np.array([at not in range(3, 3 + readers) for at in users]),
        space=np.zeros(4, np.int64),
        start=spans[:, 0].copy(),
        stop=spans[:, 1].copy(),
        born=np.array([1, 2, 3 + readers, 4 + readers]),
        low=np.zeros((1, 1), np.int64),
        high=np.ones((1, 1), np.int64),
        control=0,
        engines=length,
        spaces=1,
    )
    found = interpreted(find_dependences.py_func)(text, 10**6)  # pyright: ignore[reportFunctionMemberAccess]
    assert len(found.needs) == found.ends[-1]
    assert {3 + readers, 4 + readers} <= set(found.born.tolist())
