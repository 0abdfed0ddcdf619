"""Tiles of results between operators: the program's values beside onnxruntime's, and which instruction wrote each."""

import numpy as np
import pytest

from tests.helpers.graphs import Net
from tests.helpers.pages import embedded
from tests.helpers.pairs import slow_for
from tests.helpers.quantised_networks import residual_network
from tilestitch import api
from tilestitch.ir.program import Kind, Mode
from tilestitch.sim.chip.execute import execute
from tilestitch.sim.chip.probing import SIDE, TENSORS, TILES, Probes, Taken, places_of, tensor_samples
from tilestitch.sim.chip.reference import Reference, onnxruntime_outputs
from tilestitch.zoo.inputs import iteration_inputs

NETWORK = "resnet18:small"


def feeds_of(done, model):
    """The inputs with which a network was verified."""
    schedule = done.schedule
    shapes = {name: tensor.shape for name, tensor in schedule.graph.tensors.items()}
    return iteration_inputs(model, shapes, batch=schedule.batch, iterations=schedule.iterations, exported_batch=None)


@pytest.fixture(scope="module")
def done():
    """A small network that is cut into pieces, verified."""
    return api.compile(NETWORK, "toy", strategy="graphturbo", batch=4, verify=True)


def points(tile):
    """The places of a tile, row by row."""
    extents = np.subtract(tile["stop"], tile["start"])
    return np.indices(extents).reshape(len(extents), -1).T + tile["start"]


def test_the_tiles_of_a_page_are_the_values_of_onnxruntime(done):
    """It gives whole tensors here, of which the page has three tiles each."""
    model, _ = api.open_model(NETWORK)
    held = embedded(done.to_html())[0]["passed_on"]
    names = [one["tensor"] for one in held if one["precision"] == "float32"]
    assert len(names) > 20
    assert names == [one["tensor"] for one in held if one["precision"] == "float16"]
    whole = onnxruntime_outputs(model, feeds_of(done, model), others=names)[0]
    for one in held:
        assert 1 <= len(one["tiles"]) <= TILES
        expected = whole[one["tensor"]]
        assert list(expected.shape) == one["shape"]
        for tile in one["tiles"]:
            assert max(np.subtract(tile["stop"], tile["start"])) <= SIDE
            wanted = [float(f"{expected[tuple(place)]:.9g}") for place in points(tile)]
            assert tile["expected"] == wanted
    assert one["tiles"][0]["start"] == [0] * len(one["shape"])
    assert one["tiles"][-1]["stop"] == one["shape"]


@pytest.mark.parametrize(("machine", "strategy"), [("toy", "graphturbo"), ("mlu100", "one-block")])
def test_each_value_was_written_by_the_instruction_that_is_named(machine, strategy):
    """It computes a region of that tensor in which the value lies, and it is the first that does."""
    done = api.compile(NETWORK, machine, strategy=strategy, batch=1, verify=True)
    program = done.trace.program
    writes: dict[str, list] = {}
    order = np.argsort(done.trace.end_ticks, kind="stable").tolist()
    for number in order:
        instruction = program[number]
        if instruction.kind is Kind.COMPUTE and program.iteration[number] == 0:
            written = [operand.region for operand in instruction.operands if operand.mode is Mode.WRITE]
            outputs = [access.tensor for access in program.graph.by_name[instruction.operator].writes]
            for tensor, region in zip(outputs, written, strict=bool(written)):
                writes.setdefault(tensor, []).append((number, region))
    held = embedded(done.to_html())[0]["passed_on"]
    several = 0
    for one in held:
        for tile in one["tiles"]:
            for place, number in zip(points(tile), tile["written_by"], strict=True):
                holding = [n for n, r in writes[one["tensor"]] if (place >= r.start).all() and (place < r.stop).all()]
                assert number == holding[0]
                several += len(holding) > 1
    assert several == 0 if strategy == "graphturbo" else several > 0  # fused blocks compute halos twice


def test_a_wrong_result_shows_in_its_tile(done):
    """Its difference is above its bound, where that of the others is below."""
    model, _ = api.open_model(NETWORK)
    reference = Reference(model, done.schedule.graph, feeds_of(done, model))
    taken = Taken(reference.probed.places)
    execute(done.trace, reference.inputs, wide=True, taken=taken)
    name = next(iter(reference.probed.expected))
    taken.values[name][5] += 0.01 * max(1.0, abs(taken.values[name][5]))
    for one in tensor_samples(done.trace.program.graph, reference.probed, taken, wide=True):
        tile = one.tiles[0]
        wrong = np.flatnonzero(np.abs(np.subtract(tile.found, tile.expected)) > tile.bound).tolist()
        assert wrong == ([5] if one.tensor == name else [])


def test_a_network_with_names_like_those_of_the_probes_is_verified():
    """The nodes that are added take names of their own."""
    net = Net()
    x = net.input(4, 8, name="probe0")
    model = net.model(net.op("Neg", net.op("Relu", x, name="probe"), name="last"))
    done = api.compile(model, "toy", strategy="layerwise", verify=True)
    assert done.report.outcome == "passed"
    assert len(done.passed_on) == 2
    names = {name for node in model.graph.node for name in (*node.input, *node.output)}
    probes = Probes(places_of(model, done.schedule.graph), model)
    assert probes.outputs
    assert names.isdisjoint(probes.outputs)


def test_of_many_results_some_are_held():
    """At equal distances, the first and the last among them."""
    net = Net()
    names = [net.input(2, 2, name="x")]
    for _ in range(TENSORS + 60):
        names.append(net.op("Neg", names[-1]))
    done = api.compile(net.model(names[-1]), "toy", strategy="layerwise", verify=True)
    held = [one.tensor for one in done.passed_on if one.precision == "float32"]
    assert len(held) == TENSORS
    assert [held[0], held[-1]] == [names[1], names[-2]]


NETWORKS = {
    "bert": "bert-base-8-decomposed:small",
    "densenet": "densenet121:small",
    "unet": "unet:small",
    "quantised": residual_network(),
}


@pytest.mark.parametrize("strategy", ["layerwise", "graphturbo"])
@pytest.mark.parametrize("name", slow_for(["densenet", "unet"], list(NETWORKS)))
def test_results_of_every_kind_of_network_lie_within_their_bounds(name, strategy):
    """A tensor of the program is the one that has its name in the file, whatever was merged, folded or left away."""
    found = api.compile(NETWORKS[name], "toy", strategy=strategy, verify=True).passed_on
    assert found
    for one in found:
        for tile in one.tiles:
            gap = np.abs(np.subtract(tile.found, tile.expected))
            assert (gap <= np.maximum(tile.bound, 1e-38)).all(), (one.tensor, one.precision, tile)
