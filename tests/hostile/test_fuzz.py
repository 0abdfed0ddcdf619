"""Random and damaged inputs: whatever comes, it is compiled or refused in one clear error, in bounded time."""

import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hostile import fuzzing
from tests.hostile.inputs.making import whole
from tilestitch import api
from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.hardware.describe import describe
from tilestitch.hardware.load import parse_machine
from tilestitch.hardware.preset_files import chip_names
from tilestitch.ir.report import Outcome

SECONDS = 60  # for one input: far more than any needs
SEEDS = st.integers(0, 2**32 - 1)
QUICK, HARD = settings(max_examples=20), settings(max_examples=3000)
FIXTURES = sorted((Path(__file__).parent.parent / "fixtures" / "pytorch").glob("*.onnx"))
LIGHT = sorted((Path(onnx.__file__).parent / "backend" / "test" / "data" / "light").glob("*.onnx"))
PRESETS = sorted(
    (files("tilestitch.hardware").joinpath(f"presets/{name}.yaml") for name in chip_names()),
    key=lambda preset: preset.name,
)


class TookTooLongError(BaseException):
    """Past every `except Exception`."""


@contextmanager
def in_time() -> Iterator[None]:
    """Ends what takes too long."""

    def stop(number: int, frame: object) -> None:
        raise TookTooLongError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(model: onnx.ModelProto | Path | str, machine: object = "toy", *, verify: bool = False) -> str:
    """`compiled`, `refused` or `too large`; any other error is the caller's, and so is a wrong result."""
    message = None
    with in_time():
        try:
            found = api.compile(model, machine, verify=verify)
        except InputError as error:
            message = str(error)
        except DoesNotFit:
            return "too large"
    if message is not None:
        assert all(c.isprintable() for c in message.replace("\n", "")), repr(message)
        return "refused"
    assert not verify or found.report.outcome in (Outcome.PASSED, Outcome.INCONCLUSIVE), found.report.checks
    return "compiled"


def try_network(seed: int) -> None:
    outcome(fuzzing.RandomNetwork(seed).model(), verify=True)


def try_machine(seed: int) -> None:
    text = random.Random(seed).choice(PRESETS).read_text(encoding="utf-8")
    with in_time():
        try:
            machine = parse_machine(fuzzing.changed_machine(text, seed), "mine.yaml")
        except InputError:
            return
    assert describe(machine)
    outcome(whole() if seed % 3 else "resnet18:small", machine, verify=True)


def try_file(seed: int, paths: list[Path], folder: Path) -> None:
    rng = random.Random(seed)
    data = [path.read_bytes() for path in rng.sample(paths, 2)]
    (folder / "net.onnx").write_bytes(fuzzing.damaged(data[0], seed, data))
    outcome(folder / "net.onnx")


@QUICK
@given(SEEDS)
def test_a_random_network_is_compiled_or_refused(seed):
    """What is compiled gives what onnxruntime gives."""
    try_network(seed)


@QUICK
@given(SEEDS)
def test_a_random_machine_is_compiled_for_or_refused(seed):
    """One to three values of a preset are others."""
    try_machine(seed)


@QUICK
@given(SEEDS)
def test_a_damaged_file_is_compiled_or_refused(tmp_path_factory, seed):
    """One to four accidents in the bytes of an export."""
    try_file(seed, FIXTURES, tmp_path_factory.getbasetemp())


@pytest.mark.slow
@HARD
@given(SEEDS)
def test_many_random_networks_are_compiled_or_refused(seed):
    try_network(seed)


@pytest.mark.slow
@HARD
@given(SEEDS)
def test_many_random_machines_are_compiled_for_or_refused(seed):
    try_machine(seed)


@pytest.mark.slow
@HARD
@given(SEEDS)
def test_many_damaged_files_are_compiled_or_refused(tmp_path_factory, seed):
    try_file(seed, FIXTURES, tmp_path_factory.getbasetemp())


@pytest.mark.slow
@settings(max_examples=200)
@given(SEEDS)
def test_damaged_networks_of_the_onnx_project_are_compiled_or_refused(tmp_path_factory, seed):
    """They are larger, and their weights are constants that are computed while reading."""
    try_file(seed, LIGHT, tmp_path_factory.getbasetemp())
