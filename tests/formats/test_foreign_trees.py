"""Hierarchies of Timeloop and AccelForge as machine trees, and what of them a tree cannot say."""

from dataclasses import replace

import pytest

from tests.helpers.foreign_trees import ACCELFORGE, ERT, FLAT, SUBTREES, SUBTREES_ERT, TIMELOOP
from tilestitch.base.errors import InputError
from tilestitch.formats.accelforge.tree_machine import accelforge_tree
from tilestitch.formats.foreign_price import foreign_price
from tilestitch.formats.foreign_tree import MAX_BITS, UNLIMITED, energy_table
from tilestitch.formats.timeloop.tree_machine import timeloop_tree
from tilestitch.hardware.tree import Flow
from tilestitch.ir.loop_nest import product
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.spatial import best_spread

BITS = {"input": 8, "weight": 8, "output": 16}


def test_timeloop_s_nodes_are_memories_and_fan_outs():
    """Bypasses, registers side by side, meshes of one and of two dimensions, rates, widths, and energies of an ERT."""
    found = timeloop_tree(TIMELOOP, "small.yaml", energy_table(ERT, "ert.yaml"))
    tree = found.tree
    assert (tree.name, tree.mac_pj, tree.clock_hz) == ("small", 0.21, 500_000_000)
    assert [(axis.name, axis.size) for axis in tree.axes] == [("columns", 4), ("PE_X", 2), ("PE_Y", 3)]
    assert [(one.name, one.operands, tree.instances(one)) for one in tree.memories] == [
        ("sums", ("Outputs",), 24),
        ("weights", ("Weights",), 24),
        ("inputs", ("Inputs",), 24),
        ("buffer", ("Inputs", "Outputs"), 1),
        ("DRAM", ("Inputs", "Weights", "Outputs"), 1),
    ]
    sums, weights, _, buffer, dram = tree.memories
    assert (sums.size_bits, sums.buffers, sums.read_pj, sums.write_pj) == (96, 2, 0.4, 0.5)
    assert (weights.read_pj, weights.write_pj) == (0.1, 0.25)
    assert (buffer.size_bits, dram.size_bits) == (2048 * 64, MAX_BITS)
    rates = [buffer.port("Inputs", flow).bits_per_cycle for flow in (Flow.FEED, Flow.FILL)]
    assert rates == [128, 64]
    assert dram.port("Weights", Flow.FEED).bits_per_cycle == UNLIMITED
    assert (buffer.ports[0].width_bits, buffer.ports[0].granule_bits) == (64, 8)
    assert found.bits == {"Inputs": (8, 8), "Weights": (8, 8), "Outputs": (24, 8)}


def test_timeloop_s_constraints_are_loops_along_axes_and_steps_at_memories():
    found = timeloop_tree(TIMELOOP, "small.yaml", energy_table(ERT, "ert.yaml"))
    assert found.only == {"columns": ("C", "M")}
    assert found.steps == {
        ("inputs", "M"): (1, 1),
        ("inputs", "C"): (1, 2),
        ("sums", "M"): (1, 1),
        ("sums", "C"): (1, 1),
    }


def test_a_loop_of_layers_that_no_constraint_names_may_be_spread_where_no_split_says_otherwise():
    text = TIMELOOP.replace("permutation: [P, R, C, M], factors: [P=1, R=1], split: 4", "factors: [P=1, R=1]")
    found = timeloop_tree(text, "small.yaml", energy_table(ERT, "ert.yaml"), ["C", "M", "P", "R", "Q"])
    assert found.only == {"columns": ("M", "C", "Q")}


def test_the_split_of_a_mesh_divides_its_loops_between_x_and_y():
    text = TIMELOOP.replace(
        "spatial: {meshX: 2, meshY: 3}}",
        "spatial: {meshX: 2, meshY: 3}, constraints: {spatial: {permutation: RCPM, factors: C=2 R=1 M=3, split: 2}}}",
    )
    found = timeloop_tree(text, "small.yaml", energy_table(ERT, "ert.yaml"))
    assert found.only == {"columns": ("C", "M"), "PE_X": ("C",), "PE_Y": ("P", "M")}
    assert found.factors == {("PE_X", "C"): 2, ("PE_Y", "M"): 3}


def test_timeloop_s_subtrees_are_the_same_kind_of_tree():
    """How many there are of each in all makes fan-outs; older names of attributes; an ERT in the file itself."""
    tree = timeloop_tree(SUBTREES + SUBTREES_ERT, "old.yaml").tree
    assert [(axis.name, axis.size) for axis in tree.axes] == [("buffer_mesh_X", 4), ("buffer_mesh_Y", 3)]
    assert [(one.name, tree.instances(one), one.size_bits) for one in tree.memories] == [
        ("registers", 12, 256),
        ("buffer", 1, 65536),
        ("DRAM", 1, MAX_BITS),
    ]
    assert tree.mac_pj == 2.2


