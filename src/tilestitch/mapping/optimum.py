"""What nothing may be better than: the least value of an objective, or a front that nothing else is on."""

import hashlib
import json
from bisect import bisect_left
from dataclasses import dataclass
from typing import TypeAlias, overload

from tilestitch.ir.choices import Objective

FEMTO = 1000  # femtojoules in a picojoule

UNITS = {
    Objective.ENERGY: "femtojoules",
    Objective.LATENCY: "cycles",
    Objective.EDP: "femtojoules x cycles",
    Objective.ED2P: "femtojoules x cycles^2",
    Objective.PARETO: "femtojoules and cycles",
}
SHORT_UNITS = {**dict.fromkeys(UNITS, ""), Objective.ENERGY: " fJ", Objective.LATENCY: " cycles"}
UNLIMITED = 2**61  # more energy than is compared
MOST_VALUE = 2**160  # that is read from a file

Bound: TypeAlias = int | tuple[int, int]  # of a value; of a front femtojoules and cycles


@overload
def value_of(objective: Objective, energy: int, cycles: int) -> int: ...
@overload
def value_of(objective: Objective, energy: float, cycles: int) -> float: ...
def value_of(objective: Objective, energy: float, cycles: int) -> float:
    """What is least, of an energy in any unit and a latency; of a front the energy."""
    match objective:
        case Objective.LATENCY:
            return float(cycles) if isinstance(energy, float) else cycles
        case Objective.EDP:
            return energy * cycles
        case Objective.ED2P:
            return energy * cycles * cycles
        case _:
            return energy


def value_text(objective: Objective, value: int) -> str:
    """A value of whole femtojoules and cycles with its unit."""
    return f"{value:,}{SHORT_UNITS[objective] or ' ' + UNITS[objective]}"


def digest(problem: object) -> str:
    """Sixteen hexadecimal digits that stand for everything that a problem is made of."""
    return hashlib.sha256(json.dumps(problem, default=str, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Optimum:
    """The least value of an objective, or all points of a front, in ascending order of energy and so of latency down.

    Values are femtojoules, cycles, or products of them; points are both.
    """

    objective: Objective
    value: int = 0
    front: tuple[tuple[int, int], ...] = ()

    def energy_below(self, cycles: int) -> int:
        """Below how many femtojoules a mapping of so many cycles would be better; at most `UNLIMITED`."""
        match self.objective:
            case Objective.PARETO:
                at = self._no_slower(cycles)
                return self.front[at][0] if at < len(self.front) else UNLIMITED
            case Objective.LATENCY:
                return UNLIMITED if cycles < self.value else 0
            case Objective.EDP:
                return min(UNLIMITED, -(-self.value // cycles))
            case Objective.ED2P:
                return min(UNLIMITED, -(-self.value // (cycles * cycles)))
            case _:
                return min(UNLIMITED, self.value)

    def is_above(self, energy_fj: int, cycles: int) -> bool:
        """Whether so much energy in so many cycles would be better, or is on a front and missing there."""
        if self.objective is Objective.PARETO:
            at = self._no_slower(cycles)
            return at == len(self.front) or energy_fj < self.front[at][0]
        return value_of(self.objective, energy_fj, cycles) < self.value

    def _no_slower(self, cycles: int) -> int:
        """The number of the first point of at most so many cycles."""
        return bisect_left(self.front, -cycles, key=lambda point: -point[1])

    def bound(self, energy_fj: int, cycles: int) -> Bound:
        """What nothing of at least so much energy and cycles comes below."""
        if self.objective is Objective.PARETO:
            return energy_fj, cycles
        return value_of(self.objective, energy_fj, cycles)

    def said(self, bound: Bound) -> str:
        """A value with its unit, or energy and latency with theirs."""
        if isinstance(bound, tuple):
            return f"{bound[0]:,} fJ in {bound[1]:,} cycles"
        return f"{bound:,}{SHORT_UNITS[self.objective]}"
