"""What a concatenation joins is written where it lies there, so that nothing is copied."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import TypeAlias

from tilestitch.ir.graph import Graph, Operator
from tilestitch.passes.fold import drop_unused
from tilestitch.passes.views import covers, moved_to

# A network, and which operators do the work of each that was there before; of a copy that is left out none.
Joined: TypeAlias = tuple[Graph, Mapping[str, tuple[str, ...]]]


def joined(graph: Graph) -> Joined:
    """The same network, of which views are composed away, with results written straight into their places.

    That is where all of a result, which is no output, is copied into a part of another tensor, and nobody else reads
    it. The largest tensors come first.
    """
    work = {op.name: op for op in graph.operators}
    copies = [op for op in graph.operators if op.kind == "copy"]
    left_out: set[str] = set()
    for name in (op.name for op in sorted(copies, key=lambda op: -prod(graph.tensors[op.outputs[0]].shape))):
        copy = work[name]
        changed = _without(copy, work, graph)
        if changed:
            work.update((op.name, op) for op in changed)
            del work[name]
            left_out.add(name)
    now = {op.name: () if op.name in left_out else (op.name,) for op in graph.operators}
    return (drop_unused(replace(graph, operators=tuple(work.values()))) if left_out else graph), now


def _without(copy: Operator, work: Mapping[str, Operator], graph: Graph) -> list[Operator]:
    """The operators that write what is copied, changed so that they write the copy; none where that cannot be."""
    part, whole = copy.reads[0].tensor, copy.writes[0].tensor
    makers = [op for op in work.values() if part in op.outputs]
    alike = graph.tensors[part].layout == graph.tensors[whole].layout
    alone = part not in graph.outputs and [op.name for op in work.values() if part in op.inputs] == [copy.name]
    if not (makers and alike and alone and part != whole and covers(copy.reads[0], copy, graph)):
        return []
    changed = [moved_to(copy, op, graph.tensors) for op in makers]
    return [op for op in changed if op is not None] if None not in changed else []
