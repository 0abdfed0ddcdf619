"""Fused chains simulated on a machine tree: the value, its text and its JSON, in the forms of those of layers."""

import json
from dataclasses import dataclass, field
from typing import Any

from tilestitch.base.html import Record
from tilestitch.base.shown import Shown
from tilestitch.base.units import format_energy, format_seconds
from tilestitch.commands.map.fused_nest import nest_rows
from tilestitch.commands.map.fused_text import NAMES, mapping_json, names_of, readers_json, stays_text
from tilestitch.commands.map.fused_value import MappedChains
from tilestitch.commands.map.named_chain import NamedChain, graph_label
from tilestitch.commands.simulate.fused_layers import SimulatedFused, SimulatedGroup
from tilestitch.commands.simulate.fused_page import fused_simulation_result
from tilestitch.commands.simulate.simulate_text import VALUES
from tilestitch.ir.choices import Values
from tilestitch.mapping.fused.chain import Chain
from tilestitch.pipeline.origin import made_by
from tilestitch.report.html.page import result_page
from tilestitch.report.table import table, title
from tilestitch.sim.tree.chain_simulated import SimulatedChain


@dataclass(frozen=True, repr=False)
class FusedSimulation(Shown):
    """Every different chain as it was simulated on a tree, beside what the model estimates."""

    mapped: MappedChains = field(repr=False)
    values: Values
    chains: tuple[SimulatedFused, ...]

    def _sum(self, name: str) -> float:
        return sum(one.chain.times * getattr(one, name) for one in self.chains)

    @property
    def cycles(self) -> int:
        """Of all chains one after another, each as often as the network has it."""
        return sum(one.chain.times * one.cycles for one in self.chains)

    @property
    def unfused_cycles(self) -> int:
        return sum(one.chain.times * one.unfused_cycles for one in self.chains)

    @property
    def estimated_cycles(self) -> int:
        return sum(one.chain.times * one.found.latency_cycles for one in self.chains)

    @property
    def energy_pj(self) -> float:
        return self._sum("energy_pj")

    @property
    def unfused_pj(self) -> float:
        return self._sum("unfused_pj")

    @property
    def estimated_pj(self) -> float:
        return sum(one.chain.times * one.found.energy_pj for one in self.chains)

    @property
    def utilization(self) -> float:
        """Of all units of the machine."""
        return self._sum("macs") / self.mapped.task.tree.units / self.cycles

    @property
    def notes(self) -> tuple[str, ...]:
        """On the network and the machine, and on chains whose best mapping is not simulated."""
        return (*self.mapped.task.notes, *(one.instead for one in self.chains if one.instead))

    def __str__(self) -> str:
        return self.text()

    def text(self, *, stats: bool = False) -> str:
        """What `tilestitch simulate --fuse` prints; with `stats` also loops, rooms, ports and accesses."""
        task, times = self.mapped.task, sum(one.chain.times for one in self.chains)
        seconds = "" if task.tree.clock_hz is None else f", {format_seconds(self.cycles / task.tree.clock_hz)}"
        lines = title(f"{task.name} on {task.tree.name}: fused mappings simulated cycle by cycle", "=")
        lines += [
            f"chains       {len(self.chains)} different, {times} in all; mappings by exact search, least "
            f"{NAMES[task.objective]}, of up to {task.most} operators together",
            f"latency      {self.cycles:,} cycles{seconds} simulated; {self.estimated_cycles:,} cycles estimated "
            f"({self.estimated_cycles / self.cycles - 1:+.2%}); {self.unfused_cycles:,} cycles unfused, simulated",
            f"energy       {format_energy(self.energy_pj)} simulated; {format_energy(self.estimated_pj)} estimated; "
            f"{format_energy(self.unfused_pj)} unfused, simulated",
            f"utilization  {self.utilization:.1%} of {task.tree.units:,} units (simulated)",
            f"values       {VALUES[self.values]}",
        ]
        lines += [f"note         {note}" for note in self.notes]
        lines += ["", *title("Chains"), *_chain_table(self.chains)]
        lines += ["", *title("Where the simulated cycles go"), *_cause_table(self.chains)]
        if stats:
            for number, one in enumerate(self.chains, 1):
                for group in one.groups:
                    if isinstance(group.simulated, SimulatedChain):
                        lines += ["", *_statistics(number, one, group, group.simulated)]
        return "\n".join(lines)

    def to_json(self, *, stats: bool = False) -> str:
        """What `tilestitch simulate --fuse --json` writes."""
        return json.dumps(self.values_json(stats=stats), indent=1) + "\n"

    def values_json(self, *, stats: bool) -> dict[str, Any]:
        """The same as values."""
        task = self.mapped.task
        return {
            "network": task.name,
            "machine": task.tree.name,
            "mappings": f"exact search, up to {task.most} operators together, least {task.objective}",
            "units": {"energy": "picojoules", "latency": "cycles"},
            "values": str(self.values),
            "verified": self.values is not Values.NONE,
            "simulated": {
                "cycles": self.cycles,
                "latency_seconds": None if task.tree.clock_hz is None else self.cycles / task.tree.clock_hz,
                "energy_pj": self.energy_pj,
                "utilization": self.utilization,
            },
            "simulated_unfused": {"cycles": self.unfused_cycles, "energy_pj": self.unfused_pj},
            "estimated": {"cycles": self.estimated_cycles, "energy_pj": self.estimated_pj},
            "cycle_error": self.estimated_cycles / self.cycles - 1,
            "notes": list(self.notes),
            "chains": [_chain(one, stats=stats) for one in self.chains],
        }

    def to_html(self, command: str) -> str:
        """What `tilestitch simulate --fuse --html` writes: a page to look at; `command` is said to make it again.

        Records some cycles of every chain, which simulates it again until there.
        """
        result = fused_simulation_result(self.mapped, self.chains, self.text(), self.values_json(stats=True))
        task = self.mapped.task
        said = (("mappings", f"least {NAMES[task.objective]}, of up to {task.most} operators together"),)
        return result_page(result, made_by(command, said))

    def heading(self) -> str:
        """Network, machine, and the sums."""
        return (
            f"{self.mapped.task.name} on {self.mapped.task.tree.name}: {self.cycles:,} cycles simulated, "
            f"{self.estimated_cycles:,} estimated, {self.unfused_cycles:,} simulated unfused"
        )

    def records(self) -> tuple[Record, ...]:
        """Every chain."""
        return tuple(
            {
                "operators": one.chain.label,
                "times": one.chain.times,
                "groups": len(one.groups),
                "simulated_cycles": one.cycles,
                "estimated_cycles": one.found.latency_cycles,
                "cycle_error": one.cycle_error,
                "unfused_cycles": one.unfused_cycles,
                "simulated_energy_pj": one.energy_pj,
                "estimated_energy_pj": one.found.energy_pj,
                "unfused_energy_pj": one.unfused_pj,
                "verified": self.values is not Values.NONE,
            }
            for one in self.chains
        )


