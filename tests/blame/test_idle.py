"""Causes of idle times: by hand, one program for each; and laws that hold for every program."""

from collections.abc import Sequence

import numpy as np
import pytest

import tilestitch
from tests.helpers.placed import (
    CONTROL,
    DMA_IN,
    DMA_OUT,
    ENGINES,
    MATRIX0,
    MATRIX1,
    MOVER0,
    MOVER1,
    VECTOR0,
    placed,
)
from tests.helpers.programs import Row, compute, copy, port, random_program
from tilestitch.blame.idle import idle_times
from tilestitch.blame.waits import Tie, critical_waits
from tilestitch.ir.idle import CAUSES, Idle
from tilestitch.ir.program import Kind, Program
from tilestitch.pipeline.compilation import given
from tilestitch.sim.chip.timing import sharing, simulate

PORTS = (port("ddr", 8), port("gb", 64), port("lb0", 64), port("lb1", 64))


def idle_of(program: Program) -> Idle:
    return idle_times(simulate(program), sharing(program))


def listed(program: Program, engine: int) -> list[tuple[int, int, int, int, str]]:
    """Of one engine: begin and end in cycles, who waits for whom, and why."""
    idle, ticks = idle_of(program), simulate(program).ticks_per_cycle
    rows = np.flatnonzero(idle.engine == engine).tolist()
    begin, end = (idle.begin_ticks // ticks).tolist(), (idle.end_ticks // ticks).tolist()
    who, whom = idle.waiting.tolist(), idle.waited_for.tolist()
    return [(begin[row], end[row], who[row], whom[row], str(CAUSES[idle.cause[row]])) for row in rows]


BUFFERS = {
    "w": ("w", "ddr"),
    "w0": ("w", "lb0"),
    "w1": ("w", "lb0"),  # another place
    "x": ("x", "lb0"),
    "y": ("y", "lb0"),
    "y.gb": ("y", "gb"),
    "y.ddr": ("y", "ddr"),
    "y1": ("y", "lb1"),
    "z": ("z", "lb0"),
}


def program_of(rows: Sequence[tuple[Row, str, str]]) -> Program:
    return placed(rows, BUFFERS, PORTS, constants=["w"], inputs=["x"])


@pytest.mark.quick
def test_a_unit_waits_for_a_load():
    """From the start of the transfer, its set-up included, to its end; then there is nothing left to do."""
    rows = [(copy(MOVER0, 80, (0, 2), setup=5), "w", "w0"), (compute(MATRIX0, 7, [0]), "x w0", "y")]
    program = program_of([*rows, (compute(VECTOR0, 3, [1]), "y", "z")])
    assert listed(program, MATRIX0) == [(0, 15, 1, 0, "load"), (22, 25, -1, 2, "done")]


@pytest.mark.quick
def test_a_unit_waits_for_the_other_unit_and_what_that_waits_for():
    """Each time is one of who ran then, back to the start."""
    rows = [(copy(MOVER0, 80, (0, 2)), "w", "w0"), (compute(VECTOR0, 6, [0]), "w0", "x")]
    program = program_of([*rows, (compute(MATRIX0, 4, [1]), "x", "y")])
    assert listed(program, MATRIX0) == [(0, 10, 2, 0, "load"), (10, 16, 2, 1, "engine")]
    assert listed(program, VECTOR0) == [(0, 10, 1, 0, "load"), (16, 20, -1, 2, "done")]


def test_a_load_waits_for_a_store():
    """What another core reads goes through DDR: it waits until it is there."""
    rows = [(compute(VECTOR0, 4), "x", "y"), (copy(MOVER0, 80, (2, 0), [0]), "y", "y.ddr")]
    rows += [(copy(MOVER1, 16, (0, 3), [1]), "y.ddr", "y1"), (compute(MATRIX1, 1, [2]), "y1", "y1")]
    program = program_of(rows)
    assert listed(program, MOVER1) == [(0, 4, 2, 0, "engine"), (4, 14, 2, 1, "store"), (16, 17, -1, 3, "done")]
    assert [cause for *_, cause in listed(program, MATRIX1)] == ["engine", "store", "load"]


def test_a_transfer_waits_for_its_turn_at_a_port():
    """Half of the time and more is that of others: the wait for it is one for the port."""
    big, small = copy(DMA_IN, 4 * 4096, (0, 1)), copy(MOVER0, 4096, (0, 2))
    program = program_of([(big, "y.ddr", "y.gb"), (small, "w", "w0"), (compute(MATRIX0, 1, [1]), "w0", "y")])
    shared = sharing(program)
    assert shared.delay_ticks.tolist()[1] == simulate(program).ticks_per_cycle * 512
    assert shared.behind.tolist() == [1, 0, -1]
    assert listed(program, MATRIX0)[0] == (0, 1024, 2, 1, "load")  # half of it is not more than half
    three = [(big, "y.ddr", "y.gb"), (copy(DMA_OUT, 4 * 4096, (1, 0)), "y.gb", "y.ddr"), (small, "w", "w0")]
    program = program_of([*three, (compute(MATRIX0, 1, [2]), "w0", "y")])
    assert listed(program, MATRIX0)[0] == (0, 1536, 3, 2, "port")


@pytest.mark.quick
def test_a_unit_waits_for_room():
    """Until its result's place was stored; and a load that could not begin before a place was free is one too."""
    rows = [(compute(VECTOR0, 4), "x", "y"), (copy(MOVER0, 80, (2, 0), [0]), "y", "y.ddr")]
    program = program_of([*rows, (compute(VECTOR0, 4, [1]), "x", "y")])
    assert listed(program, VECTOR0) == [(4, 14, 2, 1, "room")]
    rows = [(compute(MATRIX0, 4), "w0 x", "y"), (copy(MOVER0, 80, (0, 2), [0]), "w", "w0")]
    program = program_of([*rows, (compute(MATRIX0, 4, [1]), "w0 x", "z")])
    assert listed(program, MATRIX0) == [(4, 14, 2, 1, "room")]
    assert critical_waits(simulate(program)).tie.tolist() == [Tie.NONE, Tie.ROOM, Tie.DATA]


def test_a_new_place_needs_no_room():
    """The same load to another place begins at once."""
    rows = [(compute(MATRIX0, 4), "w0 x", "y"), (copy(MOVER0, 80, (0, 2)), "w", "w1")]
    program = program_of([*rows, (compute(MATRIX0, 4, [1]), "w1 x", "z")])
    assert listed(program, MATRIX0) == [(4, 10, 2, 1, "load")]


def test_a_unit_waits_for_a_launch():
    """And the launch for all that came before."""
    rows = [(compute(VECTOR0, 3), "x", "y"), (Row(CONTROL, Kind.LAUNCH, 10, (0,)), "", "")]
    program = program_of([*rows, (compute(MATRIX0, 1, [1]), "y", "z")])
    assert listed(program, MATRIX0) == [(0, 3, 2, 0, "engine"), (3, 13, 2, 1, "launch")]


def test_a_mover_that_is_busy_is_waited_for():
    """The load before on the same engine is what the load that is needed waited for."""
    rows = [(copy(MOVER0, 80, (0, 2)), "w", "w0"), (copy(MOVER0, 16, (0, 2)), "w", "w1")]
    program = program_of([*rows, (compute(MATRIX0, 1, [1]), "w1", "y")])
    assert listed(program, MATRIX0) == [(0, 10, 2, 0, "load"), (10, 12, 2, 1, "load")]
    assert critical_waits(simulate(program)).tie.tolist() == [Tie.NONE, Tie.QUEUE, Tie.DATA]


def expect_whole(program: Program, idle: Idle) -> None:
    """With its instructions, the idle times of each engine cover the run once; who is waited for runs meanwhile."""
    trace = simulate(program)
    total = int(trace.end_ticks.max(initial=0))
    for engine in range(len(program.engines)):
        own, mine = np.flatnonzero(program.engine == engine), np.flatnonzero(idle.engine == engine)
        begins = np.concatenate([trace.start_ticks[own], idle.begin_ticks[mine]])
        ends = np.concatenate([trace.end_ticks[own], idle.end_ticks[mine]])
        order = np.lexsort((ends, begins))
        edges = np.concatenate([[0], ends[order]])
        assert (begins[order] == edges[:-1]).all()
        assert edges[-1] == total
    assert (idle.end_ticks > idle.begin_ticks).all()
    assert (trace.start_ticks[idle.waited_for] <= idle.begin_ticks).all()
    assert (trace.end_ticks[idle.waited_for] >= idle.end_ticks).all()
    known = idle.waiting >= 0
    assert (program.engine[idle.waiting[known]] == idle.engine[known]).all()
    assert ((idle.cause == len(CAUSES) - 1) == ~known).all()


@pytest.mark.parametrize("seed", range(60))
def test_idle_and_busy_times_are_the_whole_run(seed):
    program = random_program(seed)
    expect_whole(program, idle_of(program))


@pytest.mark.parametrize("strategy", ["tvm", "graphturbo"])
def test_idle_and_busy_times_of_a_network_are_the_whole_run(strategy):
    done = tilestitch.compile("bert-base-128:small", "toy", strategy=strategy)
    program = given(done.program)
    idle = idle_of(program)
    expect_whole(program, idle)
    assert {str(CAUSES[n]) for n in np.unique(idle.cause)} >= {"load", "engine", "room", "done"}


@pytest.mark.parametrize("seed", range(60))
def test_every_instruction_waited_for_one_that_ended_when_it_started(seed):
    """But for those that start at once."""
    trace = simulate(random_program(seed))
    found = critical_waits(trace).instruction
    waiting = found >= 0
    assert (trace.end_ticks[found[waiting]] == trace.start_ticks[waiting]).all()
    assert (trace.start_ticks[~waiting] == 0).all()


def test_names_of_engines_are_as_the_tests_number_them():
    assert [ENGINES[n].name for n in (CONTROL, DMA_OUT, VECTOR0, MOVER1)] == ["control", "dma_out", "vector0", "mover1"]
