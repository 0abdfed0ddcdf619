"""Quantised tensors compared in steps, each computed from the integers that onnxruntime has for the ones before it.

A sum that lies half-way between two steps rounds one way here and another way there, since neither adds in the other's
order; and one integer that differs changes all that follow from it. So each quantised tensor of an executed program is
compared where it is computed, and execution goes on with the expected integers: what is counted are the differences
that arise at a tensor, not those that it inherits. An element may differ only where rounding can carry it over.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx

from tilestitch.base.dtypes import DType
from tilestitch.base.storage import STORAGE
from tilestitch.ir.graph import Access, Graph, Tensor
from tilestitch.ir.region import Region
from tilestitch.ops import is_view
from tilestitch.ops.conversion import FORMATS
from tilestitch.ops.views import by_dims, moved

SHARE = 1e-3  # of the elements of a tensor may be one step off, and one element of any tensor

_QUANTISING = frozenset({"DynamicQuantizeLinear", "QGemm", "QuantizeLinear"})  # and QLinearAdd, QLinearConv, ...
_INTEGERS = frozenset(
    {DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.INT4, DType.UINT4, DType.INT2, DType.UINT2}
)


def quantised_tensors(model: onnx.ModelProto, graph: Graph) -> tuple[str, ...]:
    """Tensors of the graph that a node of the file quantises, a cast to a float of at most 8 bits among them."""
    found = []
    for node in model.graph.node:
        tensor = graph.tensors.get(node.output[0]) if node.output else None
        if tensor is None or tensor.name in graph.constants:
            continue
        rounded = node.op_type in ("Cast", "CastLike") and tensor.dtype in FORMATS
        quantises = node.op_type in _QUANTISING or node.op_type.startswith("QLinear")
        if rounded or (quantises and is_quantised(tensor.dtype)):
            found.append(tensor.name)
    return tuple(found)


def with_moved(known: Mapping[str, np.ndarray], network: Graph) -> dict[str, np.ndarray]:
    """The values of some tensors, with what views of the network make of them: a program may store that instead."""
    found = dict(known)
    for op in network.operators:
        if is_view(op) and all(name in found for name in op.inputs):
            found.update(moved(op, found, network.tensors))
    return found


def is_quantised(dtype: DType) -> bool:
    """Whether tensors of a type can be compared in steps."""
    return dtype in _INTEGERS or dtype in FORMATS


def places(values: np.ndarray, dtype: DType) -> np.ndarray:
    """Values of a quantised type as integers in their order, neighbours one apart; those of floats from their bits."""
    if dtype in _INTEGERS:
        return values.astype(np.int64)
    (kind,) = [element_type for element_type, stored in STORAGE.items() if stored is dtype]
    bits = np.ascontiguousarray(values.astype(kind)).view(np.uint8).astype(np.int64)
    sign = 1 << (dtype.bits - 1)
    return np.where(bits & sign, -(bits & (sign - 1)), bits)


@dataclass(slots=True)
class Count:
    """How many elements of a tensor have been compared, how many differed, and by how many steps at most."""

    elements: int = 0
    different: int = 0
    largest: int = 0
    undecided: int = 0  # rounding may move them by a step
    unexplained: int = 0  # that differ all the same

    def add(self, found: np.ndarray, expected: np.ndarray, dtype: DType, bound: np.ndarray | None = None) -> None:
        distance = np.abs(places(found, dtype) - places(expected, dtype))
        if bound is not None:
            self.undecided += int(np.count_nonzero(bound > 0))
            self.unexplained += int(np.count_nonzero((distance > 0) & (bound == 0)))
        self.elements += distance.size
        self.different += int(np.count_nonzero(distance))
        self.largest = max(self.largest, int(distance.max(initial=0)))

    @property
    def share(self) -> float:
        """Of the elements that differ; all of them where one is more than a step off."""
        return self.different / max(1, self.elements) if self.largest <= 1 else 1.0


@dataclass(slots=True)
class Steps:
    """What onnxruntime has for quantised tensors in each iteration, and how far a program's own values are from it."""

    expected: Sequence[Mapping[str, np.ndarray]]
    bounds: Sequence[Mapping[str, np.ndarray]]  # what rounding may do to each element of those tensors, per iteration
    counts: dict[str, Count] = field(default_factory=dict)

    def compare(
        self, tensor: Tensor, iteration: int, access: Access, box: Region, found: np.ndarray
    ) -> np.ndarray | None:
        """Count differences of stored values; the expected ones, None for a tensor of which nothing is known."""
        known = self.expected[iteration].get(tensor.name)
        if known is None:
            return None
        wanted = by_dims(known, access, box, (0,) * known.ndim)
        bound = self.bounds[iteration].get(tensor.name)
        if bound is not None:
            bound = by_dims(bound, access, box, (0,) * known.ndim)
        self.counts.setdefault(tensor.name, Count()).add(found, wanted, tensor.dtype, bound)
        return wanted

    def sizes(self) -> tuple[int, int]:
        """How many elements were compared, and of how many of them rounding leaves no doubt."""
        elements = sum(count.elements for count in self.counts.values())
        return elements, elements - sum(count.undecided for count in self.counts.values())

    def ratio(self) -> float:
        """Infinite where an element differs that lies too far from half-way for rounding to explain it."""
        return float("inf") if any(count.unexplained for count in self.counts.values()) else 0.0

    def worst(self) -> tuple[float, str]:
        """The share of elements that differ, of all together or of one tensor that has too many, and that tensor."""
        tensor = max(self.counts, key=lambda name: self.counts[name].share)
        faulty = [
            name
            for name, count in self.counts.items()
            if count.largest > 1 or count.unexplained or count.different > max(1.0, SHARE * count.elements)
        ]
        if faulty:
            tensor = max(faulty, key=lambda name: self.counts[name].share)
            return self.counts[tensor].share, tensor
        different = sum(count.different for count in self.counts.values())
        return different / sum(count.elements for count in self.counts.values()), tensor


def differing_share(found: Sequence[np.ndarray], expected: Sequence[np.ndarray], dtype: DType) -> float:
    """The share of elements that are one step off; 1 where one is further off, or a shape differs."""
    count = Count()
    for ours, theirs in zip(found, expected, strict=True):
        if ours.shape != theirs.shape:
            return 1.0
        count.add(ours, theirs, dtype)
    return count.share
