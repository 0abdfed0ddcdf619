"""ONNX's backend interface, and ONNX's own tests of single nodes through it."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case.test_case import TestCase

import tilestitch.onnx_backend as backend
from tests.helpers.graphs import Net
from tilestitch.base.errors import InputError
from tilestitch.frontend.reader import read_onnx
from tilestitch.onnx_backend.node_tests import DISPUTED, NodeVerdict, Result, cases, result, results, summary
from tilestitch.onnx_backend.operators import Way, listing, ways

PAGE = Path(__file__).parent.parent.parent / "docs" / "onnx.md"
X = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)


@pytest.mark.quick
def test_a_prepared_model_runs_on_arrays_of_any_shape():
    """A symbolic dim takes its size from what comes, and nothing is compiled before."""
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Add", ["r", "r"], ["y"])]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 3])
    graph = helper.make_graph(nodes, "net", [x], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    prepared = backend.prepare(model)
    for rows in (2, 5):
        x = np.resize(X, (rows, 3))
        (y,) = prepared.run([x])
        np.testing.assert_array_equal(y, 2 * np.maximum(x, 0))
        np.testing.assert_array_equal(backend.run_model(model, {"x": x})[0], y)
    assert y.dtype == np.float32


@pytest.mark.quick
def test_one_node_runs_alone():
    node = helper.make_node("MatMul", ["a", "b"], ["y"])
    (y,) = backend.run_node(node, [X, X.T])
    np.testing.assert_allclose(y, X @ X.T)


@pytest.mark.quick
def test_settings_among_the_inputs_are_taken_as_they_come():
    """The axes of a reduction and the bounds of a slice; what is short is not known for that alone."""
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)
    executed = backend.execute_model(_model(node, x=X, axes=np.array([1])), [X, np.array([1])])
    np.testing.assert_allclose(executed.outputs[0], X.sum(1))
    assert executed.compilation is not None
    assert executed.compilation.loaded.inputs == ("x",)
    add = helper.make_node("Add", ["x", "row"], ["y"])
    executed = backend.execute_model(_model(add, x=X, row=X[0]), [X, X[0]])
    assert executed.compilation is not None
    assert executed.compilation.loaded.inputs == ("x", "row")


def _model(node: onnx.NodeProto, **inputs: np.ndarray) -> onnx.ModelProto:
    values = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    return helper.make_model(
        helper.make_graph([node], "net", values, outputs), opset_imports=[helper.make_opsetid("", 20)]
    )


def test_a_setting_gives_an_operator_its_rule():
    """A DFT whose axis is computed is generic; with the axis that came it is not."""
    node = helper.make_node("DFT", ["x", "", "axis"], ["y"])
    x = X.reshape(1, 2, 3, 1)
    executed = backend.execute_model(_model(node, x=x, axis=np.array(2)), [x, np.array(2)])
    assert executed.compilation is not None
    assert executed.compilation.report is not None
    assert executed.compilation.report.generic_operators == ()
    spectrum = np.fft.fft(x[..., 0], axis=2)
    np.testing.assert_allclose(executed.outputs[0], np.stack([spectrum.real, spectrum.imag], -1), atol=1e-6)


def test_outputs_without_elements_are_not_computed():
    node = helper.make_node("Split", ["x", "parts"], ["a", "b"], axis=1)
    a, b = backend.run_model(_model(node, x=X, parts=np.array([3, 0])), [X, np.array([3, 0])])
    np.testing.assert_array_equal(a, X)
    assert b.shape == (2, 0)


def test_devices_and_compatibility():
    net = Net()
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA")
    assert backend.is_compatible(net.model(net.op("Relu", net.input(2))))
    assert not backend.is_compatible(net.model(net.op("NonZero", net.input(2))))
    with pytest.raises(InputError, match="expected CPU"):
        backend.prepare(net.model("in0"), "CUDA")


def test_what_is_no_tensor_is_refused():
    net = Net()
    with pytest.raises(InputError, match="expected a tensor"):
        backend.run_model(net.model(net.op("Relu", net.input(2, 3))), [[X]])


@pytest.mark.parametrize("value", [X, None])
def test_an_optional_input_is_a_tensor_or_absent(value):
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, (2, 3))
    optional = helper.make_value_info("x", helper.make_optional_type_proto(tensor))
    node = helper.make_node("OptionalHasElement", ["x"], ["y"])
    graph = helper.make_graph([node], "net", [optional], [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    assert backend.run_model(model, [value])[0] == (value is not None)


def of_sequences(node: onnx.NodeProto, opset: int = 20, **inputs: int) -> onnx.ModelProto:
    """A node that reads and writes sequences of tensors of these element types, which may be absent."""
    kinds = {name: helper.make_tensor_sequence_value_info(name, kind, None) for name, kind in inputs.items()}
    for value in kinds.values():
        value.type.CopyFrom(helper.make_optional_type_proto(value.type))
    result = helper.make_tensor_sequence_value_info(node.output[0], next(iter(inputs.values())), None)
    graph = helper.make_graph([node], "net", list(kinds.values()), [result])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


@pytest.mark.parametrize("rows", [(1, 3), (2,), ()])
def test_sequences_have_the_lengths_that_come(rows: tuple[int, ...]) -> None:
    """And their tensors the shapes that come, one that has no element among them."""
    body = helper.make_graph(
        [helper.make_node("Add", ["one", "one"], ["twice"])],
        "body",
        [helper.make_tensor_value_info("one", TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("twice", TensorProto.FLOAT, ["N", 3])],
    )
    model = of_sequences(helper.make_node("SequenceMap", ["s"], ["t"], body=body), s=TensorProto.FLOAT)
    tensors = [np.resize(X, (count, 3)) for count in rows] + [np.zeros((0, 3), np.float32)] * bool(rows)
    (found,) = backend.run_model(model, [tensors])
    assert len(found) == len(tensors)
    for one, other in zip(found, tensors, strict=True):
        np.testing.assert_array_equal(one, 2 * other)
        assert one.dtype == np.float32


def test_a_sequence_that_goes_through_passes_the_machine() -> None:
    """New names give way to those that are there."""
    model = of_sequences(helper.make_node("Identity", ["s"], ["s.0"]), s=TensorProto.INT32)
    executed = backend.execute_model(model, [[np.arange(3, dtype=np.int32), np.array([7], np.int32)]])
    assert executed.compilation is not None
    assert len(executed.compilation.loaded.operators) == 2
    ((first, second),) = executed.outputs
    assert (first.tolist(), second.tolist()) == ([0, 1, 2], [7])


def test_what_a_sequence_holds_are_tensors() -> None:
    model = of_sequences(helper.make_node("Identity", ["s"], ["t"]), s=TensorProto.FLOAT)
    with pytest.raises(InputError, match="input 's' holds a list; expected tensors"):
        backend.run_model(model, [[[X]]])


def test_what_onnxruntime_evaluated_is_said() -> None:
    """Not what is only passed on, nor what a rule knows."""
    values = [numpy_helper.from_array(np.array(value), name) for name, value in (("a", [2.0]), ("n", 4))]
    nodes = [
        helper.make_node("Identity", ["a"], ["b"]),
        helper.make_node("Exp", ["b"], ["c"]),
        helper.make_node("HannWindow", ["n"], ["w"]),
    ]
    graph = helper.make_graph(nodes, "net", [], [onnx.ValueInfoProto(name=name) for name in "cw"], values)
    evaluated: list[str] = []
    read_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), evaluated=evaluated)
    assert evaluated == ["Exp"]


@pytest.mark.parametrize(
    ("expected", "outcome"), [([X, X], NodeVerdict.OWN), ([X], NodeVerdict.WRONG), ([X, X + 1], NodeVerdict.WRONG)]
)
def test_sequences_are_compared_tensor_by_tensor(expected: list[np.ndarray], outcome: NodeVerdict) -> None:
    """And must have one length; onnx's own comparison looks at no more tensors than there are."""
    model = of_sequences(helper.make_node("Identity", ["s"], ["t"]), s=TensorProto.FLOAT)
    case = TestCase("one", "one", None, None, model, [([[X, X]], [expected])], "node", 1e-3, 1e-7)
    assert result(case).outcome is outcome


