"""From a network and a machine to a report: the stages, the search of the batch, and the checks."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import onnx

from tilestitch.base.errors import DoesNotFit, InputError, TooLarge, printable
from tilestitch.base.progress import Progress, quiet
from tilestitch.base.units import ceil_div, counted
from tilestitch.cost.bounds import bounds
from tilestitch.frontend.binding import exported_batch_of, with_sizes
from tilestitch.frontend.rebatch import FixedBatch, expect_independent_samples
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.choices import MAX_BATCH, Stage
from tilestitch.ir.graph import Graph
from tilestitch.ir.partition import ByHand, Groups
from tilestitch.ir.report import DECIDING_SHARE, CheckRow
from tilestitch.ir.rewriting import Rewriting
from tilestitch.ir.schedule import Schedule
from tilestitch.lower.sums import with_sums
from tilestitch.passes import simplify
from tilestitch.passes.narrow import as_wide_as
from tilestitch.pipeline.batches import (
    fastest,
    is_far_by_bound,
    iteration_batches,
    latency,
    not_slower,
    possible_batches,
)
from tilestitch.pipeline.beside import beside_map, expect_comparable
from tilestitch.pipeline.compilation import Compilation, given
from tilestitch.pipeline.networks import Networks
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.remedies import WITH_OPTIONS, with_remedies_that_work
from tilestitch.pipeline.search.best import improved
from tilestitch.pipeline.stage_files import Started, decisions_in, graph_of, partition_of, program_of, rewriting_in
from tilestitch.pipeline.stages import Request, compile_batch, lowered, partitioned, scheduled, simulated
from tilestitch.pipeline.strategies import STRATEGIES, Strategy, seeds_of, strategy_named, strategy_of
from tilestitch.pipeline.views import composed_graph
from tilestitch.report.beside_text import beside_note
from tilestitch.report.page import ReportPage
from tilestitch.report.summarise import Workload, summarise
from tilestitch.sim.chip.energy import TileEnergy, energy
from tilestitch.sim.chip.long_integers import long_tensors
from tilestitch.sim.chip.widths import note, unproven
from tilestitch.zoo.inputs import BITS, integer_inputs, iteration_inputs

if TYPE_CHECKING:
    from tilestitch.sim.chip.check import Checked
    from tilestitch.sim.chip.reference import Reference

# Of each draw of inputs, by batch per iteration and number of iterations.
References: TypeAlias = "dict[tuple[int, int], tuple[Reference, ...]]"


def compile_network(
    model: onnx.ModelProto,
    name: str,
    machine: Accelerator,
    strategy: Strategy,
    options: Options,
    *,
    references: "References | None" = None,
    progress: Progress = quiet,
) -> Compilation:
    """Take a network through every stage, up to `options.stop_after`.

    `references` keeps the expected outputs by batch per iteration and number of iterations, so that several
    strategies share them. A network that can be read for no other batch than the one it was exported for runs in
    iterations of that batch, unless `options` ask for another; a note says so.
    """
    model = with_sizes(name, model, options.dims)
    request = requested(model, name, machine, options, progress)
    if options.beside_map:
        expect_comparable(machine, options.batches)
    with _uncollected():
        networks = _networks(model, name, request)
        try:
            best = _fitting(request, networks, strategy)
        except FixedBatch as error:
            best = _as_exported(request, networks, strategy, error.problem)
        return best if best.trace is None else _reported(request, best, model, references)


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
            f"{name}: its batch, dim 0 of its inputs, is fixed at {static}, and {total} samples are asked for; "
            f"ask for a multiple of {static}, or export it with a symbolic dim 0"
        )
    clusters = min(machine.clusters, runs)
    share = (static or 1) * ceil_div(runs, clusters)  # of the busiest cluster
    return Request(machine, replace(options, batch=total), share, static or 1, clusters, progress)


def resume_network(
    model: onnx.ModelProto,
    start: Started,
    machine: Accelerator,
    options: Options,
    *,
    progress: Progress = quiet,
) -> Compilation:
    """Go on from the value of a stage; `options` say `verify`, `beside_map` and `stop_after`, and the file the others.

    `model` is the network that the value is of. Raises `InputError` where the value does not hold what it must.
    """
    asked = options
    options = replace(start.options, verify=asked.verify, beside_map=asked.beside_map, stop_after=asked.stop_after)
    if options.beside_map:
        expect_comparable(machine, options.batches)
    if machine.name != start.machine:
        found, right = printable(machine.name), printable(start.machine)
        raise InputError(f"{start.where}: is for the machine {right}, found {found}; give --machine {right}")
    order = list(Stage)
    if order.index(options.stop_after) < order.index(start.stage):
        raise InputError(f"{start.where}: is the value of {start.stage}, which comes after {options.stop_after}")
    model = with_sizes(start.network, model, options.dims)
    request = requested(model, start.network, machine, options, progress)
    run = request.run(start.run.strategy, start.run.batch)
    if start.run.batch not in possible_batches(request) or start.run != run:
        raise InputError(
            f"{start.where}: run: {start.run.clusters} clusters, {start.run.iterations} iterations and batch "
            f"{start.run.batch} do not make the batch of {options.batch} on {machine.name}"
        )
    with _uncollected():
        networks = _networks(model, start.network, request)
        try:
            done = _resumed(request, networks, start).up_to(options.stop_after)
        except DoesNotFit as error:
            raise DoesNotFit(error.problem, *(one for one in error.remedies if one not in WITH_OPTIONS)) from None
        return done if done.trace is None else _reported(request, done, model, None)


def _resumed(request: Request, networks: Networks, start: Started) -> Compilation:
    """Every stage after the one whose value is given; those before it are made again where a later one needs them."""
    given_graph = graph_of(start) if start.stage in (Stage.LOAD, Stage.SIMPLIFY) else None
    loaded = networks.loaded(start.run.batch) if given_graph is None else given_graph
    done = Compilation(request.machine, request.options, start.run, start.way, loaded)
    match start.stage:
        case Stage.LOAD:
            simplified = simplify(loaded, fold_bn=request.options.fold_bn)
            done = replace(done, simplified=as_wide_as(simplified, request.machine.element_bits))
        case Stage.SIMPLIFY:
            done = replace(done, simplified=loaded)
        case _:
            done = replace(done, simplified=networks.simplified(start.run.batch))
    if given_graph is not None:
        strategy = strategy_named(start.way.strategy)
        done = partitioned(request, strategy, done)
        if start.way.whole:
            done = replace(done, partition=Groups(given(done.partition).kernels))
    else:
        graph, _ = composed_graph(given(done.simplified), rewriting_in(start))
        partition = partition_of(start, graph, request.machine)
        strategy = strategy_of(start.way.strategy, partition)
        done = replace(done, graph=graph, partition=partition)
    if start.stage in (Stage.SCHEDULE, Stage.LOWER):
        graph = given(done.graph)
        done = replace(done, schedule=decisions_in(start, graph, request.machine).of(graph))
    else:
        done = scheduled(request, request.policy(strategy), done)
        done = replace(done, schedule=replace(given(done.schedule), notes=start.notes))
    if start.stage is Stage.LOWER:
        graph = with_sums(given(done.graph), given(done.schedule).kernels)
        program, note = program_of(start, graph, request.machine)
        notes = (*start.notes, note) if note else start.notes
        schedule = replace(given(done.schedule), notes=notes)
        done = replace(done, schedule=schedule, program=program, reordered=note)
    else:
        done = lowered(request, done)
    return simulated(request, done, stitched=strategy.stitched)


def _networks(model: onnx.ModelProto, name: str, request: Request) -> Networks:
    return Networks(
        model,
        name,
        fold_bn=request.options.fold_bn,
        element_bits=request.machine.element_bits,
        progress=request.progress,
    )


@contextmanager
def _uncollected() -> Iterator[None]:
    """Leave out the search for garbage in cycles: programs are in none, and it takes a quarter of the time.

    Afterwards all that is new counts as old, or the first allocation would search it.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        if running:
            gc.enable()


