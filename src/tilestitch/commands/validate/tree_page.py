"""A validation on a tree as a page to look at: as that of arrays; of the worst mappings what their ports do."""

from collections.abc import Sequence
from typing import Protocol

from tilestitch.base.json_values import Json
from tilestitch.commands.map.tree_page import drawn, drawn_machine
from tilestitch.commands.simulate.tree_page import places_of, recordings_of
from tilestitch.commands.validate.summary import Judged, JudgedNetwork
from tilestitch.commands.validate.validate_page import packed_points
from tilestitch.formats.einsum import nest_text
from tilestitch.hardware.tree import MachineTree
from tilestitch.mapping.tree.chain import TreeMapping, price
from tilestitch.mapping.tree.found import FoundMapping
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.tables import Sums
from tilestitch.report.html.page import Result
from tilestitch.sim.tree.simulated import SimulatedOnTree

MOST_NOTES = 2000  # of a recording


class JudgedOnTree(Judged, Protocol):
    """A mapping on a tree that was estimated and simulated."""

    @property
    def placed(self) -> PlacedNest: ...

    @property
    def mapping(self) -> TreeMapping: ...

    @property
    def simulated(self) -> SimulatedOnTree: ...


def validate_tree_result(
    done: JudgedNetwork, tree: MachineTree, worst: Sequence[JudgedOnTree], text: str, report: Json
) -> Result:
    """All that the page of `validate` holds of a tree; records some cycles of the worst mappings."""
    place = {id(one): number for number, one in enumerate(done.found)}
    runs = [packed_points(done)]
    cases: list[Json] = []
    for one in worst:
        recordings = recordings_of(one.simulated, MOST_NOTES)
        cases.append(
            {
                "point": place[id(one)],
                "nest": nest_text(one.placed.nest),
                "mapping": drawn(_as_found(one)),
                "recordings": places_of(recordings, len(runs)),
            }
        )
        runs += [recording.text for recording in recordings]
    return Result(
        "validate-tree",
        f"{done.name} on {tree.name}: the model against {len(done.found):,} simulated mappings",
        text,
        report,
        {**drawn_machine(tree), "worst": cases},
        tuple(runs),
    )


def _as_found(one: JudgedOnTree) -> FoundMapping:
    """A mapping that was drawn, as the page of `map` takes one: nothing was searched, and nothing is proven."""
    estimated = price(one.placed, one.mapping)
    return FoundMapping(one.placed, Sums.FULL, one.mapping, estimated, 0.0, is_proven=False, labels=0, points=0)
