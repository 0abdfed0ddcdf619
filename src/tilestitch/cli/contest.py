"""The command that solves and judges instances of the MLSys 2026 contest."""

from pathlib import Path

import click

from tilestitch.base.errors import InputError
from tilestitch.base.files import expect_other, expect_writable, write_files
from tilestitch.cli.application import held_back
from tilestitch.cli.options import output_options
from tilestitch.cli.output import encoded, expect_json, json_file, show_output
from tilestitch.cli.progress import shown_progress


@click.command()
@click.argument("instance", metavar="INSTANCE.json", type=click.Path(path_type=Path))
@click.option("-o", "--out", metavar="FILE", type=click.Path(path_type=Path), help="Write the solution to this file.")
@click.option("--check", metavar="FILE", type=click.Path(path_type=Path), help="Judge this solution; solve nothing.")
@click.option(
    "--rules",
    "rules_name",
    metavar="published|description",
    default="published",
    show_default=True,
    help="As the published results count, or as the first description reads.",
)
@output_options
def contest(
    instance: Path, out: Path | None, check: Path | None, rules_name: str, json_path: Path | None, quiet: bool
) -> None:
    """Schedule a graph by the rules of the MLSys 2026 contest: the best solution found, a lower bound and the gap.

    A solution that is read with --check is judged by every rule.
    """
    if check is not None and out is not None:
        raise InputError("--check judges a solution, and -o writes one; leave out one of them")
    expect_json(json_path, str(instance), *([] if check is None else [str(check)]))
    if out is not None:
        expect_writable(out)
        expect_other(out, instance)
    with shown_progress(silent=quiet) as progress:
        with held_back():
            from tilestitch.commands.contest.run import contest as judged

        done = judged(instance, rules=rules_name, check=check, progress=progress)
        json_text = done.to_json()
        files = json_file(json_path, json_text)
        if out is not None:
            files.append((out, encoded(done.solution_json())))
        write_files(files)
    show_output(str(done), json_text, json_path, quiet=quiet)
