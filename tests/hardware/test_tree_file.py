"""Machine trees in YAML."""

import random
from fractions import Fraction

import pytest

from tests.helpers.npu_tree import TREE
from tilestitch.base.errors import InputError
from tilestitch.hardware.preset_files import preset_names, preset_text
from tilestitch.hardware.tree import Axis, Flow
from tilestitch.hardware.tree_describe import describe_tree
from tilestitch.hardware.tree_load import parse_tree
from tilestitch.hardware.tree_svg import tree_svg


def test_a_tree_is_read():
    """Sizes in bytes and bits, ports with defaults, and the chains and fan-outs that follow."""
    tree = parse_tree(TREE, "npu.yaml")
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
        ("size: 64 KiB", "size: 0", "memories.buffer.size: expected a size above 0 in bytes"),
        ("size: 64 KiB", "size: lots", "memories.buffer.size: expected a size above 0 in bytes, such as 2048, 64 KiB"),
        (
            "operands: [O]",
            "operands: []",
            "memories.rf.operands: expected at least one of the operands, found an empty",
        ),
        ("serves: [rows]", "serves: [depth]", "rf: serves 'depth', which is no axis; known: columns, rows"),
        (
            "    serves: [rows, columns]",
            "    serves: [columns]",
            "buffer: lies outside rf for O, but does not serve rows",
        ),
        ("name: rf", "name: dram", "dram: is there twice"),
        ("buffers: 2", "buffers: 3", "memories.buffer.buffers: expected at most 2 buffers, found 3"),
        ("mac_pj: 0.5", "mac: 0.5", "mac: unknown key; known, closest first: mac_pj"),
        ("granule_bits: 64", "granule_bits: 512", "buffer: port port-1: expected 1 to 256 bits"),
        ("directions: [fill, feed]", "directions: [up]", "expected a list of directions: fill, feed, collect, drain"),
        ("directions: [fill, feed]", "operands: [I]", "rf: port in serves I, which the memory does not hold"),
        ("size: 16}", "size: 16}\n  - {name: depth, size: 2}", "depth: lies inside no memory, so nothing reaches"),
        (
            "    read_pj: 5\n",
            "",
            "buffer.read_pj: expected a number of picojoules of at least 0, found nothing",
        ),
    ],
)
def test_a_mistake_is_one_line(found, instead, words):
    assert found in TREE
    with pytest.raises(InputError) as refused:
        parse_tree(TREE.replace(found, instead, 1), "npu.yaml")
    assert words in str(refused.value)
    assert all(line.startswith("npu.yaml: ") for line in str(refused.value).splitlines())


def test_twenty_levels_are_enough():
    memory = (
        "\n  - {name: NAME, size: 1 KiB, operands: [I], read_pj: 1, write_pj: 1, serves: [], ports: [{width_bits: 8}]}"
    )
    text = "name: deep\nmac_pj: 1\nmemories:" + "".join(memory.replace("NAME", f"m{at}") for at in range(21))
    with pytest.raises(InputError, match="I: lies in 21 memories one above another; expected at most 20"):
        parse_tree(text, "deep.yaml")


DEEP = "name: deep\nmac_pj: 1\nmemories:" + "".join(
    f"\n  - {{name: m{at}, size: 1, operands: [I], read_pj: 1, write_pj: 1, serves: [], ports: [{{width_bits: 8}}]}}"
    for at in range(25)
)

WIDTHS = {
    "bits-of-zero": "bits: 0",
    "bits-too-many": "bits: 65",
    "bits-in-words": "bits: int8",
    "sums-without-elements": "sum_bits: 32",
    "sums-narrower-than-elements": "bits: 16\nsum_bits: 8",
    "sums-of-part-of-a-bit": "bits: 8\nsum_bits: 20.5",
}
AXIS_OPERANDS = {
    "axis-of-an-unknown-operand": "operands: [I, X]",
    "axis-of-no-operand": "operands: []",
    "axis-of-an-operand-twice": "operands: [W, W]",
}


@pytest.mark.parametrize("name", [*WIDTHS, *AXIS_OPERANDS])
def test_a_mistake_in_what_units_take_is_told(name, golden):
    """In one line: widths of elements and of sums, and operands of an axis."""
    text = TREE.replace("mac_pj: 0.5", f"mac_pj: 0.5\n{WIDTHS[name]}") if name in WIDTHS else ""
    with pytest.raises(InputError) as caught:
        parse_tree(text or TREE.replace("loops: [C]", AXIS_OPERANDS[name]), "npu.yaml")
    assert str(caught.value).count("\n") == 0
    golden(f"trees/{name}.txt", f"{caught.value}\n")


