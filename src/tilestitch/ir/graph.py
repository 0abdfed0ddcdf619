"""The network: tensors, and operators that are loop nests with one affine access per operand.

Tiling, halo, footprint, reuse, multiply-accumulates and splittable dims follow from dims and accesses; no operator
codes them by hand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import prod
from operator import le

import numpy as np

from tilestitch.base.dtypes import DType
from tilestitch.base.html import Record
from tilestitch.base.shown import Brief, Shown
from tilestitch.base.units import counted
from tilestitch.ir.region import Region

Attribute = int | float | str | bytes | tuple[int, ...] | tuple[float, ...]


class DimKind(StrEnum):
    """What may be done to a loop dimension."""

    PARALLEL = "parallel"  # any split, over tiles and over cores
    REDUCTION = "reduction"  # splitting gives partial results that must be combined
    WHOLE = "whole"  # every tile needs all of it (the axis of a softmax)

    @property
    def mark(self) -> str:
        """What stands between name and extent of a dim of this kind."""
        return {DimKind.PARALLEL: ":", DimKind.REDUCTION: "+", DimKind.WHOLE: "="}[self]


@dataclass(frozen=True, slots=True)
class Dim:
    """One loop of an operator."""

    name: str
    extent: int
    kind: DimKind

    def __str__(self) -> str:
        """`n:8`, `c+3`, `d1=10`."""
        return f"{self.name}{self.kind.mark}{self.extent}"


@dataclass(frozen=True, slots=True)
class Axis:
    """The index along one axis of a tensor: the sum of `stride * dim` over `terms`, plus `offset`.

    `terms` holds (dim number, stride) pairs with non-zero strides, the largest stride first.
    """

    terms: tuple[tuple[int, int], ...]
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Access:
    """Which element of a tensor one iteration of the loop nest touches.

    Indices outside the tensor are padding and read as `pad_value`. An `indirect` axis (the rows of a Gather) is
    indexed by the value of another operand: its footprint is the whole axis, its traffic the rows that are read.
    """

    tensor: str
    axes: tuple[Axis, ...]
    pad_value: float = 0.0
    indirect_axis: int | None = None

    def hull(self, box: Region) -> Region:
        """The box of indices that the iterations in `box` touch, padding included (it may leave the tensor)."""
        start, stop = [], []
        first_of, stop_of = box
        for axis in self.axes:
            low = high = axis.offset
            for dim, stride in axis.terms:
                first, last = stride * first_of[dim], stride * (stop_of[dim] - 1)
                if first <= last:
                    low += first
                    high += last
                else:
                    low += last
                    high += first
            start.append(low)
            stop.append(high + 1)
        return Region(tuple(start), tuple(stop))

    def region(self, box: Region, shape: tuple[int, ...]) -> Region:
        """The part of a tensor of `shape` that the iterations in `box` touch.

        Where every touched index is padding, one element at the border stands for it, so that no region is empty.
        """
        hull = self.hull(box)
        if self.indirect_axis is None and min(hull.start, default=0) >= 0 and all(map(le, hull.stop, shape)):
            return hull
        start, stop = [], []
        for number, (low, high, size) in enumerate(zip(hull.start, hull.stop, shape, strict=True)):
            if number == self.indirect_axis:
                low, high = 0, size
            low = min(max(low, 0), size - 1)
            start.append(low)
            stop.append(max(min(high, size), low + 1))
        return Region(tuple(start), tuple(stop))

    @property
    def dims(self) -> frozenset[int]:
        """Numbers of the dims that move this access."""
        return frozenset(dim for axis in self.axes for dim, _ in axis.terms)


@dataclass(frozen=True, slots=True, repr=False)
class Operator(Brief):
    """A loop nest: dims, what each iteration reads and writes, and which arithmetic it does (`kind`, see `ops`).

    A view operator (`kind` in `ops.VIEWS`) computes nothing: `reads[i]` moves to `writes[i]`, pair by pair.
    """

    name: str
    kind: str
    dims: tuple[Dim, ...]
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    attributes: tuple[tuple[str, Attribute], ...] = ()

    def attribute(self, name: str, default: Attribute | None = None) -> Attribute:
        """The value of an attribute; a missing one without default is our own bug."""
        for key, value in self.attributes:
            if key == name:
                return value
        if default is None:
            raise KeyError(f"operator {self.name!r} ({self.kind}) has no attribute {name!r}")
        return default

    @property
    def whole(self) -> Region:
        """All iterations."""
        return Region.whole(tuple(dim.extent for dim in self.dims))

    @property
    def iterations(self) -> int:
        return prod(dim.extent for dim in self.dims)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Tensors read, each once, in the order of first use."""
        return _tensors_of(self.reads)

    @property
    def outputs(self) -> tuple[str, ...]:
        return _tensors_of(self.writes)