def test_instances_entries_and_clusters_of_version_0_2_are_those_of_timeloop():
    """`entries` are words, not rows; a cluster shares the width of an access, and each of it has its part of a row."""
    found = timeloop_tree(FLAT, "flat.yaml")
    assert [(axis.name, axis.size) for axis in found.tree.axes] == [("buffer_mesh", 2), ("sums_mesh", 4)]
    assert [(one.name, one.operands, one.size_bits) for one in found.tree.memories] == [
        ("weights", ("Weights",), 8 * 16),
        ("sums", ("Outputs",), 16),
        ("buffer", ("Inputs", "Outputs"), 64 * 16),
        ("DRAM", ("Inputs", "Weights", "Outputs"), MAX_BITS),
    ]


def test_constraints_listed_under_their_target_are_those_of_files_of_constraints():
    found = timeloop_tree(FLAT, "flat.yaml")
    assert found.factors == {("buffer_mesh", "M"): 2}
    assert found.only["buffer_mesh"] == ("M",)
    assert found.steps == {("buffer", "C"): (1, 1)}
    assert found.orders == {"buffer": ("C", "P", "M")}


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("name: mac, class: intmac", "name: mac, class: xy_network", "found xy_network"),
        ("datawidth: 24, multiple_buffering: 2", "width: 24", "written twice"),
        ("multiple_buffering: 2", "multiple_buffering: 1.5", "expected 1 or 2 buffers"),
        ("depth: 2048, width: 64, datawidth: 8", "depth: 2048, width: 4, datawidth: 8", "expected a width of one word"),
        ("depth: 2048, width: 64", "width: 64", "the attribute depth is missing"),
        ("depth: 2048, width: 64", "depth: 2048, entries: 9, width: 64", "expected one of depth, entries and sizeKB"),
        ("spatial: {meshX: 4}", "spatial: {meshX: 0}", "along a mesh"),
        ("architecture:", "sparse_optimizations: {}\narchitecture:", "sparse data has no model"),
        ("depth: 8, width: 8", "reduction_supported: false, depth: 8, width: 8", "every fan-out adds up"),
        ("  - !Component {name: mac, class: intmac}", "", "expected a multiply-accumulate at the end"),
        ("split: 4", "splitt: 4", "spatial.splitt: unknown field; the closest is 'split'"),
        ("dataspace: {keep: [Weights]}", "dataspace: {kep: [Weights]}", "dataspace.kep: unknown field; the closest is"),
        ("temporal: {factors: [M=1, C<=2]}", "temporal: {factor: [M=1]}", "temporal.factor: unknown field; the close"),
        ("split: 4", "no_link_transfer: [Weights]", "not supported: the search does not keep to it; remove it"),
    ],
)
def test_what_a_tree_cannot_say_of_timeloop_is_refused_with_its_place(old, new, message):
    assert old in TIMELOOP
    with pytest.raises(InputError, match=message) as refused:
        timeloop_tree(TIMELOOP.replace(old, new), "small.yaml", energy_table(ERT, "ert.yaml"))
    assert str(refused.value).startswith("small.yaml: ")
    assert "\n" not in str(refused.value)


def test_what_a_constraint_of_timeloop_leaves_empty_says_nothing():
    more = TIMELOOP.replace("split: 4", "split: 4, no_link_transfer: []")
    table = energy_table(ERT, "ert.yaml")
    assert timeloop_tree(more, "small.yaml", table) == timeloop_tree(TIMELOOP, "small.yaml", table)


def test_a_listed_constraint_of_timeloop_with_an_unknown_field_is_refused():
    listed = "architecture_constraints: {targets: [{target: columns, type: spatial, factor: [C=2]}]}"
    with pytest.raises(InputError, match=r"targets\[0\]\.factor: unknown field; the closest is 'factors'"):
        timeloop_tree(TIMELOOP + listed, "small.yaml", energy_table(ERT, "ert.yaml"))


def test_no_energy_is_invented():
    with pytest.raises(InputError, match=r"DRAM: the file has no energies; write --energies FILE"):
        timeloop_tree(TIMELOOP, "small.yaml")
    table = energy_table(ERT.replace("system.buffer[1..1]", "system.other[1..1]"), "ert.yaml")
    with pytest.raises(InputError, match=r"buffer: the table of energies has no read of it; it has DRAM, other"):
        timeloop_tree(TIMELOOP, "small.yaml", table)
    with pytest.raises(InputError, match="the field ERT is missing"):
        energy_table("tables: []", "ert.yaml")


