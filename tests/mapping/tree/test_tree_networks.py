"""Networks along axes, windows that slide, and memories that store evenly, on machine trees."""

import random
from dataclasses import replace
from fractions import Fraction

import pytest

from tests.helpers.pairs import first
from tests.helpers.tree_brute_force import (
    all_best,
    like_arrays,
    random_case,
    timed_case,
    unevenly,
    with_engines,
    with_networks,
)
from tests.helpers.tree_spatial import all_placements, with_axes
from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.hardware.tree import Axis, Flow, MachineTree, Network, Port, TreeMemory
from tilestitch.ir.choices import Objective
from tilestitch.ir.loop_nest import Loop, LoopNest, LoopOperand, product
from tilestitch.mapping.tree.bound import as_wide
from tilestitch.mapping.tree.certificate import certificate_of
from tilestitch.mapping.tree.chain import TreeMapping, price, window_rows
from tilestitch.mapping.tree.checking import check_certificate
from tilestitch.mapping.tree.choices import SpatialSpace, choices_of
from tilestitch.mapping.tree.crossings import Part, operands_on_tree
from tilestitch.mapping.tree.cycle_bounds import least_cycles
from tilestitch.mapping.tree.lattice import lattice_of
from tilestitch.mapping.tree.loads import loads_of
from tilestitch.mapping.tree.placed import PlacedNest, Slide, Unrolled
from tilestitch.mapping.tree.search import MOST_LABELS, best_mapping, pareto_front
from tilestitch.mapping.tree.sliding import with_slides
from tilestitch.mapping.tree.spatial import best_spread
from tilestitch.mapping.tree.spread_task import task_of
from tilestitch.mapping.tree.tables import Sums, femtojoules
from tilestitch.mapping.tree.timed_spread import placement

PARTS = (Part.NEW, Part.FIRST, Part.ALL)
POWERS = {Objective.ENERGY: (1, 0), Objective.LATENCY: (0, 1), Objective.EDP: (1, 1)}


def check_block(name, cases, most_loops, changed=lambda placed, seed: placed):
    """Front, energy, latency and EDP of random cases; how many had windows that slide, and fitted at all."""
    seed = random.Random(name)
    sliding = fitting = 0
    for number in range(cases):
        placed = changed(with_networks(timed_case(seed, most_loops), seed), seed)
        sums = seed.choice(list(Sums))
        best = all_best(placed, final_sums=sums is Sums.FINAL)
        try:
            front = pareto_front([placed], sums, MOST_LABELS)
        except DoesNotFit:
            assert best == [], (name, number, placed)
            continue
        assert front.is_proven
        found = [(one.price.energy_pj, one.price.latency_cycles) for one in front.points]
        assert [cycles for _, cycles in found] == [cycles for _, cycles in best], (name, number, placed)
        assert [energy for energy, _ in found] == pytest.approx([energy for energy, _ in best], rel=1e-9)
        fitting += 1
        sliding += any(one.mapping.rows for one in front.points)
        for objective, (power, of_cycles) in POWERS.items():
            one = best_mapping(placed, sums, objective=objective)
            least = min(energy**power * cycles**of_cycles for energy, cycles in best)
            assert one.is_proven
            assert one.value == pytest.approx(least, rel=1e-9), (name, number, objective, placed)
    assert fitting > cases / 3
    return sliding


@pytest.mark.parametrize("block", first(2, [2, 0, 1]))
def test_nothing_is_better_than_what_is_found(block):
    """All orders, places and rows of windows, priced by another program, have the same front and the same least."""
    assert check_block(f"sums and windows {block}", 10, 3) > 0


@pytest.mark.parametrize("block", range(3))
def test_nothing_is_better_than_what_is_found_on_what_arrays_have(block):
    """Windows that units share, sums that neighbours pass on, units without latches, sums from zero, boxes, banks."""
    check_block(f"arrays {block}", 10, 3, like_arrays)


def boxes(placed, seed):
    """The same case with boxes for tiles, which slide into every memory."""
    memories = tuple(replace(one, has_sliding_window=True) for one in placed.tree.memories)
    return replace(placed, tree=replace(placed.tree, memories=memories, moves_boxes=True))


