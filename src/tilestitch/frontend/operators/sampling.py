"""Images seen at computed coordinates: AffineGrid, GridSample, RoiAlign and DeformConv.

What is seen is fetched element by element (a gather) and added up by shares; numbers of elements and shares come from
one operator, because coordinates that are stored between operators would be rounded.
"""

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np

from tilestitch.frontend.element_types import INT64
from tilestitch.frontend.network import Node, Reading, Target, text_of
from tilestitch.frontend.operators.accesses import FIXED, Nest, Shape, along, axis
from tilestitch.frontend.operators.elementwise import apply
from tilestitch.frontend.operators.reductions import reduce_axes
from tilestitch.frontend.operators.shapes import permute, regroup
from tilestitch.ir.graph import Access, Attribute, Axis, Dim, Operator

_TAPS = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}  # along one axis, from the element below
_MODES = {"bilinear": "linear", "bicubic": "cubic"}  # before opset 20
_PADDINGS = ("zeros", "border", "reflection")


def affine_grid(node: Node, network: Reading) -> None:
    """Places in [-1, 1] that matrices [N, r, r + 1] send the elements of an image to: a product with its own places."""
    theta = node.inputs[0]
    shape, size = network.shape(theta), network.integers(node, 1, "size")
    sizes = size[2:]
    rank = len(sizes)
    if rank not in (2, 3) or shape != (size[0], rank, rank + 1) or min(size) < 1:
        raise node.fault(
            f"theta of shape {text_of(shape)}, size={text_of(size)}; expected [N, 2, 3] and [N, C, H, W], or "
            "[N, 3, 4] and [N, C, D, H, W]."
        )
    network.afford(node, (rank + 1) * prod(sizes))
    places = _own_places(sizes, align_corners=node.flag("align_corners"))
    base = network.new_constant(node, "places", places.astype(network.element_type(theta)))
    nest = Nest()
    n = nest.parallel("n", size[0])
    spatial = [nest.parallel(f"d{number}", extent) for number, extent in enumerate(sizes)]
    i = nest.parallel("i", rank)
    k = nest.reduction("k", rank + 1)
    reads = (Access(theta, along(n, i, k)), Access(base, along(*spatial, k)))
    write = Access(node.outputs[0], along(n, *spatial, i))
    op = Operator(node.name, "matmul", nest.dims, reads, (write,))
    network.emit(node, op, (size[0], *sizes, rank))


def _own_places(sizes: Shape, *, align_corners: bool) -> np.ndarray:
    """[..., r + 1]: the place of every element between -1 and 1, the last axis first, and a 1."""
    along_axes = []
    for extent in sizes:
        if align_corners:
            along_axes.append(np.linspace(1.0, -1.0, extent)[::-1])  # the only element lies at 1, as in onnxruntime
        else:
            along_axes.append((2 * np.arange(extent) + 1) / extent - 1)
    found = np.meshgrid(*along_axes, indexing="ij")
    return np.stack([*found[::-1], np.ones(sizes)], axis=-1)


