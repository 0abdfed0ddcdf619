"""Rewrites keep the meaning of a network, and do away with what they are for."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from onnx import TensorProto

from tests.helpers.graphs import Net, assert_same_meaning, chains, with_constants
from tests.helpers.interpreter import interpret
from tilestitch import zoo
from tilestitch.frontend.reader import read_onnx
from tilestitch.ir.graph import Axis, Graph
from tilestitch.ir.verify import verify_graph
from tilestitch.ops import is_view
from tilestitch.passes import simplify
from tilestitch.passes.fold import drop_unused, fold_batch_norm, fold_constants
from tilestitch.passes.joined import joined
from tilestitch.passes.layouts import assign_layouts
from tilestitch.passes.recognise import recognise
from tilestitch.passes.views import resolve_views

pytestmark = pytest.mark.quick


def kinds(graph: Graph) -> list[str]:
    return [op.kind for op in graph.operators]


# ---- fold


def test_what_no_output_needs_is_dropped():
    """Operators, constants and tensors that lead nowhere go; inputs stay, for the host still delivers them."""
    net = Net()
    x, unused = net.input(2, 3), net.input(5, name="unused")
    y = net.op("Relu", x)
    net.op("Add", y, net.random(3))
    graph = net.graph(y, net.op("Add", x, net.random(3), name="dead"))
    found = drop_unused(replace(graph, outputs=(y,)))
    assert kinds(found) == ["relu"]
    assert found.constants == {}
    assert set(found.tensors) == {x, unused, y}


def normalised(net: Net, x: str, channels: int) -> str:
    return net.op("BatchNormalization", x, *(net.random(channels) for _ in range(4)), epsilon=1e-3)


@pytest.mark.parametrize("bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize("group, channels", [(1, 8), (1, 1), (2, 8), (4, 4), (4, 8)])
def test_batch_norm_folds_into_any_convolution(group, channels, bias):
    """With groups, depthwise, with one output channel; the convolution writes what the normalisation wrote."""
    net = Net()
    x, w = net.input(2, 4, 6, 6), net.random(channels, 4 // group, 3, 3)
    y = net.op("Conv", x, w, *([net.random(channels)] if bias else []), group=group, pads=[1, 1, 1, 1], strides=[2, 2])
    graph = net.graph(net.op("Relu", normalised(net, y, channels)))
    found = fold_batch_norm(graph)
    verify_graph(found)
    assert kinds(found) == ["conv", "relu"]
    assert_same_meaning(graph, found)


@pytest.mark.parametrize("kernel, pad", [(4, 1), (3, 1), (2, 0)])
def test_batch_norm_folds_into_a_transposed_convolution(kernel, pad):
    """The weights are those of the phases of the result."""
    net = Net()
    x, w = net.input(2, 4, 6, 6), net.random(4, 8, kernel, kernel)
    y = net.op("ConvTranspose", x, w, pads=[pad] * 4, strides=[2, 2], output_padding=[kernel % 2] * 2)
    graph = net.graph(net.op("Relu", normalised(net, y, 8)))
    found = fold_batch_norm(fold_constants(graph))
    verify_graph(found)
    assert kinds(found) == ["conv", "relu"]
    assert_same_meaning(graph, found)


def test_batch_norm_folds_into_a_product():
    """The output channel may be either axis of the weights."""
    net = Net()
    x = net.op("Gemm", net.input(3, 4), net.random(5, 4), net.random(5), transB=1)
    x = net.op("Gemm", normalised(net, x, 5), net.random(5, 6))
    graph = net.graph(normalised(net, x, 6))
    found = fold_batch_norm(graph)
    assert kinds(found) == ["matmul", "matmul"]
    assert_same_meaning(graph, found)


def test_weights_that_two_convolutions_share_fold_apart():
    """Each convolution gets weights of its own, and the shared ones go."""
    net = Net()
    x, w = net.input(1, 3, 4, 4), net.random(3, 3, 1, 1)
    y = normalised(net, net.op("Conv", normalised(net, net.op("Conv", x, w), 3), w), 3)
    graph = net.graph(y)
    found = fold_batch_norm(graph)
    verify_graph(found)
    assert kinds(found) == ["conv", "conv"]
    assert w not in found.tensors
    assert_same_meaning(graph, found)


def keep_reader(net: Net) -> list[str]:
    y = net.op("Conv", net.input(1, 3, 4, 4), net.random(3, 3, 1, 1))
    return [normalised(net, y, 3), net.op("Relu", y)]


def keep_output(net: Net) -> list[str]:
    y = net.op("Conv", net.input(1, 3, 4, 4), net.random(3, 3, 1, 1))
    return [normalised(net, y, 3), y]


def keep_computed_weights(net: Net) -> list[str]:
    w = net.op("Relu", net.input(3, 3, 1, 1))
    return [normalised(net, net.op("Conv", net.input(1, 3, 4, 4), w), 3)]


def keep_computed_scale(net: Net) -> list[str]:
    y = net.op("Conv", net.input(1, 3, 4, 4), net.random(3, 3, 1, 1))
    scale = net.op("Relu", net.input(3))
    return [net.op("BatchNormalization", y, scale, *(net.random(3) for _ in range(3)))]


def keep_other_producer(net: Net) -> list[str]:
    return [normalised(net, net.op("Relu", net.input(1, 3, 4, 4)), 3)]


def keep_row_bias(net: Net) -> list[str]:
    return [normalised(net, net.op("Gemm", net.input(3, 4), net.random(4, 5), net.random(3, 1)), 5)]


@pytest.mark.parametrize(
    "build",
    [keep_reader, keep_output, keep_computed_weights, keep_computed_scale, keep_other_producer, keep_row_bias],
)
def test_batch_norm_that_cannot_fold_stays(build):
    """Another reader, an output, parameters that are computed, no product before it, a bias along another axis."""
    net = Net()
    graph = net.graph(*build(net))
    assert fold_batch_norm(graph) == graph


def test_views_of_constants_are_constants():
    """A chain of views is applied to the value; one that repeats elements stays, for its readers to repeat."""
    net = Net()
    w, v, x = net.input(6, 4, name="w"), net.input(1, 4, name="v"), net.input(2, 3, 8)
    y = net.op("Add", x, net.op("Reshape", net.op("Transpose", w), [3, 8]))
    y = net.op("Mul", y, net.op("Concat", net.op("Expand", v, [3, 4]), net.op("Slice", w, [3], [6]), axis=1))
    graph = with_constants(net.graph(y), w, v)
    found = fold_constants(graph)
    verify_graph(found)
    assert kinds(found) == ["add", "expand", "concat", "mul"]
    assert_same_meaning(graph, found)


# ---- recognise


def gelu_halved_first(net, x):
    erf = net.op("Erf", net.op("Div", x, sqrt(2)))
    return net.op("Mul", net.op("Mul", x, 0.5), net.op("Add", erf, 1.0))


def gelu_halved_last(net, x):
    erf = net.op("Erf", net.op("Mul", x, 0.7071))
    return net.op("Mul", net.op("Mul", x, net.op("Add", 1.0, erf)), 0.5)


def gelu_halved_inside(net, x):
    erf = net.op("Erf", net.op("Div", x, 1.4142))
    return net.op("Mul", x, net.op("Mul", net.op("Add", erf, 1.0), 0.5))


def gelu_divided(net, x):
    erf = net.op("Erf", net.op("Mul", sqrt(0.5), x))
    return net.op("Div", net.op("Mul", net.op("Add", erf, 1.0), x), 2.0)


def tanh_of(net, x, inner):
    tanh = net.op("Tanh", net.op("Mul", inner, sqrt(2 / np.pi)))
    return net.op("Mul", net.op("Mul", 0.5, x), net.op("Add", tanh, 1.0))


def gelu_tanh_of_a_power(net, x):
    return tanh_of(net, x, net.op("Add", x, net.op("Mul", net.op("Pow", x, 3.0), 0.044715)))


def gelu_tanh_of_a_product(net, x):
    cube = net.op("Mul", net.op("Mul", x, x), net.op("Mul", x, 0.044715))
    return tanh_of(net, x, net.op("Add", cube, x))


def gelu_tanh_factored(net, x):
    square = net.op("Mul", 0.044715, net.op("Mul", x, x))
    return tanh_of(net, x, net.op("Mul", x, net.op("Add", 1.0, square)))


def native_gelu(net, x, approximate="none"):
    return net.op("Gelu", x, approximate=approximate)


def softmax_decomposed(net, x, axis=-1):
    exponential = net.op("Exp", net.op("Sub", x, net.op("ReduceMax", x, [axis])))
    return net.op("Div", exponential, net.op("ReduceSum", exponential, [axis]))


def normal(net, x, *, squared="Pow", inverse="Div", twice=False):
    mean = net.op("ReduceMean", x, [-1])
    centred = net.op("Sub", x, mean)
    other = net.op("Sub", x, mean) if twice else centred
    square = net.op("Pow", other, 2.0) if squared == "Pow" else net.op("Mul", other, other)
    variance = net.op("Add", net.op("ReduceMean", square, [-1]), 1e-5)
    if inverse == "Div":
        return net.op("Div", centred, net.op("Sqrt", variance))
    if inverse == "Reciprocal":
        return net.op("Mul", net.op("Reciprocal", net.op("Sqrt", variance)), centred)
    return net.op("Mul", centred, net.op("Pow", variance, -0.5))


def norm_full(net, x):
    return net.op("Add", net.op("Mul", normal(net, x), net.random(8)), net.random(8))


def norm_swapped(net, x):
    scale, bias = net.random(8), net.random(1, 8)
    return net.op("Add", bias, net.op("Mul", scale, normal(net, x, squared="Mul", twice=True)))


def norm_scaled(net, x):
    return net.op("Mul", normal(net, x, inverse="Reciprocal"), net.random(8))


def norm_bare(net, x):
    return normal(net, x, inverse="Pow")


def native_norm(net, x, operands, shapes=((8,), (8,))):
    parameters = [net.random(*shape) for shape in shapes[:operands]]
    return net.op("LayerNormalization", x, *parameters, axis=-1, epsilon=1e-5)


def rms(net, x, *, inverse="Div", squared="Pow"):
    square = net.op("Pow", x, 2.0) if squared == "Pow" else net.op("Mul", x, x)
    raised = net.op("Add", net.op("ReduceMean", square, [-1]), 1e-6)
    if inverse == "Div":
        return net.op("Div", x, net.op("Sqrt", raised))
    if inverse == "One":
        return net.op("Mul", net.op("Div", 1.0, net.op("Sqrt", raised)), x)
    return net.op("Mul", x, net.op("Reciprocal", net.op("Sqrt", raised)))


def rms_of_a_cast(net, x):
    """In the wider type, as networks in float16 and bfloat16 are written; the scale in the network's own."""
    wide = net.op("Cast", x, to=TensorProto.FLOAT)
    back = net.op("Cast", rms(net, wide, inverse="Reciprocal"), to=TensorProto.FLOAT)
    return net.op("Mul", net.random(8), back)


