"""Arrays seen through an access: one numpy axis per loop dim, without a copy."""

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tilestitch.ir.graph import Access
from tilestitch.ir.region import Region


def by_dims(array: np.ndarray, access: Access, box: Region, origin: tuple[int, ...]) -> np.ndarray:
    """The elements of `array` that the iterations in `box` touch, as an array with one axis per dim of the nest.

    `array[0, ..., 0]` is the element with tensor index `origin`; the hull of `access` over `box` must lie inside the
    array. A dim that does not move the access has extent 1, so operands broadcast. The result is a strided view:
    writing through it is safe only where the access is one-to-one, which `ir.verify` checks for every write.
    """
    shape, strides = [1] * len(box.start), [0] * len(box.start)
    start = 0
    for axis, first, stride in zip(access.axes, origin, array.strides, strict=True):
        start += (axis.offset - first) * stride
        for dim, factor in axis.terms:
            start += factor * box.start[dim] * stride
            shape[dim] = box.stop[dim] - box.start[dim]
            strides[dim] += factor * stride
    flat = array.reshape(-1) if array.flags.c_contiguous else None
    if flat is not None and array.size:
        return as_strided(flat[start // array.itemsize :], tuple(shape), tuple(strides))
    index = _index_of(start, array)
    return as_strided(array[index], tuple(shape), tuple(strides))


def _index_of(offset_bytes: int, array: np.ndarray) -> tuple[slice, ...]:
    """The slices at whose origin an element `offset_bytes` into a (non-contiguous) array lies."""
    index = [0] * array.ndim
    for axis in sorted(range(array.ndim), key=lambda a: -array.strides[a]):
        if array.strides[axis] > 0 and array.shape[axis] > 1:
            index[axis], offset_bytes = divmod(offset_bytes, array.strides[axis])
    return tuple(slice(i, None) for i in index)


def padded(array: np.ndarray, region: Region, hull: Region, pad_value: float) -> np.ndarray:
    """`array`, which holds `region` of a tensor, extended by padding to `hull`; the same array where they agree."""
    if region == hull:
        return array
    out = np.full(hull.extents, pad_value, array.dtype)
    common = region.intersect(hull)
    if common is not None:
        out[common.relative_to(hull).slices] = array[common.relative_to(region).slices]
    return out