def grid_sample(node: Node, network: Reading) -> None:
    """X [N, C, ...] at the coordinates in [-1, 1] that a grid [N, ..., r] holds, those of the last axis first."""
    x, grid = node.inputs
    shape, places = network.shape(x), network.shape(grid)
    mode = node.text("mode", "linear" if node.opset >= 20 else "bilinear")
    mode, padding = _MODES.get(mode, mode), node.text("padding_mode", "zeros")
    rank, sizes = len(shape) - 2, shape[2:]
    if mode not in _TAPS or padding not in _PADDINGS:
        raise node.fault(
            f"mode={mode!r}, padding_mode={padding!r}; known are {', '.join(_TAPS)} and {', '.join(_PADDINGS)}."
        )
    if rank < 1 or len(places) != len(shape) or places[0] != shape[0] or places[-1] != rank:
        raise node.fault(
            f"input of shape {text_of(shape)}, grid of shape {text_of(places)}; expected a grid [N, ..., {rank}] with "
            "as many axes as the input, and its batch."
        )
    if not network.is_float(x):
        raise node.not_covered(f"operand '{x}' has elements of type {network.element_type(x)}: sums would be rounded.")
    shared = mode != "nearest" or padding == "zeros"  # else every share is 1
    nest = Nest()
    outer = [nest.parallel(f"d{number}", extent) for number, extent in enumerate(places[:-1])]
    t, taps = _tap_loop(node, network, nest, rank, _TAPS[mode])
    coordinates = [Access(grid, (*along(*outer), axis(offset=rank - 1 - number))) for number in range(rank)]
    attributes: tuple[tuple[str, Attribute], ...] = (
        ("sizes", sizes),
        ("mode", mode),
        ("padding", padding),
        ("align_corners", node.integer("align_corners", 0)),
        ("shares", int(shared)),
    )
    reads = (*coordinates, *(Access(name, along(t)) for name in taps))
    types = (INT64, network.element_type(x)) if shared else (INT64,)
    found = locate(node, network, "grid_places", nest.dims, reads, types, attributes)
    data = regroup(node, network, "reshape", x, (*shape[:2], prod(sizes)), network.step(node, "elements"))

    nest = Nest()
    n, c = nest.parallel("n", shape[0]), nest.parallel("c", shape[1])
    spatial = [nest.parallel(f"d{number}", extent) for number, extent in enumerate(places[1:-1])]
    t = nest.parallel("t", len(_TAPS[mode]) ** rank)
    table = Access(data, (*along(n, c), FIXED), indirect_axis=2)
    x = fetch_elements(node, network, nest, table, Access(found[0], along(n, *spatial, t)))
    if not shared:
        regroup(node, network, "reshape", x, (*shape[:2], *places[1:-1]), network.last_step(node, "image"))
        return
    reads = (Access(x, along(n, c, *spatial, t)), Access(found[1], along(n, *spatial, t)))
    add_up(node, network, nest, reads, along(n, c, *spatial), t, network.last_step(node, "sum"))


def _tap_loop(node: Node, network: Reading, nest: Nest, rank: int, taps: Sequence[int]) -> tuple[int, list[str]]:
    """A dim that runs over all combinations of taps, and for each axis a constant that says which tap it is."""
    combinations = np.asarray(list(product(taps, repeat=rank)), np.int64)
    names = [network.new_constant(node, f"tap{number}", combinations[:, number].copy()) for number in range(rank)]
    return nest.parallel("t", len(combinations)), names


def locate(
    node: Node,
    network: Reading,
    kind: str,
    dims: tuple[Dim, ...],
    reads: tuple[Access, ...],
    types: tuple[np.dtype, ...],
    attributes: tuple[tuple[str, Attribute], ...],
) -> tuple[str, ...]:
    """The operator that tells numbers of elements and, as a second result, their shares: one axis per dim each."""
    shape = tuple(dim.extent for dim in dims)
    name = network.fresh(f"{node.name}.places")
    tensors = tuple(network.fresh(f"{node.name}.{role}") for role, _ in zip(("numbers", "shares"), types, strict=False))
    for tensor, element_type in zip(tensors, types, strict=True):
        network.define(node, tensor, shape, element_type)
    writes = tuple(Access(tensor, along(*range(len(dims)))) for tensor in tensors)
    op = Operator(name, kind, dims, reads, writes, attributes)
    network.add(node, op)
    return tensors


def fetch_elements(node: Node, network: Reading, nest: Nest, table: Access, numbers: Access) -> str:
    """The elements that the numbers name, as a tensor with one axis per dim of the nest."""
    target = network.step(node, "fetched")
    shape = tuple(dim.extent for dim in nest.dims)
    write = Access(target.tensor, along(*range(len(shape))))
    op = Operator(target.operator, "gather", nest.dims, (table, numbers), (write,))
    return network.emit(node, op, shape)


def add_up(
    node: Node,
    network: Reading,
    nest: Nest,
    reads: tuple[Access, Access],
    written: tuple[Axis, ...],
    t: int,
    target: Target,
) -> str:
    """The sum over the taps of elements times shares."""
    dims = list(nest.dims)
    summed = Nest()
    for number, dim in enumerate(dims):
        (summed.reduction if number == t else summed.parallel)(dim.name, dim.extent)
    shape = tuple(prod(dims[d].extent for d, _ in index.terms) for index in written)
    op = Operator(target.operator, "matmul", summed.dims, reads, (Access(target.tensor, written),))
    return network.emit(node, op, shape)


