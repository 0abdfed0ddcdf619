"""What a sub-graph costs at its best, remembered; sub-graphs of the same form are priced once."""

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from tilestitch.base.units import ceil_div
from tilestitch.commands.contest import price
from tilestitch.commands.contest.instance import Instance, Kind
from tilestitch.commands.contest.rules import Rules
from tilestitch.commands.contest.solution import Step
from tilestitch.commands.contest.structure import Axis, Refused, Structure, analyse

_Key = tuple[tuple[int, ...], frozenset[int], frozenset[int], bool]


@dataclass(frozen=True)
class Priced:
    """The best granularity of a sub-graph, and which way to go through its tiles."""

    ticks: float
    granularity: tuple[int, int, int]
    order: int


class Prices:
    """Prices of the sub-graphs of one instance, each found once."""

    def __init__(self, instance: Instance, rules: Rules, ticks: int) -> None:
        """`ticks` of a time unit."""
        self.instance, self.rules, self.ticks = instance, rules, ticks
        self._structures: dict[frozenset[int], Structure | None] = {}
        self._known: dict[_Key, Priced | None] = {}
        self._forms: dict[tuple[object, ...], Priced | None] = {}

    def structure(self, operators: frozenset[int]) -> Structure | None:
        """The structure of a sub-graph; None where the rules do not allow it."""
        if operators not in self._structures:
            try:
                self._structures[operators] = analyse(self.instance, sorted(operators))
            except Refused:
                self._structures[operators] = None
        return self._structures[operators]

    def price(
        self,
        operators: frozenset[int],
        resident: Collection[int] = (),
        retained: Collection[int] = (),
        *,
        fine: bool = False,
    ) -> Priced | None:
        """The best of the granularities (halves of halves, or all where `fine`); None where none fits or is allowed."""
        structure = self.structure(operators)
        if structure is None:
            return None
        key = (structure.operators, frozenset(resident), frozenset(retained), fine)
        if key not in self._known:
            self._known[key] = self._price(structure, key[1], key[2], fine=fine)
        return self._known[key]

    def _price(
        self, structure: Structure, resident: frozenset[int], retained: frozenset[int], *, fine: bool
    ) -> Priced | None:
        instance = self.instance
        space = instance.capacity - sum(instance.size(tensor) for tensor in resident | retained)
        if space < 0:
            return None
        slices = slice_table(instance, structure, resident)
        runs = run_table(instance, structure, self.rules, self.ticks)
        written = len(structure.outputs) - len(retained)
        accumulators = sum(run.split for run in structure.runs) - len(retained)
        width_limit, height_limit, depth_limit = self.limits(structure)
        arguments = (
            structure.width,
            structure.height,
            structure.depth,
            extents(structure.width, width_limit, fine=fine),
            extents(structure.height, height_limit, fine=fine),
            extents(structure.depth, depth_limit, fine=fine) if structure.depth else np.array([1]),
            slices,
            runs,
            unit_table(instance, structure, self.rules, self.ticks),
            space,
            written,
            accumulators,
            structure.least_width,
            structure.least_height,
        )
        form = tuple(part.tobytes() if isinstance(part, np.ndarray) else part for part in arguments)
        if form not in self._forms:
            ticks, w, h, k, order = price.cheapest(*arguments)
            self._forms[form] = None if ticks < 0 else Priced(float(ticks), (int(w), int(h), int(k)), int(order))
        return self._forms[form]

    def limits(self, structure: Structure) -> tuple[int, int, int]:
        """The largest width, height and depth of a granularity."""
        width, height = self.instance.native
        if not self.rules.native_limit:
            return structure.width, structure.height, max(1, structure.depth)
        return min(width, structure.width), min(height, structure.height), max(1, min(width, structure.depth))

    def step(self, operators: frozenset[int], priced: Priced, retained: Sequence[int] = ()) -> Step:
        """The step of a solution that costs the price."""
        structure = self.structure(operators)
        assert structure is not None
        return Step(structure.operators, priced.granularity, tuple(retained), _order(structure, priced))


def extents(whole: int, limit: int, *, fine: bool) -> np.ndarray:
    """Extents of parts that cut an axis evenly, the largest first: for 1, 2, 4, ... times as many parts, or any number.

    Of the extents that give one number of parts it is the smallest: a larger one only makes the parts less equal.
    """
    found: dict[int, None] = {}
    parts = ceil_div(whole, limit)
    while parts <= whole:
        extent = ceil_div(whole, parts)
        found[extent] = None
        if extent == 1:
            break
        parts = ceil_div(whole, extent - 1) if fine else parts * 2
    return np.array(list(found), np.int64)


def slice_table(instance: Instance, structure: Structure, resident: Collection[int] = ()) -> np.ndarray:
    """The slices that come from slow memory, as `price` wants them; tensors are renumbered."""
    wanted = [part for part in structure.inputs if part.tensor not in resident]
    names = {tensor: index for index, tensor in enumerate(dict.fromkeys(part.tensor for part in wanted))}
    rows = [
        (names[part.tensor], part.rows, part.columns, instance.heights[part.tensor], instance.widths[part.tensor])
        for part in wanted
    ]
    return np.array(rows, np.int64).reshape(len(rows), 5)


def run_table(instance: Instance, structure: Structure, rules: Rules, ticks: int) -> np.ndarray:
    """The executions for a tile, as `price` wants them."""
    rows = []
    for run in structure.runs:
        operator = instance.operators[run.operator]
        cost = operator.base_cost * ticks
        if operator.kind is Kind.MATMUL and not run.split and rules.native_depth:
            cost = cost * instance.depth(run.operator) // instance.native[0]
        out = operator.output
        rows.append((run.rows, run.columns, run.split, cost, instance.heights[out], instance.widths[out]))
    return np.array(rows, np.float64).reshape(len(rows), 6)


def unit_table(instance: Instance, structure: Structure, rules: Rules, ticks: int) -> np.ndarray:
    """Ticks of an element; native width and height; what a step of rows, columns, a split product pays for."""
    width, height = instance.native
    depth = max(1, structure.depth)
    paid = (height, width, width) if rules.native_depth else (depth, depth, depth)
    return np.array([ticks // instance.bandwidth, width, height, *paid], np.float64)


def _order(structure: Structure, priced: Priced) -> tuple[int, ...] | None:
    """The tiles back and forth; None where no slice can stay from one tile to the next."""
    w, h, _ = priced.granularity
    columns, rows = ceil_div(structure.width, w), ceil_div(structure.height, h)
    stays = any(Axis.TILE not in (part.rows, part.columns) or part.rows != part.columns for part in structure.inputs)
    if columns * rows == 1 or not stays:
        return None
    if priced.order == price.ROW_SNAKE:
        lines = ([row * columns + column for column in range(columns)] for row in range(rows))
    else:
        lines = ([row * columns + column for row in range(rows)] for column in range(columns))
    return tuple(itertools.chain.from_iterable(line[:: -1 if n % 2 else 1] for n, line in enumerate(lines)))
