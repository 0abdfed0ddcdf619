"""The case study from the networks to the plot, with Triton's interpreter in the place of a GPU."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tilestitch
from benchmarks import gpu_case_study
from benchmarks.gpu_case_study import MEASURING, Case, study
from benchmarks.gpu_networks import bert_layer, tailor
from tests.gpu.builds import without_our_modules

SCRIPT = Path(__file__).parent / "measure.py"
CHANNELS = ((8, 8, 1), (8, 16, 2))
TAILOR = Case("resnet18-tailor", tailor(CHANNELS, 12), 4, "convolutions", {"strides": [1, 2]})
BERT = Case("bert-base-layer", bert_layer(16, 32, 4), 2, "bert", {"heads": 4})
PIECES = tilestitch.HandSchedule("pieces", (tilestitch.HandGroup("all", pieces=2, axis=2),), "depth_first")


def measure(folder: Path) -> dict:
    """What `gpu_measuring` finds with the interpreter as its device; raises `ValueError` where it refuses."""
    command = [os.environ["TILESTITCH_GPU_PYTHON"], str(SCRIPT), str(MEASURING), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=without_our_modules())
    if done.returncode == 2:
        raise ValueError(done.stdout)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads((folder / "measured.json").read_text())


def with_wrong_weights(folder: Path) -> dict:
    """As above, after the weights of the fused build were doubled."""
    path = folder / "fused" / "weights.npz"
    with np.load(path) as arrays:
        doubled = {name: 2 * arrays[name] for name in arrays.files}
    np.savez(path, **doubled)
    return measure(folder)


@pytest.mark.parametrize("case, strategy", [(TAILOR, "one-block"), (TAILOR, PIECES), (BERT, "one-block")])
def test_the_study_goes_from_networks_to_a_plot(tmp_path, capsys, case, strategy):
    """All ways are right and timed, every kernel has both times, and what cannot be compiled says why."""
    study([case], "h200", strategy, tmp_path, measure, None)
    found = json.loads((tmp_path / "measured.json").read_text())
    [row] = found["rows"]
    compiled = case is TAILOR
    ways = {"fused", "unfused", "torch"} | ({"torch.compile"} if compiled else set())
    assert set(row["measured_ms"]) == set(row["errors"]) == ways
    assert row["not_measured"] == ({} if compiled else {"torch.compile": "no compiler is here"})
    assert all(time > 0 for time in row["measured_ms"].values())
    assert row["device"] == {"device": "Triton's interpreter", "timed": len(ways)}
    for way in ("fused", "unfused"):
        names = [one["kernel"] for one in row["kernels"][way]]
        spent = [one["measured_ms"] for one in row["kernels"][way]]
        assert len(set(spent)) == len(names) > 0  # no two clocks agree: each kernel has a time of its own
        assert min(spent) > 0
        assert (len(set(names)) < len(names)) == (strategy is PIECES)
        assert sum(one["simulated_ms"] for one in row["kernels"][way]) > 0
    assert found["cutlass_conv_pair"]["not_measured"].startswith("not installed")
    page = (tmp_path / "measured.html").read_text()
    assert "measured on Triton's interpreter" in page or "measured on Triton\\u0027s interpreter" in page
    text = capsys.readouterr().out
    assert "(measured); GraphTurbo: none (published)" in text


def test_results_are_compared_before_anything_is_timed(tmp_path):
    """A build whose results are wrong is not measured, and nothing is written."""
    with pytest.raises(ValueError, match=r"fused: error .* nothing was timed\. \(0 timed\)"):
        study([TAILOR], "h200", "one-block", tmp_path, with_wrong_weights, None)
    assert not (tmp_path / "measured.json").exists()
    assert not (tmp_path / "measured.html").exists()


def test_published_ratios_stand_beside_measured_ones(tmp_path, capsys):
    """Labelled as what they are; here at one of the paper's batches, with times that the test made up."""
    published = gpu_case_study.published("resnet18-tailor", 64)
    row = {
        "network": "resnet18-tailor",
        "batch": 64,
        "device": {"device": "none"},
        "measured_ms": {"fused": 2.0, "unfused": 3.0},
        "not_measured": {},
        "fused_is_faster_than": {"unfused": 1.5},
        "published_on_a100": published,
        "kernels": {"fused": [], "unfused": []},
    }
    gpu_case_study.written(tmp_path, [row], {"not_measured": "not installed"})
    text = "\n".join(gpu_case_study.lines([row], {"not_measured": "not installed"}))
    assert (
        "unfused 1.50 (measured); GraphTurbo: over TVM with CUTLASS 1.19, over CUTLASS fusion 1.01 (published)" in text
    )
    assert "over CUTLASS fusion (published)" in (tmp_path / "measured.html").read_text()


def test_a_machine_without_a_gpu_is_refused(tmp_path):
    """In one sentence, by what does the measuring; the study asks it before it builds anything."""
    python = os.environ["TILESTITCH_GPU_PYTHON"]
    assert gpu_case_study.missing(python) == "no GPU is here, so nothing can be measured."
    with pytest.raises(SystemExit) as refused:
        gpu_case_study.main(["--python", python, "-o", str(tmp_path / "out")])
    assert refused.value.code == 2
    assert not (tmp_path / "out").exists()
