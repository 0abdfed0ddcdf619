"""Machines of Timeloop and AccelForge on the command line, and mappings on trees written for other programs."""

import json

import pytest

import tilestitch
from tests.helpers.command import run
from tests.helpers.foreign_trees import ACCELFORGE, ERT, PROBLEM, TIMELOOP
from tests.helpers.given_trees import (
    CHANNELS_SPREAD,
    FORGE_ARCH,
    FORGE_MAPPING,
    FORGE_PJ,
    FORGE_WORKLOAD,
    TIMELOOP_ARCH,
    TIMELOOP_ERT,
    TIMELOOP_PROBLEM,
)
from tests.helpers.pages import expect_alone, summary_of
from tests.helpers.zigzag_trees import DATA, recorded


@pytest.fixture
def files(tmp_path):
    for name, text in (("arch", TIMELOOP), ("ert", ERT), ("problem", PROBLEM), ("forge", ACCELFORGE)):
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def _json(*arguments):
    result = run("map", *arguments, "--objective", "energy", "--json", "-", "--quiet")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_timeloop_s_architecture_is_a_tree_with_its_energies_words_and_constraints(files):
    """The elements have the bits of the machine's words, and nothing is spread or kept against its constraints."""
    found = _json(files / "problem.yaml", "--machine", files / "arch.yaml", "--energies", files / "ert.yaml")
    (layer,) = found["layers"]
    assert layer["proven_best"]
    assert layer["mac_pj"] == pytest.approx(0.21 * 16 * 16 * 3 * 12)
    assert layer["memories"]["Weights"] == ["weights", "DRAM"]
    along = {one["axis"]: one["loop"] for one in layer["spatial"]}
    assert along["columns"] in ("C", "M")
    sums = [loop for loop, _ in layer["temporal"]["Outputs"][0]]
    assert "M" not in sums  # C may be there: it does not move the results
    assert not any("no layer has" in note for note in found["notes"])
    dram = next(one for one in layer["flows"] if (one["operand"], one["memory"]) == ("Outputs", "DRAM"))
    assert dram["accesses"] == pytest.approx(16 * 12 * 8 / 64, rel=0.1)  # bytes, where a layer alone has 16 bits


def test_without_energies_the_way_out_is_said(files):
    result = run("map", files / "problem.yaml", "--machine", files / "arch.yaml", "--spatial", "free")
    assert result.exit_code == 2
    assert "error: arch.yaml: architecture.nodes[1]: DRAM: the file has no energies; write --energies FILE" in (
        result.output
    )


def test_constraints_on_loops_that_no_layer_has_are_left_out_with_a_note(files):
    found = _json(
        *("O[m,n] += A[m,k] * B[k,n]; m=8 n=8 k=8", "--machine", files / "arch.yaml"),
        *("--energies", files / "ert.yaml"),
    )
    assert any("its constraints name only loops that no layer has: columns (P, R" in note for note in found["notes"])


def test_of_constraints_only_those_on_loops_that_no_layer_has_are_left_out(files):
    """Z, which stands beside P of the problem, is left out with a note; the rest forbids P along the columns still."""
    named = TIMELOOP.replace("permutation: [P, R, C, M], factors: [P=1, R=1], split: 4", "factors: [P=1, R=1, Z=2]")
    assert named != TIMELOOP
    arch = files / "arch.yaml"
    arch.write_text(named.replace("factors: [M=1, C=1]", "factors: [M=1, C=1], permutation: [Q, P]"))
    found = _json(files / "problem.yaml", "--machine", arch, "--energies", files / "ert.yaml")
    note = "arch.yaml: its constraints name loops that no layer has: columns (Z), sums (Q); these are left out"
    assert note in found["notes"]
    (layer,) = found["layers"]
    assert not any(one["axis"] == "columns" and one["loop"] in "PR" for one in layer["spatial"])


def test_a_loop_of_constraints_in_the_wrong_case_is_refused(files):
    arch = files / "arch.yaml"
    arch.write_text(TIMELOOP.replace("factors: [P=1, R=1]", "factors: [p=1, R=1]"))
    result = run("map", files / "problem.yaml", "--machine", arch, "--energies", files / "ert.yaml")
    assert result.exit_code == 2
    assert "arch.yaml: columns: no layer has the loop p of its constraints; write P" in result.output


def test_accelforge_s_architecture_is_a_tree(files):
    """Its sizes in values are those of the layers."""
    found = _json("O[m,n] += I[m,k] * W[k,n]; m=8 n=8 k=8", "--machine", files / "forge.yaml")
    assert found["proven_best"]
    assert found["layers"][0]["memories"] == {
        "I": ["Buffer", "Main"],
        "W": ["Register", "Main"],
        "O": ["Buffer", "Main"],
    }


