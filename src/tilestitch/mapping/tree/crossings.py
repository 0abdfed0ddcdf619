"""What it costs an operand to cross from one memory to the next, as a function of the tile at which it does.

Crossing 0 lies between the units and the innermost memory of an operand, crossing k between its memories k-1 and k.
A crossing at the tile T happens total/|T| times, whatever the order of the loops outside, and moves what T touches.
Accesses and energies are those of ZigZag 3.9.1's evaluator: an access moves whole granules of a port and costs the
share of its width; a fan-out hands the elements that differ over it from the memory above, those that are alike once;
partial sums are read back before every addition. Networks that share less or more than that, and windows that slide,
are ours: docs/trees.md#networks-and-windows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from math import gcd, prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilestitch.hardware.tree import Axis, Flow, Network, TreeMemory
from tilestitch.ir.loop_nest import LoopOperand
from tilestitch.mapping.tree.placed import Memo, PlacedNest, distinct, product_of

Tiles: TypeAlias = NDArray[np.int64]  # points x loops
Numbers: TypeAlias = NDArray[np.float64]
Terms: TypeAlias = tuple[tuple[int, int], ...]  # loop and step, of an index
Flags: TypeAlias = NDArray[np.bool_]
PortNumber: TypeAlias = tuple[int, int]  # memory and its port; below 0 an axis and its network; behind all, an engine
PortCycles: TypeAlias = Mapping[PortNumber, NDArray[np.int64]]  # at every point of some tiles


class Part(StrEnum):
    """What of a crossing is moved: all of it; or of windows that slide what is new, or what their row begins with."""

    ALL = "all"
    NEW = "new"  # of each window
    FIRST = "first"  # of each row: what the first window has beside as much as is new in every one


@dataclass(frozen=True, slots=True)
class Moved:
    """Accesses of one memory in one direction at every point of some tiles, in accesses of a port's whole width."""

    memory: TreeMemory
    flow: Flow
    accesses: Numbers

    @property
    def energy_pj(self) -> Numbers:
        return self.accesses * (self.memory.read_pj if self.flow.is_read else self.memory.write_pj)


@dataclass(frozen=True, slots=True)
class FanOut:
    """What a fan-out makes of what crosses it to one memory inside."""

    together: tuple[Fraction, ...]  # how far loops are spread over neighbours that share values, and inside them
    parts: int  # into how many that are carried by themselves the rest divides it
    is_shared: bool  # neighbours take what all of them need as one large window


