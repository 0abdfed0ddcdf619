"""Sliding windows of convolutions and pools: padding, strides, dilations and the extents that follow."""

from dataclasses import dataclass

from tilestitch.base.units import ceil_div
from tilestitch.frontend.network import Node, text_of
from tilestitch.frontend.operators.accesses import Nest, Shape, axis
from tilestitch.ir.graph import Axis


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window along one spatial axis."""

    size: int  # of the input
    kernel: int
    stride: int
    dilation: int
    pad_begin: int
    pad_end: int
    count: int  # of positions: the extent of the output

    def axis(self, position: int, element: int) -> Axis:
        """The input index of one element of one window: `stride * position + dilation * element - pad_begin`."""
        return axis((position, self.stride), (element, self.dilation), offset=-self.pad_begin)

    def elements(self, position: int, *, count_padding: bool) -> int:
        """How many elements of the window at `position` lie in the input, or in the padded input."""
        low, high = (-self.pad_begin, self.size + self.pad_end) if count_padding else (0, self.size)
        first = self.stride * position - self.pad_begin
        before = max(0, ceil_div(low - first, self.dilation))
        return max(0, min(self.kernel, ceil_div(high - first, self.dilation)) - before)


def read_windows(node: Node, sizes: Shape, kernel: Shape) -> tuple[Window, ...]:
    """One window per spatial axis, from the attributes that convolutions and pools share."""
    rank = len(sizes)
    strides = _per_axis(node, "strides", rank)
    dilations = _per_axis(node, "dilations", rank)
    pads = node.integers("pads")
    auto_pad = node.text("auto_pad", "NOTSET")
    round_up = node.flag("ceil_mode")
    if auto_pad not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise node.fault(f"attribute auto_pad={auto_pad!r} is unknown; known: NOTSET, SAME_LOWER, SAME_UPPER, VALID.")
    if auto_pad != "NOTSET" and pads is not None and any(pads):
        raise node.fault(f"attributes auto_pad={auto_pad!r} and pads={text_of(pads)} exclude each other; keep one.")
    if pads is None:
        pads = (0,) * (2 * rank)
    if len(pads) != 2 * rank or min(pads) < 0:
        raise node.fault(f"attribute pads={text_of(pads)}: expected {2 * rank} numbers of at least 0.")
    windows = []
    for number, (size, extent, stride, dilation) in enumerate(zip(sizes, kernel, strides, dilations, strict=True)):
        begin, end = pads[number], pads[rank + number]
        span = (extent - 1) * dilation + 1
        if auto_pad.startswith("SAME"):
            count = ceil_div(size, stride)
            total = (count - 1) * stride + span - size
            if dilation > 1 or total < -1:
                raise node.fault(
                    f"attribute auto_pad={auto_pad!r} with kernel {extent}, stride {stride} and dilation {dilation} "
                    f"over {size} elements: onnxruntime does not follow the standard there; export with pads instead."
                )
            total = max(total, 0)
            begin = (total + 1) // 2 if auto_pad == "SAME_LOWER" else total // 2
            end = total - begin
        else:
            room = size + begin + end - span
            count = (ceil_div(room, stride) if round_up else room // stride) + 1
            if round_up and (count - 1) * stride >= size + begin:
                count -= 1  # a window that would begin in the padding behind the input is left out
        if count < 1:
            raise node.fault(
                f"a window of {span} elements does not fit {size} elements with padding {begin} + {end}; "
                f"expected at least {span - begin - end} elements along spatial axis {number}."
            )
        windows.append(Window(size, extent, stride, dilation, begin, end, count))
    return tuple(windows)


def spatial_loops(nest: Nest, windows: tuple[Window, ...]) -> list[int]:
    """Add a parallel dim per spatial axis: `oh` and `ow` in two dimensions, `o0`, `o1`... otherwise."""
    names = ("oh", "ow") if len(windows) == 2 else tuple(f"o{i}" for i in range(len(windows)))
    return [nest.parallel(name, window.count) for name, window in zip(names, windows, strict=True)]


def kernel_loops(nest: Nest, windows: tuple[Window, ...]) -> list[int]:
    """Add a reduction dim per spatial axis: `kh` and `kw` in two dimensions, `k0`, `k1`... otherwise."""
    names = ("kh", "kw") if len(windows) == 2 else tuple(f"k{i}" for i in range(len(windows)))
    return [nest.reduction(name, window.kernel) for name, window in zip(names, windows, strict=True)]


def _per_axis(node: Node, name: str, rank: int) -> Shape:
    found = node.integers(name)
    if found is None:
        return (1,) * rank
    if len(found) != rank or min(found) < 1:
        raise node.fault(f"attribute {name}={text_of(found)}: expected {rank} numbers of at least 1.")
    return found
