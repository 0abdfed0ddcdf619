"""A validation as a page to look at: every mapping as a point, the distribution of errors, the worst and why."""

import numpy as np

from tilestitch.base.json_values import Json
from tilestitch.commands.map.map_page import drawn_mapping
from tilestitch.commands.validate.summary import JudgedNetwork, Validation
from tilestitch.commands.validate.validate_json import validation_tree
from tilestitch.commands.validate.validate_text import explanation_text, validation_text
from tilestitch.formats.einsum import nest_text
from tilestitch.ir.choices import CostMode
from tilestitch.mapping.evaluate import price
from tilestitch.report.html.nest import array_shape
from tilestitch.report.html.packing import packed
from tilestitch.report.html.page import Result

MOST_POINTS = 20_000  # that are drawn


def validate_result(done: Validation) -> Result:
    """All that the page of `validate` holds."""
    machine = done.machine
    found = done.found
    place = {id(one): number for number, one in enumerate(found)}
    worst: list[Json] = [
        {
            "point": place[id(case)],
            "nest": nest_text(case.nest),
            "missed": explanation_text(case, why),
            "mapping": drawn_mapping(
                case.nest, case.mapping, machine, price(case.nest, machine, case.mapping), CostMode.DEFAULT
            ),
        }
        for case, why in done.worst
    ]
    return Result(
        "validate",
        f"{done.name} on {machine.name}: the model against {len(found):,} simulated mappings",
        validation_text(done),
        validation_tree(done),
        {"array": array_shape(machine), "worst": worst},
        (packed_points(done),),
    )


def packed_points(done: JudgedNetwork) -> str:
    """The cycles of every mapping by both, or of the first ones."""
    layer = [number for number, one in enumerate(done.layers) for _ in one.found]
    drawn = done.found[:MOST_POINTS]
    columns = {
        "layer": np.array(layer[: len(drawn)], np.int64),
        "estimated": np.array([one.estimated_cycles for one in drawn], np.int64),
        "simulated": np.array([one.simulated_cycles for one in drawn], np.int64),
    }
    return packed({"points": len(drawn)}, columns)
