"""The command that sets published results beside ours."""

from pathlib import Path

import click

from tilestitch.base.files import write_files
from tilestitch.cli.application import FAILURE, SUCCESS, complain
from tilestitch.cli.options import output_options
from tilestitch.cli.output import expect_json, json_file, show_output
from tilestitch.cli.progress import shown_progress


@click.command()
@click.argument("name")
@click.option("--network", "networks", metavar="NAME", multiple=True, help="Only this network of it; repeatable.")
@click.option("--machine", "machines", metavar="NAME", multiple=True, help="Only on this machine of it; repeatable.")
@click.option("--must-match", is_flag=True, help="Only the rows that must match; nothing else is simulated.")
@click.option(
    "--jobs", type=click.IntRange(1, 1024), default=1, show_default=True, help="Networks simulated in parallel."
)
@output_options
def reproduce(
    name: str,
    networks: tuple[str, ...],
    machines: tuple[str, ...],
    must_match: bool,
    jobs: int,
    json_path: Path | None,
    quiet: bool,
) -> int:
    """Print published results beside those of Tilestitch. NAME is graphturbo, dlfusion, dmazerunner or dirac.

    The exit code is 1 if a row that must match does not. Speed-ups and numbers read off figures need not match.
    """
    expect_json(json_path)
    with shown_progress(silent=quiet) as progress:
        from tilestitch.reproduction import reproduce as rows_of

        rows = rows_of(name, networks=networks, machines=machines, must_match=must_match, jobs=jobs, progress=progress)
        json_text = rows.to_json()
        write_files(json_file(json_path, json_text))
    show_output(str(rows), json_text, json_path, quiet=quiet)
    for row in rows.wrong:
        complain(f"{row.what}: published {row.published}, ours {row.ours} ({row.source})")
    return FAILURE if rows.wrong else SUCCESS
