"""The ONNX project's own tests of single nodes, by operator."""

from functools import cache

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase

from tilestitch.frontend.reader import read_onnx
from tilestitch.ir.verify import verify_graph
from tilestitch.sim.chip.interpret import interpret

# Operators of neural networks.
NEURAL = (
    *("BatchNormalization", "GroupNormalization", "InstanceNormalization", "LRN", "LayerNormalization"),
    *("LpNormalization", "MeanVarianceNormalization", "RMSNormalization"),
    *("CenterCropPad", "Col2Im", "ConvTranspose", "Pad", "Resize", "Upsample"),
    *("AffineGrid", "AveragePool", "DepthToSpace", "Dropout", "Gemm", "LpPool", "MaxPool", "MaxUnpool"),
    *("DeformConv", "GridSample", "RoiAlign", "SpaceToDepth", "SwiGLU"),
    *("Celu", "Hardmax", "Mish", "Selu", "Shrink", "Softsign", "Swish", "ThresholdedRelu"),
)

# How many tests of casts are about numbers and are not refused.
CASTS = {"BitCast": 8, "Cast": 60, "CastLike": 56}

# How many tests of the ONNX project there are of each operator of quantised networks.
QUANTISATION = {
    "ConvInteger": 2,
    "DequantizeLinear": 14,
    "MatMulInteger": 1,
    "QLinearConv": 1,
    "QLinearMatMul": 8,
    "QuantizeLinear": 13,
}

# Operator -> how many of its data sets must be understood by rules of our own.
NODE_TESTS = {
    "Acos": 2,
    "Acosh": 2,
    "ArgMax": 16,
    "ArgMin": 16,
    "Asin": 2,
    "Asinh": 2,
    "Atan": 2,
    "Atanh": 2,
    "Attention": 93,
    "BitShift": 28,
    "BitwiseAnd": 4,
    "BitwiseNot": 3,
    "BitwiseOr": 4,
    "BitwiseXor": 4,
    "Compress": 4,
    "Cosh": 2,
    "CumProd": 9,
    "CumSum": 9,
    "DFT": 10,
    "Einsum": 9,
    "EyeLike": 3,
    "GRU": 6,
    "GatherElements": 3,
    "GatherND": 3,
    "IsInf": 4,
    "LSTM": 6,
    "Mean": 3,
    "Mod": 19,
    "OneHot": 5,
    "RNN": 6,
    "ReduceL1": 16,
    "ReduceL2": 16,
    "ReduceLogSum": 8,
    "ReduceLogSumExp": 16,
    "ReduceProd": 8,
    "ReduceSumSquare": 16,
    "ReverseSequence": 3,
    "RotaryEmbedding": 16,
    "STFT": 2,
    "Scatter": 2,
    "ScatterElements": 7,
    "ScatterND": 5,
    "Sinh": 2,
    "Tan": 2,
    "TensorScatter": 3,
    "Tile": 2,
    "TopK": 7,
    "Trilu": 16,
    "Xor": 8,
}


def node_cases(operator: str, *, expanded: bool = False) -> list[TestCase]:
    """All tests of an operator; with `expanded` also those in which it is spelled out."""
    return [case for case in _by_operator()[operator] if expanded or "_expanded" not in case.name]


@cache
def _by_operator() -> dict[str, list[TestCase]]:
    """Importing the cases makes them, which takes seconds; some of their values are infinite on purpose."""
    from onnx.backend.test.case.node import collect_testcases

    with np.errstate(all="ignore"):
        cases = collect_testcases(None)
    found: dict[str, list[TestCase]] = {}
    operators: dict[str, str] = {}
    for case in cases:
        assert case.model is not None
        base = case.name.split("_expanded")[0]
        if base == case.name and len(case.model.graph.node) == 1:
            operators[base] = case.model.graph.node[0].op_type
    for case in cases:
        base = case.name.split("_expanded")[0]
        if base in operators:
            found.setdefault(operators[base], []).append(case)
    return found


def interpreted(case, arrays) -> dict[str, np.ndarray]:
    """The outputs of a test's node at the wide width, in the types that it declares."""
    graph = read_onnx(case.model)
    verify_graph(graph)
    values = {value.name: as_array(array) for value, array in zip(case.model.graph.input, arrays, strict=True)}
    return interpret(graph, {name: values[name] for name in graph.inputs}, wide=True)


def as_array(value) -> np.ndarray:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)
