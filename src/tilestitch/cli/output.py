"""What the commands write and print."""

import gzip
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from tilestitch.base.files import expect_other, expect_writable
from tilestitch.cli.application import FAILURE, SUCCESS, complain
from tilestitch.ir.choices import Stage

if TYPE_CHECKING:
    from tilestitch.ir.report import CheckRow, Report
    from tilestitch.pipeline.compilation import Compilation
    from tilestitch.report.html.page import Result

STDOUT = Path("-")
DUMPED_INSTRUCTIONS = 100_000  # of a program and its trace as text
TRACED_INSTRUCTIONS = 200_000  # in trace.json.gz: viewers become slow above

Files = list[tuple[Path, bytes]]


def expect_json(path: Path | None, *inputs: str) -> None:
    """Refuse, before the work, a place where the JSON could not be written, or where it would replace an input."""
    if path is not None and path != STDOUT:
        expect_writable(path)
        for source in inputs:
            expect_other(path, source)


def json_file(path: Path | None, text: str) -> Files:
    """The file that `--json` asks for, if it does."""
    return [] if path is None or path == STDOUT else [(path, encoded(text))]


# Options without which a page is the same: files beside it, and who computes it.
_OF_OTHER_FILES = (
    *(
        "out",
        "dump",
        "annotate",
        "json_path",
        "quiet",
        "reports",
        "emit",
        "constants",
        "plot",
        "stats",
        "trace",
        "window",
    ),
    *("store", "workers", "cluster"),
)


def page_file(path: Path, result: "Result", options: Sequence[tuple[str, object]] = ()) -> tuple[Path, bytes]:
    """The file of a page that this command makes again."""
    from tilestitch.pipeline.origin import made_by
    from tilestitch.report.html.page import result_page

    return path, encoded(result_page(result, made_by(given_command(), options)))


def given_command() -> str:
    """The command as it was given, but for what it writes besides its page."""
    context = click.get_current_context()
    words = context.command_path.split()
    words[0] = "tilestitch"
    arguments: list[str] = []
    for parameter in context.command.params:
        name = parameter.name or ""
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE or name in _OF_OTHER_FILES:
            continue
        value = context.params[name]
        if isinstance(parameter, click.Argument):
            words += map(str, value if isinstance(value, tuple) else (value,))
        elif isinstance(value, bool):
            arguments.append((parameter.opts if value else parameter.secondary_opts)[0])
        else:
            for one in value if isinstance(value, tuple) else (value,):
                arguments += [parameter.opts[0], str(one)]
    return shlex.join([*words, *arguments])


def outputs(folder: Path, done: "Compilation") -> Files:
    """The files of `-o`: report, schedule and trace of a simulated compilation."""
    from tilestitch.report.trace_json import chrome_trace

    assert done.report is not None
    assert done.trace is not None
    trace = chrome_trace(done.trace, clock_hz=done.machine.clock_hz, limit=TRACED_INSTRUCTIONS)
    return [
        (folder / "report.txt", encoded(done.report.page())),
        (folder / "report.json", encoded(done.to_json())),
        (folder / "schedule.txt", encoded(f"{done.schedule}\n")),
        (folder / "trace.json.gz", gzip.compress(trace.encode(), compresslevel=6, mtime=0)),  # no clock in it
    ]


def stages(folder: Path, done: "Compilation") -> Files:
    """The files of `--dump`: 1-load.txt and so on, for every stage that was reached; 3-partition.json to start there.

    The networks after the first two stages are text alone, since their weights may take gigabytes.
    """
    from tilestitch.pipeline.stage_files import stage_text

    texts = done.texts(limit=DUMPED_INSTRUCTIONS)
    found = [(folder / f"{number}-{name}.txt", encoded(text + "\n")) for number, (name, text) in enumerate(texts, 1)]
    for number, (name, _) in enumerate(texts, 1):
        if name in (Stage.PARTITION, Stage.SCHEDULE, Stage.LOWER):
            found.append((folder / f"{number}-{name}.json", encoded(stage_text(done, Stage(name)))))
    return found


def encoded(text: str) -> bytes:
    """UTF-8; what is no character (a file's name may hold any bytes) is written as its number."""
    return text.encode("utf-8", "backslashreplace")


def show_output(text: str, json_text: str, json_path: Path | None, *, quiet: bool) -> None:
    """Print the JSON where it was asked for on stdout, else the text; nothing where `quiet`."""
    if json_path == STDOUT:
        click.echo(json_text, nl=False)
    elif not quiet:
        click.echo(text if text.endswith("\n") else text + "\n", nl=False)


def verdict(reports: "Sequence[Report]") -> int:
    """The exit code: a failure where outputs are wrong, which is said on stderr too; so is what is disputed."""
    failed = False
    for report in reports:
        where = f"{report.network} by strategy {report.strategy}: verification"
        for check in report.checks:
            if check.dispute:
                click.echo(f"note: {where} disputed: {check.dispute}", err=True)
            if check.failed:
                failed = True
                complain(f"{where} FAILED: {_why(check)}")
        if report.outcome == "not conclusive":
            click.echo(f"note: {where} not conclusive: rounding could hide an error in too many values", err=True)
    return FAILURE if failed else SUCCESS


def _why(check: "CheckRow") -> str:
    if check.error <= check.allowed:
        return (
            f"a value of output '{check.output}' in {check.precision} is {check.ratio:.3g} times as far off as "
            "rounding explains"
        )
    return f"{check.precision} error {check.error:.2e} of output '{check.output}' is above {check.allowed:.2e}"
