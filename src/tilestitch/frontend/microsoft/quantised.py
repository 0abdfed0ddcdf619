"""Operators on quantised tensors: as real numbers in between, which the passes make integers of where that is exact."""

from collections.abc import Callable, Mapping

import numpy as np

from tilestitch.frontend.functions import Definition
from tilestitch.frontend.network import Node, Reading
from tilestitch.frontend.writing import Value, Writer

Rule = Callable[[Node, Reading], Definition]


def _real(write: Writer, x: str, scale: str, zero: str | None, axis: int | None = None) -> str:
    return write.op("DequantizeLinear", x, scale, zero, axis=axis)


def _steps(
    node: Node, network: Reading, write: Writer, x: str, scale: str, zero: str | None, output: int | None = 0
) -> str:
    """Real numbers in steps; without a zero point of the type of the first operand."""
    if zero is None:
        zero = write.constant(np.zeros((), network.element_type(node.inputs[0])))
    return write.op("QuantizeLinear", x, scale, zero, output=output)


def standard(op_type: str) -> Rule:
    """An operator that the standard has as well, and means the same by."""

    def rule(node: Node, network: Reading) -> Definition:
        write = Writer(node, network)
        write.op(op_type, *node.inputs, output=0, axis=node.integer("axis", 1))
        return write.finished()

    return rule


def binary(op_type: str) -> Rule:
    """QLinearAdd and QLinearMul."""

    def rule(node: Node, network: Reading) -> Definition:
        write = Writer(node, network)
        a = _real(write, node.inputs[0], node.inputs[1], node.operand(2))
        b = _real(write, node.inputs[3], node.inputs[4], node.operand(5))
        _steps(node, network, write, write.op(op_type, a, b), node.inputs[6], node.operand(7))
        return write.finished()

    return rule


def unary(op_type: str, **reals: float) -> Rule:
    """QLinearSigmoid and others of one operand; `reals` are attributes and their defaults."""

    def rule(node: Node, network: Reading) -> Definition:
        write = Writer(node, network)
        x = _real(write, node.inputs[0], node.inputs[1], node.operand(2))
        attributes = {name: node.real(name, default) for name, default in reals.items()}
        (x,) = write.ops(op_type, (x,), (None,), **attributes)
        _steps(node, network, write, x, node.inputs[3], node.operand(4))
        return write.finished()

    return rule


def softmax(node: Node, network: Reading) -> Definition:
    """QLinearSoftmax, along one axis; before opset 13 along that axis and all behind it."""
    write = Writer(node, network)
    axis, rank = node.integer("axis", -1), len(network.shape(node.inputs[0]))
    if node.integer("opset", 13) < 13 and axis not in (-1, rank - 1):
        raise node.not_covered(f"attribute axis={axis} at an opset before 13 has no rule.")
    x = _real(write, node.inputs[0], node.inputs[1], node.operand(2))
    _steps(node, network, write, write.op("Softmax", x, axis=axis), node.inputs[3], node.operand(4))
    return write.finished()


def average_pool(node: Node, network: Reading) -> Definition:
    """QLinearAveragePool, of images with their channels in axis 1 or last."""
    attributes = {name: node.integers(name) for name in ("kernel_shape", "pads", "strides")}
    flags = {name: node.integer(name, 0) for name in ("ceil_mode", "count_include_pad")}
    pad = node.text("auto_pad", "NOTSET")
    return _pool(node, network, "AveragePool", {"auto_pad": pad, **attributes, **flags})


def global_average_pool(node: Node, network: Reading) -> Definition:
    """QLinearGlobalAveragePool, likewise."""
    return _pool(node, network, "GlobalAveragePool", {})


def _pool(node: Node, network: Reading, op_type: str, attributes: Mapping[str, Value]) -> Definition:
    write = Writer(node, network)
    last, rank = node.flag("channels_last"), len(network.shape(node.inputs[0]))
    x = _real(write, node.inputs[0], node.inputs[1], node.operand(2))
    x = write.op("Transpose", x, perm=(0, rank - 1, *range(1, rank - 1))) if last else x
    (x,) = write.ops(op_type, (x,), (None,), **attributes)
    x = write.op("Transpose", x, perm=(0, *range(2, rank), 1)) if last else x
    _steps(node, network, write, x, node.inputs[3], node.operand(4))
    return write.finished()


