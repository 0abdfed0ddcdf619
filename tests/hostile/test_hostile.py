"""Hostile inputs: each ends in one clear error, soon, in bounded memory, and leaves nothing behind."""

import json
import re
import resource
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.hostile.inputs import GROUPS, making
from tests.hostile.inputs.contest import CHAIN
from tests.hostile.inputs.making import Hostile
from tilestitch import api
from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.cli import main as cli
from tilestitch.commands.contest.instance import parse_instance
from tilestitch.commands.contest.rules import PUBLISHED
from tilestitch.commands.contest.solve import solve

SECONDS = 10.0  # of processor time, which pages that are touched first may multiply on a busy computer
CLICK = re.compile("Invalid value for|No such (option|command)|Option '|Got unexpected|Missing argument")
KNOWN = re.compile("(Known:|known presets:).*")  # lists that grow
MEMORY_BYTES = 2**31  # beyond what the process has before


@pytest.fixture(scope="module", autouse=True)
def _everything_imported() -> None:
    """And compiled: neither is the time of an input."""
    assert api.compile("resnet18:small", "toy", verify=True).report.verified
    assert solve(parse_instance(json.dumps(CHAIN), "chain"), PUBLISHED).total


@pytest.fixture
def bounded():
    """Less memory for whatever runs: a huge allocation fails at once."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY_BYTES, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def answer(hostile: Hostile) -> tuple[int, str, str]:
    """Exit code, stdout and stderr; those that the command would have for a call of the Python API."""
    if callable(hostile.asked):
        try:
            hostile.asked()
        except (InputError, DoesNotFit) as error:
            return 2, "", f"error: {error}\n"
        return 0, "", ""
    arguments = hostile.asked if isinstance(hostile.asked, list) else hostile.asked.split()
    result = CliRunner().invoke(cli.main, arguments, prog_name="tilestitch")
    return result.exit_code, result.stdout, result.stderr


def faults(hostile: Hostile, folder: Path) -> tuple[list[str], str]:
    """What is wrong with how an input is refused, and the message."""
    before = sorted(folder.rglob("*"))
    begin = time.process_time()
    code, stdout, stderr = answer(hostile)
    seconds = time.process_time() - begin
    found = []
    if code != 2:
        found.append(f"exit code {code}")
    if stdout:
        found.append(f"prints {stdout[:100]!r}")
    if not stderr.startswith("error: ") or "Traceback" in stderr or "bug of Tilestitch" in stderr:
        found.append(f"is not one error: {stderr[:500]!r}")
    if stderr.count("error: ") > 1 or any(not c.isprintable() for c in stderr.replace("\n", "")):
        found.append(f"is not one clear text: {stderr[:500]!r}")
    if "out of memory" in stderr or seconds > SECONDS:
        found.append(f"is refused only after {seconds:.1f} s: {stderr[:100]!r}")
    if sorted(folder.rglob("*")) != before:
        found.append(f"leaves {sorted(str(path.relative_to(folder)) for path in folder.rglob('*'))}")
    return [f"{hostile.name}: {fault}" for fault in found], stderr.removeprefix("error: ")


@pytest.mark.parametrize("group", GROUPS)
def test_a_hostile_input_is_one_clear_error(
    group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Callable[[str, str], None], bounded: None
):
    """Exit code 2, no traceback, nothing printed, nothing written; the messages are in a golden file per group."""
    wrong, texts = [], []
    for number, hostile in enumerate(GROUPS[group]):
        folder = tmp_path / str(number)
        folder.mkdir()
        monkeypatch.chdir(folder)
        hostile.make()
        found, message = faults(hostile, folder)
        wrong += found
        lines = [KNOWN.sub(r"\1 ...", line.replace(str(folder), "...")) for line in message.splitlines()]
        if hostile.others_say:
            if hostile.others_say not in message:
                wrong.append(f"{hostile.name}: expected {hostile.others_say!r} in {message[:500]!r}")
            lines = [f"{message[: message.index('): ')]}): in the words of others"]
        elif CLICK.match(message):
            lines = ["in the words of click"]
        texts.append("\n  ".join((f"{hostile.name}:", *lines[:5])))
    assert not wrong, "\n".join(wrong)
    golden(f"hostile/{group}.txt", "\n".join(texts) + "\n")


def test_there_are_many_hostile_inputs_each_of_its_own_name():
    """So that a message can be found by what it is about."""
    names = [(group, hostile.name) for group, rows in GROUPS.items() for hostile in rows]
    assert len(names) >= 150
    assert len(set(names)) == len(names)


def test_what_the_hostile_networks_start_from_is_right():
    """Otherwise each refusal could be about something else."""
    for network in (making.whole(), making.model(making.RELU)):
        assert api.compile(network, "toy", verify=True).report.verified
