"""The clock: every stream starts a tile as soon as it may, every port serves first what is needed first.

A stream starts its next tile when the tile outside that it is part of has begun to arrive (or the tiles inside that it
is made of, when the last of them has begun to leave), when there is room for it, and when it has ended the one before.
It ends when every port at its ends has done its cycles, and not before what it came from has ended. A port works for
one tile in a cycle; of several it takes the one that the units need first. The units step when everything that they
read is there, and the sums of the step before the last one have left.

Several nests may take turns, with streams of all of them: what may start is then `opened` turn by turn, and a turn ends
when the units have done its steps and as many tiles have ended as are `wanted` by then.

Time goes from one event to the next, so a wait costs nothing to simulate. Steps that are like those before are counted
in `steady`.
"""

from typing import Any

import numpy as np

from tilestitch.base.jit import compiled, lending
from tilestitch.sim.tree.ends import kind_of
from tilestitch.sim.tree.move import compute, move
from tilestitch.sim.tree.steady import STEP, log, remember, skip
from tilestitch.sim.tree.waits import blocker, is_first, may_end, may_start, needed_at

# numbers of the clock, kept from call to call
NOW, STEPS, STEPPING, EVENTS, NEST, LOGGED, NOTED, STATE_NUMBERS = range(8)
# what a cycle was spent on: all operands have a cause of their own, in their order, behind these
COMPUTE, FIRST_LOAD, LAST_STORE, BETWEEN, PASSES, WAITS = range(6)
RUNNING, ENDED, STUCK = range(3)
# what is noted of a time in which nothing changes: from when until when, which port, for which tile of which stream; or
# what the units do then, and how many steps they have done
FROM, UNTIL, PORT, STREAM, TILE, NOTED_NUMBERS = range(6)
UNITS = -1  # in place of a port


@lending
def change(plan: Any, values: Any, memory: np.ndarray, state: np.ndarray, streams: Any) -> int:
    """Start and end whatever may, at this moment. Returns the stream for which the units wait, below 0 for none."""
    done, active, left, steps = streams.done, streams.active, streams.left, streams.steps
    count, ports = plan.port.shape
    nest = state[NEST]
    waits_for = -1
    changed = True
    while changed:
        changed = False
        for stream in range(count):
            if active[stream]:
                waiting = False
                for at in range(ports):
                    if left[stream, at] > 0:
                        waiting = True
                        break
                if waiting or not may_end(plan, stream, done):
                    continue
                log(plan, values, state, streams, stream)
                move(values, memory, stream, done[stream])
                active[stream] = False
                done[stream] += 1
                changed = True
            own = steps[plan.nest[stream]]
            if done[stream] < streams.opened[stream] and may_start(plan, stream, done, active, own):
                active[stream] = changed = True
                free = plan.first[stream] and is_first(plan, stream, done[stream])
                kind = kind_of(plan, stream, done[stream])
                for at in range(ports):
                    left[stream, at] = 0 if free else plan.work[kind, at]
        if state[STEPPING] == 0 and steps[nest] < streams.total:
            waits_for = blocker(plan, done, active, steps[nest], nest)
            if waits_for < 0:
                log(plan, values, state, streams, STEP)
                compute(values, memory, steps[nest])
                state[STEPPING] = 1
                changed = True
    return waits_for


@lending
def serve(plan: Any, streams: Any, serving: np.ndarray, deadline: np.ndarray) -> int:
    """Give every port the tile that is needed first. Returns the cycles until one is done; 0 where none is served.

    Of those that are needed at one step results go first where others wait for the place of what they are part of.
    """
    serving[:] = -1
    for stream in range(len(streams.done)):
        if streams.active[stream]:
            needed = 2 * needed_at(plan, stream, streams.done[stream]) - (1 if plan.urgent[stream] else 0)
            for at in range(plan.port.shape[1]):
                port = plan.port[stream, at]
                if streams.left[stream, at] > 0 and (serving[port] < 0 or needed < deadline[port]):
                    serving[port], deadline[port] = stream * plan.port.shape[1] + at, needed
    least = 0
    for port in range(len(serving)):
        if serving[port] >= 0:
            left = streams.left[serving[port] // plan.port.shape[1], serving[port] % plan.port.shape[1]]
            if least == 0 or left < least:
                least = left
    return least


@lending
def _is_over(streams: Any, nest: int) -> bool:
    """Whether all steps of a turn are done, and all that has to end with them."""
    is_over = streams.steps[nest] >= streams.total
    for stream in range(len(streams.done)):
        is_over = is_over and streams.done[stream] >= streams.wanted[stream]
    return bool(is_over)


@lending
def _write_down(state: np.ndarray, streams: Any, tally: Any, serving: np.ndarray, cycles: int, cause: int) -> None:
    """Note for which tile every port works for so many cycles, and what the units do."""
    ports = streams.left.shape[1]
    for port in range(UNITS, len(serving)):
        stream, tile = cause, state[STEPS]
        if port >= 0:
            if serving[port] < 0:
                continue
            stream = serving[port] // ports
            tile = streams.done[stream]
        row = tally.notes[state[NOTED]]
        row[FROM], row[UNTIL], row[PORT], row[STREAM], row[TILE] = state[NOW], state[NOW] + cycles, port, stream, tile
        state[NOTED] += 1


@compiled
def advance(
    plan: Any, values: Any, memory: np.ndarray, state: np.ndarray, streams: Any, tally: Any, most_events: int
) -> int:
    """So many events, or until the turn is over. Returns RUNNING, ENDED, or STUCK where nothing can move any more.

    Where there is room for notes what happens is noted, until that is full.
    """
    nest = state[NEST]
    serving, deadline = np.empty(len(tally.busy), np.int64), np.empty(len(tally.busy), np.int64)
    for _ in range(most_events):
        if len(tally.notes) > 0 and state[NOTED] + len(serving) + 1 > len(tally.notes):
            break
        was_stepping = state[STEPPING]
        waits_for = change(plan, values, memory, state, streams)
        if state[STEPPING] == 0 and _is_over(streams, nest):
            return ENDED
        if state[STEPPING] > was_stepping:
            skip(plan, values, memory, state, streams, tally)
            remember(plan, state, streams, tally)
        cycles = serve(plan, streams, serving, deadline)
        if state[STEPPING] > 0:
            cycles = 1
        if cycles == 0:
            return STUCK
        if state[STEPPING] > 0:
            cause = COMPUTE
        elif state[STEPS] == 0:
            cause = FIRST_LOAD
        elif streams.steps[nest] == streams.total:
            cause = streams.ending
        else:
            cause = WAITS + plan.operand[waits_for]
        if len(tally.notes) > 0:
            _write_down(state, streams, tally, serving, cycles, cause)
        tally.causes[cause] += cycles
        state[NOW] += cycles
        state[EVENTS] += 1
        for port in range(len(serving)):
            if serving[port] >= 0:
                streams.left[serving[port] // plan.port.shape[1], serving[port] % plan.port.shape[1]] -= cycles
                tally.busy[port] += cycles
        if state[STEPPING] > 0:
            state[STEPPING] = 0
            state[STEPS] += 1
            streams.steps[nest] += 1
    return RUNNING
