"""A simulation on a tree as a page to look at: the layers, their nests, and what the ports do, cycle by cycle."""

from collections.abc import Sequence
from dataclasses import dataclass

from tilestitch.base.json_values import Json
from tilestitch.commands.map.tree_page import drawn, drawn_machine
from tilestitch.commands.map.tree_run import TreeTask
from tilestitch.commands.simulate.tree_layers import SimulatedTreeLayer
from tilestitch.formats.einsum import nest_text
from tilestitch.report.html.packing import packed
from tilestitch.report.html.page import Result
from tilestitch.sim.tree.clock import FROM, PORT, STREAM, TILE, UNTIL
from tilestitch.sim.tree.recording import Recording, recorded
from tilestitch.sim.tree.simulated import SimulatedOnTree

LEAST_NOTES = 200  # of a recording
MOST_NOTES = 6000
ALL_NOTES = 150_000  # of the recordings of a page


@dataclass(frozen=True, slots=True)
class Recorded:
    """Recorded cycles of a layer, what they show, and the recording as a page takes it."""

    name: str
    begin: int
    end: int
    text: str  # packed


def tree_simulation_result(task: TreeTask, simulated: Sequence[SimulatedTreeLayer], text: str, report: Json) -> Result:
    """All that the page of `simulate` holds of a tree; records some cycles of every layer, for which it runs again."""
    tree = task.tree
    layers: list[Json] = []
    runs: list[str] = []
    most = max(LEAST_NOTES, min(MOST_NOTES, ALL_NOTES // (3 * len(simulated))))
    for one in simulated:
        recordings = recordings_of(one.simulated, most)
        layers.append(
            {
                "nest": nest_text(one.simulated.run.nest),
                "instead": one.instead,
                "mapping": drawn(one.mapped.found),
                "recordings": places_of(recordings, len(runs)),
            }
        )
        runs += [one.text for one in recordings]
    return Result(
        "simulate-tree",
        f"{task.name} on {tree.name}: simulated cycle by cycle",
        text,
        report,
        {**drawn_machine(tree), "layers": layers},
        tuple(runs),
    )


def places_of(recordings: Sequence[Recorded], first: int) -> list[Json]:
    """Recordings without their text, which has a number in the page, the first of them this one."""
    return [
        {"name": one.name, "begin": one.begin, "end": one.end, "run": number}
        for number, one in enumerate(recordings, first)
    ]


def recordings_of(simulated: SimulatedOnTree, most: int) -> list[Recorded]:
    """All cycles of a mapping; where there are too many some at its beginning, in its middle and at its end."""
    run = simulated.run
    first = recorded(run, 0, most)
    if first.end == simulated.cycles:
        return [named("all cycles", first)]
    found = [named("beginning", first)]
    middle = recorded(run, run.iterations // 2, most)
    if middle.begin >= first.end:
        found.append(named("middle", middle))
    lanes = len(first.ports) + 1
    last = recorded(run, max(0, run.iterations - most // (2 * lanes)), most)
    if last.begin >= found[-1].end:
        found.append(named("end", last))
    return found


def named(name: str, found: Recording) -> Recorded:
    """A recording as a page takes it: notes in columns, with the names of what they are of."""
    header: dict[str, Json] = {
        "begin": found.begin,
        "end": found.end,
        "ports": list(found.ports),
        "operands": list(found.operands),
        "streams": [{"operand": one.operand, "way": one.text} for one in found.ways],
        "causes": {name.replace("_", " "): number for name, number in found.causes.items()},
    }
    notes = found.notes
    columns = {"begin": notes[:, FROM], "length": notes[:, UNTIL] - notes[:, FROM], "lane": notes[:, PORT] + 1}
    text = packed(header, {**columns, "what": notes[:, STREAM], "number": notes[:, TILE]})
    return Recorded(name, found.begin, found.end, text)
