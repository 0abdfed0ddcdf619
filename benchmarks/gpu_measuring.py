"""What `gpu_case_study` does on a machine with a GPU; it needs torch and Triton."""

import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import torch  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]
from onnx import numpy_helper

import tilestitch
from benchmarks.gpu_case_study import (
    TOLERANCE,
    Case,
    graphed,
    milliseconds,
    published,
    ratios,
    simulated_milliseconds,
)
from tilestitch import KernelOptions


def measured(case: Case, machine: str, strategy: str, out: Path) -> dict[str, Any]:
    """All times of one network at one batch; raises `ValueError` for kernels whose results are wrong."""
    arrays = {one.name: torch.from_numpy(numpy_helper.to_array(one).copy()) for one in case.model.graph.initializer}
    exact = {name: array.cuda() for name, array in arrays.items()}
    half = {name: array.half() if array.is_floating_point() else array for name, array in exact.items()}
    shape = [dim.dim_value or case.batch for dim in case.model.graph.input[0].type.tensor_type.shape.dim]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(22)).cuda()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    wanted = case.in_torch(torch, exact)(x)
    channels_last = x.dim() == 4
    low = x.half().contiguous(memory_format=torch.channels_last) if channels_last else x.half()
    eager = case.in_torch(torch, half)
    compiled = torch.compile(eager, mode="max-autotune")
    runs: dict[str, Callable[[], Any]] = {"torch": lambda: eager(low), "torch.compile": lambda: compiled(low)}
    kernels: dict[str, list[dict[str, Any]]] = {}
    with torch.inference_mode():
        for name, fuse in (("fused", True), ("unfused", False)):
            built = tilestitch.build(
                case.model, machine, strategy=strategy, batch=case.batch, kernels=KernelOptions(fuse=fuse)
            )
            network = _network(out / f"{case.name}-{case.batch}-{name}", built)
            runs[name] = lambda network=network: next(iter(network.run({"x": low}).values()))
            kernels[name] = _kernels(case, machine, strategy, built, network, low)
        for name, run in runs.items():
            error = float((run().float() - wanted).abs().max() / wanted.abs().max())
            if not error <= TOLERANCE:
                raise ValueError(f"{case.name}, batch {case.batch}, {name}: error {error:.3g}, at most {TOLERANCE}")
        times = {
            name: milliseconds(torch, graphed(torch, run)) for name, run in runs.items() if name != "torch.compile"
        }
        times["torch.compile"] = milliseconds(torch, runs["torch.compile"])
    return {
        "network": case.name,
        "batch": case.batch,
        "measured_ms": times,
        "fused_is_faster_than": ratios(times),
        "published_a100": published(case.name, case.batch),
        "kernels": kernels,
    }


def _network(folder: Path, built: tilestitch.Built) -> Any:
    """A build as a network on the GPU."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in built.files.items():
        (folder / name).write_bytes(content)
    spec = importlib.util.spec_from_file_location(f"network_{folder.name}", folder / "network.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Network("cuda")


def _kernels(
    case: Case, machine: str, strategy: str, built: tilestitch.Built, network: Any, x: Any
) -> list[dict[str, Any]]:
    """Measured beside simulated time of every kernel of Triton, by torch's profiler."""
    done = tilestitch.compile(case.model, machine, strategy=strategy, batch=case.batch)
    simulated = simulated_milliseconds(tilestitch.Built(done, built.plan, {}))
    network.run({"x": x})
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        network.run({"x": x})
        torch.cuda.synchronize()
    spent: dict[str, float] = {}
    for event in profile.events():
        spent[event.name] = spent.get(event.name, 0.0) + event.device_time / 1e3
    found = []
    for module in built.plan.modules:
        for one, draft in zip(module.launches, module.drafts, strict=True):
            found.append(
                {
                    "kernel": one.name,
                    "operators": list(one.operators),
                    "measured_ms": spent.get(one.name),
                    "simulated_ms": sum(simulated[number] for number in draft.kernels),
                }
            )
    return found


def written(out: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """JSON and a plot of what was measured, with the hardware."""
    device = torch.cuda.get_device_properties(0)
    found = {
        "device": device.name,
        "multiprocessors": device.multi_processor_count,
        "torch": torch.__version__,
        "cutlass": "not measured: no call of CUTLASS takes these pairs of convolutions",
        "rows": list(rows),
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "measured.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    names = [f"{row['network']}, {row['batch']}" for row in rows]
    bars = [
        go.Bar(name=way, x=names, y=[row["measured_ms"][way] for row in rows])
        for way in ("fused", "unfused", "torch", "torch.compile")
    ]
    figure = go.Figure(bars, layout={"title": f"measured on {device.name}", "yaxis": {"title": "ms (median)"}})
    figure.write_html(out / "measured.html", include_plotlyjs=True)
    for row in rows:
        shown = ", ".join(f"{way} {time:.3f} ms" for way, time in row["measured_ms"].items())
        print(
            f"{row['network']}, batch {row['batch']}: {shown} (measured); published: {row['published_a100'] or 'none'}"
        )
