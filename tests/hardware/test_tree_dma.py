"""DMA engines, and links between chips, in files of trees."""

from fractions import Fraction

import pytest

import tilestitch
from tests.helpers.npu_tree import TREE
from tilestitch.base.errors import InputError
from tilestitch.hardware.preset_files import preset_text
from tilestitch.hardware.tree import DmaEngine
from tilestitch.hardware.tree_describe import describe_tree
from tilestitch.hardware.tree_load import parse_tree
from tilestitch.hardware.tree_svg import tree_svg

ENGINE = "{name: loads, joins: [dram, buffer], count: 2, setup_cycles: 100, bandwidth: 16 B/cycle}"
WITH = f"{TREE}dma:\n  - {ENGINE}\n"


def test_engines_are_read_and_shown():
    """The memories in any order; as text and in the picture, where there are any."""
    tree = parse_tree(WITH, "npu.yaml")
    assert tree.engines == (DmaEngine("loads", "buffer", "dram", 2, 100, Fraction(128)),)
    assert parse_tree(WITH.replace("[dram, buffer]", "[buffer, dram]"), "npu.yaml").engines == tree.engines
    line = "  loads: 2 between dram and each buffer; 100 cycles of set-up, then 128 b/cycle each\n"
    assert line in describe_tree(tree)
    assert ">DMA loads x 2</text>" in tree_svg(tree)
    assert "DMA" not in describe_tree(parse_tree(TREE, "npu.yaml")) + tree_svg(parse_tree(TREE, "npu.yaml"))
    rated = parse_tree(WITH.replace("16 B/cycle", "25.6 GB/s") + "clock: 800 MHz\n", "npu.yaml")
    assert rated.engines[0].bits_per_cycle == 256


@pytest.mark.parametrize(
    "found, instead, words",
    [
        ("[dram, buffer]", "[dram, cache]", "loads: joins 'cache', which is no memory; known: rf, buffer, dram"),
        (
            "[dram, buffer]",
            "[dram]",
            "dma.loads.joins: expected two different memories, such as [dram, buffer], found 'dram'",
        ),
        (
            "[dram, buffer]",
            "[dram, dram]",
            "dma.loads.joins: expected two different memories, such as [dram, buffer], found 'dram, dram'",
        ),
        ("[dram, buffer]", "[dram, rf]", "no operand crosses directly; such are dram and buffer, buffer and rf"),
        ("count: 2", "count: 0", "dma.loads.count: expected a whole number of engines above 0"),
        ("setup_cycles: 100", "setup_cycles: -1", "dma.loads.setup_cycles: expected a whole number of cycles"),
        (", bandwidth: 16 B/cycle", "", "dma.loads.bandwidth: expected a bandwidth above 0"),
        ("16 B/cycle", "16 GB/s", "dma.loads.bandwidth: is said a second, and the machine has no clock"),
        (ENGINE, f"{ENGINE}\n  - {ENGINE}", "loads: is there twice; names tell DMA engines apart"),
        (
            ENGINE,
            f"{ENGINE}\n  - {ENGINE.replace('loads', 'stores')}",
            "stores: joins the memories that loads joins; write one entry with their count",
        ),
        ("name: loads", "title: loads", "dma[0].title: unknown key"),
    ],
)
def test_a_mistake_is_one_line(found, instead, words):
    """What is wrong, where, and what would be right."""
    assert found in WITH
    with pytest.raises(InputError) as error:
        parse_tree(WITH.replace(found, instead), "npu.yaml")
    assert any(words in line for line in str(error.value).splitlines()), str(error.value)


def test_a_chip_with_engines_is_mapped_on_and_not_compiled_for(tmp_path):
    """One sentence says why; the tree of the chip has the engines."""
    file = tmp_path / "chip.yaml"
    file.write_text(preset_text("toy") + "\ndma:\n  - {name: loads, joins: [ddr, gb], bandwidth: 8 B/cycle}\n")
    assert [engine.name for engine in tilestitch.load_tree(file).engines] == ["loads"]
    with pytest.raises(InputError, match="because it has DMA engines of its own \\(loads\\), where link and setup say"):
        tilestitch.load_machine(file)


def test_a_bit_costs_every_link_that_it_passes():
    """Links of a network multiply the energy of a bit; unless stated it is one."""
    networks = "networks: [{pj_per_bit: 0.5, hops: 3.5, bandwidth: 8 B/cycle}]"
    tree = parse_tree(TREE.replace("size: 16}", f"size: 16, {networks}}}"), "npu.yaml")
    (network,) = tree.axes[1].networks
    assert network.pj_per_bit == 1.75
    alone = parse_tree(TREE.replace("size: 16}", f"size: 16, {networks.replace(', hops: 3.5', '')}}}"), "npu.yaml")
    assert alone.axes[1].networks[0].pj_per_bit == 0.5
