"""MaxPool, AveragePool and their global forms."""

from math import prod

import numpy as np

from tilestitch.frontend.accesses import Nest, along
from tilestitch.frontend.network import Network, Node, text_of
from tilestitch.frontend.reductions import reduce_axes
from tilestitch.frontend.windows import Window, kernel_loops, read_windows, spatial_loops
from tilestitch.ir.graph import Access


def max_pool(node: Node, network: Network) -> None:
    """The largest element of each window; padding is smaller than all."""
    node.ignore("storage_order")  # of the indices
    node.refuse_outputs(1, "the indices of the largest elements")
    windows = _windows(node, network)
    x = node.inputs[0]
    lowest = float("-inf") if network.is_float(x) else float(np.iinfo(network.element_type(x)).min)
    _pool(node, network, "max_pool", windows, pad_value=lowest)


def average_pool(node: Node, network: Network) -> None:
    """The mean of each window.

    Where padding does not count, or a window hangs over the padding, a second operand holds one over the number of
    elements that count, per position.
    """
    count_padding = node.flag("count_include_pad")
    windows = _windows(node, network)
    counts = np.ones((), np.int64)
    for window in windows:
        along_axis = [window.elements(position, count_padding=count_padding) for position in range(window.count)]
        counts = np.multiply.outer(counts, np.array(along_axis))
    if counts.min() == prod(window.kernel for window in windows):
        _pool(node, network, "average_pool", windows)
        return
    share = network.new_constant(node, "share", (1 / counts).astype(np.float32))
    _pool(node, network, "average_pool", windows, share=share)


def global_average_pool(node: Node, network: Network) -> None:
    """The mean over all spatial axes."""
    _global_pool(node, network, "reduce_mean")


def global_max_pool(node: Node, network: Network) -> None:
    """The largest element over all spatial axes."""
    _global_pool(node, network, "reduce_max")


def _pool(
    node: Node,
    network: Network,
    kind: str,
    windows: tuple[Window, ...],
    *,
    pad_value: float = 0.0,
    share: str | None = None,
) -> None:
    x = node.inputs[0]
    x_shape = network.shape(x)
    nest = Nest()
    n, c = nest.parallel("n", x_shape[0]), nest.parallel("c", x_shape[1])
    positions = spatial_loops(nest, windows)
    elements = kernel_loops(nest, windows)
    touched = (window.axis(o, k) for window, o, k in zip(windows, positions, elements, strict=True))
    reads = [Access(x, (*along(n, c), *touched), pad_value)]
    if share is not None:
        reads.append(Access(share, along(*positions)))
    write = Access(node.outputs[0], along(n, c, *positions))
    shape = (*x_shape[:2], *(window.count for window in windows))
    network.emit(node, node.target, kind, nest.dims, tuple(reads), write, shape)


def _windows(node: Node, network: Network) -> tuple[Window, ...]:
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


def _global_pool(node: Node, network: Network, kind: str) -> None:
    shape = network.shape(node.inputs[0])
    if len(shape) < 3:
        raise node.fault(f"input of shape {text_of(shape)}; expected spatial axes after batch and channels.")
    reduce_axes(node, network, kind, node.inputs[0], tuple(range(2, len(shape))), node.target, keep=True)
