"""The light models of the onnx package with weights that can tell: seeded ones in place of one constant each.

As shipped, each weight is a ConstantOfShape, so that every image gives the same result and a wrong schedule as well.
"""

import zlib
from math import prod
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, shape_inference

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NAMES = tuple(path.stem.removeprefix("light_") for path in sorted(LIGHT.glob("light_*.onnx")))
_CLASSES = 1000
FULL = 224  # rows and columns of the images that the models were made for


def light_model(name: str, *, image: int = FULL) -> onnx.ModelProto:
    """One of the models with seeded weights; `image` rows and columns instead of 224 keep its structure.

    Smaller images need fewer weights in the products (and get a quarter of the columns inside, so that VGG-19 fits any
    machine), other extents in a Reshape that names rows and columns, and a last pool no larger than what is left.
    """
    model = onnx.load(LIGHT / f"light_{name}.onnx")
    graph = model.graph
    shapes = _inferred_shapes(model)
    weights = {tensor.name for tensor in graph.initializer}
    (source,) = (value for value in graph.input if value.name not in weights)
    for dim in source.type.tensor_type.shape.dim[2:]:
        dim.dim_value = image
    rows = {source.name: image}  # of every tensor that has them; the images are square
    extents = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    made = {node.output[0]: tuple(extents[node.input[0]]) for node in graph.node if node.op_type == "ConstantOfShape"}
    nodes, features = [], 0
    for node in graph.node:
        if node.op_type == "ConstantOfShape":
            continue
        at = rows.get(node.input[0])
        if node.op_type in ("Conv", "MaxPool", "AveragePool") and at is not None:
            rows[node.output[0]] = _rows_after(node, at, made)
        elif node.op_type == "Reshape" and at is not None:
            shape = _reshaped(shapes[node.output[0]], at)
            features = shapes[node.input[0]][1] * at * at
            graph.initializer.append(numpy_helper.from_array(np.array(shape, np.int64), f"{node.output[0]}.shape"))
            node.input[1] = f"{node.output[0]}.shape"
            if len(shape) > 2:
                rows[node.output[0]] = at
        elif node.op_type == "Gemm" and features:
            outputs = shapes[node.output[0]][1]
            outputs = outputs if image == FULL or outputs <= _CLASSES else outputs // 4
            transposed = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
            made[node.input[1]] = (outputs, features) if transposed else (features, outputs)
            made[node.input[2]] = (outputs,)
            features = outputs
        elif at is not None and not node.op_type.startswith("Global"):
            rows[node.output[0]] = at
        nodes.append(node)
    nodes = [node for node in nodes if node.output[0] not in made]  # a weight that is only reshaped for its product
    graph.ClearField("node")
    graph.node.extend(nodes)
    residual = any(node.op_type == "Sum" for node in nodes)
    users = {name: (node, number) for node in nodes for number, name in enumerate(node.input)}
    spread = {node.output[0]: users[node.output[0]] for node in nodes if node.op_type == "Unsqueeze"}
    for weight, shape in made.items():
        if weight not in users:
            continue
        node, number = users[weight]
        node, number = spread[node.output[0]] if node.op_type == "Unsqueeze" else (node, number)
        graph.initializer.append(
            numpy_helper.from_array(_weight(weight, shape, node.op_type, number, residual=residual), weight)
        )
    return model


def _inferred_shapes(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    graph = shape_inference.infer_shapes(model, data_prop=True).graph
    return {
        value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in (*graph.value_info, *graph.output)
    }


def _rows_after(node: onnx.NodeProto, rows: int, made: dict[str, tuple[int, ...]]) -> int:
    """Rows of the result of a convolution or a pool, whose kernel is cut to what there is."""
    attributes = {attribute.name: attribute for attribute in node.attribute}
    if "auto_pad" in attributes:
        assert attributes["auto_pad"].s == b"NOTSET", node.name
    kernel = attributes["kernel_shape"].ints[0] if "kernel_shape" in attributes else made[node.input[1]][2]
    pads = attributes["pads"].ints if "pads" in attributes else (0, 0, 0, 0)
    if kernel > rows + pads[0] + pads[2] and node.op_type == "AveragePool":
        kernel, pads = rows, (0, 0, 0, 0)
        attributes["kernel_shape"].ints[:] = [kernel, kernel]
        if "pads" in attributes:
            attributes["pads"].ints[:] = pads
    stride = attributes["strides"].ints[0] if "strides" in attributes else 1
    return (rows + pads[0] + pads[2] - kernel) // stride + 1


def _reshaped(shape: tuple[int, ...], rows: int) -> tuple[int, ...]:
    """The extents that a Reshape of the full model gives, for images of other sizes."""
    return (shape[0], -1) if len(shape) == 2 else (*shape[:-2], rows, rows)


def _weight(name: str, shape: tuple[int, ...], user: str, operand: int, *, residual: bool) -> np.ndarray:
    """Random numbers that keep activations at a natural size: by the operator that reads them, and as which operand.

    In a residual network every branch adds to what there is, so its branches are weaker.
    """
    generator = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))
    normal = generator.standard_normal(shape, np.float32)
    if user in ("Conv", "Gemm") and operand == 1:
        axes = (1, 2, 3) if user == "Conv" else (int(shape[0] > shape[1]),)
        normal -= normal.mean(axis=axes, keepdims=True)  # what all positions have in common would drown the rest
        return normal * np.float32(np.sqrt(2 / prod(shape[axis] for axis in axes)))
    if user == "Mul" or (user == "BatchNormalization" and operand == 4):
        return generator.uniform(0.5, 1.5, shape).astype(np.float32)
    if user == "BatchNormalization" and operand == 1:
        return generator.uniform(0.4, 1.2, shape).astype(np.float32) * np.float32(0.5 if residual else 1.0)
    return normal * np.float32(0.1)
