"""A simulation as a page to look at: as that of map, and the array in some cycles, to be played."""

from collections.abc import Sequence

from tilestitch.base.json_values import Json
from tilestitch.commands.map.map_page import drawn_mapping
from tilestitch.commands.map.sources import MachineSource, Nests
from tilestitch.commands.simulate.layers import SimulatedLayer
from tilestitch.commands.simulate.recorded import recorded_windows
from tilestitch.commands.simulate.simulate_json import simulated_tree
from tilestitch.commands.simulate.simulate_text import simulated_text
from tilestitch.formats.einsum import nest_text
from tilestitch.ir.choices import CostMode
from tilestitch.report.html.nest import array_shape
from tilestitch.report.html.page import Result


def simulate_result(nests: Nests, source: MachineSource, layers: Sequence[SimulatedLayer], chosen: str) -> Result:
    """All that the page of `simulate` holds; records cycles of every layer, which simulates it again."""
    machine = source.machine
    drawn: list[Json] = []
    runs: list[str] = []
    for one in layers:
        recordings: list[Json] = []
        for found in recorded_windows(one, len(layers)):
            name, begin, end = found.window.name, found.window.begin, found.window.end
            recordings.append(
                {"name": name, "begin": begin, "end": end, "first_work": found.first_work, "run": len(runs)}
            )
            runs.append(found.text)
        nest = one.layer.nest
        drawn.append(
            {
                "nest": nest_text(nest),
                "mapping": drawn_mapping(nest, one.mapping, machine, one.estimated, CostMode.DEFAULT),
                "recordings": recordings,
            }
        )
    return Result(
        "simulate",
        f"{nests.name} on {machine.name}: simulated cycle by cycle",
        simulated_text(nests, source, layers, chosen, stats=False),
        simulated_tree(nests, source, layers, chosen, stats=False),
        {
            "clock_hz": machine.clock_hz,
            "notes": [*nests.notes, *source.notes],
            "array": array_shape(machine),
            "layers": drawn,
        },
        tuple(runs),
    )
