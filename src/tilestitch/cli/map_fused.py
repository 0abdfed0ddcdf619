"""`map --fuse`: chains of operators that run together on a machine tree."""

from pathlib import Path

import click

from tilestitch.base.errors import InputError
from tilestitch.base.files import expect_beside, write_files
from tilestitch.cli.application import SUCCESS, WRONG_INPUT, complain, held_back
from tilestitch.cli.layers import goes_on_tree
from tilestitch.cli.map_trees import UNEVEN
from tilestitch.cli.options import Choices, expect_none_given, is_given
from tilestitch.cli.output import Files, encoded, expect_json, given_command, json_file, show_output
from tilestitch.cli.progress import shown_progress
from tilestitch.ir.choices import Objective

_NOT_FUSED = (
    "search",
    "dataflow",
    "mode",
    "top",
    "mapping",
    "evaluate",
    "spatial",
    "constraints",
    "energies",
    "explain",
    "emit",
    "out",
    "certificate",
    "check",
)


def map_fused_chains(
    model: str | None,
    machine: str,
    most: int,
    choices: Choices,
    layers: tuple[str, ...],
    json_path: Path | None,
    html: Path | None,
    *,
    quiet: bool,
) -> int:
    """Map chains of operators on a tree; the exit code says whether all of them have a mapping."""
    given = click.get_current_context().params
    expect_none_given(_NOT_FUSED, "has no meaning yet with --fuse")
    if model is None:
        raise InputError("MODEL is missing: a network, or a line of several products, each behind a ';'")
    if Objective(given["objective"]) is Objective.PARETO:
        raise InputError("--fuse has no front; write --objective energy, latency, edp or ed2p")
    if not is_given("machine") or not (given["storage"] == UNEVEN or goes_on_tree(machine)):
        raise InputError(
            "--fuse goes with a tree as --machine, such as tpu-v4i; a PE array is one with --storage uneven"
        )
    expect_json(json_path, model, machine)
    if html is not None:
        expect_beside("--html", html, json_path, [model, machine])
    with shown_progress(silent=quiet) as progress:
        with held_back():
            from tilestitch.commands.map.fused_run import FuseOptions, map_fused
            from tilestitch.commands.map.tree_machines import uneven_array
            from tilestitch.mapping.tree.choices import Ragged, SpatialSpace
            from tilestitch.mapping.tree.tables import Sums

        is_uneven = given["storage"] == UNEVEN
        ragged = Ragged.ALL if given["ragged"] else Ragged.NONE if is_uneven else Ragged.FILLING
        found = map_fused(
            model,
            uneven_array(machine) if is_uneven else machine,
            FuseOptions(
                most,
                Sums(given["sums"]),
                SpatialSpace(ragged, given["utilization"]),
                given["effort"],
                Objective(given["objective"]),
            ),
            batch=choices.batch,
            dims=choices.dims,
            fold_bn=choices.fold_bn,
            layers=layers,
            progress=progress,
        )
        text, json_text = str(found), found.to_json()
        pages: Files = [] if html is None else [(html, encoded(found.to_html(given_command())))]
        write_files([*json_file(json_path, json_text), *pages])
    show_output(text, json_text, json_path, quiet=quiet)
    for one in found.unmapped:
        complain(f"chain {' > '.join(one.names)}: {one.reason}")
    return WRONG_INPUT if found.unmapped else SUCCESS
