"""Proofs over all choices of what is spread: the least of brute force is accepted, and nothing else."""

import random
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from tests.helpers.tree_brute_force import (
    all_best,
    least_energy,
    like_arrays,
    random_case,
    timed_case,
    unevenly,
    with_engines,
    with_networks,
)
from tests.helpers.tree_spatial import all_placements, with_axes, with_limits
from tests.helpers.zigzag_trees import placed as zigzag_placed
from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.formats.einsum import einsum_nest
from tilestitch.hardware.tree import Network
from tilestitch.hardware.tree_load import load_tree, parse_tree
from tilestitch.ir.choices import Objective
from tilestitch.mapping.tree import free_checking
from tilestitch.mapping.tree.choices import Ragged, SpatialSpace, choices_of
from tilestitch.mapping.tree.free_certificate import free_certificate_of
from tilestitch.mapping.tree.free_checking import check_free_certificate, least_cycles_of
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.search import best_mapping
from tilestitch.mapping.tree.spatial import best_spread, placement
from tilestitch.mapping.tree.spread_count import spread_list
from tilestitch.mapping.tree.tables import Sums

VALUES = {
    Objective.LATENCY: lambda energy, cycles: cycles,
    Objective.EDP: lambda energy, cycles: energy * cycles,
    Objective.ED2P: lambda energy, cycles: energy * cycles * cycles,
}


def spread_key(placed):
    return tuple(sorted((one.axis, one.loop, one.factor) for one in placed.unrolled))


def random_space(seed, most_loops=3):
    """A nest with everything free to be spread, sometimes with limits, and what may be."""
    bare = with_axes(random_case(seed, most_loops), seed)
    bare = with_limits(bare, seed) if seed.random() < 0.3 else bare
    return bare, SpatialSpace(seed.choice(list(Ragged)), seed.choice((0.0, 0.0, 0.5)))


def check_block(name, cases):
    """The least of brute force over all choices is accepted, the best of another choice refused; how many were."""
    seed, accepted, refused = random.Random(name), 0, 0
    while accepted < cases:
        (bare, space), sums = random_space(seed), seed.choice(list(Sums))
        placements = {spread_key(one): one for one in all_placements(bare, space.ragged, space.least_use)}
        energies = {key: least_energy(one, final_sums=sums is Sums.FINAL) for key, one in placements.items()}
        least = min(energies.values(), default=float("inf"))
        if least == float("inf"):
            with pytest.raises(DoesNotFit):
                best_spread(bare, space, sums)
            continue
        found = best_spread(bare, space, sums).found
        proof = free_certificate_of(bare, space, found, Objective.ENERGY)
        assert proof.value == pytest.approx(1000 * least, rel=1e-12)
        verdict = check_free_certificate(proof, bare, space, sums)
        assert verdict.choices == len(choices_of(bare, space))
        accepted += 1
        worse = [key for key, energy in energies.items() if least * (1 + 1e-9) < energy < float("inf")]
        if worse:
            planted = replace(found, **vars_of(best_mapping(placements[seed.choice(worse)], sums)))
            with pytest.raises(InputError, match="a better chain costs"):
                check_free_certificate(free_certificate_of(bare, space, planted, Objective.ENERGY), bare, space, sums)
            refused += 1
    return refused


