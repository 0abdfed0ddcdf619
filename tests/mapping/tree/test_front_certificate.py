"""Proofs of fronts of energy and latency: those of brute force are accepted, and no others."""

import itertools
import random
from dataclasses import replace
from functools import cache

import pytest

from tests.helpers.tree_brute_force import all_best, like_arrays, timed_case, with_engines, with_networks
from tests.helpers.tree_problems import KINDS, ROUNDED, random_problem
from tests.helpers.tree_spatial import all_placements, with_axes
from tests.helpers.zigzag_trees import placed as zigzag_placed
from tilestitch.base.errors import InputError
from tilestitch.ir.choices import Objective
from tilestitch.mapping.tree.certificate import OPENED
from tilestitch.mapping.tree.chain import TreeMapping
from tilestitch.mapping.tree.choices import SpatialSpace
from tilestitch.mapping.tree.free_front import front_of_choices
from tilestitch.mapping.tree.front_certificate import (
    free_front_certificate_of,
    free_front_json,
    front_certificate_of,
    front_json,
)
from tilestitch.mapping.tree.front_checking import check_free_front, check_front
from tilestitch.mapping.tree.search import best_mapping, pareto_front
from tilestitch.mapping.tree.tables import Sums

WRONG = "^the certificate of '.*' is wrong: .*"
MISSING = "no point of its front is as good in both"


def expect_front(proof, front, halves):
    """The points are those of brute force, but for so many halves of a femtojoule in which they were rounded."""
    points = [(one.energy_fj, one.cycles) for one in proof.points]
    if halves == 0:
        assert [cycles for _, cycles in points] == [cycles for _, cycles in front]
        assert [energy for energy, _ in points] == pytest.approx([1000 * energy for energy, _ in front], rel=1e-12)
    for energy, cycles in front:
        assert any(one <= 1000 * energy + halves and other <= cycles for one, other in points)
    for energy, cycles in points:
        assert any(1000 * one <= energy + halves and other <= cycles for one, other in front)


def without(points, number):
    return (*points[:number], *points[number + 1 :])


def check_block(name, cases):
    """Fronts of brute force are accepted, and not with any one of their points less; how many were, and were not."""
    seed, accepted, refused = random.Random(name), 0, 0
    kinds = itertools.cycle(KINDS)
    while accepted < cases:
        kind = next(kinds)
        placed, sums = random_problem(seed, kind)
        front = all_best(placed, final_sums=sums is Sums.FINAL)
        if not front:
            continue
        proof = front_certificate_of([placed], pareto_front([placed], sums, 10**6).points)
        cuts = sum(map(len, proof.points[0].mapping.cuts))
        expect_front(proof, front, cuts if kind in ROUNDED else 0)
        check_front(proof, [placed], sums)
        accepted += 1
        for number in range(len(proof.points)):
            # where the missing point is the bound of its choice, the bound settles nothing without it
            with pytest.raises(
                InputError, match=f"{WRONG}(.*{MISSING}|choice 0: its bound is .*, which settles nothing)"
            ):
                check_front(replace(proof, points=without(proof.points, number)), [placed], sums)
            refused += len(proof.points) > 1
    return refused


def test_fronts_are_accepted_and_not_without_a_point():
    assert check_block("fronts", 6) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_fronts_are_accepted_and_not_without_a_point_for_many(block):
    assert check_block(f"fronts {block}", 60) >= 40


def spread_problem(seed):
    """A nest on a random tree with everything free to be spread; some have networks, windows and even storage."""
    bare = with_axes(timed_case(seed, 3), seed)
    bare = with_networks(bare, seed) if seed.random() < 0.5 else bare
    bare = like_arrays(bare, seed) if seed.random() < 0.3 else bare
    bare = with_engines(bare, seed) if seed.random() < 0.3 else bare
    return bare, seed.choice(list(Sums))


