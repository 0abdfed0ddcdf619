"""Which batch one iteration of a cluster takes: asked for, by rule, or the fastest of several."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from tilestitch.base.errors import DoesNotFit, InputError, printable
from tilestitch.cost.block_bounds import least_block_cycles
from tilestitch.cost.bounds import least_cycles
from tilestitch.ir.graph import Graph
from tilestitch.ir.partition import Blocks, FusedBlock, Groups, Kernels, Partition, SubGraphs
from tilestitch.pipeline.compilation import Compilation, Way, given
from tilestitch.pipeline.networks import Networks
from tilestitch.pipeline.stages import Request, at_batch, lowered, scheduled, simulated
from tilestitch.pipeline.strategies import Strategy
from tilestitch.schedule.batch import divisors, rule_batch

NEAR = 1.1  # estimates of schedules of one strategy that differ by less do not say which is faster
FAR = 1.5  # a schedule whose estimate is larger by this factor than a simulated latency is not faster


def possible_batches(request: Request) -> list[int]:
    """Every batch of one cluster's iteration: multiples of the smallest that divide the cluster's share."""
    if request.alone:
        return [request.smallest]
    return [request.smallest * n for n in divisors(request.share // request.smallest)]


def iteration_batches(request: Request, networks: Networks, strategy: Strategy) -> list[int]:
    """Those that are asked for, in the order in which they are tried.

    By "rule", strategies that hold results on chip try all, from the largest: how much fits decides for them.
    """
    possible, asked = possible_batches(request), request.options.batch_per_cluster
    if asked == "auto":
        return possible[::-1] if strategy.levels else possible
    if isinstance(asked, int):
        if asked not in possible:
            raise InputError(
                f"--batch-per-cluster {asked} does not divide the {request.share} samples of a cluster; "
                f"possible values are {', '.join(map(str, possible))}, rule and auto"
            )
        return [asked]
    if asked != "rule":
        raise InputError(f"--batch-per-cluster {printable(repr(asked), 40)}: expected a number, rule or auto")
    if len(possible) == 1:
        return possible
    if strategy.levels:
        return possible[::-1]
    done = at_batch(request, networks, strategy, request.smallest)
    limit = request.smallest * rule_batch(given(done.graph), given(done.partition).kernels, request.machine)
    return [max(n for n in possible if n <= limit)]


@dataclass(frozen=True, slots=True)
class Planned:
    """A schedule that was planned and not simulated yet."""

    estimated_cycles: int
    number: int  # place among those planned
    done: Compilation


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a network at some batch per iteration."""

    graph: Graph
    iterations: int
    kernels: Kernels


def fastest(
    request: Request,
    networks: Networks,
    strategy: Strategy,
    candidates: Sequence[int],
    best: Compilation | None = None,
    *,
    is_hopeless: Callable[[Compilation], bool] | None = None,
) -> Compilation:
    """The compilation of the least latency: `best`, or that of a batch per iteration; the first of several.

    Left out are batches that their bound rules out. Strategies that hold results on chip plan all others, those in
    pieces also without any where that may be better, and simulate those whose estimates are near the least. Planned
    schedules that are hopeless are left out. Raises `DoesNotFit` where none fits, or none is left.
    """
    misfit: DoesNotFit | None = None
    planned: list[Planned] = []
    known: Known | None = None
    partitioned: dict[int, Compilation] = {}  # by batch
    if best is not None and best.schedule is not None:
        with suppress(DoesNotFit):
            batch = best.schedule.batch
            done = partitioned[batch] = at_batch(request, networks, strategy, batch)
            known = Known(given(done.graph), best.schedule.iterations, given(done.partition).kernels)
    for number, batch in enumerate(candidates):
        request.progress("search of the batch per cluster", number, len(candidates))
        limit = None if best is None else latency(best)
        if planned:
            limit = int(NEAR * min(one.estimated_cycles for one in planned))
        if known is not None and limit is not None and _least_cycles(request, strategy, known, batch) >= limit:
            continue
        try:
            done = partitioned[batch] if batch in partitioned else at_batch(request, networks, strategy, batch)
        except DoesNotFit as error:
            misfit = error.unraised()
            continue
        if best is not None and least_launched_cycles(request, strategy, done) >= latency(best):
            continue
        for partition in _ways(given(done.partition)):
            try:
                whole = partition is not done.partition
                way = replace(done, partition=partition, way=Way(strategy.name, whole))
                shared = networks.shared(batch, request.machine, strategy.rewriting)
                found = scheduled(request, request.policy(strategy), way, shared)
                schedule = given(found.schedule)
                known = Known(schedule.graph, schedule.iterations, tuple(k.operators for k in schedule.kernels))
                if is_hopeless is not None and is_hopeless(found):
                    raise DoesNotFit(f"{networks.name}: a schedule that is slower than another one is not simulated.")
                if strategy.levels:
                    found = _explained(found, planned) if whole else found
                    planned.append(Planned(_estimate(found), len(planned), found))
                elif limit is None or _estimate(found) < FAR * limit:
                    best = _faster(request, networks, strategy, found, best)
            except DoesNotFit as error:
                misfit = error.unraised()
    least: int | None = None
    for one in sorted(planned, key=lambda one: (one.estimated_cycles, one.number)):
        if least is not None and one.estimated_cycles > NEAR * least:
            break
        try:
            best = _faster(request, networks, strategy, one.done, best)
            least = one.estimated_cycles if least is None else least
        except DoesNotFit as error:
            misfit = error.unraised()
    if best is None:
        assert misfit is not None
        raise misfit.unraised()
    return best


