"""Views that pick or join: Slice, Split and Concat."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from tilestitch.base.units import ceil_div
from tilestitch.frontend.network import Node, Reading, Target, text_of
from tilestitch.frontend.operators.accesses import Nest, Shape, along, axis, dims_of, straight
from tilestitch.frontend.operators.shapes import copy, normalised_axes
from tilestitch.ir.graph import Access, Axis, Operator


def take_slice(node: Node, network: Reading) -> None:
    """Every `step`-th index from `start` to before `end`, per axis, as Python's slices; steps may be negative."""
    shape = network.shape(node.inputs[0])
    if node.opset < 10:
        starts, ends, axes, steps = node.integers("starts"), node.integers("ends"), node.integers("axes"), None
    else:
        starts, ends, axes, steps = (
            None if node.operand(number) is None else network.integers(node, number, name)
            for number, name in enumerate(("starts", "ends", "axes", "steps"), start=1)
        )
    starts, ends = starts or (), ends or ()
    axes = normalised_axes(node, tuple(range(len(starts))) if axes is None else axes, len(shape))
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise node.fault(
            f"starts {text_of(starts)}, ends {text_of(ends)}, axes {text_of(axes)}, steps {text_of(steps)}: "
            "expected as many of each, and no step of 0."
        )
    result, read = list(shape), list(along(*range(len(shape))))
    for start, end, number, step in zip(starts, ends, axes, steps, strict=True):
        picked = range(shape[number])[start:end:step]
        result[number] = len(picked)
        read[number] = axis((number, step), offset=picked.start)
    select(node, network, node.inputs[0], tuple(result), tuple(read), node.target)


def select(node: Node, network: Reading, x: str, shape: Shape, read: tuple[Axis, ...], target: Target) -> str:
    """A view of `x` whose dims are the axes of its result, of `shape`: where each of them reads is in `read`."""
    write = straight(target.tensor, len(shape))
    op = Operator(target.operator, "slice", dims_of(shape), (Access(x, read),), (write,))
    return network.emit(node, op, shape)


def cut(node: Node, network: Reading, x: str, at: int, start: int, stop: int, target: Target) -> str:
    """The part of `x` from `start` to before `stop` of axis `at`."""
    shape = network.shape(x)
    read = tuple(axis((i, 1), offset=start if i == at else 0) for i in range(len(shape)))
    return select(node, network, x, (*shape[:at], stop - start, *shape[at + 1 :]), read, target)


@dataclass(frozen=True, slots=True)
class Part:
    """The loops that move one part of a tensor cut along one axis: those of the whole, but for its own dim there."""

    dims: tuple[int, ...]  # per axis
    at: int  # the axis that is cut
    start: int

    def inside(self, tensor: str) -> Access:
        """The part where it lies in the whole."""
        axes = (axis((dim, 1), offset=self.start if number == self.at else 0) for number, dim in enumerate(self.dims))
        return Access(tensor, tuple(axes))

    def alone(self, tensor: str) -> Access:
        """The part as a tensor of its own."""
        return Access(tensor, along(*self.dims))


def _parts(shape: Shape, at: int, cuts: Sequence[tuple[int, int]]) -> tuple[Nest, tuple[Part, ...]]:
    """The parts of a tensor from start to stop along axis `at`; they share the dims of all other axes."""
    nest = Nest()
    before = [nest.parallel(f"d{number}", shape[number]) for number in range(at)]
    own = [nest.parallel(f"d{at}_{number}", stop - start) for number, (start, stop) in enumerate(cuts)]
    after = [nest.parallel(f"d{number}", shape[number]) for number in range(at + 1, len(shape))]
    return nest, tuple(Part((*before, dim, *after), at, cut[0]) for dim, cut in zip(own, cuts, strict=True))


def _cuts(extents: Sequence[int]) -> list[tuple[int, int]]:
    """Start and stop of consecutive runs."""
    stops = list(accumulate(extents))
    return list(zip([0, *stops[:-1]], stops, strict=True))


