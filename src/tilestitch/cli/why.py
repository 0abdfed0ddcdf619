"""The command that says why a network is not faster."""

from pathlib import Path

import click

from tilestitch.base.errors import InputError
from tilestitch.base.files import write_files
from tilestitch.cli.application import held_back
from tilestitch.cli.completion import MODEL, STRATEGY
from tilestitch.cli.options import (
    STRATEGY_HELP,
    Choices,
    compile_options,
    output_options,
    strategy_given,
)
from tilestitch.cli.output import expect_json, json_file, show_output
from tilestitch.cli.progress import shown_progress


@click.command("why")
@click.argument("model", type=MODEL)
@click.option("--strategy", type=STRATEGY, default="auto", show_default=True, help=STRATEGY_HELP)
@compile_options
@click.option(
    "--select",
    default="",
    metavar="KIND=NAME",
    help="Only an operator=, kernel=, piece=, sub-graph= or cycles=FIRST:LAST of the run.",
)
@click.option(
    "--top", type=click.IntRange(1, 1000), default=5, show_default=True, help="How many of the largest entries to list."
)
@output_options
def why(
    model: str,
    strategy: str,
    choices: Choices,
    select: str,
    top: int,
    json_path: Path | None,
    quiet: bool,
) -> None:
    """Explain why MODEL is not faster: where the time beyond the bound goes.

    MODEL is compiled and simulated as by compile. The gap between its latency and the largest bound is a sum of parts:
    what the units behind the bound waited for, and what they did beyond the work that it counts.
    """
    expect_json(json_path, model, choices.machine, strategy)
    if choices.batches > 1:
        raise InputError("--batches: the gap is computed for one batch; leave it out")
    with shown_progress(silent=quiet) as progress:
        with held_back():
            from tilestitch.commands.why.run import why as explained

        found = explained(
            model,
            choices.machine,
            strategy=strategy_given(strategy),
            select=select,
            top=top,
            options=choices.options(),
            progress=progress,
        )
        progress("write", 0, 1)
        json_text = found.to_json()
        write_files(json_file(json_path, json_text))
    show_output(str(found), json_text, json_path, quiet=quiet)
