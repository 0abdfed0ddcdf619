"""A mapping on a tree simulated, and its values checked: what the user of the simulator gets."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tilestitch.base.errors import InvalidIR
from tilestitch.base.shown import Brief
from tilestitch.hardware.tree import Flow
from tilestitch.ir.choices import Values
from tilestitch.sim.array.values import computed, random_operands, rounding_bound
from tilestitch.sim.tree.clock import (
    COMPUTE,
    ENDED,
    FIRST_LOAD,
    LAST_STORE,
    NOTED_NUMBERS,
    NOW,
    RUNNING,
    STATE_NUMBERS,
    STEPS,
    WAITS,
    advance,
)
from tilestitch.sim.tree.clock import EVENTS as HAPPENED
from tilestitch.sim.tree.run import TreeRun, expect_simulated
from tilestitch.sim.tree.streams import Plan, Streams, plan_of, streams_of
from tilestitch.sim.tree.values import nothing, values_of

EVENTS_AT_ONCE = 2**17  # between two looks at the keyboard
_MOST_LOGGED = 2**20  # tiles and steps of the longest period whose values are moved again in the same order


class LastStep(NamedTuple):
    """Of each period all numbers as they were when the units last began one."""

    state: np.ndarray
    done: np.ndarray
    active: np.ndarray
    left: np.ndarray
    busy: np.ndarray
    causes: np.ndarray


class StreamState(NamedTuple):
    """Of every stream the tiles that have ended, whether one is on its way, and the cycles of each port for it."""

    done: np.ndarray
    active: np.ndarray
    left: np.ndarray
    opened: np.ndarray  # tiles that may have started by now
    wanted: np.ndarray  # and that must have ended before this turn does
    steps: np.ndarray  # that the units have done, of each nest
    total: int  # steps of the nest whose turn it is, until the turn ends
    ending: int  # what cycles after them are spent on
    last: LastStep
    log: np.ndarray  # in which order values moved, since the first of those


class TreeTally(NamedTuple):
    """Cycles for which each port was busy, and of the units by cause; and what is noted of what happens."""

    busy: np.ndarray
    causes: np.ndarray
    notes: np.ndarray


def tally_of(ports: int, operands: int, notes: int = 0) -> TreeTally:
    """Nothing counted yet, and room for so many notes."""
    return TreeTally(
        np.zeros(max(1, ports), np.int64),
        np.zeros(WAITS + operands, np.int64),
        np.zeros((notes, NOTED_NUMBERS), np.int64),
    )


@dataclass(frozen=True, slots=True)
class PortBusy:
    """A port, network or DMA engine, and the cycles for which it was busy."""

    port: str
    cycles: int


@dataclass(frozen=True, slots=True)
class FlowCount:
    """What one operand did in one memory in one direction, in accesses of a port's whole width."""

    operand: str
    memory: str
    flow: Flow
    accesses: float
    energy_pj: float


@dataclass(frozen=True, repr=False)
class SimulatedOnTree(Brief):
    """A mapping on a tree, as the simulator ran it. Where values were computed they were right."""

    run: TreeRun
    values: Values
    cycles: int
    events: int  # moments at which something ended
    cycles_by_cause: Mapping[str, int]
    ports: tuple[PortBusy, ...]
    flows: tuple[FlowCount, ...]
    network_pj: float
    result: np.ndarray | None

    @property
    def energy_pj(self) -> float:
        """Of memories, networks and arithmetic."""
        return sum(self.energy.values())

    @property
    def energy(self) -> dict[str, float]:
        """By component: arithmetic, networks, and every memory by name."""
        found = {"arithmetic": self.run.tree.mac_pj * self.run.nest.macs}
        if self.network_pj > 0:
            found["networks"] = self.network_pj
        for memory in self.run.tree.memories:
            found[memory.name] = sum(flow.energy_pj for flow in self.flows if flow.memory == memory.name)
        return found

    @property
    def utilization(self) -> float:
        """Of all units of the machine."""
        return self.run.nest.macs / self.run.tree.units / self.cycles


def simulate_on_tree(
    run: TreeRun, *, values: Values = Values.INTEGERS, progress: Callable[[int, int], None] | None = None
) -> SimulatedOnTree:
    """Simulate one mapping; with values its result is held against numpy's.

    Raises `InputError` for what is not simulated, `InvalidIR` if the result is wrong.
    """
    expect_simulated(run)
    operands = None if values is Values.NONE else random_operands(run.nest, values)
    found = run_on_tree(run, operands, progress)
    if operands is not None:
        assert found.result is not None
        _expect_right(run, found.result, operands)
    return found


