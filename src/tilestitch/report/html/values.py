"""What the pane of values shows: some values of outputs and of results, as the program and onnxruntime have them."""

from collections.abc import Sequence
from math import isfinite

from tilestitch.base.json_values import Json
from tilestitch.ir.samples import OutputSamples, Sample, TensorSamples


def values(samples: Sequence[OutputSamples]) -> list[Json]:
    """Each output at each precision; none where nothing was verified."""
    return [
        {
            "output": one.output,
            "precision": one.precision,
            "dtype": one.dtype,
            "shape": list(one.shape),
            "values": one.values,
            "corner": list(one.corner),
            "first": [_row(sample) for sample in one.first],
            "worst": [_row(sample) for sample in one.worst],
            "spread": [_row(sample) for sample in one.spread],
        }
        for one in samples
    ]


def _row(sample: Sample) -> Json:
    """Place, values of both, bound and share; what is no finite number as text."""
    numbers = (sample.found, sample.expected, sample.bound, sample.share)
    return [list(sample.place), *(value if isfinite(value) else str(value) for value in numbers), sample.decided]


def passed_on(samples: Sequence[TensorSamples]) -> list[Json]:
    """Tiles of results between operators, at each precision; what is no finite number as text."""
    return [
        {
            "tensor": one.tensor,
            "precision": one.precision,
            "dtype": one.dtype,
            "shape": list(one.shape),
            "tiles": [
                {
                    "start": list(tile.start),
                    "stop": list(tile.stop),
                    "found": _numbers(tile.found),
                    "expected": _numbers(tile.expected),
                    "bound": _numbers(tile.bound),
                    "written_by": list(tile.written_by),
                }
                for tile in one.tiles
            ],
        }
        for one in samples
    ]


def _numbers(values: Sequence[float]) -> list[Json]:
    return [value if isfinite(value) else str(value) for value in values]
