"""Files of certificates of layers on a machine tree: each claim in them is checked, and nothing else may be in them."""

import json
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.command import run
from tilestitch.base.errors import InputError
from tilestitch.commands.map.tree_proofs import check_tree_certificates, tree_certificates, tree_certificates_json
from tilestitch.commands.map.tree_run import map_on_tree, open_tree_task
from tilestitch.ir.choices import Objective

MACHINE = """
name: small
mac_pj: 0.04
axes: [{name: D1, size: 4}, {name: D2, size: 2}]
memories:
  - {name: rf, size: 4, operands: [O], read_pj: 0.02, write_pj: 0.02, serves: [D2], ports: [{width_bits: 16}]}
  - {name: buffer, size: 64, operands: [I, W, O], read_pj: 20, write_pj: 25, serves: [D1, D2],
     ports: [{width_bits: 256, granule_bits: 8}]}
  - {name: dram, size: 1 MiB, operands: [I, W, O], read_pj: 700, write_pj: 750, serves: [D1, D2],
     ports: [{width_bits: 64}]}
"""
SPATIAL = """
- name: default
  spatial_mapping: {D1: ["K, 4"], D2: ["C, 2"]}
- name: open
  spatial_mapping: {}
"""


def layer(name, k, c):
    return f"""
- id: 0
  name: {name}
  operator_type: Gemm
  equation: O[b][k]+=W[k][c]*I[b][c]
  loop_dims: [B, K, C]
  loop_sizes: [4, {k}, {c}]
  operand_precision: {{W: 8, I: 8, O: 16, O_final: 8}}
  operand_source: {{W: 0, I: 0}}
"""


ONE, TWIN, OTHER, OPEN = layer("one", 8, 8), layer("two", 8, 8), layer("other", 16, 8), layer("open", 8, 12)


@pytest.fixture
def folder(tmp_path):
    return files_in(tmp_path)


def files_in(path, *, layers=ONE, machine=MACHINE, spatial=SPATIAL):
    for name, text in (("layers", layers), ("machine", machine), ("spatial", spatial)):
        (path / f"{name}.yaml").write_text(text)
    return path


def given(path: Path):
    return path / "layers.yaml", "--machine", path / "machine.yaml", "--spatial", path / "spatial.yaml"


def task_of(path, **files):
    return open_tree_task(
        *(str(files_in(path, **files) / f"{name}.yaml") for name in ("layers", "machine", "spatial")), ()
    )


@cache
def proofs(layers, path):
    mapped = map_on_tree(task_of(path, layers=layers))
    return tree_certificates_json(mapped, tree_certificates(mapped))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("proofs")


def refused(text, task):
    with pytest.raises(InputError) as caught:
        check_tree_certificates(text, "proofs.json", task)
    message = str(caught.value)
    assert message.startswith(("proofs.json: ", "the certificate of "))
    assert "\n" not in message
    return message


def test_a_run_writes_proofs_that_are_accepted(folder):
    """Twice the same bytes; a line for each layer says what is proven."""
    for name in ("proofs.json", "again.json"):
        result = run("map", *given(folder), "--objective", "energy", "--certificate", folder / name, "--quiet")
        assert result.exit_code == 0, result.output
    assert (folder / "proofs.json").read_bytes() == (folder / "again.json").read_bytes()
    for words in ((), ("--objective", "energy"), ("--sums", "full")):
        result = run("map", *given(folder), "--check", folder / "proofs.json", *words)
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith("one: proven: no mapping has less energy than ")
    result = run("map", *given(folder), "--check", folder / "proofs.json", "--json", "-")
    (line,) = json.loads(result.stdout)["checked"]
    (proof,) = json.loads((folder / "proofs.json").read_text())["proofs"]
    assert f"{proof['value']:,} fJ (sums full, estimated); 1 way to spread loops, 1 opened" in line