def test_a_mapping_on_a_tree_is_written_for_zigzag(tmp_path):
    given = [DATA / "resnet18_11.yaml", "--machine", DATA / "hardware" / "tpu_like.yaml"]
    given += ["--spatial", DATA / "mapping" / "tpu_like.yaml", "--objective", "energy"]
    result = run("map", *given, "--emit", "zigzag", "-o", tmp_path / "out", "--quiet")
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "accelerator.yaml",
        "mapping.yaml",
        "workload.yaml",
    ]
    refused = run("map", *given, "--emit", "timeloop", "-o", tmp_path / "none", "--quiet")
    assert refused.exit_code == 2
    assert "W in rf_128B, inside D1, stays for longer than" in refused.output
    assert not (tmp_path / "none").exists()
    proof = tmp_path / "proof.json"
    assert run("map", *given, "--certificate", proof, "--quiet").exit_code == 0
    judged = run("map", *given, "--check", proof, "--emit", "zigzag", "-o", tmp_path / "none")
    assert judged.exit_code == 2
    assert "--check judges a certificate and searches no mapping; leave out --emit" in judged.output
    several = run("map", *given[:-1], "pareto", "--emit", "zigzag", "-o", tmp_path / "none")
    assert several.exit_code == 2
    assert "--objective pareto has several mappings of each layer; leave out --emit" in several.output
    half = run("map", *given, "--emit", "zigzag")
    assert half.exit_code == 2
    assert "--emit and -o go together" in half.output


def test_zigzag_s_result_is_explained(tmp_path):
    given = [DATA / "resnet18_11.yaml", "--machine", DATA / "hardware" / "tpu_like.yaml"]
    given += ["--spatial", DATA / "mapping" / "tpu_like.yaml", "--objective", "energy"]
    result = run("map", *given, "--explain", DATA / "resnet18_11_complete.json")
    assert result.exit_code == 0, result.output
    assert "every row is our price of it, so what differs is the mapping" in result.stdout
    found = _json(*given[:-2], "--explain", "zigzag")
    assert found["explained"][0]["other"] == "the best with --sums final"
    missing = run("map", *given, "--explain", tmp_path / "no.json")
    assert missing.exit_code == 2
    pareto = run("map", *given[:-1], "pareto", "--explain", "zigzag")
    assert pareto.exit_code == 2
    assert "leave out --explain" in pareto.output


@pytest.fixture
def mapped(tmp_path):
    """Three files and energies of Timeloop, and three of AccelForge."""
    texts = {
        "timeloop": (TIMELOOP_PROBLEM, TIMELOOP_ARCH, CHANNELS_SPREAD),
        "forge": (FORGE_WORKLOAD, FORGE_ARCH, FORGE_MAPPING),
    }
    for program, files in texts.items():
        for name, text in zip(("layer", "arch", "mapping"), files, strict=True):
            (tmp_path / f"{program}-{name}.yaml").write_text(text)
    (tmp_path / "ert.yaml").write_text(TIMELOOP_ERT)
    return tmp_path


def _given(folder, program, *more):
    layer, arch, mapping = (folder / f"{program}-{name}.yaml" for name in ("layer", "arch", "mapping"))
    energies = ("--energies", folder / "ert.yaml") if program == "timeloop" else ()
    return run("map", layer, "--machine", arch, "--mapping", mapping, *energies, *more)


def test_a_mapping_of_timeloop_is_priced_by_our_rules_and_by_its_own(mapped):
    result = _given(mapped, "timeloop")
    assert result.exit_code == 0, result.output
    assert "energy       693,710.467 pJ" in result.stdout
    assert "638,856.411 pJ by the rules of Timeloop" in result.stdout
    found = json.loads(_given(mapped, "timeloop", "--json", "-", "--quiet").stdout)
    assert found["fits"]
    assert found["by_rules_of"]["program"] == "Timeloop"
    assert found["layer"]["spatial"] == [{"axis": "PE", "loop": "C", "factor": 16.0}]
    assert "proven_best" not in found["layer"]


def test_a_mapping_of_accelforge_is_priced_and_written_again(mapped):
    """What is written stores every operand outside what leaves it alone, so that it costs there what it does here."""
    found = json.loads(_given(mapped, "forge", "--json", "-", "--quiet").stdout)
    assert found["by_rules_of"]["energy_pj"] == pytest.approx(FORGE_PJ)
    out = mapped / "out"
    assert _given(mapped, "forge", "--emit", "accelforge", "-o", out).exit_code == 0
    again = run(
        *("map", out / "workload.yaml", "--machine", out / "arch.yaml", "--mapping", out / "mapping.yaml"),
        *("--json", "-", "--quiet"),
    )
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["layer"]["energy_pj"] == pytest.approx(found["layer"]["energy_pj"])


