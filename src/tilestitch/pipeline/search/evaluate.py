"""Candidates planned, lowered and simulated one after another, with what they have in common done once."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.base.progress import quiet
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.graph import Graph
from tilestitch.ir.program import EngineKind, Program
from tilestitch.ir.rewriting import Rewriting
from tilestitch.ir.schedule import Home, Kernel, Schedule
from tilestitch.ir.trace import Trace
from tilestitch.ir.verify_schedule import verify_partition
from tilestitch.lower.limits import steps_of
from tilestitch.lower.program import Lowered, lower
from tilestitch.lower.refine import GLIMPSE, refined
from tilestitch.lower.reorder import reordered
from tilestitch.pipeline.compilation import Compilation, Way, given
from tilestitch.pipeline.networks import Networks
from tilestitch.pipeline.search.candidate import NAME, Candidate
from tilestitch.pipeline.search.parting import with_operators_of
from tilestitch.pipeline.shared import Shared
from tilestitch.pipeline.stages import Request, lowered, run_program, scheduled, simulated
from tilestitch.pipeline.strategies import strategy_by_hand
from tilestitch.schedule.plan import ordered, placed

LONGER = 4  # a candidate of so many times as many steps as the first is not lowered: its program would take minutes
SHORT = 10_000  # steps of a program that takes a second, so that it is lowered anyway


@dataclass(frozen=True, slots=True, eq=False)
class Evaluated:
    """A candidate that was simulated."""

    candidate: Candidate
    latency_cycles: int
    lowered_cycles: int  # the latency with the instructions in the order in which they were lowered
    estimated_cycles: int  # of its kernels one after the other
    lost_cycles: Mapping[str, int]  # by the last operator of a kernel: no unit of either class works all that time
    added_cycles: Mapping[str, int]  # by the same, to the end of all kernels before; all together the latency unrefined
    instructions: int  # of its program
    number: int  # among the candidates that were simulated, from 1
    repeated: bool  # whether another candidate had come to the same kernels and places before


def latency_cycles(one: Evaluated) -> int:
    """Its latency, to compare it with others."""
    return one.latency_cycles


_Times: TypeAlias = tuple[int, int, int, Mapping[str, int], Mapping[str, int], int, int]  # what `Evaluated` has of it


class _Planned(NamedTuple):
    """What is known of a candidate before it is lowered."""

    number: int  # of its schedule
    estimated_cycles: int


class _Shared:
    """What the candidates of one batch per iteration share."""

    def __init__(self, shared: Shared, machine: Accelerator) -> None:
        self.graph, self.tilings = shared.graph, shared.tilings
        self.lowered = Lowered(shared.graph, machine, shared.blocks, shared.tilings.signatures)
        self.planned: dict[tuple, _Planned] = {}  # by what kernels are to be, in order, and what is asked of all
        self.simulated: dict[tuple[int, bool], _Times] = {}  # by schedule, and if refined
        self._numbers: dict[tuple[tuple[Kernel, ...], tuple[Home, ...]], int] = {}

    def number(self, schedule: Schedule) -> int:
        """Equal for schedules of the same kernels and places."""
        return self._numbers.setdefault((schedule.kernels, schedule.homes), len(self._numbers))


class Evaluator:
    """The time of candidates, equal to that of a full compilation to the cycle."""

    def __init__(self, request: Request, networks: Networks) -> None:
        self.request, self.networks = request, networks
        self.evaluations = 0  # candidates that were simulated so far
        self.instructions = 0  # of these
        self._most_steps: dict[bool, int] = {}  # of a candidate: as `LONGER` says of the first, with blocks or without
        self._shared: dict[tuple[int, Rewriting], _Shared] = {}
        self._refined: tuple[Candidate, Compilation] | None = None  # the fastest that was
        self._lowered: tuple[Candidate, Program, Trace] | None = None  # the last that was, as it was lowered

    @property
    def tilings(self) -> int:
        """How many were searched for so far, for these candidates and what came before them."""
        return max((shared.tilings.searches for shared in self._shared.values()), default=0)

    def graph(self, candidate: Candidate) -> Graph:
        """The network without its views, at the batch of a candidate and with the operators that it speaks of."""
        return self._for(candidate).graph

    def at(self, candidate: Candidate, batch: int) -> Candidate:
        """The candidate with so many samples an iteration."""
        return self.fitted(candidate.at(batch))

    def fitted(self, candidate: Candidate) -> Candidate:
        """The candidate with the operators that the network has at its batch."""
        return with_operators_of(candidate, self.graph(candidate), self.request.machine)

    def constant_cycles(self, candidate: Candidate) -> int:
        """For how long DDR would be busy if every cluster read all constants once in every iteration."""
        graph, machine = self.graph(candidate), self.request.machine
        size_bytes = sum(graph.tensors[name].size_bytes for name in graph.constants)
        sharers = 1 if machine.private_ddr else self.request.clusters
        iterations = self.request.run(NAME, candidate.batch).iterations
        return int(size_bytes * sharers * iterations / machine.ddr.bandwidth_bytes_per_cycle)

    def evaluate(
        self, candidate: Candidate, limit_cycles: int | None = None, most_estimated: int | None = None
    ) -> Evaluated | None:
        """The candidate with its time; None where it cannot run, does not fit, or is estimated to take too long.

        Where the time exceeds the limit as the program is lowered, no other order of its instructions is looked for;
        it is then at most what is given. What is estimated to take more than `most_estimated` is not lowered.
        """
        try:
            return self._evaluated(self.fitted(candidate), limit_cycles, most_estimated)
        except (DoesNotFit, InputError):
            return None

    def _evaluated(self, candidate: Candidate, limit_cycles: int | None, most_estimated: int | None) -> Evaluated:
        request, shared = self._asked(candidate), self._for(candidate)
        graph, partition = shared.graph, candidate.partition(shared.graph)
        policy = request.policy(strategy_by_hand(partition.schedule))
        found = ordered(graph, partition, request.machine, policy, shared.tilings.pieces)
        run = request.run(NAME, candidate.batch)
        flags = candidate.spill, candidate.ring, candidate.behind, candidate.compact, candidate.in_place
        asked = tuple(found.tasks), *flags, candidate.together
        planned, schedule = shared.planned.get(asked), None
        if planned is None:
            schedule = placed(graph, partition, found, request.machine, policy, run, tilings=shared.tilings)
            estimated = sum(kernel.estimated_cycles for kernel in schedule.kernels) * schedule.iterations
            planned = shared.planned[asked] = _Planned(shared.number(schedule), estimated)
        known = planned.number, candidate.refined
        if known in shared.simulated:
            return Evaluated(candidate, *shared.simulated[known], repeated=True)
        if most_estimated is not None and planned.estimated_cycles > most_estimated:
            raise DoesNotFit(f"{graph.name}: a candidate that is slow by estimate is not simulated.")
        if schedule is None:
            schedule = placed(graph, partition, found, request.machine, policy, run, tilings=shared.tilings)
        steps = steps_of(schedule)
        if steps > self._most_steps.setdefault(bool(candidate.streams), max(SHORT, LONGER * steps)):
            raise DoesNotFit(f"{graph.name}: a candidate of {steps:,} steps is not simulated.")
        latency, as_lowered, lost, added, length = self._simulated(candidate, schedule, shared.lowered, limit_cycles)
        self.evaluations += 1
        times = latency, as_lowered, planned.estimated_cycles, lost, added, length, self.evaluations
        shared.simulated[known] = times
        return Evaluated(candidate, *times, repeated=False)

    def _simulated(
        self, candidate: Candidate, schedule: Schedule, known: Lowered, limit_cycles: int | None
    ) -> tuple[int, int, Mapping[str, int], Mapping[str, int], int]:
        """The latency of a schedule, that of its program as it was lowered, what kernels lose and add, its length."""
        request = self.request
        program = lower(schedule, request.machine, lowered=known)
        self.instructions += len(program)
        trace = self._run(program)
        self._lowered = candidate, program, trace
        latency = as_lowered = trace.latency_cycles
        fastest = trace
        if candidate.refined:  # which takes longer than all else, and is wanted in full where it is faster
            done = self.compiled(candidate)
            latency = given(done.trace).latency_cycles
            if self._refined is None or latency < given(self._refined[1].trace).latency_cycles:
                self._refined = candidate, done
        elif limit_cycles is None or as_lowered < limit_cycles:
            ticks = (trace.end_ticks - trace.start_ticks)[: len(program) // program.iterations]
            other = reordered(program, ticks, known.numbering.corners)
            if other is not None:
                self.instructions += len(program)
                fastest = min(trace, self._run(other), key=lambda one: one.latency_cycles)
                latency = fastest.latency_cycles
        return latency, as_lowered, _lost(schedule, program, trace), _added(schedule, fastest), len(program)

    def _run(self, program: Program) -> Trace:
        return run_program(program, self.request.machine, self.request.clusters)

    def compiled(self, candidate: Candidate, *, alone: bool = False) -> Compilation:
        """A candidate through every stage, checked where that is asked for; `alone`: sharing nothing with others."""
        if self._refined is not None and self._refined[0] == candidate and not alone:
            return self._refined[1]
        done = self._written(candidate, alone=alone)
        stitched = strategy_by_hand(candidate.partition(self.graph(candidate)).schedule).stitched
        return simulated(self._asked(candidate), done, stitched=stitched)

    def glimpsed(self, candidate: Candidate) -> int:
        """The latency of a candidate whose order of instructions is refined a little; see `refine`."""
        if self._lowered is not None and self._lowered[0] == candidate:
            _, program, trace = self._lowered
        else:
            program = given(self._written(candidate).program)
            trace = self._run(program)
        found = refined(program, trace, self._run, depth=GLIMPSE)
        return (trace if found is None else found[1]).latency_cycles

    def _written(self, candidate: Candidate, *, alone: bool = False) -> Compilation:
        """A candidate up to its program."""
        request, batch = self._asked(candidate), candidate.batch
        graph = self.graph(candidate)
        partition = candidate.partition(graph)
        done = Compilation(
            request.machine,
            request.options,
            request.run(NAME, batch),
            Way(NAME),
            self.networks.loaded(batch),
            self.networks.simplified(batch),
            graph,
            partition,
        )
        if request.options.verify:
            verify_partition(partition, graph, request.machine)
        shared = None if alone else self._known(candidate)
        policy = request.policy(strategy_by_hand(partition.schedule))
        return lowered(request, scheduled(request, policy, done, shared), shared)

    def _asked(self, candidate: Candidate) -> Request:
        """The request, with the rules of the candidate."""
        options = replace(self.request.options, spill=candidate.spill, binding=candidate.binding)
        return replace(self.request, options=options, progress=quiet)

    def _for(self, candidate: Candidate) -> _Shared:
        key = candidate.batch, candidate.rewriting
        if key not in self._shared:
            self._shared[key] = _Shared(self._known(candidate), self.request.machine)
        return self._shared[key]

    def _known(self, candidate: Candidate) -> Shared:
        return self.networks.shared(candidate.batch, self.request.machine, candidate.rewriting)


def _lost(schedule: Schedule, program: Program, trace: Trace) -> dict[str, int]:
    """By the last operator of kernels: the cycles that these add to the end of all before, without the busiest units'.

    Units of a class share their work evenly for this.
    """
    length = len(program) // program.iterations
    kernel, engine = program.kernel[:length], program.engine[:length]
    ends = np.zeros(len(program.kernels), np.int64)
    np.maximum.at(ends, kernel, trace.end_ticks[:length])
    added = np.diff(np.maximum.accumulate(ends), prepend=0) // trace.ticks_per_cycle
    busiest = np.zeros(len(program.kernels), np.int64)
    for kind in (EngineKind.MATRIX, EngineKind.VECTOR):
        units = [number for number, one in enumerate(program.engines) if one.kind is kind]
        if units:
            work = np.where(np.isin(engine, units), program.cycles[:length], 0)
            busy = np.bincount(kernel, weights=work, minlength=len(program.kernels)).astype(np.int64) // len(units)
            busiest = np.maximum(busiest, busy)
    found: dict[str, int] = {}
    for one, cycles in zip(schedule.kernels, (added - busiest).tolist(), strict=True):
        found[one.sink] = found.get(one.sink, 0) + max(0, cycles)
    return found


def _added(schedule: Schedule, trace: Trace) -> dict[str, int]:
    """By the last operator of kernels: the cycles that these add to the end of all before, in all iterations."""
    program, several = trace.program, len(schedule.kernels)
    number = program.iteration.astype(np.int64) * several + program.kernel
    ends = np.zeros(several * program.iterations, np.int64)
    np.maximum.at(ends, number, trace.end_ticks)
    added = np.diff(np.maximum.accumulate(ends) // trace.ticks_per_cycle, prepend=0)
    found: dict[str, int] = {}
    for one, cycles in zip(schedule.kernels * program.iterations, added.tolist(), strict=True):
        found[one.sink] = found.get(one.sink, 0) + cycles
    return found
