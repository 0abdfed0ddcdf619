"""Resize and Upsample: nearest elements are picked, others are sums of products with constant weights, axis by axis."""

from collections.abc import Sequence
from math import prod

import numpy as np

from tilestitch.frontend.network import Node, Reading, Target, text_of
from tilestitch.frontend.operators.accesses import Nest, axis, straight
from tilestitch.frontend.operators.elementwise import apply
from tilestitch.frontend.operators.rearranging import afford_picks, pick
from tilestitch.frontend.operators.resampling import COORDINATES, ROUNDINGS, ResizedAxis
from tilestitch.frontend.operators.shapes import normalised_axes
from tilestitch.ir.graph import Access, Operator


def resize(node: Node, network: Reading) -> None:
    """Other extents, by interpolation between elements that lie where the coordinates say."""
    old = node.opset < 11
    coordinates = node.text("coordinate_transformation_mode", "asymmetric" if old else "half_pixel")
    rounding = node.text("nearest_mode", "floor" if old else "round_prefer_floor")
    mode, outside = node.text("mode", "nearest"), node.real("extrapolation_value", 0.0)
    cubic, exclude = node.real("cubic_coeff_a", -0.75), node.flag("exclude_outside")
    antialias = node.flag("antialias")
    if coordinates not in COORDINATES or rounding not in ROUNDINGS or mode not in ("nearest", "linear", "cubic"):
        raise node.fault(
            f"mode={mode!r}, coordinate_transformation_mode={coordinates!r}, nearest_mode={rounding!r}; known are "
            f"nearest, linear and cubic; {', '.join(COORDINATES)}; {', '.join(ROUNDINGS)}."
        )
    x = node.inputs[0]
    axes = _scaled_axes(node, network, 1) if old else _resized_axes(node, network, cropped="crop" in coordinates)
    _afford(node, network, axes, weighted=mode != "nearest")
    lost = np.zeros((), np.bool_)
    if coordinates == "tf_crop_and_resize":
        network.afford(node, prod(along.result for along in axes))
        for along in axes:
            lost = np.logical_or.outer(lost, along.outside(coordinates))
    target = network.step(node, "resized") if lost.any() else node.target
    if mode == "nearest":
        pick(node, network, x, [along.nearest(coordinates, rounding) for along in axes], target)
    else:
        weights = [
            along.weights(
                coordinates,
                cubic=cubic if mode == "cubic" else None,
                antialias=antialias,
                exclude_outside=exclude,
            )
            for along in axes
        ]
        _products(node, network, x, weights, target)
    if lost.any():
        element_type = network.element_type(x)
        names = (
            network.new_constant(node, "outside", lost),
            network.new_constant(node, "extrapolation", np.asarray(outside, element_type)),
            target.tensor,
        )
        apply(node, network, "where", names, network.last_step(node, "filled"), element_type=element_type)


def upsample(node: Node, network: Reading) -> None:
    """Resize as it was called before opset 10."""
    mode = node.text("mode", "nearest")
    if mode not in ("nearest", "linear", "bilinear"):
        raise node.fault(f"attribute mode={mode!r} is unknown; known: nearest, linear.")
    axes = _scaled_axes(node, network, 1 if node.opset >= 9 else None)
    _afford(node, network, axes, weighted=mode != "nearest")
    if mode == "nearest":
        indices = [along.nearest("asymmetric", "floor") for along in axes]
        pick(node, network, node.inputs[0], indices, node.target)
        return
    weights = [along.weights("asymmetric", cubic=None, antialias=False, exclude_outside=False) for along in axes]
    _products(node, network, node.inputs[0], weights, node.target)


def _is_identity(matrix: np.ndarray) -> bool:
    return matrix.shape[0] == matrix.shape[1] and np.array_equal(matrix, np.eye(len(matrix)))


def _afford(node: Node, network: Reading, axes: Sequence[ResizedAxis], *, weighted: bool) -> None:
    """Refuse extents for which the numbers, or the weights, of elements would be too many."""
    if weighted:
        network.afford(node, sum(along.result * along.size for along in axes))
    else:
        afford_picks(node, network, sum(along.result for along in axes))


def _scaled_axes(node: Node, network: Reading, number: int | None) -> list[ResizedAxis]:
    """By an operand with one scale per axis, or an attribute."""
    shape = network.shape(node.inputs[0])
    if number is None:
        found = node.attributes.pop("scales", None)
        scales = np.asarray([] if found is None else found.floats, np.float32)
    else:
        scales = network.required_value(node, number, "scales").astype(np.float32)
    if scales.shape != (len(shape),) or not (scales > 0).all():
        raise node.fault(f"scales {scales.tolist()}: expected one above 0 for each of {len(shape)} axes.")
    return [
        ResizedAxis.scaled(size, int(scale * np.float32(size)), scale)
        for size, scale in zip(shape, scales, strict=True)
    ]


