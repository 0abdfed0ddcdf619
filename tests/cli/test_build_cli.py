"""`tilestitch build` where it cannot do what is asked: one sentence, exit code 2, and nothing half-written.

And the network that it wrote, where it cannot run.
"""

import errno
import importlib.util
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.helpers.command import names_in, run, start
from tilestitch.base import files
from tilestitch.commands.build import run as building

NETWORK = ("build", "resnet18:small", "--machine", "h200", "--strategy", "tvm")

SIGNAL = """
import os, signal
import tilestitch.commands.build.run, tilestitch.pipeline.networks, tilestitch.pipeline.stages
from tilestitch.base import files

def interrupting(function):
    def wrapped(*arguments, **options):
        os.kill(os.getpid(), signal.{signal})
        return function(*arguments, **options)
    return wrapped

{place} = interrupting({place})
"""


def one_error(result) -> str:
    """The only line of a refusal."""
    assert result.exit_code == 2, result.output
    [line] = result.stderr.splitlines()
    return line


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    """Neither the folder nor one of its files."""
    synced = []

    def full(number):
        synced.append(number)
        if len(synced) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    line = one_error(run(*NETWORK, "-o", tmp_path / "out"))
    assert "cannot be written (No space left on device)" in line
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path, monkeypatch):
    """Nothing is scheduled then."""
    monkeypatch.setattr(files.os, "access", lambda path, mode: False)
    monkeypatch.setattr(building, "build", None)
    assert f"no permission to write in {tmp_path}" in one_error(run(*NETWORK, "-o", tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_empty_is_refused_before_the_work(tmp_path, monkeypatch):
    """Modules of another network would lie among the new ones; what is there stays."""
    (tmp_path / "g0_other.py").write_text("before")
    monkeypatch.setattr(building, "build", None)
    assert "is not empty (it has g0_other.py)" in one_error(run(*NETWORK, "-o", tmp_path))
    assert (tmp_path / "g0_other.py").read_text() == "before"
    assert names_in(tmp_path) == ["g0_other.py"]


def test_a_file_is_no_folder(tmp_path, monkeypatch):
    """It stays what it was."""
    (tmp_path / "out").write_text("before")
    monkeypatch.setattr(building, "build", None)
    assert "is not a folder" in one_error(run(*NETWORK, "-o", tmp_path / "out"))
    assert (tmp_path / "out").read_text() == "before"


def test_an_empty_folder_is_filled(tmp_path):
    """With what the text says."""
    done = run(*NETWORK, "-o", tmp_path)
    assert done.exit_code == 0, done.output
    names = names_in(tmp_path)
    assert {"network.py", "weights.npz"} < {*names}
    assert all(f"  {name}\n" in done.stdout for name in names if name.startswith("g"))


@pytest.mark.parametrize("machine", ["toy", "eyeriss", "gemmini", "tpu-v4i"])
def test_a_machine_that_is_no_gpu_is_refused(tmp_path, machine):
    """A chip, an array and trees of other processors."""
    line = one_error(run("build", "resnet18:small", "--machine", machine, "-o", tmp_path / "out"))
    assert "is no GPU" in line
    assert "such as a100 or h200" in line
    assert list(tmp_path.iterdir()) == []


def test_an_operator_that_is_not_there_is_refused(tmp_path):
    """By its name, with those that are there."""
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 8])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([helper.make_node("CumSum", ["x", "axis"], ["y"], name="sums")], "g", inputs, outputs)
    graph.initializer.append(onnx.numpy_helper.from_array(np.array(1), "axis"))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "sums.onnx")
    line = one_error(run("build", tmp_path / "sums.onnx", "--machine", "h200", "-o", tmp_path / "out"))
    assert "operator 'sums' (cum_sum): the Triton back end does not have it; it has " in line
    assert names_in(tmp_path) == ["sums.onnx"]


@pytest.mark.parametrize(
    "place, name, code",
    [
        ("tilestitch.pipeline.networks.read_onnx", "SIGTERM", 143),
        ("tilestitch.commands.build.run.plan", "SIGINT", 130),
        ("files.os.fsync", "SIGINT", 130),
    ],
)
def test_an_interrupted_build_leaves_nothing(tmp_path, place, name, code):
    """While the network is read, while kernels are written, and while files are."""
    process = start(*NETWORK, "-o", tmp_path / "out", before=SIGNAL.format(signal=name, place=place))
    text, complaint = process.communicate(timeout=300)
    assert (process.returncode, text) == (code, b"")
    assert complaint.strip() in (b"error: interrupted", b"error: terminated")
    assert names_in(tmp_path) == []


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is here")
def test_a_network_says_what_it_needs(tmp_path):
    """As a program in one line with exit code 2, as a module in an ImportError."""
    assert run(*NETWORK, "-o", tmp_path).exit_code == 0
    done = subprocess.run([sys.executable, tmp_path / "network.py"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: torch is not installed, and these kernels need numpy, torch and triton; install it.\n"
    )
    command = [sys.executable, "-c", "import network"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr.splitlines()[-1].startswith("ImportError: torch is not installed, and these kernels need")
