"""Every fused mapping of a small chain on a small tree, priced by counting what changes, step by step."""

import itertools
from collections import Counter
from dataclasses import replace
from functools import cache
from math import inf, prod

from tests.helpers.tree_brute_force import _memory, _Operand, primes
from tilestitch.hardware.tree import Axis, Flow, MachineTree
from tilestitch.ir.loop_nest import Loop, LoopNest, LoopOperand
from tilestitch.mapping.fused.chain import Chain, Link
from tilestitch.mapping.tree.placed import PlacedNest, Unrolled


class Truncated(_Operand):
    """An operand of which nothing is outside of one of its memories."""

    def end_at(self, home):
        if home is not None:
            level = next(at for at, memory in enumerate(self.chain) if memory.name == home)
            rest = set().union(*self.axes[level + 1 :])
            self.chain = [*self.chain[:level], replace(self.chain[level], buffers=1)]
            self.axes = [*self.axes[: level + 1], rest]
        return self


def least_fused(chain: Chain, *, final_sums: bool) -> float:
    """The least energy of all orders, all places, all homes and all numbers of shared loops; infinite if none fits."""
    counted = _Counted(chain, final_sums)
    return min((_least(chain, one, counted) for one in all_homes(chain)), default=inf)


class _Counted:
    """What each operand of each operator costs at each place, counted once."""

    def __init__(self, chain, final_sums):
        self.chain, self.final_sums, self.operands, self.known = chain, final_sums, {}, {}

    def operand(self, number, at, home):
        if (number, at, home) not in self.operands:
            operand = Truncated(self.chain.operators[number], at, self.final_sums).end_at(home)
            self.operands[number, at, home] = operand
        return self.operands[number, at, home]

    def at(self, number, at, home, order, ends, forks, most):
        key = (number, at, home, order, ends, frozenset(forks), most)
        if key not in self.known:
            self.known[key] = _counted(self.operand(number, at, home), order, ends, forks, most)
        return self.known[key]


def all_homes(chain):
    """Where intermediates may wait: of each link a memory that both operators have.

    Over axes that repeat a home all operators that run together spread the same.
    """
    homes = []
    for link, (writer, reader) in enumerate(itertools.pairwise(chain.operators)):
        written, read = writer.chain(len(writer.nest.reads)), reader.chain(chain.links[link].read)
        homes.append([one.name for one in written if one in read])
    return [one for one in itertools.product(*homes) if _are_spread_alike(chain, one)]


def axes_of_cells(chain, homes):
    """Of each operator the axes that repeat homes of those with which it runs together."""
    serves = {memory.name: set(memory.serves) for memory in chain.tree.memories}
    every = {axis.name for axis in chain.tree.axes}
    return [
        set().union(*(every - serves[homes[link]] for link in range(len(homes)) if first <= link < last))
        for first, last in _groups(chain, homes)
    ]


def _groups(chain, homes):
    """Of each operator the first and the last of those with which it runs together."""
    ends = [link for link, home in enumerate(homes) if home == chain.tree.memories[-1].name]
    count = len(chain.operators)
    return [
        (
            max([link + 1 for link in ends if link < at], default=0),
            min([link for link in ends if link >= at] + [count - 1]),
        )
        for at in range(count)
    ]


def _are_spread_alike(chain, homes):
    for number, ((_, last), axes) in enumerate(zip(_groups(chain, homes), axes_of_cells(chain, homes), strict=True)):
        for axis in axes:
            pieces = [
                Counter({one.loop: one.factor for one in chain.operators[at].unrolled if one.axis == axis})
                for at in (number, min(number + 1, last))
            ]
            if number == last:
                continue
            onward = {one.writes: one.reads for one in chain.crossings(number) if one.halo is None}
            if {onward.get(loop): factor for loop, factor in pieces[0].items()} != dict(pieces[1]):
                return False
    return True


