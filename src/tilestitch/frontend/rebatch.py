"""A network that was exported for one batch, read for another.

Its inputs grow along axis 0, a Reshape to constant extents grows with its operand, and everything else follows from
the operators. That is the same network on more samples only where no operator mixes them, which is checked on the
loop nests afterwards: along every path one parallel dim runs over the samples. A sample here is what the exported
network computes at once.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

from tilestitch.base.errors import InputError
from tilestitch.frontend.operators.accesses import Shape
from tilestitch.ir.graph import Access, Axis, DimKind, Graph, Operator


class FixedBatch(InputError):
    """A network that can be read only for the batch it was exported for; `problem` is what forbids `batch`."""

    def __init__(self, problem: str, exported: int, batch: int) -> None:
        super().__init__(
            f"{problem} (The network was exported for a batch of {exported} and is read for {batch}; export it with a "
            f"symbolic batch, or leave the batch out, which reads it for {exported}.)"
        )
        self.problem, self.exported, self.batch = problem, exported, batch


@contextmanager
def rebatching(exported: int, batch: int) -> Iterator[None]:
    """Say of every refusal inside why the network is read for that batch at all, and the way out."""
    try:
        yield
    except InputError as error:
        raise FixedBatch(str(error), exported, batch) from error


def rebatched_inputs(where: str, shapes: Mapping[str, Shape], exported: int, batch: int) -> dict[str, Shape]:
    """The shapes of the inputs for another batch: those whose axis 0 is the exported batch grow."""
    if not any(shapes.values()):
        raise InputError(f"{where}: no input has a dim 0, so the batch cannot be {batch}; leave it out.")
    if batch % exported:
        raise InputError(f"{where}: {batch} samples are not a multiple of {exported}; ask for a multiple.")
    return {name: (batch, *shape[1:]) if shape[:1] == (exported,) else shape for name, shape in shapes.items()}


def rebatched_extents(wanted: Shape, exported: Shape, operand: Shape) -> Shape:
    """What a Reshape to `wanted` asks for, where its operand had shape `exported` and now has shape `operand`.

    The elements of further samples come behind the others, so axis 0 of the result takes the growth of the operand's.
    """
    if operand == exported or prod(wanted) == 0:
        return wanted
    rest = prod(wanted[1:])
    return (prod(operand) // rest, *wanted[1:]) if prod(operand) % rest == 0 else wanted


@dataclass(frozen=True, slots=True)
class _Samples:
    """Where the samples lie in a tensor: one after another along `axis`, `each` indices long, and again and again.

    Again where an outer axis was merged into it, as PyTorch's attention does: [tokens, samples] become one axis.
    """

    axis: int
    each: int


@dataclass(frozen=True, slots=True)
class _Loop:
    """The dim of an operator that runs over the samples, `each` iterations a sample, and again and again likewise."""

    dim: int
    each: int


def expect_independent_samples(where: str, graph: Graph, alone: Graph, exported: int, batch: int) -> None:
    """Refuse a re-batched graph in which an operator mixes samples, or an output does not hold one after another.

    `alone` is the graph for the exported batch.
    """
    count = batch // exported
    samples = {
        name: _Samples(0, exported)
        for name in graph.inputs
        if (alone.tensors[name].shape[:1], graph.tensors[name].shape[:1]) == ((exported,), (batch,))
    }
    for op in graph.operators:
        loops = {_loop(op, read, samples[read.tensor], count) for read in op.reads if read.tensor in samples}
        if not loops:
            continue
        loop = loops.pop()
        found = None if loop is None or loops else _written(op, loop, count)
        if loop is None or found is None or not all(_repeats(graph, op, read, loop, count) for read in op.reads):
            raise InputError(f"{where}: operator '{op.name}' ({op.kind}) mixes samples, so the batch cannot change.")
        samples.update(found)
    for name in graph.outputs:
        shape = alone.tensors[name].shape
        if name in samples and samples[name] != _Samples(0, *shape[:1]):
            raise InputError(f"{where}: output '{name}' does not hold its samples along dim 0.")


def _loop(op: Operator, access: Access, samples: _Samples, count: int) -> _Loop | None:
    """The dim that runs over the samples of one operand; None where there is none, or where it is not parallel."""
    axis = access.axes[samples.axis]
    if access.indirect_axis == samples.axis:
        return None
    for dim, stride in axis.terms:
        each, left = divmod(samples.each, stride)
        if left or each < 1 or op.dims[dim].extent % (count * each) or op.dims[dim].kind is not DimKind.PARALLEL:
            continue
        others = [term for term in axis.terms if term[0] != dim and term[1] % (count * samples.each)]
        low = axis.offset + sum(min(0, factor * (op.dims[d].extent - 1)) for d, factor in others)
        high = axis.offset + sum(max(0, factor * (op.dims[d].extent - 1)) for d, factor in others)
        if low >= 0 and high < stride:
            return _Loop(dim, each)
    return None


def _written(op: Operator, loop: _Loop, count: int) -> dict[str, _Samples] | None:
    """Where the samples lie in the results; None where a result is not made sample by sample."""
    found: dict[str, _Samples] = {}
    for write in op.writes:
        moved = [(number, axis) for number, axis in enumerate(write.axes) if loop.dim in dict(axis.terms)]
        if len(moved) != 1:
            return None
        ((number, axis),) = moved
        place = _Samples(number, dict(axis.terms)[loop.dim] * loop.each)
        if _loop(op, write, place, count) != loop or found.setdefault(write.tensor, place) != place:
            return None
    return found


def _repeats(graph: Graph, op: Operator, read: Access, loop: _Loop, count: int) -> bool:
    """Whether an operand that is no sample's own, a constant, is the same for each of them."""
    value = graph.constants.get(read.tensor)
    if value is None or loop.dim not in read.dims:
        return True
    for number, axis in enumerate(read.axes):
        if loop.dim in dict(axis.terms):
            comes_again = op.dims[loop.dim].extent > count * loop.each
            own = loop.each if comes_again else value.shape[number] // count
            if own == 0 or value.shape[number] % (count * own):
                return False
            if comes_again and axis != Axis(((loop.dim, 1),)):
                return False
            before, behind = value.shape[:number], value.shape[number + 1 :]
            parts = value.reshape(*before, -1, count, own, *behind)
            first = parts.take([0], axis=number + 1)
            return bool((parts == first).all())
    return False
