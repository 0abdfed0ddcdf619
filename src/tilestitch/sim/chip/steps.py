"""Quantised tensors compared in steps, each computed from the integers that onnxruntime has for the ones before it.

A sum that lies half-way between two steps rounds one way here and another way there, since neither adds in the other's
order; and one integer that differs changes all that follow from it. So each quantised tensor of an executed program is
compared where it is computed, and execution goes on with the expected integers: what is counted are the differences
that arise at a tensor, not those that it inherits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx

from tilestitch.ir.graph import Access, Graph
from tilestitch.ir.region import Region
from tilestitch.ops.views import by_dims

SHARE = 1e-3  # of the elements of a tensor may be one step off, and one element of any tensor

_QUANTISING = frozenset({"DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "QuantizeLinear"})
_COMPARED = frozenset(map(np.dtype, (np.int8, np.uint8, np.int16, np.uint16)))


def quantised_tensors(model: onnx.ModelProto, graph: Graph) -> tuple[str, ...]:
    """Tensors of the graph that a node of the file quantises."""
    names = (node.output[0] for node in model.graph.node if node.op_type in _QUANTISING)
    return tuple(name for name in names if name in graph.tensors and name not in graph.constants)


@dataclass(slots=True)
class Count:
    """How many elements of a tensor have been compared, how many differed, and by how many steps at most."""

    elements: int = 0
    different: int = 0
    largest: int = 0

    def add(self, found: np.ndarray, expected: np.ndarray) -> None:
        distance = np.abs(found.astype(np.int64) - expected.astype(np.int64))
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
    counts: dict[str, Count] = field(default_factory=dict)

    def compare(self, tensor: str, iteration: int, access: Access, box: Region, found: np.ndarray) -> np.ndarray | None:
        """Count differences of stored values; the expected ones, None for a tensor of which nothing is known."""
        known = self.expected[iteration].get(tensor)
        if known is None:
            return None
        wanted = by_dims(known, access, box, (0,) * known.ndim)
        self.counts.setdefault(tensor, Count()).add(found, wanted)
        return wanted

    def worst(self) -> tuple[float, str]:
        """The share of elements that differ, of all together or of one tensor that has too many, and that tensor."""
        if not self.counts:
            return 0.0, ""
        tensor = max(self.counts, key=lambda name: self.counts[name].share)
        faulty = [
            name
            for name, count in self.counts.items()
            if count.largest > 1 or count.different > max(1.0, SHARE * count.elements)
        ]
        if faulty:
            tensor = max(faulty, key=lambda name: self.counts[name].share)
            return self.counts[tensor].share, tensor
        different = sum(count.different for count in self.counts.values())
        return different / sum(count.elements for count in self.counts.values()), tensor


def is_quantised(array: np.ndarray) -> bool:
    """Whether an array has a type that can be compared in steps."""
    return array.dtype in _COMPARED


def differing_share(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """The share of elements that are one step off; 1 where one is further off, or a shape differs."""
    count = Count()
    for ours, theirs in zip(found, expected, strict=True):
        if ours.shape != theirs.shape:
            return 1.0
        count.add(ours, theirs)
    return count.share