def concat(node: Node, network: Reading) -> Definition:
    """QLinearConcat: what has the steps of the result already is not touched."""
    write = Writer(node, network)
    if len(node.inputs) % 3 != 2 or not all(node.inputs):
        raise node.fault(f"it has {len(node.inputs)} operands; expected two, and three more for each tensor.")
    scale, zero = node.inputs[:2]
    given = [node.inputs[at : at + 3] for at in range(2, len(node.inputs), 3)]
    parts = [_requantised(node, network, write, part, scale, zero) for part in given]
    write.op("Concat", *parts, output=0, axis=node.integer("axis", 0))
    return write.finished()


def where(node: Node, network: Reading) -> Definition:
    """QLinearWhere, likewise."""
    write = Writer(node, network)
    scale, zero = node.inputs[7:9]
    parts = [_requantised(node, network, write, node.inputs[at : at + 3], scale, zero) for at in (1, 4)]
    write.op("Where", node.inputs[0], *parts, output=0)
    return write.finished()


def _requantised(node: Node, network: Reading, write: Writer, part: tuple[str, ...], scale: str, zero: str) -> str:
    """A tensor with its scale and zero point in the steps of the result."""
    x, its_scale, its_zero = part
    if _same(network, its_scale, scale) and _same(network, its_zero, zero):
        return x
    return _steps(node, network, write, _real(write, x, its_scale, its_zero), scale, zero, None)


def _same(network: Reading, a: str, b: str) -> bool:
    """Whether two tensors are one, or two constants of one value."""
    first, second = network.value(a), network.value(b)
    return a == b or (first is not None and second is not None and np.array_equal(first.ravel(), second.ravel()))


def convolution(node: Node, network: Reading) -> Definition:
    """QLinearConv as in the standard, with the channels of images in axis 1 or last."""
    write = Writer(node, network)
    last, rank = node.flag("channels_last"), len(network.shape(node.inputs[0]))
    attributes = {name: node.integers(name) for name in ("kernel_shape", "pads", "strides", "dilations")}
    x = node.inputs[0]
    x = write.op("Transpose", x, perm=(0, rank - 1, *range(1, rank - 1))) if last else x
    x = write.op(
        "QLinearConv",
        *(x, *node.inputs[1:]),
        output=None if last else 0,
        auto_pad=node.text("auto_pad", "NOTSET"),
        group=node.integer("group", 1),
        **attributes,
    )
    if last:
        write.op("Transpose", x, output=0, perm=(0, *range(2, rank), 1))
    return write.finished()


def general_product(node: Node, network: Reading) -> Definition:
    """QGemm: alpha * A B + C, with C in steps of both scales' product; real numbers where Y has no scale."""
    write = Writer(node, network)
    a, a_scale, a_zero, b, b_scale, b_zero = node.inputs[:6]
    trans_a, trans_b = node.integer("transA", 0), node.integer("transB", 0)
    alpha = node.real("alpha", 1.0)
    operands = [_real(write, a, a_scale, a_zero), _real(write, b, b_scale, b_zero, 0 if trans_b else 1)]
    bias = node.operand(6)
    if bias is not None:
        scales = network.required_value(node, 1, "scale").ravel() * network.required_value(node, 4, "scale").ravel()
        factor = scales.reshape(()) if scales.size == 1 else scales
        factor = write.constant((factor * np.float32(alpha)).astype(np.float32))
        axis = len(network.shape(bias)) - 1
        operands.append(_real(write, bias, factor, None, axis if scales.size > 1 else None))
    scale = node.operand(7)
    x = write.op("Gemm", *operands, output=0 if scale is None else None, alpha=alpha, transA=trans_a, transB=trans_b)
    if scale is not None:
        _steps(node, network, write, x, scale, node.operand(8))
    return write.finished()