def check_free_block(name, cases):
    """The same of fronts over all choices of what is spread."""
    seed, accepted, refused = random.Random(name), 0, 0
    space = SpatialSpace()
    while accepted < cases:
        bare, sums = spread_problem(seed)
        fronts = [all_best(one, final_sums=sums is Sums.FINAL) for one in all_placements(bare, "filling")]
        front = []
        for energy, cycles in sorted(point for one in fronts for point in one):
            if not front or cycles < front[-1][1]:
                front.append((energy, cycles))
        if not front:
            continue
        found = front_of_choices(bare, space, sums)
        proof = free_front_certificate_of(bare, space, found.points)
        rounds = any(axis.networks for axis in bare.tree.axes)
        expect_front(proof, front, sum(map(len, proof.points[0].mapping.cuts)) if rounds else 0)
        verdict = check_free_front(proof, bare, space, sums)
        assert verdict.choices == found.choices == proof.choices
        accepted += 1
        for number in range(len(found.points)):
            if len(found.points) > 1:
                less = free_front_certificate_of(bare, space, without(found.points, number))
                with pytest.raises(InputError, match=f"{WRONG}{MISSING}"):
                    check_free_front(less, bare, space, sums)
                refused += 1
    return refused


def test_a_proof_is_accepted_where_a_loop_leaves_alone_what_changes_at_a_place():
    assert check_block("stress 45", 10) >= 10


def test_an_even_memory_does_not_change_further_out_than_one_outside_it():
    """buffer0 holds I and O, buffer1 W and I: cheapest would be to change W in buffer1 inside the place of buffer0."""
    check_free_block("stress free 11", 1)
    bare, sums = spread_problem(random.Random("stress free 11"))
    placed = next(one for one in all_placements(bare, "filling") if one.steps == (4, 1, 2))
    proof = front_certificate_of([placed], pareto_front([placed], sums, 10**6).points)
    assert [one.energy_fj for one in proof.points] == [327_750]
    mapping = TreeMapping(((0, 4), (2, 2)), ((0, 0, 2), (0, 0, 0, 2), (1, 2)))
    cheaper = changed(proof, 0, energy_fj=320_500, mapping=mapping)
    with pytest.raises(InputError, match=f"{WRONG}its chain does not store evenly in buffer1"):
        check_front(cheaper, [placed], sums)


def test_fronts_over_all_choices_are_accepted_and_not_without_a_point():
    assert check_free_block("free fronts", 6) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_fronts_over_all_choices_are_accepted_and_not_without_a_point_for_many(block):
    assert check_free_block(f"free fronts {block}", 20) >= 20


@cache
def spread():
    """A front over all choices of what is spread, where points spread different loops, and its proof."""
    seed = random.Random("free fronts of several choices")
    bare, sums = hardly_waiting(with_axes(timed_case(seed, 3), seed)), seed.choice(list(Sums))
    proof = free_front_certificate_of(bare, SpatialSpace(), front_of_choices(bare, SpatialSpace(), sums).points)
    assert len(proof.points) == len(proof.taken) == 2
    assert any(one.opened for one in proof.blocks)
    assert any(one.bound is not None for one in proof.blocks)
    return proof, bare, sums


def hardly_waiting(bare):
    """The same with wide ports and two buffers everywhere, so that some choices are settled by their steps alone."""
    memories = tuple(
        replace(
            memory,
            buffers=2,
            size_bits=2 * memory.size_bits,
            ports=tuple(replace(port, width_bits=64 * port.width_bits) for port in memory.ports),
        )
        for memory in bare.tree.memories
    )
    return replace(bare, tree=replace(bare.tree, memories=memories))


@cache
def proven():
    """The front over eight of these choices, and its proof."""
    _, bare, sums = spread()
    placements = list(all_placements(bare, "filling"))[:8]
    proof = front_certificate_of(placements, pareto_front(placements, sums, 10**6).points)
    assert len(proof.points) == 3
    assert any(one.is_opened for one in proof.choices)
    assert any(one.bound is not None for one in proof.choices)
    return proof, placements, sums


def changed(proof, number, **fields):
    """A proof in which one point says something else."""
    points = list(proof.points)
    points[number] = replace(points[number], **fields)
    return replace(proof, points=tuple(points))


