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
    work = _Work(graph)
    by_size = sorted(graph.operators, key=lambda op: -prod(graph.tensors[op.outputs[0]].shape))
    for name in (op.name for op in by_size if op.kind == "copy"):
        work.write_in_place(name)
    for tensor in dict.fromkeys(op.outputs[0] for op in by_size if op.kind == "copy"):
        work.read_in_place(tensor)
    left = work.operators
    if len(left) == len(graph.operators):
        return graph, {name: (name,) for name in left}
    now = {op.name: (op.name,) if op.name in left else () for op in graph.operators}
    return drop_unused(replace(graph, operators=tuple(left.values()))), now


class _Work:
    """The operators that are left, and which of them use a tensor."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.operators = {op.name: op for op in graph.operators}
        self.users: dict[str, dict[str, None]] = {}
        self.makers: dict[str, dict[str, None]] = {}  # of these, those that write some of it
        for op in graph.operators:
            self._note(op)

    def _note(self, op: Operator) -> None:
        for tensor in (*op.inputs, *op.outputs):
            self.users.setdefault(tensor, {})[op.name] = None
        for tensor in op.outputs:
            self.makers.setdefault(tensor, {})[op.name] = None

    def _forget(self, name: str) -> None:
        op = self.operators[name]
        for tensor in (*op.inputs, *op.outputs):
            self.users[tensor].pop(name, None)
        for tensor in op.outputs:
            self.makers[tensor].pop(name, None)

    def writers(self, tensor: str) -> list[Operator]:
        """The operators that write some of a tensor."""
        return [self.operators[name] for name in self.makers.get(tensor, ())]

    def write_in_place(self, name: str) -> None:
        """Leave out a copy where all others that write or read what is copied can do so where it goes."""
        graph, copy = self.graph, self.operators[name]
        part, whole = copy.reads[0].tensor, copy.writes[0].tensor
        if part == whole or part in graph.outputs or not _lie_alike(graph, part, whole):
            return
        if self.writers(part) and covers(copy.reads[0], copy, graph):
            self._replace_by_others(copy, [name])

    def read_in_place(self, tensor: str) -> None:
        """Leave out the copies that make a tensor which is a box of another one, and read it there."""
        graph, copies = self.graph, self.writers(tensor)
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
        self._replace_by_others(back, [op.name for op in copies])

    def _replace_by_others(self, view: Operator, copies: Sequence[str]) -> None:
        """Leave out some copies and have the others that use what a view reads use what it writes, if all can.

        None of them may come to read a part of the tensor of which it writes another: a kernel knows a tensor by its
        name.
        """
        users = [self.operators[name] for name in self.users.get(view.reads[0].tensor, ()) if name not in copies]
        changed = []
        for op in users:
            moved = moved_to(view, op, self.graph.tensors)
            if moved is None or set(moved.inputs) & set(moved.outputs):
                return
            changed.append(moved)
        for op in changed:
            self._forget(op.name)
            self.operators[op.name] = op
            self._note(op)
        for name in copies:
            self._forget(name)
            del self.operators[name]


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
