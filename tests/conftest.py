"""What every test may use: golden files, and properties that try the same examples on every run."""

import difflib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tilestitch.base.translation import Helper

GOLDEN = Path(__file__).parent / "golden"

# No deadline: the first call of a compiled function takes seconds.
settings.register_profile("ci", derandomize=True, deadline=None, max_examples=25)
settings.register_profile("slow", derandomize=True, deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files instead of comparing with them"
    )


@pytest.fixture(autouse=True, scope="session")
def alone() -> Iterator[None]:
    """No second process translates ahead of a command: other tests keep the other cores busy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Helper, "start", lambda helper, function: None)
        yield


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Assert that a text is, to the byte, what the file `tests/golden/<name>` holds: `golden(name, text)`."""
    update: bool = request.config.getoption("--update-golden")

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
            return
        way_out = "If the new text is right: pytest --update-golden, then read the diff."
        if not path.exists():
            pytest.fail(f"there is no golden file {name!r} yet; the text is\n{text}\n{way_out}", pytrace=False)
        known = path.read_bytes().decode()
        if text == known:
            return
        diff = difflib.unified_diff(known.splitlines(), text.splitlines(), f"golden/{name}", "this run", lineterm="")
        shown = "\n".join(diff) or "only the ends of lines differ"
        pytest.fail(f"golden file {name!r} and this run differ:\n{shown}\n{way_out}", pytrace=False)

    return compare