def check_arrays(name, cases):
    """The least energy of brute force over all choices is accepted on trees with what PE arrays have, others refused.

    What passes along axes, first sums that are not read, units without latches, boxes, banks: how many proofs had each.
    """
    seed, proven, refused = random.Random(name), 0, 0
    seen = {"passing": 0, "no latches": 0, "boxes": 0, "banks": 0}
    while proven < cases:
        bare = unevenly(like_arrays(with_networks(with_axes(timed_case(seed, 2), seed), seed), seed))
        axes = bare.tree.axes
        if seed.random() < 0.5:  # every unit's sum goes to the memory around by itself
            alone = Network(("O",), reduction=False)
            axes = tuple(
                replace(axis, networks=(*(one for one in axis.networks if "O" not in one.operands), alone))
                for axis in axes
            )
        bare = replace(bare, tree=replace(bare.tree, axes=axes))
        space, sums = SpatialSpace(seed.choice(list(Ragged))), seed.choice(list(Sums))
        placements = {spread_key(one): one for one in all_placements(bare, space.ragged, space.least_use)}
        fronts = {key: all_best(one, final_sums=sums is Sums.FINAL) for key, one in placements.items()}
        least = min((front[0][0] for front in fronts.values() if front), default=None)
        if least is None:
            continue
        found = best_spread(bare, space, sums).found
        proof = free_certificate_of(bare, space, found, Objective.ENERGY)
        assert proof.value == pytest.approx(1000 * least, rel=1e-12)
        assert check_free_certificate(proof, bare, space, sums).choices == proof.choices
        proven += 1
        seen["passing"] += any(
            network.passes_sums or network.shares_windows for axis in bare.tree.axes for network in axis.networks
        )
        seen["no latches"] += not bare.tree.has_latches
        seen["boxes"] += bare.tree.moves_boxes
        seen["banks"] += any(memory.bank_bits for memory in bare.tree.memories)
        worse = [key for key, front in fronts.items() if front and front[0][0] > least * (1 + 1e-9)]
        if worse:
            planted = replace(found, **vars_of(best_mapping(placements[seed.choice(worse)], sums)))
            claim = free_certificate_of(bare, space, planted, Objective.ENERGY)
            with pytest.raises(InputError, match="a better chain costs"):
                check_free_certificate(claim, bare, space, sums)
            refused += 1
    return seen, refused


def test_what_arrays_have_is_proven():
    seen, refused = check_arrays("free networks", 8)
    assert min(seen.values()) >= 2, seen
    assert refused >= 3


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_what_arrays_have_is_proven_for_many(block):
    seen, refused = check_arrays(f"free arrays {block}", 60)
    assert min(seen.values()) >= 10, seen
    assert refused >= 20


def vars_of(found):
    return {"placed": found.placed, "mapping": found.mapping, "price": found.price}


def test_the_best_of_all_choices_is_accepted_and_that_of_another_refused():
    assert check_block("free proofs", 5) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_the_best_of_another_choice_is_refused_for_many(block):
    assert check_block(f"free proofs {block}", 40) >= 15


def check_in_time(name, cases):
    """Latency, EDP and ED2P of nests with networks, windows and even storage, or without."""
    seed, accepted, refused = random.Random(name), 0, 0
    while accepted < cases:
        bare = with_axes(timed_case(seed, 3), seed)
        bare = with_networks(bare, seed) if seed.random() < 0.5 else bare
        bare = like_arrays(bare, seed) if seed.random() < 0.3 else bare
        bare = with_engines(bare, seed) if seed.random() < 0.3 else bare
        sums = seed.choice(list(Sums))
        placements = {spread_key(one): one for one in all_placements(bare, "filling")}
        fronts = {key: all_best(one, final_sums=sums is Sums.FINAL) for key, one in placements.items()}
        points = [point for front in fronts.values() for point in front]
        if not points:
            continue
        for objective, value in VALUES.items():
            found = best_spread(bare, SpatialSpace(), sums, objective=objective).found
            proof = free_certificate_of(bare, SpatialSpace(), found, objective)
            least = min(value(*point) for point in points)
            assert proof.value == pytest.approx(least * (1 if objective is Objective.LATENCY else 1000), rel=1e-12)
            check_free_certificate(proof, bare, SpatialSpace(), sums, objective)
            for key, front in fronts.items():
                if front and min(value(*point) for point in front) > least * (1 + 1e-9):
                    planted = best_mapping(placements[key], sums, objective=objective)
                    claim = free_certificate_of(bare, SpatialSpace(), planted, objective)
                    with pytest.raises(InputError, match="a better chain costs"):
                        check_free_certificate(claim, bare, SpatialSpace(), sums, objective)
                    refused += 1
                    break
        accepted += 1
    return refused


