"""Operators of which each but the last writes what others behind it read, and what they share: a chain or a graph.

A thread is a loop that goes through several operators: the loop of one that indexes an axis of its result, the loop of
its reader that indexes the same axis of what it reads, and so on. Only threads can be loops around several operators.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import TypeAlias

from tilestitch.hardware.tree import MachineTree, TreeMemory
from tilestitch.ir.loop_nest import Loop, LoopNest, LoopOperand
from tilestitch.mapping.tree.placed import PlacedNest, Unrolled

MOST_OPERATORS = 4  # of a group that is searched as a whole

Threads: TypeAlias = Sequence[tuple[int, ...]]  # of each the loops of all operators


@dataclass(frozen=True, slots=True)
class Link:
    """How an operator reads the result of one before it.

    `whole` are axes of the intermediate that the reader needs complete, as softmax needs its rows. What happens to
    each element in between reads and writes it so many times in the memory where it lies. Results that are one and
    the same read of an operator meet there, element by element.
    """

    read: int  # which read of its reader it is
    whole: frozenset[int] = frozenset()
    passes: int = 0
    is_factor: bool = False  # whether results that meet are multiplied, or else added
    leaves: bool = False  # whether it goes out to the outermost memory as well, as others read it there


@dataclass(frozen=True, slots=True)
class Reading:
    """An operator that reads the result of another: as which of its operands.

    As the last one it is not read but added to the result of the reader, element by element.
    """

    link: int
    reader: int
    read: int
    is_factor: bool = False  # whether results that meet there are multiplied, or else added


@dataclass(frozen=True, slots=True)
class Halo:
    """An axis of an intermediate that is read through a window: `step` x tile + `apart` x (size - 1)."""

    step: int
    apart: int
    size: int

    def window(self, tile: int) -> int:
        """Indices that so many neighbouring windows take."""
        return self.step * (tile - 1) + self.apart * (self.size - 1) + 1


@dataclass(frozen=True, slots=True)
class Chunks:
    """Rows of an operator's result that are made at a time, how often, and how many of them come before they are read.

    So many and one more are at home at a time. What lies behind the end of all rows is not made.
    """

    size: int
    visits: int
    ahead: int


@dataclass(frozen=True, slots=True)
class Crossing:
    """A loop of an operator and the loop of the next one that go along the same axis of the intermediate."""

    axis: int
    writes: int
    reads: int
    halo: Halo | None = None


@dataclass(frozen=True, slots=True)
class Cells:
    """Parts of a machine in each of which a memory of its own holds its part of an intermediate.

    `axes` repeat them. `spread` is what all operators of a chain run in them beside one another: along which axis, the
    loop of each operator, and a factor that divides it.
    """

    axes: tuple[str, ...] = ()
    spread: tuple[tuple[str, tuple[int, ...], int], ...] = ()

    def unrolled(self, number: int) -> tuple[Unrolled, ...]:
        """What an operator spreads over them."""
        return tuple(Unrolled(axis, thread[number], Fraction(factor)) for axis, thread, factor in self.spread)

    def with_one_of(self, memory: TreeMemory) -> int:
        """How many parts work with a memory of their own."""
        return prod(factor for axis, _, factor in self.spread if axis not in memory.serves)


@dataclass(frozen=True, slots=True)
class Chain:
    """Operators on one tree, with what they read from one another; what they spread is fixed, or nothing yet.

    Every operator but the last has one link, to the last operator behind it that reads its result: to the next one
    unless `readers` say otherwise. `more` are those that read the same result before that one, each once. An operator
    may read several results, as operands of their own or as one in which they meet, and others may be added to its own.
    So all lead to the last one, in an order in which they can run; without `more` they are a tree.
    """

    name: str
    operators: tuple[PlacedNest, ...]
    links: tuple[Link, ...]
    overlaps: frozenset[int] = frozenset()  # axes of intermediates along which windows that overlap may be shared
    keeps: bool = False  # whether what the next window needs as well is kept at home, or else made again
    cells: Cells = Cells()
    readers: tuple[int, ...] = ()  # of each link the last operator that reads; none where all are in a row
    more: tuple[Reading, ...] = ()

    @property
    def tree(self) -> MachineTree:
        return self.operators[0].tree

    @property
    def is_row(self) -> bool:
        """Whether each operator reads the result of the one before it, and nothing but that one does."""
        return not self.more and all(self.reader(link) == link + 1 for link in range(len(self.links)))

    def reader(self, link: int) -> int:
        """The last operator that reads the result of this one."""
        return self.readers[link] if self.readers else link + 1

    def read_from(self, link: int) -> tuple[Reading, ...]:
        """All that read the result of an operator, in their order."""
        one = self.links[link]
        last = Reading(link, self.reader(link), one.read, one.is_factor)
        return (*sorted((one for one in self.more if one.link == link), key=_place_of), last)

    @property
    def readings(self) -> tuple[Reading, ...]:
        """All that is read, and what is added to results, in the order of what makes it."""
        return tuple(one for link in range(len(self.links)) for one in self.read_from(link))

    def taken_by(self, number: int) -> tuple[Reading, ...]:
        """What an operator reads of others and what is added to its result, in the order of these."""
        return tuple(one for one in self.readings if one.reader == number)

    def read_by(self, number: int) -> tuple[Reading, ...]:
        """What an operator reads of others, in the order of these."""
        return tuple(one for one in self.taken_by(number) if not self.is_added(one))

    @property
    def added(self) -> tuple[Reading, ...]:
        """What is added to results."""
        return tuple(one for one in self.readings if self.is_added(one))

    def is_added(self, reading: Reading) -> bool:
        """Whether a result is added to that of its reader, or read by it."""
        return reading.read == len(self.operators[reading.reader].nest.reads)

    def fed(self, link: int) -> Reading:
        """The last operator that reads a result, not those to whose results it is added."""
        return [one for one in self.read_from(link) if not self.is_added(one)][-1]

    def meeting(self, link: int) -> tuple[int, ...]:
        """The links whose results meet with that of one in the same read, or with one that does; itself included."""
        found, waiting = {link}, [link]
        while waiting:
            for reading in self.read_from(waiting.pop()):
                beside = {one.link for one in self.taken_by(reading.reader) if one.read == reading.read} - found
                found |= beside
                waiting += beside
        return tuple(sorted(found))

    def hangs_together(self, first: int, last: int) -> bool:
        """Whether operators in a row of numbers hang together: no result but that of the last is read outside."""
        return all(self.reader(link) <= last for link in range(first, last))

    def intermediate(self, reading: Reading) -> tuple[LoopOperand, LoopOperand]:
        """The intermediate as it is written, and as it is read; what is added to a result as that is written."""
        return self.operators[reading.link].nest.write, self.operators[reading.reader].nest.operands[reading.read]

    def crossings(self, link: int, reading: Reading | None = None) -> tuple[Crossing, ...]:
        """The loops that an operator may share with one that reads its result: the last unless another is named."""
        reading = self.read_from(link)[-1] if reading is None else reading
        return tuple(one for one in _crossings(self, reading) if one.halo is None or one.axis in self.overlaps)

    def threads(self, first: int, last: int) -> tuple[tuple[int, ...], ...]:
        """The loops that go through all operators from the first to the last: one loop number of each."""
        found = [(loop,) for loop in range(len(self.operators[last].nest.loops))]
        for link in range(last - 1, first - 1, -1):
            readers = [one.reader for one in self.read_from(link)]
            every = [self.crossings(link, one) for one in self.read_from(link)]
            onward = [{one.writes: one.reads for one in crossings} for crossings in every]
            found = [
                (made, *loops)
                for loops in found
                for made in onward[-1]
                if all(its.get(made) == loops[to - link - 1] for its, to in zip(onward, readers, strict=True))
            ]
        return tuple(sorted(found))

    def has_halo(self, first: int, last: int) -> bool:
        """Whether some loop of a group goes through windows that overlap."""
        used = [{thread[at] for thread in self.threads(first, last)} for at in range(last - first + 1)]
        return any(
            one.halo is not None and one.writes in used[link - first]
            for link in range(first, last)
            for one in self.crossings(link)
        )

    def chunks(self, number: int, thread: tuple[int, ...], tile: int) -> "Chunks":
        """What an operator makes at a time along a thread, from it to the last operator, for a tile of that."""
        last = len(self.operators) - 1
        end = self.operators[last].nest.extents[thread[-1]]
        found = Chunks(tile, end // tile, 0)
        for link in range(last - 1, number - 1, -1):
            crossing = next(one for one in self.crossings(link) if one.writes == thread[link - number])
            extent = self.operators[link].nest.extents[crossing.writes]
            ahead, size = 0, found.size
            if crossing.halo is not None:
                size *= crossing.halo.step
                ahead = max(0, -(-(crossing.halo.window(found.size) - size) // size))
            found = Chunks(size, min(found.visits + ahead, -(-extent // size)), ahead)
        return found

    def window_axes(self) -> tuple[int, ...]:
        """The axes of intermediates along which windows overlap."""
        return tuple(
            sorted({one.axis for its in self.readings for one in _crossings(self, its) if one.halo is not None})
        )

    def part(self, numbers: Sequence[int]) -> "Chain":
        """Some operators by themselves, in an order in which they can run: all but the last are read by some of them.

        What others read as well leaves them.
        """
        places = {number: at for at, number in enumerate(numbers)}
        links: list[Link] = []
        readers: list[int] = []
        more: list[Reading] = []
        for at, number in enumerate(numbers[:-1]):
            inside = [one for one in self.read_from(number) if one.reader in places]
            *others, last = sorted(
                (replace(one, link=at, reader=places[one.reader]) for one in inside), key=_place_of
            )  # fmt: skip
            leaves = self.links[number].leaves or len(inside) < len(self.read_from(number))
            links.append(replace(self.links[number], read=last.read, is_factor=last.is_factor, leaves=leaves))
            readers.append(last.reader)
            more += others
        return replace(
            self,
            operators=tuple(self.operators[number] for number in numbers),
            links=tuple(links),
            readers=() if readers == [*range(1, len(numbers))] else tuple(readers),
            more=tuple(more),
        )


def chain_faults(chain: Chain) -> Iterator[str]:
    """Why operators are no chain and no graph that can be mapped: a result that is not what is read."""
    if len(chain.links) != len(chain.operators) - 1 or len(chain.readers) not in (0, len(chain.links)):
        yield f"{len(chain.operators)} operators have {len(chain.links)} links; expected one of each but the last"
        return
    for number in range(len(chain.links)):
        name = chain.operators[number].nest.name
        readers = [one.reader for one in chain.read_from(number)]
        if not number < min(readers) <= max(readers) < len(chain.operators):
            yield f"{name}: its result is read by no operator behind it"
            continue
        readings = chain.read_from(number)
        if [*readings] != sorted({_place_of(one): one for one in readings}.values(), key=_place_of):
            yield f"{name}: expected every operand once that its result is, and its link to the last of them"
            continue
        if all(map(chain.is_added, readings)):
            yield f"{name}: its result is added to others and read by none"
            continue
        for one in readings:
            yield from _reading_faults(chain, one)


def has_plain_axes(array: LoopOperand) -> bool:
    """Whether no axis has several loops, as the channels of a grouped convolution's result have."""
    return all(len(terms) < 2 for terms in array.axes)


