"""Attention by itself, as networks: queries, keys and values are inputs."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def attention(
    *,
    heads: int = 2,
    shared_by: int = 1,
    queries: int = 24,
    keys: int = 40,
    depth: int = 8,
    scale: float = 0.25,
    mask: str = "none",
    native: bool = False,
    hidden: int = 0,
) -> onnx.ModelProto:
    """Scores, a softmax and their product with values; native as one Attention node, else decomposed.

    Each head of keys and values is shared by so many of queries. A mask is "none", "input", added to the scores,
    "causal" (native) or "hidden", which hides the first so many keys of all but the first query.
    """
    element, kv_heads = TensorProto.FLOAT, heads // shared_by

    def value(name: str, *shape: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, element, ["N", *shape])

    inputs = [
        value("q", heads, queries, depth),
        value("k", kv_heads, keys, depth),
        value("v", kv_heads, keys, depth),
    ]
    constants = [numpy_helper.from_array(np.array(scale, np.float32), "scale")]
    if mask == "input":
        inputs.append(helper.make_tensor_value_info("mask", element, [queries, keys]))
    if mask == "hidden":
        hide = np.zeros((queries, keys), np.float32)
        hide[1:, :hidden] = -np.inf
        constants.append(numpy_helper.from_array(hide, "mask"))
    masked = mask in ("input", "hidden")
    if native:
        names, causal = ["q", "k", "v", *(["mask"] if masked else [])], int(mask == "causal")
        nodes = [helper.make_node("Attention", names, ["y"], name="attention", scale=scale, is_causal=causal)]
        constants = constants[1:]
    else:
        nodes = [
            helper.make_node("Transpose", ["k"], ["keys"], name="transposed", perm=[0, 1, 3, 2]),
            helper.make_node("MatMul", ["q", "keys"], ["scores"], name="scores"),
            helper.make_node("Mul", ["scores", "scale"], ["scaled"], name="scaled"),
            *([helper.make_node("Add", ["scaled", "mask"], ["masked"], name="masked")] if masked else []),
            helper.make_node("Softmax", ["masked" if masked else "scaled"], ["weights"], name="softmax", axis=-1),
            helper.make_node("MatMul", ["weights", "v"], ["y"], name="context"),
        ]
    graph = helper.make_graph(nodes, "attention", inputs, [value("y", heads, queries, depth)], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
