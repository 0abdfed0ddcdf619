"""The model of a machine tree compared with its simulation, over random mappings."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from random import Random
from typing import Any, TypeAlias

from tilestitch.base.errors import DoesNotFit
from tilestitch.base.html import Record
from tilestitch.base.progress import Progress
from tilestitch.base.shown import Brief, Shown
from tilestitch.commands.map.tree_run import TreeTask
from tilestitch.commands.map.tree_sources import TreeLayer, bound_nest
from tilestitch.commands.simulate.tree_layers import run_of
from tilestitch.commands.validate.plot import validation_svg
from tilestitch.commands.validate.summary import records_of
from tilestitch.commands.validate.tree_draw import TreeDraw
from tilestitch.commands.validate.tree_page import validate_tree_result
from tilestitch.commands.validate.validate_json import judged_values
from tilestitch.commands.validate.validate_text import judged_lines
from tilestitch.formats.einsum import nest_text
from tilestitch.ir.choices import Values
from tilestitch.mapping.tree.bound import wired
from tilestitch.mapping.tree.chain import TreeMapping, price
from tilestitch.mapping.tree.choices import SpatialSpace
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.rooms import fullest, too_full
from tilestitch.pipeline.origin import made_by
from tilestitch.report.html.page import result_page
from tilestitch.report.table import title
from tilestitch.sim.tree.simulated import SimulatedOnTree, simulate_on_tree

Draws: TypeAlias = Iterator[tuple[PlacedNest, TreeMapping | None]]

MOST_STEPS = 2_000_000  # of a mapping that is simulated
MOST_DRAWN = 20_000  # without one that fits and is short enough


@dataclass(frozen=True, slots=True, repr=False)
class TreeCompared(Brief):
    """One mapping, by both."""

    placed: PlacedNest
    mapping: TreeMapping
    simulated: SimulatedOnTree
    estimated_cycles: int
    estimated_pj: float

    @property
    def simulated_cycles(self) -> int:
        return self.simulated.cycles

    @property
    def difference(self) -> int:
        """Cycles that the model has too many."""
        return self.estimated_cycles - self.simulated_cycles

    @property
    def error(self) -> float:
        """The difference, as a part of what was simulated."""
        return self.difference / self.simulated_cycles

    @property
    def energy_errors(self) -> dict[str, float]:
        """Likewise of the energy."""
        return {"all": self.estimated_pj / self.simulated.energy_pj - 1}


@dataclass(frozen=True, slots=True, repr=False)
class TreeLayerCompared(Brief):
    """The mappings of one layer, and how many were drawn for them."""

    layer: TreeLayer
    found: tuple[TreeCompared, ...]
    drawn: int
    misfits: int  # larger than the machine
    too_long: int  # to simulate


@dataclass(frozen=True, repr=False)
class TreeValidation(Shown):
    """The model against the simulation on one tree."""

    task: TreeTask = field(repr=False)
    seed: int
    worst: int
    ragged: bool
    layers: tuple[TreeLayerCompared, ...]
    call: str = field(default="", repr=False)  # in Python, that makes its page again

    @property
    def name(self) -> str:
        return self.task.name

    @property
    def machine_name(self) -> str:
        return self.task.tree.name

    @property
    def found(self) -> tuple[TreeCompared, ...]:
        return tuple(one for layer in self.layers for one in layer.found)

    @property
    def worst_found(self) -> tuple[TreeCompared, ...]:
        """The mappings with the largest errors that are not 0; of equal ones those that were drawn first."""
        return tuple(sorted((one for one in self.found if one.difference), key=lambda one: -abs(one.error)))[
            : self.worst
        ]

    def __str__(self) -> str:
        lines = judged_lines(
            self,
            f"{MOST_STEPS:,} steps",
            values=["values       integers; every result equals numpy's"],
            notes=[f"note         {note}" for note in self.task.notes],
        )
        if self.worst_found:
            lines += ["", *title("Worst mappings")]
        for number, one in enumerate(self.worst_found, 1):
            lines += _case_lines(number, one)
        return "\n".join(lines)

    def to_json(self) -> str:
        """What `tilestitch validate --json` writes."""
        return json.dumps(self.values_json(), indent=1) + "\n"

    def values_json(self) -> dict[str, Any]:
        """The same, before it is text."""
        return {**judged_values(self), "worst": [_case(one) for one in self.worst_found]}

    def to_html(self, command: str = "") -> str:
        """What `tilestitch validate --html` writes: a page to look at; `command` is said to make it again."""
        said = (("seed", self.seed), ("ragged factors", self.ragged))
        result = validate_tree_result(self, self.task.tree, self.worst_found, str(self), self.values_json())
        return result_page(result, made_by(command or self.call, said))

    def svg(self) -> str:
        """What `tilestitch validate --plot` draws."""
        return validation_svg(self)

    def pictures(self) -> tuple[str, ...]:
        """Estimated over simulated cycles, and the distribution of errors."""
        return (self.svg(),)

    def heading(self) -> str:
        """Network, machine, how many mappings."""
        return f"{self.task.name} on {self.task.tree.name}: the model against {len(self.found):,} simulated mappings"

    def records(self) -> tuple[Record, ...]:
        """The errors of every layer, as parts of what was simulated."""
        return records_of(self.layers)


def validate_tree(
    task: TreeTask, mappings: int, *, seed: int, worst: int, ragged: bool, progress: Progress
) -> TreeValidation:
    """So many mappings, in equal parts over the layers, the first of which get what is left; ragged ones if asked for.

    Raises `DoesNotFit` where none of many fits, and `InputError` for what is not simulated.
    """
    found: list[TreeLayerCompared] = []
    done = 0
    for number, layer in enumerate(task.layers):
        share = mappings // len(task.layers) + (number < mappings % len(task.layers))
        draws = _draws(task, layer, Random(f"{seed} {number}"), is_ragged=ragged)
        one = _compared(task, layer, share, draws, done, mappings, progress)
        found.append(one)
        done += len(one.found)
    return TreeValidation(task, seed, worst, ragged, tuple(found))


def _draws(task: TreeTask, layer: TreeLayer, rng: Random, *, is_ragged: bool) -> Draws:
    """Random mappings of a layer; those that do not fit in their fullest step are none."""
    bare = bound_nest(layer, task.tree)
    for placed, mapping in TreeDraw(bare, wired(bare, SpatialSpace()).only, is_ragged).mappings(rng):
        fits = mapping is not None and not (is_ragged and too_full(fullest(placed), mapping))
        yield placed, mapping if fits else None


def _compared(
    task: TreeTask, layer: TreeLayer, share: int, draws: Draws, done: int, total: int, progress: Progress
) -> TreeLayerCompared:
    found: list[TreeCompared] = []
    drawn = misfits = too_long = in_vain = 0
    while len(found) < share:
        if in_vain == MOST_DRAWN:
            raise DoesNotFit(
                f"layer {layer.nest.name!r} on {task.tree.name}: of {MOST_DRAWN:,} mappings in a row none can be "
                f"simulated: {misfits:,} do not fit, {too_long:,} have more than {MOST_STEPS:,} steps; choose smaller "
                "layers (--layer)"
            )
        placed, mapping = next(draws)
        drawn, in_vain = drawn + 1, in_vain + 1
        if placed.total_steps > MOST_STEPS:
            too_long += 1
            continue
        if mapping is None:
            misfits += 1
            continue
        estimated = price(placed, mapping)
        simulated = simulate_on_tree(run_of(placed, mapping), values=Values.INTEGERS)
        found.append(TreeCompared(placed, mapping, simulated, estimated.latency_cycles, estimated.energy_pj))
        in_vain = 0
        progress(f"simulate {layer.nest.name}", done + len(found), total)
    return TreeLayerCompared(layer, tuple(found), drawn, misfits, too_long)


def _case_lines(number: int, case: TreeCompared) -> list[str]:
    one = case.simulated
    waits = [
        f"{name.replace('_', ' ')} {cycles / one.cycles:.1%}" for name, cycles in one.cycles_by_cause.items() if cycles
    ]
    return [
        f"{number} {nest_text(one.run.nest)}: {case.estimated_cycles:,} estimated, {one.cycles:,} simulated, "
        f"{case.error:+.3%}",
        f"  mapping    {json.dumps(_mapping(one))}",
        f"  simulated  {', '.join(waits)}",
    ]


def _mapping(one: SimulatedOnTree) -> dict[str, Any]:
    names = [loop.name for loop in one.run.nest.loops]
    return {
        "loops": [[names[loop], factor] for loop, factor in one.run.loops],
        "cuts": {array.name: list(cuts) for array, cuts in zip(one.run.operands, one.run.cuts, strict=True)},
        "spread": [[axis, names[loop], factor] for axis, loop, factor in one.run.spread],
    }


def _case(case: TreeCompared) -> dict[str, Any]:
    one = case.simulated
    return {
        "nest": nest_text(one.run.nest),
        "steps": prod(factor for _, factor in one.run.loops),
        "estimated_cycles": case.estimated_cycles,
        "simulated_cycles": one.cycles,
        "error": 100 * case.error,
        "cycles_by_cause": one.cycles_by_cause,
        "mapping": _mapping(one),
    }
