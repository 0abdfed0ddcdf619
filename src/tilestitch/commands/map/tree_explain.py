"""Where our energy of a layer and ZigZag's differ: memory by memory, operand by operand, direction by direction.

A result of ZigZag brings its mapping. We price that mapping too, with windows counted as ZigZag does: where the two
prices are one, the evaluators agree, and what is left is the difference between the mappings. Without a result, the
best mapping by the other rule for sums stands beside ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tilestitch.base.errors import InputError
from tilestitch.base.units import format_energy
from tilestitch.commands.map.tree_run import MappedOnTree, TreeMappings
from tilestitch.formats.zigzag.result import WORDS, ZigzagResult
from tilestitch.hardware.tree import Flow
from tilestitch.mapping.tree.chain import TreeMapping, TreePrice, crossing_places, price
from tilestitch.mapping.tree.crossings import operands_on_tree
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.search import best_mapping
from tilestitch.mapping.tree.tables import Sums
from tilestitch.report.table import table, title

RULE = "zigzag"  # in place of a file
AGREED = 1e-9  # of two prices of one mapping


@dataclass(frozen=True, slots=True)
class ExplainedRow:
    """One operand at one memory in one direction: our mapping, the other mapping in our price, and what ZigZag says."""

    memory: str
    operand: str
    flow: Flow
    ours_pj: float
    ours_accesses: int
    other_pj: float
    other_accesses: int
    stated_pj: float | None = None


@dataclass(frozen=True, slots=True)
class Explained:
    """Ours beside another mapping of one layer; `stated_pj` is ZigZag's own figure where a result was given."""

    layer: str
    other: str
    ours: TreePrice
    theirs: TreePrice
    rows: tuple[ExplainedRow, ...]
    held: tuple[tuple[str, str, float, float], ...]  # memory, operand, elements in ours and in the other
    stated_pj: float | None = None
    stated_cycles: float | None = None
    counted_pj: float = 0.0  # of our mapping, with windows counted as ZigZag does

    @property
    def agrees(self) -> bool:
        """Whether ZigZag's figures of its mapping are ours of the same, row by row."""
        given = [(row.stated_pj, row.other_pj) for row in self.rows if row.stated_pj is not None]
        return all(abs(stated - ours) <= AGREED * max(abs(stated), 1.0) for stated, ours in given)


def explained(mapped: TreeMappings, result: ZigzagResult | None) -> tuple[Explained, ...]:
    """Every layer beside ZigZag's rule for sums, or the one that a result of ZigZag is of.

    Raises `InputError` where no layer has the loops of the result.
    """
    if result is None:
        return tuple(_beside_rule(layer) for layer in mapped.layers)
    layers = [one for one in mapped.layers if one.name == result.layer] or list(mapped.layers)
    if len(layers) != 1:
        known = ", ".join(one.name for one in mapped.layers[:8])
        raise InputError(f"--explain: the result is of layer {result.layer}; known: {known}; choose one with --layer")
    placed = layers[0].found.placed
    theirs = _mapping_of(result, placed)
    return (_beside(layers[0], theirs, "ZigZag's mapping", result),)


def _beside_rule(layer: MappedOnTree) -> Explained:
    """Ours beside the best by the other rule for sums."""
    found = layer.found
    rule = Sums.FINAL if found.sums is Sums.FULL else Sums.FULL
    other = best_mapping(replace(found.placed, zigzag_windows=True), rule)
    what = "the best with --sums final" if rule is Sums.FINAL else "the best with --sums full"
    return _beside(layer, other.mapping, what, None)


def _mapping_of(result: ZigzagResult, placed: PlacedNest) -> TreeMapping:
    """ZigZag's loops and cuts on our nest."""
    numbers = {loop.name: number for number, loop in enumerate(placed.nest.loops)}
    products = dict.fromkeys(numbers, 1)
    for name, factor in result.loops:
        if name not in numbers:
            raise InputError(
                f"--explain: the result has a loop {name}; layer {placed.nest.name} has {', '.join(numbers)}"
            )
        products[name] *= factor
    if tuple(products.values()) != placed.steps:
        raise InputError(
            f"--explain: the loops of the result make {' x '.join(map(str, products.values()))} steps, those of layer "
            f"{placed.nest.name} {' x '.join(map(str, placed.steps))}; take a result of the same layer, machine and "
            "spatial mapping"
        )
    cuts: list[tuple[int, ...]] = []
    for number, array in enumerate(placed.operands):
        ends = result.cuts.get(array.name, ())
        if array.element_bits > 0 and len(ends) != len(placed.chain(number)):
            raise InputError(
                f"--explain: {array.name} has {len(ends)} memories in the result and {len(placed.chain(number))} on "
                f"{placed.tree.name}; take a result of the same machine"
            )
        cuts.append(ends or (len(result.loops),) * len(placed.chain(number)))
    return TreeMapping(tuple((numbers[name], factor) for name, factor in result.loops), tuple(cuts))


def _beside(layer: MappedOnTree, theirs: TreeMapping, what: str, result: ZigzagResult | None) -> Explained:
    placed, ours = layer.found.placed, layer.found.price
    counted = replace(placed, zigzag_windows=True)
    other, again = price(counted, theirs), price(counted, layer.found.mapping)
    pairs = zip(ours.flows, other.flows, strict=True)
    rows: list[ExplainedRow] = []
    for mine, its in pairs:
        name = placed.operands[mine.operand].name
        stated = result.flows.get((name, mine.level, mine.flow)) if result is not None else None
        row = ExplainedRow(
            *(mine.memory, name, mine.flow, mine.energy_pj, mine.accesses, its.energy_pj, its.accesses),
            stated[1] if stated is not None else None,
        )
        if mine.accesses or its.accesses or row.stated_pj:
            rows.append(row)
    held = _held(placed, layer.found.mapping, theirs)
    stated_pj, stated_cycles = (result.energy_pj, result.latency_cycles) if result is not None else (None, None)
    return Explained(layer.name, what, ours, other, tuple(rows), held, stated_pj, stated_cycles, again.energy_pj)


