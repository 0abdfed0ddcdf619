"""The cost of mappings is dMazeRunner's where that is asked for, and the search finds what brute force finds."""

import json
from dataclasses import replace
from fractions import Fraction
from math import prod
from random import Random
from typing import Any

import pytest

import tilestitch
from tests.helpers.array_timing import array_cycles
from tests.helpers.dmazerunner_model import published_cost
from tests.helpers.nests import CONV5_2, DMAZERUNNER, NESTS, all_prices, random_machine, random_nest, size_of_space
from tests.helpers.pairs import first
from tilestitch.base.dtypes import DType
from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.hardware.accelerator import Reduction
from tilestitch.hardware.array_machine import array_alone
from tilestitch.hardware.load import load_machine
from tilestitch.hardware.microarchitecture import Microarchitecture
from tilestitch.ir.choices import CostMode, Objective
from tilestitch.ir.loop_nest import LoopMapping, LoopNest, SlidingWindow, convolution, product
from tilestitch.mapping.dataflow import DATAFLOWS, dataflow_limits
from tilestitch.mapping.dmazerunner import adapted_space
from tilestitch.mapping.evaluate import Pricer, price
from tilestitch.mapping.factors import one_operand_stays
from tilestitch.mapping.json_lines import price_lines
from tilestitch.mapping.network import MapOptions, RepeatedNest, layers_of, map_layer, map_layers, totals_of
from tilestitch.mapping.search import search, search_space

C_INNERMOST = (0, 1, 3, 4, 5, 6, 2)
DMR = LoopMapping(
    (1, 8, 64, 1, 1, 1, 1),
    (1, 1, 8, 1, 1, 1, 1),
    (4, 16, 1, 1, 1, 3, 3),
    (1, 4, 1, 7, 7, 1, 1),
    C_INNERMOST,
    C_INNERMOST,
)
MOC = LoopMapping(
    (4, 32, 8, 1, 1, 1, 1),
    (1, 2, 8, 1, 1, 1, 1),
    (1, 2, 8, 1, 1, 3, 3),
    (1, 4, 1, 7, 7, 1, 1),
    C_INNERMOST,
    C_INNERMOST,
)


@pytest.mark.parametrize(
    ("mapping", "cycles", "energy"), [(DMR, 2_459_648, 2_908_068_209), (MOC, 10_911_744, 6_462_455_153)]
)
def test_the_published_example_costs_what_is_published(mapping: LoopMapping, cycles: int, energy: int) -> None:
    """dMazeRunner (ICASSP 2020), section 4.2; the second is the mapping that it is compared with."""
    found = price(CONV5_2, DMAZERUNNER, mapping, CostMode.PUBLISHED)
    assert (found.cycles, found.energy_pj, found.misfit) == (cycles, energy, "")


def random_mapping(nest: LoopNest, rng: Random) -> LoopMapping:
    """Exact factors and orders, whether they fit or not."""
    rows: list[list[int]] = [[], [], [], []]
    for extent in nest.extents:
        rest = extent
        for row in rows[1:]:
            row.append(rng.choice([factor for factor in range(1, rest + 1) if rest % factor == 0]))
            rest //= row[-1]
        rows[0].append(rest)
    orders = [tuple(rng.sample(range(len(nest.loops)), len(nest.loops))) for _ in range(2)]
    dram, spm, rf, spatial = map(tuple, rows)
    return LoopMapping(dram, spm, rf, spatial, orders[0], orders[1])


@pytest.mark.parametrize("nest", NESTS, ids=lambda nest: nest.name)
def test_published_mode_is_the_published_model(nest: LoopNest) -> None:
    """On mappings in any order, that fit or do not: to the digit."""
    rng, pricer = Random(7), Pricer(nest, DMAZERUNNER, CostMode.PUBLISHED)
    for _ in range(300):
        mapping = random_mapping(nest, rng)
        found = pricer(mapping)
        assert (found.cycles, found.energy_pj) == published_cost(nest, mapping), mapping


