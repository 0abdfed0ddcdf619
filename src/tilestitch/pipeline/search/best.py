"""The search: the best candidate is changed by one move after another until a budget of simulation is spent.

The next move is of the kind that gained most a try of late. A candidate that is faster than all others is changed next;
where its neighbours are exhausted, the next faster one is; now and then the fastest of another batch is. Nothing
depends on a clock or on chance.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tilestitch.base.units import counted
from tilestitch.ir.choices import Effort
from tilestitch.pipeline.batches import latency, not_slower
from tilestitch.pipeline.compilation import Compilation, given
from tilestitch.pipeline.networks import Networks
from tilestitch.pipeline.search.candidate import NAME, Candidate, candidate_of
from tilestitch.pipeline.search.evaluate import Evaluated, Evaluator
from tilestitch.pipeline.search.moves import MOVES, Scene
from tilestitch.pipeline.stages import Request
from tilestitch.pipeline.strategies import FUSION_PLANS, Strategy

NEAR = 1.05  # a candidate that is slower by this factor before its instructions are reordered stays slower
FAR = 1.5  # a schedule that is slower than the fastest by this factor is not changed
ELSEWHERE = 4  # every so many moves the fastest of another batch is changed: a batch may need several to be faster
UNFIT = 4  # so many candidates that do not run or fit count as one that was simulated
EXPECTED_GAIN = 0.01  # what a kind of move is taken to gain before it was tried
LATEST = 0.5  # how much the latest move of a kind counts for what the next one may gain


@dataclass(frozen=True, slots=True)
class Budget:
    """How much is simulated at most: candidates, and instructions of all of them together."""

    candidates: int
    instructions: int


BUDGETS: Mapping[Effort, Budget] = {
    Effort.LOW: Budget(25, 2_000_000),
    Effort.MEDIUM: Budget(100, 8_000_000),
    Effort.HIGH: Budget(1_000, 80_000_000),
}


@dataclass(slots=True)
class Tally:
    """What came of the moves of one kind."""

    tried: int = 0
    unfit: int = 0
    faster: int = 0
    gain: float = 0.0  # the sum of the shares of the latency that they took away
    promise: float = (
        EXPECTED_GAIN  # what the next one may gain: the mean of what they took away, the latest counting most
    )

    def add(self, gain: float | None) -> None:
        """Count one more, with what it took away; None where it did not run or fit."""
        self.tried += 1
        if gain is None:
            self.unfit += 1
            self.promise *= 1 - LATEST / UNFIT
            return
        self.faster += gain > 0
        self.gain += gain
        self.promise += LATEST * (gain - self.promise)


@dataclass(eq=False)
class _State:
    """What was tried so far, and the best of it."""

    best: Evaluated
    tallies: dict[str, Tally] = field(default_factory=lambda: {kind: Tally() for kind in MOVES})
    seen: set[Candidate] = field(default_factory=set)
    found: list[Evaluated] = field(default_factory=list)  # whose neighbours may be looked at
    open: dict[int, dict[str, Iterator[Candidate]]] = field(default_factory=dict)  # of these, by their place


def improved(request: Request, networks: Networks, seeds: Sequence[Compilation], batches: Sequence[int]) -> Compilation:
    """The fastest of the seeds and of what the moves make of them, compiled in full.

    `batches` are those that an iteration may have. With more than low effort a plan of fused blocks that is faster
    still is taken instead. An interruption ends the search, not the compilation.
    """
    fastest = min(seeds, key=latency)
    evaluator = Evaluator(request, networks)
    budget = BUDGETS[request.options.effort]
    near = (one for one in sorted(seeds, key=latency) if latency(one) <= FAR * latency(fastest))
    begins = tuple(dict.fromkeys(one for seed in near if (one := candidate_of(seed)) is not None))
    state, notes, interrupted = None, [_seeds_note(seeds)], False
    try:
        state = _begun(evaluator, begins)
        if state is not None:
            _search(request, evaluator, state, budget, batches)
    except KeyboardInterrupt:
        interrupted = True
        notes.append("The search was interrupted: this is the best that it had found.")
    if state is not None:
        notes += _tried_notes(state, latency(fastest))
    done = fastest
    if state is not None and state.best.latency_cycles < latency(fastest):
        done = evaluator.compiled(state.best.candidate)
        assert latency(done) == state.best.latency_cycles, "a candidate takes other cycles than its full compilation"
    if request.options.effort is not Effort.LOW and not interrupted:
        begun = {one.run.strategy for one in seeds}
        plans = [plan for plan in FUSION_PLANS if plan.name not in begun]
        done, more = _not_slower_than(request, networks, done, plans)
        notes += more
    return _named(done, notes)


def _not_slower_than(
    request: Request, networks: Networks, best: Compilation, plans: Sequence[Strategy]
) -> tuple[Compilation, list[str]]:
    """`best`, or what the fastest of some plans of fused blocks makes of the batch, and what to say of that.

    Few of them are planned: most are slower whatever their tiles, by `least_block_cycles`.
    """
    now = best
    try:
        for number, plan in enumerate(plans):
            request.progress(f"plans of fused blocks ({latency(now):,} cycles)", number, len(plans))
            now = not_slower(request, networks, now, plan)
    except KeyboardInterrupt:
        pass
    if now is best:
        return best, []
    return now, [f"A plan of fused blocks, {now.way.strategy}, is faster than what the search found."]


def _begun(evaluator: Evaluator, begins: Sequence[Candidate]) -> _State | None:
    """The seeds that can be changed, all evaluated; None where none runs."""
    begins = [replace(one, ring=ring) for one in begins for ring in (False, True)]
    found = [one for candidate in begins if (one := evaluator.evaluate(candidate)) is not None]
    if not found:
        return None
    state = _State(min(found, key=lambda one: one.latency_cycles))
    state.seen.update(begins)
    state.found = found
    return state


def _search(request: Request, evaluator: Evaluator, state: _State, budget: Budget, batches: Sequence[int]) -> None:
    """Try one move after another."""
    spent, most = 0, evaluator.instructions + budget.instructions  # a candidate spends `UNFIT`, or 1
    while spent < UNFIT * budget.candidates and evaluator.instructions < most:
        move = _next(request, evaluator, state, batches)
        if move is None:
            return
        kind, candidate = move
        state.seen.add(candidate)
        request.progress(f"search ({state.best.latency_cycles:,} cycles)", spent // UNFIT, budget.candidates)
        before = state.best.latency_cycles
        one = evaluator.evaluate(candidate, int(NEAR * before))
        spent += 1 if one is None else UNFIT
        state.tallies[kind].add(None if one is None else max(0.0, 1 - one.latency_cycles / before))
        if one is not None:
            state.found.append(one)
            state.best = one if one.latency_cycles < before else state.best


def _next(
    request: Request, evaluator: Evaluator, state: _State, batches: Sequence[int]
) -> tuple[str, Candidate] | None:
    """A move from the fastest candidate that has one left, of the most promising kind; None where all are tried."""
    batch = state.best.candidate.batch
    elsewhere = len(state.seen) % ELSEWHERE == 0 and any(one.candidate.batch != batch for one in state.found)

    def rank(at: int) -> tuple[bool, int, int]:
        one = state.found[at]
        return elsewhere and one.candidate.batch == batch, one.latency_cycles, at

    for at in sorted(range(len(state.found)), key=rank):
        one = state.found[at]
        if at not in state.open:
            graph = evaluator.graph(one.candidate.batch)
            scene = Scene(one.candidate, graph, request.machine, one.lost_cycles, batches)
            state.open[at] = {kind: moves(scene) for kind, moves in MOVES.items()}
        left = state.open[at]
        while left:
            kind = max(left, key=lambda kind: state.tallies[kind].promise)  # the first of equals
            for candidate in left[kind]:
                if candidate not in state.seen:
                    return kind, candidate
            del left[kind]
    return None


def _named(done: Compilation, notes: Sequence[str]) -> Compilation:
    """A compilation as one of this strategy, with what the search says of it."""
    schedule = given(done.schedule)
    schedule = replace(schedule, strategy=NAME, notes=(*notes, *schedule.notes))
    return replace(done, schedule=schedule, run=replace(done.run, strategy=NAME))


def _seeds_note(seeds: Sequence[Compilation]) -> str:
    found = ", ".join(f"{one.run.strategy} {latency(one):,}" for one in sorted(seeds, key=latency))
    return f"Searched from {counted(len(seeds), 'schedule')} (cycles): {found}."


def _tried_notes(state: _State, before_cycles: int) -> list[str]:
    """How many candidates were tried, and what each kind of move gained."""
    tried = sum(tally.tried for tally in state.tallies.values())
    now = min(before_cycles, state.best.latency_cycles)
    gain = 100 * (1 - now / before_cycles)
    lines = [
        f"Search: {counted(tried, 'candidate')} tried; {now:,} cycles instead of {before_cycles:,} ({gain:.1f} % less)."
    ]
    for kind, tally in state.tallies.items():
        if tally.tried:
            lines.append(
                f"  {kind}: {tally.tried} tried, {tally.unfit} did not fit, {tally.faster} faster, "
                f"{100 * tally.gain:.1f} % gained"
            )
    return lines
