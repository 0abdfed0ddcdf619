"""Reductions: sums, products, extremes and norms over axes, the places of extremes, and sums that run along an axis."""

import numpy as np

from tilestitch.frontend.element_types import BOOL, INT64
from tilestitch.frontend.network import Handler, Node, Reading, Target
from tilestitch.frontend.operators.accesses import along, dims_of, straight
from tilestitch.frontend.operators.elementwise import apply
from tilestitch.frontend.operators.shapes import copy, normalised_axes, regroup
from tilestitch.ir.graph import Access, Attribute, Dim, DimKind, Operator

# What these say of no elements is known; the mean of nothing is not defined.
KNOWN_OF_NOTHING = frozenset(
    {
        *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMin"),
        *("ReduceProd", "ReduceSum", "ReduceSumSquare"),
    }
)


def reduction(kind: str, *, axes_as_input_since: int, before: str | None = None, after: str | None = None) -> Handler:
    """The handler of an operator that reduces the axes it names, which came as an attribute in older opsets.

    `before` is applied to every element first (`mul` is its square), `after` to the results.
    """

    def reduce(node: Node, network: Reading) -> None:
        axes, keep = _axes(node, network, axes_as_input_since)
        x = node.inputs[0]
        if (kind == "reduce_mean" or after is not None) and not network.is_float(x):
            found = network.element_type(x)
            raise node.not_covered(f"operand '{x}' has elements of type {found}; a mean or root needs a floating type.")
        steps = ([before] if before is not None else []) + [kind] + ([after] if after is not None else [])
        targets = [node.target] if len(steps) == 1 else [network.step(node, step) for step in steps[:-1]]
        targets += [network.last_step(node, steps[-1])] if len(steps) > 1 else []
        for step, target in zip(steps, targets, strict=True):
            if step == kind:
                x = reduce_axes(node, network, kind, x, axes, target, keep=keep)
            else:
                x = apply(node, network, step, (x, x) if step == "mul" else (x,), target)

    return reduce


def _axes(node: Node, network: Reading, axes_as_input_since: int) -> tuple[tuple[int, ...], bool]:
    """The axes to reduce, which may be none, and whether they stay with extent 1."""
    keep = node.flag("keepdims", default=True)
    none_is_none = node.flag("noop_with_empty_axes")
    if node.opset < axes_as_input_since:
        axes = node.integers("axes") or ()
    else:
        axes = () if node.operand(1) is None else network.integers(node, 1, "axes")
    rank = len(network.shape(node.inputs[0]))
    axes = normalised_axes(node, axes, rank)
    return axes if axes or none_is_none else tuple(range(rank)), keep


def reduce_axes(
    node: Node,
    network: Reading,
    kind: str,
    x: str,
    axes: tuple[int, ...],
    target: Target,
    *,
    keep: bool,
    attributes: tuple[tuple[str, Attribute], ...] = (),
) -> str:
    """Combine all elements along `axes`, which stay with extent 1 or go."""
    if not axes:
        return copy(node, network, x, target)
    shape = network.shape(x)
    kept = [number for number in range(len(shape)) if keep or number not in axes]
    write = Access(target.tensor, along(*(None if number in axes else number for number in kept)))
    result = tuple(1 if number in axes else shape[number] for number in kept)
    if 0 in shape and 0 not in result:
        element_type = network.element_type(x)
        network.add_constant(target.tensor, np.full(result, _of_nothing(kind, element_type), element_type))
        return target.tensor
    dims = dims_of(shape, reduced=axes)
    reads = (straight(x, len(shape)),)
    op = Operator(target.operator, kind, dims, reads, (write,), attributes)
    return network.emit(node, op, result)


def _of_nothing(kind: str, element_type: np.dtype) -> float:
    """The element that changes nothing: of extremes an infinity, or the other end of what the type holds."""
    if kind not in ("reduce_max", "reduce_min"):
        return 1 if kind == "reduce_prod" else 0
    greatest = kind == "reduce_min"
    if element_type == BOOL:
        return greatest
    if element_type.kind in "iu":
        limits = np.iinfo(element_type)
        return limits.max if greatest else limits.min
    return np.inf if greatest else -np.inf


