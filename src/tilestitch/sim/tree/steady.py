"""Periods that are like the one before: counted at once, with the same cycles.

A period is as many steps as a tile of some stream is of. At the moment at which the units begin a step everything is as
it was a period before, but for what moves on by as many tiles in each of them, and for tiles that take longer: these
have fewer cycles left. Until one of them ends, another one may begin, or a port would choose another tile, every period
takes the same cycles, and its values move in the same order.
"""

from typing import Any

import numpy as np

from tilestitch.base.jit import lending
from tilestitch.sim.tree.ends import alike_from
from tilestitch.sim.tree.move import compute, move
from tilestitch.sim.tree.waits import first_until, needed_at, wake_step

# numbers of the clock that are looked at here
NOW, STEPS, _STEPPING, EVENTS, NEST, LOGGED = range(6)
STEP = -1  # in the log of values: the units begin steps; else a stream that ends a tile
_MOST_REPLAYED = 2**22  # entries of it between two looks at the keyboard


@lending
def log(plan: Any, values: Any, state: np.ndarray, streams: Any, entry: int) -> None:
    """Note that a stream moves a tile, or that the units begin a step. A full log begins anew, with all periods."""
    if values.block == 0 or (entry >= 0 and not values.moves[entry]):
        return
    if entry == STEP and streams.steps[state[NEST]] % _steps_of_an_entry(plan, values, state[NEST]) != 0:
        return
    if state[LOGGED] == len(streams.log):
        forget(state, streams)
    streams.log[state[LOGGED]] = entry
    state[LOGGED] += 1


@lending
def _steps_of_an_entry(plan: Any, values: Any, nest: int) -> int:
    return min(values.block, plan.periods[nest, 0])


@lending
def forget(state: np.ndarray, streams: Any) -> None:
    """Begin the log anew: no period is like one before it."""
    state[LOGGED] = 0
    for level in range(len(streams.last.state)):
        streams.last.state[level, STEPS] = -streams.total - 2


@lending
def remember(plan: Any, state: np.ndarray, streams: Any, tally: Any) -> None:
    """Keep all numbers as they are when the units begin a step, for every period that begins with it."""
    last, nest = streams.last, state[NEST]
    for level in range(plan.periods.shape[1]):
        period = plan.periods[nest, level]
        if period == 0 or streams.steps[nest] % period != 0:
            break
        for at in range(len(state)):
            last.state[level, at] = state[at]
        for stream in range(len(streams.done)):
            last.done[level, stream], last.active[level, stream] = streams.done[stream], streams.active[stream]
            for at in range(streams.left.shape[1]):
                last.left[level, stream, at] = streams.left[stream, at]
        for port in range(len(tally.busy)):
            last.busy[level, port] = tally.busy[port]
        for cause in range(len(tally.causes)):
            last.causes[level, cause] = tally.causes[cause]


@lending
def skip(plan: Any, values: Any, memory: np.ndarray, state: np.ndarray, streams: Any, tally: Any) -> None:
    """Of all periods that end here count the longest again as often as what comes is like it."""
    nest, level = state[NEST], 0
    while level < plan.periods.shape[1] and plan.periods[nest, level] > 0:
        if streams.steps[nest] % plan.periods[nest, level] != 0:
            break
        level += 1
    while level > 0:
        level -= 1
        again = _like_the_last(plan, values, state, streams, level)
        if again > 0:
            _repeat(plan, values, memory, state, streams, tally, level, again)
            break


