"""The pages of map and its kin without a browser: one file, the same each time, with the command's JSON."""

import json
from math import prod

import numpy as np
import pytest

import tilestitch
from tests.helpers.pages import embedded, expect_alone, summary_of
from tilestitch import SimulateOptions
from tilestitch.ir.choices import CostMode, Objective, Values
from tilestitch.mapping.operand_energy import element_bits
from tilestitch.sim.array.log import L_PASS, L_ROW
from tilestitch.sim.array.recording import record
from tilestitch.sim.array.values import random_operands

PRODUCT = "O[m,n] += A[m,k] * B[k,n]; m=24 n=16 k=32"


@pytest.fixture(scope="module")
def mapped():
    """A small product on a small array, with its two best mappings."""
    return tilestitch.map(PRODUCT, "dmazerunner-256", tilestitch.MapOptions(top=2))


def test_a_page_of_mappings_is_the_report_and_asks_nobody_for_anything(mapped):
    """Every number of the JSON, unchanged; two calls give the same bytes, and the call on it makes it again."""
    page = mapped.to_html()
    assert page == mapped.to_html()
    expect_alone(page)
    summary = summary_of(page)
    assert summary["report"] == json.loads(mapped.to_json())
    assert eval(summary["command"], {"tilestitch": tilestitch}) == page


