"""Mappings on trees as files of other programs: what is read back costs the same."""

import re
from dataclasses import replace
from fractions import Fraction

import pytest

from tests.helpers.foreign_trees import ERT, PROBLEM, TIMELOOP
from tests.helpers.zigzag_trees import placed as zigzag_placed
from tilestitch.base.errors import InputError
from tilestitch.formats.accelforge.written_tree import accelforge_tree_files
from tilestitch.formats.foreign_file import yaml_file
from tilestitch.formats.foreign_tree import energy_table
from tilestitch.formats.timeloop.nest import timeloop_problem
from tilestitch.formats.timeloop.tree_machine import timeloop_tree
from tilestitch.formats.timeloop.written_tree import timeloop_tree_files
from tilestitch.formats.zigzag.tree_machine import zigzag_tree
from tilestitch.formats.zigzag.tree_mapping import chosen_mapping, placed_layer, zigzag_tree_mappings
from tilestitch.formats.zigzag.tree_workload import zigzag_tree_layers
from tilestitch.formats.zigzag.written_tree import zigzag_tree_files
from tilestitch.mapping.tree.chain import TreeMapping, price
from tilestitch.mapping.tree.placed import PlacedNest, Unrolled
from tilestitch.mapping.tree.search import best_mapping
from tilestitch.mapping.tree.tables import Sums

PAIRS = (("tpu_like", "conv2_2"), ("eyeriss_like", "conv2_2"), ("edge_tpu_like", "dw"), ("tpu_like", "fc"))


def _on_timeloop_s_machine(even: bool) -> tuple[PlacedNest, TreeMapping]:
    """A layer on the small machine: M along the columns, C and R in each of them; even tiles, or uneven ones."""
    text = TIMELOOP.replace("width: 24, datawidth: 24", "width: 8, datawidth: 8")  # one word everywhere
    tree = timeloop_tree(text, "small.yaml", energy_table(ERT, "ert.yaml")).tree
    nest = _in_bytes(timeloop_problem(PROBLEM, "problem.yaml"))
    unrolled = (Unrolled("columns", 1, Fraction(4)), Unrolled("PE_X", 0, Fraction(2)), Unrolled("PE_Y", 2, Fraction(3)))
    placed = PlacedNest(nest, 8, ("Inputs", "Weights", "Outputs"), unrolled, tree)
    loops = ((0, 4), (3, 4), (1, 4), (3, 3), (0, 2))  # C 4, P 4, M 4, P 3, C 2
    cuts = ((1, 4, 5), (1, 5), (1, 4, 5)) if even else ((1, 1, 5), (3, 5), (1, 4, 5))
    return placed, TreeMapping(loops, cuts)


def _in_bytes(nest):
    reads = tuple(replace(array, element_bits=8) for array in nest.reads)
    return replace(nest, reads=reads, write=replace(nest.write, element_bits=8))


@pytest.mark.parametrize("machine, layer", PAIRS)
def test_zigzag_s_files_are_the_same_nest_on_memories_as_large_as_the_tiles(machine, layer):
    """Read back: the same steps and spread, the energy of the mapping, and nothing larger fits where it was cut."""
    nest = zigzag_placed(machine, machine, layer)
    found = best_mapping(nest, Sums.FULL)
    files = zigzag_tree_files(nest, found.mapping)
    tree, _ = zigzag_tree(files["accelerator.yaml"], "accelerator.yaml")
    (read,), _ = zigzag_tree_layers(files["workload.yaml"], "workload.yaml")
    entries, _ = zigzag_tree_mappings(files["mapping.yaml"], "mapping.yaml")
    (back,), _ = placed_layer(read, chosen_mapping(read, entries, "mapping.yaml"), tree)
    assert back.steps == nest.steps
    assert [(one.loop, one.factor) for one in back.unrolled if one.factor > 1] == [
        (one.loop, one.factor) for one in nest.unrolled if one.factor > 1
    ]
    order = [[array.name for array in nest.operands].index(array.name) for array in back.operands]
    same = TreeMapping(found.mapping.loops, tuple(found.mapping.cuts[number] for number in order))
    assert price(back, same).energy_pj == pytest.approx(found.price.energy_pj, rel=1e-12)
    assert best_mapping(back, Sums.FULL).price.energy_pj <= found.price.energy_pj * (1 + 1e-12)
    written = re.findall(r"- \[(\w+), (\d+)\]", files["mapping.yaml"].split("- name: default")[0])
    assert written == [(nest.nest.loops[loop].name, str(factor)) for loop, factor in found.mapping.loops]


