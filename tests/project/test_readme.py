"""What README.md and docs/ show is what comes out: commands, files, tables, links, names of tests.

A fenced block behind `<!-- checked -->` holds commands, each after a `$`, and what they print, or statements of Python,
each after `>>>` (and `...`), and what they print; all statements of a page are one session. A line `[...]` stands for
any number of lines. `<!-- checked slowly -->` is the same for `make test-slow`. A block behind `<!-- file: NAME -->` is
a file that later commands of the page read. After a change of what is printed, `pytest --update-golden` puts the
nearest lines of the new output in place of the old ones.
"""

import contextlib
import io
import re
import runpy
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilestitch.cli import main as cli
from tilestitch.exploration import workers
from tilestitch.ops import RULES, VIEWS

ROOT = Path(__file__).parent.parent.parent
PAGES = tuple(str(path.relative_to(ROOT)) for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))))
LEFT_OUT = "[...]"
ROUNDED = re.compile(r"(?<=float32   error )\S+")  # differs with the instructions that a processor has
BLOCK = re.compile(r"^<!-- (checked|checked slowly|file: (\S+)) -->\n+```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def page_text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: where its text stands, and what it is."""

    start: int
    stop: int
    kind: str  # "checked", "checked slowly", or "file"
    name: str  # of the file
    text: str


def blocks(text: str) -> list[Block]:
    found = [
        Block(*match.span(3), "file" if match[2] else match[1], match[2] or "", match[3])
        for match in BLOCK.finditer(text)
    ]
    assert len(found) == len(re.findall(r"<!-- *(?:checked|file)", text)), "a mark without a block, or misspelt"
    return found


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Commands and statements of a block as they stand there, each with the lines that it prints."""
    for part in re.split(r"^(?=\$ |>>> )", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        count = next((at for at, line in enumerate(lines) if at > 0 and not line.startswith("... ")), len(lines))
        count = count if part.startswith(">>> ") else 1
        yield "\n".join(lines[:count]), lines[count:]


def printed(command: str, session: dict[str, object]) -> list[str]:
    """The lines that a command prints, on stdout and stderr, without spaces at their ends."""
    if command.startswith(">>> "):
        output = io.StringIO()
        source = "\n".join(line[4:] for line in command.splitlines()) + "\n"
        with contextlib.redirect_stdout(output):
            exec(compile(source, "<page>", "single"), session)
        return [line.rstrip() for line in output.getvalue().splitlines()]
    program, *arguments = shlex.split(command.removeprefix("$ "))
    match program:
        case "tilestitch":
            text = CliRunner().invoke(cli.main, arguments, prog_name="tilestitch").output
        case "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                runpy.run_path(arguments[0], run_name="__main__")
            text = output.getvalue()
        case "cat":
            text = Path(arguments[0]).read_text(encoding="utf-8")
        case _:
            pytest.fail(f"no way to run {command!r}: a page shows tilestitch, python and cat", pytrace=False)
    return [line.rstrip() for line in text.splitlines()]


def passages(shown: list[str]) -> list[list[str]]:
    """The lines between those that are left out; the first and the last passage may be empty."""
    found: list[list[str]] = [[]]
    for line in shown:
        if line == LEFT_OUT:
            found.append([])
        else:
            found[-1].append(line)
    return found


def nearest(shown: list[str], lines: list[str]) -> list[str]:
    """What stands there, with each passage replaced by the part of the output that it is most alike."""
    first, *others = passages(shown)
    if not others:
        return lines
    found, at = lines[: len(first)], len(first)
    for number, passage in enumerate(others):
        length = len(passage)
        if number == len(others) - 1:
            at = len(lines) - length
        else:
            places = range(at, len(lines) - length + 1)
            at = max(places, key=lambda place: (_alike(passage, lines[place : place + length]), -place), default=at)
        found += [LEFT_OUT, *lines[at : at + length]]
        at += length
    return found


def rounded_as(shown: list[str], lines: list[str]) -> list[str]:
    """The lines, where they differ in a rounding error alone as they are shown."""
    if len(shown) != len(lines):
        return lines
    return [
        before if ROUNDED.sub("", before) == ROUNDED.sub("", line) else line
        for before, line in zip(shown, lines, strict=True)
    ]


def _alike(some: list[str], others: list[str]) -> float:
    return sum(SequenceMatcher(None, a, b, autojunk=False).ratio() for a, b in zip(some, others, strict=True))


@pytest.mark.parametrize(
    "page, kind",
    [(page, "checked") for page in PAGES]
    + [pytest.param(page, "checked slowly", marks=pytest.mark.slow) for page in PAGES],
)
def test_a_page_shows_what_comes_out(page, kind, tmp_path, monkeypatch, request):
    """Every command of the page, in order, prints the lines that stand behind it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workers, "cpu_count", lambda: 1)  # what is printed does not depend on it
    text = page_text(page)
    new, end, faults, session = [], 0, [], {}
    for block in blocks(text):
        now = block.text
        if block.kind == "file":
            Path(block.name).write_text(block.text, encoding="utf-8")
        elif kind == "checked slowly" and block.kind == "checked":
            for command, _ in commands(block.text):  # what comes later may need its files
                printed(command, session)
        elif block.kind == kind:
            now = ""
            for command, shown in commands(block.text):
                lines = rounded_as(shown, nearest(shown, printed(command, session)))
                faults += unified_diff(shown, lines, f"{page}: {command}", "what it prints", lineterm="")
                now += "\n".join([command, *lines, ""])
        new += [text[end : block.start], now]
        end = block.stop
    if request.config.getoption("--update-golden"):
        (ROOT / page).write_text("".join([*new, text[end:]]), encoding="utf-8")
    elif faults:
        pytest.fail("\n".join(faults) + "\nIf that is right: pytest --update-golden.", pytrace=False)