def native_rms(net, x):
    return net.op("RMSNormalization", x, net.random(8), epsilon=1e-6)


HARD = {"alpha": 1 / 6, "beta": 0.5}
FORMS = [
    (gelu_halved_first, native_gelu),
    (gelu_halved_last, native_gelu),
    (gelu_halved_inside, native_gelu),
    (gelu_divided, native_gelu),
    (gelu_tanh_of_a_power, lambda net, x: native_gelu(net, x, "tanh")),
    (gelu_tanh_of_a_product, lambda net, x: native_gelu(net, x, "tanh")),
    (gelu_tanh_factored, lambda net, x: native_gelu(net, x, "tanh")),
    (softmax_decomposed, lambda net, x: net.op("Softmax", x, axis=-1)),
    (lambda net, x: softmax_decomposed(net, x, axis=1), lambda net, x: net.op("Softmax", x, axis=1)),
    (norm_full, lambda net, x: native_norm(net, x, 2)),
    (norm_scaled, lambda net, x: native_norm(net, x, 1)),
    (lambda net, x: net.op("Mul", rms(net, x), net.random(8)), native_rms),
    (lambda net, x: net.op("Mul", net.random(8), rms(net, x, inverse="One", squared="Mul")), native_rms),
    (rms_of_a_cast, native_rms),
    (lambda net, x: net.op("Mul", x, net.op("Sigmoid", x)), lambda net, x: net.op("Swish", x)),
    (
        lambda net, x: net.op("Mul", net.op("Sigmoid", net.op("Mul", x, 1.702)), x),
        lambda net, x: net.op("Swish", x, alpha=1.702),
    ),
    (
        lambda net, x: net.op("Mul", x, net.op("Tanh", net.op("Softplus", x))),
        lambda net, x: net.op("Mish", x),
    ),
    (
        lambda net, x: net.op("Div", net.op("Clip", net.op("Add", x, 3.0), 0.0, 6.0), 6.0),
        lambda net, x: net.op("HardSigmoid", x, **HARD),
    ),
    (
        lambda net, x: net.op("Mul", x, net.op("HardSigmoid", x, **HARD)),
        lambda net, x: net.op("HardSwish", x),
    ),
    (
        lambda net, x: net.op("Div", net.op("Mul", net.op("Clip", net.op("Add", x, 3.0), 0.0, 6.0), x), 6.0),
        lambda net, x: net.op("HardSwish", x),
    ),
]