def test_sequences_that_only_add_up_to_as_many_tensors_differ() -> None:
    model = of_sequences(helper.make_node("Identity", ["s"], ["t"]), s=TensorProto.FLOAT)
    model.graph.node.append(helper.make_node("Identity", ["s"], ["u"]))
    model.graph.output.append(model.graph.output[0])
    model.graph.output[1].name = "u"
    data = [([[X, X]], [[X], [X, X, X]])]
    case = TestCase("one", "one", None, None, model, data, "node", 1e-3, 1e-7)
    assert result(case).reason == "sequences of lengths [2, 2]; expected [1, 3]"


@cache
def all_results() -> tuple[Result, ...]:
    """Half a minute for all."""
    return tuple(results(cases()))


@pytest.mark.filterwarnings("ignore::RuntimeWarning:onnx")
@pytest.mark.slow
def test_no_test_of_some_single_nodes_is_wrong():
    """Every thirtieth; all of them are slow."""
    found = tuple(results(cases()[::30]))
    assert [one for one in found if one.outcome is NodeVerdict.WRONG] == []
    assert {one.name for one in found if one.outcome is NodeVerdict.DISPUTED} <= set(DISPUTED)
    assert all(one.reason for one in found if one.outcome is NodeVerdict.REFUSED)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning:onnx")
