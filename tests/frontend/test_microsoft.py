"""onnxruntime's own operators: each in a network of its own, compiled and compared with onnxruntime."""

from itertools import product

import numpy as np
import pytest

from tests.helpers.graphs import random_inputs
from tests.helpers.pairs import one_in
from tests.helpers.saturation import BY_BYTES, expect_exact_bytes
from tests.helpers.single_nodes import Case, Input, model_of
from tests.helpers.verified import machine_named
from tilestitch import api
from tilestitch.base.errors import InputError
from tilestitch.frontend.microsoft.definitions import DEFINITIONS
from tilestitch.frontend.microsoft.schemas import operators
from tilestitch.frontend.reader import read_onnx
from tilestitch.sim.chip.interpret import interpret


def f(*shape: int) -> Input:
    return Input(shape)


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng([seed, *shape]).standard_normal(shape) / 2).astype(np.float32)


def scale(value: float) -> np.ndarray:
    return np.asarray(value, np.float32)


def u8(value: int) -> np.ndarray:
    return np.asarray(value, np.uint8)


def i8(value: int) -> np.ndarray:
    return np.asarray(value, np.int8)


def bytes_of(*shape: int, dtype: type = np.uint8) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.random.default_rng(shape).integers(limits.min, limits.max + 1, shape).astype(dtype)


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


X8 = Input((1, 4, 6, 6), "uint8")
PARAMETERS = (scale(0.0213), u8(128), scale(0.0317), u8(120))  # of an operand and of a result; few sums lie half-way
LAST = Input((1, 6, 6, 4), "uint8")
QUERY = f(2, 6, 16)
ANGLES = weights(32, 8, seed=1)
ROTARY = (np.cos(ANGLES[:, :4]), np.sin(ANGLES[:, :4]))  # for 8 channels a head
WIDE_ROTARY = (np.cos(ANGLES), np.sin(ANGLES))  # for 16
POSITIONS = np.array([[0, 1, 2, 3, 4, 5], [3, 4, 5, 6, 7, 8]])
GQA = {"num_heads": 4, "kv_num_heads": 2}
PROMPT = (f(2, 6, 64), f(2, 6, 32), f(2, 6, 32), None, None, i32(5, 5), i32(6))
STEP = (f(2, 1, 64), f(2, 1, 32), f(2, 1, 32), f(2, 2, 5, 16), f(2, 2, 5, 16), i32(5, 5), i32(6))
MASK = np.array([[1, 1, 1, 1, 0, 0], [1] * 6], np.int32)