def all_orders(chain, homes, *, outermost_couples):
    """All orders of the prime loops of each operator, with all numbers of outer loops that neighbours share.

    Those with what is in the outermost memory are tried or not: it couples nothing.
    """
    prime_loops = [
        [(loop, prime) for loop, extent in enumerate(placed.steps) for prime in primes(extent)]
        for placed in chain.operators
    ]
    orders = [sorted(set(itertools.permutations(loops))) for loops in prime_loops]
    onward = [
        {one.writes: one.reads for one in chain.crossings(link) if one.halo is None} for link in range(len(homes))
    ]
    outermost = chain.tree.memories[-1].name

    def grow(chosen, shared):
        number = len(chosen)
        if number == len(orders):
            yield chosen, shared
            return
        for order in orders[number]:
            if number == 0:
                yield from grow([order], [])
                continue
            before = chosen[-1]
            for some in range(min(len(order), len(before)) + 1):
                if some:
                    (loop, prime), (other, other_prime) = before[-some], order[-some]
                    if homes[number - 1] == outermost and not outermost_couples:
                        break
                    if onward[number - 1].get(loop) != other or prime != other_prime:
                        break
                yield from grow([*chosen, order], [*shared, some])

    yield from grow([], [])


def _least(chain, homes, counted) -> float:
    count = len(chain.operators)

    @cache
    def options(number, order, left, right):
        return list(_options(chain, number, order, (left, right), homes, counted))

    best = inf
    passes = sum(_passes(chain, link, homes[link]) for link in range(count - 1))
    for chosen, shared in all_orders(chain, homes, outermost_couples=count == 2):
        found = [
            options(at, chosen[at], shared[at - 1] if at else None, shared[at] if at < count - 1 else None)
            for at in range(count)
        ]
        if all(found) and sum(one[0][0] for one in found) + passes < best:
            best = min(best, _fitting(chain, homes, shared, found, best - passes) + passes)
    return best


def _passes(chain, link, home):
    if not chain.links[link].passes:
        return 0
    (memory,) = [one for one in chain.tree.memories if one.name == home]
    read, write = (
        [port.width_bits for port in memory.ports if (name, flow) in port.flows][-1]
        for name, flow in (
            (chain.operators[link + 1].homes[chain.links[link].read], Flow.FEED),
            (chain.operators[link].homes[-1], Flow.COLLECT),
        )
    )
    array = chain.operators[link + 1].nest.reads[chain.links[link].read]
    bits = prod(chain.operators[link].nest.write.shape) * array.element_bits
    return chain.links[link].passes * bits * (memory.read_pj / read + memory.write_pj / write)


def _fitting(chain, homes, shared, found, below):
    """The least energy of options that fit together in every memory that all units share."""
    best = below
    limits = {memory.name: memory.size_bits for memory in chain.tree.memories}
    least = [0, *itertools.accumulate(one[0][0] for one in reversed(found))][::-1]

    def grow(chosen, energy):
        nonlocal best
        if energy + least[len(chosen)] >= best:
            return False
        if any(bits > limits[memory] for (memory, _), bits in _usage(homes, shared, chosen).items()):
            return True  # nor with what others take
        if len(chosen) == len(found):
            best = energy
            return True
        for one in found[len(chosen)]:  # in ascending order
            if not grow([*chosen, one], energy + one[0]):
                break
        return True

    grow([], 0)
    return best


def _usage(homes, shared, chosen):
    """Bits of each memory while each operator runs."""
    used = Counter()

    def interval(number, outside, *, strictly_right=True, strictly_left=True):
        first = last = number
        while strictly_left and first > 0 and shared[first - 1] > outside:
            first -= 1
        while strictly_right and last < len(shared) and shared[last] > outside:
            last += 1
        return range(first, last + 1)

    for number, (_, rooms, written, read) in enumerate(chosen):
        for memory, bits, outside in rooms:
            for phase in interval(number, outside):
                used[memory, phase] += bits
        if written is not None:
            for phase in interval(number, shared[number], strictly_right=False):
                used[homes[number], phase] += written
        if read is not None:
            for phase in interval(number, shared[number - 1], strictly_left=False):
                used[homes[number - 1], phase] += read
    return used