def split(node: Node, network: Reading) -> None:
    """Cut one axis into parts, one per output; parts that nobody reads are left out."""
    shape = network.shape(node.inputs[0])
    (at,) = normalised_axes(node, (node.integer("axis", 0),), len(shape))
    if node.opset < 13:
        extents = node.integers("split")
    else:
        extents = None if node.operand(1) is None else network.integers(node, 1, "split")
    count = node.integer("num_outputs", len(node.outputs))
    if extents is None:
        piece = ceil_div(shape[at], count)
        extents = (*(piece,) * (count - 1), shape[at] - piece * (count - 1))
    if len(extents) != len(node.outputs) or sum(extents) != shape[at] or min(extents) < 0:
        raise node.fault(
            f"axis {at} of an operand of shape {text_of(shape)} cannot be cut into {text_of(extents)} "
            f"for {len(node.outputs)} outputs."
        )
    used = []
    for name, (start, stop) in zip(node.outputs, _cuts(extents), strict=True):
        if name and start == stop:
            empty = (*shape[:at], 0, *shape[at + 1 :])
            network.add_constant(name, np.zeros(empty, network.element_type(node.inputs[0])))
        elif name:
            used.append((name, (start, stop)))
    if not used:
        return
    nest, parts = _parts(shape, at, [cut for _, cut in used])
    for (name, _), part in zip(used, parts, strict=True):
        result = tuple(nest.dims[dim].extent for dim in part.dims)
        network.define(node, name, result, network.element_type(node.inputs[0]))
    reads = tuple(part.inside(node.inputs[0]) for part in parts)
    writes = tuple(part.alone(name) for (name, _), part in zip(used, parts, strict=True))
    op = Operator(node.name, "split", nest.dims, reads, writes)
    network.add(node, op)


def concat(node: Node, network: Reading) -> None:
    """Join tensors along one axis; empty constants are left out."""
    names = tuple(name for name in node.inputs if not (network.is_known(name) and 0 in network.shape(name)))
    names = _for_every_sample(node, network, names)
    ranks = {len(network.shape(name)) for name in names}
    if len(ranks) != 1:
        found = " and ".join(text_of(network.shape(name)) for name in names)
        raise node.fault(f"operands of shapes {found}; expected one rank.")
    (at,) = normalised_axes(node, (node.integer("axis", 0),), ranks.pop())
    join(node, network, names, at, node.target)


def join(node: Node, network: Reading, names: tuple[str, ...], at: int, target: Target) -> str:
    """Tensors of one rank one behind another along axis `at`."""
    shapes = [network.shape(name) for name in names]
    if len({shape[:at] + shape[at + 1 :] for shape in shapes}) > 1:
        found = " and ".join(map(text_of, shapes))
        raise node.fault(f"operands of shapes {found} do not fit along axis {at}: their other axes must agree.")
    if len(names) == 1:
        return copy(node, network, names[0], target)
    extents = tuple(shape[at] for shape in shapes)
    nest, parts = _parts(shapes[0], at, _cuts(extents))
    result = shapes[0][:at] + (sum(extents),) + shapes[0][at + 1 :]
    network.define(node, target.tensor, result, network.element_type(names[0]))
    reads = tuple(part.alone(name) for name, part in zip(names, parts, strict=True))
    writes = tuple(part.inside(target.tensor) for part in parts)
    op = Operator(target.operator, "concat", nest.dims, reads, writes)
    network.add(node, op)
    return target.tensor


def _for_every_sample(node: Node, network: Reading, names: tuple[str, ...]) -> tuple[str, ...]:
    """In a network that is re-batched from 1: constants of one sample (a class token) repeated for each."""
    shapes = network.exported_shapes
    grown = [name for name in names if shapes.get(name, ())[:1] == (1,) != network.shape(name)[:1]]
    if not grown or len({len(network.shape(name)) for name in names}) > 1:
        return names
    batch = network.shape(grown[0])[0]
    found = []
    for name in names:
        value = network.value(name)
        if value is None or value.shape[:1] != (1,):
            found.append(name)
        else:
            found.append(network.new_constant(node, "every_sample", np.repeat(value, batch, axis=0)))
    return tuple(found)
