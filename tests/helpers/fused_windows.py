"""Every fused mapping of a small chain of convolutions that share windows along one axis, counted window by window."""

import itertools
from collections import Counter
from dataclasses import replace
from functools import cache
from math import inf, prod

from tests.helpers.fused_brute_force import Truncated, _fitting, _passes, _spread, _tree, all_homes, least_fused
from tests.helpers.tree_brute_force import primes
from tilestitch.hardware.tree import Axis, Flow
from tilestitch.ir.loop_nest import Loop, LoopNest, LoopOperand
from tilestitch.mapping.fused.chain import Chain, Link
from tilestitch.mapping.tree.placed import PlacedNest


def least_with_windows(chain: Chain, *, final_sums: bool) -> float:
    """The least energy of all fused mappings, of every division into operators that run together; infinite if none."""
    count, best = len(chain.operators), [0.0]
    outermost = chain.tree.memories[-1].name
    for end in range(count):
        options = []
        for start in range(end + 1):
            between = _passes(chain, start - 1, outermost) if start else 0
            part = chain.part(range(start, end + 1))
            least = least_fused(part, final_sums=final_sums)
            for one in ways_to_share(part, final_sums):
                least = min(least, one.least(least))
            options.append(best[start] + between + least)
        best.append(min(options))
    return best[-1]


def ways_to_share(chain, final_sums, kind=None, kept=None):
    """All homes, and all loops that all operators share of which some go over windows along one axis."""
    outermost = chain.tree.memories[-1].name
    if len(chain.operators) < 2 or any(link.passes for link in chain.links):
        return  # what is done to windows that are made again would be done again
    for homes in all_homes(chain):
        if outermost not in homes:
            for axis in chain.window_axes():
                for outer in outer_loops(replace(chain, overlaps=frozenset({axis}))):
                    yield (kind or Windows)(replace(chain, overlaps=frozenset({axis})), homes, outer, final_sums)
            yield from rows_kept(chain, homes, final_sums, kept or Kept)


def rows_kept(chain, homes, final_sums, kind):
    """All loops that can be shared with those over rows innermost, of which what the next window needs is kept."""
    for axis in chain.window_axes():
        along = replace(chain, overlaps=frozenset({axis}))
        known = set()
        for outer in outer_loops(along):
            slides = [any(_halo(along, link, one) for link in range(len(chain.links))) for one, _ in outer]
            first = slides.index(True)
            if all(slides[first:]):
                known.add((*outer[:first], (outer[first][0], prod(factor for _, factor in outer[first:]))))
        for outer in sorted(known):
            kept = kind(along, homes, outer, final_sums)
            if kept.is_possible():
                yield kept


def outer_loops(chain):
    """All rows of prime loops, from the outermost, that all operators can share, each a loop of every operator."""
    threads = [(loop,) for loop in range(len(chain.operators[0].nest.loops))]
    for link in range(len(chain.links)):
        onward = {one.writes: one.reads for one in chain.crossings(link)}
        threads = [(*one, onward[one[-1]]) for one in threads if one[-1] in onward]
    slides = [any(_halo(chain, link, one) for link in range(len(chain.links))) for one in threads]

    def grow(row, left):
        if any(slides[at] for at, _ in row):
            yield [(threads[at], factor) for at, factor in row]
        for at, some in enumerate(left):
            for factor in sorted(set(some)):
                rest = list(some)
                rest.remove(factor)
                yield from grow([*row, (at, factor)], [*left[:at], rest, *left[at + 1 :]])

    yield from grow([], [primes(chain.operators[-1].nest.extents[one[-1]]) for one in threads])


def _halo(chain, link, thread):
    return next(one.halo for one in chain.crossings(link) if one.writes == thread[link])


class Part(Truncated):
    """An operand of one window of an operator, of which more may be brought after it."""

    has_more = False  # whether other windows have other elements
    __eq__, __hash__ = object.__eq__, object.__hash__

    def room(self, level, tile, arriving, leaving):
        memory = self.chain[level]
        room = super().room(level, tile, arriving, leaving)
        held = self.touched(tile, range(level + 1))
        is_doubled = memory.buffers == 2 and held < self.touched(self.placed.steps, range(level + 1))
        if memory.bank_bits or memory.buffers != 2 or is_doubled:
            return room
        return 2 * room if self.has_more else room


