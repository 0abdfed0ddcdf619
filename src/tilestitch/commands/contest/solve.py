"""From an instance to a solution: sub-graphs from the pool, operators repeated, tensors retained, tiles refined."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tilestitch.base.errors import InputError
from tilestitch.base.progress import Progress, quiet
from tilestitch.base.shown import Brief
from tilestitch.base.units import ceil_div
from tilestitch.commands.contest.blocks import Prices
from tilestitch.commands.contest.bound import Bound, lower_bound
from tilestitch.commands.contest.cover import Group, cover, runnable
from tilestitch.commands.contest.evaluate import evaluate
from tilestitch.commands.contest.instance import Instance, Kind
from tilestitch.commands.contest.pool import MARGIN, grow
from tilestitch.commands.contest.retain import divide, retain
from tilestitch.commands.contest.rules import Rules
from tilestitch.commands.contest.solution import Solution

MAX_STEPS = 1_000_000  # of native tiles


@dataclass(frozen=True, repr=False)
class Solved(Brief):
    """A solution, what it costs by the judge's count, and what no solution can cost less than."""

    instance: Instance
    rules: Rules
    solution: Solution
    latencies: tuple[Fraction, ...]
    bound: Bound

    @property
    def total(self) -> Fraction:
        """The latency of the solution, in time units."""
        return sum(self.latencies, Fraction(0))

    @property
    def optimal(self) -> bool:
        """Whether the bound proves that no solution is better."""
        return self.total == self.bound.value


def solve(instance: Instance, rules: Rules, progress: Progress = quiet) -> Solved:
    """The best solution that the search finds, judged by `evaluate`, with a lower bound.

    Raises `DoesNotFit` where an operator fits at no granularity. The work is bounded by counts, never by time.
    """
    _expect_few_tiles(instance)
    prices = Prices(instance, rules, rules.ticks(instance))
    progress("grow sub-graphs", 0, 4)
    pool = grow(prices)
    progress("choose sub-graphs", 1, 4)
    groups = repeat(prices, cover(prices, pool))
    progress("retain tensors", 2, 4)
    solution = min(
        (retain(prices, candidate) for candidate in (groups, divide(prices, groups))),
        key=lambda steps: sum(ticks for _, ticks in steps),
    )
    progress("judge, and bound", 3, 4)
    steps = tuple(step for step, _ in solution)
    evaluation = evaluate(instance, steps, rules)
    return Solved(instance, rules, steps, evaluation.latencies, lower_bound(prices))


def _expect_few_tiles(instance: Instance) -> None:
    """Refuse what would take the judge too long; the contest's own instances have up to 100,000 steps."""
    width, height = instance.native
    steps = 0
    for number, operator in enumerate(instance.operators):
        tiles = ceil_div(instance.widths[operator.output], width) * ceil_div(instance.heights[operator.output], height)
        steps += tiles * (ceil_div(instance.depth(number), width) if operator.kind is Kind.MATMUL else 1)
    if steps > MAX_STEPS:
        raise InputError(
            f"{instance.name}: has {steps:,} steps of native tiles, and up to {MAX_STEPS:,} are judged; "
            "expected smaller tensors, or a larger native_granularity"
        )


def repeat(prices: Prices, groups: Sequence[Group]) -> list[Group]:
    """Compute results again where they are read, in place of storing them, as long as that costs less."""
    current = list(groups)
    cost = _cost(prices, current)
    improved = True
    while improved:
        improved = False
        for operator in prices.instance.order:
            candidate = _repeated(prices.instance, current, operator)
            if candidate is None or not serves(prices.instance, candidate):
                continue
            found = _cost(prices, candidate)
            if found is not None and cost is not None and found < cost * (1 - MARGIN):
                current, cost, improved = candidate, found, True
    return current


def _repeated(instance: Instance, groups: Sequence[Group], operator: int) -> list[Group] | None:
    """The operator in every group that reads its result, and in no other; None where that changes nothing."""
    output = instance.operators[operator].output
    readers = frozenset(instance.consumers.get(output, ()))
    if not readers:
        return None
    found = []
    for group in groups:
        if readers & group:
            found.append(group | {operator})
        elif group != {operator}:
            found.append(group - {operator})
    return None if found == list(groups) else runnable_or_none(instance, found)


def runnable_or_none(instance: Instance, groups: Sequence[Group]) -> list[Group] | None:
    """The groups in an order in which they can run; None where they wait for each other."""
    if any(not group for group in groups):
        return None
    ordered = runnable(instance, groups)
    return ordered if sorted(map(sorted, ordered)) == sorted(map(sorted, groups)) else None


def serves(instance: Instance, groups: Sequence[Group]) -> bool:
    """Whether every tensor that a group reads from outside is an output of a group before it."""
    stored: set[int] = set()
    for group in groups:
        made = {instance.operators[operator].output for operator in group}
        read = {tensor for operator in group for tensor in instance.operators[operator].inputs}
        if any(tensor in instance.producers and tensor not in stored for tensor in read - made):
            return False
        stored |= made - read
    return instance.results <= stored


def _cost(prices: Prices, groups: Sequence[Group]) -> float | None:
    total = 0.0
    for group in groups:
        priced = prices.price(group)
        if priced is None:
            return None
        total += priced.ticks
    return total
