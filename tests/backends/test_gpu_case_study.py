"""What of the GPU case study can be checked without a GPU."""

import importlib.util
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest

import tilestitch
from benchmarks import gpu_case_study
from tilestitch import KernelOptions


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is here")
def test_without_torch_it_says_so_and_measures_nothing(tmp_path):
    """In one sentence, with exit code 2."""
    command = [sys.executable, "-m", "benchmarks.gpu_case_study", "-o", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: torch is not installed, so nothing can be measured.\n"
    assert not (tmp_path / "out").exists()


def test_published_ratios_are_those_of_the_paper():
    """1.23 and 1.06 on average over the four batches."""
    found = [gpu_case_study.published("resnet18-tailor", batch) for batch in gpu_case_study.BATCHES]
    tvm, cutlass = (np.mean([one[name] for one in found]) for name in ("over TVM with CUTLASS", "over CUTLASS fusion"))
    assert (round(tvm, 2), round(cutlass, 2)) == (1.23, 1.06)
    assert gpu_case_study.published("bert-base-layer", 1) == {}


def test_ratios_say_how_many_times_faster_the_fused_kernels_are():
    """Below 1 where they are slower."""
    assert gpu_case_study.ratios({"fused": 2.0, "unfused": 3.0, "torch": 1.0}) == {"unfused": 1.5, "torch": 0.5}


def test_simulated_times_of_kernels_add_up_to_the_latency():
    """One for each kernel of the schedule."""
    model = gpu_case_study.tailor(((4, 8, 1), (8, 8, 2)), 8)
    built = tilestitch.build(model, strategy="tvm", batch=2)
    done = tilestitch.compile(model, "h200", strategy="tvm", batch=2)
    found = gpu_case_study.simulated_milliseconds(tilestitch.Built(done, built.plan, {}))
    assert len(found) == 2
    assert done.trace is not None
    latency = done.trace.end_ticks.max() / done.trace.ticks_per_cycle / done.machine.clock_hz * 1e3
    assert sum(found) == pytest.approx(latency)


def test_both_networks_build_and_fuse():
    """Pairs of convolutions, and attention; the layer of BERT keeps the size of what it gets."""
    chain = tilestitch.build(gpu_case_study.tailor(((16, 16, 1),) * 4, 16), strategy="one-block", batch=2)
    assert [row["form"] for row in chain.records()] == ["fused products"] * 2
    model = gpu_case_study.bert_layer(16, 32, 4)
    layer = tilestitch.build(model, strategy="one-block", batch=2, kernels=KernelOptions(dtype="float32"))
    assert "attention" in [row["form"] for row in layer.records()]
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (out,) = session.run(None, {"x": np.ones((2, 16, 32), np.float32)})
    assert np.asarray(out).shape == (2, 16, 32)
