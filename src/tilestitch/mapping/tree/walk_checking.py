"""Judges one placement by the walk over tables: in time, with windows that slide, even storage and orders of loops."""

from collections.abc import Callable
from math import prod

import numpy as np

from tilestitch.base.errors import InvalidIR
from tilestitch.ir.choices import Objective
from tilestitch.mapping.optimum import Bound, Optimum
from tilestitch.mapping.tree import table_walk
from tilestitch.mapping.tree.certificate import chain_fj, mac_value
from tilestitch.mapping.tree.chain import PlacedCrossing, TreeMapping, latency_cycles, placed_crossings
from tilestitch.mapping.tree.claim import MOST_LABELS, Claim
from tilestitch.mapping.tree.crossings import Part
from tilestitch.mapping.tree.outside_in import NEVER, SURVIVED, TOO_MANY
from tilestitch.mapping.tree.pace import THROUGH
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.table_walk import Least, Target
from tilestitch.mapping.tree.walk_tables import WalkCuts, WalkTables

_ONCE = (table_walk.BEFORE, table_walk.AFTER)
MOST_STATES = 2**29  # tiles times which cuts are placed: 4 bytes each
_KINDS = {
    Objective.ENERGY: table_walk.ENERGY,
    Objective.LATENCY: table_walk.LATENCY,
    Objective.EDP: table_walk.PRODUCT,
    Objective.ED2P: table_walk.SQUARE,
    Objective.PARETO: table_walk.FRONT,
}


class Walker:
    """The potentials of the cuts of one placement, each held against every edge, and what all its chains pay beside.

    `where` names it.
    """

    def __init__(self, claim: Claim, where: Callable[[], str], cuts: WalkCuts, beside: int) -> None:
        self.claim, self._where, self._cuts, self._beside = claim, where, cuts, beside
        self._price = _potentials(claim, cuts, cuts.price[..., None], np.ones(len(cuts.first) - 1, np.int64))

    @property
    def bound(self) -> tuple[int, int] | None:
        """Below what energy and what latency no chain comes; none where nothing fits."""
        cuts, total = self._cuts, self._beside
        for operand, first in enumerate(cuts.first[:-1]):
            least = int(self._price[first, cuts.from_units if operand == cuts.write else 0, 0, 0])
            if least >= NEVER:
                return None
            total += least
        turn, work, ahead, stops, before, after = cuts.begin[:6].tolist()
        others = int(cuts.left[0]) - 1
        until = min(ahead + others * turn, 2 * work + stops + (others - 1) * turn) if others > 0 else ahead
        return total, max((others + 1) * turn, until + before + after)

    def labels_below(self) -> int:
        """How many labels it took to see that no chain is better than the claim. Raises `InputError` where one is."""
        ended, pairs, labels = self.walk(_target(self.claim.best, self._beside))
        for energy, cycles in pairs:
            if ended == SURVIVED or self.claim.best.is_above(energy, cycles):
                raise self.claim.better(self._where(), energy, cycles)
        return labels

    def walk(self, target: Target) -> tuple[int, list[tuple[int, int]], int]:
        """How a walk ended, energies and cycles that may be better, and its labels."""
        states = 2 * self._cuts.price.shape[1] * prod(int(count) + 1 for count in np.diff(self._cuts.first))
        if states > MOST_STATES:
            raise self.claim.wrong(f"{self._where()}: has {states:,} states; at most {MOST_STATES:,} are looked at")
        ended, rows, labels = table_walk.walked(self._cuts, self._least(target.objective), target, MOST_LABELS)
        if ended == TOO_MANY:
            raise self.claim.wrong(f"{self._where()}: is not settled with {labels:,} labels")
        return int(ended), [(int(fj) + self._beside, int(cycles)) for fj, cycles in rows.tolist()], int(labels)

    def _least(self, objective: int) -> Least:
        """Potentials of energy, and in time of the sums that an operand has: most have a third of all."""
        cuts, many = self._cuts, 0
        if objective != table_walk.ENERGY:
            many = int((cuts.kind <= table_walk.OCCUPIED).sum())  # they stand first
        starts = zip(cuts.first[:-1].tolist(), cuts.first[1:].tolist(), strict=True)
        used = [(first, last, np.flatnonzero(cuts.uses[:many, first:last].any(axis=1))) for first, last in starts]
        count = np.array([len(numbers) for _, _, numbers in used], np.int64)
        costs = np.zeros((*cuts.price.shape, int(count.max(initial=0))), np.int64)
        column = np.full((len(used), many), -1, np.int64)
        for operand, (first, last, numbers) in enumerate(used):
            column[operand, numbers] = np.arange(len(numbers))
            for at, number in enumerate(numbers.tolist()):
                kind, own = cuts.kind[number], cuts.sums[number, first:last]
                costs[first:last, :, at] = own if kind in _ONCE else own * cuts.left
                if kind == table_walk.STOPPING:
                    costs[first:last, :, at][cuts.result[first:last] == THROUGH] = 0
                    costs[first:last, :, at] += _least_trails(cuts, number, first, last)[:, None] * cuts.left
        return Least(self._price, _potentials(self.claim, cuts, costs, count), column)


