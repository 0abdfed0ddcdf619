"""Times one case of `gpu_case_study` where torch and Triton are: python gpu_measuring.py FOLDER, or --check

It needs nothing of Tilestitch. FOLDER has what `gpu_case_study` wrote: `case.json`, the weights, and two builds.
Results of every way to run the network are compared with torch in float32 before anything is timed. `measured.json`
in the same folder is the result. `--check` says only what is missing, with exit code 2.
"""

import importlib.util
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Protocol

try:
    import torch  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]
    import triton  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]
except ImportError as error:
    print(f"error: {error.name} is not installed, so nothing can be measured.", file=sys.stderr)
    raise SystemExit(2) from None

WARM_UP, REPEATS = 25, 100
PROFILED = 10  # runs in which kernels are timed one by one
TOLERANCE = 0.02  # of the largest magnitude: tensors are float16
Run = Callable[[], Any]


class Device(Protocol):
    """What runs a network and times it."""

    place: Any  # a torch.device
    floats: Any  # the type in which torch computes beside ours: float16, where it can

    def about(self) -> dict[str, Any]:
        """What was measured on."""
        ...

    def compiled(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A function of torch, compiled."""
        ...

    def captured(self, run: Run) -> Run:
        """The same run without the time that Python takes to start its kernels."""
        ...

    def milliseconds(self, run: Run) -> float:
        """The median time of a run, after runs that warm up."""
        ...

    def kernels(self, network: Any, run: Run, names: Sequence[str], runs: int) -> list[tuple[str, float]]:
        """Kernels of these names in so many runs, in the order in which they began, with their milliseconds."""
        ...


class Gpu:
    """A GPU by CUDA: events, graphs and torch's profiler."""

    def __init__(self) -> None:
        self.place, self.floats = torch.device("cuda"), torch.float16
        torch.backends.cudnn.benchmark = True  # torch's own convolutions by the fastest algorithm

    def about(self) -> dict[str, Any]:
        found = torch.cuda.get_device_properties(self.place)
        return {
            "device": found.name,
            "multiprocessors": found.multi_processor_count,
            "torch": torch.__version__,
            "triton": triton.__version__,
            "cuda": torch.version.cuda,
        }

    def compiled(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        # Without its own CUDA graphs, as every way is captured in one here; they would copy the weights in every run.
        return torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False)

    def captured(self, run: Run) -> Run:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                run()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        return graph.replay

    def milliseconds(self, run: Run) -> float:
        for _ in range(WARM_UP):
            run()
        pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(REPEATS)]
        for begin, end in pairs:
            begin.record()
            run()
            end.record()
        torch.cuda.synchronize()
        return median(begin.elapsed_time(end) for begin, end in pairs)

    def kernels(self, network: Any, run: Run, names: Sequence[str], runs: int) -> list[tuple[str, float]]:
        for count in (1, runs):  # the first time the profiler itself warms up
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                for _ in range(count):
                    run()
                torch.cuda.synchronize()
        known = frozenset(names)
        ours = [event for event in profile.events() if event.name in known]
        ours.sort(key=lambda event: event.time_range.start)
        return [(event.name, event.time_range.elapsed_us() / 1e3) for event in ours]


# Networks in torch: functions of the input, made from the weights by name and what the case says of the network.


