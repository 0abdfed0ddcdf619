"""The pace of a label, compiled: that of `pace`, as a row of whole numbers.

A row begins with turn, work, ahead, and the largest of three kinds of sums: for how long the units stop, and what moves
before the first iteration and after the last. Then come late of two inputs and of the results, the largest of until of
the inputs, of own of all three, of begun of the inputs, and whether the units stop for each; whether results that
left a memory last did so further in; and a place that only loads use.
Behind them are the sums of those ports for which they matter to what comes: `Columns` has where each kind begins. What
a crossing adds is a row of the same form, in which ports without a column have their largest load, and the last two of
the others are RESULT or THROUGH, and one more than the number of the input whose line it LEADS.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.jit import lending, tiered
from tilestitch.mapping.tree.pace import ALONE, FOLLOWED, INPUTS, LEADS, OTHER, THROUGH, TRAILS

TURN, WORK, AHEAD, STOPS, FIRST, LAST, LATE = range(7)
UNTIL = LATE + FOLLOWED
OWN = UNTIL + INPUTS
BEGUN = OWN + FOLLOWED
WAITS = BEGUN + INPUTS
APART = WAITS + INPUTS
LEADING = APART + 1
SUMS = LEADING + 1  # where single ports begin

_Port = TypeVar("_Port", tuple[int, int], int)
_Cycles: TypeAlias = NDArray[np.int64]


class Columns(NamedTuple):
    """Where the sums of each kind begin, behind those of the stops; the last one ends the row."""

    first: int
    last: int
    busy: int
    until: int  # of the first input, then of the second
    until_second: int
    own: int
    own_second: int
    own_results: int
    begun: int
    begun_second: int
    trail: int  # of an input that has any, one for each of the stops
    trail_second: int
    end: int


@dataclass(frozen=True, slots=True)
class Using(Generic[_Port]):
    """The ports that some crossing uses, by kinds; `stops` has none where it hides."""

    inwards: frozenset[_Port]
    outwards: frozenset[_Port]
    stops: frozenset[_Port]
    operand: int = OTHER  # as in `Loads`
    may_hide: bool = False  # whether the units need not stop at some tile
    delays: tuple[int, ...] = ()  # as in `Loads`
    line: int = ALONE  # as in `Loads`
    trail: frozenset[_Port] = frozenset()  # of a crossing that leads: the ports of what may trail it

    @property
    def both(self) -> frozenset[_Port]:
        return self.inwards | self.outwards

    @property
    def kinds(self) -> tuple[frozenset[_Port], ...]:
        """Its ports by the kinds of `Loads`; of a trail those to which it adds or from which it takes."""
        none, stops = frozenset[_Port](), self.stops | self.trail
        until = [stops if self.operand <= number else none for number in range(INPUTS)]
        own = [self.both if number in self.delays else none for number in range(FOLLOWED)]
        begun = [self.inwards if self.operand <= number else none for number in range(INPUTS)]
        line = self.both if self.line == TRAILS else self.trail
        trail = [line if self.operand == number else none for number in range(INPUTS)]
        return stops, self.inwards, self.outwards, self.both, *until, *own, *begun, *trail


@dataclass(frozen=True, slots=True)
class Tracked(Generic[_Port]):
    """The ports that have a column, by the kinds of `Loads`; and whether the units ever stop for each input."""

    ports: tuple[tuple[_Port, ...], ...]
    waits: tuple[bool, ...]

    @property
    def columns(self) -> Columns:
        ends = np.cumsum([SUMS, *map(len, self.ports)]).tolist()
        return Columns(*ends[1:])

    @property
    def each(self) -> Iterator[tuple[int, int, _Port]]:
        """Column, kind and port of all sums, in order."""
        every = ((kind, port) for kind, ports in enumerate(self.ports) for port in ports)
        yield from ((column, kind, port) for column, (kind, port) in enumerate(every, SUMS))

    def row(
        self, loads: Sequence[Mapping[_Port, _Cycles]], operand: int, ways: _Cycles | None = None, line: int = ALONE
    ) -> dict[int, _Cycles]:
        """What a crossing of an operand adds by column, where it is not nothing; `loads` by kind, `ways` by tile."""
        found = {column: loads[kind][port] for column, kind, port in self.each if port in loads[kind]}
        largest = [STOPS, FIRST, LAST, TURN]
        largest += [UNTIL + number if waits else -1 for number, waits in enumerate(self.waits)]
        largest += [*range(OWN, BEGUN), *range(BEGUN, WAITS)]  # what trails always has columns
        for kind, column in enumerate(largest):
            others = [cycles for port, cycles in loads[kind].items() if port not in self.ports[kind]]
            if others and column >= 0:
                found[column] = others[0] if len(others) == 1 else np.max(np.stack(others), axis=0)
        if operand < INPUTS and loads[0]:
            found[WAITS + operand] = np.ones(1, np.int64)
        if ways is not None:
            found[APART] = ways
        if line == LEADS:
            found[LEADING] = np.full(1, operand + 1)
        return found

    def used_by(self, crossing: Using[_Port]) -> NDArray[np.bool_]:
        """By column whether a crossing changes its sum."""
        found, kinds = np.zeros(self.columns.end, np.bool_), crossing.kinds
        for column, kind, port in self.each:
            found[column] = port in kinds[kind]
        return found


def in_line(crossings: Sequence[Using[_Port]]) -> list[Using[_Port]]:
    """The same where those that lead know what may trail them."""
    found: list[Using[_Port]] = []
    for one in crossings:
        trails = (other.both for other in crossings if other.line == TRAILS and other.operand == one.operand)
        found.append(replace(one, trail=frozenset[_Port]().union(*trails)) if one.line == LEADS else one)
    return found


def tracked(crossings: Sequence[Using[_Port]], outermost: Iterable[_Port]) -> Tracked[_Port]:
    """Which sums of crossings that are `in_line` matter: of ports that several use; of `outermost` ports, for bounds.

    Of stops all matter. Where anything trails a stop, all of these ports have columns for the trail and for until too,
    in the same order. A port that has all crossings for which the units stop and no other needs no column for how busy
    it is: its cycles are in the stops.
    """
    nothing = Using(frozenset[_Port](), frozenset(), frozenset())
    stops, first, last, busy, *others = zip(*(one.kinds for one in crossings or [nothing]), strict=True)
    every = frozenset[_Port]().union(*stops)
    hidden = {port for one in crossings if one.may_hide or not one.stops for port in one.both}
    *further, trail, trail_second = others
    has_trail = any(trail), any(trail_second)
    waits = tuple(any(one.kinds[0] for one in crossings if one.operand == number) for number in range(INPUTS))
    until = [every if any(has_trail[: number + 1]) else _several(further[number]) for number in range(INPUTS)]
    until = [ports if stops_units else frozenset() for ports, stops_units in zip(until, waits, strict=True)]
    own_and_begun = map(_several, further[INPUTS:])
    trails = (every if has_any else frozenset[_Port]() for has_any in has_trail)
    outwards = _several(last) | set(outermost)
    kinds = every, _several(first), outwards, _several(busy) & hidden, *until, *own_and_begun, *trails
    return Tracked(tuple(tuple(sorted(each)) for each in kinds), waits)


def _several(users: Iterable[frozenset[_Port]]) -> frozenset[_Port]:
    """The ports in more than one of these sets."""
    known: set[_Port] = set()
    found: set[_Port] = set()
    for ports in users:
        found |= known & ports
        known |= ports
    return frozenset(found)


@lending
def repeat(row: np.ndarray, columns: Columns, times: int) -> None:
    """So many tiles as one, at least two."""
    turn, work = row[TURN], row[WORK]
    second, rest = work + row[STOPS], (times - 2) * turn
    row[AHEAD] = min(row[AHEAD] + rest + turn, second + work + rest)
    for number in range(FOLLOWED):
        own = row[OWN + number]
        row[LATE + number] = min(row[LATE + number] + rest + turn, max(second, own) + work + rest)
        row[OWN + number] = own + rest + turn if own > 0 else 0
    row[WORK] = work + rest + turn
    row[TURN] = times * turn
    row[APART] = 1
    for column in range(columns.busy, columns.until):
        row[column] *= times
    for column in range(columns.own, columns.begun):
        if row[column] > 0:
            row[column] += rest + turn


@lending
def _largest(row: np.ndarray, head: int, load: np.ndarray, begin: int, end: int) -> None:
    """Write the largest sum of one kind, with those that have no column."""
    most = max(row[head], load[head])
    for column in range(begin, end):
        most = max(most, row[column])
    row[head] = most


@lending
def _follow(row: np.ndarray, columns: Columns, number: int) -> None:
    """What trails a stop for an input joins what the units stop for."""
    begin = columns.trail if number == 0 else columns.trail_second
    end = columns.trail_second if number == 0 else columns.end
    for at in range(end - begin):
        cycles = row[begin + at]
        if cycles > 0:
            row[begin + at], row[WAITS + number] = 0, 1
            row[SUMS + at] += cycles
            if number == 0 and columns.until_second > columns.until:
                row[columns.until + at] += cycles
            if columns.own > columns.until_second:
                row[columns.until_second + at] += cycles


@lending
def cross(row: np.ndarray, columns: Columns, load: np.ndarray) -> None:
    """A tile with what crosses there."""
    if load[LEADING] > 0:
        _follow(row, columns, load[LEADING] - 1)
    goes_through = load[APART] == THROUGH and row[APART] == 0
    if load[APART] > 0:
        row[APART] = 0
    for column in range(columns.first if goes_through else SUMS, columns.end):
        row[column] += load[column]
    if not goes_through:
        _largest(row, STOPS, load, SUMS, columns.first)
    _largest(row, FIRST, load, columns.first, columns.last)
    _largest(row, LAST, load, columns.last, columns.busy)
    _largest(row, UNTIL, load, columns.until, columns.until_second)
    _largest(row, UNTIL + 1, load, columns.until_second, columns.own)
    _largest(row, OWN, load, columns.own, columns.own_second)
    _largest(row, OWN + 1, load, columns.own_second, columns.own_results)
    _largest(row, OWN + 2, load, columns.own_results, columns.begun)
    _largest(row, BEGUN, load, columns.begun, columns.begun_second)
    _largest(row, BEGUN + 1, load, columns.begun_second, columns.trail)
    _largest(row, TURN, load, columns.busy, columns.until)
    turn = max(row[TURN], row[AHEAD] + row[STOPS])
    for number in range(INPUTS):
        row[WAITS + number] = max(row[WAITS + number], load[WAITS + number])
        if row[WAITS + number] > 0:
            turn = max(turn, row[LATE + number] + row[UNTIL + number])
    row[TURN] = turn


@tiered
def first_row(columns: Columns, load: np.ndarray) -> np.ndarray:
    """The row of one iteration of the units, with the results that cross then."""
    row = np.zeros(columns.end, np.int64)
    start_of_units(row, columns, load)
    return row


@lending
def start_of_units(row: np.ndarray, columns: Columns, load: np.ndarray) -> None:
    """Write the row of one iteration of the units, with the results that cross then."""
    row[:] = 0
    row[TURN], row[WORK], row[AHEAD] = 1, 1, 1
    row[LATE:UNTIL] = 1
    cross(row, columns, load)


def least_latency(start: np.ndarray, steps: int) -> int:
    """Of so many iterations, if nothing but what the row has moved."""
    turn, work, ahead, stops, first, last = start[:LATE].tolist()
    until = ahead if steps == 1 else min(ahead + (steps - 1) * turn, 2 * work + stops + (steps - 2) * turn)
    return max(steps * turn, until + first + last)


@lending
def _latency(row: np.ndarray, others: int, first: int, last: int) -> int:
    """Of a tile and so many more like it, if nothing else came to them; `first` and `last` are the largest sums."""
    turn, work = row[TURN], row[WORK]
    found = (others + 1) * turn
    for number in range(FOLLOWED):
        until = row[LATE + number]
        if others > 0:
            second = max(work + row[STOPS], row[OWN + number])
            until = min(until + others * turn, second + work + (others - 1) * turn)
        found = max(found, until + (row[BEGUN + number] if number < INPUTS else first) + last)
    return found


@tiered
def latencies_of(rows: np.ndarray) -> np.ndarray:
    """Of some tiles, each as a whole nest."""
    found = np.empty(len(rows), np.int64)
    for number in range(len(rows)):
        row = rows[number]
        found[number] = _latency(row, 0, row[FIRST], row[LAST])
    return found


@lending
def latency_at_least(row: np.ndarray, columns: Columns, togo: np.ndarray, others: int) -> int:
    """What nothing that goes on from here is faster than; `togo` is the least that is still to come, by column."""
    first, last = row[FIRST], row[LAST]
    for column in range(columns.first, columns.last):
        first = max(first, row[column] + togo[column])
    for column in range(columns.last, columns.busy):
        last = max(last, row[column] + togo[column])
    least = _latency(row, others, first, last)
    for column in range(SUMS, columns.first):
        least = max(least, (others + 1) * (row[AHEAD] + row[column]) + togo[column])
    for column in range(columns.busy, columns.until):
        least = max(least, (others + 1) * row[column] + togo[column])
    return least


@lending
def keeps_up(one: np.ndarray, other: np.ndarray, columns: Columns, others: int, crosses: bool, stops: bool) -> bool:
    """Whether one pace is never slower than another of the same tile, whatever comes: docs/trees.md#the-search.

    There are so many `others`; whether something crosses yet, and whether the units stop for any of it.
    """
    if not crosses:
        latency = _latency(other, others, other[FIRST], other[LAST])
        return _latency(one, others, one[FIRST], one[LAST]) <= latency
    if one[AHEAD] > other[AHEAD] or one[FIRST] > other[FIRST] or one[LAST] > other[LAST]:
        return False
    if one[APART] > other[APART]:
        return False
    if one[TURN] > other[TURN] and (others + 1) * one[TURN] > _latency(other, others, other[FIRST], other[LAST]):
        return False
    if stops and one[STOPS] > other[STOPS]:
        return False
    if others > 0:
        turns, than = others * one[TURN], others * other[TURN]
        if one[AHEAD] + turns > other[AHEAD] + than:
            return False
        if one[WORK] > other[WORK] or one[WORK] + turns > other[WORK] + than:
            return False
        second, than_second = 2 * one[WORK] + one[STOPS], 2 * other[WORK] + other[STOPS]
        if second > than_second or second + turns - one[TURN] > than_second + than - other[TURN]:
            return False
    for column in range(SUMS, columns.until):
        if one[column] > other[column]:
            return False
    return _is_late_too(one, other, columns, others)


@lending
def _is_late_too(one: np.ndarray, other: np.ndarray, columns: Columns, others: int) -> bool:
    """Whether what is late takes one tile no longer than another one like it."""
    turns, than = others * one[TURN], others * other[TURN]
    for number in range(FOLLOWED):
        late, than_late = one[LATE + number], other[LATE + number]
        if late > than_late or late + turns > than_late + than:
            return False
        if one[OWN + number] > 0 and one[OWN + number] + turns > other[OWN + number] + than:
            return False
    for column in range(UNTIL, WAITS):
        if one[column] > other[column]:
            return False
    for column in range(columns.own, columns.begun):
        if one[column] > 0 and one[column] + turns > other[column] + than:
            return False
    for column in range(columns.until, columns.end):  # noqa: SIM110 (compiled, where a generator costs more)
        if one[column] > other[column]:
            return False
    return True