def test_a_file_says_how_wide_elements_are_and_what_an_axis_takes():
    """Sums are as wide as elements unless the file says more."""
    text = TREE.replace("mac_pj: 0.5", "mac_pj: 0.5\nbits: 8").replace("loops: [C]", "loops: [C, K], operands: [I, W]")
    tree = parse_tree(text, "npu.yaml")
    assert (tree.bits, tree.sum_bits) == (8, 8)
    assert tree.axes[0] == Axis("rows", 8, ("C", "K"), ("I", "W"))
    assert "may be spread: C, K, if loops of I and W alone along rows" in describe_tree(tree)
    wider = parse_tree(text.replace("bits: 8", "bits: 8\nsum_bits: 24"), "npu.yaml")
    assert (wider.bits, wider.sum_bits) == (8, 24)
    assert "8 bits an element, 24 of a sum that is added to" in describe_tree(wider)


# Each is one mistake of a user, and the one line about it.
MISTAKES: dict[str, tuple[str, str]] = {
    "empty-file": (
        "",
        "expected a mapping with the keys name, description, clock, mac_pj, mac_area_mm2, bits, "
        "sum_bits, latches, reads_first_sums, moves_boxes, axes, memories, dma, units, "
        "cores, link, setup, granule_bytes, found nothing",
    ),
    "only-a-comment": ("# to do\n", "expected a mapping with the keys name"),
    "a-list": (
        "- name: npu\n",
        "expected a mapping with the keys name, description, clock, mac_pj, mac_area_mm2, bits, "
        "sum_bits, latches, reads_first_sums, moves_boxes, axes, memories, dma, units, "
        "cores, link, setup, granule_bytes, found a list",
    ),
    "corrupt": (TREE.replace("axes:", "axes: ]"), "line 4, column 7: not valid YAML"),
    "a-cycle-by-alias": (
        TREE.replace("memories:", "memories: &all") + "  - *all\n",
        "expected plain values, found an anchor '&all'",
    ),
    "no-memories": (
        TREE[: TREE.index("memories:")] + "memories: []\n",
        "memories: expected a list of memories, at least one, found an empty list",
    ),
    "memories-by-name": (
        TREE[: TREE.index("memories:")] + "memories: {rf: {}}\n",
        "is in the form that machine files had before memories were a list; write memories as a list",
    ),
    "a-memory-nobody-reaches": (
        TREE.replace("operands: [O]", "operands: []"),
        "memories.rf.operands: expected at least one of the operands, found an empty list; nothing reaches",
    ),
    "a-memory-without-ports": (
        TREE.replace("ports: [{width_bits: 256, granule_bits: 64}]", "ports: []"),
        "memories.buffer.ports: expected a list of ports, at least one, found an empty list",
    ),
    "a-fan-out-without-loops": (
        TREE.replace("loops: [C]", "loops: []"),
        "rows.loops: expected at least one of the loops, found an empty list; leave loops out where any may spread",
    ),
    "capacity-of-zero": (
        TREE.replace("size: 64 KiB", "size: 0 KiB"),
        "memories.buffer.size: expected a size above 0 in bytes, such as 2048, 64 KiB or 16 b (bits), at most "
        "1 PiB, found '0 KiB'",
    ),
    "capacity-negative": (
        TREE.replace("size: 64 KiB", "size: -1"),
        "memories.buffer.size: expected a size above 0 in bytes, such as 2048, 64 KiB or 16 b (bits), found -1",
    ),
    "capacity-of-too-many-digits": (
        TREE.replace("size: 64 KiB", "size: 100000000000000000000000000"),
        "memories.buffer.size: expected a size above 0 in bytes, such as 2048, 64 KiB or 16 b (bits), at most 1 PiB, ",
    ),
    "clock-of-too-many-digits": (
        TREE + "clock: 100000000000000000000000000\n",
        "such as 200_000_000, 940 MHz or 1.05 GHz, a whole number of hertz and at most 1000 GHz, found 1000",
    ),
    "part-of-a-bit": (
        TREE.replace("size: 64 KiB", "size: 0.3 b"),
        "memories.buffer.size: expected a size above 0 in bytes, such as 2048, 64 KiB or 16 b (bits), a whole "
        "number of bits",
    ),
    "more-than-20-levels": (DEEP, "I: lies in 25 memories one above another; expected at most 20"),
    "unknown-axis": (
        TREE.replace("serves: [rows]", "serves: [depth]"),
        "rf: serves 'depth', which is no axis; known: columns, rows",
    ),
    "two-memories-of-one-name": (
        TREE.replace("name: rf", "name: buffer"),
        "buffer: is there twice; names tell memories apart",
    ),
    "two-axes-of-one-name": (
        TREE.replace("size: 16}", "size: 16}\n  - {name: rows, size: 2}"),
        "rows: is there twice; names tell axes apart",
    ),
    "two-ports-of-one-name": (
        TREE.replace("{name: out", "{name: in"),
        "rf: has two ports called in; names tell ports apart",
    ),
    "a-key-twice": (
        TREE.replace("mac_pj: 0.5", "mac_pj: 0.5\nmac_pj: 0.6"),
        "mac_pj: written twice, in lines 3 and 4; keep one",
    ),
    "energy-negative": (
        TREE.replace("read_pj: 5\n", "read_pj: -5\n"),
        "memories.buffer.read_pj: expected a number of picojoules of at least 0, found -5",
    ),
    "energy-nan": (
        TREE.replace("read_pj: 5\n", "read_pj: .nan\n"),
        "memories.buffer.read_pj: expected a number of picojoules of at least 0, found '.nan'",
    ),
    "energy-infinite": (
        TREE.replace("read_pj: 5\n", "read_pj: inf\n"),
        "memories.buffer.read_pj: expected a number of picojoules of at least 0, found 'inf'",
    ),
    "energy-huge": (
        TREE.replace("read_pj: 5\n", "read_pj: 1e99\n"),
        "memories.buffer.read_pj: expected at most 1000000000 picojoules, found 1e99",
    ),
    "energy-of-three-digits": (
        TREE.replace("read_pj: 5\n", "read_pj: 1.0e+300\n"),
        "memories.buffer.read_pj: expected at most 1000000000 picojoules, found 1.0e+300",
    ),
    "area-negative": (
        TREE.replace("buffers: 2", "area_mm2: -1"),
        "memories.buffer.area_mm2: expected a number of square millimetres of at least 0, found -1",
    ),
    "width-huge": (
        TREE.replace("width_bits: 64}", "width_bits: 99999999999}"),
        "memories.dram.ports[0].width_bits: expected at most 16777216 bits",
    ),
    "axis-huge": (
        TREE.replace("size: 16}", "size: 99999999999}"),
        "columns.size: expected at most 16777216 units",
    ),
    "units-huge": (
        TREE.replace("size: 8,", "size: 8388608,").replace("size: 16}", "size: 8388608}"),
        "axes: expected at most 16,777,216 units together, found 70,368,744,177,664",
    ),
    "clock-of-zero": (
        TREE.replace("mac_pj: 0.5", "mac_pj: 0.5\nclock: 0"),
        "clock: expected a clock above 0 in hertz, such as 200_000_000, 940 MHz or 1.05 GHz",
    ),
    "clock-without-unit": (
        TREE.replace("mac_pj: 0.5", "mac_pj: 0.5\nclock: 1.05 G"),
        "clock: expected a clock above 0 in hertz",
    ),
    "bandwidth-without-unit": (
        TREE.replace("{width_bits: 64}", "{width_bits: 64, bandwidth: 34}"),
        "dram.ports[0].bandwidth: expected a bandwidth above 0, such as 32 B/cycle, 12.5 b/cycle or 34.1 GB/s, "
        "found 34",
    ),
    "bandwidth-of-zero": (
        TREE.replace("{width_bits: 64}", "{width_bits: 64, bandwidth: 0 B/cycle}"),
        "memories.dram.ports[0].bandwidth: expected a bandwidth above 0",
    ),
    "bandwidth-a-second-without-clock": (
        TREE.replace("{width_bits: 64}", "{width_bits: 64, bandwidth: 34 GB/s}"),
        "memories.dram.ports[0].bandwidth: is said a second, and the machine has no clock; "
        "write clock, such as 1 GHz, or a rate a cycle",
    ),
    "bandwidth-huge": (
        TREE.replace("{width_bits: 64}", "{width_bits: 64, bandwidth: 99 TB/cycle}"),
        "memories.dram.ports[0].bandwidth: expected at most 16,777,216 bits a cycle, found 792,000,000,000,000; "
        "look at the clock",
    ),
    "description-of-two-lines": (
        TREE.replace("mac_pj: 0.5", 'mac_pj: 0.5\ndescription: "one\\ntwo"'),
        "description: expected one line of at most 200 characters",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_of_a_user_has_one_clear_line(name):
    """Where, what was found and what would be right; nothing else on other lines."""
    text, words = MISTAKES[name]
    assert text != TREE
    with pytest.raises(InputError) as refused:
        parse_tree(text, "npu.yaml")
    (line,) = str(refused.value).splitlines()
    assert line.startswith("npu.yaml: ")
    assert words in line


def test_an_error_does_not_grow_without_bounds():
    """Of very many mistakes the first are shown, and how many more there are."""
    text = TREE + "".join(f"extra{at}: 1\n" for at in range(1000))
    with pytest.raises(InputError) as refused:
        parse_tree(text, "npu.yaml")
    lines = str(refused.value).splitlines()
    assert len(lines) == 101
    assert lines[-1] == "npu.yaml: and 900 more mistakes"


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("1.0499999999999998 b", Fraction("1.0499999999999998")),
        ("1e-3 b", Fraction(1, 1000)),
        ("2.5E2 B", Fraction(2000)),
        ("0.00000000000000000001 b", Fraction(1, 10**20)),
    ],
)
def test_a_bandwidth_is_any_positive_number(text, bits):
    """Of as many digits as programs print."""
    tree = parse_tree(TREE.replace("{width_bits: 64}", f"{{width_bits: 64, bandwidth: {text}/cycle}}"), "npu.yaml")
    assert tree.memories[-1].ports[0].bits_per_cycle == bits


