"""A proof that a mapping is the best is accepted by a checker of its own enumeration, and no other."""

from dataclasses import replace
from random import Random

import pytest

from tests.helpers.nests import DMAZERUNNER, random_machine, random_nest
from tilestitch.base.errors import InputError
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.choices import CostMode, Objective
from tilestitch.ir.loop_nest import LoopNest, SlidingWindow, convolution
from tilestitch.mapping.certificate import (
    Certificate,
    certificate_from,
    certificate_json,
    certificate_of,
    check_certificate,
    value_of,
)
from tilestitch.mapping.search import search, search_space

NEST = convolution("conv5_2", n=1, m=64, c=32, output=(7, 7), window=SlidingWindow((3, 3)))
OBJECTIVES = (Objective.EDP, Objective.ENERGY, Objective.LATENCY)


def proof(
    nest: LoopNest, machine: ArrayMachine, mode: CostMode, objective: Objective, rank: int = 1
) -> Certificate | None:
    """Of the best mapping, or as if one of lower rank were the best."""
    space = search_space(nest, machine, mode)
    outcome = search(space, objective, keep=rank)
    if len(outcome.best) < rank:
        return None
    return certificate_of(space, replace(outcome, best=outcome.best[rank - 1 :]), mode, objective)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("mode", CostMode)
def test_the_proof_of_a_search_is_accepted(mode: CostMode, objective: Objective) -> None:
    """And read again it is the same."""
    given = proof(NEST, DMAZERUNNER, mode, objective)
    assert given is not None
    verdict = check_certificate(given, NEST, DMAZERUNNER, mode, objective)
    assert verdict.tilings == given.tilings
    assert certificate_from(certificate_json(given) | {"mapping": _rows(given)}, "proof.json") == given


def _rows(given: Certificate) -> dict[str, list[int]]:
    return {name: list(row) for name, row in certificate_json(given)["mapping"].items()}


@pytest.mark.parametrize("seed", range(40))
def test_proofs_of_small_searches_are_accepted_on_any_machine(seed: int) -> None:
    """Nests in which two operands stay at once too; a claim that something worse is the best is refused."""
    rng = Random(seed)
    nest, machine = random_nest(rng), random_machine(rng)
    mode, objective = tuple(CostMode)[seed % 2], OBJECTIVES[seed % 3]
    given = proof(nest, machine, mode, objective)
    if given is None:
        return
    check_certificate(given, nest, machine, mode, objective)
    worse = proof(nest, machine, mode, objective, rank=4)
    if worse is not None and (worse.cycles, worse.energy_pj) != (given.cycles, given.energy_pj):
        if worse.bound == given.bound and objective is Objective.EDP:
            return
        with pytest.raises(InputError, match="a better mapping takes"):
            check_certificate(worse, nest, machine, mode, objective)


GIVEN = proof(NEST, DMAZERUNNER, CostMode.DEFAULT, Objective.EDP)
assert GIVEN is not None
TAMPERED = {
    "another problem": replace(GIVEN, problem="0" * 16),
    "other factors": replace(GIVEN, mapping=replace(GIVEN.mapping, spm=GIVEN.mapping.dram)),
    "an order without a loop": replace(GIVEN, mapping=replace(GIVEN.mapping, dram_order=(0,) * 7)),
    "fewer cycles": replace(GIVEN, cycles=GIVEN.cycles - 1),
    "less energy": replace(GIVEN, energy_pj=GIVEN.energy_pj - 1),
    "a lower bound": replace(GIVEN, bound=GIVEN.bound * 0.99),
    "more tilings": replace(GIVEN, tilings=GIVEN.tilings + 1, evaluated=GIVEN.evaluated + 1),
    "parts that do not add up": replace(GIVEN, pruned_by_tile=GIVEN.pruned_by_tile + 1),
    "nothing evaluated": replace(GIVEN, evaluated=0, pruned_by_tile=GIVEN.pruned_by_tile + GIVEN.evaluated),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_a_proof_that_was_tampered_with_is_refused(what: str) -> None:
    with pytest.raises(InputError, match="is wrong"):
        check_certificate(TAMPERED[what], NEST, DMAZERUNNER, CostMode.DEFAULT, Objective.EDP)


def test_a_mapping_that_does_not_fit_proves_nothing() -> None:
    """Priced it would win: all of the nest in one register file."""
    assert GIVEN is not None
    ones = (1,) * 7
    mapping = replace(GIVEN.mapping, dram=ones, spm=ones, rf=NEST.extents, spatial=ones)
    with pytest.raises(InputError, match="does not fit"):
        check_certificate(replace(GIVEN, mapping=mapping), NEST, DMAZERUNNER, CostMode.DEFAULT, Objective.EDP)


def test_values_are_what_the_objective_names() -> None:
    assert [value_of(objective, 3, 5.0) for objective in OBJECTIVES] == [15.0, 5.0, 3.0]


def test_a_file_that_is_no_certificate_is_refused() -> None:
    for found in (None, {}, {"format": "tilestitch mapping certificate 1"}):
        with pytest.raises(InputError, match=r"proof\.json"):
            certificate_from(found, "proof.json")
