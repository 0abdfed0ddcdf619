"""Operators that are composed of others: each in a network of its own, compiled and compared with its reference."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.helpers.single_nodes import Case, Input, model_of
from tests.helpers.verified import machine_named
from tilestitch import api, onnx_backend
from tilestitch.base.errors import InputError
from tilestitch.frontend.composed.definitions import COMPOSED
from tilestitch.frontend.reader import read_onnx

ML, TRAINING = "ai.onnx.ml", "ai.onnx.preview.training"
RATE, FIRST, LATER = np.array(0.1, np.float32), np.array(0), np.array(3)

# Unigrams 2, 3, 5, 4 and bigrams 5-6, 7-8, 6-7.
GRAMS = {
    "max_gram_length": 2,
    "max_skip_count": 2,
    "min_gram_length": 1,
    "mode": "TF",
    "ngram_counts": [0, 4],
    "ngram_indexes": [0, 1, 2, 3, 4, 5, 6],
    "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
}
WEIGHTS = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5]


def f(*shape: int) -> Input:
    return Input(shape)


def i(*shape: int) -> Input:
    return Input(shape, "int32")


def tensor(*values: float, dtype: type = np.float32) -> Any:
    return numpy_helper.from_array(np.array(values, dtype))


def forest(dtype: type = np.float32, **changed: Any) -> dict[str, Any]:
    """Two trees on three features: one of two conditions, one of one.

    Node 0 leads to leaf 0 or to node 1, that to leaf 1 or 2; node 2 to leaf 3 or 4.
    """
    found = {
        "tree_roots": [0, 2],
        "nodes_featureids": [0, 2, 1],
        "nodes_modes": tensor(0, 3, 1, dtype=np.uint8),
        "nodes_splits": tensor(0.25, -0.5, 0.1, dtype=dtype),
        "nodes_truenodeids": [0, 1, 3],
        "nodes_trueleafs": [1, 1, 1],
        "nodes_falsenodeids": [1, 2, 4],
        "nodes_falseleafs": [0, 1, 1],
        "leaf_targetids": [0, 1, 0, 1, 0],
        "leaf_weights": tensor(1.5, -2.0, 0.75, 3.0, 0.125, dtype=dtype),
        "n_targets": 2,
    }
    return {name: value for name, value in {**found, **changed}.items() if value is not None}


def members(*values: float) -> dict[str, Any]:
    """Node 0 asks for membership, node 2 for another one."""
    return {"nodes_modes": tensor(6, 5, 6, dtype=np.uint8), "membership_values": tensor(*values)}


SETS = members(1.0, 2.0, np.nan, 3.0, np.nan)

CASES = [
    *(Case("Det", (f(2, size, size),), domain="", name=f"{size}") for size in range(1, 7)),
    Case("Det", (f(3, 3),), domain="", name="one"),
    Case("Det", (f(2, 7, 7),), domain="", name="large", generic=True),
    Case("TfIdfVectorizer", (i(3, 6),), GRAMS, domain=""),
    Case("TfIdfVectorizer", (Input((6,), "int64"),), {**GRAMS, "mode": "IDF"}, domain="", name="row"),
    Case(
        "TfIdfVectorizer",
        (i(3, 6),),
        {**GRAMS, "ngram_indexes": [0, 1, 2, 3, 4, 4, 5]},
        domain="",
        name="one-column-for-two",
        generic=True,
    ),
    Case("Binarizer", (f(2, 3),), {"threshold": 0.25}, domain=ML),
    Case("ArrayFeatureExtractor", (f(3, 4), np.array([2, 0])), domain=ML),
    Case("ArrayFeatureExtractor", (f(4), Input((3,), "int64")), domain=ML, name="list"),
    Case("ArrayFeatureExtractor", (f(2, 3, 4), np.array([[3], [1], [1]])), domain=ML, name="three-axes"),
    Case("TreeEnsemble", (f(5, 3),), forest(), domain=ML),
    Case("TreeEnsemble", (Input((5, 3), "float64"),), forest(np.float64), domain=ML, name="double"),
    Case("TreeEnsemble", (f(5, 3),), forest(aggregate_function=0), domain=ML, name="mean"),
    Case("TreeEnsemble", (f(5, 3),), forest(post_transform=1), domain=ML, name="transformed", generic=True),
    Case("TreeEnsemble", (f(5, 3),), forest(aggregate_function=3), domain=ML, name="greatest", generic=True),
]

# onnxruntime has no kernel for these.
UNKNOWN_TO_ONNXRUNTIME = [
    Case("Det", (Input((2, 3, 3), "float64"),), domain="", name="double"),
    Case("Binarizer", (i(2, 3),), {}, domain=ML, name="integers"),
    Case("Adagrad", (RATE, LATER, *[f(2, 3)] * 3), {"decay_factor": 0.1, "norm_coefficient": 0.25}, 2, domain=TRAINING),
    Case("Adagrad", (f(), FIRST, *[f(2), f(3)] * 3), outputs=4, domain=TRAINING, name="two"),
    Case(
        "Adam",
        (RATE, LATER, *[f(2, 3)] * 4),
        {"norm_coefficient": 0.25, "norm_coefficient_post": 0.125, "alpha": 0.75},
        3,
        domain=TRAINING,
    ),
    Case("Adam", (RATE, FIRST, *[f(2), f(3)] * 4), outputs=(0, 1, 5), domain=TRAINING, name="first-of-two"),
    *(
        Case(
            "Momentum",
            (f(), step, *[f(2, 3)] * 3),
            {"norm_coefficient": 0.25, "alpha": 0.75, "beta": 0.5, "mode": mode},
            2,
            domain=TRAINING,
            name=name,
        )
        for mode, step, name in (
            ("standard", LATER, "later"),
            ("standard", FIRST, "first"),
            ("nesterov", LATER, "ahead"),
        )
    ),
]


@pytest.mark.parametrize("machine", ["toy", "stcp920"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_operator_means_what_its_reference_computes(case: Case, machine: str) -> None:
    """By rules of our own, unless the case says otherwise."""
    report = api.compile(model_of(case), machine_named(machine), strategy="tvm", verify=True).report
    assert report is not None
    assert report.verified, report.checks
    assert [row.operator for row in report.generic_operators] == ([case.op] if case.generic else [])


@pytest.mark.parametrize("case", UNKNOWN_TO_ONNXRUNTIME, ids=str)
def test_a_program_computes_what_the_reference_evaluator_does(case: Case) -> None:
    """On numbers from 0 to 2, of which roots can be taken."""
    model, rng = model_of(case), np.random.default_rng(3)
    feeds = {
        f"x{number}": rng.uniform(0, 2, operand.shape).astype(operand.dtype)
        for number, operand in enumerate(case.operands)
        if isinstance(operand, Input)
    }
    expected = ReferenceEvaluator(model).run(None, feeds)
    done = onnx_backend.execute_model(model, feeds)
    assert done.compilation is not None
    assert done.compilation.report is not None
    assert done.compilation.report.generic_operators == ()
    for found, one in zip(done.outputs, expected, strict=True):
        np.testing.assert_allclose(found, one, rtol=1e-5, atol=1e-5)


def test_every_rule_has_a_case() -> None:
    taken = [case for case in (*CASES, *UNKNOWN_TO_ONNXRUNTIME) if not case.generic]
    assert set(COMPOSED) == {(case.domain, case.op) for case in taken}


TOKENS = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8], [5, 6, 7, 8, 5, 6]], np.int32)
SAMPLES = np.array([[0.25, 0.1, -0.5], [0.3, 0.0, -0.6], [1.0, 3.0, -0.5], [2.0, 7.0, 0.0], [-1, -1, 3]], np.float32)
MISSING = np.where(SAMPLES == 1.0, np.float32(np.nan), SAMPLES)

# What random operands would not meet: tokens that are in the list, features that are equal to their splits.
MET: Mapping[str, tuple[Case, Sequence[np.ndarray]]] = {
    "counts": (Case("TfIdfVectorizer", (i(3, 6),), GRAMS, domain=""), [TOKENS]),
    "no skipping": (Case("TfIdfVectorizer", (i(3, 6),), {**GRAMS, "max_skip_count": 0}, domain=""), [TOKENS]),
    "more skipped than there is": (
        Case("TfIdfVectorizer", (i(3, 6),), {**GRAMS, "max_skip_count": 9}, domain=""),
        [TOKENS],
    ),
    "bigrams": (Case("TfIdfVectorizer", (i(3, 6),), {**GRAMS, "min_gram_length": 2}, domain=""), [TOKENS]),
    "a row": (Case("TfIdfVectorizer", (i(6),), GRAMS, domain=""), [TOKENS[2]]),
    "columns in another order": (
        Case("TfIdfVectorizer", (i(3, 6),), {**GRAMS, "ngram_indexes": [6, 8, 0, 2, 1, 3, 5]}, domain=""),
        [TOKENS],
    ),
    "weighted presence": (
        Case("TfIdfVectorizer", (i(3, 6),), {**GRAMS, "mode": "IDF", "weights": WEIGHTS}, domain=""),
        [TOKENS],
    ),
    "weighted counts": (
        Case("TfIdfVectorizer", (i(3, 6),), {**GRAMS, "mode": "TFIDF", "weights": WEIGHTS}, domain=""),
        [TOKENS],
    ),
    **{
        f"mode {mode}": (
            Case("TreeEnsemble", (f(5, 3),), forest(nodes_modes=tensor(mode, mode, mode, dtype=np.uint8)), domain=ML),
            [SAMPLES],
        )
        for mode in range(6)
    },
    "membership": (Case("TreeEnsemble", (f(5, 3),), forest(**SETS), domain=ML), [SAMPLES]),
    "missing": (
        Case("TreeEnsemble", (f(5, 3),), forest(nodes_missing_value_tracks_true=[1, 0, 0]), domain=ML),
        [MISSING],
    ),
    "missing and false": (Case("TreeEnsemble", (f(5, 3),), forest(), domain=ML), [MISSING]),
    "threshold": (Case("Binarizer", (f(5, 3),), {"threshold": 0.25}, domain=ML), [SAMPLES]),
    "singular": (Case("Det", (f(3, 3),), domain=""), [np.arange(9, dtype=np.float32).reshape(3, 3)]),
}


@pytest.mark.parametrize("what", MET)
def test_what_random_operands_would_not_meet(what: str) -> None:
    case, operands = MET[what]
    model = model_of(case)
    feeds = {f"x{number}": value for number, value in enumerate(operands)}
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    done = onnx_backend.execute_model(model, feeds)
    assert done.compilation is not None
    assert done.compilation.report is not None
    assert done.compilation.report.generic_operators == ()
    np.testing.assert_allclose(done.outputs[0], expected, rtol=1e-6, atol=1e-6)
    assert what == "singular" or len(np.unique(expected)) > 1


def test_a_whole_forest_of_random_trees_means_what_onnxruntime_computes() -> None:
    """40 full trees of 15 nodes each."""
    rng, trees, inner = np.random.default_rng(7), 40, 15
    numbers = np.arange(inner)
    children = np.stack([2 * numbers + 1, 2 * numbers + 2])
    leaf = children >= inner
    ids = [np.where(leaf, children - inner + tree * (inner + 1), children + tree * inner) for tree in range(trees)]
    true, false = np.concatenate(ids, axis=1).tolist()
    leaves = trees * (inner + 1)
    attributes = forest(
        tree_roots=[tree * inner for tree in range(trees)],
        nodes_featureids=rng.integers(0, 3, trees * inner).tolist(),
        nodes_modes=tensor(*rng.integers(0, 4, trees * inner), dtype=np.uint8),
        nodes_splits=tensor(*rng.standard_normal(trees * inner)),
        nodes_truenodeids=true,
        nodes_falsenodeids=false,
        nodes_trueleafs=np.tile(leaf[0], trees).astype(int).tolist(),
        nodes_falseleafs=np.tile(leaf[1], trees).astype(int).tolist(),
        leaf_targetids=rng.integers(0, 2, leaves).tolist(),
        leaf_weights=tensor(*rng.standard_normal(leaves)),
    )
    report = api.compile(
        model_of(Case("TreeEnsemble", (f(20, 3),), attributes, domain=ML)), "toy", strategy="tvm", verify=True
    ).report
    assert report is not None
    assert report.verified, report.checks
    assert report.generic_operators == ()


def test_the_number_of_an_update_may_be_computed() -> None:
    """Adam's correction of the learning rate, at the first update and later."""
    case = Case("Adam", (RATE, Input((), "int64"), *[f(3)] * 4), {"norm_coefficient": 0.01}, 3, domain=TRAINING)
    model, rng = model_of(case), np.random.default_rng(0)
    values = {f"x{number}": rng.uniform(0.5, 1.5, 3).astype(np.float32) for number in range(2, 6)}
    for update in (0, 1, 5):
        feeds = {"x1": np.array(update), **values}
        found = onnx_backend.execute_model(model, feeds).outputs
        for one, other in zip(found, ReferenceEvaluator(model).run(None, feeds), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)