def _resized_axes(node: Node, network: Reading, *, cropped: bool) -> list[ResizedAxis]:
    """By scales or sizes of some axes, perhaps of a part of each."""
    shape = network.shape(node.inputs[0])
    named = node.integers("axes")
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    if policy not in ("stretch", "not_larger", "not_smaller"):
        raise node.fault(f"attribute keep_aspect_ratio_policy={policy!r} is unknown.")
    axes = normalised_axes(node, tuple(range(len(shape))) if named is None else named, len(shape))
    scales = sizes = None
    if node.operand(2) is not None and 0 not in network.shape(node.inputs[2]):
        scales = network.required_value(node, 2, "scales").astype(np.float32)
    if node.operand(3) is not None and 0 not in network.shape(node.inputs[3]):
        sizes = network.required_value(node, 3, "sizes")
        exported = network.exported_shapes.get(node.inputs[0], shape)
        if sizes.shape == (len(axes),):  # an axis that keeps its extent keeps it for another batch as well
            sizes = np.asarray(
                [shape[at] if size == exported[at] else size for at, size in zip(axes, sizes, strict=True)]
            )
    given = sizes if scales is None else scales
    if (scales is None) == (sizes is None) or given is None or given.shape != (len(axes),) or not (given > 0).all():
        raise node.fault(f"expected either scales or sizes, above 0, one for each of {len(axes)} axes.")
    parts = np.asarray([0] * len(axes) + [1] * len(axes), np.float32)
    if cropped and node.operand(1) is not None:
        parts = network.required_value(node, 1, "roi").astype(np.float32)
        if parts.shape != (2 * len(axes),):
            raise node.fault(f"roi {text_of(parts.shape)}: expected a start and an end for each of {len(axes)} axes.")
    if sizes is not None:
        scales = np.asarray([size / np.float32(shape[at]) for at, size in zip(axes, sizes, strict=True)], np.float32)
        results = [int(size) for size in sizes]
        if policy != "stretch":
            scale = scales.min() if policy == "not_larger" else scales.max()
            scales = np.full_like(scales, scale)
            results = [int(np.floor(scale * np.float32(shape[at]) + np.float32(0.5))) for at in axes]
    else:
        assert scales is not None
        ends = parts[len(axes) :] - parts[: len(axes)]
        results = [
            int(scale * np.float32(shape[at]) * part) for at, scale, part in zip(axes, scales, ends, strict=True)
        ]
    found = [ResizedAxis.scaled(size, size, 1.0) for size in shape]
    for number, (at, scale, result) in enumerate(zip(axes, scales, results, strict=True)):
        found[at] = ResizedAxis(shape[at], result, scale, parts[number], parts[len(axes) + number])
    return found


def _products(node: Node, network: Reading, x: str, weights: list[np.ndarray], target: Target) -> str:
    """Sums over one axis after another, those first that shrink the most."""
    if not network.is_float(x):
        raise node.not_covered(f"operand '{x}' has elements of type {network.element_type(x)}: sums would be rounded.")
    moved = [at for at, matrix in enumerate(weights) if not _is_identity(matrix)]
    moved.sort(key=lambda at: weights[at].shape[0] / weights[at].shape[1])
    if not moved:
        return pick(node, network, x, [range(matrix.shape[1]) for matrix in weights], target)
    for at in moved:
        step = target if at == moved[-1] else network.step(node, f"axis{at}")
        x = _along(node, network, x, at, weights[at], step)
    return x


def _along(node: Node, network: Reading, x: str, at: int, weights: np.ndarray, target: Target) -> str:
    """`y[..., o, ...] = sum over i of weights[o, i] * x[..., i, ...]`."""
    shape = network.shape(x)
    matrix = network.new_constant(node, f"weights{at}", weights.astype(network.element_type(x)))
    nest = Nest()
    result = (*shape[:at], weights.shape[0], *shape[at + 1 :])
    dims = [nest.parallel(f"d{number}", extent) for number, extent in enumerate(result)]
    summed = nest.reduction("k", shape[at])
    read = Access(x, tuple(axis((summed if number == at else dim, 1)) for number, dim in enumerate(dims)))
    reads = (read, Access(matrix, (axis((dims[at], 1)), axis((summed, 1)))))
    op = Operator(target.operator, "matmul", nest.dims, reads, (straight(target.tensor, len(result)),))
    return network.emit(node, op, result)
