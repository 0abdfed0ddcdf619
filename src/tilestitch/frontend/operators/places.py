"""Operators that treat elements by their places: Trilu, OneHot, EyeLike, Tile, Compress and ReverseSequence."""

from math import prod

import numpy as np

from tilestitch.base.storage import STORAGE
from tilestitch.frontend.element_types import BOOL, INT64, numpy_type
from tilestitch.frontend.network import Node, Reading, text_of
from tilestitch.frontend.operators.accesses import along, axis, dims_of, straight
from tilestitch.frontend.operators.elementwise import apply
from tilestitch.frontend.operators.gathering import pick, wrapped
from tilestitch.frontend.operators.shapes import insert, normalised_axes, regroup
from tilestitch.frontend.operators.slicing import cut
from tilestitch.ir.graph import Access, Operator


def triangle(node: Node, network: Reading) -> None:
    """Trilu: a constant mask keeps the upper or lower triangle of each matrix, the rest is 0."""
    x, shape = node.inputs[0], network.shape(node.inputs[0])
    if len(shape) < 2:
        raise node.fault(f"operand of shape {text_of(shape)}; expected at least two axes.")
    k = int(network.scalar(node, 1, "k")) if node.operand(1) is not None else 0
    upper = node.flag("upper", default=True)
    rows, columns = shape[-2:]
    network.afford(node, rows * columns)
    kept = np.arange(columns) - np.arange(rows)[:, np.newaxis]  # the number of each diagonal
    kept = kept >= k if upper else kept <= k
    mask = network.new_constant(node, "kept", kept)
    zero = network.new_constant(node, "zero", np.zeros((), network.element_type(x)))
    apply(node, network, "where", (mask, x, zero), node.target, element_type=network.element_type(x))


def one_hot(node: Node, network: Reading) -> None:
    """A new axis on which one place, that the index names, has the one value and all others the other."""
    indices, _, values = node.inputs
    shape = network.shape(indices)
    depth = int(network.scalar(node, 1, "depth"))
    (at,) = normalised_axes(node, (node.integer("axis", -1),), len(shape) + 1)
    if network.shape(values) != (2,) or depth < 1:
        found = text_of(network.shape(values))
        raise node.fault(f"depth {depth}, values of shape {found}; expected 1 or more, and two values.")
    if network.is_float(indices):
        whole = (("to", str(STORAGE[INT64])),)
        target = network.step(node, "indices.whole")
        indices = apply(node, network, "cast", (indices,), target, element_type=INT64, attributes=whole)
    network.afford(node, depth)
    element_type = network.element_type(indices)
    x = wrapped(node, network, indices, (depth,))
    x = insert(node, network, x, (at,), network.step(node, "indices.spread"))
    places = np.arange(depth).astype(element_type).reshape(-1, *(1,) * (len(shape) - at))
    places = network.new_constant(node, "places", places)
    here = apply(node, network, "equal", (x, places), network.step(node, "here"), element_type=BOOL)
    off, on = (cut(node, network, values, 0, i, i + 1, network.step(node, n)) for i, n in enumerate(("off", "on")))
    apply(node, network, "where", (here, on, off), node.target, element_type=network.element_type(values))


def identity_matrix(node: Node, network: Reading) -> None:
    """EyeLike: ones on one diagonal of a matrix of the operand's shape."""
    shape = network.shape(node.inputs[0])
    if len(shape) != 2:
        raise node.fault(f"operand of shape {text_of(shape)}; expected a matrix.")
    number, k = node.integer("dtype", 0), node.integer("k", 0)
    element_type = numpy_type(number) if number else network.element_type(node.inputs[0])
    if element_type is None:
        raise node.fault(f"attribute dtype={number} names no element type.")
    network.afford(node, prod(shape))
    network.add_constant(node.outputs[0], np.eye(*shape, k=k).astype(element_type))


def tile(node: Node, network: Reading) -> None:
    """The whole of every axis, as often as the repeats say."""
    x, shape = node.inputs[0], network.shape(node.inputs[0])
    repeats = network.integers(node, 1, "repeats")
    if len(repeats) != len(shape) or min(repeats, default=1) < 0:
        raise node.fault(f"repeats {text_of(repeats)} for an operand of shape {text_of(shape)}; expected one per axis.")
    result = tuple(count * extent for count, extent in zip(repeats, shape, strict=True))
    rank = len(shape)
    write = Access(node.outputs[0], tuple(axis((i, extent), (rank + i, 1)) for i, extent in enumerate(shape)))
    reads = (Access(x, along(*range(rank, 2 * rank))),)
    op = Operator(node.name, "tile", dims_of((*repeats, *shape)), reads, (write,))
    network.emit(node, op, result)


def compress(node: Node, network: Reading) -> None:
    """The rows of one axis, or of all elements in a row, for which a constant condition holds."""
    x, shape = node.inputs[0], network.shape(node.inputs[0])
    rows = np.flatnonzero(network.required_value(node, 1, "condition"))
    if "axis" in node.attributes:
        (at,) = normalised_axes(node, (node.integer("axis", 0),), len(shape))
    else:
        x, at = regroup(node, network, "reshape", x, (int(np.prod(shape)),), network.step(node, "flat")), 0
    pick(node, network, x, network.new_constant(node, "rows", rows), at, node.target)


def reverse_sequence(node: Node, network: Reading) -> None:
    """The first elements of each sequence in reverse, as many as its length says; the others stay."""
    x, lengths = node.inputs
    shape = network.shape(x)
    batch_at, time_at = node.integer("batch_axis", 1), node.integer("time_axis", 0)
    if sorted((batch_at, time_at)) != [0, 1] or len(shape) < 2 or network.shape(lengths) != (shape[batch_at],):
        raise node.fault(
            f"operand of shape {text_of(shape)}, batch_axis={batch_at}, time_axis={time_at}, sequence_lens of shape "
            f"{text_of(network.shape(lengths))}; expected axes 0 and 1, and a length for each sequence."
        )
    element_type = network.element_type(lengths)
    network.afford(node, shape[time_at])
    steps = np.arange(shape[time_at]).astype(element_type)
    times = network.new_constant(node, "times", steps)
    mirrored = network.new_constant(node, "times.mirrored", (-1 - steps).astype(element_type))
    column = regroup(node, network, "reshape", lengths, (shape[batch_at], 1), network.step(node, "lengths"))
    inside = apply(node, network, "less", (times, column), network.step(node, "inside"), element_type=BOOL)
    turned = apply(node, network, "add", (column, mirrored), network.step(node, "turned"))
    source = network.step(node, "source")
    source = apply(node, network, "where", (inside, turned, times), source, element_type=element_type)
    others = (None if number == time_at else number for number in range(len(shape)))
    reads = (Access(x, along(*others), indirect_axis=time_at), Access(source, along(batch_at, time_at)))
    write = straight(node.outputs[0], len(shape))
    op = Operator(node.name, "gather", dims_of(shape), reads, (write,))
    network.emit(node, op, shape)