def test_nothing_is_better_than_what_is_found_where_boxes_slide():
    """What a box shares with the next one has what lies between strided values as well."""
    assert check_block("rows of boxes", 10, 3, boxes) > 0


def check_parts(placed):
    """Both parts of every crossing with windows at one tile are no less than all of it, in energy and at every port."""
    tiles, checked = lattice_of(placed.steps).tiles(), 0
    for way in with_slides([placed]):
        for operand, crossing in ((operands_on_tree(way)[one.operand], one.crossing) for one in way.slides or ()):
            can = operand.can_begin(crossing, tiles)
            new, first, whole = (femtojoules(operand, crossing, tiles, part)[can] for part in PARTS)
            assert (new + first + 1 >= whole).all()  # each is rounded
            new, first, whole = (loads_of(operand, crossing, tiles[can], part).both for part in PARTS)
            for port, cycles in whole.items():
                assert (new[port] + first.get(port, 0) >= cycles).all()
            checked += can.sum()
    return checked


def test_a_row_of_windows_without_steps_is_no_cheaper_than_none():
    """Else the search counts less for it than it costs: of 5 channels in 3 steps, 2 of 4 values are 3 1/3 of 6 2/3."""
    tree = line(60, has_sliding_window=True).tree
    loops, shapes = (Loop("C", 5), Loop("X", 2), Loop("F", 3)), ((5, 3), (5, 4), (2,))
    reads = (LoopOperand("W", (((0, 1),), ((2, 1),)), shapes[0], 8),)
    reads = (*reads, LoopOperand("I", (((0, 1),), ((1, 1), (2, 1))), shapes[1], 8))
    nest = LoopNest("row", "einsum", loops, reads, LoopOperand("O", (((1, 1),),), shapes[2], 8))
    placed = PlacedNest(nest, 8, ("W", "I", "O"), (Unrolled("D", 0, Fraction(5, 3)),), tree)
    assert check_parts(placed) > 0
    front = pareto_front([placed], Sums.FULL, MOST_LABELS)
    found = [(one.price.energy_pj, one.price.latency_cycles) for one in front.points]
    assert found == all_best(placed, final_sums=False)


@pytest.mark.parametrize("changed", [lambda placed, seed: placed, boxes], ids=["values", "boxes"])
def test_two_parts_of_a_crossing_are_no_less_than_all_of_it(changed):
    """Of random cases."""
    seed, checked = random.Random("parts of crossings"), 0
    for _ in range(60):
        checked += check_parts(changed(with_networks(timed_case(seed, 4), seed), seed))
    assert checked > 500


@pytest.mark.slow
@pytest.mark.parametrize("block", range(25))
def test_nothing_is_better_than_what_is_found_on_what_arrays_have_for_more_loops(block):
    """500 nests of up to four prime loops."""
    check_block(f"more arrays {block}", 20, 4, like_arrays)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(25))
def test_nothing_is_better_than_what_is_found_for_more_loops(block):
    """500 nests of up to four prime loops."""
    check_block(f"more networks {block}", 20, 4)


def all_spread(placed, sums):
    """The front of all placements of a nest, each with all of its mappings."""
    points = {point for one in all_placements(placed, "filling") for point in all_best(one, final_sums=False)}
    return min(energy for energy, _ in points), min(energy * cycles for energy, cycles in points)


def test_nothing_is_better_with_free_spatial_factors():
    """Networks that differ tell axes apart, and loops of an order are not exchanged."""
    seed, fitting = random.Random("free networks"), 0
    for number in range(8):
        placed = with_axes(with_networks(timed_case(seed, 2), seed), seed)
        if seed.random() < 0.5:
            placed = replace(placed, order=((seed.randrange(3), 0),))
        try:
            energy, edp = all_spread(placed, Sums.FULL)
        except ValueError:  # nothing fits
            continue
        found = best_spread(placed, objective=Objective.ENERGY).found
        assert found.is_proven
        assert found.value == pytest.approx(energy, rel=1e-9), (number, placed)
        assert best_spread(placed, objective=Objective.EDP).found.value == pytest.approx(edp, rel=1e-9), number
        fitting += 1
    assert fitting > 3


