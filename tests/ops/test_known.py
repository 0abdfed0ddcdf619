"""Every operator that the frontend and the passes make is one that the vocabulary knows, and others are refused."""

from collections.abc import Iterator
from dataclasses import replace

import onnx
import pytest
from onnxruntime.quantization import QuantType

from tests.helpers.graphs import Net
from tests.helpers.pairs import first, slow_for
from tests.helpers.quantised_networks import quantised, quantised_while_it_runs, residual_network, transformer_layer
from tests.helpers.random_networks import random_model
from tests.hostile.fuzzing import RandomNetwork
from tilestitch import api, zoo
from tilestitch.base.errors import InvalidIR, TilestitchError
from tilestitch.ir.graph import Graph
from tilestitch.onnx_backend.node_tests import cases
from tilestitch.ops import RULES
from tilestitch.ops.known import KNOWN, verify_operators
from tilestitch.passes import simplify
from tilestitch.passes.layouts import assign_layouts
from tilestitch.passes.outputs import write_outputs
from tilestitch.passes.views import resolve_views


def stages_of(model: str | onnx.ModelProto) -> Iterator[Graph]:
    """As it is loaded, simplified and scheduled; nothing where it is refused."""
    try:
        graph = api.load_graph(model)
        simplified = simplify(graph)
        yield from (graph, simplified, assign_layouts(write_outputs(resolve_views(simplified)[0])))
    except TilestitchError:
        return


def test_every_kind_is_known():
    assert set(KNOWN) == set(RULES)


@pytest.mark.parametrize(
    "name", slow_for(["densenet121:small"], [f"{name.replace('<L>', '16')}:small" for name in zoo.names()])
)
def test_the_operators_of_the_zoo_are_known(name: str):
    graphs = [*stages_of(name)]
    assert len(graphs) == 3
    for graph in graphs:
        verify_operators(graph)


@pytest.mark.parametrize("seeds", first(1, [range(400, 800), range(400)]), ids=["some", "others"])
def test_the_operators_of_random_networks_are_known(seeds):
    found = set()
    for seed in seeds:
        for graph in [*stages_of(RandomNetwork(seed).model())]:
            verify_operators(graph)
            found |= {op.kind for op in graph.operators}
    for seed in range(20):
        for graph in [*stages_of(random_model(seed, rearranging=True))]:
            verify_operators(graph)
    assert len(found) > 25


def test_the_operators_of_quantised_networks_are_known(tmp_path):
    """Products rescaled by a constant, by operands, and with corrections for zero points."""
    attributes = set()
    for network in (residual_network(), transformer_layer()):
        models = [quantised_while_it_runs(network, tmp_path)]
        for activations in (QuantType.QInt8, QuantType.QUInt8):
            models.append(quantised(network, tmp_path, activations=activations, per_channel=False))
        for model in models:
            for graph in [*stages_of(model)]:
                verify_operators(graph)
                attributes |= {name for op in graph.operators for name, _ in op.attributes}
    assert attributes >= {"zeros", "rescaled", "corrected", "factor", "to"}


@pytest.mark.slow
def test_the_operators_of_onnx_s_own_tests_are_known():
    found = set()
    for case in cases():
        for graph in [*stages_of(case.model)]:
            verify_operators(graph)
            found |= {op.kind for op in graph.operators}
    assert len(found) > 80


CLIP = "graph net: operator 'clip'"


def faults(**fields) -> str:
    """What is said of a network of one clip, with something changed."""
    net = Net()
    graph = net.graph(net.op("Clip", net.input(2, 3, name="x"), 0.0, 6.0, name="clip"))
    op = replace(graph.operators[0], **fields)
    with pytest.raises(InvalidIR) as error:
        verify_operators(replace(graph, operators=(op,)))
    return str(error.value).removeprefix(f"{CLIP} ")


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"kind": "clap"}, "(clap): is of an unknown kind"),
        ({"attributes": ()}, f"(clip): lacks the attribute 'min'\n{CLIP} (clip): lacks the attribute 'max'"),
        ({"attributes": (("min", 0.0), ("max", "6"))}, "(clip): attribute 'max' is '6'; expected a number"),
        ({"attributes": (("min", 0.0), ("max", 6.0), ("by", 1))},
         "(clip): has an unknown attribute 'by'; known: min, max"),
        ({"reads": ()}, "(clip): has 0 operands; expected 1"),
        ({"kind": "cast", "attributes": (("to", "real"),)},
         "(cast): attribute 'to' is 'real'; expected a type of elements in memory, such as float16"),
        ({"kind": "quantize", "attributes": (("to", "int8"), ("scale", 1.0))},
         "(quantize): lacks the attribute 'zero'"),
        ({"kind": "reshape", "attributes": (), "writes": ()},
         "(reshape): has 0 results; expected at least 1\n"
         f"{CLIP} (reshape): moves 1 operand to 0 results; expected pairs"),
        ({"kind": "average_pool", "attributes": (), "reads": ()}, "(average_pool): has 0 operands; expected 1 to 2"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused(fields, message):
    assert faults(**fields) == message