@pytest.mark.parametrize("decomposed, native", FORMS)
def test_both_forms_give_the_same_operator(decomposed, native):
    """Kind, dims, accesses and attributes are those of the native operator; only the names of constants differ."""
    graphs = []
    for build in (decomposed, native):
        net = Net(24)
        x = net.op("Relu", net.input(2, 3, 8, name="x"), name="y")
        graphs.append(net.graph(net.op("Relu", build(net, x), name="z")))
    found = recognise(graphs[0])
    verify_graph(found)
    assert_same_meaning(graphs[0], found)
    forms = []
    for graph in (found, graphs[1]):
        op = graph.operators[1]
        constants = [graph.constants.get(read.tensor, np.empty(0)).shape for read in op.reads]
        forms.append((op.kind, op.dims, [read.axes for read in op.reads], constants, op.writes[0].axes, op.attributes))
        assert len(graph.operators) == 3
        assert op.reads[0].tensor == "y"
    assert forms[0] == forms[1]


@pytest.mark.parametrize("build", [norm_swapped, norm_bare])
def test_a_layer_norm_that_has_no_native_form_is_recognised(build):
    """Without parameters, or with the subtraction written twice and the parameters first."""
    net = Net()
    x = net.input(2, 3, 8)
    graph = net.graph(build(net, x))
    found = recognise(graph)
    verify_graph(found)
    assert kinds(found) == ["layer_norm"]
    assert_same_meaning(graph, found)


def test_a_norm_over_channels_has_its_whole_axis_where_they_are():
    """Image networks normalise over axis 1, with a scale of shape [C, 1, 1]."""
    net = Net()
    x = net.input(2, 4, 3, 3)
    centred = net.op("Sub", x, net.op("ReduceMean", x, [1]))
    variance = net.op("ReduceMean", net.op("Mul", centred, centred), [1])
    y = net.op("Div", centred, net.op("Sqrt", net.op("Add", variance, 1e-6)))
    graph = net.graph(net.op("Mul", net.random(4, 1, 1), y))
    found = recognise(graph)
    assert kinds(found) == ["layer_norm"]
    assert [dim.kind for dim in found.operators[0].dims] == ["parallel", "whole", "parallel", "parallel"]
    assert_same_meaning(graph, found)


def wrong_root(net, x):
    return [net.op("Mul", net.op("Mul", x, 0.5), net.op("Add", net.op("Erf", net.op("Div", x, 1.5)), 1.0))]