def test_the_best_in_time_is_accepted_and_that_of_another_choice_refused():
    assert check_in_time("free in time", 2) >= 2


def test_what_a_short_walk_leaves_open_is_judged_by_tables(monkeypatch):
    """Walks by energy that end after a label settle hardly anything."""
    monkeypatch.setattr(free_checking, "FEW_LABELS", 1)
    assert check_in_time("short walks", 3) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
def test_the_best_in_time_of_another_choice_is_refused_for_many(block):
    assert check_in_time(f"free in time {block}", 12) >= 12


def test_choices_are_counted_from_the_definition():
    """Every choice of brute force has its class in the checker's list, and every class one; the search's as well."""
    seed, classes = random.Random("counted"), 0
    for _ in range(80):
        bare, space = random_space(seed, 5)
        found = spread_list(bare, space)
        placements = list(all_placements(bare, space.ragged, space.least_use))
        assert all(found.has(one.unrolled) for one in placements)
        keys = {spread_key(one) for one in placements}
        assert all(spread_key(found.placement(number)) in keys for number in range(len(found)))
        choices = choices_of(bare, space)
        assert len(found) == len(choices) <= len(keys)
        assert all(found.has(placement(bare, choices, number).unrolled) for number in range(len(choices)))
        classes += len(found)
    assert classes > 300