def _fitting(request: Request, networks: Networks, strategy: Strategy) -> Compilation:
    """Every stage that is asked for; raises `DoesNotFit` with the remedies that work."""

    def divided(options: Options) -> Request:
        return replace(requested(networks.model, networks.name, request.machine, options), alone=request.alone)

    try:
        return _searched(request, networks, strategy)
    except DoesNotFit as error:
        raise with_remedies_that_work(request, networks, strategy, error, divided) from None


def _as_exported(request: Request, networks: Networks, strategy: Strategy, problem: str) -> Compilation:
    """The same in iterations of the exported batch, as `problem` forbids others; refused where another is asked for."""
    exported, asked = request.smallest, request.options.batch_per_cluster
    if isinstance(asked, int):
        raise InputError(
            f"{problem} (The network was exported for a batch of {exported}, and {asked} are asked for at a time; "
            f"export it with a symbolic batch, or run {exported} at a time: --batch-per-cluster {exported}.)"
        ) from None
    done = _fitting(replace(request, alone=True), networks, strategy)
    if done.schedule is None:
        return done
    note = (
        f"Iterations take {counted(exported, 'sample')}, the batch that the network was exported for, as it can be "
        f"read for no other: {problem.removeprefix(f'{networks.name}: ')}"
    )
    return replace(done, schedule=replace(done.schedule, notes=(*done.schedule.notes, note)))


