"""Latency, and what is least of latency and energy together, on machine trees."""

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tests.helpers.pairs import first
from tests.helpers.tree_brute_force import all_best, timed_case, with_engines
from tilestitch.base.errors import DoesNotFit
from tilestitch.ir.choices import Objective
from tilestitch.mapping.tree.chain import price
from tilestitch.mapping.tree.pace import Pace
from tilestitch.mapping.tree.search import MOST_LABELS, best_mapping, pareto_front
from tilestitch.mapping.tree.tables import Sums
from tilestitch.mapping.tree.timed_labels import Pending, keeps_up

POWERS = {Objective.ENERGY: (1, 0), Objective.EDP: (1, 1), Objective.ED2P: (1, 2)}


def found_front(placed, sums):
    try:
        front = pareto_front([placed], sums, MOST_LABELS)
    except DoesNotFit:
        return []
    assert front.is_proven
    return [(one.price.energy_pj, one.price.latency_cycles) for one in front.points]


def check_block(name, cases, most_loops, changed=lambda placed, seed: placed):
    seed = random.Random(name)
    several = fitting = 0
    for number in range(cases):
        placed = changed(timed_case(seed, most_loops), seed)
        sums = seed.choice(list(Sums))
        best = all_best(placed, final_sums=sums is Sums.FINAL)
        assert found_front(placed, sums) == best, (name, number, placed)
        several, fitting = several + (len(best) > 1), fitting + (len(best) > 0)
        if not best:
            continue
        for objective, (power, of_cycles) in POWERS.items():
            found = best_mapping(placed, sums, objective=objective)
            least = min(energy**power * cycles**of_cycles for energy, cycles in best)
            assert found.is_proven
            assert found.value == found.bound == pytest.approx(least, rel=1e-12), (name, number, objective, placed)
        fastest = best_mapping(placed, sums, objective=Objective.LATENCY)
        energy, cycles = best[-1]
        assert (fastest.price.latency_cycles, fastest.price.energy_pj) == (cycles, energy), (name, number, placed)
    assert fitting > cases / 3
    return several


def test_nothing_is_better_beside_engines():
    """The same with DMA engines between memories; with their set-up another mapping is the fastest in some cases."""
    assert check_block("engines", 10, 3, with_engines) > 0
    seed, slower, changed = random.Random("set-up"), 0, 0
    for _ in range(12):
        placed = with_engines(timed_case(seed, 2), seed)
        try:
            found = best_mapping(placed, objective=Objective.LATENCY)
        except DoesNotFit:
            continue
        without = best_mapping(replace(placed, tree=replace(placed.tree, engines=())), objective=Objective.LATENCY)
        slower += found.price.latency_cycles > without.price.latency_cycles
        changed += price(placed, without.mapping).latency_cycles > found.price.latency_cycles
    assert slower > 2
    assert changed > 0


@pytest.mark.parametrize("block", first(2, [1, 2, 0, 3, 4]))
def test_nothing_is_better_than_what_is_found(block):
    """Front, and least energy, latency, EDP and ED2P, are those of all orders and places, by another program."""
    assert check_block(f"fast {block}", 20, 3) > 0


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_nothing_is_better_than_what_is_found_for_more_loops(block):
    """400 nests of up to four prime loops."""
    assert check_block(f"slow {block}", 20, 4) > 0


PORTS = ((0, 0), (1, 0))


def changes(seed, loops, crossings):
    """Loops, and crossings of one or two ports that stop the units or do not, in some order."""
    found = [("loop", factor) for factor in loops]
    for _ in range(crossings):
        served = {port: seed.randrange(1, 12) for port in seed.sample(PORTS, seed.choice((1, 2)))}
        found.append((seed.choice(("hides", "stops")), served))
    seed.shuffle(found)
    return found


def changed(pace, steps):
    for kind, what in steps:
        pace = pace.repeated(what) if kind == "loop" else pace.with_crossing(what, hidden=kind == "hides")
    return pace


def test_a_pace_that_keeps_up_is_never_slower():
    """Of two paces of one tile, the one for which the other is dropped is as fast after every later change."""
    seed = random.Random("paces")
    kept = 0
    for _ in range(4000):
        one, other = (changed(Pace(), changes(seed, seed.sample([2, 3], 2), seed.randrange(4))) for _ in range(2))
        later = changes(seed, seed.choices([2, 3], k=seed.randrange(1, 3)), seed.randrange(3))
        kinds = {kind for kind, _ in later}
        left = int(np.prod([what for kind, what in later if kind == "loop"]))
        triples = [(pace.alone, pace.turn, pace.ready) for pace in (one, other)]
        busy = [np.array([pace.busy.get(port, 0) for port in PORTS], np.int64) for pace in (one, other)]
        if keeps_up(Pending("hides" in kinds, "stops" in kinds), left - 1, triples[0], busy[0], triples[1], busy[1]):
            assert changed(one, later).alone <= changed(other, later).alone, (one, other, later)
            kept += 1
    assert kept > 400


def test_a_port_takes_as_long_as_its_bandwidth_says():
    """Of a machine whose ports are all four times slower no mapping takes less, nor more than four times as long."""
    seed, slower = random.Random("bandwidth"), 0
    for _ in range(12):
        placed = timed_case(seed, 3)
        slow = replace(placed, tree=replace(placed.tree, memories=tuple(map(four_times_slower, placed.tree.memories))))
        try:
            found = best_mapping(placed, objective=Objective.LATENCY)
        except DoesNotFit:
            continue
        at_full_rate = found.price.latency_cycles
        at_a_quarter = price(slow, found.mapping).latency_cycles
        assert at_full_rate <= at_a_quarter <= 4 * at_full_rate
        assert price(slow, found.mapping).energy_pj == found.price.energy_pj
        slower += at_a_quarter > at_full_rate
    assert slower > 2


def four_times_slower(memory):
    """Without a word of its energies and sizes."""
    ports = (replace(port, stated_bits_per_cycle=Fraction(port.width_bits, 4)) for port in memory.ports)
    return replace(memory, ports=tuple(ports))
