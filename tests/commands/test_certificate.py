"""Certificates as files: written, checked by themselves, rejected where anything in them was changed."""

import json
import random
from functools import cache

import pytest

from tests.helpers.command import run
from tests.helpers.fused_plans import MODEL, costs, wide
from tests.helpers.pairs import first
from tilestitch.base.errors import InputError
from tilestitch.commands.fuse.certificate_file import certificate_json, checked_certificate
from tilestitch.commands.fuse.fuse import Fused, fuse_blocks
from tilestitch.partition.blocks import checker
from tilestitch.partition.blocks.model import BlockCost


@cache
def proven(name: str) -> Fused:
    return fuse_blocks(costs(name), "mlu100", "dlfusion", "dlfusion")


@pytest.mark.parametrize("name", first(2, ["mobilenet-v2", "resnet18", "googlenet"]))
def test_a_certificate_proves_the_best_plan(name):
    """Whatever plan was asked for; from nothing but the network, the machine and the file."""
    fused = proven(name)
    assert fused.proof is not None
    plan, ideals = checked_certificate(costs(name), "mlu100", certificate_json(fused), "c.json")
    assert plan == fused.best
    assert ideals == len(fused.proof.potentials)


def changed(**fields: object) -> str:
    """The certificate of ResNet-18 with other fields; `None` leaves one out."""
    value = {**json.loads(certificate_json(proven("resnet18"))), **fields}
    return json.dumps({name: field for name, field in value.items() if field is not None})


def rejected(text: str, cost: BlockCost | None = None) -> str:
    with pytest.raises(InputError) as caught:
        checked_certificate(cost or costs("resnet18"), "mlu100", text, "c.json")
    message = str(caught.value)
    assert message.startswith("c.json: ")
    return message


def fields() -> dict:
    return json.loads(certificate_json(proven("resnet18")))


def test_a_plan_that_is_not_the_best_cannot_be_certified():
    """Its price is right, and the numbers of the ideals say less."""
    blocks = [
        {"cores": cores, "time_ps": cost, "layers": list(block)}
        for block, cores, cost in zip(*_priced("dynamic-cores"), strict=True)
    ]
    assert "proves" in rejected(changed(blocks=blocks))
    worse = {**fields()["potentials_ps"]}
    whole = max(worse, key=lambda ideal: int(ideal, 16))
    worse[whole] = sum(block["time_ps"] for block in blocks)
    assert "leads there from" in rejected(changed(blocks=blocks, potentials_ps=worse))


def _priced(plan: str):
    found = fuse_blocks(costs("resnet18"), "mlu100", plan, plan).plan
    return found.blocks, found.choices, found.costs


@pytest.mark.parametrize("number", range(6))
def test_a_block_that_costs_otherwise_is_rejected(number):
    """Its time, its cores, its layers: each is found anew."""
    blocks = fields()["blocks"]
    block = blocks[number % len(blocks)]
    changes = (
        {"time_ps": block["time_ps"] - 1},
        {"cores": 1 if block["cores"] != 1 else 2},
        {"layers": block["layers"][:-1]},
    )
    for change in changes:
        if change.get("layers") == []:
            continue
        others = [{**one, **change} if one is block else one for one in blocks]
        assert "plan: " in rejected(changed(blocks=others))


def test_numbers_that_say_too_much_are_rejected():
    """Each of them raised by one; lowered they prove no more than before, and the whole may not be."""
    numbers = fields()["potentials_ps"]
    for ideal in random.Random(0).sample(sorted(numbers), 10):
        assert "certificate: " in rejected(changed(potentials_ps={**numbers, ideal: numbers[ideal] + 1}))
    whole = max(numbers, key=lambda ideal: int(ideal, 16))
    assert "proves" in rejected(changed(potentials_ps={**numbers, whole: numbers[whole] - 1}))


def test_an_ideal_that_is_left_out_or_made_up_is_rejected():
    """Every one that a plan may go through must have its number."""
    numbers = fields()["potentials_ps"]
    for ideal in random.Random(1).sample(sorted(numbers), 5):
        rest = {other: number for other, number in numbers.items() if other != ideal}
        assert "certificate: " in rejected(changed(potentials_ps=rest))
    assert "is not an ideal of the graph" in rejected(changed(potentials_ps={**numbers, "2": 0}))


