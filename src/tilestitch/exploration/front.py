"""What a design is worth by every objective, and the designs that no other beats in all of them."""

from collections.abc import Mapping, Sequence

import numpy as np

from tilestitch.exploration.evaluator import PointResult
from tilestitch.exploration.objectives import DesignObjective


def vector(objectives: Sequence[DesignObjective], outcomes: Sequence[PointResult]) -> tuple[float, ...] | None:
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
