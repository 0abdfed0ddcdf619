"""Simulated mappings for people: totals, a table of layers, where their cycles go, and on request all statistics."""

from collections.abc import Sequence

import numpy as np

from tilestitch.base.units import counted, format_energy, format_seconds
from tilestitch.commands.map.map_text import COMPONENTS, loop_lines
from tilestitch.commands.map.sources import MachineSource, Nests
from tilestitch.commands.simulate.layers import SimulatedLayer, totals_of
from tilestitch.formats.einsum import nest_text
from tilestitch.ir.choices import Values
from tilestitch.report.table import table, title
from tilestitch.sim.array.simulated import CAUSE_NAMES, SimulatedMapping

_CAUSES = {
    "compute": "instructions are issued",
    "inputs": "inputs are on their networks",
    "drain": "the last instructions are in the pipeline",
    "partial_sums": "elements add up partial sums",
    "results": "results are on their network",
    "dma_load": "DMA brings the next tile",
    "dma_results": "DMA stores results or brings them back",
    "first_load": "configuration and first tile",
    "last_store": "the last results go to DRAM",
}
VALUES = {
    Values.INTEGERS: "integers; every result equals numpy's",
    Values.FLOATS: "floats; every result is within the rounding of float32 sums of numpy's",
    Values.NONE: "not computed, so no result was verified",
}
EXTRAPOLATED = "repeating passes were not simulated again; values were not computed"


def simulated_text(
    nests: Nests, source: MachineSource, layers: Sequence[SimulatedLayer], chosen: str, *, stats: bool
) -> str:
    """Everything by layer; `chosen` says where the mappings are from."""
    machine, total = source.machine, totals_of(layers)
    lines = title(f"{nests.name} on {machine.name}: simulated cycle by cycle", "=")
    lines += [
        f"layers       {len(layers)} different, {total.runs} in all; {chosen}",
        f"latency      {total.cycles:,} cycles, {format_seconds(total.cycles / machine.clock_hz)} simulated; "
        f"{total.estimated_cycles:,} cycles estimated ({_percent(total.cycle_error)})",
        f"energy       {format_energy(total.energy_pj)} simulated; "
        f"{format_energy(total.estimated_energy_pj)} estimated",
        f"utilization  {total.macs / machine.elements / total.cycles:.1%} of {machine.elements} elements (simulated)",
        f"values       {EXTRAPOLATED if layers[0].simulated.extrapolated else VALUES[layers[0].simulated.values]}",
    ]
    if nests.unmapped:
        kinds = ", ".join(f"{kind} {count}" for kind, count in nests.unmapped.items())
        lines.append(f"left out     {counted(sum(nests.unmapped.values()), 'operator')} without products: {kinds}")
    lines += [f"note         {note}" for note in (*nests.notes, *source.notes)]
    lines += ["", *title("Layers"), *_layer_table(layers)]
    lines += ["", *title("Where the simulated cycles go")]
    rows = [
        (str(number), one.layer.nest.name, *(_share(cycles, one.simulated.cycles) for cycles in _by_cause(one)))
        for number, one in enumerate(layers, 1)
    ]
    lines += table(
        ("", "layer", *(name.replace("_", " ") for name in CAUSE_NAMES)), rows, "rl" + len(CAUSE_NAMES) * "r"
    )
    if stats:
        for number, one in enumerate(layers, 1):
            lines += ["", *title(f"{number} {one.layer.nest.name}: {nest_text(one.layer.nest)}")]
            lines += _statistics(one)
    return "\n".join(lines)


def _layer_table(layers: Sequence[SimulatedLayer]) -> list[str]:
    rows = [
        (
            str(number),
            one.layer.nest.name,
            str(one.layer.times),
            f"{one.simulated.cycles:,}",
            f"{one.estimated.cycles:,}",
            _percent(one.cycle_error),
            format_energy(one.simulated.energy.total_pj),
            format_energy(one.estimated.energy_pj),
            f"{one.simulated.utilization:.1%}",
            "not verified" if one.simulated.values is Values.NONE else "verified",
        )
        for number, one in enumerate(layers, 1)
    ]
    head = (
        "",
        "layer",
        "times",
        "cycles simulated",
        "estimated",
        "error",
        "energy simulated",
        "estimated",
        "utilization",
        "values",
    )
    return table(head, rows, "rlrrrrrrrl")


def _statistics(layer: SimulatedLayer) -> list[str]:
    """Loops, cycles of the elements, networks, words, DMA and energy of one layer."""
    one = layer.simulated
    lines = [*loop_lines(layer.layer.nest, layer.mapping, one.machine), ""]
    lines.append(f"  {one.slots:,} slots, {one.repeated_slots:,} of them not simulated again")
    lines += ["", *_element_lines(one)]
    rows = [
        (
            use.name,
            f"{use.words:,}",
            f"{use.busy_cycles:,}",
            _share(use.busy_cycles, one.cycles),
            f"{use.conflict_cycles:,}",
            f"{use.fifo_full_cycles:,}",
        )
        for use in one.networks
    ]
    head = ("network (simulated)", "words", "busy cycles", "share", "bank conflict cycles", "FIFO full cycles")
    lines += ["", *table(head, rows, "lrrrrr")]
    rows = [
        (
            use.operand,
            f"{use.read_words:,}",
            f"{use.written_words:,}",
            f"{use.delivered_words:,}",
            f"{use.collected_words:,}",
            f"{use.loaded_words:,}",
            f"{use.stored_words:,}",
        )
        for use in one.operands
    ]
    head = (
        "words (simulated)",
        "scratchpad read",
        "written",
        "to elements",
        "from elements",
        "from DRAM",
        "to DRAM",
    )
    lines += ["", *table(head, rows, "lrrrrrr")]
    lines += [
        "",
        f"  partial sums  {one.hop_words:,} words from element to element (simulated)",
        f"  DMA           {one.dma_requests:,} requests, {one.dma_busy_cycles:,} cycles, busy "
        f"{one.dma_occupancy:.1%} of the time (simulated)",
        "",
    ]
    estimated = layer.estimated.components
    rows = [
        (COMPONENTS[name], format_energy(picojoules), format_energy(estimated[name]))
        for name, picojoules in one.energy.components.items()
    ]
    return lines + table(("energy", "simulated", "estimated"), rows, "lrr")


def _element_lines(one: SimulatedMapping) -> list[str]:
    """Cycles of one element: its own work and rest differ, what it waits for is the same for all."""
    used = len(one.element_busy_cycles)
    rows = [
        ("multiplies and adds", *_spread(one.element_busy_cycles)),
        ("rests while others do", *_spread(one.element_rest_cycles)),
    ]
    for name, cycles in list(one.cycles_by_cause.items())[1:]:
        rows.append((f"waits: {_CAUSES[name]}", *_spread(np.array([cycles]))))
    head = (f"cycles of each of {used} elements (simulated)", "min", "mean", "max")
    return table(head, rows, "lrrr")


def _spread(cycles: np.ndarray) -> tuple[str, str, str]:
    return f"{int(cycles.min()):,}", f"{float(cycles.mean()):,.1f}", f"{int(cycles.max()):,}"


def _by_cause(layer: SimulatedLayer) -> list[int]:
    return list(layer.simulated.cycles_by_cause.values())


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}"


def _percent(error: float) -> str:
    return f"{error:+.2%}"