def test_lines_that_are_left_out_are_found_again():
    """The first and the last passage are tied to the ends; others move to where they are most alike."""
    lines = ["title", "a 1", "b 2", "c 3", "d 4", "end"]
    for shown in (lines, ["title", LEFT_OUT, "c 3", LEFT_OUT], ["title", "a 1", LEFT_OUT, "end"], [LEFT_OUT, "end"]):
        assert nearest(shown, lines) == shown
    assert nearest(["title", LEFT_OUT, "c 9", LEFT_OUT, "end"], lines) == ["title", LEFT_OUT, "c 3", LEFT_OUT, "end"]
    assert nearest(["title", "b 2"], lines) == lines
    assert nearest(["heading", LEFT_OUT], lines) == ["title", LEFT_OUT]


def test_only_a_rounding_error_may_differ():
    """It depends on the processor; what is allowed and the verdict do not."""
    shown = ["a", "  float32   error 3.84e-07   allowed 1.00e-05   PASSED"]
    assert rounded_as(shown, ["a", "  float32   error 6.40e-07   allowed 1.00e-05   PASSED"]) == shown
    for other in (["b", shown[1]], ["a", shown[1].replace("PASSED", "FAILED")], ["a"]):
        assert rounded_as(shown, other) == other


def test_statements_of_a_page_are_one_session():
    """A statement may go on over several lines; only what is printed is compared."""
    text = ">>> x = [\n...     4,\n... ]\n>>> x[0]\n5\n$ cat x\ny\n>>> y = x\n"
    found = list(commands(text))
    assert found == [(">>> x = [\n...     4,\n... ]", []), (">>> x[0]", ["5"]), ("$ cat x", ["y"]), (">>> y = x", [])]
    session: dict[str, object] = {}
    assert [printed(found[at][0], session) for at in (0, 1, 3)] == [[], ["4"], []]
    assert session["y"] == [4]


def test_make_run_is_the_command_that_the_readme_shows():
    """Its output is checked by that command's name."""
    (recipe,) = re.findall(r"^run:.*\n\t\$\(BIN\)/(.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert f"<!-- checked slowly -->\n```console\n$ {recipe}\n" in page_text("README.md")


def test_the_model_lists_the_vector_operations_of_every_kind():
    """The table beside `#vector-unit` has each kind of operator once, with the number that its rule says."""
    (section,) = re.findall(r"^## Vector unit\n(.*?)^## ", page_text("docs/model.md"), re.MULTILINE | re.DOTALL)
    listed = [
        (kind, int(count))
        for kinds, count in re.findall(r"^\| (`.*?`) \| (\d+) \|", section, re.MULTILINE)
        for kind in re.findall(r"`(\w+)`", kinds)
    ]
    moved = {*VIEWS, "gather", "generic"}
    assert sorted(listed) == sorted((kind, rule.operations) for kind, rule in RULES.items() if kind not in moved)


def anchors(page: str) -> set[str]:
    """What a link to a heading of the page may name."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page_text(page), flags=re.M | re.S), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_of_a_page_lead_somewhere(page):
    """To a file of the repository, and to a heading in it."""
    for link in re.findall(r"\]\((?!https?://)([^)\s]+)\)", page_text(page)):
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), link
        assert not anchor or anchor in anchors(str(target.resolve().relative_to(ROOT))), link


def test_links_of_the_readme_hold_on_a_package_index():
    """There they are written out by the substitutions of pyproject.toml."""
    hooks = tomllib.loads(page_text("pyproject.toml"))["tool"]["hatch"]["metadata"]["hooks"]
    text = page_text("README.md")
    for one in hooks["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(one["pattern"], one["replacement"], text)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(links) == len(re.findall(r"\]\(([^)\s]+)\)", page_text("README.md"))) > 10
    assert [link for link in links if not link.startswith("https://")] == []


def test_the_readme_is_short_and_its_picture_says_what_it_says():
    """The latencies of its first table are those of the picture."""
    text = page_text("README.md")
    assert text.count("\n") < 200
    (row,) = re.findall(r"^  latency \(simulated\) +([\d.]+) ms +([\d.]+) ms$", text, re.MULTILINE)
    shown = re.findall(r">([\d.]+)</text>", page_text("docs/pictures/resnet50.svg"))
    assert set(row) <= set(shown)


def test_sections_that_the_code_names_are_there():
    """`docs/model.md#estimate` in a docstring is a heading of that page."""
    for source in (ROOT / "src").rglob("*.py"):
        for page, anchor in re.findall(r"(docs/[\w/-]+\.md)#([\w-]+)", source.read_text(encoding="utf-8")):
            assert anchor in anchors(page), f"{source.name}: {page}#{anchor}"


@pytest.mark.parametrize("page", PAGES)
def test_tests_that_a_page_names_are_there(page):
    """`test_machines.py::test_the_toy_is_small` is a test of the one file of that name, and `tests/x.py` is a file."""
    for file, name in re.findall(r"`(test_\w+\.py)(?:::(\w+))?`", page_text(page)):
        (found,) = (ROOT / "tests").rglob(file)
        assert not name or f"def {name}(" in found.read_text(encoding="utf-8"), f"{file}::{name}"
    for path in re.findall(r"`(tests/[\w/]+\.py)`", page_text(page)):
        assert (ROOT / path).exists(), path
