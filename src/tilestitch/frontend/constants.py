"""Constant, Shape and Size: values that are known while reading."""

import numpy as np

from tilestitch.frontend.network import Network, Node

_LISTS = {"value_floats": np.float32, "value_ints": np.int64}
_SCALARS = {"value_float": np.float32, "value_int": np.int64}


def constant(node: Node, network: Network) -> None:
    """A value that stands in the node."""
    if len(node.attributes) != 1:
        raise node.fault(f"expected one attribute that holds the value, found {len(node.attributes)}.")
    (name,) = node.attributes
    attribute = node.attributes[name]
    if name == "value":
        network.add_weight(node.outputs[0], attribute.t)
    elif name in _SCALARS:
        value = attribute.f if name == "value_float" else attribute.i
        network.add_constant(node.outputs[0], np.asarray(value, _SCALARS[name]))
    elif name in _LISTS:
        values = attribute.floats if name == "value_floats" else attribute.ints
        network.add_constant(node.outputs[0], np.asarray(list(values), _LISTS[name]))
    else:
        raise node.fault(f"attribute {name} is not supported; write the value as a dense tensor of numbers.")
    node.ignore(name)


def shape(node: Node, network: Network) -> None:
    """The extents of an operand, or some of them."""
    extents = network.shape(node.inputs[0])
    start, end = node.integer("start", 0), node.integer("end", len(extents))
    network.add_constant(node.outputs[0], np.asarray(extents[start:end], np.int64))


def size(node: Node, network: Network) -> None:
    """The number of elements of an operand."""
    network.add_constant(node.outputs[0], np.asarray(np.prod(network.shape(node.inputs[0]), dtype=np.int64)))
