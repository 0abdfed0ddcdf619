"""An exploration as a page to look at: the designs as points, with their front."""

from tilestitch.base.json_values import Json
from tilestitch.exploration.explore_text import explored_text, explored_tree, named_fronts, origin_of
from tilestitch.exploration.run import Explored
from tilestitch.report.html.page import Result


def explore_result(explored: Explored) -> Result:
    """All that the page of `explore` holds: the same whatever the store had."""
    report = explored_tree(explored)
    report["run"] = {"infeasible": report["run"]["infeasible"]}
    fronts: list[Json] = []
    for name, network in named_fronts(explored):
        vectors = explored.vectors(network)
        fronts.append(
            {
                "name": name,
                "network": -1 if network is None else network,
                "designs": list(vectors),
                "objectives": [list(values) for values in vectors.values()],
            }
        )
    networks = ", ".join(explored.networks)
    return Result(
        "explore",
        f"{explored.space.machine}, {networks}: {len(explored.outcomes):,} designs",
        explored_text(explored, store=None),
        report,
        {
            "fronts": fronts,
            "origins": {one.name: str(origin_of(explored, one)) for one in explored.objectives},
        },
    )
