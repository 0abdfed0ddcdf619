"""The chip simulator's clock: against a naive simulator, against laws, and by hand; and the energy of what it saw."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.pairs import one_of
from tests.helpers.programs import Row, compute, copy, make_program, port, random_program
from tilestitch.base.dtypes import DType
from tilestitch.base.errors import InputError, InvalidIR
from tilestitch.hardware.accelerator import (
    Accelerator,
    Core,
    Dataflow,
    Level,
    Link,
    MatrixUnit,
    Memory,
    Setup,
    Sharing,
    VectorUnit,
)
from tilestitch.ir.graph import Access, Axis, Dim, DimKind, Graph, Operator, Tensor
from tilestitch.ir.program import Engine, EngineKind, Flag, Kind, Program
from tilestitch.ir.region import Region
from tilestitch.ir.trace import Trace
from tilestitch.sim.chip.energy import energy
from tilestitch.sim.chip.timing import sharing, simulate

SEEDS = range(300)


def cycles(trace: Trace) -> list[tuple[Fraction, Fraction]]:
    """Start and end of every instruction in cycles."""
    per_cycle = trace.ticks_per_cycle
    pairs = zip(trace.start_ticks.tolist(), trace.end_ticks.tolist(), strict=True)
    return [(Fraction(a, per_cycle), Fraction(b, per_cycle)) for a, b in pairs]


def spans(rows: Sequence[Row], *resources, granule_bytes: int = 4096) -> list[tuple[Fraction, Fraction]]:
    return cycles(simulate(make_program(rows, resources, granule_bytes=granule_bytes)))


class Naive:
    """The rules again, as plainly as they can be said: look at one moment after the other, in fractions of a cycle."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.rows = list(program)
        self.names = [engine.name for engine in program.engines]
        self.queue = {name: [row.number for row in self.rows if row.engine == name] for name in self.names}
        self.start: dict[int, Fraction] = {}
        self.end: dict[int, Fraction] = {}
        self.requested: dict[str, Fraction] = {}  # engine -> when it asks for its next granule
        self.granule: dict[int, int] = {}
        self.free = [Fraction(0)] * len(program.resources)
        self.busy = [Fraction(0)] * len(program.resources)
        self.bytes = [0] * len(program.resources)

        now = Fraction(0)
        while True:
            while self.start_something(now):
                pass
            for name in self.names:
                if self.requested.get(name) == now:
                    self.serve(name, now)
            later = [t for t in (*self.end.values(), *self.requested.values()) if t > now]
            if not later:
                break
            now = min(later)

    def start_something(self, now: Fraction) -> bool:
        """Start one instruction that can start now, if there is one."""
        for name in self.names:
            started = [number for number in self.queue[name] if number in self.start]
            if len(started) == len(self.queue[name]):
                continue
            row = self.rows[self.queue[name][len(started)]]
            if all(number in self.end and self.end[number] <= now for number in (*started, *row.waits)):
                assert now == ceil(now)
                self.start[row.number] = now
                if self.path(row.number) and row.size_bytes and row.kind in (Kind.COPY, Kind.GATHER):
                    self.requested[name] = now + row.cycles
                    self.granule[row.number] = 0
                else:
                    self.end[row.number] = now + row.cycles
                return True
        return False

    def path(self, number: int) -> tuple[int, ...]:
        path = int(self.program.path[number])
        return () if path < 0 else self.program.paths[path]

    def size(self, number: int, resource: int) -> int:
        """Bytes with every run rounded up, run by run."""
        left, run = self.rows[number].size_bytes, int(self.program.run_bytes[number])
        burst, total = self.program.resources[resource].burst_bytes, 0
        while left > 0:
            piece = min(left, run or left)
            total += ceil(Fraction(piece, burst)) * burst
            left -= piece
        return total

    def serve(self, name: str, now: Fraction) -> None:
        number = max(n for n in self.queue[name] if n in self.start)
        sizes = {r: self.size(number, r) for r in self.path(number)}
        g = self.granule[number]
        count = max(ceil(Fraction(size, self.program.granule_bytes)) for size in sizes.values())
        passed = now
        for r in self.path(number):
            share = sizes[r] * (g + 1) // count - sizes[r] * g // count
            time = share / self.program.resources[r].bandwidth_bytes_per_cycle
            self.free[r] = max(now, self.free[r]) + time
            self.busy[r] += time
            self.bytes[r] += share
            passed = max(passed, self.free[r])
        self.granule[number] = g + 1
        if g + 1 < count:
            self.requested[name] = passed
        else:
            del self.requested[name]
            self.end[number] = Fraction(ceil(passed))


