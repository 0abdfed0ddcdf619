"""Simulated mappings for programs, as JSON in which every number says whether it is simulated or estimated."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tilestitch.commands.map.map_json import mapping_json
from tilestitch.commands.map.sources import MachineSource, Nests
from tilestitch.commands.simulate.layers import SimulatedLayer, totals_of
from tilestitch.commands.simulate.simulate_text import EXTRAPOLATED
from tilestitch.formats.einsum import einsum_text
from tilestitch.ir.choices import Values
from tilestitch.sim.array.simulated import SimulatedMapping

_UNITS = {"energy": "picojoules", "latency": "cycles"}


def simulated_json(
    nests: Nests, source: MachineSource, layers: Sequence[SimulatedLayer], chosen: str, *, stats: bool
) -> str:
    """Everything that the text says, and with `stats` the cycles of every element."""
    return json.dumps(simulated_tree(nests, source, layers, chosen, stats=stats), indent=1) + "\n"


def simulated_tree(
    nests: Nests, source: MachineSource, layers: Sequence[SimulatedLayer], chosen: str, *, stats: bool
) -> dict[str, Any]:
    """The same, before it is text."""
    total, machine = totals_of(layers), source.machine
    extrapolated = layers[0].simulated.extrapolated
    return {
        "network": nests.name,
        "machine": machine.name,
        "mappings": chosen,
        "units": _UNITS,
        "values": str(layers[0].simulated.values),
        "verified": layers[0].simulated.values is not Values.NONE,
        "note": EXTRAPOLATED if extrapolated else None,
        "simulated": {
            "cycles": total.cycles,
            "latency_seconds": total.cycles / machine.clock_hz,
            "energy_pj": total.energy_pj,
            "utilization": total.macs / machine.elements / total.cycles,
        },
        "estimated": {"cycles": total.estimated_cycles, "energy_pj": total.estimated_energy_pj},
        "cycle_error": total.cycle_error,
        "macs": total.macs,
        "unmapped_operators": nests.unmapped,
        **({"notes": list(nests.notes)} if nests.notes else {}),
        "layers": [_layer(one, stats=stats) for one in layers],
    }


def _layer(layer: SimulatedLayer, *, stats: bool) -> dict[str, Any]:
    nest, one = layer.layer.nest, layer.simulated
    found = {
        "name": nest.name,
        "kind": nest.kind,
        "nest": einsum_text(nest),
        "times": layer.layer.times,
        "operators": list(layer.layer.operators),
        "macs": one.run.macs,
        "verified": one.values is not Values.NONE,
        "mapping": mapping_json(nest, layer.mapping),
        "simulated": {
            "cycles": one.cycles,
            "cycles_by_cause": one.cycles_by_cause,
            "energy_pj": one.energy.total_pj,
            "energy": one.energy.components,
            "utilization": one.utilization,
        },
        "estimated": {
            "cycles": layer.estimated.cycles,
            "energy_pj": layer.estimated.energy_pj,
            "energy": layer.estimated.components,
        },
        "cycle_error": layer.cycle_error,
    }
    return {**found, "statistics": _statistics(one)} if stats else found


def _statistics(one: SimulatedMapping) -> dict[str, Any]:
    return {
        "slots": one.slots,
        "repeated_slots": one.repeated_slots,
        "element_busy_cycles": one.element_busy_cycles.tolist(),
        "element_rest_cycles": one.element_rest_cycles.tolist(),
        "networks": [asdict(use) for use in one.networks],
        "operands": [asdict(use) for use in one.operands],
        "partial_sum_words": one.hop_words,
        "dma_requests": one.dma_requests,
        "dma_busy_cycles": one.dma_busy_cycles,
        "dma_channels": one.machine.dma_channels,
        "dma_occupancy": one.dma_occupancy,
    }
