"""A solution of an instance of the contest, found or given, as it shows itself."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tilestitch.base.errors import InputError
from tilestitch.base.html import Record
from tilestitch.base.progress import Progress, quiet
from tilestitch.base.shown import Shown, as_kind
from tilestitch.base.text_files import MAX_JSON_BYTES, file_text
from tilestitch.commands.contest.blocks import Prices
from tilestitch.commands.contest.bound import lower_bound
from tilestitch.commands.contest.contest_text import contest_json, contest_text
from tilestitch.commands.contest.evaluate import evaluate
from tilestitch.commands.contest.instance import parse_instance
from tilestitch.commands.contest.rules import rules_of
from tilestitch.commands.contest.solution import parse_solution, solution_json
from tilestitch.commands.contest.solve import Solved, solve


@dataclass(frozen=True, repr=False)
class ContestPage(Solved, Shown):
    """A judged solution with its page and its JSON."""

    def __str__(self) -> str:
        return contest_text(self.instance, self.rules, self.solution, self.latencies, self.bound)

    def to_json(self) -> str:
        """What `tilestitch contest --json` writes."""
        return contest_json(self.instance, self.rules, self.solution, self.latencies, self.bound)

    def solution_json(self) -> str:
        """What `tilestitch contest -o` writes: the solution as the contest takes it."""
        return solution_json(self.solution, self.latencies)

    def heading(self) -> str:
        """The instance, the latency and its bound."""
        return (
            f"{self.instance.name}, rules as {self.rules.name}: latency {float(self.total):,.1f}, "
            f"lower bound {float(self.bound.value):,.1f}"
        )

    def records(self) -> tuple[Record, ...]:
        """Every step."""
        return tuple(
            {
                "step": number,
                "operators": " ".join(map(str, step.operators)),
                "granularity": "x".join(map(str, step.granularity)),
                "retained": " ".join(map(str, step.retained)),
                "latency": float(latency),
            }
            for number, (step, latency) in enumerate(zip(self.solution, self.latencies, strict=True))
        )


def contest(
    instance: str | Path | Mapping[str, object],
    *,
    rules: str = "published",
    check: str | Path | None = None,
    progress: Progress | None = None,
) -> ContestPage:
    """Schedule a graph by the rules of the MLSys 2026 contest, or judge the solution in the file `check`.

    An instance is a file, or a dict with the content of one. Raises `InputError` for what is no instance, and for a
    solution that breaks a rule.
    """
    chosen = rules_of(rules)
    problem = parse_instance(*_instance_text(instance))
    if check is None:
        return as_kind(ContestPage, solve(problem, chosen, progress or quiet))
    name = Path(check).name
    solution, claims = parse_solution(file_text(check, "JSON", MAX_JSON_BYTES), name)
    latencies = evaluate(problem, solution, chosen, name=name, claims=claims).latencies
    bound = lower_bound(Prices(problem, chosen, chosen.ticks(problem)))
    return ContestPage(problem, chosen, solution, latencies, bound)


def _instance_text(instance: str | Path | Mapping[str, object]) -> tuple[str, str]:
    if isinstance(instance, Mapping):
        try:
            return json.dumps(dict(instance)), "instance"
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"instance: expected the content of a JSON file: {error}") from None
    return file_text(instance, "JSON", MAX_JSON_BYTES), Path(instance).name
