"""What ports and units of a tree do in some cycles, one piece of time after another, without values.

The clock is that of every simulation. Until a recording begins it counts periods that repeat at once; in it, none.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
from tilestitch.sim.tree.simulated import beginning, tally_of
from tilestitch.sim.tree.streams import Streams, plan_of, streams_of
from tilestitch.sim.tree.values import nothing


@dataclass(frozen=True, eq=False)
class Recording:
    """Cycles from `begin` until before `end`, as notes of the clock: [note, of what].

    Notes follow one another of every port and of the units; neighbours that are alike are one.
    """

    begin: int
    end: int
    streams: Streams
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
    return Recording(begin, int(state[NOW]), streams, _joined(noting.notes[: state[NOTED]]))


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
