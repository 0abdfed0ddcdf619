"""Timeloop's mappings: factors and permutations by target, of three memories and the elements.

A permutation is innermost first; a loop that it leaves out has the factor 1. The factor 0 is what the others leave.
Source: the input formats of Timeloop v0.4, and the maps of its exercises beside their printed nests.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from tilestitch.base.errors import InputError, printable
from tilestitch.formats.foreign_file import Part, yaml_file
from tilestitch.formats.given import exact, loop_number
from tilestitch.formats.limits import MAX_EXTENT
from tilestitch.formats.timeloop.machine import TAGS, TimeloopTargets
from tilestitch.ir.loop_nest import LoopMapping, LoopNest

_KINDS = ("temporal", "spatial", "datatype", "dataspace", "bypass")


@dataclass(frozen=True, slots=True)
class _Directive:
    """One entry: its factors by loop number, and its order, outermost first, of the loops that it names."""

    part: Part
    target: str
    factors: Mapping[int, int]
    order: tuple[int, ...]


def timeloop_mapping(text: str, nest: LoopNest, targets: TimeloopTargets, where: str) -> LoopMapping:
    """The mapping of a nest that a file gives for a machine with these targets.

    Raises `InputError` with the place of what is not understood: arrays that bypass a memory, imperfect factors.
    """
    file = yaml_file(text, where, tags=TAGS)
    if "mapping" not in file.entries():
        file.refuse("the field mapping is missing")
    places = {(targets.dram, "temporal"): 0, (targets.scratchpad, "temporal"): 1, (targets.registers, "temporal"): 2}
    places[targets.scratchpad, "spatial"] = 3
    for name in targets.elements:
        places[name, "spatial"] = places[f"inter_{name}_spatial", "spatial"] = 3
        places[f"inter_{name}_spatial", "temporal"] = 4
    levels: list[list[_Directive]] = [[], [], [], [], []]
    for directive, kind in _directives(file.entries()["mapping"], nest, targets):
        place = places.get((directive.target, kind))
        if place is None:
            known = ", ".join(f"{target} {what}" for target, what in places)
            directive.part.refuse(f"there is no target {directive.target!r} for {kind} loops; known: {known}")
        if levels[place] and place < 3:
            directive.part.refuse(f"the loops of {directive.target} are there twice")
        if place == 4 and prod(directive.factors.values()) != 1:
            directive.part.refuse("expected factors of 1: elements run in space")
        levels[place].append(directive)
    for place, target in enumerate((targets.dram, targets.scratchpad, targets.registers)):
        if not levels[place]:
            raise InputError(f"{where}: mapping: the temporal loops of {target} are missing")
    dram, spm, rf, spatial = _with_remainders(levels[:4], nest, where)
    orders = [_order(levels[place][0], nest) for place in (0, 1)]
    return exact(LoopMapping(dram, spm, rf, spatial, orders[0], orders[1]), nest, where)


def _directives(part: Part, nest: LoopNest, targets: TimeloopTargets) -> Iterator[tuple[_Directive, str]]:
    for entry in part.items("directives"):
        known = ("factors", "permutation", "split", "keep", "bypass")
        fields = entry.fields(("target", "type"), known, {"tile_shape": "write factors"})
        target, kind = fields["target"].text("a target"), fields["type"].text("a type")
        if kind not in _KINDS:
            fields["type"].expected(f"one of {', '.join(_KINDS)}")
        if kind in ("temporal", "spatial"):
            factors = loop_factors(fields["factors"], nest) if "factors" in fields else {}
            order = loop_permutation(fields["permutation"], nest) if "permutation" in fields else ()
            yield _Directive(entry, target, factors, order), kind
            continue
        virtual = [f"inter_{name}_spatial" for name in targets.elements]
        if target not in virtual and "bypass" in fields and fields["bypass"].items("arrays", least=0):
            fields["bypass"].refuse("not supported: every array is in every memory; expected an empty list")


def loop_factors(part: Part, nest: LoopNest) -> dict[int, int]:
    """Factors by the number of their loop; 0 is what the others leave."""
    if isinstance(part.value, list):
        text = " ".join(item.text("a factor") for item in part.items("factors"))
    else:
        text = part.text("factors such as C=1 M=4")
    if re.search(r"[0-9]\s*,\s*[0-9]", text) is not None:
        part.refuse("imperfect factors such as P=6,2 are not supported; write factors that divide")
    found: dict[int, int] = {}
    for word in re.split(r"[\s,]+", re.sub(r"\s*=\s*", "=", text.strip())):
        number, factor = _factor(word, part, nest)
        if number in found:
            part.refuse(f"the factor of {nest.loops[number].name} appears twice")
        found[number] = factor
    return found


def _factor(word: str, part: Part, nest: LoopNest) -> tuple[int, int]:
    """The loop and the factor of `C=4`, or of `C4`."""
    names = sorted((loop.name for loop in nest.loops if word.startswith(loop.name)), key=len, reverse=True)
    name, _, digits = word.partition("=") if "=" in word or not names else (names[0], "", word[len(names[0]) :])
    if re.fullmatch(r"[0-9]{1,10}", digits, re.ASCII) is None or int(digits) > MAX_EXTENT:
        part.expected("factors such as C=1 M=4 R3", f"{printable(word, 40)!r} is none")
    return loop_number(name, nest, part.place), int(digits)


def loop_permutation(part: Part, nest: LoopNest) -> tuple[int, ...]:
    """The named loops, outermost first."""
    if isinstance(part.value, list):
        names = [item.text("a loop") for item in part.items("loops")]
    else:
        text = part.text("loops such as PRKC")
        names = re.split(r"[\s,]+", text.strip()) if re.search(r"[\s,]", text.strip()) else [text]
        if len(names) == 1 and nest.loop(text) is None:
            names = list(text)
    numbers = [loop_number(name, nest, part.place) for name in names]
    if len(set(numbers)) != len(numbers):
        part.refuse("expected every loop at most once")
    return tuple(reversed(numbers))


def _with_remainders(levels: list[list[_Directive]], nest: LoopNest, where: str) -> list[tuple[int, ...]]:
    """The factors of each level, 0 replaced."""
    found = [
        [prod(one.factors.get(number, 1) for one in level) for level in levels] for number in range(len(nest.loops))
    ]
    for number, loop in enumerate(nest.loops):
        open_at = [one for level in levels for one in level if one.factors.get(number) == 0]
        if not open_at:
            continue
        known = prod(one.factors.get(number, 1) for level in levels for one in level if one not in open_at)
        if len(open_at) > 1 or loop.extent % known != 0:
            open_at[-1].part.refuse(
                f"the remainder of {loop.name} is not known: {len(open_at)} factors are 0, the others multiply to "
                f"{known:,}, and its extent is {loop.extent:,}"
            )
        for at, level in enumerate(levels):
            if open_at[0] in level:
                rest = prod(one.factors.get(number, 1) for one in level if one is not open_at[0])
                found[number][at] = rest * (loop.extent // known)
    return [tuple(factors[at] for factors in found) for at in range(4)]


def _order(directive: _Directive, nest: LoopNest) -> tuple[int, ...]:
    """All loops, outermost first; those that the permutation leaves out are outside and have the factor 1."""
    left = [number for number in range(len(nest.loops)) if number not in directive.order]
    moving = [nest.loops[number].name for number in left if directive.factors.get(number, 1) != 1]
    if moving and (directive.order or len(moving) > 1):
        directive.part.refuse(f"the permutation leaves out {', '.join(moving)}; name every loop whose factor is not 1")
    return (*left, *directive.order)