def _faster(
    request: Request, networks: Networks, strategy: Strategy, found: Compilation, best: Compilation | None
) -> Compilation:
    """A planned schedule, lowered and simulated, or the best so far where that is no slower."""
    if best is not None and _least_planned_cycles(request, found) >= latency(best):
        return best
    shared = networks.shared(found.run.batch, request.machine, strategy.rewriting)
    found = simulated(request, lowered(request, found, shared), stitched=strategy.stitched)
    return found if best is None or latency(found) < latency(best) else best


def _ways(partition: Partition) -> Iterator[Partition]:
    """The partition and, where its sub-graphs may better stay whole, the same kernels without pieces."""
    yield partition
    if isinstance(partition, SubGraphs) and partition.whole_may_be_better:
        yield Groups(partition.kernels)


def _explained(found: Compilation, planned: Sequence[Planned]) -> Compilation:
    """A compilation with a note that says that sub-graphs stay whole, though the strategy may split them."""
    schedule = given(found.schedule)
    note = f"{schedule.strategy} leaves its sub-graphs whole: {_estimate(found):,} cycles"
    pieces = [one.estimated_cycles for one in planned if given(one.done.schedule).batch == schedule.batch]
    note += (
        f" instead of {pieces[0]:,} in pieces (estimated)." if pieces else " (estimated); in pieces they do not fit."
    )
    return replace(found, schedule=replace(schedule, notes=(note,)))


def not_slower(request: Request, networks: Networks, best: Compilation, other: Strategy) -> Compilation:
    """`best`, or what another strategy makes of the batch where that is faster, with a note that says so."""
    strategy, ours = given(best.schedule).strategy, latency(best)
    try:
        found = fastest(request, networks, other, possible_batches(request), best)
    except InputError:  # the batch cannot be another; that of `best` can
        return best
    if found is best or found.schedule is None:
        return best
    note = f"{strategy} falls back to {other.name}: {latency(found):,} cycles instead of {ours:,}."
    notes = (note, found.reordered) if found.reordered else (note,)
    schedule = replace(found.schedule, strategy=strategy, notes=notes)
    return replace(found, schedule=schedule, run=replace(found.run, strategy=strategy))


def latency(done: Compilation) -> int:
    return given(done.trace).latency_cycles


def is_far_by_bound(request: Request, best: Compilation, done: Compilation) -> bool:
    """Whether no program of a planned schedule comes near the best so far."""
    return _least_planned_cycles(request, done) > FAR * latency(best)


def _least_planned_cycles(request: Request, done: Compilation) -> int:
    """What no program of a planned schedule takes less than: what has no home on chip passes DDR."""
    schedule = given(done.schedule)
    return least_cycles(
        schedule.graph,
        request.machine,
        iterations=schedule.iterations,
        constant_loads=1,
        sharers=1 if request.machine.private_ddr else request.clusters,
        through_ddr=[kernel.operators for kernel in schedule.kernels],
        on_chip={home.tensor for home in schedule.homes},
    )


def _estimate(done: Compilation) -> int:
    schedule = given(done.schedule)
    return sum(kernel.estimated_cycles for kernel in schedule.kernels) * schedule.iterations


def least_launched_cycles(request: Request, strategy: Strategy, done: Compilation) -> int:
    """What no program of launches one after another takes less than; 0 where all kernels are one launch."""
    graph, machine, partition = given(done.graph), request.machine, given(done.partition)
    if isinstance(partition, Blocks):
        return least_block_cycles(graph, partition.blocks, machine, iterations=done.run.iterations)
    if strategy.stitched:
        return 0
    blocks = [FusedBlock(kernel, len(machine.cores)) for kernel in partition.kernels]
    through_ddr = not strategy.levels
    return least_block_cycles(graph, blocks, machine, iterations=done.run.iterations, through_ddr=through_ddr)


def _least_cycles(request: Request, strategy: Strategy, known: Known, batch: int) -> int:
    """What no schedule of the strategy with that batch per iteration can be faster than."""
    return least_cycles(
        known.graph,
        request.machine,
        iterations=known.iterations,
        constant_loads=request.share // batch * request.options.batches,
        sharers=1 if request.machine.private_ddr else request.clusters,
        through_ddr=() if strategy.levels else known.kernels,
    )
