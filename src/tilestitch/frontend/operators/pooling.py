"""MaxPool, AveragePool, LpPool and their global forms."""

from dataclasses import replace
from math import prod

import numpy as np

from tilestitch.frontend.element_types import INT64
from tilestitch.frontend.network import Node, Reading, Target, text_of
from tilestitch.frontend.operators.accesses import Nest, along
from tilestitch.frontend.operators.reductions import reduce_axes
from tilestitch.frontend.operators.windows import Window, kernel_loops, read_windows, spatial_loops
from tilestitch.ir.graph import Access, Attribute, Operator


def max_pool(node: Node, network: Reading) -> None:
    """The largest element of each window, and its place where somebody asks; padding is smaller than all."""
    column_major = node.flag("storage_order")
    windows = _windows(node, network)
    x = node.inputs[0]
    lowest = float("-inf") if network.is_float(x) else float(np.iinfo(network.element_type(x)).min)
    if node.needs(0):
        _pool(node, network, "max_pool", windows, node.target, pad_value=lowest)
    if node.needs(1):
        target = Target(network.fresh(f"{node.name}.indices"), node.outputs[1])
        _places(node, network, windows, target, lowest, column_major=column_major)


def _places(
    node: Node,
    network: Reading,
    windows: tuple[Window, ...],
    target: Target,
    lowest: float,
    *,
    column_major: bool,
) -> None:
    """The number of each window's largest element among all elements, the spatial axes in either order."""
    batch, channels, *sizes = network.shape(node.inputs[0])
    padded = (window.pad_begin + window.size + window.pad_end for window in windows)
    network.afford(node, prod(padded) + batch * channels)
    numbers = np.arange(prod(sizes), dtype=np.int64)
    numbers = numbers.reshape(sizes[::-1]).T if column_major else numbers.reshape(sizes)
    for number, window in enumerate(windows):  # padding is never the largest, so its number does not matter
        reach = window.stride * (window.count - 1) + window.dilation * (window.kernel - 1) + 1
        after = max(0, reach - window.pad_begin - window.size)
        amounts = [(window.pad_begin, after) if at == number else (0, 0) for at in range(len(sizes))]
        numbers = np.pad(numbers, amounts)
    first = np.arange(batch * channels).reshape(batch, channels) * prod(sizes)
    places = network.new_constant(node, "places", numbers), network.new_constant(node, "first", first)
    _pool(node, network, "place_of_largest", windows, target, pad_value=lowest, places=places)


def lp_pool(node: Node, network: Reading) -> None:
    """The root of the sum of powers of each window; padding is 0."""
    p = _power(node)
    _pool(node, network, "lp_pool", _windows(node, network), node.target, attributes=(("p", p),))


def global_lp_pool(node: Node, network: Reading) -> None:
    """The root of the sum of powers over all spatial axes."""
    p, axes = _power(node), _spatial(node, network)
    reduce_axes(node, network, "lp_pool", node.inputs[0], axes, node.target, keep=True, attributes=(("p", p),))


def _power(node: Node) -> int:
    p = node.integer("p", 2)
    if p < 1:
        raise node.fault(f"attribute p={p}: expected at least 1.")
    return p


def average_pool(node: Node, network: Reading) -> None:
    """The mean of each window.

    Where padding does not count, or a window hangs over the padding, a second operand holds one over the number of
    elements that count, per position.
    """
    count_padding = node.flag("count_include_pad")
    windows = _windows(node, network)
    network.afford(node, prod(window.count for window in windows) + 32 * sum(window.count for window in windows))
    counts = np.ones((), np.int64)
    for window in windows:
        along_axis = [window.elements(position, count_padding=count_padding) for position in range(window.count)]
        counts = np.multiply.outer(counts, np.array(along_axis))
    if counts.min() == prod(window.kernel for window in windows):
        _pool(node, network, "average_pool", windows, node.target)
        return
    share = network.new_constant(node, "share", (1 / counts).astype(np.float32))
    _pool(node, network, "average_pool", windows, node.target, share=share)


def global_average_pool(node: Node, network: Reading) -> None:
    """The mean over all spatial axes."""
    _global_pool(node, network, "reduce_mean")


def global_max_pool(node: Node, network: Reading) -> None:
    """The largest element over all spatial axes."""
    _global_pool(node, network, "reduce_max")


def _pool(
    node: Node,
    network: Reading,
    kind: str,
    windows: tuple[Window, ...],
    target: Target,
    *,
    pad_value: float = 0.0,
    share: str | None = None,
    places: tuple[str, str] | None = None,
    attributes: tuple[tuple[str, Attribute], ...] = (),
) -> None:
    """`share` has one number per position; `places` one per element with its padding, and one per channel."""
    x = node.inputs[0]
    x_shape = network.shape(x)
    nest = Nest()
    n, c = nest.parallel("n", x_shape[0]), nest.parallel("c", x_shape[1])
    positions = spatial_loops(nest, windows)
    elements = kernel_loops(nest, windows)
    touched = [window.axis(o, k) for window, o, k in zip(windows, positions, elements, strict=True)]
    reads = [Access(x, (*along(n, c), *touched), pad_value)]
    if share is not None:
        reads.append(Access(share, along(*positions)))
    if places is not None:
        padded = (replace(index, offset=0) for index in touched)
        reads += [Access(places[0], tuple(padded)), Access(places[1], along(n, c))]
    write = Access(target.tensor, along(n, c, *positions))
    shape = (*x_shape[:2], *(window.count for window in windows))
    element_type = None if places is None else INT64
    op = Operator(target.operator, kind, nest.dims, tuple(reads), (write,), attributes)
    network.emit(node, op, shape, element_type=element_type)


def _windows(node: Node, network: Reading) -> tuple[Window, ...]:
    shape, kernel = network.shape(node.inputs[0]), node.integers("kernel_shape") or ()
    if not 3 <= len(shape) <= 5 or len(kernel) != len(shape) - 2 or min(kernel) < 1:
        raise node.fault(
            f"input of shape {text_of(shape)}, kernel_shape={text_of(kernel)}; expected one to three spatial axes "
            "after batch and channels, and a kernel extent of at least 1 for each."
        )
    windows = read_windows(node, shape[2:], kernel)
    for number, window in enumerate(windows):
        if not all(window.elements(position, count_padding=False) for position in (0, window.count - 1)):
            raise node.fault(
                f"a window along spatial axis {number} lies wholly in padding ({window.pad_begin} + {window.pad_end} "
                f"elements); expected padding shorter than the kernel of {window.kernel}."
            )
    return windows


def _global_pool(node: Node, network: Reading, kind: str) -> None:
    reduce_axes(node, network, kind, node.inputs[0], _spatial(node, network), node.target, keep=True)


def _spatial(node: Node, network: Reading) -> tuple[int, ...]:
    """The axes after batch and channels."""
    shape = network.shape(node.inputs[0])
    if len(shape) < 3:
        raise node.fault(f"input of shape {text_of(shape)}; expected spatial axes after batch and channels.")
    return tuple(range(2, len(shape)))
