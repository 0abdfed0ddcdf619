"""Proofs in time, of windows that slide, of even storage and of constraints: the least of brute force, and no other."""

import itertools
import random
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.helpers.tree_brute_force import all_best, timed_case
from tests.helpers.tree_problems import KINDS, ROUNDED, random_problem
from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.ir.choices import Objective
from tilestitch.mapping.optimum import Optimum
from tilestitch.mapping.tree.certificate import certificate_of, chain_value
from tilestitch.mapping.tree.chain import latency_cycles
from tilestitch.mapping.tree.checking import check_certificate
from tilestitch.mapping.tree.claim import Claim
from tilestitch.mapping.tree.search import best_mapping, pareto_front
from tilestitch.mapping.tree.table_walk import broken_onwards, onwards
from tilestitch.mapping.tree.tables import Sums
from tilestitch.mapping.tree.walk_checking import walker_of
from tilestitch.mapping.tree.walk_tables import walk_tables, with_windows

VALUES = {
    Objective.ENERGY: lambda energy, cycles: energy,
    Objective.LATENCY: lambda energy, cycles: cycles,
    Objective.EDP: lambda energy, cycles: energy * cycles,
    Objective.ED2P: lambda energy, cycles: energy * cycles * cycles,
}


def check_block(name, cases):
    """The least of each objective is accepted, others of the front are refused; how many of each kind."""
    seed, accepted, refused = random.Random(name), 0, 0
    for kind in itertools.islice(itertools.cycle(KINDS), cases):
        placed, sums = random_problem(seed, kind)
        front = all_best(placed, final_sums=sums is Sums.FINAL)
        if not front:
            continue
        points = pareto_front([placed], sums, 10**6).points
        for objective, value in VALUES.items():
            found = best_mapping(placed, sums, objective=objective)
            proof = certificate_of([placed], found, objective)
            scale = 1 if objective is Objective.LATENCY else 1000
            least = min(value(*point) for point in front)
            # of bits on networks, and of sums that neighbours add, no whole femtojoules: each crossing is rounded
            halves = sum(map(len, found.mapping.cuts)) / 2 if kind in ROUNDED and scale > 1 else 0
            slack = value(halves, found.price.latency_cycles)
            assert proof.value == pytest.approx(least * scale, rel=1e-12, abs=slack), (kind, objective)
            check_certificate(proof, [placed], sums, objective)
            accepted += 1
            worse = [point for point in points if value(point.price.energy_pj, point.price.latency_cycles) > least]
            for point in worse[:1]:
                planted = certificate_of([placed], point, objective)
                assert planted.value > proof.value
                with pytest.raises(InputError, match="a better chain costs"):
                    check_certificate(planted, [placed], sums, objective)
                refused += 1
    return accepted, refused


def test_the_least_is_accepted_and_what_is_worse_refused():
    accepted, refused = check_block("walked", 4)
    assert accepted >= 10
    assert refused >= 2


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_the_least_is_accepted_and_what_is_worse_refused_for_many(block):
    accepted, refused = check_block(f"walked {block}", 40)
    assert accepted >= 60
    assert refused >= 15


def test_the_walk_finds_the_least_itself():
    """Asked for less than the least and one more, it gives the least, in each objective."""
    seed, found_again = random.Random("walks"), 0
    for _ in range(10):
        placed, sums = random_problem(seed, "plain")
        for objective in VALUES:
            try:
                found = best_mapping(placed, sums, objective=objective)
            except DoesNotFit:
                break
            value = chain_value(objective, placed, found.mapping)
            least, more = (Claim("least", Optimum(objective, value + one)) for one in (0, 1))
            tables = walk_tables(placed, sums)
            walker_of(least, lambda: "here", tables).labels_below()
            with pytest.raises(InputError, match=rf"a better chain costs {value:,}[ ,]"):
                walker_of(more, lambda: "here", tables).labels_below()
            found_again += 1
    assert found_again > 16


def sliding_case():
    """A problem whose best mapping has windows that slide, with its proof, in which that way to slide is opened."""
    seed = random.Random("slides")
    for _ in range(300):
        placed, sums = random_problem(seed, "networks")
        try:
            found = best_mapping(placed, sums, objective=Objective.EDP)
        except DoesNotFit:
            continue
        if found.mapping.rows and len(with_windows(placed)) > 1:
            proof = certificate_of([placed], found, Objective.EDP)
            if proof.choices[proof.chosen].is_opened:
                return placed, sums, proof
    raise AssertionError("no such case")