CASES = [*({"seed": seed} for seed in SEEDS), *({"seed": seed, "rows": 120, "engines": 80} for seed in range(10))]


@pytest.mark.parametrize("case", one_of(4, CASES), ids=lambda case: "-".join(map(str, case.values())))
def test_a_naive_simulator_agrees_to_the_tick(case):
    """Start and end of every instruction, busy time and bytes of every resource are those of the rules, exactly."""
    program = random_program(**case)
    trace, naive = simulate(program), Naive(program)
    assert cycles(trace) == [(naive.start[i], naive.end[i]) for i in range(len(program))]
    assert [Fraction(t, trace.ticks_per_cycle) for t in trace.resource_busy_ticks.tolist()] == naive.busy
    assert trace.resource_bytes.tolist() == naive.bytes


@pytest.mark.quick
@pytest.mark.parametrize("seed", SEEDS)
def test_no_trace_beats_its_bounds(seed):
    """Engines run in order and one at a time, waits hold, and no resource passes more than its bandwidth."""
    program = random_program(seed)
    trace = simulate(program)
    when = cycles(trace)
    free = dict.fromkeys((engine.name for engine in program.engines), Fraction(0))
    for row, (start, end) in zip(program, when, strict=True):
        assert start == ceil(start) >= max([free[row.engine], *(when[wait][1] for wait in row.waits)])
        assert end == ceil(end) >= start + row.cycles
        free[row.engine] = end
        if row.kind in (Kind.COPY, Kind.GATHER) and program.path[row.number] >= 0:
            for r in program.paths[program.path[row.number]]:
                flow = row.size_bytes / program.resources[r].bandwidth_bytes_per_cycle
                assert end >= start + row.cycles + flow
    for resource, size_bytes in zip(program.resources, trace.resource_bytes.tolist(), strict=True):
        assert trace.latency_cycles >= size_bytes / resource.bandwidth_bytes_per_cycle


def doubled(program: Program, number: int) -> Program:
    """The program with twice the bandwidth of one resource."""
    resources = list(program.resources)
    found = resources[number]
    resources[number] = replace(found, bandwidth_bytes_per_cycle=found.bandwidth_bytes_per_cycle * 2)
    return replace(program, resources=tuple(resources))


def none_later(faster: Program, slower: Program) -> bool:
    return all(a[1] <= b[1] for a, b in zip(cycles(simulate(faster)), cycles(simulate(slower)), strict=True))


@pytest.mark.parametrize("seed", range(60))
def test_more_bandwidth_never_hurts_a_chain(seed):
    """Where every instruction waits for the one before, nothing competes, so a faster resource only shortens."""
    program = random_program(seed)
    offsets = np.maximum(np.arange(-1, len(program)), 0)
    chain = replace(program, wait_offsets=offsets, waits=np.arange(len(program) - 1))
    for number in range(len(program.resources)):
        assert none_later(doubled(chain, number), chain)


@pytest.mark.parametrize("seed", range(60))
def test_without_shared_resources_less_waiting_never_hurts(seed):
    """Engines with resources of their own only wait for ends: fewer waits or more bandwidth delay nothing.

    With shared resources neither holds: an earlier request may overtake a transfer that mattered more.
    """
    program = random_program(seed, private=True)
    for number in range(len(program.resources)):
        assert none_later(doubled(program, number), program)
    for at in range(len(program.waits)):
        offsets = program.wait_offsets - (program.wait_offsets > at)
        assert none_later(replace(program, wait_offsets=offsets, waits=np.delete(program.waits, at)), program)


@pytest.mark.parametrize("seed", SEEDS[:60])
def test_sharing_is_what_a_transfer_takes_longer_than_alone(seed):
    """To the cycle that it rounds up to; and where there was a delay, somebody else caused it."""
    program = random_program(seed)
    trace, found = simulate(program), sharing(program)
    taken = trace.end_ticks - trace.start_ticks
    for row in program:
        alone = simulate(only(program, row.number))
        late = int(taken[row.number] - alone.end_ticks[0])
        assert abs(late - int(found.delay_ticks[row.number])) < trace.ticks_per_cycle
        assert (found.behind[row.number] >= 0) == (found.delay_ticks[row.number] > 0)
        assert found.behind[row.number] != row.number