def wrong_operand(net, x):
    other = net.op("Neg", x)
    return [net.op("Mul", net.op("Mul", other, 0.5), net.op("Add", net.op("Erf", net.op("Div", x, sqrt(2))), 1.0))]


def read_inside(net, x):
    erf = net.op("Erf", net.op("Div", x, sqrt(2)))
    return [net.op("Mul", net.op("Mul", x, 0.5), net.op("Add", erf, 1.0)), net.op("Relu", erf)]


def output_inside(net, x):
    erf = net.op("Erf", net.op("Div", x, sqrt(2)))
    return [net.op("Mul", net.op("Mul", x, 0.5), net.op("Add", erf, 1.0)), erf]


def softmax_without_maximum(net, x):
    exponential = net.op("Exp", x)
    return [net.op("Div", exponential, net.op("ReduceSum", exponential, [-1]))]


def softmax_over_two_axes(net, x):
    exponential = net.op("Exp", net.op("Sub", x, net.op("ReduceMax", x, [1])))
    return [net.op("Div", exponential, net.op("ReduceSum", exponential, [2]))]


def softmax_turned(net, x):
    x = net.op("Relu", net.op("Reshape", x, [2, 4, 4, 2]))
    top = net.op("ReduceMax", x, [1], keepdims=0)  # [2, 4, 2] stands along the wrong axes of [2, 4, 4, 2]
    exponential = net.op("Exp", net.op("Sub", x, net.op("Reshape", top, [2, 1, 4, 2])))
    top = net.op("ReduceSum", exponential, [1], keepdims=0)
    return [net.op("Div", exponential, net.op("Reshape", top, [2, 4, 1, 2]))]


def norm_by_vector_epsilon(net, x):
    centred = net.op("Sub", x, net.op("ReduceMean", x, [-1]))
    variance = net.op("ReduceMean", net.op("Mul", centred, centred), [-1])
    return [net.op("Div", centred, net.op("Sqrt", net.op("Add", variance, net.random(4, 1))))]


@pytest.mark.parametrize(
    "build",
    [
        wrong_root,
        wrong_operand,
        read_inside,
        output_inside,
        softmax_without_maximum,
        softmax_over_two_axes,
        softmax_turned,
        norm_by_vector_epsilon,
    ],
)
def test_what_is_no_form_stays(build):
    """A wrong constant, another operand, a reader inside, other axes, an epsilon that varies."""
    net = Net()
    graph = net.graph(*build(net, net.input(2, 4, 8)))
    assert recognise(graph) == graph


def test_a_form_whose_result_has_more_axes_than_its_operand_stays():
    """A constant with more axes gives the result more axes, which a native operator does not."""
    net = Net()
    x = net.input(2, 8)
    half, one = (net.constant(np.full((1, 1, 1), value, np.float32)) for value in (0.5, 1.0))
    erf = net.op("Erf", net.op("Div", x, sqrt(2)))
    graph = net.graph(net.op("Mul", net.op("Mul", x, half), net.op("Add", erf, one)))
    assert recognise(graph) == graph


def test_operands_that_are_read_through_views_make_no_form():
    """Once views are composed, a softmax whose sums stand along other axes has all the right kinds."""
    net = Net()
    graph, _ = resolve_views(net.graph(*softmax_turned(net, net.input(2, 4, 8))))
    assert "reshape" not in kinds(graph)
    assert recognise(graph) == graph


def test_a_scale_along_another_axis_is_no_scale_of_the_norm():
    """The norm is recognised without it, and the product stays."""
    net = Net()
    x = net.input(2, 8, 8)
    graph = net.graph(net.op("Mul", normal(net, x), net.random(2, 1, 1)))
    found = recognise(graph)
    assert kinds(found) == ["layer_norm", "mul"]
    assert_same_meaning(graph, found)


def loops(graph: Graph) -> list:
    """All of a graph of one operator that a schedule depends on."""
    (op,) = graph.operators
    return [op.kind, [(dim.extent, dim.kind) for dim in op.dims], *([a.axes for a in (op.reads[0], op.writes[0])])]


def test_an_instance_norm_is_recognised_with_its_channels():
    """Scale and bias per channel stand along the one axis between the batch and what is normalised."""
    graphs = []
    for native in (True, False):
        net = Net()
        x = net.input(2, 6, 8)
        if native:
            y = net.op("InstanceNormalization", x, net.random(6), net.random(6))
        else:
            y = net.op("Add", net.op("Mul", normal(net, x), net.random(6, 1)), net.random(6, 1))
        graphs.append(net.graph(y))
    found = recognise(graphs[1])
    verify_graph(found)
    assert loops(found) == loops(graphs[0])
    assert len(found.operators[0].reads) == 3
    assert_same_meaning(graphs[1], found)


def group_norm(net: Net, x: str, form: str) -> str:
    """Six channels in two groups: native, through an instance norm, or in elementary operators."""
    scale, bias = net.random(6, 1, 1), net.random(6, 1, 1)
    if form == "native":
        return net.op("GroupNormalization", x, net.random(6), net.random(6), num_groups=2)
    grouped = net.op("Reshape", x, [0, 2, -1])
    if form == "through an instance norm":
        y = net.op("InstanceNormalization", grouped, np.ones(2, np.float32), np.zeros(2, np.float32))
    elif form == "scaled inside":
        y = net.op("InstanceNormalization", grouped, np.full(2, 2.0, np.float32), np.zeros(2, np.float32))
    else:
        y = normal(net, grouped)
    y = net.op("Reshape", y, [2, 6, 4, 5])
    if form == "bare":
        return y
    return net.op("Add", net.op("Mul", y, scale), bias)


