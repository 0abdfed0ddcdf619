"""Proofs of the least energy on trees are accepted by a checker of its own search, and no others."""

import itertools
import random
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from tests.helpers.pairs import first
from tests.helpers.tree_brute_force import better_and_better, random_case
from tests.helpers.zigzag_trees import placed as zigzag_placed
from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.hardware.tree import DmaEngine, Network
from tilestitch.ir.choices import Objective
from tilestitch.mapping.tree import outside_in
from tilestitch.mapping.tree.certificate import certificate_of, mac_value, problem_digest
from tilestitch.mapping.tree.checker_tables import checker_tables
from tilestitch.mapping.tree.checking import check_certificate
from tilestitch.mapping.tree.inside_out import chain_count, coprime_numbers, moving_cuts, root_bound
from tilestitch.mapping.tree.labels import NEVER
from tilestitch.mapping.tree.search import best_mapping, best_of
from tilestitch.mapping.tree.tables import Sums, tables_of


def random_searches(name, cases, most_loops=3):
    """Small nests on trees that something fits, with their best mappings."""
    seed = random.Random(name)
    for _ in range(cases):
        placed, sums = random_case(seed, most_loops), seed.choice(list(Sums))
        try:
            yield placed, sums, best_mapping(placed, sums)
        except DoesNotFit:
            continue


def check_block(name, cases):
    """The best is accepted, and the next best mapping that brute force finds is not; how many were refused."""
    refused = 0
    for placed, sums, found in random_searches(name, cases):
        proof = certificate_of([placed], found)
        assert check_certificate(proof, [placed], sums).choices == 1
        rows = better_and_better(placed, final_sums=sums is Sums.FINAL, enough=found.price.energy_pj * (1 + 1e-12))
        for _, mapping in rows[1:2]:
            planted = certificate_of([placed], replace(found, mapping=mapping))
            assert planted.value > proof.value
            with pytest.raises(InputError, match="a better chain costs"):
                check_certificate(planted, [placed], sums)
            refused += 1
    return refused


def test_the_best_is_accepted_and_the_next_best_refused():
    assert check_block("proofs", 24) >= 12


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_the_next_best_is_refused_for_many(block):
    assert check_block(f"proofs {block}", 60) >= 30


@pytest.mark.parametrize(
    "machine, sums", [("tpu_like", Sums.FULL), ("tpu_like", Sums.FINAL), ("eyeriss_like", Sums.FULL)]
)
def test_proofs_for_machines_of_zigzag_are_accepted(machine, sums):
    """And their values are the energies that are reported."""
    placed = zigzag_placed(machine, machine, "conv2_2")
    found = best_mapping(placed, sums)
    proof = certificate_of([placed], found)
    assert proof.value == pytest.approx(found.price.energy_pj * 1000, rel=1e-12)
    verdict = check_certificate(proof, [placed], sums)
    assert verdict.opened == 1
    assert verdict.labels > 0


def test_proofs_cover_what_only_prices_know():
    """First sums that are not read, windows that units share, sums that neighbours add up."""
    placed = zigzag_placed("tpu_like", "tpu_like", "conv2_2")
    networks = (Network(("I1", "I2"), shares_windows=True, pj_per_bit=0.01), Network(("O",), passes_sums=True))
    axes = tuple(replace(axis, networks=networks) for axis in placed.tree.axes)
    changed = replace(placed, tree=replace(placed.tree, axes=axes, reads_first_sums=False))
    found = best_mapping(changed)
    assert found.price.energy_pj != best_mapping(placed).price.energy_pj
    verdict = check_certificate(certificate_of([changed], found), [changed], Sums.FULL)
    assert (verdict.choices, verdict.opened) == (1, 1)


@pytest.mark.parametrize(
    "changes", [{"has_latches": False}, {"moves_boxes": True}], ids=lambda changes: next(iter(changes))
)
def test_proofs_cover_units_and_tiles_of_arrays(changes):
    placed = zigzag_placed("tpu_like", "tpu_like", "conv2_2")
    changed = replace(placed, tree=replace(placed.tree, **changes))
    found = best_mapping(changed)
    proof = certificate_of([changed], found)
    assert proof.value == pytest.approx(1000 * found.price.energy_pj, rel=1e-12)
    assert check_certificate(proof, [changed], Sums.FULL).choices == 1