def only(program: Program, number: int) -> Program:
    """One instruction, alone on the machine."""
    names = ("engine", "kind", "flags", "kernel", "iteration", "operator", "box", "cycles", "size_bytes", "run_bytes")
    columns = {name: getattr(program, name)[number : number + 1] for name in (*names, "path")}
    offsets = np.zeros(2, np.int64)
    return replace(program, **columns, operand_offsets=offsets, wait_offsets=offsets, waits=np.zeros(0, np.int64))


def test_sharing_by_hand():
    """Two transfers of two granules take turns: the first waits one cycle, the second two."""
    program = make_program([copy(0, 8192, (0,)), copy(1, 8192, (0,)), compute(2, 9)], [port("ddr", 4096)])
    found, ticks = sharing(program), simulate(program).ticks_per_cycle
    assert [int(delay) // ticks for delay in found.delay_ticks] == [1, 2, 0]
    assert found.behind.tolist() == [1, 0, -1]


def test_two_runs_give_the_same_bytes():
    first, second = simulate(random_program(1)), simulate(random_program(1))
    assert first.start_ticks.tobytes() == second.start_ticks.tobytes()
    assert first.end_ticks.tobytes() == second.end_ticks.tobytes()


PRINT_TRACES = """
from tests.helpers.programs import random_program
from tilestitch.sim.chip.timing import simulate
for seed in range(20):
    trace = simulate(random_program(seed))
    print(trace.start_ticks.tolist(), trace.end_ticks.tolist(), trace.resource_bytes.tolist())
"""


def test_interpreted_and_compiled_agree():
    """The same code without the JIT, where integers cannot be mistyped and indices are checked."""
    printed = [
        subprocess.run(
            [sys.executable, "-c", PRINT_TRACES],
            cwd=Path(__file__).parent.parent.parent,
            env=os.environ | {"NUMBA_DISABLE_JIT": off},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for off in ("0", "1")
    ]
    assert printed[0] == printed[1] != ""


def test_an_empty_program_takes_no_time():
    assert simulate(make_program([])).latency_cycles == 0


def test_a_compute_takes_exactly_its_cycles():
    """Also none at all, and one after the other on one engine."""
    assert spans([compute(0, 7), compute(0, 0), compute(1, 5), compute(0, 3, [2])]) == [(0, 7), (7, 7), (0, 5), (7, 10)]


def test_a_launch_takes_exactly_its_cycles():
    assert spans([compute(1, 7), Row(0, Kind.LAUNCH, 1000, (0,))]) == [(0, 7), (7, 1007)]


@pytest.mark.quick
def test_a_copy_takes_its_setup_and_its_slowest_resource():
    """Not the sum over its path: granules flow through DDR and GB at once."""
    program = make_program([copy(0, 10_000, (0, 1), setup=100)], [port("ddr", 8), port("gb", 64)])
    trace = simulate(program)
    assert cycles(trace) == [(0, 100 + 1250)]
    assert trace.resource_bytes.tolist() == [10_000, 10_000]
    assert [Fraction(t, trace.ticks_per_cycle) for t in trace.resource_busy_ticks.tolist()] == [1250, Fraction(625, 4)]


def test_every_copy_pays_its_setup():
    rows = [copy(0, 80, (0,), setup=100)] * 3
    assert spans(rows, port("ddr", 8)) == [(0, 110), (110, 220), (220, 330)]


@pytest.mark.parametrize("kind", [Kind.COPY, Kind.GATHER])
@pytest.mark.parametrize("size_bytes, path", [(0, (0,)), (80, None)])
def test_a_copy_without_bytes_or_path_takes_its_setup(kind, size_bytes, path):
    assert spans([Row(0, kind, 12, (), size_bytes, path)], port("ddr", 8)) == [(0, 12)]


@pytest.mark.parametrize("size_bytes, expected", [(239, 8), (240, 9), (1, 1), (478, 16)])
def test_a_copy_ends_on_a_whole_cycle(size_bytes, expected):
    """239/8 bytes a cycle: one byte more than eight cycles' worth costs a ninth, and the next waits for it."""
    assert spans([copy(0, size_bytes, (0,)), compute(1, 1, [0])], port("ddr", "239/8"))[1] == (expected, expected + 1)


def test_a_resource_is_free_before_the_cycle_is_over():
    """Rounding delays the instruction, not the resource: two copies of 10/3 cycles pass it in 20/3."""
    assert spans([copy(0, 10, (0,)), copy(1, 10, (0,))], port("ddr", 3)) == [(0, 4), (0, 7)]


@pytest.mark.quick
def test_copies_share_a_resource_granule_by_granule():
    """Two granules each at a cycle a granule: they take turns, and the lower engine goes first."""
    assert spans([copy(0, 8192, (0,)), copy(1, 8192, (0,))], port("ddr", 4096)) == [(0, 3), (0, 4)]


def test_a_short_copy_overtakes_a_long_one():
    assert spans([copy(0, 100 * 4096, (0,)), copy(1, 4096, (0,))], port("ddr", 4096)) == [(0, 101), (0, 2)]


def test_the_earlier_request_goes_first():
    """Before the number of the engine counts, the time of the request does."""
    assert spans([copy(0, 80, (0,), setup=1), copy(1, 80, (0,))], port("ddr", 8)) == [(0, 20), (0, 10)]


@pytest.mark.parametrize("cause", [compute(2, 10), Row(2, Kind.COPY, 10, (), 80, None)])
def test_requests_of_one_moment_go_by_engine_however_they_came_about(cause):
    """Engine 0 may ask only because engine 2 ended in this very cycle, and still goes first."""
    rows = [cause, copy(1, 80, (0,), setup=10), copy(0, 80, (0,), [0])]
    assert spans(rows, port("ddr", 8)) == [(0, 10), (0, 30), (10, 20)]


def test_a_granule_waits_for_the_slowest_resource_of_its_path():
    """While another copy holds port b, the granule on a and b leaves a idle, and a third may pass there."""
    rows = [copy(0, 80, (1,)), copy(1, 80, (0, 1)), copy(2, 80, (0,))]
    assert spans(rows, port("a", 8), port("b", 8)) == [(0, 10), (0, 20), (0, 20)]


def test_a_broadcast_occupies_its_source_once():
    """Three copies to three cores take GB three times as long."""
    resources = [port("gb", 8), port("lb0", 64), port("lb1", 64), port("lb2", 64)]
    once = simulate(make_program([copy(0, 800, (0, 1, 2, 3))], resources))
    thrice = simulate(make_program([copy(0, 800, (0, target)) for target in (1, 2, 3)], resources))
    assert (once.latency_cycles, thrice.latency_cycles) == (100, 300)
    assert once.resource_bytes.tolist() == [800, 800, 800, 800]
    assert thrice.resource_bytes.tolist() == [2400, 800, 800, 800]


def test_runs_round_up_to_the_burst_of_each_resource():
    """100 runs of 4 bytes are 6,400 bytes at bursts of 64, and 400 at bursts of 4."""
    program = make_program([copy(0, 400, (0, 1), run_bytes=4)], [port("ddr", 8, 64), port("gb", 8, 4)])
    trace = simulate(program)
    assert trace.resource_bytes.tolist() == [6400, 400]
    assert trace.latency_cycles == 800


def test_the_last_run_may_be_shorter():
    program = make_program([copy(0, 70, (0,), run_bytes=33)], [port("ddr", 8, 32)])
    assert simulate(program).resource_bytes.tolist() == [64 + 64 + 32]


def test_ticks_make_every_byte_exact():
    trace = simulate(make_program([copy(0, 1, (0, 1))], [port("a", "239/8"), port("b", "3/2")]))
    assert trace.ticks_per_cycle == 717
    assert trace.resource_busy_ticks.tolist() == [24, 478]


def test_fine_ticks_are_as_exact():
    """A rate of 29.867 GB/s at 1 GHz beside one of 512 B/cycle needs a tick of 1/15,291,904 cycle."""
    trace = simulate(make_program([copy(0, 29_867_000, (0, 1))], [port("a", "29867/1000"), port("b", 512)]))
    assert trace.ticks_per_cycle == 29_867 * 512
    assert trace.latency_cycles >= 10**6
    assert trace.resource_busy_ticks[0] == 10**6 * trace.ticks_per_cycle


def test_bandwidths_without_a_common_tick_take_a_byte_longer_than_stated():
    """By less than a millionth here; rates that share a tick with the smaller ones are exact beside them."""
    ports = [port("a", 10_007), port("b", "10009/2"), port("c", 64)]
    trace = simulate(make_program([copy(0, 64_000, (2,)), copy(1, 50_045_001, (1,))], ports))
    assert cycles(trace) == [(0, 1000), (0, 10_001)]  # 10,000.0002 cycles
    busy = Fraction(trace.resource_busy_ticks.tolist()[1], trace.ticks_per_cycle)
    exact = Fraction(2 * 50_045_001, 10_009)
    assert exact < busy < exact * (1 + Fraction(1, 10**6))


@pytest.mark.parametrize("seed", range(20))
def test_rounded_bytes_make_no_instruction_of_a_chain_early(seed):
    """Each ends where the naive simulator with exact fractions has it, or up to a cycle for each instruction later."""
    program = random_program(seed)
    offsets = np.maximum(np.arange(-1, len(program)), 0)
    chained = replace(program, wait_offsets=offsets, waits=np.arange(len(program) - 1))
    odd = [Fraction(10_007 + 2 * at, 11 + at) for at in range(len(program.resources))]
    rated = [replace(one, bandwidth_bytes_per_cycle=rate) for one, rate in zip(program.resources, odd, strict=True)]
    chained = replace(chained, resources=tuple(rated))
    naive = Naive(chained)
    ends = [end for _, end in cycles(simulate(chained))]
    assert all(naive.end[at] <= end <= naive.end[at] + at + 1 for at, end in enumerate(ends))


def test_a_program_longer_than_64_bits_of_ticks_is_refused():
    with pytest.raises(InputError, match="too many for ticks of 64 bits"):
        simulate(make_program([compute(0, 2**60), copy(0, 1, (0,))], [port("a", 997)]))


@pytest.mark.quick
def test_a_deadlock_names_the_first_instruction_of_each_engine():
    """Instruction 1 waits for a later one of its own engine, 4 and 5 for each other, and 3 for one of them."""
    rows = [compute(0, 1), compute(0, 1, [0, 2]), compute(0, 1), compute(1, 1, [5]), compute(2, 1, [5])]
    with pytest.raises(InvalidIR) as error:
        simulate(make_program([*rows, compute(3, 1, [0, 4])]))
    assert str(error.value) == (
        "program: 5 of 6 instructions can never start; waits must lead to instructions that end first. The first on "
        "each engine:\n"
        "  e0: instruction 1 waits for 2 (e0)\n"
        "  e1: instruction 3 waits for 5 (e3)\n"
        "  e2: instruction 4 waits for 5 (e3)\n"
        "  e3: instruction 5 waits for 4 (e2)"
    )


def test_a_deadlock_of_many_engines_names_eight():
    rows = [compute(e, 1, [(e + 1) % 10]) for e in range(10)]
    with pytest.raises(InvalidIR, match=r"e7: instruction 7 waits for 8 \(e8\)\n  and 2 more engines$"):
        simulate(make_program(rows))


@pytest.mark.parametrize(
    "rows, message",
    [
        ([compute(0, 1, [3])], r"waits\[0\]: expected 0 to 0, found 3"),
        ([compute(0, 1), compute(0, 1, [-1])], r"waits\[0\]: expected 0 to 1, found -1"),
        ([compute(0, -1)], r"cycles\[0\]"),
        ([copy(0, -8, (0,))], r"size_bytes\[0\]"),
        ([copy(0, 8, (1,))], r"paths\[0\]: expected 0 to 0, found 1"),
        ([copy(0, 8, ())], "a path must list a resource"),
    ],
)
def test_what_is_no_program_is_refused(rows, message):
    with pytest.raises(InvalidIR, match=message):
        simulate(make_program(rows, [port("ddr", 8)]))


def test_wait_offsets_that_do_not_fit_their_waits_are_refused():
    program = make_program([compute(0, 1), compute(0, 1, [0])])
    with pytest.raises(InvalidIR, match="expected 3 that rise from 0 to 1"):
        simulate(replace(program, wait_offsets=np.array([0, 2, 1])))


# Energy.

M, K, N = Dim("m", 4, DimKind.PARALLEL), Dim("k", 8, DimKind.REDUCTION), Dim("n", 6, DimKind.PARALLEL)


def index(*dims: int) -> tuple[Axis, ...]:
    return tuple(Axis(((dim, 1),)) for dim in dims)


PRODUCT = Operator(
    "product", "matmul", (M, N, K), (Access("x", index(0, 2)), Access("w", index(2, 1))), (Access("y", index(0, 1)),)
)
CLAMP = Operator("clamp", "relu", (M, N), (Access("y", index(0, 1)),), (Access("z", index(0, 1)),))
TENSORS = {
    name: Tensor(name, shape, DType.FLOAT16, (0, 1))
    for name, shape in (("x", (4, 8)), ("w", (8, 6)), ("y", (4, 6)), ("z", (4, 6)))
}
TWO = Graph("two", TENSORS, (PRODUCT, CLAMP), ("x", "w"), ("z",), {})
HALF = Region((0, 0, 0), (2, 6, 8))


def machine(*cores: tuple[float | None, float]) -> Accelerator:
    """Cores with these energies of a multiply-accumulate (None: no matrix unit) and of a vector operation."""
    rates = ((DType.FLOAT16, Fraction(1)),)
    return Accelerator(
        name="two",
        description="",
        clock_hz=10**9,
        clusters=1,
        cores=tuple(
            Core(
                None if mac is None else MatrixUnit("m", 1, 8, 8, Dataflow.OUTPUT_STATIONARY, False, True, rates, mac),
                VectorUnit("v", ((DType.FLOAT16, 8),), operation),
            )
            for mac, operation in cores
        ),
        memories=(Memory(Level.DDR, Sharing.CLUSTER, 2**20, Fraction(8), 64, 100.0, 100.0),),
        link=Link(Fraction(8), 1.0),
        setup=Setup(0, 0, 0, 0),
        granule_bytes=4096,
    )


def test_energy_is_that_of_the_links_and_of_the_arithmetic():
    """Each unit has its own core's energies; what memories take is tested on a real program."""
    rows = [
        copy(0, 100, (0, 1)),
        copy(1, 100, (2,)),
        compute(0, 5, operator="product", box=HALF, flags=Flag.MATRIX | Flag.FIRST | Flag.LAST),
        compute(1, 5, operator="product", box=HALF, flags=Flag.MATRIX),
        compute(1, 5, operator="product", box=HALF, flags=Flag.MATRIX),
        compute(0, 5, operator="product", box=HALF),
        compute(1, 5, operator="clamp", box=CLAMP.whole),
    ]
    ports = [port("link0", 8, 64, 10.0), port("link1", 8, 1, 2.0), port("link2", 8, 1, 3.0)]
    trace = simulate(make_program(rows, ports, graph=TWO))
    found = energy(trace, machine((0.5, 4.0), (0.25, 8.0)))
    assert found.links_pj == 128 * 10.0 + 100 * 2.0 + 100 * 3.0
    assert found.matrix_pj == 96 * 0.5 + 2 * 96 * 0.25
    assert found.vector_pj == 96 * 4.0 + 24 * 8.0
    assert found.total_pj == 1280 + 500 + 96 + 384 + 192


def test_energy_of_a_matrix_unit_that_is_not_there_is_refused():
    trace = simulate(make_program([compute(0, 5, operator="product", box=HALF, flags=Flag.MATRIX)], graph=TWO))
    with pytest.raises(InvalidIR, match="matrix unit of core 0"):
        energy(trace, machine((None, 1.0)))


@pytest.mark.parametrize("row, core", [(compute(0, 5), 0), (compute(0, 5, operator="clamp", box=CLAMP.whole), None)])
def test_energy_of_an_anonymous_compute_is_refused(row, core):
    """Nothing costs nothing by omission."""
    engines = [Engine("vector", EngineKind.VECTOR, core)]
    with pytest.raises(InvalidIR, match="has no operator, box or core"):
        energy(simulate(make_program([row], engines=engines, graph=TWO)), machine((1.0, 1.0)))
