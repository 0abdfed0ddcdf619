"""Runs builds: python execute.py FOLDER..., each with inputs.npz, which gives outputs.npz.

On a GPU where there is one, otherwise in Triton's interpreter. It runs in the environment with torch and Triton, which
has nothing of Tilestitch.
"""

import importlib.util
import os
import sys
from pathlib import Path

import numpy as np
import torch  # pyright: ignore[reportMissingImports]

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before the modules import Triton

if not hasattr(torch.Tensor, "untyped_storage"):  # torch 1.13, of which the interpreter of Triton 3.5 asks this
    torch.Tensor.untyped_storage = lambda tensor: tensor.storage().untyped()


def run(folder: Path) -> None:
    """Run one build on the inputs in its folder."""
    spec = importlib.util.spec_from_file_location("network", folder / "network.py")
    assert spec is not None
    assert spec.loader is not None
    network = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(network)
    with np.load(folder / "inputs.npz") as arrays:
        inputs = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    outputs = network.Network().run(inputs)
    np.savez(folder / "outputs.npz", **{name: value.cpu().numpy() for name, value in outputs.items()})


if __name__ == "__main__":
    for name in sys.argv[1:]:
        run(Path(name))