@pytest.mark.parametrize("form, operands", [("through an instance norm", 3), ("elementary", 3), ("bare", 1)])
def test_a_group_norm_between_reshapes_is_one_operator(form, operands):
    """With the loops of the native one, and no views left."""
    graphs = []
    for which in ("native", form):
        net = Net(21)
        graphs.append(net.graph(group_norm(net, net.input(2, 6, 4, 5), which)))
    found = simplify(graphs[1])
    verify_graph(found)
    assert loops(found) == loops(graphs[0])
    assert len(found.operators[0].reads) == operands
    assert_same_meaning(graphs[1], found)


@pytest.mark.parametrize("form", ["scaled inside", "read inside"])
def test_a_group_norm_that_does_more_stays(form):
    """A scale per group, or a reader between the reshapes."""
    net = Net(21)
    y = group_norm(net, net.input(2, 6, 4, 5), form)
    outputs = [y] if form == "scaled inside" else [y, net.op("Relu", net.nodes[-3].output[0])]
    graph = net.graph(*outputs)
    found = simplify(graph)
    assert "mul" in kinds(found)
    assert_same_meaning(graph, found)


def test_both_forms_of_a_whole_network_simplify_to_one():
    """BERT in elementary operators becomes BERT in native ones, operator by operator."""
    native, decomposed = (
        simplify(read_onnx(zoo.build(name, small=True), batch=2)) for name in ("bert-base-8", "bert-base-8-decomposed")
    )
    verify_graph(decomposed)
    assert decomposed.operators == native.operators


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "bert-base-8-decomposed", "bert-base-8-attention"])
def test_the_whole_chain_keeps_the_meaning_of_a_network(name):
    """Simplified, without views and with layouts, every output is what it was."""
    model = zoo.build(name, small=True)
    graph = read_onnx(model, batch=2)
    inputs = zoo.sample_inputs(model, batch=2)
    simplified = simplify(graph)
    resolved, _ = resolve_views(simplified)
    found = assign_layouts(resolved)
    for stage in (simplified, resolved, found):
        verify_graph(stage)
    assert not any(is_view(op) or op.kind == "copy" for op in found.operators)
    expected, values = interpret(graph, inputs), interpret(found, inputs)
    for output in graph.outputs:
        np.testing.assert_allclose(values[output], expected[output], rtol=1e-3, atol=1e-4)


# ---- views


def resolved(graph: Graph, *, in_place: bool = False) -> Graph:
    """The graph without views, checked: it is valid, means the same, and the returned names are right."""
    found, names = resolve_views(graph)
    if in_place:
        found, now = joined(found)
        names = {old: tuple(one for name in after for one in now[name]) for old, after in names.items()}
    verify_graph(found)
    assert not any(is_view(op) for op in found.operators)
    assert_same_meaning(graph, found)
    assert list(names) == [op.name for op in graph.operators]
    assert sorted(name for group in names.values() for name in group) == sorted(op.name for op in found.operators)
    for op in graph.operators:
        if is_view(op):
            assert all(found.by_name[name].kind == "copy" for name in names[op.name])
        else:
            assert names[op.name] in ((op.name,), ())  # nothing where only a dropped part of a view needed it
    return found


def test_heads_are_split_and_merged_by_accesses_alone():
    """Attention: queries are read as [token, 64 * head + channel], and the context is written so."""
    net = Net()
    x = net.op("MatMul", net.input(2, 5, 6), net.random(6, 6))
    q = net.op("Transpose", net.op("Reshape", x, [2, 5, 3, 2]), perm=[0, 2, 1, 3])
    k = net.op("Transpose", net.op("Reshape", x, [2, 5, 3, 2]), perm=[0, 2, 3, 1])
    y = net.op("MatMul", net.op("MatMul", q, k, name="scores"), q, name="context")
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 2, 1, 3]), [2, 5, 6])
    found = resolved(net.graph(net.op("Relu", y)))
    assert kinds(found) == ["matmul", "matmul", "matmul", "relu"]
    batch, head, query, _, channel = range(5)
    assert found.by_name["scores"].reads[0].axes == (
        Axis(((batch, 1),)),
        Axis(((query, 1),)),
        Axis(((head, 2), (channel, 1))),
    )
    batch, head, token, channel, _ = range(5)
    assert found.by_name["context"].writes[0].axes == (
        Axis(((batch, 1),)),
        Axis(((token, 1),)),
        Axis(((head, 2), (channel, 1))),
    )


def test_a_mixed_radix_index_is_taken_apart():
    """Merging axes and splitting them elsewhere composes where the strides divide."""
    net = Net()
    x = net.op("Relu", net.input(4, 6))
    y = net.op("Reshape", net.op("Reshape", x, [24]), [4, 2, 3])
    graph = net.graph(net.op("Relu", y), net.op("Neg", x))
    found = resolved(graph)
    assert kinds(found) == ["relu", "relu", "neg"]
    assert found.operators[1].reads[0].axes == (Axis(((0, 1),)), Axis(((1, 3), (2, 1))))