def test_one_proof_serves_all_layers_of_its_problem(place):
    text = proofs(ONE + TWIN + OTHER, place)
    assert [proof["layers"] for proof in json.loads(text)["proofs"]] == [["one", "two"], ["other"]]
    lines = check_tree_certificates(text, "proofs.json", task_of(place, layers=ONE + OTHER + TWIN)).splitlines()
    assert [line.split(":")[0] for line in lines] == ["one", "other", "two"]
    assert "layers: expected the layers that have this problem: one" in refused(
        text, task_of(place, layers=ONE + OTHER)
    )


def test_every_way_to_spread_loops_is_in_the_proof(place):
    """Along an axis that the mapping leaves open; those that were not opened have a bound that is not below."""
    text = proofs(OPEN, place)
    (proof,) = json.loads(text)["proofs"]
    opened = [one for one in proof["choices"] if one["bound"] == "opened"]
    bounded = [one["bound"] for one in proof["choices"] if one["bound"] != "opened"]
    assert opened
    assert bounded
    assert min(bounded) >= proof["value"]
    assert proof["choices"][proof["chosen"]]["bound"] == "opened"
    task = task_of(place, layers=OPEN)
    words = f"{len(proof['choices'])} ways to spread loops, {len(opened)} opened"
    assert words in check_tree_certificates(text, "proofs.json", task)
    proof["choices"].pop()
    assert "it says what became of" in refused(json.dumps({**json.loads(text), "proofs": [proof]}), task)


def changed(text, **fields):
    return json.dumps({**json.loads(text), **fields})


@cache
def front_proofs(path):
    mapped = map_on_tree(task_of(path, layers=OPEN), objective=Objective.PARETO)
    return tree_certificates_json(mapped, tree_certificates(mapped))


def changed_point(text, **fields):
    (proof,) = json.loads(text)["proofs"]
    return changed_proof(text, points=[{**proof["points"][0], **fields}, *proof["points"][1:]])


WRONG_FRONTS = {
    "no points": (lambda text: changed_proof(text, points=[]), "points: expected at least one point, found an empty"),
    "a point without cycles": (
        lambda text: changed_proof(text, points=[{"energy": 1}]),
        "points[0]: the field cycles is missing",
    ),
    "a point with a fraction": (lambda text: changed_point(text, cycles=1.5), "cycles: expected a whole number"),
    "a point with an EDP": (lambda text: changed_point(text, edp=1), 'unknown field "edp"'),
    "a point of a choice that is not there": (
        lambda text: changed_point(text, chosen=99),
        "chosen: expected a whole number from 0",
    ),
    "less energy": (lambda text: changed_point(text, energy=1), "its chain costs"),
    "no choices": (lambda text: changed_proof(text, choices=[]), "chosen: expected a whole number from 0 to 0"),
    "a bound of energy alone": (
        lambda text: changed_proof(text, choices=[{"spread": [], "bound": 5}]),
        "bound: expected a list of femtojoules and cycles",
    ),
    "a bound of three numbers": (
        lambda text: changed_proof(text, choices=[{"spread": [], "bound": [5, 6, 7]}]),
        "expected femtojoules and cycles, as in [1000, 64]",
    ),
    "a word for a bound": (
        lambda text: changed_choice(text, bound="low"),
        "bound: expected femtojoules and cycles, ",
    ),
    "a value": (lambda text: changed_proof(text, value=1), 'unknown field "value"'),
    "another objective": (lambda text: changed(text, objective="edp", unit="femtojoules x cycles"), "proves nothing"),
}


@pytest.mark.parametrize("what", WRONG_FRONTS)
def test_what_is_wrong_in_a_file_of_fronts_is_said(what, place):
    change, words = WRONG_FRONTS[what]
    text = front_proofs(place)
    assert words in refused(change(text), task_of(place, layers=OPEN))


