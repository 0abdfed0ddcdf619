"""Every ONNX operator that is read means, as a loop nest, what onnxruntime says it means; the rest is refused."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.helpers.interpreter import interpret
from tests.helpers.onnx_nodes import CASTS, NEURAL, NODE_TESTS, QUANTISATION
from tilestitch import zoo
from tilestitch.base.errors import InputError
from tilestitch.frontend.operators.handlers import ALWAYS_KNOWN, HANDLERS
from tilestitch.frontend.operators.shapes import merged, refinement
from tilestitch.frontend.reader import read_onnx
from tilestitch.ir.graph import Access, Axis, DimKind, Graph
from tilestitch.ir.verify import verify_graph
from tilestitch.ops import RULES, contraction

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"

Array = np.ndarray


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def positive(*shape: int, seed: int = 0) -> Array:
    return np.abs(floats(*shape, seed=seed)) + np.float32(0.5)


def ints(*shape: int, low: int = -9, high: int = 9, dtype: type = np.int64) -> Array:
    return np.random.default_rng(shape).integers(low, high, shape, endpoint=True).astype(dtype)


def bools(*shape: int, seed: int = 0) -> Array:
    return floats(*shape, seed=seed) > 0


def i64(*values: int) -> Array:
    return np.array(values, np.int64)


@dataclass(frozen=True)
class Case:
    """One node; `constants` are initialisers, and an operand that is None is absent."""

    op: str
    inputs: tuple[Array | None, ...]
    constants: tuple[Array | None, ...] = ()
    attributes: Mapping[str, object] = field(default_factory=dict)
    opset: int = 20
    outputs: int = 1
    label: str = ""
    first: bool = False  # constants come before inputs

    def __str__(self) -> str:
        shapes = "-".join("x".join(map(str, x.shape)) if x is not None else "none" for x in self.inputs)
        return f"{self.op}{self.opset}-{shapes}{'-' if self.label else ''}{self.label}"

    def model(self) -> tuple[onnx.ModelProto, dict[str, Array]]:
        given = {f"x{i}": x for i, x in enumerate(self.inputs)}
        known = {f"c{i}": x for i, x in enumerate(self.constants)}
        operands = {**known, **given} if self.first else {**given, **known}
        names = [name if x is not None else "" for name, x in operands.items()]
        outputs = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.op, names, outputs, name="node", **self.attributes)
        feeds = {name: x for name, x in given.items() if x is not None}
        weights = {name: x for name, x in known.items() if x is not None}
        return make_model([node], feeds, weights, outputs, opset=self.opset), feeds


def make_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array],
    weights: Mapping[str, Array],
    outputs: Sequence[str],
    *,
    opset: int = 20,
) -> onnx.ModelProto:
    opsets = [helper.make_opsetid("", opset)]
    graph = helper.make_graph(
        nodes,
        "net",
        [
            helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for k, x in inputs.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(x, name) for name, x in weights.items()],
    )
    return helper.make_model(graph, opset_imports=opsets, ir_version=max(8, helper.find_min_ir_version_for(opsets)))


def reference(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip([x.name for x in session.get_outputs()], session.run(None, dict(inputs)), strict=True))


def assert_same(graph: Graph, model: onnx.ModelProto, inputs: Mapping[str, Array]) -> None:
    """The graph computes what onnxruntime computes, and is in order."""
    check_graph(graph)
    found = interpret(graph, inputs)
    for name, expected in reference(model, inputs).items():
        assert found[name].shape == expected.shape, name
        if expected.dtype.kind == "f":
            scale = max(1.0, np.abs(expected[np.isfinite(expected)]).max(initial=0))
            np.testing.assert_allclose(found[name], expected, rtol=0, atol=1e-5 * scale, err_msg=name)
        else:
            np.testing.assert_array_equal(found[name], expected, err_msg=name)


def check_graph(graph: Graph) -> None:
    """What holds of every graph that was read."""
    verify_graph(graph)
    assert {op.kind for op in graph.operators} <= RULES.keys()
    used = {name for op in graph.operators for name in (*op.inputs, *op.outputs)}
    assert used.union(graph.inputs, graph.outputs) == set(graph.tensors)
    assert all(tensor.layout == tuple(range(len(tensor.shape))) for tensor in graph.tensors.values())


CONVOLUTIONS = [
    Case("Conv", (floats(2, 3, 9, 11),), (floats(5, 3, 3, 3),)),
    Case("Conv", (floats(2, 3, 9, 11),), (floats(5, 3, 3, 3), floats(5)), {"pads": [1, 1, 1, 1]}),
    Case("Conv", (floats(1, 4, 13, 8),), (floats(6, 4, 5, 3), floats(6)), {"pads": [2, 0, 1, 1], "strides": [2, 3]}),
    Case("Conv", (floats(1, 3, 12, 12),), (floats(4, 3, 3, 3),), {"dilations": [2, 3], "pads": [2, 3, 2, 3]}),
    Case("Conv", (floats(2, 6, 7, 7),), (floats(8, 3, 3, 3), floats(8)), {"group": 2}),
    Case("Conv", (floats(2, 6, 7, 7),), (floats(6, 1, 3, 3), floats(6)), {"group": 6, "pads": [1] * 4}, label="depth"),
    Case("Conv", (floats(2, 3, 7, 7),), (floats(6, 1, 3, 3),), {"group": 3}, label="multiplier"),
    Case("Conv", (floats(2, 6, 7, 7),), (floats(3, 2, 3, 3),), {"group": 3}, label="one-out"),
    Case("Conv", (floats(2, 4, 20),), (floats(6, 4, 5), floats(6)), {"strides": [3], "pads": [2, 1]}),
    Case(
        "Conv", (floats(1, 2, 5, 6, 7),), (floats(3, 2, 2, 3, 2),), {"strides": [1, 2, 1], "pads": [1, 0, 0, 0, 1, 1]}
    ),
    Case("Conv", (floats(2, 8, 1, 1),), (floats(3, 8, 1, 1), floats(3))),
    Case("Conv", (floats(1, 3, 7, 8), floats(2, 3, 2, 2)), label="weights-computed"),
    *(
        Case("Conv", (floats(1, 2, 10, 11),), (floats(3, 2, 4, 3),), {"auto_pad": pad, "strides": [3, 2]}, label=pad)
        for pad in ("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
    ),
    Case("Conv", (floats(1, 2, 9),), (floats(3, 2, 3),), {"kernel_shape": [3], "auto_pad": "SAME_UPPER"}, opset=11),
]

TRANSPOSED = [
    *(
        Case("ConvTranspose", (floats(2, 3, 5, 6),), (floats(3, 4, 3, 3), floats(4)), dict(attributes), label=label)
        for label, attributes in {
            "dense": {},
            "stride": {"strides": [2, 3]},
            "padded": {"strides": [2, 2], "pads": [1, 1, 1, 1]},
            "odd": {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
            "ragged": {"strides": [3, 2], "pads": [2, 1, 0, 2], "output_padding": [0, 1]},
            "dilated": {"dilations": [2, 1], "pads": [1, 0, 0, 1]},
            "both": {"dilations": [2, 3], "strides": [3, 2], "pads": [1, 1, 0, 1]},
            "shape": {"strides": [2, 2], "output_shape": [10, 12]},
            "smaller": {"strides": [2, 2], "output_shape": [11, 13], "output_padding": [1, 1]},
            "upper": {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
            "lower": {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
            "valid": {"strides": [2, 2], "auto_pad": "VALID"},
        }.items()
    ),
    Case("ConvTranspose", (floats(1, 3, 5, 6),), (floats(3, 4, 4, 4),), {"strides": [2, 2], "pads": [1] * 4}),
    Case("ConvTranspose", (floats(1, 3, 5, 6),), (floats(3, 4, 2, 2),), {"strides": [2, 2]}, label="apart"),
    Case("ConvTranspose", (floats(1, 3, 5, 6),), (floats(3, 4, 2, 2),), {"strides": [3, 4]}, label="gaps"),
    Case("ConvTranspose", (floats(1, 6, 5, 6),), (floats(6, 2, 3, 3), floats(6)), {"group": 3, "strides": [2, 2]}),
    Case("ConvTranspose", (floats(1, 4, 5, 6),), (floats(4, 1, 3, 3),), {"group": 4, "strides": [2, 2]}, label="depth"),
    Case("ConvTranspose", (floats(1, 3, 5, 6), floats(3, 4, 3, 3)), (), {"strides": [2, 2]}, label="computed"),
    Case("ConvTranspose", (floats(2, 3, 7),), (floats(3, 2, 5),), {"strides": [2], "pads": [2, 1]}),
    Case("ConvTranspose", (floats(1, 2, 3, 4, 3),), (floats(2, 3, 2, 3, 2),), {"strides": [1, 2, 2]}),
    *(
        Case("Col2Im", (floats(2, 2 * 6, n),), (i64(9, 8), i64(2, 3)), attributes)
        for n, attributes in ((48, {}), (12, {"strides": [2, 2]}), (54, {"pads": [1, 0, 0, 2], "dilations": [1, 2]}))
    ),
]

PICTURE = floats(1, 2, 7, 10)


def resized(label: str, *settings: Array | None, opset: int = 19, **attributes: object) -> Case:
    return Case("Resize", (PICTURE,), settings, attributes, opset=opset, label=label)


def scales(*values: float) -> tuple[None, Array]:
    return None, np.array([1, 1, *values], np.float32)


def sizes(*values: int) -> tuple[None, None, Array]:
    return None, None, i64(1, 2, *values)


RESIZES = [
    *(
        resized(f"{mode}-{where}-{values}", *sizes(*values), mode=mode, coordinate_transformation_mode=where)
        for mode in ("nearest", "linear", "cubic")
        for where in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "half_pixel_symmetric")
        for values in ((14, 20), (10, 4), (1, 13))
    ),
    *(
        resized(f"{rounding}-{where}", *scales(2.0, 1.7), coordinate_transformation_mode=where, nearest_mode=rounding)
        for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        for where in ("half_pixel", "asymmetric", "half_pixel_symmetric")
    ),
    *(
        resized(f"antialias-{mode}-{excluded}", *scales(0.4, 1.3), mode=mode, antialias=1, exclude_outside=excluded)
        for mode in ("linear", "cubic")
        for excluded in (0, 1)
    ),
    resized("cubic-excluded", *scales(1.5, 0.7), mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5),
    resized("axes", None, np.array([1.5, 2], np.float32), mode="linear", axes=[3, 2]),
    resized("not-larger", None, None, i64(20, 21), axes=[2, 3], keep_aspect_ratio_policy="not_larger"),
    resized("same", *sizes(7, 10), mode="linear"),
    *(
        resized(
            f"crop-{mode}",
            np.array([0, 0, 0.2, -0.3, 1, 1, 0.8, 1.1], np.float32),
            None,
            i64(1, 2, 5, 8),
            mode=mode,
            coordinate_transformation_mode="tf_crop_and_resize",
            extrapolation_value=3.5,
        )
        for mode in ("nearest", "linear")
    ),
    Case("Resize", (PICTURE,), (np.array([1, 1, 2, 1.5], np.float32),), opset=10),
    Case("Resize", (PICTURE,), (np.array([1, 1, 2, 1.5], np.float32),), {"mode": "linear"}, opset=10),
    Case("Resize", (ints(1, 2, 3, 4, dtype=np.int32),), (None, np.array([1, 1, 2, 2], np.float32)), label="integers"),
    Case("Upsample", (PICTURE,), (np.array([1, 1, 2, 1.5], np.float32),), opset=9),
    Case("Upsample", (PICTURE,), (np.array([1, 1, 2, 1.5], np.float32),), {"mode": "linear"}, opset=9),
    Case("Upsample", (PICTURE,), (), {"scales": [1.0, 1.0, 2.0, 3.0]}, opset=7),
]

SAMPLES = [
    *(
        Case(
            "GridSample",
            (floats(2, 3, 5, 7), 1.4 * np.tanh(floats(2, 4, 3, 2))),
            (),
            {"mode": mode, "padding_mode": padding, "align_corners": corners},
            label=f"{mode}-{padding}-{corners}",
        )
        for mode in ("nearest", "linear", "cubic")
        for padding in ("zeros", "border", "reflection")
        for corners in (0, 1)
    ),
    Case("GridSample", (floats(1, 2, 4, 3), floats(1, 2, 2, 2)), (), {"mode": "bilinear"}, opset=16),
    *(
        Case("GridSample", (floats(1, 2, 4, 3, 5), floats(1, 2, 2, 3, 3)), (), {"mode": mode}, label=f"{mode}-volume")
        for mode in ("nearest", "linear")
    ),
    *(
        Case(
            "RoiAlign",
            (
                floats(2, 3, 9, 12),
                np.array([[1, 1, 14, 12], [0.5, -3, 3.2, 8], [2, 3, 2.1, 3.1], [-9, 2, 30, 17]], np.float32),
                i64(1, 0, 1, 0),
            ),
            (),
            {
                "output_height": 3,
                "output_width": 2,
                "sampling_ratio": 2,
                "spatial_scale": 0.6,
                "coordinate_transformation_mode": shifted,
                "mode": mode,
            },
            opset=16,
            label=f"{mode}-{shifted}",
        )
        for mode in ("avg", "max")
        for shifted in ("half_pixel", "output_half_pixel")
    ),
    Case(
        "DeformConv",
        (floats(2, 4, 6, 7), floats(6, 2, 3, 2), floats(2, 24, 3, 6), floats(6), positive(2, 12, 3, 6)),
        (),
        {"group": 2, "offset_group": 2, "strides": [2, 1], "pads": [1, 0, 1, 1], "dilations": [1, 2]},
    ),
    Case("DeformConv", (floats(1, 4, 6, 7), floats(6, 4, 1, 1), floats(1, 2, 6, 7))),
]

PRODUCTS = [
    Case("MatMul", (floats(5, 7), floats(7, 3))),
    Case("MatMul", (floats(2, 5, 7),), (floats(7, 3),)),
    Case("MatMul", (floats(2, 4, 5, 7), floats(2, 4, 7, 3))),
    Case("MatMul", (floats(2, 1, 5, 7), floats(4, 7, 3)), label="broadcast"),
    Case("MatMul", (floats(5, 7), floats(2, 3, 7, 4)), label="rank"),
    Case("MatMul", (floats(7), floats(7, 3))),
    Case("MatMul", (floats(2, 5, 7), floats(7))),
    Case("MatMul", (floats(7), floats(2, 7, 4))),
    Case("MatMul", (floats(7), floats(7, seed=1))),
    Case("MatMul", (ints(3, 4, dtype=np.int32), ints(4, 2, dtype=np.int32))),
    Case("Gemm", (floats(4, 6),), (floats(6, 5), floats(5))),
    Case("Gemm", (floats(6, 4),), (floats(5, 6), floats(4, 1)), {"transA": 1, "transB": 1}),
    Case("Gemm", (floats(4, 6),), (floats(5, 6), floats(4, 5)), {"transB": 1, "alpha": 0.5, "beta": 2.0}),
    Case("Gemm", (floats(4, 6),), (floats(6, 5), floats(1)), {"beta": 0.0}),
    Case("Gemm", (floats(4, 6),), (floats(6, 5), np.float32(3.0)), label="scalar"),
    Case("Gemm", (floats(6, 5),), (floats(4, 6),), {"alpha": 3.0}, first=True, label="alpha-left"),
    Case("Gemm", (floats(4, 6), floats(6, 5), floats(5)), (), {"alpha": 3.0, "beta": 0.5}, label="computed"),
    Case("Gemm", (floats(4, 6), floats(6, 5), floats(1, 5)), opset=7),
    Case("Gemm", (floats(4, 6), floats(6, 5), floats(1, 5)), (), {"alpha": 0.5, "beta": 2.0}, label="computed"),
    Case("Gemm", (floats(4, 6), floats(6, 2)), (), {"alpha": 0.5}, label="computed"),
]

X2D = floats(2, 3, 10, 13)
POOLS = [
    Case("MaxPool", (X2D,), (), {"kernel_shape": [3, 2], "strides": [2, 2]}),
    Case("MaxPool", (X2D,), (), {"kernel_shape": [3, 3], "strides": [2, 3], "pads": [1, 1, 0, 2]}),
    Case("MaxPool", (X2D - 9,), (), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, label="negative"),
    Case("MaxPool", (X2D,), (), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, label="ceil"),
    Case("MaxPool", (floats(1, 1, 5, 5),), (), {"kernel_shape": [1, 1], "strides": [3, 3], "ceil_mode": 1}),
    Case("MaxPool", (X2D,), (), {"kernel_shape": [2, 2], "dilations": [2, 3]}, label="dilated"),
    Case("MaxPool", (X2D,), (), {"kernel_shape": [3, 2], "strides": [3, 3], "auto_pad": "SAME_LOWER"}),
    Case("MaxPool", (X2D,), (), {"kernel_shape": [3, 2], "strides": [2, 3], "auto_pad": "SAME_UPPER"}, opset=8),
    Case("MaxPool", (floats(2, 3, 11),), (), {"kernel_shape": [4], "strides": [2], "pads": [1, 2]}),
    Case("MaxPool", (floats(1, 2, 5, 6, 4),), (), {"kernel_shape": [2, 3, 2]}),
    Case("MaxPool", (ints(1, 2, 6, 6, dtype=np.int8),), (), {"kernel_shape": [3, 3], "pads": [1] * 4}),
    Case("MaxPool", (ints(1, 2, 6, 6, low=0, dtype=np.uint8),), (), {"kernel_shape": [3, 3], "pads": [1] * 4}),
    Case("AveragePool", (X2D,), (), {"kernel_shape": [3, 2], "strides": [2, 2]}),
    Case("AveragePool", (X2D,), (), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}, label="padded"),
    Case("AveragePool", (X2D,), (), {"kernel_shape": [3, 3], "pads": [1, 0, 1, 2], "count_include_pad": 1}),
    Case("AveragePool", (X2D,), (), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, label="ceil"),
    Case(
        "AveragePool",
        (floats(1, 2, 9, 8),),
        (),
        {"kernel_shape": [3, 3], "strides": [2, 3], "pads": [1, 1, 1, 0], "ceil_mode": 1, "count_include_pad": 1},
        label="ceil-count",
    ),
    Case("AveragePool", (X2D,), (), {"kernel_shape": [4, 3], "strides": [3, 2], "auto_pad": "SAME_UPPER"}),
    Case("AveragePool", (floats(1, 2, 9),), (), {"kernel_shape": [3], "dilations": [2], "pads": [1, 1]}),
    Case(
        "AveragePool", (floats(1, 2, 5, 6, 4),), (), {"kernel_shape": [2, 3, 2], "pads": [1, 0, 1, 0, 1, 0]}, opset=11
    ),
    *(
        Case("MaxPool", (X2D,), (), {"kernel_shape": [3, 2], **attributes}, outputs=2, label=f"indices-{label}")
        for label, attributes in {
            "plain": {},
            "columns": {"storage_order": 1},
            "padded": {"strides": [2, 2], "pads": [1, 1, 0, 1]},
            "dilated": {"dilations": [2, 3], "ceil_mode": 1, "strides": [2, 2]},
        }.items()
    ),
    Case(
        "MaxPool", (ints(1, 2, 9, low=-2, high=2, dtype=np.int8),), (), {"kernel_shape": [3]}, outputs=2, label="ties"
    ),
    *(
        Case(
            "LpPool",
            (X2D,),
            (),
            {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 0, 1], "p": p},
            label=f"p{p}",
        )
        for p in (1, 2, 3)
    ),
    Case("GlobalLpPool", (X2D,), (), {"p": 3}),
    Case(
        "MaxUnpool",
        (floats(2, 3, 2, 2),),
        (ints(1, 1, 2, 2, low=0, high=0) + np.array([[0, 3], [9, 14]]) + 16 * np.arange(6).reshape(2, 3, 1, 1),),
        {"kernel_shape": [2, 2], "strides": [2, 2]},
    ),
    Case("GlobalAveragePool", (X2D,)),
    Case("GlobalMaxPool", (X2D,)),
    Case("GlobalAveragePool", (floats(2, 3, 5),)),
]

X3D = floats(3, 4, 5)
REDUCTIONS = [
    Case("ReduceMean", (X3D,), (i64(1),)),
    Case("ReduceMean", (X3D,), (i64(-1, 0),), {"keepdims": 0}),
    Case("ReduceMean", (X3D,), (), {"axes": [1, 2], "keepdims": 0}, opset=13),
    Case("ReduceMean", (X3D,), (), label="all"),
    Case("ReduceMean", (X3D,), (), {"keepdims": 0}, label="scalar"),
    Case("ReduceSum", (X3D,), (i64(0, 2),)),
    Case("ReduceSum", (X3D,), (), {"axes": [-2]}, opset=11),
    Case("ReduceSum", (X3D,), (i64(),), {"noop_with_empty_axes": 1}, label="noop"),
    Case("ReduceSum", (X3D,), (i64(),), label="empty"),
    Case("ReduceSum", (ints(3, 4),), (i64(1),)),
    Case("ReduceMax", (X3D,), (i64(2),)),
    Case("ReduceMax", (X3D,), (), {"axes": [0], "keepdims": 0}, opset=12),
    Case("ReduceMin", (X3D,), (i64(0),), {"keepdims": 0}),
    Case("ReduceMin", (ints(3, 4),), (i64(0),)),
]

ELEMENTWISE = [
    *(
        Case(op, (floats(3, 4),))
        for op in (
            *("Abs", "Neg", "Exp", "Erf", "Tanh", "Sigmoid", "Relu", "LeakyRelu", "Elu", "HardSigmoid", "HardSwish"),
            *("Gelu", "Floor", "Ceil", "Round", "Sin", "Cos", "Sign", "Softplus", "Identity", "Dropout", "Sum", "Max"),
        )
    ),
    *(Case(op, (positive(3, 4),)) for op in ("Sqrt", "Log", "Reciprocal")),
    Case("Round", (np.array([0.5, 1.5, -0.5, 2.5, -2.6], np.float32),)),
    Case("IsNaN", (np.array([0.5, np.nan, np.inf], np.float32),)),
    Case("Neg", (ints(3, 4),)),
    Case("Abs", (ints(3, 4, dtype=np.int32),)),
    Case("Sign", (ints(3, 4),)),
    Case("LeakyRelu", (floats(3, 4),), (), {"alpha": 0.3}),
    Case("Elu", (floats(3, 4),), (), {"alpha": 0.7}),
    Case("HardSigmoid", (floats(3, 4),), (), {"alpha": 0.4, "beta": 0.1}),
    Case("Gelu", (floats(3, 4),), (), {"approximate": "tanh"}),
    *(Case(op, (floats(3, 4), positive(3, 4, seed=1))) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum")),
    *(Case(op, (floats(2, 3, 4), positive(3, 1))) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum")),
    *(Case(op, (ints(3, 4), ints(4, low=1))) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min")),
    *(Case(op, (floats(4, 1), floats(2, 1, 3), floats(3))) for op in ("Max", "Min", "Sum")),
    Case("Add", (floats(3, 1),), (floats(1, 4),)),
    Case("Add", (floats(2, 3),), (np.float32(2.0),), label="scalar"),
    Case("Add", (np.array(1.0, np.float32), np.array(2.0, np.float32))),
    Case("Add", (floats(4),), (floats(2, 3, 4),), first=True, label="constant-first"),
    Case("Pow", (positive(3, 4), floats(4))),
    Case("Pow", (floats(3, 4),), (np.float32(2.0),)),
    Case("Pow", (floats(3, 4),), (i64(3),), label="int-exponent"),
    Case("PRelu", (floats(2, 3, 4),), (floats(3, 1),)),
    *(
        Case(op, (ints(3, 4, low=0, high=2), ints(4, low=0, high=2)), opset=16)
        for op in ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual")
    ),
    *(Case(op, (floats(3, 4), floats(3, 1))) for op in ("Greater", "Less", "GreaterOrEqual", "LessOrEqual")),
    *(Case(op, (bools(3, 4), bools(4, seed=1))) for op in ("And", "Or")),
    Case("Not", (bools(3, 4),)),
    Case("Where", (bools(3, 1), floats(2, 3, 4), floats(4))),
    Case("Where", (bools(3, 4), ints(3, 4)), (i64(7),)),
    Case("Clip", (floats(3, 4),), (), {"min": -0.5, "max": 0.25}, opset=6 + 1),
    Case("Clip", (floats(3, 4),), (np.float32(-0.5), np.float32(0.25))),
    Case("Clip", (floats(3, 4),), (None, np.float32(0.25)), label="max-only"),
    Case("Clip", (floats(3, 4),), (), label="open"),
    Case("Clip", (ints(3, 4),), (np.int64(-2), np.int64(3)), label="integers"),
    Case("Clip", (floats(3, 4), np.array(-0.5, np.float32), np.array(0.5, np.float32)), label="computed"),
    Case("Clip", (ints(3, 4),), label="nothing"),
    Case("Dropout", (floats(3, 4),), (), {"ratio": 0.3}, opset=7),
    Case("Dropout", (floats(3, 4),), outputs=2, opset=10, label="mask"),
    Case("Dropout", (floats(3, 4),), (np.float32(0.3), np.array(False)), opset=13),
    Case("Dropout", (floats(3, 4),), (np.float32(0.3),), outputs=2, opset=13, label="mask"),
    Case("Dropout", (floats(3, 4),), (np.float32(0.0), np.array(True)), outputs=2, label="training-keeps-all"),
    Case("Cast", (floats(3, 4) * 5,), (), {"to": TensorProto.INT32}),
    Case("Cast", (floats(3, 4) * 5,), (), {"to": TensorProto.INT64}),
    Case("Cast", (floats(3, 4).round(),), (), {"to": TensorProto.BOOL}),
    Case("Cast", (ints(3, 4),), (), {"to": TensorProto.FLOAT}),
    Case("Cast", (ints(3, 4),), (), {"to": TensorProto.INT32}),
    Case("Cast", (ints(3, 4, low=0, high=200),), (), {"to": TensorProto.UINT8}),
    Case("Cast", (bools(3, 4),), (), {"to": TensorProto.FLOAT}),
    Case("Cast", (bools(3, 4),), (), {"to": TensorProto.INT64}),
    *(
        Case(
            "BatchNormalization",
            (floats(2, 3, *rest),),
            (floats(3), floats(3, seed=1), floats(3, seed=2), positive(3)),
            {"epsilon": 1e-3},
            opset=opset,
        )
        for rest, opset in (((4, 5), 15), ((4, 5), 9), ((4, 5), 7), ((6,), 15), ((), 14))
    ),
]

NORMALISATIONS = [
    *(
        Case(op, (floats(2, 3, 4, 5),), (), attributes, opset=opset, label=label)
        for op in ("Softmax", "LogSoftmax")
        for attributes, opset, label in (
            ({}, 13, ""),
            ({"axis": 1}, 13, "axis1"),
            ({}, 11, ""),
            ({"axis": 2}, 11, "axis2"),
            ({"axis": -1}, 12, "last"),
            ({"axis": 0}, 9, "axis0"),
        )
    ),
    Case("LayerNormalization", (floats(2, 3, 8),), (floats(8), floats(8, seed=1))),
    Case("LayerNormalization", (floats(2, 3, 8),), (floats(8),), {"epsilon": 0.1}, opset=17),
    Case("LayerNormalization", (floats(2, 3, 8),), (floats(3, 8), floats(3, 8, seed=1)), {"axis": 1}),
    Case("LayerNormalization", (floats(2, 3, 8),), (floats(8),), {"axis": -2}, label="scale-broadcast"),
]

VIEWS = [
    Case("Reshape", (floats(2, 3, 8),), (i64(2, 3, 2, 4),)),
    Case("Reshape", (floats(2, 3, 8),), (i64(0, -1),)),
    Case("Reshape", (floats(2, 3, 8),), (i64(-1),)),
    Case("Reshape", (floats(2, 3, 2, 4),), (i64(6, 8),)),
    Case("Reshape", (floats(6, 4),), (i64(2, 12),), label="regroup"),
    Case("Reshape", (floats(6, 4),), (i64(4, 6),), label="no-refinement"),
    Case("Reshape", (floats(2, 6, 4, 5),), (i64(2, 4, 6, 5),), label="no-refinement-inside"),
    Case("Reshape", (floats(1, 6, 1, 4),), (i64(6, 4, 1, 1),), label="ones"),
    Case("Reshape", (floats(2, 3),), (i64(2, 1, 3),), {"allowzero": 1}),
    Case("Reshape", (floats(1),), (i64(),), label="scalar"),
    Case("Reshape", (np.array(3.0, np.float32),), (i64(1, 1),)),
    Case("Flatten", (floats(2, 3, 4, 5),)),
    Case("Flatten", (floats(2, 3, 4, 5),), (), {"axis": 2}),
    Case("Flatten", (floats(2, 3, 4, 5),), (), {"axis": 0}, label="axis0"),
    Case("Flatten", (floats(2, 3, 4, 5),), (), {"axis": -1}, label="last"),
    Case("Transpose", (floats(2, 3, 4, 5),)),
    Case("Transpose", (floats(2, 3, 4, 5),), (), {"perm": [0, 2, 3, 1]}, label="perm"),
    Case("Squeeze", (floats(2, 1, 3, 1),)),
    Case("Squeeze", (floats(2, 1, 3, 1),), (i64(-1),)),
    Case("Squeeze", (floats(2, 1, 3, 1),), (), {"axes": [1]}, opset=11),
    Case("Unsqueeze", (floats(2, 3),), (i64(0, -1),)),
    Case("Unsqueeze", (floats(2, 3),), (), {"axes": [1, 3]}, opset=11),
    Case("Expand", (floats(3, 1),), (i64(2, 1, 4),)),
    Case("Expand", (floats(2, 3),), (i64(1, 1),), label="smaller"),
    Case("Slice", (floats(8, 9),), (i64(1, 2), i64(7, -1))),
    Case("Slice", (floats(8, 9),), (i64(1), i64(2**62), i64(-1), i64(3))),
    Case("Slice", (floats(8, 9),), (i64(-1, 7), i64(-(2**62), 1), i64(0, 1), i64(-1, -2)), label="backwards"),
    Case("Slice", (floats(8, 9),), (), {"starts": [2], "ends": [1000], "axes": [1]}, opset=9),
    Case("Slice", (ints(8),), (i64(-3), i64(-1)), opset=10),
    Case("Split", (floats(2, 9),), (), {"axis": 1, "num_outputs": 2}, outputs=2),
    Case("Split", (floats(2, 9),), (i64(2, 3, 4),), {"axis": -1}, outputs=3),
    Case("Split", (floats(6, 2),), (), {"split": [1, 5]}, opset=11, outputs=2),
    Case("Split", (floats(6, 2),), (), {}, opset=13, outputs=3),
    Case("Concat", (floats(2, 3, 4), floats(2, 5, 4), floats(2, 1, 4)), (), {"axis": 1}),
    Case("Concat", (floats(2, 3),), (floats(2, 2),), {"axis": -1}, label="constant"),
    Case("Concat", (floats(2, 3),), (floats(2, 0),), {"axis": 1}, label="empty"),
    Case("Concat", (floats(2, 3),), (), {"axis": 0}, label="one"),
    Case("Identity", (bools(2, 3),)),
    Case("OptionalGetElement", (floats(2, 3),)),
    *(Case("DepthToSpace", (floats(2, 12, 3, 2),), (), {"blocksize": 2, "mode": mode}) for mode in ("DCR", "CRD")),
    Case("SpaceToDepth", (floats(2, 3, 4, 6),), (), {"blocksize": 2}),
    *(
        Case("AffineGrid", (floats(2, r, r + 1),), (i64(2, 3, *sizes),), {"align_corners": corners})
        for r, sizes in ((2, (4, 1)), (3, (4, 5, 2)))
        for corners in (0, 1)
    ),
    Case("Dropout", (floats(3, 4),), outputs=2, label="mask"),
    *(
        Case("Pad", (floats(3, 4, 5),), (i64(1, 0, 2, 0, 3, 1),), {"mode": mode}, label=mode)
        for mode in ("constant", "edge", "reflect")
    ),
    Case("Pad", (floats(3, 4, 5),), (i64(4, 0, 2, 0, 9, 1),), {"mode": "wrap"}, label="wrap"),
    Case("Pad", (floats(3, 4, 5),), (i64(1, -1, 2, 0), np.float32(7), i64(2, 0)), opset=18, label="axes"),
    Case("Pad", (floats(3, 4),), (), {"pads": [1, 0, 0, 2], "value": 0.5}, opset=10),
    Case("Pad", (ints(3, 4),), (i64(1, 1, 1, 1), np.int64(5))),
    Case("CenterCropPad", (floats(5, 6, 7),), (i64(3, 9, 7),), opset=18),
    Case("CenterCropPad", (floats(5, 6, 7),), (i64(2, 3),), {"axes": [-1, 0]}, opset=18),
    Case("Gather", (floats(4, 5, 6),), (np.array(-1),), {"axis": 1}, label="scalar"),
    Case("Gather", (floats(4, 5, 6),), (i64(1, 2, 3),), {"axis": -1}, label="run"),
    Case("Gather", (floats(9, 2),), (i64(8, 5, 2),), label="backwards"),
    Case("Gather", (floats(9, 2),), (np.arange(6).reshape(2, 3),), label="run-2d"),
    Case("Gather", (floats(9, 2),), (i64(3),), label="one"),
    Case("Gather", (floats(9, 2),), (i64(4, 0, -1, 4),), label="uneven"),
    Case("Gather", (floats(9, 2),), (i64(4, 4),), label="twice"),
    Case("Gather", (ints(2, 3, low=-9, high=8),), (floats(9, 4),), first=True, label="table"),
    Case("Gather", (floats(3, 7, 2), ints(4, low=0, high=6)), (), {"axis": 1}, label="computed"),
]


def attention(*shapes: tuple[int, ...], masks: Sequence[Array | None] = (), **attributes: object) -> Case:
    operands = tuple(floats(*shape, seed=i) for i, shape in enumerate(shapes))
    label = "-".join([f"{k}{v}" for k, v in attributes.items()] + [str(m.dtype) for m in masks if m is not None])
    return Case("Attention", operands, tuple(masks), attributes, opset=23, label=label)


LEFT = np.array([[1, 0, 0, 0, 0], [0, 1, 1, 1, 1], [1, 1, 0, 0, 1]], np.bool_)
NONE_LEFT = np.array([[1, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 1, 1, 1]], np.bool_)
MERGED = ((2, 3, 12), (2, 5, 12), (2, 5, 12))
ATTENTIONS = [
    attention((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 6)),
    attention((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 8), scale=0.3),
    attention((2, 4, 3, 8), (2, 4, 5, 8), (2, 4, 5, 8), scale=1.0),
    attention(*MERGED, q_num_heads=3, kv_num_heads=3),
    attention(*MERGED, q_num_heads=3, kv_num_heads=3, is_causal=1),
    attention(*MERGED, q_num_heads=3, kv_num_heads=3, masks=[floats(3, 5)]),
    attention(*MERGED, q_num_heads=3, kv_num_heads=3, is_causal=1, masks=[floats(2, 3, 3, 5)]),
    attention(*MERGED, q_num_heads=3, kv_num_heads=3, masks=[LEFT]),
    attention(*MERGED, q_num_heads=3, kv_num_heads=3, masks=[NONE_LEFT]),
    attention(*MERGED, q_num_heads=3, kv_num_heads=3, is_causal=1, masks=[LEFT]),
    attention((2, 6, 3, 8), (2, 2, 5, 8), (2, 2, 5, 4)),
    attention((2, 3, 24), (2, 5, 8), (2, 5, 16), q_num_heads=6, kv_num_heads=2, is_causal=1),
    attention((2, 3, 24), (2, 5, 4), (2, 5, 4), q_num_heads=6, kv_num_heads=1, masks=[LEFT]),
    Case("Attention", (*(floats(1, 2, n, 4) for n in (3, 5, 5)), NONE_LEFT), opset=24, label="mask-computed"),
    Case(
        "Attention",
        (*(floats(1, 2, n, 4) for n in (3, 5, 5)), LEFT),
        (),
        {"is_causal": 1},
        opset=24,
        label="mask-computed-causal",
    ),
]

CASES = [
    *CONVOLUTIONS,
    *TRANSPOSED,
    *RESIZES,
    *SAMPLES,
    *PRODUCTS,
    *POOLS,
    *REDUCTIONS,
    *ELEMENTWISE,
    *NORMALISATIONS,
    *VIEWS,
    *ATTENTIONS,
]


@pytest.mark.quick
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_node_means_what_onnxruntime_computes(case):
    """The loop nest of every operator, evaluated on arrays, gives the reference's values."""
    model, inputs = case.model()
    onnx.checker.check_model(without_output_types(model))
    graph = read_onnx(model)
    assert_same(graph, model, inputs)
    assert any(op.name.startswith("node") for op in graph.operators)