def _name(names: tuple[str, ...], chain: NamedChain | Chain | None) -> str:
    return graph_label(names, chain) if len(names) < 5 else f"{names[0]} > ... > {names[-1]}"


def _chain_table(chains: tuple[SimulatedFused, ...]) -> list[str]:
    rows = [
        (
            str(number),
            _name(one.chain.names, one.chain),
            str(one.chain.times),
            " ".join(str(len(group.found.numbers)) for group in one.groups),
            f"{one.cycles:,}",
            f"{one.found.latency_cycles:,}",
            f"{one.cycle_error:+.2%}",
            format_energy(one.energy_pj),
            format_energy(one.found.energy_pj),
            f"{one.of_unfused:.3f}",
            "not verified" if one.values is Values.NONE else "verified",
        )
        for number, one in enumerate(chains, 1)
    ]
    head = ("", "operators", "times", "together", "cycles simulated", "estimated", "error", "energy simulated",
            "estimated", "of unfused", "values")  # fmt: skip
    return table(head, rows, "rlrlrrrrrrl")


def _cause_table(chains: tuple[SimulatedFused, ...]) -> list[str]:
    """Of every group, with what steps wait for in one column."""
    rows = []
    for number, one in enumerate(chains, 1):
        for group in one.groups:
            causes, cycles = group.simulated.cycles_by_cause, group.simulated.cycles
            waits = sum(some for name, some in causes.items() if name.startswith("waits_for_"))
            parts = [causes.get(name, 0) for name in ("compute", "first_load")]
            parts += [waits, causes.get("between", 0), causes.get("passes", 0), causes["last_store"]]
            names, mapping = names_of(one.chain, group.found), group.found.mapping
            chain = None if mapping is None else mapping.chain
            rows.append((str(number), _name(names, chain), *(f"{some / cycles:.1%}" for some in parts)))
    head = ("", "operators", "compute", "first load", "waits", "between", "softmax", "last store")
    return table(head, rows, "rlrrrrrr")


