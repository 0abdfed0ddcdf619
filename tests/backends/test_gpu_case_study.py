"""What of the GPU case study can be checked without a GPU."""

import importlib.util
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest

import tilestitch
from benchmarks import gpu_case_study
from benchmarks.gpu_networks import bert_layer, pair, tailor
from tilestitch import KernelOptions
from tilestitch.commands.build.run import kernels_of


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is here")
def test_without_torch_it_says_so_and_measures_nothing(tmp_path):
    """In one sentence, with exit code 2."""
    command = [sys.executable, "-m", "benchmarks.gpu_case_study", "-o", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: torch is not installed, so nothing can be measured.\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is here")
def test_measuring_itself_says_so_too(tmp_path):
    """And a Python that is not there is named."""
    done = subprocess.run([sys.executable, gpu_case_study.MEASURING, tmp_path], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "error: torch is not installed, so nothing can be measured.\n")
    nowhere = str(tmp_path / "python")
    assert gpu_case_study.missing(nowhere) == (
        f"{nowhere}: cannot be run (No such file or directory), so nothing can be measured."
    )


def test_a_folder_that_cannot_be_is_one_sentence(tmp_path, monkeypatch, capsys):
    """Before anything is built; so is a machine that is not known."""
    monkeypatch.setattr(gpu_case_study, "missing", lambda python: "")
    (tmp_path / "file").write_text("before")
    for options, message in (
        (["-o", str(tmp_path / "file")], "is not a folder"),
        (["-o", str(tmp_path / "out"), "--machine", "h300"], "h300"),
    ):
        with pytest.raises(SystemExit) as refused:
            gpu_case_study.main(options)
        assert refused.value.code == 2
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith("error: ")
        assert message in line
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


SAYS = """#!/bin/sh
echo 'Device: none'
echo 'Non-fusion time 0.25 ms'
echo Pass
echo 'Fusion time 2e-1 ms'
echo {last}
"""


def test_cutlass_is_found_where_it_is_built(tmp_path, monkeypatch):
    """Anywhere inside the folder that is named; its times count where it passed its own check."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert gpu_case_study.cutlass(None)["not_measured"].startswith("not installed: no 13_fused_two_convs")
    program = tmp_path / "examples" / gpu_case_study.CUTLASS
    program.parent.mkdir()
    program.write_text(SAYS.format(last="Pass"))
    program.chmod(0o755)
    found = gpu_case_study.cutlass(str(tmp_path))
    assert found == {"program": str(program), "fused_ms": 0.2, "unfused_ms": 0.25}
    program.write_text(SAYS.format(last="Fail"))
    assert "did not pass its own check" in gpu_case_study.cutlass(str(tmp_path))["not_measured"]


def test_published_ratios_are_those_of_the_paper():
    """1.23 and 1.06 on average over the four batches."""
    found = [gpu_case_study.published("resnet18-tailor", batch) for batch in gpu_case_study.BATCHES]
    tvm, cutlass = (np.mean([one[name] for one in found]) for name in ("over TVM with CUTLASS", "over CUTLASS fusion"))
    assert (round(tvm, 2), round(cutlass, 2)) == (1.23, 1.06)
    assert gpu_case_study.published("bert-base-layer", 1) == {}


def test_ratios_say_how_many_times_faster_the_fused_kernels_are():
    """Below 1 where they are slower."""
    assert gpu_case_study.ratios({"fused": 2.0, "unfused": 3.0, "torch": 1.0}) == {"unfused": 1.5, "torch": 0.5}


@pytest.mark.parametrize("iterations", [1, 4])
def test_simulated_times_of_kernels_add_up_to_the_latency(iterations):
    """One for each kernel of the schedule, all iterations together, of which none is charged to the first kernel."""
    model = tailor(((4, 8, 1), (8, 8, 2)), 8)
    options = tilestitch.Options(batch=4, batch_per_cluster=4 // iterations)
    done = tilestitch.compile(model, "h200", strategy="tvm", options=options)
    found = gpu_case_study.simulated_milliseconds(kernels_of(done, KernelOptions()))
    assert len(found) == 2
    assert max(found) < 0.8 * sum(found)
    assert done.trace is not None
    latency = done.trace.end_ticks.max() / done.trace.ticks_per_cycle / done.machine.clock_hz * 1e3
    assert sum(found) == pytest.approx(latency)


def test_both_networks_build_and_fuse():
    """Pairs of convolutions, and attention; the layer of BERT keeps the size of what it gets."""
    whatever_fits = KernelOptions(fuse="all")
    chain = tilestitch.build(tailor(((16, 16, 1),) * 4, 16), strategy="one-block", batch=2, kernels=whatever_fits)
    assert [row["form"] for row in chain.records()] == ["fused products"] * 2
    both = tilestitch.build(pair(16), strategy="one-block", batch=2, kernels=whatever_fits)
    assert [row["form"] for row in both.records()] == ["fused products"]
    model = bert_layer(16, 32, 4)
    layer = tilestitch.build(model, strategy="one-block", batch=2, kernels=KernelOptions(dtype="float32"))
    assert "attention" in [row["form"] for row in layer.records()]
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (out,) = session.run(None, {"x": np.ones((2, 16, 32), np.float32)})
    assert np.asarray(out).shape == (2, 16, 32)