def test_the_page_of_a_given_mapping_has_both_prices(mapped):
    """What the JSON says, and of each flow of ours what the other program counts there; Python gives the same page."""
    page = mapped / "page.html"
    assert _given(mapped, "timeloop", "--html", page).exit_code == 0
    text = page.read_text(encoding="utf-8")
    expect_alone(text)
    summary = summary_of(text)
    found = json.loads(_given(mapped, "timeloop", "--json", "-", "--quiet").stdout)
    assert summary["report"] == found
    assert summary["program"] == "Timeloop"
    ours = sum(flow["energy_pj"] for flow in summary["flows"])
    theirs = sum(flow["energy_pj"] for flow in summary["theirs"] if flow is not None)
    arithmetic = summary["drawn"]["energy"][-1]["energy_pj"]
    assert ours + arithmetic == pytest.approx(found["layer"]["energy_pj"])
    assert theirs + arithmetic == pytest.approx(found["by_rules_of"]["energy_pj"])
    options = tilestitch.TreeOptions(energies=mapped / "ert.yaml", mapping=mapped / "timeloop-mapping.yaml")
    given = tilestitch.map(mapped / "timeloop-layer.yaml", mapped / "timeloop-arch.yaml", options)
    assert isinstance(given, tilestitch.GivenOnTree)
    assert json.loads(given.to_json()) == found
    assert summary_of(given.to_html())["drawn"] == summary["drawn"]
    assert [row["accesses"] for row in given.records()] == [flow["accesses"] for flow in summary["flows"]]


def test_in_python_a_given_mapping_is_not_searched_for(mapped):
    options = tilestitch.TreeOptions("energy", mapping=mapped / "forge-mapping.yaml")
    with pytest.raises(tilestitch.InputError, match="mapping is priced, and nothing searched"):
        tilestitch.map(mapped / "forge-layer.yaml", mapped / "forge-arch.yaml", options)
    best = tilestitch.map(mapped / "forge-layer.yaml", mapped / "forge-arch.yaml", tilestitch.TreeOptions("energy"))
    assert isinstance(best, tilestitch.NetworkOnTree)


def test_a_given_mapping_is_not_searched_for(mapped):
    for option in ("--certificate", "--constraints", "--objective"):
        refused = _given(mapped, "forge", option, "energy" if option == "--objective" else mapped / "file.json")
        assert refused.exit_code == 2
        assert f"--mapping prices what a file gives, and searches nothing; leave out {option}" in refused.output
    (mapped / "forge-mapping.yaml").write_text("spatial_mapping: {}\n")
    refused = _given(mapped, "forge")
    assert refused.exit_code == 2
    assert "on a tree a mapping is one of Timeloop or of AccelForge" in refused.output


OWN_MAPPINGS = {
    "ascend_like": "ascend_like",
    "edge_tpu_like": "edge_tpu_like",
    "eyeriss_like": "default",
    "gemm_l1": "gemm_l1",
    "gemm_l1_l3": "gemm_l1_l3",
    "generic_array_cacti": "default",
    "meta_prototype": "meta_prototype_like",
    "tesla_npu_like": "tesla_npu_like",
    "tpu_like": "tpu_like",
}


@pytest.mark.parametrize("machine", OWN_MAPPINGS)
def test_zigzag_s_three_files_are_taken_as_they_are(machine, tmp_path):
    """Its nine ordinary machines with its own mapping files; each memory of each operand is explained."""
    layers = DATA / "resnet18_11.yaml"
    if machine.startswith("gemm"):
        layers = tmp_path / "gemm.yaml"
        layers.write_text(json.dumps([one for one in recorded()["layers"] if one["name"] == "gemm"]))
    given = [layers, "--machine", DATA / "hardware" / f"{machine}.yaml"]
    found = _json(*given, "--spatial", DATA / "mapping" / f"{OWN_MAPPINGS[machine]}.yaml", "--explain", "zigzag")
    (layer,), (explained,) = found["layers"], found["explained"]
    assert layer["proven_best"]
    assert layer["spatial"]
    rows = {(row["memory"], row["operand"]) for row in explained["rows"]}
    assert rows == {(memory, operand) for operand, chain in layer["memories"].items() for memory in chain}
    assert sum(row["energy_pj"] for row in explained["rows"]) == pytest.approx(layer["memory_pj"])
