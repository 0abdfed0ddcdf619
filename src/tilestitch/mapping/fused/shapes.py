"""A group of operators with the homes of its intermediates: the tile of each operator for a tile of the group."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilestitch.hardware.tree import Flow, TreeMemory
from tilestitch.mapping.fused.chain import Chain, Reading, Threads, at_home, axes_outside, windowed
from tilestitch.mapping.fused.fastest import Fastest
from tilestitch.mapping.fused.inner import InnerSearch
from tilestitch.mapping.fused.laid import Laid, Rooms, laid
from tilestitch.mapping.fused.latency import pass_cycles, pass_latency
from tilestitch.mapping.fused.timed_inner import Prepared
from tilestitch.mapping.fused.timing import TimedCut, own_loads, ports_outside
from tilestitch.mapping.tree.crossings import PortNumber, operands_on_tree
from tilestitch.mapping.tree.loads import added
from tilestitch.mapping.tree.pace import Cycles
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.tables import FEMTO, Sums

Kind: TypeAlias = tuple[int, tuple[int, ...], int]  # an operator, the nest of which it makes one at a time, how often


@dataclass(frozen=True, slots=True)
class Place:
    """An operator at a tile of a group: the nest that it makes at a time, how often, and its tile of that nest.

    Only along windows that overlap is the nest a part of the operator's own.
    """

    base: tuple[int, ...]
    times: int
    tile: tuple[int, ...]


@dataclass(slots=True, eq=False)
class Group:
    """Operators that run together with every intermediate in a memory that all units share, or all of a cell."""

    chain: Chain
    homes: tuple[TreeMemory, ...]
    sums: Sums
    order: tuple[int, ...]  # of each operator its number among those that are to run together in any order
    bare: tuple[PlacedNest, ...] = field(init=False)  # each operator with its intermediates ending in their homes
    whole: tuple[tuple[int, ...], ...] = field(init=False)  # the iterations of each in a cell
    rooms: Rooms = field(init=False)
    _laid: dict[tuple[int, tuple[int, ...]], Laid] = field(default_factory=dict)
    _loads: dict[tuple[int, tuple[int, ...]], list[list[TimedCut]]] = field(default_factory=dict)
    inner: dict[Kind, InnerSearch] = field(default_factory=dict)  # of operators that run once, for every objective
    prepared: dict[Kind, dict[int, Prepared]] = field(default_factory=dict)
    fastest: dict[Kind, Fastest | None] = field(default_factory=dict)  # none where nothing may be chosen
    _passed: dict[int, tuple[Cycles, Cycles]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        chain, names = self.chain, {memory.name for memory in self.homes}
        inner = [
            memory
            for placed in chain.operators
            for number in range(len(placed.operands))
            for memory in placed.chain(number)[:-1]
        ]
        shared = [
            memory
            for memory in chain.tree.memories
            if self._is_shared(memory) and (memory in inner or memory.name in names)
        ]
        self.rooms = Rooms(tuple(memory.name for memory in shared), tuple(map(self._limit_bits, shared)))
        self.bare = tuple(self._bare(number) for number in range(len(chain.operators)))
        self.whole = tuple(self._in_cells(number, one).steps for number, one in enumerate(self.bare))

    @property
    def last(self) -> int:
        return len(self.chain.operators) - 1

    @property
    def has_halo(self) -> bool:
        return self.chain.has_halo(0, self.last)

    @property
    def fixed_fj(self) -> int:
        """What is done to intermediates between their operators, and what those cost that leave as well."""
        every = enumerate(self.homes)
        each = (passes_pj(self.chain, link, one) + leaving_pj(self.chain, link, one) for link, one in every)
        return sum(round(one * FEMTO) for one in each)

    @property
    def pass_cycles(self) -> tuple[int, ...]:
        """What that takes at least over each link."""
        return tuple(pass_latency(self.chain, link, one) for link, one in enumerate(self.homes))

    @property
    def fixed_cycles(self) -> int:
        return sum(self.pass_cycles)

    def _limit_bits(self, memory: TreeMemory) -> float:
        """What operators may share of a memory: without what has nowhere else to be."""
        bits = memory.size_bits
        for placed in self.chain.operators:
            for number, array in enumerate(placed.operands):
                if placed.chain(number)[-1] is memory:
                    bits -= prod(array.shape) * array.element_bits
        return bits * (1 + 1e-12)

    def _bare(self, number: int) -> PlacedNest:
        placed = replace(self.chain.operators[number], slides=())
        for read, home in {one.read: self.homes[one.link] for one in self.chain.read_by(number)}.items():
            placed = at_home(placed, read, home)
        if number < len(self.homes):
            placed = at_home(placed, len(placed.nest.reads), self.homes[number])
        return placed

    def _in_cells(self, number: int, placed: PlacedNest) -> PlacedNest:
        """An operator with nothing spread but what all are spread alike."""
        return replace(placed, unrolled=self.chain.cells.unrolled(number))

    def base(self, number: int, extents: tuple[int, ...]) -> PlacedNest:
        """An operator with so many iterations."""
        bare = self.bare[number]
        return bare if extents == bare.nest.extents else replace(bare, nest=windowed(bare.nest, extents))

    def laid(self, number: int, extents: tuple[int, ...]) -> Laid:
        """The cuts of an operator in memories that all units of a cell share, with nothing spread inside a cell."""
        key = (number, extents)
        if key not in self._laid:
            placed = self._in_cells(number, self.base(number, extents))
            self._laid[key] = laid(placed, self.sums, self.rooms, self.parts(number, extents))
        return self._laid[key]

    def loads(self, number: int, extents: tuple[int, ...]) -> list[list[TimedCut]]:
        """What these cuts do to ports, operand by operand."""
        key = (number, extents)
        if key not in self._loads:
            self._loads[key] = own_loads(self.chain.tree, self.laid(number, extents))
        return self._loads[key]

    def ports_outside(self) -> tuple[PortNumber, ...]:
        """The ports that crossings use which may lie outside of shared loops."""
        found = (ports_outside(self.loads(number, one.nest.extents)) for number, one in enumerate(self.bare))
        return tuple(sorted(set().union(*found)))

    def least_busy(self, ports: Sequence[PortNumber], numbers: Sequence[int]) -> dict[PortNumber, int]:
        """For how long some operators keep ports busy at least, of those that crossings outside of visits use."""
        each = [self._passing(number)[0] for number in numbers]
        return {port: sum(one.get(port, 0) for one in each) for port in ports}

    def least_stops(self, number: int) -> int:
        """For how long the units stop at least while an operator runs, beside its steps of a cycle each."""
        return max(self._passing(number)[1].values(), default=0)

    def _passing(self, number: int) -> tuple[Cycles, Cycles]:
        """For how long each port is busy at least, as all that an operator moves passes each of its memories once.

        And the part of it for which the units surely stop. Counted are ports of memories that all units of a cell
        share: whatever is spread inside, they move every element. Nothing is said of windows.
        """
        if number not in self._passed:
            busy: Counter[PortNumber] = Counter()
            stops: Counter[PortNumber] = Counter()
            extents = self.bare[number].nest.extents
            one = self.laid(number, extents)
            on_tree = operands_on_tree(one.tables.placed)
            every = zip(one.operands, one.cuts, self.loads(number, extents), strict=True)
            for operand, cuts, timed in () if self.has_halo else every:
                for cut, its in zip(cuts, timed, strict=True):
                    whole = {port: int(cycles[-1]) for port, cycles in added(its.loads.both).items()}
                    around = {port: cycles for port, cycles in whole.items() if self._is_around(port)}
                    busy.update(around)
                    if cut.crossing is not None and on_tree[operand].surely_stops(cut.crossing):
                        stops.update(around)
            self._passed[number] = busy, stops
        return self._passed[number]

    def _is_around(self, port: PortNumber) -> bool:
        """Whether a port is one of a memory that all units of a cell share."""
        memories = self.chain.tree.memories
        return 0 <= port[0] < len(memories) and self._is_shared(memories[port[0]])

    def _is_shared(self, memory: TreeMemory) -> bool:
        return set(axes_outside(self.chain.tree, [memory])) <= {*self.chain.cells.axes}

    def between(self, link: int, place: "Place") -> Cycles:
        """Cycles of ports for what is done to an intermediate where its two operators are joined."""
        one = self.laid(link, place.base)
        operand = operands_on_tree(one.tables.placed)[-1]
        tile = np.array([place.tile], np.int64)
        elements = round(float(operand.held(len(operand.memories) - 1, tile)[0]))
        return pass_cycles(self.chain, link, self.homes[link], elements)

    def parts(self, number: int, extents: tuple[int, ...]) -> frozenset[int]:
        """The loops along which a nest is one window of several: of fewer iterations than are needed in all."""
        whole = self.place(number, 0, self.chain.threads(0, self.last), self.extents(0, self.last)).base
        return frozenset(loop for loop, (some, all_) in enumerate(zip(extents, whole, strict=True)) if some < all_)

    def joints(self, number: int) -> tuple[frozenset[int], ...]:
        """The loops of which an operator may be joined while others are whole: those of any of its intermediates."""
        every = [self.chain.crossings(one.link, one) for one in self.chain.taken_by(number)]
        found = [frozenset(one.reads for one in crossings) for crossings in every]
        if number < self.last:
            found.append(frozenset(one.writes for one in self.chain.crossings(number)))
        return tuple(found)

    def extents(self, first: int, last: int) -> tuple[int, ...]:
        """How many iterations the threads of a block have in its last operator, in a cell."""
        own = self.whole[last]
        return tuple(own[thread[-1]] for thread in self.chain.threads(first, last))

    def is_internal(self, number: int, operand: int, first: int, last: int) -> bool:
        """Whether an operand is an intermediate between two operators of a block."""
        if number < last and operand == len(self.bare[number].nest.reads):
            return True
        return any(one.link >= first and one.read == operand for one in self.chain.read_by(number))

    def operands(self, first: int, last: int) -> list[tuple[int, int]]:
        """Operator and operand of everything that a block moves beside its own intermediates."""
        return [
            (number, operand)
            for number in range(first, last + 1)
            for operand, array in enumerate(self.bare[number].operands)
            if array.element_bits and not self.is_internal(number, operand, first, last)
        ]

    def place(self, number: int, first: int, threads: Threads, tile: Sequence[int]) -> Place:
        """An operator at a tile of the threads of a block that begins with the operator `first`."""
        inside, base, times = list(self.whole[number]), list(self.bare[number].nest.extents), 1
        for thread, some in zip(threads, tile, strict=True):
            loop = thread[number - first]
            inside[loop] = self._needed(number, first, thread, some)
            if self._overlaps(number, first, thread):
                base[loop] = inside[loop]
                times *= self.whole[self.last][thread[-1]] // some
        return Place(tuple(base), times, tuple(inside))

    def visit(self, number: int, first: int, threads: Threads, tile: Sequence[int]) -> Place | None:
        """The same, of new rows alone where others are kept; none for more than there are."""
        found = self.place(number, first, threads, tile)
        if not self.chain.keeps:
            return found
        inside, base, times = list(found.tile), list(found.base), 1
        for thread, some in zip(threads, tile, strict=True):
            loop, end = thread[number - first], self.whole[self.last][thread[-1]]
            if self._overlaps(number, first, thread) and some < end:
                chunks = self.chain.chunks(number, thread[number - first :], some)
                if chunks.size > self.whole[number][loop]:
                    return None
                inside[loop] = base[loop] = chunks.size
                times *= chunks.visits
        return Place(tuple(base), times, tuple(inside))

    def from_where(self, threads: Threads, tile: Sequence[int]) -> tuple[int, ...]:
        """The tile from which on cuts may lie: where rows are kept all of them, as the loop over rows comes first."""
        if not self.chain.keeps:
            return tuple(tile)
        own = self.whole[self.last]
        return tuple(
            own[thread[-1]] if self._overlaps(0, 0, thread) else some
            for thread, some in zip(threads, tile, strict=True)
        )

    def kept(self, link: int, threads: Threads, tile: Sequence[int]) -> tuple[int, float]:
        """How many tiles of an intermediate are at home beside that which is made, and all of them of what is read."""
        count, more = 0, 1.0
        for thread, some in zip(threads, tile, strict=True):
            crossing = next((one for one in self.chain.crossings(link) if one.writes == thread[link]), None)
            is_whole = some == self.whole[self.last][thread[-1]]
            if not self.chain.keeps or is_whole or crossing is None or crossing.halo is None:
                continue
            made = self.chain.chunks(link, thread[link:], some)
            read = made.size // crossing.halo.step
            taps = {crossing.halo.step * row + crossing.halo.apart * tap
                    for row in range(read) for tap in range(crossing.halo.size)}  # fmt: skip
            count += made.ahead
            more *= (made.ahead + 1) * made.size / len(taps) if made.ahead else 1.0
        return count, more

    def _needed(self, number: int, first: int, thread: tuple[int, ...], tile: int) -> int:
        """Iterations of an operator's loop in a thread for a tile of the last operator."""
        for link in range(first + len(thread) - 2, number - 1, -1):
            loop = thread[link - first]
            crossing = next(one for one in self.chain.crossings(link) if one.writes == loop)
            if crossing.halo is not None:
                tile = min(self.whole[link][loop], crossing.halo.window(tile))
        return tile

    def _overlaps(self, number: int, first: int, thread: tuple[int, ...]) -> bool:
        """Whether windows of an operator along a thread are read by operators behind it."""
        return any(
            one.halo is not None and one.writes == thread[link - first]
            for link in range(number, first + len(thread) - 1)
            for one in self.chain.crossings(link)
        )

    def room(self, link: int, place: Place, reading: Reading | None) -> tuple[NDArray[np.float64], int]:
        """Bits of an intermediate at home, as it is read or as it is written; and which of the rooms that is.

        Bits are those as complete sums and as partial ones.
        """
        number = link if reading is None else reading.reader
        operand = len(self.bare[number].nest.reads) if reading is None else reading.read
        one = self.laid(number, place.base)
        room = one.top(operand).room_bits[:, one.lattice.point(place.tile)]
        return room, self.rooms.names.index(self.homes[link].name)


