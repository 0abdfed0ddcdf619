"""Programs for CNML: well-formed C++, calls that mean the network, refusals."""

import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from tests.helpers.command import run
from tests.helpers.fused_plans import MODEL
from tests.helpers.graphs import Net
from tests.helpers.pairs import each_once
from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.commands.fuse.emitted import cnml_of
from tilestitch.commands.fuse.fuse import fuse_blocks
from tilestitch.commands.fuse.plan_file import parse_plan, plan_json
from tilestitch.formats.cnml.calls import calls_of
from tilestitch.formats.cnml.program import EmittedBlock, cnml_program
from tilestitch.formats.cnml.values import AllInputs, Call, Constant, shape_of
from tilestitch.frontend.reader import read_onnx
from tilestitch.ir.graph import Graph
from tilestitch.partition.blocks.dlfusion import PLANS
from tilestitch.partition.blocks.layers import layers_of
from tilestitch.partition.blocks.model import BlockCost
from tilestitch.passes import simplify
from tilestitch.zoo import build


def every_call() -> onnx.ModelProto:
    """A network with each operator that CNML has a call for, and each way to pad."""
    net = Net()
    x = net.input(1, 8, 13, 15)
    x = net.op("Conv", x, net.random(8, 8, 3, 3), net.random(8), pads=[1, 1, 1, 1], name="even")
    x = net.op("Relu", x)
    y = net.op("Conv", x, net.random(8, 8, 3, 2), pads=[0, 0, 2, 1], name="uneven")
    y = net.op("Sigmoid", y)
    x = net.op("Add", x, y)
    x = net.op("Conv", x, net.random(8, 8, 3, 3), pads=[2, 2, 2, 2], dilations=[2, 2], name="dilated")
    x = net.op("Tanh", x)
    z = net.op("Conv", x, net.random(8, 2, 1, 3), net.random(8), group=4, pads=[0, 1, 0, 1], name="grouped")
    w = net.op("Conv", x, net.random(8, 1, 3, 3), group=8, pads=[1, 1, 1, 1], name="depthwise")
    x = net.op("Sub", z, w)
    x = net.op("Clip", x, 0.0, 6.0)
    x = net.op("LRN", x, size=3, alpha=0.1, beta=0.5, bias=2.0)
    parameters = [net.random(8) for _ in range(4)]
    y = net.op("BatchNormalization", net.op("Relu", x), *parameters)
    x = net.op("Mul", x, y)
    x = net.op("Concat", x, y, axis=1)
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], name="padded_pool")
    x = net.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, name="ceil_pool")
    x = net.op("AveragePool", x, kernel_shape=[2, 2], strides=[1, 1])
    y = net.op("GlobalAveragePool", x)
    x = net.op("Gemm", net.op("Flatten", x), net.random(16 * 2 * 3, 5), net.random(5), name="rows")
    y = net.op("Gemm", net.op("Flatten", y), net.random(5, 16), transB=1, name="columns")
    return net.model(net.op("Softmax", net.op("Add", x, y), axis=1))


@cache
def model(name: str) -> onnx.ModelProto:
    return every_call() if name == "every call" else build(name, small=True)


@cache
def graph(name: str) -> Graph:
    return simplify(read_onnx(model(name), name=name, batch=1))


NETWORKS = ("every call", "resnet18", "mobilenet-v2", "densenet121", "googlenet")


@cache
def cost(name: str) -> BlockCost:
    return BlockCost(layers_of(graph(name), granule=MODEL.granule), MODEL)


def program(name: str, plan: str) -> str:
    """The text for a network by a strategy."""
    found, layers = PLANS[plan](cost(name)), cost(name).network.layers
    blocks = [
        EmittedBlock(tuple(operator for number in block for operator in layers[number].operators), cores)
        for block, cores in zip(found.blocks, found.choices, strict=True)
    ]
    return cnml_program(graph(name), blocks, name).text


# Well-formed


def includes() -> str:
    return str(files("tilestitch.formats.cnml").joinpath("include"))


def compiler() -> str:
    found = shutil.which("g++")
    if found is None:
        pytest.skip("g++ is not installed")
    return found


def faults(text: str, folder: Path) -> str:
    """What g++ says of a program, without a word of it linked or run."""
    (folder / "program.cpp").write_text(text)
    flags = ["-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", includes()]
    return subprocess.run([compiler(), *flags, "program.cpp"], cwd=folder, capture_output=True, text=True).stderr


@pytest.mark.parametrize(("name", "plan"), each_once(NETWORKS, ["baseline", "dlfusion"]))
def test_the_program_is_well_formed(name, plan, tmp_path):
    """By its own declarations of CNML; each layer alone, and in blocks."""
    assert faults(program(name, plan), tmp_path) == ""