def _least_trails(cuts: WalkCuts, stops: int, first: int, last: int) -> np.ndarray:
    """For how long a port stops the units at least, at each cut of an operand, for what trails it."""
    found, trails = np.zeros(last - first, np.int64), 0
    rows = np.flatnonzero(cuts.joins[:, 0] == stops)
    for cut in range(first, last):
        if cuts.leads[cut] >= 0:
            found[cut - first], trails = trails, 0
        trails += int(cuts.sums[rows, cut].min(axis=-1).sum())
    return found


def walker_of(claim: Claim, where: Callable[[], str], tables: WalkTables) -> Walker:
    """The walker over the tables of a placement."""
    return Walker(claim, where, tables.cuts, tables.checked.fixed + mac_value(tables.checked.placed))


def _potentials(claim: Claim, cuts: WalkCuts, costs: np.ndarray, many: np.ndarray) -> np.ndarray:
    found = table_walk.onwards(cuts, costs, many)
    if table_walk.broken_onwards(cuts, costs, many, found):
        raise InvalidIR(f"{claim.name}: the potentials of the checker do not hold on every edge")
    return found


def _target(best: Optimum, beside: int) -> Target:
    kind = _KINDS[best.objective]
    is_whole = kind in (table_walk.ENERGY, table_walk.LATENCY)
    front = np.array(best.front, np.int64).reshape(-1, 2)
    return Target(kind, beside, min(best.value, NEVER) if is_whole else 0, float(best.value), front)


def check_walked_chain(claim: Claim, said: Bound, mapping: TreeMapping, tables: WalkTables) -> None:
    """Refuse a chain that is none, does not fit, or is worth something else than is said."""
    placed = tables.checked.placed
    claim.expect_chain(placed, mapping)
    for operand, crossing, end in mapping.rows:
        if placed.slide(operand, crossing) is None or end > len(mapping.loops):
            raise claim.wrong("its mapping has a row of windows where none slide")
    crossings = placed_crossings(placed, mapping)
    _check_rows(claim, mapping, placed, crossings)
    _check_even_storage(claim, mapping, tables, crossings)
    _check_rooms(claim, mapping, tables, crossings)
    cycles = 0 if claim.objective is Objective.ENERGY else latency_cycles(placed, mapping)
    claim.expect_value(said, chain_fj(placed, mapping), cycles)


def _check_rows(claim: Claim, mapping: TreeMapping, placed: PlacedNest, crossings: list[PlacedCrossing]) -> None:
    """Every row of windows is of the loop along which they slide, and ends inside the next memory's cut."""
    for one, after in zip(crossings, [*crossings[1:], None], strict=True):
        if one.part is not Part.NEW:
            continue
        assert after is not None
        loop = placed.slide(one.operand.number, one.crossing)
        row = mapping.loops[one.place : after.place]
        if any(number != loop for number, _ in row):
            raise claim.wrong("its mapping has a row of windows over another loop than that along which they slide")


def _check_even_storage(
    claim: Claim, mapping: TreeMapping, tables: WalkTables, crossings: list[PlacedCrossing]
) -> None:
    """Every memory that stores evenly has one place for all its operands, no further in than those inside it.

    A place may be anywhere between two loops that move an operand: other loops leave what is stored alone.
    """
    memories = tables.checked.placed.tree.memories
    places: dict[int, int] = {}
    for memory in tables.places:
        cuts = [
            one
            for one in crossings
            if one.part is not Part.FIRST
            and one.crossing
            and one.operand.memories[one.crossing - 1] is memories[memory]
        ]
        inside = {memories.index(held) for one in cuts for held in one.operand.memories[: one.crossing - 1]}
        inner = max((places[one] for one in inside & places.keys()), default=0)
        for one in cuts:
            place = one.place
            while place and mapping.loops[place - 1][0] in one.operand.leaves_alone:
                place -= 1
            inner = max(inner, place)
        if any(inner > one.place for one in cuts):
            raise claim.wrong(f"its chain does not store evenly in {memories[memory].name}")
        places[memory] = inner


def _check_rooms(claim: Claim, mapping: TreeMapping, tables: WalkTables, crossings: list[PlacedCrossing]) -> None:
    """Every cut is possible where it is, and operands fit a memory together."""
    cuts, checked = tables.cuts, tables.checked
    taken = [0] * len(cuts.limit)
    for number, operand in enumerate(checked.operands):
        arriving = cuts.from_units if operand.is_write else 0
        own = {(one.crossing, one.part): one.tile for one in crossings if one.operand.number == operand.number}
        for cut in range(int(cuts.first[number]), int(cuts.first[number + 1])):
            _, crossing, part = tables.kinds[cut]
            slides = (crossing, Part.ALL) not in own and crossing < len(operand.memories)
            if part is not Part.ALL and not slides:  # a way to slide that this chain leaves without a row
                part = Part.ALL
                if tables.kinds[cut][2] is Part.FIRST:
                    continue
            tile = own.get((crossing, part), checked.placed.steps)
            at = checked.tile_number(tile)
            if part is Part.FIRST:
                continue
            if not cuts.possible[cut, arriving, at]:
                raise claim.wrong(
                    f"its chain does not fit: cut {cut - int(cuts.first[number])} of {operand.array.name}"
                )
            if cuts.shared[cut] >= 0:
                taken[cuts.shared[cut]] += int(cuts.room[cut, arriving, at])
            arriving = int(cuts.partial[cut, at])
    if any(room > limit for room, limit in zip(taken, cuts.limit.tolist(), strict=True)):
        raise claim.wrong("its chain does not fit: operands take more of a memory together than it has")
