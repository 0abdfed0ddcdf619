"""The network that a build writes, as a program: what it prints, and one sentence where it cannot run."""

import os
import subprocess

import pytest

import tilestitch
from tests.gpu.builds import without_our_modules, written

AS_PROGRAM = "import runpy, sys; {before}; runpy.run_path(sys.argv[1], run_name='__main__')"
# torch 1.13 lacks what the interpreter of Triton 3.5 asks for.
OLD_TORCH = "import torch; torch.Tensor.untyped_storage = lambda tensor: tensor.storage().untyped()"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    built = tilestitch.build("resnet18:small", strategy="one-block", batch=2)
    return written(tmp_path_factory.mktemp("runner") / "out", built)


def program(folder, before="pass", **variables) -> subprocess.CompletedProcess:
    """Run the network in the environment with torch and Triton, after some statements."""
    command = [os.environ["TILESTITCH_GPU_PYTHON"], "-c", AS_PROGRAM.format(before=before), folder / "network.py"]
    environment = {**without_our_modules(), **variables}
    return subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)


def test_it_runs_on_inputs_drawn_at_random(folder):
    """And prints every output."""
    done = program(folder, OLD_TORCH, TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("logits: torch.float16 (2, ")


def test_without_a_gpu_it_says_so(folder):
    """And how it runs without."""
    done = program(folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: no GPU is here; set TRITON_INTERPRET=1 to run the kernels in Triton's interpreter on the CPU.\n"
    )


def test_without_triton_it_says_so(folder):
    """Where torch is there."""
    done = program(folder, "sys.modules['triton'] = None")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: triton is not installed, and these kernels need numpy, torch and triton; install it.\n"
    )


@pytest.mark.parametrize("name", ["weights.npz", "module"])
def test_a_file_that_is_gone_is_named(folder, name):
    """In one line."""
    path = next(folder.glob("g*.py")) if name == "module" else folder / name
    content = path.read_bytes()
    path.unlink()
    done = program(folder, TRITON_INTERPRET="1")
    path.write_bytes(content)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {path}: cannot be read (No such file or directory); build the network again.\n"
