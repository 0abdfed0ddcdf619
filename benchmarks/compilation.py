"""Seconds to compile and simulate whole networks after warm-up, beside one run of onnxruntime on the same images."""

import time

from tilestitch import zoo
from tilestitch.compilation import STRATEGIES, Options
from tilestitch.hardware.load import load_machine
from tilestitch.pipeline import compile_network
from tilestitch.sim.chip.reference import onnxruntime_outputs

LIMIT_SECONDS = 10.0
WORK = (("resnet50", 64), ("bert-base-128", 32))  # network, batch of the whole STCP920


def main() -> None:
    """Print one line for each network and strategy."""
    machine = load_machine("stcp920")
    for name, batch in WORK:
        model = zoo.build(name)
        share = batch // machine.clusters
        begin = time.perf_counter()
        onnxruntime_outputs(model, [zoo.sample_inputs(model, batch=share)])
        reference = time.perf_counter() - begin
        for strategy in STRATEGIES:
            compile_network(zoo.build("resnet18", small=True), "warm-up", machine, strategy, Options(batch=4))
            begin = time.perf_counter()
            done = compile_network(model, name, machine, strategy, Options(batch=batch))
            seconds = time.perf_counter() - begin
            assert done.program is not None
            print(
                f"  {name} batch {batch} by {strategy.name}: {seconds:.2f} s for {len(done.program):,} instructions, "
                f"{seconds / reference:.2f} x one run of onnxruntime on a cluster's {share} samples; "
                f"limit {LIMIT_SECONDS:.0f} s {'kept' if seconds <= LIMIT_SECONDS else 'BROKEN'}"
            )
