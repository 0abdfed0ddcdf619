"""Files of certificates of `map`: each claim in them is checked, and nothing else may be in them."""

import json
from functools import cache

import pytest

from tests.helpers.command import run
from tests.helpers.nests import DMAZERUNNER
from tilestitch.base.errors import InputError
from tilestitch.base.progress import quiet
from tilestitch.commands.map.proofs import certificates_json, check_certificates
from tilestitch.commands.map.sources import Nests
from tilestitch.ir.choices import CostMode, Objective
from tilestitch.ir.loop_nest import product
from tilestitch.mapping.network import MapOptions, RepeatedNest, map_layers

LINE = "O[m,n] += A[m,k] * B[k,n]; m=8 n=4 k=16"


def nests(*products: tuple[int, int, int], name: str = "dense") -> Nests:
    """Matrix products that all have one name."""
    return Nests("net", tuple(RepeatedNest(product(name, m=m, n=n, k=k), (name,)) for m, n, k in products))


@cache
def written(*products: tuple[int, int, int], objective: Objective = Objective.EDP) -> str:
    mapped = map_layers(nests(*products).layers, DMAZERUNNER, MapOptions(objective, certify=True), quiet)
    return certificates_json(mapped, CostMode.DEFAULT, objective)


def checked(text: str, *products: tuple[int, int, int]) -> str:
    return check_certificates(text, "proofs.json", nests(*products), DMAZERUNNER, quiet)


def refused(text: str, *products: tuple[int, int, int]) -> str:
    with pytest.raises(InputError) as caught:
        checked(text, *products)
    assert str(caught.value).startswith(("proofs.json: ", "the certificate of "))
    return str(caught.value)


SMALL, OTHER = (8, 4, 16), (4, 4, 32)


def test_layers_of_one_name_have_each_their_proof():
    """Proofs are found by what they prove, in whatever order they come."""
    text = written(SMALL, OTHER)
    assert len(checked(text, SMALL, OTHER).splitlines()) == 2
    assert len(checked(text, OTHER, SMALL).splitlines()) == 2


def test_one_proof_serves_all_layers_of_its_problem():
    text = written(SMALL, SMALL)
    assert [proof["layers"] for proof in json.loads(text)["proofs"]] == [["dense", "dense"]]
    assert len(checked(text, SMALL, SMALL).splitlines()) == 2
    assert "layers: expected the layers that have this problem: dense" in refused(text, SMALL)


def changed(**fields: object) -> str:
    return json.dumps({**json.loads(written(SMALL)), **fields})


def changed_proof(**fields: object) -> str:
    (proof,) = json.loads(written(SMALL))["proofs"]
    return changed(proofs=[{**proof, **fields}])


def proofs(*products: tuple[int, int, int]) -> list[object]:
    return json.loads(written(*products))["proofs"]


WRONG = {
    "a front": (changed(objective="pareto"), "objective: expected one of edp, energy, latency"),
    "another objective": (changed(objective="energy", unit="femtojoules"), "proves nothing that is checked"),
    "no mode": (changed(mode="best"), "mode: expected one of"),
    "a version that is no number": (changed(version=True), "version: expected 3, found true"),
    "an unknown field": (changed(more=1), 'unknown field "more"'),
    "an unknown field of a proof": (changed_proof(evaluated=1), 'unknown field "evaluated"'),
    "a repeated field": (written(SMALL).replace('"mode"', '"mode": "default", "mode"', 1), "appears more than once"),
    "a layer that does not exist": (changed(proofs=proofs(SMALL, OTHER)), "proves nothing that is checked"),
    "a layer under another name": (changed_proof(layers=["conv"]), "expected the layers that have this problem"),
    "a proof twice": (changed(proofs=proofs(SMALL) * 2), "is a second proof"),
    "no proof": (changed(proofs=[]), "there is no certificate for layer 'dense'"),
    "a value that is no number": (changed_proof(value=True), "value: expected a whole number"),
    "a lower value": (changed_proof(value=1), "its mapping costs"),
    "another unit": (changed(unit="picojoules"), "unit: expected femtojoules x cycles"),
    "fewer tilings": (changed_proof(tilings=1), "tilings fit, it says 1"),
    "a loop of another level": (changed_proof(mapping={"rows": [1]}), 'unknown field "rows"'),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_in_a_file_of_proofs_is_said(what):
    text, message = WRONG[what]
    assert message in refused(text, SMALL)


def test_options_that_contradict_the_proofs_are_refused(tmp_path):
    """And those that say the same are not."""
    file = tmp_path / "proofs.json"
    result = run("map", LINE, "--objective", "energy", "--certificate", file, "--quiet")
    assert result.exit_code == 0, result.output
    for words in ((), ("--objective", "energy"), ("--mode", "default")):
        result = run("map", LINE, "--check", file, *words)
        assert result.exit_code == 0, result.output
        assert "proven: no mapping has less energy" in result.stdout
    contradicting = {
        "--objective": "latency",
        "--mode": "published",
        "--dataflow": "output",
        "--top": "2",
        "--search": "dmazerunner",
    }
    for option, value in contradicting.items():
        result = run("map", LINE, "--check", file, option, value)
        assert result.exit_code == 2
        assert f"leave out {option}" in result.stderr
