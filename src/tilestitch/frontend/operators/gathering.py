"""Gather, GatherElements and GatherND: elements whose place along one axis another operand holds."""

from math import prod

import numpy as np

from tilestitch.frontend.element_types import BOOL
from tilestitch.frontend.network import Node, Reading, Target, text_of
from tilestitch.frontend.operators.accesses import FIXED, along, axis, dims_of, straight
from tilestitch.frontend.operators.elementwise import apply
from tilestitch.frontend.operators.reductions import reduce_axes
from tilestitch.frontend.operators.shapes import normalised_axes, regroup
from tilestitch.frontend.operators.slicing import select
from tilestitch.ir.graph import Access, Operator


def gather(node: Node, network: Reading) -> None:
    """Rows of the first operand along one axis, picked by the second."""
    data, indices = node.inputs[:2]
    (at,) = normalised_axes(node, (node.integer("axis", 0),), len(network.shape(data)))
    pick(node, network, data, indices, at, node.target)


def pick(node: Node, network: Reading, data: str, indices: str, at: int, target: Target, *, batch: int = 0) -> str:
    """Rows of `data` along axis `at`, picked by `indices`: a slice where they are evenly spaced.

    The result has the axes before, those of the indices, and the axes after. The first `batch` axes of the indices are
    those of `data`: each of its parts has indices of its own. Constant rows of a constant are a constant.
    """
    shape, picked = network.shape(data), network.shape(indices)
    result = shape[:at] + picked[batch:] + shape[at + 1 :]
    before, middle = tuple(range(at)), tuple(range(at, at + len(picked) - batch))
    after = tuple(range(at + len(middle), len(result)))
    known = network.value(indices)
    if known is not None:
        _check_range(node, known, shape[at])
    spacing = None if known is None or batch else _even_spacing(known, shape[at])
    if spacing is not None:
        start, step = spacing
        strides = [step * prod(picked[number + 1 :]) for number in range(len(picked))]
        row = axis(*zip(middle, strides, strict=True), offset=start)
        return select(node, network, data, result, (*along(*before), row, *along(*after)), target)
    if known is not None and network.is_known(data) and not batch:
        network.add_constant(target.tensor, np.take(network.known_value(data), known, axis=at))
        return target.tensor
    reads = (
        Access(data, (*along(*before), FIXED, *along(*after)), indirect_axis=at),
        Access(indices, along(*range(batch), *middle)),
    )
    op = Operator(target.operator, "gather", dims_of(result), reads, (straight(target.tensor, len(result)),))
    return network.emit(node, op, result)


def gather_elements(node: Node, network: Reading) -> None:
    """Each index takes one element, from its own place along all axes but one."""
    data, indices = node.inputs[:2]
    shape, picked = network.shape(data), network.shape(indices)
    (at,) = normalised_axes(node, (node.integer("axis", 0),), len(shape))
    check_elements(node, network, indices, shape, at)
    places = range(len(shape))
    reads = (
        Access(data, along(*(None if number == at else number for number in places)), indirect_axis=at),
        straight(indices, len(picked)),
    )
    write = straight(node.outputs[0], len(picked))
    op = Operator(node.name, "gather", dims_of(picked), reads, (write,))
    network.emit(node, op, picked)


def check_elements(node: Node, network: Reading, indices: str, shape: tuple[int, ...], at: int) -> None:
    """Refuse indices that are not of the rank of `shape`, that reach over it, or that name no place on axis `at`."""
    picked, others = network.shape(indices), [number for number in range(len(shape)) if number != at]
    if len(picked) != len(shape) or any(picked[number] > shape[number] for number in others):
        raise node.fault(
            f"indices of shape {text_of(picked)} for data of shape {text_of(shape)}; expected the same rank, and at "
            f"most as many on every axis but {at}."
        )
    known = network.value(indices)
    if known is not None:
        _check_range(node, known, shape[at])


