"""A judged solution for people and for programs."""

import json
from collections.abc import Sequence
from fractions import Fraction

from tilestitch.base.units import counted
from tilestitch.commands.contest.bound import Bound
from tilestitch.commands.contest.instance import Instance
from tilestitch.commands.contest.published import Published, published
from tilestitch.commands.contest.rules import PUBLISHED, Rules
from tilestitch.commands.contest.solution import Solution
from tilestitch.report.table import table, title

SHOWN_STEPS = 40


def contest_text(
    instance: Instance, rules: Rules, solution: Solution, latencies: Sequence[Fraction], bound: Bound
) -> str:
    """Total, bound, gap, the steps, and the published results beside it where there are any."""
    total = sum(latencies, Fraction(0))
    heading = f"{instance.name}: {counted(len(instance.operators), 'operator')}, rules as {rules.name}"
    lines = [
        *title(heading, "="),
        f"latency      {_time(total)}",
        f"lower bound  {_time(bound.value)}  ({bound.reason})",
        _verdict(total, bound),
    ]
    found = published(instance)
    if found is not None and rules == PUBLISHED:
        lines += ["", *title("Published"), *_published(found, total)]
    lines += ["", *title(counted(len(solution), "step"))]
    rows = [
        (
            str(number),
            _operators(step.operators),
            "x".join(map(str, step.granularity)),
            "row by row" if step.order is None else _direction(step.order),
            " ".join(map(str, step.retained)),
            _time(latency),
        )
        for number, (step, latency) in enumerate(zip(solution, latencies, strict=True))
    ]
    lines += table(("", "operators", "w x h x k", "tiles", "retained", "latency"), rows[:SHOWN_STEPS], "rllllr")
    if len(rows) > SHOWN_STEPS:
        lines.append(f"  and {counted(len(rows) - SHOWN_STEPS, 'step')} more, in the solution's file")
    return "\n".join(lines) + "\n"


def contest_json(
    instance: Instance, rules: Rules, solution: Solution, latencies: Sequence[Fraction], bound: Bound
) -> str:
    """The same, of the format `tilestitch.contest`; times are numbers."""
    total = sum(latencies, Fraction(0))
    found = published(instance) if rules == PUBLISHED else None
    value = {
        "format": "tilestitch.contest",
        "version": 1,
        "instance": instance.name,
        "operators": len(instance.operators),
        "rules": rules.name,
        "latency": float(total),
        "lower_bound": float(bound.value),
        "lower_bound_reason": bound.reason,
        "gap": gap(total, bound),
        "optimal": total == bound.value,
        "published": None if found is None else {"winner": found.winner, "rank_5": found.rank_5},
        "steps": [
            {
                "operators": list(step.operators),
                "granularity": list(step.granularity),
                "retained": list(step.retained),
                "latency": float(latency),
            }
            for step, latency in zip(solution, latencies, strict=True)
        ],
    }
    return json.dumps(value, indent=1) + "\n"


def gap(total: Fraction, bound: Bound) -> float | None:
    """How far above the bound a solution is, as a part of the bound; None where the bound is nothing."""
    return float(total / bound.value - 1) if bound.value else None


def _verdict(total: Fraction, bound: Bound) -> str:
    if total == bound.value:
        return "optimal: it meets the bound, so no solution is better"
    above = gap(total, bound)
    return "not proven optimal" if above is None else f"gap          {100 * above:.3f} % at most; not proven optimal"


def _published(found: Published, total: Fraction) -> list[str]:
    rows = [
        ("first place", f"{found.winner:,}", f"{float(total) / found.winner:.4f}"),
        ("rank 5 (bends some rules, its author says)", f"{found.rank_5:,.1f}", f"{float(total) / found.rank_5:.4f}"),
    ]
    return table(("", "published", "ours / published"), rows, "lrr")


def _operators(operators: Sequence[int]) -> str:
    shown = " ".join(map(str, operators[:12]))
    return shown if len(operators) <= 12 else f"{shown} and {len(operators) - 12} more"


def _direction(order: Sequence[int]) -> str:
    return "back and forth along rows" if order[:2] == (0, 1) else "back and forth along columns"


def _time(value: Fraction) -> str:
    return f"{float(value):,.1f}"
