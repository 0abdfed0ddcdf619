"""Each arrow from a network and a machine to a trace, for one batch per iteration."""

from dataclasses import dataclass, replace

from tilestitch.base.progress import Progress, quiet
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.choices import Stage
from tilestitch.ir.partition import ByHand
from tilestitch.ir.program import Program
from tilestitch.ir.run import Run
from tilestitch.ir.trace import Trace, slowest_cluster
from tilestitch.ir.verify import verify_program
from tilestitch.ir.verify_schedule import verify_partition, verify_schedule
from tilestitch.lower.clusters import share_ddr
from tilestitch.lower.program import Lowered, lower
from tilestitch.lower.refine import refined
from tilestitch.lower.reorder import reordered
from tilestitch.pipeline.compilation import Compilation, Way, given
from tilestitch.pipeline.networks import Networks
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.shared import Shared
from tilestitch.pipeline.strategies import Strategy
from tilestitch.pipeline.views import compose_views, composed_graph
from tilestitch.schedule.plan import plan
from tilestitch.schedule.policy import Policy
from tilestitch.sim.chip.timing import simulate


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a compilation, and how its samples are divided: the same for every strategy and batch."""

    machine: Accelerator
    options: Options
    share: int  # samples of the busiest cluster
    smallest: int  # batch of one iteration
    clusters: int
    progress: Progress = quiet
    alone: bool = False  # whether no iteration takes more than the smallest batch: the network is read for no other

    def run(self, strategy: str, batch: int) -> Run:
        """What one cluster does at a batch per iteration."""
        return Run(strategy, batch, self.share // batch * self.options.batches, self.clusters)

    def policy(self, strategy: Strategy) -> Policy:
        return Policy(strategy.levels, strategy.stitched, self.options.spill, self.options.binding)


def compile_batch(request: Request, networks: Networks, strategy: Strategy, batch: int, last: Stage) -> Compilation:
    """Every stage up to `last`, at one batch per iteration."""
    order = list(Stage)
    reached = order[: order.index(last) + 1]
    run, way = request.run(strategy.name, batch), Way(strategy.name)
    done = Compilation(request.machine, request.options, run, way, networks.loaded(batch))
    if Stage.SIMPLIFY in reached:
        done = replace(done, simplified=networks.simplified(batch))
    if Stage.PARTITION in reached:
        shared = networks.shared(batch, request.machine, strategy.rewriting)
        done = partitioned(request, strategy, done, shared)
        if Stage.SCHEDULE in reached:
            done = scheduled(request, request.policy(strategy), done, shared)
        if Stage.LOWER in reached:
            done = lowered(request, done, shared)
    if Stage.SIMULATE in reached:
        done = simulated(request, done, stitched=strategy.stitched)
    return done


def at_batch(request: Request, networks: Networks, strategy: Strategy, batch: int) -> Compilation:
    """Up to the partition, at one batch per iteration."""
    return compile_batch(request, networks, strategy, batch, Stage.PARTITION)


def partitioned(request: Request, strategy: Strategy, done: Compilation, shared: Shared | None = None) -> Compilation:
    """What is scheduled together, on the network without its views."""
    request.progress("partition", 0, 1)
    simplified = given(done.simplified)
    known = composed_graph(simplified, strategy.rewriting) if shared is None else (shared.graph, shared.now)
    composed = compose_views(simplified, strategy.groups(simplified), request.machine, known)
    partition = strategy.decide(composed, request.machine, request.options.grouping)
    if request.options.verify:
        verify_partition(partition, composed.graph, request.machine)
    return replace(done, graph=composed.graph, partition=partition)


def scheduled(request: Request, policy: Policy, done: Compilation, shared: Shared | None = None) -> Compilation:
    """Tiles, places and order of every kernel; where the graph is that of what is shared, with those tilings."""
    schedule = plan(
        given(done.graph),
        given(done.partition),
        request.machine,
        policy,
        done.run,
        tilings=None if shared is None else shared.tilings,
        progress=lambda at, of: request.progress("schedule", at, of),
    )
    if request.options.verify:
        verify_schedule(schedule, request.machine)
    return replace(done, schedule=schedule)


def lowered(request: Request, done: Compilation, shared: Shared | None = None) -> Compilation:
    """The program of a schedule; where the graph is that of what is shared, with those blocks."""
    schedule = given(done.schedule)
    known = Lowered(schedule.graph, request.machine)
    if shared is not None:
        known = Lowered(schedule.graph, request.machine, shared.blocks, shared.tilings.signatures)
    program = lower(schedule, request.machine, lowered=known, progress=lambda at, of: request.progress("lower", at, of))
    if request.options.verify:
        verify_program(program)
    return replace(done, program=program)


def simulated(request: Request, done: Compilation, *, stitched: bool) -> Compilation:
    """The trace of a program; of a stitched one in the order of a list schedule, where that is faster."""
    request.progress("simulate", 0, 1)
    done = replace(done, trace=run_program(given(done.program), request.machine, request.clusters))
    return _in_better_order(request, done) if stitched and done.reordered is None else done


def _in_better_order(request: Request, done: Compilation) -> Compilation:
    """The same with the instructions of its one kernel in the order of a list schedule, where that is faster.

    Or, where its schedule asks for it, in the fastest order that was found by going on from there.
    """
    before, trace = given(done.program), given(done.trace)
    request.progress("reorder", 0, 1)
    program, found = _better_order(request, done, before, trace)
    if found.latency_cycles >= trace.latency_cycles:
        return replace(done, reordered="")
    if request.options.verify:
        verify_program(program)
    faster, slower = found.latency_cycles, trace.latency_cycles
    note = f"Instructions reordered across kernels: {faster:,} cycles instead of {slower:,}."
    schedule = given(done.schedule)
    schedule = replace(schedule, notes=(*schedule.notes, note))
    return replace(done, schedule=schedule, program=program, trace=found, reordered=note)


def _better_order(request: Request, done: Compilation, before: Program, trace: Trace) -> tuple[Program, Trace]:
    """The program in another order, with its trace; as it was where there is none."""

    def run(program: Program) -> Trace:
        return run_program(program, request.machine, request.clusters)

    if isinstance(done.partition, ByHand) and done.partition.schedule.refined:
        return refined(before, trace, run) or (before, trace)
    program = reordered(before, (trace.end_ticks - trace.start_ticks)[: len(before) // before.iterations])
    return (before, trace) if program is None else (program, run(program))


def run_program(program: Program, machine: Accelerator, clusters: int) -> Trace:
    """The trace of a program.

    One cluster stands for all where each has a DDR of its own; else all of them run, and the slowest is shown.
    """
    if machine.private_ddr or clusters == 1:
        return simulate(program)
    return slowest_cluster(simulate(share_ddr(program, clusters)), program)