def test_a_front_is_proven(folder):
    """Every point of the report is in the file, in femtojoules; the line of the check says its ends."""
    files_in(folder, layers=OPEN)
    asked = ("map", *given(folder), "--objective", "pareto")
    result = run(*asked, "--certificate", folder / "front.json", "--json", folder / "report.json", "--quiet")
    assert result.exit_code == 0, result.output
    (layer,) = json.loads((folder / "report.json").read_text())["layers"]
    (proof,) = json.loads((folder / "front.json").read_text())["proofs"]
    points = [(one["energy"], one["cycles"]) for one in proof["points"]]
    assert points == [(round(1000 * one["energy_pj"]), one["latency_cycles"]) for one in layer["front"]]
    checked = run("map", *given(folder), "--check", folder / "front.json")
    assert checked.exit_code == 0, checked.output
    count = f"{len(points)} mapping{'s' * (len(points) > 1)}"
    assert f"open: proven: no mapping is missing on its front of {count}, {points[0][0]:,} fJ in " in checked.stdout
    assert f"{points[-1][1]:,} cycles, and none of them beats another (sums full, estimated)" in checked.stdout


def changed_proof(text, **fields):
    (proof,) = json.loads(text)["proofs"]
    return changed(text, proofs=[{**proof, **fields}])


def without(text, field):
    return json.dumps({name: value for name, value in json.loads(text).items() if name != field})


def changed_choice(text, **fields):
    (proof,) = json.loads(text)["proofs"]
    return changed_proof(text, choices=[{**proof["choices"][0], **fields}])