def gather_nd(node: Node, network: Reading) -> None:
    """The last axis of the indices holds a place on each of the first axes of the data."""
    data, indices = node.inputs[:2]
    batch = node.integer("batch_dims", 0)
    data, indices = flat_places(node, network, data, indices, batch=batch)
    pick(node, network, data, indices, batch, node.target, batch=batch)


def flat_places(node: Node, network: Reading, data: str, indices: str, *, batch: int = 0) -> tuple[str, str]:
    """Data with the axes that tuples of indices name merged into one, axis `batch`, and the tuples as places on it."""
    shape, tuples = network.shape(data), network.shape(indices)
    named = tuples[-1] if tuples else 0
    if not (0 <= batch < len(tuples) and tuples[:batch] == shape[:batch] and 1 <= named <= len(shape) - batch):
        raise node.fault(
            f"indices of shape {text_of(tuples)} for data of shape {text_of(shape)}, batch_dims={batch}; expected "
            "as many indices on the last axis as they name axes, and equal extents before."
        )
    extents = shape[batch : batch + named]
    if named > 1:
        merged = (*shape[:batch], prod(extents), *shape[batch + named :])
        data = regroup(node, network, "reshape", data, merged, network.step(node, "merged"))
    return data, _flat_indices(node, network, indices, extents)


def _flat_indices(node: Node, network: Reading, indices: str, extents: tuple[int, ...]) -> str:
    """Tuples on the last axis as row-major numbers among `extents`; negative indices count from the end."""
    places = network.shape(indices)[:-1]
    known, last = network.value(indices), len(places)
    element_type = network.element_type(indices)
    if known is not None:
        for number, extent in enumerate(extents):
            _check_range(node, known[..., number], extent)
        sizes = np.asarray(extents)
        strides = np.asarray([prod(extents[number + 1 :]) for number in range(len(extents))])
        flat = (np.where(known < 0, known + sizes, known) * strides).sum(axis=-1).astype(element_type)
        return network.new_constant(node, "places", flat)
    if len(extents) == 1:
        return regroup(node, network, "reshape", indices, places, network.step(node, "places"))

    strides = np.asarray([prod(extents[number + 1 :]) for number in range(len(extents))], element_type)
    # Valid indices only: the remainder counts negative ones from the end, and its range is known.
    sizes = network.new_constant(node, "extents", np.asarray(extents, element_type))
    x = apply(node, network, "mod", (indices, sizes), network.step(node, "indices"), attributes=(("fmod", 0),))
    strides = network.new_constant(node, "strides", strides)
    x = apply(node, network, "mul", (x, strides), network.step(node, "scaled"))
    return reduce_axes(node, network, "reduce_sum", x, (last,), network.step(node, "places"), keep=False)


def wrapped(node: Node, network: Reading, indices: str, extents: tuple[int, ...]) -> str:
    """Indices of which negative ones count from the end of `extents`, which broadcast to them, as positive ones."""
    element_type = network.element_type(indices)
    sizes = network.new_constant(node, "extents", np.asarray(extents, element_type))
    zero = network.new_constant(node, "zero", np.zeros((), element_type))
    negative = apply(node, network, "less", (indices, zero), network.step(node, "negative"), element_type=BOOL)
    shifted = apply(node, network, "add", (indices, sizes), network.step(node, "from_the_end"))
    target = network.step(node, "indices")
    return apply(node, network, "where", (negative, shifted, indices), target, element_type=element_type)


def _check_range(node: Node, indices: np.ndarray, size: int) -> None:
    if indices.size and not -size <= indices.min() <= indices.max() < size:
        raise node.fault(f"indices from {indices.min()} to {indices.max()} leave the {size} rows of the operand.")


def _even_spacing(indices: np.ndarray, size: int) -> tuple[int, int] | None:
    """Start and (non-zero) step of constant indices in row-major order, or None where they are not evenly spaced."""
    found = [int(index) % size for index in indices.ravel()]
    if not found:
        return None
    step = found[1] - found[0] if len(found) > 1 else 1
    return (found[0], step) if step and found == [found[0] + step * i for i in range(len(found))] else None
