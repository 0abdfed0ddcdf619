"""Operators whose results are known while reading, whatever else is."""

from math import ceil, isfinite, prod

import numpy as np
from onnx import numpy_helper

from tilestitch.frontend.network import Node, Reading, text_of

_LISTS = {"value_floats": np.float32, "value_ints": np.int64}
_SCALARS = {"value_float": np.float32, "value_int": np.int64}


def constant(node: Node, network: Reading) -> None:
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


def shape(node: Node, network: Reading) -> None:
    """The extents of an operand, or some of them."""
    extents = network.shape(node.inputs[0])
    start, end = node.integer("start", 0), node.integer("end", len(extents))
    network.add_constant(node.outputs[0], np.asarray(extents[start:end], np.int64))


def size(node: Node, network: Reading) -> None:
    """The number of elements of an operand."""
    network.add_constant(node.outputs[0], np.asarray(np.prod(network.shape(node.inputs[0]), dtype=np.int64)))


def has_element(node: Node, network: Reading) -> None:
    """OptionalHasElement: whether there is a tensor at all."""
    network.add_constant(node.outputs[0], np.asarray(node.operand(0) is not None))


def constant_of_shape(node: Node, network: Reading) -> None:
    """One value everywhere."""
    shape = network.integers(node, 0, "shape")
    if any(extent < 0 for extent in shape):
        raise node.fault(f"shape {text_of(shape)}; expected extents of at least 0.")
    attribute = node.attributes.pop("value", None)
    value = np.zeros(1, np.float32) if attribute is None else numpy_helper.to_array(attribute.t)
    if value.size != 1:
        raise node.fault(f"attribute value has {value.size} elements; expected 1.")
    network.budget.spend(prod(shape) * value.itemsize, prod(shape), node.fault)
    network.add_constant(node.outputs[0], np.full(shape, value.reshape(()), value.dtype))


def range_of(node: Node, network: Reading) -> None:
    """From a start, in steps, as far as the limit allows."""
    numbers = [network.required_value(node, n, meaning) for n, meaning in enumerate(("start", "limit", "delta"))]
    if any(number.size != 1 for number in numbers):
        raise node.fault("start, limit and delta must be scalars.")
    exact = numbers[0].dtype.kind in "iu"
    start, limit, delta = (number.reshape(()).astype(np.int64 if exact else np.float64).item() for number in numbers)
    if delta == 0 or not all(map(isfinite, (start, limit, delta))):
        raise node.fault(f"from {start} to {limit} by {delta}; expected finite numbers, and a step other than 0.")
    count = max(0, int(-((start - limit) // delta)) if exact else ceil((limit - start) / delta))
    network.budget.spend(count * numbers[0].itemsize, count, node.fault)
    values = start + delta * np.arange(count)
    network.add_constant(node.outputs[0], values.astype(numbers[0].dtype))
