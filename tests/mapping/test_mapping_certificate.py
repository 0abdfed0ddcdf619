"""A proof that a mapping is the best is accepted by a checker of its own enumeration, and no other."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from tests.helpers.nests import DMAZERUNNER, random_machine, random_nest
from tilestitch.base.errors import InputError
from tilestitch.base.json_text import JsonPart
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.choices import CostMode, Objective
from tilestitch.ir.loop_nest import LoopNest, SlidingWindow, convolution
from tilestitch.mapping.certificate import (
    FIELDS,
    Certificate,
    certificate_from,
    certificate_json,
    certificate_of,
    check_certificate,
)
from tilestitch.mapping.evaluate import price
from tilestitch.mapping.optimum import value_of
from tilestitch.mapping.search import search, search_space

pytestmark = pytest.mark.quick

NEST = convolution("conv5_2", n=1, m=64, c=32, output=(7, 7), window=SlidingWindow((3, 3)))
OBJECTIVES = (Objective.EDP, Objective.ENERGY, Objective.LATENCY, Objective.ED2P)


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
    found = proof(NEST, DMAZERUNNER, mode, objective)
    assert found is not None
    verdict = check_certificate(found, NEST, DMAZERUNNER, mode, objective)
    assert verdict.tilings == found.tilings
    assert _read(json.loads(json.dumps(certificate_json(found)))) == found


def _read(value: object) -> Certificate:
    return certificate_from(JsonPart(value, "proof.json").fields(FIELDS))


@pytest.mark.parametrize("seed", range(40))
def test_proofs_of_small_searches_are_accepted_on_any_machine(seed: int) -> None:
    """Nests in which two operands stay at once too; a claim that something worse is the best is refused."""
    rng = Random(seed)
    nest, machine = random_nest(rng), random_machine(rng)
    mode, objective = tuple(CostMode)[seed % 2], OBJECTIVES[seed // 2 % 4]
    best = proof(nest, machine, mode, objective)
    if best is None:
        return
    check_certificate(best, nest, machine, mode, objective)
    worse = proof(nest, machine, mode, objective, rank=4)
    if worse is None:
        return
    prices = [price(nest, machine, one.mapping, mode) for one in (worse, best)]
    is_tie = objective in (Objective.EDP, Objective.ED2P) and worse.value == best.value
    if not is_tie and len({(one.cycles, one.energy_pj) for one in prices}) == 2:
        with pytest.raises(InputError, match="a better mapping takes"):
            check_certificate(worse, nest, machine, mode, objective)


@cache
def given() -> Certificate:
    found = proof(NEST, DMAZERUNNER, CostMode.DEFAULT, Objective.EDP)
    assert found is not None
    return found


Change = Callable[[Certificate], dict[str, object]]
TAMPERED: dict[str, Change] = {
    "another problem": lambda one: {"problem": "0" * 16},
    "other factors": lambda one: {"mapping": replace(one.mapping, spm=one.mapping.dram)},
    "an order without a loop": lambda one: {"mapping": replace(one.mapping, dram_order=(0,) * 7)},
    "a lower value": lambda one: {"value": one.value - 1},
    "more tilings": lambda one: {"tilings": one.tilings + 1},
}


@pytest.mark.parametrize("what", TAMPERED)
def test_a_proof_that_was_tampered_with_is_refused(what: str) -> None:
    tampered = replace(given(), **TAMPERED[what](given()))
    with pytest.raises(InputError, match="is wrong"):
        check_certificate(tampered, NEST, DMAZERUNNER, CostMode.DEFAULT, Objective.EDP)


def test_a_mapping_that_does_not_fit_proves_nothing() -> None:
    """Priced it would win: all of the nest in one register file."""
    ones = (1,) * 7
    mapping = replace(given().mapping, dram=ones, spm=ones, rf=NEST.extents, spatial=ones)
    with pytest.raises(InputError, match="does not fit"):
        check_certificate(replace(given(), mapping=mapping), NEST, DMAZERUNNER, CostMode.DEFAULT, Objective.EDP)


def test_values_are_what_the_objective_names() -> None:
    assert [value_of(objective, 5.0, 3) for objective in OBJECTIVES] == [15.0, 5.0, 3.0, 45.0]


def test_a_file_that_is_no_certificate_is_refused() -> None:
    right = json.loads(json.dumps(certificate_json(given())))
    wrong = (None, {}, {**right, "evaluated": 3}, {**right, "value": True}, {**right, "mapping": {"dram": [1]}})
    for found in wrong:
        with pytest.raises(InputError, match=r"proof\.json"):
            _read(found)