@pytest.mark.parametrize("seed", first(8, range(20)))
def test_the_latency_of_the_default_mode_is_what_its_passes_take_one_by_one(seed: int) -> None:
    """The closed form, on nests and machines of every kind, equals a walk over all passes."""
    rng = Random(seed)
    for _ in range(10):
        nest, machine = random_nest(rng), random_machine(rng)
        pricer = Pricer(nest, machine)
        for _ in range(20):
            mapping = random_mapping(nest, rng)
            assert pricer(mapping).cycles == array_cycles(nest, machine, mapping), (nest, machine, mapping)


@pytest.mark.parametrize("nest", NESTS, ids=lambda nest: nest.name)
def test_the_default_mode_is_never_below_its_bounds(nest: LoopNest) -> None:
    """Arithmetic at the peak, DMA of what must be moved; parts of the energy add up to it."""
    rng, pricer = Random(11), Pricer(nest, DMAZERUNNER)
    words = [prod(operand.extents(nest.extents)) for operand in nest.operands]
    for _ in range(100):
        mapping = random_mapping(nest, rng)
        found = pricer(mapping)
        assert found.cycles >= nest.macs / prod(mapping.spatial)
        assert found.cycles >= sum(words) * 2 * float(DMAZERUNNER.dma_cycles_per_byte)
        assert sum(found.components.values()) == pytest.approx(found.energy_pj, rel=1e-9)
        for operand, moved, least in zip(nest.operands, found.accesses, words, strict=True):
            stored = operand is nest.write
            assert (moved.dram_store_words if stored else moved.dram_load_words) >= least * (1 - 1e-12)


def test_the_first_visit_of_a_result_brings_nothing() -> None:
    """With one tile of everything each word of the result leaves once; the published model counts it twice."""
    nest = product("one tile", m=4, n=4, k=1)
    ones, order = (1, 1, 1), (0, 1, 2)
    mapping = LoopMapping(ones, ones, (4, 4, 1), ones, order, order)
    ours, published = (price(nest, DMAZERUNNER, mapping, mode) for mode in (CostMode.DEFAULT, CostMode.PUBLISHED))
    assert ours.accesses[2].scratchpad_words == 16
    assert published.accesses[2].scratchpad_words == 32
    assert ours.accesses[2].dram_load_words == 0


def check_against_brute_force(rng: Random, *, ragged: bool, most: int) -> None:
    nest, machine = random_nest(rng), random_machine(rng)
    while size_of_space(nest, ragged=ragged) > most:
        nest = random_nest(rng)
    for mode in (CostMode.DEFAULT,) if ragged else tuple(CostMode):
        every, tilings = all_prices(nest, machine, mode, ragged=ragged)
        space = search_space(nest, machine, mode, ragged=ragged)
        if not ragged:
            assert space.tilings() == tilings
        if not every:
            assert not search(space, Objective.EDP).best
            continue
        least_edp = search(space, Objective.EDP).best[0]
        assert least_edp.edp == min(cycles * energy for cycles, energy in every)
        fast = search(space, Objective.ED2P).best[0]
        values = [float(cycles) * cycles * energy for cycles, energy in every]
        assert float(fast.cycles) * fast.cycles * fast.energy_pj == min(values)
        least_energy = search(space, Objective.ENERGY).best[0]
        assert (least_energy.energy_pj, least_energy.cycles) == min((energy, cycles) for cycles, energy in every)
        fastest = search(space, Objective.LATENCY).best[0]
        assert (fastest.cycles, fastest.energy_pj) == min(every)
        front: list[tuple[int, float]] = []
        for cycles, energy in sorted(set(every)):
            if not front or energy < front[-1][1]:
                front.append((cycles, energy))
        assert [(one.cycles, one.energy_pj) for one in search(space, Objective.PARETO).best] == front
        pricer = Pricer(nest, machine, mode)
        for found in search(space, Objective.EDP, keep=3).best:
            priced = pricer(found.mapping)
            assert (priced.cycles, priced.energy_pj, priced.misfit) == (found.cycles, found.energy_pj, "")


