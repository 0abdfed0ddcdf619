"""The proof that a mapping is the best, for somebody who does not trust the search."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from itertools import permutations
from typing import Any

import numpy as np

from tilestitch.base.errors import InputError
from tilestitch.base.json_text import JsonPart
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.choices import CostMode, Objective
from tilestitch.ir.loop_nest import LoopMapping, LoopNest
from tilestitch.ir.verify_mapping import mapping_faults
from tilestitch.mapping.checker import BETTER, FIGURES, PRICED_TILINGS, TILINGS, LevelOrders, examine
from tilestitch.mapping.evaluate import price
from tilestitch.mapping.optimum import FEMTO, MOST_VALUE, digest, value_of, value_text
from tilestitch.mapping.search import SearchResult, SearchSpace, sums_may_take_longer
from tilestitch.mapping.tables import machine_table, nest_table

# In the order in which the checker numbers them.
PROVABLE = (Objective.EDP, Objective.ENERGY, Objective.LATENCY, Objective.ED2P)
FIELDS = ("problem", "value", "mapping", "tilings")
_MAPPING_FIELDS = tuple(field.name for field in fields(LoopMapping))
_MOST = 2**53


@dataclass(frozen=True, slots=True)
class Certificate:
    """What was found, and among how many exact tilings that fit: nothing but what a checker can judge.

    `problem` is a digest of the nest, the machine, the mode and the objective. The value is that of the mapping, below
    which nothing goes.
    """

    problem: str
    value: int  # of femtojoules and cycles
    mapping: LoopMapping
    tilings: int


def problem_digest(nest: LoopNest, machine: ArrayMachine, mode: CostMode, objective: Objective) -> str:
    """Sixteen hexadecimal digits that stand for everything that the best mapping depends on; names do not."""
    parts = {**asdict(nest), "name": "", "kind": ""}
    return digest([parts, {**asdict(machine), "name": ""}, mode, objective])


def certificate_of(space: SearchSpace, outcome: SearchResult, mode: CostMode, objective: Objective) -> Certificate:
    """The proof of a search over all exact tilings for one objective."""
    found = outcome.best[0]
    return Certificate(
        problem_digest(space.nest, space.machine, mode, objective),
        _value(objective, found.energy_pj, found.cycles),
        found.mapping,
        space.tilings(),
    )


def _value(objective: Objective, energy_pj: float, cycles: int) -> int:
    """What a mapping is worth: prices of arrays are whole femtojoules."""
    return value_of(objective, round(energy_pj * FEMTO), cycles)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the checker did: tilings that it counted, and that it priced because no bound of its own settled them."""

    tilings: int
    priced: int


def check_certificate(
    certificate: Certificate, nest: LoopNest, machine: ArrayMachine, mode: CostMode, objective: Objective
) -> Verdict:
    """Judge a proof by an enumeration that shares only the cost function with the search.

    Raises InputError that says which claim is wrong. Factors, orders, price and fit of the mapping, the number of
    tilings, the sums, and that nothing is better are all checked.
    """

    def wrong(what: str) -> InputError:
        return InputError(f"the certificate of {nest.name!r} is wrong: {what}")

    if certificate.problem != problem_digest(nest, machine, mode, objective):
        raise wrong("it is of another nest, machine, mode or objective")
    for fault in mapping_faults(certificate.mapping, nest, ragged=False):
        raise wrong(f"in its mapping {fault}")
    priced = price(nest, machine, certificate.mapping, mode)
    if priced.misfit:
        raise wrong(f"its mapping does not fit: {priced.misfit}")
    value = _value(objective, priced.energy_pj, priced.cycles)
    if certificate.value != value:
        said = value_text(objective, certificate.value)
        raise wrong(f"its mapping costs {value_text(objective, value)}, it says {said}")
    found, better = _examined(nest, machine, mode, objective, priced.cycles, priced.energy_pj)
    if found[TILINGS] != certificate.tilings:
        raise wrong(f"{found[TILINGS]:,} tilings fit, it says {certificate.tilings:,}")
    if found[BETTER]:
        one = price(nest, machine, better, mode)
        raise wrong(f"a better mapping takes {one.cycles:,} cycles and {one.energy_pj:,} pJ: {better}")
    return Verdict(int(found[TILINGS]), int(found[PRICED_TILINGS]))


def _examined(
    nest: LoopNest, machine: ArrayMachine, mode: CostMode, objective: Objective, cycles: int, energy_pj: float
) -> tuple[np.ndarray, LoopMapping]:
    table = nest_table(nest, machine)
    loops = len(nest.loops)
    divisors = [[one for one in range(1, extent + 1) if extent % one == 0] for extent in nest.extents]
    sizes = np.array([len(one) for one in divisors])
    square = np.zeros((loops, sizes.max()), np.int64)
    for at, one in enumerate(divisors):
        square[at, : len(one)] = one
    stay = [int((table.indexed[:, at] == 0).sum()) for at in range(loops) if nest.extents[at] > 1]
    one_stays = all(many <= 1 for many in stay)
    outer_stays = one_stays and not (mode is CostMode.DEFAULT and sums_may_take_longer(machine))
    found, better = np.zeros(FIGURES, np.int64), np.ones((6, loops), np.int64)
    examine(
        table,
        machine_table(machine),
        mode is CostMode.PUBLISHED,
        one_stays,
        PROVABLE.index(objective),
        np.array([cycles, energy_pj], np.float64),
        square,
        sizes,
        _orders(nest, one_stays=outer_stays),
        _orders(nest, one_stays=one_stays),
        found,
        better,
    )
    factors = [tuple(map(int, row)) for row in better]
    return found, LoopMapping(*factors)


def _orders(nest: LoopNest, *, one_stays: bool) -> LevelOrders:
    """Orders to try for every set of loops with several iterations: each operand's own loops outside, or all orders."""
    loops = range(len(nest.loops))
    first, rows = [0], []
    for present in range(1 << len(nest.loops)):
        inside = [at for at in loops if present >> at & 1]
        others = [at for at in loops if at not in inside]
        if any(nest.extents[at] == 1 for at in inside):
            found = []
        elif one_stays:
            keys = [operand.indexed_by for operand in nest.operands]
            found = [[*others, *sorted(inside, key=lambda at, key=key: at not in key)] for key in keys]
            everywhere = [at for at in inside if all(at in key for key in keys)]
            found += [[*others, *(at for at in inside if at != last), last] for last in everywhere]
        else:
            found = [[*others, *order] for order in permutations(inside)]
        rows += [list(order) for order in dict.fromkeys(map(tuple, found))]
        first.append(len(rows))
    return LevelOrders(np.array(first), np.array(rows))


def certificate_json(certificate: Certificate) -> dict[str, Any]:
    """The certificate as an object of JSON, with `FIELDS`."""
    return asdict(certificate)


def certificate_from(found: Mapping[str, JsonPart]) -> Certificate:
    """Read it again from its fields; InputError for anything else."""
    rows = found["mapping"].fields(_MAPPING_FIELDS)
    return Certificate(
        found["problem"].text(),
        found["value"].whole(0, MOST_VALUE),
        LoopMapping(**{name: rows[name].wholes(0, _MOST) for name in _MAPPING_FIELDS}),
        found["tilings"].whole(0, _MOST),
    )
