"""Sub-graphs worth considering: grown operator by operator, kept where that beats leaving an operator outside."""

from collections.abc import Mapping
from dataclasses import dataclass

from tilestitch.commands.contest.blocks import Prices

MAX_LEVEL = 40  # sub-graphs of one size that are kept: those that save most against their single operators
MARGIN = 1e-9  # relative gain below which two costs are the same


@dataclass(frozen=True)
class Pool:
    """Sub-graphs as bit masks over the operators in topological order, and their ticks."""

    order: tuple[int, ...]
    ticks: Mapping[int, float]
    by_lowest: tuple[tuple[int, ...], ...]  # those whose first operator is at that place, in the order they were found
    whole: bool  # nothing was cut off by a limit

    def operators(self, mask: int) -> frozenset[int]:
        """The operators of a mask."""
        return frozenset(self.order[place] for place in _places(mask))


def grow(prices: Prices) -> Pool:
    """Every single operator, and larger sub-graphs as long as there is a gain.

    A sub-graph whose inner results are also read outside is left to `recompute`; those here never repeat an operator.
    """
    instance = prices.instance
    order = instance.order
    place = {operator: index for index, operator in enumerate(order)}
    near = _neighbours(prices, place)
    ticks: dict[int, float] = {}
    by_lowest: list[list[int]] = [[] for _ in order]
    frontier: list[int] = []
    singles: list[float] = []
    whole = True
    for index, operator in enumerate(order):
        priced = prices.price(frozenset([operator]))
        if priced is not None:
            ticks[1 << index] = priced.ticks
            by_lowest[index].append(1 << index)
        singles.append(0.0 if priced is None else priced.ticks)
        frontier.append(1 << index)
    tried = set(frontier)
    least = dict(ticks)  # of a sub-graph as it is, or with an operator set apart
    while frontier:
        following: list[int] = []
        gains: list[tuple[float, int, float]] = []
        for mask in frontier:
            around = 0
            for index in _places(mask):
                around |= near[index]
            for index in _places(around & ~mask):
                larger = mask | 1 << index
                if larger in tried:
                    continue
                tried.add(larger)
                operators = frozenset(order[i] for i in _places(larger))
                if not _closed(prices, operators):
                    if larger.bit_count() <= 3:  # what is missing may be one more operator
                        following.append(larger)
                    continue
                priced = prices.price(operators)
                if priced is None:
                    continue
                parts = _divided(larger, least)
                least[larger] = priced.ticks if parts is None else min(parts, priced.ticks)
                if parts is None or priced.ticks < parts * (1 - MARGIN):
                    gains.append((priced.ticks - sum(singles[i] for i in _places(larger)), larger, priced.ticks))
        whole = whole and len(gains) <= MAX_LEVEL
        for _, mask, cost in sorted(gains)[:MAX_LEVEL]:
            ticks[mask] = cost
            by_lowest[(mask & -mask).bit_length() - 1].append(mask)
            following.append(mask)
        frontier = following
    return Pool(order, ticks, tuple(map(tuple, by_lowest)), whole)


def _neighbours(prices: Prices, place: dict[int, int]) -> list[int]:
    """For each place the places that make what it reads, or read what it makes."""
    instance = prices.instance
    near = [0] * len(place)
    for number, operator in enumerate(instance.operators):
        for after in instance.consumers.get(operator.output, ()):
            near[place[number]] |= 1 << place[after]
            near[place[after]] |= 1 << place[number]
    return near


def _closed(prices: Prices, operators: frozenset[int]) -> bool:
    """Whether every result is read only inside, or only outside, so that it is either inner or an output."""
    instance = prices.instance
    for number in operators:
        readers = instance.consumers.get(instance.operators[number].output, ())
        inside = sum(reader in operators for reader in readers)
        if 0 < inside < len(readers):
            return False
    return True


def _divided(mask: int, least: dict[int, float]) -> float | None:
    """The least sum when one operator is set apart from the rest; None where no such rest is known."""
    sums = [
        least[mask & ~(1 << i)] + least[1 << i] for i in _places(mask) if mask & ~(1 << i) in least and 1 << i in least
    ]
    return min(sums, default=None)


def _places(mask: int) -> list[int]:
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
