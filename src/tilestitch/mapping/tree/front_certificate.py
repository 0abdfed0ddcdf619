"""The proof that a front is whole: every mapping that none beats in both energy and latency, and no others.

A point says its energy, of every cut in whole femtojoules, its cycles and its chain. What is said of choices is as for
one mapping, but that a choice is settled where a point has no more of both than the choice has at least.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilestitch.base.json_text import JsonPart
from tilestitch.ir.choices import Objective
from tilestitch.mapping.optimum import Optimum
from tilestitch.mapping.tree.certificate import (
    MOST_CHAINS,
    ChoiceProof,
    chain_fj,
    choice_proofs,
    choices_from,
    choices_json,
    counts_chains,
    expect_searched,
    mapping_from,
    mapping_json,
    problem_digest,
    way_taken,
)
from tilestitch.mapping.tree.chain import TreeMapping, latency_cycles
from tilestitch.mapping.tree.choices import SpatialSpace
from tilestitch.mapping.tree.found import FoundMapping
from tilestitch.mapping.tree.free_certificate import (
    ChoiceBlock,
    blocks_from,
    blocks_json,
    choice_blocks,
    counted_chains,
    expect_counted,
    free_digest,
    slides_from,
    slides_json,
    unrolled_texts,
)
from tilestitch.mapping.tree.placed import PlacedNest, Slide
from tilestitch.mapping.tree.sliding import with_slides

FRONT_FIELDS = ("problem", "points", "choices")
FREE_FRONT_FIELDS = ("problem", "points", "taken", "choices", "blocks")
_POINT = ("energy", "cycles", "chosen", "loops", "cuts")
_MOST = 2**60  # femtojoules or cycles of a point, so that they are compared in 64 bits


@dataclass(frozen=True, slots=True)
class ProvenPoint:
    """A mapping on a front: what it costs, which of the ways to spread loops it takes, and its chain."""

    energy_fj: int
    cycles: int
    chosen: int
    mapping: TreeMapping


@dataclass(frozen=True, slots=True)
class FrontCertificate:
    """The points of a front in ascending order of energy, and what was done with each way to spread loops."""

    problem: str
    points: tuple[ProvenPoint, ...]
    choices: tuple[ChoiceProof, ...]


@dataclass(frozen=True, slots=True)
class TakenChoice:
    """What points of a front spread and let slide; so many `chains` if no memory is shared, or nobody counts them."""

    spread: tuple[str, ...]
    slides: tuple[Slide, ...]
    chains: int | None


@dataclass(frozen=True, slots=True)
class FreeFrontCertificate:
    """The points of a front in ascending order of energy, the choices that they take, and what became of all choices.

    Of a block `bound` is the least energy of those of its choices that a point settles.
    """

    problem: str
    points: tuple[ProvenPoint, ...]
    taken: tuple[TakenChoice, ...]
    choices: int
    blocks: tuple[ChoiceBlock, ...]


def front_of(points: Sequence[ProvenPoint]) -> Optimum:
    """What a front claims."""
    return Optimum(Objective.PARETO, front=tuple((one.energy_fj, one.cycles) for one in points))


def front_certificate_of(placements: Sequence[PlacedNest], front: Sequence[FoundMapping]) -> FrontCertificate:
    """The proof of a front over all placements of a nest. Raises `InputError` where it was not searched to the end."""
    expect_searched(front[0])
    ways, sums = with_slides(placements), front[0].sums
    points = tuple(_point(one, way_taken(one, ways)) for one in front)
    choices = choice_proofs(ways, sums, front_of(points))
    return FrontCertificate(problem_digest(placements, sums, Objective.PARETO), points, choices)


def free_front_certificate_of(
    bare: PlacedNest, space: SpatialSpace, front: Sequence[FoundMapping]
) -> FreeFrontCertificate:
    """The proof of a front over all choices. Raises `InputError` where it was not searched to the end."""
    expect_searched(front[0])
    taken: dict[tuple[tuple[str, ...], tuple[Slide, ...]], TakenChoice] = {}
    points: list[ProvenPoint] = []
    for one in front:
        key = tuple(unrolled_texts(one.placed)), one.placed.slides or ()
        if key not in taken:
            taken[key] = TakenChoice(*key, counted_chains(one))
        points.append(_point(one, list(taken).index(key)))
    sums = front[0].sums
    choices, blocks = choice_blocks(bare, space, sums, front_of(points))
    problem = free_digest(bare, space, sums, Objective.PARETO)
    return FreeFrontCertificate(problem, tuple(points), tuple(taken.values()), choices, blocks)


def _point(found: FoundMapping, chosen: int) -> ProvenPoint:
    placed, mapping = found.placed, found.mapping
    return ProvenPoint(chain_fj(placed, mapping), latency_cycles(placed, mapping), chosen, mapping)


def front_json(certificate: FrontCertificate, placed: PlacedNest) -> dict[str, Any]:
    """The certificate as an object of JSON, with `FRONT_FIELDS`; names are those of a placement."""
    return {
        "problem": certificate.problem,
        "points": [_point_json(one, placed) for one in certificate.points],
        "choices": choices_json(certificate.choices),
    }


def free_front_json(certificate: FreeFrontCertificate, bare: PlacedNest) -> dict[str, Any]:
    """The certificate as an object of JSON, with `FREE_FRONT_FIELDS`."""
    return {
        "problem": certificate.problem,
        "points": [_point_json(one, bare) for one in certificate.points],
        "taken": [
            {
                "spread": one.spread,
                **slides_json(one.slides, bare),
                **({} if one.chains is None else {"chains": one.chains}),
            }
            for one in certificate.taken
        ],
        "choices": certificate.choices,
        "blocks": blocks_json(certificate.blocks),
    }


def _point_json(point: ProvenPoint, placed: PlacedNest) -> dict[str, Any]:
    return {
        "energy": point.energy_fj,
        "cycles": point.cycles,
        "chosen": point.chosen,
        **mapping_json(point.mapping, placed),
    }


def front_from(found: dict[str, JsonPart], placed: PlacedNest) -> FrontCertificate:
    """Read it again from its fields; `InputError` for anything else."""
    choices = choices_from(found["choices"], placed, of_front=True)
    return FrontCertificate(found["problem"].text(), _points(found["points"], placed, len(choices)), choices)


def free_front_from(found: dict[str, JsonPart], bare: PlacedNest) -> FreeFrontCertificate:
    """Read it again from its fields; `InputError` for anything else."""
    taken = tuple(_taken(one, bare) for one in found["taken"].items("choices that points take"))
    return FreeFrontCertificate(
        found["problem"].text(),
        _points(found["points"], bare, len(taken)),
        taken,
        found["choices"].whole(0, 2**40),
        blocks_from(found["blocks"]),
    )


def _points(part: JsonPart, placed: PlacedNest, choices: int) -> tuple[ProvenPoint, ...]:
    found = tuple(_point_from(one, placed, choices) for one in part.items("points"))
    if not found:
        part.expected("at least one point")
    return found


def _point_from(part: JsonPart, placed: PlacedNest, choices: int) -> ProvenPoint:
    found = part.fields(_POINT, ("windows",))
    return ProvenPoint(
        found["energy"].whole(0, _MOST),
        found["cycles"].whole(0, _MOST),
        found["chosen"].whole(0, max(0, choices - 1)),
        mapping_from(found, placed),
    )


def _taken(part: JsonPart, bare: PlacedNest) -> TakenChoice:
    found = part.fields(("spread",), ("slides", "chains"))
    expect_counted(found, bare, part)
    return TakenChoice(
        found["spread"].texts("axes with loops and factors"),
        slides_from(found["slides"], bare) if "slides" in found else (),
        found["chains"].whole(0, MOST_CHAINS) if counts_chains(bare) else None,
    )
