"""Operators that the standard defines by others are written out, and branches that are known are taken."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.helpers.graphs import Net
from tests.hostile.inputs.making import external_weight
from tilestitch import api
from tilestitch.base.errors import InputError
from tilestitch.frontend.operators.handlers import HANDLERS
from tilestitch.frontend.reader import read_onnx
from tilestitch.ops import generic
from tilestitch.sim.chip.interpret import interpret
from tilestitch.sim.chip.reference import onnxruntime_outputs

pytestmark = pytest.mark.quick

DEFINED = [
    ("Elu", 22, [(2, 3)], {"alpha": 0.5}),
    ("HardSwish", 22, [(2, 3)], {}),  # by HardSigmoid
    ("Shrink", 18, [(2, 3)], {"bias": 0.25, "lambd": 0.125}),
    ("MeanVarianceNormalization", 13, [(2, 3, 4, 5)], {}),
    ("LayerNormalization", 18, [(2, 3, 4), (4,)], {"epsilon": 0.01}),  # its body depends on types and attributes
    ("SoftmaxCrossEntropyLoss", 13, [(4, 3), np.array([0, 2, 1, 1])], {"reduction": "sum"}),  # two results
    ("AffineGrid", 20, [(2, 2, 3), np.array([2, 1, 4, 5])], {}),  # has branches that depend on the rank
]


@pytest.mark.parametrize("op, opset, operands, attributes", DEFINED, ids=[case[0] for case in DEFINED])
def test_a_definition_means_what_onnxruntime_computes(monkeypatch, op, opset, operands, attributes):
    """Also where a rule of ours would be better."""
    monkeypatch.delitem(HANDLERS, op, raising=False)
    net = Net(opset)
    names = [net.input(*x) if isinstance(x, tuple) else net.constant(x) for x in operands]
    outputs = net.ops(2 if op == "SoftmaxCrossEntropyLoss" else 1, op, *names, **attributes)
    done = api.compile(net.model(*outputs), "toy", verify=True)
    assert done.report.verified, done.report.checks
    assert op not in [row.operator for row in done.report.generic_operators]
    assert len(done.loaded.operators) > 1


def own_functions() -> onnx.ModelProto:
    """Twice, which calls Slope; Slope has an attribute, and its inner tensor has a name that the network uses too."""
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    leaky = helper.make_node("LeakyRelu", ["a"], ["t"])
    leaky.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    negated = helper.make_node("Neg", ["t"], ["b"])
    slope = helper.make_function("own", "Slope", ["a"], ["b"], [leaky, negated], opsets, ["slope"])
    calls = [
        helper.make_node("Slope", [x], [y], domain="own", slope=s) for x, y, s in (("a", "c", 0.5), ("c", "b", 0.25))
    ]
    twice = helper.make_function("own", "Twice", ["a"], ["b"], calls, opsets)
    net = Net()
    net.nodes = [
        helper.make_node("Twice", [net.input(2, 3)], ["t"], domain="own"),
        helper.make_node("Slope", ["t"], ["y"], domain="own", slope=2.0),
    ]
    found = net.model("t", "y")
    found.opset_import.append(opsets[1])
    found.functions.extend([slope, twice])
    return found


def test_functions_of_the_file_are_written_out():
    """As exporters of PyTorch wrote them; the reference runs the calls themselves."""
    done = api.compile(own_functions(), "toy", verify=True)
    assert [op.kind for op in done.loaded.operators] == ["leaky_relu", "neg"] * 3
    assert done.report.verified, done.report.checks
    x = {name: np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3) for name in done.loaded.inputs}
    (theirs,) = onnxruntime_outputs(own_functions(), [x])
    ours = interpret(done.loaded, x, wide=True)
    for name in ("t", "y"):
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-6)


def test_weights_of_a_branch_lie_beside_the_model(tmp_path):
    """Wherever the command is given."""
    weight = external_weight("w", [3], location="w.data")
    (tmp_path / "w.data").write_bytes(np.array([1, 2, 4], np.float32).tobytes())
    net = Net()
    add = helper.make_node("Add", [net.input(2, 3), "w"], ["t"])
    branch = helper.make_graph([add], "branch", [], [onnx.ValueInfoProto(name="t")], [weight])
    (tmp_path / "net.onnx").write_bytes(
        net.model(net.op("If", [True], then_branch=branch, else_branch=branch)).SerializeToString()
    )
    done = api.compile(tmp_path / "net.onnx", "toy", verify=True)
    assert done.report.verified, done.report.checks
    assert [value.tolist() for value in done.loaded.constants.values()] == [[1.0, 2.0, 4.0]]


def test_functions_that_onnx_cannot_write_out_are_refused():
    model = own_functions()
    model.functions.append(model.functions[0])
    with pytest.raises(InputError, match=r"net: its functions cannot be inlined \(.*multiple.*\); export it without"):
        api.load_graph(model)


def test_a_definition_that_cannot_be_read_leaves_a_generic_operator(monkeypatch):
    """Nothing of it is left."""
    monkeypatch.delitem(HANDLERS, "HardSwish", raising=False)

    def refuse(node, network) -> None:
        raise node.fault("no")

    monkeypatch.setitem(HANDLERS, "HardSigmoid", refuse)
    net = Net(22)
    graph = read_onnx(net.model(net.op("HardSwish", net.input(2, 3))))
    assert [op.kind for op in graph.operators] == [generic.KIND]
    assert set(graph.tensors) == {"in0", "hardswish0"}


def conditional(condition: str, *, rows: int = 2, inputs: tuple[str, ...] = ()) -> onnx.ModelProto:
    """An If whose branches read a tensor from outside, one of them under a name that is taken."""
    branches = [
        helper.make_graph(
            [helper.make_node("Add", ["x", "x"], ["twice"]), helper.make_node("Relu", ["twice"], ["y"])],
            "then",
            [],
            [onnx.ValueInfoProto(name="y")],
        ),
        helper.make_graph([helper.make_node("Exp", ["x"], ["z"])], "else", [], [onnx.ValueInfoProto(name="z")]),
    ]
    nodes = [
        helper.make_node("Neg", ["a"], ["x"]),
        helper.make_node("Neg", ["x"], ["twice"]),
        helper.make_node("Shape", ["a"], ["shape"]),
        helper.make_node("Constant", [], ["limit"], value_ints=[2, 3]),
        helper.make_node("Equal", ["shape", "limit"], ["equal"]),
        helper.make_node("Cast", ["equal"], ["number"], to=TensorProto.INT64),
        helper.make_node("ReduceMin", ["number"], ["least"], keepdims=0),
        helper.make_node("Cast", ["least"], ["known"], to=TensorProto.BOOL),
        helper.make_node("If", [condition], ["result"], "if", then_branch=branches[0], else_branch=branches[1]),
        helper.make_node("Add", ["result", "twice"], ["sum"]),
    ]
    known = [helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in inputs]
    a = helper.make_tensor_value_info("a", TensorProto.FLOAT, [rows, 3])
    graph = helper.make_graph(nodes, "net", [a, *known], [onnx.ValueInfoProto(name="sum")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize("rows, kinds", [(2, ["neg", "neg", "add", "relu", "add"]), (1, ["neg", "neg", "exp", "add"])])
def test_a_branch_whose_condition_is_known_is_taken(rows, kinds):
    done = api.compile(conditional("known", rows=rows), "toy", verify=True)
    assert [op.kind for op in done.loaded.operators] == kinds
    assert done.report.verified


def test_a_branch_that_depends_on_inputs_is_refused():
    with pytest.raises(InputError, match="control flow is not supported"):
        read_onnx(conditional("c", inputs=("c",)))


SLOPE = (
    '<domain: "own", opset_import: ["" : 20]> Slope <slope> (a) => (b) '
    "{ t = LeakyRelu <alpha: float = @slope> (a) b = Neg (t) }"
)


def called() -> onnx.ModelProto:
    """A call of a function that the file does not have."""
    net = Net()
    net.nodes = [helper.make_node("Slope", [net.input(2, 3)], ["y"], domain="own", slope=0.5)]
    return net.model("y")


def test_a_function_can_be_added_to_a_network():
    """Whether or not the network imports its domain; the network itself stays as it was."""
    model = called()
    before = model.SerializeToString()
    done = api.compile(api.with_function(model, SLOPE), "toy", verify=True)
    assert [op.kind for op in done.loaded.operators] == ["leaky_relu", "neg"]
    assert done.report.verified, done.report.checks
    assert model.SerializeToString() == before
    with pytest.raises(InputError, match="domain 'own' is unknown"):
        api.compile(model, "toy")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the function cannot be read"),
        ("Slope (a) => (b) { b = Neg (a) }", "no domain of its own|cannot be read"),
        (SLOPE.replace("Neg (t)", "Neg (t"), "the function cannot be read"),
        (SLOPE, "function 'Slope' of domain 'own' is already defined"),
    ],
)
def test_what_is_no_new_function_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        api.with_function(api.with_function(called(), SLOPE), text)
