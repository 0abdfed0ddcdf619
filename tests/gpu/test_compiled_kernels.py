"""Kernels of every form become machine code for an A100 and an H200, by Triton's own compiler; no GPU is needed."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from onnxruntime.quantization import QuantType

import tilestitch
from benchmarks.gpu_case_study import cases
from benchmarks.gpu_networks import tailor
from tests.gpu.builds import without_our_modules, written
from tests.gpu.chains import BOTTLENECK, INVERTED_RESIDUAL, chained, perceptron
from tests.helpers.quantised_networks import quantised, residual_network
from tilestitch import KernelOptions
from tilestitch.base.dtypes import DType
from tilestitch.commands.build.run import kernels_of
from tilestitch.ops.contraction import KINDS

# Of a thread block at most: CUDA C++ Programming Guide, technical specifications per compute capability.
SHARED_BYTES = {80: 163 * 1024, 90: 227 * 1024}
_POINTERS = {DType.FLOAT16: "*fp16", DType.FLOAT32: "*fp32", DType.INT32: "*i32", DType.INT8: "*i8"}
_POINTERS |= {DType.UINT8: "*u8", DType.BOOL: "*i1"}


FORMS = ("bert", "tailor", "quantised", "perceptron")
TILES = ("residual", "bottleneck")  # in float32 without tensor cores, which takes the compiler minutes


@pytest.mark.parametrize(
    "dtype, names",
    [("float16", FORMS + TILES), ("float32", FORMS), pytest.param("float32", TILES, marks=pytest.mark.slow)],
)
def test_every_form_of_kernel_compiles(tmp_path, dtype, names):
    """One kernel of each form and number of products: to a cubin for sm_80 and for sm_90."""
    bytes_of = quantised(residual_network(), tmp_path, activations=QuantType.QUInt8, per_channel=True)
    models = {
        "bert": "bert-base-128:small",
        "tailor": tailor(((64, 64, 1),) * 2, 8),
        "quantised": bytes_of,
        "residual": chained(INVERTED_RESIDUAL, (14, 14), 16),
        "bottleneck": chained(BOTTLENECK, (14, 14), 128),
        "perceptron": perceptron((256, 256, 256, 128), 64),
    }
    forms = set()
    for name in names:
        built = tilestitch.build(
            models[name], strategy="one-block", batch=1, kernels=KernelOptions(dtype=dtype, fuse="all")
        )
        folder = written(tmp_path / name, built)
        rows = _first_of_each_form(built)
        (folder / "kernels.json").write_text(json.dumps(rows), encoding="utf-8")
        for one in compiled(folder, rows):
            assert one["bytes"] > 1000
            assert one["shared_bytes"] <= SHARED_BYTES[one["sm"]], one
        forms |= {row["form"] for row in rows}
        if name in ("perceptron", *TILES):
            assert max(row["products"] for row in rows) == 3, name
    assert forms >= ({"products", "fused products", "attention", "rows", "elements"} if names != TILES else set())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18-tailor", "conv-pair", "bert-base-layer"])
def test_kernels_of_the_case_study_compile(tmp_path, name):
    """Every kernel that is measured, fused and not, at its size: it has room on chip."""
    case = next(case for case in cases((64,)) if case.name == name)
    done = tilestitch.compile(case.model, "h200", strategy="graphturbo", batch=case.batch)
    for fuse in ("fast", "all", "none"):
        built = kernels_of(done, KernelOptions(fuse=fuse))
        folder = written(tmp_path / fuse, built)
        rows = _rows(built)
        (folder / "kernels.json").write_text(json.dumps(rows), encoding="utf-8")
        for one in compiled(folder, rows):
            assert one["shared_bytes"] <= SHARED_BYTES[one["sm"]], one


def compiled(folder: Path, rows: list[dict]) -> list[dict]:
    """What Triton's compiler made of kernels, for sm_80 and sm_90."""
    kept = {**without_our_modules(), "TRITON_CACHE_DIR": str(folder / "cache")}
    script = str(Path(__file__).parent / "compile_kernels.py")
    command = [os.environ["TILESTITCH_GPU_PYTHON"], script, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=kept)
    assert done.returncode == 0, done.stderr[-4000:]
    made = [json.loads(line) for line in done.stdout.splitlines()]
    # By these names torch's profiler knows kernels.
    assert [one["name"] for one in made] == [row["kernel"] for row in rows for _ in SHARED_BYTES]
    return made


def _first_of_each_form(built: tilestitch.Built) -> list[dict]:
    """The first kernel of each form and number of products."""
    found: dict[tuple, dict] = {}
    for row in _rows(built):
        found.setdefault((row["form"], row["products"]), row)
    return list(found.values())


def _rows(built: tilestitch.Built) -> list[dict]:
    """Every kernel, with what a compiler must know of it."""
    graph, storage = built.plan.schedule.graph, built.plan.storage
    return [
        {
            "module": module.name,
            "kernel": one.name,
            "form": one.form,
            "products": sum(graph.by_name[name].kind in KINDS for name in one.operators),
            "pointers": [_POINTERS[storage.dtype(graph.tensors[tensor].dtype)] for tensor in one.reads],
            "blocks": dict(one.blocks),
            "warps": one.warps,
            "stages": one.stages,
        }
        for module in built.plan.modules
        for one in module.launches
    ]