def test_proofs_cover_cycles_of_engines():
    """Whose set-up makes another mapping the fastest; that without them is refused."""
    placed = zigzag_placed("tpu_like", "tpu_like", "conv5_2")
    inner, outer = (memory.name for memory in placed.tree.memories[-2:])
    engine = DmaEngine("loads", inner, outer, 1, 10_000, Fraction(64))
    changed = replace(placed, tree=replace(placed.tree, engines=(engine,)))
    found = best_mapping(changed, objective=Objective.LATENCY)
    proof = certificate_of([changed], found, Objective.LATENCY)
    assert check_certificate(proof, [changed], Sums.FULL, Objective.LATENCY).choices == 1
    without = best_mapping(placed, objective=Objective.LATENCY)
    planted = certificate_of([changed], replace(without, placed=changed), Objective.LATENCY)
    assert planted.value > proof.value
    with pytest.raises(InputError, match="a better chain costs"):
        check_certificate(planted, [changed], Sums.FULL, Objective.LATENCY)


@pytest.mark.parametrize("name", first(1, ["counts", "more counts"]))
def test_the_count_is_that_of_all_ways_to_place_cuts(name):
    """One after another, in a program that knows nothing of states: a chain is a tile for every cut, all comparable."""
    counted = 0
    for placed, sums, _ in random_searches(name, 12, most_loops=2):
        tables = tables_of(placed, sums)
        cuts, tiles = moving_cuts(tables), tables.lattice.tiles()
        choices = [list(ways(one, tiles, tables, number)) for number, one in enumerate(cuts)]
        if np.prod([float(len(one)) for one in choices]) > 40_000:
            continue
        count = sum(is_chain([tiles[at] for at in sum(chosen, ())]) for chosen in itertools.product(*choices))
        assert chain_count(tables) == count
        assert outside_in.chains_modulo(checker_tables(placed, sums).cuts, 2**61 - 1) == count
        counted += 1
    assert counted > 3


def ways(cuts, tiles, tables, number):
    """All ways to place the cuts of one operand, each as the points of its cuts."""
    for points in itertools.product(range(len(tiles)), repeat=len(cuts)):
        partial = tables.partial_from_units and number == len(tables.cuts) - 1
        for cut, point in zip(cuts, points, strict=True):
            if cut.cost_fj[int(partial), point] >= NEVER:
                break
            partial = bool(cut.is_partial[point])
        else:
            if all((tiles[other] % tiles[one] == 0).all() for one, other in itertools.pairwise(points)):
                yield points


def is_chain(tiles):
    return all((one % other == 0).all() or (other % one == 0).all() for one, other in itertools.combinations(tiles, 2))


def test_numbers_without_common_divisors_reach_any_product():
    found = coprime_numbers(2**400)
    assert all(np.gcd(one, other) == 1 for one, other in itertools.combinations(found, 2))
    assert np.prod(np.array(found, dtype=object)) > 2**400


def choices_of(placed):
    """A nest that is spread as it was, and not at all."""
    return [placed, replace(placed, unrolled=())]


@cache
def proven():
    """A proof over two ways to spread loops, of which the search opens one and the bound of the other is enough."""
    for placed, sums, _ in random_searches("two ways", 200):
        placements = choices_of(placed)
        if not placed.unrolled:
            continue
        try:
            proof = certificate_of(placements, best_of(placements, sums))
        except DoesNotFit:
            continue
        opened = [one.chains is not None for one in proof.choices]
        bounds = [one.bound is not None for one in proof.choices]
        if sorted(opened) == sorted(bounds) == [False, True] and len(proof.mapping.loops) > 2:
            return proof, placements, sums
    raise AssertionError("no such case")


def test_every_choice_is_judged():
    proof, placements, sums = proven()
    verdict = check_certificate(proof, placements, sums)
    assert (verdict.choices, verdict.opened) == (2, 1)


def changed_choice(proof, which, **fields):
    """A proof with another claim of the choice that was opened, or of the one that was not."""
    choices = tuple(
        replace(one, **fields) if (one.chains is None) == (which == "bounded") else one for one in proof.choices
    )
    return replace(proof, choices=choices)


def of_the_bound(proof):
    return next(one.bound for one in proof.choices if one.bound is not None)


