"""Run mutants: each is made in a temporary copy, and the tests that should notice run there.

It is caught where a test of `make test` fails; where the broken code cannot even be imported the mutant shows nothing,
and counts as broken. First the same tests pass on the code as it is.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.mutant import ROOT, Mutant, path_of

PROCESSES = 2
SECONDS = 600  # for one mutant; none comes near, but where other work shares the machine
SECONDS_WHOLE = 1800  # for all tests of all mutants on the code as it is
ELSEWHERE = 70  # exit status: the copy cannot be imported, or is not what was imported


class Verdict(StrEnum):
    """What became of a mutant."""

    CAUGHT = "caught"
    SURVIVED = "survived"
    BROKEN = "broken"  # no test failed and none passed: the mutant, or the table, is wrong


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of tests on one copy."""

    status: int | None  # of pytest; None when it ran out of time
    seconds: float
    output: str

    @property
    def verdict(self) -> Verdict:
        known = {0: Verdict.SURVIVED, 1: Verdict.CAUGHT}
        return known.get(self.status, Verdict.BROKEN) if self.status is not None else Verdict.BROKEN

    @property
    def by(self) -> str:
        """The first test that failed, or what went wrong instead."""
        failed = re.search(r"^(?:FAILED|ERROR) tests/(.+?)(?: - .*)?$", self.output, re.MULTILINE)
        if failed is not None and self.status == 1:
            return failed[1]
        lines = self.output.strip().splitlines() or ["no output"]
        return "" if self.status == 0 else f"status {self.status}: {lines[-1]}"


START = f"""
import pathlib, sys
try:
    import tilestitch.pipeline.compile, pytest
    found = pathlib.Path(tilestitch.__file__).resolve()
    if not found.is_relative_to(pathlib.Path(sys.argv[1]).resolve()):
        raise ImportError(f"{{found}} was imported, not the copy in {{sys.argv[1]}}")
except BaseException as error:
    print(f"{{type(error).__name__}}: {{error}}")
    sys.exit({ELSEWHERE})
sys.exit(pytest.main(sys.argv[2:]))
"""


def paths_of(tests: Sequence[str]) -> list[str]:
    """`test_x::test_y` as pytest wants it, each once."""
    found = []
    for name in dict.fromkeys(tests):
        module, colons, test = name.partition("::")
        path = path_of(module)
        assert path is not None
        found.append(f"{path.relative_to(ROOT).as_posix()}{colons}{test}")
    return found


def run_tests(copy: Path, tests: Sequence[str], seconds: int, *, interpreted: bool) -> Outcome:
    """Run tests on the package in `copy` until one fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {
        "PYTHONPATH": str(copy),
        "PYTHONDONTWRITEBYTECODE": "1",  # by its time and size, a mutant's bytecode might be taken for the original's
        "NUMBA_CACHE_DIR": str(copy.parent / "compiled"),
        "NUMBA_DISABLE_JIT": str(int(interpreted)),
        "HYPOTHESIS_PROFILE": "ci",
    }
    command = [
        sys.executable,
        "-c",
        START,
        str(copy),
        "-x",
        "-q",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
    ]
    begin = time.monotonic()
    try:
        done = subprocess.run(
            command + paths_of(tests), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return Outcome(None, time.monotonic() - begin, f"no end after {seconds} s")
    return Outcome(done.returncode, time.monotonic() - begin, done.stdout + done.stderr)


@contextmanager
def broken(copy: Path, mutant: Mutant):
    """The mistake in the copy, undone afterwards, to the time of its last change."""
    file = copy / "tilestitch" / mutant.file
    text, times = file.read_text(encoding="utf-8"), file.stat()
    file.write_text(text.replace(mutant.before, mutant.after), encoding="utf-8")
    try:
        yield
    finally:
        file.write_text(text, encoding="utf-8")
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def run_all(mutants: Sequence[Mutant], folder: Path) -> int:
    """Run the unbroken code and every mutant; 0 when all tests pass there and every mutant is caught."""
    copies: SimpleQueue[Path] = SimpleQueue()
    for number in range(PROCESSES):
        copy = folder / str(number) / "src"
        shutil.copytree(ROOT / "src", copy)  # with its bytecode and its times
        copies.put(copy)

    def job(tests: Sequence[str], mutant: Mutant | None, *, interpreted: bool) -> Outcome:
        copy = copies.get()
        try:
            if mutant is None:
                return run_tests(copy, tests, SECONDS_WHOLE, interpreted=interpreted)
            with broken(copy, mutant):
                return run_tests(copy, tests, SECONDS, interpreted=interpreted)
        finally:
            copies.put(copy)

    with ThreadPoolExecutor(PROCESSES) as pool:
        whole: list[Future[Outcome]] = []
        for interpreted in (False, True):
            tests = [test for mutant in mutants if mutant.interpreted is interpreted for test in mutant.tests]
            if tests:
                whole.append(pool.submit(job, tests, None, interpreted=interpreted))
        runs = [pool.submit(job, mutant.tests, mutant, interpreted=mutant.interpreted) for mutant in mutants]
        for run in whole:
            if run.result().status != 0:
                pool.shutdown(cancel_futures=True)
                print(f"the code as it is does not pass:\n{run.result().output}")
                return 2
        print(f"{'as it is':9s} {max(run.result().seconds for run in whole):5.1f} s  passes all of these tests")
        for mutant, run in zip(mutants, runs, strict=True):
            outcome = run.result()
            print(f"{outcome.verdict:9s} {outcome.seconds:5.1f} s  {mutant.name:68s} {outcome.by}", flush=True)
    verdicts = [run.result().verdict for run in runs]
    caught = verdicts.count(Verdict.CAUGHT)
    print(f"{len(mutants)} mutants, {caught} caught")
    return 0 if caught == len(mutants) else 1
