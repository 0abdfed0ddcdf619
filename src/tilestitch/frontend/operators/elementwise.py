"""Element-wise operators, with numpy's broadcasting written into the accesses of their operands."""

import numpy as np

from tilestitch.frontend.element_types import BOOL
from tilestitch.frontend.network import Handler, Node, Reading, Target, text_of
from tilestitch.frontend.operators.accesses import aligned, broadcast, dims_of, straight
from tilestitch.frontend.operators.shapes import identity
from tilestitch.ir.graph import Attribute, Operator


def apply(
    node: Node,
    network: Reading,
    kind: str,
    operands: tuple[str, ...],
    target: Target,
    *,
    element_type: np.dtype | None = None,
    attributes: tuple[tuple[str, Attribute], ...] = (),
) -> str:
    """One function of elements that broadcast against one another."""
    shapes = [network.shape(name) for name in operands]
    full = broadcast(*shapes)
    if full is None:
        found = " and ".join(map(text_of, shapes))
        raise node.fault(
            f"operands of shapes {found} do not broadcast; matched from the last axis, extents must be equal or 1."
        )
    reads = tuple(aligned(name, shape, full) for name, shape in zip(operands, shapes, strict=True))
    write = straight(target.tensor, len(full))
    op = Operator(target.operator, kind, dims_of(full), reads, (write,), attributes)
    return network.emit(node, op, full, element_type=element_type)


def unary(kind: str, *reals: tuple[str, float]) -> Handler:
    """The handler of a function of one operand; `reals` are its attributes with their defaults."""

    def handle(node: Node, network: Reading) -> None:
        attributes = tuple((name, node.real(name, default)) for name, default in reals)
        apply(node, network, kind, node.inputs, node.target, attributes=attributes)

    return handle


def binary(kind: str) -> Handler:
    """The handler of a function of two operands of one type."""

    def handle(node: Node, network: Reading) -> None:
        apply(node, network, kind, node.inputs, node.target)

    return handle


def comparison(kind: str) -> Handler:
    """The handler of a comparison, whose result is boolean."""

    def handle(node: Node, network: Reading) -> None:
        apply(node, network, kind, node.inputs, node.target, element_type=BOOL)

    return handle


def variadic(kind: str) -> Handler:
    """The handler of a function of any number of operands: a chain of functions of two."""

    def handle(node: Node, network: Reading) -> None:
        if len(node.inputs) == 1:
            identity(node, network)
        elif len(node.inputs) == 2:
            apply(node, network, kind, node.inputs, node.target)
        else:
            x = _chain(node, network, kind, node.inputs[:-1])
            apply(node, network, kind, (x, node.inputs[-1]), network.last_step(node, str(len(node.inputs) - 1)))

    return handle


def _chain(node: Node, network: Reading, kind: str, operands: tuple[str, ...]) -> str:
    """A function of two applied to the first two operands, then to the result and the third, and so on."""
    x = operands[0]
    for number, operand in enumerate(operands[1:], start=1):
        x = apply(node, network, kind, (x, operand), network.step(node, str(number)))
    return x


def mean(node: Node, network: Reading) -> None:
    """The sum of any number of operands times one over their number."""
    if len(node.inputs) == 1:
        identity(node, network)
        return
    x = _chain(node, network, "add", node.inputs)
    share = network.new_constant(node, "share", np.asarray(1 / len(node.inputs), network.element_type(x)))
    apply(node, network, "mul", (x, share), network.last_step(node, "share"))


def power(node: Node, network: Reading) -> None:
    """The type of the exponent may differ from that of the base, which is that of the result."""
    apply(node, network, "pow", node.inputs, node.target)


def where(node: Node, network: Reading) -> None:
    """One of two operands, picked by a boolean."""
    element_type = network.element_type(node.inputs[1])
    apply(node, network, "where", node.inputs, node.target, element_type=element_type)


def is_nan(node: Node, network: Reading) -> None:
    apply(node, network, "is_nan", node.inputs, node.target, element_type=BOOL)


def is_inf(node: Node, network: Reading) -> None:
    """Infinities of either sign, or of one."""
    attributes = tuple((name, node.integer(name, 1)) for name in ("detect_negative", "detect_positive"))
    apply(node, network, "is_inf", node.inputs, node.target, element_type=BOOL, attributes=attributes)


def gelu(node: Node, network: Reading) -> None:
    """Exact, or the approximation through tanh."""
    approximate = node.text("approximate", "none")
    if approximate not in ("none", "tanh"):
        raise node.fault(f"attribute approximate={approximate!r}: expected none or tanh.")
    attributes = (("approximate", approximate),)
    apply(node, network, "gelu", node.inputs, node.target, attributes=attributes)


def clip(node: Node, network: Reading) -> None:
    """Bounds are attributes before opset 11, operands since.

    Floating operands with constant bounds are one operator. Integers, which a float32 bound could round, and bounds
    that are computed become a maximum and a minimum.
    """
    if node.opset < 11:
        bounds = (node.real("min", -np.inf), node.real("max", np.inf))
    else:
        bounds = tuple(_bound(node, network, number, default) for number, default in ((1, -np.inf), (2, np.inf)))
    if network.is_float(node.inputs[0]) and not any(isinstance(bound, str) for bound in bounds):
        attributes = tuple(zip(("min", "max"), bounds, strict=True))
        apply(node, network, "clip", node.inputs[:1], node.target, attributes=attributes)
        return
    kinds = [(kind, name) for kind, name in (("max", node.operand(1)), ("min", node.operand(2))) if name is not None]
    if not kinds:
        identity(node, network)
        return
    x = node.inputs[0]
    for number, (kind, bound) in enumerate(kinds, start=1):
        last = number == len(kinds)
        target = network.last_step(node, kind) if last else network.step(node, kind)
        x = apply(node, network, kind, (x, bound), target)


def _bound(node: Node, network: Reading, number: int, default: float) -> float | str:
    """A bound of a Clip: its value, or the name of the tensor that holds it."""
    name = node.operand(number)
    if name is None:
        return default
    if not network.is_known(name):
        return name
    return float(network.scalar(node, number, "bound"))


def swiglu(node: Node, network: Reading) -> None:
    """A gate through Swish, times the other operand."""
    attributes = (("alpha", node.real("alpha", 1.0)),)
    gate = apply(node, network, "swish", node.inputs[:1], network.step(node, "gate"), attributes=attributes)
    apply(node, network, "mul", (gate, node.inputs[1]), network.last_step(node, "gated"))
