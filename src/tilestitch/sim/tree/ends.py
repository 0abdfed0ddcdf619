"""The ends of loops that factors do not divide: which kind a tile is of, and how long they stay of one kind."""

from typing import Any

from tilestitch.base.jit import lending


@lending
def kind_of(plan: Any, stream: int, tile: int) -> int:
    """The row of the work of a tile."""
    found = plan.kind[stream]
    for end in range(plan.ends.shape[1]):
        if plan.ends[stream, end]:
            step, left = 0, tile
            for at in range(plan.place[stream], plan.outer[stream]):
                if plan.end_of[at] == end:
                    step += left % plan.factors[at] * plan.end_steps[at]
                left //= plan.factors[at]
            found += plan.end_kinds[stream, end, step]
    return found


@lending
def alike_from(plan: Any, stream: int, number: int, tiles: int, most: int) -> int:
    """How many groups of so many tiles are at least alike, from one on: groups by number, no more than `most`.

    The tiles of one group may be of several kinds. From the innermost part of a loop with an end outwards: its kinds
    stay as long as all steps that the part comes to have the same one, or as the part stays where it is.
    """
    first, together = plan.place[stream], 1
    while together < tiles:
        together *= plan.factors[first]
        first += 1
    found = most
    for end in range(plan.ends.shape[1]):
        if not plan.ends[stream, end]:
            continue
        until, step, left, inside = plan.end_until[stream, end], 0, number, 1
        for at in range(first, plan.outer[stream]):
            if plan.end_of[at] == end:
                step += left % plan.factors[at] * plan.end_steps[at]
            left //= plan.factors[at]
        for at in range(first, plan.outer[stream]):
            factor, unit = plan.factors[at], plan.end_steps[at]
            if plan.end_of[at] == end:
                begin = step - step % (factor * unit)
                digit = (step - begin) // unit
                alike = min(factor, (until[begin + digit * unit] - begin) // unit)
                if alike < factor or until[begin] < begin + factor * unit:
                    found = min(found, max(1, alike - digit) * inside - number % inside)
                    break
            inside *= factor
    return found
