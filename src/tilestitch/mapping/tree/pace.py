"""How long tiles take, from one iteration of the units outwards: docs/trees.md#latency has the reasons.

A tile is followed by others, or it is alone. A *turn* is the time of a tile in a row of equal ones: from the moment at
which the units begin with it until they can begin with the next one, with all that was moved for that one meanwhile.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilestitch.mapping.tree.crossings import PortNumber


@dataclass(frozen=True, slots=True)
class Pace:
    """Cycles of a tile: of one iteration at first, then of what loops and crossings around it make of it."""

    alone: int = 1  # from empty memories until its results have left, with nothing before and after
    turn: int = 1
    ready: int = 1  # of a turn, until the units have done all; from then on they wait for ports
    busy: Mapping[PortNumber, int] = field(default_factory=dict)  # of a turn, that each port is occupied

    def repeated(self, times: int) -> "Pace":
        """So many of these tiles, one after another, as one tile."""
        others = (times - 1) * self.turn
        busy = {port: times * cycles for port, cycles in self.busy.items()}
        return Pace(self.alone + others, times * self.turn, self.ready + others, busy)

    def with_crossing(self, served: Mapping[PortNumber, int], *, hidden: bool) -> "Pace":
        """This tile where an operand crosses with it, which occupies some ports; `hidden` beside the units' work."""
        wait = max(served.values(), default=0)
        ready = self.ready if hidden else self.ready + wait
        busy = {port: self.busy.get(port, 0) + served.get(port, 0) for port in {**self.busy, **served}}
        turn = max(self.turn, ready, *busy.values()) if busy else max(self.turn, ready)
        return Pace(self.alone + wait, turn, ready, busy)
