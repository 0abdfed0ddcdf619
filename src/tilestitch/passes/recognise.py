"""Functions that exporters write in elementary operators become one operator again: the one that a native import gives.

`FORMS` says how each function is written; the rest of this file finds those shapes in a network. A found shape is
replaced only where nobody else reads what lies inside it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations

from tilestitch.ir.graph import Access, Attribute, Axis, Dim, DimKind, Graph, Operator
from tilestitch.passes.fold import drop_unused

_TOLERANCE = 1e-4  # relative; files say 1.4142 for the root of 2


@dataclass(frozen=True, slots=True)
class Leaf:
    """Any tensor; the same one wherever the name recurs."""

    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """A constant of one element with about this value."""

    value: float


@dataclass(frozen=True, slots=True)
class Parameter:
    """A constant of one element, whose value becomes an attribute."""

    name: str


@dataclass(frozen=True, slots=True)
class Apply:
    """The result of one operator; `add` and `mul` take their operands in either order."""

    kind: str
    operands: tuple["Pattern", ...]
    attributes: tuple[tuple[str, float], ...] = ()  # that the operator must have, about equal


@dataclass(frozen=True, slots=True)
class Product:
    """A product in any order and association, its constants collected: `mul`, and `div` by a constant."""

    coefficient: float
    factors: tuple["Pattern", ...]


@dataclass(frozen=True, slots=True)
class Either:
    """The first of several ways to write the same that is there."""

    ways: tuple["Pattern", ...]


Pattern = Leaf | Number | Parameter | Apply | Product | Either


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write the operator `kind`, whose operands are the leaves of `pattern` in the order of `operands`.

    The first operand has the shape of the result. The other operands, and the axes that reductions inside the pattern
    combine (`whole` in the new operator), are those of its last axes alone where `normalises`.
    """

    kind: str
    pattern: Pattern
    operands: tuple[str, ...]
    attributes: tuple[tuple[str, Attribute], ...] = ()


def _gelu_forms() -> tuple[Form, ...]:
    """x/2 (1 + erf(x / sqrt 2)), and its approximation x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    x = Leaf("x")
    erf = Apply("erf", (Product(math.sqrt(0.5), (x,)),))
    cube = Either((Apply("pow", (x, Number(3.0))), Product(1.0, (x, x, x))))
    root = math.sqrt(2 / math.pi)
    inner = Either(
        (
            Product(root, (Apply("add", (x, Product(0.044715, (cube,)))),)),
            Product(root, (Apply("add", (x, Product(0.044715, (x, x, x)))),)),
            Product(root, (x, Apply("add", (Number(1.0), Product(0.044715, (x, x)))))),
        )
    )
    tanh = Apply("tanh", (inner,))
    return tuple(
        Form("gelu", Product(0.5, (x, Apply("add", (sigmoid, Number(1.0))))), ("x",), (("approximate", name),))
        for name, sigmoid in (("none", erf), ("tanh", tanh))
    )
