"""Mappings for programs, as JSON that says its units and that its numbers are estimated."""

import json
from collections.abc import Sequence
from typing import Any

from tilestitch.commands.map.sources import MachineSource, Nests
from tilestitch.formats.einsum import einsum_text
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.choices import CostMode
from tilestitch.ir.loop_nest import LoopLevel, LoopMapping, LoopNest
from tilestitch.mapping.evaluate import Priced
from tilestitch.mapping.json_lines import priced_json
from tilestitch.mapping.network import MapOptions, MappedLayer, totals_of

_UNITS = {"energy": "picojoules", "latency": "cycles", "edp": "picojoules x cycles", "accesses": "words"}


def mapped_json(nests: Nests, source: MachineSource, options: MapOptions, mapped: Sequence[MappedLayer]) -> str:
    """Everything that the text says; nests and mappings as MODEL and --mapping take them."""
    return _text(mapped_tree(nests, source, options, mapped))


def mapped_tree(
    nests: Nests, source: MachineSource, options: MapOptions, mapped: Sequence[MappedLayer]
) -> dict[str, Any]:
    """The same, before it is text."""
    total = totals_of(mapped)
    return {
        "network": nests.name,
        **_head(source, options.mode),
        "objective": str(options.objective),
        "search": "dmazerunner" if options.pruned else "exact",
        "ragged": options.ragged,
        "dataflow": options.dataflow or None,
        "cycles": total.cycles,
        "latency_seconds": total.cycles / source.machine.clock_hz,
        "energy_pj": total.energy_pj,
        "edp": total.edp,
        "macs": total.macs,
        "utilization": total.macs / source.machine.elements / total.cycles,
        "unmapped_operators": nests.unmapped,
        **({"notes": list(nests.notes)} if nests.notes else {}),
        "layers": [_layer(one, source.machine, options) for one in mapped],
    }


def evaluated_json(nest: LoopNest, source: MachineSource, mapping: LoopMapping, priced: Priced, mode: CostMode) -> str:
    """The price of a given mapping."""
    return _text(evaluated_tree(nest, source, mapping, priced, mode))


def evaluated_tree(
    nest: LoopNest, source: MachineSource, mapping: LoopMapping, priced: Priced, mode: CostMode
) -> dict[str, Any]:
    """The price of a given mapping, before it is text."""
    return {
        **_head(source, mode),
        "nest": einsum_text(nest),
        **mapping_json(nest, mapping),
        **priced_json(priced, mode),
    }


def mapping_json(nest: LoopNest, mapping: LoopMapping) -> dict[str, Any]:
    """Factors and orders, by the names of loops; factors of 1 are left out."""
    names = [loop.name for loop in nest.loops]
    return {
        "factors": {
            str(level): {name: factor for name, factor in zip(names, factors, strict=True) if factor > 1}
            for level, factors in mapping.factors.items()
        },
        "orders": {
            str(LoopLevel.DRAM): [names[at] for at in mapping.dram_order],
            str(LoopLevel.SPM): [names[at] for at in mapping.spm_order],
        },
    }


def _head(source: MachineSource, mode: CostMode) -> dict[str, Any]:
    return {"machine": source.machine.name, "model": str(mode), "numbers": "estimated", "units": _UNITS}


def _layer(mapped: MappedLayer, machine: ArrayMachine, options: MapOptions) -> dict[str, Any]:
    nest, outcome = mapped.layer.nest, mapped.outcome
    return {
        "name": nest.name,
        "kind": nest.kind,
        "nest": einsum_text(nest),
        "times": mapped.layer.times,
        "operators": list(mapped.layer.operators),
        "macs": nest.macs,
        "proven_best": not options.pruned,
        "tilings_evaluated": outcome.evaluated,
        "spatial_tilings": outcome.spatial,
        "spatial_tilings_pruned": outcome.spatial_pruned,
        "mappings": [
            {
                **mapping_json(nest, found.mapping),
                **priced_json(priced, options.mode),
                "edp": priced.edp,
                "utilization": nest.macs / machine.elements / priced.cycles,
            }
            for found, priced in zip(mapped.found, mapped.prices, strict=True)
        ],
    }


def _text(found: dict[str, Any]) -> str:
    return json.dumps(found, indent=1) + "\n"