REFUSED = {
    "a matrix that is not square": (Case("Det", (f(2, 3),), domain=""), "has shape [2, 3]; expected square matrices"),
    "half an n-gram": (
        Case("TfIdfVectorizer", (i(6),), {**GRAMS, "pool_int64s": [2, 3, 5, 4, 5]}, domain=""),
        "do not fit 5 tokens; expected whole n-grams of each length",
    ),
    "an unknown mode of counting": (
        Case("TfIdfVectorizer", (i(6),), {**GRAMS, "mode": "TD"}, domain=""),
        "attribute mode='TD': expected TF, IDF, TFIDF",
    ),
    "too few weights": (
        Case("TfIdfVectorizer", (i(6),), {**GRAMS, "mode": "IDF", "weights": [1.0]}, domain=""),
        "attribute weights has 1 numbers; expected 7",
    ),
    "a circle": (
        Case("TreeEnsemble", (f(5, 3),), forest(nodes_falsenodeids=[0, 2, 4]), domain=ML),
        "node 0 is reached twice, or does not exist; expected trees",
    ),
    "a child too few": (
        Case("TreeEnsemble", (f(5, 3),), forest(nodes_falseleafs=[0, 1]), domain=ML),
        "two children of each of its 3 nodes",
    ),
    "a leaf too many": (
        Case("TreeEnsemble", (f(5, 3),), forest(nodes_falsenodeids=[1, 2, 5]), domain=ML),
        "lead to leaf 5; expected one of the 5 that it has",
    ),
    "a feature too many": (
        Case("TreeEnsemble", (f(5, 2),), forest(), domain=ML),
        "expected modes from 0 to 6, and features from 0 to 1",
    ),
    "a target too many": (Case("TreeEnsemble", (f(5, 3),), forest(n_targets=1), domain=ML), "targets from 0 to 0"),
    "a split too few": (
        Case("TreeEnsemble", (f(5, 3),), forest(nodes_splits=tensor(1, 2)), domain=ML),
        "expected a mode, a split and a feature for every node",
    ),
    "half a group": (
        Case("Adagrad", (RATE, FIRST, f(2), f(2)), outputs=1, domain=TRAINING),
        "it reads 2 tensors to optimise; expected a multiple of 3",
    ),
    "an unknown momentum": (
        Case(
            "Momentum",
            (RATE, FIRST, f(2), f(2), f(2)),
            {"norm_coefficient": 0.0, "alpha": 0.5, "beta": 0.5, "mode": "polyak"},
            2,
            domain=TRAINING,
        ),
        "attribute mode='polyak': expected standard or nesterov",
    ),
    "operands of several types": (
        Case("Binarizer", (Input((2,), "bool"),), domain=ML),
        "which Binarizer does not take there",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_is_refused(what: str) -> None:
    case, message = REFUSED[what]
    with pytest.raises(InputError) as error:
        read_onnx(model_of(case))
    assert message in str(error.value)
