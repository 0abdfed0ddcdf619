"""Random networks of branches that concatenations join along any axis."""

from random import Random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_KINDS = ("Relu", "Conv", "MaxPool", "Softmax", "Neg")


def joining_model(seed: int) -> onnx.ModelProto:
    """One to three concatenations of two to four parts each, along channels, rows or columns, batch symbolic.

    A part is made by a convolution, an element-wise operator, a pool or a softmax, and is sometimes read by another one
    as well, an output, or the network's input. A product, a pool or a softmax reads what they make.
    """
    random = Random(seed)
    values = np.random.default_rng(seed)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []

    def node(kind: str, inputs: list[str], **attributes: object) -> str:
        name = f"t{len(nodes)}"
        nodes.append(helper.make_node(kind, inputs, [name], name=f"{kind.lower()}{len(nodes)}", **attributes))
        return name

    def made(kind: str, x: str, channels: int) -> str:
        """As large as its operand."""
        if kind == "Conv":
            size = random.choice([1, 3])
            shape = (channels, channels, size, size)
            weight = values.standard_normal(shape).astype(np.float32) / 4
            weights.append(numpy_helper.from_array(weight, f"w{len(nodes)}"))
            return node(kind, [x, weights[-1].name], kernel_shape=[size] * 2, pads=[size // 2] * 4)
        if kind == "MaxPool":
            return node(kind, [x], kernel_shape=[3, 3], pads=[1] * 4)
        return node(kind, [x], axis=random.choice([1, 3])) if kind == "Softmax" else node(kind, [x])

    shape = [random.randint(2, 6), random.randint(4, 9), random.randint(4, 9)]
    whole, begin, outputs = "x", tuple(shape), list[tuple[str, tuple[int, ...]]]()
    for _ in range(random.randint(1, 3)):
        axis, parts, newest = random.randint(1, 3), [], whole
        if shape[axis - 1] > 24:
            continue
        for _ in range(random.randint(2, 4)):
            newest = made(random.choice(_KINDS), newest if random.random() < 0.5 else whole, shape[0])
            parts.append(newest)
            if random.random() < 0.2:
                outputs.append((newest, tuple(shape)))
        if random.random() < 0.3:
            parts.append(whole)
        shape[axis - 1] *= len(parts)
        whole = node("Concat", parts, axis=axis)
        if random.random() < 0.3:
            outputs.append((whole, tuple(shape)))
    outputs.append((made(random.choice(_KINDS), whole, shape[0]), tuple(shape)))
    graph = helper.make_graph(
        nodes,
        f"joining{seed}",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *begin])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", *of]) for name, of in outputs],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