def test_a_wrong_program_is_not_well_formed(tmp_path):
    """Otherwise the test above could not fail: another name, one argument less, another order of arguments."""
    text = program("resnet18", "dlfusion")
    for wrong in (
        text.replace("cnmlCreateAddOp(", "cnmlCreateAddsOp("),
        text.replace(", CNML_NoSparse", ""),
        re.sub(r"cnmlCompileFusionOp\((\w+), CNML_MLU100, (\d+)\)", r"cnmlCompileFusionOp(\1, \2, CNML_MLU100)", text),
    ):
        assert wrong != text
        assert "error" in faults(wrong, tmp_path)


def test_names_of_the_network_are_no_program(tmp_path):
    """Whatever they hold: they become identifiers, each another, and in remarks stay on their line."""
    net = Net()
    x = net.op("Relu", net.input(1, 4, 6, 6), name="a b ??/")
    x = net.op("Relu", x, name="a-b \\")
    x = net.op("Relu", x, name="a_b")
    simple = simplify(read_onnx(net.model(x), name="net", batch=1))
    blocks = [EmittedBlock((op.name,), 1) for op in simple.operators]
    made = cnml_program(simple, blocks, "net\n#error \\").text
    assert len(set(re.findall(r"static cnmlBaseOp_t (\w+);", made))) == 3
    assert faults(made, tmp_path) == ""


# What it means


