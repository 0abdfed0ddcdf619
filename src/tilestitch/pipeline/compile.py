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
from tilestitch.ir.choices import MAX_BATCH, Stage
from tilestitch.ir.report import CheckRow, Report
from tilestitch.mapping.tile import tile_energy
from tilestitch.pipeline.batches import fastest, iteration_batches, not_slower
from tilestitch.pipeline.compilation import Compilation, given
from tilestitch.pipeline.networks import Networks
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.stages import Request, compile_batch
from tilestitch.pipeline.strategies import Strategy, strategy_named
from tilestitch.report.summarise import Workload, summarise
from tilestitch.sim.chip.check import check
from tilestitch.sim.chip.energy import energy
from tilestitch.sim.chip.reference import Reference
from tilestitch.zoo.inputs import iteration_inputs

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
    request = requested(model, name, machine, options, progress)
    with _uncollected():
        networks = Networks(model, name, fold_bn=options.fold_bn, progress=progress)
        best = _searched(request, networks, strategy)
        if best.trace is None:
            return best
        return replace(best, report=_report(request, best, model, references))


def requested(
    model: onnx.ModelProto, name: str, machine: Accelerator, options: Options, progress: Progress = quiet
) -> Request:
    """How the samples that are asked for are divided among clusters; `model` has all its sizes."""
    static = exported_batch_of(model)
    total = options.batch or static or 1
    if total > MAX_BATCH:
        raise InputError(f"{name}: a batch of {total:,} samples; expected at most {MAX_BATCH:,}")
    runs, ragged = divmod(total, static or 1)
    if ragged:
        raise InputError(
            f"{name}: its batch is fixed at {static}, and {total} samples are asked for; "
            f"ask for a multiple of {static}, or export it with a symbolic batch"
        )
    clusters = min(machine.clusters, runs)
    share = (static or 1) * ceil_div(runs, clusters)  # of the busiest cluster
    return Request(machine, replace(options, batch=total), share, static or 1, clusters, progress)


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


def _searched(request: Request, networks: Networks, strategy: Strategy) -> Compilation:
    """Every stage that is asked for, with the batch of an iteration searched where that is asked for."""
    candidates = iteration_batches(request, networks, strategy)
    static = exported_batch_of(networks.model)
    if static is None and (request.clusters > 1 or min(candidates) < request.share):
        _expect_divisible(request, networks)
    last = request.options.stop_after
    only = len(candidates) == 1 and strategy.fallback is None and not strategy.in_pieces
    nothing_to_compare = last is not Stage.SIMULATE and not strategy.levels
    if only or nothing_to_compare or last in (Stage.LOAD, Stage.SIMPLIFY):
        return compile_batch(request, networks, strategy, candidates[0], last)
    best = fastest(request, networks, strategy, candidates)
    if strategy.fallback is not None:
        best = not_slower(request, networks, best, strategy_named(strategy.fallback))
    return best.up_to(last)


def _expect_divisible(request: Request, networks: Networks) -> None:
    """Refuse a batch that is divided among clusters and iterations where an operator looks at several samples."""
    try:
        expect_independent_samples(networks.name, networks.loaded(2), networks.loaded(1), 1, 2)
    except InputError as error:
        raise InputError(
            f"{error} Export the network with its batch fixed at {request.options.batch}, so that it runs as a whole."
        ) from None


def _report(request: Request, done: Compilation, model: onnx.ModelProto, references: References | None) -> Report:
    """Summarise a simulated compilation, executed and compared with onnxruntime where asked."""
    schedule, trace, options = given(done.schedule), given(done.trace), request.options
    limits = bounds(
        schedule.graph,
        request.machine,
        iterations=schedule.iterations // options.batches,
        sharers=1 if request.machine.private_ddr else schedule.clusters,
    )
    return summarise(
        schedule,
        trace,
        request.machine,
        Workload(options.batch or 1, request.share, options.batches),
        limits=limits,
        energy_pj=energy(trace, request.machine, tile_energy(request.machine)).parts,
        checks=_checks(request, done, model, {} if references is None else references) if options.verify else (),
    )


def _checks(
    request: Request, done: Compilation, model: onnx.ModelProto, references: References
) -> tuple[CheckRow, ...]:
    """The program executed, and its outputs compared with onnxruntime's."""
    schedule, progress = given(done.schedule), request.progress
    key = schedule.batch, schedule.iterations
    if key not in references:
        progress("run onnxruntime", 0, 1)
        shapes = {name: schedule.graph.tensors[name].shape for name in schedule.graph.inputs}
        exported = exported_batch_of(model)
        feeds = iteration_inputs(
            model, shapes, batch=schedule.batch, iterations=schedule.iterations, exported_batch=exported
        )
        references[key] = Reference(model, schedule.graph, feeds, exported_batch=exported)
    return check(given(done.trace), references[key], progress=lambda at, of: progress("execute", at, of))