def _options(chain, number, order, sides, homes, counted):
    """Energy, rooms with the loops outside of each, and what the intermediates take, of all places of all operands."""
    placed = chain.operators[number]
    forks = [some for some in sides if some is not None]
    every = {axis.name for axis in chain.tree.axes} - axes_of_cells(chain, homes)[number]
    lists, written, read = [], None, None
    for at in range(len(placed.operands)):
        is_read = number > 0 and at == chain.links[number - 1].read
        is_written = number < len(homes) and at == len(placed.nest.reads)
        home = homes[number - 1] if is_read else homes[number] if is_written else None
        operand = counted.operand(number, at, home)
        # an intermediate is in its home from the shared loops on
        most = len(order) - (sides[0] if is_read else sides[1] if is_written else 0)
        found = {}
        for ends in itertools.combinations_with_replacement(range(most + 1), len(operand.chain) - 1):
            if any(
                not every <= set(operand.chain[level].serves) and len(order) - end < max(forks, default=0)
                for level, end in enumerate(ends)
            ):
                continue
            energy, rooms, top = counted.at(number, at, home, order, ends, forks, most)
            if energy == inf:
                continue
            top = top if is_read or is_written else 0
            key = (tuple(rooms), top)
            found[key] = min(float(energy), found.get(key, inf))
        lists.append([(energy, *key, is_read, is_written) for key, energy in found.items()])
    kept = {}
    limits = {memory.name: memory.size_bits for memory in chain.tree.memories}
    for chosen in itertools.product(*lists):
        rooms = [one for item in chosen for one in item[1]]
        alone = Counter()
        for memory, bits, _ in rooms:
            alone[memory] += bits
        if any(bits > limits[memory] for memory, bits in alone.items()):
            continue
        energy = sum(item[0] for item in chosen) + placed.tree.mac_pj * placed.nest.macs
        read = next((item[2] for item in chosen if item[3]), None)
        written = next((item[2] for item in chosen if item[4]), None)
        key = (tuple(sorted(rooms)), written, read)
        kept[key] = min(energy, kept.get(key, inf))
    return [(energy, *key) for key, energy in sorted(kept.items(), key=lambda item: item[1])]


def _counted(operand, order, ends, forks, most):
    """Energy, rooms and the room at the end of the chain, by going through all iterations outside."""
    energy, rooms = 0, []
    placed = operand.placed
    whole = (*ends, most)
    for level, end in enumerate(whole):
        inner = 0 if level == 0 else whole[level - 1]
        at_units = level == 0 and (operand.is_write or not placed.tree.has_latches)
        energy += _moved(operand, order, level, inner, forks, at_units)
        tile = operand._tile(order[:end])
        arriving = operand.is_write and operand.is_partial(level, _stretched(operand, order, inner, forks, at_units))
        is_top = level == len(whole) - 1
        leaving = (
            operand.is_write and not is_top and operand.is_partial(level + 1, _stretched(operand, order, end, forks))
        )
        room = operand.room(level, tile, arriving, leaving)
        if is_top:
            return energy, rooms, room
        if room > operand.chain[level].size_bits:
            return inf, [], 0
        rooms.append((operand.chain[level].name, room, len(order) - end))
    raise AssertionError


def _stretched(operand, order, end, forks, at_units=False):
    """The tile for which something crosses: loops that leave it alone directly outside are inside, up to a fork."""
    stops = {len(order) - some for some in forks}
    while not at_units and end < len(order) and end not in stops and order[end][0] not in operand.moving:
        end += 1
    return operand._tile(order[:end])


