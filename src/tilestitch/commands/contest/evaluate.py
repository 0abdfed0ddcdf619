"""The judge of a solution: every tile and every step of it, one after the other, in exact arithmetic."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tilestitch.base.errors import InputError
from tilestitch.base.units import ceil_div
from tilestitch.commands.contest.instance import Instance, Kind
from tilestitch.commands.contest.rules import Rules
from tilestitch.commands.contest.solution import Solution, Step
from tilestitch.commands.contest.structure import Axis, Refused, Run, Structure, analyse

MAX_WALK = 20_000_000  # steps of tiles in one solution
CLAIM_TOLERANCE = Fraction(1, 10**6)  # of a claimed latency: decimals of a float

# Tensor, rows from and to and how they were cut, the same of columns. Parts that were cut in different ways are
# different copies even where they happen to hold the same elements, unless both are all of the axis.
_Part = tuple[int, int, int, Axis, int, int, Axis]


@dataclass(frozen=True)
class Evaluation:
    """What a valid solution costs, step by step, in time units."""

    latencies: tuple[Fraction, ...]
    working_sets: tuple[int, ...]  # the largest of each step, in elements

    @property
    def total(self) -> Fraction:
        """The latency of the whole solution: sub-graphs follow one another."""
        return sum(self.latencies, Fraction(0))


def evaluate(
    instance: Instance,
    solution: Solution,
    rules: Rules,
    *,
    name: str = "solution",
    claims: Sequence[float | None] = (),
) -> Evaluation:
    """Check a solution against every rule, and add up its cost. Raises `InputError` with the step and the rule."""
    stored = {tensor for tensor in range(len(instance.widths)) if tensor not in instance.producers}
    resident: tuple[int, ...] = ()
    covered: set[int] = set()
    latencies, working_sets = [], []
    walked = 0
    for number, step in enumerate(solution):
        where = f"{name}: step {number}"
        structure = _expect_legal(instance, step, rules, where)
        _expect_inputs(structure, stored, resident, where)
        grid = _Grid(instance, structure, step)
        walked += grid.tiles * grid.steps
        if walked > MAX_WALK:
            raise InputError(f"{where}: more than {MAX_WALK:,} steps of tiles up to here; choose larger granularities")
        _expect_order(step, grid, where)
        latency, working_set = _walk(instance, structure, step, resident, rules, grid)
        if working_set > instance.capacity:
            width, height, depth = step.granularity
            raise InputError(
                f"{where}: its working set is {working_set:,} elements, and fast memory holds {instance.capacity:,} "
                f"({working_set - instance.capacity:,} too many); choose less than [{width}, {height}, {depth}], or "
                "retain less"
            )
        claim = claims[number] if number < len(claims) else None
        if claim is not None and abs(Fraction(claim) - latency) > CLAIM_TOLERANCE * max(latency, Fraction(1)):
            raise InputError(f"{where}: claims a latency of {claim:,.1f}, but takes {float(latency):,.1f}")
        latencies.append(latency)
        working_sets.append(working_set)
        covered.update(step.operators)
        stored.update(tensor for tensor in structure.outputs if tensor not in step.retained)
        resident = step.retained
    _expect_whole(instance, covered, stored, name)
    return Evaluation(tuple(latencies), tuple(working_sets))


def _expect_legal(instance: Instance, step: Step, rules: Rules, where: str) -> Structure:
    for operator in step.operators:
        if operator >= len(instance.operators):
            raise InputError(f"{where}: there is no operator {operator}, only 0 to {len(instance.operators) - 1}")
    try:
        structure = analyse(instance, step.operators)
    except Refused as reason:
        raise InputError(f"{where}: sub-graph {list(step.operators)} is not allowed: {reason}") from None
    width, height, depth = step.granularity
    native = instance.native[0], instance.native[1], instance.native[0]
    if rules.native_limit:
        for letter, extent, most in zip("whk", step.granularity, native, strict=True):
            if extent > most:
                raise InputError(
                    f"{where}: granularity {letter} = {extent} is above the native {most}, which is the largest"
                )
    if depth < structure.least_width and width < structure.least_width:
        raise InputError(
            f"{where}: a pointwise operator feeds the left side of a product of depth {structure.least_width}, "
            f"so w or k must be {structure.least_width} or more; found w = {width}, k = {depth}"
        )
    if depth < structure.least_height and height < structure.least_height:
        raise InputError(
            f"{where}: a pointwise operator feeds the right side of a product of depth {structure.least_height}, "
            f"so h or k must be {structure.least_height} or more; found h = {height}, k = {depth}"
        )
    for tensor in step.retained:
        if tensor not in structure.outputs:
            raise InputError(
                f"{where}: retains tensor {tensor}, which is not among its outputs {list(structure.outputs)}"
            )
    return structure


def _expect_inputs(structure: Structure, stored: set[int], resident: tuple[int, ...], where: str) -> None:
    for part in structure.inputs:
        if part.tensor not in stored and part.tensor not in resident:
            raise InputError(
                f"{where}: reads tensor {part.tensor}, which is neither in slow memory by then nor retained by the "
                "step before"
            )


def _expect_order(step: Step, grid: "_Grid", where: str) -> None:
    if step.order is not None and sorted(step.order) != list(range(grid.tiles)):
        raise InputError(
            f"{where}: its traversal order must name each of {grid.tiles} tiles once "
            f"({grid.columns} columns, {grid.rows} rows); it has {len(step.order)} entries"
        )


def _expect_whole(instance: Instance, covered: set[int], stored: set[int], name: str) -> None:
    for operator in range(len(instance.operators)):
        if operator not in covered:
            raise InputError(f"{name}: operator {operator} is in no sub-graph; expected each at least once")
    for tensor in sorted(instance.results):
        if tensor not in stored:
            raise InputError(f"{name}: tensor {tensor} is a result and never reaches slow memory; do not retain it")


class _Grid:
    """The tiles of a step and the steps of its reduction; the last of each may be smaller."""

    def __init__(self, instance: Instance, structure: Structure, step: Step) -> None:
        self.width, self.height, self.depth = step.granularity
        self.columns = ceil_div(structure.width, self.width)
        self.rows = ceil_div(structure.height, self.height)
        self.tiles = self.columns * self.rows
        self.steps = ceil_div(structure.depth, self.depth) if structure.depth else 1

    def tile(self, structure: Structure, number: int) -> tuple[int, int, int, int]:
        """Rows from and to, columns from and to."""
        row, column = divmod(number, self.columns)
        top, left = row * self.height, column * self.width
        return top, min(structure.height, top + self.height), left, min(structure.width, left + self.width)


def _walk(
    instance: Instance, structure: Structure, step: Step, resident: tuple[int, ...], rules: Rules, grid: _Grid
) -> tuple[Fraction, int]:
    """Latency and largest working set of one step."""
    kept_full = {*resident, *step.retained}
    full = sum(instance.size(tensor) for tensor in kept_full)
    written = [tensor for tensor in structure.outputs if tensor not in step.retained]
    split = sum(run.split for run in structure.runs)
    accumulators = max(len(written), split - len(step.retained) if grid.steps > 1 else 0)
    latency, largest = Fraction(0), 0
    before: frozenset[_Part] = frozenset()
    order = step.order if step.order is not None else range(grid.tiles)
    for tile_number in order:
        tile = grid.tile(structure, tile_number)
        area = (tile[1] - tile[0]) * (tile[3] - tile[2])
        if step.order is None and not rules.default_reuses:
            before = frozenset()
        for count in range(grid.steps):
            first, last = count == 0, count == grid.steps - 1
            start = count * grid.depth
            reach = (start, min(structure.depth, start + grid.depth))
            needed = frozenset(_parts(instance, structure, resident, tile, reach, last=last))
            loaded = sum(map(_elements, needed - before))
            out = len(written) * area if last else 0
            compute = sum(
                (
                    _compute(instance, structure, run, tile, reach, rules)
                    for run in structure.runs
                    if _runs_now(run, first=first, last=last)
                ),
                Fraction(0),
            )
            latency += max(compute, Fraction(loaded + out, instance.bandwidth))
            largest = max(largest, full + sum(map(_elements, needed)) + accumulators * area)
            before = needed
    return latency, largest


def _parts(
    instance: Instance,
    structure: Structure,
    resident: tuple[int, ...],
    tile: tuple[int, int, int, int],
    reach: tuple[int, int],
    *,
    last: bool,
) -> Iterator[_Part]:
    """What a step reads; what only finished tiles are combined with, it reads in its last step."""
    for part in structure.inputs:
        if part.tensor in resident or (not last and part.rows is Axis.TILE and part.columns is Axis.TILE):
            continue
        rows = _cut(part.rows, tile[:2], reach, instance.heights[part.tensor])
        columns = _cut(part.columns, tile[2:], reach, instance.widths[part.tensor])
        yield part.tensor, *rows, *columns


def _cut(axis: Axis, tile: tuple[int, ...], reach: tuple[int, int], whole: int) -> tuple[int, int, Axis]:
    start, stop = {Axis.TILE: tile, Axis.STEP: reach, Axis.WHOLE: (0, whole)}[axis]
    return start, stop, Axis.WHOLE if stop - start == whole else axis


def _elements(part: _Part) -> int:
    return (part[2] - part[1]) * (part[5] - part[4])


def _runs_now(run: Run, *, first: bool, last: bool) -> bool:
    """Split products and what is cut by the step run at every step, the last operators at the end, others first."""
    if run.split or Axis.STEP in (run.rows, run.columns):
        return True
    return last if run.rows is Axis.TILE and run.columns is Axis.TILE else first


def _compute(
    instance: Instance, structure: Structure, run: Run, tile: tuple[int, ...], reach: tuple[int, int], rules: Rules
) -> Fraction:
    """Time of one execution: whole native tiles in space, a part of the base cost in depth."""
    operator = instance.operators[run.operator]
    native_width, native_height = instance.native
    taken = reach[1] - reach[0]
    cost = Fraction(operator.base_cost)
    for axis, extent, whole, native in (
        (run.rows, tile[1] - tile[0], instance.heights[operator.output], native_height),
        (run.columns, tile[3] - tile[2], instance.widths[operator.output], native_width),
    ):
        if axis is Axis.STEP:  # streamed, so it pays for what it is
            cost *= Fraction(taken, native if rules.native_depth else structure.depth)
        else:
            cost *= ceil_div(extent if axis is Axis.TILE else whole, native)
    if operator.kind is Kind.MATMUL:
        if run.split:
            cost *= Fraction(taken, native_width if rules.native_depth else structure.depth)
        elif rules.native_depth:
            cost *= Fraction(instance.depth(run.operator), native_width)
    return cost
