"""Builds that are run, on a GPU or in Triton's interpreter, and compared with onnxruntime."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from tilestitch.commands.build.run import Built
from tilestitch.zoo.inputs import sample_inputs

EXECUTE = Path(__file__).parent / "execute.py"
# Of the largest magnitude of an output. Of float32 as everywhere in Tilestitch; of float16 eight roundings (2^-11).
TOLERANCE = {"float32": 1e-5, "float16": 8 * 2.0**-11}


def written(folder: Path, built: Built) -> Path:
    """A build as files."""
    folder.mkdir()
    for name, content in built.files.items():
        (folder / name).write_bytes(content)
    return folder


def reference(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What onnxruntime gives, in float32."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    found = session.run(names, dict(inputs))
    return {name: np.asarray(value) for name, value in zip(names, found, strict=True)}


def without_our_modules() -> dict[str, str]:
    """The environment of another Python."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


def executed(folders: Sequence[Path], inputs: Mapping[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """The outputs of builds on the same inputs."""
    for folder in folders:
        np.savez(folder / "inputs.npz", allow_pickle=False, **inputs)
    command = [os.environ["TILESTITCH_GPU_PYTHON"], str(EXECUTE), *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=without_our_modules())
    assert done.returncode == 0, done.stderr[-4000:]
    found = []
    for folder in folders:
        with np.load(folder / "outputs.npz") as arrays:
            found.append({name: arrays[name] for name in arrays.files})
    return found


def expect_equal(tmp_path: Path, model: onnx.ModelProto, builds: Mapping[str, Built], batch: int) -> None:
    """Each build, by the type of its tensors and more, gives what onnxruntime gives."""
    inputs = sample_inputs(model, batch=batch)
    wanted = reference(model, inputs)
    folders = [written(tmp_path / name, built) for name, built in builds.items()]
    for name, found in zip(builds, executed(folders, inputs), strict=True):
        assert list(found) == list(wanted)
        for output, right in wanted.items():
            error = np.abs(found[output].astype(np.float32) - right).max() / np.abs(right).max()
            assert error <= TOLERANCE[name.split("-")[0]], f"{name}: {output}: error {error:.3g}"
