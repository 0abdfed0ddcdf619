"""Seconds to partition, schedule, lower and simulate a chain of residual blocks that doubles in length."""

import time
from itertools import pairwise

from benchmarks.partition import residual_chain
from tilestitch.hardware.accelerator import Level
from tilestitch.hardware.load import load_machine
from tilestitch.ir.choices import GroupingRule
from tilestitch.ir.run import Run
from tilestitch.lower.program import lower
from tilestitch.partition.groups.fuse_ops import fuse_ops
from tilestitch.partition.subgraphs.cuts import as_sub_graphs
from tilestitch.schedule.plan import plan
from tilestitch.schedule.policy import Policy
from tilestitch.sim.chip.timing import simulate

SIZES = (1_250, 2_500, 5_000, 10_000)  # operators
GROWTH = 2.8  # most that the time may grow when the network doubles
ROWS, WIDTH = 64, 512  # of the chain's first tensor: small, so that operators and not tiles are counted


def main() -> None:
    """Print one line for each length."""
    machine = load_machine("stcp920")
    before = None
    for size in (SIZES[0] // 10, *SIZES):  # the first is warm-up
        graph = residual_chain(size, rows=ROWS, width=WIDTH)
        marks = [time.process_time()]
        kernels = tuple(group.operators for group in fuse_ops(graph))
        partition = as_sub_graphs(graph, kernels, machine, GroupingRule.PAPER)
        marks.append(time.process_time())
        schedule = plan(
            graph,
            partition,
            machine,
            Policy((Level.LB, Level.GB), stitched=True),
            Run("graphturbo", batch=ROWS, iterations=1, clusters=1),
        )
        marks.append(time.process_time())
        program = lower(schedule, machine)
        marks.append(time.process_time())
        simulate(program)
        marks.append(time.process_time())
        parts = [b - a for a, b in pairwise(marks)]
        took = marks[-1] - marks[0]
        if size not in SIZES:
            continue
        growth = "" if before is None else f"; {took / before:.2f} x half of them, limit {GROWTH} x"
        kept = "" if before is None else " kept" if took <= GROWTH * before else " BROKEN"
        names = zip(("partition", "schedule", "lower", "simulate"), parts, strict=True)
        print(
            f"  {len(graph.operators):,} operators, {len(schedule.kernels):,} kernels, {len(program):,} instructions: "
            f"{took:.2f} s ({', '.join(f'{name} {seconds:.2f}' for name, seconds in names)}){growth}{kept}"
        )
        before = took
