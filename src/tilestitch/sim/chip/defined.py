"""Whether a network is defined for its inputs: integers divided by zero end onnxruntime's process."""

from collections.abc import Mapping, Sequence

import numpy as np

from tilestitch.base.errors import InputError
from tilestitch.ir.graph import Graph, Operator
from tilestitch.sim.chip.interpret import interpret

_QUOTIENTS = frozenset({"div", "mod"})


def expect_defined(graph: Graph, inputs: Sequence[Mapping[str, np.ndarray]]) -> None:
    """Raise `InputError` where an integer is divided by zero, or an index is none of its axis.

    The least integer divided by -1, which is no integer of its type, counts as well.
    """
    risky = [op for op in graph.operators if _is_quotient(op, graph) or _is_indirect(op)]
    if all(op.reads[1].tensor in graph.constants for op in risky):
        return

    def see(op: Operator, stored: Sequence[np.ndarray]) -> None:
        if _is_quotient(op, graph):
            divisor, dtype = stored[1].astype(np.int64), graph.tensors[op.reads[0].tensor].dtype
            if (divisor == 0).any():
                raise _undefined(graph, op, "divides integers by zero")
            if (divisor == -1).any() and (stored[0].astype(np.int64) == dtype.limits[0]).any() and dtype.limits[0]:
                raise _undefined(graph, op, f"divides {dtype.limits[0]} by -1")
        for number, read in enumerate(op.reads):
            if read.indirect_axis is not None:
                size = graph.tensors[read.tensor].shape[read.indirect_axis]
                index = stored[1].astype(np.int64)
                if index.min() < -size or index.max() >= size:
                    raise _undefined(graph, op, f"takes an index of an axis of {size} that is none, operand {number}")

    for one in inputs:
        interpret(graph, one, wide=True, see=see)


def _is_indirect(op: Operator) -> bool:
    return any(read.indirect_axis is not None for read in op.reads)


def _is_quotient(op: Operator, graph: Graph) -> bool:
    return op.kind in _QUOTIENTS and not graph.tensors[op.reads[0].tensor].dtype.is_float


def _undefined(graph: Graph, op: Operator, what: str) -> InputError:
    return InputError(
        f"network '{graph.name}': operator '{op.name}' {what} for the inputs that were drawn, so nothing can be "
        "verified; leave out --verify, or guard the operator (Where, Clip) in the network"
    )
