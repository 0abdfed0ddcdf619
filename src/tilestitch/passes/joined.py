"""What a concatenation joins is written where it lies there, so that nothing is copied."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TypeAlias

from tilestitch.ir.graph import Access, Axis, Dim, DimKind, Graph, Operator
from tilestitch.passes.fold import drop_unused
from tilestitch.passes.views import covers, moved_to

# A network, and which operators do the work of each that was there before; of a copy that is left out none.
Joined: TypeAlias = tuple[Graph, Mapping[str, tuple[str, ...]]]


def joined(graph: Graph) -> Joined:
    """The same network, of which views are composed away, with results written straight into their places.

    That is where all of a result, which is no output, is copied into a part of another tensor: others read it there,
    and what they copied of it to where it lies already, beside the same others, is left out as well. The largest
    tensors come first, so that what is joined again and again, more each time, as in DenseNet, lies in the last one.
    """
    work = {op.name: op for op in graph.operators}
    by_size = sorted(graph.operators, key=lambda op: -prod(graph.tensors[op.outputs[0]].shape))
    for name in (op.name for op in by_size if op.kind == "copy"):
        _write_in_place(name, work, graph)
    for tensor in dict.fromkeys(op.outputs[0] for op in by_size if op.kind == "copy"):
        _read_in_place(tensor, work, graph)
    if len(work) == len(graph.operators):
        return graph, {name: (name,) for name in work}
    now = {op.name: (op.name,) if op.name in work else () for op in graph.operators}
    return drop_unused(replace(graph, operators=tuple(work.values()))), now


def _write_in_place(name: str, work: dict[str, Operator], graph: Graph) -> None:
    """Leave out a copy where all others that write or read what is copied can do so where it goes."""
    copy = work[name]
    part, whole = copy.reads[0].tensor, copy.writes[0].tensor
    if part == whole or part in graph.outputs or not _lie_alike(graph, part, whole):
        return
    if any(part in op.outputs for op in work.values()) and covers(copy.reads[0], copy, graph):
        _replace_by_others(copy, [name], work, graph)


def _read_in_place(tensor: str, work: dict[str, Operator], graph: Graph) -> None:
    """Leave out the copies that make a tensor which is a box of another one, and read it there."""
    copies = [op for op in work.values() if tensor in op.outputs]
    sources = {op.inputs[0] for op in copies}
    if tensor in graph.outputs or len(sources) != 1 or any(op.kind != "copy" for op in copies):
        return
    (source,) = sources
    shifts = {_shift(op) for op in copies}
    shift = next(iter(shifts))
    if source == tensor or shift is None or len(shifts) > 1:
        return
    if not _lie_alike(graph, tensor, source):
        return
    dims = tuple(Dim(f"d{at}", n, DimKind.PARALLEL) for at, n in enumerate(graph.tensors[tensor].shape))
    here = Access(tensor, tuple(Axis(((at, 1),)) for at in range(len(dims))))
    there = Access(source, tuple(Axis(((at, 1),), offset) for at, offset in enumerate(shift)))
    back = Operator(copies[0].name, "copy", dims, (here,), (there,))
    _replace_by_others(back, [op.name for op in copies], work, graph)


def _lie_alike(graph: Graph, one: str, other: str) -> bool:
    """Whether a copy leaves the order of the axes in memory as it is, where it has the same axes."""
    layouts = graph.tensors[one].layout, graph.tensors[other].layout
    return layouts[0] == layouts[1] or len(layouts[0]) != len(layouts[1])


def _shift(copy: Operator) -> tuple[int, ...] | None:
    """How much further along each axis a copy reads than it writes; None where it does anything else than shift."""
    read, write = copy.reads[0].axes, copy.writes[0].axes
    if [axis.terms for axis in read] != [axis.terms for axis in write]:
        return None
    return tuple(one.offset - other.offset for one, other in zip(read, write, strict=True))


def _replace_by_others(view: Operator, copies: Sequence[str], work: dict[str, Operator], graph: Graph) -> None:
    """Leave out some copies and have the others that use what a view reads use what it writes, if all of them can.

    None of them may come to read a part of the tensor of which it writes another: a kernel knows a tensor by its name.
    """
    tensor = view.reads[0].tensor
    users = [op for op in work.values() if tensor in (*op.inputs, *op.outputs) and op.name not in copies]
    moved = [moved_to(view, op, graph.tensors) for op in users]
    changed = [op for op in moved if op is not None and not set(op.inputs) & set(op.outputs)]
    if len(changed) == len(users):
        work.update((op.name, op) for op in changed)
        for name in copies:
            del work[name]
