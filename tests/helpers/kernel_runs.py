"""Kernels on a small machine: scheduled as told, lowered, simulated and executed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from tests.helpers.graphs import Net, random_inputs
from tests.helpers.interpreter import interpret
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.hardware.load import load_machine
from tilestitch.ir.graph import Graph
from tilestitch.ir.partition import Groups
from tilestitch.ir.program import Program
from tilestitch.ir.run import Run as OneRun
from tilestitch.ir.schedule import Schedule
from tilestitch.ir.trace import Trace
from tilestitch.ir.verify import verify_graph, verify_program
from tilestitch.lower.program import lower
from tilestitch.passes.layouts import assign_layouts
from tilestitch.passes.views import resolve_views
from tilestitch.schedule.plan import plan
from tilestitch.schedule.policy import Policy
from tilestitch.sim.chip.execute import execute
from tilestitch.sim.chip.timing import simulate


def toy(cores: int = 1, **sizes: int) -> Accelerator:
    """One cluster of the toy machine; `sizes` in bytes by level, 0 for none of it.

    A core multiplies 16 x 8 a cycle, loads 16 rows of weights a fold, and does 16 vector operations a cycle. DDR passes
    8 bytes a cycle in bursts of 64; GB, and the link of each core, 64. Set-up is 100 cycles for DDR, 20 for a mover, 4
    for a compute and 1,000 for a kernel.
    """
    machine = load_machine("toy")
    memories = [replace(memory, size_bytes=sizes.get(memory.level, memory.size_bytes)) for memory in machine.memories]
    return replace(
        machine,
        clusters=1,
        cores=machine.cores[:1] * cores,
        memories=tuple(memory for memory in memories if memory.size_bytes > 0),
    )


def resolved(graph: Graph) -> Graph:
    """The graph as schedules are made for it."""
    found = assign_layouts(resolve_views(graph)[0])
    verify_graph(found)
    return found


def scheduled(
    graph: Graph,
    machine: Accelerator,
    groups: Sequence[Sequence[str]] | None = None,
    *,
    iterations: int = 1,
    **tiling: tuple[int, ...] | tuple[str, ...],
) -> Schedule:
    """A schedule of these groups (without any: all operators in one), with fields of each tiling replaced."""
    parts = [tuple(group) for group in groups or [[op.name for op in graph.operators]]]
    run = OneRun("hand", batch=1, iterations=iterations, clusters=1)
    found = plan(graph, Groups(tuple(parts)), machine, Policy(), run)
    kernels = tuple(replace(kernel, tiling=replace(kernel.tiling, **tiling)) for kernel in found.kernels)
    return replace(found, kernels=kernels)


@dataclass(frozen=True)
class Run:
    """A schedule, lowered and simulated."""

    schedule: Schedule
    program: Program
    trace: Trace

    def levels(self, instruction: int) -> list[Level]:
        """Where the operands of an instruction lie."""
        spaces = self.program.buffers.space
        return [self.program.spaces[spaces[o.buffer]].level for o in self.program[instruction].operands]

    def ddr_bytes(self) -> int:
        """Payload read from DDR and written to it."""
        return sum(one.size_bytes for one in self.program if Level.DDR in self.levels(one.number))


def run(graph: Graph, machine: Accelerator, groups: Sequence[Sequence[str]] | None = None, **options) -> Run:
    schedule = scheduled(graph, machine, groups, **options)
    program = lower(schedule, machine)
    verify_program(program)
    return Run(schedule, program, simulate(program))


def error(trace: Trace, *, wide: bool = True) -> float:
    """Largest difference to the untiled graph, relative to its largest value, over all iterations; NaN for a NaN.

    Every iteration has inputs of its own.
    """
    graph, worst = trace.program.graph, 0.0
    inputs = [random_inputs(graph, seed) for seed in range(trace.program.iterations)]
    for found, given in zip(execute(trace, inputs, wide=wide), inputs, strict=True):
        expected = interpret(graph, given)
        for name in graph.outputs:
            gap = np.abs(found[name].astype(np.float64) - expected[name]).max()
            worst = float(np.maximum(worst, gap / np.abs(expected[name]).max()))
    return worst


EXACT = 1e-6  # of float32 sums in another order


def product(m: int, k: int, n: int, *, bias: bool = False) -> Graph:
    """x[m, k] @ w[k, n], w a constant."""
    net = Net()
    x, w = net.input(m, k, name="x"), net.random(k, n)
    return resolved(net.graph(net.op("Gemm", x, w, *([net.random(n)] if bias else []), name="y")))


def spans(found: Run) -> list[tuple[int, int]]:
    """Start and end of every instruction, in cycles."""
    per_cycle = found.trace.ticks_per_cycle
    ticks = zip(found.trace.start_ticks.tolist(), found.trace.end_ticks.tolist(), strict=True)
    return [(start // per_cycle, end // per_cycle) for start, end in ticks]


def two_windows(first: int, second: int) -> Graph:
    """Two convolutions of one image with odd windows of these sizes, added."""
    net = Net()
    x = net.input(1, 4, 12, 12, name="x")
    a, b = (
        net.op("Conv", x, net.random(8, 4, size, size), pads=[size // 2] * 4, name=f"conv{size}")
        for size in (first, second)
    )
    return resolved(net.graph(net.op("Add", a, b, name="sum")))


def with_rates(machine: Accelerator, ddr: int = 0, gb: int = 0, link: int = 0, **cycles: int) -> Accelerator:
    """The machine with other bandwidths (0: as it is) and set-up times."""
    rates = {Level.DDR: ddr, Level.GB: gb}
    memories = [
        replace(m, bandwidth_bytes_per_cycle=Fraction(rates.get(m.level) or m.bandwidth_bytes_per_cycle))
        for m in machine.memories
    ]
    return replace(
        machine,
        memories=tuple(memories),
        link=replace(machine.link, bandwidth_bytes_per_cycle=Fraction(link or machine.link.bandwidth_bytes_per_cycle)),
        setup=replace(machine.setup, **cycles),
    )
