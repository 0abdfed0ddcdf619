"""The command that sets two reports side by side."""

from pathlib import Path

import click

from tilestitch.base.files import expect_beside, write_files
from tilestitch.cli.application import held_back
from tilestitch.cli.options import output_options
from tilestitch.cli.output import encoded, expect_json, given_command, json_file, show_output


@click.command("diff")
@click.argument("first", metavar="A.json", type=click.Path(path_type=Path))
@click.argument("second", metavar="B.json", type=click.Path(path_type=Path))
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write an HTML page: one file that opens offline.",
)
@output_options
def diff(first: Path, second: Path, html: Path | None, json_path: Path | None, quiet: bool) -> None:
    """Set two reports of one network side by side: what is faster, where the bytes went, what was decided differently.

    A.json and B.json are what compile --json or compile -o wrote.
    """
    expect_json(json_path, str(first), str(second))
    if html is not None:
        expect_beside("--html", html, json_path, [first, second])
    with held_back():
        from tilestitch.commands.diff.run import diff as compared

    found = compared(first, second)
    json_text = found.to_json()
    files = json_file(json_path, json_text)
    if html is not None:
        files.append((html, encoded(found.to_html(given_command()))))
    write_files(files)
    show_output(str(found), json_text, json_path, quiet=quiet)
