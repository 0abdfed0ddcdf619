"""Which integers of 64 bits are proven to stay within the 32 in which the machine stores them.

The intervals are those of the file: its integers wrap around at 64 bits. An input is taken to fit the 32 bits.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite, prod

from tilestitch.base.dtypes import DType
from tilestitch.base.errors import TooLarge
from tilestitch.base.units import counted
from tilestitch.ir.graph import Access, Graph, Operator
from tilestitch.ops.intervals import Interval, Known, result_intervals, type_interval

_FILE_TYPES = {DType.INT32: Interval(-(2**63), 2**63 - 1), DType.UINT32: Interval(0, 2**64 - 1)}  # by stored type
# Each result has the values of the one operand; what is read need not be all of it.
_SAME_VALUES = frozenset(
    ("cast", "copy", "expand", "flatten", "identity", "rearrange", "reshape", "slice", "split", "squeeze")
    + ("tile", "transpose", "unsqueeze")
)


@dataclass(frozen=True, slots=True)
class Unproven:
    """A tensor whose operands fit 32 bits, and of which it is not proven that it does."""

    tensor: str
    interval: Interval

    def __str__(self) -> str:
        return f"'{self.tensor}' ({self.interval.least} to {self.interval.largest})"


def unproven(graph: Graph, long: frozenset[str]) -> tuple[Unproven, ...]:
    """Where integers may leave 32 bits first; `long` are the tensors that the file stores in 64 bits.

    Raises `TooLarge` where every value of a tensor is beyond them.
    """
    if not long:
        return ()
    found = intervals(graph, long)
    beyond = {name for name in long if not found[name].within(type_interval(graph.tensors[name].dtype))}
    for name in graph.tensors:
        stored = type_interval(graph.tensors[name].dtype) if name in beyond else None
        if stored is not None and (found[name].least > stored.largest or found[name].largest < stored.least):
            raise TooLarge(
                f"network '{graph.name}': tensor '{name}' holds 64-bit integers from {found[name].least} to "
                f"{found[name].largest} for any input, and the machine stores them in 32 bits ({stored.least} to "
                f"{stored.largest}). Export the network with smaller numbers there, or with 32-bit integers if they "
                "should wrap around"
            )
    spoiled = [op for op in graph.operators if any(name in beyond for name in op.inputs)]
    inherited = {name for op in spoiled for name in op.outputs}
    return tuple(Unproven(name, found[name]) for name in graph.tensors if name in beyond - inherited)


def note(found: tuple[Unproven, ...], drawn_bits: int | None) -> str:
    """A sentence for a report; `drawn_bits` are those of the largest input with which the network was executed."""
    first, *rest = found
    where = f"{first} and {counted(len(rest), 'other tensor')}" if rest else str(first)
    if drawn_bits is None:
        return (
            f"64-bit integers are stored in 32 bits, and it is not proven that these hold {where}; --verify tries it."
        )
    return (
        f"64-bit integers are stored in 32 bits, which held what was drawn, inputs of up to {drawn_bits} bits; it is "
        f"not proven for {where}."
    )


def intervals(graph: Graph, long: frozenset[str] = frozenset()) -> dict[str, Interval]:
    """An interval for each tensor of integers or booleans, by name."""
    files = {
        name: _FILE_TYPES[tensor.dtype] if name in long else type_interval(tensor.dtype)
        for name, tensor in graph.tensors.items()
        if not tensor.dtype.is_float
    }
    valid = _indices(graph)
    found: dict[str, Interval] = {}

    def keep(name: str, interval: Known) -> None:
        interval = files[name] if interval is None or not interval.within(files[name]) else interval
        found[name] = interval.hull(found[name]) if name in found else interval

    for name in graph.inputs:
        if name in files:
            keep(name, _narrowed(type_interval(graph.tensors[name].dtype), valid.get(name)))
    for name, value in graph.constants.items():
        if name in files and value.size:
            keep(name, Interval(int(value.min()), int(value.max())))
    for op in graph.operators:
        operands = [_operand(access, op, graph, found.get(access.tensor)) for access in op.reads]
        for write, interval in zip(op.writes, result_intervals(op, operands), strict=True):
            if write.tensor in files:
                keep(write.tensor, interval)
        for name in op.outputs:
            if name in valid and name in found:
                found[name] = _narrowed(found[name], valid[name])
    return found


def _narrowed(interval: Interval, valid: Known) -> Interval:
    """What is left of an interval if values outside another one have no meaning."""
    if valid is None or interval.least > valid.largest or interval.largest < valid.least:
        return interval
    return Interval(max(interval.least, valid.least), min(interval.largest, valid.largest))


def _operand(access: Access, op: Operator, graph: Graph, interval: Known) -> Known:
    """With the padding that is read beside the tensor."""
    if interval is None or access.indirect_axis is not None:
        return interval
    hull, shape = access.hull(op.whole), graph.tensors[access.tensor].shape
    if min(hull.start, default=0) >= 0 and all(stop <= size for stop, size in zip(hull.stop, shape, strict=True)):
        return interval
    if not isfinite(access.pad_value):
        return None
    return interval.hull(Interval(int(access.pad_value), int(access.pad_value)))


def _indices(graph: Graph) -> dict[str, Interval]:
    """Of tensors all of whose elements are indices of an axis: which of them are valid, negative ones included."""
    found: dict[str, Interval] = {}
    for op in reversed(graph.operators):
        for access, valid in _uses(op, graph, found):
            if _covers(access, op, graph):
                found[access.tensor] = _narrowed(valid, found.get(access.tensor))
    return found


def _uses(op: Operator, graph: Graph, found: Mapping[str, Interval]) -> Iterator[tuple[Access, Interval]]:
    """The operands of which no other values than these are valid, given the same of the results."""
    for read in op.reads:
        if read.indirect_axis is not None:
            size = graph.tensors[read.tensor].shape[read.indirect_axis]
            yield op.reads[1], Interval(-size, size - 1)
    if op.kind in _SAME_VALUES:
        for read, write in zip(op.reads, op.writes, strict=True):
            valid, dtype = found.get(write.tensor), graph.tensors[read.tensor].dtype
            if valid is not None and not dtype.is_float and type_interval(dtype).within(_stored(graph, write)):
                yield read, valid


def _stored(graph: Graph, access: Access) -> Interval:
    return type_interval(graph.tensors[access.tensor].dtype)


def _covers(access: Access, op: Operator, graph: Graph) -> bool:
    """Whether the iterations of an operator touch every element: mixed radix along each axis, no loop along two."""
    used = [dim for axis in access.axes for dim, _ in axis.terms]
    if len(used) > len(set(used)):
        return False
    for axis, size in zip(access.axes, graph.tensors[access.tensor].shape, strict=True):
        reach = 1  # from the first index on, without a gap
        for dim, stride in sorted(axis.terms, key=lambda term: term[1]):
            if not 0 < stride <= reach:
                return False
            reach += stride * (op.dims[dim].extent - 1)
        if axis.offset > 0 or axis.offset + reach < size:
            return False
    return prod(graph.tensors[access.tensor].shape) > 0
