"""A network exported for one batch gives, read for another, what it gives sample after sample; or it is refused."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import pytest

import tilestitch
from tests.helpers.graphs import Net
from tilestitch.base.errors import InputError
from tilestitch.frontend.reader import read_onnx
from tilestitch.frontend.rebatch import expect_independent_samples
from tilestitch.hardware.load import load_machine
from tilestitch.ir.choices import Effort
from tilestitch.pipeline.options import Options


def classifier() -> onnx.ModelProto:
    """A convolution whose features a Reshape to [1, 36] flattens."""
    net = Net()
    x = net.op("Relu", net.op("Conv", net.input(1, 3, 5, 5), net.random(4, 3, 3, 3)))
    return net.model(net.op("MatMul", net.op("Reshape", x, [1, 36]), net.random(36, 7)))


def attention(batch: int = 1) -> onnx.ModelProto:
    """Heads split and merged by Reshapes to constant extents, the batch merged with the heads on the way."""
    net = Net()
    x = net.input(batch, 6, 8)

    def heads(order: list[int], shape: list[int]) -> str:
        y = net.op("Reshape", net.op("MatMul", x, net.random(8, 8)), [batch, 6, 2, 4])
        return net.op("Reshape", net.op("Transpose", y, perm=order), shape)

    scores = net.op("MatMul", heads([0, 2, 1, 3], [2 * batch, 6, 4]), heads([0, 2, 3, 1], [2 * batch, 4, 6]))
    context = net.op("MatMul", net.op("Softmax", scores), heads([0, 2, 1, 3], [-1, 6, 4]))
    context = net.op("Transpose", net.op("Reshape", context, [batch, 2, 6, 4]), perm=[0, 2, 1, 3])
    return net.model(net.op("Reshape", context, [batch, 6, 8]))


def class_token() -> onnx.ModelProto:
    """A constant of one sample before the tokens of each, and positions that broadcast."""
    net = Net()
    tokens = net.op("Concat", net.random(1, 1, 8), net.input(1, 4, 8), axis=1)
    total = net.op("Add", tokens, net.random(1, 5, 8))
    return net.model(net.op("Slice", total, [0], [1], [1]))


def shared_input() -> onnx.ModelProto:
    """A second input without the batch, and one that holds a mask for each sample."""
    net = Net()
    x, table, mask = net.input(1, 4, 6), net.input(6, 3), net.input(1, 1, 3)
    return net.model(net.op("Add", net.op("MatMul", x, table), mask))


def resized() -> onnx.ModelProto:
    """Sizes of all axes, the batch among them."""
    net = Net()
    return net.model(net.op("Resize", net.input(1, 3, 4, 4), "", "", [1, 3, 6, 8], mode="linear"))


MAKERS = [classifier, attention, class_token, shared_input, resized]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("per_cluster", [1, 3])
def test_a_network_of_one_sample_runs_for_many(make: Callable[[], onnx.ModelProto], per_cluster: int):
    """Compared with onnxruntime on each sample alone."""
    done = tilestitch.compile(
        make(), "toy", batch=6, options=Options(batch_per_cluster=per_cluster), verify=True, strategy="tvm"
    )
    assert done.report is not None
    assert done.report.verified, done.report.checks
    assert (done.report.batch_per_iteration, done.report.iterations) == (per_cluster, 3 // per_cluster)


def test_a_network_of_two_samples_runs_for_six():
    done = tilestitch.compile(
        attention(2), "toy", batch=12, options=Options(batch_per_cluster=6), verify=True, strategy="tvm"
    )
    assert done.report is not None
    assert done.report.verified


def test_the_rule_chooses_among_multiples_of_the_exported_batch():
    done = tilestitch.compile(attention(2), "toy", batch=24, options=Options(stop_after="schedule"), strategy="tvm")
    assert done.schedule is not None
    assert done.schedule.batch in (2, 4, 12)
    assert done.schedule.batch * done.schedule.iterations == 12


def mixes_in(name: str) -> Callable[[], onnx.ModelProto]:
    """A network whose operator `name` mixes samples, or hides them."""

    def make() -> onnx.ModelProto:
        net = Net()
        x = net.op("Relu", net.input(1, 4, 6), name="relu")
        match name:
            case "mean":
                x = net.op("ReduceMean", x, [0], name=name)
            case "softmax":
                x = net.op("Softmax", x, axis=0, name=name)
            case "slice":
                x = net.op("Slice", x, [0], [1], [0], name=name)
            case "reversed":
                x = net.op("Slice", x, [-1], [-9], [0], [-1], name=name)
            case "concat":
                x = net.op("Concat", x, x, axis=0, name=name)
            case "products":
                x = net.op("MatMul", net.op("Reshape", x, [4, 6]), net.op("Transpose", x, perm=[0, 2, 1]), name=name)
            case "flat":
                x = net.op("ReduceMax", net.op("Reshape", x, [24]), [0], keepdims=0, name=name)
            case "table":
                x = net.op("Gather", x, net.input(1, 5, dtype=onnx.TensorProto.INT64), axis=0, name=name)
            case "output":
                x = net.op("Transpose", x, perm=[1, 0, 2], name="output")
        return net.model(x)

    return make


@pytest.mark.parametrize(
    "name", ["mean", "softmax", "slice", "reversed", "concat", "products", "flat", "table", "output"]
)
def test_a_network_that_mixes_samples_is_refused_with_the_operator_and_the_way_out(name: str):
    found = rf"'{name}'.*exported for a batch of 1 and is read for 3.*leave the batch out, which reads it for 1"
    with pytest.raises(InputError, match=found):
        read_onnx(mixes_in(name)(), batch=3)


@pytest.mark.parametrize("strategy", ["auto", "best", "graphturbo", "tvm"])
@pytest.mark.parametrize("per_cluster", ["rule", "auto"])
def test_a_network_that_mixes_samples_runs_in_iterations_of_its_batch(strategy: str, per_cluster: str):
    """A note says so, and the operator that mixes samples."""
    options = Options(batch_per_cluster=per_cluster, effort=Effort.LOW)
    done = tilestitch.compile(mixes_in("mean")(), "toy", batch=4, options=options, verify=True, strategy=strategy)
    assert done.report is not None
    assert done.report.verified
    assert (done.report.batch_per_iteration, done.report.iterations) == (1, 2)
    (note,) = (note for note in done.report.notes if "exported" in note)
    assert note == (
        "Iterations take 1 sample, the batch that the network was exported for, as it can be read for no other: "
        "operator 'mean' (reduce_mean) mixes samples, so the batch cannot change."
    )


def test_an_output_that_depends_on_no_sample_is_there_once():
    """However many runs of its batch onnxruntime takes for the others."""
    net = Net()
    x, z = net.input(1, 16), net.input(4, 8)
    done = tilestitch.compile(net.model(net.op("Relu", x), net.op("Exp", z)), "toy", batch=6, verify=True)
    assert done.report is not None
    assert done.report.verified, done.report.checks
    assert done.report.batch_per_iteration == 3


def test_an_input_without_samples_may_have_as_many_rows_as_there_are_samples():
    """Its first axis is none of samples, whatever it is as long as."""
    net = Net()
    model = net.model(net.op("MatMul", net.input(1, 4, 16), net.input(16, 8)))
    done = tilestitch.compile(model, "toy", batch=32, verify=True, strategy="tvm")
    assert done.report is not None
    assert done.report.verified, done.report.checks
    assert (done.report.batch_per_iteration, done.report.iterations) == (16, 1)


def test_another_batch_that_is_asked_for_is_refused():
    found = "'mean'.*exported for a batch of 1, and 2 are asked for at a time.*--batch-per-cluster 1"
    with pytest.raises(InputError, match=found):
        tilestitch.compile(mixes_in("mean")(), "toy", batch=4, options=Options(batch_per_cluster=2), strategy="tvm")


@pytest.mark.parametrize("strategy", ["auto", "graphturbo", "tvm"])
def test_the_way_out_works(strategy: str):
    """One sample at a time needs no other batch, also where other strategies would be tried with one."""
    done = tilestitch.compile(
        mixes_in("mean")(), "toy", batch=4, options=Options(batch_per_cluster=1), verify=True, strategy=strategy
    )
    assert done.report is not None
    assert done.report.verified
    assert done.report.iterations == 2


def test_a_symbolic_batch_is_divided_only_between_samples():
    """A softmax over the samples is another one for each half of them; in one iteration of one cluster it is whole."""
    net = Net()
    model = net.model(net.op("Softmax", net.input(1, 8), name="mix", axis=0))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    with pytest.raises(InputError, match=r"operator 'mix' .* mixes samples.*with its batch fixed at 4"):
        tilestitch.compile(model, "toy", batch=4, strategy="tvm")
    single = replace(load_machine("toy"), clusters=1)
    report = tilestitch.compile(
        model, single, batch=4, options=Options(batch_per_cluster=4), verify=True, strategy="tvm"
    ).report
    assert report is not None
    assert report.verified


def tokens_first(left_out: int = 0) -> onnx.ModelProto:
    """Tokens before samples, and both as one axis, as in the attention of PyTorch; without so many rows at each end."""
    net = Net()
    x = net.op("Transpose", net.input("N", 6, 8), perm=[1, 0, 2])
    rows = net.op("Reshape", x, [-1, 8])
    if left_out:
        rows = net.op("Slice", rows, [left_out], [-left_out], [0])
    rows = net.op("Relu", net.op("Add", net.op("MatMul", rows, net.random(8, 8)), net.random(1, 8)))
    return net.model(net.op("Transpose", net.op("Reshape", rows, [6 - left_out, -1, 8]), perm=[1, 0, 2]))


@pytest.mark.parametrize("per_cluster", [1, 2])
def test_samples_may_lie_inside_another_axis(per_cluster: int):
    options = Options(batch_per_cluster=per_cluster)
    done = tilestitch.compile(tokens_first(), "toy", batch=4, options=options, verify=True, strategy="tvm")
    assert done.report is not None
    assert done.report.verified, done.report.checks
    assert done.report.iterations == 2 // per_cluster


def test_samples_inside_another_axis_that_move_on_are_mixed():
    """Without the first row each sample becomes the one before."""
    graph = read_onnx(tokens_first(1), batch=2)
    exported = {name: replace(graph.tensors[name], shape=(1, *graph.tensors[name].shape[1:])) for name in graph.inputs}
    alone = replace(graph, tensors=exported)
    with pytest.raises(InputError, match=r"\(slice\) mixes samples"):
        expect_independent_samples("net", graph, alone, 1, 2)


@pytest.mark.parametrize("stack", [np.repeat, np.tile])
def test_constants_inside_another_axis_are_the_same_for_each_sample(stack: Callable):
    """Tokens come one after another, each with all samples: a row of each token, twice, is the same for both."""
    net = Net()
    rows = net.op("Reshape", net.op("Transpose", net.input("N", 6, 8), perm=[1, 0, 2]), [-1, 8])
    times = {np.repeat: (2, 0), np.tile: ((2, 1),)}[stack]
    own = net.op("Add", rows, stack(np.arange(48.0).reshape(6, 8), *times), name="own")
    x = net.op("Transpose", net.op("Reshape", own, [6, -1, 8]), perm=[1, 0, 2])
    graph = read_onnx(net.model(x), batch=2)
    borders = {name: replace(graph.tensors[name], shape=(1, 6, 8)) for name in (*graph.inputs, x)}
    alone = replace(graph, tensors=borders)
    if stack is np.repeat:
        expect_independent_samples("net", graph, alone, 1, 2)
        return
    with pytest.raises(InputError, match=r"'own'.*mixes samples"):
        expect_independent_samples("net", graph, alone, 1, 2)


def test_constants_that_differ_between_samples_are_refused():
    """A table with a row for each sample of the export does not say what other samples would add."""
    net = Net()
    model = net.model(net.op("Add", net.input(2, 4), net.random(2, 4)))
    with pytest.raises(InputError, match="read for 4"):
        read_onnx(model, batch=4)


def test_a_batch_that_the_exported_one_does_not_divide_is_refused():
    with pytest.raises(InputError, match="a multiple of 2"):
        tilestitch.compile(attention(2), "toy", batch=3, strategy="tvm")


def test_samples_keep_their_numbers():
    """The graph for three samples computes for each what the exported graph computes for it."""
    from tests.helpers.interpreter import interpret

    model = attention()
    alone, together = read_onnx(model), read_onnx(model, batch=3)
    x = np.random.default_rng(0).standard_normal((3, 6, 8)).astype(np.float32)
    (name,) = alone.inputs
    wanted = [interpret(alone, {name: x[n : n + 1]})[alone.outputs[0]] for n in range(3)]
    np.testing.assert_allclose(interpret(together, {name: x})[together.outputs[0]], np.concatenate(wanted), rtol=1e-5)


@pytest.mark.parametrize("first", ["samples", 2])
def test_an_input_whose_axis_0_is_named_by_its_size_is_shared_by_all_samples(first: str | int) -> None:
    net = Net()
    x, table = net.input(first, 6), net.input("rows", 6)
    model = net.model(net.op("MatMul", x, net.op("Transpose", table, perm=[1, 0])))
    done = tilestitch.compile(model, "toy", batch=4, options=Options(dims={"rows": 3}), verify=True, strategy="tvm")
    assert done.report is not None
    assert done.report.verified, done.report.checks
    assert done.report.batch == 4