def convolutions_in_torch(weights: Mapping[str, Any], about: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Convolutions with ReLU, one after another, by cuDNN."""
    steps = list(enumerate(about["strides"]))

    def run(x: Any) -> Any:
        for number, step in steps:
            w = weights[f"w{number}"]
            groups = x.shape[1] // w.shape[1]
            found = torch.nn.functional.conv2d(x, w, weights[f"b{number}"], step, w.shape[-1] // 2, groups=groups)
            x = torch.relu(found)
        return x

    return run


def perceptron_in_torch(weights: Mapping[str, Any], about: Mapping[str, Any]) -> Callable[[Any], Any]:
    """Matrix products with ReLU, by cuBLAS."""

    def run(x: Any) -> Any:
        for number in range(about["layers"]):
            x = torch.relu(x @ weights[f"w{number}"])
        return x

    return run


def bert_in_torch(weights: Mapping[str, Any], about: Mapping[str, Any]) -> Callable[[Any], Any]:
    """A layer of BERT by torch's own functions, attention as torch fuses it."""
    functional, heads = torch.nn.functional, about["heads"]

    def linear(x: Any, name: str) -> Any:
        return x @ weights[name] + weights[f"{name}.bias"]

    def norm(x: Any, name: str) -> Any:
        return functional.layer_norm(x, x.shape[-1:], weights[f"{name}.scale"], weights[f"{name}.bias"], 1e-12)

    def run(x: Any) -> Any:
        q, k, v = (linear(x, name).unflatten(-1, (heads, x.shape[-1] // heads)).transpose(1, 2) for name in "qkv")
        context = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        first = norm(linear(context, "out") + x, "norm1")
        return norm(linear(functional.gelu(linear(first, "up")), "down") + first, "norm2")

    return run


IN_TORCH = {"convolutions": convolutions_in_torch, "perceptron": perceptron_in_torch, "bert": bert_in_torch}


def measured(folder: Path, device: Device) -> dict[str, Any]:
    """All times of one case; raises `ValueError` for a way whose results are wrong, before anything is timed."""
    case = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    with torch.inference_mode():
        runs, networks = _ways(folder, case, device)
        wanted, ways = runs.pop("float32")(), dict(runs)
        errors, failed = {}, {}
        for name, run in ways.items():
            try:
                found = run().float()
            except RuntimeError as error:  # what torch.compile needs may be missing; ours must run
                if name in networks:
                    raise
                failed[name] = str(error).splitlines()[0]
                continue
            errors[name] = float((found - wanted).abs().max() / wanted.abs().max())
            if not errors[name] <= TOLERANCE:
                where = f"{case['name']}, batch {case['batch']}, {name}"
                raise ValueError(f"{where}: error {errors[name]:.3g}, at most {TOLERANCE}; nothing was timed.")
        times = {name: device.milliseconds(device.captured(ways[name])) for name in errors}
        kernels = {
            name: in_order(case["builds"][name], device, network, ways[name]) for name, network in networks.items()
        }
    return {"device": device.about(), "ms": times, "errors": errors, "failed": failed, "kernels": kernels}


def _ways(folder: Path, case: Mapping[str, Any], device: Device) -> tuple[dict[str, Run], dict[str, Any]]:
    """Every way to run the network, the first in float32 to compare with, and the builds among them as networks."""
    import numpy

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    with numpy.load(folder / "weights.npz") as arrays:
        exact = {name: torch.from_numpy(arrays[name]).to(device.place) for name in arrays.files}
    x = torch.randn(case["shape"], generator=torch.Generator().manual_seed(22)).to(device.place)
    low, weights = (
        _low(x, device.floats),
        {name: _low(array, device.floats) for name, array in exact.items()},
    )
    in_torch = IN_TORCH[case["kind"]]
    reference, eager = in_torch(exact, case["about"]), in_torch(weights, case["about"])
    compiled = device.compiled(eager)
    networks = {name: _network(folder / name, device) for name in case["builds"]}
    runs: dict[str, Run] = {"float32": lambda: reference(x)}
    for name, network in networks.items():
        runs[name] = lambda network=network: next(iter(network.run({"x": low}).values()))
    runs["torch"] = lambda: eager(low)
    if case["compiled"]:
        runs["torch.compile"] = lambda: compiled(low)
    return runs, networks


def _low(value: Any, floats: Any) -> Any:
    """In the type of the device, images and filters with channels innermost, as tensor cores take them."""
    low = value.to(floats) if value.is_floating_point() else value
    return low.contiguous(memory_format=torch.channels_last) if low.dim() == 4 else low


def _network(folder: Path, device: Device) -> Any:
    """A build as a network."""
    spec = importlib.util.spec_from_file_location(f"network_{folder.parent.name}_{folder.name}", folder / "network.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Network(device.place)


def in_order(build: Mapping[str, Any], device: Device, network: Any, run: Run) -> list[float | None]:
    """The median milliseconds in which a run is in each kernel of a build, all iterations together.

    Kernels may share a name, so the order in which they begin tells them apart. None for all, where that order is not
    the one of the build.
    """
    names, iterations = build["kernels"], build["iterations"]
    found = device.kernels(network, run, names, PROFILED)
    if [name for name, _ in found] != names * (iterations * PROFILED):
        return [None] * len(names)
    each = len(names) * iterations
    spent = [[time for _, time in found[at : at + each]] for at in range(0, len(found), each)]
    return [median(sum(times[number :: len(names)]) for times in spent) for number in range(len(names))]


def main(arguments: Sequence[str]) -> None:
    """Measure one case on the GPU of this machine, or say why that cannot be."""
    if not torch.cuda.is_available():
        print("error: no GPU is here, so nothing can be measured.", file=sys.stderr)
        raise SystemExit(2)
    if list(arguments) == ["--check"]:
        return
    folder = Path(arguments[0])
    try:
        found = measured(folder, Gpu())
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    (folder / "measured.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