def log_sum_exp(node: Node, network: Reading) -> None:
    """log sum exp(x - m) + m, with m the maximum, or 0 where that is infinite."""
    axes, keep = _axes(node, network, 18)
    x = node.inputs[0]
    element_type = network.element_type(x)
    if not network.is_float(x):
        raise node.not_covered(f"operand '{x}' has elements of type {element_type}; a logarithm needs a floating type.")
    greatest = reduce_axes(node, network, "reduce_max", x, axes, network.step(node, "max"), keep=True)
    both = (("detect_negative", 1), ("detect_positive", 1))
    infinite = apply(
        node, network, "is_inf", (greatest,), network.step(node, "infinite"), element_type=BOOL, attributes=both
    )
    zero = network.new_constant(node, "zero", np.zeros((), element_type))
    shift = network.step(node, "shift")
    shift = apply(node, network, "where", (infinite, zero, greatest), shift, element_type=element_type)
    x = apply(node, network, "sub", (x, shift), network.step(node, "shifted"))
    x = apply(node, network, "exp", (x,), network.step(node, "exp"))
    x = reduce_axes(node, network, "reduce_sum", x, axes, network.step(node, "sum"), keep=True)
    x = apply(node, network, "log", (x,), network.step(node, "log"))
    result = tuple(extent for number, extent in enumerate(network.shape(x)) if keep or number not in axes)
    last = result == network.shape(x)
    x = apply(node, network, "add", (x, shift), network.last_step(node, "add") if last else network.step(node, "add"))
    if not last:
        regroup(node, network, "squeeze", x, result, network.last_step(node, "squeeze"))


def place_of(kind: str) -> Handler:
    """The handler of ArgMax and ArgMin: the place of an extreme along one axis, of several the first or the last."""

    def handle(node: Node, network: Reading) -> None:
        x, shape = node.inputs[0], network.shape(node.inputs[0])
        (at,) = normalised_axes(node, (node.integer("axis", 0),), len(shape))
        keep = node.flag("keepdims", default=True)
        kept = [number for number in range(len(shape)) if keep or number != at]
        write = Access(node.outputs[0], along(*(None if number == at else number for number in kept)))
        result = tuple(1 if number == at else shape[number] for number in kept)
        attributes = (("select_last_index", node.integer("select_last_index", 0)),)
        dims, reads = dims_of(shape, reduced=(at,)), (straight(x, len(shape)),)
        op = Operator(node.name, kind, dims, reads, (write,), attributes)
        network.emit(node, op, result, element_type=INT64)

    return handle


def cumulative(kind: str) -> Handler:
    """The handler of CumSum and CumProd: at each place of an axis the combination of all places up to it."""

    def handle(node: Node, network: Reading) -> None:
        shape = network.shape(node.inputs[0])
        (at,) = normalised_axes(node, network.integers(node, 1, "axis"), len(shape))
        attributes = (("exclusive", node.integer("exclusive", 0)), ("reverse", node.integer("reverse", 0)))
        reads, write = (straight(node.inputs[0], len(shape)),), straight(node.outputs[0], len(shape))
        op = Operator(node.name, kind, dims_of(shape, whole=(at,)), reads, (write,), attributes)
        network.emit(node, op, shape)

    return handle


def top_k(node: Node, network: Reading) -> None:
    """The k greatest or least elements along one axis, in order, and their places; ties go to the lower place."""
    x, shape = node.inputs[0], network.shape(node.inputs[0])
    (at,) = normalised_axes(node, (node.integer("axis", -1),), len(shape))
    count = int(network.scalar(node, 1, "k")) if node.opset >= 10 else node.integer("k", 0)
    largest = node.integer("largest", 1)
    node.ignore("sorted")  # unsorted is any order
    if not 1 <= count <= shape[at]:
        raise node.fault(f"k={count} of {shape[at]} elements; expected 1 to {shape[at]}.")
    dims = (*dims_of(shape, reduced=(at,)), Dim("k", count, DimKind.WHOLE))
    moved = along(*(len(shape) if number == at else number for number in range(len(shape))))
    result = (*shape[:at], count, *shape[at + 1 :])
    parts, writes = [], []
    for number, (part, element_type) in enumerate((("values", network.element_type(x)), ("indices", INT64))):
        if node.needs(number):
            network.define(node, node.outputs[number], result, element_type)
            parts.append(part)
            writes.append(Access(node.outputs[number], moved))
    attributes = (("largest", largest), ("results", " ".join(parts)))
    op = Operator(node.name, "top_k", dims, (straight(x, len(shape)),), tuple(writes), attributes)
    network.add(node, op)
