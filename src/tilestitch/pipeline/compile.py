"""From a network and a machine to a report: the stages, the search of the batch, and the checks."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import onnx

from tilestitch.base.errors import InputError
from tilestitch.base.progress import Progress, quiet
from tilestitch.base.units import ceil_div
from tilestitch.cost.bounds import bounds
from tilestitch.frontend.binding import exported_batch_of, with_sizes
from tilestitch.frontend.rebatch import expect_independent_samples
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.report import Report
from tilestitch.mapping.tile import tile_energy
from tilestitch.pipeline.batches import fastest, iteration_batches, not_slower
from tilestitch.pipeline.compilation import Compilation, Options, Stage, Strategy, strategy_named
from tilestitch.pipeline.stages import Job, compile_batch
from tilestitch.report.summarise import summarise
from tilestitch.sim.chip.check import check
from tilestitch.sim.chip.energy import energy
from tilestitch.sim.chip.reference import Reference
from tilestitch.zoo.inputs import iteration_inputs

MAX_BATCH = 10**9

References = dict[tuple[int, int], Reference]  # by batch per iteration and number of iterations


def compile_network(
    model: onnx.ModelProto,
    name: str,
    machine: Accelerator,
    strategy: Strategy,
    options: Options,
    *,
    references: References | None = None,
    progress: Progress = quiet,
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
    job = Job(model, name, machine, options, share, smallest, clusters, progress, {}, {}, {}, {}, {})
    candidates = iteration_batches(job, strategy)
    if exported_batch_of(model) is None and (clusters > 1 or min(candidates) < share):
        _expect_divisible(job)
    only = len(candidates) == 1 and strategy.fallback is None and not strategy.instances
    if only or options.stop_after in (Stage.LOAD, Stage.SIMPLIFY):
        best = compile_batch(job, strategy, candidates[0], options.stop_after)
    elif options.stop_after is not Stage.SIMULATE and not strategy.levels:
        best = compile_batch(job, strategy, candidates[0], options.stop_after)  # nothing to compare candidates by
    else:
        best = fastest(job, strategy, candidates)
        if strategy.fallback is not None:
            best = not_slower(job, best, strategy_named(strategy.fallback))
        best = best.up_to(options.stop_after)
    if best.trace is None or best.schedule is None:
        return best
    return replace(best, report=_report(best, model, machine, options, share, references, progress))


def _expect_divisible(job: Job) -> None:
    """Refuse a batch that is divided among clusters and iterations where an operator looks at several samples."""
    try:
        expect_independent_samples(job.name, job.read(2), job.read(1), 1, 2)
    except InputError as error:
        raise InputError(
            f"{error} Export the network with its batch fixed at {job.options.batch}, so that it runs as a whole."
        ) from None


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
        energy_pj=energy(trace, machine, tile_energy(machine)).parts,
        checks=checks,
        batch=options.batch or 1,
        share=share,
        batches=options.batches,
    )
