"""Processor seconds for what is wide, per doubling: readers of one tensor, and the cores of one cluster."""

import time
from collections.abc import Callable
from dataclasses import replace
from math import log2

from tests.helpers.graphs import Net
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.hardware.load import load_machine
from tilestitch.pipeline.compile import compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import strategy_named

READERS = (100, 316, 1_000, 3_162, 10_000)
CORES = (8, 64, 512, 4_096)
DOUBLING = 2.4  # most that the time may grow when readers or cores double
KINDS = ("Relu", "Sigmoid", "Tanh", "Exp")
KIB = 1024


def readers_of_one_tensor(readers: int) -> Net:
    """So many operators that read one tensor, and additions of all their results, one behind the other."""
    net = Net()
    entry = net.op("Relu", net.input(1, 16, 8, 8))
    found, *others = [net.op(KINDS[number % len(KINDS)], entry) for number in range(readers)]
    for number, other in enumerate(others, 1):
        found = net.op("Add", found, other, name="end" if number == len(others) else "")
    return net


def two_convolutions() -> Net:
    """With an addition of what is between them, on images large enough for many cores."""
    net = Net()
    first = net.op("Relu", net.op("Conv", net.input(8, 16, 32, 32), net.random(32, 16, 3, 3), pads=[1, 1, 1, 1]))
    second = net.op("Relu", net.op("Conv", first, net.random(32, 32, 3, 3), pads=[1, 1, 1, 1]))
    net.op("Add", first, second, name="end")
    return net


def with_cores(cores: int) -> Accelerator:
    """The toy machine with so many cores in its one cluster, and a GB that grows with them."""
    toy = load_machine("toy")
    memories = tuple(
        replace(memory, size_bytes=max(512, 8 * cores) * KIB) if memory.level is Level.GB else memory
        for memory in toy.memories
    )
    return replace(toy, name=f"toy of {cores} cores", clusters=1, cores=toy.cores[:1] * cores, memories=memories)


def main() -> None:
    """Print one line for each size."""
    machine = load_machine("stcp920")
    _grow("readers", READERS, lambda size: (readers_of_one_tensor(size), machine))
    _grow("cores", CORES, lambda size: (two_convolutions(), with_cores(size)))


def _grow(what: str, sizes: tuple[int, ...], case: Callable[[int], tuple[Net, Accelerator]]) -> None:
    before: tuple[int, float] | None = None
    for size in (sizes[0], *sizes):  # the first is warm-up
        net, machine = case(size)
        model = net.model("end")
        begin = time.process_time()
        done = compile_network(model, f"{size} {what}", machine, strategy_named("graphturbo"), Options())
        took = time.process_time() - begin
        growth = ""
        if before is not None and size > before[0]:
            doubling = (took / before[1]) ** (1 / log2(size / before[0]))
            kept = "kept" if doubling <= DOUBLING else "BROKEN"
            growth = f", {doubling:.2f} x per doubling; limit {DOUBLING} x {kept}"
        if before is not None:
            assert done.program is not None
            print(f"  {size:,} {what}: {len(done.program):,} instructions in {took:.2f} s{growth}")
        before = size, took
