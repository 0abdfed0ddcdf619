"""What the simulator of trees is given of operators that run together, and in which order they take turns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import cached_property
from math import ceil, prod

from tilestitch.base.errors import InvalidIR
from tilestitch.sim.tree.run import Kept, TreeRun, expect_simulated
from tilestitch.sim.tree.streams import bits_across
from tilestitch.sim.tree.tiles import Digits, distinct
from tilestitch.sim.tree.wiring import ChainLink, Reading, Wiring


@dataclass(frozen=True, slots=True)
class SharedLoops:
    """Some operators and the loops that all of them share; what is inside takes turns in each of their iterations.

    A visit of a block lies inside so many loops that it shares with others, `outside`. Of one operator it is all of
    its other loops.
    """

    first: int
    last: int
    outside: int
    until: int
    inside: tuple["SharedLoops", ...] = ()


class Moment(Enum):
    """What happens at a moment: a visit begins or ends, units work, or what passes between two operators is done."""

    BEGIN = "begin"
    STEPS = "steps"
    PASS = "pass"
    END = "end"


Event = tuple[Moment, SharedLoops]


@dataclass(frozen=True)
class ChainRun:
    """Operators that run together on a tree, in this order: each with its loops, and with what passes between them.

    What each but the last makes is read by the next one unless `readers` say otherwise, and `more` read it before that
    one. The cuts of what passes between operators end at its home.
    """

    operators: tuple[TreeRun, ...]
    links: tuple[ChainLink, ...]
    readers: tuple[int, ...] = ()
    more: tuple[Reading, ...] = ()

    @cached_property
    def wiring(self) -> Wiring:
        """What reads what."""
        return Wiring(tuple(one.nest for one in self.operators), self.links, self.readers, self.more)

    @cached_property
    def runs(self) -> tuple[TreeRun, ...]:
        """The operators, each with where others run in between and with what goes no further than a home."""
        return tuple(self._run(number) for number in range(len(self.operators)))

    def _run(self, number: int) -> TreeRun:
        one, count = self.operators[number], len(self.operators[number].loops)
        kept = {one.read: one.link for one in self.wiring.read_by(number)}  # of those that meet the last one
        kept |= {one.written: number} if number < len(self.links) else {}
        return replace(
            one,
            stops=tuple(count - shared for shared in self._shared_with_others(number)),
            kept=tuple(Kept(operand, self.links[at].home, count - self.common(at)) for operand, at in kept.items()),
        )

    def _shared_with_others(self, number: int) -> list[int]:
        """The numbers of loops that an operator shares with others, before it and behind it."""
        links = [self.links[first:number] for first in range(number)]
        links += [self.links[number:last] for last in range(number + 1, len(self.operators))]
        return sorted({min(link.shared for link in some) for some in links}, reverse=True)

    def common(self, link: int) -> int:
        """How many loops, from the outermost, an operator and all that read its result share."""
        return min(one.shared for one in self.links[link : self.wiring.reader(link)])

    @cached_property
    def root(self) -> SharedLoops:
        """All operators."""
        return self._block(0, len(self.operators) - 1, 0)

    def _block(self, first: int, last: int, outside: int) -> SharedLoops:
        if first == last:
            return SharedLoops(first, last, outside, len(self.operators[first].loops))
        until = min(link.shared for link in self.links[first:last])
        ends = [link for link in range(first, last) if self.links[link].shared == until]
        parts = zip([first, *(link + 1 for link in ends)], [*ends, last], strict=True)
        return SharedLoops(first, last, outside, until, tuple(self._block(start, end, until) for start, end in parts))

    def events(self) -> Iterator[Event]:
        """Everything in its order."""
        return self._events(self.root)

    def _events(self, block: SharedLoops) -> Iterator[Event]:
        yield Moment.BEGIN, block
        if not block.inside:
            yield Moment.STEPS, block
        else:
            loops = self.operators[block.first].loops
            count, often, after = len(loops), self.often(block), self._after(block)
            inside = block.until - (1 if often else 0)
            for _ in range(prod(factor for _, factor in loops[count - inside : count - block.outside])):
                for window in range(max(map(sum, zip(often, after, strict=True)), default=1)):
                    for at, one in enumerate(block.inside):
                        if often and not 0 <= window - after[at] < often[at]:
                            continue
                        yield from self._events(one)
                        if one.last < block.last and self.links[one.last].passes:
                            yield Moment.PASS, one
        yield Moment.END, block

    def often(self, block: SharedLoops) -> tuple[int, ...]:
        """Where rows are kept at home, how many windows each operator of a block has; else nothing."""
        if self.links[block.first].ahead is None:
            return ()
        every = self.operators[block.first : block.last + 1]
        return tuple(one.loops[len(one.loops) - block.until][1] for one in every)

    def _after(self, block: SharedLoops) -> tuple[int, ...]:
        """And in how many windows those before it run alone."""
        ahead = [link.ahead for link in self.links[block.first : block.last]]
        if None in ahead:
            return ()
        return tuple(sum(one or 0 for one in ahead[:at]) for at in range(len(ahead) + 1))

    def kept_along(self, link: int) -> tuple[int, int]:
        """The axis of what is at home along which rows are kept, and how many are written in a window."""
        one, has = self.runs[link], self.links[link]
        loop, _ = one.loops[len(one.loops) - has.shared]
        axis = next(at for at, terms in enumerate(one.nest.write.axes) if terms[0][0] == loop)
        return axis, self.written_shape(link)[axis]

    def first_written(self, link: int) -> tuple[int, ...]:
        """Where in what is at home that begins which is written: behind rows that are kept."""
        found = [0] * len(self.runs[link].nest.write.axes)
        ahead = self.links[link].ahead
        if ahead:
            axis, rows = self.kept_along(link)
            found[axis] = ahead * rows
        return tuple(found)

    def around(self, number: int, place: int) -> SharedLoops:
        """The innermost block of whose visits one has all iterations of so many innermost loops of an operator."""
        block, loops = self.root, len(self.operators[number].loops)
        while True:
            one = next((one for one in block.inside if one.first <= number <= one.last), None)
            if one is None or place > loops - one.outside:
                return block
            block = one

    def home_shape(self, link: int) -> tuple[int, ...]:
        """The extents of what is at home at a time, as the one operator writes it and others read it."""
        found = tuple(map(sum, zip(self.first_written(link), self._tile(link, self.runs[link].written), strict=True)))
        for one in self.wiring.readings(link):
            counts = self._counts(one.reader, len(self.runs[one.reader].loops) - self.common(link))
            read = self.runs[one.reader].operands[one.read].extents(counts)
            found = tuple(map(max, zip(found, read, strict=True)))
        return found

    def written_shape(self, link: int) -> tuple[int, ...]:
        """The part of it that is written: without what lies behind the ends of loops."""
        one = self.runs[link]
        made = one.nest.write.extents(one.extents)
        return tuple(map(min, zip(self._tile(link, one.written), made, strict=True)))

    def read_shape(self, reading: Reading) -> tuple[int, ...]:
        """The part of it that an operator reads: without what lies behind the ends of loops."""
        other = self.runs[reading.reader]
        inside = self._counts(reading.reader, len(other.loops) - self.common(reading.link))
        counts = map(min, zip(inside, other.extents, strict=True))
        return other.operands[reading.read].extents(tuple(counts))

    def valid_shape(self, link: int, number: int) -> tuple[int, ...]:
        """The part of it that is not behind the end of the intermediate, in one iteration of the shared loops."""
        one, left = self.runs[link], list(self.runs[link].nest.write.shape)
        for place in range(len(one.loops) - self.common(link), len(one.loops)):
            loop, factor = one.loops[place]
            axis = next(at for at, terms in enumerate(one.nest.write.axes) if terms[0][0] == loop)
            left[axis] -= number % factor * self.weight(link, place)
            number //= factor
        return tuple(max(0, min(pair)) for pair in zip(self.written_shape(link), left, strict=True))

    def weight(self, number: int, place: int) -> int:
        """By how many iterations a step of a loop moves."""
        return next(one.weight for one in Digits(self.runs[number]).every if one.place == place)

    def _tile(self, number: int, operand: int) -> tuple[int, ...]:
        run = self.runs[number]
        return run.operands[operand].extents(self._counts(number, run.loops_of(operand)))

    def _counts(self, number: int, inside: int) -> list[int]:
        """Iterations of each loop of an operator inside so many of them."""
        run = self.runs[number]
        counts = [1] * len(run.nest.loops)
        for loop, factor in (*run.loops[:inside], *((loop, factor) for _, loop, factor in run.spread)):
            counts[loop] *= factor
        return counts


def expect_chain(run: ChainRun) -> None:
    """Raises as `expect_simulated`, and `InvalidIR` for loops that are not shared, or for too little room."""
    for one in run.runs:
        expect_simulated(one)
    for reading in run.wiring.every:
        _expect_link(run, reading)
    for room in rooms_of(run):
        if room.bits > room.size_bits:
            raise InvalidIR(
                f"{run.operators[0].tree.name}: while {room.operator} runs {room.memory} needs {room.bits:,} bits and "
                f"has {room.size_bits:,}"
            )


def _expect_link(run: ChainRun, reading: Reading) -> None:
    link, reader, has = reading.link, reading.reader, run.links[reading.link]
    one, other = run.operators[link], run.operators[reader]
    where = f"{one.nest.name} to {other.nest.name} on {one.tree.name}"
    axes = list(zip(one.nest.write.axes, other.nest.operands[reading.read].axes, strict=True))
    steps = {(made[0][0], loop): (axis, step) for axis, (made, taken) in enumerate(axes) for loop, step in taken}
    shared = run.common(link)
    outer = [range(len(own.loops) - shared, len(own.loops)) for own in (one, other)]
    for place, reads in zip(*outer, strict=True):
        axis, step = steps.get((one.loops[place][0], other.loops[reads][0]), (-1, 0))
        is_kept = has.ahead is not None and place == outer[0][0]
        is_same = is_kept or one.loops[place][1] == other.loops[reads][1]
        if not is_same or run.weight(link, place) != step * run.weight(reader, reads):
            raise InvalidIR(f"{where}: the outermost {shared} loops are not the same")
        if axis in has.whole:
            raise InvalidIR(f"{where}: a shared loop divides what is needed as a whole")
    home = run.runs[link].chains[one.written][-1]
    beside, its = (
        sorted((axis, loop, factor) for axis, loop, factor in own.spread if axis not in home.serves)
        for own in (one, other)
    )
    onward = {(made[0][0], loop) for made, taken in axes if len(taken) == 1 for loop, _ in taken}
    if [(axis, factor) for axis, _, factor in beside] != [(axis, factor) for axis, _, factor in its] or any(
        (made, taken) not in onward for (_, made, _), (_, taken, _) in zip(beside, its, strict=True)
    ):
        raise InvalidIR(f"{where}: what is spread over the memories {home.name} is not the same")
    made = tuple(map(sum, zip(run.first_written(link), run.written_shape(link), strict=True)))
    size = one.nest.write.shape
    for axis, (some, every, wanted) in enumerate(zip(made, size, run.read_shape(reading), strict=True)):
        if some < min(every, wanted):
            raise InvalidIR(f"{where}: {some} of what is read along axis {axis} is made at a time, and {wanted} needed")


@dataclass(frozen=True, slots=True)
class Room:
    """What a memory holds at most, and while which operator runs that is so."""

    memory: str
    operator: str
    bits: int
    size_bits: int


def rooms_of(run: ChainRun) -> tuple[Room, ...]:
    """Of every memory that holds tiles what it holds at most: those of the operator that runs, and what others keep."""
    found: dict[str, Room] = {}
    digits = [Digits(one) for one in run.runs]
    for now in range(len(run.runs)):
        taken: dict[str, int | Fraction] = dict.fromkeys((one.name for one in run.operators[0].tree.memories), 0)
        inner: set[str] = set()
        for number, one in enumerate(run.runs):
            common = min((link.shared for link in run.links[min(now, number) : max(now, number)]), default=None)
            for operand, chain in enumerate(one.chains):
                if not one.moves(operand):
                    continue
                for level, memory in enumerate(chain):
                    kept = one.kept_at(operand)
                    if level == len(chain) - 1 and kept is not None:
                        continue
                    inner |= {memory.name} if level < len(chain) - 1 else set()
                    place = one.cuts[operand][level]
                    if common is None or level == len(chain) - 1 or place > len(one.loops) - common:
                        taken[memory.name] += _stored(digits[number], operand, level)
        for link, has in enumerate(run.links):
            taken[has.home] += _while_made(run, digits, link, now)
            if now != run.wiring.reader(link):
                taken[has.home] += _kept_bits(run, digits, link)
            inner.add(has.home)
        for link, bits in _at_home(run, digits, now):
            taken[run.links[link].home] += bits
        for memory in run.operators[0].tree.memories:
            bits = ceil(taken[memory.name])
            if memory.name in inner and (memory.name not in found or bits > found[memory.name].bits):
                found[memory.name] = Room(memory.name, run.runs[now].nest.name, bits, memory.size_bits)
    return tuple(found.values())


def _turns(run: ChainRun, link: int, now: int) -> tuple[range, range] | None:
    """The operators that run in turn with one that makes an intermediate, inside of what it shares with its readers.

    And those that do with one that runs; none where that is not between them.
    """
    block = run.around(link, len(run.runs[link].loops) - run.common(link) + 1)
    parts = [range(part.first, part.last + 1) for part in block.inside]
    made, here = ([part for part in parts if number in part] for number in (link, now))
    return (made[0], here[0]) if here else None


def _while_made(run: ChainRun, digits: Sequence[Digits], link: int, now: int) -> int:
    """Bits of an intermediate while it is made."""
    one, turns = run.runs[link], _turns(run, link, now)
    if turns is None or turns[0] != turns[1]:
        return 0
    return _stored(digits[link], one.written, len(one.chains[one.written]) - 1)


def _at_home(run: ChainRun, digits: Sequence[Digits], now: int) -> list[tuple[int, int | Fraction]]:
    """Bits of what is complete at home while an operator runs, each with the link whose home it is.

    An intermediate takes what it does as it is written until it is read, and then what it does as it is read; where
    others run in the loops inside before, and where somebody reads it later, the larger of both. What is added to a
    result takes what it does as it is written. Results that meet are one as soon as they are complete for those who
    read them as one, but for those from further out.
    """
    found: dict[tuple[int, ...], list[Reading]] = {}
    for reading in run.wiring.every:
        turns = _turns(run, reading.link, now)
        if turns is None or not turns[0][-1] < turns[1][0] <= reading.reader:
            continue
        made = tuple(
            other
            for other in run.wiring.makers(reading)
            if other < turns[1][0] and run.common(other) == run.common(reading.link)
        )
        if reading.link == made[-1]:
            found.setdefault(made, []).append(reading)
    taken: list[tuple[int, int | Fraction]] = []
    for (*_, link), readings in found.items():
        one, turns = run.runs[link], _turns(run, link, now)
        assert turns is not None
        here = digits[link].inside(one.written, len(one.chains[one.written]) - 1)
        sizes: list[int | Fraction] = []
        if any(reading.reader > turns[1][0] or run.wiring.is_added(reading) for reading in readings):
            sizes.append(distinct(one.nest.write, here, boxes=one.tree.moves_boxes) * one.final_bits)
        for reading in readings:
            if reading.reader in turns[1] and not run.wiring.is_added(reading):
                last = len(run.runs[reading.reader].chains[reading.read]) - 1
                bits = _stored(digits[reading.reader], reading.read, last, run.common(link))
                sizes.append(bits * _more_of_read(run, digits, link) if not sizes else bits)
        taken.append((link, max(sizes)))
    return taken


def _kept_bits(run: ChainRun, digits: Sequence[Digits], link: int) -> int:
    """Bits of rows at home beside those that are written: complete ones."""
    one, ahead = run.runs[link], run.links[link].ahead
    here = digits[link].inside(one.written, len(one.chains[one.written]) - 1)
    return (ahead or 0) * distinct(one.nest.write, here, boxes=one.tree.moves_boxes) * one.final_bits


def _more_of_read(run: ChainRun, digits: Sequence[Digits], link: int) -> Fraction:
    """All rows at home, of those that a window reads."""
    ahead, (axis, rows) = run.links[link].ahead, run.kept_along(link) if run.links[link].ahead else (0, 0)
    if not ahead:
        return Fraction(1)
    reader, read = run.wiring.reader(link), run.links[link].read
    other = run.runs[reader]
    array = other.operands[read]
    along = replace(array, axes=(array.axes[axis],), shape=(array.shape[axis],))
    here = digits[reader].inside(read, len(other.chains[read]) - 1)
    return Fraction((ahead + 1) * rows, distinct(along, here, boxes=other.tree.moves_boxes))


def _stored(digits: Digits, operand: int, level: int, outside: int | None = None) -> int:
    """Bits of an operand in one memory of a level: of two buffers as much again, unless a tile is all that there is.

    Sums have their full width where they are added to. At the home of an intermediate so many loops are `outside`.
    """
    run = digits.run
    array, memory = run.operands[operand], run.chains[operand][level]
    is_last = level == len(run.chains[operand]) - 1
    bits = bits_across(digits, operand, level)
    if is_last and run.kept_at(operand) is None:
        return prod(array.shape) * bits
    held = digits.inside(operand, level)
    if is_last and outside is not None:
        held = tuple(one for one in digits.every if one.place is None or one.place < len(run.loops) - outside)
    here = tuple(one for one in held if one.place is not None or one.axis in memory.serves)
    room = distinct(array, here, boxes=run.tree.moves_boxes) * bits
    if is_last:
        return room
    if memory.bank_bits:
        return -(-room // memory.bank_bits) * memory.bank_bits * memory.buffers
    every = {*here, *(one for one in digits.every if one.place is not None)}
    whole = distinct(array, [one for one in digits.every if one in every], boxes=run.tree.moves_boxes) * bits
    return 2 * room if memory.buffers == 2 and room < whole else room
