"""Products of integers: bytes that tensor cores multiply, exact sums in int32, and what becomes of complete sums.

Of operands that stand for `a - za` and `b - zb` the sum of products is taken of the bytes themselves, and corrected by
the sums of rows and columns: sum (a - za)(b - zb) = sum ab - za sum b - zb sum a + k za zb. Unsigned bytes are shifted
by 128 first, and so are their zero points, since tensor cores take signed ones here.
"""

import math
from collections.abc import Sequence

from tilestitch.backends.triton import functions
from tilestitch.backends.triton.code import Value
from tilestitch.backends.triton.index import Index
from tilestitch.backends.triton.values import Emitter, Frame
from tilestitch.base.dtypes import DType
from tilestitch.ir.graph import Operator

BYTES = frozenset((DType.INT8, DType.UINT8))
_SHIFT = 128  # of unsigned bytes, to signed ones


def are_bytes(e: Emitter, op: Operator) -> bool:
    """Whether both operands of a product are bytes, which tensor cores multiply."""
    return all(e.graph.tensors[access.tensor].dtype in BYTES for access in op.reads[:2])


def zeros(op: Operator) -> tuple[int, int]:
    """The integers that stand for zero in both operands of a product."""
    found = op.attribute("zeros", (0, 0))
    assert isinstance(found, tuple)
    return int(found[0]), int(found[1])


def shifted_zeros(e: Emitter, op: Operator) -> tuple[int, int]:
    """The same after unsigned operands were shifted."""
    first, second = (
        zero - (_SHIFT if e.graph.tensors[access.tensor].dtype is DType.UINT8 else 0)
        for zero, access in zip(zeros(op), op.reads, strict=False)
    )
    return first, second


def signed(e: Emitter, value: Value, tensor: str) -> Value:
    """A block of bytes as signed ones."""
    if e.graph.tensors[tensor].dtype is not DType.UINT8:
        return value
    name = e.code.let(f"{value.name}_signed", f"({value.name}.to(tl.int32) - {_SHIFT}).to(tl.int8)", value.depth)
    return Value(name, "int", value.axes, value.depth)


def correct(e: Emitter, op: Operator, acc: str, blocks: tuple[str, str], swapped: bool) -> None:
    """Take what zero points add from sums of products of two blocks, whose lanes beyond the sum are zero.

    `blocks` are rows and columns of the product; `swapped` says that the rows are those of the second operand.
    """
    first, second = shifted_zeros(e, op)
    of_rows, of_columns = (second, first) if swapped else (first, second)
    for block, axis, zero in ((blocks[1], 0, of_rows), (blocks[0], 1, of_columns)):
        if zero:
            e.code.line(f"{acc} -= tl.sum({block}.to(tl.int32), axis={axis}, keep_dims=True) * {zero}")


def complete(e: Emitter, op: Operator, acc: str, terms: int) -> str:
    """The sums with what both zero points add together, which is the same for all."""
    first, second = shifted_zeros(e, op)
    constant = terms * first * second
    return e.code.let("acc_complete", f"{acc} + {constant}") if constant else acc


def finished(e: Emitter, op: Operator, dims: Sequence[Index], frame: Frame, result: Value) -> Value:
    """What becomes of a complete sum: corrected, rescaled and quantised where the operator says so, and with its bias.

    As `ops.contraction.finished`, of which this is the same in Triton.
    """
    others = [e.operand(access, dims, frame) for access in op.reads[2:]]
    depth = max([result.depth, *(each.depth for each in others)])
    axes = result.axes.union(*(each.axes for each in others))
    text, kind = result.name, result.kind
    if op.attribute("corrected", 0):
        zero, sums, *others = others
        text = e.code.let("corrected", f"{text} - {zero.name} * {sums.name}", depth)
    if not op.attribute("rescaled", 0):
        if others:
            text = e.code.let(op.outputs[0], f"{text} + {others[0].name}", depth)
        return Value(text, kind, axes, depth)
    if op.attribute("factor", "") == "":
        factor, *others = others
        scaled = factor.name
    else:
        scaled = _number(op, "factor")
    text = e.code.let("rescaled", f"{text}.to(tl.float32) * {scaled}", depth)
    if others:
        text = e.code.let("with_bias", f"{text} + {others[0].name}", depth)
    for name, function, none in (("low", "tl.maximum", -math.inf), ("high", "tl.minimum", math.inf)):
        if op.attribute(name, none) != none:
            text = e.code.let("clipped", f"{function}({text}, {_number(op, name)})", depth)
    to = str(op.attribute("to", ""))
    if not to:
        return Value(text, "float", axes, depth)
    written = functions.quantised(text, _number(op, "scale"), str(op.attribute("zero", 0)), DType(to))
    return Value(e.code.let(op.outputs[0], written, depth), "int", axes, depth)


def _number(op: Operator, name: str) -> str:
    value = op.attribute(name)
    assert isinstance(value, int | float), (op.name, name)
    return functions.number(value)
