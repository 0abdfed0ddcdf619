"""Operators on quantised tensors: integers that stand for `(value - zero point) * scale`.

What multiplies integers becomes a product of integers with exact sums, then a `dequantize` and a `quantize`;
`passes.quantised` makes one operator of the three.
"""

from collections.abc import Sequence

import numpy as np

from tilestitch.base.storage import STORAGE
from tilestitch.base.units import ceil_div
from tilestitch.frontend.element_types import known_types, numpy_type, type_name
from tilestitch.frontend.network import Node, Reading, Target, text_of
from tilestitch.frontend.operators.accesses import Nest, Shape, along, axis, dims_of, straight
from tilestitch.frontend.operators.convolution import ConvolutionOperands, convolve
from tilestitch.frontend.operators.elementwise import apply
from tilestitch.frontend.operators.products import multiply
from tilestitch.ir.graph import Access, Attribute, Axis, Dim, Operator
from tilestitch.ops.conversion import FORMATS

_INT32 = np.dtype(np.int32)
_UINT8 = np.dtype(np.uint8)


def quantise(node: Node, network: Reading) -> None:
    """QuantizeLinear, to the type of the zero point, or that which an attribute names, or else uint8."""
    number = node.integer("output_dtype", 0)
    node.ignore("precision")  # of the quotient: all arithmetic is float32
    zero = node.operand(2)
    named = numpy_type(number) if number else None
    if number and (named is None or named not in STORAGE):
        raise node.not_covered(f"attribute output_dtype={type_name(number)}; supported: {known_types()}.")
    to = _UINT8 if zero is None and named is None else named if zero is None else network.element_type(zero)
    assert to is not None
    if named is not None and named != to:
        raise node.fault(f"attribute output_dtype={type_name(number)}, but the zero point is of {to}; expected one.")
    attributes: tuple[tuple[str, Attribute], ...] = (("to", str(STORAGE[to])),)
    saturate = node.flag("saturate", default=True)
    if STORAGE[to] in FORMATS:
        attributes += (("saturate", int(saturate)),)
    _scaled(node, network, "quantize", to, attributes)


def dequantise(node: Node, network: Reading) -> None:
    """DequantizeLinear, to the type of the scale, or that which an attribute names."""
    number = node.integer("output_dtype", 0)
    named = numpy_type(number) if number else network.element_type(node.inputs[1])
    if named is None or named not in STORAGE:
        raise node.not_covered(f"attribute output_dtype={type_name(number)}; supported: {known_types()}.")
    _scaled(node, network, "dequantize", named, ())


def _scaled(
    node: Node, network: Reading, kind: str, to: np.dtype, attributes: tuple[tuple[str, Attribute], ...]
) -> None:
    """An operator on X with a scale and a zero point for all of it, for each index of an axis, or for each block."""
    x = node.inputs[0]
    shape = network.shape(x)
    given, block = node.integer("axis", 1), node.integer("block_size", 0)
    parameters = [name for name in (node.operand(1), node.operand(2)) if name is not None]
    known = _known_steps(network, parameters)
    if known:
        parameters, attributes = [], attributes + known
    along_axis = given + len(shape) if given < 0 else given
    whole = all(network.shape(name) in ((), (1,)) for name in parameters)
    if not whole and not 0 <= along_axis < len(shape):
        raise node.fault(f"attribute axis={given} with an operand of shape {text_of(shape)}; there is no such axis.")
    if block < 0:
        raise node.fault(f"attribute block_size={block}; expected at least 0.")
    if not whole and block:
        dims, moving, per_block = _blocks(node, shape, along_axis, block)
    else:
        dims, moving, per_block = dims_of(shape), along(*range(len(shape))), ()
    reads = [Access(x, moving)]
    for name in parameters:
        found = network.shape(name)
        if found in ((), (1,)):
            axes = along(*(None for _ in found))
        elif per_block and found == tuple(size for size, _ in per_block):
            axes = tuple(way for _, way in per_block)
        elif not block and found == (shape[along_axis],):
            axes = (moving[along_axis],)
        else:
            wanted = f"[] or {text_of(tuple(size for size, _ in per_block) or (shape[along_axis],))}"
            raise node.fault(f"operand '{name}' has shape {text_of(found)}; expected {wanted}.")
        reads.append(Access(network.exact(node, name), axes))
    write = Access(node.outputs[0], moving)
    op = Operator(node.name, kind, dims, tuple(reads), (write,), attributes)
    network.emit(node, op, shape, element_type=to)


def _known_steps(network: Reading, parameters: Sequence[str]) -> tuple[tuple[str, Attribute], ...]:
    """Scale and zero point as attributes, if both are known and one number each."""
    values = [network.value(name) for name in parameters]
    if any(value is None or value.size != 1 for value in values):
        return ()
    scale, zero = [*(float(np.float32(value.reshape(()))) for value in values if value is not None), 0.0][:2]
    return (("scale", scale), ("zero", int(zero) if zero.is_integer() else zero))


def _blocks(
    node: Node, shape: Shape, along_axis: int, block: int
) -> tuple[tuple[Dim, ...], tuple[Axis, ...], tuple[tuple[int, Axis], ...]]:
    """Loops with one axis cut into blocks, the index of X, and per axis of the scales their extent and index."""
    if shape[along_axis] % block:
        raise node.not_covered(
            f"attribute block_size={block} does not divide the {shape[along_axis]} elements of axis {along_axis}."
        )
    nest, moving, per_block = Nest(), [], []
    for number, extent in enumerate(shape):
        if number != along_axis:
            moving.append(axis((nest.parallel(f"d{number}", extent), 1)))
            per_block.append((extent, moving[-1]))
            continue
        outer = nest.parallel(f"d{number}", ceil_div(extent, block))
        inner = nest.parallel(f"d{number}.block", block)
        moving.append(axis((outer, block), (inner, 1)))
        per_block.append((ceil_div(extent, block), axis((outer, 1))))
    return nest.dims, tuple(moving), tuple(per_block)