@lending
def _like_the_last(plan: Any, values: Any, state: np.ndarray, streams: Any, level: int) -> int:
    """How many more periods are like the last one: 0 where they may differ."""
    last, nest = streams.last, state[NEST]
    period, steps = plan.periods[nest, level], streams.steps[nest]
    if state[STEPS] != last.state[level, STEPS] + period or steps % plan.turn[nest] < period:
        return 0
    for stream in range(len(streams.done)):
        tiles = _tiles_in(plan, stream, nest, period)
        if streams.done[stream] != last.done[level, stream] + tiles:
            return 0
        if streams.active[stream] != last.active[level, stream]:
            return 0
        if tiles > 0:
            for at in range(plan.port.shape[1]):
                if streams.left[stream, at] != last.left[level, stream, at]:
                    return 0
    most = (streams.total - 1 - steps) // period
    if values.block > 0:
        most = min(most, max(1, _MOST_REPLAYED // max(1, state[LOGGED] - last.state[level, LOGGED])))
    for stream in range(len(streams.done)):
        if most < 1:
            return 0
        if _tiles_in(plan, stream, nest, period) > 0:
            most = min(most, _until_it_meets_another(plan, stream, streams, steps, nest, level))
        else:
            most = min(most, _until_it_changes(plan, stream, streams, steps, nest, level))
    return max(0, most)


@lending
def _tiles_in(plan: Any, stream: int, nest: int, period: int) -> int:
    """How many tiles of a stream a period has; none where they are longer, or of another nest."""
    if plan.nest[stream] != nest or plan.tile[stream] > period:
        return 0
    return period // plan.tile[stream]


@lending
def _within(first: int, now: int, each: int, width: int) -> int:
    """How often a number grows until it is not in the same stretch of so many as it was at first."""
    return ((first // width + 1) * width - 1 - now) // each


@lending
def _until_it_meets_another(plan: Any, stream: int, streams: Any, steps: int, nest: int, level: int) -> int:
    """How many periods a stream that moves on in each has to do with the same longer tiles, and tiles of one kind."""
    period, size, tile = plan.periods[nest, level], plan.tile[stream], streams.done[stream]
    first, each = streams.last.done[level, stream], period // size
    most = (streams.opened[stream] - tile - (1 if streams.active[stream] else 0)) // each
    if len(plan.turn) > 1:  # what is needed in a later turn is needed later than that
        ahead = max(plan.buffers[stream] * size, plan.due[stream])
        most = min(most, (streams.total - 1 - tile * size - ahead) // period)
    source, room, even = plan.source[stream], plan.room[stream], plan.even[stream]
    if source >= 0 and plan.tile[source] > period:
        most = min(most, _within(first, tile, each, plan.ratio[stream]))
    if room >= 0 and plan.tile[room] > period:
        most = min(most, _within(first, tile, each, plan.room_ratio[stream]))
        if plan.units[stream] and plan.up[stream]:
            most = min(most, _within(first, steps, period, plan.room_ratio[stream]))
    if even > period and not plan.up[stream]:
        if ((first * size) // even - plan.buffers[stream] + 1) * even > steps - period:
            return 0
        most = min(most, _within(first, tile, each, even // size))
    if plan.first[stream]:
        most = min(most, first_until(plan, stream, first // each, each) - tile // each)
    if most > 0 and plan.ends.shape[1] > 0:
        most = min(
            most, alike_from(plan, stream, first // each, each, streams.total) - 1 - (tile // each - first // each)
        )
    return most


@lending
def _until_it_changes(plan: Any, stream: int, streams: Any, steps: int, nest: int, level: int) -> int:
    """How many periods a stream of longer tiles, or of another nest, neither starts one nor ends one."""
    period, last, most = plan.periods[nest, level], streams.last, streams.total
    is_served = False
    for at in range(plan.port.shape[1]):
        left = streams.left[stream, at]
        less = last.left[level, stream, at] - left
        is_served = is_served or (streams.active[stream] and last.left[level, stream, at] > 0)
        if less > 0:
            most = min(most, (left - 1) // less)
    if is_served:
        most = min(most, _until_it_is_passed(plan, stream, streams, nest, level))
    if plan.nest[stream] != nest:
        return most
    tile, size, source = streams.done[stream], plan.tile[stream], plan.source[stream]
    if plan.up[stream]:
        if source >= 0 and plan.tile[source] <= period:
            made = (tile + 1) * plan.ratio[stream] - 1
            if streams.done[source] <= made:
                most = min(most, (made - 1 - streams.done[source]) // (period // plan.tile[source]))
        return most
    wake = wake_step(plan, stream, tile)
    if wake > steps:
        most = min(most, (wake - 1 - steps) // period)
    if plan.units[stream]:
        most = min(most, (tile * size - 1 - steps) // period)
    return most


@lending
def _until_it_is_passed(plan: Any, stream: int, streams: Any, nest: int, level: int) -> int:
    """How many periods ports go on to choose as they do between a stream and those that move on."""
    most, period = streams.total, plan.periods[nest, level]
    needed = needed_at(plan, stream, streams.done[stream])
    for other in range(len(streams.done)):
        if _tiles_in(plan, other, nest, period) == 0:
            continue
        if needed_at(plan, other, streams.last.done[level, other]) > needed:
            continue  # and later more so
        most = min(most, (needed - needed_at(plan, other, streams.done[other]) - 1) // period)
    return most


@lending
def _repeat(
    plan: Any, values: Any, memory: np.ndarray, state: np.ndarray, streams: Any, tally: Any, level: int, times: int
) -> None:
    """Count so many periods like the last one, and move and compute their values."""
    last, nest = streams.last, state[NEST]
    period = plan.periods[nest, level]
    if values.block > 0:
        _replay(plan, values, memory, state, streams, last.state[level, LOGGED], times)
    for stream in range(len(streams.done)):
        tiles = _tiles_in(plan, stream, nest, period)
        if tiles == 0:
            for at in range(plan.port.shape[1]):
                streams.left[stream, at] -= times * (last.left[level, stream, at] - streams.left[stream, at])
        elif values.block == 0 or not values.moves[stream]:
            streams.done[stream] += times * tiles
    state[NOW] += times * (state[NOW] - last.state[level, NOW])
    state[EVENTS] += times * (state[EVENTS] - last.state[level, EVENTS])
    state[STEPS] += times * period
    streams.steps[nest] += times * period
    for port in range(len(tally.busy)):
        tally.busy[port] += times * (tally.busy[port] - last.busy[level, port])
    for cause in range(len(tally.causes)):
        tally.causes[cause] += times * (tally.causes[cause] - last.causes[level, cause])


@lending
def _replay(
    plan: Any, values: Any, memory: np.ndarray, state: np.ndarray, streams: Any, begin: int, times: int
) -> None:
    """Move what was logged since then so many times more, each time the next tiles, and log it for longer periods."""
    nest, end = state[NEST], state[LOGGED]
    each = _steps_of_an_entry(plan, values, nest)
    step = streams.steps[nest]
    for _ in range(times):
        for at in range(begin, end):
            stream: Any = np.int64(streams.log[at])  # of the type by which `move` is called elsewhere
            if stream == STEP:
                step += each
                compute(values, memory, step)
            else:
                move(values, memory, stream, streams.done[stream])
                streams.done[stream] += 1
    more = times * (end - begin)
    if end + more > len(streams.log):
        forget(state, streams)
        return
    for at in range(more):
        streams.log[end + at] = streams.log[begin + at]
    state[LOGGED] += more
