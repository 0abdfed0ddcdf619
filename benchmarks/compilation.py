"""Seconds to compile and simulate whole networks by GraphTurbo, all its searches included, after warm-up.

Reading the network is left out, and so is what has to be done once on a machine: compiling the compiler's hot loops.
Published times of compilation: Zhao et al., OSDI'23, for the same networks and batches.
"""

import time

from tilestitch import zoo
from tilestitch.hardware.load import load_machine
from tilestitch.pipeline.compile import compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import strategy_named

# Network, batch of the whole STCP920, limit in seconds of processor time on two cores of a server, published seconds.
WORK = (("resnet50", 64, 5.0, 139), ("bert-large-384", 8, 15.0, 699), ("densenet121", 32, 10.0, 189))
MACHINES = ("stcp920", "stcp920-paper")


class _Reading:
    """Processor seconds that go into reading, told by the steps that a compilation reports."""

    def __init__(self) -> None:
        self.seconds, self.begin = 0.0, -1.0

    def __call__(self, step: str, done: int, total: int) -> None:
        if self.begin >= 0:
            self.seconds += time.process_time() - self.begin
        self.begin = time.process_time() if step == "load" else -1.0


def main() -> None:
    """Print one line for each network and machine."""
    strategy = strategy_named("graphturbo")
    for preset in MACHINES:
        machine = load_machine(preset)
        compile_network(zoo.build("resnet18", small=True), "warm-up", machine, strategy, Options(batch=4))
        for name, batch, limit, published in WORK:
            model, reading = zoo.build(name), _Reading()
            begin = time.process_time()
            done = compile_network(model, name, machine, strategy, Options(batch=batch), progress=reading)
            seconds = time.process_time() - begin - reading.seconds
            assert done.program is not None
            assert done.schedule is not None
            print(
                f"  {name} batch {batch} on {preset}: {seconds:.1f} s and {reading.seconds:.1f} s of reading for "
                f"{len(done.schedule.kernels):,} kernels, {len(done.program):,} instructions; "
                f"limit {limit:.0f} s {'kept' if seconds <= limit else 'BROKEN'}; published {published} s"
            )
