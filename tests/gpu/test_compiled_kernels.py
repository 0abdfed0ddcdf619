"""Kernels of every form become machine code for an A100 and an H200, by Triton's own compiler; no GPU is needed."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from onnxruntime.quantization import QuantType

import tilestitch
from benchmarks.gpu_networks import tailor
from tests.gpu.builds import without_our_modules, written
from tests.helpers.quantised_networks import quantised, residual_network
from tilestitch import KernelOptions
from tilestitch.base.dtypes import DType

# Of a thread block at most: CUDA C++ Programming Guide, technical specifications per compute capability.
SHARED_BYTES = {80: 163 * 1024, 90: 227 * 1024}
_POINTERS = {DType.FLOAT16: "*fp16", DType.FLOAT32: "*fp32", DType.INT32: "*i32", DType.INT8: "*i8"}
_POINTERS |= {DType.UINT8: "*u8", DType.BOOL: "*i1"}


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_every_form_of_kernel_compiles(tmp_path, dtype):
    """One kernel of each form and network: to a cubin for sm_80 and for sm_90."""
    bytes_of = quantised(residual_network(), tmp_path, activations=QuantType.QUInt8, per_channel=True)
    forms = set()
    for name, model in (("bert", "bert-base-128:small"), ("tailor", tailor(((64, 64, 1),) * 2, 8)), ("q", bytes_of)):
        built = tilestitch.build(model, strategy="one-block", batch=1, kernels=KernelOptions(dtype=dtype))
        folder = written(tmp_path / name, built)
        rows = _first_of_each_form(built)
        (folder / "kernels.json").write_text(json.dumps(rows), encoding="utf-8")
        kept = {**without_our_modules(), "TRITON_CACHE_DIR": str(tmp_path / "cache")}
        script = str(Path(__file__).parent / "compile_kernels.py")
        command = [os.environ["TILESTITCH_GPU_PYTHON"], script, str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=kept)
        assert done.returncode == 0, done.stderr[-4000:]
        made = [json.loads(line) for line in done.stdout.splitlines()]
        # By these names torch's profiler knows kernels.
        assert [one["name"] for one in made] == [row["kernel"] for row in rows for _ in SHARED_BYTES]
        for one in made:
            assert one["bytes"] > 1000
            assert one["shared_bytes"] <= SHARED_BYTES[one["sm"]], one
        forms |= {row["form"] for row in rows}
    assert forms == {"products", "fused products", "attention", "rows", "elements"}


def _first_of_each_form(built: tilestitch.Built) -> list[dict]:
    """The first kernel of each form, with what a compiler must know of it."""
    found: dict[str, dict] = {}
    graph, storage = built.plan.schedule.graph, built.plan.storage
    for module in built.plan.modules:
        for one in module.launches:
            pointers = [_POINTERS[storage.dtype(graph.tensors[tensor].dtype)] for tensor in one.reads]
            row = {"module": module.name, "kernel": one.name, "form": one.form, "pointers": pointers}
            found.setdefault(one.form, {**row, "blocks": dict(one.blocks), "warps": one.warps})
    return list(found.values())
