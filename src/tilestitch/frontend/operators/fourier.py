"""DFT and STFT: products with a constant matrix of cosines and sines."""

import numpy as np

from tilestitch.frontend.network import Node, Reading, text_of
from tilestitch.frontend.operators.accesses import Nest, along, axis
from tilestitch.frontend.operators.elementwise import apply
from tilestitch.frontend.operators.shapes import normalised_axes, regroup
from tilestitch.ir.graph import Access, Operator


def fourier(node: Node, network: Reading) -> None:
    """DFT: one product of `length` places and real or complex values with all frequencies, along one axis.

    Of a signal that is longer only the first places count, one that is shorter ends in zeros.
    """
    x, shape = node.inputs[0], network.shape(node.inputs[0])
    if node.opset >= 20:
        at = int(network.scalar(node, 2, "axis")) if node.operand(2) is not None else -2
    else:
        at = node.integer("axis", 1)
    (at,) = normalised_axes(node, (at,), len(shape))
    found = f"operand of shape {text_of(shape)}, axis {at}"
    if at == len(shape) - 1 or shape[-1] not in (1, 2):
        raise node.fault(f"{found}; expected real or complex values on the last axis.")
    inverse, onesided = node.flag("inverse"), node.flag("onesided")
    real_result = inverse and onesided
    if onesided and shape[-1] != (2 if inverse else 1):
        raise node.fault(f"{found}; one side of a transform is that of a real signal.")
    length = 2 * (shape[at] - 1) if real_result else shape[at]
    if node.operand(1) is not None:
        length = int(network.scalar(node, 1, "dft_length"))
    if length < 1:
        raise node.fault(f"dft_length {length}; expected at least 1.")
    network.afford(node, 4 * length * length)
    places = length // 2 + 1 if real_result else length
    results = length // 2 + 1 if onesided and not inverse else length
    matrix = _mirrored(length) if real_result else _matrix(length, inverse=inverse)
    matrix = matrix[: min(places, shape[at]), : shape[-1], :results, : 1 if real_result else 2]

    nest = Nest()
    kept = {number: nest.parallel(f"d{number}", extent) for number, extent in enumerate(shape[:-1]) if number != at}
    k, part = nest.parallel("k", matrix.shape[2]), nest.parallel("part", matrix.shape[3])
    n, value = nest.reduction("n", matrix.shape[0]), nest.reduction("value", matrix.shape[1])
    weights = network.new_constant(node, "matrix", matrix.astype(network.element_type(x)))
    read = along(*(kept.get(number, n) for number in range(len(shape) - 1)), value)
    write = along(*(kept.get(number, k) for number in range(len(shape) - 1)), part)
    result = tuple(matrix.shape[2] if number == at else extent for number, extent in enumerate(shape[:-1]))
    reads = (Access(x, read), Access(weights, along(n, value, k, part)))
    write = Access(node.outputs[0], write)
    op = Operator(node.name, "matmul", nest.dims, reads, (write,))
    network.emit(node, op, (*result, matrix.shape[3]))


def short_time_fourier(node: Node, network: Reading) -> None:
    """STFT: the transform of every frame of a signal [batch, samples, 1 or 2], each `step` samples after the last.

    The window is part of the matrix, so that a frame is read where it lies.
    """
    x, shape = node.inputs[0], network.shape(node.inputs[0])
    step = int(network.scalar(node, 1, "frame_step"))
    window = node.operand(2)
    length = shape[1] if len(shape) == 3 else 0
    if window is not None:
        length = network.shape(window)[0]
    if node.operand(3) is not None:
        length = int(network.scalar(node, 3, "frame_length"))
    onesided = node.flag("onesided", default=True)
    if len(shape) != 3 or shape[2] not in (1, 2) or not 1 <= length <= shape[1] or step < 1:
        raise node.fault(
            f"signal of shape {text_of(shape)}, frames of {length} samples every {step}; expected "
            "[batch, samples, 1 or 2], and frames that fit."
        )
    if window is not None and network.shape(window) != (length,):
        raise node.fault(f"window of shape {text_of(network.shape(window))} for frames of {length} samples.")
    if onesided and shape[2] == 2:
        raise node.fault(f"signal of shape {text_of(shape)}: the transform of complex values has two sides.")
    network.afford(node, 4 * length * length)
    matrix = _matrix(length, inverse=False)[:, : shape[2], : length // 2 + 1 if onesided else length]
    weights = network.new_constant(node, "matrix", matrix.astype(network.element_type(x)))
    if window is not None:
        column = regroup(node, network, "reshape", window, (length, 1, 1, 1), network.step(node, "window"))
        weights = apply(node, network, "mul", (weights, column), network.step(node, "windowed"))

    nest = Nest()
    frames = (shape[1] - length) // step + 1
    b, f = nest.parallel("b", shape[0]), nest.parallel("frame", frames)
    k, part = nest.parallel("k", matrix.shape[2]), nest.parallel("part", 2)
    n, value = nest.reduction("n", length), nest.reduction("value", shape[2])
    read = Access(x, (*along(b), axis((f, step), (n, 1)), *along(value)))
    reads = (read, Access(weights, along(n, value, k, part)))
    write = Access(node.outputs[0], along(b, f, k, part))
    result = (shape[0], frames, matrix.shape[2], 2)
    op = Operator(node.name, "matmul", nest.dims, reads, (write,))
    network.emit(node, op, result)


def _matrix(length: int, *, inverse: bool) -> np.ndarray:
    """The transform as a real matrix [place, real or imaginary in, frequency, real or imaginary out]."""
    angle = 2 * np.pi * np.outer(np.arange(length), np.arange(length)) / length
    cos, sin = np.cos(angle), np.sin(angle) * (1 if inverse else -1)
    found = np.stack((np.stack((cos, sin), axis=-1), np.stack((-sin, cos), axis=-1)), axis=1)
    return found / length if inverse else found


def _mirrored(length: int) -> np.ndarray:
    """Of the inverse transform, the frequencies up to the middle, which count for their mirror images as well."""
    half = length // 2 + 1
    counts = np.full(half, 2.0)
    counts[0] = 1
    if length % 2 == 0:
        counts[-1] = 1
    return _matrix(length, inverse=True)[:half] * counts.reshape(-1, 1, 1, 1)
