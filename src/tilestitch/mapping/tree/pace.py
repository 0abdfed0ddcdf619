"""How long tiles take, from one iteration of the units outwards: docs/trees.md#latency has the reasons.

A tile is followed by others, or it is the last. A *turn* is the time of a tile in a row of equal ones: from the moment
at which the units begin with it until they can begin with the next one, with all that was moved for that one meanwhile.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tilestitch.mapping.tree.crossings import PortNumber

Cycles: TypeAlias = Mapping[PortNumber, int]


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

    @property
    def latency(self) -> int:
        """From empty memories until the results have left, with nothing before and after; no less than a turn."""
        return max(self.turn, self.ahead + _most(self.first) + _most(self.last))

    def repeated(self, times: int) -> "Pace":
        """So many of these tiles, one after another, as one tile."""
        if times == 1:
            return self
        ahead = min(
            self.ahead + (times - 1) * self.turn,
            2 * self.work + _most(self.stops) + (times - 2) * self.turn,
        )
        busy = {port: times * cycles for port, cycles in self.busy.items()}
        work = self.work + (times - 1) * self.turn
        return Pace(times * self.turn, work, ahead, self.stops, self.first, self.last, busy)

    def with_crossing(self, inwards: Cycles, outwards: Cycles, stops: Cycles) -> "Pace":
        """This tile where an operand crosses with it; `stops` is empty where the units go on meanwhile."""
        busy = _added(self.busy, _added(inwards, outwards))
        stopped = _added(self.stops, stops)
        turn = max(self.turn, self.ahead + _most(stopped), _most(busy))
        first, last = _added(self.first, inwards), _added(self.last, outwards)
        return Pace(turn, self.work, self.ahead, stopped, first, last, busy)


def in_turn(paces: Iterable[Pace], between: Iterable[Cycles]) -> Pace:
    """Whole nests one after another, with what ports do in between, as one tile: nothing of two of them overlaps."""
    ended = list(paces)
    others = list(between)
    turn = sum(one.latency for one in ended) + sum(_most(one) for one in others)
    return Pace(turn, turn, turn, busy=_added(*(one.busy for one in ended), *others))


def _most(cycles: Cycles) -> int:
    return max(cycles.values(), default=0)


def _added(*parts: Cycles) -> Cycles:
    found: dict[PortNumber, int] = {}
    for one in parts:
        for port, cycles in one.items():
            found[port] = found.get(port, 0) + cycles
    return found