def _held(placed: PlacedNest, ours: TreeMapping, theirs: TreeMapping) -> tuple[tuple[str, str, float, float], ...]:
    """Elements that stay in a memory while those inside it change, where the two mappings differ in them."""
    found: list[tuple[str, str, float, float]] = []
    both = [_elements(placed, mapping) for mapping in (ours, theirs)]
    for place, mine in both[0].items():
        if mine != both[1][place]:
            found.append((*place, mine, both[1][place]))
    return tuple(found)


def _elements(placed: PlacedNest, mapping: TreeMapping) -> dict[tuple[str, str], float]:
    places = crossing_places(placed, mapping)
    found: dict[tuple[str, str], float] = {}
    for operand in operands_on_tree(placed):
        for level, memory in enumerate(operand.memories[:-1]):
            tile = [1] * len(placed.nest.loops)
            for loop, factor in mapping.loops[: places[operand.number][level + 1]]:
                tile[loop] *= factor
            found[memory.name, operand.array.name] = float(operand.held(level, np.array([tile], np.int64))[0])
    return found


def explained_text(one: Explained) -> str:
    """The two energies, whether the evaluators agree, and the rows in the order of what they differ by."""
    lines = ["", *title(f"{one.layer}: ours beside {one.other}")]
    ours, theirs = one.ours.energy_pj, one.theirs.energy_pj
    ratio = f"; {theirs / ours:.4f} of ours" if ours > 0 else ""
    lines.append(f"  energy     ours {ours:,.3f} pJ, {one.other} {theirs:,.3f} pJ{ratio}")
    if one.stated_pj is not None:
        lines.append(f"  ZigZag     says {one.stated_pj:,.3f} pJ of its mapping: {_verdict(one)}")
    elif one.counted_pj == ours:
        lines.append("  evaluator  ZigZag's charges each row as we do: differences are those of the mappings")
    else:
        lines.append(f"  evaluator  ZigZag's counts windows otherwise: ours {one.counted_pj:,.3f} pJ by it")
    cycles = f"; ZigZag says {one.stated_cycles:,.0f}, by rules of its own" if one.stated_cycles is not None else ""
    lines.append(
        f"  latency    ours {one.ours.latency_cycles:,} cycles, {one.other} {one.theirs.latency_cycles:,}{cycles}"
    )
    for memory, operand, mine, its in one.held:
        lines.append(f"  held       {operand} in {memory}: ours {mine:,.6g} elements, the other {its:,.6g}")
    if not any(row.ours_pj != row.other_pj for row in one.rows) and one.agrees:
        return "\n".join([*lines, "  no row differs: both mappings cost the same everywhere"])
    rows = [
        (
            row.memory,
            row.operand,
            str(row.flow),
            WORDS[row.flow],
            f"{row.ours_accesses:,}",
            f"{row.other_accesses:,}",
            format_energy(row.ours_pj),
            format_energy(row.other_pj),
            *((format_energy(row.stated_pj or 0.0),) if one.stated_pj is not None else ()),
            f"{(row.other_pj - row.ours_pj) / ours:+.2%}" if ours > 0 else "-",
        )
        for row in sorted(one.rows, key=lambda row: -abs(row.other_pj - row.ours_pj))
    ]
    stated = ("ZigZag says",) if one.stated_pj is not None else ()
    head = ("memory", "", "direction", "ZigZag's word", "accesses", "other", "ours", "other", *stated, "difference")
    return "\n".join([*lines, "", *table(head, rows, "llllrrrr" + "r" * (len(stated) + 1))])


def _verdict(one: Explained) -> str:
    if one.agrees:
        return "every row is our price of it, so what differs is the mapping"
    rows = [row for row in one.rows if row.stated_pj is not None]
    worst = max(rows, key=lambda row: abs((row.stated_pj or 0.0) - row.other_pj))
    return (
        f"the prices differ most in {worst.operand} at {worst.memory}, {WORDS[worst.flow]}: "
        f"{worst.stated_pj or 0.0:,.3f} there, {worst.other_pj:,.3f} here"
    )


def explained_json(all_of_them: Sequence[Explained]) -> list[dict[str, Any]]:
    """What the text says, in picojoules and cycles."""
    return [
        {
            "layer": one.layer,
            "other": one.other,
            "energy_pj": one.ours.energy_pj,
            "energy_by_zigzag_pj": one.counted_pj,
            "other_pj": one.theirs.energy_pj,
            "stated_pj": one.stated_pj,
            "evaluators_agree": one.agrees if one.stated_pj is not None else None,
            "latency_cycles": one.ours.latency_cycles,
            "other_cycles": one.theirs.latency_cycles,
            "stated_cycles": one.stated_cycles,
            "rows": [
                {
                    "memory": row.memory,
                    "operand": row.operand,
                    "direction": str(row.flow),
                    "zigzag_word": WORDS[row.flow],
                    "accesses": row.ours_accesses,
                    "other_accesses": row.other_accesses,
                    "energy_pj": row.ours_pj,
                    "other_pj": row.other_pj,
                    "stated_pj": row.stated_pj,
                }
                for row in one.rows
            ],
            "held": [
                {"memory": memory, "operand": operand, "elements": mine, "other_elements": its}
                for memory, operand, mine, its in one.held
            ],
        }
        for one in all_of_them
    ]
