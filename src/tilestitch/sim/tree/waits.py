"""What a stream, and what the units wait for."""

from typing import Any

import numpy as np

from tilestitch.base.jit import lending


@lending
def may_start(plan: Any, stream: int, done: np.ndarray, active: np.ndarray, steps: int) -> bool:
    """Whether a stream may start its next tile."""
    tile = done[stream]
    if plan.up[stream]:
        return _is_made(plan, stream, tile, done, active, steps) and _gets_room(plan, stream, tile, done, active)
    if steps < wake_step(plan, stream, tile) or not _is_full(plan, stream, tile, done, active):
        return False
    gate = plan.gate[stream]
    if gate < 0:
        return True
    needed = tile - plan.buffers[stream] + 1
    return bool(done[gate] >= needed or (done[gate] == needed - 1 and active[gate]))


@lending
def wake_step(plan: Any, stream: int, tile: int) -> int:
    """The step that the units must have reached before there is room for a tile on its way in.

    Room for sums is made by those that leave instead. A memory that changes all its tiles together waits for its place.
    """
    found = 0
    if plan.gate[stream] < 0:
        found = (tile - plan.buffers[stream] + 1) * plan.tile[stream]
    even = plan.even[stream]
    if even > 0:
        together = ((tile * plan.tile[stream]) // even - plan.buffers[stream] + 1) * even
        found = max(found, together)
    return found


@lending
def _is_made(plan: Any, stream: int, tile: int, done: np.ndarray, active: np.ndarray, steps: int) -> bool:
    """Whether all of a tile of results is inside, or the last of it on its way there."""
    source = plan.source[stream]
    if source < 0:
        return steps >= (tile + 1) * plan.tile[stream]
    last = (tile + 1) * plan.ratio[stream] - 1
    return bool(done[source] > last or (done[source] == last and active[source]))


@lending
def _is_full(plan: Any, stream: int, tile: int, done: np.ndarray, active: np.ndarray) -> bool:
    """Whether the tile outside has arrived, or is arriving; sums that begin there need room, or get it."""
    source = plan.source[stream]
    if source < 0:
        return _gets_room(plan, stream, tile, done, active)
    outer = tile // plan.ratio[stream]
    return bool(done[source] > outer or (done[source] == outer and active[source]))


@lending
def _has_room(plan: Any, stream: int, tile: int, done: np.ndarray) -> bool:
    """Whether the memory outside has emptied the place of a tile of results that nothing fills."""
    room = plan.room[stream]
    return room < 0 or done[room] > tile // plan.room_ratio[stream] - plan.room_buffers[stream]


@lending
def _gets_room(plan: Any, stream: int, tile: int, done: np.ndarray, active: np.ndarray) -> bool:
    """Whether the memory outside has emptied that place, or what was there is leaving it."""
    room = plan.room[stream]
    if room < 0:
        return True
    needed = tile // plan.room_ratio[stream] - plan.room_buffers[stream]
    return bool(done[room] > needed or (done[room] == needed and active[room]))


@lending
def may_end(plan: Any, stream: int, done: np.ndarray) -> bool:
    """Whether what a tile came from has ended, and what was in its place has left."""
    tile, source = done[stream], plan.source[stream]
    if not _has_room(plan, stream, tile, done):
        return False
    if plan.up[stream]:
        return source < 0 or done[source] >= (tile + 1) * plan.ratio[stream]
    if source >= 0 and done[source] <= tile // plan.ratio[stream]:
        return False
    gate = plan.gate[stream]
    return gate < 0 or done[gate] >= tile - plan.buffers[stream] + 1


@lending
def needed_at(plan: Any, stream: int, tile: int) -> int:
    """The step of the units, of all that they do, for which a tile must have ended."""
    step = tile * plan.tile[stream] + plan.due[stream]
    nest = plan.nest[stream]
    turn = min(step // plan.turn[nest], plan.turns[nest] - 1)
    return plan.begins[plan.first_turn[nest] + turn] + step - turn * plan.turn[nest]


@lending
def is_first(plan: Any, stream: int, tile: int) -> bool:
    """Whether a tile of sums is one that begins: all loops outside that reduce are at their start."""
    for at in range(plan.place[stream], plan.outer[stream]):
        if plan.reduces[at] and tile % plan.factors[at] != 0:
            return False
        tile //= plan.factors[at]
    return True


@lending
def first_until(plan: Any, stream: int, number: int, tiles: int) -> int:
    """The last group of so many tiles, from one on, of which the same are first in their sums; of groups by number."""
    at, inside = plan.place[stream], 1
    while inside < tiles:
        inside *= plan.factors[at]
        at += 1
    inside, left, found = 1, number, -1
    while at < plan.outer[stream]:
        if plan.reduces[at] and found < 0:
            found = inside  # until here nothing changes that first tiles are first
        if plan.reduces[at] and left % plan.factors[at] != 0:
            found = inside * plan.factors[at]  # until here a loop that reduces is beyond its start
        inside *= plan.factors[at]
        left //= plan.factors[at]
        at += 1
    if found < 0:
        found = inside
    return (number // found + 1) * found - 1


@lending
def blocker(plan: Any, done: np.ndarray, active: np.ndarray, steps: int, nest: int) -> int:
    """The first stream at the units that keeps them from the next step of a nest; below 0 where none does."""
    for stream in range(len(done)):
        if not plan.units[stream] or plan.nest[stream] != nest:
            continue
        if plan.up[stream]:
            if done[stream] < steps - 2 or (done[stream] == steps - 2 and not active[stream]):
                return stream
            if not _has_room(plan, stream, steps, done):
                return stream
        elif done[stream] <= steps // plan.tile[stream]:
            return stream
    return -1
