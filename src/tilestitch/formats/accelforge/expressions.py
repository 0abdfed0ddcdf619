"""Numbers and sets of tensors as AccelForge's files write them: Python expressions, of which a few forms are read."""

import ast
import re
from collections.abc import Mapping
from fractions import Fraction

from tilestitch.formats.foreign_file import Part

TENSORS = ("input", "weight", "output")  # as its workloads rename the operands of a product
_MOST = 10**30


def number(part: Part, bits: Mapping[str, int], *, prefix: str = "") -> Fraction | None:
    """The value of an expression of numbers; nothing for `inf`. `bits` are those of a value of each tensor."""
    text = prefix + part.text("a number")
    if text == "inf":
        return None
    try:
        found = _value(ast.parse(text, mode="eval").body, bits)
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError, RecursionError) as error:
        reason = str(error) if isinstance(error, LookupError | ValueError) else "not such an expression"
        part.refuse(f"expected a number made with + - * / and parentheses, found {text[:60]!r}: {reason}"[:200])
    if abs(found) > _MOST:
        part.expected("a number up to 1e30")
    return found


def _value(node: ast.expr, bits: Mapping[str, int]) -> Fraction:
    match node:
        case ast.Constant(value=int() | float()):
            return Fraction(repr(node.value))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, bits)
        case ast.BinOp(left=left, op=op, right=right):
            return _joined(op, _value(left, bits), _value(right, bits))
        case ast.Attribute(value=ast.Name(id=name), attr="bits_per_value") if name in bits:
            return Fraction(bits[name])
        case ast.Attribute(value=ast.Name(id=name), attr="bits_per_value") if name in TENSORS:
            raise ValueError(f"the layers do not agree on the bits of {name}")
        case ast.IfExp(test=ast.Name(id=name), body=body) if name in TENSORS:
            return _value(body, bits)  # a product has all three
        case _:
            raise ValueError(f"{ast.unparse(node)[:40]!r} is none")


def _joined(op: ast.operator, left: Fraction, right: Fraction) -> Fraction:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            return left / right
        case _:
            raise ValueError("another operator")


def tensors(part: Part, held: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The tensors of an expression such as `input | output` or `~Main.tensors`; `held` are those of memories."""
    text = part.text("tensors")
    try:
        return _set(ast.parse(re.sub(r"\.tensors\b", "", text), mode="eval").body, held)
    except (SyntaxError, ValueError, RecursionError):
        known = ", ".join((*TENSORS, "All", "Nothing", "Inputs", "Outputs", "Intermediates", *held))
        part.refuse(f"expected some of {known}, joined by | & and ~; found {text[:60]!r}")


def _set(node: ast.expr, held: Mapping[str, frozenset[str]]) -> frozenset[str]:
    every = frozenset(TENSORS)
    named = {
        "All": every,
        "Nothing": frozenset[str](),
        "Intermediates": frozenset[str](),
        "Inputs": frozenset(("input", "weight")),
        "Outputs": frozenset(("output",)),
        **{name: frozenset((name,)) for name in TENSORS},
        **held,
    }
    match node:
        case ast.Name(id=name) if name in named:
            return named[name]
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return every - _set(operand, held)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _set(left, held) | _set(right, held)
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            return _set(left, held) & _set(right, held)
        case _:
            raise ValueError
