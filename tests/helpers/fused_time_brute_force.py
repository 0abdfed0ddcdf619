"""Energy and cycles of every fused mapping of a small chain: visits tile by tile, then the loops around them."""

import itertools
from collections import Counter
from dataclasses import replace
from functools import cache
from math import ceil, inf, prod

import numpy as np

from tests.helpers.fused_brute_force import (
    Truncated,
    _Counted,
    _passes,
    all_homes,
    all_orders,
    all_turns,
    axes_of_cells,
    fitting_alone,
    lists_of,
    places_of,
    read_from_outside,
    read_last,
    readers_of,
    rooms_taken,
)
from tests.helpers.tree_brute_force import slow_latency, timed_memories, with_engines
from tilestitch.hardware.tree import Flow


def timed_chain(chain, seed):
    """The same chain where memories have one or two buffers, several ports, and DMA engines between some."""
    tree = timed_memories(chain.tree, seed)
    tree = with_engines(replace(chain.operators[0], tree=tree), seed).tree if seed.random() < 0.3 else tree
    return replace(chain, operators=tuple(replace(one, tree=tree) for one in chain.operators))


def all_fused(chain, *, final_sums):
    """Energy and cycles of all fused mappings that no other beats in both, in ascending order of energy."""
    front = []
    for turns in all_turns(chain):
        for one in all_homes(turns):
            _Timed(turns, one, final_sums, front).all()
    return front


def front_at_homes(chain, homes, *, final_sums):
    """The same of operators in this order, with intermediates that wait in these memories."""
    front = []
    _Timed(chain, homes, final_sums, front).all()
    return front


def _keep(front, point):
    if any(energy <= point[0] and cycles <= point[1] for energy, cycles in front):
        return
    front[:] = sorted([one for one in front if one[0] < point[0] or one[1] < point[1]] + [point])


class _Timed:
    def __init__(self, chain, homes, final_sums, front):
        self.chain, self.homes, self.front = chain, homes, front
        self.counted = _Counted(chain, final_sums)
        self.final_sums = final_sums
        self.options = cache(self._options)
        read_pj, self.read_cycles = read_from_outside(chain, homes)
        self.passes_pj = sum(_passes(chain, link, home) for link, home in enumerate(homes)) + read_pj

    def all(self):
        for orders, shared in all_orders(self.chain, self.homes, outermost_couples=False):
            self.price(orders, shared)

    def price(self, orders, shared):
        """All places of all operands in these orders."""
        count = len(orders)
        lists = [self.options(at, orders[at], places_of(self.chain, self.homes, shared, at)) for at in range(count)]
        if not all(lists):
            return

        @cache
        def latency(timings):
            return _Run(self, orders, shared, timings).block(0, count - 1, 0)[0] + self.read_cycles

        least = [0, *itertools.accumulate(min(one[0] for one in some) for some in lists[::-1])][::-1]
        tables, limits = rooms_taken(self.chain, self.homes, shared, [[one[:4] for one in some] for some in lists])
        visits = [
            [one[4][0] * prod(factor for _, factor in orders[at][one[4][3] :]) for one in some]
            for at, some in enumerate(lists)
        ]

        def combine(number, energy, cycles, taken, timings):
            if number == count:
                _keep(self.front, (energy + self.passes_pj, latency(timings)))
                return
            for at in np.flatnonzero((taken + tables[number] <= limits).all(axis=1)).tolist():
                one = lists[number][at]
                bound, visited = energy + one[0] + least[number + 1] + self.passes_pj, cycles + visits[number][at]
                if not any(e <= bound and c <= visited for e, c in self.front):
                    combine(number + 1, energy + one[0], visited, taken + tables[number][at], (*timings, one[4]))

        combine(0, 0, self.read_cycles, np.zeros(len(limits)), ())

    def _options(self, number, order, places):
        """Energy, rooms, what intermediates take, and times, of all places of all operands of one operator."""
        chain, (forks, _) = self.chain, places
        placed = chain.operators[number]
        cells = axes_of_cells(chain, self.homes)[number]
        spread = tuple(one for one in placed.unrolled if one.axis in cells)
        fork = len(order) - max(forks, default=0)

        def more(operand, at, home, order, ends, forks):
            bare = Truncated(replace(placed, unrolled=spread), at, self.final_sums).end_at(home)
            return self._crossings(operand, bare, order, ends, forks, fork)

        kept = {}
        for chosen, energy, rooms, written, read in fitting_alone(
            chain, placed, lists_of(chain, number, order, places, self.homes, self.counted, more)
        ):
            key = (tuple(sorted(rooms)), written, read, self._times(placed, order, fork, chosen))
            kept[key] = min(energy, kept.get(key, inf))
        return [(energy, *key) for key, energy in sorted(kept.items(), key=lambda item: item[1])]

    def _crossings(self, operand, bare, order, ends, forks, fork):
        """Inside crossings as (number, part, tile); those outside with depth and cycles in, out, and of stops."""
        inside, outside = [], []
        stops = {len(order) - some for some in forks}
        end = 0
        for number, cut in enumerate((0, *ends)):
            end = max(end, cut)
            while end < len(order) and end not in stops and order[end][0] not in operand.moving:
                end += 1
            at_units = number == 0 and (operand.is_write or not operand.placed.tree.has_latches)
            place = 0 if at_units else end
            tile = operand._tile(order[:place])
            if place <= fork:
                inside.append((number, ("all", None), tile))
                continue
            placed = operand.placed
            scaled = tuple(
                n * extent // steps for n, extent, steps in zip(tile, bare.placed.steps, placed.steps, strict=True)
            )
            ways = bare.occupied(number, ("all", None), scaled)
            waits = number > 0 and bare.chain[number - 1].buffers == 1
            stop = sum((Counter(way) for way in (*ways, *bare.behind(number, {}))), Counter()) if waits else Counter()
            outside.append((len(order) - place, *(tuple(sorted(one.items(), key=str)) for one in (*ways, stop))))
        return tuple(inside), tuple(outside)

    def _times(self, placed, order, fork, chosen):
        """The time of a visit, for how long it keeps ports busy, what crosses outside, and how many loops it has."""
        operands = [item[4] for item in chosen]
        tiles = [item[3][0] for item in chosen]
        inner = order[:fork]
        whole = prod(factor for _, factor in inner)
        busy = Counter()
        for operand, its in zip(operands, tiles, strict=True):
            for number, part, tile in its:
                for way in operand.occupied(number, part, tile):
                    for port, cycles in way.items():
                        busy[port] += cycles * whole // prod(tile)
        outside = tuple(sorted((one for item in chosen for one in item[3][1]), key=str))
        return slow_latency(operands, tiles, inner), tuple(sorted(busy.items(), key=str)), outside, fork