@pytest.mark.parametrize("seed", range(30))
def test_brute_force_finds_nothing_better(seed: int) -> None:
    """All factors, all orders, in all objectives, both modes, ragged factors too."""
    check_against_brute_force(Random(seed), ragged=seed % 3 == 2, most=300)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 400))
def test_brute_force_finds_nothing_better_in_larger_spaces(seed: int) -> None:
    check_against_brute_force(Random(seed), ragged=seed % 3 == 2, most=3000)


def test_two_operands_that_stay_at_once_are_seen() -> None:
    """Then every order that differs is looked at, and the bound that needs one at most is not used."""
    rng = Random(0)
    nests = {nest.name: nest for nest in (random_nest(rng) for _ in range(200))}
    assert not one_operand_stays(nests["two stay"])
    assert one_operand_stays(nests["conv"])
    one, all_ = (search_space(nest, DMAZERUNNER).orders.most for nest in (CONV5_2, nests["two stay"]))
    assert one == 3
    assert all_ == 4


# Four elements, two for each of two results: a pass brings A, 2x2, and B, 2x1, and takes C, 2x1.
SPREAD = product("spread", m=2, n=1, k=4)
ONES, ORDER = (1, 1, 1), (0, 1, 2)
ON_FOUR = LoopMapping(ONES, (1, 1, 2), ONES, (2, 1, 2), ORDER, ORDER)
# Two passes of one cycle, A's four words over two bytes a cycle. Inputs of the first come before it, of the second
# with it; then its sum takes 6 cycles to the register file, 2 words of partial sums go to a neighbour, and 2 words of
# results out. The last of them is there 3 cycles later.
FREE = replace(
    DMAZERUNNER,
    dma_setup_cycles=Fraction(0),
    dma_cycles_per_byte=Fraction(0),
    micro=Microarchitecture(configuration_words=0),
)


@pytest.mark.parametrize(
    ("changes", "cycles"),
    [
        ({}, 4 + 4 + (1 + 6 + 2 + 2) + 3),
        ({"reduction": Reduction.CHAIN}, 4 + 4 + (1 + 6 + 1 + 2) + 3),
        ({"reduction": Reduction.TREE}, 4 + 4 + (1 + 6 + 1 + 2) + 3),
        ({"networks": 2}, 6 + 6 + (1 + 6 + 2 + 2) + 3),  # B after A
        ({"networks": 1}, 6 + 6 + (1 + 6 + 2 + 2) + 3),  # when C goes nothing comes
        ({"multicast": False}, 4 + 4 + (1 + 6 + 2 + 2) + 3),  # B goes to two elements in turn, which A hides
        ({"network_bytes_per_cycle": (Fraction(8), Fraction(2), Fraction(2))}, 2 + 2 + (1 + 6 + 2 + 2) + 3),
        ({"operand_bits": (8, 16, 16)}, 2 + 2 + (1 + 6 + 2 + 2) + 3),
    ],
)
def test_what_the_networks_take_by_hand(changes: dict[str, Any], cycles: int) -> None:
    assert price(SPREAD, replace(FREE, **changes), ON_FOUR).cycles == cycles


@pytest.mark.parametrize(
    ("changes", "cycles"),
    [
        ({"adder_stages": 4}, 4 + 4 + (4 + 9 + 4 + 2) + 3),  # a pass adds to one result, and so does a hop
        ({"multiplier_stages": 5}, 4 + 4 + (1 + 9 + 2 + 2) + 3),
        ({"network_latency_cycles": 7}, 9 + 9 + (1 + 6 + 2 + 2) + 8),
        ({"network_latency_cycles": 0}, 4 + 4 + (1 + 6 + 2 + 2) + 1),
        ({"double_buffered": (False, True, False)}, 4 + (1 + 4) + (1 + 6 + 2 + 2) + 3),
        ({"double_buffered": (True, True, True)}, 4 + 4 + 1 + (6 + 2 + 2) + 3),
        ({"configuration_words": 2}, 2 * (16 + 256) + 4 + 4 + (1 + 6 + 2 + 2) + 3),
    ],
)
def test_what_the_microarchitecture_takes_by_hand(changes: dict[str, Any], cycles: int) -> None:
    assert price(SPREAD, replace(FREE, micro=replace(FREE.micro, **changes)), ON_FOUR).cycles == cycles


