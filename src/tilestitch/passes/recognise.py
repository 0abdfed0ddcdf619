"""Functions that exporters write in elementary operators become one operator again: the one that a native import gives.

`forms` says how each function is written; this file finds those shapes in a network. A found shape is replaced only
where nobody else reads what lies inside it. Identities (casts between types that are stored alike) may lie anywhere.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from tilestitch.ir.graph import Access, Axis, DimKind, Graph, Operator
from tilestitch.passes.fold import drop_unused
from tilestitch.passes.forms import FORMS, Apply, Either, Form, Leaf, Number, Parameter, Pattern, Product

_TOLERANCE = 1e-4  # relative: files say 1.4142 for the root of 2
_COMMUTATIVE = frozenset({"add", "mul"})
_REDUCTIONS = frozenset({"reduce_max", "reduce_mean", "reduce_sum"})


def recognise(graph: Graph) -> Graph:
    """Replace every form by its operator, named after the last operator of the form."""
    replaced: dict[str, Operator | None] = {}
    for op in reversed(graph.operators):  # from the end, so that the longest form wins
        if op.name in replaced or len(op.writes) != 1:
            continue
        for form in FORMS:
            match = next(_complete_matches(form, op, graph, replaced), None)
            if match is not None:
                new, interior = match
                replaced.update(dict.fromkeys(interior))
                replaced[op.name] = new
                break
    kept = (replaced.get(op.name, op) for op in graph.operators)
    return drop_unused(replace(graph, operators=tuple(op for op in kept if op is not None)))


@dataclass(frozen=True, slots=True)
class _Match:
    """What a part of a pattern has been found to be."""

    leaves: Mapping[str, str]  # name in the pattern -> tensor
    parameters: Mapping[str, float]
    operators: tuple[str, ...]
    whole: frozenset[int] | None  # axes, counted from the last as -1, of all reductions so far

    def bound(self, leaf: str, tensor: str) -> "_Match | None":
        known = self.leaves.get(leaf)
        if known is None:
            return replace(self, leaves={**self.leaves, leaf: tensor})
        return self if known == tensor else None

    def using(self, op: Operator) -> "_Match | None":
        """With an operator more; all reductions of a form run over the same axes."""
        found = self if op.name in self.operators else replace(self, operators=(*self.operators, op.name))
        if op.kind not in _REDUCTIONS:
            return found
        axes = frozenset(d - len(op.dims) for d, dim in enumerate(op.dims) if dim.kind is DimKind.REDUCTION)
        return replace(found, whole=axes) if self.whole in (None, axes) else None


def _complete_matches(
    form: Form, root: Operator, graph: Graph, taken: dict[str, Operator | None]
) -> Iterator[tuple[Operator, tuple[str, ...]]]:
    """The operators that may stand for `root`, each with all operators of its match."""
    tensor = root.writes[0].tensor
    for match in _matches(form.pattern, tensor, _Match({}, {}, (), None), graph):
        if match.operators and not any(name in taken for name in match.operators) and _is_closed(match, root, graph):
            operator = _operator(form, match, root, graph)
            if operator is not None:
                yield operator, match.operators


def _is_closed(match: _Match, root: Operator, graph: Graph) -> bool:
    """Whether nobody outside the match reads what lies inside it."""
    inside = [name for op in match.operators if op != root.name for name in graph.by_name[op].outputs]
    return not any(
        name in graph.outputs or any(reader.name not in match.operators for reader in graph.consumers.get(name, ()))
        for name in inside
    )


def _operator(form: Form, match: _Match, root: Operator, graph: Graph) -> Operator | None:
    """The operator of the form in place of `root`, or None where the shapes are not those of the form."""
    first, *others = (graph.tensors[match.leaves[name]] for name in form.operands)
    shape = graph.tensors[root.writes[0].tensor].shape
    whole = {axis + len(shape) for axis in match.whole or ()}
    reads = tuple(_broadcast(tensor.name, tensor.shape, shape) for tensor in (first, *others))
    moving = [whole, {1}] if whole == set(range(2, len(shape))) else [whole]  # an instance norm scales its channels
    if first.shape != shape or not any(all(read.dims <= dims for read in reads[1:]) for dims in moving):
        return None
    dims = tuple(replace(dim, kind=DimKind.WHOLE) if d in whole else dim for d, dim in enumerate(root.dims))
    parameters = tuple((name, float(str(np.float32(value)))) for name, value in match.parameters.items())
    return Operator(root.name, form.kind, dims, reads, root.writes, form.attributes + parameters)


def _broadcast(tensor: str, shape: tuple[int, ...], full: tuple[int, ...]) -> Access:
    """Axes match those of `full` from the last; an axis of extent 1 does not stretch."""
    first = len(full) - len(shape)
    moving = (Axis(((first + i, 1),)) if size == full[first + i] else Axis(()) for i, size in enumerate(shape))
    return Access(tensor, tuple(moving))


def _matches(pattern: Pattern, tensor: str, match: _Match, graph: Graph) -> Iterator[_Match]:
    """Every way in which `tensor` is an instance of `pattern`, in addition to what `match` says."""
    while (same := _producer(tensor, graph, "identity")) is not None:
        tensor = same.reads[0].tensor
        if not isinstance(pattern, Leaf):  # what a leaf is read through stays for its other readers
            match = replace(match, operators=tuple(dict.fromkeys((*match.operators, same.name))))
    match pattern:
        case Leaf(name):
            found = match.bound(name, tensor)
            if found is not None:
                yield found
        case Number(value):
            if _is_about(_scalar(tensor, graph), value):
                yield match
        case Parameter(name):
            value = _scalar(tensor, graph)
            if value is not None and match.parameters.get(name, value) == value:
                yield replace(match, parameters={**match.parameters, name: value})
        case Apply(kind, operands, attributes):
            op = _producer(tensor, graph, kind)
            if op is None or len(op.reads) != len(operands):
                return
            alike = all(_is_about(op.attribute(name, math.nan), value) for name, value in attributes)
            found = match.using(op) if alike else None
            if found is None:
                return
            tensors = tuple(read.tensor for read in op.reads)
            for order in permutations(tensors) if kind in _COMMUTATIVE else (tensors,):
                yield from _all_match(operands, order, found, graph)
        case Product(coefficient, factors):
            number, tensors, operators = _factors(tensor, graph, root=True)
            if not operators or len(tensors) != len(factors) or not _is_about(number, coefficient):
                return
            found = replace(match, operators=tuple(dict.fromkeys((*match.operators, *operators))))
            for order in permutations(tensors):
                yield from _all_match(factors, order, found, graph)
        case Either(ways):
            for way in ways:
                yield from _matches(way, tensor, match, graph)


def _all_match(patterns: Sequence[Pattern], tensors: Sequence[str], match: _Match, graph: Graph) -> Iterator[_Match]:
    if not patterns:
        yield match
        return
    for found in _matches(patterns[0], tensors[0], match, graph):
        yield from _all_match(patterns[1:], tensors[1:], found, graph)


def _factors(tensor: str, graph: Graph, *, root: bool = False) -> tuple[float, tuple[str, ...], tuple[str, ...]]:
    """Coefficient, factors and operators of the product that `tensor` is; a product that others read is a factor."""
    number = _scalar(tensor, graph)
    if number is not None:
        return number, (), ()
    op = _producer(tensor, graph, "mul", "div")
    alone = root or (len(graph.consumers.get(tensor, ())) == 1 and tensor not in graph.outputs)
    if op is None or not alone:
        return 1.0, (tensor,), ()
    first, second = (read.tensor for read in op.reads)
    a, left, inside_left = _factors(first, graph)
    if op.kind == "div":
        divisor = _scalar(second, graph)
        return (a / divisor, left, (op.name, *inside_left)) if divisor else (1.0, (tensor,), ())
    b, right, inside_right = _factors(second, graph)
    return a * b, left + right, (op.name, *inside_left, *inside_right)


def _producer(tensor: str, graph: Graph, *kinds: str) -> Operator | None:
    """The one operator that writes `tensor`, if it is of these kinds and its accesses are numpy's broadcasting."""
    producers = graph.producers.get(tensor, ())
    if len(producers) != 1 or producers[0].kind not in kinds or len(producers[0].writes) != 1:
        return None
    op = producers[0]
    for access in (*op.reads, *op.writes):
        shape = graph.tensors[access.tensor].shape
        first = len(op.dims) - len(shape)
        for number, (axis, extent) in enumerate(zip(access.axes, shape, strict=True)):
            if axis != Axis(((first + number, 1),)) and not (axis == Axis(()) and extent == 1):
                return None
    return op


def _scalar(tensor: str, graph: Graph) -> float | None:
    """The value of a constant of one element."""
    value = graph.constants.get(tensor)
    return float(value.reshape(())) if value is not None and value.size == 1 else None


def _is_about(found: object, value: float) -> bool:
    return isinstance(found, int | float) and math.isclose(found, value, rel_tol=_TOLERANCE)