def roi_align(node: Node, network: Reading) -> None:
    """Regions [R, 4] of images, each as bins of the same number; a bin is the mean or largest of samples inside it."""
    x, regions, image = node.inputs
    shape, count = network.shape(x), network.shape(regions)[:1]
    bins = (node.integer("output_height", 1), node.integer("output_width", 1))
    samples, scale, mode = node.integer("sampling_ratio", 0), node.real("spatial_scale", 1.0), node.text("mode", "avg")
    shifted = node.text("coordinate_transformation_mode", "half_pixel" if node.opset >= 16 else "output_half_pixel")
    if len(shape) != 4 or network.shape(regions) != (*count, 4) or network.shape(image) != count or min(bins) < 1:
        raise node.fault(
            f"input of shape {text_of(shape)}, rois of shape {text_of(network.shape(regions))}, batch_indices of shape "
            f"{text_of(network.shape(image))}; expected [N, C, H, W], [R, 4] and [R]."
        )
    if mode not in ("avg", "max") or shifted not in ("half_pixel", "output_half_pixel"):
        raise node.fault(f"mode={mode!r}, coordinate_transformation_mode={shifted!r} are unknown.")
    if samples < 1:
        raise node.not_covered("sampling_ratio=0: the number of samples depends on the sizes of the regions.")

    network.afford(node, 32 * samples * samples + sum(bins))  # Python's own numbers among them
    nest = Nest()
    r = nest.parallel("r", count[0])
    bin_dims = [nest.parallel(name, extent) for name, extent in zip(("h", "w"), bins, strict=True)]
    taps = np.asarray(list(product(range(samples), range(samples), (0, 1), (0, 1))), np.int64)
    t = nest.parallel("t", len(taps))
    reads = [Access(regions, (*along(r), axis(offset=number))) for number in range(4)]
    reads.append(Access(image, along(r)))
    for number, (dim, extent) in enumerate(zip(bin_dims, bins, strict=True)):
        reads.append(Access(network.new_constant(node, f"bin{number}", np.arange(extent)), along(dim)))
        for role, column in (("sample", number), ("tap", 2 + number)):
            reads.append(Access(network.new_constant(node, f"{role}{number}", taps[:, column].copy()), along(t)))
    attributes: tuple[tuple[str, Attribute], ...] = (
        ("sizes", shape[2:]),
        ("bins", bins),
        ("samples", samples),
        ("scale", scale),
        ("shift", 0.5 if shifted == "half_pixel" else 0.0),
        ("count", samples**2 if mode == "avg" else 1),
    )
    numbers, shares = locate(
        node, network, "region_places", nest.dims, tuple(reads), (INT64, network.element_type(x)), attributes
    )
    data = permute(node, network, x, (1, 0, 2, 3), network.step(node, "channels"))
    data = regroup(
        node, network, "reshape", data, (shape[1], shape[0] * prod(shape[2:])), network.step(node, "elements")
    )

    nest = Nest()
    r, c = nest.parallel("r", count[0]), nest.parallel("c", shape[1])
    bin_dims = [nest.parallel(name, extent) for name, extent in zip(("h", "w"), bins, strict=True)]
    t = nest.parallel("t", len(taps))
    table = Access(data, (*along(c), FIXED), indirect_axis=1)
    seen = fetch_elements(node, network, nest, table, Access(numbers, along(r, *bin_dims, t)))
    if mode == "avg":
        reads = (Access(seen, along(r, c, *bin_dims, t)), Access(shares, along(r, *bin_dims, t)))
        add_up(node, network, nest, reads, along(r, c, *bin_dims), t, network.last_step(node, "mean"))
        return
    full = (count[0], 1, *bins, len(taps))
    shares = regroup(node, network, "reshape", shares, full, network.step(node, "shares.apart"))
    weighted = apply(node, network, "mul", (seen, shares), network.step(node, "weighted"))
    reduce_axes(node, network, "reduce_max", weighted, (4,), network.last_step(node, "largest"), keep=False)
