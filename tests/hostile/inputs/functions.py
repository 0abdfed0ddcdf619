"""Networks with functions of their own that cannot be right."""

from collections.abc import Sequence

import onnx
from onnx import helper

from tests.hostile.inputs.making import OPSET, RELU, model, network, node

DOMAIN = "own"
OPSETS = {"": OPSET, DOMAIN: 1}


def function(name: str, *nodes: onnx.NodeProto) -> onnx.FunctionProto:
    """A function of `a` that gives `b`."""
    return helper.make_function(
        DOMAIN, name, ["a"], ["b"], nodes, [helper.make_opsetid(*each) for each in OPSETS.items()]
    )


def call(name: str, inputs: str = "x", outputs: str = "y") -> onnx.NodeProto:
    return helper.make_node(name, inputs.split(), outputs.split(), domain=DOMAIN)


def calling(functions: Sequence[onnx.FunctionProto], name: str = "f", inputs: str = "x") -> onnx.ModelProto:
    """A network of one call."""
    found = model(call(name, inputs), opsets=OPSETS)
    found.functions.extend(functions)
    return found


def nested(depth: int, calls: int) -> onnx.ModelProto:
    """Functions each of which calls the one before, so many times."""
    found = [function("f0", node("Relu", "a", "b"))]
    for number in range(1, depth):
        names = ["a", *(f"t{i}" for i in range(calls - 1)), "b"]
        inside = [call(f"f{number - 1}", names[i], names[i + 1]) for i in range(calls)]
        found.append(function(f"f{number}", *inside))
    return calling(found, f"f{depth - 1}")


FUNCTIONS = (
    network("a function that calls itself", lambda: calling([function("f", call("f", "a", "b"))])),
    network(
        "two functions that call each other",
        lambda: calling([function("f", call("g", "a", "b")), function("g", call("f", "a", "b"))]),
    ),
    network("functions three thousand deep", lambda: nested(3000, 1)),
    network("functions that double forty times", lambda: nested(40, 2)),
    network("a function that calls another a hundred thousand times", lambda: nested(3, 320)),
    network(
        "a function of another opset than the network",
        lambda: calling([helper.make_function(DOMAIN, "f", ["a"], ["b"], [RELU], [helper.make_opsetid("", 11)])]),
    ),
    network("a function that nobody defines", lambda: calling([function("g", node("Relu", "a", "b"))])),
    network("a function that reads what nobody writes", lambda: calling([function("f", node("Add", "a c", "b"))])),
    network("a function that writes nothing", lambda: calling([function("f", node("Relu", "a", "c"))])),
    network("a function of an operator that does not exist", lambda: calling([function("f", node("Relu7", "a", "b"))])),
)