def _moved(operand, order, number, end, forks, at_units):
    """Energy of a crossing: as often as what is inside changes, or another operator came between."""
    outside = [*reversed(order[0 if at_units else end :])]  # from the outermost
    lost = max((some for some in forks if some <= len(outside)), default=0)
    times, known, last = 0, set(), None
    for indices in itertools.product(*(range(factor) for _, factor in outside)):
        moving = tuple(i for i, (loop, _) in zip(indices, outside, strict=True) if loop in operand.moving)
        now = (moving, indices[:lost]) if not at_units else indices
        if now != last:
            times, last = times + 1, now
            known.add(moving)
    tile = operand._tile(order[:end]) if not at_units else (1,) * len(operand.placed.steps)
    crossing = tile if at_units else _stretched(operand, order, end, forks)
    first = 0
    tree = operand.placed.tree
    if not tree.reads_first_sums and (number > 0 or tree.has_latches):
        first = len(known)
    energy = 0
    bits = operand._bits(number, crossing)
    inner, outer = operand._counts(number, ("all", None), tile)
    ends = [(number, outer, Flow.COLLECT if operand.is_write else Flow.FEED, Flow.FEED, operand._copies(number))]
    if number > 0:
        below = Flow.DRAIN if operand.is_write else Flow.FILL
        ends.append((number - 1, inner, below, Flow.FILL, operand.exchanging(number)))
    for level, amount, flow, returning, copies in ends:
        energy += operand._port(level, flow, amount * bits[0], times * copies, "all")
        if bits[1]:
            energy += operand._port(level, returning, amount * bits[1], (times - first) * copies, "all")
    return energy


LETTERS = "abcdefgh"


def random_chain(seed, count, most_loops=3, *, spread=True) -> Chain:
    """So many products in a row on a tree of up to four memories an operand, some of them shared."""
    axes = tuple(Axis(f"D{at}", seed.choice((2, 3))) for at in range(seed.randrange(3) if spread else 0))
    tree = _tree(seed, axes)
    choices = (1, 2, 3, 4) if count == 2 else (1, 2, 2, 3)
    rows, inner = seed.choice(choices), seed.choice(choices)
    while len(primes(rows)) + len(primes(inner)) > most_loops:
        inner = seed.choice(choices)
    operators, links = [], []
    for number in range(count):
        outer = seed.choice(choices)
        while sum(len(primes(one)) for one in (rows, inner, outer)) > most_loops:
            outer = seed.choice((1, 1, 2))
        extents = (rows, outer, inner)
        bits = [seed.choice((4, 8)), seed.choice((4, 8))]
        swapped = number > 0 and seed.random() < 0.3
        first = LoopOperand("I", (((0, 1),), ((2, 1),)), (rows, inner), bits[0])
        second = LoopOperand("W", (((2, 1),), ((1, 1),)), (inner, outer), bits[1])
        write = LoopOperand("O", (((0, 1),), ((1, 1),)), (rows, outer), seed.choice((16, 24)))
        loops = tuple(Loop(name, extent) for name, extent in zip("mnk", extents, strict=True))
        reads, homes = ((second, first), ("I", "W", "O")) if swapped else ((first, second), ("I", "W", "O"))
        if number > 0:
            whole = frozenset({1}) if seed.random() < 0.2 else frozenset()
            links.append(Link(1 if swapped else 0, whole, seed.choice((0, 0, 1))))
        nest = LoopNest(f"op{number}", "einsum", loops, reads, write)
        operators.append(PlacedNest(nest, 8, homes, _spread(seed, axes, extents), tree))
        inner = outer
    return Chain("random", tuple(operators), tuple(links))


