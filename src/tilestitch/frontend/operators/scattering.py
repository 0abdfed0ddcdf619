"""ScatterElements, ScatterND and TensorScatter: a tensor with other values where another operand says."""

from math import prod

import numpy as np

from tilestitch.frontend.element_types import BOOL
from tilestitch.frontend.network import Node, Reading, Target, text_of
from tilestitch.frontend.operators.accesses import Shape, along, dims_of, straight
from tilestitch.frontend.operators.elementwise import apply
from tilestitch.frontend.operators.gathering import check_elements, flat_places, pick
from tilestitch.frontend.operators.shapes import copy, normalised_axes, regroup
from tilestitch.frontend.operators.slicing import cut, join
from tilestitch.ir.graph import Access, Dim, DimKind, Operator

_REDUCTIONS = ("none", "add", "mul", "max", "min")


def scatter_elements(node: Node, network: Reading) -> None:
    """Each update goes to its own place along all axes but one; on that one an index names the place."""
    data, indices, updates = node.inputs[:3]
    shape, picked = network.shape(data), network.shape(indices)
    (at,) = normalised_axes(node, (node.integer("axis", 0),), len(shape))
    reduction = _reduction(node)
    check_elements(node, network, indices, shape, at)
    if network.shape(updates) != picked:
        raise node.fault(f"indices of shape {text_of(picked)} and updates of shape {text_of(network.shape(updates))}.")
    reached = tuple(shape[i] if i == at else size for i, size in enumerate(picked))
    if reached == shape:
        _scatter(node, network, data, indices, updates, at, reduction, node.target)
        return
    part = data
    for number, extent in enumerate(reached):
        if extent < shape[number]:
            part = cut(node, network, part, number, 0, extent, network.step(node, "reached"))
    part = _scatter(node, network, part, indices, updates, at, reduction, network.step(node, "scattered"))
    paste(node, network, data, part, (0,) * len(shape), network.last_step(node, "joined"))


def scatter_nd(node: Node, network: Reading) -> None:
    """The last axis of the indices holds a place on each of the first axes of the data.

    Constant places that are a box of the data, in order, are a concatenation; others are picked from data and updates
    one behind the other.
    """
    data, indices, updates = node.inputs[:3]
    shape, tuples = network.shape(data), network.shape(indices)
    reduction, known = _reduction(node), network.value(indices)
    rest = shape[tuples[-1] :] if tuples else ()
    if network.shape(updates) != (*tuples[:-1], *rest):
        raise node.fault(
            f"data of shape {text_of(shape)}, indices of shape {text_of(tuples)} and updates of shape "
            f"{text_of(network.shape(updates))}; expected updates of shape {text_of((*tuples[:-1], *rest))}."
        )
    flat, places = flat_places(node, network, data, indices)
    box = None if known is None or reduction != "none" else _box(known, shape)
    if box is not None:
        start, extents = box
        part = regroup(node, network, "reshape", updates, (*extents, *rest), network.step(node, "box"))
        paste(node, network, data, part, (*start, *(0,) * len(rest)), network.last_step(node, "joined"))
        return
    rows, count = network.shape(flat)[0], prod(tuples[:-1])
    updates = regroup(node, network, "reshape", updates, (count, *rest), network.step(node, "rows"))
    places = regroup(node, network, "reshape", places, (count,), network.step(node, "row_numbers"))
    steps = ["scattered"] + (["split"] if network.shape(flat) != shape else [])
    targets = [network.step(node, name) for name in steps[:-1]] + [network.last_step(node, steps[-1])]
    known = network.value(places)
    if known is not None and reduction == "none":
        network.afford(node, rows)
        sources = np.arange(rows)
        sources[known] = rows + np.arange(count)
        both = join(node, network, (flat, updates), 0, network.step(node, "rows.both"))
        sources = network.new_constant(node, "sources", sources)
        x = pick(node, network, both, sources, 0, targets.pop(0))
    else:
        x = _scatter_rows(node, network, flat, places, updates, reduction, targets.pop(0))
    if targets:
        regroup(node, network, "reshape", x, shape, targets.pop(0))


