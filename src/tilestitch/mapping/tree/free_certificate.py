"""The proof that a mapping is the best of all choices of what is spread over the units.

There are too many choices to say what became of each by itself. Those that leave as many steps are a block: how many
there are, how many of them have a bound below the value, and the least bound of the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.json_text import JsonPart
from tilestitch.ir.choices import Objective
from tilestitch.mapping.optimum import Optimum, value_of
from tilestitch.mapping.tree.certificate import (
    MOST_CHAINS,
    MOST_VALUE,
    NOTHING_FITS,
    chain_value,
    counts_chains,
    digest_of,
    expect_searched,
    mac_value,
    mapping_from,
    mapping_json,
    spread_texts,
)
from tilestitch.mapping.tree.chain import TreeMapping
from tilestitch.mapping.tree.choices import SpatialSpace, choices_of
from tilestitch.mapping.tree.found import FoundMapping
from tilestitch.mapping.tree.inside_out import chain_count
from tilestitch.mapping.tree.labels import NEVER
from tilestitch.mapping.tree.placed import PlacedNest, Slide
from tilestitch.mapping.tree.sliding import needs_tables
from tilestitch.mapping.tree.spread_task import bounds_fj, task_of, units_fj
from tilestitch.mapping.tree.tables import Sums, tables_of

FREE_FIELDS = ("problem", "value", "spread", "loops", "cuts", "choices", "blocks")
FREE_OPTIONAL = ("windows", "slides", "chains")
_BLOCK = ("steps", "choices", "opened", NOTHING_FITS)


@dataclass(frozen=True, slots=True)
class ChoiceBlock:
    """The choices that leave so many steps.

    Of those that fit and were not opened `bound` is the least bound; of a front that of energy.
    """

    steps: int
    choices: int
    opened: int
    misfits: int
    bound: int | None


@dataclass(frozen=True, slots=True)
class FreeCertificate:
    """What was found, on which choice, and what became of all choices.

    `problem` is a digest of the nest, the machine, what may be spread, the width of sums and the objective. The chosen
    way to spread loops has so many `chains` if no memory is shared; none where they are not counted.
    """

    problem: str
    value: int
    spread: tuple[str, ...]
    slides: tuple[Slide, ...]
    mapping: TreeMapping
    chains: int | None
    choices: int
    blocks: tuple[ChoiceBlock, ...]


def free_digest(bare: PlacedNest, space: SpatialSpace, sums: Sums, objective: Objective) -> str:
    """The digest of a problem in which what is spread is free."""
    given = sorted((axis, loop, factor) for (axis, loop), factor in space.given.items())
    only = sorted((axis, list(loops)) for axis, loops in space.only.items())
    return digest_of(bare, [space.ragged, Fraction(space.least_use), given, only], sums, objective)


def bounded_loosely(bare: PlacedNest) -> bool:
    """Whether bounds take what leaves an operand alone as not spread: where crossings are not the plain ones."""
    return needs_tables(bare)


def free_certificate_of(
    bare: PlacedNest, space: SpatialSpace, found: FoundMapping, objective: Objective
) -> FreeCertificate:
    """The proof of a search over all choices. Raises `InputError` where it was not searched to the end."""
    expect_searched(found)
    value = chain_value(objective, found.placed, found.mapping)
    choices, blocks = choice_blocks(bare, space, found.sums, Optimum(objective, value))
    return FreeCertificate(
        free_digest(bare, space, found.sums, objective),
        value,
        spread_texts(_without_slides(found.placed)),
        found.placed.slides or (),
        found.mapping,
        counted_chains(found),
        choices,
        blocks,
    )


def counted_chains(found: FoundMapping) -> int | None:
    """How many chains the way to spread loops of a mapping has; None where nobody counts them."""
    return chain_count(tables_of(found.placed, found.sums)) if counts_chains(found.placed) else None


def choice_blocks(
    bare: PlacedNest, space: SpatialSpace, sums: Sums, best: Optimum
) -> tuple[int, tuple[ChoiceBlock, ...]]:
    """How many choices there are, and their blocks."""
    choices, task = choices_of(bare, space), task_of(bare, sums)
    bounds = bounds_fj(task, choices, loose=bounded_loosely(bare))
    energies = np.minimum(units_fj(task, choices) + bounds, NEVER)
    return len(choices), blocks_of(energies, choices.steps.prod(axis=1), mac_value(bare), best)


def _without_slides(placed: PlacedNest) -> PlacedNest:
    return PlacedNest(placed.nest, placed.final_bits, placed.homes, placed.unrolled, placed.tree)


def blocks_of(
    energies: NDArray[np.int64], steps: NDArray[np.int64], arithmetic: int, best: Optimum
) -> tuple[ChoiceBlock, ...]:
    """The blocks of choices with the least energy that each can have, without arithmetic; NEVER where nothing fits.

    No mapping takes fewer cycles than there are steps.
    """
    found: list[ChoiceBlock] = []
    for count in np.unique(steps).tolist():
        own: list[int] = energies[steps == count].tolist()
        fitting = [one + arithmetic for one in own if one < NEVER]
        settled = [value_of(best.objective, one, count) for one in fitting if not best.is_above(one, count)]
        opened = len(fitting) - len(settled)
        found.append(ChoiceBlock(count, len(own), opened, len(own) - len(fitting), min(settled) if settled else None))
    return tuple(found)


def free_certificate_json(certificate: FreeCertificate, bare: PlacedNest) -> dict[str, Any]:
    """The certificate as an object of JSON."""
    return {
        "problem": certificate.problem,
        "value": certificate.value,
        "spread": certificate.spread,
        **slides_json(certificate.slides, bare),
        **mapping_json(certificate.mapping, bare),
        **({} if certificate.chains is None else {"chains": certificate.chains}),
        "choices": certificate.choices,
        "blocks": blocks_json(certificate.blocks),
    }


def slides_json(slides: Sequence[Slide], bare: PlacedNest) -> dict[str, Any]:
    """The field of windows that slide, if there are any."""
    found = [[bare.operands[one.operand].name, one.crossing, bare.nest.loops[one.loop].name] for one in slides]
    return {"slides": found} if found else {}


def blocks_json(blocks: Sequence[ChoiceBlock]) -> list[dict[str, Any]]:
    """The blocks of choices."""
    return [_block_json(one) for one in blocks]


def _block_json(one: ChoiceBlock) -> dict[str, Any]:
    return {
        "steps": one.steps,
        "choices": one.choices,
        "opened": one.opened,
        NOTHING_FITS: one.misfits,
        **({} if one.bound is None else {"bound": one.bound}),
    }


def free_certificate_from(found: dict[str, JsonPart], bare: PlacedNest) -> FreeCertificate:
    """Read it again from its fields; `InputError` for anything else."""
    expect_counted(found, bare, found["choices"])
    return FreeCertificate(
        found["problem"].text(),
        found["value"].whole(0, MOST_VALUE),
        found["spread"].texts("axes with loops and factors"),
        slides_from(found["slides"], bare) if "slides" in found else (),
        mapping_from(found, bare),
        found["chains"].whole(0, MOST_CHAINS) if counts_chains(bare) else None,
        found["choices"].whole(0, 2**40),
        blocks_from(found["blocks"]),
    )


def expect_counted(found: dict[str, JsonPart], bare: PlacedNest, where: JsonPart) -> None:
    """Refuse fields without a number of chains where they are counted, and with one where they are not."""
    if counts_chains(bare) and "chains" not in found:
        where.refuse("the field chains is missing")
    if not counts_chains(bare) and "chains" in found:
        found["chains"].refuse("chains are not counted where windows may slide or memories store evenly")


def blocks_from(part: JsonPart) -> tuple[ChoiceBlock, ...]:
    """Read again what `blocks_json` makes."""
    return tuple(map(_block, part.items("blocks of choices")))


def slides_from(part: JsonPart, bare: PlacedNest) -> tuple[Slide, ...]:
    """Read again the field that `slides_json` makes."""
    operands = {array.name: at for at, array in enumerate(bare.operands)}
    loops = {loop.name: at for at, loop in enumerate(bare.nest.loops)}
    found: list[Slide] = []
    for one in part.items("windows that slide"):
        three = one.items("an operand, a crossing and a loop")
        if len(three) != 3:
            one.expected('an operand, a crossing and a loop, as in ["I", 1, "OX"]')
        found.append(Slide(three[0].choice(operands), three[1].whole(0, 2**20), three[2].choice(loops)))
    return tuple(found)


def _block(part: JsonPart) -> ChoiceBlock:
    found = part.fields(_BLOCK, ("bound",))
    steps, choices, opened, misfits = (found[name].whole(0, 2**62) for name in _BLOCK)
    return ChoiceBlock(
        steps, choices, opened, misfits, found["bound"].whole(0, MOST_VALUE) if "bound" in found else None
    )


def unrolled_texts(placed: PlacedNest) -> Sequence[str]:
    """What is spread, as a certificate says it."""
    return spread_texts(_without_slides(placed))
