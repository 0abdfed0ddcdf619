"""How long tiles take, from one iteration of the units outwards: docs/trees.md#latency has the reasons.

A tile is followed by others, or it is the last. A *turn* is the time of a tile in a row of equal ones: from the moment
at which the units begin with it until they can begin with the next one, with all that was moved for that one meanwhile.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from tilestitch.mapping.tree.crossings import PortNumber

Cycles: TypeAlias = Mapping[PortNumber, int]

INPUTS = 2  # so many of a nest's inputs are followed by themselves, by number: all that most nests have
RESULTS = INPUTS  # stands for the results, which are followed as well
FOLLOWED = INPUTS + 1
OTHER = FOLLOWED  # stands for every other operand
ELSE, RESULT, THROUGH = range(3)  # what crosses: THROUGH are results that arrive and leave while the units go on
# the place of an input's crossing in the line at a stop: what TRAILS hides, but follows where the units stop for the
# input further out, at the crossing that LEADS
ALONE, TRAILS, LEADS = range(3)


class Crossed(NamedTuple):
    """What crosses with a tile, in cycles of ports."""

    inwards: Cycles
    outwards: Cycles
    stops: Cycles  # none where the units go on meanwhile
    operand: int = OTHER
    way: int = ELSE
    delays: tuple[int, ...] = ()  # the numbers of operands whose next tile waits until it has moved
    line: int = ALONE


@dataclass(frozen=True, slots=True)
class Pace:
    """Cycles of a tile: of one iteration at first, then of what loops and crossings around it make of it."""

    turn: int = 1
    work: int = 1  # from the units' first iteration to their last, if only the first tiles are there when they begin
    ahead: int = 1  # likewise if the second ones are there as well, where there is room for them
    stops: Cycles = field(default_factory=dict)  # of each port, for which the units stop at the end
    first: Cycles = field(default_factory=dict)  # of each port, before the first iteration of all
    last: Cycles = field(default_factory=dict)  # after the last one
    busy: Cycles = field(default_factory=dict)  # of a turn, that each port is occupied
    late: tuple[int, ...] = (1,) * FOLLOWED  # as `ahead`, but not for the second tile of this operand
    own: tuple[Cycles, ...] = ({},) * FOLLOWED  # until each port has moved what the next tile of this operand waits for
    until: tuple[Cycles, ...] = ({},) * INPUTS  # as `stops`, of this input and those before it
    waits: tuple[bool, ...] = (False,) * INPUTS  # whether the units stop for this input
    begun: tuple[Cycles, ...] = ({},) * INPUTS  # as `first`, of this input and those before it
    apart: bool = False  # whether results that left a memory last did so inside a smaller tile
    trail: tuple[Cycles, ...] = ({},) * INPUTS  # of each input, what follows when the units next stop for it

    @property
    def latency(self) -> int:
        """From empty memories until the results have left, with nothing before and after; no less than a turn.

        What comes first comes as after a stop: of no input anything is ahead, and the last results leave behind all.
        """
        begun = map(_most, (*self.begun, self.first))
        return max(self.turn, *(late + each + _most(self.last) for late, each in zip(self.late, begun, strict=True)))

    def repeated(self, times: int) -> "Pace":
        """So many of these tiles, one after another, as one tile."""
        if times == 1:
            return self
        rest = (times - 2) * self.turn
        second = self.work + _most(self.stops)  # when the units may begin with the second tile, if it is there
        return Pace(
            times * self.turn,
            self.work + rest + self.turn,
            min(self.ahead + rest + self.turn, second + self.work + rest),
            self.stops,
            self.first,
            self.last,
            _times(times, self.busy),
            tuple(
                min(late + rest + self.turn, max(second, _most(own)) + self.work + rest)
                for late, own in zip(self.late, self.own, strict=True)
            ),
            tuple({port: own[port] + rest + self.turn for port in own if own[port] > 0} for own in self.own),
            self.until,
            self.waits,
            self.begun,
            apart=True,
            trail=self.trail,
        )

    def with_crossing(self, crossed: Crossed) -> "Pace":
        """This tile where an operand crosses with it.

        Results go THROUGH a memory if they arrive there with the same tile: then the units need not wait for them.
        """
        inwards, outwards, stops, operand, way, delays, line = crossed
        if way == THROUGH and not self.apart:
            stops = {}
        trail = self.trail
        if line == LEADS:
            stops = _added(stops, trail[operand])
        if line != ALONE:
            trails = _added(trail[operand], inwards, outwards) if line == TRAILS else {}
            trail = tuple(trails if number == operand else one for number, one in enumerate(trail))
        busy = _added(self.busy, _added(inwards, outwards))
        stopped = _added(self.stops, stops)
        first, last = _added(self.first, inwards), _added(self.last, outwards)
        own = [_added(one, inwards, outwards) if number in delays else one for number, one in enumerate(self.own)]
        if operand == RESULTS and way == ELSE:  # at the units sums come in before others have left
            own[RESULTS] = _added(self.own[RESULTS], outwards)
        until = tuple(_added(one, stops) if operand <= number else one for number, one in enumerate(self.until))
        waits = tuple(one or (number == operand and bool(stops)) for number, one in enumerate(self.waits))
        begun = tuple(_added(one, inwards) if operand <= number else one for number, one in enumerate(self.begun))
        ends = [late + _most(its) for late, its, one in zip(self.late, until, waits, strict=False) if one]
        turn = max(self.turn, self.ahead + _most(stopped), *ends, _most(busy))
        apart = self.apart and way == ELSE
        return Pace(
            turn, self.work, self.ahead, stopped, first, last, busy, self.late, tuple(own), until, waits, begun, apart,
            trail,
        )  # fmt: skip


def in_turn(paces: Iterable[Pace], between: Iterable[Cycles]) -> Pace:
    """Whole nests one after another, with what ports do in between, as one tile: nothing of two of them overlaps."""
    ended = list(paces)
    others = list(between)
    turn = sum(one.latency for one in ended) + sum(_most(one) for one in others)
    return Pace(turn, turn, turn, busy=_added(*(one.busy for one in ended), *others), late=(turn,) * FOLLOWED)


def _most(cycles: Cycles) -> int:
    return max(cycles.values(), default=0)


def _times(times: int, cycles: Cycles) -> Cycles:
    return {port: times * each for port, each in cycles.items()}


def _added(*parts: Cycles) -> Cycles:
    found: dict[PortNumber, int] = {}
    for one in parts:
        for port, cycles in one.items():
            found[port] = found.get(port, 0) + cycles
    return found
