"""The GPU case study of GraphTurbo (OSDI 2023, table 5), measured: python -m benchmarks.gpu_case_study -o FOLDER

Runs on a machine with a GPU, torch and Triton; without one it says so, with exit code 2. For every network and batch:
kernels of `tilestitch build`, fused and one per kernel of the schedule, torch eager and torch.compile (max-autotune),
each checked against torch in float32 before it is timed. Times are medians between CUDA events, after warm-up. Beside
them stand what the simulator says of our schedule on the preset, kernel by kernel, and the published ratios.

CUTLASS is not measured: it has no call that takes any two convolutions. Its example of back-to-back convolutions
takes a second one of 1x1 (RECALL), and those here are 3x3.
"""

import argparse
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from tilestitch.commands.build.run import Built

# [INFERRED] in the facts about the paper: it names 8 layers of convolution and ReLU, and no shapes.
TAILOR = (
    (64, 64, 1),
    (64, 64, 1),
    (64, 128, 2),
    (128, 128, 1),
    (128, 256, 2),
    (256, 256, 1),
    (256, 512, 2),
    (512, 512, 1),
)
IMAGE = 56
BATCHES = (64, 128, 256, 512)
PUBLISHED = {  # milliseconds on an A100: TVM with CUTLASS, CUTLASS back to back, GraphTurbo; table 5
    64: (0.99, 0.84, 0.83),
    128: (1.88, 1.62, 1.50),
    256: (3.51, 3.04, 2.83),
    512: (6.76, 5.83, 5.44),
}
WARM_UP, REPEATS = 25, 100
TOLERANCE = 0.02  # of the largest magnitude: tensors are float16


@dataclass(frozen=True, slots=True)
class Case:
    """A network, with the same in torch: a function that makes it from torch and the weights by name."""

    name: str
    model: onnx.ModelProto
    batch: int
    in_torch: Callable[[Any, Mapping[str, Any]], Callable[[Any], Any]]


def tailor(channels: Sequence[tuple[int, int, int]] = TAILOR, image: int = IMAGE) -> onnx.ModelProto:
    """ResNet18-Tailor: 3x3 convolutions with ReLU, one after another."""
    generator = np.random.default_rng(18)
    nodes, weights, last = [], [], "x"
    for number, (c, m, step) in enumerate(channels):
        w = generator.standard_normal((m, c, 3, 3)) * np.sqrt(2 / (9 * c))
        weights.append(numpy_helper.from_array(w.astype(np.float32), f"w{number}"))
        weights.append(numpy_helper.from_array(np.zeros(m, np.float32), f"b{number}"))
        options = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [step, step]}
        nodes.append(helper.make_node("Conv", [last, f"w{number}", f"b{number}"], [f"c{number}"], **options))
        nodes.append(helper.make_node("Relu", [f"c{number}"], [f"r{number}"], name=f"layer{number + 1}"))
        last = f"r{number}"
    return _model("resnet18-tailor", nodes, ["N", channels[0][0], image, image], last, weights)


def tailor_in_torch(torch: Any, weights: Mapping[str, Any]) -> Callable[[Any], Any]:
    """The same layers by cuDNN."""

    def run(x: Any) -> Any:
        for number, (_, _, step) in enumerate(TAILOR):
            x = torch.relu(torch.nn.functional.conv2d(x, weights[f"w{number}"], weights[f"b{number}"], step, 1))
        return x

    return run


