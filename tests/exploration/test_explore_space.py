"""What an exploration varies: values, places of a machine's file, designs and their numbers."""

import pytest

from tests.helpers.exploring import toy_space
from tilestitch.base.errors import InputError
from tilestitch.exploration.parameters import SHORT_NAMES
from tilestitch.exploration.values import values_of
from tilestitch.hardware.accelerator import Level
from tilestitch.hardware.load import load_machine, machine_text, parse_machine
from tilestitch.hardware.preset_files import chip_names
from tilestitch.hardware.yaml_tree import read_tree, tree_text

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    "text, values",
    [
        ("4", ("4",)),
        ("4, 8,0.5", ("4", "8", "0.5")),
        ("64..1024*2", ("64", "128", "256", "512", "1024")),
        ("1..100*10", ("1", "10", "100")),
        ("3..20*2", ("3", "6", "12")),
        ("2..8+2", ("2", "4", "6", "8")),
        ("0..2", ("0", "1", "2")),
        ("1,4..16*2,3", ("1", "4", "8", "16", "3")),
        ("80/3,weight_stationary", ("80/3", "weight_stationary")),
    ],
)
def test_values_are_lists_and_ranges(text, values):
    assert values_of(text, "x") == values


@pytest.mark.parametrize(
    "text", ["", "4,,8", "4,8,4", "2..4,3", "8..2", "1..4*1", "0..4*2", "1..4+0", "1..b", "1...4", "1..1001", "-1..4"]
)
def test_values_that_are_none_are_refused(text):
    with pytest.raises(InputError, match=r"^--vary x: "):
        values_of(text, "--vary x")


@pytest.mark.parametrize("name", chip_names())
def test_a_machine_written_again_is_the_same(name):
    """Without its comments."""
    text, where = machine_text(name)
    again = tree_text(read_tree(text, where, []))
    assert parse_machine(again, where) == load_machine(name)
    assert "#" not in again
    assert tree_text(read_tree(again, where, [])) == again


def test_text_that_yaml_would_read_as_something_else_is_quoted():
    """A description may hold anything."""
    for text in (
        "a: b",
        "- a",
        "#a",
        "a #b",
        "'",
        '"',
        "{",
        "[1]",
        "*a",
        "&a",
        "!a",
        "%",
        "@",
        "`",
        "\u2603 \U0001f600",
        "\\",
    ):
        tree = {"description": read_tree("x", "", []), "list": [[], {}, [read_tree("1", "", [])]]}
        tree["description"] = type(tree["description"])(text, quoted=True)
        assert read_tree(tree_text(tree), "x", []) == tree


def test_designs_are_counted_like_digits():
    """The last parameter's value counts fastest; number and choice are inverse."""
    found = toy_space("memories.lb.size=1024,2048,4096", "bandwidth=4,8", "clusters=1,2,4,8")
    assert found.size == 24
    assert [found.choice(design) for design in (0, 1, 4, 8, 23)] == [
        (0, 0, 0),
        (0, 0, 1),
        (0, 1, 0),
        (1, 0, 0),
        (2, 1, 3),
    ]
    assert [found.number(found.choice(design)) for design in range(24)] == list(range(24))
    assert found.values(23) == {"memories.lb.size": "4096", "bandwidth": "8", "clusters": "8"}


def test_a_design_is_the_machine_with_its_values():
    """And nothing else is changed."""
    found = toy_space("memories.lb.size=1024,32768", "cores=1,4", "granule_bytes=512,4096")
    machine = parse_machine(found.machine_text(6), "x")
    local = machine.memory(Level.LB)
    assert local is not None
    assert (local.size_bytes, len(machine.cores), machine.granule_bytes) == (32768, 4, 512)
    usual = toy_space("clusters=2")
    assert parse_machine(usual.machine_text(0), "x") == load_machine("toy")


@pytest.mark.parametrize(
    "name, value, attribute, expected",
    [
        ("rf", "1024", "register_bytes", 1024),
        ("pes", "256", "rows", 16),
        ("pes", "128", "columns", 16),
        ("pes", "7", "columns", 7),
        ("pes", "12x14", "rows", 12),
        ("networks", "2", "networks", 2),
        ("width", "4", "second_bytes_per_cycle", 4),
        ("width", "4", "reduction_bytes_per_cycle", 4),
    ],
)
def test_short_names_stand_for_places_of_an_array(name, value, attribute, expected):
    found = toy_space(f"{name}={value}", machine="eyeriss")
    array = parse_machine(found.machine_text(0), "x").cores[0].array
    assert array is not None
    assert getattr(array, attribute) == expected


