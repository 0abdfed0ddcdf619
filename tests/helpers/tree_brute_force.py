"""Every mapping of a small nest on a small tree, priced by a program of its own: whole numbers, one loop at a time."""

import itertools
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from math import ceil, gcd, inf, prod

from tilestitch.hardware.tree import Axis, DmaEngine, Flow, MachineTree, Network, Port, TreeMemory
from tilestitch.ir.loop_nest import Loop, LoopNest, LoopOperand
from tilestitch.mapping.tree.chain import TreeMapping
from tilestitch.mapping.tree.placed import PlacedNest, Unrolled

RESULTS, OTHERS = 2, 3  # operands: two inputs by their numbers, the results, further inputs
ALL = (0, 1, RESULTS, OTHERS)
DIFFERENT = -1  # instead of a loop along which windows slide: values, even where tiles are boxes


def primes(number):
    found, prime = [], 2
    while number > 1:
        if number % prime:
            prime += 1
        else:
            found, number = [*found, prime], number // prime
    return found


def least_energy(placed: PlacedNest, *, final_sums: bool) -> float:
    """The least energy of all orders of all prime loops with all places of every operand; infinite if none fits."""
    return next(iter(better_and_better(placed, final_sums=final_sums, enough=-inf)), (inf,))[0]


def better_and_better(placed: PlacedNest, *, final_sums: bool, enough: float) -> list[tuple[float, TreeMapping]]:
    """Mappings, the last found first, each with its energy and cheaper than all before, until one costs `enough`."""
    loops = [(loop, prime) for loop, count in enumerate(placed.steps) for prime in primes(count)]
    operands = [_Operand(placed, number, final_sums) for number in range(len(placed.operands))]
    shared = [
        (memory.size_bits, [(at, one.chain.index(memory)) for at, one in enumerate(operands) if memory in one.chain])
        for memory in placed.tree.memories
    ]
    best, fixed = inf, placed.tree.mac_pj * placed.nest.macs
    found: list[tuple[float, TreeMapping]] = []
    for order in sorted(set(itertools.permutations(loops))):
        choices = [list(operand.places(order)) for operand in operands]
        for chosen in itertools.product(*choices):
            energy = sum(one[0] for one in chosen)
            if energy < best and all(
                sum(chosen[at][1][level] for at, level in members) <= size for size, members in shared
            ):
                if not is_even(operands, chosen):
                    continue
                best = energy
                found.insert(0, (energy + fixed, TreeMapping(order, tuple((*one[3], len(order)) for one in chosen))))
                if energy + fixed <= enough:
                    return found
    return found


def all_best(placed: PlacedNest, *, final_sums: bool) -> list[tuple[float, int]]:
    """Energy and cycles of every mapping that no other beats, in ascending order of energy; none if nothing fits.

    All orders of all prime loops, with all places of every operand; what crosses at the same tiles is alike in both.
    """
    loops = [(loop, prime) for loop, count in enumerate(placed.steps) for prime in primes(count)]
    operands = [_Operand(placed, number, final_sums) for number in range(len(placed.operands))]
    shared = [
        (memory.size_bits, [(at, one.chain.index(memory)) for at, one in enumerate(operands) if memory in one.chain])
        for memory in placed.tree.memories
    ]
    fixed = placed.tree.mac_pj * placed.nest.macs
    fastest, known = {}, set()
    for order in {order for order in itertools.permutations(loops) if follows(order, placed)}:
        even = [operand.even_levels(operands) for operand in operands]
        choices = [
            {
                (one[2], *(one[3][level] for level in levels)): one for one in operand.places(order) if one[0] < inf
            }.values()
            for operand, levels in zip(operands, even, strict=True)
        ]
        for chosen in itertools.product(*choices):
            tiles = tuple(one[2] for one in chosen)
            if not is_even(operands, chosen) or tiles in known:
                continue
            known.add(tiles)
            if all(sum(chosen[at][1][level] for at, level in members) <= size for size, members in shared):
                energy = sum(one[0] for one in chosen) + fixed
                cycles = slow_latency(operands, tiles, order)
                fastest[energy] = min(cycles, fastest.get(energy, inf))
    front = []
    for energy, cycles in sorted(fastest.items()):
        if not front or cycles < front[-1][1]:
            front.append((energy, cycles))
    return front