def test_clock_rates_sizes_and_areas_have_units():
    """A rate a second is divided by the clock, exactly; what says no rate moves its width in a cycle."""
    text = (
        TREE.replace("mac_pj: 0.5", "mac_pj: 0.5\nclock: 1.05 GHz\nmac_area_mm2: 0.0005\ndescription: An array")
        .replace("{width_bits: 256, granule_bits: 64}", "{width_bits: 256, bandwidth: 34.1 GB/s}")
        .replace("{width_bits: 64}", "{width_bits: 64, bandwidth: 12.5 b/cycle}")
        .replace("size: 64 KiB", "size: 1.5 KiB\n    area_mm2: 0.25")
    )
    tree = parse_tree(text, "npu.yaml")
    rf, buffer, dram = tree.memories
    assert (tree.clock_hz, tree.mac_area_mm2, tree.description) == (1_050_000_000, 0.0005, "An array")
    assert buffer.size_bits == 1536 * 8
    assert buffer.area_mm2 == 0.25
    assert buffer.ports[0].bits_per_cycle == Fraction(34_100_000_000 * 8, 1_050_000_000)
    assert dram.ports[0].bits_per_cycle == Fraction(25, 2)
    assert rf.ports[0].bits_per_cycle == 16
    assert tree.instances(rf) == 16
    page = describe_tree(tree)
    assert "port port-1: 256 bits an access; 259.81 b/cycle = 34.1 GB/s; everything" in page
    assert "  buffer  0.25 mm2" in page
    assert "  units   0.064 mm2" in page


def test_damaged_files_are_trees_or_errors():
    """Pieces removed, doubled, swapped and overwritten: never anything else, and nothing without the file's name."""
    seed = random.Random("damaged trees")
    refused: list[str] = []
    for _ in range(120):
        lines = preset_text(seed.choice(preset_names())).splitlines()
        for _ in range(seed.randint(1, 3)):
            at, other = seed.randrange(len(lines)), seed.randrange(len(lines))
            words = lines[at].split(" ")
            words[seed.randrange(len(words))] = seed.choice(
                ["-1", "0", "1e999", "[]", "{", "~", "'", "é", "x" * 300, ""]
            )
            lines[at] = seed.choice([" ".join(words), lines[other], "", lines[at] + lines[other], lines[at][1:]])
        try:
            tree = parse_tree("\n".join(lines), "damaged.yaml")
        except InputError as error:
            refused.append(str(error))
        else:
            assert describe_tree(tree)
            assert tree_svg(tree)
    assert 30 < len(refused) < 120
    assert all(line.startswith("damaged.yaml: ") for one in refused for line in one.splitlines())
