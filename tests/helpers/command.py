"""The command, run in this process or in one of its own."""

import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from tilestitch.cli import main as cli

START = "from tilestitch.cli.start import main; main()"


def run(*arguments):
    """Run the command in this process."""
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments], prog_name="tilestitch")


def start(*arguments, before="", **options) -> subprocess.Popen:
    """Run the command in a process of its own, after the statements in `before`."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen([sys.executable, "-c", f"{before}\n{START}", *map(str, arguments)], **options)


def names_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
