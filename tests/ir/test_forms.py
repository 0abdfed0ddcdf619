"""Graphs and programs as text read back as the same values, and what is no such text is refused with its place."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf, isnan, nan
from random import Random

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import QuantType

import tilestitch
from tests.helpers.graphs import Net
from tests.helpers.pairs import each_once, first, slow_for
from tests.helpers.quantised_networks import quantised, residual_network
from tests.helpers.random_networks import random_machine, random_model
from tests.helpers.read_back import assert_same_array, assert_same_graph, assert_same_program
from tests.hostile.fuzzing import RandomNetwork, damaged
from tilestitch import api, zoo
from tilestitch.base.dtypes import DType
from tilestitch.base.errors import DoesNotFit, InputError, InvalidIR, TilestitchError
from tilestitch.base.json_text import JsonPart
from tilestitch.base.storage import STORAGE
from tilestitch.hardware.load import load_machine
from tilestitch.ir.forms.arrays import packed, unpacked
from tilestitch.ir.forms.graph_form import graph_digest, graph_from, graph_text
from tilestitch.ir.forms.program_form import program_from, program_text
from tilestitch.ir.graph import Access, Axis, Dim, DimKind, Graph, Operator, Tensor
from tilestitch.ir.verify import verify_graph
from tilestitch.lower.program import lower
from tilestitch.passes import simplify
from tilestitch.passes.layouts import assign_layouts
from tilestitch.passes.outputs import write_outputs
from tilestitch.passes.views import resolve_views
from tilestitch.pipeline.compilation import Compilation
from tilestitch.sim.chip.execute import execute
from tilestitch.sim.chip.timing import simulate

SMALL = [f"{name.replace('<L>', '16')}:small" for name in zoo.names()]


def stages_of(model: str | onnx.ModelProto) -> Iterator[Graph]:
    """A network as it is loaded, simplified, and scheduled."""
    graph = api.load_graph(model)
    yield graph
    graph = simplify(graph)
    yield graph
    yield assign_layouts(write_outputs(resolve_views(graph)[0]))


def assert_reads_back(graph: Graph) -> None:
    """The same graph, the same text again, and one line for each part."""
    text = graph_text(graph)
    found = graph_from(text, "graph.json")
    assert_same_graph(found, graph)
    assert graph_text(found) == text
    assert graph_digest(found) == graph_digest(graph)


@pytest.mark.parametrize("name", slow_for(["densenet121:small", "googlenet:small"], SMALL))
def test_a_graph_of_the_zoo_reads_back(name: str):
    """At every stage."""
    for graph in stages_of(name):
        assert_reads_back(graph)


@pytest.mark.parametrize("seed", range(12))
def test_a_random_graph_reads_back(seed: int):
    for graph in stages_of(random_model(seed, rearranging=seed % 2 == 1)):
        assert_reads_back(graph)


@pytest.mark.parametrize("seeds", first(1, [range(400, 800), range(400)]), ids=["some", "others"])
def test_a_graph_of_any_operators_reads_back(seeds):
    """Generic operators with the bytes of their nodes, attributes and constants of all types."""
    kinds = set()
    for seed in seeds:
        try:
            graphs = list(stages_of(RandomNetwork(seed).model()))
        except TilestitchError:
            continue
        for graph in graphs:
            assert_reads_back(graph)
            kinds |= {op.kind for op in graph.operators}
    assert len(kinds) > 25
    assert "generic" in kinds


def quantised_network(folder) -> onnx.ModelProto:
    return quantised(residual_network(), folder, activations=QuantType.QInt8, per_channel=True)


def test_a_quantised_graph_reads_back(tmp_path):
    for graph in stages_of(quantised_network(tmp_path)):
        assert any(tensor.dtype is DType.INT8 for tensor in graph.tensors.values())
        assert_reads_back(graph)


@pytest.mark.parametrize("dtype", STORAGE, ids=lambda dtype: dtype.name)
def test_an_array_of_any_type_reads_back(dtype: np.dtype):
    """Every value of the small types; also transposed, with many elements alike, and without axes."""
    bits = 1 if dtype.kind == "b" else min(8, STORAGE[dtype].bits)
    values = np.arange(2**bits, dtype=np.uint8)
    if dtype.itemsize > 1 or bits == 8:
        values = np.random.default_rng(0).integers(0, 256, 96 * dtype.itemsize, np.uint8)
    for array in (values.view(dtype), values.view(dtype).reshape(2, -1).T, np.zeros((300, 5), dtype)):
        part = JsonPart(packed(array), "graph.json")
        assert_same_array(unpacked(part, dtype, array.shape, array.size), array, dtype.name)
    one = values.view(dtype)[1].reshape(())
    assert_same_array(unpacked(JsonPart(packed(one), "graph.json"), dtype, (), 1), one, dtype.name)


def strange_graph(name: str = 'a "graph"\n\ud800', tensor: str = "x[0, i]\u202e", **fields) -> Graph:
    """Names that look like something else, every type of attribute, padding of all kinds, strides in any order."""
    dims = (Dim("i", 3, DimKind.PARALLEL), Dim("i.0", 3, DimKind.REDUCTION), Dim("größe", 1, DimKind.WHOLE))
    attributes = (
        *(("whole", -3), ("real", 1.0), ("tiny", 5e-324), ("least", -inf), ("none", nan), ("zero", -0.0)),
        *(("text", "1.0"), ("empty", ""), ("bytes", b"\x00\xff"), ("few", ()), ("wholes", (1, -2))),
        *(("reals", (1.0, inf, 0.1)), ("bytes_base64", "AA=="), ("float", "inf")),
    )
    index = Axis(((0, 2), (1, -1)), -1)
    constant = Access("c", (Axis(((2, -7),), 3),), nan)
    reads = (Access(tensor, (index, Axis((), 0)), -inf), constant, Access("rows", (Axis(()),), indirect_axis=0))
    op = Operator('"op"', "max_pool", dims, reads, (Access("y", (Axis(((0, 1),)),)),), attributes)
    tensors = {
        tensor: Tensor(tensor, (9, 1), DType.FLOAT16, (1, 0)),
        "c": Tensor("c", (4,), DType.FLOAT8E8M0, (0,)),
        "rows": Tensor("rows", (5,), DType.INT32, (0,)),
        "y": Tensor("y", (3,), DType.BFLOAT16, (0,)),
    }
    constants = {"c": np.array([1, np.inf, np.nan, -0.0], np.float32)}
    return replace(Graph(name, tensors, (op,), (tensor, "rows"), ("y",), constants), **fields)


def test_a_strange_graph_reads_back():
    """Text of any signs, numbers that JSON has no words for, and sums that begin with a minus."""
    graph = strange_graph()
    assert_reads_back(graph)
    text = graph_text(graph)
    assert text.isprintable() is False  # it has lines
    assert all(line.isprintable() for line in text.splitlines())
    text.encode()  # also the half of a pair of signs
    assert '"dims": "i:3 i.0+3 größe=1"' in graph_text(strange_graph(tensor="x"))
    found = graph_from(text, "graph.json").operators[0]
    assert [type(value) for _, value in found.attributes] == [type(value) for _, value in graph.operators[0].attributes]
    assert isnan(found.reads[1].pad_value)


def test_the_text_of_a_graph_is_a_line_for_each_part(golden):
    """A residual block, a pool with padding, and a generic operator, whole."""
    net = Net()
    x = net.input(1, 2, 4, 4, name="x")
    y = net.op("Relu", net.op("Conv", x, net.random(2, 2, 3, 3), pads=[1, 1, 1, 1], name="conv"))
    y = net.op("MaxPool", net.op("Add", x, y), kernel_shape=[2, 2], strides=[2, 2], pads=[1, 1, 1, 1])
    rois = net.constant(np.array([[0, 0, 0, 2, 2]], np.float32))
    golden(
        "forms/graph.json", graph_text(net.graph(net.op("MaxRoiPool", y, rois, pooled_shape=[1, 1], name="generic")))
    )


def test_the_digest_stands_for_all_that_decisions_depend_on():
    """Not for the name, and not for the values of constants."""
    graph = strange_graph()
    digest = graph_digest(graph)
    assert re.fullmatch("[0-9a-f]{64}", digest) is not None
    assert graph_digest(replace(graph, name="other")) == digest
    assert graph_digest(replace(graph, constants={"c": np.zeros(4, np.float32)})) == digest
    op, tensor = graph.operators[0], graph.tensors["y"]
    for other in (
        replace(graph, constants={}),
        replace(graph, inputs=graph.inputs[::-1]),
        replace(graph, outputs=("y", "y")),
        replace(graph, tensors={**graph.tensors, "y": replace(tensor, dtype=DType.FLOAT16)}),
        replace(graph, operators=(replace(op, kind="average_pool"),)),
        replace(graph, operators=(replace(op, attributes=op.attributes[1:]),)),
        replace(graph, operators=(replace(op, reads=(replace(op.reads[0], pad_value=0.0), *op.reads[1:])),)),
    ):
        assert graph_digest(other) != digest


def compiled(model: str | onnx.ModelProto, machine, strategy: str, **options) -> Compilation:
    return tilestitch.compile(model, machine, strategy=strategy, **options)


def assert_runs_alike(done: Compilation, machine) -> None:
    """From the text of its graph the same program is lowered, and from that of the program the same trace follows."""
    assert done.schedule is not None
    assert done.program is not None
    assert done.trace is not None
    graph = graph_from(graph_text(done.schedule.graph), "graph.json")
    assert_same_program(lower(replace(done.schedule, graph=graph), machine), lower(done.schedule, machine))
    text = program_text(done.program)
    found = program_from(text, "program.json", graph)
    assert_same_program(found, done.program)
    assert program_text(found) == text
    trace, expected = simulate(found), simulate(done.program)
    for name in ("start_ticks", "end_ticks", "resource_busy_ticks", "resource_bytes"):
        assert_same_array(getattr(trace, name), getattr(expected, name), name)


@pytest.mark.parametrize(
    ("name", "strategy"),
    each_once(
        ["resnet18:small", "unet:small", "bert-base-16:small", "dlrm:small"],
        ["layerwise", "tvm", "graphturbo", "dlfusion"],
    ),
)
def test_a_program_of_the_zoo_reads_back(name: str, strategy: str):
    """And what follows from it is the same: several clusters, iterations, fused blocks, pieces of sub-graphs."""
    machine = load_machine("mlu100" if strategy == "dlfusion" else "toy")
    assert_runs_alike(compiled(name, machine, strategy, batch=4), machine)


@pytest.mark.parametrize("seed", range(10))
def test_a_program_for_a_random_machine_reads_back(seed: int):
    """Cores that are not alike, memories that are missing, ports with odd rates."""
    machine = random_machine(seed)
    try:
        done = compiled(random_model(seed), machine, "tvm")
    except (DoesNotFit, InputError):
        pytest.skip("the machine is too small for the network")
    assert_runs_alike(done, machine)


def test_programs_of_quantised_and_generic_operators_read_back(tmp_path):
    net = Net()
    generic = net.op("Det", net.op("Relu", net.input(2, 8, 8, name="x")))
    for model in (quantised_network(tmp_path), net.model(generic)):
        assert_runs_alike(compiled(model, "toy", "tvm"), load_machine("toy"))


def test_a_program_that_is_read_back_computes_the_same():
    """The values, to the bit."""
    done = compiled("resnet18:small", "toy", "tvm")
    assert done.program is not None
    found = program_from(program_text(done.program), "program.json", done.program.graph)
    feeds = [{name: np.ones(done.program.graph.tensors[name].shape, np.float32) for name in done.program.graph.inputs}]
    for one, other in zip(
        execute(simulate(found), feeds, wide=False), execute(simulate(done.program), feeds, wide=False), strict=True
    ):
        for name in other:
            assert_same_array(one[name], other[name], name)


def test_the_text_of_a_program_has_a_head_to_read(golden):
    """One product on two cores, whole."""
    net = Net()
    done = compiled(net.model(net.op("MatMul", net.input(2, 4, name="x"), net.random(4, 6))), "toy", "tvm")
    assert done.program is not None
    golden("forms/program.json", program_text(done.program))


def test_a_program_belongs_to_its_graph():
    done, other = compiled("resnet18:small", "toy", "tvm"), compiled("unet:small", "toy", "tvm")
    assert done.program is not None
    assert other.program is not None
    with pytest.raises(
        InputError, match=r"program\.json: graph_sha256: the program is of another graph, 'resnet18:small'"
    ):
        program_from(program_text(done.program), "program.json", other.program.graph)


@pytest.fixture(scope="module")
def texts() -> tuple[str, str, Graph]:
    net = Net()
    x = net.input(1, 2, 6, 6, name="x")
    y = net.op("Softmax", net.op("Conv", x, net.random(4, 2, 3, 3), name="conv"), axis=1)
    done = compiled(net.model(y), "toy", "tvm")
    assert done.program is not None
    return graph_text(done.program.graph), program_text(done.program), done.program.graph


def refusal(read: Callable[[], object]) -> str:
    """The message of the only error that there may be, with the name of the file; nothing where there is none."""
    message = ""
    try:
        read()
    except InputError as error:
        message = str(error)
    assert not message or message.startswith("a.json: "), message
    return message


@pytest.mark.parametrize("seed", range(150))
def test_a_damaged_text_is_refused_or_is_a_right_value(seed: int, texts: tuple[str, str, Graph]):
    """Never anything else than `InputError`."""
    graph, program, right = texts
    one = damaged(graph.encode(), seed, [program.encode()]).decode(errors="replace")
    refusal(lambda: graph_from(one, "a.json"))
    other = damaged(program.encode(), seed, [graph.encode()]).decode(errors="replace")
    refusal(lambda: program_from(other, "a.json", right))


@pytest.mark.parametrize("seed", range(150))
def test_a_changed_number_is_refused_or_is_a_right_value(seed: int, texts: tuple[str, str, Graph]):
    """Another number in the place of one that is written down."""
    graph, program, right = texts
    one, other = changed_number(graph, seed), changed_number(program, seed)
    refusal(lambda: graph_from(one, "a.json"))
    refusal(lambda: program_from(other, "a.json", right))


def changed_number(text: str, seed: int) -> str:
    rng = Random(seed)
    match = rng.choice(list(re.finditer(r"(?<![\w\"/+=])-?\d+(?![\w\"/+=])", text)))
    other = rng.choice(("-1", "0", "1", "2", "7", "1000000", str(2**62), str(2**70), "1.5", "1e999", "null", "true"))
    return text[: match.start()] + other + text[match.end() :]


def test_names_that_no_index_could_name_are_no_dims():
    """So that the sum of an index says one thing."""
    op = strange_graph().operators[0]
    for name in ("", "2", "a+b", "a b", "a:b"):
        dims = (replace(op.dims[0], name=name), *op.dims[1:])
        with pytest.raises(InvalidIR, match="has a name of other characters"):
            verify_graph(strange_graph(operators=(replace(op, dims=dims),)))


@pytest.mark.slow
def test_a_large_program_is_written_and_read_in_seconds():
    """ResNet-50 at batch 64, 92,113 instructions."""
    done = compiled("resnet50", "stcp920", "graphturbo", batch=64)
    assert done.program is not None
    begin = time.process_time()
    text = program_text(done.program)
    found = program_from(text, "program.json", done.program.graph)
    assert time.process_time() - begin < 10
    assert len(text) < 30 * 2**20
    assert_same_program(found, done.program)
