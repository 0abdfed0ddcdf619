"""A schedule for an instance, as the contest writes it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tilestitch.base.errors import InputError, printable
from tilestitch.commands.contest.instance import MAX_EXTENT, MAX_NUMBER, parse_numbers, parse_object

FIELDS = ("subgraphs", "granularities", "tensors_to_retain")
OPTIONAL = ("traversal_orders", "subgraph_latencies")
MAX_STEPS = 100_000


@dataclass(frozen=True)
class Step:
    """One sub-graph: its operators, its tile, the order of its tiles (None: row by row), what stays in fast memory."""

    operators: tuple[int, ...]
    granularity: tuple[int, int, int]  # width, height, depth
    retained: tuple[int, ...] = ()
    order: tuple[int, ...] | None = None


Solution = tuple[Step, ...]


def parse_solution(text: str, name: str) -> tuple[Solution, tuple[float | None, ...]]:
    """The steps that a file holds, and the latency that it claims for each, if it does."""
    fields = parse_object(text, name, FIELDS, OPTIONAL)
    for field in (*FIELDS, *OPTIONAL):
        if field in fields and not isinstance(fields[field], list):
            raise InputError(f"{name}: {field}: expected a list, found {printable(repr(fields[field]), 60)}")
    counts = {field: len(fields[field]) for field in (*FIELDS, *OPTIONAL) if field in fields}
    if len(set(counts.values())) != 1:
        found = ", ".join(f"{field} {count}" for field, count in counts.items())
        raise InputError(f"{name}: expected one entry per step in each list, found {found}")
    count = counts["subgraphs"]
    if count > MAX_STEPS:
        raise InputError(f"{name}: expected up to {MAX_STEPS:,} steps, found {count:,}")
    orders = fields.get("traversal_orders", [None] * count)
    claims = fields.get("subgraph_latencies", [None] * count)
    steps = []
    for number in range(count):
        operators = _numbers(fields, "subgraphs", number, name)
        granularity = parse_numbers(fields["granularities"][number], f"{name}: granularities[{number}]", 1, MAX_EXTENT)
        if len(granularity) != 3:
            raise InputError(f"{name}: granularities[{number}]: expected [w, h, k], found {len(granularity)} numbers")
        order = None
        if orders[number] is not None:
            order = tuple(parse_numbers(orders[number], f"{name}: traversal_orders[{number}]", 0, MAX_NUMBER))
        width, height, depth = granularity
        retained = _numbers(fields, "tensors_to_retain", number, name)
        steps.append(Step(operators, (width, height, depth), retained, order))
    return tuple(steps), tuple(_claim(value, f"{name}: subgraph_latencies[{n}]") for n, value in enumerate(claims))


def _numbers(fields: dict[str, Any], field: str, number: int, name: str) -> tuple[int, ...]:
    where = f"{name}: {field}[{number}]"
    values = parse_numbers(fields[field][number], where, 0, MAX_NUMBER)
    if len(set(values)) != len(values):
        raise InputError(f"{where}: names {_twice(values)} twice; expected each once")
    return tuple(values)


def _twice(values: Sequence[int]) -> int:
    return next(value for index, value in enumerate(values) if value in values[:index])


def _claim(value: Any, where: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_NUMBER * MAX_EXTENT:
        raise InputError(f"{where}: expected a time of at least 0, found {printable(repr(value), 60)}")
    return float(value)


def solution_json(solution: Solution, latencies: Sequence[Fraction]) -> str:
    """The file that the contest asks for."""
    lists = {
        "subgraphs": [list(step.operators) for step in solution],
        "granularities": [list(step.granularity) for step in solution],
        "tensors_to_retain": [list(step.retained) for step in solution],
        "traversal_orders": [None if step.order is None else list(step.order) for step in solution],
        "subgraph_latencies": [_number(latency) for latency in latencies],
    }
    rows = [f'  "{field}": [\n{_lines(values)}\n  ]' for field, values in lists.items()]
    return "{\n" + ",\n".join(rows) + "\n}\n"


def _lines(values: Sequence[object]) -> str:
    return ",\n".join(f"    {json.dumps(value)}" for value in values)


def _number(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)
