"""One batch per iteration through every stage: each arrow from a network and a machine to a trace."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx

from tilestitch.base.progress import Progress
from tilestitch.frontend.reader import read_onnx
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.graph import Graph
from tilestitch.ir.partition import FusedBlock, SubGraph
from tilestitch.ir.program import Program
from tilestitch.ir.tiles import kernels_of
from tilestitch.ir.trace import Trace, slowest_cluster
from tilestitch.ir.verify import verify_graph, verify_program
from tilestitch.lower.clusters import share_ddr
from tilestitch.lower.program import lower
from tilestitch.lower.reorder import reordered
from tilestitch.partition.subgraphs.coarse import coarse_groups
from tilestitch.partition.subgraphs.cuts import Cut, whole_may_be_better, without_repetition
from tilestitch.partition.subgraphs.grouping import GroupingRule, best_grouping
from tilestitch.partition.subgraphs.liveness import least_peak
from tilestitch.passes import simplify
from tilestitch.passes.fold import Folded
from tilestitch.passes.layouts import assign_layouts
from tilestitch.passes.outputs import write_outputs
from tilestitch.passes.views import resolve_views
from tilestitch.pipeline.compilation import Compilation, Options, Stage, Strategy
from tilestitch.schedule.plan import by_units, expect_compilable, plan
from tilestitch.sim.chip.timing import simulate


@dataclass(frozen=True)
class Job:
    """A network on a machine, at one batch: what does not change while strategies and batches are tried."""

    model: onnx.ModelProto
    name: str
    machine: Accelerator
    options: Options
    share: int  # samples of the busiest cluster
    smallest: int  # batch of one iteration
    clusters: int
    progress: Progress
    simplified: dict[int, Compilation]  # by batch per iteration
    loaded: dict[int, Graph]  # by batch
    weights: dict[str, np.ndarray]  # of the model, as far as they were read
    folded: Folded  # batch normalisations, whatever the batch
    whole: dict[int, bool]  # by batch per iteration, whether sub-graphs may better stay whole

    def read(self, batch: int) -> Graph:
        if batch not in self.loaded:
            self.loaded[batch] = read_onnx(self.model, name=self.name, batch=batch, weights=self.weights)
        return self.loaded[batch]


def compile_batch(
    job: Job, strategy: Strategy, batch: int, last: Stage, done: Compilation | None = None
) -> Compilation:
    """Every stage up to `last` for one choice of the batch per iteration, those that `done` has left out."""
    machine, options, progress = job.machine, job.options, job.progress
    order = list(Stage)

    def wanted(stage: Stage) -> bool:
        return order.index(stage) <= order.index(last)

    if done is None:
        done = job.simplified.get(batch)
    if done is None:
        progress("load", 0, 1)
        done = Compilation(machine, job.read(batch))
        if wanted(Stage.SIMPLIFY):
            progress("simplify", 0, 1)
            done = replace(done, simplified=simplify(done.loaded, fold_bn=options.fold_bn, folded=job.folded))
            job.simplified[batch] = done
    if wanted(Stage.PARTITION) and done.simplified is not None and done.groups is None:
        progress("partition", 0, 1)
        done = replace(done, groups=strategy.partition(done.simplified))
    if wanted(Stage.SCHEDULE) and done.simplified is not None and done.groups is not None and done.schedule is None:
        graph, parts, now = without_views(done.simplified, done.groups, machine)
        blocks = () if strategy.blocks is None else strategy.blocks(done.simplified, machine)
        cuts: list[Cut] = []
        if strategy.instances:
            cuts = _cuts(graph, parts, machine, options.grouping)
            job.whole[batch] = whole_may_be_better(graph, cuts, machine)
        schedule = plan(
            graph,
            parts,
            machine,
            strategy.levels,
            [(cut.operators, (cut.axis, cut.pieces)) for cut in cuts],
            by_hand=strategy.by_hand,
            blocks=_blocks_without_views(graph, blocks, now),
            stitched=strategy.stitched,
            spill=options.spill,
            binding=options.binding,
            strategy=strategy.name,
            batch=batch,
            iterations=job.share // batch * options.batches,
            clusters=job.clusters,
            progress=lambda at, of: progress("schedule", at, of),
        )
        done = replace(done, schedule=schedule)
    if wanted(Stage.LOWER) and done.schedule is not None and done.program is None:
        program = lower(done.schedule, machine, progress=lambda at, of: progress("lower", at, of))
        if options.verify:
            verify_program(program)
        done = replace(done, program=program)
    if wanted(Stage.SIMULATE) and done.program is not None and done.trace is None:
        progress("simulate", 0, 1)
        done = replace(done, trace=_simulate(done.program, machine, job.clusters))
        if strategy.stitched:
            done = _in_better_order(job, done)
    return done


def _cuts(graph: Graph, kernels: Sequence[tuple[str, ...]], machine: Accelerator, rule: GroupingRule) -> list[Cut]:
    """The sub-graphs of a network, each with the pieces that it is cut into."""
    if rule is GroupingRule.EXACT:
        best = best_grouping(graph, kernels, machine)
        peaks = (least_peak(graph, [graph.by_name[name] for name in group]).peak_bytes for group in best.groups)
        return [
            Cut(group, pieces.axis, pieces.count, peak)
            for group, pieces, peak in zip(best.groups, best.pieces, peaks, strict=True)
        ]
    found = []
    for one in coarse_groups(graph, machine.local_capacity_bytes):
        pieces = one.split.factor if one.split.fits else 1
        found.append(Cut(one.operators, one.split.axis, pieces, one.split.peak_bytes))
    return without_repetition(graph, found)


def _in_better_order(job: Job, done: Compilation) -> Compilation:
    """The same with the instructions of its one kernel in the order of a list schedule, where that is faster."""
    assert done.schedule is not None
    assert done.program is not None
    assert done.trace is not None
    length = len(done.program) // done.program.iterations
    job.progress("reorder", 0, 1)
    program = reordered(done.program, (done.trace.end_ticks - done.trace.start_ticks)[:length])
    if program is None:
        return done
    if job.options.verify:
        verify_program(program)
    trace, before = _simulate(program, job.machine, job.clusters), done.trace.latency_cycles
    if trace.latency_cycles >= before:
        return done
    note = f"Instructions reordered across kernels: {trace.latency_cycles:,} cycles instead of {before:,}."
    return replace(
        done, schedule=replace(done.schedule, notes=(*done.schedule.notes, note)), program=program, trace=trace
    )


def _simulate(program: Program, machine: Accelerator, clusters: int) -> Trace:
    """One cluster stands for all where each has a DDR of its own; else all of them, and the slowest is shown."""
    if machine.private_ddr or clusters == 1:
        return simulate(program)
    return slowest_cluster(simulate(share_ddr(program, clusters)), program)


def without_views(
    graph: Graph, groups: tuple[SubGraph, ...], machine: Accelerator
) -> tuple[Graph, list[tuple[str, ...]], Mapping[str, tuple[str, ...]]]:
    """The graph with views composed away and layouts chosen, and the kernels of the groups in it, in running order.

    And for each operator of `graph` the names of those that do its work.
    """
    expect_compilable(machine)
    resolved, now = resolve_views(graph)
    grouped = {op.name for op in resolved.operators}
    resolved = assign_layouts(write_outputs(resolved))
    verify_graph(resolved)
    position = {op.name: number for number, op in enumerate(resolved.operators)}
    parts = []
    for group in groups:
        members = sorted((name for old in group.operators for name in now[old]), key=position.__getitem__)
        for kernel in kernels_of(resolved, [resolved.by_name[name] for name in members]):
            parts += [tuple(op.name for op in piece) for piece in by_units(resolved, kernel, machine)]
    parts += [(op.name,) for op in resolved.operators if op.name not in grouped]
    parts.sort(key=lambda members: position[members[-1]])
    return resolved, parts, now


def _blocks_without_views(
    graph: Graph, blocks: Sequence[FusedBlock], now: Mapping[str, tuple[str, ...]]
) -> list[FusedBlock]:
    """Fused blocks with the operators that do their work; what copies a constant to an output joins the last one."""
    position = {op.name: number for number, op in enumerate(graph.operators)}
    found = [[name for old in block.operators for name in now[old]] for block in blocks]
    if found:
        inside = {name for names in found for name in names}
        found[-1] += [op.name for op in graph.operators if op.name not in inside]
    return [
        FusedBlock(tuple(sorted(names, key=position.__getitem__)), block.cores)
        for names, block in zip(found, blocks, strict=True)
    ]
