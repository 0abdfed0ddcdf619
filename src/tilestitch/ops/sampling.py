"""Where computed coordinates fall in an image: the numbers of the elements around them, and the share of each.

Every rule here writes numbers of elements (row-major over the spatial axes, always inside), and shares. Its last dim
runs over the taps, the elements around one coordinate; a constant operand says which tap is which.
"""

from collections.abc import Sequence

import numpy as np

from tilestitch.ir.graph import Operator
from tilestitch.ops.functions import real

_HALF, _ONE = np.float32(0.5), np.float32(1)
_CUBIC = np.float32(-0.75)


def _integers(op: Operator, name: str) -> tuple[int, ...]:
    found = op.attribute(name)
    assert isinstance(found, tuple)
    return tuple(int(value) for value in found)


def _combined(
    indices: Sequence[np.ndarray], shares: Sequence[np.ndarray], sizes: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """One number and one share from those along each axis."""
    place, share = np.zeros((), np.int64), np.ones((), np.float32)
    for index, part, size in zip(indices, shares, sizes, strict=True):
        place, share = place * size + index.astype(np.int64), share * part
    place, share = np.broadcast_arrays(place, share)
    return place, share


def _near(x: np.ndarray, tap: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Linearly: the element below (tap 0) or above (tap 1); outside it has no share."""
    below = np.floor(x)
    share = np.where(tap == 0, _ONE - (x - below), x - below)
    index = below + tap
    inside = (index >= 0) & (index < size)
    return np.clip(index, 0, size - 1), np.where(inside, share, np.float32(0))


def grid_places(op: Operator, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Operands: for each axis a coordinate in [-1, 1], then for each axis the tap.

    Shares that nobody needs are left out. Source: ONNX operator GridSample, versions 16 to 22.
    """
    sizes, mode, padding = _integers(op, "sizes"), op.attribute("mode"), op.attribute("padding")
    indices, shares = [], []
    for size, position, tap in zip(sizes, operands[: len(sizes)], operands[len(sizes) :], strict=True):
        low, high = np.float32(-0.5), np.float32(size - 0.5)
        x = ((position + _ONE) * np.float32(size) - _ONE) * _HALF
        if op.attribute("align_corners"):
            low, high = np.float32(0), np.float32(size - 1)
            x = (position + _ONE) * _HALF * high
        if mode == "nearest":
            x = np.rint(x)
        if padding == "border" and mode != "cubic":  # whose elements are clipped one by one
            x = np.where((x < low) | (x > high), np.clip(x, 0, size - 1), x)
        elif padding == "reflection":
            x = _reflected(x, low, high)
        below = np.floor(x)
        index, beyond = below + tap, x - below
        if mode == "nearest":
            share = np.ones_like(index)
        elif mode == "linear":
            share = _ONE - np.abs(tap - beyond)
        else:
            share = _cubic(np.abs(tap - beyond))
        if padding == "reflection":
            index = np.trunc(_reflected(index, low, high))
        elif padding == "zeros":
            share = np.where((index >= 0) & (index < size), share, np.float32(0))
        indices.append(np.clip(index, 0, size - 1))
        shares.append(share.astype(np.float32))
    return list(_combined(indices, shares, sizes))[: 2 if op.attribute("shares") else 1]


def _reflected(x: np.ndarray, low: np.float32, high: np.float32) -> np.ndarray:
    """Coordinates outside mirrored at the borders until they are inside."""
    reach = max(high - low, np.float32(1e-6))  # of one element with aligned corners it is 0
    beyond = np.where(x < low, low - x, x - high)
    turns = np.trunc(beyond / reach)
    rest = beyond - turns * reach
    from_low = (x < low) == (turns % 2 == 0)
    return np.where((x < low) | (x > high), np.where(from_low, low + rest, high - rest), x)


def _cubic(x: np.ndarray) -> np.ndarray:
    """Source: Keys, Cubic convolution interpolation for digital image processing, 1981."""
    near = ((_CUBIC + 2) * x - (_CUBIC + 3)) * x * x + _ONE
    far = ((_CUBIC * x - 5 * _CUBIC) * x + 8 * _CUBIC) * x - 4 * _CUBIC
    return np.where(x <= 1, near, np.where(x < 2, far, np.float32(0)))


def region_places(op: Operator, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Operands: x1, y1, x2, y2, image; per axis (y, x) the bin, the sample inside it, and the tap.

    Numbers run over all images. Source: ONNX operator RoiAlign, versions 10 to 22.
    """
    corners, image, settings = operands[:4], operands[4], operands[5:]
    scale, shift = real(op, "scale"), real(op, "shift")
    x1, y1, x2, y2 = (corner * scale - shift for corner in corners)
    sizes, bins = _integers(op, "sizes"), _integers(op, "bins")
    indices, shares = [image], [np.asarray(_ONE / real(op, "count"))]
    ends = ((y1, y2), (x1, x2))
    for (first, last), size, count, (which, sample, tap) in zip(
        ends, sizes, bins, (settings[:3], settings[3:]), strict=True
    ):
        length = last - first if shift else np.maximum(last - first, _ONE)
        part = length / np.float32(count)
        place = first + which * part + (sample + _HALF) * part / real(op, "samples")
        outside = (place < -1) | (place > size)
        index, share = _near(np.clip(place, 0, size - 1), tap, size)
        indices.append(index)
        shares.append(np.where(outside, np.float32(0), share))
    return list(_combined(indices, shares, (1, *sizes)))


def deformed_places(op: Operator, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Operands: per axis the coordinate that the window gives, what is added to it, and the tap; perhaps a factor.

    Source: ONNX operator DeformConv, versions 19 to 22.
    """
    sizes = _integers(op, "sizes")
    indices, shares = [], []
    for number, size in enumerate(sizes):
        given, added, tap = operands[3 * number : 3 * number + 3]
        index, share = _near(given + added, tap, size)
        indices.append(index)
        shares.append(share)
    place, share = _combined(indices, shares, sizes)
    return [place, share * operands[-1] if len(operands) > 3 * len(sizes) else share]
