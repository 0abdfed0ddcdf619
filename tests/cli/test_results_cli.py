"""`--html FILE` of map, simulate, explore, validate and fuse: whole or absent, and the command on it makes it again."""

import shlex

import pytest

from tests.helpers.command import names_in, run
from tests.helpers.pages import summary_of

PRODUCT = "O[m,n] += A[m,k] * B[k,n]; m=12 n=8 k=16"
COMMANDS = {
    "map": (PRODUCT, "--machine", "dmazerunner-256", "--top", "2"),
    "simulate": (PRODUCT, "--machine", "dmazerunner-256", "--values", "floats"),
    "explore": (PRODUCT, "--machine", "dmazerunner-256", "--vary", "pes=16,64", "--workers", "1"),
    "validate": (PRODUCT, "--machine", "dmazerunner-256", "--mappings", "5", "--ragged"),
    "fuse": ("resnet18:small", "--plan", "dlfusion"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_page_says_how_to_make_it_again(tmp_path, command):
    """The command on it gives the same bytes; options about other files are not in it."""
    path = tmp_path / "some" / "page.html"
    result = run(command, *COMMANDS[command], "--html", path, "--quiet", "--json", tmp_path / "report.json")
    assert result.exit_code == 0, result.output
    summary = summary_of(path.read_text(encoding="utf-8"))
    assert summary["kind"] == command
    words = shlex.split(summary["command"])
    assert words[:2] == ["tilestitch", command]
    assert "--json" not in words
    before = path.read_bytes()
    path.unlink()
    assert run(*words[1:]).exit_code == 0
    assert path.read_bytes() == before


@pytest.mark.parametrize("command", COMMANDS)
def test_a_page_that_cannot_be_written_is_refused_before_the_work(tmp_path, monkeypatch, command):
    """In one line, with exit code 2, and without any file."""
    monkeypatch.chdir(tmp_path)
    result = run(command, *COMMANDS[command], "--html", "page.html", "--json", "page.html")
    assert result.exit_code == 2
    [line] = result.stderr.splitlines()
    assert "--html and --json both name page.html; choose two different paths" in line
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("map", PRODUCT, "--check", "proofs.json"), "--html shows what a search finds; leave out --mapping"),
        (("fuse", "resnet18:small", "--check", "proof.json"), "leave out --plan, --compare"),
    ],
)
def test_a_check_has_no_page(tmp_path, monkeypatch, arguments, message):
    """It judges and searches nothing, so there is nothing to look at."""
    monkeypatch.chdir(tmp_path)
    result = run(*arguments, "--html", "page.html")
    assert result.exit_code == 2
    assert message in result.stderr
    assert names_in(tmp_path) == []
