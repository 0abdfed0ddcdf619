"""Runs `benchmarks/gpu_measuring.py` without a GPU: python measure.py MEASURING FOLDER, in Triton's interpreter.

Everything is as on a GPU but the device: its clock is that of the CPU, and nothing is captured or compiled by torch.
It runs in the environment with torch and Triton, which has nothing of Tilestitch.
"""

import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from statistics import median

os.environ["TRITON_INTERPRET"] = "1"

import torch  # pyright: ignore[reportMissingImports]

if not hasattr(torch.Tensor, "untyped_storage"):  # torch 1.13, of which the interpreter of Triton 3.5 asks this
    torch.Tensor.untyped_storage = lambda tensor: tensor.storage().untyped()
if not hasattr(torch.nn.functional, "scaled_dot_product_attention"):  # since torch 2.0

    def attention(q, k, v):
        return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v

    torch.nn.functional.scaled_dot_product_attention = attention


class Timed:
    """A kernel that writes down how long it was at work."""

    def __init__(self, kernel, name, found):
        self.kernel, self.name, self.found = kernel, name, found

    def __getitem__(self, grid):
        def launched(*arguments, **options):
            start = time.perf_counter()
            self.kernel[grid](*arguments, **options)
            self.found.append((self.name, (time.perf_counter() - start) * 1e3))

        return launched


class Interpreter:
    """A device for tests: torch on the CPU, kernels in Triton's interpreter."""

    def __init__(self):
        # torch on a CPU has no convolutions in float16
        self.place, self.floats, self.timed = torch.device("cpu"), torch.float32, 0

    def about(self):
        return {"device": "Triton's interpreter", "timed": self.timed}

    def compiled(self, function):
        def refused(x):
            raise RuntimeError("no compiler is here\nand so on")

        return refused if of_bert(function) else function

    def captured(self, run):
        return run

    def milliseconds(self, run):
        self.timed += 1
        found = []
        for _ in range(3):
            start = time.perf_counter()
            run()
            found.append((time.perf_counter() - start) * 1e3)
        return median(found)

    def kernels(self, network, run, names, runs):
        found = []
        for module, _, _ in network.modules:
            for name in vars(module):
                if name.endswith("_kernel") or "_kernel_" in name:
                    setattr(module, name, Timed(getattr(module, name), name, found))
        for _ in range(runs):
            run()
        return found


def of_bert(function):
    """Whether a function is the one of BERT: there compiling fails, as it does without a compiler of C."""
    return "bert_in_torch" in function.__qualname__


if __name__ == "__main__":
    spec = importlib.util.spec_from_file_location("gpu_measuring", sys.argv[1])
    assert spec is not None
    assert spec.loader is not None
    measuring = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(measuring)
    vars(measuring)["PROFILED"] = 3  # runs in which kernels are timed one by one
    folder, device = Path(sys.argv[2]), Interpreter()
    try:
        found = measuring.measured(folder, device)
    except ValueError as error:
        print(f"{error} ({device.timed} timed)")
        raise SystemExit(2) from None
    (folder / "measured.json").write_text(json.dumps(found))
