"""A mapping on an array, simulated: its cycles, what was counted, and the values that it computed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tilestitch.base.errors import InvalidIR
from tilestitch.base.shown import Brief
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.hardware.microarchitecture import Controller as ControllerKind
from tilestitch.ir.loop_nest import LoopMapping, LoopNest
from tilestitch.sim.array.clock import FINISHED, NOW, POSITION, TILES_READ, Controller, run_overlapped
from tilestitch.sim.array.dirac_clock import run_dirac
from tilestitch.sim.array.dma import NEVER, QUEUE_NUMBERS
from tilestitch.sim.array.events import EVENT_COLUMNS, FOUND, WINDOW_NUMBERS
from tilestitch.sim.array.geometry import Geometry
from tilestitch.sim.array.jobs import VISIT_COLUMNS
from tilestitch.sim.array.log import L_BUFFERS, L_HOP
from tilestitch.sim.array.plan import (
    BANKS,
    BUFFER,
    ELEMENTS,
    LATENCY,
    NETWORKS,
    RATE_ABOVE,
    RATE_BELOW,
    TILE,
    WORD_BITS,
    Plan,
    plan_of,
)
from tilestitch.sim.array.programs import Programs, programs_of, sums_of
from tilestitch.sim.array.refusals import refuse_contradiction, refuse_misfit, refuse_unsupported
from tilestitch.sim.array.repeats import KNOWN, Known
from tilestitch.sim.array.state import BUFFERS, JOB_COLUMNS, SLOT_NUMBERS, Array, Flight, Log, Queue
from tilestitch.sim.array.streams import streams_of
from tilestitch.sim.array.tally import COUNTS
from tilestitch.sim.array.transfers import transfers_of

MOST_PASSES = 8  # that have begun and have not read a register yet
SLOTS_AT_ONCE = 2**11  # between two looks at the keyboard
FIRST_EVENTS = 2**12  # room for events; more is made where a window has more


@dataclass(frozen=True, repr=False)
class ArrayRun(Brief):
    """What a simulation found. Counts are by `tally`; `passes` is how many of each class were computed."""

    geometry: Geometry
    programs: Programs
    cycles: int
    counts: np.ndarray
    passes: np.ndarray
    result: np.ndarray | None  # of the shape of what is written; None without values
    events: np.ndarray  # rows by `events`, in the order in which they ended up in the window

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all elements."""
        return int(self.passes @ self.programs.macs)

    @property
    def busy(self) -> np.ndarray:
        """Multiply-accumulates of each element; those that the mapping does not use are not there."""
        return self.passes @ self.programs.busy


def run_mapping(
    nest: LoopNest,
    machine: ArrayMachine,
    mapping: LoopMapping,
    operands: Sequence[np.ndarray] | None = None,
    *,
    every_slot: bool = True,
    window: tuple[int, int] = (0, 0),
    progress: Callable[[int, int], None] | None = None,
) -> ArrayRun:
    """Simulate one mapping.

    `operands` are the arrays that are read, of the shapes of their operands; integers of up to 32 bits are computed in
    32 bits, which wrap around as numpy's do, and floats in float32, added in the order of the array. Without them
    nothing is computed, and the same is counted. `every_slot=False` leaves out slots that are like others, which
    needs `operands` to be None and no window. Raises InputError and DoesNotFit for what has no schedule.
    """
    assert every_slot or (operands is None and window[0] == window[1]), "values and events need every slot"
    prepared = prepare(nest, machine, mapping)
    geometry, programs = prepared.geometry, prepared.programs
    memory = memory_of(nest, operands)
    room = FIRST_EVENTS
    while True:
        counts, passes = np.zeros(COUNTS, np.int64), np.zeros(len(programs.macs), np.int64)
        events = np.zeros((room if window[1] > window[0] else 1, EVENT_COLUMNS), np.int64)
        found = np.zeros(WINDOW_NUMBERS, np.int64)
        found[:2] = window
        values = operands is not None
        after = memory.copy() if values else memory
        tally = ArrayTally(counts, passes, events, found)
        log = empty_log(prepared.plan, after.dtype, (0, 0))
        cycles = run_until(int(NEVER), prepared, after, values, every_slot, tally, log, progress)
        if found[FOUND] <= len(events):
            break
        room = int(found[FOUND])
    result = after[-prod(nest.write.shape) :].reshape(nest.write.shape) if values else None
    return ArrayRun(geometry, programs, cycles, counts, passes, result, events[: found[FOUND]])