def test_energies_of_attributes_are_timeloop_s_own():
    text = SUBTREES
    for name, pj in (
        ("word-bits: 16", "vector-access-energy: 3, word-bits: 16"),
        ("datawidth: 16", "energy-per-op: 2"),
    ):
        text = text.replace(name, pj)
    tree = timeloop_tree(text, "old.yaml").tree
    assert {(one.read_pj, one.write_pj) for one in tree.memories} == {(3.0, 3.0)}
    assert tree.mac_pj == 2.0


def test_accelforge_s_nodes_are_memories_and_fan_outs():
    """Expressions, sets of tensors, joules and seconds; a unit that multiplies, and one that does not."""
    tree = accelforge_tree(ACCELFORGE, "small.yaml", bits=BITS).tree
    assert (tree.mac_pj, tree.clock_hz) == (0.25, 10**9)
    assert [(axis.name, axis.size) for axis in tree.axes] == [("PE_rows", 8), ("PE_columns", 4)]
    assert [(one.name, one.operands, one.size_bits, one.read_pj, one.write_pj) for one in tree.memories] == [
        ("Register", ("W",), 8, 0.0, 0.0),
        ("Buffer", ("I", "O"), 524_288, 1.0, 2.0),
        ("Main", ("I", "W", "O"), MAX_BITS, 7.0, 7.0),
    ]
    _, buffer, main = tree.memories
    assert [(port.width_bits, port.bits_per_cycle) for port in buffer.ports] == [(16, 1024), (1, 32)]
    assert [(port.width_bits, port.bits_per_cycle) for port in main.ports] == [(1, 128)]
    assert buffer.area_mm2 == 2.0


def test_a_product_on_accelforge_s_machine_costs_what_its_evaluator_says():
    """1,085,440 pJ of 64 x 64 x 64 in 8 bits: measured with AccelForge 1.0.467, docs/tree-formats.md."""
    tree = accelforge_tree(ACCELFORGE, "small.yaml", bits={"input": 8, "weight": 8, "output": 8}).tree
    nest = product("product", m=64, n=64, k=64)
    nest = replace(
        nest,
        reads=tuple(replace(one, element_bits=8) for one in nest.reads),
        write=replace(nest.write, element_bits=8),
    )
    bare = PlacedNest(nest, 8, ("I", "W", "O"), (), tree)
    found = best_spread(bare).found
    assert found.is_proven
    theirs = foreign_price("AccelForge", found.placed, found.mapping)
    assert theirs.energy_pj == pytest.approx(1_085_440, rel=1e-12)
    assert found.price.energy_pj == pytest.approx(1_087_488, rel=1e-12)  # 4,096 first sums are read as well


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("!Container", "!Toll", "!Toll is not supported"),
        ("!Container", "!Contaner", "found a tag '!Contaner'; the closest is '!Container'"),
        ("!Container", "!!python/name:os.system", "found a tag '!!python/name:os.system'; remove it"),
        ("1024 * 8 * 64", "1024 * __import__('os').getpid()", "expected a number made with"),
        ("1024 * 8 * 64", "2 ** 10", "another operator"),
        ("1024 * 8 * 64", "1 / 0", "not such an expression"),
        ("fanout: 4", "fanout: 4.5", "a whole number of 1"),
        ("input | output", "input | filters", "expected some of input, weight, output"),
        ("size: inf\n    actions:", "size: inf\n    component_class: LPDDR4\n    actions2:", "unknown field"),
        ("energy: 1e-12, ", "", "the file has no energies"),
        ("len(All) == 3", "True", "len"),
        ("len(All) == 3", "len(All) == 2", "expected a !Compute"),
        ("max(a.n_calls / a.throughput for a in actions)", "read_actions / 3", "total_latency"),
    ],
)
def test_what_a_tree_cannot_say_of_accelforge_is_refused_with_its_place(old, new, message):
    assert old in ACCELFORGE
    with pytest.raises(InputError, match=message) as refused:
        accelforge_tree(ACCELFORGE.replace(old, new), "small.yaml", bits=BITS)
    assert str(refused.value).startswith("small.yaml: ")
    assert "\n" not in str(refused.value)


def test_a_size_in_values_needs_layers_that_agree():
    with pytest.raises(InputError, match="the layers do not agree on the bits of weight"):
        accelforge_tree(ACCELFORGE, "small.yaml")
