"""Machines of Timeloop and AccelForge on the command line, and mappings on trees written for other programs."""

import json

import pytest

from tests.helpers.command import run
from tests.helpers.foreign_trees import ACCELFORGE, ERT, PROBLEM, TIMELOOP
from tests.helpers.zigzag_trees import DATA


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
    assert any("its constraints name loops that no layer has (M" in note for note in found["notes"])


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
