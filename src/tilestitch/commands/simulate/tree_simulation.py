"""A network simulated on a machine tree: the value, its text and its JSON, in the forms of those of PE arrays."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from tilestitch.base.html import Record
from tilestitch.base.shown import Shown
from tilestitch.base.units import format_energy, format_seconds
from tilestitch.commands.map.tree_run import TreeTask
from tilestitch.commands.map.tree_text import factor_text
from tilestitch.commands.simulate.simulate_text import VALUES
from tilestitch.commands.simulate.tree_layers import SimulatedTreeLayer
from tilestitch.commands.simulate.tree_page import tree_simulation_result
from tilestitch.formats.einsum import einsum_text, nest_text
from tilestitch.ir.choices import Objective, Values
from tilestitch.mapping.tree.found import FoundMapping
from tilestitch.pipeline.origin import made_by
from tilestitch.report.html.page import result_page
from tilestitch.report.table import table, title
from tilestitch.sim.tree.simulated import SimulatedOnTree


@dataclass(frozen=True, repr=False)
class TreeSimulation(Shown):
    """Every different layer as it was simulated on a tree, beside what the model estimates."""

    task: TreeTask = field(repr=False)
    objective: Objective
    values: Values
    layers: tuple[SimulatedTreeLayer, ...]
    call: str = field(default="", repr=False)  # in Python, that makes its page again

    def __iter__(self) -> Iterator[SimulatedTreeLayer]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, number: int) -> SimulatedTreeLayer:
        return self.layers[number]

    def _sum(self, name: str) -> float:
        return sum(one.mapped.times * getattr(one, name) for one in self.layers)

    @property
    def cycles(self) -> int:
        """Of all layers one after another, each as often as the network runs it."""
        return sum(one.mapped.times * one.simulated.cycles for one in self.layers)

    @property
    def estimated_cycles(self) -> int:
        return int(self._sum("estimated_cycles"))

    @property
    def energy_pj(self) -> float:
        return sum(one.mapped.times * one.simulated.energy_pj for one in self.layers)

    @property
    def utilization(self) -> float:
        """Of all units of the machine."""
        macs = sum(one.mapped.times * one.simulated.run.nest.macs for one in self.layers)
        return macs / self.task.tree.units / self.cycles

    @property
    def notes(self) -> tuple[str, ...]:
        """On the workload and the machine, and on layers whose best mapping is not simulated."""
        return (*self.task.notes, *(one.instead for one in self.layers if one.instead))

    def __str__(self) -> str:
        return self.text()

    def text(self, *, stats: bool = False) -> str:
        """What `tilestitch simulate` prints; with `stats` also loops, ports and accesses of every layer."""
        tree, runs = self.task.tree, sum(one.mapped.times for one in self.layers)
        seconds = "" if tree.clock_hz is None else f", {format_seconds(self.cycles / tree.clock_hz)}"
        lines = title(f"{self.task.name} on {tree.name}: simulated cycle by cycle", "=")
        lines += [
            f"layers       {len(self.layers)} different, {runs} in all; mappings by exact search, least "
            f"{self.objective}",
            f"latency      {self.cycles:,} cycles{seconds} simulated; {self.estimated_cycles:,} cycles estimated "
            f"({self.estimated_cycles / self.cycles - 1:+.2%})",
            f"energy       {format_energy(self.energy_pj)} simulated; {format_energy(self._sum('estimated_pj'))} "
            "estimated",
            f"utilization  {self.utilization:.1%} of {tree.units:,} units (simulated)",
            f"values       {VALUES[self.values]}",
        ]
        lines += [f"note         {note}" for note in self.notes]
        lines += ["", *title("Layers"), *_layer_table(self.layers)]
        lines += ["", *title("Where the simulated cycles go"), *_cause_table(self.layers)]
        if stats:
            for number, one in enumerate(self.layers, 1):
                nest = one.simulated.run.nest
                lines += ["", *title(f"{number} {one.mapped.name}: {nest_text(nest)}"), *_statistics(one)]
        return "\n".join(lines)

    def to_json(self, *, stats: bool = False) -> str:
        """What `tilestitch simulate --json` writes."""
        return json.dumps(self.values_json(stats=stats), indent=1) + "\n"

    def values_json(self, *, stats: bool) -> dict[str, Any]:
        """The same as values."""
        tree = self.task.tree
        return {
            "network": self.task.name,
            "machine": tree.name,
            "mappings": f"exact search, least {self.objective}",
            "units": {"energy": "picojoules", "latency": "cycles"},
            "values": str(self.values),
            "verified": self.values is not Values.NONE,
            "simulated": {
                "cycles": self.cycles,
                "latency_seconds": None if tree.clock_hz is None else self.cycles / tree.clock_hz,
                "energy_pj": self.energy_pj,
                "utilization": self.utilization,
            },
            "estimated": {"cycles": self.estimated_cycles, "energy_pj": self._sum("estimated_pj")},
            "cycle_error": self.estimated_cycles / self.cycles - 1,
            "notes": list(self.notes),
            "layers": [_layer(one, stats=stats) for one in self.layers],
        }

    def to_html(self, command: str = "") -> str:
        """What `tilestitch simulate --html` writes: a page to look at; `command` is said to make it again.

        Records some cycles of every layer, which simulates it again until there.
        """
        result = tree_simulation_result(self.task, self.layers, self.text(), self.values_json(stats=True))
        return result_page(result, made_by(command or self.call, (("mappings", f"least {self.objective}"),)))

    def heading(self) -> str:
        """Network, machine, and the sums."""
        return (
            f"{self.task.name} on {self.task.tree.name}: {self.cycles:,} cycles simulated, "
            f"{self.estimated_cycles:,} estimated"
        )

    def records(self) -> tuple[Record, ...]:
        """Every layer."""
        return tuple(
            {
                "layer": one.mapped.name,
                "times": one.mapped.times,
                "simulated_cycles": one.simulated.cycles,
                "estimated_cycles": one.estimated_cycles,
                "cycle_error": one.cycle_error,
                "simulated_energy_pj": one.simulated.energy_pj,
                "estimated_energy_pj": one.estimated_pj,
                "utilization": one.simulated.utilization,
                "verified": self.values is not Values.NONE,
                **{f"{cause}_cycles": cycles for cause, cycles in one.simulated.cycles_by_cause.items()},
            }
            for one in self.layers
        )


def _layer_table(layers: tuple[SimulatedTreeLayer, ...]) -> list[str]:
    rows = [
        (
            str(number),
            one.mapped.name,
            str(one.mapped.times),
            f"{one.simulated.cycles:,}",
            f"{one.estimated_cycles:,}",
            f"{one.cycle_error:+.2%}",
            format_energy(one.simulated.energy_pj),
            format_energy(one.estimated_pj),
            f"{one.simulated.utilization:.1%}",
            "not verified" if one.simulated.values is Values.NONE else "verified",
        )
        for number, one in enumerate(layers, 1)
    ]
    head = ("", "layer", "times", "cycles simulated", "estimated", "error", "energy simulated", "estimated",
            "utilization", "values")  # fmt: skip
    return table(head, rows, "rlrrrrrrrl")


def _cause_table(layers: tuple[SimulatedTreeLayer, ...]) -> list[str]:
    """Of layers whose operands have different names, each cause once."""
    names = list(dict.fromkeys(name for one in layers for name in one.simulated.cycles_by_cause))
    names.sort(key=lambda name: (name != "compute", name == "last_store"))
    rows = [
        (
            str(number),
            one.mapped.name,
            *(f"{one.simulated.cycles_by_cause.get(name, 0) / one.simulated.cycles:.1%}" for name in names),
        )
        for number, one in enumerate(layers, 1)
    ]
    return table(("", "layer", *(name.replace("_", " ") for name in names)), rows, "rl" + len(names) * "r")


def _statistics(layer: SimulatedTreeLayer) -> list[str]:
    """Loops, ports and accesses of one layer."""
    one = layer.simulated
    rows = [(port.port, f"{port.cycles:,}", f"{port.cycles / one.cycles:.1%}") for port in one.ports]
    lines = [*mapping_lines(layer.mapped.found), "", *table(("port (simulated)", "busy cycles", "share"), rows, "lrr")]
    estimated = {
        (one.run.operands[flow.operand].name, flow.memory, flow.flow): flow for flow in layer.mapped.found.price.flows
    }
    rows = []
    for flow in one.flows:
        model = estimated.get((flow.operand, flow.memory, flow.flow))
        rows.append(
            (
                flow.memory,
                flow.operand,
                str(flow.flow),
                f"{flow.accesses:,.0f}",
                "0" if model is None else f"{model.accesses:,}",
                format_energy(flow.energy_pj),
            )
        )
    head = ("memory", "operand", "", "accesses simulated", "estimated", "energy simulated")
    return [*lines, "", *table(head, rows, "lllrrr")]


def mapping_lines(found: FoundMapping) -> list[str]:
    """What is spread, and the loops from the outermost, with the memories that hold tiles inside them."""
    placed, mapping = found.placed, found.mapping
    names = [loop.name for loop in placed.nest.loops]
    spread = ", ".join(
        f"{names[one.loop]} {ceil(one.factor)} along {one.axis}"
        + (f" ({factor_text(one.factor)} on average)" if one.factor.denominator > 1 else "")
        for one in placed.unrolled
    )
    lines: list[str] = []
    for inside in range(len(mapping.loops), -1, -1):
        held = [
            f"{array.name} in {chain[level].name}"
            for array, chain, cuts in zip(
                placed.operands, map(placed.chain, range(len(placed.operands))), mapping.cuts, strict=True
            )
            for level, cut in enumerate(cuts[:-1])
            if cut == inside
        ]
        indent = "  " * (len(mapping.loops) - inside + 1)
        lines += [f"{indent}# {', '.join(held)}"] if held else []
        if inside > 0:
            loop, factor = mapping.loops[inside - 1]
            lines.append(f"{indent}for {names[loop]} in {factor}:")
    return [*lines, f"  spread: {spread or 'nothing'}"]


def _layer(layer: SimulatedTreeLayer, *, stats: bool) -> dict[str, Any]:
    one, found = layer.simulated, layer.mapped.found
    names = [loop.name for loop in one.run.nest.loops]
    tree: dict[str, Any] = {
        "name": layer.mapped.name,
        "nest": einsum_text(one.run.nest),
        "times": layer.mapped.times,
        "macs": one.run.nest.macs,
        "verified": one.values is not Values.NONE,
        "mapping": {
            "loops": [[names[loop], factor] for loop, factor in found.mapping.loops],
            "cuts": {array.name: list(cuts) for array, cuts in zip(one.run.operands, one.run.cuts, strict=True)},
            "spread": [[axis, names[loop], factor] for axis, loop, factor in one.run.spread],
        },
        "simulated": {
            "cycles": one.cycles,
            "cycles_by_cause": one.cycles_by_cause,
            "energy_pj": one.energy_pj,
            "energy": one.energy,
            "utilization": one.utilization,
        },
        "estimated": {"cycles": layer.estimated_cycles, "energy_pj": layer.estimated_pj},
        "cycle_error": layer.cycle_error,
    }
    return {**tree, "statistics": _figures(one)} if stats else tree


def _figures(one: SimulatedOnTree) -> dict[str, Any]:
    return {
        "events": one.events,
        "ports": [{"port": port.port, "busy_cycles": port.cycles} for port in one.ports],
        "flows": [
            {
                "operand": flow.operand,
                "memory": flow.memory,
                "flow": str(flow.flow),
                "accesses": flow.accesses,
                "energy_pj": flow.energy_pj,
            }
            for flow in one.flows
        ],
    }