def _place_of(reading: Reading) -> tuple[int, int]:
    return reading.reader, reading.read


def _reading_faults(chain: Chain, reading: Reading) -> Iterator[str]:
    written, read = chain.intermediate(reading)
    names = f"{chain.operators[reading.link].nest.name} to {chain.operators[reading.reader].nest.name}"
    if len(written.axes) != len(read.axes):
        yield f"{names}: the result has {len(written.axes)} axes and is read with {len(read.axes)}"
    elif not has_plain_axes(written):
        yield f"{names}: an axis of the result has several loops"
    elif chain.is_added(reading) and not has_plain_axes(read):
        yield f"{names}: an axis of what the result is added to has several loops"
    elif any(made > there for made, there in zip(written.shape, read.shape, strict=True)):
        yield f"{names}: the result of shape {written.shape} is read as {read.shape}"


def _crossings(chain: Chain, reading: Reading) -> Iterator[Crossing]:
    written, read = chain.intermediate(reading)
    extents, later = (chain.operators[at].nest.extents for at in (reading.link, reading.reader))
    for axis, (made, taken) in enumerate(zip(written.axes, read.axes, strict=True)):
        if axis in chain.links[reading.link].whole or len(made) != 1 or made[0][1] != 1 or not taken:
            continue
        writes = made[0][0]
        if len(taken) > 1:
            taken = tuple(one for one in taken if later[one[0]] > 1) or taken[:1]
        if len(taken) == 1 and taken[0][1] == 1 and extents[writes] == later[taken[0][0]]:
            yield Crossing(axis, writes, taken[0][0])
        elif len(taken) == 2 and all(step > 0 for _, step in taken):
            # the window is the smaller loop; the other one goes over the image
            (reads, step), (inside, apart) = sorted(taken, key=lambda term: -later[term[0]])
            yield Crossing(axis, writes, reads, Halo(step, apart, later[inside]))


