"""`tilestitch build`: files that are whole Python, that say what they hold, and refusals."""

import ast
import io
import json
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnxruntime.quantization import QuantType

import tilestitch
from benchmarks.gpu_networks import bert_layer
from tests.gpu.chains import BOTTLENECK, chained, perceptron
from tests.helpers.command import run
from tests.helpers.quantised_networks import quantised, quantised_while_it_runs, residual_network, transformer_layer
from tilestitch import KernelOptions
from tilestitch.base.files import write_files


@pytest.fixture(scope="module")
def built():
    return tilestitch.build("resnet18:small", strategy="tvm", batch=2)


@pytest.fixture(scope="module")
def attention():
    return tilestitch.build("bert-base-128:small", strategy="one-block")


def test_every_operator_is_in_one_kernel(built, attention):
    """No more and no fewer; the kernels of the schedule are in the text."""
    for one in (built, attention):
        names = [name for module in one.plan.modules for launch in module.launches for name in launch.operators]
        assert sorted(names) == sorted(op.name for op in one.plan.schedule.graph.operators)
        for module in one.plan.modules:
            text = one.files[f"{module.name}.py"].decode()
            for number in module.kernels:
                assert re.search(rf"^ +{number} \S", text, re.MULTILINE)


def test_modules_are_python(built, attention):
    """They parse, lines are not too long, and every name of a kernel is a parameter, a local name or Triton's."""
    for one in (built, attention):
        for name, content in one.files.items():
            if name.endswith(".py"):
                ast.parse(content)
                assert max(map(len, content.decode().splitlines())) <= 120, name


@pytest.mark.parametrize(
    "network", ["resnet18:small", "densenet121:small", "bert-base-128:small", "mobilenet-v2:small"]
)
def test_modules_are_formatted(tmp_path, network):
    """As ruff formats and checks them, with lines of 120 characters."""
    _expect_formatted(tmp_path, tilestitch.build(network, strategy="one-block", batch=1))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_modules_of_quantised_networks_are_formatted(tmp_path, dtype):
    """With zero points in the file, and with those that are found while the network runs."""
    static = quantised(residual_network(), tmp_path, activations=QuantType.QUInt8, per_channel=True)
    for name, model in (("static", static), ("dynamic", quantised_while_it_runs(transformer_layer(), tmp_path))):
        built = tilestitch.build(model, strategy="one-block", batch=1, kernels=KernelOptions(dtype=dtype))
        _expect_formatted(tmp_path / name, built)