@dataclass(frozen=True, repr=False)
class Prepared(Brief):
    """A mapping that has a schedule, as the clock takes it."""

    machine: ArrayMachine
    geometry: Geometry
    programs: Programs
    plan: Plan


@dataclass(frozen=True, repr=False)
class ArrayTally(Brief):
    """Where a run counts, and keeps the events of its window."""

    counts: np.ndarray
    passes: np.ndarray
    events: np.ndarray
    window: np.ndarray


def prepare(nest: LoopNest, machine: ArrayMachine, mapping: LoopMapping) -> Prepared:
    """The plan of a mapping; raises InputError and DoesNotFit for what has no schedule."""
    refuse_contradiction(machine)
    refuse_unsupported(nest, mapping)
    geometry = Geometry.of(nest, mapping, machine)
    refuse_misfit(geometry, machine)
    programs = programs_of(geometry)
    plan = plan_of(
        geometry,
        machine,
        streams_of(geometry, multicast=machine.multicast),
        programs,
        sums_of(geometry, machine),
        transfers_of(geometry),
    )
    return Prepared(machine, geometry, programs, plan)


def memory_of(nest: LoopNest, operands: Sequence[np.ndarray] | None) -> np.ndarray:
    """DRAM before the first cycle: the arrays one after another, and room for what is written."""
    dtype = np.dtype(np.int32)
    if operands is not None and any(np.issubdtype(one.dtype, np.floating) for one in operands):
        dtype = np.dtype(np.float32)
    if operands is None:
        return np.zeros(1, dtype)
    given = zip(operands, nest.reads, strict=True)
    parts = [np.ascontiguousarray(one, dtype).reshape(operand.shape).ravel() for one, operand in given]
    return np.concatenate([*parts, np.zeros(prod(nest.write.shape), dtype)])


def run_until(
    end: int,
    prepared: Prepared,
    memory: np.ndarray,
    values: bool,
    every_slot: bool,
    tally: ArrayTally,
    log: Log,
    progress: Callable[[int, int], None] | None,
) -> int:
    """Run until a cycle that is not before `end`, or until all is done; the cycle. What is in `log` is written there.

    Stops at the end of a slot, with the controller of DiRAC at that of a tile; `NEVER` is the end of everything.
    """
    plan, machine, geometry = prepared.plan, prepared.machine, prepared.geometry
    operands, loops = len(plan.operands), len(plan.loops)
    array, flight, queue = _empty(plan, machine, memory, values)
    most_at_once = 1 if end < NEVER else SLOTS_AT_ONCE if every_slot else 64 * SLOTS_AT_ONCE
    at_once = 1  # few while it is interpreted: see `tiers`
    controller = Controller(
        position=np.zeros(POSITION, np.int64),
        tile=np.zeros(loops, np.int64),
        turn=np.zeros(loops, np.int64),
        moved=np.zeros(operands, np.int64),
        tile_moved=np.zeros(operands, np.int64),
        half=np.zeros(operands, np.int64),
        buffer=np.zeros(operands, np.int64),
        new_buffer=np.zeros(operands, np.int64),
        visit=np.zeros(VISIT_COLUMNS, np.int64),
        coming=np.zeros(VISIT_COLUMNS, np.int64),
        gone=np.zeros(VISIT_COLUMNS, np.int64),
        slot=np.zeros(SLOT_NUMBERS, np.int64),
        jobs=np.zeros((operands + 1, JOB_COLUMNS), np.int64),
        loaded=array.loaded,
    )
    tiles = prod(geometry.mapping.dram)
    if machine.micro.controller is ControllerKind.DIRAC:
        step = run_dirac
    else:
        step = run_overlapped
    known = Known(
        np.full(KNOWN, -1, np.int64),
        np.zeros(KNOWN, np.int64),
        np.zeros(KNOWN, np.int64),
        np.zeros((KNOWN, COUNTS), np.int64),
    )
    while controller.position[FINISHED] == 0 and controller.position[NOW] < end:
        step(
            plan,
            controller,
            flight,
            array,
            log,
            queue,
            known,
            values,
            every_slot,
            at_once,
            tally.counts,
            tally.passes,
            tally.events,
            tally.window,
        )
        at_once = min(2 * at_once, most_at_once)
        if controller.position[NOW] >= NEVER:
            raise InvalidIR(f"nest {geometry.nest.name!r}: the schedule of its mapping waits for itself")
        if progress is not None:
            progress(int(controller.position[TILES_READ]), tiles)
    return int(controller.position[NOW])


