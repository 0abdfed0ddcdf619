"""A validation for programs."""

import json
from typing import Any

from tilestitch.commands.map.map_json import mapping_json
from tilestitch.commands.validate.compare import Compared
from tilestitch.commands.validate.mechanisms import Explanation
from tilestitch.commands.validate.summary import Errors, JudgedNetwork, Validation, buckets_of, energy_of, errors_of
from tilestitch.sim.array.simulated import CAUSE_NAMES


def validation_json(done: Validation) -> str:
    """Everything that the text says; mappings in the form that `map --evaluate` takes."""
    return json.dumps(validation_tree(done), indent=1) + "\n"


def validation_tree(done: Validation) -> dict[str, Any]:
    """The same, before it is text."""
    return {**judged_values(done), "worst": [_case(case, why) for case, why in done.worst]}


def judged_values(done: JudgedNetwork) -> dict[str, Any]:
    """What the JSON says of an array and of a tree, but for the worst mappings."""
    return {
        "network": done.name,
        "machine": done.machine_name,
        "units": {"latency": "cycles", "error": "percent of what was simulated"},
        "seed": done.seed,
        "ragged": done.ragged,
        **errors_json(errors_of(done.found)),
        "drawn": sum(layer.drawn for layer in done.layers),
        "misfits": sum(layer.misfits for layer in done.layers),
        "too_long": sum(layer.too_long for layer in done.layers),
        "distribution": [
            {"up_to": None if one.limit is None else 100 * one.limit, "mappings": one.mappings}
            for one in buckets_of(done.found)
        ],
        "energy": {
            name: {"mappings_that_agree": one.agree, "worst_absolute_error": 100 * one.worst}
            for name, one in energy_of(done.found).items()
        },
        "layers": [
            {
                "name": layer.layer.nest.name,
                "times": layer.layer.times,
                **(errors_json(errors_of(layer.found)) if layer.found else {"mappings": 0}),
            }
            for layer in done.layers
        ],
    }


def errors_json(errors: Errors) -> dict[str, Any]:
    """Errors in percent."""
    return {
        "mappings": errors.mappings,
        "mean_absolute_error": 100 * errors.mean,
        "median_absolute_error": 100 * errors.median,
        "absolute_error_of_95_percent": 100 * errors.most_of_95,
        "worst_absolute_error": 100 * errors.worst,
        "mean_error": 100 * errors.signed,
    }


def _case(case: Compared, why: Explanation) -> dict[str, Any]:
    return {
        "layer": case.nest.name,
        "mapping": mapping_json(case.nest, case.mapping),
        "estimated_cycles": case.estimated_cycles,
        "simulated_cycles": case.simulated_cycles,
        "error": 100 * case.error,
        "simulated_cycles_by_cause": dict(zip(CAUSE_NAMES, map(int, case.counts[: len(CAUSE_NAMES)]), strict=True)),
        "mechanisms": list(why.mechanisms),
        "cycles_left": abs(why.left),
        "without": {
            trial.mechanism: {"difference_cycles": trial.difference, "error": 100 * trial.error} for trial in why.trials
        },
    }
