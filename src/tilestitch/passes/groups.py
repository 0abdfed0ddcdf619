"""A normalisation of groups of channels between two reshapes becomes one operator: the one that a native import gives.

Frameworks write x as [N, groups, ...], normalise every group, and go back to [N, C, ...] for a scale and a bias per
channel. An operator whose channels are two loops, groups and channels of a group, needs no other shape.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from tilestitch.ir.graph import Access, Axis, Dim, DimKind, Graph, Operator
from tilestitch.passes.fold import drop_unused


def merge_group_norms(graph: Graph) -> Graph:
    """Replace each such normalisation, with scale and bias where they are constants or computed, named after the last.

    Whatever lies between the first reshape and the last operator must have no other reader.
    """
    replaced: dict[str, Operator | None] = {}
    for norm in graph.operators:
        chain = list(_chain(norm, graph)) if norm.kind == "layer_norm" else []
        if not chain:
            continue
        x = chain[0].reads[0].tensor
        found = (_parameter(op, before.writes[0].tensor) for before, op in pairwise(chain[2:]))
        replaced.update((op.name, None) for op in chain[1:])
        parameters = [parameter for parameter in found if parameter is not None]
        replaced[chain[-1].name] = _merged(chain[-1], norm, x, parameters, graph)
    kept = (replaced.get(op.name, op) for op in graph.operators)
    return drop_unused(replace(graph, operators=tuple(op for op in kept if op is not None)))


def _chain(norm: Operator, graph: Graph) -> Iterator[Operator]:
    """The reshape before, the normalisation, the reshape after, what scales and what shifts; else nothing."""
    before = graph.producers.get(norm.reads[0].tensor, ())
    after = _only_reader(norm, graph)
    if len(before) != 1 or after is None or not before[0].kind == after.kind == "reshape":
        return
    shape, inside = (graph.tensors[op.reads[0].tensor].shape for op in (before[0], after))
    whole = [d for d, dim in enumerate(norm.dims) if dim.kind is DimKind.WHOLE]
    groups = inside[1] if len(inside) > 2 else 0
    if (
        len(shape) < 2
        or graph.tensors[after.writes[0].tensor].shape != shape
        or groups == 0
        or shape[1] % groups
        or inside[:1] != shape[:1]
        or whole != list(range(2, len(inside)))
        or norm.reads[0].axes != norm.writes[0].axes
        or not _is_neutral(norm, graph)
    ):
        return
    yield from (before[0], norm, after)
    last = after
    for wanted in ("mul", "add"):
        reader = _only_reader(last, graph)
        if reader is None or reader.kind != wanted or _parameter(reader, last.writes[0].tensor) is None:
            return
        yield reader
        last = reader


def _only_reader(op: Operator, graph: Graph) -> Operator | None:
    name = op.writes[0].tensor
    readers = graph.consumers.get(name, ())
    return readers[0] if len(op.writes) == 1 and len(readers) == 1 and name not in graph.outputs else None


def _is_neutral(norm: Operator, graph: Graph) -> bool:
    """Whether its own scale is 1 and its own bias 0, as far as it has them."""
    for read, value in zip(norm.reads[1:], (1.0, 0.0), strict=False):
        known = graph.constants.get(read.tensor)
        if known is None or not np.all(known == value):
            return False
    return True


def _parameter(op: Operator, x: str) -> Access | None:
    """The operand other than `x`, where nothing but the channel moves it and `x` is read as it is."""
    others = [read for read in op.reads if read.tensor != x]
    straight = [read for read in op.reads if read.tensor == x and read.axes == op.writes[0].axes]
    if len(others) != 1 or len(straight) != 1:
        return None
    channel = Axis(((1, 1),))
    return others[0] if all(axis in (channel, Axis(())) for axis in others[0].axes) else None


def _merged(last: Operator, norm: Operator, x: str, parameters: list[Access], graph: Graph) -> Operator:
    """Loops over samples, groups, channels of a group, and what is left of the shape."""
    shape, groups = graph.tensors[x].shape, graph.tensors[norm.reads[0].tensor].shape[1]
    size = shape[1] // groups
    dims = [Dim("n", shape[0], DimKind.PARALLEL), Dim("g", groups, DimKind.PARALLEL), Dim("c", size, DimKind.WHOLE)]
    dims += [Dim(f"d{number}", extent, DimKind.WHOLE) for number, extent in enumerate(shape[2:], start=2)]
    channel = Axis(((1, size), (2, 1)))
    moved = (Axis(((0, 1),)), channel, *(Axis(((number + 1, 1),)) for number in range(2, len(shape))))
    reads = [Access(x, moved)]
    for parameter in parameters:
        axes = tuple(channel if axis.terms else axis for axis in parameter.axes)
        reads.append(Access(parameter.tensor, axes))
    write = Access(last.writes[0].tensor, moved)
    return Operator(last.name, "layer_norm", tuple(dims), tuple(reads), (write,), norm.attributes)
