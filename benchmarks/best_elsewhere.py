"""`best` at medium effort on the zoo's other networks and on other machines, beside the fastest strategy of each.

Prints the rows of the table in docs/best.md. Cycles are simulated; the bound is the largest of the report. Runs only
when it is asked for by name, because it takes most of an hour.
"""

import re
import tempfile
import time
from pathlib import Path

from tilestitch import api
from tilestitch.pipeline.compilation import Compilation
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
MACHINES = ("mlu100", "ascend910", "ipu-mk1", "tpu-v1", "edge.yaml")
ON_ALL = ("resnet18", "mobilenet-v2", "bert-base-128")
TUTORIAL = Path(__file__).parent.parent / "docs" / "tutorial.md"
EDGE = re.compile(r"^<!-- file: edge\.yaml -->\n+```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        edge = Path(place) / "edge.yaml"
        found = EDGE.search(TUTORIAL.read_text(encoding="utf-8"))
        assert found is not None
        edge.write_text(found[1], encoding="utf-8")
        print("| network | batch | machine | `tvm` | fastest strategy | best | less | best / bound | time |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
        for network in NETWORKS:
            _row(network, "stcp920-paper", "stcp920-paper")
        for machine in MACHINES:
            for network in ON_ALL:
                _row(network, machine, str(edge) if machine == edge.name else machine)


def _row(network: str, name: str, machine: str) -> None:
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
        f"{done.report.ratio_to_bound:.3f} | {seconds:.0f} s |",
        flush=True,
    )


def _latency(done: Compilation) -> int:
    assert done.trace is not None
    return done.trace.latency_cycles
