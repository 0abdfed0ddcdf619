"""The ONNX project's own tests of single nodes, by operator."""

from functools import cache

import numpy as np
from onnx.backend.test.case.test_case import TestCase


def node_cases(operator: str, *, expanded: bool = False) -> list[TestCase]:
    """All tests of an operator; with `expanded` also those in which it is spelled out."""
    return [case for case in _by_operator()[operator] if expanded or "_expanded" not in case.name]


@cache
def _by_operator() -> dict[str, list[TestCase]]:
    """Importing the cases makes them, which takes seconds; some of their values are infinite on purpose."""
    from onnx.backend.test.case.node import collect_testcases

    with np.errstate(all="ignore"):
        cases = collect_testcases(None)
    found: dict[str, list[TestCase]] = {}
    operators: dict[str, str] = {}
    for case in cases:
        assert case.model is not None
        base = case.name.split("_expanded")[0]
        if base == case.name and len(case.model.graph.node) == 1:
            operators[base] = case.model.graph.node[0].op_type
    for case in cases:
        base = case.name.split("_expanded")[0]
        if base in operators:
            found.setdefault(operators[base], []).append(case)
    return found
