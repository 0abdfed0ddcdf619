"""The code of the pages in the package is what `make page` builds from web/."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "tilestitch"


@pytest.mark.slow
def test_the_committed_bundle_is_a_fresh_build(tmp_path):
    """To the byte; the check of types and style passes. Needs the npm registry where web/node_modules is not there."""
    done = subprocess.run(
        [sys.executable, ROOT / "web" / "build.py", tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["diff.js", "page.css", "page.js", "results.js", "serve.css", "serve.js"]
    for name in names:
        place = PACKAGE / "serve" if name.startswith("serve.") else PACKAGE / "report" / "html"
        assert (tmp_path / name).read_bytes() == (place / name).read_bytes(), f"{name} is not that of web/: make page"
