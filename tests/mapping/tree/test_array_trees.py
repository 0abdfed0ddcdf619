"""The trees of PE arrays beside the model of the array, which other code prices: energies, room, and least energy."""

import random
from dataclasses import replace
from fractions import Fraction
from math import prod

import numpy as np
import pytest

from tests.helpers.nests import NESTS, random_mapping, random_nest
from tests.helpers.pairs import one_of
from tilestitch.base.errors import DoesNotFit
from tilestitch.hardware.array_machine import ArrayMachine, array_of_core
from tilestitch.hardware.load import load_machine, parse_machine
from tilestitch.hardware.tree import MachineTree
from tilestitch.hardware.tree_load import load_tree, parse_tree
from tilestitch.ir.choices import Objective
from tilestitch.ir.loop_nest import LoopMapping, LoopNest, SlidingWindow, convolution
from tilestitch.mapping.evaluate import price as array_price
from tilestitch.mapping.search import search, search_space
from tilestitch.mapping.tree.chain import TreeMapping, price
from tilestitch.mapping.tree.choices import Ragged, SpatialSpace, choices_of
from tilestitch.mapping.tree.crossings import operands_on_tree
from tilestitch.mapping.tree.placed import PlacedNest, Unrolled
from tilestitch.mapping.tree.search import best_mapping
from tilestitch.mapping.tree.spatial import best_spread, placement
from tilestitch.mapping.tree.spread_task import bounds_fj, stores_evenly, task_of, together_fj, units_fj
from tilestitch.mapping.tree.tables import FEMTO, Sums, stored_bits

EXACT = SpatialSpace(Ragged.NONE)
PRESETS = ("dmazerunner-256", "eyeriss")


def changed(preset: str, *changes: tuple[str, str]) -> tuple[ArrayMachine, MachineTree]:
    """A preset with other words in its file, as an array and as a tree."""
    text = load_machine(preset).yaml
    for found, instead in changes:
        assert found in text
        text = text.replace(found, instead, 1)
    return array_of_core(parse_machine(text, "changed.yaml")), parse_tree(text, "changed.yaml")


def on_tree(nest: LoopNest, mapping: LoopMapping, tree: MachineTree) -> tuple[PlacedNest, TreeMapping]:
    """The same loops, innermost first, with what is spread along the one axis, and the same two places."""
    axis = tree.axes[0].name
    spread = tuple(Unrolled(axis, loop, Fraction(n)) for loop, n in enumerate(mapping.spatial) if n > 1)
    loops: list[tuple[int, int]] = []
    ends: list[int] = []
    for factors, order in (
        (mapping.rf, range(len(mapping.rf))),
        (mapping.spm, reversed(mapping.spm_order)),
        (mapping.dram, reversed(mapping.dram_order)),
    ):
        loops += [(loop, factors[loop]) for loop in order if factors[loop] > 1]
        ends.append(len(loops))
    placed = PlacedNest(nest, nest.write.element_bits, ("I", "W", "O"), spread, tree)
    return placed, TreeMapping(tuple(loops), (tuple(ends),) * 3)


def fits(placed: PlacedNest, mapping: LoopMapping) -> bool:
    """Whether register files and scratchpad have room for their tiles, and the axis for what is spread."""
    register_tile = mapping.rf
    scratchpad_tile = tuple(spm * rf for spm, rf in zip(mapping.spm, mapping.rf, strict=True))
    for level, tile in enumerate((register_tile, scratchpad_tile)):
        taken = sum(
            float(stored_bits(one, level, np.array([tile], np.int64), one.array.element_bits)[0])
            for one in operands_on_tree(placed)
        )
        if taken > placed.tree.memories[level].size_bits:
            return False
    return prod(mapping.spatial) <= placed.tree.units


MACHINES = {
    "dmazerunner-256": ("dmazerunner-256", ()),
    "eyeriss": ("eyeriss", ()),
    "no multicast": ("eyeriss", (("rows: 12\n", "multicast: false\n    rows: 12\n"),)),
    "one network": ("dmazerunner-256", (("rows: 16\n", "networks: 1\n    reduction: tree\n    rows: 16\n"),)),
    "no banks": ("eyeriss", (("banks: 27\n", "banks: 1\n"), ("size: 108 KiB", "size: 3_001 B"))),
    "few banks": ("dmazerunner-256", (("size: 128 KiB", "size: 9 KiB"), ("banks: 64", "banks: 15"))),
}


