"""The GPU case study of GraphTurbo (OSDI 2023, table 5), measured: python -m benchmarks.gpu_case_study -o FOLDER

Runs on a machine with a GPU, torch and Triton; without one it says so, with exit code 2. torch and Triton may be in
another environment: --python names its interpreter. For every network and batch: kernels of `tilestitch build`, fused
and one per kernel of the schedule, torch eager (cuDNN) and torch.compile (max-autotune), each compared with torch in
float32 before anything is timed (`gpu_measuring`). Times are medians between CUDA events, after warm-up. Beside them
stand what the simulator says of our schedule on the preset, kernel by kernel, and the published ratios.

Of CUTLASS the back-to-back convolutions of its example 13 are measured, where they are built: --cutlass or
CUTLASS_BUILD names a folder that has the program `13_fused_two_convs_f16_sm80_shmem` anywhere inside, or it is on PATH.
Its shapes are fixed, a convolution of 3x3 and one of 1x1; the case `conv-pair` is the same pair. CUTLASS has no call
that fuses any two convolutions, so it has no time for the others. Its sums are float16, ours are float32.
"""

import argparse
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import onnx
from onnx import numpy_helper

from benchmarks.gpu_networks import TAILOR, bert_layer, bottleneck, inverted_residual, pair, perceptron, tailor

if TYPE_CHECKING:
    from tilestitch.commands.build.run import Built
    from tilestitch.ir.by_hand import HandSchedule

BATCHES = (64, 128, 256, 512)
PUBLISHED = {  # milliseconds on an A100: TVM with CUTLASS, CUTLASS back to back, GraphTurbo; table 5
    64: (0.99, 0.84, 0.83),
    128: (1.88, 1.62, 1.50),
    256: (3.51, 3.04, 2.83),
    512: (6.76, 5.83, 5.44),
}
WAYS = ("fused", "unfused", "torch", "torch.compile")
ALWAYS = 1e9  # however often a product is computed
CUTLASS = "13_fused_two_convs_f16_sm80_shmem"
MEASURING = Path(__file__).with_name("gpu_measuring.py")
Strategy: TypeAlias = "str | HandSchedule"
Measure: TypeAlias = Callable[[Path], dict[str, Any]]  # a folder with a case -> what `gpu_measuring.measured` found


@dataclass(frozen=True, slots=True)
class Case:
    """A network at a batch, and what its form in torch must know: `kind` is a key of `gpu_measuring.IN_TORCH`."""

    name: str
    model: onnx.ModelProto
    batch: int
    kind: str
    about: Mapping[str, Any]
    everything: bool = False  # fused whatever is computed again; not compared with torch.compile


def cases(batches: Sequence[int] = BATCHES) -> list[Case]:
    """All that is measured."""
    strides = {"strides": [step for _, _, step in TAILOR]}
    found = [Case("resnet18-tailor", tailor(), batch, "convolutions", strides) for batch in batches]
    found.append(Case("conv-pair", pair(), 32, "convolutions", {"strides": [1, 1]}))
    return found + [Case("bert-base-layer", bert_layer(), batch, "bert", {"heads": 12}) for batch in (1, 8, 32)]


def fusions() -> list[Case]:
    """Chains in one kernel and kernel by kernel, from which the limits of fusion come: `--fusions`."""
    found = [("conv-pair-fused", pair(), {"strides": [1, 1]})]
    layers = {"strides": [1, 1, 1]}
    found += [(f"bottleneck-{c}x{image}", bottleneck(c, image), layers) for c, image in ((64, 56), (256, 14))]
    found += [
        (f"inverted-residual-{c}x{image}", inverted_residual(c, image), layers) for c, image in ((24, 56), (64, 14))
    ]
    cases = [Case(name, model, 64, "convolutions", about, everything=True) for name, model, about in found]
    for widths in ((64, 64, 64), (128, 128, 128), (256, 256, 256), (64, 256, 64), (256, 64, 256)):
        name, about = f"perceptron-{'-'.join(map(str, widths))}", {"layers": len(widths) - 1}
        cases.append(Case(name, perceptron(widths), 64, "perceptron", about, everything=True))
    return cases


def simulated_milliseconds(built: "Built") -> list[float]:
    """For every kernel of the schedule, by how much the simulated run is further when it has ended, all iterations.

    Raises `ValueError` where the build was not simulated.
    """
    trace, schedule = built.compiled.trace, built.compiled.schedule
    if trace is None or schedule is None:
        raise ValueError("the schedule was not simulated")
    count, iterations = len(schedule.kernels), trace.program.iterations
    each = len(trace.program) // iterations
    ends = np.zeros(count * iterations, dtype=np.int64)
    np.maximum.at(
        ends, np.asarray(trace.program.kernel) + np.arange(each * iterations) // each * count, trace.end_ticks
    )
    steps = np.diff(np.maximum.accumulate(ends), prepend=0).reshape(-1, count).sum(axis=0)
    per_ms = trace.ticks_per_cycle * built.compiled.machine.clock_hz / 1e3
    return [float(step) / per_ms for step in steps]