def test_channels_share_the_runs_of_a_transfer() -> None:
    """A, two runs of a tile of four columns: one after the other, or both at once."""
    nest = product("runs", m=2, n=1, k=8)
    mapping = LoopMapping((1, 1, 2), ONES, (2, 1, 4), ONES, ORDER, ORDER)
    machine = replace(DMAZERUNNER, micro=FREE.micro)
    one, two = (price(nest, replace(machine, dma_channels=count), mapping).cycles for count in (1, 2))
    run = 46  # cycles of a run of so few bytes: 1455/32 and a little, rounded up
    assert one - two == 2 * run  # in the load of each of two tiles


def test_a_result_that_stays_is_loaded_only_if_it_was_stored_before() -> None:
    """Every run takes ten cycles, all else nothing to speak of: four tiles with A and B, of two of which C is stored.

    With K outside M it is stored after every tile, and comes back for the second half of the tiles: dMazeRunner's model
    has it come every time. Inputs of a tile come in the turn of the one before, results go in the turn of the next.
    """
    nest = product("results", m=2, n=1, k=4)
    machine = replace(FREE, dma_setup_cycles=Fraction(10))
    tiles, rf = (2, 1, 2), (1, 1, 2)
    stays, returns = (LoopMapping(tiles, ONES, rf, ONES, order, ORDER) for order in (ORDER, (2, 1, 0)))
    last = 2 + 6 + 1  # cycles of a pass, until its sum is in the register file, C over its network
    first_and_last = 20 + last + 3 + 10  # A and B, the last slot, until C has arrived, C
    assert price(nest, machine, stays).cycles == first_and_last + 20 + 20 + 20 + 10
    assert price(nest, machine, returns).cycles == first_and_last + 10 + (20 + 10 + 10) + (10 + 10 + 10) + 10
    assert price(nest, machine, stays, CostMode.PUBLISHED).cycles == 4 * 20 + 2 * (10 + 10)
    assert price(nest, machine, stays).accesses[2].dram_load_words == 0
    assert price(nest, machine, returns).accesses[2].dram_load_words == 2


def test_elements_of_another_rate_are_refused() -> None:
    machine = load_machine("eyeriss")
    unit = machine.cores[0].array
    assert unit is not None
    with pytest.raises(InputError, match=r"rates.float16 is 2; mappings are priced for one"):
        array_alone(replace(unit, rates=((DType.FLOAT16, Fraction(2)),)))


def test_a_fixed_dataflow_spreads_its_loops() -> None:
    """And is never better than the free choice."""
    free = search(search_space(CONV5_2, DMAZERUNNER), Objective.EDP).best[0]
    for dataflow in (*DATAFLOWS, "N|M"):
        limits = dataflow_limits(CONV5_2, dataflow)
        found = search(search_space(CONV5_2, DMAZERUNNER, limits=limits), Objective.EDP).best[0]
        assert all(found.mapping.spatial[loop] > 1 for loop in limits.spread)
        assert found.edp >= free.edp


def test_dataflows_that_a_nest_does_not_have_are_refused() -> None:
    with pytest.raises(InputError, match="expected output, weight, coarse-weight, input or two"):
        dataflow_limits(product("gemm", m=2, n=2, k=2), "row")
    with pytest.raises(InputError, match="one iteration"):
        dataflow_limits(convolution("point", n=1, m=2, c=2, output=(2, 2), window=SlidingWindow((1, 1))), "weight")


