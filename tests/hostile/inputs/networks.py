"""Networks whose structure, attributes or shapes cannot be right."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper

from tests.hostile.inputs.making import RELU, contents, model, network, node, raw_weight, value, weight


def changed(
    base: Callable[[], onnx.ModelProto], change: Callable[[onnx.ModelProto], object]
) -> Callable[[], onnx.ModelProto]:
    """The network after a change."""

    def make() -> onnx.ModelProto:
        found = base()
        change(found)
        return found

    return make


def plain() -> onnx.ModelProto:
    """A network that nothing is wrong with."""
    return model(RELU)


def many(count: int) -> list[onnx.NodeProto]:
    names = ["x", *(f"t{number}" for number in range(count - 1)), "y"]
    return [helper.make_node("Relu", [a], [b], f"relu{i}") for i, (a, b) in enumerate(pairwise(names))]


BRANCH = helper.make_graph([node("Identity", "x", "z")], "branch", [], [value("z:2,3")])
SEQUENCE = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, [2, 3])

STRUCTURE = (
    network("a node that reads itself", lambda: model(node("Add", "x y"))),
    network("a cycle of two", lambda: model(node("Add", "x b", "a"), node("Mul", "x a", "b"), node("Relu", "b"))),
    network("a cycle beside the network", lambda: model(RELU, node("Abs", "a", "b"), node("Neg", "b", "a"))),
    network("a tensor that nobody writes", lambda: model(node("Add", "x z"))),
    network("a tensor of the name that is nearly right", lambda: model(node("Relu", "X"))),
    network("nodes in the wrong order", lambda: model(node("Relu", "a"), node("Abs", "x", "a"))),
    network("two nodes that write one tensor", lambda: model(node("Relu", "x", "y"), node("Abs", "x", "y"))),
    network("a node that writes one tensor twice", lambda: model(node("Split", "x", "y y", axis=1))),
    network("a node that writes an input", lambda: model(node("Relu", "x", "x"), outputs=["x"])),
    network("a node that writes a weight", lambda: model(node("Relu", "x", "w"), RELU, weights=[weight("w", [1])])),
    network("two inputs of one name", lambda: model(RELU, inputs=["x:2,3", "x:2,3"])),
    network("two weights of one name", lambda: model(node("Add", "x w"), weights=[weight("w", [1]), weight("w", [2])])),
    network("two outputs of one name", lambda: model(RELU, outputs=["y", "y"])),
    network("an output that nobody writes", lambda: model(RELU, outputs=["y", "z"])),
    network("an output without a name", lambda: model(RELU, outputs=["y", ""])),
    network("an input without a name", lambda: model(RELU, inputs=["x:2,3", ":2,3"])),
    network("a weight without a name", lambda: model(RELU, weights=[weight("", [1])])),
    network(
        "an output of another type",
        changed(plain, lambda m: setattr(m.graph.output[0].type.tensor_type, "elem_type", 7)),
    ),
    network("no outputs", lambda: model(RELU, outputs=[])),
    network("no nodes and no outputs", lambda: model(outputs=[])),
    network("nothing but a name", lambda: onnx.ModelProto(ir_version=8, producer_name="nobody")),
    network("a node without operator", lambda: model(node(""))),
    network("a node without inputs", lambda: model(node("Relu", "")), others_say="input size 0"),
    network("a node with too many inputs", lambda: model(node("Relu", "x x x")), others_say="input size 3"),
    network(
        "a node whose first input is absent",
        lambda: model(helper.make_node("Add", ["", "x"], ["y"], "add")),
        others_say="input 0",
    ),
    network(
        "a node with too many outputs",
        lambda: model(node("Relu", "x", "y z"), outputs=["z"]),
        others_say="output size 2",
    ),
    network("an operator in small letters", lambda: model(node("relu"))),
    network(
        "an operator of an unknown domain",
        lambda: model(helper.make_node("Relu", ["x"], ["y"], "n", domain="org.example")),
    ),
    network("an operator that does not exist", lambda: model(node("Relu7"))),
    network(
        "an operator that was removed",
        lambda: model(node("Upsample", "x w", mode="nearest"), weights=[weight("w", [1, 2])]),
        others_say="deprecated",
    ),
    network("an operator from the future", lambda: model(node("Attention", "x x x"))),
    network(
        "control flow by a condition",
        lambda: model(
            node("If", "c", then_branch=BRANCH, else_branch=BRANCH), inputs=["x:2,3", value("c:", TensorProto.BOOL)]
        ),
    ),
    network("control flow by a loop", lambda: model(node("Scan", "x", body=BRANCH, num_scan_inputs=1))),
    network("a sequence for a result", lambda: model(node("SequenceConstruct", "x x"))),
    network(
        "a sequence for an input",
        lambda: model(node("SequenceAt", "x i"), inputs=[SEQUENCE], weights=[weight("i", 0, int)]),
    ),
    network("an input of text", lambda: model(RELU, inputs=[value("x:2", TensorProto.STRING)])),
    network("an input of no type", lambda: model(RELU, inputs=[value("x:2", 0)])),
    network("an input of a type that does not exist", lambda: model(RELU, inputs=[value("x:2", 99)])),
    network(
        "an input of a type that the operator does not take",
        lambda: model(node("Sqrt"), inputs=[value("x:2", TensorProto.INT64)]),
    ),
    network("no opset", lambda: model(RELU, opsets={})),
    network("an opset that is too old", lambda: model(node("Add", "x x"), opsets={"": 6})),
    network("an opset from the future", lambda: model(RELU, opsets={"": 1000})),
    network("a negative opset", lambda: model(RELU, opsets={"": -1})),
    network("an opset of another domain only", lambda: model(RELU, opsets={"org.example": 3})),
    network("two opsets of one domain", lambda: model(RELU, opsets={"": 17, "ai.onnx": 7})),
    network("a format from the future", lambda: model(RELU, ir_version=1000)),
    network("no format version", changed(plain, lambda m: m.ClearField("ir_version"))),
    network("sparse weights", changed(plain, lambda m: m.graph.sparse_initializer.add(dims=[2, 3]))),
    contents(
        "a name that is not UTF-8",
        lambda: model(node("Abs", "x", "NAME"), node("Relu", "NAME")).SerializeToString().replace(b"NAME", b"N\xffME"),
    ),
    network("a name with a line end", lambda: model(helper.make_node("Relu", ["no\nsuch"], ["y"], "one\ntwo"))),
    network("a name that moves the cursor", lambda: model(helper.make_node("Relu", ["\x1b[2J"], ["y"], "\x1b[31m"))),
    network("a very long name", lambda: model(helper.make_node("Relu", ["n" * 10**6], ["y"], "relu"))),
    network("very many nodes before the mistake", lambda: model(*many(20000), node("Add", "x z", "w"))),
)

SHAPES = (
    network("an input without a shape", lambda: model(RELU, inputs=["x"])),
    network(
        "a dim of no name without a size",
        lambda: model(RELU, inputs=[helper.make_tensor_value_info("x", 1, [2, None])]),
    ),
    network("a dim by name without a size", lambda: model(RELU, inputs=["x:2,length"])),
    network("a dim of size zero", lambda: model(RELU, inputs=["x:2,0"])),
    network("a dim of negative size", lambda: model(RELU, inputs=["x:2,-3"])),
    network("two inputs that do not go together", lambda: model(node("Add", "x z"), inputs=["x:2,3", "z:2,4"])),
    network("a product of rows that do not match", lambda: model(node("MatMul", "x z"), inputs=["x:2,3", "z:4,2"])),
    network("a product of a scalar", lambda: model(node("MatMul", "x z"), inputs=["x:2,3", "z:"])),
    network(
        "a shape that depends on values",
        lambda: model(node("Reshape", "x s"), inputs=["x:2,3", value("s:2", TensorProto.INT64)]),
    ),
    network("a number of elements that depends on values", lambda: model(node("NonZero"))),
    network("more dims than a network has", lambda: model(RELU, inputs=["x:" + ",".join(["2"] * 70)])),
)


def conv(kernel: str = "w", dims: tuple[int, ...] = (10, 4, 3, 3), **attributes: object) -> onnx.ModelProto:
    return model(
        node("Conv", f"x {kernel}", **attributes),
        inputs=["x:1,4,8,8"],
        weights=[raw_weight("w", dims, bytes(4 * max(1, __import__("math").prod(dims))))],
    )


def pool(**attributes: object) -> onnx.ModelProto:
    return model(node("MaxPool", **attributes), inputs=["x:1,4,8,8"])


def attribute(base: onnx.NodeProto, **fields: object) -> onnx.NodeProto:
    """The node with an attribute as it stands in the file, sensible or not."""
    found = onnx.NodeProto()
    found.CopyFrom(base)
    found.attribute.append(AttributeProto(**fields))  # pyright: ignore[reportArgumentType]
    return found


def constant_operand(op_type: str, operand: object, x: str = "x:2,3", **attributes: object) -> onnx.ModelProto:
    return model(node(op_type, "x c", **attributes), inputs=[x], weights=[weight("c", operand, int)])


ATTRIBUTES = (
    network(
        "a saturation that is neither on nor off, of a constant",
        lambda: model(
            node("Cast", "w", "y", to=TensorProto.UINT8, saturate=-2),
            outputs=[value("y:4", TensorProto.UINT8)],
            weights=[weight("w", [4, 64, 2, 2], np.int64)],
            opsets={"": 19},
        ),
    ),
    network("a kernel of zero", lambda: pool(kernel_shape=[0, 2])),
    network("a negative kernel", lambda: pool(kernel_shape=[-2, 2])),
    network("a kernel of one number too many", lambda: pool(kernel_shape=[2, 2, 2])),
    network("no kernel", lambda: pool(), others_say="kernel_shape"),
    network("a kernel larger than its input", lambda: pool(kernel_shape=[9, 9])),
    network("a huge kernel", lambda: pool(kernel_shape=[2**62, 2**62])),
    network("a stride of zero", lambda: pool(kernel_shape=[2, 2], strides=[0, 1])),
    network("a negative stride", lambda: pool(kernel_shape=[2, 2], strides=[1, -1])),
    network("a dilation of zero", lambda: pool(kernel_shape=[2, 2], dilations=[0, 0])),
    network("a huge dilation", lambda: pool(kernel_shape=[2, 2], dilations=[2**40, 2**40])),
    network("negative pads", lambda: pool(kernel_shape=[2, 2], pads=[-1, 0, 0, 0])),
    network("huge pads", lambda: conv(pads=[2**40] * 4)),
    network("pads beyond 64 bits", lambda: conv(pads=[2**63 - 1] * 4)),
    network("pads beyond the kernel", lambda: pool(kernel_shape=[2, 2], pads=[5, 5, 5, 5])),
    network("three pads", lambda: conv(pads=[1, 1, 1])),
    network("pads that are chosen twice", lambda: conv(pads=[1, 1, 1, 1], auto_pad="SAME_UPPER")),
    network("pads by an unknown word", lambda: conv(auto_pad="BOTH")),
    network("a group that does not divide", lambda: conv(group=7)),
    network("a group of zero", lambda: conv(group=0)),
    network("a negative group", lambda: conv(group=-1)),
    network("channels that do not match", lambda: conv(dims=(10, 3, 3, 3))),
    network("a kernel that is not that of the weights", lambda: conv(kernel_shape=[5, 5])),
    network("weights of another rank", lambda: conv(dims=(10, 4, 3))),
    network(
        "a bias of the wrong length",
        lambda: model(
            node("Conv", "x w b"), inputs=["x:1,4,8,8"], weights=[weight("w", [[[[1]]] * 4] * 10), weight("b", [1, 2])]
        ),
    ),
    network(
        "an attribute of another type",
        lambda: model(attribute(node("Softmax"), name="axis", type=AttributeProto.FLOAT, f=1.0)),
        others_say="axis",
    ),
    network("an attribute of no type", lambda: model(attribute(node("Softmax"), name="axis", i=1)), others_say="type"),
    network(
        "an attribute whose type is a lie",
        lambda: model(attribute(node("Transpose"), name="perm", type=AttributeProto.INTS, f=1.0)),
        others_say="perm",
    ),
    network(
        "an attribute twice",
        lambda: model(attribute(node("Softmax", axis=1), name="axis", type=AttributeProto.INT, i=0)),
        others_say="axis",
    ),
    network(
        "an attribute without a name",
        lambda: model(attribute(node("Softmax"), type=AttributeProto.INT, i=0)),
        others_say="name",
    ),
    network("an attribute that the operator does not have", lambda: model(node("Relu", alpha=0.5)), others_say="alpha"),
    network(
        "an attribute that refers to nothing",
        lambda: model(attribute(node("Softmax"), name="axis", type=AttributeProto.INT, ref_attr_name="outer")),
    ),
    network("an axis beyond the rank", lambda: model(node("Softmax", axis=7))),
    network("an axis far below", lambda: model(node("Softmax", axis=-(2**63)))),
    network("axes twice", lambda: model(node("ReduceMean", axes=[1, 1]))),
    network("an order that is no permutation", lambda: model(node("Transpose", perm=[0, 0]))),
    network("an order of other axes", lambda: model(node("Transpose", perm=[0, 5]))),
    network("a concatenation along no axis", lambda: model(node("Concat", "x x", axis=4))),
    network("a concatenation of other shapes", lambda: model(node("Concat", "x z", axis=1), inputs=["x:2,3", "z:3,3"])),
    network(
        "pieces that do not make the whole",
        lambda: model(node("Split", "x c", "y z", axis=1), weights=[weight("c", [1, 1], int)]),
    ),
    network(
        "pieces of negative size",
        lambda: model(node("Split", "x c", "y z", axis=1), weights=[weight("c", [-1, 4], int)]),
    ),
    network(
        "more pieces than outputs", lambda: model(node("Split", "x c", "y", axis=1), weights=[weight("c", [1, 2], int)])
    ),
    network(
        "a step of zero",
        lambda: model(
            node("Slice", "x a b c d"), weights=[weight(n, [v], int) for n, v in zip("abcd", (0, 2, 1, 0), strict=True)]
        ),
    ),
    network(
        "a slice of nothing",
        lambda: model(node("Slice", "x a b"), weights=[weight("a", [2], int), weight("b", [1], int)]),
    ),
    network(
        "a slice along no axis",
        lambda: model(
            node("Slice", "x a b c"), weights=[weight(n, [v], int) for n, v in zip("abc", (0, 1, 9), strict=True)]
        ),
    ),
    network("a row that a table does not have", lambda: constant_operand("Gather", [5])),
    network("a row far before a table", lambda: constant_operand("Gather", [-(2**63)])),
    network("another number of elements", lambda: constant_operand("Reshape", [7])),
    network("two open extents", lambda: constant_operand("Reshape", [-1, -1])),
    network("an extent of minus two", lambda: constant_operand("Reshape", [-2, -3])),
    network("extents whose product overflows", lambda: constant_operand("Reshape", [2**32, 2**32, 6])),
    network("an extent kept from beyond the rank", lambda: constant_operand("Reshape", [2, 3, 0])),
    network("an expansion to another shape", lambda: constant_operand("Expand", [2, 5])),
    network("an expansion to negative extents", lambda: constant_operand("Expand", [-2, 3])),
    network("an axis that cannot be squeezed", lambda: constant_operand("Squeeze", [0])),
    network("an axis inserted far away", lambda: constant_operand("Unsqueeze", [9])),
    network("a type that no tensor has", lambda: model(node("Cast", to=77))),
    network("a type of text", lambda: model(node("Cast", to=TensorProto.STRING))),
    network(
        "a statistic of the wrong length",
        lambda: model(node("BatchNormalization", "x a a a a"), inputs=["x:1,4,8,8"], weights=[weight("a", [1, 1, 1])]),
    ),
    network(
        "an epsilon that is no number",
        lambda: model(node("LayerNormalization", "x a", epsilon=float("nan")), weights=[weight("a", [1, 1, 1])]),
    ),
    network("a product of three axes", lambda: model(node("Gemm", "x x"), inputs=["x:2,2,2"])),
    network("a flag of seven", lambda: model(node("ReduceMean", keepdims=7))),
    network("an approximation by an unknown word", lambda: model(node("Gelu", approximate="roughly"), opsets={"": 20})),
    network("an operand left out of a sum", lambda: model(helper.make_node("Sum", ["x", ""], ["y"], "sum"))),
    network("two numbers in the place of one", lambda: constant_operand("Trilu", [1, 2])),
    network("a constant without a value", lambda: model(node("Constant", "", "c"), node("Add", "x c"))),
    network(
        "a constant of two values",
        lambda: model(node("Constant", "", "c", value_int=1, value_float=1.0), node("Add", "x c")),
    ),
    network(
        "a constant that is sparse",
        lambda: model(
            attribute(
                node("Constant", "", "c"),
                name="sparse_value",
                type=AttributeProto.SPARSE_TENSOR,
                sparse_tensor=onnx.SparseTensorProto(dims=[2, 3]),
            ),
            node("Add", "x c"),
        ),
        others_say="sparse",
    ),
    network(
        "a constant that is damaged",
        lambda: model(
            attribute(
                node("Constant", "", "c"),
                name="value",
                type=AttributeProto.TENSOR,
                t=raw_weight("", (2**40, 3), bytes(4)),
            ),
            node("Add", "x c"),
        ),
        others_say="raw_data",
    ),
)


def folded(op_type: str, *operands: object, dtype: type = int, **attributes: object) -> onnx.ModelProto:
    """A node of constants whose result is added to the input."""
    names = [f"c{number}" for number in range(len(operands))]
    weights = [weight(name, operand, dtype) for name, operand in zip(names, operands, strict=True)]
    return model(
        node(op_type, " ".join(names), "big", **attributes),
        node("Size", "big", "n"),
        node("Cast", "n", "f", to=1),
        node("Add", "x f"),
        weights=weights,
    )


def doubled(times: int) -> onnx.ModelProto:
    """A constant concatenated with itself, again and again."""
    nodes = [helper.make_node("Concat", [f"c{i}"] * 2, [f"c{i + 1}"], f"concat{i}", axis=0) for i in range(times)]
    return model(*nodes, node("ReduceSum", f"c{times}", "s"), node("Add", "x s"), weights=[weight("c0", [1.0])])


def expanded(times: int) -> onnx.ModelProto:
    """Constants of a million elements, each a sum of the one before."""
    nodes = [node("ConstantOfShape", "n", "c0")]
    nodes += [helper.make_node("Exp", [f"c{i}"], [f"c{i + 1}"], f"exp{i}") for i in range(times)]
    return model(*nodes, node("ReduceSum", f"c{times}", "s"), node("Add", "x s"), weights=[weight("n", [2**22], int)])


BOMBS = (
    network("a constant of 10^12 zeros", lambda: folded("ConstantOfShape", [10**6, 10**6])),
    network("a constant of more elements than 64 bits count", lambda: folded("ConstantOfShape", [2**40, 2**40])),
    network("a constant of negative shape", lambda: folded("ConstantOfShape", [-5])),
    network("a huge expansion", lambda: folded("Expand", [[1]], [10**6, 10**6])),
    network("a huge repetition", lambda: folded("Tile", [[1]], [10**6, 10**6])),
    network("a huge range", lambda: folded("Range", 0, 10**12, 1)),
    network("a range without end", lambda: folded("Range", 0.0, 1.0, 0.0, dtype=float)),
    network("a huge border", lambda: folded("Pad", [1.0], [10**12, 0])),
    network(
        "a huge enlargement",
        lambda: model(
            node("Resize", "a  b".replace("  ", " r "), "big", mode="nearest"),
            node("ReduceSum", "big", "s"),
            node("Add", "x s"),
            weights=[weight("a", [[[[1.0]]]]), weight("r", []), weight("b", [1, 1, 1e6, 1e6])],
        ),
    ),
    network(
        "a huge table of ones and zeros",
        lambda: model(
            node("OneHot", "i d v", "big"),
            node("ReduceSum", "big", "s"),
            node("Add", "x s"),
            weights=[weight("i", list(range(1000)), int), weight("d", 10**9, int), weight("v", [0, 1])],
        ),
    ),
    network(
        "a huge outer product",
        lambda: model(
            node("ConstantOfShape", "n", "a"),
            node("ConstantOfShape", "m", "b"),
            node("MatMul", "a b", "big"),
            node("ReduceSum", "big", "s"),
            node("Add", "x s"),
            weights=[weight("n", [10**6, 1], int), weight("m", [1, 10**6], int)],
        ),
    ),
    network("a constant doubled sixty times", lambda: doubled(60)),
    network("large constants, again and again", lambda: expanded(1000)),
    network(
        "a huge convolution of constants",
        lambda: model(
            node("ConstantOfShape", "n", "a"),
            node("ConstantOfShape", "m", "b"),
            node("Conv", "a b", "big", pads=[500] * 4),
            node("ReduceSum", "big", "s"),
            node("Add", "x s"),
            weights=[weight("n", [1, 1, 1000, 1000], int), weight("m", [1, 1, 1000, 1000], int)],
        ),
    ),
)