@pytest.mark.parametrize("name", one_of(2, list(MACHINES)))
def test_a_mapping_costs_what_the_array_says(name):
    """Energies of random mappings of all kinds of layers, and whether they fit; the model of the array shares none."""
    preset, changes = MACHINES[name]
    machine, tree = changed(preset, *changes)
    seed, fitting, compared = random.Random(name), 0, 0
    for _ in range(60):
        nest = seed.choice(NESTS)
        mapping = random_mapping(nest, seed, ragged=False)
        expected = array_price(nest, machine, mapping)
        placed, chain = on_tree(nest, mapping, tree)
        assert fits(placed, mapping) == (expected.misfit == "")
        fitting += expected.misfit == ""
        if prod(mapping.spatial) <= tree.units:
            assert price(placed, chain).energy_pj == pytest.approx(expected.energy_pj, rel=1e-12)
            compared += 1
    assert compared > 30
    assert 2 < fitting < 58


def small_nests(count: int) -> list[LoopNest]:
    """Random nests of two inputs."""
    seed, found = random.Random("small"), []
    while len(found) < count:
        nest = random_nest(seed)
        if len(nest.reads) == 2:
            found.append(nest)
    return found


def unevenly(tree: MachineTree) -> MachineTree:
    return replace(tree, memories=tuple(replace(one, has_even_storage=False) for one in tree.memories))


def test_even_storage_has_the_least_energy_of_the_arrays_mapper():
    """Two searches that share no code find the same least energy; uneven storage is never worse, and may be better."""
    elements = ("rows: 16\n", "rows: 2\n"), ("columns: 16\n", "columns: 2\n")
    memories = (
        ("register_bytes: 512", "register_bytes: 24"),
        ("size: 128 KiB", "size: 192 B"),
        ("banks: 64", "banks: 12"),
    )
    machine, tree = changed("dmazerunner-256", *elements, *memories)
    better = 0
    for nest in small_nests(8):
        expected = search(search_space(nest, machine), Objective.ENERGY).best
        bare = PlacedNest(nest, nest.write.element_bits, ("I", "W", "O"), (), tree)
        even = best_spread(bare, EXACT).found
        assert even.is_proven
        assert even.price.energy_pj == pytest.approx(expected[0].energy_pj, rel=1e-9), nest
        uneven = best_spread(replace(bare, tree=unevenly(tree)), EXACT).found
        assert uneven.is_proven
        assert uneven.price.energy_pj <= even.price.energy_pj * (1 + 1e-12)
        better += uneven.price.energy_pj < even.price.energy_pj * (1 - 1e-9)
    assert better > 0


def test_together_operands_cost_no_more_than_the_best_mapping_of_a_choice():
    """The bound of even storage, of random nests and choices; sometimes closer than that of operands alone."""
    networks = ("rows: 16\n", "networks: 1\n    reduction: tree\n    rows: 4\n"), ("columns: 16\n", "columns: 2\n")
    memories = (
        ("register_bytes: 512", "register_bytes: 24"),
        ("size: 128 KiB", "size: 192 B"),
        ("banks: 64", "banks: 12"),
    )
    plain = ("rows: 16\n", "rows: 4\n"), ("columns: 16\n", "columns: 2\n")
    compared = closer = reached = 0
    for changes in ((*networks, *memories), (*plain, *memories)):
        tree = changed("dmazerunner-256", *changes)[1]
        for is_first_read, sums in ((False, Sums.FULL), (True, Sums.FULL), (False, Sums.FINAL)):
            machine = replace(tree, reads_first_sums=is_first_read)
            for nest in small_nests(4):
                bare = PlacedNest(nest, nest.write.element_bits // 2, ("I", "W", "O"), (), machine)
                choices, task = choices_of(bare, EXACT), task_of(bare, sums)
                assert stores_evenly(bare)
                together, alone = together_fj(task, choices), bounds_fj(task, choices, loose=False)
                units = units_fj(task, choices)
                for number in range(0, len(choices), max(1, len(choices) // 6)):
                    placed = placement(bare, choices, number)
                    try:
                        found = best_mapping(placed, sums).price
                    except DoesNotFit:
                        continue
                    best_fj = (found.energy_pj - found.mac_pj) * FEMTO
                    assert together[number] + units[number] <= best_fj * (1 + 1e-12) + 20
                    compared += 1
                    closer += together[number] > alone[number]
                    reached += together[number] + units[number] > best_fj * (1 - 1e-9)
    assert compared > 60
    assert closer > 0
    assert reached > 0


@pytest.mark.parametrize("preset", PRESETS)
def test_nothing_uneven_is_above_the_arrays_best(preset):
    """Where uneven storage is no better, its proof is one of the array's best mapping, by another program."""
    nest = convolution("conv5_2", n=1, m=512, c=512, output=(7, 7), window=SlidingWindow((3, 3)))
    machine, tree = array_of_core(load_machine(preset)), load_tree(preset)
    even = search(search_space(nest, machine), Objective.ENERGY).best[0].energy_pj
    bare = PlacedNest(nest, nest.write.element_bits, ("I", "W", "O"), (), unevenly(tree))
    found = best_spread(bare, EXACT).found
    assert found.is_proven
    assert found.price.energy_pj == pytest.approx(even, rel=1e-12)
