"""The command `tilestitch`. What is slow to import is imported in the command that needs it: `--help` comes at once."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilestitch import __version__
from tilestitch.cli.application import FAILURE, SUCCESS, Application, complain
from tilestitch.cli.files import expect_folder
from tilestitch.cli.inspect import machines, models, show
from tilestitch.cli.options import STAGES, STRATEGY_HELP, Choices, compile_options, output_options
from tilestitch.cli.output import deliver, expect_json, outputs, stages
from tilestitch.cli.progress import shown_progress
from tilestitch.errors import InputError

if TYPE_CHECKING:
    from tilestitch.pipeline import Compilation


@click.group(cls=Application, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, message="%(prog)s %(version)s")
def main() -> None:
    """Compile a neural network for a described accelerator, simulate it, check it, and compare it with its bounds."""


for command in (machines, models, show):
    main.add_command(command)


@main.command("compile")
@click.argument("model")
@click.option("--strategy", default="tvm", show_default=True, help=STRATEGY_HELP)
@compile_options
@click.option("--verify", is_flag=True, help="Execute the program and compare its outputs with onnxruntime's.")
@click.option("--stop-after", type=click.Choice(STAGES), default="simulate", help="Stop there, and print what is there.")
@click.option("-o", "--out", metavar="DIR", type=click.Path(path_type=Path), help="Write report, schedule and trace.")
@click.option("--dump", metavar="DIR", type=click.Path(path_type=Path), help="Write what each stage ended with.")
@output_options
def compile_command(
    model: str,
    strategy: str,
    choices: Choices,
    verify: bool,
    stop_after: str,
    out: Path | None,
    dump: Path | None,
    json_path: Path | None,
    quiet: bool,
) -> int:
    """Take MODEL through every stage and print the report.

    MODEL is a network of the zoo (see: tilestitch models) or an ONNX file. Exits with 1 when the outputs are wrong.
    """
    if stop_after != STAGES[-1]:
        for option, given in (("--verify", verify), ("-o", out is not None), ("--json", json_path is not None)):
            if given:
                raise InputError(
                    f"{option} needs the simulation, and --stop-after {stop_after} ends before it; leave out one of "
                    "them (--dump DIR writes every stage that is reached)"
                )
    expect_json(json_path)
    for folder in (out, dump):
        if folder is not None:
            expect_folder(folder)
    with shown_progress(quiet=quiet) as progress:
        from tilestitch import api
        from tilestitch.report.json import report_json

        done = api.compile(
            model,
            choices.machine,
            strategy=strategy,
            batch=choices.batch,
            batch_per_cluster=choices.batch_per_cluster,
            batches=choices.batches,
            dims=choices.dims,
            fold_bn=choices.fold_bn,
            verify=verify,
            stop_after=stop_after,
            progress=progress,
        )
        progress("write", 0, 1)
        files: list[tuple[Path, bytes]] = []
        if out is not None:
            files += outputs(out, done)
        if dump is not None:
            files += stages(dump, done)
        deliver(str(done), None if done.report is None else report_json(done.report), json_path, files, quiet=True)
    deliver(...)
    return _verdict([done])