CASES = [
    Case("Gelu", (f(2, 3, 8),)),
    Case("FastGelu", (f(2, 3, 8), weights(8))),
    Case("FastGelu", (f(2, 3, 8),), name="alone"),
    Case("BiasGelu", (f(2, 3, 8), weights(8))),
    Case("QuickGelu", (f(2, 3, 8),), {"alpha": 1.5}),
    Case("FusedMatMul", (f(2, 3, 8), f(2, 5, 8)), {"transB": 1, "alpha": 0.125}),
    Case("FusedMatMul", (f(8, 3), weights(8, 5)), {"transA": 1}, name="first"),
    Case("FusedMatMul", (f(3, 2, 8), f(2, 8, 4)), {"transBatchA": 1}, name="batch"),
    Case("FusedMatMul", (f(3, 2, 8), f(8, 2, 4)), {"transBatchA": 1, "transBatchB": 1, "transA": 0}, name="batches"),
    Case("TransposeMatMul", (f(3, 8), f(5, 8)), {"transB": 1}),
    Case("FusedGemm", (f(3, 8), weights(8, 5), weights(5)), {"activation": "LeakyRelu", "activation_alpha": 0.2}),
    Case(
        "FusedConv",
        (f(1, 3, 6, 6), weights(4, 3, 3, 3), weights(4)),
        {"activation": "HardSigmoid", "activation_params": [0.3, 0.4], "pads": [1] * 4, "kernel_shape": [3, 3]},
    ),
    Case(
        "FusedConv",
        (f(1, 3, 6, 6), weights(4, 3, 1, 1), weights(4), f(1, 4, 6, 6)),
        {"activation": "Relu"},
        name="sum",
    ),
    Case(
        "FusedConv",
        (f(1, 4, 6, 6), weights(4, 2, 3, 3)),
        {"activation": "Clip", "activation_params": [0.0, 1.0], "group": 2},
        name="clip",
    ),
    Case("SkipLayerNormalization", (f(2, 3, 8), f(2, 3, 8), weights(8), weights(8, seed=1)), {"epsilon": 1e-5}),
    Case(
        "SkipLayerNormalization",
        (f(2, 3, 8), f(1, 3, 8), weights(8), None, weights(8, seed=2)),
        {"epsilon": 1e-5},
        (0, 3),
        name="bias",
    ),
    Case("SkipSimplifiedLayerNormalization", (f(2, 3, 8), f(2, 3, 8), weights(8)), {"epsilon": 1e-5}),
    Case(
        "SkipSimplifiedLayerNormalization",
        (f(2, 3, 8), f(3, 8), weights(8), weights(8, seed=3)),
        {"epsilon": 1e-5},
        (0, 3),
        name="bias",
    ),
    Case("SimplifiedLayerNormalization", (f(2, 3, 8), weights(8)), {"epsilon": 1e-6, "axis": -1}, domain=""),
    Case(
        "EmbedLayerNormalization",
        (
            np.array([[1, 2, 3], [0, 4, 1]], np.int32),
            Input((2, 3), "int32"),
            weights(8, 8),
            weights(5, 8),
            weights(2, 8),
            weights(8),
            weights(8, seed=1),
            Input((2, 3), "int32"),
        ),
        {"epsilon": 1e-5},
        3,
    ),
    Case("RotaryEmbedding", (f(2, 6, 16), POSITIONS, *ROTARY)),
    Case("RotaryEmbedding", (f(2, 2, 6, 8), np.array([3]), *ROTARY), {"interleaved": 1}, name="offset"),
    Case(
        "RotaryEmbedding",
        (f(2, 6, 24), Input((2, 6), "int64"), *ROTARY),
        {"num_heads": 2, "rotary_embedding_dim": 8},
        name="part",
    ),
    Case("MultiHeadAttention", (QUERY, f(2, 5, 16), f(2, 5, 8)), {"num_heads": 2}),
    Case("MultiHeadAttention", (QUERY, QUERY, QUERY, weights(48)), {"num_heads": 2, "unidirectional": 1}, name="bias"),
    Case("MultiHeadAttention", (QUERY, QUERY, QUERY, None, MASK), {"num_heads": 2}, name="mask"),
    Case(
        "MultiHeadAttention",
        (QUERY, QUERY, QUERY, None, Input((2, 6), "int32"), f(1, 2, 6, 6)),
        {"num_heads": 2, "mask_filter_value": -5.0},
        name="mask-and-bias",
    ),
    Case(
        "MultiHeadAttention",
        (f(2, 1, 16), f(2, 1, 16), f(2, 1, 16), None, None, None, f(2, 2, 5, 8), f(2, 2, 5, 8)),
        {"num_heads": 2},
        3,
        name="past",
    ),
    Case("Attention", (QUERY, weights(16, 48), weights(48)), {"num_heads": 2}),
    Case("Attention", (QUERY, weights(16, 48), weights(48), MASK), {"num_heads": 2, "unidirectional": 1}, name="mask"),
    Case("Attention", (QUERY, weights(16, 48), weights(48), i32(4, 6)), {"num_heads": 2}, name="lengths"),
    Case(
        "Attention",
        (QUERY, weights(16, 40), weights(40)),
        {"num_heads": 2, "qkv_hidden_sizes": [16, 16, 8]},
        name="widths",
    ),
    Case(
        "Attention",
        (QUERY, weights(16, 48), weights(48), None, f(2, 2, 2, 3, 8)),
        {"num_heads": 2, "unidirectional": 1},
        2,
        name="past",
    ),
    Case("GroupQueryAttention", PROMPT, GQA, 3),
    Case("GroupQueryAttention", STEP, GQA, 3, name="step"),
    Case("GroupQueryAttention", (*STEP, *WIDE_ROTARY), {**GQA, "do_rotary": 1}, 3, name="rotary"),
    Case(
        "GroupQueryAttention",
        (*PROMPT, *WIDE_ROTARY),
        {**GQA, "do_rotary": 1, "rotary_interleaved": 1},
        3,
        name="pairs",
    ),
    Case("GroupQueryAttention", PROMPT, {**GQA, "local_window_size": 2}, 3, name="window"),
    Case("GroupQueryAttention", STEP, {**GQA, "local_window_size": 3, "scale": 0.5}, 3, name="window-step"),
    Case("GroupQueryAttention", PROMPT, {**GQA, "softcap": 2.0}, 3, name="cap"),
    Case("GroupQueryAttention", (f(2, 6, 128), None, None, *PROMPT[3:]), GQA, 3, name="packed"),
    Case(
        "GroupQueryAttention",
        (*STEP[:5], Input((2,), "int32"), i32(6)),
        GQA,
        3,
        name="lengths-computed",
        generic=True,
    ),
    Case("QLinearAdd", (X8, scale(0.02), u8(128), X8, scale(0.01), u8(100), scale(0.03), u8(120))),
    Case("QLinearMul", (X8, scale(0.0213), u8(128), bytes_of(4, 1, 1), scale(0.0117), u8(0), scale(0.03), u8(120))),
    Case("QLinearSigmoid", (X8, scale(0.02), u8(128), scale(1 / 256), u8(0))),
    Case("QLinearLeakyRelu", (X8, *PARAMETERS), {"alpha": 0.1}),
    Case(
        "QLinearAveragePool",
        (X8, *PARAMETERS),
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4, "count_include_pad": 1},
    ),
    Case("QLinearAveragePool", (LAST, *PARAMETERS), {"kernel_shape": [2, 2], "channels_last": 1}, name="last"),
    Case("QLinearGlobalAveragePool", (X8, *PARAMETERS)),
    Case("QLinearGlobalAveragePool", (LAST, *PARAMETERS), {"channels_last": 1}, name="last"),
    Case(
        "QLinearConcat",
        (scale(0.03), u8(120), X8, scale(0.02), u8(128), X8, scale(0.03), u8(120)),
        {"axis": 1},
    ),
    Case("QLinearSoftmax", (Input((2, 8), "uint8"), scale(0.02), u8(128), scale(1 / 256), u8(0)), {"opset": 13}),
    Case(
        "QLinearWhere",
        (Input((1, 4, 6, 6), "bool"), X8, scale(0.02), u8(128), X8, scale(0.03), u8(120), scale(0.03), u8(120)),
    ),
    Case(
        "QLinearConv",
        (
            *(X8, scale(0.02), u8(128), bytes_of(3, 4, 3, 3, dtype=np.int8), scale(0.01), i8(0), scale(0.4), u8(120)),
            np.arange(3, dtype=np.int32),
        ),
        {"pads": [1] * 4},
    ),
    Case(
        "QGemm",
        (
            Input((3, 8), "uint8"),
            *(scale(0.02), u8(128), bytes_of(5, 8, dtype=np.int8), weights(5) ** 2 + scale(0.01), np.zeros(5, np.int8)),
            *(np.arange(5, dtype=np.int32), scale(0.5), u8(110)),
        ),
        {"transB": 1},
    ),
    Case(
        "QGemm",
        (Input((3, 8), "uint8"), scale(0.02), u8(128), bytes_of(8, 5), scale(0.01), u8(99)),
        name="reals",
    ),
    Case("QuantizeLinear", (f(2, 3), scale(0.01), np.asarray(30000, np.uint16))),
    Case("DequantizeLinear", (Input((2, 3), "uint16"), scale(0.01), np.asarray(30000, np.uint16))),
    Case("DynamicQuantizeMatMul", (f(3, 8), bytes_of(8, 5, dtype=np.int8), scale(0.01), i8(3), weights(5))),
    Case(
        "MatMulIntegerToFloat",
        (Input((3, 8), "uint8"), bytes_of(8, 5), scale(0.02), weights(5), u8(128), u8(99), weights(5, seed=1)),
    ),
    Case(
        "MatMulNBits",
        (f(3, 64), bytes_of(5, 2, 16), weights(5, 2), None, None, weights(5)),
        {"K": 64, "N": 5, "bits": 4, "block_size": 32},
    ),
    Case(
        "MatMulNBits",
        (f(3, 64), bytes_of(5, 2, 16), weights(10), bytes_of(5)),
        {"K": 64, "N": 5, "bits": 4, "block_size": 32, "accuracy_level": 4},
        name="zeros",
    ),
    Case(
        "MatMulNBits",
        (f(3, 64), bytes_of(5, 2, 32), weights(5, 2)),
        {"K": 64, "N": 5, "bits": 8, "block_size": 32},
        name="bytes",
    ),
    Case("Trilu", (f(4, 4),), {"upper": 0}, generic=True),
    Case("Inverse", (f(3, 3),), generic=True),
]


