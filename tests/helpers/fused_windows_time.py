"""Energy and cycles of every fused mapping of a small chain of convolutions that share windows along one axis."""

import itertools
from collections import Counter
from dataclasses import replace
from functools import cache
from math import ceil, inf, prod

from tests.helpers.fused_brute_force import _passes, _usage
from tests.helpers.fused_time_brute_force import _keep, _row, all_fused
from tests.helpers.fused_windows import Kept, Windows, _outwards, ways_to_share
from tests.helpers.tree_brute_force import slow_latency
from tilestitch.hardware.tree import Flow


def all_with_windows(chain, *, final_sums):
    """Energy and cycles of all fused mappings that no other beats in both, of every division."""
    fronts = [[(0.0, 0)]]
    outermost = chain.tree.memories[-1]
    for end in range(len(chain.operators)):
        front = []
        for start in range(end + 1):
            part = chain.part(range(start, end + 1))
            own = all_fused(part, final_sums=final_sums)
            for one in ways_to_share(part, final_sums, TimedWindows, TimedKept):
                one.all_into(own)
            energy, cycles = 0.0, 0
            if start:
                energy = _passes(chain, start - 1, outermost.name)
                elements = prod(chain.operators[start - 1].nest.write.shape)
                cycles = max(_between(chain, start - 1, outermost, elements).values(), default=0)
            for before, behind in itertools.product(fronts[start], own):
                _keep(front, (before[0] + energy + behind[0], before[1] + cycles + behind[1]))
        fronts.append(front)
    return fronts[-1]


def _between(chain, link, memory, elements):
    found = Counter()
    bits = elements * chain.operators[link + 1].nest.reads[chain.links[link].read].element_bits
    read, write = chain.operators[link + 1].homes[chain.links[link].read], chain.operators[link].homes[-1]
    for name, flow in ((read, Flow.FEED), (write, Flow.COLLECT)) if chain.links[link].passes else ():
        ((at, port),) = [one for one in enumerate(memory.ports) if (name, flow) in one[1].flows]
        granules = ceil(bits / port.granule_bits) * port.granule_bits
        found[memory.name, at] += chain.links[link].passes * ceil(granules / port.width_bits)
    return found