def test_slices_read_where_the_elements_are():
    """Steps, offsets and reversal become strides and offsets of the reader."""
    net = Net()
    x = net.input(9, 8)
    y = net.op("Slice", net.op("Slice", x, [7, 1], [0, 8], [0, 1], [-2, 1]), [1, 0], [4, 7], [0, 1], [1, 3])
    found = resolved(net.graph(net.op("Relu", y)))
    assert kinds(found) == ["relu"]
    assert found.operators[0].reads[0].axes == (Axis(((0, -2),), 5), Axis(((1, 3),), 1))


def test_the_parts_of_a_split_are_read_in_place():
    """A reader of one part, and a reader of part of a part."""
    net = Net()
    a, b, c = net.ops(3, "Split", net.op("Relu", net.input(4, 9)), [2, 3, 4], axis=1)
    found = resolved(
        net.graph(net.op("Relu", a), net.op("Softmax", b), net.op("Neg", net.op("Slice", c, [1], [3], [1])))
    )
    assert kinds(found) == ["relu", "relu", "softmax", "neg"]


def test_an_expansion_is_a_loop_that_does_not_move_the_read():
    """Of an input and of a constant, in an element-wise operator and in a product."""
    net = Net()
    x, m, v = net.input(3, 4, 5), net.input(1, 5, 2), net.input(4, 1, name="v")
    y = net.op("MatMul", x, net.op("Expand", m, [3, 5, 2]))
    y = net.op("Mul", y, net.op("Expand", v, [3, 4, 2]))
    graph = with_constants(net.graph(y), "v")
    found = resolved(graph)
    assert kinds(found) == ["matmul", "mul"]
    assert found.constants["v"].size == 4


def test_a_reduction_over_repeated_elements_sees_them_repeated():
    """A sum, a softmax or a product over an expanded axis needs the axis."""
    net = Net()
    x = net.op("Expand", net.op("Relu", net.input(3, 1)), [3, 4])
    outputs = [net.op("ReduceSum", x, [1]), net.op("Softmax", x), net.op("MatMul", x, net.random(4, 2))]
    found = resolved(net.graph(*outputs))
    assert kinds(found).count("copy") == 1


@pytest.mark.parametrize(
    "view, copies",
    [
        (lambda net, x: net.op("Transpose", x, perm=[1, 0, 3, 2]), 0),
        (lambda net, x: net.op("Slice", x, [0, 7], [2, -9], [1, 3], [1, -1]), 0),
        (lambda net, x: net.op("Slice", x, [1], [8], [2], [2]), 0),  # 1, 3, 5, 7 and outside -1, 9
        (lambda net, x: net.op("Slice", x, [2], [6], [2], [2]), 1),  # 2, 4, but 0 and 6 exist
        (lambda net, x: net.op("Slice", x, [1], [7], [2]), 1),
        (lambda net, x: net.op("Concat", x, net.op("Exp", x), axis=2), 2),
        (lambda net, x: net.op("Expand", net.op("Slice", x, [3], [4], [2]), [2, 3, 8, 8]), 1),
        (lambda net, x: net.op("Reshape", net.op("Slice", x, [0], [4], [2]), [2, 3, 2, 16]), 1),
        (lambda net, x: net.op("Reshape", net.op("Relu", net.op("Reshape", x, [2, 3, 64])), [2, 3, 8, 8]), 1),
    ],
)
def test_padding_stays_outside(view, copies):
    """A window that pads reads past a transposition or a step, not past a slice, a join, an expansion, a split axis."""
    for pads in ([1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1]):
        net = Net()
        y = net.op("MaxPool", view(net, net.op("Relu", net.input(2, 3, 8, 8))), kernel_shape=[3, 3], pads=pads)
        assert kinds(resolved(net.graph(y))).count("copy") == copies


@pytest.mark.parametrize("op_type, copies", [("Transpose", 1), ("Expand", 1)])
def test_an_output_that_is_a_view_of_a_constant_is_written(op_type, copies):
    """The host finds outputs where operators put them, so a copy remains."""
    net = Net()
    x, w = net.input(2, 2), net.input(2, 1)
    y = net.op(op_type, w, *([[2, 3]] if op_type == "Expand" else []))
    found = resolved(with_constants(net.graph(y, net.op("Relu", x)), w))
    assert kinds(found) == ["copy", "relu"]


def test_an_unknown_operator_keeps_its_operands():
    """Nothing is known of its arithmetic, so neither what it reads nor what it writes moves."""
    net = Net()
    x = net.op("Relu", net.op("Transpose", net.input(2, 3), name="before"), name="unknown")
    graph = net.graph(net.op("Transpose", x, name="after"))
    operators = tuple(replace(op, kind="mystery") if op.name == "unknown" else op for op in graph.operators)
    found, names = resolve_views(replace(graph, operators=operators))
    assert found.by_name["unknown"] == operators[1]
    assert names == {"before": ("before",), "unknown": ("unknown",), "after": ("after",)}


def test_a_view_of_an_output_is_written_by_its_producer():
    """And those who read the other side read the result instead."""
    net = Net()
    x = net.op("Relu", net.input(4, 6), name="x")
    y = net.op("Transpose", x, name="y")
    found = resolved(net.graph(y, net.op("Softmax", x)))
    assert kinds(found) == ["relu", "softmax"]
    assert found.operators[0].outputs == ("y",)
    assert found.operators[1].inputs == ("y",)