RUNS = list(product(["toy", "stcp920"], ["tvm", "graphturbo"]))


@pytest.mark.parametrize(("case", "run"), one_in(4, CASES, RUNS), ids=str)
def test_an_operator_means_what_onnxruntime_computes(case: Case, run: tuple[str, str]) -> None:
    """By rules of our own, unless the case says that the value is onnxruntime's."""
    if case.op in BY_BYTES:
        expect_exact_bytes()
    machine, strategy = run
    report = api.compile(model_of(case), machine_named(machine), strategy=strategy, verify=True).report
    assert report is not None
    assert report.verified, report.checks
    assert [row.operator for row in report.generic_operators] == ([case.op] if case.generic else [])
    assert report.latency_cycles >= report.bound_cycles
    assert report.ddr_bytes >= report.compulsory_bytes


def test_every_rule_has_a_case() -> None:
    """One that is taken."""
    assert set(DEFINITIONS) == {case.op for case in CASES if not case.generic}
    assert set(DEFINITIONS) <= set(operators())


@pytest.mark.parametrize("packed", [3, 2])
def test_packed_operands_mean_those_apart(packed: int) -> None:
    """onnxruntime has no kernel for them on a processor; heads lie outside of what is packed."""
    attributes = {"num_heads": 2, "scale": 0.25}
    apart = read_onnx(model_of(Case("MultiHeadAttention", (QUERY, QUERY, QUERY, weights(48)), attributes)))
    together = (f(2, 6, 2, 3, 8),) if packed == 3 else (QUERY, f(2, 6, 2, 2, 8))
    operands = (*together, *[None] * (3 - len(together)), weights(48))
    found = read_onnx(model_of(Case("MultiHeadAttention", operands, attributes)))
    values = random_inputs(apart)
    parts = [values[f"x{number}"].reshape(2, 6, 2, 8) for number in range(3)]
    fed = {f"x{len(together) - 1}": np.stack(parts[-packed:], axis=3)}
    if packed == 2:
        fed["x0"] = values["x0"]
    ours, theirs = interpret(found, fed, wide=True), interpret(apart, values, wide=True)
    np.testing.assert_allclose(ours["y0"], theirs["y0"], rtol=1e-5, atol=1e-6)