@pytest.mark.parametrize("name", NETWORKS)
def test_the_calls_mean_the_network(name):
    """Read as what they are said to mean, and run by onnxruntime, they give what the network gives."""
    value = model(name)
    feeds = {
        one.name: np.random.default_rng(1).uniform(
            -1, 1, [dim.dim_value or 1 for dim in one.type.tensor_type.shape.dim]
        )
        for one in value.graph.input
    }
    feeds = {key: array.astype(np.float32) for key, array in feeds.items()}
    wanted, found = (
        np.asarray(onnxruntime.InferenceSession(one.SerializeToString()).run(None, feeds)[0])
        for one in (value, as_onnx(graph(name)))
    )
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def as_onnx(graph: Graph) -> onnx.ModelProto:
    """The calls of a network as nodes of ONNX, with their constants in the shapes that the program gives them."""
    sources: dict[str, str] = {}
    nodes, weights = [], {}
    for op in graph.operators:
        found = calls_of(graph, op, sources)
        for one in found.constants:
            weights[one.name] = one
        for call in found.calls:
            nodes += _nodes(call, weights)
    inputs = [helper.make_tensor_value_info(x, 1, graph.tensors[x].shape) for x in graph.inputs]
    outputs = [helper.make_empty_tensor_value_info(name) for name in graph.outputs]
    initial = [numpy_helper.from_array(one.values.reshape(one.shape), name) for name, one in weights.items()]
    made = helper.make_graph(nodes, "calls", inputs, outputs, initial)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def _nodes(call: Call, weights: dict[str, Constant]) -> list[onnx.NodeProto]:
    """One call as nodes; an operand that CNML has in another shape gets its ONNX one, which is checked first."""
    kind = call.create.removeprefix("cnmlCreate").removesuffix("Op")
    names = [argument.name for argument in call.arguments if not isinstance(argument, str | AllInputs)]
    words = [word for word in call.parameter_arguments if not word.startswith("CNML_")]
    numbers = [float(word.removesuffix("f")) for word in words if word not in ("true", "false")]
    sizes = [int(number) for number in numbers] if kind != "Lrn" else []
    out = [call.output]
    match kind:
        case "Conv" | "ConvGroup":
            stride, dilation, pads = sizes[:2], sizes[2:4], sizes[4:6]
            assert all(pad % 2 == 0 for pad in pads)
            half = [pad // 2 for pad in pads]
            x, _, *rest = names
            groups = int(str(call.arguments[-1])) if kind == "ConvGroup" else 1
            made = {"strides": stride, "dilations": dilation, "pads": half * 2, "group": groups}
            return [helper.make_node("Conv", [x, rest[0], *_bias(rest, weights)], out, **made)]
        case "ConvDepthwise":
            x, _, filters, *_ = names
            one, channels, *window = weights[filters].shape
            assert one == 1
            shape = (channels, 1, *window)
            weights[f"{filters} in ONNX"] = replace(weights[filters], shape=shape)
            operands = [x, f"{filters} in ONNX", *_bias(names[2:], weights)]
            return [helper.make_node("Conv", operands, out, strides=sizes, group=channels)]
        case "Mlp":
            x, _, *rest = names
            return [
                helper.make_node("Conv", [x, rest[0], *_bias(rest, weights)], out)
            ]  # a window as large as the image
        case "AddPad":
            top, bottom, left, right = sizes[:4]
            pads, value = f"{call.output} pads", f"{call.output} value"
            weights[pads] = Constant(pads, "", (8,), np.array([0, 0, top, left, 0, 0, bottom, right]))  # type: ignore
            weights[value] = Constant(value, "", (), np.array(numbers[4], np.float32))  # type: ignore
            return [helper.make_node("Pad", [names[0], pads, value], out)]
        case "Pool":
            window, stride, pads, dilation = (sizes[place : place + 2] for place in (0, 2, 4, 6))
            assert pads == [0, 0]
            if "CNML_POOL_MAX" in call.parameter_arguments:
                made = {"kernel_shape": window, "strides": stride, "dilations": dilation}
                return [helper.make_node("MaxPool", names[:1], out, **made)]  # type: ignore
            assert dilation == [1, 1]
            return [helper.make_node("AveragePool", names[:1], out, kernel_shape=window, strides=stride)]
        case "Active":
            function = {"SIGMOID": "Sigmoid", "RELU": "Relu", "TANH": "Tanh"}
            name = str(call.arguments[0]).removeprefix("CNML_ACTIVE_")
            if name in function:
                return [helper.make_node(function[name], names[:1], out)]
            limits = {"zero": 0.0, "six": {"RELU1": 1.0, "RELU6": 6.0}[name]}
            for limit, number in limits.items():
                key = f"{call.output} {limit}"
                weights[key] = Constant(key, "", (), np.array(number, np.float32))  # type: ignore
            return [helper.make_node("Clip", [names[0], *(f"{call.output} {limit}" for limit in limits)], out)]
        case "Add" | "Sub" | "Mult":
            return [helper.make_node({"Mult": "Mul"}.get(kind, kind), names[:2], out)]
        case "Scale":
            x, _, alpha, beta = names
            between = f"{call.output} scaled"
            return [helper.make_node("Mul", [x, alpha], [between]), helper.make_node("Add", [between, beta], out)]
        case "Lrn":
            size, alpha, beta, k = numbers
            return [helper.make_node("LRN", names[:1], out, size=int(size), alpha=alpha, beta=beta, bias=k)]
        case "Softmax":
            return [helper.make_node("Softmax", names[:1], out, axis=1)]
        case "Concat":
            assert call.parameter_arguments == (str(len(call.inputs)), "1", "CNML_CONCAT_FEAT")
            return [helper.make_node("Concat", call.inputs, out, axis=1)]
    raise AssertionError(kind)


def _bias(names: list[str], weights: dict[str, Constant]) -> list[str]:
    """A bias as ONNX takes it: (1, channels, 1, 1) becomes (channels)."""
    found = []
    for name in names[1:]:
        assert weights[name].shape[0] == 1 == weights[name].shape[2] == weights[name].shape[3]
        weights[f"{name} in ONNX"] = replace(weights[name], shape=weights[name].shape[1:2])  # type: ignore
        found.append(f"{name} in ONNX")
    return found


def test_blocks_hold_the_calls_of_the_plan_on_its_cores():
    """A fusion operator for each block of several calls, with the cores of the plan; ends are what others read."""
    name = "resnet18"
    fused = fuse_blocks(cost(name), "mlu100", "exact", "exact")
    text = cnml_of(graph(name), fused).text
    compiled = re.findall(r"cnmlCompile(?:Fusion|Base)Op\(\w+, CNML_MLU100, (\d+)\)", text)
    assert tuple(map(int, compiled)) == fused.plan.choices
    alone = cnml_of(graph(name), fuse_blocks(cost(name), "mlu100", "baseline", "baseline")).text
    assert set(re.findall(r"CNML_MLU100, (\d+)\)", alone)) == {"1"}
    assert len(re.findall(r"cnmlFuseOp\(", text)) + len(re.findall("cnmlCompileBaseOp", text)) == len(
        re.findall(r"static cnmlBaseOp_t", text)
    )


def test_a_plan_that_is_read_back_gives_the_same_program():
    """Byte for byte, from the JSON that -o writes otherwise."""
    name = "mobilenet-v2"
    fused = fuse_blocks(cost(name), "mlu100", "dlfusion", "dlfusion")
    again = parse_plan(plan_json(cost(name).network, fused.plan), "plan.json")
    read = fuse_blocks(cost(name), "mlu100", again, "plan.json")
    assert cnml_of(graph(name), read).text == cnml_of(graph(name), fused).text


def test_the_program_is_this_text(golden):
    """Of a network of a convolution, a sum and a fully connected layer, in two blocks."""
    net = Net()
    x = net.input(1, 3, 8, 8, name="image")
    y = net.op("Relu", net.op("Conv", x, net.random(3, 3, 3, 3), net.random(3), pads=[1] * 4, name="conv"), name="relu")
    x = net.op("Flatten", net.op("Add", x, y, name="sum"))
    simple = simplify(
        read_onnx(net.model(net.op("Gemm", x, net.random(4, 192), transB=1, name="fc")), batch=1, name="net")
    )
    blocks = [EmittedBlock(("conv", "relu", "sum"), 8), EmittedBlock((simple.operators[-2].name, "fc"), 1)]
    made = cnml_program(simple, blocks, "net")
    golden("cnml.cpp", made.text)
    assert len(made.constant_bytes) == 4 * (81 + 3 + 4 * 192)


# Refusals


def refusal(value: onnx.ModelProto) -> str:
    simple = simplify(read_onnx(value, name="net", batch=1))
    blocks = [EmittedBlock(tuple(op.name for op in simple.operators), 1)]
    with pytest.raises(InputError) as caught:
        cnml_program(simple, blocks, "net")
    return str(caught.value)


def test_what_cnml_has_no_call_for_is_refused_by_name():
    """With what is known, and the way out."""
    for kind, attributes in (("Erf", {}), ("HardSwish", {}), ("ReduceMax", {"keepdims": 1})):
        net = Net()
        message = refusal(net.model(net.op(kind, net.input(1, 4, 5, 5), name="odd", **attributes)))
        assert message.startswith("net: operator 'odd': CNML has no call for ")
        assert message.endswith("Leave out --emit cnml: -o writes the plan as JSON then")


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda net, x: net.op("Clip", x, -1.0, 1.0, name="odd"), "clips to -1.0 .. 1.0"),
        (
            lambda net, x: net.op("Add", x, net.random(1, 4, 6, 6), name="odd"),
            "where CNML expects a tensor that is computed",
        ),
        (lambda net, x: net.op("Flatten", net.op("Relu", x), name="odd"), "other than fully connected layers"),
        (
            lambda net, x: net.op(
                "Conv", x, net.random(4, 1, 3, 3), group=4, dilations=[2, 2], pads=[2] * 4, name="odd"
            ),
            "dilated depthwise",
        ),
        (lambda net, x: net.op("MatMul", x, net.random(6, 5), name="odd"), "operator 'odd'"),
        (lambda net, x: net.op("Softmax", x, axis=2, name="odd"), "softmax over an axis other than the channels"),
        (
            lambda net, x: net.op("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4, name="odd"),
            "windows that hang over the image",
        ),
        (lambda net, x: net.op("ReduceMean", x, [1], name="odd"), "mean over axes other"),
    ],
)
def test_an_operator_that_cnml_has_otherwise_is_refused(make, message):
    net = Net()
    found = refusal(net.model(make(net, net.input(1, 4, 6, 6))))
    assert "operator 'odd'" in found
    assert message in found


