"""What crosses a border with one tile, counted element by element: every index of every iteration that has work."""

from collections import Counter
from itertools import product

from tilestitch.sim.tree.tiles import Digits


def moved(run, stream, tile):
    """Of each memory inside and of each outside the elements of a tile, as sorted pairs (elements, memories)."""
    array, every = run.operands[stream.operand], Digits(run).every
    now = _times(run, stream, tile)
    axes = run.fan_outs[stream.operand]
    at_border = set(axes[stream.crossing])
    within = {name for names in axes[: stream.crossing] for name in names}
    inside = [one for one in every if (one.axis in within if one.place is None else one.place < stream.place)]
    spread = [one for one in every if one.place is None and one.axis not in within]
    now = [(one, value) for one, value in now if not one.reach]  # all windows are alike
    fixed = {loop: sum(value * one.weight for one, value in now if one.loop == loop) for loop in range(len(run.padded))}
    inner, groups = Counter(), {}
    for values in product(*(range(one.factor) for one in spread)):
        place = dict(zip(spread, values, strict=True))
        indices = _work(run, fixed, place, inside)
        inner[_size(run, array, indices)] += 1
        key = tuple(value for one, value in place.items() if one.axis not in at_border)
        here = {one: value for one, value in place.items() if one.axis in at_border}
        kept = [(one, value) for one, value in here.items() if _part(run, stream, one) != "together"]
        apart = tuple(value for one, value in kept if _part(run, stream, one) == "apart")
        begins = tuple(
            sum(
                value * one.weight * step
                for loop, step in terms
                for one, value in kept
                if one.loop == loop and _part(run, stream, one) == "alike"
            )
            for terms in array.axes
        )
        alike = tuple(value for one, value in kept if _part(run, stream, one) == "alike")
        tiles = groups.setdefault(key, {}).setdefault((apart, begins), {})
        before = tiles.get(alike, [set()] * len(indices))
        tiles[alike] = [one | other for one, other in zip(before, indices, strict=True)]
    outer = Counter(
        sum(max(_size(run, array, one) for one in tiles.values()) for tiles in here.values())
        for here in groups.values()
    )
    return _without_idle(inner), _without_idle(outer)


def _without_idle(amounts):
    """Sorted, but for memories that take no part."""
    return tuple(sorted((size, count) for size, count in amounts.items() if size and count))


def _times(run, stream, tile):
    """The digits of the nest outside a tile, with their values."""
    every, found = Digits(run).every, []
    for at in range(stream.place, len(run.loops)):
        found.append((next(one for one in every if one.place == at), tile % run.loops[at][1]))
        tile //= run.loops[at][1]
    return found


def _work(run, fixed, place, inside):
    """Of every loop the iterations that a tile has at one place."""
    found = []
    for loop, extent in enumerate(run.extents):
        begin = fixed[loop] + sum(value * one.weight for one, value in place.items() if one.loop == loop)
        own = [one for one in inside if one.loop == loop]
        reach = max((one.reach for one in own), default=0)
        if reach:  # all of several windows, in a memory for all units
            found.append(set(range(reach)))
            continue
        steps = (
            sum(value * one.weight for one, value in zip(own, values, strict=True))
            for values in product(*(range(one.factor) for one in own))
        )
        found.append({begin + step for step in steps if begin + step < extent})
    return found


def _size(run, array, work):
    """Elements that so many iterations come to; none where a loop has no iteration."""
    if not all(work):
        return 0
    count = 1
    for terms, size in zip(array.axes, array.shape, strict=True):
        indices = {sum(one) for one in product(*({step * at for at in work[loop]} for loop, step in terms))}
        if run.tree.moves_boxes and len(terms) == 1:
            count *= 1 + terms[0][1] * (len(indices) - 1)
        elif run.tree.moves_boxes:
            count *= max(indices) - min(indices) + 1
        else:
            count *= min(len(indices), size) if len(terms) > 1 else len(indices)
    return count


def _part(run, stream, digit):
    """How neighbours along an axis of the border take what they need."""
    axis = next(one for one in run.tree.axes if one.name == digit.axis)
    network, is_write = axis.network(run.homes[stream.operand]), stream.operand == run.written
    if network is None:
        return "alike"
    if not is_write and (network.shares_windows or network.forwarding):
        return "together"
    return "alike" if (network.reduction if is_write else network.multicast) else "apart"


def kind_at(run, stream, tile):
    """The number of the kind of a tile: that with what crosses for it."""
    found = moved(run, stream, tile)
    return next(
        number
        for number, kind in enumerate(stream.crossed.kinds)
        if tuple(_without_idle(dict(amount.memories)) for amount in (kind.inner, kind.outer)) == found
    )


def every_tile(run, stream):
    """How often there is a tile with what crosses for it."""
    return Counter(moved(run, stream, tile) for tile in range(stream.count))


def kinds_of(stream):
    """The same as the simulator counts it."""
    found = Counter()
    for kind in stream.crossed.kinds:
        found[tuple(_without_idle(dict(amount.memories)) for amount in (kind.inner, kind.outer))] += kind.count
    return found


def work_of_port(streams):
    """Of every port the cycles of all tiles that go through it."""
    found = Counter()
    for stream in streams.every:
        for use in stream.uses:
            found[use.port] += sum(
                kind.count * cycles for kind, cycles in zip(stream.crossed.kinds, use.cycles, strict=True)
            )
    return found