def test_thresholds_of_the_pruned_search_are_lowered_until_enough_is_left() -> None:
    """Small layers have few tilings that use most of the array."""
    space, attempts = adapted_space(product("gemv", m=1, n=1000, k=512), DMAZERUNNER, CostMode.PUBLISHED)
    assert len(attempts) > 1
    assert attempts[0].least == (0.8, 0.8, 0.5)
    assert attempts[1].least == (0.7, 0.7, 0.5)
    assert not attempts[-1].rules
    assert attempts[-1].tilings == space.tilings() > 0


def test_nothing_that_fits_is_said_with_what_would() -> None:
    with pytest.raises(DoesNotFit, match="register_bytes of at least 6"):
        map_layer(RepeatedNest(CONV5_2, ("conv5_2",)), replace(DMAZERUNNER, register_bytes=4), MapOptions())
    with pytest.raises(DoesNotFit, match="at least 6 banks"):
        map_layer(RepeatedNest(CONV5_2, ("conv5_2",)), replace(DMAZERUNNER, banks=2), MapOptions())


def test_equal_layers_of_a_network_are_mapped_once_and_counted_as_often_as_they_run() -> None:
    from tilestitch import api

    layers, others = layers_of(api.load_graph("resnet18"))
    assert (len(layers), sum(layer.times for layer in layers)) == (12, 21)
    assert {op.kind for op in others} >= {"relu", "add"}
    chosen = [layer for layer in layers if max(layer.nest.extents[3:5], default=7) <= 7]
    mapped = map_layers(chosen, DMAZERUNNER, MapOptions())
    total = totals_of(mapped)
    assert total.cycles == sum(one.layer.times * one.prices[0].cycles for one in mapped)
    assert total.macs == sum(layer.times * layer.nest.macs for layer in chosen)


def line(**changes: object) -> str:
    found = {
        "nest": {
            "kind": "conv",
            "extents": {"N": 4, "M": 512, "C": 512, "Ox": 7, "Oy": 7, "Fx": 3, "Fy": 3},
            "padded": [9, 9],
        },
        "factors": {
            "dram": {"M": 8, "C": 64},
            "spm": {"C": 8},
            "rf": {"N": 4, "M": 16, "Fx": 3, "Fy": 3},
            "spatial": {"M": 4, "Ox": 7, "Oy": 7},
        },
        "orders": {"dram": ["M", "C"], "spm": ["C"]},
        "mode": "published",
    }
    return json.dumps({**found, **changes})


def test_lines_of_json_are_priced_one_by_one() -> None:
    """One that says no mapping is an error of its own, one that does not fit is priced."""
    wide = {
        "dram": {"M": 8, "C": 64},
        "spm": {"C": 8},
        "rf": {"N": 4, "M": 64, "Fx": 3, "Fy": 3},
        "spatial": {"Ox": 7, "Oy": 7},
    }
    lines = [line(), "{", line(factors={"dram": {"Q": 2}}), "", line(factors=wide), line(mode="default")]
    first, broken, unknown, misfit, default = map(json.loads, price_lines(lines, DMAZERUNNER))
    assert (first["valid"], first["cycles"], first["energy_pj"]) == (True, 2_459_648, 2_908_068_209)
    assert broken["error"].startswith("not a line of JSON")
    assert unknown["error"].startswith('unknown key "Q" in factors.dram')
    assert not misfit["valid"]
    assert misfit["reason"].startswith("needs ")
    assert misfit["cycles"] > 0
    assert default["cycles"] > first["cycles"]


def test_the_python_calls_say_what_the_command_says() -> None:
    """A price is the one of a line, a network's layers are those that are mapped one by one."""
    (printed,) = price_lines([line()], DMAZERUNNER)
    assert tilestitch.evaluate_mapping(json.loads(line())) == json.loads(printed)
    mapped = tilestitch.map("alexnet:small", "dmazerunner-256")
    assert [one.found for one in mapped] == [map_layer(one.layer, DMAZERUNNER, MapOptions()).found for one in mapped]