def without_output_types(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same nodes as a model that onnx accepts: it wants to know the types of outputs."""
    found = onnx.shape_inference.infer_shapes(model)
    assert all(value.type.WhichOneof("value") for value in found.graph.output)
    return found


def test_every_operator_has_a_test():
    """No handler is listed without a case above, or the ONNX project's own."""
    tested = {case.op for case in CASES}.union(NEURAL, NODE_TESTS, CASTS, QUANTISATION)
    assert tested - ALWAYS_KNOWN.keys() == set(HANDLERS)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(
    "name", ["resnet18", "resnet50", "bert-base-16", "bert-base-16-decomposed", "bert-base-16-attention"]
)
def test_a_zoo_network_means_what_onnxruntime_computes(name, batch):
    model = zoo.build(name, small=True)
    assert_same(read_onnx(model, batch=batch), model, zoo.sample_inputs(model, batch=batch))


FAST = ("light_squeezenet", "light_shufflenet")
SLOW = ("light_densenet121", "light_inception_v2", "light_resnet50", "light_vgg19")


@pytest.mark.parametrize("name", [*FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_a_published_network_means_what_onnxruntime_computes(name):
    """Networks of the ONNX project in the old format: weights among the inputs, made by nodes.

    All weights of a tensor are equal, so that a softmax at the end would show nothing but rounding; it is left out.
    """
    path = LIGHT / f"{name}.onnx"
    whole = read_onnx(path, batch=1)
    verify_graph(whole)
    model = onnx.load(path)
    if model.graph.node[-1].op_type == "Softmax":
        model.graph.output[0].name = model.graph.node.pop().input[0]
    (image,) = whole.inputs
    assert_same(read_onnx(model), model, {image: floats(*whole.tensors[image].shape)})


def chain(*nodes: tuple[str, str, str, dict[str, object]]) -> list[onnx.NodeProto]:
    """Nodes from (operator, operands separated by spaces, results likewise, attributes)."""
    return [
        helper.make_node(op, reads.split(), writes.split(), **attributes) for op, reads, writes, attributes in nodes
    ]


def test_shapes_that_are_computed_are_known():
    """The reshape of an exporter that asks for its operand's shape: the nodes that ask are gone."""
    nodes = chain(
        ("Relu", "x", "r", {}),
        ("Exp", "x", "e", {}),
        ("Shape", "e", "s", {}),
        ("Gather", "s zero", "n", {"axis": 0}),
        ("Unsqueeze", "n zeros", "n1", {}),
        ("Concat", "n1 rest", "shape", {"axis": 0}),
        ("Reshape", "r shape", "y", {}),
    )
    weights = {"zero": np.array(0), "zeros": i64(0), "rest": i64(-1)}
    model = make_model(nodes, {"x": floats(2, 3, 4)}, weights, ["y"])
    graph = read_onnx(model)
    assert [op.kind for op in graph.operators] == ["relu", "reshape"]
    assert not graph.constants
    assert_same(graph, model, {"x": floats(2, 3, 4)})


def test_whatever_depends_on_constants_alone_is_a_constant():
    """Also through operators that have no rule, in opsets whose Softmax was another one, and as an output."""
    nodes = chain(
        ("Transpose", "w", "t", {}),
        ("Softmax", "t", "s", {"axis": 1}),
        ("CumSum", "s one", "c", {}),
        ("Range", "zero four one", "range", {}),
        ("Cast", "range", "floats", {"to": TensorProto.FLOAT}),
        ("ConstantOfShape", "shape", "full", {"value": numpy_helper.from_array(np.array([2.5], np.float32))}),
        ("Mul", "full floats", "m", {}),
        ("Add", "c m", "k", {}),
        ("Add", "x k", "y", {}),
    )
    weights = {
        "w": floats(4, 2, 3),
        "zero": np.array(0),
        "one": np.array(1),
        "four": np.array(4),
        "shape": i64(3, 2, 4),
    }
    inputs = {"x": floats(3, 2, 4)}
    model = make_model(nodes, inputs, weights, ["y", "k"], opset=12)
    graph = read_onnx(model)
    assert [op.kind for op in graph.operators] == ["add"]
    assert list(graph.constants) == ["k"]
    assert_same(graph, model, inputs)


@pytest.mark.parametrize(
    "attribute, expected",
    [
        ({"value": numpy_helper.from_array(floats(2, 3))}, floats(2, 3)),
        ({"value_float": 2.5}, np.array(2.5, np.float32)),
        ({"value_floats": [1.0, 2.5]}, np.array([1.0, 2.5], np.float32)),
        ({"value_int": -3}, np.array(-3)),
        ({"value_ints": [4, 5]}, i64(4, 5)),
    ],
    ids=["value", "value_float", "value_floats", "value_int", "value_ints"],
)
def test_a_constant_may_be_written_in_any_attribute(attribute, expected):
    nodes = chain(("Constant", "", "k", attribute), ("Identity", "x", "y", {}))
    graph = read_onnx(make_model(nodes, {"x": floats(2)}, {}, ["y", "k"]))
    np.testing.assert_array_equal(graph.constants["k"], expected)
    assert graph.constants["k"].dtype == expected.dtype


@pytest.mark.parametrize(
    "op, attributes, expected",
    [("Shape", {}, [2, 3, 4]), ("Shape", {"start": -2, "end": 9}, [3, 4]), ("Size", {}, 24)],
)
def test_extents_of_an_input_are_constants(op, attributes, expected):
    model = make_model(chain((op, "x", "y", attributes)), {"x": floats(2, 3, 4)}, {}, ["y"])
    graph = read_onnx(model)
    assert not graph.operators
    np.testing.assert_array_equal(graph.constants["y"], expected)


def test_what_no_output_depends_on_is_left_out():
    """Nodes without rule or of a foreign domain, weights, and parts of a Split."""
    nodes = [
        *chain(("Split", "x", "a b c", {"axis": 1, "num_outputs": 3}), ("LRN", "x4", "dead", {"size": 3})),
        helper.make_node("Anything", ["x"], ["foreign"], domain="com.example"),
        *chain(("Add", "a c", "y", {}), ("Add", "x unused", "z", {})),
    ]
    inputs = {"x": floats(2, 6), "x4": floats(1, 2, 3, 4)}
    graph = read_onnx(make_model(nodes, inputs, {"unused": floats(6)}, ["y"]))
    assert [op.name for op in graph.operators] == ["Split_0", "Add_0"]
    assert set(graph.tensors) == {"x", "x4", "a", "c", "y"}
    assert not graph.constants
    verify_graph(graph)


def test_operators_are_named_after_their_nodes():
    """A name that two nodes have, or none has, becomes operator and number; chains and new constants are numbered."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="same"),
        helper.make_node("Relu", ["a"], ["b"], name="same"),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Relu", ["c"], ["Sum_0.1"], name="Relu_2"),
        helper.make_node("Sum", ["a", "b", "c", "Sum_0.1"], ["y"]),
    ]
    graph = read_onnx(make_model(nodes, {"x": floats(3)}, {}, ["y"]))
    assert [op.name for op in graph.operators] == [
        *("Relu_0", "Relu_1", "Relu_2_", "Relu_2"),
        *("Sum_0.1_2", "Sum_0.2", "Sum_0.3"),
    ]
    assert graph.operators[-1].outputs == ("y",)
    verify_graph(graph)


def nest(graph: Graph, name: str) -> str:
    return " ".join(dim.name for dim in graph.by_name[name].dims)


@pytest.mark.parametrize(
    "weights, group, expected",
    [
        ((8, 6, 3, 3), 1, "n m oh ow c kh kw"),
        ((1, 6, 3, 3), 1, "n m oh ow c kh kw"),
        ((8, 3, 3, 3), 2, "n g m oh ow c kh kw"),
        ((6, 1, 3, 3), 6, "n g oh ow kh kw"),
        ((12, 1, 3, 3), 6, "n g m oh ow kh kw"),
        ((3, 2, 3, 3), 3, "n g oh ow c kh kw"),
    ],
)
def test_a_convolution_has_the_dims_that_it_needs(weights, group, expected):
    case = Case("Conv", (floats(2, weights[1] * group, 7, 7),), (floats(*weights),), {"group": group})
    graph = read_onnx(case.model()[0])
    assert nest(graph, "node") == expected
    (op,) = graph.operators
    shape = contraction.product_shape(op, op.whole)
    assert shape.macs == op.iterations == 2 * 5 * 5 * prod(weights)
    assert {dim.name for dim in op.dims if dim.kind is DimKind.REDUCTION} <= {"c", "kh", "kw"}


def test_a_convolution_reads_with_stride_dilation_and_padding():
    attributes = {"strides": [2, 3], "dilations": [4, 1], "pads": [1, 2, 3, 4], "group": 2}
    graph = read_onnx(Case("Conv", (floats(1, 4, 20, 20),), (floats(6, 2, 3, 3),), attributes).model()[0])
    (op,) = graph.operators
    n, g, m, oh, ow, c, kh, kw = range(8)
    read = (Axis(((n, 1),)), Axis(((g, 2), (c, 1))), Axis(((kh, 4), (oh, 2)), -1), Axis(((ow, 3), (kw, 1)), -2))
    assert op.reads[0] == Access("x0", read)
    assert op.writes[0].axes[1] == Axis(((g, 3), (m, 1)))


def form(graph: Graph, *, without: frozenset[str]) -> list[tuple[object, ...]]:
    """Operators but for the names of tensors."""
    return [
        (op.kind, op.dims, [a.axes for a in op.reads], [a.axes for a in op.writes], op.attributes)
        for op in graph.operators
        if op.kind not in without
    ]


def test_attention_is_written_out_like_its_parts():
    """The Attention operator gives the operators of a network that spells it out, but for the mask's repetition."""
    native, whole = (
        read_onnx(zoo.build(name, small=True), batch=2) for name in ("bert-base-16", "bert-base-16-attention")
    )
    written, expected = form(whole, without=frozenset({"expand"})), form(native, without=frozenset())
    assert [op[:2] for op in written] == [op[:2] for op in expected]
    masked = [i for i, op in enumerate(native.operators) if op.name.endswith(".masked")]
    assert [i for i, pair in enumerate(zip(written, expected, strict=True)) if pair[0] != pair[1]] == masked


@st.composite
def factored(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes that group the same factors, with axes of extent 1 here and there."""
    factors = draw(st.lists(st.sampled_from([1, 2, 3, 4, 5, 6]), max_size=5))

    def shape() -> tuple[int, ...]:
        extents = [1]
        for factor in factors:
            if draw(st.booleans()):
                extents.append(1)
            extents[-1] *= factor
        return tuple(extents)

    return shape(), shape()


@given(factored())
def test_a_reshape_is_the_common_refinement_of_two_shapes(shapes):
    """Both shapes number the elements alike; there is a refinement where the ends of their axes nest."""
    source, result = shapes
    found = refinement(source, result)
    ends = sorted({prod(shape[: i + 1]) for shape in shapes for i in range(len(shape))})
    assert (found is not None) == all(b % a == 0 for a, b in pairwise(ends))
    if found is None:
        between = merged(source, result)
        assert refinement(source, between) is not None
        assert refinement(between, result) is not None
        return
    dims, *axes = found

    def flat(shape: tuple[int, ...], number: int) -> Array:
        """The row-major number of the element of every iteration."""
        steps = np.ix_(*(np.arange(dim.extent) for dim in dims.dims))
        index = [sum((s * steps[d] for d, s in axis.terms), np.zeros((), int)) for axis in axes[number]]
        return sum((i * prod(shape[k + 1 :]) for k, i in enumerate(index)), np.zeros((), int))

    np.testing.assert_array_equal(flat(source, 0), flat(result, 1))
    assert np.array_equal(np.unique(flat(source, 0)), np.arange(prod(source)))
    assert prod(dim.extent for dim in dims.dims) == prod(source)


def symbolic_model(*inputs: tuple[str, Sequence[int | str | None]]) -> onnx.ModelProto:
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs]
    nodes = [helper.make_node("Relu", [name], [f"y_{name}"]) for name, _ in inputs]
    outputs = [onnx.ValueInfoProto(name=f"y_{name}") for name, _ in inputs]
    graph = helper.make_graph(nodes, "net", infos, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


@pytest.mark.parametrize(
    "inputs, batch, dims, expected",
    [
        ([("x", ("N", 3, "L"))], 4, {"L": 7}, [(4, 3, 7)]),
        ([("x", ("N", 3)), ("y", ("N", "N"))], 4, {}, [(4, 3), (4, 4)]),
        ([("x", ("N", 3))], None, {"N": 2}, [(2, 3)]),
        ([("x", ("N", 3))], 2, {"N": 2}, [(2, 3)]),
        ([("x", (None, 3))], 2, {}, [(2, 3)]),
        ([("x", (None, None)), ("y", (None, 5))], 2, {"x.1": 6}, [(2, 6), (2, 5)]),
        ([("x", (4, 3))], 4, {}, [(4, 3)]),
        ([("x", (4, 3))], None, {}, [(4, 3)]),
        ([("x", ("N", 3)), ("table", (10, 3))], 2, {}, [(2, 3), (10, 3)]),
        ([("x", ("N", 3)), ("table", ("rows", 3))], 2, {"rows": 10}, [(2, 3), (10, 3)]),
        ([("x", (4, 3)), ("table", ("rows", 3))], None, {"rows": 10}, [(4, 3), (10, 3)]),
        ([("x", ())], None, {}, [()]),
    ],
    ids=str,
)
def test_symbolic_dims_are_bound_by_batch_and_by_name(inputs, batch, dims, expected):
    graph = read_onnx(symbolic_model(*inputs), batch=batch, dims=dims)
    assert [graph.tensors[name].shape for name in graph.inputs] == expected


@pytest.mark.parametrize(
    "array, stored",
    [
        (floats(2), "float16"),
        (floats(2).astype(np.float16), "float16"),
        (floats(2).astype(np.float64), "float16"),
        (ints(2), "int32"),
        (ints(2, dtype=np.int32), "int32"),
        (ints(2, dtype=np.int16), "int16"),
        (ints(2, dtype=np.int8), "int8"),
        (ints(2, low=0, dtype=np.uint8), "uint8"),
        (ints(2, low=0, dtype=np.uint16), "uint16"),
        (ints(2, low=0, dtype=np.uint32), "uint32"),
        (ints(2, low=0, dtype=np.uint64), "uint32"),
        (ints(2, low=-2, high=1, dtype=ml_dtypes.int2), "int2"),
        (ints(2, low=0, high=15, dtype=ml_dtypes.uint4), "uint4"),
        (floats(2).astype(ml_dtypes.bfloat16), "bfloat16"),
        (floats(2).astype(ml_dtypes.float8_e5m2), "float8e5m2"),
        (floats(2).astype(ml_dtypes.float4_e2m1fn), "float4e2m1"),
        (bools(2), "bool"),
    ],
    ids=lambda x: str(x.dtype) if isinstance(x, np.ndarray) else x,
)
def test_tensors_have_the_type_that_is_stored(array, stored):
    nodes = chain(("Identity", "x", "y", {}))
    graph = read_onnx(make_model(nodes, {"x": array}, {"k": array}, ["y", "k"], opset=25))
    assert [str(graph.tensors[name].dtype) for name in ("x", "k", "y")] == [stored] * 3
    assert graph.constants["k"].dtype == array.dtype


def test_weights_may_lie_beside_the_model(tmp_path):
    model = make_model(chain(("Add", "x w", "y", {})), {"x": floats(600)}, {"w": floats(600, seed=1)}, ["y"])
    onnx.save(without_output_types(model), tmp_path / "net.onnx", save_as_external_data=True, location="net.data")
    graph = read_onnx(tmp_path / "net.onnx")
    assert_same(graph, model, {"x": floats(600)})


def test_reading_twice_gives_the_same_graph():
    for name in ("resnet18", "bert-base-16-attention"):
        model = zoo.build(name, small=True)
        first, second = read_onnx(model, batch=2), read_onnx(model, batch=2)
        assert str(first) == str(second)
        assert first.operators == second.operators
        assert list(first.tensors) == list(second.tensors)
        assert list(first.constants) == list(second.constants)


def node_model(op: str, inputs: Sequence[Array | None], *, opset: int = 20, **attributes: object) -> onnx.ModelProto:
    return Case(op, tuple(inputs), (), attributes, opset=opset).model()[0]


def changed(change: Callable[[onnx.ModelProto], object]) -> onnx.ModelProto:
    """A network of two nodes, damaged."""
    nodes = [
        helper.make_node("Add", ["x", "w"], ["a"], name="sum"),
        helper.make_node("Relu", ["a"], ["y"], name="relu"),
    ]
    model = make_model(nodes, {"x": floats(2, 3)}, {"w": floats(3)}, ["y"])
    change(model)
    return model


def swap(model: onnx.ModelProto) -> None:
    first, second = model.graph.node
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in (second, first)]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def external(location: str) -> Callable[[onnx.ModelProto], None]:
    def change(model: onnx.ModelProto) -> None:
        weight = model.graph.initializer[0]
        onnx.external_data_helper.set_external_data(weight, location, offset=0, length=12)
        weight.ClearField("raw_data")

    return change


def control_flow() -> onnx.ModelProto:
    branch = helper.make_graph([helper.make_node("Identity", ["x"], ["b"])], "b", [], [onnx.ValueInfoProto(name="b")])
    node = helper.make_node("If", ["c"], ["y"], name="node", then_branch=branch, else_branch=branch)
    return make_model([node], {"x": floats(2), "c": np.array(True)}, {}, ["y"])


def computed(op: str, operands: Sequence[Array], *, opset: int = 20, **attributes: object) -> onnx.ModelProto:
    """A node of which all operands are computed, also those that should be constants."""
    return node_model(op, operands, opset=opset, **attributes)


def sequence_input() -> onnx.ModelProto:
    model = changed(lambda model: None)
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, (2,)))
    model.graph.input[0].type.CopyFrom(kind)
    return model


IMAGE = floats(1, 4, 8, 8)
HEADS = tuple(floats(1, 2, 3, 4, seed=i) for i in range(3))

REFUSED_MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "no graph": lambda: onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 20)]),
    "no opset": lambda: changed(lambda m: m.opset_import.pop()),
    "old opset": lambda: changed(lambda m: setattr(m.opset_import[0], "version", 6)),
    "new opset": lambda: changed(lambda m: setattr(m.opset_import[0], "version", 99)),
    "no outputs": lambda: changed(lambda m: m.graph.output.pop()),
    "output of nothing": lambda: changed(lambda m: setattr(m.graph.output[0], "name", "z")),
    "undefined tensor": lambda: changed(lambda m: m.graph.node[1].input.__setitem__(0, "b")),
    "wrong order": lambda: changed(swap),
    "cycle": lambda: changed(lambda m: m.graph.node[0].input.__setitem__(1, "y")),
    "tensor written twice": lambda: changed(lambda m: m.graph.node[1].output.__setitem__(0, "a")),
    "two weights of one name": lambda: changed(lambda m: m.graph.initializer.append(m.graph.initializer[0])),
    "two outputs of one name": lambda: changed(lambda m: m.graph.output.append(m.graph.output[0])),
    "sparse weight": lambda: changed(lambda m: m.graph.sparse_initializer.add(values=TensorProto(name="s"))),
    "weight of the wrong size": lambda: changed(lambda m: m.graph.initializer[0].dims.__setitem__(0, 5)),
    "weight of text": lambda: changed(
        lambda m: m.graph.initializer[0].CopyFrom(helper.make_tensor("w", TensorProto.STRING, (3,), ["a", "b", "c"]))
    ),
    "weight kept elsewhere": lambda: changed(external("w.data")),
    "weight of complex numbers": lambda: changed(
        lambda m: m.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.zeros(3, np.complex64), "w"))
    ),
    "input of no elements": lambda: node_model("Relu", [floats(2, 0)]),
    "input of text": lambda: changed(
        lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", TensorProto.STRING)
    ),
    "input of complex numbers": lambda: changed(
        lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", TensorProto.COMPLEX64)
    ),
    "input without shape": lambda: changed(lambda m: m.graph.input[0].type.tensor_type.ClearField("shape")),
    "input that is a sequence": sequence_input,
    "foreign domain": lambda: changed(lambda m: setattr(m.graph.node[0], "domain", "com.example")),
    "unknown operator": lambda: changed(lambda m: setattr(m.graph.node[0], "op_type", "Plus")),
    "operator that nobody can type": lambda: node_model("NonZero", [IMAGE]),
    "random operator": lambda: node_model("RandomNormal", [], shape=[2]),
    "control flow": control_flow,
    "large integers": lambda: Case("Add", (ints(2),), (i64(1, 2**40),)).model()[0],
    "large integers without sign": lambda: Case(
        "Add", (ints(2, low=0, dtype=np.uint64),), (np.array([1, 2**32], np.uint64),)
    ).model()[0],
    "broadcast": lambda: node_model("Add", [floats(2, 3), floats(2)]),
    "type of an operand": lambda: node_model("Softplus", [ints(2)]),
    "types that differ": lambda: node_model("Mul", [floats(2), ints(2)]),
    "statistics per feature": lambda: node_model(
        "BatchNormalization", [IMAGE, *(positive(4, seed=i) for i in range(4))], opset=8, spatial=0
    ),
    "statistics of the wrong size": lambda: node_model(
        "BatchNormalization", [IMAGE, *(positive(3, seed=i) for i in range(4))], opset=15
    ),
    "training dropout": lambda: Case("Dropout", (IMAGE,), (np.float32(0.5), np.array(True))).model()[0],
    "channels of a convolution": lambda: node_model("Conv", [IMAGE, floats(6, 3, 3, 3)]),
    "groups of a convolution": lambda: node_model("Conv", [IMAGE, floats(5, 2, 3, 3)], group=2),
    "rank of a convolution": lambda: node_model("Conv", [floats(1, 4), floats(4, 4)]),
    "kernel shape": lambda: node_model("Conv", [IMAGE, floats(5, 4, 3, 3)], kernel_shape=[3, 2]),
    "bias of a convolution": lambda: node_model("Conv", [IMAGE, floats(5, 4, 3, 3), floats(4)]),
    "window larger than the input": lambda: node_model("Conv", [IMAGE, floats(5, 4, 9, 3)]),
    "negative padding": lambda: node_model("Conv", [IMAGE, floats(5, 4, 3, 3)], pads=[-1, 0, 0, 0]),
    "strides": lambda: node_model("Conv", [IMAGE, floats(5, 4, 3, 3)], strides=[1]),
    "auto_pad": lambda: node_model("Conv", [IMAGE, floats(5, 4, 3, 3)], auto_pad="SAME"),
    "auto_pad and pads": lambda: node_model("Conv", [IMAGE, floats(5, 4, 3, 3)], auto_pad="VALID", pads=[1] * 4),
    "auto_pad and dilations": lambda: node_model(
        "Conv", [IMAGE, floats(5, 4, 3, 3)], auto_pad="SAME_UPPER", dilations=[2, 2]
    ),
    "power of a pool": lambda: node_model("GlobalLpPool", [IMAGE], p=0),
    "blocks of an image": lambda: node_model("SpaceToDepth", [IMAGE], blocksize=3),
    "grid of another rank": lambda: Case("AffineGrid", (floats(1, 2, 3),), (i64(1, 1, 2, 2, 2),)).model()[0],
    "shape that is too small": lambda: Case(
        "MaxUnpool", (floats(1, 1, 2, 2), ints(1, 1, 2, 2, low=0)), (i64(1, 1, 2, 4),), {"kernel_shape": [2, 2]}
    ).model()[0],
    "mode of a grid": lambda: node_model("GridSample", [IMAGE, floats(1, 2, 2, 2)], mode="area"),
    "rank of a grid": lambda: node_model("GridSample", [IMAGE, floats(1, 2, 2, 3)]),
    "regions": lambda: node_model("RoiAlign", [IMAGE, floats(2, 5), ints(2, low=0, high=0)], opset=16),
    "mode of regions": lambda: node_model(
        "RoiAlign", [IMAGE, floats(2, 4), ints(2, low=0, high=0)], opset=16, mode="sum", sampling_ratio=2
    ),
    "groups of a deformed convolution": lambda: node_model(
        "DeformConv", [IMAGE, floats(4, 2, 1, 1), floats(1, 2, 8, 8)], group=1
    ),
    "offsets of a deformed convolution": lambda: node_model(
        "DeformConv", [IMAGE, floats(4, 4, 1, 1), floats(1, 3, 8, 8)]
    ),
    "bias of a deformed convolution": lambda: node_model(
        "DeformConv", [IMAGE, floats(4, 4, 1, 1), floats(1, 2, 8, 8), floats(3)]
    ),
    "mode of a pad": lambda: node_model("Pad", [IMAGE], opset=10, pads=[0] * 8, mode="mirror"),
    "pads": lambda: node_model("Pad", [IMAGE], opset=10, pads=[0, 1, 1]),
    "pads that leave nothing": lambda: node_model("Pad", [IMAGE], opset=10, pads=[0, 0, -5, 0, 0, 0, -3, 0]),
    "weights of a transposed convolution": lambda: node_model("ConvTranspose", [IMAGE, floats(3, 4, 3, 3)]),
    "bias of a transposed convolution": lambda: node_model("ConvTranspose", [IMAGE, floats(4, 2, 3, 3), floats(4)]),
    "pads of a transposed convolution": lambda: node_model("ConvTranspose", [IMAGE, floats(4, 2, 3, 3)], pads=[9] * 4),
    "columns of an image": lambda: Case("Col2Im", (floats(1, 8, 9),), (i64(4, 4), i64(2, 3))).model()[0],
    "crop": lambda: Case("CenterCropPad", (floats(4, 5),), (i64(4),), opset=18).model()[0],
    "mode of a resize": lambda: Case("Resize", (IMAGE,), (np.ones(4, np.float32),), {"mode": "area"}, opset=10).model()[
        0
    ],
    "scales of a resize": lambda: Case("Resize", (IMAGE,), (np.ones(3, np.float32),), opset=10).model()[0],
    "sizes of a resize": lambda: Case("Resize", (IMAGE,), (None, None, i64(1, 2))).model()[0],
    "roi of a resize": lambda: Case(
        "Resize",
        (IMAGE,),
        (np.zeros(3, np.float32), np.ones(4, np.float32)),
        {"coordinate_transformation_mode": "tf_crop_and_resize"},
    ).model()[0],
    "scales that are computed": lambda: node_model("Resize", [IMAGE, np.ones(4, np.float32)], opset=10),
    "pool of padding": lambda: node_model("MaxPool", [IMAGE], kernel_shape=[2, 2], pads=[2, 0, 0, 0]),
    "rank of a pool": lambda: node_model("AveragePool", [IMAGE], kernel_shape=[2]),
    "rank of a global pool": lambda: node_model("GlobalAveragePool", [floats(2, 3)]),
    "inner sizes": lambda: node_model("MatMul", [floats(2, 3), floats(2, 3)]),
    "scalar in a product": lambda: node_model("MatMul", [floats(2, 3), np.array(1.0, np.float32)]),
    "inner sizes of Gemm": lambda: node_model("Gemm", [floats(2, 3), floats(2, 3)], transA=0),
    "rank of Gemm": lambda: node_model("Gemm", [floats(2, 3, 4), floats(4, 3)]),
    "bias of Gemm": lambda: node_model("Gemm", [floats(2, 3), floats(3, 4), floats(2, 2)]),
    "axes": lambda: node_model("ReduceSum", [floats(2, 3)], opset=11, axes=[2]),
    "axes that are computed": lambda: computed("ReduceSum", [floats(2, 3), i64(0)]),
    "softmax axis": lambda: node_model("Softmax", [floats(2, 3)], axis=2),
    "layer norm scale": lambda: node_model("LayerNormalization", [floats(2, 3), floats(2)]),
    "groups of a norm": lambda: node_model("GroupNormalization", [IMAGE, floats(4), floats(4)], opset=21, num_groups=3),
    "scale of a group norm": lambda: node_model(
        "GroupNormalization", [IMAGE, floats(2), floats(2)], opset=21, num_groups=2
    ),
    "scale of an instance norm": lambda: node_model("InstanceNormalization", [IMAGE, floats(3), floats(3)]),
    "p of a norm": lambda: node_model("LpNormalization", [floats(2, 3)], p=3),
    "no window of channels": lambda: node_model("LRN", [IMAGE], size=0),
    "reshape to other elements": lambda: Case("Reshape", (floats(2, 3),), (i64(4, -1),)).model()[0],
    "reshape to a baked batch": lambda: Case("Reshape", (floats(2, 3),), (i64(1, 3),)).model()[0],
    "two unknown extents": lambda: Case("Reshape", (floats(2, 3),), (i64(-1, -1),)).model()[0],
    "extent to keep": lambda: Case("Reshape", (floats(2, 3),), (i64(2, 3, 0),)).model()[0],
    "negative extent": lambda: Case("Reshape", (floats(2, 3),), (i64(-2, 3),)).model()[0],
    "shape that is computed": lambda: computed("Reshape", [floats(2, 3), i64(3, 2)]),
    "flatten axis": lambda: node_model("Flatten", [floats(2, 3)], axis=3),
    "permutation": lambda: node_model("Transpose", [floats(2, 3)], perm=[0, 0]),
    "squeeze": lambda: Case("Squeeze", (floats(2, 1, 3),), (i64(0),)).model()[0],
    "expand": lambda: Case("Expand", (floats(2, 3),), (i64(2, 4),)).model()[0],
    "empty slice": lambda: Case("Slice", (floats(4),), (i64(3), i64(2))).model()[0],
    "slice": lambda: Case("Slice", (floats(4),), (i64(1), i64(2), i64(0), i64(0))).model()[0],
    "split": lambda: Case("Split", (floats(4),), (i64(1, 2),), outputs=2).model()[0],
    "concat rank": lambda: node_model("Concat", [floats(2, 3), floats(3)], axis=0),
    "concat axes": lambda: node_model("Concat", [floats(2, 3), floats(3, 4)], axis=0),
    "gather": lambda: Case("Gather", (floats(2, 3),), (i64(0, 2),)).model()[0],
    "half a cache": lambda: node_model("Attention", [*HEADS, floats(3, 3), HEADS[0]], opset=23),
    "cache of other rank": lambda: node_model("Attention", [*HEADS, floats(3, 3), HEADS[0], floats(2)], opset=23),
    "cache and lengths": lambda: node_model("Attention", [*HEADS, floats(3, 3), *HEADS[:2], i64(1)], opset=24),
    "lengths of a cache": lambda: node_model("Attention", [*HEADS, floats(3, 3), None, None, i64(1, 2)], opset=24),
    "attention window": lambda: node_model("Attention", HEADS, opset=25, left_window_size=-2),
    "attention output": lambda: Case("Attention", HEADS, (), {"qk_matmul_output_mode": 4}, 23, 4).model()[0],
    "attention heads": lambda: node_model("Attention", [floats(1, 3, 8)] * 3, opset=23, q_num_heads=3, kv_num_heads=2),
    "attention sizes": lambda: node_model("Attention", [*HEADS[:2], floats(1, 2, 4, 4)], opset=23),
    "attention mask": lambda: node_model("Attention", [*HEADS, floats(3, 4)], opset=23),
}


def refusal(source: Path | onnx.ModelProto, *, batch: int | None = None, dims: Mapping[str, int] = {}) -> str:
    """The one line that a user reads."""
    with pytest.raises(InputError) as caught:
        read_onnx(source, batch=batch, dims=dims)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.quick
def test_what_is_not_understood_is_refused_with_a_reason(golden):
    """Where, what was found, what would be right: one line for each fault of a network."""
    text = "".join(f"{name}:\n  {refusal(m())}\n" for name, m in REFUSED_MODELS.items())
    newest = f"expected 7 to {onnx.defs.onnx_opset_version()}"  # of the installed onnx
    golden("frontend-networks.txt", text.replace(newest, "expected 7 to NEWEST"))


OTHERS_SAY = [
    (lambda: node_model("Cast", [IMAGE], to=TensorProto.COMPLEX64), "to=COMPLEX64 is not supported"),
    (lambda: node_model("Relu", [IMAGE], alpha=0.5), "Unrecognized attribute"),
    (lambda: node_model("Relu", [IMAGE, IMAGE]), "input size 2"),
    (
        lambda: Case("MatMul", (), (floats(2, 3), floats(2, 3))).model()[0],
        "its inputs are constants, but it cannot be evaluated",
    ),
]


@pytest.mark.parametrize("make, reason", OTHERS_SAY, ids=[reason for _, reason in OTHERS_SAY])
def test_what_onnx_or_onnxruntime_refuses_is_refused_in_their_words(make, reason):
    """With the node's name; their words differ from version to version."""
    message = refusal(make())
    assert message.startswith("network 'net': node 'node' (")
    assert reason in message


def test_sizes_that_do_not_fit_the_network_are_refused_with_a_way_out(golden):
    symbolic = symbolic_model(("x", ("N", "L")), ("y", ("N", None, 3)))
    static = symbolic_model(("x", (1, 3)), ("y", ()))
    scalar = symbolic_model(("x", ()))
    asked = [
        (symbolic, None, {}),
        (symbolic, 2, {}),
        (symbolic, 2, {"L": 3}),
        (symbolic, 2, {"M": 3}),
        (symbolic, 2, {"N": 3}),
        (symbolic, 0, {}),
        (symbolic, 2, {"L": 0}),
        (static, None, {"N": 2}),
        (scalar, 4, {}),
    ]
    lines = [f"batch {batch}, dims {dims}:\n  {refusal(m, batch=batch, dims=dims)}\n" for m, batch, dims in asked]
    golden("frontend-sizes.txt", "".join(lines))


def test_a_file_that_is_no_network_is_refused(golden, tmp_path, monkeypatch):
    """Also one that keeps its weights where no reader may look."""
    monkeypatch.chdir(tmp_path)
    whole = zoo.build("resnet18", small=True).SerializeToString()
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.onnx").write_bytes(b"")
    (tmp_path / "text.onnx").write_text("This is a text about networks.")
    (tmp_path / "cut.onnx").write_bytes(whole[:5000])
    (tmp_path / "header.onnx").write_bytes(whole[:4])
    locations = {
        "missing": "missing.data",
        "above": "../w.data",
        "absolute": "/w.data",
        "none": "",
    }
    for name, location in locations.items():
        (tmp_path / f"{name}.onnx").write_bytes(changed(external(location)).SerializeToString())
    names = ["nothing", "empty", "text", "cut", "header", *locations]
    paths = [Path("folder"), *(Path(f"{name}.onnx") for name in names)]
    golden("frontend-files.txt", "".join(f"{refusal(path)}\n" for path in paths))


@pytest.mark.parametrize("version", [0, 99])
def test_a_file_of_an_unknown_format_is_refused(version):
    message = refusal(changed(lambda model: setattr(model, "ir_version", version)))
    assert message.startswith(f"network 'net': the file's format has version {version}; expected 1 to ")


def test_weights_that_were_cut_off_are_refused(tmp_path):
    (tmp_path / "net.onnx").write_bytes(changed(external("w.data")).SerializeToString())
    (tmp_path / "w.data").write_bytes(b"1234")
    assert "tensor 'w' is kept in 'w.data', from byte 0 on 12 bytes, and the file has 4" in refusal(
        tmp_path / "net.onnx"
    )


def test_every_damaged_file_is_refused_in_one_line(tmp_path):
    """A flipped byte gives another network or an error for its user, never a traceback."""
    generator = np.random.default_rng(0)
    path = tmp_path / "net.onnx"
    for case in (CONVOLUTIONS[4], REDUCTIONS[0], VIEWS[0], ATTENTIONS[5]):
        whole = case.model()[0].SerializeToString()
        for _ in range(50):
            content = bytearray(whole)
            content[generator.integers(len(whole))] = generator.integers(256)
            path.write_bytes(content)
            try:
                graph, message = read_onnx(path), ""
            except InputError as error:
                graph, message = None, str(error)
            assert "\n" not in message
            if graph is not None:
                verify_graph(graph)