def ratios(times: Mapping[str, float]) -> dict[str, float]:
    """How many times faster our fused kernels are than every other way that was measured."""
    return {name: time / times["fused"] for name, time in times.items() if name != "fused"}


def published(name: str, batch: int) -> dict[str, float]:
    """The paper's ratios for an A100, where it has them: GraphTurbo over TVM with CUTLASS, and over CUTLASS fusion."""
    if name != "resnet18-tailor" or batch not in PUBLISHED:
        return {}
    tvm, cutlass, graphturbo = PUBLISHED[batch]
    return {"over TVM with CUTLASS": tvm / graphturbo, "over CUTLASS fusion": cutlass / graphturbo}


def prepared(case: Case, machine: str, strategy: Strategy, folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Write a case as `gpu_measuring` takes it; the kernels of both builds, with simulated times."""
    import tilestitch
    from tilestitch.backends.triton.launch import Limits
    from tilestitch.commands.build.run import kernels_of

    strategy = "one-block" if case.everything else strategy
    limits = replace(Limits.of_all(), again=ALWAYS) if case.everything else None
    weights = {one.name: numpy_helper.to_array(one) for one in case.model.graph.initializer}
    held = io.BytesIO()
    np.savez(held, allow_pickle=False, **weights)
    done = tilestitch.compile(case.model, machine, strategy=strategy, batch=case.batch)
    rows, builds, files = {}, {}, {"weights.npz": held.getvalue()}
    for way, fuse in (("fused", True), ("unfused", False)):
        built = kernels_of(done, tilestitch.KernelOptions(fuse="fast" if fuse else "none", limits=limits))
        simulated = simulated_milliseconds(built)
        rows[way] = [
            {
                "kernel": one.name,
                "operators": list(one.operators),
                "schedule_kernels": list(draft.kernels),
                "simulated_ms": sum(simulated[number] for number in draft.kernels),
            }
            for module in built.plan.modules
            for one, draft in zip(module.launches, module.drafts, strict=True)
        ]
        builds[way] = {
            "kernels": [row["kernel"] for row in rows[way]],
            "iterations": built.plan.schedule.iterations,
        }
        files |= {f"{way}/{name}": content for name, content in built.files.items()}
    shape = [dim.dim_value or case.batch for dim in case.model.graph.input[0].type.tensor_type.shape.dim]
    about = {"name": case.name, "batch": case.batch, "kind": case.kind, "about": dict(case.about), "shape": shape}
    about["compiled"] = not case.everything
    files["case.json"] = json.dumps({**about, "builds": builds}, indent=2).encode()
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return rows


def measured(case: Case, machine: str, strategy: Strategy, folder: Path, measure: Measure) -> dict[str, Any]:
    """All times of one case, kernel by kernel beside those that are simulated."""
    rows = prepared(case, machine, strategy, folder)
    found = measure(folder)
    for way, kernels in found["kernels"].items():
        for row, time in zip(rows[way], kernels, strict=True):
            row["measured_ms"] = time
    return {
        "network": case.name,
        "batch": case.batch,
        "device": found["device"],
        "measured_ms": found["ms"],
        "errors": found["errors"],
        "not_measured": found["failed"],
        "fused_is_faster_than": ratios(found["ms"]),
        "published_on_a100": published(case.name, case.batch),
        "kernels": rows,
    }


def by_python(python: str) -> Measure:
    """Measuring in a process of its own, by a Python with torch and Triton."""

    def measure(folder: Path) -> dict[str, Any]:
        done = subprocess.run([python, str(MEASURING), str(folder)], env=_environment(python))
        if done.returncode:
            raise SystemExit(done.returncode)
        return json.loads((folder / "measured.json").read_text(encoding="utf-8"))

    return measure


def missing(python: str) -> str:
    """Why nothing can be measured here; nothing where it can."""
    try:
        done = subprocess.run(
            [python, str(MEASURING), "--check"], capture_output=True, text=True, env=_environment(python)
        )
    except OSError as error:
        return f"{python}: cannot be run ({error.strerror}), so nothing can be measured."
    lines = done.stderr.splitlines() or [f"{python} ended with exit code {done.returncode}."]
    return "" if done.returncode == 0 else lines[-1].removeprefix("error: ")


def _environment(python: str) -> dict[str, str]:
    """The environment; of another Python without what would put modules of this one before its own."""
    ours = () if python == sys.executable else ("PYTHONPATH", "PYTHONHOME")
    return {name: value for name, value in os.environ.items() if name not in ours}


def cutlass(build: str | None) -> dict[str, Any]:
    """What the example of CUTLASS says of its two convolutions, fused and not, or why it says nothing."""
    places = [Path(build)] if build else []
    program = next((path for place in places for path in sorted(place.rglob(CUTLASS)) if path.is_file()), None)
    program = program or shutil.which(CUTLASS)
    if program is None:
        return {"not_measured": f"not installed: no {CUTLASS} in --cutlass, CUTLASS_BUILD or PATH"}
    done = subprocess.run([str(program)], capture_output=True, text=True)
    times = dict(re.findall(r"^(Fusion|Non-fusion) time ([0-9.eE+-]+) ms", done.stdout, re.MULTILINE))
    if done.returncode or set(times) != {"Fusion", "Non-fusion"} or done.stdout.count("Pass") < 2:
        return {"not_measured": f"{program} did not pass its own check (exit code {done.returncode})"}
    return {"program": str(program), "fused_ms": float(times["Fusion"]), "unfused_ms": float(times["Non-fusion"])}


def written(out: Path, rows: Sequence[Mapping[str, Any]], by_cutlass: Mapping[str, Any]) -> None:
    """JSON and a plot of what was measured, with the hardware; both or none."""
    from benchmarks.gpu_plot import plot
    from tilestitch.base.files import write_files

    text = json.dumps({"rows": list(rows), "cutlass_conv_pair": dict(by_cutlass)}, indent=2) + "\n"
    page = plot(rows, by_cutlass)
    write_files([(out / "measured.json", text.encode()), (out / "measured.html", page.encode())])


def lines(rows: Sequence[Mapping[str, Any]], by_cutlass: Mapping[str, Any]) -> list[str]:
    """What was measured, a line for each case, with the published ratios beside and CUTLASS at the end."""
    found = [f"measured on {rows[0]['device']['device']}; published numbers are for an A100"]
    for row in rows:
        times = ", ".join(f"{way} {time:.4g} ms" for way, time in row["measured_ms"].items())
        faster = ", ".join(f"{way} {ratio:.2f}" for way, ratio in row["fused_is_faster_than"].items())
        paper = ", ".join(f"{way} {ratio:.2f}" for way, ratio in row["published_on_a100"].items()) or "none"
        found.append(f"{row['network']}, batch {row['batch']}: {times} (measured)")
        found.append(f"  fused is faster by: {faster} (measured); GraphTurbo: {paper} (published)")
        found += [f"  {way}: not measured ({why})" for way, why in row["not_measured"].items()]
    shown = by_cutlass.get("not_measured") or "fused {fused_ms:.4g} ms, unfused {unfused_ms:.4g} ms".format(
        **by_cutlass
    )
    return [*found, f"CUTLASS, conv-pair, batch 32: {shown}"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure everything, and write JSON and a plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, default=Path("out/gpu_case_study"))
    parser.add_argument("--machine", default="h200", help="the preset to schedule and simulate for: a100 or h200")
    parser.add_argument("--strategy", default="graphturbo")
    parser.add_argument("--fusions", action="store_true", help="chains in one kernel beside kernels apart instead")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with torch and Triton")
    parser.add_argument("--cutlass", default=os.environ.get("CUTLASS_BUILD"), help="a folder with CUTLASS's examples")
    asked = parser.parse_args([] if arguments is None else arguments)
    from tilestitch.base.errors import TilestitchError
    from tilestitch.base.files import expect_folder

    problem = missing(asked.python)
    try:
        if not problem:
            expect_folder(asked.out)
            study(
                fusions() if asked.fusions else cases(),
                asked.machine,
                asked.strategy,
                asked.out,
                by_python(asked.python),
                asked.cutlass,
            )
    except TilestitchError as error:
        problem = str(error)
    if problem:
        print(f"error: {problem}", file=sys.stderr)
        raise SystemExit(2)


def study(
    found: Sequence[Case], machine: str, strategy: Strategy, out: Path, measure: Measure, cutlass_build: str | None
) -> None:
    """Measure some cases one after another, write what was found, and print it."""
    rows = [measured(case, machine, strategy, out / "cases" / f"{case.name}-{case.batch}", measure) for case in found]
    by_cutlass = cutlass(cutlass_build)
    written(out, rows, by_cutlass)
    print("\n".join(lines(rows, by_cutlass)))


if __name__ == "__main__":
    main(sys.argv[1:])
