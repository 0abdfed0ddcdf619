"""Simulated fused mappings as a page to look at: chains, what runs together, and what ports do, cycle by cycle."""

from collections.abc import Sequence

from tilestitch.base.json_values import Json
from tilestitch.commands.map.fused_page import drawn_chain
from tilestitch.commands.map.fused_value import MappedChains
from tilestitch.commands.map.tree_page import drawn_machine
from tilestitch.commands.simulate.fused_layers import SimulatedFused, SimulatedGroup
from tilestitch.commands.simulate.tree_page import ALL_NOTES, LEAST_NOTES, MOST_NOTES, Recorded, named, recordings_of
from tilestitch.report.html.page import Result
from tilestitch.sim.tree.chain_simulated import SimulatedChain
from tilestitch.sim.tree.recording import recorded_chain


def fused_simulation_result(
    mapped: MappedChains, simulated: Sequence[SimulatedFused], text: str, report: Json
) -> Result:
    """All that the page of `simulate --fuse` holds; records some cycles of every group, for which it runs again."""
    tree = mapped.task.tree
    groups = sum(len(one.groups) for one in simulated)
    most = max(LEAST_NOTES, min(MOST_NOTES, ALL_NOTES // (3 * groups)))
    chains: list[Json] = []
    runs: list[str] = []
    for one in simulated:
        places: list[Json] = []
        for number, group in enumerate(one.groups):
            for found in _recordings(group, most):
                place = {"group": number, "name": found.name, "begin": found.begin, "end": found.end}
                places.append({**place, "run": len(runs)})
                runs.append(found.text)
        chains.append({**drawn_chain(mapped, one.chain, one.found), "instead": one.instead, "recordings": places})
    return Result(
        "simulate-chains",
        f"{mapped.task.name} on {tree.name}: fused mappings simulated cycle by cycle",
        text,
        report,
        {**drawn_machine(tree), "chains": chains},
        tuple(runs),
    )


def _recordings(group: SimulatedGroup, most: int) -> list[Recorded]:
    """Of operators that run together the beginning; of one alone its middle and its end as well."""
    if not isinstance(group.simulated, SimulatedChain):
        return recordings_of(group.simulated, most)
    found = recorded_chain(group.simulated.run, most)
    return [named("all cycles" if found.end == group.simulated.cycles else "beginning", found)]