WRONG = {
    "no JSON": (lambda text: text[:-9], "is not JSON"),
    "another format": (
        lambda text: changed(text, format="tilestitch.mapping-certificates"),
        'expected the field "format"',
    ),
    "a version that is no number": (lambda text: changed(text, version=True), "version: expected 3, found true"),
    "a later version": (lambda text: changed(text, version=4), "version: expected 3, found 4"),
    "no version": (lambda text: without(text, "version"), "version: expected 3, found nothing"),
    "another objective": (lambda text: changed(text, objective="edp"), "unit: expected femtojoules x cycles, found"),
    "a front": (
        lambda text: changed(text, objective="pareto"),
        "unit: expected femtojoules and cycles, found",
    ),
    "an objective that there is not": (
        lambda text: changed(text, objective="area"),
        "objective: expected one of energy, latency, edp, ed2p, pareto",
    ),
    "an objective with its unit": (
        lambda text: changed(text, objective="latency", unit="cycles"),
        "proves nothing that is checked",
    ),
    "another unit": (lambda text: changed(text, unit="picojoules"), "unit: expected femtojoules"),
    "sums of another width": (lambda text: changed(text, sums="final"), "proves nothing that is checked"),
    "sums that do not exist": (lambda text: changed(text, sums="half"), "sums: expected one of full, final"),
    "no sums": (lambda text: without(text, "sums"), "the field sums is missing"),
    "an effort": (lambda text: changed(text, effort=5), 'unknown field "effort"'),
    "a repeated field": (lambda text: text.replace('"sums"', '"sums": "full", "sums"', 1), "appears more than once"),
    "a repeated value": (lambda text: text.replace('"value"', '"value": 1, "value"', 1), "appears more than once"),
    "an unknown field of a proof": (lambda text: changed_proof(text, labels=1), 'unknown field "labels"'),
    "a layer under another name": (
        lambda text: changed_proof(text, layers=["x"]),
        "expected the layers that have this",
    ),
    "a layer twice": (lambda text: changed_proof(text, layers=["one", "one"]), "expected the layers that have this"),
    "a proof twice": (lambda text: changed(text, proofs=json.loads(text)["proofs"] * 2), "is a second proof"),
    "no proof": (lambda text: changed(text, proofs=[]), "there is no certificate for layer 'one'"),
    "another problem": (lambda text: changed_proof(text, problem="0" * 16), "proves nothing that is checked"),
    "a value that is no number": (lambda text: changed_proof(text, value=True), "value: expected a whole number"),
    "a value with a fraction": (lambda text: changed_proof(text, value=1.5), "value: expected a whole number"),
    "a lower value": (lambda text: changed_proof(text, value=1), "its chain costs"),
    "a choice that is not there": (
        lambda text: changed_proof(text, chosen=1),
        "chosen: expected a whole number from 0",
    ),
    "no choices": (lambda text: changed_proof(text, choices=[]), "spread in 1 ways, it says what became of 0"),
    "a loop of another nest": (
        lambda text: changed_proof(text, loops=[["X", 2]]),
        "loops[0][0]: expected one of B, K, C",
    ),
    "a loop without a factor": (lambda text: changed_proof(text, loops=[["K"]]), "expected a loop and its factor"),
    "a loop of one step": (lambda text: changed_proof(text, loops=[["K", 1]]), "expected a whole number from 2"),
    "cuts of an operand too many": (lambda text: changed_proof(text, cuts={"X": [1]}), 'unknown field "X"'),
    "cuts of an operand too few": (lambda text: changed_proof(text, cuts={}), "the field W is missing"),
    "other factors": (lambda text: changed_choice(text, spread=["D1 K 2"]), "choice 0 spreads D1 K 4, D2 C 2, it says"),
    "a bound and chains": (lambda text: changed_choice(text, bound=5), "chains: expected only where bound is"),
    "a word for a bound": (lambda text: changed_choice(text, bound="low"), "bound: expected a whole number"),
    "no bound": (lambda text: changed_choice(text, bound=None), "expected only where bound is"),
    "fewer chains": (lambda text: changed_choice(text, chains=1), "has not the 1 chains that it says"),
    "chains that are no number": (lambda text: changed_choice(text, chains=True), "chains: expected a whole number"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_in_a_file_of_proofs_is_said(what, place):
    change, words = WRONG[what]
    text = proofs(ONE, place)
    assert change(text) != text
    assert words in refused(change(text), task_of(place))


@pytest.mark.parametrize(
    "what, found, right",
    [("machine", "write_pj: 25", "write_pj: 26"), ("spatial", "K, 4", "K, 2"), ("layers", "[4, 8, 8]", "[4, 8, 4]")],
)
def test_a_proof_is_of_one_workload_machine_and_spatial_mapping(place, what, found, right):
    text = {"layers": ONE, "machine": MACHINE, "spatial": SPATIAL}[what]
    assert found in text
    task = task_of(place, **{what: text.replace(found, right, 1)})
    assert "proves nothing that is checked" in refused(proofs(ONE, place), task)
    assert "proven" in check_tree_certificates(proofs(ONE, place), "proofs.json", task_of(place))


@pytest.mark.parametrize(
    "words, message",
    [
        (("--sums", "final"), "are of sums full; leave out --sums"),
        (("--objective", "latency"), "are of objective energy; leave out --objective"),
        (("--effort", "100"), "searches nothing; leave out --effort"),
        (("--certificate", "new.json"), "searches nothing; leave out --certificate"),
        (("--top", "2"), "leave out --top"),
    ],
)
def test_options_that_contradict_the_proofs_are_refused(folder, words, message):
    file = folder / "proofs.json"
    assert run("map", *given(folder), "--objective", "energy", "--certificate", file, "--quiet").exit_code == 0
    result = run("map", *given(folder), "--check", file, *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_no_file_is_written_where_nothing_is_proven(folder):
    """A search that was stopped leaves a gap; and no proof takes the place of what is read."""
    result = run(
        "map", *given(folder), "--objective", "energy", "--effort", "1", "--certificate", folder / "proofs.json"
    )
    assert result.exit_code == 2
    assert "allow more with --effort, or leave out --certificate" in result.stderr
    assert not (folder / "proofs.json").exists()
    for file in ("machine.yaml", "layers.yaml", "spatial.yaml"):
        result = run("map", *given(folder), "--objective", "energy", "--certificate", folder / file)
        assert result.exit_code == 2
        assert "is read as an input" in result.stderr
