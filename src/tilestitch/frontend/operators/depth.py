"""DepthToSpace and SpaceToDepth: blocks of an image become channels, and back."""

from tilestitch.frontend.network import Node, Reading, text_of
from tilestitch.frontend.operators.accesses import Nest, along, axis
from tilestitch.ir.graph import Access, Operator


def depth_to_space(node: Node, network: Reading) -> None:
    """[N, C * b * b, H, W] to [N, C, H * b, W * b]."""
    _rearrange(node, network, to_space=True)


def space_to_depth(node: Node, network: Reading) -> None:
    """[N, C, H * b, W * b] to [N, C * b * b, H, W]."""
    _rearrange(node, network, to_space=False)


def _rearrange(node: Node, network: Reading, *, to_space: bool) -> None:
    """One view; in mode DCR the place in the block is the outer part of the deep channel, in mode CRD the inner."""
    shape, size = network.shape(node.inputs[0]), node.integer("blocksize", 0)
    mode = node.text("mode", "DCR")
    fits = len(shape) == 4 and size > 0
    if fits:
        fits = shape[1] % size**2 == 0 if to_space else shape[2] % size == shape[3] % size == 0
    if not fits or mode not in ("DCR", "CRD"):
        raise node.fault(
            f"operand of shape {text_of(shape)}, blocksize={size}, mode={mode!r}; expected [N, C, H, W] with "
            f"{'channels that are a multiple of the square' if to_space else 'an image that is a multiple'} of the "
            "blocksize, and DCR or CRD."
        )
    channels = shape[1] // size**2 if to_space else shape[1]
    height, width = shape[2:] if to_space else (shape[2] // size, shape[3] // size)
    nest = Nest()
    n, c, row, column, y, x = (
        nest.parallel(name, extent)
        for name, extent in zip(
            ("n", "c", "bh", "bw", "h", "w"), (shape[0], channels, size, size, height, width), strict=True
        )
    )
    if mode == "DCR":
        channel = axis((row, size * channels), (column, channels), (c, 1))
    else:
        channel = axis((c, size**2), (row, size), (column, 1))
    deep = (*along(n), channel, *along(y, x))
    wide = (*along(n, c), axis((y, size), (row, 1)), axis((x, size), (column, 1)))
    read, written = (deep, wide) if to_space else (wide, deep)
    result = (
        (shape[0], channels, height * size, width * size) if to_space else (shape[0], channels * size**2, height, width)
    )
    write = Access(node.outputs[0], written)
    op = Operator(node.name, "rearrange", nest.dims, (Access(node.inputs[0], read),), (write,))
    network.emit(node, op, result)
