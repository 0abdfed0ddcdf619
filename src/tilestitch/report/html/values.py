"""What the pane of values shows: some values of each output, as the program and onnxruntime have them."""

from collections.abc import Sequence
from math import isfinite

from tilestitch.base.json_values import Json
from tilestitch.ir.samples import OutputSamples, Sample


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