def test_no_test_of_a_single_node_is_wrong_and_most_are_verified():
    """At least 95 % by rules of our own, 96 % with generic operators; each refusal has a reason."""
    found = all_results()
    counts = Counter(one.outcome for one in found)
    assert [one for one in found if one.outcome is NodeVerdict.WRONG] == []
    assert {one.name for one in found if one.outcome is NodeVerdict.DISPUTED} <= set(DISPUTED)
    assert counts[NodeVerdict.OWN] >= 0.95 * len(found)
    assert counts[NodeVerdict.OWN] + counts[NodeVerdict.GENERIC] >= 0.96 * len(found)
    assert all(one.reason for one in found if one.outcome is NodeVerdict.REFUSED)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning:onnx")
def test_the_page_shows_the_counts(request):
    """And is written by `pytest --update-golden`."""
    text, counts = PAGE.read_text(encoding="utf-8"), summary(all_results()).partition("\n\n")[0]
    between = f"<!-- counts -->\n```\n{counts}\n```\n"
    shown = re.compile(r"<!-- counts -->\n```\n.*?\n```\n", re.DOTALL)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(shown.sub(lambda _: between, text), encoding="utf-8")
    assert shown.findall(PAGE.read_text(encoding="utf-8")) == [between]


def test_the_summary_counts_every_test_once():
    found = [
        Result("test_a", NodeVerdict.OWN, ""),
        Result("test_b", NodeVerdict.GENERIC, "GRU"),
        Result("test_c", NodeVerdict.GENERIC, "GRU"),
        Result("test_d", NodeVerdict.REFUSED, "net: node 'n1' (If): no"),
        Result("test_e", NodeVerdict.REFUSED, "net: node 'n2' (If): no"),
    ]
    lines = summary(found).splitlines()
    assert lines[0].startswith("5 tests of single nodes in onnx ")
    assert lines[1:4] == [
        "      1   20.0 %  verified by rules of our own",
        "      2   40.0 %  generic, or evaluated while reading",
        "      2   40.0 %  refused",
    ]
    assert "      2  GRU" in lines
    assert "      2  net: node '...' (If): no" in lines


def test_the_page_lists_the_way_of_every_operator(request):
    """And is written by `pytest --update-golden`."""
    text, between = PAGE.read_text(encoding="utf-8"), f"<!-- operators -->\n{listing()}<!-- end -->\n"
    shown = re.compile(r"<!-- operators -->\n.*?<!-- end -->\n", re.DOTALL)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(shown.sub(lambda _: between, text), encoding="utf-8")
    assert shown.findall(PAGE.read_text(encoding="utf-8")) == [between]


def test_every_operator_of_the_standard_has_a_way():
    """The best one that is open to it."""
    found = ways()
    expected = {
        "Relu": Way.RULE,
        "Shape": Way.RULE,
        "SoftmaxCrossEntropyLoss": Way.DEFINITION,
        "NonZero": Way.GENERIC,
        "ai.onnx.ml.Binarizer": Way.RULE,
        "ai.onnx.ml.Scaler": Way.GENERIC,
        "Loop": Way.WRITTEN_OUT,
        "RandomNormal": Way.RANDOM,
        "SequenceAt": Way.WRITTEN_OUT,
        "Optional": Way.NO_TENSOR,
    }
    assert {name: found[name] for name in expected} == expected
    assert len(found) > 200
