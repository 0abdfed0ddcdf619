"""The command where its surroundings are hostile: closed or narrow streams, other encodings, no room for files."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import tilestitch
from tilestitch.cli import main as cli

NETWORK = ("resnet18:small", "--machine", "toy")
SHELL = Path("/bin/sh")


def shell(line: str, folder: Path, **variables: str) -> subprocess.CompletedProcess:
    """A line of the shell in which `tilestitch` is the command."""
    script = "from tilestitch.cli.start import main; main()"
    text = f'tilestitch() {{ "{sys.executable}" -c "{script}" "$@"; }}\n{line}'
    package = str(Path(tilestitch.__file__).resolve().parent.parent)  # found from any folder
    environment = {**os.environ, "PYTHONPATH": package, **variables}
    return subprocess.run([SHELL, "-c", text], cwd=folder, env=environment, capture_output=True, timeout=300)


@pytest.mark.skipif(not SHELL.exists(), reason="there is no shell")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error(tmp_path, closed):
    """And what is left of them is used."""
    result = shell(f"tilestitch machines --json list.json {closed}", tmp_path)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "list.json").stat().st_size > 100
    assert b"Traceback" not in result.stderr


@pytest.mark.skipif(not SHELL.exists(), reason="there is no shell")
def test_an_error_that_nobody_can_read_is_still_an_exit_code(tmp_path):
    assert shell("tilestitch compile nothing.onnx 2>&-", tmp_path).returncode == 2


@pytest.mark.skipif(not SHELL.exists(), reason="there is no shell")
@pytest.mark.parametrize(
    "variables",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "utf-16"},
        {"COLUMNS": "1", "LINES": "1", "TERM": "dumb"},
    ],
    ids=["ascii", "utf-16", "narrow"],
)
def test_a_terminal_that_can_show_little_gets_one_error(tmp_path, variables):
    """Characters that it has not are written as their numbers."""
    result = shell("tilestitch compile netz-größe-网络.onnx", tmp_path, **variables)
    assert result.returncode == 2
    text = result.stderr.decode("utf-16" if "utf-16" in variables.values() else "utf-8")
    assert text.startswith("error: model 'netz-gr")
    assert "Traceback" not in text
    assert len(text.splitlines()) == 1


def test_a_limit_of_the_size_of_files_leaves_no_part_of_one(tmp_path):
    """Nor of a folder that was made; it is told like a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        result = CliRunner().invoke(cli.main, ["compile", *NETWORK, "-o", str(tmp_path / "a/b")], prog_name="x")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert result.exit_code == 2
    assert "cannot be written (File too large)" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_folders_that_were_there_before_stay(tmp_path):
    """Only those that the failed command made are gone."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/b").mkdir()
    (tmp_path / "a/b/report.txt").mkdir()
    result = CliRunner().invoke(cli.main, ["compile", *NETWORK, "-o", str(tmp_path / "a/b")], prog_name="x")
    assert result.exit_code == 2
    assert (tmp_path / "a/b/report.txt").is_dir()
