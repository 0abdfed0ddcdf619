"""What a crossing does to ports: what moves inwards and outwards, and for what the units stop."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilestitch.mapping.tree.crossings import OperandOnTree, Part, PortCycles, PortNumber, Tiles, operands_on_tree
from tilestitch.mapping.tree.pace import (
    ALONE,
    ELSE,
    FOLLOWED,
    INPUTS,
    LEADS,
    OTHER,
    RESULT,
    RESULTS,
    THROUGH,
    TRAILS,
)


@dataclass(frozen=True, slots=True)
class Loads:
    """Cycles for which one crossing at each of some tiles, once, occupies ports."""

    inwards: PortCycles
    outwards: PortCycles
    stops: PortCycles  # while the units stop; none where they go on
    operand: int = OTHER  # the number by which a pace follows it
    ways: NDArray[np.int64] | None = None  # by tile: RESULT or THROUGH, as a pace has it
    delays: tuple[int, ...] = ()  # as a pace has it
    line: int = ALONE  # as a pace has it
    least_trail: PortCycles = field(default_factory=dict)  # what trails a stop, besides, whatever its tiles are

    @property
    def both(self) -> PortCycles:
        return added(self.inwards, self.outwards)

    @property
    def kinds(self) -> tuple[PortCycles, ...]:
        """What is added to the sums of a pace: stops, first, last, busy; of every input until, of
        everything followed own, of every input begun and its trail.
        """
        until = [self.stops if self.operand <= number else {} for number in range(INPUTS)]
        begun = [self.inwards if self.operand <= number else {} for number in range(INPUTS)]
        trail = [self.both if self.line == TRAILS and self.operand == number else {} for number in range(INPUTS)]
        return self.stops, self.inwards, self.outwards, self.both, *until, *self.own, *begun, *trail

    @property
    def own(self) -> tuple[PortCycles, ...]:
        """What the next tile of everything followed waits for. At the units sums come in before others have left."""
        found = [self.both if number in self.delays else {} for number in range(FOLLOWED)]
        if self.operand == RESULTS and self.ways is None:
            found[RESULTS] = self.outwards
        return tuple(found)

    @property
    def least_stops(self) -> PortCycles:
        """Stops with the least that trails them."""
        return added(self.stops, self.least_trail)

    @property
    def may_go_through(self) -> bool:
        """Whether the units need not wait at some tile, if what crosses arrived with it."""
        return self.ways is not None and bool((self.ways == THROUGH).any())

    @property
    def first_way(self) -> int:
        """What crosses at the first tile."""
        return ELSE if self.ways is None else int(self.ways[0])

    @property
    def sure_stops(self) -> PortCycles:
        """For how long the units stop at least, wherever what crosses came from and whatever trails it."""
        if self.ways is None:
            return self.least_stops
        return {port: np.where(self.ways == THROUGH, 0, cycles) for port, cycles in self.stops.items()}


def followed_as(operand: OperandOnTree) -> int:
    """The number by which a pace follows an operand."""
    if operand.is_write:
        return RESULTS
    return operand.number if operand.number < INPUTS else OTHER


def delayed_by(operand: OperandOnTree, *, stops: bool) -> tuple[int, ...]:
    """The numbers of operands whose next tile waits until an operand has moved: its own, and those in line behind it.

    Ports take inputs in their order: one for which the units never stop waits until those before it are there. Results
    wait until all is there for which the units stop.
    """
    number = followed_as(operand)
    later = [one for one in operands_on_tree(operand.placed)[number + 1 : INPUTS] if not one.is_write]
    behind = {one.number for one in later if all(map(one.is_hidden, range(len(one.memories))))}
    if stops:
        behind.add(RESULTS)
    if number < FOLLOWED:
        behind.add(number)
    return tuple(sorted(behind))


def line_of(operand: OperandOnTree, crossing: int) -> int:
    """The place of a crossing in the line at a stop, as a pace has it.

    At the units it takes the same for every tile, and is a part of each stop, unless windows slide there.
    """
    if followed_as(operand) >= INPUTS or (crossing == 0 and operand.slide(0) is None):
        return ALONE
    if not operand.is_hidden(crossing):
        return LEADS if line_of(operand, crossing - 1) == TRAILS else ALONE
    stops = any(not operand.is_hidden(further) for further in range(crossing + 1, len(operand.memories)))
    return TRAILS if stops else ALONE


def loads_of(operand: OperandOnTree, crossing: int, tiles: Tiles, part: Part = Part.ALL) -> Loads:
    """The loads of a crossing. What a row of windows begins with stops the units even where the rest hides."""
    inwards, outwards = operand.ways(crossing, tiles, part)
    number, hides = followed_as(operand), operand.is_hidden(crossing) and part is not Part.FIRST
    delays = delayed_by(operand, stops=not hides)
    ways = _ways(operand, crossing, inwards, len(tiles)) if operand.is_write and crossing > 0 else None
    if part is Part.FIRST:
        return Loads(inwards, outwards, added(inwards, outwards), number, delays=delays)
    line = line_of(operand, crossing)
    if hides:
        return Loads(inwards, outwards, {}, number, ways, delays, line)
    certain, trail = (
        {port: np.repeat(cycles, len(tiles)) for port, cycles in each.items()} for each in behind(operand, crossing)
    )
    return Loads(inwards, outwards, added(inwards, outwards, certain), number, ways, delays, line, trail)


def _ways(operand: OperandOnTree, crossing: int, inwards: PortCycles, tiles: int) -> NDArray[np.int64]:
    """Of results by tile: through a memory of one buffer they go where nothing comes back to them."""
    if not operand.may_go_through(crossing):
        return np.full(tiles, RESULT, np.int64)
    comes_back = np.any([cycles > 0 for cycles in inwards.values()], axis=0) if inwards else np.zeros(tiles, np.bool_)
    return np.where(np.broadcast_to(comes_back, tiles), RESULT, THROUGH)


def behind(operand: OperandOnTree, crossing: int) -> tuple[PortCycles, PortCycles]:
    """What has to follow before the units go on, of all that hides: whatever its tile, and the least that trails.

    A tile in a memory with two buffers cannot come before that around it, of which it is a part. Where it does not
    trail it counts with the least that it may hold. Of results it is one iteration's at the units.
    """
    ones = np.ones((1, len(operand.placed.steps)), np.int64)
    certain: PortCycles = {}
    trail: PortCycles = {}
    for inner in range(crossing - 1, -1, -1):
        if not operand.is_hidden(inner):
            break
        if operand.is_write and inner > 0:
            continue
        if line_of(operand, inner) == TRAILS:
            part = Part.ALL if operand.slide(inner) is None else Part.NEW
            trail = added(trail, *operand.ways(inner, ones, part))
        else:
            certain = added(certain, *operand.ways(inner, ones))
    return certain, trail


def added(*loads: PortCycles) -> PortCycles:
    """Loads of the same ports added up."""
    found: dict[PortNumber, NDArray[np.int64]] = {}
    for one in loads:
        for port, cycles in one.items():
            found[port] = found[port] + cycles if port in found else cycles
    return found