def bert_layer(tokens: int = 128, hidden: int = 768, heads: int = 12) -> onnx.ModelProto:
    """One layer of BERT-base's encoder on hidden states."""
    generator = np.random.default_rng(19)
    weights, nodes = [], []

    def constant(name: str, array: np.ndarray) -> str:
        weights.append(numpy_helper.from_array(array, name))
        return name

    def node(kind: str, inputs: Sequence[str], **options: Any) -> str:
        name = f"{kind.lower()}{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **options))
        return name

    def linear(x: str, name: str, rows: int, columns: int) -> str:
        w = generator.standard_normal((rows, columns)) / np.sqrt(rows)
        product = node("MatMul", [x, constant(name, w.astype(np.float32))])
        return node("Add", [product, constant(f"{name}.bias", np.zeros(columns, np.float32))])

    def norm(x: str, name: str) -> str:
        scale, bias = np.ones(hidden, np.float32), np.zeros(hidden, np.float32)
        parameters = [constant(f"{name}.scale", scale), constant(f"{name}.bias", bias)]
        return node("LayerNormalization", [x, *parameters], epsilon=1e-12)

    split = constant("split", np.array([0, tokens, heads, hidden // heads]))
    q, k, v = (
        node("Transpose", [node("Reshape", [linear("x", name, hidden, hidden), split])], perm=order)
        for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3]))
    )
    scores = node("Mul", [node("MatMul", [q, k]), constant("scale", np.float32((hidden // heads) ** -0.5))])
    context = node("Transpose", [node("MatMul", [node("Softmax", [scores], axis=-1), v])], perm=[0, 2, 1, 3])
    merged = node("Reshape", [context, constant("merge", np.array([0, tokens, hidden]))])
    first = norm(node("Add", [linear(merged, "out", hidden, hidden), "x"]), "norm1")
    inner = node("Gelu", [linear(first, "up", hidden, 4 * hidden)])
    last = norm(node("Add", [linear(inner, "down", 4 * hidden, hidden), first]), "norm2")
    return _model("bert-base-layer", nodes, ["N", tokens, hidden], last, weights)


def bert_in_torch(torch: Any, weights: Mapping[str, Any], heads: int = 12) -> Callable[[Any], Any]:
    """The same layer by torch's own functions, attention as torch fuses it."""
    functional = torch.nn.functional

    def linear(x: Any, name: str) -> Any:
        return x @ weights[name] + weights[f"{name}.bias"]

    def norm(x: Any, name: str) -> Any:
        return functional.layer_norm(x, x.shape[-1:], weights[f"{name}.scale"], weights[f"{name}.bias"], 1e-12)

    def run(x: Any) -> Any:
        q, k, v = (linear(x, name).unflatten(-1, (heads, -1)).transpose(1, 2) for name in "qkv")
        context = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        first = norm(linear(context, "out") + x, "norm1")
        return norm(linear(functional.gelu(linear(first, "up")), "down") + first, "norm2")

    return run


def _model(name: str, nodes: list, shape: list, output: str, weights: list) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, name, inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return onnx.shape_inference.infer_shapes(model)


def cases(batches: Sequence[int] = BATCHES) -> list[Case]:
    """All that is measured."""
    found = [Case("resnet18-tailor", tailor(), batch, tailor_in_torch) for batch in batches]
    return found + [Case("bert-base-layer", bert_layer(), batch, bert_in_torch) for batch in (1, 8, 32)]


def missing() -> str:
    """Why nothing can be measured here; nothing where it can."""
    for name in ("torch", "triton"):
        if importlib.util.find_spec(name) is None:
            return f"{name} is not installed, so nothing can be measured."
    import torch  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]

    return "" if torch.cuda.is_available() else "no GPU is here, so nothing can be measured."


def milliseconds(torch: Any, run: Callable[[], Any]) -> float:
    """The median time between CUDA events around one run, after runs that warm up."""
    for _ in range(WARM_UP):
        run()
    pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(REPEATS)]
    for begin, end in pairs:
        begin.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return median(begin.elapsed_time(end) for begin, end in pairs)


def graphed(torch: Any, run: Callable[[], Any]) -> Callable[[], Any]:
    """The same run as one CUDA graph, so that launches from Python are not in its time."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def simulated_milliseconds(built: "Built") -> list[float]:
    """For every kernel of the schedule, by how much the simulated run is further when it has ended.

    Raises `ValueError` where the build was not simulated.
    """
    trace, schedule = built.compiled.trace, built.compiled.schedule
    if trace is None or schedule is None:
        raise ValueError("the schedule was not simulated")
    count, kernel = len(schedule.kernels), np.asarray(trace.program.kernel)
    ends = [int(trace.end_ticks[kernel % count == number].max(initial=0)) for number in range(count)]
    reached = np.maximum.accumulate([0, *ends])
    per_ms = trace.ticks_per_cycle * built.compiled.machine.clock_hz / 1e3
    return [float(step) / per_ms for step in np.diff(reached)]


def ratios(times: Mapping[str, float]) -> dict[str, float]:
    """How many times faster our fused kernels are than every other way that was measured."""
    return {name: time / times["fused"] for name, time in times.items() if name != "fused"}


def published(name: str, batch: int) -> dict[str, float]:
    """The paper's ratios for an A100, where it has them: GraphTurbo over TVM with CUTLASS, and over CUTLASS fusion."""
    if name != "resnet18-tailor" or batch not in PUBLISHED:
        return {}
    tvm, cutlass, graphturbo = PUBLISHED[batch]
    return {"over TVM with CUTLASS": tvm / graphturbo, "over CUTLASS fusion": cutlass / graphturbo}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure everything, and write JSON and a plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--out", type=Path, default=Path("out/gpu_case_study"))
    parser.add_argument("--machine", default="h200", help="the preset to schedule and simulate for: a100 or h200")
    parser.add_argument("--strategy", default="graphturbo")
    asked = parser.parse_args([] if arguments is None else arguments)
    problem = missing()
    if problem:
        print(f"error: {problem}", file=sys.stderr)
        raise SystemExit(2)
    from benchmarks.gpu_measuring import measured, written

    written(asked.out, [measured(case, asked.machine, asked.strategy, asked.out) for case in cases()])


if __name__ == "__main__":
    main(sys.argv[1:])