def swapped(proof):
    """The innermost loop goes to the outside."""
    first, *rest = proof.mapping.loops
    return replace(proof, mapping=replace(proof.mapping, loops=(*rest, first)))


def with_cuts(proof, cuts):
    return replace(proof, mapping=replace(proof.mapping, cuts=(cuts, *proof.mapping.cuts[1:])))


TAMPERED = {
    "a lower value": (lambda one: replace(one, value=one.value - 1), r"its chain costs .* fJ, it says"),
    "a higher value": (lambda one: replace(one, value=one.value + 1), r"its chain costs .* fJ, it says"),
    "another problem": (lambda one: replace(one, problem="0" * 16), "of another nest, machine, spatial mapping"),
    "a loop less": (
        lambda one: replace(one, mapping=replace(one.mapping, loops=one.mapping.loops[1:])),
        r"its factors of loop \w make",
    ),
    "a cut too many": (lambda one: with_cuts(one, (0, *one.mapping.cuts[0])), "expected . numbers of loops"),
    "a cut beyond all loops": (lambda one: with_cuts(one, (99,) * len(one.mapping.cuts[0])), "that do not fall"),
    "another order": (swapped, r"its chain (costs|does not fit)"),
    "a choice less": (lambda one: replace(one, choices=one.choices[1:]), "spread in 2 ways, it says what became of 1"),
    "choices in another order": (lambda one: replace(one, choices=one.choices[::-1]), "choice 0 spreads"),
    "another choice": (lambda one: replace(one, chosen=1 - one.chosen), r"its (factors|chain|cuts)"),
    "a higher bound": (
        lambda one: changed_choice(one, "bounded", bound=of_the_bound(one) + 1),
        r"its bound is .* fJ, it says",
    ),
    "a lower bound": (
        lambda one: changed_choice(one, "bounded", bound=of_the_bound(one) - 1),
        r"its bound is .* fJ, it says",
    ),
    "a choice said to fit nothing": (
        lambda one: changed_choice(one, "bounded", bound=None),
        "it says nothing fits",
    ),
    "an opened choice said to be bounded": (
        lambda one: changed_choice(one, "opened", bound=one.value, chains=None, is_opened=False),
        "which settles nothing",
    ),
    "a bounded choice said to be opened": (
        lambda one: changed_choice(one, "bounded", bound=None, chains=1, is_opened=True),
        "it says it was opened",
    ),
    "a chain more": (
        lambda one: changed_choice(one, "opened", chains=sum(two.chains or 0 for two in one.choices) + 1),
        "has not the .* chains that it says",
    ),
    "a count that is the same modulo a prime": (
        lambda one: changed_choice(one, "opened", chains=sum(two.chains or 0 for two in one.choices) + 2**61 - 1),
        "has not the .* chains that it says",
    ),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_a_proof_that_was_tampered_with_is_refused(what):
    proof, placements, sums = proven()
    change, message = TAMPERED[what]
    tampered = change(proof)
    assert tampered != proof
    with pytest.raises(InputError, match=f"^the certificate of '.*' is wrong: .*{message}"):
        check_certificate(tampered, placements, sums)


def test_a_mapping_that_does_not_fit_proves_nothing():
    """All of a nest in its innermost memories costs least, where there is no room for it."""
    refused = 0
    for placed, sums, found in random_searches("too large", 40):
        loops = len(found.mapping.loops)
        inside = replace(found.mapping, cuts=tuple((loops,) * len(one) for one in found.mapping.cuts))
        proof = certificate_of([placed], replace(found, mapping=inside))
        try:
            check_certificate(proof, [placed], sums)
        except InputError as error:
            refused += "its chain does not fit" in str(error)
    assert refused > 5


def test_the_digest_is_of_what_the_best_depends_on():
    """Of the price of an access, of the width of sums and of each factor; not of names."""
    proof, placements, sums = proven()
    first, *others = placements
    named = [replace(one, nest=replace(one.nest, name="x"), tree=replace(one.tree, name="y")) for one in placements]
    assert problem_digest(named, sums, Objective.ENERGY) == proof.problem
    *inner, outer = first.tree.memories
    dearer = replace(first.tree, memories=(*inner, replace(outer, read_pj=outer.read_pj + 1)))
    for changed in ([replace(one, tree=dearer) for one in placements], others, [others[0], first]):
        assert problem_digest(changed, sums, Objective.ENERGY) != proof.problem
    other = next(one for one in Sums if one is not sums)
    assert problem_digest(placements, other, Objective.ENERGY) != proof.problem


def test_a_stopped_search_proves_nothing():
    placed = zigzag_placed("eyeriss_like", "eyeriss_like", "conv2_2")
    found = best_mapping(placed, most_labels=12)
    with pytest.raises(InputError, match=r"stopped after .* labels and proved nothing; allow more with --effort"):
        certificate_of([placed], found)


def test_potentials_that_are_too_high_are_noticed():
    """On whichever edge: each one of them that is raised breaks an edge."""
    raised = 0
    for placed, sums, _ in random_searches("potentials", 6):
        cuts = checker_tables(placed, sums).cuts
        found = outside_in.potentials(cuts)
        assert outside_in.broken_edges(cuts, found) == 0
        for place in itertools.product(*map(range, found.shape)):
            if found[place] < outside_in.NEVER:
                more = found.copy()
                more[place] += 1
                assert outside_in.broken_edges(cuts, more) > 0, place
                raised += 1
    assert raised > 100


def test_potentials_are_the_root_bound_of_the_search():
    """Two programs, from both ends."""
    for placed, sums, found in random_searches("roots", 15):
        cuts, tables = checker_tables(placed, sums).cuts, tables_of(placed, sums)
        potentials = outside_in.potentials(cuts)
        rows = [int(end) + number for number, end in enumerate(cuts.first[1:])]
        assert sum(int(potentials[row, 0, -1]) for row in rows) == root_bound(tables)
        assert found.is_proven


def test_the_proof_does_not_rest_on_potentials():
    """With none all beginnings of chains are followed: nothing is below the claim, and the claim itself is found."""
    for placed, sums, found in random_searches("blind", 8):
        tables = checker_tables(placed, sums)
        claim = certificate_of([placed], found).value - tables.fixed - mac_value(placed)
        blind = no_potentials(tables.cuts)
        assert outside_in.survivor(tables.cuts, blind, claim, 10**6)[0] == outside_in.SETTLED
        assert outside_in.survivor(tables.cuts, blind, claim + 1, 10**6)[:2] == (outside_in.SURVIVED, claim)


def test_the_checker_finds_the_least_itself():
    """Asked for less than the least and a femtojoule more, it gives the least, also where memories are crowded."""
    for placed, sums, found in random_searches("least", 60, most_loops=5):
        tables = checker_tables(placed, sums)
        claim = certificate_of([placed], found).value - tables.fixed - mac_value(placed)
        potentials = outside_in.potentials(tables.cuts)
        assert outside_in.survivor(tables.cuts, potentials, claim + 1, 10**6)[:2] == (outside_in.SURVIVED, claim)


def no_potentials(cuts):
    """Zero everywhere but where the last sums that leave are not those of the units."""
    found = np.zeros((cuts.price.shape[0] + len(cuts.first) - 1, 2, cuts.price.shape[1]), np.int64)
    if cuts.write >= 0:
        found[cuts.first[cuts.write] + cuts.write, 1 - cuts.from_units] = outside_in.NEVER
    return found


def one_fits():
    """Two ways to spread loops, of which the first holds too much at once, and the proof of the best of the second."""
    seed = random.Random("one fits")
    for _ in range(400):
        placed = random_case(seed, 3)
        *inner, outer = placed.tree.memories
        inner = [replace(one, size_bits=one.size_bits // 6) for one in inner]
        placed = replace(placed, tree=replace(placed.tree, memories=(*inner, outer)))
        placements = [placed, replace(placed, unrolled=())]
        if root_bound(tables_of(placed, Sums.FULL)) is None:
            with suppress(DoesNotFit):
                return placements, certificate_of(placements, best_of(placements))
    raise AssertionError("no such case")


def test_a_choice_that_nothing_fits_is_said_so():
    """It has neither a bound nor chains, and the other decides; a bound of it is refused."""
    placements, proof = one_fits()
    misfit, other = proof.choices
    assert misfit.bound is None
    assert misfit.chains is None
    assert proof.chosen == 1
    check_certificate(proof, placements, Sums.FULL)
    bounded = replace(proof, choices=(replace(misfit, bound=proof.value), other))
    with pytest.raises(InputError, match="nothing fits, it says"):
        check_certificate(bounded, placements, Sums.FULL)
