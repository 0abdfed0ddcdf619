"""The proof that a mapping on a tree is the best, for somebody who does not trust the search.

A certificate says nothing but what a checker can judge. Values are whole: femtojoules for energy, those of every cut
rounded before they are added, so that no sum depends on its order. A further objective needs its own value and bound
of a placement here, and labels of its own in the checker.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tilestitch.base.errors import InputError
from tilestitch.base.json_text import JsonPart
from tilestitch.ir.choices import Objective
from tilestitch.mapping.tree.chain import TreeMapping, crossing_tiles
from tilestitch.mapping.tree.crossings import operands_on_tree
from tilestitch.mapping.tree.found import FoundMapping
from tilestitch.mapping.tree.inside_out import chain_count, root_bound
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.sliding import unprovable
from tilestitch.mapping.tree.tables import FEMTO, Sums, femtojoules, tables_of

PROVABLE = (Objective.ENERGY,)
UNITS = {Objective.ENERGY: "femtojoules"}
FIELDS = ("problem", "value", "chosen", "loops", "cuts", "choices")
OPENED, NOTHING_FITS = "opened", "nothing fits"
_MOST_VALUE = 2**60
_MOST_CHAINS = 2**480


@dataclass(frozen=True, slots=True)
class ChoiceProof:
    """One way to spread loops over units, and why it holds nothing better.

    `spread` are its axes with loops and factors, as "D1 K 32". Either `bound` says below what no chain of it comes;
    or nothing fits, and bound and chains are none; or it was opened, and has so many chains if no memory is shared.
    """

    spread: tuple[str, ...]
    bound: int | None
    chains: int | None


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
    one = placements[0]
    nest, tree = asdict(replace(one.nest, name="", kind="")), asdict(replace(one.tree, name=""))
    del tree["engines"]  # no energy depends on them
    spread = [[asdict(factor) for factor in placed.unrolled] for placed in placements]
    values = json.dumps([nest, tree, one.final_bits, one.homes, spread, sums, objective], default=str, sort_keys=True)
    return hashlib.sha256(values.encode()).hexdigest()[:16]


def expect_provable(placed: PlacedNest) -> None:
    """Raise `InputError` for a problem that certificates do not cover."""
    uncovered = unprovable(placed)
    if uncovered is not None:
        raise InputError(f"{placed.nest.name}: certificates do not cover {uncovered}; map it without one")


def spread_texts(placed: PlacedNest) -> tuple[str, ...]:
    """What is spread over the units: "D1 K 32", or "D1 K 64/5" where the factor does not divide."""
    return tuple(f"{one.axis} {placed.nest.loops[one.loop].name} {one.factor}" for one in placed.unrolled)


def mac_value(placed: PlacedNest) -> int:
    """Femtojoules of all multiply-accumulates, which every mapping takes."""
    return round(placed.tree.mac_pj * placed.nest.macs * FEMTO)


def certificate_of(
    placements: Sequence[PlacedNest], found: FoundMapping, objective: Objective = Objective.ENERGY
) -> TreeCertificate:
    """The proof of a search over all placements of a nest. Raises `InputError` where it was not searched to the end."""
    expect_provable(found.placed)
    if not found.is_proven:
        raise InputError(
            f"--certificate: the search of {found.placed.nest.name} stopped after {found.labels:,} labels and proved "
            "nothing; allow more with --effort, or leave out --certificate"
        )
    value = _value(found.placed, found.mapping)
    chosen = next(at for at, placed in enumerate(placements) if placed.unrolled == found.placed.unrolled)
    choices = tuple(_choice_proof(placed, found.sums, value) for placed in placements)
    return TreeCertificate(problem_digest(placements, found.sums, objective), value, chosen, found.mapping, choices)


def _value(placed: PlacedNest, mapping: TreeMapping) -> int:
    total = mac_value(placed)
    for operand, tiles in zip(operands_on_tree(placed), crossing_tiles(placed, mapping), strict=True):
        for crossing, tile in enumerate(tiles):
            total += int(femtojoules(operand, crossing, np.array([tile], np.int64))[0])
    return total


def _choice_proof(placed: PlacedNest, sums: Sums, value: int) -> ChoiceProof:
    tables = tables_of(placed, sums)
    bound = root_bound(tables)
    if bound is None:
        return ChoiceProof(spread_texts(placed), None, None)
    bound += tables.fixed_fj + mac_value(placed)
    if bound >= value:
        return ChoiceProof(spread_texts(placed), bound, None)
    return ChoiceProof(spread_texts(placed), None, chain_count(tables))


def certificate_json(certificate: TreeCertificate, placed: PlacedNest) -> dict[str, Any]:
    """The certificate as an object of JSON, with `FIELDS`; loops and operands by their names in a placement."""
    names = [loop.name for loop in placed.nest.loops]
    mapping = certificate.mapping
    return {
        "problem": certificate.problem,
        "value": certificate.value,
        "chosen": certificate.chosen,
        "loops": [[names[loop], factor] for loop, factor in mapping.loops],
        "cuts": {array.name: list(cuts) for array, cuts in zip(placed.operands, mapping.cuts, strict=True)},
        "choices": [_choice_json(one) for one in certificate.choices],
    }


def _choice_json(one: ChoiceProof) -> dict[str, Any]:
    if one.chains is not None:
        return {"spread": one.spread, "bound": OPENED, "chains": one.chains}
    return {"spread": one.spread, "bound": NOTHING_FITS if one.bound is None else one.bound}


def certificate_from(found: dict[str, JsonPart], placed: PlacedNest) -> TreeCertificate:
    """Read it again from its fields; `InputError` for anything else."""
    choices = found["choices"].items("choices")
    numbers = {loop.name: at for at, loop in enumerate(placed.nest.loops)}
    cuts = found["cuts"].fields([array.name for array in placed.operands])
    return TreeCertificate(
        found["problem"].text(),
        found["value"].whole(0, _MOST_VALUE),
        found["chosen"].whole(0, max(0, len(choices) - 1)),
        TreeMapping(
            tuple(_loop(part, numbers) for part in found["loops"].items("loops with their factors")),
            tuple(cuts[array.name].wholes(0, 2**20) for array in placed.operands),
        ),
        tuple(map(_choice, choices)),
    )


def _loop(part: JsonPart, numbers: dict[str, int]) -> tuple[int, int]:
    pair = part.items("a loop and its factor")
    if len(pair) != 2:
        part.expected('a loop and its factor, as in ["K", 4]')
    return pair[0].choice(numbers), pair[1].whole(2, 2**24)


def _choice(part: JsonPart) -> ChoiceProof:
    found = part.fields(("spread", "bound"), ("chains",))
    spread, bound = found["spread"].texts("axes with loops and factors"), found["bound"]
    if isinstance(bound.value, str) and bound.value not in (OPENED, NOTHING_FITS):
        bound.expected(f'a whole number, "{OPENED}" or "{NOTHING_FITS}"')
    if bound.value == OPENED:
        if "chains" not in found:
            part.refuse(f'the field chains is missing; expected where bound is "{OPENED}"')
        return ChoiceProof(spread, None, found["chains"].whole(0, _MOST_CHAINS))
    if "chains" in found:
        found["chains"].refuse(f'expected only where bound is "{OPENED}"')
    return ChoiceProof(spread, None if bound.value == NOTHING_FITS else bound.whole(0, 2**62), None)