def windowed(nest: LoopNest, tile: Sequence[int]) -> LoopNest:
    """A nest of so many iterations of each loop, on operands that have no more than they had."""
    loops = tuple(Loop(loop.name, extent) for loop, extent in zip(nest.loops, tile, strict=True))
    if loops == nest.loops:
        return nest
    reads = tuple(_cropped(one, tile, nest.extents) for one in nest.reads)
    return replace(nest, loops=loops, reads=reads, write=_cropped(nest.write, tile, nest.extents))


def _cropped(array: LoopOperand, tile: Sequence[int], extents: Sequence[int]) -> LoopOperand:
    cut = {loop for loop, (some, extent) in enumerate(zip(tile, extents, strict=True)) if some != extent}
    shape = [
        min(size, extent) if any(loop in cut for loop, _ in terms) else size
        for terms, size, extent in zip(array.axes, array.shape, array.extents(tile), strict=True)
    ]
    return replace(array, shape=tuple(shape))


def axes_outside(tree: MachineTree, memories: Sequence[TreeMemory]) -> tuple[str, ...]:
    """The axes that repeat some of these memories."""
    return tuple(axis.name for axis in tree.axes if any(axis.name not in one.serves for one in memories))


def homes_of(chain: Chain, link: int) -> tuple[TreeMemory, ...]:
    """Where an intermediate may stay, from the innermost: memories that hold it written and read.

    Not the outermost: there it goes anyway if it does not stay. Results that meet all stay in one memory.
    """
    meeting = chain.meeting(link)
    writers = [chain.operators[one] for one in meeting]
    held = [one.chain(len(one.nest.reads))[:-1] for one in writers]
    readings = [one for at in meeting for one in chain.read_from(at) if not chain.is_added(one)]
    held += [chain.operators[one.reader].chain(one.read)[:-1] for one in readings]
    fed = chain.fed(link)
    read = chain.operators[fed.reader].chain(fed.read)
    return tuple(one for one in read[:-1] if all(one in its for its in held) and one.bank_bits == 0)