def test_timeloop_s_files_are_read_back_with_the_same_energy():
    """Every memory at every place is a level; its factors, keeps and energies give the price of the mapping."""
    placed, mapping = _on_timeloop_s_machine(even=True)
    files = timeloop_tree_files(placed, mapping)
    tree = timeloop_tree(files["arch.yaml"], "arch.yaml", energy_table(files["energies.yaml"], "energies.yaml")).tree
    nest = _in_bytes(timeloop_problem(files["problem.yaml"], "problem.yaml"))
    assert nest.extents == placed.nest.extents
    loops, cuts, unrolled = _read_mapping(files["mapping.yaml"], nest, tree)
    back = PlacedNest(nest, 8, ("Inputs", "Weights", "Outputs"), unrolled, tree)
    assert price(back, TreeMapping(loops, cuts)).energy_pj == pytest.approx(price(placed, mapping).energy_pj, rel=1e-12)


def _read_mapping(text, nest, tree):
    """Loops from the innermost with the cuts of each operand, and what is spread, of targets from the outermost."""
    names = [loop.name for loop in nest.loops]
    loops, unrolled, ends = [], [], {}
    for entry in reversed(yaml_file(text, "mapping.yaml").entries()["mapping"].items("targets")):
        fields = entry.entries()
        target, kind = fields["target"].text(), fields["type"].text()
        if kind == "dataspace":
            continue
        factors = dict(re.findall(r"(\w+)=(\d+)", " ".join(item.text() for item in fields["factors"].items("factors"))))
        if kind == "spatial":
            unrolled += [Unrolled(target, names.index(one), Fraction(n)) for one, n in factors.items() if int(n) > 1]
            continue
        order = [item.text() for item in fields["permutation"].items("loops")]
        ends[target] = len(loops)
        loops += [(names.index(one), int(factors[one])) for one in order if int(factors[one]) > 1]
    inside = {}
    for memory in tree.memories:  # a level holds the tile of the loops inside it: those of the levels further in
        inside[memory.name] = ends[memory.name]
    cuts = tuple(
        (*(_next_end(tree, home, at, inside, loops) for at in range(len(tree.chain(home)) - 1)), len(loops))
        for home in ("Inputs", "Weights", "Outputs")
    )
    return tuple(loops), cuts, tuple(unrolled)


def _next_end(tree, home, at, inside, loops):
    """A level holds the tile of its own loops and those inside: up to where the loops of the next level begin."""
    memory = tree.chain(home)[at]
    number = tree.memories.index(memory)
    return inside[tree.memories[number + 1].name] if number + 1 < len(tree.memories) else len(loops)


def test_accelforge_s_nodes_store_every_operand_outside_what_does_not_move_it():
    placed, mapping = _on_timeloop_s_machine(even=True)
    text = accelforge_tree_files(placed, mapping)["mapping.yaml"]
    nodes = [line.strip() for line in text.splitlines() if line.startswith("  - !")]
    assert nodes[:5] == [  # C does not move the results: they are in the buffer outside its last steps
        "- !Storage {tensors: [Inputs_, Weights, Outputs_], component: DRAM}",
        "- !Storage {tensors: [Outputs_], component: buffer}",
        "- !Temporal {rank_variable: c, tile_shape: 8}",
        "- !Storage {tensors: [Inputs_], component: buffer}",
        "- !Temporal {rank_variable: p, tile_shape: 4}",
    ]
    assert [node.split()[1] for node in nodes].count("!Spatial") == 3
    assert nodes[-1].startswith("- !Compute")
    shapes = {m[1]: int(m[2]) for node in nodes if (m := re.search(r"rank_variable: (\w), tile_shape: (\d+)", node))}
    assert set(shapes.values()) == {1}


@pytest.mark.parametrize("writer", [timeloop_tree_files, accelforge_tree_files])
def test_an_order_of_each_operand_s_own_is_refused_where_there_is_one_for_all(writer):
    """Weights stay in registers while inputs change in the buffer above: only ZigZag has words for it."""
    placed, mapping = _on_timeloop_s_machine(even=False)
    with pytest.raises(InputError, match=r"Weights in weights, inside columns, stays for longer than Inputs in buffer"):
        writer(placed, mapping)


@pytest.mark.parametrize("writer", [timeloop_tree_files, accelforge_tree_files])
def test_a_factor_that_does_not_divide_is_refused(writer):
    nest = zigzag_placed("eyeriss_like", "eyeriss_like", "conv2_2")
    with pytest.raises(InputError, match=r"K over 12.8 along D1: \w+ cannot express a factor that does not divide"):
        writer(nest, best_mapping(nest, Sums.FULL).mapping)