def test_an_order_of_loops_holds():
    """The front of all mappings whose innermost loops are those that are asked for, with their factors."""
    seed, fewer = random.Random("orders"), 0
    for number in range(25):
        placed = timed_case(seed, 3)
        loops = seed.sample(range(3), seed.choice((1, 2, 3)))
        order = tuple((loop, seed.choice((0, 0, 2, 3))) for loop in loops)
        ordered = replace(placed, order=order)
        best = all_best(ordered, final_sums=False)
        try:
            front = pareto_front([ordered], Sums.FULL, MOST_LABELS).points
        except DoesNotFit:
            assert best == [], (number, ordered)
            continue
        assert [(one.price.energy_pj, one.price.latency_cycles) for one in front] == best, (number, ordered)
        fewer += best != all_best(placed, final_sums=False)
    assert fewer > 3


def line(size_bits, **fields):
    """A row of 8 results from windows of 3: inputs go through a memory of so many bits, everything else is free."""
    flows = tuple((operand, flow) for operand in "WIO" for flow in Flow)
    free = Port("port", 8, 8, flows)
    inner = TreeMemory("line", size_bits, ("I",), (free,), 0.0, 0.0, ("D",), **fields)
    weights = TreeMemory("weights", 2**30, ("W",), (free,), 0.0, 0.0, ("D",))
    outer = TreeMemory("dram", 2**30, ("I", "O"), (free,), 1.0, 0.0, ("D",))
    reads = (LoopOperand("W", (((1, 1),),), (3,), 8), LoopOperand("I", (((0, 1), (1, 1)),), (10,), 8))
    nest = LoopNest("row", "einsum", (Loop("X", 8), Loop("F", 3)), reads, LoopOperand("O", (((0, 1),),), (8,), 8))
    return PlacedNest(nest, 8, ("W", "I", "O"), (), MachineTree("line", (Axis("D", 4),), (inner, weights, outer), 0.0))


def reads_of(found, operand):
    """Accesses of DRAM for an operand."""
    return sum(
        flow.accesses
        for flow in found.price.flows
        if (flow.operand, flow.memory, flow.flow) == (operand, "dram", "feed")
    )


def test_a_line_buffer_of_one_window_reads_every_input_once():
    """Three values of a window, then one more for each: 10, where a memory without windows reads 3 for each of 8."""
    plain, sliding = (best_mapping(line(24, has_sliding_window=one)) for one in (False, True))
    assert reads_of(sliding, 1) == 10
    assert [(row.into, row.loop, row.steps) for row in window_rows(sliding.placed, sliding.mapping)] == [
        ("line", "X", 8)
    ]
    assert reads_of(plain, 1) > 10


def test_neighbours_pass_on_what_overlaps():
    """Four units with a result each need six inputs: each once, or each as often as a unit needs it."""
    placed = replace(line(2**20), unrolled=(Unrolled("D", 0, Fraction(4)),))
    tree = replace(placed.tree, memories=placed.tree.memories[1:])
    counts = []
    for network in (Network(("I",)), Network(("I",), multicast=False), Network(("I",), forwarding=True)):
        axis = Axis("D", 4, networks=(network,))
        loops = TreeMapping(((1, 3), (0, 2)), ((2,), (2,), (2,)))
        one = replace(placed, tree=replace(tree, axes=(axis,)), slides=())
        counts.append(next(flow.accesses for flow in price(one, loops).flows if flow.operand == 1))
        if network.forwarding:
            rows = TreeMapping(loops.loops, loops.cuts, ((1, 0, 1),))
            slides = replace(one, slides=(Slide(1, 0, 1),))
            counts.append(sum(flow.accesses for flow in price(slides, rows).flows if flow.operand == 1))
    assert counts == [24, 24, 24, 12]


