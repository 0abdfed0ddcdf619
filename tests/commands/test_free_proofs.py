"""`tilestitch map --certificate` and `--check` where what is spread is free, in every objective."""

import json

import pytest

from tests.helpers.command import run
from tests.helpers.pages import summary_of
from tests.helpers.zigzag_trees import TREE
from tilestitch.mapping.tree import choice_subset, choices

PRODUCT = "C[m,n] += A[m,k] * B[k,n]; m=4 n=3 k=4"
CONSTRAINTS = "{memories: {buffer: {tile: {k: [1, 2]}}}, order: [m]}"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("free")
    (folder / "small.yaml").write_text(TREE.replace(", loops: [C]", ""))
    (folder / "fixed.yaml").write_text(CONSTRAINTS)
    return folder


def proven(place, objective, *more):
    """The file of proofs of a run, and what its check says."""
    file = place / f"{objective}.json"
    asked = ("map", PRODUCT, "--machine", place / "small.yaml", *more)
    result = run(*asked, "--objective", objective, "--certificate", file, "--quiet")
    assert result.exit_code == 0, result.output
    return file, run(*asked, "--check", file)


@pytest.mark.parametrize(
    "objective, unit",
    [("energy", "fJ"), ("latency", "cycles"), ("edp", "femtojoules x cycles"), ("ed2p", "femtojoules x cycles^2")],
)
def test_a_run_writes_a_proof_that_is_accepted(place, objective, unit):
    file, checked = proven(place, objective)
    assert checked.exit_code == 0, checked.output
    (proof,) = json.loads(file.read_text())["proofs"]
    assert f"no mapping has less {objective} than {proof['value']:,} {unit} (sums full" in checked.stdout
    assert f"{proof['choices']} ways to spread loops" in checked.stdout
    assert sum(block["choices"] for block in proof["blocks"]) == proof["choices"]


def test_a_front_over_all_choices_is_proven(place):
    """In the page too; and not with a point less."""
    file = place / "front.json"
    asked = ("map", "C[m,n] += A[m,k] * B[k,n]; m=7 n=5 k=6", "--machine", place / "small.yaml")
    result = run(*asked, "--objective", "pareto", "--certificate", file, "--html", place / "front.html", "--quiet")
    assert result.exit_code == 0, result.output
    (proof,) = json.loads(file.read_text())["proofs"]
    points, checked = proof["points"], run(*asked, "--check", file)
    assert checked.exit_code == 0, checked.output
    assert len(points) > 1
    ends = [f"{one['energy']:,} fJ in {one['cycles']:,} cycles" for one in (points[0], points[-1])]
    said = f"no mapping is missing on its front of {len(points)} mappings, {' to '.join(ends)}, and none"
    assert f"einsum: proven: {said}" in checked.stdout
    assert f"{proof['choices']} ways to spread loops" in checked.stdout
    (layer,) = summary_of((place / "front.html").read_text())["layers"]
    assert layer["certificate"]["value"].startswith(said)
    assert layer["certificate"]["problem"] == proof["problem"]
    changed(file, points=points[:-1], taken=proof["taken"][: 1 + max(one["chosen"] for one in points[:-1])])
    less = run(*asked, "--check", file)
    assert less.exit_code == 2
    assert "no point of its front is as good in both" in less.stderr


def test_constraints_are_part_of_what_is_proven(place):
    """The proof is not one without them, and the check with them accepts it."""
    file, checked = proven(place, "energy", "--constraints", place / "fixed.yaml")
    assert checked.exit_code == 0, checked.output
    free = run("map", PRODUCT, "--machine", place / "small.yaml", "--check", file)
    assert free.exit_code == 2
    assert "the options of what is spread with which it was written" in free.stderr


def test_some_of_too_many_choices_have_no_certificate(place, monkeypatch):
    """One sentence says why, and nothing is written; without it the run says how many choices it compared."""
    monkeypatch.setattr(choices, "MOST_ROWS", 6)
    monkeypatch.setattr(choice_subset, "MOST_KEPT", 6)
    asked = ("map", PRODUCT, "--machine", place / "small.yaml", "--objective", "energy")
    result = run(*asked, "--certificate", place / "some.json")
    assert result.exit_code == 2
    assert "layer einsum has more than 6 choices of what to spread, of which not all were searched" in result.stderr
    assert not (place / "some.json").exists()
    said = run(*asked, "--json", "-")
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    (layer,) = found["layers"]
    assert not found["proven_best"]
    assert not layer["proven_best"]
    assert 0 < layer["spatial_choices"] <= 6 == layer["spatial_choices_of_more_than"]
    assert layer["gap"] == pytest.approx(layer["energy_pj"] / layer["bound_pj"] - 1)
    assert layer["gap"] > 0
    (note,) = layer["notes"]
    assert note.startswith(f"{layer['spatial_choices']} choices of what is spread were compared, of more than 6; no ")
    text = run(*asked).stdout
    assert f"note: {note}" in text
    assert f"at most {layer['gap']:.2%} too much" in text
    assert "proof        none of all layers: of some there are too many choices of what is spread" in text


def changed(file, **fields):
    text = json.loads(file.read_text())
    text["proofs"][0].update(fields)
    file.write_text(json.dumps(text))
    return file


@pytest.mark.parametrize(
    "change, words",
    [
        ({"value": 1}, "its chain costs"),
        ({"choices": 2}, "choices of what is spread, it says 2"),
        ({"chains": 1}, "has not the 1 chains that it says"),
        ({"blocks": []}, "blocks of choices by their steps"),
        ({"blocks": [{"steps": 1}]}, "the field choices is missing"),
        ({"spread": ["D1 m 7"]}, "is none of the choices"),
        ({"spread": []}, "the certificate of"),
        ({"problem": "0" * 16}, "proves nothing that is checked"),
        ({"loops": [["m", 2]]}, "make"),
        ({"slides": [["A", 1, "m"]]}, "windows slide where they cannot"),
        ({"chosen": 1}, 'unknown field "chosen"'),
    ],
)
def test_what_is_wrong_in_a_proof_is_said(place, change, words):
    file, _ = proven(place, "energy")
    result = run("map", PRODUCT, "--machine", place / "small.yaml", "--check", changed(file, **change))
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_the_options_of_what_is_spread_are_those_of_the_proof(place):
    file, _ = proven(place, "energy")
    for words in (("--ragged",), ("--utilization", "0.5")):
        result = run("map", PRODUCT, "--machine", place / "small.yaml", "--check", file, *words)
        assert result.exit_code == 2
        assert "proves nothing that is checked" in result.stderr
