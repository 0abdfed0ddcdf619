"""Sums of the parts of a product whose reduction is cut (split-K)."""

from tilestitch.ir.graph import Operator

PARTIAL = "partial"  # the attribute of what adds up parts of a product, with its bias


def is_partial_sum(op: Operator) -> bool:
    """Whether an operator adds up parts of a product."""
    return any(name == PARTIAL for name, _ in op.attributes)