def _tensors_of(accesses: Sequence[Access]) -> tuple[str, ...]:
    if len(accesses) == 1:  # as most operators write
        return (accesses[0].tensor,)
    return tuple(dict.fromkeys([access.tensor for access in accesses]))


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value of the network. `layout` lists its axes from the outermost to the innermost in memory."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    layout: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        return prod(self.shape) * self.dtype.size_bytes

    def bytes_of(self, region: Region) -> int:
        return region.size * self.dtype.size_bytes


@dataclass(frozen=True, repr=False)
class Graph(Shown):
    """A network of static shapes; `operators` are in an order in which they can run.

    `inputs` and `outputs` are tensors at the border; `constants` maps a tensor to its value in the ONNX file's type.
    """

    name: str
    tensors: Mapping[str, Tensor]
    operators: tuple[Operator, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, np.ndarray]

    @cached_property
    def by_name(self) -> Mapping[str, Operator]:
        return {op.name: op for op in self.operators}

    @cached_property
    def position(self) -> Mapping[str, int]:
        """Operator -> its place in the order of the network."""
        return {op.name: at for at, op in enumerate(self.operators)}

    @cached_property
    def producers(self) -> Mapping[str, tuple[Operator, ...]]:
        """Tensor -> operators that write (a part of) it; absent for inputs and constants."""
        found: dict[str, list[Operator]] = {}
        for op in self.operators:
            for name in op.outputs:
                found.setdefault(name, []).append(op)
        return {name: tuple(ops) for name, ops in found.items()}

    @cached_property
    def makers(self) -> Mapping[str, tuple[Operator, ...]]:
        """Operator -> those that write some of what it reads; of a tensor in parts only those of the parts it reads."""
        parts = {
            name: [(op, write.hull(op.whole)) for op in ops for write in op.writes if write.tensor == name]
            for name, ops in self.producers.items()
        }
        found: dict[str, tuple[Operator, ...]] = {}
        for op in self.operators:
            of: dict[str, Operator] = {}
            for read in op.reads:
                several = parts.get(read.tensor, ())
                region = self.read_region(read, op.whole) if len(several) > 1 else None
                of.update((maker.name, maker) for maker, part in several if region is None or part.overlaps(region))
            found[op.name] = tuple(of.values())
        return found

    @cached_property
    def readers(self) -> Mapping[str, tuple[Operator, ...]]:
        """Operator -> those that read some of what it writes, in their order."""
        found: dict[str, list[Operator]] = {op.name: [] for op in self.operators}
        for op in self.operators:
            for maker in self.makers[op.name]:
                found[maker.name].append(op)
        return {name: tuple(ops) for name, ops in found.items()}

    @cached_property
    def consumers(self) -> Mapping[str, tuple[Operator, ...]]:
        """Tensor -> operators that read it, in order; absent where nobody does."""
        found: dict[str, list[Operator]] = {}
        for op in self.operators:
            for name in op.inputs:
                found.setdefault(name, []).append(op)
        return {name: tuple(ops) for name, ops in found.items()}

    def leaving(self, operators: Sequence[Operator]) -> list[str]:
        """The results of some operators that others, or the network, give to somebody."""
        inside = {op.name for op in operators}
        return [
            name
            for op in operators
            for name in op.outputs
            if name in self.outputs
            or any(reader.name not in inside and name in reader.inputs for reader in self.readers[op.name])
        ]

    def read_region(self, access: Access, box: Region) -> Region:
        return access.region(box, self.tensors[access.tensor].shape)

    def heading(self) -> str:
        """Its name and size."""
        sizes = f"{counted(len(self.operators), 'operator')}, {counted(len(self.constants), 'constant')}"
        return f"graph {self.name}: {sizes}"

    def records(self) -> tuple[Record, ...]:
        """Every operator."""
        return tuple(
            {
                "operator": op.name,
                "kind": op.kind,
                "reads": ", ".join(access.tensor for access in op.reads),
                "writes": ", ".join(_tensor_text(self.tensors[name]) for name in op.outputs),
                "loops": " ".join(map(str, op.dims)),
            }
            for op in self.operators
        )

    def __str__(self) -> str:
        lines = [self.heading()]
        for name in self.inputs:
            lines.append(f"  input  {_tensor_text(self.tensors[name])}")
        for op in self.operators:
            reads = ", ".join(access.tensor for access in op.reads)
            writes = ", ".join(_tensor_text(self.tensors[name]) for name in op.outputs)
            loops = " ".join(map(str, op.dims))
            lines.append(f"  {writes} = {op.kind}({reads})  [{loops}]")
        for name in self.outputs:
            lines.append(f"  output {_tensor_text(self.tensors[name])}")
        return "\n".join(lines)


def _tensor_text(tensor: Tensor) -> str:
    return f"{tensor.name}:{tensor.dtype}[{'x'.join(map(str, tensor.shape))}]"
