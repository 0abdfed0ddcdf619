"""Networks of axes, windows and storage in the files of trees."""

from fractions import Fraction

import pytest

from tilestitch.base.errors import InputError
from tilestitch.hardware.tree import Network
from tilestitch.hardware.tree_describe import describe_tree
from tilestitch.hardware.tree_load import parse_tree

TREE = """
name: small
clock: 1 GHz
mac_pj: 0.04
axes:
  - name: D1
    size: 8
    networks: [{operands: [I], forwarding: true, pj_per_bit: 0.5, bandwidth: 4 GB/s}, {operands: [O], reduction: false}]
memories:
  - {name: lines, size: 64 B, operands: [I], read_pj: 1, write_pj: 1, serves: [D1], sliding_window: true, ports: [*p]}
  - {name: buffer, size: 4 KiB, operands: [I, O], read_pj: 9, write_pj: 9, serves: [D1], storage: even, ports: [*p]}
  - {name: dram, size: 4 GiB, operands: [I, O, W], read_pj: 99, write_pj: 99, serves: [D1], ports: [*p]}
""".replace("*p", "{width_bits: 8}")


def test_a_file_says_networks_windows_and_storage():
    tree = parse_tree(TREE, "small.yaml")
    (axis,) = tree.axes
    carried = Network(("I",), forwarding=True, pj_per_bit=0.5, bits_per_cycle=Fraction(32))
    assert axis.networks == (carried, Network(("O",), reduction=False))
    assert axis.network("W") is None
    assert [memory.has_sliding_window for memory in tree.memories] == [True, False, False]
    assert [memory.has_even_storage for memory in tree.memories] == [False, True, False]
    page = describe_tree(tree)
    assert "  I along D1: neighbours pass on overlaps; 0.5 pJ a bit; 32 b/cycle" in page
    assert "  O along D1: each place writes its own sums" in page


def test_a_file_says_what_arrays_have():
    """Windows and sums that neighbours share, banks, and what units and memories do at a step."""
    text = TREE.replace("forwarding: true", "shares_windows: true").replace("reduction: false", "passes_sums: true")
    text = text.replace("storage: even", "banks: 4").replace("mac_pj", "latches: false\nmoves_boxes: true\nmac_pj")
    tree = parse_tree(text.replace("mac_pj", "reads_first_sums: false\nmac_pj"), "small.yaml")
    windows, sums = tree.axes[0].networks
    assert (windows.shares_windows, windows.passes_sums, sums.shares_windows, sums.passes_sums) == (
        *(True, False),
        *(False, True),
    )
    assert [memory.bank_bits for memory in tree.memories] == [0, 8 * 1024, 0]
    assert (tree.has_latches, tree.reads_first_sums, tree.moves_boxes) == (False, False, True)
    page = describe_tree(tree)
    assert "units read and write at every step; first sums are not read; tiles are boxes" in page
    assert "I along D1: overlapping windows are read once; 0.5 pJ a bit; 32 b/cycle" in page
    assert "O along D1: neighbours add up sums" in page
    assert "banks of 1.00 KiB" in page


@pytest.mark.parametrize(
    "found, instead, words",
    [
        ("forwarding: true", "shares_windows: true, multicast: false", "D1: shares_windows: nothing is shared where"),
        ("reduction: false", "reduction: false, passes_sums: true", "D1: passes_sums: nothing is added up where"),
        (
            "operands: [O], reduction",
            "operands: [I], reduction",
            "D1: two networks carry I; give each of them operands",
        ),
        (
            "operands: [O], reduction",
            "operands: [X], reduction",
            "D1: a network carries X, which no memory holds; known",
        ),
        ("operands: [I, O], read_pj: 9", "operands: [I], read_pj: 9", "buffer: storage: even is of several operands"),
        ("write_pj: 99,", "write_pj: 99, sliding_window: true,", "dram: sliding_window: it is the outermost memory"),
        ("forwarding: true", "forwarding: yes", "axes.D1.networks[0].forwarding: expected true or false, found 'yes'"),
        ("pj_per_bit", "pj_a_bit", "axes.D1.networks[0].pj_a_bit: unknown key"),
        ("storage: even", "storage: evn", "memories.buffer.storage: expected uneven or even, found 'evn'"),
        ("clock: 1 GHz\n", "", "axes.D1.networks[0].bandwidth: is said a second, and the machine has no clock"),
        ("4 GB/s", "4 GB", "axes.D1.networks[0].bandwidth: expected a bandwidth above 0"),
    ],
)
def test_what_contradicts_itself_is_refused(found, instead, words):
    """Each in a line with its place; without the mistake the file is read."""
    assert found in TREE
    text = TREE.replace(found, instead)
    with pytest.raises(InputError) as refused:
        parse_tree(text, "small.yaml")
    assert words in str(refused.value)


def test_a_network_along_an_axis_that_no_memory_serves_is_refused():
    """Of an operand whose whole chain repeats along the axis nothing is carried there."""
    text = TREE.replace(
        "operands: [I], read_pj: 1, write_pj: 1, serves: [D1]", "operands: [I], read_pj: 1, write_pj: 1, serves: []"
    )
    lone = (
        "  - {name: own, size: 1 KiB, operands: [X], read_pj: 1, write_pj: 1, serves: [], ports: [{width_bits: 8}]}\n"
    )
    text = text.replace("memories:\n", "memories:\n" + lone).replace(
        "operands: [O], reduction", "operands: [X], reduction"
    )
    with pytest.raises(InputError, match="a network carries X, of which no memory lies around the axis"):
        parse_tree(text, "small.yaml")
