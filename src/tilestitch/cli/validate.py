"""The command that holds the analytical model of an array against its simulation."""

from pathlib import Path

import click

from tilestitch.base.errors import InputError
from tilestitch.base.files import expect_beside, write_files
from tilestitch.cli.application import held_back
from tilestitch.cli.completion import MODEL
from tilestitch.cli.options import (
    Choices,
    array_machine_option,
    html_option,
    layers_option,
    network_options,
    output_options,
)
from tilestitch.cli.output import encoded, expect_json, given_command, json_file, show_output
from tilestitch.cli.progress import shown_progress

MOST_MAPPINGS = 1_000_000


@click.command()
@click.argument("model", type=MODEL)
@array_machine_option
@click.option(
    "--mappings",
    type=click.IntRange(1, MOST_MAPPINGS),
    default=1000,
    show_default=True,
    help="Random mappings, in equal parts over the layers.",
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed of the mappings.")
@layers_option
@click.option("--ragged", is_flag=True, help="Factors need not divide.")
@click.option(
    "--worst",
    type=click.IntRange(0, 1000),
    default=5,
    show_default=True,
    help="How many of the mappings with the largest errors to list.",
)
@click.option(
    "--plot",
    metavar="FILE.svg",
    type=click.Path(path_type=Path),
    help="Draw estimated over simulated cycles, and the distribution of errors.",
)
@html_option("mappings as points, errors, what the model misses")
@network_options
@output_options
def validate(
    model: str,
    machine: str,
    mappings: int,
    seed: int,
    layers: tuple[str, ...],
    ragged: bool,
    worst: int,
    plot: Path | None,
    html: Path | None,
    choices: Choices,
    json_path: Path | None,
    quiet: bool,
) -> None:
    """Compare the analytical model of mappings with their simulation, over random mappings of the layers of MODEL.

    MODEL is what map takes. Every mapping is priced by the model of map, and simulated cycle by cycle. For the worst
    ones, both are repeated without one mechanism of the machine at a time: the model misses the mechanism without
    which the difference disappears. On a machine without PE arrays it is the model and the simulator of its tree.
    """
    expect_json(json_path, model, machine)
    if plot is not None:
        if plot.suffix != ".svg":
            raise InputError(f"--plot {plot.name}: the picture is SVG; give it a name that ends in .svg")
        expect_beside("--plot", plot, json_path, (model, machine))
    if html is not None:
        expect_beside("--html", html, json_path, (model, machine))
    with shown_progress(silent=quiet) as progress:
        with held_back():
            from tilestitch.commands.validate.run import ValidateOptions
            from tilestitch.commands.validate.run import validate as validated

        progress("load", 0, 1)
        done = validated(
            model,
            machine,
            ValidateOptions(mappings, seed, ragged, worst),
            layers=layers,
            batch=choices.batch,
            dims=choices.dims,
            fold_bn=choices.fold_bn,
            progress=progress,
        )
        json_text = done.to_json()
        files = json_file(json_path, json_text)
        if plot is not None:
            files.append((plot, encoded(done.svg())))
        if html is not None:
            files.append((html, encoded(done.to_html(given_command()))))
        write_files(files)
    show_output(str(done), json_text, json_path, quiet=quiet)
