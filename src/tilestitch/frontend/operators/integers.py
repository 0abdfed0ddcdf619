"""Operators on the bits of integers, and remainders."""

from tilestitch.frontend.network import Node, Reading
from tilestitch.frontend.operators.elementwise import apply
from tilestitch.ir.graph import Attribute


def modulo(node: Node, network: Reading) -> None:
    """The remainder, of the sign of the divisor, or with `fmod` of that of the dividend."""
    attributes = (("fmod", node.integer("fmod", 0)),)
    apply(node, network, "mod", node.inputs, node.target, attributes=attributes)


def invert(node: Node, network: Reading) -> None:
    """BitwiseNot."""
    apply(node, network, "bit_not", node.inputs, node.target, attributes=_bits(node, network))


def shift(node: Node, network: Reading) -> None:
    """BitShift: what leaves the type is lost."""
    direction = node.text("direction", "")
    if direction not in ("LEFT", "RIGHT"):
        raise node.fault(f"attribute direction='{direction}': expected LEFT or RIGHT.")
    attributes = (("direction", direction), *_bits(node, network))
    apply(node, network, "bit_shift", node.inputs, node.target, attributes=attributes)


def _bits(node: Node, network: Reading) -> tuple[tuple[str, Attribute], ...]:
    """How many bits an unsigned type keeps; a signed one holds any 64-bit result that fits it."""
    element_type = network.element_type(node.inputs[0])
    return (("bits", 8 * element_type.itemsize if element_type.kind == "u" else 64),)