def _searched(
    request: Request,
    networks: Networks,
    strategy: Strategy,
    is_hopeless: Callable[[Compilation], bool] | None = None,
) -> Compilation:
    """Every stage that is asked for, with the batch of an iteration searched where that is asked for.

    Of several batches those are not simulated whose planned schedules are hopeless.
    """
    if strategy.improves:
        return _improved(request, networks, strategy)
    if strategy.tries:
        return _fastest_of(request, networks, [strategy_named(name) for name in strategy.tries])
    candidates = iteration_batches(request, networks, strategy)
    static = exported_batch_of(networks.model)
    if static is None and (request.clusters > 1 or min(candidates) < request.share):
        _expect_divisible(request, networks)
    last = request.options.stop_after
    only = len(candidates) == 1 and strategy.fallback is None and not strategy.cuts and is_hopeless is None
    nothing_to_compare = last is not Stage.SIMULATE and not strategy.levels
    if only or nothing_to_compare or last in (Stage.LOAD, Stage.SIMPLIFY):
        return compile_batch(request, networks, strategy, candidates[0], last)
    best = fastest(request, networks, strategy, candidates, is_hopeless=is_hopeless)
    if strategy.fallback is not None:
        best = not_slower(request, networks, best, strategy_named(strategy.fallback))
    return best.up_to(last)