def test_the_levels_of_a_page_are_the_mapping(mapped):
    """Loops in their order and factors, each level holds what its inner loops touch, and a name for each operand."""
    summary = summary_of(mapped.to_html())
    [layer] = mapped
    nest, machine = layer.layer.nest, mapped.source.machine
    names = [loop.name for loop in nest.loops]
    for found, drawn in zip(layer.found, summary["layers"][0]["mappings"], strict=True):
        one = found.mapping
        levels = {level["name"]: level for level in drawn["levels"]}
        assert list(levels) == ["DRAM", "scratchpad", "array", "register file", "arithmetic"]
        assert drawn["operands"] == [operand.name for operand in nest.operands]
        left = [1] * len(names)
        for level in reversed(drawn["levels"]):
            for loop in level["loops"]:
                left[names.index(loop["name"])] *= loop["count"]
            for operand, bits, held in zip(
                nest.operands, element_bits(nest, machine), level["holds"], strict=level["holds"] != []
            ):
                extents = operand.extents([min(size, loop.extent) for size, loop in zip(left, nest.loops, strict=True)])
                assert tuple(held["extents"]) == extents
                assert held["size_bytes"] == -(-prod(extents) * bits // 8)
        assert tuple(left) == nest.extents
        order = [names.index(loop["name"]) for loop in levels["DRAM"]["loops"]]
        assert order == [at for at in one.dram_order if one.dram[at] > 1]
        order = [names.index(loop["name"]) for loop in levels["scratchpad"]["loops"]]
        assert order == [at for at in one.spm_order if one.spm[at] > 1]
        assert drawn["spread"]["elements"] == prod(one.spatial)


@pytest.mark.parametrize("mode", CostMode)
def test_energy_by_operand_is_the_energy_of_the_model(mode):
    """Of each level all of it, where no element adds to what another has; else the rest is arithmetic and sums."""
    options = tilestitch.MapOptions(objective=Objective.ENERGY, mode=mode, top=40)
    done = tilestitch.map(PRODUCT, "dmazerunner-256", options)
    levels = ("dram", "spm", "noc", "rf", "mac")
    alone = 0
    report = json.loads(done.to_json())
    for drawn, said in zip(
        summary_of(done.to_html())["layers"][0]["mappings"], report["layers"][0]["mappings"], strict=True
    ):
        for name, level in zip(levels, drawn["levels"], strict=True):
            assert level["energy_pj"] == said["energy"][name]
            rest = level["energy_pj"] - sum(level["operands_pj"])
            assert rest >= -1e-9 * level["energy_pj"]
            if name != "mac" and not drawn["spread"]["summed"]:
                assert rest == pytest.approx(0, abs=1e-9 * level["energy_pj"])
                alone += 1
    assert alone


def test_a_proof_on_a_page_is_the_certificate():
    """Its problem, its bound and the tilings that fit; without one the page says so."""
    done = tilestitch.map(PRODUCT, "dmazerunner-256", tilestitch.MapOptions(certify=True))
    proof = done[0].certificate
    assert summary_of(done.to_html())["layers"][0]["proof"]["certificate"] == {
        "problem": proof.problem,
        "bound": done[0].prices[0].edp,
        "tilings": proof.tilings,
    }


@pytest.fixture(scope="module")
def simulated():
    """The same product, simulated in its best mapping."""
    return tilestitch.simulate(PRODUCT)


def test_a_page_of_a_simulation_is_the_report_and_asks_nobody_for_anything(simulated):
    """Every number of the JSON, unchanged; two calls give the same bytes, and the call on it makes it again."""
    page = simulated.to_html()
    assert page == simulated.to_html()
    expect_alone(page)
    summary = summary_of(page)
    assert summary["report"] == json.loads(simulated.to_json())
    assert eval(summary["command"], {"tilestitch": tilestitch}) == page


@pytest.mark.parametrize("values", [Values.INTEGERS, Values.FLOATS])
def test_a_page_holds_what_was_recorded(values):
    """Each window within the layer, its columns those of the recording, floats by their bits."""
    done = tilestitch.simulate(PRODUCT, options=SimulateOptions(values=values))
    page, [one] = done.to_html(), done
    nest, machine = one.layer.nest, one.simulated.machine
    places = summary_of(page)["layers"][0]["recordings"]
    assert places
    for place in places:
        window = place["begin"], place["end"]
        assert 0 <= window[0] < window[1] <= one.simulated.cycles
        recording = record(nest, machine, one.mapping, random_operands(nest, values), window)
        header, columns = embedded(page, place["run"])
        registers = columns["registers"].astype(np.int32)
        if header["float"]:
            registers = registers.view(np.float32)
        assert header["float"] == (values is Values.FLOATS)
        assert (registers == recording.registers).all()
        assert (columns["row"] == recording.log[:, L_ROW]).all()
        assert (columns["pass"] == recording.log[:, L_PASS]).all()
        rows = columns["instructions"].reshape(-1, len(nest.operands))
        executed = columns["row"][columns["row"] >= 0]
        at_work = recording.log[recording.before :, L_ROW] >= 0
        assert place["first_work"] == place["begin"] + int(at_work.argmax())
        assert (rows[executed - header["first_row"]] == recording.plan.registers[executed]).all()
        assert len(executed)


def test_long_layers_are_recorded_at_their_beginning_and_in_their_middle():
    """Two windows that do not overlap, each of bounded length; without values random integers move."""
    done = tilestitch.simulate(
        "resnet18:small", "eyeriss", SimulateOptions(extrapolate=True), layers=["layer4.0.conv2"]
    )
    first, steady = summary_of(done.to_html())["layers"][0]["recordings"]
    assert (first["name"], steady["name"]) == ("first passes", "steady state")
    assert first["begin"] == done[0].simulated.cycles_by_cause["first_load"]
    assert first["end"] < steady["begin"]
    assert steady["begin"] < done[0].simulated.cycles // 2 + 1000
    assert first["end"] - first["begin"] == steady["end"] - steady["begin"] == 1024


@pytest.fixture(scope="module")
def explored():
    """Twelve designs of a small array, of which some beat others."""
    varied = {"pes": [4, 16, 64], "bandwidth": [2, 4], "spm": [16384, 65536]}
    return tilestitch.explore(PRODUCT, "dmazerunner-256", varied, workers=1)


def test_a_page_of_an_exploration_is_the_report_whatever_was_in_the_store(explored, tmp_path):
    """Every number of the JSON but how much was evaluated; a second run from a store gives the same bytes."""
    page = explored.to_html()
    expect_alone(page)
    summary = summary_of(page)
    report = json.loads(explored.to_json())
    report["run"] = {"infeasible": report["run"]["infeasible"]}
    assert summary["report"] == report
    for front in summary["fronts"]:
        for design, values in zip(front["designs"], front["objectives"], strict=True):
            metrics = {one["name"]: one["value"] for one in report["designs"][design]["points"][0]["metrics"]}
            assert values == [metrics[one["name"]] for one in report["objectives"]]
    varied = {one.name: list(one.values) for one in explored.space.parameters}
    for _ in range(2):
        again = tilestitch.explore(PRODUCT, "dmazerunner-256", varied, store=tmp_path / "points.sqlite", workers=1)
        assert again.to_html() == page


@pytest.fixture(scope="module")
def validated():
    """A few ragged mappings, whose model errs."""
    options = tilestitch.ValidateOptions(mappings=30, ragged=True, worst=3)
    return tilestitch.validate("O[m,n] += A[m,k] * B[k,n]; m=10 n=6 k=15", "dmazerunner-256", options)


def test_a_page_of_a_validation_is_the_report_with_every_mapping(validated):
    """Each mapping is a point with both its numbers, and each of the worst is one of them."""
    page = validated.to_html()
    expect_alone(page)
    summary = summary_of(page)
    assert summary["report"] == json.loads(validated.to_json())
    assert eval(summary["command"], {"tilestitch": tilestitch}) == page
    _, columns = embedded(page)
    assert columns["estimated"].tolist() == [one.estimated_cycles for one in validated.found]
    assert columns["simulated"].tolist() == [one.simulated_cycles for one in validated.found]
    assert len(summary["worst"]) == len(validated.worst) > 0
    for drawn, (case, _) in zip(summary["worst"], validated.worst, strict=True):
        assert validated.found[drawn["point"]] is case
        assert sum(level["energy_pj"] for level in drawn["mapping"]["levels"]) == pytest.approx(
            sum(case.estimated_pj.values())
        )


@pytest.fixture(scope="module")
def fused():
    """A plan of several blocks, beside those of all strategies."""
    return tilestitch.fuse("resnet18:small", plan="fixed-cores", compare=True)


def test_a_page_of_a_fusion_is_the_report_beside_the_layers_unfused(fused):
    """Sums of the layers of each block on one core and on the best cores, and the rows of a strip."""
    page = fused.to_html()
    expect_alone(page)
    summary = summary_of(page)
    report = json.loads(fused.to_json())
    assert summary["report"] == report
    assert eval(summary["command"], {"tilestitch": tilestitch}) == page
    times = {one["plan"]: one["time_ps"] for one in report["plans"]}
    blocks = summary["drawn_blocks"]
    assert sum(block["one_core_ps"] for block in blocks) == times["baseline"] == summary["baseline_ps"]
    assert sum(block["alone_ps"] for block in blocks) == times["dynamic-cores"] == summary["alone_ps"]
    for block, said in zip(blocks, report["blocks"], strict=True):
        assert [layer["name"] for layer in block["layers"]] == said["layers"]
        for layer in block["layers"]:
            assert -(-layer["rows"] // said["cores"]) <= layer["strip_rows"] <= layer["rows"]
    whole = tilestitch.fuse("resnet18:small", plan="one-block")
    [block] = summary_of(whole.to_html())["drawn_blocks"]
    read = {one["name"] for layer in block["layers"] for one in layer["reads"] if not one["inside"]}
    assert read == {"input"}
    assert [layer["name"] for layer in block["layers"] if layer["leaves"]] == [block["layers"][-1]["name"]]