class Windows:
    """Operators that share some loops, of which some go over windows."""

    def __init__(self, chain, homes, outer, final_sums):
        self.chain, self.homes, self.outer, self.final_sums = chain, homes, outer, final_sums
        self.count, self.depth = len(chain.operators), len(outer)
        self.operand = cache(self._operand)
        self.nest = cache(self._nest)

    def least(self, below):
        """The least energy of all orders of what operators have for themselves and all places, if below a number."""
        passes = sum(_passes(self.chain, link, home) for link, home in enumerate(self.homes))
        lists = [[list(self.places(at, own)) for own in self.own_orders(at)] for at in range(self.count)]
        if not all(lists):
            return inf
        least = [min(map(_least_of, some)) + self.units_pj(at) for at, some in enumerate(lists)]
        spare = below - passes - sum(least)
        if spare <= 0:
            return inf
        found = [self.options(at, lists[at], least[at] + spare) for at in range(self.count)]
        if not all(found):
            return inf
        return _fitting(self.chain, self.homes, [self.depth] * (self.count - 1), found, below - passes) + passes

    def at_home(self, number, chosen):
        """What intermediates take where they are made and where they are read, with the loops outside."""
        at = self.chain.links[number - 1].read
        read = [(self.homes[number - 1], self.depth, item[2], at) for item in chosen if item[3] == "read"]
        written = [((self.depth, item[2]), (self.depth, 0)) for item in chosen if item[3] == "written"]
        return (written[0] if written else None), tuple(read)

    def units_pj(self, number):
        """What an operator's arithmetic costs in all windows."""
        again = prod(factor for thread, factor in self.outer if self.is_window(number, thread))
        return self.chain.tree.mac_pj * prod(self.size(number, self.depth)) * again

    def is_window(self, number, thread):
        """Whether a loop that is shared goes over windows of an operator."""
        return any(_halo(self.chain, link, thread) for link in range(number, self.count - 1))

    def size(self, number, depth):
        """Iterations of the operator for one iteration of so many shared loops; without loops that only divide it."""
        extents = list(self.chain.operators[number].nest.extents)
        for thread in {one for one, _ in self.outer}:
            if self.is_window(number, thread):
                tile = self.chain.operators[-1].nest.extents[thread[-1]]
                tile //= prod(factor for one, factor in self.outer[:depth] if one == thread)
                rows = set(range(tile))
                for link in range(self.count - 2, number - 1, -1):
                    halo = _halo(self.chain, link, thread)
                    if halo:
                        rows = {halo.step * row + halo.apart * tap for row in rows for tap in range(halo.size)}
                    rows = set(range(min(max(rows) + 1, self.chain.operators[link].nest.extents[thread[link]])))
                extents[thread[number]] = len(rows)
        return tuple(extents)

    def _nest(self, number, extents):
        """An operator with so many iterations, whose operands have no more than these need."""
        placed = self.chain.operators[number]
        own = placed.nest
        less = {loop for loop, (some, all_) in enumerate(zip(extents, own.extents, strict=True)) if some != all_}

        def cropped(array):
            sizes = [
                min(size, 1 + sum(step * (extents[loop] - 1) for loop, step in terms))
                if less & {loop for loop, _ in terms}
                else size
                for size, terms in zip(array.shape, array.axes, strict=True)
            ]
            return replace(array, shape=tuple(sizes))

        loops = tuple(Loop(loop.name, some) for loop, some in zip(own.loops, extents, strict=True))
        nest = replace(own, loops=loops, reads=tuple(map(cropped, own.reads)), write=cropped(own.write))
        return replace(placed, nest=nest)

    def _operand(self, number, at, home, extents):
        made = Part(self.nest(number, extents), at, self.final_sums).end_at(home)
        whole = self.size(number, 0)
        made.has_more = any(extents[loop] < whole[loop] for loop in made.moving)
        return made

    def own_orders(self, number):
        """All orders of the prime loops that an operator has for itself; none if shared ones do not divide."""
        left = list(self.nest(number, self.size(number, self.depth)).steps)
        for thread, factor in self.outer:
            if not self.is_window(number, thread):
                if left[thread[number]] % factor:
                    return []
                left[thread[number]] //= factor
        loops = [(loop, prime) for loop, steps in enumerate(left) for prime in primes(steps)]
        return sorted(set(itertools.permutations(loops)))

    def options(self, number, lists, below):
        """Energy, rooms with the loops outside of each, and what intermediates take, of orders and places below."""
        kept = {}
        limits = {memory.name: memory.size_bits for memory in self.chain.tree.memories}

        def grow(chosen, energy, left):
            if energy + sum(min(item[0] for item in items) for items in left) >= below:
                return
            used = Counter()
            for memory, bits, _ in (one for item in chosen for one in item[1]):
                used[memory] += bits
            if any(bits > limits[memory] for memory, bits in used.items()):
                return
            if not left:
                rooms = tuple(sorted(one for item in chosen for one in item[1]))
                written, read = self.at_home(number, chosen)
                kept[rooms, written, read] = min(energy, kept.get((rooms, written, read), inf))
                return
            for item in left[0]:
                grow([*chosen, item], energy + item[0], left[1:])

        for places in lists:
            if all(places):
                grow([], self.units_pj(number), places)
        return [(energy, *key) for key, energy in sorted(kept.items(), key=lambda item: item[1])]

    def places(self, number, own):
        """Of each operand what every place of its cuts costs, its rooms, what it takes at home, and which it is."""
        placed = self.chain.operators[number]
        every = {axis.name for axis in self.chain.tree.axes}
        for at in range(len(placed.operands)):
            is_read = number > 0 and at == self.chain.links[number - 1].read
            is_written = number < len(self.homes) and at == len(placed.nest.reads)
            home = self.homes[number - 1] if is_read else self.homes[number] if is_written else None
            kind = "read" if is_read else "written" if is_written else ""
            levels = self.operand(number, at, home, placed.nest.extents).chain
            most = len(own) + (0 if kind else self.depth)
            found = {}
            for ends in itertools.combinations_with_replacement(range(most + 1), len(levels) - 1):
                if any(set(level.serves) != every and end > len(own) for level, end in zip(levels, ends, strict=False)):
                    continue
                energy, rooms, top = self.counted(number, at, home, own, (*ends, most))
                if energy < inf:
                    key = (tuple(rooms), top if kind else 0, kind, *self.beside(number, at, home, own, ends))
                    found[key] = min(energy, found.get(key, inf))
            yield [(energy, *key) for key, energy in found.items()]

    def beside(self, number, at, home, own, ends):
        """What else is to be known of a place of one operand."""
        return ()

    def order(self, number, own):
        """The loops of an operator from the innermost, with those over windows marked."""
        outer = [(thread[number], factor, self.is_window(number, thread)) for thread, factor in self.outer]
        return [*((loop, factor, False) for loop, factor in own), *reversed(outer)]

    def inside(self, number, at, home, own, end):
        """An operand of the window around a place, and the tile inside the place."""
        order, depth = self.order(number, own), min(self.depth, len(own) + self.depth - end)
        operand = self.operand(number, at, home, self.size(number, depth))
        tile = [1] * len(operand.placed.steps)
        for loop, factor, is_window in order[:end]:
            tile[loop] *= 1 if is_window else factor
        if end > len(own):
            for loop, _, is_window in order:
                if is_window:
                    tile[loop] = operand.placed.steps[loop]
        return operand, tuple(tile)

    def counted(self, number, at, home, own, ends):
        """Energy, rooms and the room at home of one operand, by going through all iterations around its cuts."""
        energy, rooms, inner = 0.0, [], 0
        order = self.order(number, own)
        for level, end in enumerate(ends):
            moving = self.operand(number, at, home, self.chain.operators[number].nest.extents).moving
            is_write = at == len(self.chain.operators[number].nest.reads)
            at_units = level == 0 and (is_write or not self.chain.tree.has_latches)
            crossed = 0 if at_units else _outwards(order, inner, len(own), moving)
            operand, tile = self.inside(number, at, home, own, crossed)
            energy += self.moved(operand, level, order, crossed, tile, len(own))
            arriving = is_write and operand.is_partial(level, tile)
            operand, held = self.inside(number, at, home, own, end)
            is_top = level == len(ends) - 1
            leaving = False
            if is_write and not is_top:
                outside, leaves = self.inside(number, at, home, own, _outwards(order, end, len(own), moving))
                leaving = outside.is_partial(level + 1, leaves)
            room = operand.room(level, held, arriving, leaving)
            if is_top:
                return energy, rooms, room
            if room > operand.chain[level].size_bits:
                return inf, [], 0
            rooms.append((operand.chain[level].name, room, len(order) - end))
            inner = end
        raise AssertionError

    def moved(self, operand, level, order, end, tile, own):
        """Energy of a crossing, window by window: as often as what is inside changes, or others came between."""
        outside = order[end:][::-1]  # from the outermost
        lost = self.depth if self.depth <= len(outside) else 0
        times, known, last = Counter(), {}, None
        has_units = end == 0 and tile == (1,) * len(tile) and self._at_units(operand, level)
        for indices in itertools.product(*(range(factor) for _, factor, _ in outside)):
            window = tuple(i for i, (_, _, is_window) in zip(indices, outside, strict=True) if is_window)
            moving = tuple(i for i, (loop, _, _) in zip(indices, outside, strict=True) if loop in operand.moving)
            now = indices if has_units else (moving, indices[:lost])
            if now != last:
                times[window] += 1
                last = now
                known.setdefault(window, set()).add(moving)
        tree = operand.placed.tree
        knows = not tree.reads_first_sums and (level > 0 or tree.has_latches)
        inner, outer = operand._counts(level, ("all", None), tile)
        bits, back = operand._bits(level, tile)
        found = 0.0
        for window, count in times.items():
            first = len(known[window]) if knows else 0
            ends = [(level, outer, Flow.COLLECT if operand.is_write else Flow.FEED, Flow.FEED, operand._copies(level))]
            if level > 0:
                below = Flow.DRAIN if operand.is_write else Flow.FILL
                ends.append((level - 1, inner, below, Flow.FILL, operand.exchanging(level)))
            for where, amount, flow, returning, copies in ends:
                found += operand._port(where, flow, amount * bits, count * copies, "all")
                if back:
                    found += operand._port(where, returning, amount * back, (count - first) * copies, "all")
        return found

    def _at_units(self, operand, level):
        return level == 0 and (operand.is_write or not operand.placed.tree.has_latches)


