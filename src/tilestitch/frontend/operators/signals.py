"""Tables of signal processing, which are known while reading: windows, and the bands of the mel scale."""

from math import isfinite

import numpy as np
from onnx import TensorProto

from tilestitch.frontend.element_types import numpy_type, type_name
from tilestitch.frontend.network import Handler, Node, Reading


def window(*weights: float) -> Handler:
    """The handler of a window: the sum of cosines of 0, 1, 2 ... turns with these weights, the odd ones subtracted."""

    def handle(node: Node, network: Reading) -> None:
        size, periodic = int(network.scalar(node, 0, "size")), node.flag("periodic", default=True)
        element_type = _result_type(node)
        if size < 0:
            raise node.fault(f"size {size}; expected at least 0.")
        network.budget.spend(8 * size, size, node.fault)
        with np.errstate(invalid="ignore"):  # a symmetric window of one element has no length
            turns = 2 * np.pi * np.arange(size) / np.float64(size if periodic else size - 1)
        values = sum((-1) ** number * weight * np.cos(number * turns) for number, weight in enumerate(weights))
        network.add_constant(node.outputs[0], np.asarray(values).astype(element_type))

    return handle


def mel_weights(node: Node, network: Reading) -> None:
    """MelWeightMatrix: a triangle of height 1 for each band, over the bins of a spectrum.

    Its corners are three neighbours of `bands + 2` points, which are spaced evenly in mel(f) = 2595 log10(1 + f / 700),
    and rounded down to bins.
    """
    bands, length, rate = (int(network.scalar(node, n, "size")) for n in range(3))
    edges = [float(network.scalar(node, n, "edge")) for n in (3, 4)]
    element_type = _result_type(node)
    if bands < 1 or length < 1 or rate < 1 or not all(isfinite(edge) and edge >= 0 for edge in edges):
        raise node.fault(
            f"{bands} bands of {length} samples at {rate} Hz, from {edges[0]} to {edges[1]} Hz; expected "
            "numbers from 1 on, and finite edges."
        )
    bins = length // 2 + 1
    network.budget.spend(8 * bins * bands, bins * bands, node.fault)
    low, high = (2595 * np.log10(1 + edge / 700) for edge in edges)
    mels = low + (high - low) / (bands + 2) * np.arange(bands + 2)
    points = ((length + 1) * (700 * (10 ** (mels / 2595) - 1)) // rate).astype(np.int64)
    if points.max() >= bins:
        raise node.fault(
            f"a band reaches bin {points.max()} of a spectrum of {bins}; expected edges up to {rate / 2} Hz."
        )
    values, places = np.zeros((bins, bands)), np.arange(bins)
    for band, (start, middle, end) in enumerate(zip(points, points[1:], points[2:], strict=False)):
        rising, falling = (start <= places) & (places <= middle), (middle <= places) & (places < end)
        values[rising, band] = (places[rising] - start) / (middle - start) if middle > start else 1
        if end > middle:
            values[falling, band] = (end - places[falling]) / (end - middle)
    network.add_constant(node.outputs[0], values.astype(element_type))


def _result_type(node: Node) -> np.dtype:
    kind = node.integer("output_datatype", TensorProto.FLOAT)
    found = numpy_type(kind)
    if found is None:
        raise node.fault(f"attribute output_datatype={kind} ({type_name(kind)}); expected a type of numbers.")
    return found
