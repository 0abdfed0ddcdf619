"""DFT and STFT: products with constant tables of sines and cosines."""

import numpy as np

from tilestitch.frontend.accesses import Nest, along, axis
from tilestitch.frontend.network import Network, Node, text_of
from tilestitch.frontend.shapes import normalised_axes
from tilestitch.ir.graph import Access


def fourier_transform(node: Node, network: Network) -> None:
    """DFT: every element of one axis of the result is a sum over that axis of the signal.

    The last axis has real parts, and imaginary ones where there are two. A one-sided inverse takes the other half of
    the spectrum as the conjugate of the one it has, and gives real numbers.
    """
    x = node.inputs[0]
    shape = network.shape(x)
    inverse, onesided = node.flag("inverse"), node.flag("onesided")
    if node.opset < 20:
        at = node.integer("axis", 1)
    else:
        at = -2 if node.operand(2) is None else int(network.required_value(node, 2, "axis").reshape(()))
    (at,) = normalised_axes(node, (at,), len(shape))
    if len(shape) < 2 or at == len(shape) - 1 or shape[-1] not in (1, 2):
        raise node.fault(
            f"signal of shape {text_of(shape)}, axis {at}; expected real or complex parts on the last axis."
        )
    if onesided and not inverse and shape[-1] == 2:
        raise node.fault(f"signal of shape {text_of(shape)}: onesided=1 expects real numbers.")
    length = 2 * (shape[at] - 1) if onesided and inverse else shape[at]
    if node.operand(1) is not None:
        length = int(network.required_value(node, 1, "dft_length").reshape(()))
    if length < 1:
        raise node.fault(f"dft_length {length}: expected at least 1.")
    table = _inverse_real(length) if onesided and inverse else _table(length, inverse=inverse, onesided=onesided)
    table = table[: shape[at], : shape[-1]]  # a shorter signal is one with zeros behind it

    nest = Nest()
    others = [
        nest.parallel(f"b{n}", extent) if n not in (at, len(shape) - 1) else None for n, extent in enumerate(shape)
    ]
    k, c = nest.parallel("k", table.shape[2]), nest.parallel("c", table.shape[3])
    n, part = nest.reduction("n", table.shape[0]), nest.reduction("part", table.shape[1])
    read = list(along(*others))
    write = list(along(*others))
    read[at], read[-1] = axis((n, 1)), axis((part, 1))
    write[at], write[-1] = axis((k, 1)), axis((c, 1))
    weights = network.new_constant(node, "table", table.astype(network.element_type(x)))
    reads = (Access(x, tuple(read)), Access(weights, along(n, part, k, c)))
    result = [*shape[:-1], table.shape[3]]
    result[at] = table.shape[2]
    network.emit(node, node.target, "matmul", nest.dims, reads, Access(node.outputs[0], tuple(write)), tuple(result))


def short_time_fourier_transform(node: Node, network: Network) -> None:
    """STFT: [N, length, parts] to [N, frames, frequencies, 2], frames overlapping and weighted by a constant window."""
    x = node.inputs[0]
    shape = network.shape(x)
    onesided = node.flag("onesided", default=True)
    if len(shape) != 3 or shape[-1] not in (1, 2):
        raise node.fault(f"signal of shape {text_of(shape)}; expected [batch, length, 1 or 2].")
    step = int(network.required_value(node, 1, "frame_step").reshape(()))
    window = None if node.operand(2) is None else network.required_value(node, 2, "window")
    if node.operand(3) is not None:
        length = int(network.required_value(node, 3, "frame_length").reshape(()))
    elif window is not None:
        length = window.size
    else:
        raise node.fault("expected a window, or frame_length.")
    if step < 1 or not 1 <= length <= shape[1] or (window is not None and window.shape != (length,)):
        raise node.fault(
            f"frames of {length} elements, {step} apart, of {shape[1]} elements; the window must be a frame's."
        )
    table = _table(length, inverse=False, onesided=onesided)[:, : shape[-1]]
    if window is not None:
        table = table * window.astype(np.float64)[:, None, None, None]

    nest = Nest()
    b = nest.parallel("b", shape[0])
    f = nest.parallel("frame", (shape[1] - length) // step + 1)
    k, c = nest.parallel("k", table.shape[2]), nest.parallel("c", 2)
    n, part = nest.reduction("n", length), nest.reduction("part", shape[-1])
    weights = network.new_constant(node, "table", table.astype(network.element_type(x)))
    reads = (
        Access(x, (axis((b, 1)), axis((f, step), (n, 1)), axis((part, 1)))),
        Access(weights, along(n, part, k, c)),
    )
    result = (shape[0], nest.dims[f].extent, table.shape[2], 2)
    network.emit(node, node.target, "matmul", nest.dims, reads, Access(node.outputs[0], along(b, f, k, c)), result)


def _table(length: int, *, inverse: bool, onesided: bool) -> np.ndarray:
    """[n, real or imaginary part in, k, part out]: what an element of the signal adds to one of the spectrum."""
    turns = np.outer(np.arange(length), np.arange(length // 2 + 1 if onesided else length)) % length / length
    cosine, sine = _waves(turns)
    sine = sine if inverse else -sine
    table = np.stack([np.stack([cosine, sine], -1), np.stack([-sine, cosine], -1)], 1)
    return table / length if inverse else table


def _inverse_real(length: int) -> np.ndarray:
    """[k, part in, n, 1]: an element of half a spectrum stands for itself and for its conjugate in the other half."""
    rows = length // 2 + 1
    cosine, sine = _waves(np.outer(np.arange(rows), np.arange(length)) % length / length)
    times = np.where((np.arange(rows) == 0) | (2 * np.arange(rows) == length), 1.0, 2.0)[:, None] / length
    return np.stack([times * cosine, -times * sine], 1)[..., None]


def _waves(turns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine of so many turns, exact where they are 0 or 1."""
    cosine, sine = np.cos(2 * np.pi * turns), np.sin(2 * np.pi * turns)
    quarters = 4 * turns % 4
    for quarter in range(4):
        here = quarters == quarter
        cosine[here], sine[here] = ((1, 0), (0, 1), (-1, 0), (0, -1))[quarter]
    return cosine, sine