def run_on_tree(
    run: TreeRun,
    operands: Sequence[np.ndarray] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SimulatedOnTree:
    """Simulate one mapping with these arrays as what is read, or without values; nothing is compared."""
    streams = streams_of(run)
    plan = plan_of(streams)
    given = None if operands is None else values_of(streams, operands)
    moves, memory = nothing(streams) if given is None else (given.moves, given.memory)
    state = np.zeros(STATE_NUMBERS, np.int64)
    tally = tally_of(len(streams.ports), len(run.operands))
    now = beginning(plan, tally)._replace(total=run.iterations)
    now.opened[:] = now.wanted[:] = plan.tiles
    while (ended := advance(plan, moves, memory, state, now, tally, EVENTS_AT_ONCE)) == RUNNING:
        if progress is not None:
            progress(int(state[STEPS]), run.iterations)
    if ended != ENDED:
        raise InvalidIR(f"{run.nest.name} on {run.tree.name}: nothing can move any more after {state[NOW]:,} cycles")
    return SimulatedOnTree(
        run,
        kind_of_values(operands),
        int(state[NOW]),
        int(state[HAPPENED]),
        {name: int(tally.causes[at]) for name, at in causes_of(run).items()},
        tuple(PortBusy(name, int(cycles)) for name, cycles in zip(streams.ports, tally.busy, strict=False)),
        flows_of(streams),
        network_pj(streams),
        None if given is None else given.written(run.nest.write.shape),
    )


def causes_of(run: TreeRun) -> dict[str, int]:
    """What the units' cycles are spent on, with the numbers that the clock gives it."""
    causes = {"compute": COMPUTE, "first_load": FIRST_LOAD, "last_store": LAST_STORE}
    return causes | {f"waits_for_{array.name}": WAITS + at for at, array in enumerate(run.operands)}


def beginning(plan: Plan, tally: TreeTally) -> StreamState:
    """Nothing has moved, and nothing may."""
    done, active, left = np.zeros(len(plan.up), np.int64), np.zeros(len(plan.up), np.bool_), np.zeros_like(plan.port)
    count = plan.periods.shape[1]
    kept = [np.repeat(one[None], count, axis=0) for one in (done, active, left, tally.busy, tally.causes)]
    last = LastStep(np.full((count, STATE_NUMBERS), -plan.periods.max() - 2), *kept)
    steps = np.zeros(len(plan.turn), np.int64)
    log = np.zeros(_MOST_LOGGED, np.int16)
    return StreamState(done, active, left, done.copy(), done.copy(), steps, 0, LAST_STORE, last, log)


def kind_of_values(operands: Sequence[np.ndarray] | None) -> Values:
    """What arrays are to be simulated with."""
    if operands is None:
        return Values.NONE
    return Values.INTEGERS if np.issubdtype(operands[0].dtype, np.integer) else Values.FLOATS


def flows_of(streams: Streams) -> tuple[FlowCount, ...]:
    """What the tiles that were moved are in accesses."""
    run, found = streams.run, {}
    for stream in streams.every:
        for access in stream.accesses:
            key = (run.operands[stream.operand].name, access.memory, access.flow)
            moved = sum(tiles * one for tiles, one in zip(stream.carried(), access.accesses, strict=True))
            accesses = float(int(moved))  # of all tiles together, rounded down
            known = found.get(key, (0.0, 0.0))
            found[key] = known[0] + accesses, known[1] + accesses * access.pj
    return tuple(FlowCount(*key, *numbers) for key, numbers in found.items())


def network_pj(streams: Streams) -> float:
    """What networks took for all tiles."""
    return sum(tiles * pj for one in streams.every for tiles, pj in zip(one.carried(), one.delivered_pj, strict=True))


def _expect_right(run: TreeRun, result: np.ndarray, operands: Sequence[np.ndarray]) -> None:
    """Raises `InvalidIR` where a result is not numpy's; of floats where it is further from it than rounding goes."""
    expected = computed(run.nest, operands)
    if np.array_equal(result, expected):
        return
    if np.issubdtype(result.dtype, np.floating):
        allowed = rounding_bound(run.nest, operands)
        wrong = np.argwhere(~(np.abs(result.astype(expected.dtype) - expected) <= allowed))
    else:
        wrong = np.argwhere(result != expected)
    if len(wrong) > 0:
        at = tuple(int(one) for one in wrong[0])
        raise InvalidIR(
            f"{run.nest.name} on {run.tree.name}: the simulated result at {list(at)} is {result[at]}, and numpy's is "
            f"{expected[at]} ({len(wrong):,} of {expected.size:,} differ); loops {run.loops}, cuts {run.cuts}, spread "
            f"{run.spread}"
        )