def empty_log(plan: Plan, dtype: np.dtype, window: tuple[int, int]) -> Log:
    """Room for what happens in a window of cycles: the first, and the one after the last."""
    first = max(0, window[0] - int(plan.numbers[LATENCY]) - 1)
    cycles = window[1] - first
    columns = L_BUFFERS + len(plan.operands)
    log = Log(
        np.array([first, window[0], window[1], 0], np.int64),
        np.zeros((cycles, columns), np.int64),
        np.zeros((cycles, NETWORKS + 1, _widest(plan)), dtype),
        np.zeros(int(2 * plan.operands[:, BUFFER].sum()) if cycles > 0 else 0, dtype),
    )
    log.cycles[:, :L_HOP] = -1
    return log


def _widest(plan: Plan) -> int:
    """Words that a network sends in a cycle at most."""
    rates = (-(-8 * int(row[RATE_ABOVE]) // int(row[WORD_BITS] * row[RATE_BELOW])) for row in plan.operands)
    return max(rates) + 1


def _empty(plan: Plan, machine: ArrayMachine, memory: np.ndarray, values: bool) -> tuple[Array, Flight, Queue]:
    """An array before its first cycle, with what its memory has."""
    operands = plan.operands
    lanes = int(plan.numbers[LATENCY]) + 1
    elements = int(plan.numbers[ELEMENTS])
    array = Array(
        np.zeros(int(2 * operands[:, BUFFER].sum()) if values else 1, memory.dtype),
        np.zeros(int(2 * operands[:, TILE].sum()) if values else 1, memory.dtype),
        memory,
        np.zeros(BUFFERS + len(operands), np.int64),
        np.full((MOST_PASSES, BUFFERS + len(operands)), -1, np.int64),
        np.full((2, int(2 * operands[:, BANKS].sum())), -1, np.int64),
        np.full((2, int(2 * operands[:, BANKS].sum())), -1, np.int64),
        np.zeros((NETWORKS, elements), np.int64),
        np.zeros((NETWORKS, elements), np.int64),
        np.zeros(NETWORKS, np.int64),
    )
    flight = Flight(
        np.zeros((NETWORKS + 1, lanes), np.int64),
        np.zeros((NETWORKS + 1, lanes), np.int64),
        np.zeros((NETWORKS + 1, lanes), np.int64),
        np.zeros((NETWORKS + 1, lanes, _widest(plan)), memory.dtype),
    )
    queue = Queue(
        np.zeros(QUEUE_NUMBERS, np.int64),
        np.zeros(len(plan.loops), np.int64),
        np.zeros(len(operands), np.int64),
        np.zeros(len(operands), np.int64),
        np.zeros((3, 5), np.int64),
        np.zeros(machine.dma_channels, np.int64),
        np.full(machine.dma_channels, -1, np.int64),
        np.zeros(1, np.int64),
    )
    return array, flight, queue
