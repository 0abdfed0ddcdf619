"""Machine trees in YAML."""

import pytest

from tilestitch.base.errors import InputError
from tilestitch.hardware.tree import Axis, Flow
from tilestitch.hardware.tree_file import machine_tree

TREE = """
name: npu
mac_pj: 0.5
axes:
  - {name: rows, size: 8, loops: [C]}
  - {name: columns, size: 16}
memories:
  - name: rf
    size: 16 b
    operands: [O]
    read_pj: 0.02
    write_pj: 0.03
    serves: [rows]
    ports:
      - {name: out, width_bits: 16, directions: [collect, drain]}
      - {name: in, width_bits: 16, directions: [fill, feed]}
  - name: buffer
    size: 64 KiB
    operands: [I, W, O]
    read_pj: 5
    write_pj: 6
    serves: [rows, columns]
    buffers: 2
    ports: [{width_bits: 256, granule_bits: 64}]
  - {name: dram, size: 2 GiB, operands: [I, W, O], read_pj: 500, write_pj: 550, serves: [rows, columns],
     ports: [{width_bits: 64}]}
"""


def test_a_tree_is_read():
    """Sizes in bytes and bits, ports with defaults, and the chains and fan-outs that follow."""
    tree = machine_tree(TREE, "npu.yaml")
    assert [memory.size_bits for memory in tree.memories] == [16, 64 * 1024 * 8, 2 * 2**30 * 8]
    assert tree.axes == (Axis("rows", 8, ("C",)), Axis("columns", 16))
    assert tree.units == 128
    assert tree.fan_outs("O") == (("rows",), ("columns",), (), ())
    assert tree.fan_outs("I") == (("rows", "columns"), (), ())
    out, buffer = tree.memories[0].port("O", Flow.COLLECT), tree.memories[1].port("W", Flow.FEED)
    assert out is not None
    assert out.name == "out"
    assert buffer is not None
    assert (buffer.width_bits, buffer.granule_bits) == (256, 64)


@pytest.mark.parametrize(
    "found, instead, words",
    [
        ("size: 64 KiB", "size: 0", "memories[1].size: expected a size above 0 in bytes"),
        ("size: 64 KiB", "size: lots", "memories[1].size: expected a size above 0 in bytes, such as 2048, 64 KiB"),
        (
            "operands: [O]",
            "operands: []",
            "memories[0].operands: expected at least one of the operands, found an empty",
        ),
        ("serves: [rows]", "serves: [depth]", "rf: serves 'depth', which is no axis; known: columns, rows"),
        (
            "    serves: [rows, columns]",
            "    serves: [columns]",
            "buffer: lies outside rf for O, but does not serve rows",
        ),
        ("name: rf", "name: dram", "dram: is there twice"),
        ("buffers: 2", "buffers: 3", "memories[1].buffers: expected at most 2 buffers, found 3"),
        ("mac_pj: 0.5", "mac: 0.5", "mac: unknown key; the closest is 'mac_pj'"),
        ("granule_bits: 64", "granule_bits: 512", "buffer: port port-1: expected 1 to 256 bits"),
        ("directions: [fill, feed]", "directions: [up]", "expected a list of directions: fill, feed, collect, drain"),
        ("directions: [fill, feed]", "operands: [I]", "rf: port in serves I, which the memory does not hold"),
        ("size: 16}", "size: 16}\n  - {name: depth, size: 2}", "depth: lies inside no memory, so nothing reaches"),
        ("    read_pj: 5\n", "", "memories[1]: the field read_pj is missing"),
    ],
)
def test_a_mistake_is_one_line(found, instead, words):
    assert found in TREE
    with pytest.raises(InputError) as refused:
        machine_tree(TREE.replace(found, instead, 1), "npu.yaml")
    assert words in str(refused.value)
    assert all(line.startswith("npu.yaml: ") for line in str(refused.value).splitlines())


def test_twenty_levels_are_enough():
    memory = (
        "\n  - {name: NAME, size: 1 KiB, operands: [I], read_pj: 1, write_pj: 1, serves: [], ports: [{width_bits: 8}]}"
    )
    text = "name: deep\nmac_pj: 1\nmemories:" + "".join(memory.replace("NAME", f"m{at}") for at in range(21))
    with pytest.raises(InputError, match="I: lies in 21 memories one above another; expected at most 20"):
        machine_tree(text, "deep.yaml")
