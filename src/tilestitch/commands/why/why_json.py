"""A gap for programs; fractions of cycles are rounded to the nearest number that JSON has."""

import json

from tilestitch.commands.why.explain import Explanation
from tilestitch.ir.gap import MEANINGS

VERSION = 1


def why_json(found: Explanation) -> str:
    """Everything that the text says, of the format `tilestitch.why`."""
    report, gap, taken = found.report, found.gap, found.blame
    return (
        json.dumps(
            {
                "format": "tilestitch.why",
                "version": VERSION,
                "network": report.network,
                "machine": report.machine,
                "strategy": report.strategy,
                "batch": report.batch,
                "of": gap.what,
                "unit": taken.unit,
                "lanes": [
                    {"name": name, "weight": float(weight)}
                    for name, weight in zip(taken.lanes, taken.weights, strict=True)
                ],
                "latency_cycles": float(gap.latency_cycles),
                "bound_cycles": float(gap.bound_cycles),
                "gap_cycles": float(gap.gap_cycles),
                "parts": [
                    {
                        "part": str(one.part),
                        "cycles": float(one.cycles),
                        "setup_cycles": float(one.setup_cycles),
                        "sharing_cycles": float(one.sharing_cycles),
                        "room_cycles": float(one.room_cycles),
                        "meaning": MEANINGS[one.part],
                    }
                    for one in gap.parts
                ],
                "ends": {str(part): float(cycles) for part, cycles in gap.ends},
                "heaviest": [
                    {"part": str(one.part), one.kind: one.name, "cycles": float(one.cycles)} for one in found.heaviest
                ],
                "waits": [
                    {
                        "unit": one.unit,
                        "begin_cycle": one.begin_cycle,
                        "end_cycle": one.end_cycle,
                        "part": str(one.part),
                        "waiting": one.waiting,
                        "waited_for": one.waited_for,
                        "waiting_instruction": one.waiting_instruction if one.waiting_instruction >= 0 else None,
                        "waited_for_instruction": one.waited_for_instruction,
                    }
                    for one in found.waits
                ],
            },
            indent=1,
        )
        + "\n"
    )