def test_a_certificate_of_another_network_or_machine_is_rejected():
    """By name, by layers, by core numbers, by prices."""
    text = certificate_json(proven("resnet18"))
    assert "network: expected 'mobilenet-v2'" in rejected(text, costs("mobilenet-v2"))
    assert "machine: expected 'mlu100'" in rejected(changed(machine="toy"))
    assert "layers: are not those" in rejected(changed(layers=fields()["layers"][::-1]))
    assert "core_counts: are not those" in rejected(changed(core_counts=[1, 2]))
    slower = BlockCost(
        costs("resnet18").network, MODEL.__class__(**{**_model_fields(), "launch_ps": 2 * MODEL.launch_ps})
    )
    assert "does not hold for resnet18 on mlu100: plan: block 0 costs" in rejected(text, slower)


def _model_fields() -> dict:
    return {name: getattr(MODEL, name) for name in MODEL.__slots__}


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "is not JSON"),
        ("[" * 10_000, "is not JSON"),
        ("[]", "expected an object"),
        (json.dumps({"format": "tilestitch.fusion-plan", "version": 1}), "expected an object"),
        (
            '{"format": "x", "format": "tilestitch.fusion-certificate", "version": 1}',
            "appears more than once; keep one",
        ),
    ],
)
def test_a_file_that_is_no_certificate_is_refused(text, message):
    assert message in rejected(text)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"extra": 1}, "unknown field 'extra'"),
        ({"potentials_ps": None}, "field 'potentials_ps' is missing"),
        ({"potentials_ps": {}}, "expected an object of ideals"),
        ({"potentials_ps": {"0": -1}}, "expected a whole number"),
        ({"potentials_ps": {"0": 2**80}}, "expected a whole number"),
        ({"potentials_ps": {"0": True}}, "expected a whole number"),
        ({"potentials_ps": {"0x1": 0}}, "expected an ideal"),
        ({"potentials_ps": {"00": 0}}, "expected an ideal"),
        ({"blocks": []}, "expected a list with at least one block"),
        ({"blocks": [1]}, "blocks[0]: expected"),
        ({"blocks": [{"cores": 1, "time_ps": 1, "layers": []}]}, "expected numbers of layers"),
        ({"blocks": [{"cores": 1, "time_ps": 1.5, "layers": [0]}]}, "blocks[0].time_ps: expected a whole number"),
        ({"blocks": [{"cores": 1, "time_ps": 1, "layers": [10**9]}]}, "has node 1000000000"),
    ],
)
def test_a_certificate_that_is_not_well_formed_is_refused(change, message):
    """With the field."""
    assert message in rejected(changed(**change))


def test_a_graph_with_too_many_ideals_is_refused_and_not_tried():
    """Neither written nor checked."""
    cost = wide(16)
    fused = fuse_blocks(cost, "mlu100", "dlfusion", "dlfusion")
    with pytest.raises(InputError, match="--certificate: wide has too many ideals for a proof"):
        certificate_json(fused)
    text = changed(network="wide", layers=[layer.name for layer in cost.network.layers])
    assert "plan: " in rejected(text, cost)
    with pytest.raises(InputError, match="more than 20,000 ideals"):
        checker._ideals(cost.network.before())


def test_a_layer_runs_once_and_a_version_is_a_number():
    """A block that has a layer twice costs what it costs with it once."""
    blocks = fields()["blocks"]
    blocks[0]["layers"].append(blocks[0]["layers"][0])
    assert "has a node twice" in rejected(changed(blocks=blocks))
    assert '"version": 1' in rejected(changed(version=True))


def test_the_command_writes_a_certificate_that_it_accepts(tmp_path):
    """And one that was changed ends with 2 and one line."""
    written, value = tmp_path / "c.json", tmp_path / "value.json"
    result = run("fuse", "resnet18:small", "--plan", "dlfusion", "--certificate", written, "--quiet")
    assert result.exit_code == 0, result.output
    result = run("fuse", "resnet18:small", "--check", written, "--json", value)
    assert result.exit_code == 0, result.output
    assert "c.json holds: " in result.stdout
    assert "INFERRED" in result.stdout
    found = json.loads(value.read_text())
    assert found["holds"] is True
    assert found["time_ps"] == sum(block["time_ps"] for block in found["blocks"])
    text = written.read_text()
    written.write_text(text.replace('"time_ps": ', '"time_ps": 1', 1))
    result = run("fuse", "resnet18:small", "--check", written)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: c.json: does not hold for resnet18:small on mlu100: plan: ")
    for words in (
        ("--plan", "exact"),
        ("--verify",),
        ("-o", tmp_path / "o"),
        ("--certificate", tmp_path / "o"),
        ("--compare",),
    ):
        result = run("fuse", "resnet18:small", "--check", written, *words)
        assert result.exit_code == 2
        assert "--check only checks a certificate" in result.stderr