@pytest.mark.parametrize("also", [False, True])
def test_a_view_between_input_and_output_is_a_copy(also):
    """Nobody else is there to do the work; the copy has the name of the view."""
    net = Net()
    x = net.input(4, 6)
    graph = net.graph(net.op("Transpose", x, name="turned"), *([net.op("Relu", x)] if also else []))
    found = resolved(graph)
    assert found.operators[0].name == "turned"
    assert kinds(found) == ["copy", "relu"][: 1 + also]


def test_a_tensor_that_is_an_output_keeps_its_place():
    """Both sides of the view are outputs, so one is a copy of the other."""
    net = Net()
    x = net.op("Relu", net.input(4, 6))
    assert kinds(resolved(net.graph(x, net.op("Transpose", x)))) == ["relu", "copy"]


def test_a_concatenation_is_a_copy_per_part():
    """The copies are named after it and write one tensor between them."""
    net = Net()
    x, y = net.op("Relu", net.input(2, 3)), net.input(2, 4)
    graph = net.graph(net.op("Softmax", net.op("Concat", x, y, axis=1, name="concat")))
    found, names = resolve_views(graph)
    assert names["concat"] == ("concat.0", "concat.1")
    assert [op.name for op in found.producers["concat"]] == ["concat.0", "concat.1"]
    resolved(graph)


def test_a_concatenation_may_be_written_in_place():
    """By an operator whose result others may read there; inputs and outputs are still copied."""
    net = Net()
    x, shared, y = net.op("Relu", net.input(2, 3)), net.op("Neg", net.input(2, 4)), net.input(2, 5)
    output = net.op("Sigmoid", net.input(2, 1))
    concat = net.op("Concat", x, shared, y, output, axis=1, name="concat")
    found = resolved(net.graph(net.op("Softmax", concat), net.op("Exp", shared), output), in_place=True)
    assert [op.name for op in found.producers[concat] if op.kind == "copy"] == ["concat.2", "concat.3"]
    assert {op.kind: op.inputs for op in found.operators}["exp"] == (concat,)


def test_what_is_joined_again_with_more_is_a_part_of_the_last_concatenation():
    """Whoever reads the first of them reads the beginning of the last; one that is turned round is copied."""
    net = Net()
    x, y, z = (net.op("Relu", net.input(2, n)) for n in (3, 4, 5))
    first, last = net.op("Concat", x, y, axis=1), net.op("Concat", x, y, z, axis=1)
    found = resolved(net.graph(net.op("Softmax", first), net.op("Neg", last)), in_place=True)
    assert kinds(found) == ["relu", "relu", "relu", "softmax", "neg"]
    turned = net.op("Concat", y, x, axis=1)
    found = resolved(net.graph(net.op("Softmax", turned), net.op("Neg", last)), in_place=True)
    assert kinds(found).count("copy") == 2


def test_an_operator_between_two_parts_of_a_concatenation_is_not_written_in_place():
    """It would read a part of the tensor of which it writes another."""
    net = Net()
    x = net.op("Relu", net.input(2, 3))
    found = resolved(net.graph(net.op("Softmax", net.op("Concat", x, net.op("Neg", x), axis=1))), in_place=True)
    assert kinds(found).count("copy") == 1
    assert all(not set(op.inputs) & set(op.outputs) for op in found.operators)


def test_nested_concatenations_are_copied_once():
    """The inner one writes its part of the outer one; no element moves twice."""
    net = Net()
    x, y, z = (net.op("Relu", net.input(2, n)) for n in (3, 4, 5))
    inner = net.op("Concat", x, y, axis=1, name="inner")
    graph = net.graph(net.op("Softmax", net.op("Concat", inner, z, axis=1, name="outer")))
    found, names = resolve_views(graph)
    assert (names["inner"], names["outer"]) == (("inner.0", "inner.1"), ("outer.1",))
    assert {op.outputs for op in found.operators if op.kind == "copy"} == {("outer",)}
    resolved(graph)


def test_a_reader_of_one_part_reads_past_the_concatenation():
    """And where all do, nothing is left of it."""
    net = Net()
    x, y = net.op("Relu", net.input(2, 3)), net.op("Neg", net.input(2, 4))
    both = net.op("Concat", x, y, axis=1)
    first, second = net.op("Slice", both, [0], [2], [1]), net.op("Slice", both, [4], [7], [1])
    found = resolved(net.graph(net.op("Softmax", first), net.op("Exp", second)))
    assert kinds(found) == ["relu", "neg", "softmax", "exp"]


def test_a_write_fills_a_box_forwards():
    """A reversed result, and two tensors whose elements alternate, are copied to where they go."""
    net = Net()
    x, y = net.op("Exp", net.input(4)), net.op("Neg", net.input(4))
    both = net.op("Concat", *(net.op("Unsqueeze", name, [1]) for name in (x, y)), axis=1)
    reversed_z = net.op("Slice", net.op("Tanh", net.input(6)), [5], [-7], [0], [-1])
    graph = net.graph(reversed_z, net.op("Softmax", net.op("Reshape", both, [8])))
    for in_place, copies in ((False, 4), (True, 2)):
        found = resolved(graph, in_place=in_place)
        assert all(stride > 0 for op in found.operators for axis in op.writes[0].axes for _, stride in axis.terms)
        assert kinds(found).count("copy") == copies


