"""The command that says what is wrong with a network before it is compiled."""

from pathlib import Path

import click

from tilestitch.base.errors import InputError
from tilestitch.base.files import write_files
from tilestitch.cli.application import SUCCESS, WRONG_INPUT, held_back
from tilestitch.cli.completion import MACHINE, MODEL
from tilestitch.cli.options import Choices, network_options, output_options
from tilestitch.cli.output import expect_json, json_file, show_output
from tilestitch.cli.progress import shown_progress


@click.command()
@click.argument("model", type=MODEL)
@click.option("--machine", type=MACHINE, metavar="NAME|FILE", help="Also say whether the network fits this machine.")
@network_options
@output_options
def check(model: str, machine: str | None, choices: Choices, json_path: Path | None, quiet: bool) -> int:
    """Print all problems of MODEL, or a summary of it.

    MODEL is a network of the zoo or an ONNX file. The exit code is 2 if there is a problem. With --machine it
    also says whether the network fits, and how much of it each kind of unit runs.
    """
    expect_json(json_path, model, *([] if machine is None else [machine]))
    with shown_progress(silent=quiet) as progress:
        with held_back():
            from tilestitch import api
            from tilestitch.commands.check.check_text import check_json, check_text
            from tilestitch.commands.check.examine import Examined, examine

        target = None if machine is None else api.load_machine(machine)
        try:
            proto, name = api.open_model(model)
        except InputError as error:
            found = Examined(model, (str(error),))
        else:
            found = examine(
                proto,
                name,
                target,
                batch=choices.batch,
                dims=choices.dims,
                fold_bn=choices.fold_bn,
                progress=progress,
            )
        json_text = check_json(found)
        write_files(json_file(json_path, json_text))
    show_output(check_text(found), json_text, json_path, quiet=quiet)
    return WRONG_INPUT if found.problems else SUCCESS