def test_sums_that_are_not_added_on_the_way_are_written_one_by_one():
    """Of three units that share a reduction: one sum a result, or three, each after the sum so far was read."""
    placed = replace(line(2**20), unrolled=(Unrolled("D", 1, Fraction(3)),))
    mapping = TreeMapping(((0, 8),), ((1,), (1, 1), (1,)))
    counts = []
    for reduction in (True, False):
        axis = Axis("D", 4, networks=(Network(("O",), reduction=reduction, pj_per_bit=0.5),))
        flows = price(replace(placed, tree=replace(placed.tree, axes=(axis,))), mapping).flows
        counts.append([flow.accesses for flow in flows if flow.operand == 2 and flow.memory == "dram"])
        (delivered,) = [flow.energy_pj for flow in flows if flow.memory == "network inside dram"]
        assert delivered == (8 * 3 * 8 * 0.5) * (1 if reduction else 2)
    assert counts == [[8, 0], [24, 24]]


def test_networks_are_proven_as_everything_else():
    """The checker shares the price of a crossing, and refuses a mapping that is not the best."""
    seed, proven = random.Random("proofs of networks"), 0
    for _ in range(30):
        placed = with_networks(random_case(seed, 3), seed)
        axes = tuple(
            replace(axis, networks=tuple(replace(one, forwarding=False) for one in axis.networks))
            for axis in placed.tree.axes
        )
        memories = tuple(replace(one, has_sliding_window=False, has_even_storage=False) for one in placed.tree.memories)
        placed = replace(placed, tree=replace(placed.tree, axes=axes, memories=memories))
        try:
            found = best_mapping(placed)
        except DoesNotFit:
            continue
        proof = certificate_of([placed], found)
        check_certificate(proof, [placed], Sums.FULL)
        with pytest.raises(InputError):
            check_certificate(replace(proof, value=proof.value + 1), [placed], Sums.FULL)
        proven += any(axis.networks for axis in axes)
    assert proven > 5


def slow_case(seed) -> PlacedNest:
    """A random case with free spatial factors, in which little but networks and DMA engines limits how fast it is."""
    placed = with_axes(with_engines(unevenly(with_networks(timed_case(seed, 2), seed)), seed), seed)
    axes = tuple(
        replace(axis, networks=tuple(replace(one, bits_per_cycle=Fraction(3, 2)) for one in axis.networks))
        for axis in placed.tree.axes
    )
    engines = tuple(replace(one, bits_per_cycle=Fraction(2), count=1) for one in placed.tree.engines)
    return replace(placed, tree=replace(placed.tree, axes=axes, engines=engines))


def test_bounds_of_choices_count_networks_and_engines():
    """They are below every mapping of each choice, by another program, and often near the best one."""
    seed, compared, close = random.Random("bounds of networks"), 0, 0
    for number in range(60):
        bare = slow_case(seed)
        choices, task = choices_of(bare, SpatialSpace()), task_of(bare, Sums.FULL)
        loose, closer = (least_cycles(task, choices, loose=one) for one in (True, False))
        assert (loose <= closer + 0.1).all()
        for at in range(0, len(choices), max(1, len(choices) // 3)):
            best = all_best(placement(bare, choices, at), final_sums=False)
            if not best:
                continue
            least = min(cycles for _, cycles in best)
            assert closer[at] <= least, (number, at, bare)
            compared += 1
            close += closer[at] > 0.9 * least
    assert compared > 60
    assert close > compared / 5


def test_few_choices_are_searched_where_a_network_is_slow():
    """Most choices move more over it than the best mapping, which their bounds see."""
    axes = (Axis("D", 4), Axis("chip", 4, networks=(Network(("W", "I", "O"), bits_per_cycle=Fraction(1, 4)),)))
    flows = tuple((operand, flow) for operand in "WIO" for flow in Flow)
    free = Port("port", 64, 8, flows)
    inner = TreeMemory("inner", 512, ("W", "I", "O"), (free,), 1.0, 1.0, ("D",))
    outer = TreeMemory("dram", 2**30, ("W", "I", "O"), (free,), 1.0, 1.0, ("D", "chip"))
    nest = as_wide(product("gemm", m=16, n=24, k=12), 8, 8)
    placed = PlacedNest(nest, 8, ("I", "W", "O"), (), MachineTree("slow", axes, (inner, outer), 0.0))
    searched = best_spread(placed, objective=Objective.LATENCY)
    assert searched.found.is_proven
    assert searched.opened < searched.choices / 4