REFUSED = {
    "an operator that nobody knows": (Case("Nonsense", (f(2),)), "has no operator Nonsense of its domain"),
    "too many operands": (Case("Gelu", (f(2), f(2))), "it has 2 operands; expected 1 to 1"),
    "an absent operand": (Case("BiasGelu", (None, f(2))), "operand 0 (A) is absent"),
    "an unknown attribute": (Case("Gelu", (f(2),), {"alpha": 1.0}), "it has no attribute alpha; known: none"),
    "an attribute of another type": (Case("QuickGelu", (f(2),), {"alpha": 1}), "attribute alpha is of type INT"),
    "a missing attribute": (Case("MultiHeadAttention", (QUERY, QUERY, QUERY)), "attribute num_heads is missing"),
    "a computed length": (
        Case("GroupQueryAttention", (*PROMPT[:6], Input((1,), "int32")), GQA),
        "total_sequence_length 'x6' depends on the network's inputs",
    ),
    "an unknown domain": (Case("Gelu", (f(2),), domain="com.example"), "its domain 'com.example' is unknown"),
    "weights of another size": (
        Case("MatMulNBits", (f(3, 64), bytes_of(5, 2, 8), weights(5, 2)), {"K": 64, "N": 5, "block_size": 32}),
        "expected N * K * bits / 8 = 160 elements of uint8",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_is_refused(what: str) -> None:
    case, message = REFUSED[what]
    with pytest.raises(InputError) as error:
        read_onnx(model_of(case))
    assert message in str(error.value)


def test_the_domain_has_to_be_imported() -> None:
    model = model_of(CASES[0])
    del model.opset_import[1]
    with pytest.raises(InputError, match=r"imports no version of its domain 'com.microsoft'"):
        read_onnx(model)