class Kept(Windows):
    """Operators that share a loop over rows, the innermost one, and of which new rows alone are made in each window.

    An iteration begins with so many new rows of the first operator, and each reader waits until its window is complete.
    """

    def __init__(self, chain, homes, outer, final_sums):
        super().__init__(chain, homes, outer, final_sums)
        thread, times = outer[-1]
        rows = chain.operators[-1].nest.extents[thread[-1]] // times
        self.new, self.often, self.before, self.taps = {self.count - 1: rows}, {self.count - 1: times}, {}, {}
        for link in reversed(range(self.count - 1)):
            halo, later, extent = _halo(chain, link, thread), self.new[link + 1], self.rows_of(link)
            window = range(later)
            if halo:
                window = {halo.step * row + halo.apart * tap for row in window for tap in range(halo.size)}
            self.taps[link] = len(window)
            new = later * (halo.step if halo else 1)
            waits = 0  # until the first window is there
            while (waits + 1) * new < max(window) + 1:
                waits += 1
            self.new[link], self.before[link] = new, waits
            made = 0  # until there are no more rows, or the last window is there
            while made < self.often[link + 1] + waits and made * new < extent:
                made += 1
            self.often[link] = made

    def rows_of(self, number):
        return self.chain.operators[number].nest.extents[self.outer[-1][0][number]]

    def is_possible(self):
        return all(self.new[link] <= self.rows_of(link) for link in range(self.count - 1))

    def units_pj(self, number):
        again = self.often[number] if self.is_window(number, self.outer[-1][0]) else 1
        return self.chain.tree.mac_pj * prod(self.size(number, self.depth)) * again

    def size(self, number, depth):
        extents = list(super().size(number, depth))
        thread = self.outer[-1][0]
        if depth == self.depth and self.is_window(number, thread):
            extents[thread[number]] = self.new[number]
        return tuple(extents)

    def order(self, number, own):
        found = super().order(number, own)
        loop, factor, is_window = found[len(own)]
        found[len(own)] = (loop, self.often[number] if is_window else factor, is_window)
        return found

    def counted(self, number, at, home, own, ends):
        energy, rooms, top = super().counted(number, at, home, own, ends)
        if energy == inf or home is None:
            return energy, rooms, top
        if at == len(self.chain.operators[number].nest.reads):
            waiting = self.before[number] * self.complete(number)
            return energy, [*rooms, (home, waiting, self.depth - 1)], top  # there whatever runs
        link = number - 1
        if self.before[link]:
            rows = (self.before[link] + 1) * self.new[link]
            top = top * rows // self.taps[link] - self.before[link] * self.complete(link)
        return energy, rooms, top

    def complete(self, link):
        """Bits of what is made of an intermediate at a time."""
        placed = self.nest(link, self.size(link, self.depth))
        operand = self.operand(link, len(placed.nest.reads), self.homes[link], self.size(link, self.depth))
        tile = list(placed.steps)
        for thread, factor in self.outer:
            if not self.is_window(link, thread):
                tile[thread[link]] //= factor
        return operand.touched(tuple(tile), range(len(operand.chain))) * placed.final_bits


