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
from tilestitch.hardware.tree import DmaEngine, Flow, MachineTree, Port, TreeMemory
from tilestitch.hardware.tree_load import load_tree, parse_tree
from tilestitch.ir.choices import Objective
from tilestitch.ir.loop_nest import LoopMapping, LoopNest, SlidingWindow, convolution, product
from tilestitch.mapping.evaluate import price as array_price
from tilestitch.mapping.search import search, search_space
from tilestitch.mapping.tree.bound import as_wide
from tilestitch.mapping.tree.chain import TreeMapping, price
from tilestitch.mapping.tree.choices import Ragged, SpatialSpace, choices_of
from tilestitch.mapping.tree.crossings import operands_on_tree
from tilestitch.mapping.tree.cycle_bounds import least_cycles
from tilestitch.mapping.tree.even_bounds import ED2P, EDP, LATENCY
from tilestitch.mapping.tree.found import FoundMapping
from tilestitch.mapping.tree.placed import PlacedNest, Unrolled
from tilestitch.mapping.tree.search import MOST_LABELS, best_mapping
from tilestitch.mapping.tree.spatial import best_spread, placement
from tilestitch.mapping.tree.spread_task import (
    bounds_fj,
    stores_evenly,
    task_of,
    together_fj,
    together_in_time,
    units_fj,
)
from tilestitch.mapping.tree.tables import FEMTO, Sums, stored_bits
from tilestitch.mapping.tree.timed_search import best_in_time

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


SMALL = (
    ("columns: 16\n", "columns: 2\n"),
    ("register_bytes: 512", "register_bytes: 24"),
    ("size: 128 KiB", "size: 192 B"),
    ("banks: 64", "banks: 12"),
)
ROWS, ADDING_ROWS = ("rows: 16\n", "rows: 4\n"), ("rows: 16\n", "networks: 1\n    reduction: tree\n    rows: 4\n")
TIMED_KINDS = ("plain", "networks", "engines", "one buffer", "first sums", "latches")


def timed_machine(kind: str) -> MachineTree:
    """A small array's tree, on which other things take time or stop the units."""
    tree = changed("dmazerunner-256", ADDING_ROWS if kind == "networks" else ROWS, *SMALL)[1]
    if kind == "engines":
        outer = DmaEngine("outer", "lb", "ddr", 2, 5, Fraction(12))
        return replace(tree, engines=(outer, DmaEngine("inner", "pes.registers", "lb", 1, 1, Fraction(9))))
    if kind == "one buffer":
        memories = tuple(replace(one, buffers=1, ahead=()) for one in tree.memories)
        return replace(tree, memories=memories)
    return replace(tree, reads_first_sums=kind == "first sums", has_latches=kind == "latches")


@pytest.mark.parametrize("kind", one_of(2, TIMED_KINDS))
def test_together_operands_take_no_longer_than_the_best_mapping_of_a_choice(kind):
    """Bounds in time of even storage, of random nests and choices, in every objective; some are close."""
    tree, compared, closer, reached = timed_machine(kind), 0, 0, 0.0
    for nest in small_nests(4):
        bare = PlacedNest(nest, nest.write.element_bits // 2, ("I", "W", "O"), (), tree)
        choices, task = choices_of(bare, EXACT), task_of(bare, Sums.FULL)
        assert stores_evenly(bare)
        units, apart = units_fj(task, choices), least_cycles(task, choices, loose=False)
        cycles, fastest_fj = together_in_time(task, choices, units, LATENCY)
        products, squares = (together_in_time(task, choices, units, one)[0] for one in (EDP, ED2P))
        for number in range(0, len(choices), max(1, len(choices) // 4)):
            try:
                fastest, edp, ed2p = (
                    best_in_time([placement(bare, choices, number)], Sums.FULL, MOST_LABELS, objective)
                    for objective in (Objective.LATENCY, Objective.EDP, Objective.ED2P)
                )
            except DoesNotFit:
                continue
            closer += cycles[number] > apart[number] + 1
            assert cycles[number] <= fastest.price.latency_cycles
            reached = max(reached, cycles[number] / fastest.price.latency_cycles)
            if cycles[number] == fastest.price.latency_cycles:
                assert fastest_fj[number] <= least_fj(fastest)
            for one in (fastest, edp, ed2p):
                assert products[number] <= least_fj(one) * one.price.latency_cycles
                assert squares[number] <= least_fj(one) * one.price.latency_cycles**2
            compared += 1
    assert compared > 8
    assert reached > 0.95
    assert closer > 0


def least_fj(found: FoundMapping) -> float:
    """The femtojoules of a mapping without arithmetic, each cut rounded up at most."""
    return (found.price.energy_pj - found.price.mac_pj) * FEMTO * (1 + 1e-12) + 20


def test_operands_that_change_together_take_longer_than_each_alone():
    """Of a product on one unit one operand stays in the register at a time, so the memory's port brings the other one.

    Each alone would come once. Of 16 x 16 sums of one product each: one input 16 times, the other one 256 times, and
    256 sums leave.
    """
    wide, operands = 2**20, ("A", "B", "C")
    flows = tuple((one, flow) for one in operands for flow in Flow)
    apart = tuple(Port(f"{one}{flow}", wide, 1, ((one, flow),)) for one, flow in flows)
    inside = TreeMemory("register", 3, operands, apart, 1.0, 1.0, (), has_even_storage=True, ahead=operands)
    outside = TreeMemory("dram", wide, operands, (Port("all", 1, 1, flows),), 1.0, 1.0, ())
    tree = MachineTree("even", (), (inside, outside), 0.0)
    nest = as_wide(product("outer", m=16, n=16, k=1), 1, 1)
    bare = PlacedNest(nest, 1, operands, (), tree)
    choices, task = choices_of(bare, EXACT), task_of(bare, Sums.FULL)
    cycles = together_in_time(task, choices, np.zeros(1, np.int64), LATENCY)[0][0]
    assert least_cycles(task, choices, loose=False)[0] == pytest.approx(16 + 16 + 256, abs=1)
    assert cycles == 16 + 256 + 256
    best = best_in_time([placement(bare, choices, 0)], Sums.FULL, MOST_LABELS, Objective.LATENCY)
    assert cycles <= best.price.latency_cycles <= cycles + 4


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