def follows(order, placed) -> bool:
    """Whether prime loops begin with those of the order that is asked for, each factor as a whole."""
    left, innermost = list(placed.steps), []
    for loop, factor in placed.order:
        innermost.append([loop, factor or left[loop]])
        left[loop] = Fraction(left[loop], innermost[-1][1])
    if any(Fraction(count).denominator > 1 for count in left):
        return False
    innermost = [entry for entry in innermost if entry[1] > 1]
    for loop, prime in order:
        if not innermost:
            return True
        if innermost[0][0] != loop or innermost[0][1] % prime:
            return False
        innermost[0][1] //= prime
        innermost = innermost[1:] if innermost[0][1] == 1 else innermost
    return True


def slow_latency(operands, tiles, order) -> int:
    """Latency as docs/trees.md defines it, by asking tile by tile when the units begin with those inside it."""
    inside = [(1,) * len(operands[0].placed.steps)]
    for loop, factor in order:
        inside.append(tuple(n * factor if at == loop else n for at, n in enumerate(inside[-1])))
    crossings = {tile: [] for tile in inside}
    for operand, its in zip(operands, tiles, strict=True):
        places = {number: tile for number, _, tile in its}
        for number, part, tile in its:
            waits = part[0] == "first" or (number > 0 and operand.chain[number - 1].buffers == 1)
            if operand.is_write and number > 1 and places[number - 1] == tile:
                comes_back, _ = operand.occupied(number, part, tile)
                waits = waits and any(comes_back.values())
            inner = {at: (own, where) for at, own, where in its if own[0] != "first" and operand.followed < RESULTS}
            behind = operand.behind(number, inner) if part[0] != "first" else []
            at_units = operand.is_write and number == 0
            crossings[tile].append((waits, operand.occupied(number, part, tile), behind, operand.followed, at_units))
    factors = [factor for _, factor in order]
    queued = [its.followed for its in operands if not its.is_write and all(one.buffers == 2 for one in its.chain[:-1])]

    @cache
    def busiest(number):
        """Cycles of the busiest port in a tile with so many loops inside."""
        demand = Counter()
        for tile in inside[: number + 1]:
            for _, ways, *_ in crossings[tile]:
                for way in ways:
                    for port, each in way.items():
                        demand[port] += each * prod(inside[number]) // prod(tile)
        return max(demand.values(), default=0)

    @cache
    def stop(number, last=OTHERS):
        """For how long the units stop when a tile ends with all those in it: the busiest port of what they stop for.

        Until the tiles of the `last` of the operands are there.
        """
        total = Counter()
        for tile in inside[: number + 1]:
            for waits, ways, behind, operand, _ in crossings[tile]:
                for way in (*ways, *behind) if waits and operand <= last else ():
                    total.update(way)
        return max(total.values(), default=0)

    def stops_for(number, which):
        return any(waits and its == which for tile in inside[: number + 1] for waits, _, _, its, _ in crossings[tile])

    @cache
    def turn(number):
        """Cycles from one such tile to the next."""
        inner = factors[number - 1] * turn(number - 1) if number else 1
        late = [units(number, (one,)) + stop(number, one) for one in (0, 1) if stops_for(number, one)]
        return max(inner, units(number, ()) + stop(number), busiest(number), *late)

    @cache
    def brings(number, one):
        """Of every port when it has brought what an operand needs for the next tile, from the begin of one."""
        found = Counter()
        if number:
            for port, cycles in brings(number - 1, one).items():
                found[port] = cycles + (factors[number - 1] - 1) * turn(number - 1)
        for waits, ways, _, operand, at_units in crossings[inside[number]]:
            is_before = (operand < one and one in queued) or (waits and one == RESULTS)
            needed = ways[1:] if at_units and one == RESULTS else ways  # sums come before those at the units have left
            for way in needed if operand == one or is_before else ():
                for port, cycles in way.items():
                    if cycles:
                        found[port] += cycles
        return found

    @cache
    def units(number, missing):
        """From the first iteration of a tile to its last; if the second tiles are there but those of some operands."""
        if number == 0:
            return 1
        last = (factors[number - 1] - 1) * turn(number - 1)
        if missing == ALL:
            return last + units(number - 1, ALL)
        arrivals = [cycles for one in missing for cycles in brings(number - 1, one).values()]
        second = max([units(number - 1, ALL) + stop(number - 1), *arrivals])
        return min(last + units(number - 1, missing), last - turn(number - 1) + second + units(number - 1, ALL))

    ends = [Counter(), Counter()]
    for one in crossings.values():
        for _, ways, *_ in one:
            for end, way in zip(ends, ways, strict=True):
                end.update(way)
    last = max(ends[1].values(), default=0)
    whole = []
    for one in (0, 1, RESULTS):
        begun = Counter()
        for some in crossings.values():
            for _, ways, _, operand, _ in some:
                if operand <= one or one == RESULTS:
                    begun.update(ways[0])
        whole.append(units(len(order), (one,)) + max(begun.values(), default=0) + last)
    return max(turn(len(order)), *whole)


