"""Elements as wide as the machine's: what of a network is stored for units of 8 bits."""

from dataclasses import replace

from tilestitch.base.dtypes import DType
from tilestitch.ir.graph import Graph


def as_wide_as(graph: Graph, element_bits: int | None) -> Graph:
    """The network with its float16 tensors in 8 bits, where a machine's elements have no more.

    Only the width is known. Integers, quantised ones too, and floating types that a file asks for by name stay.
    `element_bits` is None where a machine does not say.
    """
    if element_bits is None or element_bits > DType.FLOAT8.bits:
        return graph
    tensors = {
        name: replace(tensor, dtype=DType.FLOAT8) if tensor.dtype is DType.FLOAT16 else tensor
        for name, tensor in graph.tensors.items()
    }
    return replace(graph, tensors=tensors)
