"""The proof that a mapping on a tree is the best, for somebody who does not trust the search.

A certificate says nothing but what a checker can judge. Values are whole: femtojoules for energy, those of every cut
rounded before they are added, so that no sum depends on its order; cycles; and their products.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tilestitch.base.errors import InputError
from tilestitch.base.json_text import JsonPart
from tilestitch.ir.choices import Objective
from tilestitch.mapping.optimum import MOST_VALUE, Bound, Optimum, digest, value_of
from tilestitch.mapping.tree.chain import TreeMapping, latency_cycles, placed_crossings
from tilestitch.mapping.tree.found import FoundMapping
from tilestitch.mapping.tree.inside_out import chain_count, root_bound
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.sliding import can_slide, with_slides
from tilestitch.mapping.tree.tables import FEMTO, Sums, femtojoules, tables_of
from tilestitch.mapping.tree.timed_pace import least_latency
from tilestitch.mapping.tree.timed_problem import timed_problem

FIELDS = ("problem", "value", "chosen", "loops", "cuts", "choices")
OPTIONAL = ("windows",)
OPENED, NOTHING_FITS = "opened", "nothing fits"
MOST_CHAINS = 2**480


@dataclass(frozen=True, slots=True)
class ChoiceProof:
    """One way to spread loops over units, and why it holds nothing better.

    `spread` are its axes with loops and factors, as "D1 K 32", and windows that slide, as "I into L1 along OX". Either
    `bound` says below what no chain of it comes, of a front femtojoules and cycles; or nothing fits, and there is none;
    or it was opened. Then it has so many chains if no memory is shared; where windows may slide or memories store
    evenly nobody counts them.
    """

    spread: tuple[str, ...]
    bound: Bound | None
    chains: int | None
    is_opened: bool = False


@dataclass(frozen=True, slots=True)
class TreeCertificate:
    """What was found, in which of the choices, and what was done with each of them.

    `problem` is a digest of the nest, the machine, what may be spread, the width of sums and the objective.
    """

    problem: str
    value: int
    chosen: int
    mapping: TreeMapping
    choices: tuple[ChoiceProof, ...]


def problem_digest(placements: Sequence[PlacedNest], sums: Sums, objective: Objective) -> str:
    """Sixteen hexadecimal digits for everything that the best mapping depends on; names of layer and machine do not."""
    return digest_of(
        placements[0], [[asdict(one) for one in placed.unrolled] for placed in placements], sums, objective
    )


def digest_of(placed: PlacedNest, spread: object, sums: Sums, objective: Objective) -> str:
    """The digest of a nest, of what may be spread of it, and of all else that is fixed."""
    nest, tree = asdict(replace(placed.nest, name="", kind="")), asdict(replace(placed.tree, name=""))
    if objective is Objective.ENERGY:
        del tree["engines"]  # no energy depends on them
    fixed = [[asdict(one) for one in placed.limits], placed.order]
    return digest([nest, tree, placed.final_bits, placed.homes, spread, fixed, sums, objective])


def counts_chains(placed: PlacedNest) -> bool:
    """Whether chains are counted: where cuts do not depend on the loops between them."""
    return not can_slide(placed.tree) and not any(memory.has_even_storage for memory in placed.tree.memories)


def spread_texts(placed: PlacedNest) -> tuple[str, ...]:
    """What is spread over the units, "D1 K 32", or "D1 K 64/5" where the factor does not divide; windows that slide."""
    names = [loop.name for loop in placed.nest.loops]
    found = [f"{one.axis} {names[one.loop]} {one.factor}" for one in placed.unrolled]
    for one in placed.slides or ():
        chain = placed.chain(one.operand)
        into = chain[one.crossing - 1].name if one.crossing > 0 else "units"
        found.append(f"{placed.operands[one.operand].name} into {into} along {names[one.loop]}")
    return tuple(found)


def mac_value(placed: PlacedNest) -> int:
    """Femtojoules of all multiply-accumulates, which every mapping takes."""
    return round(placed.tree.mac_pj * placed.nest.macs * FEMTO)


def certificate_of(
    placements: Sequence[PlacedNest], found: FoundMapping, objective: Objective = Objective.ENERGY
) -> TreeCertificate:
    """The proof of a search over all placements of a nest. Raises `InputError` where it was not searched to the end."""
    expect_searched(found)
    value = chain_value(objective, found.placed, found.mapping)
    ways = with_slides(placements)
    choices = choice_proofs(ways, found.sums, Optimum(objective, value))
    problem = problem_digest(placements, found.sums, objective)
    return TreeCertificate(problem, value, way_taken(found, ways), found.mapping, choices)


def way_taken(found: FoundMapping, ways: Sequence[PlacedNest]) -> int:
    """Which of the ways to spread loops and to let windows slide a mapping takes."""
    return next(
        at
        for at, placed in enumerate(ways)
        if (placed.unrolled, placed.slides or ()) == (found.placed.unrolled, found.placed.slides or ())
    )


def expect_searched(found: FoundMapping) -> None:
    """Refuse to certify what a search did not prove."""
    if not found.is_proven:
        raise InputError(
            f"--certificate: the search of {found.placed.nest.name} stopped after {found.labels:,} labels and proved "
            "nothing; allow more with --effort, or leave out --certificate"
        )


def chain_value(objective: Objective, placed: PlacedNest, mapping: TreeMapping) -> int:
    """What a mapping is worth in whole numbers."""
    cycles = 0 if objective is Objective.ENERGY else latency_cycles(placed, mapping)
    return value_of(objective, chain_fj(placed, mapping), cycles)


def chain_fj(placed: PlacedNest, mapping: TreeMapping) -> int:
    """The energy of a mapping in femtojoules, that of every cut rounded, with its multiply-accumulates."""
    total = mac_value(placed)
    for one in placed_crossings(placed, mapping):
        total += int(femtojoules(one.operand, one.crossing, np.array([one.tile], np.int64), one.part)[0])
    return total


def choice_proofs(ways: Sequence[PlacedNest], sums: Sums, best: Optimum) -> tuple[ChoiceProof, ...]:
    """What became of each way to spread loops and to let windows slide."""
    return tuple(_choice_proof(placed, sums, best) for placed in ways)


def _choice_proof(placed: PlacedNest, sums: Sums, best: Optimum) -> ChoiceProof:
    tables = tables_of(placed, sums)
    least = root_bound(tables)
    if least is None:
        return ChoiceProof(spread_texts(placed), None, None)
    energy, cycles = least + tables.fixed_fj + mac_value(placed), 0
    if best.objective is not Objective.ENERGY:
        timed = timed_problem(tables)
        cycles = least_latency(timed.start, placed.total_steps)
    if not best.is_above(energy, cycles):
        return ChoiceProof(spread_texts(placed), best.bound(energy, cycles), None)
    chains = chain_count(tables) if counts_chains(placed) else None
    return ChoiceProof(spread_texts(placed), None, chains, is_opened=True)


def certificate_json(certificate: TreeCertificate, placed: PlacedNest) -> dict[str, Any]:
    """The certificate as an object of JSON, with `FIELDS`; loops and operands by their names in a placement."""
    return {
        "problem": certificate.problem,
        "value": certificate.value,
        "chosen": certificate.chosen,
        **mapping_json(certificate.mapping, placed),
        "choices": choices_json(certificate.choices),
    }


def choices_json(choices: Sequence[ChoiceProof]) -> list[dict[str, Any]]:
    """What became of each choice."""
    return [_choice_json(one) for one in choices]


def mapping_json(mapping: TreeMapping, placed: PlacedNest) -> dict[str, Any]:
    """The loops and cuts of a mapping by their names, and the rows of windows, if there are any."""
    names = [loop.name for loop in placed.nest.loops]
    rows = [[placed.operands[operand].name, crossing, end] for operand, crossing, end in mapping.rows]
    return {
        "loops": [[names[loop], factor] for loop, factor in mapping.loops],
        "cuts": {array.name: list(cuts) for array, cuts in zip(placed.operands, mapping.cuts, strict=True)},
        **({"windows": rows} if rows else {}),
    }


def _choice_json(one: ChoiceProof) -> dict[str, Any]:
    if one.is_opened:
        return {"spread": one.spread, "bound": OPENED, **({} if one.chains is None else {"chains": one.chains})}
    return {"spread": one.spread, "bound": NOTHING_FITS if one.bound is None else one.bound}


def certificate_from(found: dict[str, JsonPart], placed: PlacedNest) -> TreeCertificate:
    """Read it again from its fields; `InputError` for anything else."""
    choices = choices_from(found["choices"], placed, of_front=False)
    return TreeCertificate(
        found["problem"].text(),
        found["value"].whole(0, MOST_VALUE),
        found["chosen"].whole(0, max(0, len(choices) - 1)),
        mapping_from(found, placed),
        choices,
    )


def choices_from(part: JsonPart, placed: PlacedNest, *, of_front: bool) -> tuple[ChoiceProof, ...]:
    """Read again what `choices_json` makes."""
    counted = counts_chains(placed)
    return tuple(_choice(one, counted=counted, of_front=of_front) for one in part.items("choices"))


def mapping_from(found: dict[str, JsonPart], placed: PlacedNest) -> TreeMapping:
    """A mapping from the fields that `mapping_json` makes."""
    numbers = {loop.name: at for at, loop in enumerate(placed.nest.loops)}
    operands = {array.name: at for at, array in enumerate(placed.operands)}
    cuts = found["cuts"].fields([array.name for array in placed.operands])
    rows = found["windows"].items("rows of windows") if "windows" in found else []
    return TreeMapping(
        tuple(_loop(part, numbers) for part in found["loops"].items("loops with their factors")),
        tuple(cuts[array.name].wholes(0, 2**20) for array in placed.operands),
        tuple(_row(part, operands) for part in rows),
    )


def _row(part: JsonPart, operands: dict[str, int]) -> tuple[int, int, int]:
    three = part.items("an operand, a crossing and how many loops are inside")
    if len(three) != 3:
        part.expected('an operand, a crossing and how many loops are inside, as in ["I", 1, 4]')
    return three[0].choice(operands), three[1].whole(0, 2**20), three[2].whole(0, 2**20)


def _loop(part: JsonPart, numbers: dict[str, int]) -> tuple[int, int]:
    pair = part.items("a loop and its factor")
    if len(pair) != 2:
        part.expected('a loop and its factor, as in ["K", 4]')
    return pair[0].choice(numbers), pair[1].whole(2, 2**24)


def _choice(part: JsonPart, *, counted: bool, of_front: bool) -> ChoiceProof:
    found = part.fields(("spread", "bound"), ("chains",))
    spread, bound = found["spread"].texts("axes with loops and factors"), found["bound"]
    if isinstance(bound.value, str) and bound.value not in (OPENED, NOTHING_FITS):
        what = "femtojoules and cycles" if of_front else "a whole number"
        bound.expected(f'{what}, "{OPENED}" or "{NOTHING_FITS}"')
    is_opened = bound.value == OPENED
    if is_opened and counted and "chains" not in found:
        part.refuse(f'the field chains is missing; expected where bound is "{OPENED}"')
    if "chains" in found and not (is_opened and counted):
        what = "chains are not counted where windows may slide or memories store evenly" if is_opened else ""
        found["chains"].refuse(what or f'expected only where bound is "{OPENED}"')
    if is_opened:
        chains = found["chains"].whole(0, MOST_CHAINS) if counted else None
        return ChoiceProof(spread, None, chains, is_opened=True)
    return ChoiceProof(spread, None if bound.value == NOTHING_FITS else _bound(bound, of_front=of_front), None)


def _bound(part: JsonPart, *, of_front: bool) -> Bound:
    if not of_front:
        return part.whole(0, MOST_VALUE)
    pair = part.items("femtojoules and cycles")
    if len(pair) != 2:
        part.expected("femtojoules and cycles, as in [1000, 64]")
    return pair[0].whole(0, MOST_VALUE), pair[1].whole(0, MOST_VALUE)
