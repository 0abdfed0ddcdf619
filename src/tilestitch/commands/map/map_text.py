"""Mappings for people: a table of layers, the loops of each as pseudo-code, where its energy goes."""

from collections.abc import Sequence
from math import prod

from tilestitch.base.units import counted, format_bytes, format_energy, format_seconds
from tilestitch.commands.map.sources import MachineSource, Nests
from tilestitch.formats.einsum import nest_text
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.hardware.preset_files import preset_names
from tilestitch.ir.choices import CostMode, Objective
from tilestitch.ir.loop_nest import LoopMapping, LoopNest
from tilestitch.mapping.evaluate import Priced
from tilestitch.mapping.network import MapOptions, MappedLayer, totals_of
from tilestitch.report.table import table, title

COMPONENTS = {
    "mac": "arithmetic",
    "rf": "register files",
    "noc": "networks",
    "spm": "scratchpad",
    "dram": "DRAM",
}


def mapped_text(nests: Nests, source: MachineSource, options: MapOptions, mapped: Sequence[MappedLayer]) -> str:
    """Totals, a table of all layers, and every layer's best mappings; all numbers are estimated."""
    machine = source.machine
    total = totals_of(mapped)
    lines = title(f"{nests.name} on {machine.name}: mappings by {_how(options)}", "=")
    runs = sum(one.layer.times for one in mapped)
    lines += [
        f"layers       {len(mapped)} different, {runs} in all; every number is estimated ({options.mode} model)",
        f"latency      {total.cycles:,} cycles, {format_seconds(total.cycles / machine.clock_hz)}",
        f"energy       {format_energy(total.energy_pj)}",
        f"EDP          {total.edp:.6e} pJ x cycles (of the sums)",
        f"utilization  {total.macs / machine.elements / total.cycles:.1%} of {machine.elements} elements",
    ]
    if nests.unmapped:
        kinds = ", ".join(f"{kind} {count}" for kind, count in nests.unmapped.items())
        lines.append(f"left out     {counted(sum(nests.unmapped.values()), 'operator')} without products: {kinds}")
    if nests.unmapped and options.objective is Objective.LATENCY and machine.name in preset_names():
        command = f"tilestitch compile {nests.name} --machine {machine.name} --beside-map"
        lines.append(f"note         {command} runs the whole network, and says why it takes more or less")
    lines += [f"note         {note}" for note in (*nests.notes, *source.notes)]
    lines += ["", *title("Layers")]
    rows = [
        (
            str(number),
            one.layer.nest.name,
            str(one.layer.times),
            f"{one.prices[0].cycles:,}",
            format_energy(one.prices[0].energy_pj),
            f"{one.prices[0].edp:.4e}",
            f"{_utilization(one.layer.nest, one.prices[0], machine):.1%}",
            space_text(one, options),
        )
        for number, one in enumerate(mapped, 1)
    ]
    head = ("", "layer", "times", "cycles", "energy", "EDP pJ x cycles", "utilization", "tilings")
    lines += table(head, rows, "rlrrrrrl")
    for number, one in enumerate(mapped, 1):
        lines += ["", *title(f"{number} {one.layer.nest.name}: {nest_text(one.layer.nest)}")]
        for rank, (found, priced) in enumerate(zip(one.found, one.prices, strict=True), 1):
            if len(one.found) > 1:
                lines += ["", f"mapping {rank} of {len(one.found)}"] if rank > 1 else [f"mapping 1 of {len(one.found)}"]
            lines += priced_lines(one.layer.nest, found.mapping, priced, machine)
    return "\n".join(lines)


def evaluated_text(nest: LoopNest, source: MachineSource, mapping: LoopMapping, priced: Priced, mode: CostMode) -> str:
    """What a given mapping costs."""
    lines = title(f"{nest.name} on {source.machine.name}: a given mapping, estimated ({mode} model)", "=")
    lines += [nest_text(nest)]
    if priced.misfit:
        lines.append(f"DOES NOT FIT: {priced.misfit}; priced as if it did")
    lines += [f"note         {note}" for note in source.notes]
    lines += ["", *priced_lines(nest, mapping, priced, source.machine)]
    return "\n".join(lines)


def priced_lines(nest: LoopNest, mapping: LoopMapping, priced: Priced, machine: ArrayMachine) -> list[str]:
    """Cycles, the loops, and shares of the energy."""
    lines = [
        f"  {priced.cycles:,} cycles, {format_energy(priced.energy_pj)}, EDP {priced.edp:.6e} pJ x cycles (estimated)",
        "",
        *loop_lines(nest, mapping, machine),
        "",
    ]
    rows = []
    for name, picojoules in priced.components.items():
        share = picojoules / priced.energy_pj
        rows.append((COMPONENTS[name], format_energy(picojoules), f"{share:.1%}", "#" * round(40 * share)))
    return lines + table(("energy", "", "share", ""), rows, "lrrl")


def loop_lines(nest: LoopNest, mapping: LoopMapping, machine: ArrayMachine) -> list[str]:
    """The loops from DRAM to the elements, with what each tile holds."""
    lines: list[str] = []
    depth = 1

    def loops(factors: Sequence[int], order: Sequence[int], where: str) -> None:
        nonlocal depth
        for loop in order:
            if factors[loop] > 1:
                lines.append(f"{'  ' * depth}for {nest.loops[loop].name} in {factors[loop]}:")
                depth += 1
        lines.append(f"{'  ' * depth}{where}")

    loops(mapping.dram, mapping.dram_order, f"# in the scratchpad: {_held(nest, mapping.scratchpad_tile)}")
    loops(mapping.spm, mapping.spm_order, f"# over the networks: {_held(nest, mapping.pass_tile)}")
    spread = [f"{nest.loops[at].name} over {factor}" for at, factor in enumerate(mapping.spatial) if factor > 1]
    used = prod(mapping.spatial)
    lines.append(f"{'  ' * depth}spread {', '.join(spread) or 'nothing'}:  # {used} of {machine.elements} elements")
    depth += 1
    loops(mapping.rf, range(len(nest.loops)), f"# in a register file: {_held(nest, mapping.rf)}")
    lines.append(f"{'  ' * depth}{nest.write.name} += {' * '.join(read.name for read in nest.reads)}")
    return lines


def _held(nest: LoopNest, tile: Sequence[int]) -> str:
    whole = [min(size, extent) for size, extent in zip(tile, nest.extents, strict=True)]
    parts = []
    for operand in nest.operands:
        extents = operand.extents(whole)
        size = -(-prod(extents) * operand.element_bits // 8)
        parts.append(f"{operand.name} {'x'.join(map(str, extents)) or '1'} ({format_bytes(size)})")
    return ", ".join(parts)


def space_text(mapped: MappedLayer, options: MapOptions) -> str:
    """How many tilings were evaluated, and what that says of the result."""
    if options.pruned:
        return f"best of {mapped.attempts[-1].tilings:,} that its rules leave"
    return f"{mapped.outcome.evaluated:,} evaluated, proven best"


def _how(options: MapOptions) -> str:
    how = "dMazeRunner's search" if options.pruned else "exact search"
    parts = [
        how,
        {Objective.PARETO: "the front of latency and energy"}.get(options.objective, f"least {options.objective}"),
    ]
    if options.dataflow:
        parts.append(f"dataflow {options.dataflow}")
    if options.ragged:
        parts.append("ragged factors")
    return ", ".join(parts)


def _utilization(nest: LoopNest, priced: Priced, machine: ArrayMachine) -> float:
    return nest.macs / machine.elements / priced.cycles
