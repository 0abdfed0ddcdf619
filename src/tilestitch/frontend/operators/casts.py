"""Cast, CastLike and BitCast: the same elements in another type."""

import numpy as np

from tilestitch.base.dtypes import DType
from tilestitch.base.storage import STORAGE
from tilestitch.frontend.element_types import known_types, numpy_type, type_name
from tilestitch.frontend.network import Node, Reading
from tilestitch.frontend.operators.elementwise import apply
from tilestitch.frontend.operators.shapes import copy
from tilestitch.ir.graph import Attribute
from tilestitch.ops.conversion import FORMATS

_ROUND_MODES = ("up", "down", "nearest")


def cast(node: Node, network: Reading) -> None:
    """To the element type that an attribute names."""
    _convert(node, network, _wanted(node))


def cast_like(node: Node, network: Reading) -> None:
    """To the element type of the second operand, of which nothing else is read."""
    _convert(node, network, network.element_type(node.inputs[1]))


def bit_cast(node: Node, network: Reading) -> None:
    """The same bits as another type of the same width; those of 64 bits are stored in less, so they have no bits."""
    x, wanted = node.inputs[0], _wanted(node)
    found = network.element_type(x)
    types = f"from {found} to {wanted}"
    if found.itemsize != wanted.itemsize:
        raise node.fault(f"{types}; expected types of the same width.")
    if found.itemsize == 8 or STORAGE[found].bits < 8 or STORAGE[wanted].bits < 8:
        raise node.fault(f"{types} is not supported; types of 8, 16 and 32 bits are.")
    attributes = (("from", found.name), ("to", wanted.name))
    apply(node, network, "bit_cast", (x,), node.target, element_type=wanted, attributes=attributes)


def _wanted(node: Node) -> np.dtype:
    number = node.integer("to", 0)
    wanted = numpy_type(number)
    if wanted is None or wanted not in STORAGE:
        raise node.not_covered(f"attribute to={type_name(number)} is not supported; supported: {known_types()}.")
    return wanted


def _convert(node: Node, network: Reading, wanted: np.dtype) -> None:
    """Types that are stored alike are one."""
    saturate, round_mode = node.flag("saturate", default=True), node.text("round_mode", "up")
    if round_mode not in _ROUND_MODES:
        raise node.fault(f"attribute round_mode={round_mode!r}; expected one of {', '.join(_ROUND_MODES)}.")
    x, to = node.inputs[0], STORAGE[wanted]
    if to == STORAGE.get(network.element_type(x)):
        copy(node, network, x, node.target, element_type=wanted)
        return
    attributes: tuple[tuple[str, Attribute], ...] = (("to", str(to)),)
    if to is DType.FLOAT8E8M0:
        attributes += (("saturate", int(saturate)), ("round_mode", round_mode))
    elif to in FORMATS:
        attributes += (("saturate", int(saturate)),)
    apply(node, network, "cast", (x,), node.target, element_type=wanted, attributes=attributes)
