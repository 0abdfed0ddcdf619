"""Which batch one iteration of a cluster takes: asked for, by rule, or the fastest of several."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tilestitch.base.errors import DoesNotFit, InputError, printable
from tilestitch.cost.bounds import least_cycles
from tilestitch.ir.graph import Graph
from tilestitch.pipeline.compilation import Compilation, Stage, Strategy
from tilestitch.pipeline.stages import Job, compile_batch, without_views
from tilestitch.schedule.batch import divisors, rule_batch

NEAR = 1.1  # estimates of schedules of one strategy that differ by less do not say which is faster
FAR = 1.5  # a schedule whose estimate is larger by this factor than a simulated latency is not faster


def possible_batches(job: Job) -> list[int]:
    """Every batch of one cluster's iteration: multiples of the smallest that divide the cluster's share."""
    return [job.smallest * n for n in divisors(job.share // job.smallest)]


def iteration_batches(job: Job, strategy: Strategy) -> list[int]:
    """Those that are asked for, in the order in which they are tried.

    By "rule", strategies that hold results on chip try all, from the largest: how much fits decides for them.
    """
    possible, asked = possible_batches(job), job.options.batch_per_cluster
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
    done = compile_batch(job, strategy, job.smallest, Stage.PARTITION)
    assert done.simplified is not None
    assert done.groups is not None
    limit = job.smallest * rule_batch(*without_views(done.simplified, done.groups, job.machine)[:2], job.machine)
    return [max(n for n in possible if n <= limit)]


def fastest(job: Job, strategy: Strategy, candidates: Sequence[int], best: Compilation | None = None) -> Compilation:
    """The compilation of the least latency: `best`, or that of a batch per iteration; the first of several.

    Left out are batches that their bound rules out. Strategies that hold results on chip plan all others, those with
    instances also without any where that may be better, and simulate those whose estimates are near the least. Raises
    `DoesNotFit` where none fits.
    """
    misfit: DoesNotFit | None = None
    planned: list[tuple[int, int, Compilation]] = []  # estimate, place among those planned
    known: tuple[Graph, int, Sequence[tuple[str, ...]]] | None = None  # at some batch: graph, iterations, kernels
    if best is not None and best.schedule is not None:
        done = compile_batch(job, strategy, best.schedule.batch, Stage.PARTITION)
        assert done.simplified is not None
        assert done.groups is not None
        graph, parts, _ = without_views(done.simplified, done.groups, job.machine)
        known = graph, best.schedule.iterations, parts

    def simulated(found: Compilation, best: Compilation | None) -> Compilation:
        assert found.schedule is not None
        found = compile_batch(job, strategy, found.schedule.batch, Stage.SIMULATE, found)
        return found if best is None or latency(found) < latency(best) else best

    for number, batch in enumerate(candidates):
        job.progress("search of the batch per cluster", number, len(candidates))
        limit = None if best is None else latency(best)
        if planned:
            limit = int(NEAR * min(planned)[0])
        if known is not None and limit is not None and _least_cycles(job, strategy, *known, batch) >= limit:
            continue
        for way in _ways(job, strategy, batch):
            try:
                found = compile_batch(job, way, batch, Stage.SCHEDULE)
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


def _ways(job: Job, strategy: Strategy, batch: int) -> Iterator[Strategy]:
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


def not_slower(job: Job, best: Compilation, other: Strategy) -> Compilation:
    """`best`, or what another strategy makes of the batch where that is faster, with a note that says so."""
    assert best.schedule is not None
    strategy, ours = best.schedule.strategy, latency(best)
    found = fastest(job, other, possible_batches(job), best)
    if found is best or found.schedule is None:
        return best
    note = f"{strategy} falls back to {other.name}: {latency(found):,} cycles instead of {ours:,}."
    return replace(found, schedule=replace(found.schedule, strategy=strategy, notes=(note,)))


def latency(done: Compilation) -> int:
    assert done.trace is not None
    return done.trace.latency_cycles


def _estimate(done: Compilation) -> int:
    assert done.schedule is not None
    return sum(kernel.estimated_cycles for kernel in done.schedule.kernels) * done.schedule.iterations


def _least_cycles(
    job: Job, strategy: Strategy, graph: Graph, iterations: int, kernels: Sequence[tuple[str, ...]], batch: int
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
