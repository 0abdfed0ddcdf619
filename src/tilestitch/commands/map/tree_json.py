"""Mappings on machine trees for programs, as JSON that says its units."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tilestitch.commands.map.tree_explain import Explained, explained_json
from tilestitch.commands.map.tree_run import MappedOnTree, TreeMappings
from tilestitch.formats.einsum import nest_text
from tilestitch.mapping.tree.chain import window_rows
from tilestitch.mapping.tree.search import FoundMapping

UNITS = {
    "energy": "picojoules",
    "latency": "cycles",
    "edp": "picojoules x cycles",
    "accesses": "of the whole width of a port",
}


def tree_json(mapped: TreeMappings, explained: Sequence[Explained] = ()) -> str:
    """Everything that the text says; loops from the innermost, of each operand by the memory that holds their tile."""
    return json.dumps(tree_values(mapped, explained), indent=1) + "\n"


def tree_values(mapped: TreeMappings, explained: Sequence[Explained] = ()) -> dict[str, Any]:
    """What the JSON says, before it is text."""
    found = {
        "network": mapped.task.name,
        "machine": mapped.task.tree.name,
        "numbers": "estimated",
        "units": UNITS,
        "objective": str(mapped.objective),
        "sums": str(mapped.sums),
        "energy_pj": mapped.energy_pj,
        "bound_pj": mapped.bound_pj,
        "latency_cycles": mapped.latency_cycles,
        "bound_cycles": mapped.bound_cycles,
        "edp_pj_cycles": mapped.edp_pj_cycles,
        "proven_best": mapped.is_proven,
        "notes": list(mapped.task.notes),
        "layers": [layer_values(one) for one in mapped.layers],
        "unmapped": [{"name": one.name, "reason": one.reason} for one in mapped.unmapped],
    }
    if explained:
        found["explained"] = explained_json(explained)
    if mapped.task.space is not None:
        found["spatial_space"] = {
            "ragged": str(mapped.task.space.ragged),
            "least_utilization": mapped.task.space.least_use,
        }
    return found


def layer_values(layer: MappedOnTree) -> dict[str, Any]:
    """What the JSON says of one layer."""
    found = layer.found
    placed, price = found.placed, found.price
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
        "gap": found.gap,
        "latency_cycles": price.latency_cycles,
        "bound_cycles": found.bound_cycles,
        "edp_pj_cycles": price.edp_pj_cycles,
        "ideal_cycles": found.ideal_cycles,
        "units_with_work": placed.nest.macs / placed.total_steps / placed.tree.units,
        "utilization": found.utilization,
        "labels": found.labels,
        "lattice_points": found.points,
        "notes": list(layer.notes),
        "spatial_choices": layer.choices or None,
        "spatial_choices_opened": layer.opened or None,
        **({"spatial_choices_of_more_than": layer.more_than} if layer.more_than else {}),
        "spatial": _spatial(found),
        "memories": {name: [memory.name for memory in placed.chain(number)] for number, name in enumerate(operands)},
        "temporal": {name: _levels(found, number) for number, name in enumerate(operands)},
        "windows": [asdict(row) for row in window_rows(placed, found.mapping)],
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
        **({"front": [_point(one, operands) for one in layer.front]} if layer.front else {}),
    }


def _point(found: FoundMapping, operands: Sequence[str]) -> dict[str, Any]:
    """One mapping of a front: what it costs, and its loops."""
    return {
        "energy_pj": found.price.energy_pj,
        "latency_cycles": found.price.latency_cycles,
        "edp_pj_cycles": found.price.edp_pj_cycles,
        "utilization": found.utilization,
        "spatial": _spatial(found),
        "temporal": {name: _levels(found, number) for number, name in enumerate(operands)},
    }


def _spatial(found: FoundMapping) -> list[dict[str, Any]]:
    """What is spread: a factor is what it is on average."""
    loops = found.placed.nest.loops
    return [
        {"axis": one.axis, "loop": loops[one.loop].name, "factor": float(one.factor)} for one in found.placed.unrolled
    ]


def _levels(found: FoundMapping, operand: int) -> list[list[list[str | int]]]:
    """Of every memory of an operand the loops that it adds to the tile of the one inside it."""
    loops, names = found.mapping.loops, [loop.name for loop in found.placed.nest.loops]
    ends = found.mapping.cuts[operand]
    starts = (0, *ends[:-1])
    return [
        [[names[loop], factor] for loop, factor in loops[start:end]] for start, end in zip(starts, ends, strict=True)
    ]
