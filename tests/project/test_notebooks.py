"""The notebooks of examples/: stored without outputs, and each runs from the first cell to the last."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parent.parent.parent
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
SECONDS = 300  # of one cell, the first of which translates inner loops to machine code


def test_there_are_four():
    assert [path.stem for path in NOTEBOOKS] == [
        "a_proven_mapping",
        "first_steps",
        "which_of_two_machines",
        "why_is_this_layer_slow",
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path):
    """So that it is the same whoever saved it."""
    found = nbformat.read(path, as_version=4)
    nbformat.validate(found)
    for cell in found.cells:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None
    assert set(found.metadata) == {"kernelspec", "language_info"}


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_it_made(path, tmp_path):
    """Values as tables; a page in a frame, which fetches nothing."""
    found = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(found, timeout=SECONDS, kernel_name="python3", resources=resources).execute()
    outputs = [output for cell in found.cells for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
    shown = [output.data["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    assert any("<table>" in html for html in shown)
    assert any("<iframe srcdoc=" in html for html in shown) == any("to_html()" in cell.source for cell in found.cells)
    assert [link for html in shown for link in re.findall(r"(?:src|href)=[\"']?(https?:[^\"' >]+)", html)] == []
