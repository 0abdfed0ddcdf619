"""The whole compiler on one screen: every arrow from a network and a machine to a report."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import onnx

from tilestitch.compilation import Compilation, Options, Stage, Strategy, strategy_named
from tilestitch.cost.bounds import bounds, least_cycles
from tilestitch.errors import DoesNotFit, InputError, printable
from tilestitch.frontend.binding import exported_batch_of, with_sizes
from tilestitch.frontend.reader import read_onnx
from tilestitch.frontend.rebatch import expect_independent_samples
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.graph import Graph
from tilestitch.ir.partition import SubGraph
from tilestitch.ir.program import Program
from tilestitch.ir.report import Report
from tilestitch.ir.tiles import kernels_of
from tilestitch.ir.trace import Trace, slowest_cluster
from tilestitch.ir.verify import verify_graph, verify_program
from tilestitch.lower.clusters import share_ddr
from tilestitch.lower.program import lower
from tilestitch.partition.coarse import coarse_groups
from tilestitch.passes import simplify
from tilestitch.passes.layouts import assign_layouts
from tilestitch.passes.outputs import write_outputs
from tilestitch.passes.views import resolve_views
from tilestitch.report.summarise import summarise
from tilestitch.schedule.batch import divisors, local_capacity, rule_batch
from tilestitch.schedule.plan import by_units, expect_compilable, plan
from tilestitch.schedule.whole import Cut, whole_may_be_better, without_repetition
from tilestitch.sim.chip.check import check
from tilestitch.sim.chip.energy import energy
from tilestitch.sim.chip.reference import Reference
from tilestitch.sim.chip.timing import simulate
from tilestitch.units import ceil_div
from tilestitch.zoo.inputs import iteration_inputs

MAX_BATCH = 10**9

Progress = Callable[[str, int, int], None]  # step, done, total
NEAR = 1.1  # estimates of schedules of one strategy that differ by less do not say which is faster
FAR = 1.5  # a schedule whose estimate is larger by this factor than a simulated latency is not faster
References = dict[tuple[int, int], Reference]  # by batch per iteration and number of iterations


def _quiet(step: str, done: int, total: int) -> None:
    """No progress shown."""


def compile_network(
    model: onnx.ModelProto,
    name: str,
    machine: Accelerator,
    strategy: Strategy,
    options: Options,
    *,
    references: References | None = None,
    progress: Progress = _quiet,
) -> Compilation:
    """Take a network through every stage, up to `options.stop_after`.

    `references` keeps the expected outputs by batch per iteration and number of iterations, so that several
    strategies share them.
    """
    model = with_sizes(name, model, options.dims)
    static = exported_batch_of(model)
    total = options.batch or static or 1
    if total > MAX_BATCH:
        raise InputError(f"{name}: a batch of {total:,} samples; expected at most {MAX_BATCH:,}")
    options = replace(options, batch=total)
    runs, ragged = divmod(total, static or 1)
    if ragged:
        raise InputError(
            f"{name}: its batch is fixed at {static}, and {total} samples are asked for; "
            f"ask for a multiple of {static}, or export it with a symbolic batch"
        )
    clusters = min(machine.clusters, runs)
    share = (static or 1) * ceil_div(runs, clusters)  # of the busiest cluster
    with _uncollected():
        return _compile(model, name, machine, strategy, options, share, static or 1, clusters, references, progress)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Leave out the search for garbage in cycles: programs hold none, and it takes a quarter of the time."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _compile(
    model: onnx.ModelProto,
    name: str,
    machine: Accelerator,
    strategy: Strategy,
    options: Options,
    share: int,
    smallest: int,
    clusters: int,
    references: References | None,
    progress: Progress,
) -> Compilation:
    """Every stage that is asked for, with the batch of an iteration searched where that is asked for."""
    job = _Job(model, name, machine, options, share, smallest, clusters, progress, {}, {}, {}, {})
    candidates = _iteration_batches(job, strategy)
    if exported_batch_of(model) is None and (clusters > 1 or min(candidates) < share):
        _expect_divisible(job)
    only = len(candidates) == 1 and strategy.fallback is None and not strategy.instances
    if only or options.stop_after in (Stage.LOAD, Stage.SIMPLIFY):
        best = _compile_batch(job, strategy, candidates[0], options.stop_after)
    elif options.stop_after is not Stage.SIMULATE and not strategy.levels:
        best = _compile_batch(job, strategy, candidates[0], options.stop_after)  # nothing to compare candidates by
    else:
        best = _fastest(job, strategy, candidates)
        if strategy.fallback is not None:
            best = _not_slower(job, best, strategy_named(strategy.fallback))
        best = best.up_to(options.stop_after)
    if best.trace is None or best.schedule is None:
        return best
    return replace(best, report=_report(best, model, machine, options, share, references, progress))


@dataclass(frozen=True)
class _Job:
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
    whole: dict[int, bool]  # by batch per iteration, whether sub-graphs may better stay whole

    def read(self, batch: int) -> Graph:
        if batch not in self.loaded:
            self.loaded[batch] = read_onnx(self.model, name=self.name, batch=batch, weights=self.weights)
        return self.loaded[batch]


def _expect_divisible(job: _Job) -> None:
    """Refuse a batch that is divided among clusters and iterations where an operator looks at several samples."""
    try:
        expect_independent_samples(job.name, job.read(2), job.read(1), 1, 2)
    except InputError as error:
        raise InputError(
            f"{error} Export the network with its batch fixed at {job.options.batch}, so that it runs as a whole."
        ) from None


def _fastest(job: _Job, strategy: Strategy, candidates: Sequence[int], best: Compilation | None = None) -> Compilation:
    """The compilation of the least latency: `best`, or that of a batch per iteration; the first of several.

    Left out are batches that their bound rules out. Strategies that hold results on chip plan all others, those with
    instances also without any where that may be better, and simulate those whose estimates are near the least. Raises
    `DoesNotFit` where none fits.
    """
    misfit: DoesNotFit | None = None
    planned: list[tuple[int, int, Compilation]] = []  # estimate, place among those planned
    known: tuple[Graph, int, Sequence[tuple[str, ...]]] | None = None  # at some batch: graph, iterations, kernels
    if best is not None and best.schedule is not None:
        done = _compile_batch(job, strategy, best.schedule.batch, Stage.PARTITION)
        assert done.simplified is not None
        assert done.groups is not None
        graph, parts = _without_views(done.simplified, done.groups, job.machine)
        known = graph, best.schedule.iterations, parts

    def simulated(found: Compilation, best: Compilation | None) -> Compilation:
        assert found.schedule is not None
        found = _compile_batch(job, strategy, found.schedule.batch, Stage.SIMULATE, found)
        return found if best is None or _latency(found) < _latency(best) else best

    for number, batch in enumerate(candidates):
        job.progress("search of the batch per cluster", number, len(candidates))
        limit = None if best is None else _latency(best)
        if planned:
            limit = int(NEAR * min(planned)[0])
        if known is not None and limit is not None and _least_cycles(job, strategy, *known, batch) >= limit:
            continue
        for way in _ways(job, strategy, batch):
            try:
                found = _compile_batch(job, way, batch, Stage.SCHEDULE)
                assert found.schedule is not None
                known = found.schedule.graph, found.schedule.iterations, [k.operators for k in found.schedule.kernels]
                if strategy.levels:
                    planned.append((_estimate(found), len(planned), _explained(found, way, strategy, planned)))
                elif limit is None or _estimate(found) < FAR * limit:
                    best = simulated(found, best)
            except DoesNotFit as error:
                misfit = error
    least: int | None = None
    for estimate, _, found in sorted(planned, key=lambda one: one[:2]):
        if least is not None and estimate > NEAR * least:
            break
        try:
            best = simulated(found, best)
            least = estimate if least is None else least
        except DoesNotFit as error:
            misfit = error
    if best is None:
        assert misfit is not None
        raise misfit
    return best


def _ways(job: _Job, strategy: Strategy, batch: int) -> Iterator[Strategy]:
    """The strategy and, where its sub-graphs may better stay whole, the same without instances.

    To be asked for the second after the first was planned.
    """
    yield strategy
    if strategy.instances and job.whole.get(batch, False):
        yield replace(strategy, instances=False)


def _explained(
    found: Compilation, way: Strategy, strategy: Strategy, planned: Sequence[tuple[int, int, Compilation]]
) -> Compilation:
    """A compilation with a note that says so where sub-graphs stay whole, though the strategy may split them."""
    assert found.schedule is not None
    if way is strategy:
        return found
    note = f"{strategy.name} leaves its sub-graphs whole: {_estimate(found):,} cycles"
    pieces = [
        estimate for estimate, _, other in planned if other.schedule and other.schedule.batch == found.schedule.batch
    ]
    note += (
        f" instead of {pieces[0]:,} in pieces (estimated)." if pieces else " (estimated); in pieces they do not fit."
    )
    return replace(found, schedule=replace(found.schedule, notes=(note,)))


def _not_slower(job: _Job, best: Compilation, other: Strategy) -> Compilation:
    """`best`, or what another strategy makes of the batch where that is faster, with a note that says so."""
    assert best.schedule is not None
    strategy, ours = best.schedule.strategy, _latency(best)
    found = _fastest(job, other, _possible_batches(job), best)
    if found is best or found.schedule is None:
        return best
    note = f"{strategy} falls back to {other.name}: {_latency(found):,} cycles instead of {ours:,}."
    return replace(found, schedule=replace(found.schedule, strategy=strategy, notes=(note,)))


def _latency(done: Compilation) -> int:
    assert done.trace is not None
    return done.trace.latency_cycles


def _estimate(done: Compilation) -> int:
    assert done.schedule is not None
    return sum(kernel.estimated_cycles for kernel in done.schedule.kernels) * done.schedule.iterations


def _least_cycles(
    job: _Job, strategy: Strategy, graph: Graph, iterations: int, kernels: Sequence[tuple[str, ...]], batch: int
) -> int:
    """What no schedule of the strategy with that batch per iteration can be faster than.

    `graph` and `kernels` are those of another batch per iteration.
    """
    return least_cycles(
        graph,
        job.machine,
        iterations=iterations,
        constant_loads=job.share // batch * job.options.batches,
        sharers=1 if job.machine.private_ddr else job.clusters,
        through_ddr=() if strategy.levels else kernels,
    )


def _compile_batch(
    job: _Job, strategy: Strategy, batch: int, last: Stage, done: Compilation | None = None
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
            done = replace(done, simplified=simplify(done.loaded, fold_bn=options.fold_bn))
            job.simplified[batch] = done
    if wanted(Stage.PARTITION) and done.simplified is not None and done.groups is None:
        progress("partition", 0, 1)
        done = replace(done, groups=strategy.partition(done.simplified))
    if wanted(Stage.SCHEDULE) and done.simplified is not None and done.groups is not None and done.schedule is None:
        graph, parts = _without_views(done.simplified, done.groups, machine)
        cuts: list[Cut] = []
        if strategy.instances:
            for one in coarse_groups(graph, local_capacity(machine)):
                pieces = one.split.factor if one.split.fits else 1
                cuts.append(Cut(one.operators, one.split.axis, pieces, one.split.peak_bytes))
            cuts = without_repetition(graph, cuts)
            job.whole[batch] = whole_may_be_better(graph, cuts, machine)
        schedule = plan(
            graph,
            parts,
            machine,
            strategy.levels,
            [(cut.operators, (cut.axis, cut.pieces)) for cut in cuts],
            by_hand=strategy.by_hand,
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
    return done


def _simulate(program: Program, machine: Accelerator, clusters: int) -> Trace:
    """One cluster stands for all where each has a DDR of its own; else all of them, and the slowest is shown."""
    if machine.private_ddr or clusters == 1:
        return simulate(program)
    return slowest_cluster(simulate(share_ddr(program, clusters)), program)


def _without_views(
    graph: Graph, groups: tuple[SubGraph, ...], machine: Accelerator
) -> tuple[Graph, list[tuple[str, ...]]]:
    """The graph with views composed away and layouts chosen, and the kernels of the groups in it, in running order."""
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
    return resolved, parts


def _possible_batches(job: _Job) -> list[int]:
    """Every batch of one cluster's iteration: multiples of the smallest that divide the cluster's share."""
    return [job.smallest * n for n in divisors(job.share // job.smallest)]


def _iteration_batches(job: _Job, strategy: Strategy) -> list[int]:
    """Those that are asked for, in the order in which they are tried.

    By "rule", strategies that hold results on chip try all, from the largest: how much fits decides for them.
    """
    possible, asked = _possible_batches(job), job.options.batch_per_cluster
    if asked == "auto":
        return possible[::-1] if strategy.levels else possible
    if isinstance(asked, int):
        if asked not in possible:
            raise InputError(
                f"--batch-per-cluster {asked} does not divide the {job.share} samples of a cluster; "
                f"possible are {', '.join(map(str, possible))}, rule and auto"
            )
        return [asked]
    if asked != "rule":
        raise InputError(f"--batch-per-cluster {printable(repr(asked), 40)}: expected a number, rule or auto")
    if len(possible) == 1:
        return possible
    if strategy.levels:
        return possible[::-1]
    done = _compile_batch(job, strategy, job.smallest, Stage.PARTITION)
    assert done.simplified is not None
    assert done.groups is not None
    limit = job.smallest * rule_batch(*_without_views(done.simplified, done.groups, job.machine), job.machine)
    return [max(n for n in possible if n <= limit)]


def _report(
    done: Compilation,
    model: onnx.ModelProto,
    machine: Accelerator,
    options: Options,
    share: int,
    references: References | None,
    progress: Progress,
) -> Report:
    """Summarise a simulated compilation, executed and compared with onnxruntime where asked."""
    schedule, trace = done.schedule, done.trace
    assert schedule is not None
    assert trace is not None
    checks = ()
    if options.verify:
        references = {} if references is None else references
        key = schedule.batch, schedule.iterations
        if key not in references:
            progress("run onnxruntime", 0, 1)
            shapes = {name: schedule.graph.tensors[name].shape for name in schedule.graph.inputs}
            exported = exported_batch_of(model)
            feeds = iteration_inputs(
                model, shapes, batch=schedule.batch, iterations=schedule.iterations, exported_batch=exported
            )
            references[key] = Reference(model, schedule.graph, feeds, exported_batch=exported)
        checks = check(trace, references[key], progress=lambda at, of: progress("execute", at, of))
    limits = bounds(
        schedule.graph,
        machine,
        iterations=schedule.iterations // options.batches,
        sharers=1 if machine.private_ddr else schedule.clusters,
    )
    return summarise(
        schedule,
        trace,
        machine,
        limits=limits,
        energy_pj=energy(trace, machine).parts,
        checks=checks,
        batch=options.batch or 1,
        share=share,
        batches=options.batches,
    )
