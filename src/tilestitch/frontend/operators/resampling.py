"""Where the elements of a resized axis lie in the original one, and how much of each original element they take.

Source: ONNX operator Resize, versions 10 to 19; arithmetic in float32, as onnxruntime rounds it.
"""

from dataclasses import dataclass

import numpy as np

COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
    "tf_half_pixel_for_nn",
)
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_TIE = 1e-6  # what onnxruntime 1.31 takes for the middle between two elements; measured
_ZERO, _ONE, _HALF = np.float32(0), np.float32(1), np.float32(0.5)


@dataclass(frozen=True, slots=True)
class ResizedAxis:
    """One axis of `size` elements that becomes one of `result`; `start` and `end` of the part of it that is taken."""

    size: int
    result: int
    scale: np.float32
    start: np.float32
    end: np.float32

    @staticmethod
    def scaled(size: int, result: int, scale: float) -> "ResizedAxis":
        """All of an axis."""
        return ResizedAxis(size, result, np.float32(scale), _ZERO, _ONE)

    def positions(self, coordinates: str) -> np.ndarray:
        """The place of every element of the result among those of the axis."""
        x, last = np.arange(self.result, dtype=np.float32), np.float32(self.size - 1)
        if coordinates == "asymmetric":
            return x / self.scale
        if coordinates == "align_corners":
            length = self.scale * np.float32(self.size)  # a fraction where the scale is given
            return x * last / (length - _ONE) if self.result > 1 else np.zeros_like(x)
        if coordinates == "tf_crop_and_resize":
            if self.result == 1:
                return (_HALF * (self.start + self.end) * last).reshape(1)
            return self.start * last + x * (self.end - self.start) * last / np.float32(self.result - 1)
        if coordinates == "pytorch_half_pixel" and self.result == 1:
            return np.zeros_like(x)
        middle = (x + _HALF) / self.scale
        if coordinates == "tf_half_pixel_for_nn":
            return middle
        if coordinates == "half_pixel_symmetric":
            centre = np.float32(self.size) * _HALF
            lost = _ONE - np.float32(self.result) / (self.scale * np.float32(self.size))
            return centre * lost + middle - _HALF
        return middle - _HALF

    def nearest(self, coordinates: str, rounding: str) -> list[int]:
        """The number of the nearest element for every element of the result."""
        x = self.positions(coordinates)
        low, high = np.floor(x), np.ceil(x)
        if rounding == "floor":
            x = low
        elif rounding == "ceil":
            x = high
        else:
            middle = np.abs(x - low - _HALF) < _TIE
            x = np.where(middle, low if rounding == "round_prefer_floor" else high, np.floor(x + _HALF))
        return np.clip(x.astype(np.int64), 0, self.size - 1).tolist()

    def weights(self, coordinates: str, *, cubic: float | None, antialias: bool, exclude_outside: bool) -> np.ndarray:
        """[result, size]: interpolated linearly, or by cubics with the coefficient `cubic`.

        `antialias` widens the interpolation where the axis shrinks. Elements outside are those at the border, or none.
        """
        x = self.positions(coordinates).astype(np.float64)
        shrink = min(float(self.scale), 1.0) if antialias else 1.0
        reach = int(np.ceil((1 if cubic is None else 2) / shrink))
        places = np.floor(x).astype(np.int64)[:, None] + np.arange(1 - reach, reach + 1)
        distance = np.abs(places - x[:, None]) * shrink
        share = np.maximum(0, 1 - distance) if cubic is None else _cubic(distance, cubic)
        if exclude_outside:
            share = np.where((places < 0) | (places >= self.size), 0, share)
        if exclude_outside or antialias:
            share /= share.sum(axis=1, keepdims=True)
        found = np.zeros((self.result, self.size))
        rows = np.broadcast_to(np.arange(self.result)[:, None], places.shape)
        np.add.at(found, (rows, np.clip(places, 0, self.size - 1)), share)
        return found

    def outside(self, coordinates: str) -> np.ndarray:
        """Which elements of the result lie beyond the ends of the axis."""
        x = self.positions(coordinates)
        return (x < 0) | (x > self.size - 1)


def _cubic(x: np.ndarray, a: float) -> np.ndarray:
    """Source: Keys, Cubic convolution interpolation for digital image processing, 1981, equation 15 with A = a."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))
