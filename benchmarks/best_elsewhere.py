"""`best` at medium effort on the zoo's other networks and on other machines, beside the fastest strategy of each.

Prints the rows of the table in docs/best.md. Cycles are simulated; the bound is the largest of the report. Every
schedule of `best` is written to a file, lowered and simulated again from there, executed and compared with
onnxruntime's outputs. Runs only when it is asked for by name, because it takes most of an hour.
"""

import re
import tempfile
import time
from pathlib import Path

from tilestitch import api
from tilestitch.ir.choices import Stage
from tilestitch.ir.report import Outcome
from tilestitch.pipeline.compilation import Compilation
from tilestitch.pipeline.stage_files import stage_text
from tilestitch.pipeline.strategies import STRATEGIES

SAMPLES_PER_CLUSTER = 4
NETWORKS = (
    "resnet18",
    "alexnet",
    "vgg19",
    "googlenet",
    "unet",
    "llama-block-prefill-128",
)  # outside the ten of the paper
ON_ALL = ("resnet18", "mobilenet-v2", "bert-base-128")
MACHINES = {
    "mlu100": ON_ALL,
    "ascend910": ON_ALL,
    "tpu-v1": ON_ALL,
    "edge.yaml": ON_ALL,
    "ipu-mk1": ("resnet18",),  # a search for MobileNet-v2 needs more than 15 GB
}
TUTORIAL = Path(__file__).parent.parent / "docs" / "tutorial.md"
EDGE = re.compile(r"^<!-- file: edge\.yaml -->\n+```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        edge = Path(place) / "edge.yaml"
        found = EDGE.search(TUTORIAL.read_text(encoding="utf-8"))
        assert found is not None
        edge.write_text(found[1], encoding="utf-8")
        print("| network | batch | machine | `tvm` | fastest strategy | best | less | best / bound | passed | time |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
        for network in NETWORKS:
            _row(network, "stcp920-paper", "stcp920-paper", Path(place))
        for machine, networks in MACHINES.items():
            for network in networks:
                _row(network, machine, str(edge) if machine == edge.name else machine, Path(place))


def _row(network: str, name: str, machine: str, place: Path) -> None:
    clusters = api.machine_of(machine).clusters
    batch = SAMPLES_PER_CLUSTER * clusters
    begin = time.process_time()
    done = api.compile(network, machine, strategy="best", batch=batch)
    seconds = time.process_time() - begin
    assert done.report is not None
    others = [strategy.name for strategy in STRATEGIES]
    cycles = {other: _latency(api.compile(network, machine, strategy=other, batch=batch)) for other in others}
    fastest = min(cycles, key=lambda one: cycles[one])
    best = _latency(done)
    less = f"{100 - 100 * best / cycles[fastest]:.1f} %"
    print(
        f"| {network} | {batch} | `{name}` | {cycles['tvm']:,} | `{fastest}` {cycles[fastest]:,} | {best:,} | {less} | "
        f"{done.report.ratio_to_bound:.3f} | {_passed(network, machine, done, place)} | {seconds:.0f} s |",
        flush=True,
    )


def _passed(network: str, machine: str, done: Compilation, place: Path) -> str:
    """In which precisions the outputs are equal to onnxruntime's."""
    written = place / "schedule.json"
    written.write_text(stage_text(done, Stage.SCHEDULE), encoding="utf-8")
    again = api.compile(network, machine, start=written, verify=True)
    assert again.report is not None
    assert _latency(again) == _latency(done), f"{network}, {machine}: {_latency(again):,} cycles from the file"
    passed = [check.precision for check in again.report.checks if check.outcome is Outcome.PASSED]
    return "both" if len(passed) == 2 else ", ".join(passed) or "none"


def _latency(done: Compilation) -> int:
    assert done.trace is not None
    return done.trace.latency_cycles
