"""How exporters write in elementary operators what is one operator here: the shapes that `recognise` looks for."""

import math
from dataclasses import dataclass

import numpy as np

from tilestitch.ir.graph import Attribute


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
    """A product in any order and association with its constants collected: `mul`, and `div` by a constant."""

    coefficient: float
    factors: tuple["Pattern", ...]


@dataclass(frozen=True, slots=True)
class Either:
    """Several ways to write the same."""

    ways: tuple["Pattern", ...]


Pattern = Leaf | Number | Parameter | Apply | Product | Either


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write the operator `kind`; its operands are leaves of the pattern.

    The first operand has the shape of the result. Axes that are reduced inside the pattern are whole in the operator.
    They alone move the operands after the first; or the channels do, where all axes behind them are whole.
    """

    kind: str
    pattern: Pattern
    operands: tuple[str, ...] = ("x",)
    attributes: tuple[tuple[str, Attribute], ...] = ()


def _gelu() -> tuple[Form, ...]:
    """x/2 (1 + erf(x / sqrt 2)), and its approximation x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    x, root = Leaf("x"), math.sqrt(2 / math.pi)
    cube = Either((Product(0.044715, (Apply("pow", (x, Number(3.0))),)), Product(0.044715, (x, x, x))))
    square = Either((Product(0.044715, (Apply("pow", (x, Number(2.0))),)), Product(0.044715, (x, x))))
    inner = Either(
        (
            Product(root, (Apply("add", (x, cube)),)),
            Product(root, (x, Apply("add", (Number(1.0), square)))),
        )
    )
    curves = {"none": Apply("erf", (Product(math.sqrt(0.5), (x,)),)), "tanh": Apply("tanh", (inner,))}
    return tuple(
        Form("gelu", Product(0.5, (x, Apply("add", (Number(1.0), curve)))), attributes=(("approximate", name),))
        for name, curve in curves.items()
    )


def _hard_swish() -> tuple[Form, ...]:
    """x/6 min(max(x + 3, 0), 6), or x times a hard sigmoid of slope 1/6."""
    x = Leaf("x")
    clipped = Apply("clip", (Apply("add", (x, Number(3.0))),), (("min", 0.0), ("max", 6.0)))
    sigmoid = Apply("hard_sigmoid", (x,), (("alpha", 1 / 6), ("beta", 0.5)))
    return tuple(Form("hard_swish", pattern) for pattern in (Product(1 / 6, (x, clipped)), Product(1.0, (x, sigmoid))))


def _hard_sigmoid() -> tuple[Form, ...]:
    """min(max(x + 3, 0), 6) / 6."""
    clipped = Apply("clip", (Apply("add", (Leaf("x"), Number(3.0))),), (("min", 0.0), ("max", 6.0)))
    slope = float(str(np.float32(1 / 6)))  # as a file says it
    return (Form("hard_sigmoid", Product(1 / 6, (clipped,)), attributes=(("alpha", slope), ("beta", 0.5))),)


def _swish() -> tuple[Form, ...]:
    """x sigmoid(x), and with a slope inside; x tanh(softplus(x)) is Mish."""
    x = Leaf("x")
    return (
        Form("swish", Product(1.0, (x, Apply("sigmoid", (x,)))), attributes=(("alpha", 1.0),)),
        Form("swish", Product(1.0, (x, Apply("sigmoid", (Apply("mul", (x, Parameter("alpha"))),))))),
        Form("mish", Product(1.0, (x, Apply("tanh", (Apply("softplus", (x,)),))))),
    )


def _softmax() -> tuple[Form, ...]:
    """exp(x - max x) / sum exp(x - max x); without the maximum it overflows where ours does not, so that stays."""
    x = Leaf("x")
    exponential = Apply("exp", (Apply("sub", (x, Apply("reduce_max", (x,)))),))
    return (Form("softmax", Apply("div", (exponential, Apply("reduce_sum", (exponential,))))),)


def _layer_norm() -> tuple[Form, ...]:
    """(x - mean x) / sqrt(mean (x - mean x)^2 + epsilon), times a scale, plus a bias; the longest form first."""
    x = Leaf("x")
    centred = Apply("sub", (x, Apply("reduce_mean", (x,))))
    normal = _over_root_of_mean_square(centred)
    scaled = Apply("mul", (normal, Leaf("scale")))
    return (
        Form("layer_norm", Apply("add", (scaled, Leaf("bias"))), ("x", "scale", "bias")),
        Form("layer_norm", scaled, ("x", "scale")),
        Form("layer_norm", normal),
    )


def _rms_norm() -> tuple[Form, ...]:
    """x / sqrt(mean x^2 + epsilon), times a scale."""
    normal = _over_root_of_mean_square(Leaf("x"))
    return (Form("rms_norm", Apply("mul", (normal, Leaf("scale"))), ("x", "scale")), Form("rms_norm", normal))


def _over_root_of_mean_square(x: Pattern) -> Pattern:
    squared = Either((Apply("pow", (x, Number(2.0))), Apply("mul", (x, x))))
    raised = Apply("add", (Apply("reduce_mean", (squared,)), Parameter("epsilon")))
    root = Either((Apply("sqrt", (raised,)), Apply("pow", (raised, Number(0.5)))))
    inverse = Either(
        (
            Apply("reciprocal", (root,)),
            Apply("div", (Number(1.0), root)),
            Apply("pow", (raised, Number(-0.5))),
        )
    )
    return Either((Apply("div", (x, root)), Apply("mul", (x, inverse))))


FORMS: tuple[Form, ...] = (
    *_gelu(),
    *_hard_swish(),
    *_hard_sigmoid(),
    *_swish(),
    *_softmax(),
    *_layer_norm(),
    *_rms_norm(),
)
