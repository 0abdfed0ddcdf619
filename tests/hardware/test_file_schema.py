"""The JSON Schema of machine files: what editors check."""

import json

import jsonschema
import pytest

from tests.helpers.machine_files import documented, shipped, yaml_12
from tilestitch.base.errors import InputError
from tilestitch.hardware.file_models import AxisModel, MachineModel, MemoryModel, PortModel
from tilestitch.hardware.file_schema import file_schema
from tilestitch.hardware.tree_load import parse_tree

SCHEMA = json.loads(file_schema())
CHECKER = jsonschema.Draft202012Validator(SCHEMA)
FILES = shipped() | documented()
TREES = (MachineModel, AxisModel, MemoryModel, PortModel)

SMALL = """
name: small
mac_pj: 0.04
axes: [{name: D1, size: 8}]
memories:
  - {name: dram, size: 4 GiB, operands: [I, W, O], read_pj: 700, write_pj: 750, serves: [D1], ports: [{width_bits: 64}]}
"""


def test_it_is_a_schema_of_2020_12():
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", FILES)
def test_every_machine_that_is_shipped_or_shown_fits_the_schema(name):
    assert [error.message for error in CHECKER.iter_errors(yaml_12(FILES[name]))] == []


@pytest.mark.parametrize(
    "found, instead",
    [
        ("mac_pj: 0.04", "mac_pj: -1"),
        ("mac_pj: 0.04", "mac: 0.04"),
        ("size: 8", "size: 0"),
        ("size: 8", "size: 8.5"),
        ("size: 4 GiB", "size: 4 gigabytes"),
        ("operands: [I, W, O]", "operands: []"),
        ("operands: [I, W, O]", "operands: [I, I]"),
        ("ports: [{width_bits: 64}]", "ports: []"),
        ("{width_bits: 64}", "{width_bits: 64, bandwidth: 3}"),
        ("{width_bits: 64}", "{width_bits: 64, bandwidth: 3 GB}"),
        ("{width_bits: 64}", "{width_bits: 64, directions: [up]}"),
        ("{name: D1, size: 8}", "{name: D1, size: 8, loops: []}"),
        ("read_pj: 700", "read_pj: .nan"),
        ("read_pj: 700, ", ""),
        ("name: small", "name: small\nclock: fast"),
        ("name: small", "name: my machine"),
    ],
)
def test_what_the_schema_refuses_the_reader_refuses(found, instead):
    """And without the mistake both take it."""
    assert CHECKER.is_valid(yaml_12(SMALL))
    parse_tree(SMALL, "small.yaml")
    assert found in SMALL
    wrong = SMALL.replace(found, instead, 1)
    assert not CHECKER.is_valid(yaml_12(wrong))
    with pytest.raises(InputError):
        parse_tree(wrong, "small.yaml")


@pytest.mark.parametrize("model", TREES, ids=lambda model: model.__name__)
def test_every_field_of_a_tree_has_a_meaning_and_an_example(model):
    """But for those that hold mappings, which have their own."""
    shown = SCHEMA["$defs"][model.__name__.removesuffix("Model")]
    assert list(shown["properties"]) == list(model.model_fields)
    for key, field in shown["properties"].items():
        assert field["description"], key
        assert field.get("examples") or "$ref" in str(field) or "default" in field, key
    assert shown["properties"]["name"]["description"] == model.model_fields["name"].description


def test_a_unit_in_the_name_of_a_field_is_in_its_meaning():
    memory = SCHEMA["$defs"]["Memory"]["properties"]
    assert memory["read_pj"]["description"].endswith("[pJ]")
    assert memory["area_mm2"]["description"].endswith("[mm2]")
    assert SCHEMA["$defs"]["Link"]["properties"]["bandwidth_bytes_per_cycle"]["description"].endswith("[B/cycle]")
    assert memory["read_pj_per_byte"]["description"].endswith("[pJ/B]")


def test_an_example_of_a_field_is_one():
    """Each example fits the schema of its field."""
    for definition in SCHEMA["$defs"].values():
        for key, field in definition["properties"].items():
            for example in field.get("examples", []):
                assert jsonschema.Draft202012Validator({**field, "$defs": SCHEMA["$defs"]}).is_valid(example), key