def tensor_scatter(node: Node, network: Reading) -> None:
    """A cache [N, ..., tokens, ...] with new tokens of each sample from its own place on."""
    past, update = node.inputs[:2]
    shape, new = network.shape(past), network.shape(update)
    (at,) = normalised_axes(node, (node.integer("axis", -2),), len(shape))
    mode = node.text("mode", "linear")
    if mode not in ("linear", "circular"):
        raise node.fault(f"attribute mode={mode!r}: expected linear or circular.")
    circular = mode == "circular"
    count, size = new[at], shape[at]
    if at == 0 or new[:at] + new[at + 1 :] != shape[:at] + shape[at + 1 :] or count > size:
        raise node.fault(
            f"cache of shape {text_of(shape)} and update of shape {text_of(new)}; expected the same but for at most "
            f"as many tokens on axis {at}, which is not the first."
        )
    starts = node.operand(2)
    if starts is None:
        starts = network.new_constant(node, "starts", np.zeros(shape[0], np.int64))
    if network.shape(starts) != shape[:1]:
        raise node.fault(f"write_indices of shape {text_of(network.shape(starts))}; expected [{shape[0]}].")
    known = network.value(starts)
    if known is not None and known.min() == known.max() and 0 <= known[0] <= size - count:
        start = tuple(int(known[0]) if number == at else 0 for number in range(len(shape)))
        paste(node, network, past, update, start, node.target)
        return

    element_type = network.element_type(starts)
    network.afford(node, size)

    def constant(name: str, value: object) -> str:
        return network.new_constant(node, name, np.asarray(value, element_type))

    def compared(kind: str, x: str, bound: str, step: str) -> str:
        return apply(node, network, kind, (x, bound), network.step(node, step), element_type=BOOL)

    first = regroup(node, network, "reshape", starts, (shape[0], 1), network.step(node, "first"))
    x = apply(node, network, "sub", (constant("tokens", np.arange(size)), first), network.step(node, "age"))
    zero, newest = constant("zero", 0), constant("newest", count - 1)
    if circular:
        wrapped = apply(node, network, "add", (x, constant("size", size)), network.step(node, "wrapped"))
        negative = compared("less", x, zero, "negative")
        x = apply(node, network, "where", (negative, wrapped, x), network.step(node, "turn"), element_type=element_type)
    late, early = compared("greater_or_equal", x, zero, "late"), compared("less_or_equal", x, newest, "early")
    new_here = apply(node, network, "and", (late, early), network.step(node, "new"))
    x = apply(node, network, "min", (x, newest), network.step(node, "capped"))
    x = apply(node, network, "max", (x, zero), network.step(node, "row"))
    reads = (
        Access(update, along(*(None if number == at else number for number in range(len(shape)))), indirect_axis=at),
        Access(x, along(0, at)),
    )
    rows = network.step(node, "rows")
    op = Operator(rows.operator, "gather", dims_of(shape), reads, (straight(rows.tensor, len(shape)),))
    taken = network.emit(node, op, shape)
    spread = tuple(size if number in (0, at) else 1 for number, size in enumerate(shape))
    new_here = regroup(node, network, "reshape", new_here, spread, network.step(node, "new.spread"))
    target = network.last_step(node, "present")
    apply(node, network, "where", (new_here, taken, past), target, element_type=network.element_type(past))


def paste(node: Node, network: Reading, data: str, part: str, start: tuple[int, ...], target: Target) -> str:
    """`data` with `part` in place of the box of its shape from `start` on: a concatenation along each axis."""
    shape, box = network.shape(data), network.shape(part)
    uneven = [number for number, extent in enumerate(shape) if box[number] < extent]
    if not uneven:
        return copy(node, network, part, target)
    at = uneven[0]
    first, last = start[at], start[at] + box[at]
    if len(uneven) > 1:
        inner = cut(node, network, data, at, first, last, network.step(node, "inside"))
        start = tuple(0 if number == at else place for number, place in enumerate(start))
        part = paste(node, network, inner, part, start, network.step(node, "pasted"))
    pieces = [part]
    if first > 0:
        pieces.insert(0, cut(node, network, data, at, 0, first, network.step(node, "before")))
    if last < shape[at]:
        pieces.append(cut(node, network, data, at, last, shape[at], network.step(node, "after")))
    return join(node, network, tuple(pieces), at, target)


def _reduction(node: Node) -> str:
    found = node.text("reduction", "none")
    if found not in _REDUCTIONS:
        raise node.fault(f"attribute reduction='{found}': expected one of {', '.join(_REDUCTIONS)}.")
    return found


def _scatter(
    node: Node, network: Reading, data: str, indices: str, updates: str, at: int, reduction: str, target: Target
) -> str:
    """Data, indices and updates of one shape but for axis `at`: every place there looks at all updates."""
    shape, rank = network.shape(data), len(network.shape(data))
    dims = (*dims_of(shape), Dim("update", network.shape(indices)[at], DimKind.REDUCTION))
    moving = along(*(rank if number == at else number for number in range(rank)))
    return _emit(node, network, dims, data, Access(indices, moving), Access(updates, moving), at, reduction, target)


def _scatter_rows(
    node: Node, network: Reading, data: str, places: str, updates: str, reduction: str, target: Target
) -> str:
    """Rows of data: every row looks at all places, one number for each row of the updates."""
    shape, rank = network.shape(data), len(network.shape(data))
    dims = (*dims_of(shape), Dim("update", network.shape(places)[0], DimKind.REDUCTION))
    moved = Access(updates, along(rank, *range(1, rank)))
    return _emit(node, network, dims, data, Access(places, along(rank)), moved, 0, reduction, target)


def _emit(
    node: Node,
    network: Reading,
    dims: tuple[Dim, ...],
    data: str,
    indices: Access,
    updates: Access,
    at: int,
    reduction: str,
    target: Target,
) -> str:
    shape = network.shape(data)
    network.afford(node, shape[at])
    places = network.new_constant(node, "numbers", np.arange(shape[at], dtype=network.element_type(indices.tensor)))
    reads = (straight(data, len(shape)), indices, updates, Access(places, along(at)))
    attributes = (("reduction", reduction), ("size", shape[at]))
    write = straight(target.tensor, len(shape))
    op = Operator(target.operator, "scatter", dims, reads, (write,), attributes)
    return network.emit(node, op, shape)


def _box(indices: np.ndarray, shape: Shape) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Start and extents of the box that constant tuples name, each place once and row-major; or None."""
    named = indices.shape[-1]
    tuples = indices.reshape(-1, named)
    tuples = np.where(tuples < 0, tuples + np.asarray(shape[:named]), tuples)
    if not tuples.size:
        return None
    start = tuples.min(axis=0)
    extents = tuples.max(axis=0) - start + 1
    if extents.prod() != len(tuples):
        return None
    expected = np.indices(tuple(extents)).reshape(named, -1).T + start
    return (tuple(map(int, start)), tuple(map(int, extents))) if np.array_equal(tuples, expected) else None