def added(proof, **fields):
    """A proof with one of its points once more, which is a mapping like any other."""
    first, second, *others = proof.points
    return replace(proof, points=(first, second, replace(second, **fields), *others))


def swapped(proof):
    first, second, *others = proof.points
    return replace(proof, points=(second, first, *others))


def reordered(proof):
    mapping = proof.points[1].mapping
    first, *others = mapping.loops
    return changed(proof, 1, mapping=replace(mapping, loops=(*others, (first[0], first[1] + 1))))


def exchanged(proof):
    """Two points of which each has the mapping of the other."""
    one, other = proof.points[:2]
    proof = changed(proof, 0, mapping=other.mapping, chosen=other.chosen)
    return changed(proof, 1, mapping=one.mapping, chosen=one.chosen)


TAMPERED = {
    "a point less": (lambda one: replace(one, points=one.points[1:]), f"({MISSING}|is taken by no point)"),
    "the last point less": (lambda one: replace(one, points=one.points[:-1]), f"({MISSING}|is taken by no point)"),
    "a point that another beats": (
        lambda one: added(one, energy_fj=one.points[1].energy_fj + 1),
        "point 2 is beaten by the one before it",
    ),
    "a point twice": (added, "point 2 has no more energy than the one before it"),
    "points in another order": (swapped, "point 1 has no more energy than the one before it"),
    "less energy": (lambda one: changed(one, 1, energy_fj=one.points[1].energy_fj - 1), "its chain costs"),
    "more energy": (lambda one: changed(one, 1, energy_fj=one.points[1].energy_fj + 1), "its chain costs"),
    "fewer cycles": (lambda one: changed(one, -1, cycles=one.points[-1].cycles - 1), "its chain costs"),
    "more cycles": (lambda one: changed(one, 0, cycles=one.points[0].cycles + 1), "its chain costs"),
    "mappings exchanged": (exchanged, r"its (chain costs|factors)"),
    "another factor": (reordered, "its factors of loop"),
    "another problem": (lambda one: replace(one, problem="0" * 16), "it is of another nest"),
}


def choice(proof, kind, **fields):
    """A proof that says something else of the first choice of a kind."""
    at = next(at for at, one in enumerate(proof.choices) if (OPENED if one.is_opened else "bound") == kind)
    choices = [replace(one, **fields) if number == at else one for number, one in enumerate(proof.choices)]
    return replace(proof, choices=tuple(choices))


OF_CHOICES = {
    "a choice less": (lambda one: replace(one, choices=one.choices[1:]), "it says what became of"),
    "choices in another order": (lambda one: replace(one, choices=one.choices[::-1]), r"choice \d+ spreads"),
    "an opened choice said to be bounded": (
        lambda one: choice(one, OPENED, bound=(1, 1), is_opened=False),
        "settles nothing",
    ),
    "an opened choice said to fit nothing": (
        lambda one: choice(one, OPENED, bound=None, is_opened=False),
        "it says nothing fits",
    ),
    "a higher bound": (
        lambda one: choice(one, "bound", bound=(2**50, 2**50)),
        r"its bound is [0-9,]+ fJ in [0-9,]+ cycles, it says",
    ),
    "a bounded choice said to be opened": (
        lambda one: choice(one, "bound", bound=None, is_opened=True),
        "it says it was opened",
    ),
}


def block(proof, **more):
    """A proof in which the first block with a bound says something else of it."""
    at = next(number for number, one in enumerate(proof.blocks) if one.bound is not None)
    fields = {name: getattr(proof.blocks[at], name) + one for name, one in more.items()}
    return replace(proof, blocks=(*proof.blocks[:at], replace(proof.blocks[at], **fields), *proof.blocks[at + 1 :]))


def taken(proof, **fields):
    return replace(proof, taken=(replace(proof.taken[0], **fields), *proof.taken[1:]))