def test_rows_by_index_are_found_past_a_view_of_the_other_axes():
    """A Gather reads past a transposition of its table, not past a slice of the rows it counts."""
    net = Net()
    table, rows = net.op("Relu", net.input(6, 4, 3)), net.input(5, dtype=7)
    turned = net.op("Gather", net.op("Transpose", table, perm=[2, 1, 0]), rows, axis=1)
    cuts = [net.op("Gather", net.op("Slice", table, [a], [a + 2], [0]), rows, axis=0) for a in (0, 2)]
    found = resolved(net.graph(turned, *cuts))
    assert kinds(found) == ["relu", "gather", "copy", "gather", "copy", "gather"]
    assert found.operators[1].reads[0].indirect_axis == 1


def test_a_chain_that_no_side_can_take_is_copied_once():
    """Channels are shuffled in groups: the reader counts channels singly, and so does the writer."""
    net = Net()
    x = net.op("Reshape", net.op("Relu", net.input(1, 6, 2, 2)), [1, 2, 3, 2, 2])
    x = net.op("Reshape", net.op("Transpose", x, perm=[0, 2, 1, 3, 4]), [1, 6, 2, 2])
    assert kinds(resolved(net.graph(net.op("Relu", x)))) == ["relu", "copy", "relu"]


@given(chains())
def test_resolving_views_keeps_the_meaning(graph):
    """Whatever the chain, the result is valid, has no views, computes the same, and names who does the work."""
    verify_graph(graph)
    resolved(graph)


@given(chains())
def test_resolving_views_in_place_keeps_the_meaning(graph):
    """The same where producers write into their part of a concatenation."""
    resolved(graph, in_place=True)


@given(chains())
def test_resolving_twice_changes_nothing(graph):
    """What is left after the first time is no view."""
    found, _ = resolve_views(graph)
    again, names = resolve_views(found)
    assert again == found
    assert names == {op.name: (op.name,) for op in found.operators}


@given(chains())
def test_simplifying_and_layouts_keep_the_meaning(graph):
    """Layouts say only where elements lie: shapes, accesses and values stay."""
    simplified = simplify(graph)
    verify_graph(simplified)
    assert_same_meaning(graph, simplified)
    found, _ = resolve_views(simplified)
    laid_out = assign_layouts(found)
    verify_graph(laid_out)
    assert laid_out.operators == found.operators


# ---- layouts


def layouts(graph: Graph) -> dict[str, tuple[int, ...]]:
    return {name: tensor.layout for name, tensor in assign_layouts(resolve_views(graph)[0]).tensors.items()}


def test_feature_maps_have_their_channels_innermost():
    """From the input through element-wise operators, pools and copies to the last reduction."""
    net = Net()
    x, y = net.input(1, 3, 8, 8, name="x"), net.input(1, 4, 8, 8, name="y")
    a = net.op("Conv", x, net.random(4, 3, 3, 3), pads=[1, 1, 1, 1], name="a")
    b = net.op("Add", net.op("Relu", a, name="relu"), y, name="b")
    c = net.op("Concat", b, y, axis=1, name="c")
    d = net.op("AveragePool", c, kernel_shape=[2, 2], name="d")
    e = net.op("Conv", d, net.random(8, 1, 3, 3), group=8, name="e")
    f = net.op("GlobalAveragePool", e, name="f")
    found = layouts(net.graph(f))
    assert {found[name] for name in ("x", "y", "a", "relu", "b", "c", "d", "e", "f")} == {(0, 2, 3, 1)}


def test_the_channels_are_innermost_wherever_they_are():
    """A network that is written with its channels last keeps that order, and so do convolutions of rank 3."""
    net = Net()
    x = net.input(1, 8, 8, 3, name="x")
    y = net.op("Conv", net.op("Transpose", x, perm=[0, 3, 1, 2]), net.random(4, 3, 3, 3))
    y = net.op("Relu", net.op("Transpose", y, perm=[0, 2, 3, 1]), name="y")
    z = net.op("Conv", net.input(1, 3, 8, name="z"), net.random(4, 3, 3))
    found = layouts(net.graph(y, z))
    assert found["x"] == found["y"] == (0, 1, 2, 3)
    assert found["z"] == (0, 2, 1)


def test_a_slice_of_output_channels_is_one_run_of_the_weights():
    """Whichever way the weights are written; a bias, and an operand that is computed, lie in natural order."""
    net = Net()
    x, a, b = net.input(5, 6, name="x"), net.random(6, 7), net.random(8, 7)
    y = net.op("Gemm", net.op("MatMul", x, a), b, net.random(8), transB=1, name="y")
    y = net.op("MatMul", y, net.input(8, 9, name="z"))
    w = net.random(4, 3, 3, 3)
    found = layouts(net.graph(y, net.op("Conv", net.input(1, 3, 8, 8), w)))
    assert (found[a], found[b], found[w]) == ((1, 0), (0, 1), (0, 1, 2, 3))
    assert found["x"] == found["y"] == found["z"] == (0, 1)


def test_weights_that_are_a_view_still_have_their_reduction_innermost():
    """An expert's or a head's weights keep the batch outermost."""
    net = Net()
    w = net.random(2, 6, 7)
    found = layouts(net.graph(net.op("MatMul", net.input(2, 5, 6), w)))
    assert found[w] == (0, 2, 1)