class _Run:
    """The operators of a chain, with what each does in a visit."""

    def __init__(self, timed, orders, shared, timings):
        self.timed, self.orders, self.shared, self.timings = timed, orders, shared, timings

    def block(self, first, last, outside):
        """The time of some operators inside so many shared loops, and for how long ports are busy."""
        if first == last:
            return self.timings[first][0], Counter(dict(self.timings[first][1]))
        until = min(self.shared[first:last])
        base, busy, start = 0, Counter(), first
        for link in [link for link in range(first, last) if self.shared[link] == until] + [last]:
            time, its = self.block(start, link, until)
            base, busy, start = base + time, busy + its, link + 1
            if link < last:
                between = self.between(link)
                base, busy = base + max(between.values(), default=0), busy + between
        factors = [self.orders[first][len(self.orders[first]) - 1 - depth][1] for depth in range(until)][::-1]
        factors = factors[: until - outside]
        crossings = [
            [one for number in range(first, last + 1) for one in self.timings[number][2] if one[0] == until - 1 - at]
            for at in range(len(factors))
        ]
        return _row(base, busy, factors, crossings)

    def between(self, link):
        timed, chain = self.timed, self.timed.chain
        if not chain.links[link].passes:
            return Counter()
        order, placed = self.orders[link], chain.operators[link]
        home = next(one for one in chain.tree.memories if one.name == timed.homes[link])
        beside = [one for one in placed.unrolled if one.axis not in home.serves]
        tile = list(replace(placed, unrolled=tuple(beside)).steps)
        reader = readers_of(chain)[link]
        for loop, factor in order[len(order) - min(self.shared[link:reader]) :]:
            tile[loop] //= factor
        elements = prod(tile[terms[0][0]] for terms in placed.nest.write.axes)
        reader, operand = read_last(chain, link)
        bits = elements * chain.operators[reader].nest.reads[operand].element_bits
        found = Counter()
        for name, flow in (
            (chain.operators[reader].homes[operand], Flow.FEED),
            (placed.homes[-1], Flow.COLLECT),
        ):
            ((at, port),) = [one for one in enumerate(home.ports) if (name, flow) in one[1].flows]
            granules = ceil(bits / port.granule_bits) * port.granule_bits
            found[home.name, at] += chain.links[link].passes * ceil(granules / port.width_bits)
        return found


def _row(base, base_busy, factors, crossings):
    """The time of loops around something that takes `base`, as docs/trees.md says, and for how long ports are busy."""
    upto = [[one for level in crossings[:number] for one in level] for number in range(len(factors) + 1)]

    def busy(number):
        found = Counter({port: cycles * prod(factors[:number]) for port, cycles in base_busy.items()})
        for at in range(number):
            for _, inwards, outwards, _ in crossings[at]:
                for port, cycles in (*inwards, *outwards):
                    found[port] += cycles * prod(factors[at + 1 : number])
        return found

    def stop(number):
        return max(sum((Counter(dict(one[3])) for one in upto[number]), Counter()).values(), default=0)

    @cache
    def turn(number):
        if number == 0:
            return base
        inner = factors[number - 1] * turn(number - 1)
        return (
            max(inner, units(number, True) + stop(number), *busy(number).values()) if crossings[number - 1] else inner
        )

    @cache
    def units(number, is_ahead):
        if number == 0:
            return base
        last = (factors[number - 1] - 1) * turn(number - 1)
        if not is_ahead:
            return last + units(number - 1, False)
        second = units(number - 1, False) + stop(number - 1)
        return min(last + units(number - 1, True), last - turn(number - 1) + second + units(number - 1, False))

    end = len(factors)
    first, last = (sum((Counter(dict(one[way])) for one in upto[end]), Counter()) for way in (1, 2))
    whole = units(end, True) + max(first.values(), default=0) + max(last.values(), default=0)
    return max(turn(end), whole), busy(end)
