"""Operators that are computed once more than a network needs, for some of those that read their results."""

from tilestitch.ir.graph import Operator

AGAIN = "again"  # the attribute of what is computed once more


def is_again(op: Operator) -> bool:
    """Whether an operator computes what another one does as well."""
    return any(name == AGAIN for name, _ in op.attributes)
