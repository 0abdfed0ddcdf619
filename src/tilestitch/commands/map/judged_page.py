"""What `map` says without a search, as a page: proofs that were checked, and mappings that were priced line by line."""

import json
from collections.abc import Sequence

from tilestitch.base.json_values import Json
from tilestitch.report.html.page import Result

MOST_LINES = 1000  # of priced mappings on a page


def checked_result(network: str, machine: str, file: str, text: str, picture: str = "") -> Result:
    """The page of proofs that hold: a line for each layer, and the machine's picture where there is one."""
    lines = text.splitlines()
    return Result(
        "checked",
        f"{network} on {machine}: proofs checked",
        text,
        {"checked": list(lines)},
        {"network": network, "machine": machine, "file": file, "picture": picture},
    )


def priced_result(machine: str, file: str, lines: Sequence[str], clock_hz: int) -> Result:
    """The page of mappings that were priced line by line: how many there are of each kind, and the first of them."""
    found = [json.loads(line) for line in lines]
    fitting = [one for one in found if one.get("valid")]
    best: Json = None
    if fitting:
        least = min(fitting, key=lambda one: one["cycles"] * one["energy_pj"])
        best = {"line": found.index(least) + 1, **least}
    return Result(
        "priced",
        f"mappings on {machine}, priced",
        "\n".join(lines[:MOST_LINES]),
        found[:MOST_LINES],
        {
            "machine": machine,
            "clock_hz": clock_hz,
            "file": file,
            "lines": len(found),
            "fitting": len(fitting),
            "wrong": sum("error" in one for one in found),
            "best": best,
        },
    )