def at_home(placed: PlacedNest, operand: int, home: TreeMemory) -> PlacedNest:
    """A nest whose operand ends in a memory: a copy of it that holds nothing else and has room for all.

    What the intermediate takes of the memory itself is counted where operators are joined.
    """
    name = placed.homes[operand]
    ports = tuple(replace(port, flows=tuple(one for one in port.flows if one[0] == name)) for port in home.ports)
    copy = replace(
        home,
        name=_copy_name(home, name),
        operands=(name,),
        ports=tuple(port for port in ports if port.flows),
        size_bits=2**62,
        buffers=1,
        has_sliding_window=False,
    )
    found: list[TreeMemory] = []
    inside = True
    for memory in placed.tree.memories:
        if memory.name == home.name:
            inside = False
        kept = memory if inside else replace(memory, operands=tuple(one for one in memory.operands if one != name))
        found.append(kept)
        if memory.name == home.name:
            found.append(copy)
    engines = tuple(replace(one, outer=copy.name) for one in placed.tree.engines if one.outer == home.name)
    tree = replace(placed.tree, memories=tuple(found), engines=(*placed.tree.engines, *engines))
    return replace(placed, tree=tree)


def _copy_name(memory: TreeMemory, operand: str) -> str:
    return f"{memory.name} ({operand})"


def original_memory(tree: MachineTree, name: str) -> TreeMemory:
    """The memory of a tree that has this name, or whose copy has it, made by `at_home`."""
    return next(
        memory
        for memory in tree.memories
        if memory.name == name or any(_copy_name(memory, operand) == name for operand in memory.operands)
    )
