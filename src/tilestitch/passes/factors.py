"""Factors behind products become part of the weights and biases that the products read, where that loses no digit."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import frexp

import numpy as np

from tilestitch.base.dtypes import DType
from tilestitch.base.storage import STORAGE
from tilestitch.ir.graph import Graph, Operator, Tensor
from tilestitch.ops import is_contraction
from tilestitch.passes.fold import drop_unused, fresh_name

_FLOATS = frozenset({DType.FLOAT16, DType.FLOAT32})

# A network, and which of its operators do the work of each that was there before; of one that is left out none.
Folded = tuple[Graph, Mapping[str, tuple[str, ...]]]


@dataclass(slots=True)
class _Spread:
    """Where a factor goes: the operators whose results it changes, and which of their reads become larger by it."""

    constants_first: bool  # whether of a product's operands a constant is chosen before the first
    reads: dict[str, tuple[int, ...]] = field(default_factory=dict)  # by operator
    tensors: list[str] = field(default_factory=list)  # that change, constants aside


def without_factors(graph: Graph) -> Folded:
    """The same network, of which views are composed away, without multiplications and divisions by powers of two.

    That is where products and sums alone lie between these and constants, as between the scale of attention's scores
    and the weights of its queries, and where nobody else reads what lies between. A power of two changes no digit.
    """
    became: dict[str, tuple[str, ...]] = {op.name: (op.name,) for op in graph.operators}
    for name in tuple(became):
        scaled = graph.by_name[name]
        found = _factor(graph, scaled)
        if found is None:
            continue
        read, factor = found
        spread = _spread(graph, scaled, scaled.reads[read].tensor)
        if spread is not None:
            graph = _applied(graph, scaled, scaled.reads[read].tensor, spread, factor)
            became[name] = ()
    return graph, became


def _factor(graph: Graph, op: Operator) -> tuple[int, float] | None:
    """Which read of an operator it multiplies by a power of two, and by which; None of others."""
    if op.kind not in ("mul", "div") or len(op.reads) != 2 or len(op.writes) != 1:
        return None
    for read in (0, 1) if op.kind == "mul" else (0,):
        other = graph.constants.get(op.reads[1 - read].tensor)
        if other is None or other.size != 1 or other.dtype.kind != "f" or op.outputs[0] in graph.outputs:
            continue
        value = float(other.reshape(()))
        alike = op.reads[read].axes == op.writes[0].axes
        whole = graph.tensors[op.reads[read].tensor].shape == graph.tensors[op.outputs[0]].shape
        if np.isfinite(value) and abs(frexp(value)[0]) == 0.5 and alike and whole:
            return read, value if op.kind == "mul" else 1.0 / value
    return None


def _spread(graph: Graph, scaled: Operator, tensor: str) -> _Spread | None:
    """Where a factor of a tensor goes that only `scaled` asks for; None where it cannot."""
    for constants_first in (True, False):  # what two products share must change for both or for none
        found = _Spread(constants_first)
        if not _take_in(graph, tensor, found):
            return None
        inside = {*found.reads, scaled.name}
        if all(reader.name in inside for name in found.tensors for reader in graph.consumers.get(name, ())):
            return found
    return None


def _take_in(graph: Graph, tensor: str, found: _Spread) -> bool:
    """Add what must change for a tensor to be so many times as large; False where that cannot be."""
    if tensor in graph.constants:
        return graph.constants[tensor].dtype.kind == "f"
    if tensor in found.tensors:
        return True
    makers = graph.producers.get(tensor, ())
    if len(makers) != 1 or tensor in graph.outputs:
        return False
    maker = makers[0]
    for reads in _choices(graph, maker, constants_first=found.constants_first):
        kept = dict(found.reads), list(found.tensors)
        found.reads[maker.name] = reads
        found.tensors.append(tensor)
        if all(_take_in(graph, maker.reads[read].tensor, found) for read in reads):
            return True
        found.reads, found.tensors = kept
    return False


def _choices(graph: Graph, op: Operator, *, constants_first: bool) -> Iterator[tuple[int, ...]]:
    """Which reads of an operator to multiply, so that its result is: of a product one and its bias, all of a sum."""
    floats = all(graph.tensors[name].dtype in _FLOATS for name in (*op.inputs, *op.outputs))
    if len(op.writes) != 1 or not floats or any(access.pad_value for access in op.reads):
        return
    if op.kind == "add":
        yield tuple(range(len(op.reads)))
    elif is_contraction(op):
        for one in sorted((0, 1), key=lambda at: constants_first and op.reads[at].tensor not in graph.constants):
            yield (one, *range(2, len(op.reads)))


def _applied(graph: Graph, scaled: Operator, tensor: str, spread: _Spread, factor: float) -> Graph:
    """The network with a factor where it goes, and without the operator that had it."""
    tensors, constants = dict(graph.tensors), dict(graph.constants)
    larger: dict[str, str] = {}

    def times(name: str) -> str:
        if name not in graph.constants:
            return name
        if name not in larger:
            value = graph.constants[name]
            own = larger[name] = fresh_name(f"{name}.times", tensors)
            constants[own] = (value * factor).astype(value.dtype)
            tensors[own] = Tensor(own, value.shape, STORAGE[value.dtype], tensors[name].layout)
        return larger[name]

    operators = []
    for op in graph.operators:
        if op.name == scaled.name:
            continue
        reads = spread.reads.get(op.name, ())
        now = tuple(replace(one, tensor=times(one.tensor)) if at in reads else one for at, one in enumerate(op.reads))
        writes: Sequence = op.writes
        if tensor in op.outputs:
            writes = tuple(replace(one, tensor=scaled.outputs[0]) for one in op.writes)
        operators.append(replace(op, reads=now, writes=tuple(writes)))
    return drop_unused(replace(graph, operators=tuple(operators), tensors=tensors, constants=constants))
