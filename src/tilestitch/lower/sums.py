"""Partial sums of products on arrays, in the memory in which the core works: tensors of 32-bit elements."""

from collections.abc import Sequence
from dataclasses import replace

from tilestitch.ir.graph import Graph
from tilestitch.ir.schedule import Kernel
from tilestitch.ops.contraction import sum_dtype

SUM_BYTES = 4


def sums_name(tensor: str) -> str:
    """The name of the sums that become a tensor."""
    return f"sums of {tensor}"


def sums_of(graph: Graph, kernel: Kernel) -> dict[str, str]:
    """The sums that a kernel keeps between the parts of its reduction, by name, and which tensor they become."""
    if kernel.mapping is None or kernel.anchor is None:
        return {}
    anchor = graph.by_name[kernel.anchor]
    if all(part >= dim.extent for part, dim in zip(kernel.tiling.reduction, anchor.dims, strict=True)):
        return {}
    become = anchor.writes[0].tensor
    return {sums_name(become): become}


def with_sums(graph: Graph, kernels: Sequence[Kernel]) -> Graph:
    """The graph with a tensor for the sums of every kernel that keeps some."""
    found = {}
    for kernel in kernels:
        for name, become in sums_of(graph, kernel).items():
            assert kernel.anchor is not None, "it has sums"
            dtype = sum_dtype(graph.by_name[kernel.anchor], graph)
            found[name] = replace(graph.tensors[become], name=name, dtype=dtype)
    return replace(graph, tensors={**graph.tensors, **found}) if found else graph
