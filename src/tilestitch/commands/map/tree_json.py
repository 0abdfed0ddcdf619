"""Mappings on machine trees for programs, as JSON that says its units."""

import json
from typing import Any

from tilestitch.commands.map.tree_run import MappedOnTree, TreeMappings
from tilestitch.formats.einsum import nest_text
from tilestitch.mapping.tree.search import FoundMapping

_UNITS = {"energy": "picojoules", "accesses": "of the whole width of a port"}


def tree_json(mapped: TreeMappings) -> str:
    """Everything that the text says; loops from the innermost, of each operand by the memory that holds their tile."""
    found = {
        "network": mapped.task.name,
        "machine": mapped.task.tree.name,
        "numbers": "estimated",
        "units": _UNITS,
        "objective": "energy",
        "sums": str(mapped.sums),
        "energy_pj": mapped.energy_pj,
        "bound_pj": mapped.bound_pj,
        "proven_best": mapped.is_proven,
        "notes": list(mapped.task.notes),
        "layers": [_layer(one) for one in mapped.layers],
        "unmapped": [{"name": one.name, "reason": one.reason} for one in mapped.unmapped],
    }
    if mapped.task.space is not None:
        found["spatial_space"] = {
            "ragged": str(mapped.task.space.ragged),
            "least_utilization": mapped.task.space.least_use,
        }
    return json.dumps(found, indent=1) + "\n"


def _layer(layer: MappedOnTree) -> dict[str, Any]:
    found = layer.found
    placed, price = found.placed, found.price
    names = [loop.name for loop in placed.nest.loops]
    operands = [array.name for array in placed.operands]
    return {
        "name": layer.name,
        "operator": layer.operator,
        "times": layer.times,
        "nest": nest_text(placed.nest),
        "macs": placed.nest.macs,
        "steps": placed.total_steps,
        "energy_pj": price.energy_pj,
        "mac_pj": price.mac_pj,
        "memory_pj": price.memory_pj,
        "proven_best": found.is_proven,
        "bound_pj": found.bound_pj,
        "gap": price.energy_pj / found.bound_pj - 1 if found.bound_pj > 0 else 0.0,
        "labels": found.labels,
        "lattice_points": found.points,
        "notes": list(layer.notes),
        "spatial_choices": layer.choices or None,
        "spatial_choices_opened": layer.opened or None,
        "utilization": placed.nest.macs / placed.total_steps / placed.tree.units,
        "spatial": [
            {"axis": one.axis, "loop": names[one.loop], "factor": float(one.factor)} for one in placed.unrolled
        ],
        "memories": {name: [memory.name for memory in placed.chain(number)] for number, name in enumerate(operands)},
        "temporal": {name: _levels(found, number) for number, name in enumerate(operands)},
        "flows": [
            {
                "operand": operands[flow.operand],
                "memory": flow.memory,
                "direction": str(flow.flow),
                "accesses": flow.accesses,
                "energy_pj": flow.energy_pj,
            }
            for flow in price.flows
        ],
    }


def _levels(found: FoundMapping, operand: int) -> list[list[list[str | int]]]:
    """Of every memory of an operand the loops that it adds to the tile of the one inside it."""
    loops, names = found.mapping.loops, [loop.name for loop in found.placed.nest.loops]
    ends = found.mapping.cuts[operand]
    starts = (0, *ends[:-1])
    return [
        [[names[loop], factor] for loop, factor in loops[start:end]] for start, end in zip(starts, ends, strict=True)
    ]
