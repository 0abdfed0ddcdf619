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
    machine_beside,
    output_options,
    start_option,
    strategy_given,
)
from tilestitch.cli.output import expect_json, json_file, show_output
from tilestitch.cli.progress import shown_progress


@click.command("why")
@click.argument("model", type=MODEL)
@click.option("--strategy", type=STRATEGY, default="auto", show_default=True, help=STRATEGY_HELP)
@compile_options
@start_option("a schedule, or another stage,")
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
    start: Path | None,
    select: str,
    top: int,
    json_path: Path | None,
    quiet: bool,
) -> None:
    """Explain why MODEL is not faster: where the time beyond the bound goes.

    MODEL is compiled and simulated as by compile. The gap between its latency and the largest bound is a sum of parts:
    what the units behind the bound waited for, and what they did beyond the work that it counts.
    """
    target = machine_beside(start, choices.machine)
    expect_json(json_path, model, choices.machine, strategy, *([] if start is None else [str(start)]))
    if choices.batches > 1:
        raise InputError("--batches: the gap is computed for one batch; leave it out")
    with shown_progress(silent=quiet) as progress:
        with held_back():
            from tilestitch.api import compile
            from tilestitch.commands.why.run import why as explained

        way, options = strategy_given(strategy), choices.options()
        done = compile(model, target, strategy=way, options=options, start=start, progress=progress)
        found = explained(done, select=select, top=top, progress=progress)
        progress("write", 0, 1)
        json_text = found.to_json()
        write_files(json_file(json_path, json_text))
    show_output(str(found), json_text, json_path, quiet=quiet)