class TimedWindows(Windows):
    """Operators that share some loops, of which some go over windows, with the time of each visit."""

    def all_into(self, front):
        """Every mapping that none known beats goes into a front."""
        limits = {memory.name: memory.size_bits for memory in self.chain.tree.memories}
        lists = [self.timed_options(number) for number in range(self.count)]
        least = [0, *itertools.accumulate(min((one[0] for one in some), default=inf) for some in lists[::-1])][::-1]
        steps = [0, *itertools.accumulate(min((one[4][0] for one in some), default=0) for some in lists[::-1])][::-1]
        visits = prod(self.turns())
        latency = cache(self.latency)

        def combine(chosen, energy, cycles):
            bound, fastest = energy + least[len(chosen)], visits * (cycles + steps[len(chosen)])
            if any(e <= bound and c <= fastest for e, c in front):
                return
            used = _usage(self.chain, self.homes, [self.depth] * (self.count - 1), [one[:4] for one in chosen])
            if any(bits > limits[memory] for (memory, _), bits in used.items()):
                return
            if len(chosen) == self.count:
                _keep(front, (bound, latency(tuple(one[4] for one in chosen))))
                return
            for one in lists[len(chosen)]:
                combine([*chosen, one], energy + one[0], cycles + one[4][0])

        combine([], 0.0, 0)

    def timed_options(self, number):
        """Energy, rooms, what intermediates take, and times, of all orders and places of one operator."""
        kept = {}
        limits = {memory.name: memory.size_bits for memory in self.chain.tree.memories}
        for own in self.own_orders(number):
            for chosen in itertools.product(*self.places(number, own)):
                alone = Counter()
                for memory, bits, _ in (one for item in chosen for one in item[1]):
                    alone[memory] += bits
                if any(bits > limits[memory] for memory, bits in alone.items()):
                    continue
                rooms = tuple(sorted(one for item in chosen for one in item[1]))
                written, read = self.at_home(number, chosen)
                key = (rooms, written, read, self.times(number, own, chosen))
                kept[key] = min(sum(item[0] for item in chosen), kept.get(key, inf))
        fixed = self.units_pj(number)
        return [(energy + fixed, *key) for key, energy in sorted(kept.items(), key=lambda item: item[1])]

    def beside(self, number, at, home, own, ends):
        """What crosses there."""
        return (self.crossings(number, at, home, own, ends),)

    def crossings(self, number, at, home, own, ends):
        """The operand in a visit and its crossings there; those outside with depth and cycles in, out, and of stops."""
        order, inside, outside, end = self.order(number, own), [], [], 0
        whole = self.operand(number, at, home, self.size(number, self.depth))
        for level, cut in enumerate((0, *ends)):
            end = _outwards(order, max(end, cut), len(own), whole.moving)
            place = 0 if self._at_units(whole, level) else end
            operand, tile = self.inside(number, at, home, own, place)
            if place <= len(own):
                inside.append((level, ("all", None), tile))
                continue
            bare = self.unspread(number, at, home, operand.placed.nest.extents)
            scaled = tuple(
                n * extent // steps
                for n, extent, steps in zip(tile, bare.placed.nest.extents, operand.placed.steps, strict=True)
            )
            ways = bare.occupied(level, ("all", None), scaled)
            waits = level > 0 and bare.chain[level - 1].buffers == 1
            stop = sum((Counter(way) for way in (*ways, *bare.behind(level, {}))), Counter()) if waits else Counter()
            outside.append((len(order) - place, *(tuple(sorted(one.items(), key=str)) for one in (*ways, stop))))
        return whole, tuple(inside), tuple(outside)

    def unspread(self, number, at, home, extents):
        """An operand where nothing depends on what is spread."""
        part = type(self.operand(number, at, home, extents))
        return part(replace(self.nest(number, extents), unrolled=()), at, self.final_sums).end_at(home)

    def turns(self):
        """Iterations of the shared loops, from the outermost."""
        return [factor for _, factor in self.outer]

    def times(self, number, own, chosen):
        """The time of a visit, for how long it keeps ports busy, and what crosses outside."""
        busy, whole = Counter(), prod(factor for _, factor in own)
        for operand, its, _ in (item[4] for item in chosen):
            for number, part, tile in its:
                for way in operand.occupied(number, part, tile):
                    for port, cycles in way.items():
                        busy[port] += cycles * whole // prod(tile)
        outside = tuple(sorted((one for item in chosen for one in item[4][2]), key=str))
        time = slow_latency([item[4][0] for item in chosen], [item[4][1] for item in chosen], own)
        return time, tuple(sorted(busy.items(), key=str)), outside

    def latency(self, times):
        """Of all operators: visits one after another, and the loops around them."""
        base, busy = 0, Counter()
        for number, (time, its, _) in enumerate(times):
            base, busy = base + time, busy + Counter(dict(its))
            if number < self.count - 1 and self.chain.links[number].passes:
                home = next(one for one in self.chain.tree.memories if one.name == self.homes[number])
                elements = list(self.size(number, self.depth))
                for thread, factor in self.outer:
                    elements[thread[number]] //= 1 if self.is_window(number, thread) else factor
                axes = self.chain.operators[number].nest.write.axes
                between = _between(self.chain, number, home, prod(elements[terms[0][0]] for terms in axes))
                base, busy = base + max(between.values(), default=0), busy + between
        factors = self.turns()[::-1]
        crossings = [
            [one for _, _, outside in times for one in outside if one[0] == self.depth - 1 - at]
            for at in range(self.depth)
        ]
        return _row(base, busy, factors, crossings)[0]


class TimedKept(TimedWindows, Kept):
    """The same where rows are kept: all visits in the loop over them are one after another."""

    def turns(self):
        return [*super().turns()[:-1], 1]

    def times(self, number, own, chosen):
        time, busy, outside = super().times(number, own, chosen)
        often = self.often[number]
        return often * time, tuple((port, often * cycles) for port, cycles in busy), outside
