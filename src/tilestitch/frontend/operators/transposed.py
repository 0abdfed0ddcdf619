"""ConvTranspose and Col2Im: windows that add up where they overlap, seen from the result.

Element o of the result gets element i of the operand times element k of the window wherever o = stride * i + dilation *
k - pad. With a stride of s, o is written s * q + r. Each remainder r is a phase, which meets only every s-th element of
the window, k = s * j + (r + pad) mod s; what an iteration reads is then affine in q, r and j, and nothing is scattered.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tilestitch.base.units import ceil_div
from tilestitch.frontend.network import Node, Reading, text_of
from tilestitch.frontend.operators.accesses import Nest, Shape, along, axis
from tilestitch.frontend.operators.padding import surround
from tilestitch.frontend.operators.rearranging import pick
from tilestitch.frontend.operators.shapes import regroup
from tilestitch.ir.graph import Access, Axis, Operator


@dataclass(frozen=True, slots=True)
class Phases:
    """A window that is laid down at every element of one axis of the operand, taken apart by phases."""

    size: int  # of the operand
    kernel: int  # elements of the window, zeros between them included where `spread` > 1
    spread: int  # distance of the window's own elements among those
    dilation: int  # of the window as it is taken apart
    stride: int
    pad: int
    result: int

    @property
    def turned(self) -> bool:
        """Whether the halves of the phases meet the window in each other's place: (r + pad) mod s is r +- s / 2."""
        return 2 * (self.pad % self.stride) == self.stride

    @property
    def skipped(self) -> int:
        """Elements computed before the first of the result, so that the phases meet the window in an affine order."""
        return 0 if self.pad % self.stride == 0 or self.turned else self.pad

    @property
    def taps(self) -> int:
        """Elements of the window in each phase; zeros complete the last ones."""
        return ceil_div(self.kernel, self.stride)

    @property
    def rounds(self) -> int:
        """Elements of each phase."""
        return ceil_div(self.skipped + self.result, self.stride)

    @property
    def remainders(self) -> tuple[int, ...]:
        """Extents of the dims whose mixed-radix number is the phase."""
        if self.turned:
            return (2, self.stride // 2) if self.stride > 2 else (2,)
        return (self.stride,) if self.stride > 1 else ()

    def write(self, position: int, phase: Sequence[int]) -> Axis:
        """The index of the result, before what is skipped."""
        return axis((position, self.stride), *zip(phase, self._strides, strict=True))

    def read(self, position: int, phase: Sequence[int], tap: int) -> Axis:
        """The index of the operand."""
        if self.turned:
            return axis((position, 1), (phase[0], 1), (tap, -self.dilation), offset=self.pad // self.stride)
        return axis((position, 1), (tap, -self.dilation), offset=(self.pad - self.skipped) // self.stride)

    def window(self, phase: Sequence[int], tap: int) -> tuple[Axis, ...]:
        """The index of the window's element, as number of the tap and one index per dim of the phase."""
        found = [axis((dim, 1)) for dim in phase]
        if self.turned:
            found[0] = axis((phase[0], -1), offset=1)
        return (axis((tap, 1)), *found)

    def element(self, phase: Sequence[int], tap: int) -> Axis:
        """The same as one number."""
        indices = self.window(phase, tap)
        terms, offset = [], 0
        for index, stride in zip(indices, (self.stride, *self._strides), strict=True):
            terms += [(dim, step * stride) for dim, step in index.terms]
            offset += index.offset * stride
        return axis(*terms, offset=offset)

    @property
    def _strides(self) -> tuple[int, ...]:
        return tuple(prod(self.remainders[number + 1 :]) for number in range(len(self.remainders)))


def read_phases(node: Node, sizes: Shape, kernel: Shape) -> tuple[Phases, ...]:
    """One per spatial axis, from the attributes of a ConvTranspose."""
    rank = len(sizes)
    strides = _per_axis(node, "strides", rank, least=1, default=1)
    dilations = _per_axis(node, "dilations", rank, least=1, default=1)
    extra = _per_axis(node, "output_padding", rank, least=0, default=0)
    pads = node.integers("pads") or (0,) * (2 * rank)
    wanted = node.integers("output_shape")
    auto_pad = node.text("auto_pad", "NOTSET")
    if auto_pad not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise node.fault(f"attribute auto_pad={auto_pad!r} is unknown; known: NOTSET, SAME_LOWER, SAME_UPPER, VALID.")
    if len(pads) != 2 * rank or min(pads) < 0:
        raise node.fault(f"attribute pads={text_of(pads)}: expected {2 * rank} numbers of at least 0.")
    if wanted is not None and len(wanted) != rank:
        wanted = wanted[-rank:]  # older exporters wrote batch and channels as well
    found = []
    for number, (size, extent, stride, dilation) in enumerate(zip(sizes, kernel, strides, dilations, strict=True)):
        full = stride * (size - 1) + extra[number] + (extent - 1) * dilation + 1
        begin, end = pads[number], pads[rank + number]
        if wanted is not None or auto_pad.startswith("SAME"):
            result = size * stride if wanted is None else wanted[number]
            total = max(0, full - result)
            begin = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
        else:
            result = full - begin - end
        if result < 1:
            raise node.fault(f"spatial axis {number} would have {result} elements; expected at least 1.")
        found.append(phases_of(size, extent, stride, dilation, begin, result))
    return tuple(found)


def phases_of(size: int, kernel: int, stride: int, dilation: int, pad: int, result: int) -> Phases:
    """Elements of a dilated window fall into phases in no affine order, so zeros between them are counted in."""
    if stride == 1 or dilation == 1:
        return Phases(size, kernel, 1, dilation, stride, pad, result)
    return Phases(size, (kernel - 1) * dilation + 1, dilation, 1, stride, pad, result)


def _per_axis(node: Node, name: str, rank: int, *, least: int, default: int) -> Shape:
    found = node.integers(name) or (default,) * rank
    if len(found) != rank or min(found) < least:
        raise node.fault(f"attribute {name}={text_of(found)}: expected {rank} numbers of at least {least}.")
    return found


def position_loops(nest: Nest, axes: Sequence[Phases]) -> tuple[list[int], list[list[int]]]:
    """Add parallel dims per spatial axis: the position within a phase, and those that say which phase."""
    names = _names(axes)
    positions = [nest.parallel(f"o{name}", phases.rounds) for name, phases in zip(names, axes, strict=True)]
    remainders = [
        [nest.parallel(f"r{name}{number or ''}", extent) for number, extent in enumerate(phases.remainders)]
        for name, phases in zip(names, axes, strict=True)
    ]
    return positions, remainders


def tap_loops(nest: Nest, axes: Sequence[Phases]) -> list[int]:
    """Add a reduction dim per spatial axis."""
    return [nest.reduction(f"k{name}", phases.taps) for name, phases in zip(_names(axes), axes, strict=True)]


def _names(axes: Sequence[Phases]) -> Sequence[str]:
    return ("h", "w") if len(axes) == 2 else tuple(f"{number}_" for number in range(len(axes)))


def _by_phase(node: Node, network: Reading, w: str, axes: Sequence[Phases]) -> str:
    """Weights [C, M, ...] with every axis of the window as taps times phases."""
    if all(phases.stride == 1 for phases in axes):
        return w
    value = network.value(w)
    if any(phases.spread > 1 for phases in axes):
        if value is None:
            raise node.not_covered(
                "stride and dilation are both above 1, and the weights are computed; expected constants."
            )
        network.afford(node, prod(value.shape[:2]) * prod(phases.kernel for phases in axes))
        spread = np.zeros((*value.shape[:2], *(phases.kernel for phases in axes)), value.dtype)
        spread[:, :, *(slice(None, None, phases.spread) for phases in axes)] = value
        w, value = network.new_constant(node, "spread", spread), spread
    shape = network.shape(w)
    full = (*shape[:2], *(phases.taps * phases.stride for phases in axes))
    if full != shape and value is not None:
        network.afford(node, prod(full))
        amounts = [(0, wanted - size) for wanted, size in zip(full, shape, strict=True)]
        w = network.new_constant(node, "padded", np.pad(value, amounts))
    elif full != shape:
        w = surround(node, network, w, (0,) * len(shape), full, 0.0, network.step(node, "padded"))
    split = [extent for phases in axes for extent in (phases.taps, *phases.remainders)]
    return regroup(node, network, "reshape", w, (*shape[:2], *split), network.step(node, "phases"))


def _emit(
    node: Node,
    network: Reading,
    kind: str,
    nest: Nest,
    reads: tuple[Access, ...],
    written: tuple[Axis, ...],
    before: Shape,
    axes: Sequence[Phases],
) -> None:
    """The operator, and behind it a slice where its phases have more elements than the result.

    It writes at `written`; `before` has the extents of the axes before the spatial ones.
    """
    whole = tuple(phases.rounds * phases.stride for phases in axes)
    result = tuple(phases.result for phases in axes)
    target = node.target if whole == result else network.step(node, "phases")
    op = Operator(target.operator, kind, nest.dims, reads, (Access(target.tensor, written),))
    x = network.emit(node, op, (*before, *whole))
    if whole != result:
        rows = [range(phases.skipped, phases.skipped + phases.result) for phases in axes]
        pick(node, network, x, [*map(range, before), *rows], network.last_step(node, "slice"))


def transposed_convolution(node: Node, network: Reading) -> None:
    """X [N, C, ...] and W [C, M/group, ...] to Y [N, M, ...], over one to three spatial axes."""
    x, w = node.inputs[:2]
    x_shape, w_shape, group = network.shape(x), network.shape(w), node.integer("group", 1)
    _check(node, x_shape, w_shape, group)
    axes = read_phases(node, x_shape[2:], w_shape[2:])
    inputs, outputs = x_shape[1] // group, w_shape[1]

    nest = Nest()
    n = nest.parallel("n", x_shape[0])
    g = nest.parallel("g", group) if group > 1 else None
    m = nest.parallel("m", outputs) if group == 1 or outputs > 1 else None
    positions, remainders = position_loops(nest, axes)
    c = nest.reduction("c", inputs) if group == 1 or inputs > 1 else None
    taps = tap_loops(nest, axes)
    loops = list(zip(axes, positions, remainders, taps, strict=True))

    in_channel, out_channel = axis((g, inputs), (c, 1)), axis((g, outputs), (m, 1))
    weights = _by_phase(node, network, w, axes)
    of_weights = (in_channel, axis((m, 1)), *(index for phases, _, r, k in loops for index in phases.window(r, k)))
    reads = [
        Access(x, (*along(n), in_channel, *(phases.read(q, r, k) for phases, q, r, k in loops))),
        Access(weights, of_weights),
    ]
    bias = node.operand(2)
    if bias is not None:
        if network.shape(bias) != (outputs * group,):
            found = text_of(network.shape(bias))
            raise node.fault(f"bias '{bias}' has shape {found}; expected [{outputs * group}], one per output channel.")
        reads.append(Access(bias, (out_channel,)))
    written = (*along(n), out_channel, *(phases.write(q, r) for phases, q, r, _ in loops))
    _emit(node, network, "conv", nest, tuple(reads), written, (x_shape[0], outputs * group), axes)


def _check(node: Node, x_shape: Shape, w_shape: Shape, group: int) -> None:
    found = f"input of shape {text_of(x_shape)}, weights of shape {text_of(w_shape)}, group={group}"
    if not 3 <= len(x_shape) <= 5 or len(w_shape) != len(x_shape):
        raise node.fault(f"{found}; expected both of one rank, from 3 to 5.")
    if group < 1 or x_shape[1] % group or x_shape[1] != w_shape[0]:
        raise node.fault(f"{found}; expected weights[0] input channels, a multiple of group.")
    kernel = node.integers("kernel_shape")
    if kernel is not None and kernel != w_shape[2:]:
        raise node.fault(f"attribute kernel_shape={text_of(kernel)}, but the weights have shape {text_of(w_shape)}.")


def columns_to_image(node: Node, network: Reading) -> None:
    """Col2Im: blocks [N, C * elements, blocks] laid over an image [N, C, ...], added up where they overlap."""
    x, shape = node.inputs[0], network.shape(node.inputs[0])
    image, block = network.integers(node, 1, "image_shape"), network.integers(node, 2, "block_shape")
    rank = len(image)
    strides = _per_axis(node, "strides", rank, least=1, default=1)
    dilations = _per_axis(node, "dilations", rank, least=1, default=1)
    pads = _per_axis(node, "pads", 2 * rank, least=0, default=0)
    counts = tuple(
        (size + pads[i] + pads[rank + i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
        for i, size in enumerate(image)
    )
    if len(shape) != 3 or len(block) != rank or shape[1] % prod(block) or shape[2] != prod(counts):
        raise node.fault(
            f"operand of shape {text_of(shape)}, image_shape={text_of(image)}, block_shape={text_of(block)}; expected "
            f"[N, C * {prod(block)}, {prod(counts)}]."
        )
    if any(stride > 1 and dilation > 1 for stride, dilation in zip(strides, dilations, strict=True)):
        raise node.not_covered("strides and dilations are both above 1 along an axis, which is not supported.")
    axes = tuple(map(phases_of, counts, block, strides, dilations, pads, image))
    before = (shape[0], shape[1] // prod(block))
    x = regroup(node, network, "reshape", x, (*before, *block, *counts), network.step(node, "blocks"))

    nest = Nest()
    leading = along(nest.parallel("n", before[0]), nest.parallel("c", before[1]))
    positions, remainders = position_loops(nest, axes)
    taps = tap_loops(nest, axes)
    loops = list(zip(axes, positions, remainders, taps, strict=True))
    elements = (phases.element(r, k) for phases, _, r, k in loops)
    touched = (phases.read(q, r, k) for phases, q, r, k in loops)
    reads = (Access(x, (*leading, *elements, *touched)),)
    written = (*leading, *(phases.write(q, r) for phases, q, r, _ in loops))
    _emit(node, network, "reduce_sum", nest, reads, written, before, axes)
