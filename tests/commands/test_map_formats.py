"""The command `map` takes the files of other programs, and what it writes for them it takes again."""

import pytest

from tests.helpers.nest_files import (
    DMAZERUNNER_LAYERS,
    DMAZERUNNER_MACHINE,
    DMAZERUNNER_MAPPING,
    TIMELOOP_LAYER,
    ZIGZAG_LAYERS,
)
from tilestitch.base.errors import InputError
from tilestitch.commands.map.files import mapping_files
from tilestitch.commands.map.sources import chosen_layers, open_machine, open_mapping, open_nests
from tilestitch.hardware.load import load_machine
from tilestitch.ir.choices import CostMode
from tilestitch.ir.graph import Graph
from tilestitch.mapping.evaluate import price

BASE = "dmazerunner-256"


def no_network(name: str) -> Graph:
    raise InputError(f"{name}: no network here")


@pytest.fixture
def files(tmp_path):
    """A folder with a file of each format."""
    texts = {
        "layers.json": DMAZERUNNER_LAYERS,
        "arch.json": DMAZERUNNER_MACHINE,
        "mapping.txt": DMAZERUNNER_MAPPING,
        "cosa.yaml": TIMELOOP_LAYER,
        "zigzag.yaml": ZIGZAG_LAYERS + ZIGZAG_LAYERS.replace("name: conv1", "name: conv1_again"),
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_the_example_of_dmazerunner_costs_what_was_published(files):
    """Its layer, its machine and its mapping, each from its own file, take the 2,459,648 cycles of the ICASSP paper."""
    source = open_machine(str(files / "arch.json"), load_machine, BASE)
    (layer,) = chosen_layers(open_nests(str(files / "layers.json"), no_network), ["conv5_2"]).layers
    mapping = open_mapping(str(files / "mapping.txt"), layer.nest, source, CostMode.PUBLISHED)
    priced = price(layer.nest, source.machine, mapping, CostMode.PUBLISHED)
    assert (layer.times, priced.cycles, priced.energy_pj, priced.misfit) == (3, 2_459_648, 2_908_068_209, "")


def test_equal_layers_of_a_file_are_mapped_once(files):
    """Layers that differ only in their names are one, under the first name, as often as they are there."""
    layers = open_nests(str(files / "zigzag.yaml"), no_network).layers
    assert [(layer.nest.name, layer.operators) for layer in layers] == [
        ("conv1", ("conv1", "conv1_again")),
        ("layer1", ("layer1", "layer1")),
        ("layer4", ("layer4", "layer4")),
    ]
    (cosa,) = open_nests(str(files / "cosa.yaml"), no_network).layers
    assert (cosa.nest.name, cosa.nest.macs) == ("cosa", 64 * 3 * 49 * 112 * 112)


@pytest.mark.parametrize(
    "program, nest, machine", [("timeloop", "problem", "arch"), ("zigzag", "workload", "accelerator")]
)
def test_what_is_written_for_a_program_is_priced_again(files, program, nest, machine):
    """Nest, machine and mapping are read from the files written for Timeloop or ZigZag, and energy is the same.

    Cycles differ, because Timeloop's machine has one network for all that is read and ZigZag's DRAM moves whole bits.
    """
    source = open_machine(BASE, load_machine, BASE)
    (layer,) = chosen_layers(open_nests(str(files / "layers.json"), no_network), ["conv5_2"]).layers
    mapping = open_mapping(str(files / "mapping.txt"), layer.nest, source, CostMode.DEFAULT)
    for name, text in mapping_files(program, source.machine, [(layer.nest, mapping)]):
        (files / name).write_text(text, encoding="utf-8")
    again = open_machine(str(files / f"{machine}.yaml"), load_machine, BASE)
    (read,) = open_nests(str(files / f"{nest}.yaml"), no_network).layers
    priced = price(
        read.nest,
        again.machine,
        open_mapping(str(files / "mapping.yaml"), read.nest, again, CostMode.DEFAULT),
        CostMode.DEFAULT,
    )
    assert again.notes
    assert priced.misfit == ""
    assert priced.energy_pj == price(layer.nest, source.machine, mapping, CostMode.DEFAULT).energy_pj