def _least_of(places):
    return sum(min((item[0] for item in items), default=inf) for items in places)


def _outwards(order, end, own, moving):
    """Loops that leave an operand alone directly outside a place lie inside it, up to where operators are joined."""
    while end < len(order) and end != own and order[end][0] not in moving:
        end += 1
    return end


def convolutions_in_a_row(seed, count=2, *, spread=True, most=4, most_levels=8) -> Chain:
    """So many convolutions of rows of pixels, with strides, padding and a batch, on a random tree."""
    axes = tuple(Axis(f"D{at}", seed.choice((2, 3))) for at in range(seed.randrange(2) if spread else 0))
    tree = _tree(seed, axes)
    while sum(len(tree.chain(home)) for home in "IWO") > most_levels:
        tree = _tree(seed, axes)
    dear = replace(tree.memories[-1], read_pj=60.0, write_pj=60.0)  # so that it pays to make windows again
    tree = replace(tree, memories=(*tree.memories[:-1], dear))
    while True:
        shapes, rows, made = [], seed.choice((2, 3, 4, 4, 6)), seed.choice((1, 2))
        batch = seed.choice((1, 1, 2))
        for number in reversed(range(count)):
            taps, step, read = seed.choice((1, 2, 3)), seed.choice((1, 1, 2)), seed.choice((1, 1, 2))
            image = step * (rows - 1) + taps
            shapes.insert(0, (batch, made, read, rows, taps, step, image))
            rows, made = image - (seed.randrange(taps) if number else 0), read
        is_small = all(one[3] > 0 and sum(map(len, map(primes, one[:5]))) <= most for one in shapes)
        if is_small and any(one[4] > 1 for one in shapes[1:]):
            break
    operators = []
    for number, (batch, made, read, rows, taps, step, image) in enumerate(shapes):
        padding = seed.randrange(taps) if number == 0 else 0
        bits = seed.choice((4, 8))
        nest = LoopNest(
            f"conv{number}",
            "conv",
            tuple(map(Loop, "bkcyf", (batch, made, read, rows, taps))),
            (
                LoopOperand(
                    "I", (((0, 1),), ((2, 1),), ((3, step), (4, 1))), (batch, read, max(1, image - padding)), bits
                ),
                LoopOperand("W", (((1, 1),), ((2, 1),), ((4, 1),)), (made, read, taps), seed.choice((4, 8))),
            ),
            LoopOperand("O", (((0, 1),), ((1, 1),), ((3, 1),)), (batch, made, rows), seed.choice((16, 24))),
        )
        # rows are not spread, as windows have other numbers of them
        unrolled = tuple(one for one in _spread(seed, axes, (batch, made, read, 1, taps)) if number or one.loop != 3)
        operators.append(PlacedNest(nest, 8, ("I", "W", "O"), unrolled, tree))
    links = tuple(Link(0, frozenset(), seed.choice((0, 0, 0, 1))) for _ in range(count - 1))
    return Chain("row", tuple(operators), links)