def integer_product(node: Node, network: Reading) -> None:
    """MatMulInteger: int32 sums of products of two matrices less their zero points."""
    _integer_product(node, network, (node.inputs[0], node.operand(2)), (node.inputs[1], node.operand(3)), node.target)


def integer_convolution(node: Node, network: Reading) -> None:
    """ConvInteger: likewise of a convolution."""
    x, w = (node.inputs[0], node.operand(2)), (node.inputs[1], node.operand(3))
    _integer_convolution(node, network, x, w, None, node.target)


def quantised_product(node: Node, network: Reading) -> None:
    """QLinearMatMul: quantised operands, quantised result."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.inputs
    total = _integer_product(node, network, (a, a_zero), (b, b_zero), network.step(node, "sums"))
    _requantised(node, network, total, _product_of_scales(node, network, a_scale, b_scale), y_scale, y_zero, axis=None)


def quantised_convolution(node: Node, network: Reading) -> None:
    """QLinearConv: likewise of a convolution, with a scale for each output channel and an int32 bias."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = node.inputs[:8]
    total = _integer_convolution(node, network, (x, x_zero), (w, w_zero), node.operand(8), network.step(node, "sums"))
    _requantised(node, network, total, _product_of_scales(node, network, x_scale, w_scale), y_scale, y_zero, axis=1)


Quantised = tuple[str, str | None]  # a tensor and its zero point


def _integer_product(node: Node, network: Reading, a: Quantised, b: Quantised, target: Target) -> str:
    """A vector of zero points has one for each row of A, or for each column of B."""
    a_name, a_zero = _centred(node, network, *a, len(network.shape(a[0])) - 2, "a")
    b_name, b_zero = _centred(node, network, *b, len(network.shape(b[0])) - 1, "b")
    attributes = (("zeros", (a_zero, b_zero)),)
    return multiply(node, network, a_name, b_name, target, element_type=_INT32, attributes=attributes)


def _integer_convolution(
    node: Node, network: Reading, x: Quantised, w: Quantised, bias: str | None, target: Target
) -> str:
    x_name, x_zero = _centred(node, network, *x, 1, "x")
    w_name, w_zero = _centred(node, network, *w, 0, "w")
    attributes = (("zeros", (x_zero, w_zero)),)
    given = ConvolutionOperands(x_name, w_name, bias, padding=x_zero)
    return convolve(node, network, given, target, element_type=_INT32, attributes=attributes)


def _centred(node: Node, network: Reading, name: str, zero: str | None, along_axis: int, side: str) -> tuple[str, int]:
    """An operand and the number in it that stands for zero.

    Zero points that differ, or are not known, are subtracted beforehand.
    """
    if zero is None:
        return name, 0
    known = network.value(zero)
    if known is not None and known.size and (known == known.flat[0]).all():
        return name, int(known.flat[0])
    shape, found = network.shape(name), network.shape(zero)
    if found in ((), (1,)):
        axes = along(*(None for _ in found))
    elif found == (shape[along_axis],):
        axes = along(along_axis)
    else:
        raise node.not_covered(f"zero point '{zero}' of shape {text_of(found)}; expected [] or [{shape[along_axis]}].")
    target = network.step(node, f"{side}.centred")
    reads = (straight(name, len(shape)), Access(zero, axes))
    write = straight(target.tensor, len(shape))
    wide = np.dtype(np.int16)
    op = Operator(target.operator, "sub", dims_of(shape), reads, (write,))
    return network.emit(node, op, shape, element_type=wide), 0


def _product_of_scales(node: Node, network: Reading, first: str, second: str) -> str:
    """What one unit of an integer product is worth."""
    a, b = network.value(first), network.value(second)
    if a is not None and b is not None:
        return network.new_constant(node, "factor", a.astype(np.float32) * b.astype(np.float32))
    return apply(node, network, "mul", (first, second), network.step(node, "factor"))


def _requantised(
    node: Node, network: Reading, total: str, factor: str, scale: str, zero: str, *, axis: int | None
) -> None:
    """Sums as real numbers, and those in steps of the result."""
    shape = network.shape(total)

    def step(
        kind: str,
        x: str,
        target: Target,
        parameters: Sequence[str],
        element_type: np.dtype,
        attributes: tuple[tuple[str, Attribute], ...],
    ) -> str:
        known = _known_steps(network, parameters)
        reads = [straight(x, len(shape))]
        for name in () if known else parameters:
            found = network.shape(name)
            if found not in ((), (1,)) and (axis is None or found != (shape[axis],)):
                raise node.not_covered(f"scale or zero point '{name}' of shape {text_of(found)}; expected one value.")
            axes = along(*(None for _ in found)) if found in ((), (1,)) else along(axis)
            reads.append(Access(network.exact(node, name), axes))
        write = straight(target.tensor, len(shape))
        op = Operator(target.operator, kind, dims_of(shape), tuple(reads), (write,), attributes + known)
        return network.emit(node, op, shape, element_type=element_type)

    real = step("dequantize", total, network.step(node, "real"), (factor,), np.dtype(np.float32), ())
    to = network.element_type(zero)
    last = network.last_step(node, "quantized")
    step("quantize", real, last, (scale, zero), to, (("to", str(STORAGE[to])),))