@cache
def sliding():
    return sliding_case()


def other_row(proof):
    operand, crossing, end = proof.mapping.rows[0]
    rows = ((operand, crossing, end + 99), *proof.mapping.rows[1:])
    return replace(proof, mapping=replace(proof.mapping, rows=rows))


TAMPERED = {
    "a lower value": (lambda one: replace(one, value=one.value - 1), "its chain costs"),
    "a higher value": (lambda one: replace(one, value=one.value + 1), "its chain costs"),
    "another problem": (lambda one: replace(one, problem="0" * 16), "of another nest"),
    "no rows": (lambda one: replace(one, mapping=replace(one.mapping, rows=())), r"its chain (costs|does not fit)"),
    "a row beyond all loops": (other_row, "row of windows"),
    "a way to slide less": (lambda one: replace(one, choices=one.choices[1:]), "it says what became of"),
    "ways in another order": (lambda one: replace(one, choices=one.choices[::-1]), r"choice \d+ spreads"),
    "a way that is opened said to be bounded": (
        lambda one: changed(one, one.chosen, bound=one.value, is_opened=False),
        "settles nothing",
    ),
    "a way that fits said to fit nothing": (
        lambda one: changed(one, one.chosen, bound=None, is_opened=False),
        "it says nothing fits",
    ),
    "another way to slide": (lambda one: replace(one, chosen=0), "row of windows"),
}


def changed(proof, at, **fields):
    choices = [replace(one, **fields) if number == at else one for number, one in enumerate(proof.choices)]
    return replace(proof, choices=tuple(choices))


@pytest.mark.parametrize("what", TAMPERED)
def test_a_proof_of_windows_that_was_tampered_with_is_refused(what):
    placed, sums, proof = sliding()
    change, message = TAMPERED[what]
    check_certificate(proof, [placed], sums, Objective.EDP)
    with pytest.raises(InputError, match=f"^the certificate of '.*' is wrong: .*{message}"):
        check_certificate(change(proof), [placed], sums, Objective.EDP)


def test_a_proof_is_of_one_objective():
    placed, sums, proof = sliding()
    with pytest.raises(InputError, match="width of sums or objective"):
        check_certificate(proof, [placed], sums, Objective.ED2P)


def test_loops_in_another_order_than_the_constraints_say_are_refused():
    """The mapping that is best without an order, where it costs the same, but has other loops innermost."""
    seed, refused = random.Random("disorder"), 0
    for _ in range(60):
        placed = timed_case(seed, 3)
        try:
            found = best_mapping(placed)
        except DoesNotFit:
            continue
        if not found.mapping.loops:
            continue
        for loop in range(3):
            if placed.steps[loop] > 1 and found.mapping.loops[0][0] != loop:
                ordered = replace(placed, order=((loop, 0),))
                proof = certificate_of([ordered], replace(found, placed=ordered))
                with pytest.raises(InputError, match=r"not in the order|does not fit"):
                    check_certificate(proof, [ordered], found.sums)
                refused += 1
    assert refused > 10


def test_potentials_of_the_walk_that_are_too_high_are_noticed():
    """On whichever edge: each one of them that is raised breaks an edge."""
    seed, raised = random.Random("walked potentials"), 0
    for _ in range(6):
        placed, sums = random_problem(seed, "plain")
        cuts = walk_tables(placed, sums).cuts
        costs = np.stack([cuts.price, *cuts.sums], axis=-1)
        many = np.array([1 + seed.randrange(costs.shape[2]) for _ in cuts.first[1:]], np.int64)  # of each operand
        found = onwards(cuts, costs, many)
        assert broken_onwards(cuts, costs, many, found) == 0
        of_cuts = np.repeat(np.arange(len(many)), np.diff(cuts.first))
        known = [
            place
            for place in np.ndindex(found.shape)
            if place[3] < many[of_cuts[place[0]]] and (place[1] == 0 or of_cuts[place[0]] == cuts.write)
        ]
        for place in seed.sample(known, min(400, len(known))):
            if found[place] < 2**61:
                more = found.copy()
                more[place] += 1
                assert broken_onwards(cuts, costs, many, more) > 0, place
                raised += 1
    assert raised > 1000


def test_a_latency_is_that_of_the_chain():
    placed, sums, _ = sliding()
    found = best_mapping(placed, sums, objective=Objective.LATENCY)
    proof = certificate_of([placed], found, Objective.LATENCY)
    assert proof.value == latency_cycles(found.placed, found.mapping) == found.price.latency_cycles
