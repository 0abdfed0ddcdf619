"""The int8 form of a network of the zoo, as onnxruntime quantises it."""

import logging
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

SUFFIX = "-int8"


class _Noise(CalibrationDataReader):
    """One sample of seeded noise for the only input: the range of each tensor follows from it."""

    def __init__(self, model: onnx.ModelProto) -> None:
        (value,) = model.graph.input
        shape = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
        sample = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        self._samples = iter([{value.name: sample}])

    def get_next(self) -> dict[str, np.ndarray] | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return next(self._samples, None)


def quantised(model: onnx.ModelProto) -> onnx.ModelProto:
    """Weights in int8 by channel, activations in uint8, which cuts off below zero as a ReLU does.

    Batch normalisation is in the weights. Additions add floats, and round their sum.
    """
    logging.getLogger().setLevel(logging.ERROR)  # it advises on calibration
    with tempfile.TemporaryDirectory() as folder:
        plain, folded, found = (str(Path(folder) / name) for name in ("plain.onnx", "folded.onnx", "int8.onnx"))
        onnx.save(model, plain)
        quant_pre_process(plain, folded, skip_symbolic_shape=True)
        quantize_static(
            folded,
            found,
            _Noise(model),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
        )
        return onnx.load(found)