def with_cells(chain, seed) -> Chain:
    """The same chain where one more axis repeats the innermost of the memories that were one for all units.

    Over it operators spread their rows, or what the first two make and read; or one spreads rows and the others do not.
    """
    axis, factor, kind = Axis("cell", 4), seed.choice((1, 2, 2)), seed.choice(("rows", "rows", "columns", "apart"))
    core = next(at for at, one in enumerate(chain.tree.memories) if one.name.startswith("buffer"))
    memories = tuple(
        one if at <= core else replace(one, serves=(*one.serves, axis.name))
        for at, one in enumerate(chain.tree.memories)
    )
    tree = replace(chain.tree, axes=(*chain.tree.axes, axis), memories=memories)
    operators = []
    for number, placed in enumerate(chain.operators):
        larger = {"columns": (1, 2)[number] if number < 2 else None}.get(kind, 0)
        extents = [n * factor if loop == larger else n for loop, n in enumerate(placed.nest.extents)]
        arrays = [replace(one, shape=one.extents(extents)) for one in placed.nest.operands]
        loops = tuple(Loop(loop.name, n) for loop, n in zip(placed.nest.loops, extents, strict=True))
        spreads = factor > 1 and larger is not None and not (kind == "apart" and number > 0)
        spread = (Unrolled(axis.name, larger, factor),) if spreads else ()
        nest = replace(placed.nest, loops=loops, reads=tuple(arrays[:-1]), write=arrays[-1])
        operators.append(replace(placed, nest=nest, tree=tree, unrolled=(*placed.unrolled, *spread)))
    return replace(chain, operators=tuple(operators))


def windows_in_a_row(seed) -> Chain:
    """Two convolutions of a row of pixels in turn, without padding, on a random tree."""
    kernels, step = [seed.choice((1, 2)), seed.choice((1, 2, 3))], seed.choice((1, 1, 2))
    pixels = seed.choice((4, 6))
    before = step * (pixels - 1) + kernels[1]
    tree = _tree(seed, ())
    dear = replace(tree.memories[-1], read_pj=50.0, write_pj=50.0)  # so that it pays to make windows again
    tree = replace(tree, memories=(*tree.memories[:-1], dear))
    operators = []
    inner = 2
    for number, (count, kernel, apart) in enumerate(((before, kernels[0], 1), (pixels, kernels[1], step))):
        extents = (seed.choice((1, 2)), inner, count, kernel)  # channels made, channels read, pixels, taps
        image = apart * (count - 1) + kernel
        image_axis = ((2, apart), (3, 1))
        operators.append(
            PlacedNest(
                LoopNest(
                    f"conv{number}",
                    "conv",
                    tuple(Loop(name, extent) for name, extent in zip("kcxf", extents, strict=True)),
                    (
                        LoopOperand("I", (((1, 1),), image_axis), (inner, image), 8),
                        LoopOperand("W", (((0, 1),), ((1, 1),), ((3, 1),)), (extents[0], inner, kernel), 8),
                    ),
                    LoopOperand("O", (((0, 1),), ((2, 1),)), (extents[0], count), 16),
                ),
                8,
                ("I", "W", "O"),
                (),
                tree,
            )
        )
        inner = extents[0]
    return Chain("row", tuple(operators), (Link(0),))


def _spread(seed, axes, extents):
    unrolled, left = [], list(extents)
    for axis in axes:
        options = [
            (loop, factor)
            for loop, much in enumerate(left)
            for factor in (2, 3)
            if factor <= axis.size and much % factor == 0
        ]
        if options and seed.random() < 0.8:
            loop, factor = seed.choice(options)
            left[loop] //= factor
            unrolled.append(Unrolled(axis.name, loop, factor))
    return tuple(unrolled)


def _tree(seed, axes) -> MachineTree:
    names = tuple(axis.name for axis in axes)
    memories = []
    for operand in "WIO":
        if seed.random() < 0.4:
            serves = tuple(name for name in names if seed.random() < 0.3)
            memories.append(_memory(seed, f"rf_{operand}", (operand,), seed.choice((32, 48, 96)), serves))
    for number in range(seed.choice((1, 1, 2))):
        held = tuple(operand for operand in "WIO" if seed.random() < 0.85) or ("O",)
        memories.append(_memory(seed, f"buffer{number}", held, seed.choice((64, 96, 160, 256)), names))
    tree = MachineTree("random", axes, (*memories, _memory(seed, "dram", ("W", "I", "O"), 10**6, names)), 0.25)
    return replace(tree, has_latches=seed.random() < 0.7, reads_first_sums=seed.random() < 0.5)