def test_a_plan_that_cannot_run_there_is_refused():
    """It does not fit, or asks for more cores than an MLU100 has."""
    fused = fuse_blocks(cost("resnet18"), "mlu100", "one-block", "one-block")
    cramped = replace(cost("resnet18"), model=replace(MODEL, local_bytes=3_000, weight_area_bytes=1_000))
    with pytest.raises(DoesNotFit, match="choose another --plan"):
        cnml_of(graph("resnet18"), replace(fused, cost=cramped))
    with pytest.raises(InputError, match="block 0 runs on 64 cores; CNML takes at most 32"):
        cnml_program(graph("resnet18"), [EmittedBlock((graph("resnet18").operators[0].name,), 64)], "net")


def test_the_command_writes_program_and_constants(tmp_path):
    """And refuses what does not go together, before the work."""
    source, constants = tmp_path / "net.cpp", tmp_path / "net.bin"
    result = run("fuse", "resnet18:small", "--emit", "cnml", "-o", source, "--constants", constants, "--quiet")
    assert result.exit_code == 0, result.output
    assert faults(source.read_text(), tmp_path) == ""
    counts = re.findall(r"= constant\(\w+, (\d+), (\d+), (\d+), (\d+), constants\)", source.read_text())
    assert constants.stat().st_size == 4 * sum(int(np.prod([int(size) for size in shape])) for shape in counts)
    for words in (("--emit", "cnml"), ("-o", source, "--constants", constants), ("--emit", "other", "-o", source)):
        refused = run("fuse", "resnet18:small", *words)
        assert refused.exit_code == 2
        assert refused.stderr.startswith("error: ")


def test_shapes_have_four_axes():
    """Or two, of a fully connected layer; others are refused."""
    net = Net()
    value = simplify(read_onnx(net.model(net.op("Relu", net.input(2, 3, 4), name="odd")), name="net", batch=2))
    with pytest.raises(InputError, match="has 3 axes; expected 4, or 2"):
        shape_of(value, value.operators[0], "in0")
