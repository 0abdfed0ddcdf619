"""Commands that only show: machines, networks of the zoo, and the values of single stages."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click

from tilestitch.base.errors import InputError
from tilestitch.base.files import expect_beside, expect_folder, expect_writable, write_files
from tilestitch.cli.application import held_back
from tilestitch.cli.completion import MACHINE_OR_TREE, MODEL, STRATEGY
from tilestitch.cli.options import (
    STRATEGY_HELP,
    Choices,
    compile_options,
    html_option,
    network_options,
    output_options,
    strategy_given,
)
from tilestitch.cli.output import Files, encoded, expect_json, json_file, show_output
from tilestitch.cli.progress import Progress, shown_progress
from tilestitch.ir.choices import Stage

if TYPE_CHECKING:
    from tilestitch.commands.listings import Listing

_Shown: TypeAlias = tuple[str, Callable[[], str]]  # a value as text, and what gives it as JSON

_LENGTH = "128"  # tokens of the networks that exist for any number of them, where no name says how many


@click.command()
@output_options
def machines(json_path: Path | None, quiet: bool) -> None:
    """List the machines that are built in."""
    expect_json(json_path)
    from tilestitch.commands.listings import machines as listed

    _show_listing(listed(), json_path, quiet=quiet)


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("-o", "--out", metavar="FILE", type=click.Path(path_type=Path), help="Write one network to this file.")
@click.option("--write", "folder", metavar="DIR", type=click.Path(path_type=Path), help="Write NAME... or all.")
@output_options
def models(names: tuple[str, ...], out: Path | None, folder: Path | None, json_path: Path | None, quiet: bool) -> None:
    """List the networks of the zoo, or write some as ONNX files.

    The weights are drawn from a fixed seed: a network is the same file each time. NAME:small is a small variant of
    the same structure.
    """
    expect_json(json_path)
    if out is None and folder is None:
        if names:
            raise InputError(f"models {' '.join(names)}: say where to write: -o FILE, or --write DIR")
        with held_back():
            from tilestitch.commands.listings import models as listed

            listing = listed()  # imports compiled modules
        _show_listing(listing, json_path, quiet=quiet)
        return
    if json_path is not None:
        raise InputError("--json writes the list of networks, and -o and --write a network; leave out one of them")
    with held_back():
        from tilestitch import api
        from tilestitch.zoo import ENTRIES

    if out is not None:
        if len(names) != 1 or folder is not None:
            raise InputError("-o writes one network: give one NAME, or --write DIR for several")
        expect_writable(out)
        places = [(names[0], out)]
    else:
        assert folder is not None
        expect_folder(folder)
        every = tuple(entry.name_for(_LENGTH) for entry in ENTRIES)
        places = [(name, folder / f"{name.replace(':', '-')}.onnx") for name in names or every]
    with shown_progress(silent=quiet) as progress:
        for number, (name, path) in enumerate(places):
            progress(f"write {path}", number, len(places))
            model = api.zoo_model(name)
            write_files([(path, model.SerializeToString(deterministic=True))])  # one at a time: they are large
    show_output("".join(f"{path}\n" for _, path in places), "", None, quiet=quiet)


@click.group()
def show() -> None:
    """Print a machine, or a network after a single stage."""


@show.command("machine")
@click.argument("names", metavar="NAME...", type=MACHINE_OR_TREE, nargs=-1, required=True)
@html_option("memories as a table and as a picture")
@output_options
def show_machine(names: tuple[str, ...], html: Path | None, json_path: Path | None, quiet: bool) -> None:
    """Print machines: units, peaks, memories. NAME is a preset or a YAML file."""
    if html is not None:
        expect_beside("--html", html, json_path, names)
    pages: Files = []

    def values(progress: Progress) -> list[_Shown]:
        from tilestitch.base.html import document_html
        from tilestitch.hardware.tree_load import load_either
        from tilestitch.report.report_json import value_json

        found = [load_either(name) for name in names]
        if html is not None:
            title = ", ".join(machine.name for machine in found)
            pages.append((html, encoded(document_html(title, [machine.body_html() for machine in found]))))
        return [(machine.page(), partial(value_json, "machine", machine)) for machine in found]

    _show(names, values, json_path, quiet=quiet, pages=pages)


@show.command("schema")
@output_options
def show_schema(json_path: Path | None, quiet: bool) -> None:
    """Print the JSON Schema of machine files, for editors: every field with its meaning."""
    expect_json(json_path)
    from tilestitch.hardware.file_schema import file_schema

    text = file_schema()
    write_files(json_file(json_path, text))
    show_output(text, text, json_path, quiet=quiet)


@show.command("graph")
@click.argument("names", metavar="MODEL...", type=MODEL, nargs=-1, required=True)
@click.option("--simplified", is_flag=True, help="After the passes rather than as it was read.")
@network_options
@output_options
def show_graph(names: tuple[str, ...], simplified: bool, choices: Choices, json_path: Path | None, quiet: bool) -> None:
    """Print networks: operators, their loops, tensors."""

    def values(progress: Progress) -> list[_Shown]:
        with held_back():
            from tilestitch import api
            from tilestitch.passes import simplify
            from tilestitch.report.report_json import value_json

        found = [api.load_graph(name, batch=choices.batch, dims=choices.dims) for name in names]
        if simplified:
            found = [simplify(graph, fold_bn=choices.fold_bn) for graph in found]
        return [(str(graph), partial(value_json, "graph", graph)) for graph in found]

    _show(names, values, json_path, quiet=quiet)


@show.command("schedule")
@click.argument("names", metavar="MODEL...", type=MODEL, nargs=-1, required=True)
@click.option("--strategy", type=STRATEGY, default="auto", show_default=True, help=STRATEGY_HELP)
@click.option("--limit", type=click.IntRange(min=0), default=24, show_default=True, help="Kernels and pieces to print.")
@compile_options
@output_options
def show_schedule(
    names: tuple[str, ...], strategy: str, limit: int, choices: Choices, json_path: Path | None, quiet: bool
) -> None:
    """Print schedules: sub-graphs, their pieces in order, what stays where; then kernels and their tiles."""
    _show_compiled(names, strategy, choices, Stage.SCHEDULE, limit, json_path, quiet=quiet)


@show.command("program")
@click.argument("names", metavar="MODEL...", type=MODEL, nargs=-1, required=True)
@click.option("--strategy", type=STRATEGY, default="auto", show_default=True, help=STRATEGY_HELP)
@click.option("--limit", type=click.IntRange(min=0), default=100, show_default=True, help="Instructions to print.")
@compile_options
@output_options
def show_program(
    names: tuple[str, ...], strategy: str, limit: int, choices: Choices, json_path: Path | None, quiet: bool
) -> None:
    """Print programs: the instructions of one cluster."""
    _show_compiled(names, strategy, choices, Stage.LOWER, limit, json_path, quiet=quiet)


def _show_compiled(
    names: tuple[str, ...],
    strategy: str,
    choices: Choices,
    stage: Stage,
    limit: int | None,
    json_path: Path | None,
    *,
    quiet: bool,
) -> None:
    def values(progress: Progress) -> list[_Shown]:
        with held_back():
            from tilestitch import api
            from tilestitch.report.report_json import value_json

        shown: list[_Shown] = []
        for name in names:
            done = api.compile(
                name,
                choices.machine,
                strategy=strategy_given(strategy),
                options=choices.options(stop_after=stage),
                progress=progress,
            )
            value = ("schedule", done.schedule) if done.program is None else ("program", done.program)
            shown.append((done.texts(limit=limit)[-1][1], partial(value_json, *value, limit=limit)))
        return shown

    _show(names, values, json_path, quiet=quiet)


def _show(
    names: tuple[str, ...],
    values: Callable[[Progress], list[_Shown]],
    json_path: Path | None,
    *,
    quiet: bool,
    pages: Files | None = None,
) -> None:
    """Print the text of each of the values, or write the JSON of the only one; write the pages that `values` adds."""
    if json_path is not None and len(names) > 1:
        raise InputError(f"--json takes one value, {len(names)} were requested; run the command once for each")
    expect_json(json_path, *names)
    with shown_progress(silent=quiet) as progress:
        found = values(progress)
        json_text = "" if json_path is None else found[0][1]()
        write_files([*json_file(json_path, json_text), *(pages or ())])
    text = "\n".join(text if text.endswith("\n") else f"{text}\n" for text, _ in found)
    show_output(text, json_text, json_path, quiet=quiet)


def _show_listing(listing: "Listing", json_path: Path | None, *, quiet: bool) -> None:
    json_text = listing.to_json()
    write_files(json_file(json_path, json_text))
    show_output(str(listing), json_text, json_path, quiet=quiet)
