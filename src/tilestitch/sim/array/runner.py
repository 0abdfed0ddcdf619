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
from tilestitch.sim.array.state import BUFFERS, JOB_COLUMNS, SLOT_NUMBERS, Array, Flight, Queue
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
    dtype = np.dtype(np.int32)
    if operands is not None and any(np.issubdtype(one.dtype, np.floating) for one in operands):
        dtype = np.dtype(np.float32)
    if operands is None:
        memory = np.zeros(1, dtype)
    else:
        given = zip(operands, nest.reads, strict=True)
        parts = [np.ascontiguousarray(one, dtype).reshape(operand.shape).ravel() for one, operand in given]
        memory = np.concatenate([*parts, np.zeros(prod(nest.write.shape), dtype)])
    room = FIRST_EVENTS
    while True:
        counts, passes = np.zeros(COUNTS, np.int64), np.zeros(len(programs.macs), np.int64)
        events = np.zeros((room if window[1] > window[0] else 1, EVENT_COLUMNS), np.int64)
        found = np.zeros(WINDOW_NUMBERS, np.int64)
        found[:2] = window
        values = operands is not None
        after = memory.copy() if values else memory
        cycles = _run(plan, machine, geometry, after, values, every_slot, counts, passes, events, found, progress)
        if found[FOUND] <= len(events):
            break
        room = int(found[FOUND])
    result = after[-prod(nest.write.shape) :].reshape(nest.write.shape) if values else None
    return ArrayRun(geometry, programs, cycles, counts, passes, result, events[: found[FOUND]])


def _run(
    plan: Plan,
    machine: ArrayMachine,
    geometry: Geometry,
    memory: np.ndarray,
    values: bool,
    every_slot: bool,
    counts: np.ndarray,
    passes: np.ndarray,
    events: np.ndarray,
    window: np.ndarray,
    progress: Callable[[int, int], None] | None,
) -> int:
    operands, loops = len(plan.operands), len(plan.loops)
    array, flight, queue = _empty(plan, machine, memory, values)
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
    while controller.position[FINISHED] == 0:
        step(
            plan,
            controller,
            flight,
            array,
            queue,
            known,
            values,
            every_slot,
            SLOTS_AT_ONCE if every_slot else 64 * SLOTS_AT_ONCE,
            counts,
            passes,
            events,
            window,
        )
        if controller.position[NOW] >= NEVER:
            raise InvalidIR(f"nest {geometry.nest.name!r}: the schedule of its mapping waits for itself")
        if progress is not None:
            progress(int(controller.position[TILES_READ]), tiles)
    return int(controller.position[NOW])


def _empty(plan: Plan, machine: ArrayMachine, memory: np.ndarray, values: bool) -> tuple[Array, Flight, Queue]:
    """An array before its first cycle, with what its memory has."""
    operands = plan.operands
    lanes = int(plan.numbers[LATENCY]) + 1
    widest = max(-(-8 * int(row[RATE_ABOVE]) // int(row[WORD_BITS] * row[RATE_BELOW])) for row in operands) + 1
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
        np.zeros((NETWORKS + 1, lanes, widest), memory.dtype),
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
