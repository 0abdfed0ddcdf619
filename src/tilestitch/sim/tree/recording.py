"""What ports and units of a tree do in some cycles, one piece of time after another, without values.

The clock is that of every simulation. Until a recording begins it counts periods that repeat at once; in it, none.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilestitch.sim.tree.chain import ChainRun
from tilestitch.sim.tree.chain_simulated import causes_of_chain, operand_names, record_chain
from tilestitch.sim.tree.clock import (
    FROM,
    NOTED,
    NOTED_NUMBERS,
    NOW,
    PORT,
    RUNNING,
    STATE_NUMBERS,
    STEPS,
    STREAM,
    TILE,
    UNTIL,
    advance,
)
from tilestitch.sim.tree.run import TreeRun
from tilestitch.sim.tree.simulated import beginning, causes_of, tally_of
from tilestitch.sim.tree.streams import Streams, plan_of, streams_of
from tilestitch.sim.tree.values import nothing


@dataclass(frozen=True, slots=True)
class Way:
    """Tiles of an operand, by its number, from one memory or the units to another."""

    operand: int
    text: str


@dataclass(frozen=True, eq=False)
class Recording:
    """Cycles from `begin` until before `end`, as notes of the clock: [note, of what].

    Notes follow one another of every port and of the units; neighbours that are alike are one.
    """

    begin: int
    end: int
    ports: tuple[str, ...]
    operands: tuple[str, ...]
    ways: tuple[Way, ...]  # of each stream
    causes: Mapping[str, int]  # what units do, by the number that is noted
    notes: NDArray[np.int64]


def recorded(run: TreeRun, first_step: int, most_notes: int) -> Recording:
    """What happens from about a step on, until so many things have been noted or all is done."""
    streams = streams_of(run)
    plan = plan_of(streams)
    moves, memory = nothing(streams)
    state = np.zeros(STATE_NUMBERS, np.int64)
    tally = tally_of(len(streams.ports), len(run.operands))
    now = beginning(plan, tally)
    now.opened[:] = now.wanted[:] = plan.tiles
    until = now._replace(total=first_step)  # so that no period goes beyond it
    while state[STEPS] < first_step and advance(plan, moves, memory, state, until, tally, 1) == RUNNING:
        pass
    now = now._replace(total=run.iterations)
    begin, without_periods = int(state[NOW]), plan._replace(periods=np.zeros_like(plan.periods))
    noting = tally_of(len(streams.ports), len(run.operands), most_notes)
    advance(without_periods, moves, memory, state, now, noting, most_notes)
    return Recording(
        begin,
        int(state[NOW]),
        streams.ports,
        tuple(array.name for array in run.operands),
        tuple(_ways(streams, 0)),
        causes_of(run),
        _joined(noting.notes[: state[NOTED]]),
    )


def recorded_chain(run: ChainRun, most_notes: int) -> Recording:
    """What happens while operators run together, from the beginning on."""
    found, names = record_chain(run, most_notes), operand_names(run)
    ways: list[Way] = []
    first = 0
    for one in found.streams:
        ways += _ways(one, first)
        first += len(one.run.operands)
    for one in found.passes:
        ways.append(Way(len(names), f"at home, in {one.memory}"))
        reader = run.wiring.fed(one.link).reader
        names.append(f"between {run.operators[one.link].nest.name} and {run.operators[reader].nest.name}")
    return Recording(
        0, found.end, found.ports, tuple(names), tuple(ways), causes_of_chain(run), _joined(found.notes)
    )  # fmt: skip


def _ways(streams: Streams, first: int) -> Iterator[Way]:
    """From which memory to which the tiles of each stream go; operands are numbered from the first on."""
    for one in streams.every:
        memories = [memory.name for memory in streams.run.chains[one.operand]]
        inner, outer = memories[one.crossing - 1] if one.crossing else "units", memories[one.crossing]
        yield Way(first + one.operand, f"{inner} to {outer}" if one.is_up else f"{outer} to {inner}")


def _joined(notes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Notes of one thing that goes on as one, in the order of ports, which rest only where they have nothing to do."""
    notes = notes[np.lexsort((notes[:, FROM], notes[:, PORT]))]
    tiles = np.where(notes[:, PORT] >= 0, notes[:, TILE], 0)  # units do the same step after step
    before, after = slice(None, -1), slice(1, None)
    goes_on = (notes[after, PORT] == notes[before, PORT]) & (notes[after, STREAM] == notes[before, STREAM])
    goes_on &= tiles[after] == tiles[before]
    first = np.flatnonzero(np.concatenate([[True], ~goes_on])[: len(notes)])
    last = np.concatenate([first[1:], [len(notes)]]) - 1
    found = notes[first].reshape(-1, NOTED_NUMBERS)
    found[:, UNTIL] = notes[last, UNTIL]
    return found
