"""Steps that are like the one before: counted at once, with the same cycles.

At the moment at which the units begin a step everything is as it was at the last one, but for what moves with every
step, and for tiles that take long: these have fewer cycles left. Until one of them ends, a tile outside changes, or
a port would choose another tile, every step takes the same cycles.
"""

from typing import Any

import numpy as np

from tilestitch.base.jit import lending
from tilestitch.sim.tree.ends import alike_from
from tilestitch.sim.tree.move import compute
from tilestitch.sim.tree.waits import needed_at, wake_step

# numbers of the clock that are looked at here
NOW, STEPS, _STEPPING, EVENTS, NEST = range(5)
_BEFORE_END = 6  # steps at the end of a turn that are not repeated: what moves with them is needed in a later turn


@lending
def remember(state: np.ndarray, streams: Any, tally: Any) -> None:
    """Keep all numbers as they are when the units begin a step."""
    last = streams.last
    for at in range(len(state)):
        last.state[at] = state[at]
    for stream in range(len(streams.done)):
        last.done[stream], last.active[stream] = streams.done[stream], streams.active[stream]
        for at in range(streams.left.shape[1]):
            last.left[stream, at] = streams.left[stream, at]
    for port in range(len(tally.busy)):
        last.busy[port] = tally.busy[port]
    for cause in range(len(tally.causes)):
        last.causes[cause] = tally.causes[cause]


@lending
def like_the_last(plan: Any, values: Any, state: np.ndarray, streams: Any, tally: Any) -> int:
    """How many more steps are like the last one: 0 where they may differ."""
    last, done, nest = streams.last, streams.done, state[NEST]
    steps = streams.steps[nest]
    if state[STEPS] != last.state[STEPS] + 1 or steps % plan.turn[nest] == 0:
        return 0
    most = streams.total - steps - _BEFORE_END
    for stream in range(len(done)):
        moves_on = plan.tile[stream] == 1 and plan.nest[stream] == nest
        if done[stream] != last.done[stream] + (1 if moves_on else 0):
            return 0
        if streams.active[stream] != last.active[stream]:
            return 0
        if moves_on and (values.moves[stream] or plan.first[stream]):
            return 0
        for at in range(plan.port.shape[1]):
            less = last.left[stream, at] - streams.left[stream, at]
            if less != 0:
                if moves_on or less < 0:
                    return 0
                most = min(most, streams.left[stream, at] // less - 2)
    for stream in range(len(done)):
        if most < 1:
            return 0
        most = min(most, _until_it_changes(plan, stream, streams, steps, nest))
        if plan.tile[stream] == 1 and plan.nest[stream] == nest and last.done[stream] < plan.tiles[stream]:
            most = min(most, alike_from(plan, stream, last.done[stream], streams.total) - 4)
    return max(0, most)


@lending
def _until_it_is_passed(plan: Any, stream: int, streams: Any, nest: int) -> int:
    """How many steps ports go on to choose as they do between a stream and those that move with every step."""
    most, done = streams.total, streams.done
    if streams.active[stream]:
        needed = needed_at(plan, stream, done[stream])
        for other in range(len(done)):
            if plan.tile[other] == 1 and plan.nest[other] == nest:
                ahead = needed - needed_at(plan, other, done[other])
                if ahead >= 0:
                    most = min(most, ahead - 2)
    return most


@lending
def _until_it_changes(plan: Any, stream: int, streams: Any, steps: int, nest: int) -> int:
    """How many steps nothing else begins that a stream waits for, or that waits for it."""
    if plan.nest[stream] != nest:
        return _until_it_is_passed(plan, stream, streams, nest)
    done, tile, most = streams.done, streams.done[stream], streams.total
    source, room, even = plan.source[stream], plan.room[stream], plan.even[stream]
    if plan.tile[stream] == 1:
        if source >= 0 and not plan.up[stream] and plan.ratio[stream] > 1:
            most = plan.ratio[stream] - 2 - tile % plan.ratio[stream]
        if room >= 0 and plan.room_ratio[stream] > 1:
            most = min(most, plan.room_ratio[stream] - 4 - tile % plan.room_ratio[stream])
        if even > 1:
            most = min(most, even - 2 - tile % even)
        return most
    if plan.up[stream] and source >= 0 and plan.tile[source] == 1:
        most = (tile + 1) * plan.ratio[stream] - 3 - done[source]
    wake = wake_step(plan, stream, tile)
    if not plan.up[stream] and wake > steps:
        most = min(most, wake - steps - 2)
    if plan.units[stream] and not plan.up[stream]:
        most = min(most, tile * plan.tile[stream] - steps - 2)
    return min(most, _until_it_is_passed(plan, stream, streams, nest))


@lending
def repeat(plan: Any, values: Any, memory: np.ndarray, state: np.ndarray, streams: Any, tally: Any, steps: int) -> None:
    """Count so many steps like the last one, and compute them."""
    last, nest = streams.last, state[NEST]
    first = streams.steps[nest]
    if values.block > 0:
        begin = (first // values.block + 1) * values.block
        while begin <= first + steps:
            compute(values, memory, begin)
            begin += values.block
    state[NOW] += steps * (state[NOW] - last.state[NOW])
    state[EVENTS] += steps * (state[EVENTS] - last.state[EVENTS])
    state[STEPS] += steps
    streams.steps[nest] += steps
    for stream in range(len(streams.done)):
        if plan.tile[stream] == 1 and plan.nest[stream] == nest:
            streams.done[stream] += steps
        else:
            for at in range(plan.port.shape[1]):
                streams.left[stream, at] -= steps * (last.left[stream, at] - streams.left[stream, at])
    for port in range(len(tally.busy)):
        tally.busy[port] += steps * (tally.busy[port] - last.busy[port])
    for cause in range(len(tally.causes)):
        tally.causes[cause] += steps * (tally.causes[cause] - last.causes[cause])