@cache
def proven():
    """A proof in which some choices are opened, some bounded, and some fit nothing."""
    seed = random.Random("all kinds of choices")
    for _ in range(2000):
        bare = with_axes(random_case(seed, 4), seed)
        *inner, outer = bare.tree.memories
        inner = [replace(one, size_bits=one.size_bits // 4) for one in inner]
        bare = replace(bare, tree=replace(bare.tree, memories=(*inner, outer)))
        try:
            found = best_spread(bare)
        except DoesNotFit:
            continue
        proof = free_certificate_of(bare, SpatialSpace(), found.found, Objective.ENERGY)
        blocks = proof.blocks
        kinds = (
            any(one.opened for one in blocks),
            any(one.misfits for one in blocks),
            any(one.bound is not None for one in blocks),
        )
        if all(kinds) and len(blocks) > 2 and found.found.placed.unrolled and len(proof.mapping.loops) > 1:
            return proof, bare
    raise AssertionError("no such case")


def test_every_choice_is_judged():
    proof, bare = proven()
    verdict = check_free_certificate(proof, bare, SpatialSpace(), Sums.FULL)
    assert verdict.choices == proof.choices == sum(block.choices for block in proof.blocks)
    assert verdict.opened == sum(block.opened for block in proof.blocks) < proof.choices
    assert verdict.chains == proof.chains


def with_block(proof, which, **change):
    """A proof in which the first block that has something says something else of it."""
    at = next(number for number, one in enumerate(proof.blocks) if getattr(one, which))
    fields = {name: getattr(proof.blocks[at], name) + more for name, more in change.items()}
    block = replace(proof.blocks[at], **fields)
    return replace(proof, blocks=(*proof.blocks[:at], block, *proof.blocks[at + 1 :]))


def without_bound(proof):
    blocks = [replace(one, bound=None) for one in proof.blocks]
    return replace(proof, blocks=tuple(blocks))


def swapped(proof):
    first, *rest = proof.mapping.loops
    return replace(proof, mapping=replace(proof.mapping, loops=(*rest, first)))


WRONG = "the certificate of '.*' is wrong: .*"
TAMPERED = {
    "a lower value": (lambda one: replace(one, value=one.value - 1), "its chain costs"),
    "a higher value": (lambda one: replace(one, value=one.value + 1), "its chain costs"),
    "another problem": (lambda one: replace(one, problem="0" * 16), "space of choices"),
    "a choice less": (lambda one: replace(one, choices=one.choices - 1), "choices of what is spread, it says"),
    "another way to spread": (lambda one: replace(one, spread=()), r"its (factors|chain|cuts)"),
    "a way that is no choice": (lambda one: replace(one, spread=("D0 M 97",)), "is none of the choices"),
    "a way that nobody reads": (lambda one: replace(one, spread=("M",)), "expected an axis, a loop and a factor"),
    "a factor that is none": (lambda one: replace(one, spread=("D0 M x",)), r"is no factor|expected an axis"),
    "another order": (swapped, r"its chain (costs|does not fit)"),
    "a chain more": (lambda one: replace(one, chains=one.chains + 1), "has not the .* chains"),
    "chains that are the same modulo a prime": (
        lambda one: replace(one, chains=one.chains + 2**61 - 1),
        "has not the .* chains",
    ),
    "a block less": (lambda one: replace(one, blocks=one.blocks[1:]), "blocks of choices"),
    "blocks in another order": (lambda one: replace(one, blocks=one.blocks[::-1]), "blocks of choices"),
    "a choice more in a block": (lambda one: with_block(one, "choices", choices=1), "choices, it says"),
    "an opened choice less": (lambda one: with_block(one, "opened", opened=-1), "choices to be opened, it says"),
    "a misfit more": (lambda one: with_block(one, "misfits", misfits=1), "choices that fit nothing, it says"),
    "a higher bound": (lambda one: with_block(one, "bound", bound=1), "has the bound"),
    "a lower bound": (lambda one: with_block(one, "bound", bound=-1), "has the bound"),
    "no bounds": (without_bound, "has the bound .* it says none"),
    "windows that slide": (lambda one: replace(one, slides=(object(),)), "windows slide where they cannot"),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_a_proof_that_was_tampered_with_is_refused(what):
    proof, bare = proven()
    change, message = TAMPERED[what]
    with pytest.raises(InputError, match=f"^{WRONG}{message}"):
        check_free_certificate(change(proof), bare, SpatialSpace(), Sums.FULL)


def test_a_proof_is_of_one_space():
    """Of what may be spread, how far, on how many units, with which sums and objective."""
    proof, bare = proven()
    name = bare.nest.loops[0].name
    spaces = [
        SpatialSpace(Ragged.ALL),
        SpatialSpace(least_use=0.25),
        SpatialSpace(given={(bare.tree.axes[0].name, name): 1}),
        SpatialSpace(only={bare.tree.axes[0].name: (name,)}),
    ]
    for space in spaces:
        with pytest.raises(InputError, match="space of choices"):
            check_free_certificate(proof, bare, space, Sums.FULL)
    for sums, objective in ((Sums.FINAL, Objective.ENERGY), (Sums.FULL, Objective.EDP)):
        with pytest.raises(InputError, match="space of choices"):
            check_free_certificate(proof, bare, SpatialSpace(), sums, objective)


def test_a_stopped_search_proves_nothing():
    bare = replace(zigzag_placed("eyeriss_like", "eyeriss_like", "conv5_2"), unrolled=())
    found = best_spread(bare, most_labels=12).found
    with pytest.raises(InputError, match=r"stopped after .* labels and proved nothing; allow more with --effort"):
        free_certificate_of(bare, SpatialSpace(), found, Objective.ENERGY)


def test_a_proof_for_a_machine_of_zigzag_is_accepted():
    bare = replace(zigzag_placed("eyeriss_like", "eyeriss_like", "conv5_2"), unrolled=())
    found = best_spread(bare).found
    proof = free_certificate_of(bare, SpatialSpace(), found, Objective.ENERGY)
    assert proof.value == pytest.approx(found.price.energy_pj * 1000, rel=1e-12)
    verdict = check_free_certificate(proof, bare, SpatialSpace(), Sums.FULL)
    assert verdict.choices > 500
    assert verdict.labels > 0


def test_no_choice_is_faster_than_the_checker_says():
    """Its bound of cycles is not above the least latency of a choice, and often more than its steps.

    On trees with what arrays have too, where units take overlapping windows together.
    """
    seed, compared, more = random.Random("cycles"), 0, 0
    for number in range(12):
        bare = with_axes(timed_case(seed, 3), seed)
        if number % 2:
            bare = unevenly(like_arrays(with_networks(bare, seed), seed))
        bare = with_limits(bare, seed) if seed.random() < 0.3 else bare
        sums, choices = seed.choice(list(Sums)), spread_list(bare, SpatialSpace(seed.choice(list(Ragged))))
        least = least_cycles_of(choices, sums, np.arange(len(choices)))
        for number in seed.sample(range(len(choices)), min(3, len(choices))):
            front = all_best(choices.placement(number), final_sums=sums is Sums.FINAL)
            if front:
                assert least[number] <= front[-1][1]
                more += least[number] > choices.placement(number).total_steps
                compared += 1
    assert compared >= 6
    assert more > compared / 2


STOPS = """
name: stops
mac_pj: 1
memories:
  - {name: rf, size: 2, operands: [W], read_pj: 1, write_pj: 1, serves: [], ports: [{width_bits: 1024}]}
  - {name: dram, size: 1 MiB, operands: [I, W, O], read_pj: 9, write_pj: 9, serves: [], ports: [
      {width_bits: 8, operands: [W]}, {width_bits: 1024, operands: [I]}, {width_bits: 8, operands: [O]}]}
"""


def test_a_step_takes_a_cycle_beside_all_stops_although_it_ends_early():
    """Results take two cycles of each step, and each weight stops the units for two: these come to the steps."""
    nest = einsum_nest("O[m,n] += W[m,n] * I[n]; m=8 n=4")
    bare = PlacedNest(nest, 16, ("W", "I", "O"), (), parse_tree(STOPS, "stops.yaml"))
    (least,) = least_cycles_of(spread_list(bare, SpatialSpace()), Sums.FULL, np.arange(1)).tolist()
    found = best_mapping(bare, objective=Objective.LATENCY)
    assert 3 * 32 <= least <= found.price.latency_cycles


WINDOWS = """
name: windows
mac_pj: 1
axes: [{name: D, size: 4, networks: [{operands: [I], shares_windows: true}]}]
memories:
  - {name: rf, size: 6, operands: [I], read_pj: 1, write_pj: 1, serves: [], ports: [{width_bits: 1024}]}
  - {name: dram, size: 1 MiB, operands: [I, W, O], read_pj: 9, write_pj: 9, serves: [D], ports: [
      {width_bits: 16, operands: [I]}, {width_bits: 1024, operands: [W, O]}]}
"""


def test_windows_that_units_share_pass_a_port_once():
    """The checker's bound of cycles knows that: four units take six values in 6 cycles, not 4 x 3 in 12."""
    nest = einsum_nest("O[x] += I[x+f] * W[f]; x=64 f=3")
    bare = PlacedNest(nest, 16, ("I", "W", "O"), (), parse_tree(WINDOWS, "windows.yaml"))
    choices = spread_list(bare, SpatialSpace(Ragged.NONE, given={("D", "x"): 4, ("D", "f"): 1}))
    (least,) = least_cycles_of(choices, Sums.FULL, np.array([0])).tolist()
    found = best_mapping(choices.placement(0), objective=Objective.LATENCY)
    assert 96 <= least <= found.price.latency_cycles < 240


def test_banks_of_an_array_are_counted():
    """A layer for which rounding up to whole banks leaves out what would cost less."""
    nest = einsum_nest("O[M,Ox,Oy] += I[C,2*Ox+Fx,2*Oy+Fy] * W[M,C,Fx,Fy]; M=64 C=3 Ox=112 Oy=112 Fx=7 Fy=7")
    tree = load_tree("eyeriss")
    memories = tuple(replace(memory, has_even_storage=False) for memory in tree.memories)
    bare = PlacedNest(nest, 16, ("I", "W", "O"), (), replace(tree, memories=memories))
    factors = {"M": 1, "C": 3, "Ox": 7, "Oy": 7, "Fx": 1, "Fy": 1}
    space = SpatialSpace(Ragged.NONE, given={(tree.axes[0].name, loop): factor for loop, factor in factors.items()})
    proof = free_certificate_of(bare, space, best_spread(bare, space).found, Objective.ENERGY)
    assert check_free_certificate(proof, bare, space, Sums.FULL).opened == 1
