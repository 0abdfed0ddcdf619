"""Objectives, and the designs that no other beats in all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilestitch.base.errors import InputError, printable
from tilestitch.explore.evaluator import PointResult


@dataclass(frozen=True, slots=True)
class Objective:
    """A number of which less is better."""

    name: str
    unit: str
    factors: tuple[str, ...]  # the metrics of which it is the product
    of_the_machine: bool = False  # whether several networks share it, rather than add up


OBJECTIVES = (
    Objective("latency", "s", ("latency",)),
    Objective("energy", "pJ", ("energy",)),
    Objective("edp", "pJ x cycles", ("energy", "cycles")),
    Objective("traffic", "B", ("traffic",)),
    Objective("memory", "B", ("memory",), of_the_machine=True),
    Objective("macs", "MAC/cycle", ("macs",), of_the_machine=True),
)
DEFAULT = ("latency", "energy")


def objective_named(name: str) -> Objective:
    """The objective of that name, or an `InputError` that lists them."""
    for one in OBJECTIVES:
        if one.name == name:
            return one
    known = ", ".join(one.name for one in OBJECTIVES)
    raise InputError(f"--objective {printable(name, 60)}: is not known; the objectives are: {known}")


def vector(objectives: Sequence[Objective], outcomes: Sequence[PointResult]) -> tuple[float, ...] | None:
    """The objectives of networks that run one after another on one machine; None where one of them cannot."""
    if any(one.infeasible for one in outcomes):
        return None
    found = []
    for objective in objectives:
        total = 1.0
        for factor in objective.factors:
            values = [metric.value for one in outcomes for metric in one.metrics if metric.name == factor]
            total *= values[0] if objective.of_the_machine else sum(values)
        found.append(total)
    return tuple(found)


def pareto_front(vectors: Mapping[int, tuple[float, ...]]) -> tuple[int, ...]:
    """The designs whose vector no other one dominates, by their vectors, equal ones by number.

    A vector dominates another if it is nowhere larger and somewhere smaller, so equal ones stay together.
    """
    front: list[int] = []
    kept = np.empty((0, 0))
    for design, values in sorted(vectors.items(), key=lambda one: (one[1], one[0])):
        row = np.array([values])
        kept = kept.reshape(-1, row.shape[1])
        # whoever dominates it comes before it in this order
        if not ((kept <= row).all(axis=1) & (kept < row).any(axis=1)).any():
            front.append(design)
            kept = np.concatenate((kept, row))
    return tuple(front)