def test_short_names_stand_for_places_of_memories_and_matrix_units():
    """The scratchpad is the local buffer, or what is nearest to it."""
    found = toy_space("spm=1024", "bandwidth=80/3", "pes=64")
    assert [one.stands_for for one in found.parameters] == [
        "memories.lb.size",
        "memories.ddr.bandwidth_bytes_per_cycle",
        "units.mme.k, units.mme.n",
    ]
    matrix = parse_machine(found.machine_text(0), "x").cores[0].matrix
    assert matrix is not None
    assert (matrix.k, matrix.n) == (8, 8)
    assert {"cores", "clusters", "pes", "rf", "spm", "networks", "width", "bandwidth"} == set(SHORT_NAMES)


def test_as_many_elements_as_there_are_keep_their_shape():
    """The toy's matrix units are 16 x 8; another number is nearly a square."""
    shapes = []
    for design in range(2):
        matrix = parse_machine(toy_space("pes=128,256").machine_text(design), "x").cores[0].matrix
        assert matrix is not None
        shapes.append((matrix.k, matrix.n))
    assert shapes == [(16, 8), (16, 16)]


def test_a_number_is_one_text_however_it_is_written():
    """Otherwise a machine would be two for the store."""
    texts = {
        toy_space(f"memories.lb.size={value}").machine_text(0) for value in ("65536", "65_536", "64 KiB", "524288 b")
    }
    assert texts == {toy_space("clusters=2").machine_text(0)}


def test_the_bandwidth_is_that_of_the_link_too_where_both_are_one():
    """Eyeriss has one number for both, the toy has two."""
    machine = parse_machine(toy_space("bandwidth=16", machine="eyeriss").machine_text(0), "x")
    assert machine.ddr.bandwidth_bytes_per_cycle == machine.link.bandwidth_bytes_per_cycle == 16
    machine = parse_machine(toy_space("bandwidth=16").machine_text(0), "x")
    assert (machine.ddr.bandwidth_bytes_per_cycle, machine.link.bandwidth_bytes_per_cycle) == (16, 64)


def test_energies_grow_with_sizes_where_that_is_asked_for():
    """dMazeRunner's tables: scratchpads of 32, 64 and 128 KiB cost 6, 9 and 13.5 pJ a word, registers in proportion."""
    for size, read in ((32768, 3.0), (65536, 4.5), (131072, 6.75)):
        found = toy_space(f"spm={size}", "rf=512,128", machine="dmazerunner-256", scale_energy=True)
        machines = [parse_machine(found.machine_text(design), "x") for design in (0, 1)]
        local = machines[0].memory(Level.LB)
        assert local is not None
        assert local.read_pj_per_byte == pytest.approx(read)
        assert local.write_pj_per_byte == pytest.approx(read)
        arrays = [machine.cores[0].array for machine in machines]
        assert [array.register_pj_per_byte for array in arrays if array] == pytest.approx([0.48, 0.12])
    plain = toy_space("spm=32768", machine="dmazerunner-256")
    local = parse_machine(plain.machine_text(0), "x").memory(Level.LB)
    assert local is not None
    assert local.read_pj_per_byte == 6.75


MISTAKES = (
    ("toy", "memories.lb.size_bytes=1024"),
    ("toy", "memory.lb.size=1024"),
    ("toy", "memories.sram.size=1024"),
    ("toy", "memories.lb=1024"),
    ("toy", "axes=1"),
    ("toy", "axes.2.size=1"),
    ("toy", "axes.first.size=1"),
    ("toy", "clock.hz=1"),
    ("toy", "=1"),
    ("toy", "memories..size=1"),
    ("toy", "memories.lb.size=1024,lots"),
    ("toy", "memories.lb.size=0"),
    ("toy", "units.mme.dataflow=weight_stationary,row_stationary"),
    ("toy", "units.mme.rates={float16: 1}"),
    ("toy", "rf=512"),
    ("toy", "networks=2"),
    ("toy", "pes=many"),
    ("toy", "pes=0"),
    ("toy", "bandwith=4"),
    ("toy", "spm=1024 memories.lb.size=2048"),
    ("toy", "bandwidth=4 bandwidth=8"),
    ("toy", "scale spm=1024 memories.lb.read_pj_per_byte=1,2"),
    ("ipu-mk1", "memories.gb.size=1024"),
)


def test_messages_of_what_cannot_be_varied(golden):
    """Each names the option, what was found, and what would be right."""
    lines = []
    for machine, words in MISTAKES:
        varied = [word for word in words.split() if word != "scale"] if "{" not in words else [words]
        with pytest.raises(InputError) as error:
            toy_space(*varied, machine=machine, scale_energy=words.startswith("scale "))
        lines.append(f"{machine}: {words}\n  {error.value}")
    golden("explore-space.txt", "\n".join(lines) + "\n")