def _fastest_of(request: Request, networks: Networks, strategies: Sequence[Strategy]) -> Compilation:
    """The compilation by the strategy of the least latency, the first of several; it says which were tried.

    Raises `DoesNotFit` where the machine is too small for all. Where a tensor alone is larger than DDR, or the inputs
    and outputs of all samples are, only the simplest strategy is tried, which finds soon whether that can be.
    """
    last = request.options.stop_after
    if last in (Stage.LOAD, Stage.SIMPLIFY):
        return _searched(request, networks, strategies[0])
    graph = networks.simplified(request.smallest)
    largest = max((tensor.size_bytes for tensor in graph.tensors.values()), default=0)
    borders = sum(graph.tensors[name].size_bytes for name in (*graph.inputs, *graph.outputs))
    if max(largest, borders * (request.share // request.smallest)) > request.machine.ddr.size_bytes:
        return _searched(request, networks, strategy_named("tvm"))
    best = min(_each(request, networks, strategies), key=latency)
    names = [strategy.name for strategy in strategies]
    note = f"Strategy {best.run.strategy} is the fastest of {', '.join(names[:-1])} and {names[-1]}."
    schedule = given(best.schedule)
    best = replace(best, options=request.options, schedule=replace(schedule, notes=(note, *schedule.notes)))
    return best.up_to(last)


def _each(
    request: Request,
    networks: Networks,
    strategies: Sequence[Strategy],
    *,
    only_near: bool = False,
) -> list[Compilation]:
    """The compilations by some strategies, simulated; raises `DoesNotFit` where the machine is too small for all.

    `only_near` leaves out planned schedules that are far slower than the fastest of those before, by a bound; the
    strategies of `auto` come first. Only the fastest keeps its program: with many cores one takes gigabytes.
    """
    whole = replace(request, options=replace(request.options, stop_after=Stage.SIMULATE))
    first = strategy_named("auto").tries
    found: dict[str, Compilation] = {}
    misfit: DoesNotFit | None = None
    for strategy in sorted(strategies, key=lambda one: one.name not in first):
        best = min((found[one.name] for one in strategies if one.name in found), key=latency, default=None)
        found = {name: one if one is best else replace(one, program=None) for name, one in found.items()}

        is_hopeless = partial(is_far_by_bound, whole, best) if only_near and best is not None else None
        try:
            found[strategy.name] = _searched(whole, networks, strategy, is_hopeless)
        except DoesNotFit as error:
            misfit = error.unraised()
    if not found:
        assert misfit is not None
        raise misfit.unraised()
    return [found[strategy.name] for strategy in strategies if strategy.name in found]


def _improved(request: Request, networks: Networks, strategy: Strategy) -> Compilation:
    """What a search finds, beginning with the schedules of other strategies, of more of them with more effort."""
    last = request.options.stop_after
    begins = [strategy_named(name) for name in seeds_of(request.options.effort)]
    if last in (Stage.LOAD, Stage.SIMPLIFY):
        return _searched(request, networks, begins[0])
    seeds: list[Compilation] = []
    misfit: DoesNotFit | None = None
    for tried in (begins, [other for other in STRATEGIES if other not in begins]):
        if tried and not seeds:
            try:
                seeds = _each(request, networks, tried, only_near=True)
            except DoesNotFit as error:
                misfit = error.unraised()
    whole = replace(request, options=replace(request.options, stop_after=Stage.SIMULATE))
    best = improved(whole, networks, seeds, iteration_batches(request, networks, strategy))
    if best is None:
        assert misfit is not None
        raise misfit.unraised()
    return replace(best, options=replace(best.options, stop_after=last)).up_to(last)


def _expect_divisible(request: Request, networks: Networks) -> None:
    """Refuse a batch that is divided among clusters and iterations where an operator looks at several samples."""
    both, alone = networks.loaded(2), networks.loaded(1)
    try:
        expect_independent_samples(networks.name, both, alone, 1, 2)
    except InputError as error:
        raise InputError(
            f"{error} Export the network with its batch fixed at {request.options.batch}, so that it runs as a whole."
        ) from None


def _reported(
    request: Request, done: Compilation, model: onnx.ModelProto, references: "References | None"
) -> Compilation:
    """A simulated compilation with its report, executed and compared with onnxruntime where asked."""
    found: list[Checked] = []
    graph, references = given(done.schedule).graph, {} if references is None else references
    doubtful = unproven(graph, long_tensors(model, graph))
    if request.options.verify:
        found = _checked(request, done, model, references)
    report = replace(_report(request, done, _worst(found)), searched=done.searched)
    if doubtful:
        drawn = _drawn_bits(references, given(done.schedule)) if request.options.verify else None
        report = replace(report, notes=(*report.notes, note(doubtful, drawn)))
    if flat := _flat(references, given(done.schedule)) if request.options.verify else ():
        said = f"All values of {', '.join(flat)} are the same, so that errors in what leads to them may not show."
        report = replace(report, notes=(*report.notes, said))
    if request.options.beside_map:
        simplified, schedule, trace = given(done.simplified), given(done.schedule), given(done.trace)
        found_beside = beside_map(simplified, schedule, trace, request.machine, request.progress)
        if found_beside is not None:
            report = replace(report, beside=found_beside, notes=(*report.notes, beside_note(found_beside)))
    if not found:
        return replace(done, report=report)
    return replace(done, report=report, samples=found[0].samples, passed_on=found[0].passed_on)


def _flat(references: References, schedule: Schedule) -> list[str]:
    """Outputs of which all expected values are the same in every draw."""
    first, *others = (one.flat for one in references[schedule.batch, schedule.iterations])
    return [name for name in first if all(name in other for other in others)]


def _drawn_bits(references: References, schedule: Schedule) -> int:
    """Of the largest integer that was drawn."""
    arrays = (
        array
        for reference in references[schedule.batch, schedule.iterations]
        for feed in reference.inputs
        for array in feed.values()
        if array.dtype.kind in "iu" and array.size
    )
    return max((int(end).bit_length() for array in arrays for end in (array.min(), array.max())), default=0)


def _worst(found: "Sequence[Checked]") -> tuple[CheckRow, ...]:
    """The checks of several draws of inputs as those of one."""
    if not found:
        return ()
    from tilestitch.sim.chip.check import worst

    return worst([one.rows for one in found])


def _report(request: Request, done: Compilation, checks: tuple[CheckRow, ...]) -> ReportPage:
    """What a simulated compilation came to."""
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
        energy_pj=energy(trace, request.machine, _tile_energy(request.machine, schedule)).parts,
        checks=checks,
    )


def _tile_energy(machine: Accelerator, schedule: Schedule) -> TileEnergy | None:
    """What tiles take on an array or tree; None where no core has one."""
    if not any(core.has_mapper for core in machine.cores):
        return None
    from tilestitch.mapping.tile import tile_energy

    mappings = {one.anchor: one.mapping for one in schedule.kernels if one.anchor and one.mapping is not None}
    return tile_energy(machine, mappings)


def _checked(request: Request, done: Compilation, model: onnx.ModelProto, references: References) -> "list[Checked]":
    """The program executed on each draw of inputs, and its outputs compared with onnxruntime's."""
    from tilestitch.sim.chip.check import checked

    schedule, progress = given(done.schedule), request.progress
    key = schedule.batch, schedule.iterations
    if key not in references:
        progress("run onnxruntime", 0, 1)
        references[key] = _references(model, schedule, _unblocked(done), given(done.simplified))
    found = references[key]
    return [checked(given(done.trace), one, progress=lambda at, of: progress("execute", at, of)) for one in found]


def _unblocked(done: Compilation) -> Graph:
    """The network of a schedule, with every softmax and product whole: what parts of them round is no excuse."""
    partition = given(done.partition)
    asked = partition.schedule.rewriting if isinstance(partition, ByHand) else Rewriting()
    whole = replace(asked, streams=(), split_k=(), across=(), again=())
    return given(done.schedule).graph if whole == asked else composed_graph(given(done.simplified), whole)[0]


def _references(model: onnx.ModelProto, schedule: Schedule, graph: Graph, network: Graph) -> "tuple[Reference, ...]":
    """What to expect for inputs that are drawn: twice where there are integers among them.

    `graph` is the network of the schedule, with every softmax whole, and `network` the same with its views.

    Integers are drawn as large as the network can take them: a smaller draw follows where they leave the 32 bits that
    the machine has for them, where an operator is not defined for them, or where they leave most values undecided.
    """
    from tilestitch.sim.chip.reference import Reference

    shapes = {name: tensor.shape for name, tensor in schedule.graph.tensors.items()}
    exported = exported_batch_of(model)
    integers = integer_inputs(model)
    undecided, fault = None, None
    for bits in BITS if integers else BITS[:1]:
        if isinstance(fault, TooLarge) and bits == 0:
            break
        try:
            found = tuple(
                Reference(model, graph, feeds, network=network, exported_batch=exported)
                for feeds in (
                    iteration_inputs(
                        model,
                        shapes,
                        batch=schedule.batch,
                        iterations=schedule.iterations,
                        exported_batch=exported,
                        draw=draw,
                        bits=bits,
                    )
                    for draw in range(2 if integers else 1)
                )
            )
        except InputError as error:
            fault = error.unraised()
            continue
        decided, compared = (sum(counts) for counts in zip(*(one.decided for one in found), strict=True))
        if decided >= DECIDING_SHARE * compared:
            return found
        undecided = found if undecided is None else undecided
    if undecided is not None:
        return undecided
    assert fault is not None
    raise fault.unraised()
