"""`--html FILE` of compile and compare: whole or absent, and refused before the work where it cannot be."""

import json
import os
import re
import shlex

import pytest

from tests.helpers.command import names_in, run

NETWORK = ("resnet18:small", "--machine", "toy")


def command_on(path):
    """The command that a page says makes it again."""
    found = re.search(r'id="summary">(.*?)</script>', path.read_text(encoding="utf-8"))
    assert found is not None
    return json.loads(found.group(1))["command"]


@pytest.mark.quick
def test_compile_writes_a_page_that_says_how_to_make_it_again(tmp_path):
    """The command on it gives the same bytes; options about other files are not in it."""
    path = tmp_path / "some" / "page.html"
    others = ("--quiet", "-o", tmp_path / "out", "--json", tmp_path / "report.json")
    result = run("compile", *NETWORK, "--strategy", "tvm", "--batch", 2, "--no-fold-bn", "--html", path, *others)
    assert result.exit_code == 0, result.output
    command = command_on(path)
    expected = f"compile resnet18:small --machine toy --strategy tvm --batch 2 --no-fold-bn --html {path}"
    assert sorted(shlex.split(command)) == sorted(["tilestitch", *expected.split()])
    before = path.read_bytes()
    path.unlink()
    assert run(*shlex.split(command)[1:]).exit_code == 0
    assert path.read_bytes() == before


def test_compare_writes_one_page_of_all_strategies(tmp_path):
    """Each strategy that was named is on it, in that order."""
    path = tmp_path / "page.html"
    result = run("compare", *NETWORK, "--strategy", "tvm", "--strategy", "layerwise", "--html", path)
    assert result.exit_code == 0, result.output
    assert "--strategy tvm --strategy layerwise" in command_on(path)
    assert path.read_text(encoding="utf-8").count('<script type="text/plain"') == 2


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--stop-after", "schedule", "--html", "page.html"), "--html needs the simulation"),
        (
            ("--html", "page.html", "--json", "page.html"),
            "--html and --json both name page.html; choose two different paths",
        ),
        (("--html", "."), "is a folder; expected the path of a file"),
        (("--html", "/dev/null/page.html"), "cannot be written, because /dev/null is not a folder"),
    ],
)
def test_a_page_that_cannot_be_is_refused_before_the_work(tmp_path, monkeypatch, more, message):
    """In one line, with exit code 2, and without any file."""
    monkeypatch.chdir(tmp_path)
    result = run("compile", *NETWORK, *more)
    assert result.exit_code == 2
    [line] = result.stderr.splitlines()
    assert message in line
    assert names_in(tmp_path) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_is_said_in_one_line():
    """And no traceback."""
    result = run("compile", *NETWORK, "--html", "/dev/full")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "/dev/full: cannot be written (No space left on device)" in result.stderr