OF_SPACES = {
    "a choice less": (lambda one: replace(one, choices=one.choices - 1), "choices of what is spread, it says"),
    "a choice that is none": (lambda one: taken(one, spread=("D0 M 97",)), r"none of the choices|expected an axis"),
    "a choice that nobody reads": (lambda one: taken(one, spread=("M",)), "expected an axis, a loop and a factor"),
    "a choice that no point takes": (
        lambda one: replace(one, taken=(*one.taken, replace(one.taken[0], spread=()))),
        "is taken by no point",
    ),
    "no choices": (lambda one: replace(one, taken=()), "a point takes choice 0 of 0 that are taken"),
    "a choice twice": (
        lambda one: replace(
            changed(one, 0, chosen=len(one.taken)), taken=(*one.taken, one.taken[one.points[0].chosen])
        ),
        "is taken by no point, or is there twice",
    ),
    "a chain more": (lambda one: taken(one, chains=one.taken[0].chains + 1), "has not the .* chains"),
    "a block less": (lambda one: replace(one, blocks=one.blocks[1:]), "blocks of choices"),
    "a choice more in a block": (lambda one: block(one, choices=1), "choices, it says"),
    "an opened choice more": (lambda one: block(one, opened=1), "choices to be opened, it says"),
    "a higher bound": (lambda one: block(one, bound=1), r"has the bound [0-9,]+ fJ, it says"),
    "a lower bound": (lambda one: block(one, bound=-1), r"has the bound [0-9,]+ fJ, it says"),
}


@pytest.mark.parametrize("what", {**TAMPERED, **OF_CHOICES})
def test_a_front_that_was_tampered_with_is_refused(what):
    proof, placements, sums = proven()
    change, message = {**TAMPERED, **OF_CHOICES}[what]
    with pytest.raises(InputError, match=f"{WRONG}{message}"):
        check_front(change(proof), placements, sums)


@pytest.mark.parametrize("what", {**TAMPERED, **OF_SPACES})
def test_a_front_over_all_choices_that_was_tampered_with_is_refused(what):
    proof, bare, sums = spread()
    change, message = {**TAMPERED, **OF_SPACES}[what]
    with pytest.raises(InputError, match=f"{WRONG}{message}"):
        check_free_front(change(proof), bare, SpatialSpace(), sums)


def test_a_front_is_of_one_machine_and_one_space():
    proof, placements, sums = proven()
    other = [replace(one, tree=replace(one.tree, mac_pj=9.0)) for one in placements]
    with pytest.raises(InputError, match="of another nest, machine"):
        check_front(proof, other, sums)
    free, bare, width = spread()
    unlike = next(one for one in Sums if one is not width)
    for space, given in ((SpatialSpace(least_use=0.25), width), (SpatialSpace(), unlike)):
        with pytest.raises(InputError, match="space of choices"):
            check_free_front(free, bare, space, given)


def test_a_stopped_search_has_no_certificate():
    placed = zigzag_placed("eyeriss_like", "eyeriss_like", "conv2_2")
    with pytest.raises(InputError, match="proved nothing; allow more with --effort"):
        front_certificate_of([placed], pareto_front([placed], Sums.FULL, 10).points)


def test_a_front_holds_the_least_of_every_objective():
    """The first point has the least energy, the last one the least latency: two searches that know no fronts."""
    placed = zigzag_placed("eyeriss_like", "eyeriss_like", "conv5_2")
    proof = front_certificate_of([placed], pareto_front([placed], Sums.FULL, 10**7).points)
    assert check_front(proof, [placed], Sums.FULL).opened == 1
    least, fastest = best_mapping(placed), best_mapping(placed, objective=Objective.LATENCY)
    assert proof.points[0].energy_fj == pytest.approx(1000 * least.price.energy_pj, rel=1e-12)
    assert proof.points[-1].cycles == fastest.price.latency_cycles


def test_what_is_written_says_every_point():
    proof, (placed, *_), _ = proven()
    written = front_json(proof, placed)
    assert [(one["energy"], one["cycles"]) for one in written["points"]] == [
        (one.energy_fj, one.cycles) for one in proof.points
    ]
    free, bare, _ = spread()
    assert len(free_front_json(free, bare)["taken"]) == len(free.taken) > 1
