"""Arrays seen through an access: one numpy axis per loop dim, without a copy."""

from collections.abc import Mapping

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tilestitch.ir.graph import Access, Operator, Tensor
from tilestitch.ir.region import Region


def by_dims(array: np.ndarray, access: Access, box: Region, origin: tuple[int, ...]) -> np.ndarray:
    """The elements of `array` that the iterations in `box` touch, as an array with one axis per dim of the nest.

    `array[0, ..., 0]` is the element with tensor index `origin`; the hull of `access` over `box` must lie inside the
    array. A dim that does not move the access has extent 1, so operands broadcast. The result is a strided view:
    writing through it is safe only where the access is one-to-one, which `ir.verify` checks for every write.
    """
    shape, strides = [1] * len(box.start), [0] * len(box.start)
    first = []
    for axis, begin, stride in zip(access.axes, origin, array.strides, strict=True):
        index = axis.offset - begin
        for dim, factor in axis.terms:
            index += factor * box.start[dim]
            shape[dim] = box.stop[dim] - box.start[dim]
            strides[dim] += factor * stride
        first.append(slice(index, None))
    part = array[(*first, ...)]  # `...`: a view of a scalar too
    if part.dtype.kind == "f" and part.itemsize == 1:  # as_strided asks numpy for '<f1', which it does not know
        return as_strided(part.view(np.uint8), tuple(shape), tuple(strides)).view(part.dtype)
    return as_strided(part, tuple(shape), tuple(strides))


def moved(view: Operator, values: Mapping[str, np.ndarray], tensors: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """What a view writes, given the arrays that it reads."""
    written: dict[str, np.ndarray] = {}
    for read, write in zip(view.reads, view.writes, strict=True):
        source = values[read.tensor]
        if write.tensor not in written:
            written[write.tensor] = np.empty(tensors[write.tensor].shape, source.dtype)
        target = written[write.tensor]
        elements = by_dims(source, read, view.whole, (0,) * source.ndim)
        by_dims(target, write, view.whole, (0,) * target.ndim)[...] = elements
    return written


def padded(array: np.ndarray, region: Region, hull: Region, pad_value: float) -> np.ndarray:
    """`array`, which holds `region` of a tensor, extended by padding to `hull`; the same array where they agree."""
    if region == hull:
        return array
    out = np.full(hull.extents, pad_value, array.dtype)
    common = region.intersect(hull)
    if common is not None:
        out[common.relative_to(hull).slices] = array[common.relative_to(region).slices]
    return out