def is_even(operands, chosen) -> bool:
    """Whether all operands change at one place in every memory that stores evenly."""
    ends = {}
    for operand, one in zip(operands, chosen, strict=True):
        for level in operand.even_levels(operands):
            ends.setdefault(operand.chain[level].name, set()).add(one[3][level])
    return all(len(places) == 1 for places in ends.values())


@dataclass
class _Operand:
    placed: PlacedNest
    number: int
    final_sums: bool

    def __post_init__(self):
        placed = self.placed
        self.array = placed.operands[self.number]
        self.home = placed.homes[self.number]
        self.is_write = self.array is placed.nest.write
        self.chain = [memory for memory in placed.tree.memories if self.home in memory.operands]
        self.moving = {loop for terms in self.array.axes for loop, _ in terms}
        left = {axis.name for axis in placed.tree.axes}
        self.axes = []
        for memory in self.chain:
            self.axes.append(left & set(memory.serves))
            left -= set(memory.serves)
        self.axes.append(left)
        self.known = {}
        self.followed = RESULTS if self.is_write else self.number if self.number < RESULTS else OTHERS

    def even_levels(self, operands):
        """The levels of memories that store evenly what this and other operands pass on."""
        return [
            level
            for level, memory in enumerate(self.chain[:-1])
            if memory.has_even_storage and sum(memory in one.chain[:-1] for one in operands) > 1
        ]

    def inside(self, levels):
        """The axes inside so many levels."""
        return set().union(*self.axes[:levels])

    def factor(self, axes, loop):
        """How far a loop is spread along some axes."""
        return prod(
            (one.factor for one in self.placed.unrolled if one.loop == loop and one.axis in axes), start=Fraction(1)
        )

    def spread(self, levels, loop):
        return self.factor(set().union(*(self.axes[level] for level in levels)), loop)

    def touched(self, tile, levels):
        """Elements of the tile with what is spread at these levels."""
        return self.together(tile, set().union(*(self.axes[level] for level in levels)))

    def together(self, tile, axes, slides_along=None):
        """Elements of the tile with what is spread along these axes; or those that the next one along a loop shares."""
        count = Fraction(1)
        size = [Fraction(n) * self.factor(axes, loop) for loop, n in enumerate(tile)]
        if self.placed.tree.moves_boxes and slides_along != DIFFERENT:
            ends = [sum(step * (size[loop] - 1) for loop, step in terms) for terms in self.array.axes]
            begins = [sum(step * size[at] for at, step in terms if at == slides_along) for terms in self.array.axes]
            return prod(max(0, end + 1 - begin) for begin, end in zip(begins, ends, strict=True))
        for terms, there in zip(self.array.axes, self.array.shape, strict=True):
            if len(terms) == 1:
                count *= size[terms[0][0]]
            elif terms:
                (a, s), (b, t) = terms
                m, n, g = size[a], size[b], gcd(s, t)
                if self.placed.zigzag_windows or (m.denominator, n.denominator) == (1, 1):
                    m, n = int(m), int(n)
                if self.placed.zigzag_windows:
                    all_of_it = min(there, m * n - max(0, n - s // g) * (m - t // g))
                elif isinstance(m, int) and isinstance(n, int):
                    all_of_it = min(there, len({s * x + t * y for x in range(m) for y in range(n)}))
                else:
                    all_of_it = min(there, m * n - max(0, n - s // g) * max(0, m - t // g))
                if slides_along in (a, b) and isinstance(m, Fraction):
                    shared = t // g * (n - s // g) if slides_along == a else s // g * (m - t // g)
                    all_of_it = min(all_of_it, max(0, shared))
                elif slides_along in (a, b):
                    step = s * m if slides_along == a else t * n
                    window = {s * x + t * y for x in range(m) for y in range(n)}
                    all_of_it = min(all_of_it, len(window & {index + step for index in window}))
                count *= all_of_it
        return count

    def wide(self, number):
        """The axes over which neighbours take windows together."""
        shared = (one for one in self.networks(number) if one[3].forwarding or one[3].shares_windows)
        return set() if self.is_write else {name for _, name, *_ in shared}

    def exchanging(self, number):
        """How many memories or units inside exchange with what is around: one of those that add their sums up."""
        outer = set().union(*self.axes[number:])
        adding = {name for _, name, _, one in self.networks(number) if self.is_write and one.passes_sums}
        loops = range(len(self.placed.steps))
        return round(
            float(prod(self.factor(outer - adding if loop not in self.moving else outer, loop) for loop in loops))
        )

    def networks(self, number):
        """What carries the operand over a fan-out: the axis, by number and name, and the network, by number too."""
        for at, axis in enumerate(self.placed.tree.axes):
            for which, network in enumerate(axis.networks):
                if axis.name in self.axes[number] and self.home in network.operands:
                    yield at, axis.name, which, network

    def can_slide(self, number, tile, loop):
        """Whether windows of this tile may slide along a loop at a crossing."""
        keeps = number > 0 and self.chain[number - 1].has_sliding_window
        forwards = {name for _, name, _, network in self.networks(number) if network.forwarding}
        if self.is_write or not (keeps or forwards):
            return False
        for terms in self.array.axes:
            if len(terms) == 2 and loop in (terms[0][0], terms[1][0]):
                (_, step), (other, further) = terms if loop == terms[0][0] else terms[::-1]
                sizes = [int(tile[loop] * self.factor(axes, loop)) for axes in self._windows(number, forwards)]
                wide = self.placed.nest.extents[loop] > 1 and self.placed.nest.extents[other] > 1
                return wide and all(size >= further // gcd(step, further) for size in sizes)
        return False

    def _windows(self, number, forwards):
        return [self.inside(number), self.inside(number) | forwards]

    def is_partial(self, crossing, tile):
        reduced = [loop for loop in range(len(tile)) if loop not in self.moving]
        outer = set().union(*self.axes[crossing + 1 :])
        outer |= {name for _, name, _, network in self.networks(crossing) if not network.reduction}
        return any(tile[loop] < self.placed.steps[loop] or self.factor(outer, loop) > 1 for loop in reduced)

    def crossing(self, number, part, tile):
        """Energy at both ends of a crossing at this tile, and of the networks between them."""
        key = (number, part, tile)
        if key not in self.known:
            self.known[key] = self._crossing(number, part, tile)
        return self.known[key]

    def _crossing(self, number, part, tile):
        times = self.placed.total_steps // prod(tile)
        back = times - self._first(number, tile)
        moves = 0
        for level, flow, bits in self._moves(number, part, tile):
            returns = self.is_write and flow in (Flow.FEED, Flow.FILL)
            copies = self._copies(level) if level == number else self.exchanging(number)
            moves += self._port(level, flow, bits, (back if returns else times) * copies, part[0])
        per_bit = sum(network.pj_per_bit for *_, network in self.networks(number))
        inner, _ = self._counts(number, part, tile)
        bits, returned = self._bits(number, tile)
        moves += inner * (bits * times + returned * back) * self.exchanging(number) * per_bit
        hops = inner * times * (self._copies(number - 1) - self.exchanging(number))
        return moves + hops * (bits * (per_bit + self._addition(number)) + self.placed.tree.mac_pj)

    def _first(self, number, tile):
        """How many of the sums that come back at a crossing are zero and not read."""
        tree = self.placed.tree
        if tree.reads_first_sums or (number == 0 and not tree.has_latches):
            return 0
        return prod(self.placed.steps[loop] // tile[loop] for loop in self.moving)

    def _addition(self, number):
        """Of a bit of a sum that is passed on: two reads and a write of the memory at the place that adds."""
        if number == 0:
            return 0
        memory = self.chain[number - 1]
        (drain,) = [port.width_bits for port in memory.ports if (self.home, Flow.DRAIN) in port.flows]
        (fill,) = [port.width_bits for port in memory.ports if (self.home, Flow.FILL) in port.flows]
        return 2 * memory.read_pj / drain + memory.write_pj / fill

    def _counts(self, number, part, tile):
        """Elements that cross once, at the inner end and at the outer one; of windows a part of them."""
        kind, loop = part
        inside = self.inside(number)
        networks = list(self.networks(number))
        shares = "reduction" if self.is_write else "multicast"
        wide = self.wide(number)
        single = {name for _, name, _, one in networks if not getattr(one, shares)} - wide
        others = self.inside(number + 1) - single
        if self.placed.zigzag_windows:
            parts = self.differing(others) / self.differing(inside | wide)
        else:
            parts = self.differing(others - inside - wide)
        for one in range(len(tile)):
            parts *= self.factor(single, one)
        parts = round(parts)

        def of_window(axes):
            whole = self.together(tile, axes)
            new = round(whole - self.together(tile, axes, loop))
            return round(whole) - new if kind == "first" else new

        inner = 1 if number == 0 else round(self.together(tile, inside))
        plain = inner if not wide else round(self.together(tile, inside | wide))
        if kind == "all":
            return inner, plain * parts
        if number > 0 and self.chain[number - 1].has_sliding_window:
            inner = of_window(inside)
        elif kind == "first":
            inner = 0
        return inner, (of_window(inside | wide) if wide else inner) * parts

    def differing(self, axes):
        """Values of one step that differ along these axes."""
        return self.together((1,) * len(self.placed.steps), axes, slides_along=DIFFERENT)

    def _bits(self, number, tile):
        """Bits of an element that crosses, and of it as a partial sum that comes back."""
        partial = self.is_write and self.is_partial(number, tile)
        bits = self.array.element_bits if partial or not self.is_write else self.placed.final_bits
        always = self.is_write and number == 0 and not self.placed.tree.has_latches
        return bits, bits if partial or always else 0

    def _moves(self, number, part, tile):
        """What one crossing at this tile moves: level, direction and bits."""
        inner, outer = self._counts(number, part, tile)
        bits, back = self._bits(number, tile)
        yield number, Flow.COLLECT if self.is_write else Flow.FEED, outer * bits
        if back:
            yield number, Flow.FEED, outer * back
        if number > 0:
            yield number - 1, Flow.DRAIN if self.is_write else Flow.FILL, inner * bits
            if back:
                yield number - 1, Flow.FILL, inner * back

    def occupied(self, number, part, tile):
        """Cycles of every port that one crossing at this tile takes, inwards and outwards; an access takes one."""
        key = ("occupied", number, part, tile)
        if key not in self.known:
            self.known[key] = self._occupied(number, part, tile)
        return self.known[key]

    def _occupied(self, number, part, tile):
        ways = Counter(), Counter()
        for level, flow, bits in self._moves(number, part, tile):
            memory = self.chain[level]
            ((at, port),) = [one for one in enumerate(memory.ports) if (self.home, flow) in one[1].flows]
            moved = ceil(Fraction(bits) / port.granule_bits) * port.granule_bits
            ways[flow in (Flow.COLLECT, Flow.DRAIN)][memory.name, at] += ceil(Fraction(moved, port.width_bits))
        inner, outer = self._counts(number, part, tile)
        for is_back, bits in enumerate(self._bits(number, tile)):
            way = ways[self.is_write and not is_back]
            for _, name, which, network in self.networks(number):
                if network.bits_per_cycle is not None:
                    way[name, which] += ceil(outer * bits / network.bits_per_cycle)
            for engine in self.placed.tree.engines:
                ends = (engine.outer, engine.inner)
                if number > 0 and ends == (self.chain[number].name, self.chain[number - 1].name) and inner * bits:
                    rate = engine.bits_per_cycle * engine.count
                    way[engine.name] += engine.setup_cycles + ceil(Fraction(inner * bits) / rate)
        return ways

    def behind(self, number, inner):
        """What follows a crossing before the units go on, through the memories inside that have two buffers.

        With the part and the tile of those that are known, else of one iteration.
        """
        found = []
        single = ("all", None), (1,) * len(self.placed.steps)
        while number > 0 and (number == 1 or self.chain[number - 2].buffers == 2):
            number -= 1
            if number == 0 or not self.is_write:
                found += self.occupied(number, *inner.get(number, single))
        return found

    def _copies(self, level):
        loops = range(len(self.placed.steps))
        outer = range(level + 1, len(self.axes))
        return round(float(prod((self.spread(outer, loop) for loop in loops), start=Fraction(1))))

    def _port(self, level, flow, bits, times, kind):
        memory = self.chain[level]
        (port,) = [port for port in memory.ports if (self.home, flow) in port.flows]
        moved = ceil(Fraction(bits) / port.granule_bits) * port.granule_bits * times
        accesses = Fraction(moved, port.width_bits)
        rounded = int(accesses) if kind == "all" else float(accesses)
        return rounded * (memory.read_pj if flow in (Flow.FEED, Flow.DRAIN) else memory.write_pj)

    def room(self, level, tile, arriving, leaving):
        bits = self.array.element_bits
        if self.is_write and not (leaving if self.final_sums else arriving):
            bits = self.placed.final_bits
        room = self.touched(tile, range(level + 1)) * bits
        whole = self.touched(self.placed.steps, range(level + 1)) * bits
        if self.chain[level].bank_bits:
            return ceil(room / self.chain[level].bank_bits) * self.chain[level].bank_bits * self.chain[level].buffers
        return 2 * room if self.chain[level].buffers == 2 and room < whole else room

    def is_allowed(self, level, tile, room):
        """Whether the user lets a memory hold this."""
        for limit in self.placed.limits:
            if limit.memory == self.chain[level].name and limit.home == self.home:
                if room > limit.share * self.chain[level].size_bits:
                    return False
                for loop, least, most in limit.tile:
                    if loop in self.moving and not least <= tile[loop] <= most:
                        return False
        return True

    def places(self, order):
        """Energy, room in every memory, crossings, and cuts, of all places of this operand in an order.

        A crossing is its number, its part and its tile. Windows slide over any row of one loop directly outside a cut.
        """
        for ends in itertools.combinations_with_replacement(range(len(order) + 1), len(self.chain) - 1):
            yield from self._placed_at(order, ends, 0, 0, ())

    def _placed_at(self, order, ends, number, inside, crossings):
        """All places where crossings from this one on slide or do not."""
        if number > len(ends):
            yield self._priced(ends, crossings)
            return
        inside = max(inside, (0, *ends)[number])
        while inside < len(order) and order[inside][0] not in self.moving:
            inside += 1
        ones = (1,) * len(self.placed.steps)
        is_at_units = number == 0 and (self.is_write or not self.placed.tree.has_latches)
        tile = ones if is_at_units else self._tile(order[:inside])
        yield from self._placed_at(order, ends, number + 1, inside, (*crossings, (number, ("all", None), tile)))
        last = (*ends, len(order))[number]
        for end in range(inside + 1, last + 1):
            loop = order[inside][0]
            if order[end - 1][0] != loop or not self.can_slide(number, tile, loop):
                break
            row = ((number, ("new", loop), tile), (number, ("first", loop), self._tile(order[:end])))
            yield from self._placed_at(order, ends, number + 1, end, crossings + row)

    def _tile(self, loops):
        tile = [1] * len(self.placed.steps)
        for loop, factor in loops:
            tile[loop] *= factor
        return tuple(tile)

    def _priced(self, ends, crossings):
        tiles = [tile for _, (kind, _), tile in crossings if kind != "first"]
        held = [*tiles[1:], self.placed.steps]
        rooms = []
        for level, tile in enumerate(held):
            arriving = self.is_write and self.is_partial(level, tiles[level])
            leaving = self.is_write and level + 1 < len(tiles) and self.is_partial(level + 1, tiles[level + 1])
            rooms.append(self.room(level, tile, arriving, leaving))
            if level < len(held) - 1 and not self.is_allowed(level, tile, rooms[-1]):
                return inf, rooms, crossings, ends
        return sum(self.crossing(*one) for one in crossings), rooms, crossings, ends


NESTS = {
    "product": ((("M", "N", "K"),), (((0,), (2,)), ((2,), (1,))), ((0,), (1,))),
    "halo": ((("K", "X", "F"),), (((0,), (2,)), (((1, 2), (2, 1)),)), ((0,), (1,))),
    "row": ((("C", "X", "F"),), (((0,), (2,)), ((0,), ((1, 1), (2, 1)))), ((1,),)),
}


def random_case(seed, most_loops=4) -> PlacedNest:
    """A nest of up to so many prime loops on a tree of one to four memories an operand, some of them shared."""
    kind = seed.choice(sorted(NESTS))
    (names,), reads, write = NESTS[kind]
    extents = [seed.choice((1, 2, 3, 4, 5, 6)) for _ in names]
    while sum(len(primes(extent)) for extent in extents) > most_loops:
        extents[seed.randrange(3)] = seed.choice((1, 2, 3))

    def array(name, axes, bits):
        frozen = tuple(tuple((at, 1) for at in one) if not isinstance(one[0], tuple) else one for one in axes)
        return LoopOperand(name, frozen, tuple(_size(terms, extents) for terms in frozen), bits)

    nest = LoopNest(
        kind,
        "einsum",
        tuple(map(Loop, names, extents)),
        tuple(array(name, axes, seed.choice((4, 8))) for name, axes in zip("WI", reads, strict=True)),
        array("O", write, seed.choice((16, 24))),
    )
    axes = tuple(Axis(f"D{at}", seed.choice((2, 3))) for at in range(seed.randrange(3)))
    unrolled, free = [], list(range(3))
    for axis in axes:
        loop = free.pop(seed.randrange(len(free)))
        steps = ceil(extents[loop] / min(axis.size, extents[loop]))
        unrolled.append(Unrolled(axis.name, loop, Fraction(extents[loop], steps)))
    tree, rounds = _tree(seed, axes), sum(extents) % 2 == 0
    return PlacedNest(nest, 8, ("W", "I", "O"), tuple(unrolled), tree, zigzag_windows=rounds)


def timed_case(seed, most_loops=3) -> PlacedNest:
    """A random case whose memories have one or two buffers, and ports for reading and writing, or for operands."""
    placed = random_case(seed, most_loops)
    return replace(placed, tree=timed_memories(placed.tree, seed))


def timed_memories(tree: MachineTree, seed) -> MachineTree:
    """The same tree with random ports and numbers of buffers."""
    return replace(tree, memories=tuple(_with_ports(seed, memory) for memory in tree.memories))


def with_engines(placed: PlacedNest, seed) -> PlacedNest:
    """The same case with random DMA engines between some of the memories that follow one another in a chain."""
    chains = [placed.tree.chain(home) for home in placed.homes]
    pairs = sorted({(a.name, b.name) for chain in chains for a, b in itertools.pairwise(chain)})
    rates, setups = (Fraction(4), Fraction(33, 2)), (0, 1, 3, 8)
    engines = tuple(
        DmaEngine(f"dma{at}", *pair, seed.choice((1, 2)), seed.choice(setups), seed.choice(rates))
        for at, pair in enumerate(pairs)
        if seed.random() < 0.7
    )
    return replace(placed, tree=replace(placed.tree, engines=engines))


def with_networks(placed: PlacedNest, seed) -> PlacedNest:
    """The same case with random networks along axes, memories with sliding windows, and ones that store evenly."""
    axes = tuple(
        replace(axis, networks=tuple(_network(seed, one) for one in (("W",), ("I",), ("O",)) if seed.random() < 0.7))
        for axis in placed.tree.axes
    )
    memories = tuple(
        replace(memory, has_sliding_window=seed.random() < 0.4, has_even_storage=seed.random() < 0.25)
        for memory in placed.tree.memories
    )
    return replace(placed, tree=replace(placed.tree, axes=axes, memories=memories))


def like_arrays(placed: PlacedNest, seed) -> PlacedNest:
    """The same case with some of what arrays of processing elements have, and without windows that slide."""
    tree = placed.tree
    axes = tuple(replace(axis, networks=tuple(_of_array(seed, one) for one in axis.networks)) for axis in tree.axes)
    memories = tuple(
        replace(memory, has_sliding_window=False, bank_bits=seed.choice((0, 0, 8, 24))) for memory in tree.memories
    )
    tree = replace(
        tree,
        axes=axes,
        memories=memories,
        has_latches=seed.random() < 0.5,
        reads_first_sums=seed.random() < 0.5,
        moves_boxes=seed.random() < 0.5,
    )
    return replace(placed, tree=tree)


def unevenly(placed: PlacedNest) -> PlacedNest:
    """The same case where every operand has places of its own."""
    memories = tuple(replace(memory, has_even_storage=False) for memory in placed.tree.memories)
    return replace(placed, tree=replace(placed.tree, memories=memories))


def _of_array(seed, network) -> Network:
    shared = seed.random() < 0.6
    multicast, reduction = network.multicast or shared, network.reduction or shared
    return replace(
        network, forwarding=False, multicast=multicast, reduction=reduction, shares_windows=shared, passes_sums=shared
    )


def _network(seed, operands) -> Network:
    return Network(
        operands,
        multicast=seed.random() < 0.5,
        reduction=seed.random() < 0.5,
        forwarding=seed.random() < 0.4,
        pj_per_bit=seed.choice((0.0, 0.0625, 0.5)),
        bits_per_cycle=seed.choice((None, Fraction(6), Fraction(33, 2))),
    )


def _with_ports(seed, memory) -> TreeMemory:
    (port,) = memory.ports
    kind = seed.choice(("one", "directions", "operands"))
    parts = {}
    for operand, flow in port.flows:
        parts.setdefault({"one": 0, "directions": flow.is_read, "operands": operand}[kind], []).append((operand, flow))
    ports = tuple(
        Port(str(name), port.granule_bits * seed.choice((1, 2, 4)), port.granule_bits, tuple(flows))
        for name, flows in parts.items()
    )
    buffers = seed.choice((1, 2))
    return replace(memory, ports=ports, buffers=buffers, size_bits=memory.size_bits * buffers)


def _size(terms, extents):
    if len(terms) == 1:
        return extents[terms[0][0]]
    (a, s), (b, t) = terms
    return s * (extents[a] - 1) + t * (extents[b] - 1) + 1


def _tree(seed, axes) -> MachineTree:
    names = tuple(axis.name for axis in axes)
    memories = []
    for operand in "WIO":
        if seed.random() < 0.6:
            serves = tuple(name for name in names if seed.random() < 0.3)
            memories.append(_memory(seed, f"rf_{operand}", (operand,), seed.choice((32, 48, 96)), serves))
    for number in range(seed.choice((1, 1, 2))):
        held = tuple(operand for operand in "WIO" if seed.random() < 0.75) or ("O",)
        memories.append(_memory(seed, f"buffer{number}", held, seed.choice((96, 160, 256)), names))
    return MachineTree("random", axes, (*memories, _memory(seed, "dram", ("W", "I", "O"), 10**6, names)), 0.25)


def _memory(seed, name, operands, size, serves) -> TreeMemory:
    flows = [(operand, flow) for operand in operands for flow in Flow]
    granule = seed.choice((4, 8, 16))
    ports = (Port("port", granule * seed.choice((1, 2, 4)), granule, tuple(flows)),)
    costs = (seed.choice((0.5, 1.5, 7.0)), seed.choice((0.25, 2.0, 9.0)))
    buffers = 2 if name.startswith("buffer") and seed.random() < 0.3 else 1
    return TreeMemory(name, size, operands, ports, *costs, serves, buffers)
