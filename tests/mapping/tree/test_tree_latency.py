"""Latency, and what is least of latency and energy together, on machine trees."""

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tests.helpers.pairs import first
from tests.helpers.tree_brute_force import all_best, timed_case, with_engines
from tilestitch.base.errors import DoesNotFit
from tilestitch.base.tiers import interpreted
from tilestitch.ir.choices import Objective
from tilestitch.mapping.tree import timed_pace
from tilestitch.mapping.tree.chain import price
from tilestitch.mapping.tree.loads import Loads
from tilestitch.mapping.tree.pace import (
    ALONE,
    ELSE,
    INPUTS,
    LEADS,
    RESULT,
    RESULTS,
    THROUGH,
    TRAILS,
    Crossed,
    Pace,
)
from tilestitch.mapping.tree.search import MOST_LABELS, best_mapping, pareto_front
from tilestitch.mapping.tree.tables import Sums
from tilestitch.mapping.tree.timed_pace import Tracked

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
cross, keeps_up, repeat = (
    interpreted(getattr(one, "py_func", one)) for one in (timed_pace.cross, timed_pace.keeps_up, timed_pace.repeat)
)


def changes(seed, loops, crossings):
    """Loops, and crossings of one or two ports that stop the units or do not, in some order."""
    found = [("loop", factor) for factor in loops]
    for _ in range(crossings):
        ways = [{port: seed.randrange(12) for port in seed.sample(PORTS, seed.randrange(3))} for _ in range(2)]
        stops = {port: sum(way.get(port, 0) for way in ways) + seed.randrange(2) for port in PORTS}
        operand = seed.randrange(4)
        way = seed.choice((RESULT, THROUGH)) if operand == RESULTS else ELSE
        delays = tuple(
            each for each in range(RESULTS + 1) if each == operand or (operand < each and seed.random() < 0.5)
        )
        kind = seed.choice(("hides", "stops"))
        line = seed.choice((ALONE, TRAILS if kind == "hides" else LEADS)) if operand < INPUTS else ALONE
        found.append((kind, Crossed(*ways, stops, operand, way, delays, line)))
    seed.shuffle(found)
    return found


def changed(pace, steps):
    for kind, what in steps:
        if kind == "loop":
            pace = pace.repeated(what)
        else:
            pace = pace.with_crossing(what if kind == "stops" else what._replace(stops={}))
    return pace


def alike(pace, seed):
    """A pace that differs by a few cycles, and that a tile might have."""
    turn, work, ahead = (one + seed.choice((-3, -1, 0, 0, 1, 3)) for one in (pace.turn, pace.work, pace.ahead))
    work = max(work, ahead)
    stops = max(pace.stops.values(), default=0)
    late = tuple(min(work, max(ahead, one + seed.choice((-2, 0, 0, 2)))) for one in pace.late)
    return replace(pace, turn=max(turn, work, ahead + stops, *pace.busy.values()), work=work, ahead=ahead, late=late)


def test_a_pace_that_keeps_up_is_never_slower():
    """Of two paces of one tile, the one for which the other is dropped is as fast after every later change."""
    seed = random.Random("paces")
    kept = 0
    for _ in range(12000):
        one = changed(Pace(), [("loop", 2), *changes(seed, (3,), seed.randrange(4))])
        other = alike(one, seed)
        later = changes(seed, seed.choices([2, 3], k=seed.randrange(1, 3)), seed.randrange(4))
        kinds = {kind for kind, _ in later}
        left = int(np.prod([what for kind, what in later if kind == "loop"]))
        one_row, other_row = row_of(one), row_of(other)
        if keeps_up(one_row, other_row, COLUMNS, left - 1, bool(kinds & {"hides", "stops"}), "stops" in kinds):
            assert changed(one, later).latency <= changed(other, later).latency, (one, other, later)
            kept += one != other
    assert kept > 1000


TRACKED = Tracked((PORTS,) * 13, (True, True))
COLUMNS = TRACKED.columns


def row_of(pace):
    """A pace as a row in which every port has columns."""
    sums = (pace.stops, pace.first, pace.last, pace.busy, *pace.until, *pace.own, *pace.begun, *pace.trail)
    most = [max(one.values(), default=0) for one in sums]
    each = [sums[kind].get(port, 0) for _, kind, port in TRACKED.each]
    heads = [pace.turn, pace.work, pace.ahead, *most[:3], *pace.late, *most[4:-INPUTS], *pace.waits, pace.apart, 0]
    return np.array([*heads, *each], np.int64)


def test_rows_are_paces():
    """What loops and crossings make of a row is what they make of a pace."""
    seed = random.Random("rows")
    for _ in range(300):
        pace = Pace()
        row = row_of(pace)
        for kind, what in changes(seed, [2, 3, 5], 4):
            pace = changed(pace, [(kind, what)])
            if kind == "loop":
                repeat(row, COLUMNS, what)
            else:
                inwards, outwards, stops, operand, way, delays, line = what
                cycles = [{port: np.array([one]) for port, one in way.items()} for way in (inwards, outwards, stops)]
                loads = Loads(
                    cycles[0], cycles[1], cycles[2] if kind == "stops" else {}, operand, np.array([way]), delays, line
                )
                load = np.zeros(COLUMNS.end, np.int64)
                for column, added in TRACKED.row(loads.kinds, operand, loads.ways, line).items():
                    load[column] = added[0]
                cross(row, COLUMNS, load)
            assert row.tolist() == row_of(pace).tolist()


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