def _statistics(number: int, chain: SimulatedFused, group: SimulatedGroup, one: SimulatedChain) -> list[str]:
    """Loops, waits, rooms, ports and accesses of operators that run together."""
    mapping, price = group.found.mapping, group.found.price
    assert mapping is not None
    assert price is not None
    names = names_of(chain.chain, group.found)
    lines = title(f"{number} {graph_label(names, mapping.chain)}: together")
    lines += [f"  {line}" for line in stays_text(chain.chain, group.found)]
    lines += ["", *("  " * (1 + row.depth) + row.text for row in nest_rows(mapping, names)), ""]
    rows = [
        (name.replace("_", " "), f"{cycles:,}", f"{cycles / one.cycles:.1%}")
        for name, cycles in one.cycles_by_cause.items()
        if cycles
    ]
    lines += [*table(("cycles (simulated)", "", "share"), rows, "lrr"), ""]
    rooms = [(room.memory, f"{room.bits:,}", f"{room.size_bits:,}", room.operator) for room in one.rooms]
    lines += [*table(("memory", "bits at most", "of", "while there runs"), rooms, "lrrl"), ""]
    rows = [(port.port, f"{port.cycles:,}", f"{port.cycles / one.cycles:.1%}") for port in one.ports]
    lines += [*table(("port (simulated)", "busy cycles", "share"), rows, "lrr"), ""]
    accesses: list[tuple[str, ...]] = []
    for at, (name, flows) in enumerate(zip(names, one.flows, strict=True)):
        arrays = [array.name for array in one.run.operators[at].operands]
        estimated = {
            (arrays[flow.operand], flow.memory.split(" (")[0], flow.flow): flow.accesses for flow in price.flows[at]
        }
        for flow in flows:
            model = estimated.get((flow.operand, flow.memory, flow.flow), 0)
            accesses.append(
                (name, flow.memory, flow.operand, str(flow.flow), f"{flow.accesses:,.0f}", f"{model:,}",
                 format_energy(flow.energy_pj))
            )  # fmt: skip
    for name, flows in zip(names, one.passes, strict=False):
        for flow in flows:
            counted = (f"{flow.accesses:,.0f}", "", format_energy(flow.energy_pj))
            accesses.append((f"after {name}", flow.memory, flow.operand, str(flow.flow), *counted))
    head = ("operator", "memory", "operand", "", "accesses simulated", "estimated", "energy simulated")
    return [*lines, *table(head, accesses, "llllrrr")]


def _chain(one: SimulatedFused, *, stats: bool) -> dict[str, Any]:
    return {
        "operators": list(one.chain.names),
        **readers_json(one.chain),
        "between": [list(kinds) for kinds in one.chain.between],
        "times": one.chain.times,
        "macs": one.macs,
        "verified": one.values is not Values.NONE,
        "simulated": {"cycles": one.cycles, "energy_pj": one.energy_pj},
        "simulated_unfused": {"cycles": one.unfused_cycles, "energy_pj": one.unfused_pj},
        "estimated": {"cycles": one.found.latency_cycles, "energy_pj": one.found.energy_pj},
        "cycle_error": one.cycle_error,
        "of_unfused": one.of_unfused,
        "groups": [_group(one, group, stats=stats) for group in one.groups],
    }


def _group(chain: SimulatedFused, group: SimulatedGroup, *, stats: bool) -> dict[str, Any]:
    names, one = names_of(chain.chain, group.found), group.simulated
    found: dict[str, Any] = {
        "operators": list(names),
        "simulated": {
            "cycles": one.cycles,
            "cycles_by_cause": one.cycles_by_cause,
            "energy_pj": one.energy_pj,
            "energy": one.energy,
            "utilization": one.utilization,
        },
        "estimated": {"cycles": group.found.latency_cycles, "energy_pj": group.found.energy_pj},
    }
    mapping = mapping_json(names, group.found)
    if mapping is not None:
        found["mapping"] = mapping
    if not stats:
        return found
    every = one.flows if isinstance(one, SimulatedChain) else (one.flows,)
    statistics: dict[str, Any] = {
        "events": one.events,
        "ports": [{"port": port.port, "busy_cycles": port.cycles} for port in one.ports],
        "flows": [
            {"operator": name, "operand": flow.operand, "memory": flow.memory, "flow": str(flow.flow),
             "accesses": flow.accesses, "energy_pj": flow.energy_pj}
            for name, flows in zip(names, every, strict=True)
            for flow in flows
        ],
    }  # fmt: skip
    if isinstance(one, SimulatedChain):
        statistics["passes"] = [
            {"after": name, "operand": flow.operand, "memory": flow.memory, "flow": str(flow.flow),
             "accesses": flow.accesses, "energy_pj": flow.energy_pj}
            for name, flows in zip(names, one.passes, strict=False)
            for flow in flows
        ]  # fmt: skip
        statistics["rooms"] = [
            {"memory": room.memory, "bits": room.bits, "size_bits": room.size_bits, "operator": room.operator}
            for room in one.rooms
        ]
    return {**found, "statistics": statistics}