def passes_pj(chain: Chain, link: int, memory: TreeMemory) -> float:
    """What it costs to read and write an intermediate in a memory between its two operators, as often as that is."""
    if chain.links[link].passes == 0:
        return 0.0
    fed = chain.fed(link)
    written, read = chain.intermediate(fed)
    home = chain.operators[fed.reader].homes[fed.read]
    back = chain.operators[link].homes[-1]
    ports = [(memory.port(home, Flow.FEED), memory.read_pj), (memory.port(back, Flow.COLLECT), memory.write_pj)]
    each = sum(pj / port.width_bits for port, pj in ports if port is not None)
    return chain.links[link].passes * prod(written.shape) * read.element_bits * each


def leaving_pj(chain: Chain, link: int, home: TreeMemory) -> float:
    """What it costs that an intermediate leaves its home: all of it goes out once, through what lies between.

    It is priced as any complete result that is drained from there.
    """
    if not chain.links[link].leaves:
        return 0.0
    placed = replace(chain.operators[link], unrolled=chain.cells.unrolled(link), slides=())
    operand, whole = operands_on_tree(placed)[-1], np.array([placed.steps], np.int64)
    names = [memory.name for memory in operand.memories]
    found = 0.0
    for crossing in range(names.index(home.name) + 1, len(names)):
        found += sum(float(moved.energy_pj[0]) for moved in operand.moved(crossing, whole))
        found += float(operand.delivered_pj(crossing, whole)[0])
    return found