def _expect_formatted(folder, built):
    write_files([(folder / name, content) for name, content in built.files.items()])
    options = ["--no-cache", "--isolated", "--line-length=120", "--target-version=py311"]
    for command in (["format", "--check", "--diff"], ["check", "--select=B,C4,E,F,I,PERF,PIE,SIM,UP,W"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *options, folder], capture_output=True, text=True
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def test_attention_is_one_kernel(attention):
    """The softmax between two products streams; weights of products before it stay apart, and the text says why."""
    forms = [row["form"] for row in attention.records()]
    assert forms.count("attention") == 2
    assert "stay apart" in str(attention)


def test_attention_is_one_kernel_where_the_schedule_runs_it_apart():
    """The module says so; without fusing it stays as the schedule has it."""
    model = bert_layer(16, 32, 4)
    one = tilestitch.build(model, strategy="tvm", batch=1)
    [module] = [module for module in one.plan.modules if any(launch.form == "attention" for launch in module.launches)]
    assert len(module.kernels) == 3
    assert "of the schedule run apart there, and are one here" in one.files[f"{module.name}.py"].decode()
    assert len(one.plan.modules) == len(one.plan.schedule.kernels) - 2
    apart = tilestitch.build(model, strategy="tvm", batch=1, kernels=KernelOptions(fuse="none"))
    assert "attention" not in [row["form"] for row in apart.records()]


def test_what_came_together_in_the_end_is_not_said_to_be_apart():
    """Expand and depthwise alone would do too much work twice; with project they do not."""
    layers = ((72, (1, 1), (1, 1), (0,) * 4), (0, (3, 3), (1, 1), (1,) * 4), (24, (1, 1), (1, 1), (0,) * 4))
    whatever_fits = KernelOptions(fuse="all")
    built = tilestitch.build(chained(layers, (16, 16), 24), strategy="one-block", batch=1, kernels=whatever_fits)
    [kernel] = [one for module in built.plan.modules for one in module.launches]
    assert kernel.again > 1.5
    assert "stay apart" not in str(built)
    assert f"Conv_0 is computed {kernel.again:.2f} times" in str(built)
    apart = tilestitch.build(chained(layers[:2], (16, 16), 24), strategy="one-block", batch=1, kernels=whatever_fits)
    assert "Conv_0 would be computed 1.56 times, and the kernel would do 1.41 times the work" in str(apart)


def test_what_was_measured_to_be_slower_stays_apart():
    """Windows that slide on chip, and two products of many sums; the text says why. Few sums are fused."""
    layers = ((16, (3, 3), (1, 1), (1,) * 4),) * 2
    built = tilestitch.build(chained(layers, (8, 8), 16), strategy="one-block", batch=1)
    assert "windows would slide over what the kernel computes, which is slower than kernels apart" in str(built)
    forms = {
        width: [row["form"] for row in tilestitch.build(model, strategy="one-block", batch=64).records()]
        for width, model in ((width, perceptron((width,) * 3, 128)) for width in (64, 256))
    }
    assert forms == {64: ["fused products"], 256: ["products", "products"]}


def test_four_products_are_split_and_the_module_says_why():
    """In the text that is printed and in the module."""
    one = (16, (1, 1), (1, 1), (0,) * 4)
    built = tilestitch.build(chained((one,) * 4, (8, 8), 16), strategy="one-block", batch=1)
    assert len(built.records()) == 2
    why = "they are 4 products, and a kernel holds 3"
    assert why in str(built)
    assert why in built.files[f"{built.plan.modules[0].name}.py"].decode().replace("\n  ", " ")


def test_a_schedule_that_cannot_be_simulated_is_built():
    """Its program would have twice the steps that are allowed, but kernels need none. The text says what was left."""
    built = tilestitch.build("bert-base-128:small", strategy="one-block", batch=2)
    assert built.plan.schedule.batch == 2
    assert "no other batch was compared, since the program is too long to be simulated" in str(built)
    with pytest.raises(tilestitch.DoesNotFit, match="steps"):
        tilestitch.compile("bert-base-128:small", "h200", strategy="one-block", batch=2)


def test_modules_say_pieces_loops_and_tiles():
    """Of the schedule, and of every kernel what one program makes."""
    groups = (tilestitch.HandGroup("all", pieces=2, axis=2),)
    schedule = tilestitch.HandSchedule("by hand", groups, "depth_first")
    built = tilestitch.build(chained((BOTTLENECK[1],), (8, 8), 16), strategy=schedule, batch=1)
    texts = [built.files[f"{module.name}.py"].decode() for module in built.plan.modules]
    pieces = [re.findall(r"Sub-graph 1, piece (a.): number (.) of 2\.", text) for text in texts]
    assert sorted(pieces) == [[("a1", "1")], [("a2", "2")]]
    for number, text in enumerate(texts):
        assert "  loops d0:1 d1:64" in text
        assert re.search(rf"# Kernel {number} of the schedule, .*programs? with\n?#? +blocks BLOCK_M", text)


def test_without_fusing_every_kernel_stays_by_itself(attention):
    """As many kernels as the schedule has."""
    apart = tilestitch.build("bert-base-128:small", strategy="one-block", kernels=KernelOptions(fuse="none"))
    assert len(apart.records()) == len(apart.plan.schedule.kernels) > len(attention.records())


def test_weights_are_those_of_the_network(built):
    """In the type of the build, channels of convolutions innermost; the same bytes again."""
    arrays = np.load(io.BytesIO(built.files["weights.npz"]))
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.float16)}
    assert arrays["w0"].shape == (8, 7, 7, 3)
    again = tilestitch.build("resnet18:small", strategy="tvm", batch=2)
    assert dict(again.files) == dict(built.files)


def test_the_command_writes_all_files(tmp_path):
    """And prints what is in them; nothing is left where it refuses."""
    out = tmp_path / "kernels"
    done = run("build", "resnet18:small", "--machine", "h200", "--strategy", "tvm", "-o", out, "--json", "-")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert {f"{one['module']}.py" for one in found["modules"]} <= {path.name for path in out.iterdir()}
    refused = run("build", "resnet18:small", "--machine", "stcp920", "-o", tmp_path / "none")
    assert (refused.exit_code, (tmp_path / "none").exists()) == (2, False)
    assert "stcp920: is no GPU" in refused.output


def test_an_operator_that_is_not_there_is_refused():
    """By its name."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 8])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([helper.make_node("CumSum", ["x", "axis"], ["y"], name="sums")], "g", inputs, outputs)
    graph.initializer.append(onnx.numpy_helper.from_array(np.array(1), "axis"))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(tilestitch.InputError, match=r"'sums' .*the Triton back end does not have it"):
        tilestitch.build(model, strategy="tvm")


def test_one_result_alone_has_a_place_for_every_lane():
    """Triton takes no block of values for a single address."""
    built = tilestitch.build("dlrm:small", strategy="tvm", batch=1)
    text = built.files[f"{built.plan.modules[-1].name}.py"].decode()
    assert "tl.store(places, " in text
    assert "places = tl.broadcast_to(" in text


@pytest.mark.parametrize("options", [KernelOptions(backend="cuda"), KernelOptions(dtype="int8")])
def test_unknown_options_are_refused(options):
    """With those that are known."""
    with pytest.raises(tilestitch.InputError, match="expected one of"):
        tilestitch.build("resnet18:small", kernels=options)
