"""`--annotate`: the network that was compiled, the same as before but for what its nodes' metadata says of the run."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tilestitch
from tests.helpers.command import names_in, run
from tests.helpers.graphs import Net
from tests.helpers.pairs import each_once
from tests.helpers.quantised_networks import residual_network
from tilestitch import api
from tilestitch.base.errors import InputError
from tilestitch.ir.choices import Stage
from tilestitch.pipeline.options import Options
from tilestitch.zoo.inputs import sample_inputs

NETWORK = "resnet18:small"


def entries(proto) -> dict[str, str]:
    """What the metadata of a node or a model says, without the prefix of ours."""
    found = {one.key: one.value for one in proto.metadata_props}
    assert len(found) == len(proto.metadata_props), "a key appears twice"
    return {key.removeprefix("tilestitch."): value for key, value in found.items()}


def became(model: onnx.ModelProto) -> dict[str, str]:
    return {node.name: entries(node)["became"] for node in model.graph.node}


def loop() -> onnx.ModelProto:
    """Four turns of total = total * x."""
    body = helper.make_graph(
        [helper.make_node("Mul", ["before", "x"], ["after"]), helper.make_node("Identity", ["c"], ["going"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, ()),
            helper.make_tensor_value_info("c", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("before", TensorProto.FLOAT, (2, 3)),
        ],
        [
            helper.make_tensor_value_info("going", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("after", TensorProto.FLOAT, (2, 3)),
        ],
    )
    net = Net()
    x, turns, true = net.input(2, 3, name="x"), net.constant(np.int64(4)), net.constant(np.array(True))
    net.nodes.append(helper.make_node("Loop", [turns, true, x], ["total"], "loop", body=body))
    return net.model(net.op("Neg", "total", name="negative"))


@pytest.mark.parametrize(
    ("network", "strategy"),
    each_once([NETWORK, "bert-base-8-decomposed:small", "quantised", "loop"], ["tvm", "graphturbo", "dlfusion"]),
)
def test_the_numbers_of_the_nodes_add_up_to_the_report(network, strategy):
    """Every byte and every product of the run is of one node, and a node says what became of it."""
    model = {"quantised": residual_network, "loop": loop}.get(network, lambda: network)()
    done = api.compile(model, "toy", strategy=strategy, batch=None if network in ("quantised", "loop") else 2)
    found = tilestitch.annotated(done, model)
    nodes = [entries(node) for node in found.graph.node]

    def total(key: str) -> int:
        return sum(int(node.get(f"{key}.simulated", 0)) for node in nodes)

    assert total("ddr_bytes") == done.report.ddr_bytes
    assert total("macs") == sum(kernel.macs for kernel in done.report.kernels)
    assert total("vector_operations") == sum(kernel.vector_operations for kernel in done.report.kernels)
    for node in nodes:
        runs = node["became"].startswith("operator")
        assert runs == ("occupied_cycles.simulated" in node)
        assert runs or node["became"] == "constant" or node["became"].startswith(("merged into ", "nothing: "))
    assert entries(found)["latency_cycles.simulated"] == str(done.report.latency_cycles)
    parts = [float(node["gap_percent.simulated"]) for node in nodes if "gap_percent.simulated" in node]
    assert 0 < round(sum(parts), 6) <= 100  # what comes last on a core is of no node


@pytest.mark.quick
def test_an_annotated_network_computes_what_it_computed():
    """onnx's checker passes, and onnxruntime gives the same values to the bit."""
    model, _ = api.open_model(NETWORK)
    found = tilestitch.annotated(api.compile(model, "toy", strategy="tvm"), model)
    onnx.checker.check_model(found, full_check=True)
    feeds = sample_inputs(model, batch=1)
    before, after = (
        onnxruntime.InferenceSession(one.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
        for one in (model, found)
    )
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
    for node in found.graph.node:
        del node.metadata_props[:]
    del found.metadata_props[:]
    assert found == model  # nothing else has changed


def test_nodes_that_do_not_run_say_what_became_of_them():
    """Folded into weights, known while reading, a view, one that only its shape is read of, one that nobody reads."""
    net = Net()
    x = net.input(1, 8, 6, 6)
    scale = [net.random(8) for _ in range(4)]
    y = net.op("Conv", x, net.random(8, 8, 1, 1), name="conv")
    y = net.op("BatchNormalization", y, *scale, name="norm")
    weights = net.op("Transpose", net.random(4, 8), name="weights", perm=[1, 0])
    sized = net.op("Exp", y, name="sized")
    cut = net.op("Slice", net.op("Shape", sized, name="shape"), [0], [2], name="cut")
    shape = net.op("Concat", cut, [36], name="to", axis=0)
    rows = net.op("Reshape", y, net.op("Identity", net.constant([1, 8, 36]), name="copy"), name="rows")
    turned = net.op("Transpose", rows, name="turned", perm=[0, 2, 1])
    net.op("Neg", y, name="unread")
    result = net.op("MatMul", turned, weights, name="product")
    shaped = net.op("Reshape", net.op("Relu", y, name="relu"), shape, name="shaped")
    model = net.model(result, shaped)
    found = became(tilestitch.annotated(api.compile(model, "toy", strategy="layerwise"), model))
    assert found["conv"] == "operator conv"
    assert found["norm"] == "merged into conv"
    assert found["weights"] == found["shape"] == found["cut"] == found["to"] == found["copy"] == "constant"
    assert found["rows"] == "merged into conv"
    assert found["turned"] == "merged into product"
    assert found["shaped"] == "merged into relu"
    assert found["unread"] == "nothing: no output depends on it"
    assert found["sized"] == "nothing: no output depends on it"
    assert found["product"] == "operator product"


def test_a_form_is_merged_into_the_operator_that_it_became():
    """Of a layer normalisation in elementary operators, the last one stands for all."""
    model, _ = api.open_model("bert-base-8-decomposed:small")
    found = became(tilestitch.annotated(api.compile(model, "toy"), model))
    assert found["embeddings.LayerNorm.squared"] == "merged into embeddings.LayerNorm"
    assert found["embeddings.position.rows"] == "constant"


def test_the_metadata_of_others_stays_and_ours_is_replaced():
    """Annotating an annotated network gives the same bytes."""
    net = Net()
    model = net.model(net.op("Relu", net.input(2, 8), name="relu"))
    model.metadata_props.add(key="author", value="somebody")
    model.graph.node[0].metadata_props.add(key="colour", value="blue")
    done = api.compile(model, "toy", strategy="tvm")
    once = tilestitch.annotated(done, model)
    again = tilestitch.annotated(done, once)
    assert once.SerializeToString(deterministic=True) == again.SerializeToString(deterministic=True)
    assert entries(once)["author"] == "somebody"
    assert entries(once.graph.node[0])["colour"] == "blue"
    assert "tilestitch.became" not in {one.key for one in model.graph.node[0].metadata_props}


def test_nodes_without_names_and_functions_are_annotated():
    """The nodes of a function are those of the network, written out; a name that two nodes have is none."""
    net = Net()
    net.op("Relu", net.input(2, 8), name="same")
    net.nodes[-1].output[0] = "first"
    net.op("Neg", "first", name="same")
    net.nodes[-1].output[0] = "second"
    model = net.model("second")
    model.graph.node.append(helper.make_node("Twice", ["second"], ["third"], domain="mine"))
    model.graph.output.append(helper.make_empty_tensor_value_info("third"))
    model = tilestitch.with_function(
        model, '<domain: "mine", opset_import: ["" : 20]> Twice (x) => (y) { y = Add (x, x) }'
    )
    found = tilestitch.annotated(api.compile(model, "toy", strategy="tvm"), model)
    assert [node.op_type for node in found.graph.node] == ["Relu", "Neg", "Add"]
    assert all(entries(node)["became"].startswith("operator") for node in found.graph.node)


def test_several_batches_have_no_gap():
    """The bound is that of one batch, as with why."""
    done = api.compile(NETWORK, "toy", strategy="tvm", options=Options(batches=2))
    found = tilestitch.annotated(done, NETWORK)
    assert "ddr_bytes.simulated" in entries(found.graph.node[0])
    assert "gap_cycles.simulated" not in entries(found.graph.node[0])


def test_another_network_is_refused():
    """And a compilation that ended before the simulation."""
    done = api.compile(NETWORK, "toy", strategy="tvm")
    with pytest.raises(InputError, match=r"^resnet18:small: is not the network that was compiled, which has no "):
        tilestitch.annotated(done, "bert-base-8:small")
    stopped = api.compile(NETWORK, "toy", options=Options(stop_after=Stage.SCHEDULE))
    with pytest.raises(InputError, match=r"^resnet18:small: was not simulated"):
        tilestitch.annotated(stopped, NETWORK)


def saved(folder, *, external: bool) -> str:
    """A network in a folder, with its weights in a file of their own where `external`."""
    model, _ = api.open_model(NETWORK)
    folder.mkdir(exist_ok=True)
    path = folder / "net.onnx"
    onnx.save(model, path, save_as_external_data=external, location="net.data" if external else None, size_threshold=0)
    return str(path)


def test_weights_in_other_files_stay_there(tmp_path):
    """The annotated file names the same file of weights, is small, and runs."""
    path = saved(tmp_path, external=True)
    for _ in range(2):
        result = run(
            "compile", path, "--machine", "toy", "--strategy", "tvm", "--annotate", tmp_path / "seen.onnx", "--quiet"
        )
        assert result.exit_code == 0, result.output
    assert names_in(tmp_path) == ["net.data", "net.onnx", "seen.onnx"]
    assert (tmp_path / "seen.onnx").stat().st_size < 100_000 < (tmp_path / "net.data").stat().st_size
    onnx.checker.check_model(str(tmp_path / "seen.onnx"))
    feeds = sample_inputs(api.open_model(NETWORK)[0], batch=1)
    first, second = (
        onnxruntime.InferenceSession(tmp_path / name, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
        for name in ("net.onnx", "seen.onnx")
    )
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("external", "where", "message"),
    [
        (True, "elsewhere/seen.onnx", "the weights of net.onnx are in net.data in its own folder"),
        (True, "net.data", "net.data: holds weights of the network; choose another path"),
        (False, "net.onnx", "is read as an input, and would be overwritten"),
        (False, ".", "is a folder; expected the path of a file"),
    ],
)
def test_a_place_that_cannot_be_is_refused_before_the_work(tmp_path, external, where, message):
    """In one line, with exit code 2, and every file as it was."""
    path = saved(tmp_path / "here", external=external)
    before = {name: (tmp_path / name).read_bytes() for name in names_in(tmp_path)}
    place = tmp_path / "here" / where if "/" not in where else tmp_path / where
    result = run("compile", path, "--machine", "toy", "--annotate", place)
    assert result.exit_code == 2
    [line] = result.stderr.splitlines()
    assert message in line
    assert {name: (tmp_path / name).read_bytes() for name in names_in(tmp_path)} == before


def test_the_command_annotates_a_network_of_the_zoo(tmp_path):
    """The page beside it does not mention it; nothing is annotated before the simulation."""
    path = tmp_path / "seen.onnx"
    arguments = ("compile", NETWORK, "--machine", "toy", "--strategy", "tvm", "--annotate", path)
    result = run(*arguments, "--html", tmp_path / "page.html", "--quiet")
    assert result.exit_code == 0, result.output
    assert "seen.onnx" not in (tmp_path / "page.html").read_text(encoding="utf-8")
    done = api.compile(NETWORK, "toy", strategy="tvm")
    assert onnx.load(path) == tilestitch.annotated(done, NETWORK)
    result = run(*arguments, "--stop-after", "schedule")
    assert result.exit_code == 2
    assert "--annotate needs the simulation" in result.stderr
