"""The command that writes a schedule as kernels that run."""

from pathlib import Path

import click

from tilestitch.base.files import expect_empty, write_files
from tilestitch.cli.application import held_back
from tilestitch.cli.completion import MODEL, STRATEGY
from tilestitch.cli.options import (
    STRATEGY_HELP,
    Choices,
    choice_option,
    compile_options,
    output_options,
    strategy_given,
)
from tilestitch.cli.output import Files, expect_json, json_file, show_output
from tilestitch.cli.progress import shown_progress


@click.command()
@click.argument("model", type=MODEL)
@click.option("--strategy", type=STRATEGY, default="auto", show_default=True, help=STRATEGY_HELP)
@compile_options
@choice_option("--backend", ("triton",), "What is written: Python modules with Triton kernels.")
@choice_option("--dtype", ("float16", "float32"), "How floating tensors are stored; sums are float32.")
@choice_option("--fuse", ("fast", "all", "none"), "Kernels that become one: what was measured faster so, or what fits.")
@click.option(
    "-o",
    "--out",
    metavar="DIR",
    required=True,
    type=click.Path(path_type=Path),
    help="Write the files there; it must be new or empty.",
)
@output_options
def build(
    model: str,
    strategy: str,
    choices: Choices,
    backend: str,
    dtype: str,
    fuse: str,
    out: Path,
    json_path: Path | None,
    quiet: bool,
) -> None:
    """Schedule MODEL for a GPU, and write the schedule as kernels that run there, a module per sub-graph instance.

    MODEL is a network of the zoo (see: tilestitch models) or an ONNX file. DIR/network.py runs the modules; it needs
    torch and triton, which building does not.
    """
    expect_json(json_path, model, choices.machine, strategy)
    expect_empty(out)
    with shown_progress(silent=quiet) as progress:
        with held_back():
            from tilestitch.commands.build.run import KernelOptions
            from tilestitch.commands.build.run import build as built_by

        done = built_by(
            model,
            choices.machine,
            strategy=strategy_given(strategy),
            kernels=KernelOptions(backend, dtype, fuse),
            options=choices.options(),
            progress=progress,
        )
        text, json_text = str(done), done.to_json()
        files: Files = [(out / name, content) for name, content in done.files.items()]
        write_files([*json_file(json_path, json_text), *files])
    show_output(text, json_text, json_path, quiet=quiet)