@dataclass(frozen=True, slots=True)
class OperandOnTree:
    """One operand of a placed nest: its memories, and how far the loops are spread at each of its fan-outs."""

    placed: PlacedNest
    number: int
    memories: tuple[TreeMemory, ...]
    spread: tuple[tuple[Fraction, ...], ...]
    memo: Memo = field(default_factory=Memo, init=False, repr=False, compare=False)

    @property
    def array(self) -> LoopOperand:
        return self.placed.operands[self.number]

    @property
    def is_write(self) -> bool:
        return self.number == len(self.placed.nest.reads)

    @property
    def leaves_alone(self) -> tuple[int, ...]:
        """The loops that do not move this operand; those of the result reduce it."""
        moved = self.array.indexed_by
        return tuple(loop for loop in range(len(self.placed.nest.loops)) if loop not in moved)

    def inside(self, fan_outs: int) -> tuple[Fraction, ...]:
        """How far each loop is spread over the first so many fan-outs together."""
        return self.memo.once(("inside", fan_outs), lambda: self._inside(fan_outs))

    def _inside(self, fan_outs: int) -> tuple[Fraction, ...]:
        if fan_outs == 0:
            return (Fraction(1),) * len(self.placed.nest.loops)
        return combined(self.inside(fan_outs - 1), self.spread[fan_outs - 1])

    def instances(self, level: int) -> int:
        """How many memories of a level are in use; the level of the units is -1."""
        return self.memo.once(("instances", level), lambda: self._instances(level))

    def _instances(self, level: int) -> int:
        factors = [float(factor) for here in self.spread[level + 1 :] for factor in here]
        return round(round(prod(factors), 3))

    def may_go_through(self, crossing: int) -> bool:
        """Whether results may leave a memory of one buffer with the tile with which they came from another one."""
        return self.is_write and crossing > 1 and not self.is_hidden(crossing)

    def surely_stops(self, crossing: int) -> bool:
        """Whether the units stop for a crossing, at whatever tile."""
        return not self.is_hidden(crossing) and not self.may_go_through(crossing)

    def is_hidden(self, crossing: int) -> bool:
        """Whether the units go on while this crossing brings the next tile: it has a buffer of its own, or a latch."""
        if crossing == 0:
            return True
        memory = self.memories[crossing - 1]
        return memory.buffers == 2 or self.placed.homes[self.number] in memory.ahead

    def networks(self, crossing: int) -> list[tuple[Axis, Network]]:
        """What carries the operand along the axes of a fan-out, where the machine says it."""
        return self.memo.once(("networks", crossing), lambda: self._networks(crossing))

    def _networks(self, crossing: int) -> list[tuple[Axis, Network]]:
        home, axes = self.placed.homes[self.number], self.placed.tree.axes
        found = [(axis, network) for axis in axes if (network := axis.network(home)) is not None]
        names = self.placed.tree.fan_outs(home)[crossing] if found else ()
        return [(axis, network) for axis, network in found if axis.name in names]

    def fan_out(self, crossing: int) -> FanOut:
        """How a fan-out divides what crosses it.

        Tiles of neighbours are alike or differ: counted by the loops that are spread there. The rule of ZigZag's files
        has one iteration of what is spread inside as well, of which windows overlap in part.
        """
        return self.memo.once(("fan out", crossing), lambda: self._fan_out(crossing))

    def _fan_out(self, crossing: int) -> FanOut:
        together, outer, alone = self.inside(crossing), self.inside(crossing + 1), Fraction(1)
        is_shared = False
        for axis, network in self.networks(crossing):
            along = self.placed.spread_along(axis.name)
            if (network.forwarding or network.shares_windows) and not self.is_write:
                together = combined(together, along)
                is_shared = True
            elif not (network.reduction if self.is_write else network.multicast):
                outer = tuple(one if more == 1 else one / more for one, more in zip(outer, along, strict=True))
                alone *= prod(along, start=Fraction(1))
        if self.placed.zigzag_windows:
            inner, all_of_it = (
                distinct(self.array, [float(one) for one in tile], rounds=True) for tile in (together, outer)
            )
            parts = all_of_it / inner
        else:
            ratios = [1.0 if more == one else float(more / one) for more, one in zip(outer, together, strict=True)]
            parts = distinct(self.array, ratios)
        return FanOut(together, round(parts * float(alone) if alone > 1 else parts), is_shared)

    def exchanging(self, crossing: int) -> int:
        """How many of the memories or units inside a fan-out what is around exchanges with.

        One of all neighbours that add their sums up on the way.
        """
        passing = [axis for axis, network in self.networks(crossing) if network.passes_sums]
        if not self.is_write or not passing:
            return self.instances(crossing - 1)
        count = prod((factor for here in self.spread[crossing:] for factor in here), start=Fraction(1))
        for axis in passing:
            along = self.placed.spread_along(axis.name)
            count /= prod((along[loop] for loop in self.leaves_alone), start=Fraction(1))
        return round(round(float(count), 3))

    def is_sliding(self, crossing: int) -> bool:
        """Whether the machine lets windows slide at a crossing: into a memory that keeps them, or past neighbours."""
        keeps = crossing > 0 and self.memories[crossing - 1].has_sliding_window
        forwards = any(network.forwarding for _, network in self.networks(crossing))
        return not self.is_write and (keeps or forwards)

    def slide(self, crossing: int) -> int | None:
        """The loop along which windows slide at a crossing."""
        return self.placed.slide(self.number, crossing)

    def can_begin(self, crossing: int, tiles: Tiles) -> Flags:
        """Which tiles may be windows that slide: the steps between their values are no larger than they are."""
        loop = self.slide(crossing)
        if loop is None:
            return np.ones(len(tiles), np.bool_)
        insides = [self.inside(crossing), self.fan_out(crossing).together]
        rounds = self.placed.zigzag_windows
        return np.logical_and(*(is_window(self.array, tiles, inside, loop, rounds=rounds) for inside in insides))

    def held(self, level: int, tiles: Tiles) -> Numbers:
        """Elements in one memory of a level."""
        return self.elements(tiles, self.inside(level + 1))

    def elements(self, tiles: Tiles, spread: tuple[Fraction, ...]) -> Numbers:
        """Elements that are moved for tiles, with so many iterations of each loop spread beside one another."""
        return tile_elements(self.placed, self.array, tiles, spread)

    def is_partial(self, crossing: int, tiles: Tiles) -> Flags:
        """Whether what crosses are partial sums: a reduction goes on outside, in steps or spread over units."""
        if self.memo.once(("reduced", crossing), lambda: self._is_reduced(crossing)):
            return np.ones(len(tiles), np.bool_)
        reduced, steps = self.memo.once("reduction", self._reduction)
        return np.logical_or.reduce(tiles[:, reduced] < steps, axis=1)

    def _reduction(self) -> tuple[list[int], NDArray[np.int64]]:
        """The loops that leave the operand alone and have several steps, with these."""
        reduced = [loop for loop in self.leaves_alone if self.placed.steps[loop] > 1]
        return reduced, np.array([self.placed.steps[loop] for loop in reduced], np.int64)

    def _is_reduced(self, crossing: int) -> bool:
        """Whether a reduction is spread outside, or over a fan-out that does not add up."""
        reduced = self.leaves_alone
        spread = any(level[loop] > 1 for level in self.spread[crossing + 1 :] for loop in reduced)
        for axis, network in self.networks(crossing):
            along = self.placed.spread_along(axis.name)
            spread = spread or (not network.reduction and any(along[loop] > 1 for loop in reduced))
        return spread

    def moved(self, crossing: int, tiles: Tiles, part: Part = Part.ALL) -> Iterator[Moved]:
        """What one crossing at each of these tiles costs in the memories at both its ends."""
        times, back = self._times(crossing, tiles)
        for level, flow, bits in self._transfers(crossing, tiles, part):
            returns = self.is_write and flow in (Flow.FEED, Flow.FILL)
            copies = self.exchanging(crossing) if level < crossing else self.instances(level)
            yield self._accesses(level, flow, bits, back if returns else times, copies, part)

    def _times(self, crossing: int, tiles: Tiles) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How often each of these tiles is crossed for, and how often partial sums come back."""
        times = self.placed.memo.last("times", tiles, lambda: np.asarray(self.placed.total_steps // tiles.prod(axis=1)))
        if self.placed.tree.reads_first_sums or (crossing == 0 and not self.placed.tree.has_latches):
            return times, times
        moving = sorted(self.array.indexed_by)
        first = np.array(self.placed.steps, np.int64)[moving].prod() // tiles[:, moving].prod(axis=1)
        return times, times - first

    def delivered_pj(self, crossing: int, tiles: Tiles, part: Part = Part.ALL) -> Numbers:
        """What the networks of a crossing at each of these tiles cost, by bits that reach or leave what is inside."""
        per_bit = sum(network.pj_per_bit for _, network in self.networks(crossing))
        energy, copies = np.zeros(len(tiles)), self.exchanging(crossing)
        adding = self.instances(crossing - 1) - copies
        if (per_bit > 0 or adding > 0) and self.array.element_bits > 0:
            inner, _ = self._amounts(crossing, tiles, part)
            ways = self._both_ways(crossing, tiles, inner)
            for bits, times in zip(ways, self._times(crossing, tiles), strict=True):
                energy += bits * times * copies * per_bit
            hops = self._times(crossing, tiles)[0] * adding
            each = ways[0] * (per_bit + self.addition_pj(crossing)) + inner * self.placed.tree.mac_pj
            energy += hops * each
        return energy

    def addition_pj(self, crossing: int) -> float:
        """What a bit of a sum costs that a place inside adds to what a neighbour passes on, beside the addition.

        Two reads and a write of the memory there: dMazeRunner (TECS 2019) counts so.
        """
        if crossing == 0:
            return 0.0
        memory, home = self.memories[crossing - 1], self.placed.homes[self.number]
        ports = (memory.port(home, flow) for flow in (Flow.DRAIN, Flow.FILL))
        read_width, write_width = (port.width_bits if port is not None else 1 for port in ports)
        return 2 * memory.read_pj / read_width + memory.write_pj / write_width

    def ways(self, crossing: int, tiles: Tiles, part: Part = Part.ALL) -> tuple[PortCycles, PortCycles]:
        """Cycles for which one crossing at each of these tiles, once, occupies every port: inwards, and outwards.

        A port makes one access a cycle, of up to its width, unless its bandwidth is stated. What a crossing moves in
        one direction begins a new access. Networks of a stated bandwidth are ports of their own.
        """
        inwards: dict[PortNumber, NDArray[np.int64]] = {}
        outwards: dict[PortNumber, NDArray[np.int64]] = {}
        for level, flow, bits in self._transfers(crossing, tiles, part):
            memory = self.memories[level]
            port = memory.port(self.placed.homes[self.number], flow)
            if port is None:
                continue  # energies say that this can not be
            accesses = np.ceil(np.ceil(bits / port.granule_bits) * port.granule_bits / port.width_bits)
            key = (self.placed.tree.memories.index(memory), memory.ports.index(port))
            cycles = np.ceil(accesses * float(port.width_bits / port.bits_per_cycle) - 1e-9)
            way = inwards if flow in (Flow.FEED, Flow.FILL) else outwards
            way[key] = way.get(key, 0) + cycles.astype(np.int64)
        carriers = self._carriers(crossing) if self.array.element_bits > 0 else ()
        if carriers:
            amounts = [self._both_ways(crossing, tiles, amount) for amount in self._amounts(crossing, tiles, part)]
            ways = (outwards, inwards) if self.is_write else (inwards,)
            for number, way in enumerate(ways):
                for key, outside, rate, setup in carriers:
                    bits = amounts[outside][number]
                    cycles = np.where(bits > 0, setup + np.ceil(bits / rate - 1e-9), 0)
                    way[key] = cycles.astype(np.int64)
        return inwards, outwards

    def _carriers(self, crossing: int) -> list[tuple[PortNumber, int, float, int]]:
        """Networks of a stated bandwidth and DMA engines on a crossing.

        Each with 1 if it carries what crosses outside of what shares a memory there, bits in a cycle, and set-up.
        """
        return self.memo.once(("carriers", crossing), lambda: list(self._found_carriers(crossing)))

    def _found_carriers(self, crossing: int) -> Iterator[tuple[PortNumber, int, float, int]]:
        tree = self.placed.tree
        for axis, network in self.networks(crossing):
            if network.bits_per_cycle is not None:
                yield (-1 - tree.axes.index(axis), axis.networks.index(network)), 1, float(network.bits_per_cycle), 0
        if crossing > 0:
            ends = self.memories[crossing - 1].name, self.memories[crossing].name
            for number, engine in enumerate(tree.engines):
                if (engine.inner, engine.outer) == ends:
                    rate = float(engine.count * engine.bits_per_cycle)
                    yield (len(tree.memories) + number, 0), 0, rate, engine.setup_cycles

    def _amounts(self, crossing: int, tiles: Tiles, part: Part) -> tuple[Numbers, Numbers]:
        """Elements that cross once, inside at each memory and outside of all that share one memory there."""
        fan_out = self.fan_out(crossing)
        keeps = crossing > 0 and self.memories[crossing - 1].has_sliding_window
        ones = np.ones(len(tiles))
        if part is not Part.ALL and keeps:
            inner = self._of_windows(crossing, tiles, part, self.inside(crossing))
        elif part is Part.FIRST:
            inner = 0 * ones
        else:
            inner = ones if crossing == 0 else np.rint(self.held(crossing - 1, tiles))
        if not fan_out.is_shared:
            return inner, inner * fan_out.parts
        if part is Part.ALL:
            return inner, np.rint(self.elements(tiles, fan_out.together)) * fan_out.parts
        return inner, self._of_windows(crossing, tiles, part, fan_out.together) * fan_out.parts

    def _of_windows(self, crossing: int, tiles: Tiles, part: Part, spread: tuple[Fraction, ...]) -> Numbers:
        """What is new in each of the windows that tiles with so much spread are, or what their row begins with.

        Both are whole elements, and together those of a crossing without a row: a row of no steps is never cheaper.
        """
        loop = self.slide(crossing)
        assert loop is not None
        whole = self.elements(tiles, spread)
        if self.placed.tree.moves_boxes:
            kept = kept_boxes(self.array, tiles, spread, loop)
        else:
            kept = kept_elements(self.array, tiles, spread, loop, rounds=self.placed.zigzag_windows)
        new = np.rint(whole - kept)
        return np.rint(whole) - new if part is Part.FIRST else new

    def _both_ways(self, crossing: int, tiles: Tiles, count: Numbers) -> tuple[Numbers, Numbers]:
        """The bits of so many elements, and those of them that return as partial sums."""
        if not self.is_write:
            return count * self.array.element_bits, np.zeros(len(tiles))
        partial = self.is_partial(crossing, tiles)
        bits = count * np.where(partial, self.array.element_bits, self.placed.final_bits)
        if crossing == 0 and not self.placed.tree.has_latches:
            return bits, bits
        return bits, np.where(partial, bits, 0)

    def _transfers(self, crossing: int, tiles: Tiles, part: Part) -> list[tuple[int, Flow, Numbers]]:
        """Bits that one crossing at each of these tiles, once, moves in one memory of a level in a direction."""
        return self.memo.last(("bits", crossing, part), tiles, lambda: list(self._moved(crossing, tiles, part)))

    def _moved(self, crossing: int, tiles: Tiles, part: Part) -> Iterator[tuple[int, Flow, Numbers]]:
        if self.array.element_bits == 0:
            return
        inner, outer = self._amounts(crossing, tiles, part)
        above, below = (Flow.COLLECT, Flow.DRAIN) if self.is_write else (Flow.FEED, Flow.FILL)
        ends = [(crossing, outer, above, Flow.FEED)]
        if crossing > 0:
            ends.append((crossing - 1, inner, below, Flow.FILL))
        for level, amount, flow, returning in ends:
            bits, back = self._both_ways(crossing, tiles, amount)
            yield level, flow, bits
            if self.is_write:
                yield level, returning, back

    def _accesses(
        self, level: int, flow: Flow, bits: Numbers, times: NDArray[np.int64], copies: int, part: Part
    ) -> Moved:
        memory = self.memories[level]
        port = memory.port(self.placed.homes[self.number], flow)
        if port is None:
            # a direction that nothing serves: infinitely dear, so that no mapping uses it
            return Moved(memory, flow, np.where(bits > 0, np.inf, 0.0))
        share = port.granule_bits / port.width_bits
        granules = np.ceil(bits / port.granule_bits)
        accesses = granules * share * times * copies
        # two parts must not cost less than all of a crossing, because both of them are rounded down
        return Moved(memory, flow, np.trunc(accesses) if part is Part.ALL else accesses)


def combined(spread: tuple[Fraction, ...], more: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    """How far each loop is spread by both together; most factors are 1, and fractions are slow to multiply."""
    return tuple(one if other == 1 else one * other for one, other in zip(spread, more, strict=True))


def tile_elements(placed: PlacedNest, array: LoopOperand, tiles: Tiles, spread: tuple[Fraction, ...]) -> Numbers:
    """Elements that are moved for tiles, with so many iterations of each loop spread beside one another."""
    if placed.tree.moves_boxes:
        return _box_elements(array, tiles, spread)
    sizes = zip(array.axes, array.shape, strict=True)
    along = [_indices(terms, size, tiles, spread, rounds=placed.zigzag_windows) for terms, size in sizes]
    return product_of(np.array(along).reshape(-1, len(tiles)))


def _box_elements(array: LoopOperand, tiles: Tiles, spread: tuple[Fraction, ...]) -> Numbers:
    """Elements of the box around what tiles touch: with those between strided indices, and padding."""
    along = [_extent(terms, tiles, spread) for terms in array.axes]
    return product_of(np.array(along).reshape(-1, len(tiles)))


def _extent(terms: Terms, tiles: Tiles, spread: tuple[Fraction, ...]) -> Numbers:
    """From the first to the last index of tiles along an axis."""
    extent = np.ones(len(tiles))
    for loop, step in terms:
        extent += abs(step) * (tiles[:, loop] * float(spread[loop]) - 1)
    return extent


def _indices(terms: Terms, size: int, tiles: Tiles, spread: tuple[Fraction, ...], *, rounds: bool) -> Numbers:
    """Indices along one axis of an array that tiles touch."""
    if len(terms) == 2:
        (first, step_first), (second, step_second) = terms
        common = gcd(step_first, step_second)
        a, b = (_iterations(tiles, spread, loop, rounds=rounds) for loop in (first, second))
        behind = a - step_second // common
        twice = np.maximum(0, b - step_first // common) * (behind if rounds else np.maximum(0, behind))
        return np.minimum(size, a * b - twice)
    if not terms:
        return np.ones(len(tiles))
    return (tiles[:, terms[0][0]] * float(spread[terms[0][0]])).astype(np.float64)


def _iterations(tiles: Tiles, spread: tuple[Fraction, ...], loop: int, *, rounds: bool) -> Numbers:
    """Of a loop of a window, on average; or whole ones alone."""
    found = tiles[:, loop] * spread[loop].numerator / spread[loop].denominator
    return np.floor(found) if rounds else found


def is_window(array: LoopOperand, tiles: Tiles, spread: tuple[Fraction, ...], loop: int, *, rounds: bool) -> Flags:
    """Whether a tile is a window along a loop: then what it shares with the next one depends on the other loop alone.

    Of an index `s*a + t*b` that is where a tile has at least t/g iterations of a, or s/g of b.
    """
    for terms in array.axes:
        if len(terms) == 2 and loop in (terms[0][0], terms[1][0]):
            _, step_of_other = _steps(terms, loop)
            return _iterations(tiles, spread, loop, rounds=rounds) >= step_of_other
    return np.zeros(len(tiles), np.bool_)


def kept_boxes(array: LoopOperand, tiles: Tiles, spread: tuple[Fraction, ...], loop: int) -> Numbers:
    """Elements that the box around a window shares with the box around the next one along a loop."""
    along: list[Numbers] = []
    for terms in array.axes:
        further = sum(abs(step) for one, step in terms if one == loop) * tiles[:, loop] * float(spread[loop])
        along.append(np.maximum(0, _extent(terms, tiles, spread) - further))
    return product_of(np.array(along).reshape(-1, len(tiles)))


def kept_elements(
    array: LoopOperand, tiles: Tiles, spread: tuple[Fraction, ...], loop: int, *, rounds: bool
) -> Numbers:
    """Elements that a window shares with the next one along a loop, and no more than it has.

    Of an index `s*a + t*b` and the loop of a: t/g * (B - s/g) values; of the loop of b: s/g * (A - t/g).
    """
    along: list[Numbers] = []
    for terms, size in zip(array.axes, array.shape, strict=True):
        found = _indices(terms, size, tiles, spread, rounds=rounds)
        if len(terms) == 2 and loop in (terms[0][0], terms[1][0]):
            other = terms[0][0] if loop == terms[1][0] else terms[1][0]
            step, step_of_other = _steps(terms, loop)
            others = _iterations(tiles, spread, other, rounds=rounds)
            found = np.minimum(found, step_of_other * np.maximum(0, others - step))
        along.append(found)
    return product_of(np.array(along).reshape(-1, len(tiles)))


def _steps(terms: Terms, loop: int) -> tuple[int, int]:
    """The steps of a loop and of the other one of two, without their common divisor."""
    common = gcd(terms[0][1], terms[1][1])
    first, second = terms[0][1] // common, terms[1][1] // common
    return (first, second) if loop == terms[0][0] else (second, first)


def operands_on_tree(placed: PlacedNest) -> tuple[OperandOnTree, ...]:
    """Every operand of a placed nest with its memories."""
    return placed.memo.once(
        "operands",
        lambda: tuple(
            OperandOnTree(placed, number, placed.chain(number), placed.spread(number))
            for number in range(len(placed.operands))
        ),
    )
