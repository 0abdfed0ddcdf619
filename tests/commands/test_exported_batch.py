"""Networks that can be read for no other batch than the one they were exported for, layer by layer."""

import json
from dataclasses import replace

import onnx
import pytest

import tilestitch
from tests.helpers.command import run
from tests.helpers.graphs import Net
from tests.helpers.small_tree import small_tree
from tilestitch import InputError, MapOptions, ValidateOptions
from tilestitch.commands.explore.run import ExploreOptions
from tilestitch.pipeline.options import Options

SAID = (
    "8 samples are 4 runs of 2 samples, the batch that the network was exported for, as it can be read for no other: "
    "operator 'mean' (reduce_mean) mixes samples, so the batch cannot change."
)


def mixing() -> onnx.ModelProto:
    """Two products in a row, exported for two samples, and a mean over these."""
    net = Net()
    hidden = net.op("MatMul", net.input(2, 8), net.random(8, 4), name="first")
    result = net.op("MatMul", hidden, net.random(4, 8), name="second")
    return net.model(net.op("ReduceMean", result, [0], name="mean"))


@pytest.fixture(params=["tree", "array"])
def machine(request, tmp_path) -> str:
    return str(small_tree(tmp_path)) if request.param == "tree" else "dmazerunner-256"


def test_layers_are_mapped_as_exported_as_often_as_the_batch_needs(machine):
    """So is `compile`, in iterations; a note says it, and sums are those of the exported batch, times the runs."""
    once, found = tilestitch.map(mixing(), machine), tilestitch.map(mixing(), machine, batch=8)
    of_once, of_found = json.loads(once.to_json()), json.loads(found.to_json())
    assert [one["times"] for one in of_found["layers"]] == [4, 4]
    assert of_found["energy_pj"] == pytest.approx(4 * of_once["energy_pj"])
    cycles = "latency_cycles" if "latency_cycles" in of_once else "cycles"
    assert of_found[cycles] == 4 * of_once[cycles]
    assert of_found["notes"][0] == SAID
    assert SAID in str(found)
    assert SAID not in str(once)


def test_they_are_simulated_and_validated_as_exported(machine):
    once, found = tilestitch.simulate(mixing(), machine), tilestitch.simulate(mixing(), machine, batch=8)
    of_once, of_found = json.loads(once.to_json()), json.loads(found.to_json())
    assert of_found["simulated"]["cycles"] == 4 * of_once["simulated"]["cycles"]
    assert of_found["simulated"]["energy_pj"] == pytest.approx(4 * of_once["simulated"]["energy_pj"])
    assert SAID in str(found)
    judged = tilestitch.validate(mixing(), machine, ValidateOptions(12), batch=8)
    assert SAID in str(judged)
    assert [one.layer.times for one in judged.layers] == [4, 4]


def test_the_least_traffic_is_that_of_all_runs():
    for fuse in (1, 2):
        once = tilestitch.traffic(mixing(), [256], fuse=fuse)
        found = tilestitch.traffic(mixing(), [256], fuse=fuse, batch=8)
        assert found.total_bytes(0) == 4 * once.total_bytes(0)
        assert f"note: {SAID}" in str(found).splitlines()
        assert json.loads(found.to_json())["notes"] == [SAID]
        assert "notes" not in json.loads(once.to_json())


def test_chains_are_fused_as_exported(tmp_path):
    """Of all runs one after another."""
    tree = str(small_tree(tmp_path))
    once, found = tilestitch.map_fused(mixing(), tree), tilestitch.map_fused(mixing(), tree, batch=8)
    assert (found.latency_cycles, found.unfused_cycles) == (4 * once.latency_cycles, 4 * once.unfused_cycles)
    assert SAID in found.task.notes
    file = tmp_path / "mixing.onnx"
    onnx.save(mixing(), file)
    assert SAID in run("simulate", file, "--machine", tree, "--fuse", 2, "--batch", 8).stdout


@pytest.mark.parametrize("by", ["map", "simulate"])
def test_designs_are_explored_as_exported(by, tmp_path):
    """Points are what `map` says of that batch, or `compile`."""
    machine = "dmazerunner-256" if by == "map" else "toy"
    options = ExploreOptions(by, strategy="tvm", compilation=Options(batch=8), objectives=("cycles",))
    found = tilestitch.explore(mixing(), machine, {"bandwidth": [4]}, options, workers=1)
    assert not found.infeasible
    assert f"note        net: {SAID}" in str(found).splitlines()
    assert json.loads(found.to_json())["notes"] == [f"net: {SAID}"]
    if by == "map":
        alone = tilestitch.explore(
            mixing(), machine, {"bandwidth": [4]}, replace(options, compilation=Options()), workers=1
        )
        cycles = [one.vectors(0)[0] for one in (alone, found)]
        assert cycles[1][0] == 4 * cycles[0][0]


def test_trees_are_explored_as_exported(tmp_path):
    tree = str(small_tree(tmp_path))
    options = ExploreOptions(compilation=Options(batch=8), mapping=MapOptions("energy"), objectives=("energy",))
    found = tilestitch.explore(mixing(), tree, {"memories.buffer.size": [160, 320]}, options, workers=1)
    mapped = tilestitch.map(mixing(), tree, batch=8)
    assert f"note        net: {SAID}" in str(found).splitlines()
    assert found.vectors(0)[0][0] == pytest.approx(json.loads(mapped.to_json())["energy_pj"])


def test_a_batch_that_is_no_multiple_is_refused(machine):
    with pytest.raises(InputError, match="3 samples are not a multiple of 2; ask for a multiple"):
        tilestitch.map(mixing(), machine, batch=3)


def test_chosen_layers_run_as_often(machine):
    found = tilestitch.map(mixing(), machine, batch=8, layers=["second"])
    (layer,) = json.loads(found.to_json())["layers"]
    assert (layer["name"], layer["times"]) == ("second", 4)
    assert SAID in str(found)
