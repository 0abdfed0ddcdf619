"""The search: the best candidate is changed by one move after another until a budget of simulation is spent.

It begins with the schedules of others, and with these at every batch per iteration with what pays only together:
attention as one kernel, and sums in a ring. The first part of the budget goes to all of these beginnings in equal
shares, then to the faster half of them, until one is left. The next move is of the kind that gained most a try of late.
A candidate that is faster than all others is changed next; where its neighbours are exhausted, the next faster one is.
The last part of the budget goes to moves that depend on what else was decided: they begin anew with the fastest.
Then what was simulated is put together anew where that should be faster (`cutting`). Behind it some moves are tried of
the fastest, however much was spent, and others as part of a budget of their own.
Nothing depends on a clock or on chance.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf

from tilestitch.base.interruption import answered_later
from tilestitch.base.units import counted
from tilestitch.ir.choices import Effort
from tilestitch.ir.searched import START, Searched, SearchStep
from tilestitch.pipeline.batches import latency, not_slower
from tilestitch.pipeline.compilation import Compilation, given
from tilestitch.pipeline.networks import Networks
from tilestitch.pipeline.search import cutting
from tilestitch.pipeline.search.beginnings import FAR, beginnings, lowered_limit
from tilestitch.pipeline.search.candidate import NAME, Candidate, candidate_of, plain_candidate
from tilestitch.pipeline.search.evaluate import Evaluated, Evaluator, latency_cycles
from tilestitch.pipeline.search.moves import MOVES
from tilestitch.pipeline.search.scene import Scene
from tilestitch.pipeline.stages import Request, at_batch
from tilestitch.pipeline.strategies import Strategy, outdone_by_best, strategy_named

HOPELESS = 1.06  # what is estimated to take longer than the fastest by this factor is not simulated
TRIAL = 0.4  # of the budget goes to finding where to begin: a beginning may need several moves to be worth it
FINISH = 0.15  # of the budget goes, at the end, to the moves below: what else changes makes other orders better
FINISHING = ("fuse", "rules", "divide", "bring", "binding", "order")
POLISH = 0.12  # of the budget more, with more than low effort, for these moves of the fastest, begun with anew
AGAIN = 0.38  # of the budget more for the same, behind the moves below
POLISHING = ("fuse", "tiles", "park", "divide", "bring", "halves", "unfuse", "borders", "rules")
COMPACTED = 10  # so many of the fastest are compacted, also where the budget is spent: most come to what they were
LAST = ("together", "pick", "pack")  # tried of what was found, also where the budget is spent
DEAR = ("together", "pack")  # those of them that are left out with low effort: all kernels are lowered again
ANEW = ("again",)  # tried of the fastest behind all these, with more than low effort: few networks have any
ANEW_SHARE = 0.1  # of the budget more goes there at most, and more for the moves above where it gains
AT_LAST = ("refine",)  # tried behind them, with more than low effort: it simulates many orders
GLIMPSED = 6  # so many of the fastest, of which it is tried of the one that is the fastest at a glimpse
MOST_GLIMPSED = 240_000  # instructions of these, all together: of long programs fewer are looked at, or none
SETTLE = 0.2  # of the budget more for moves of that one, which glimpses judge
SETTLING = (*POLISHING, "compact")
SURE = 0.004  # a smaller gain at a glimpse may be none once refined in full: then what was moved is refined, too
CLOSE = 1.02  # what takes longer than it by this factor, before either is refined, is not glimpsed
LATER = ("binding", "divide", "across")  # what is tried of the last beginning: it seldom decides which one is the best
VAIN_CUTS = 6  # so many other cuts are tried behind one another that gain nothing
UNFIT = 4  # so many candidates that do not fit or are slow by estimate count as one that was simulated
KNOWN = 16  # so many that come to what was simulated before do
BARREN = 10  # after so many of a kind that were not simulated, one behind the other, it rests until another gains
EXPECTED_GAIN = 0.01  # what a kind of move is taken to gain before it was tried
PLAIN = strategy_named("astitch")  # whose partition is begun with where no strategy has a schedule
LATEST = 0.5  # how much the latest move of a kind counts for what the next one may gain


@dataclass(frozen=True, slots=True)
class Budget:
    """How much is simulated at most: candidates, and instructions of all of them together.

    And how many searches of tiles that may take: where many kernels are different, most of the time goes there.
    """

    candidates: int
    instructions: int
    tilings: float = inf


BUDGETS: Mapping[Effort, Budget] = {
    Effort.LOW: Budget(25, 1_200_000, 1_000),
    Effort.MEDIUM: Budget(80, 6_000_000, 5_500),
    Effort.HIGH: Budget(1_000, 80_000_000, 100_000),
}


@dataclass(slots=True)
class Tally:
    """What came of the moves of one kind."""

    tried: int = 0
    unfit: int = 0
    faster: int = 0
    gain: float = 0.0  # the sum of the shares of the latency that they took away

    def add(self, gain: float | None) -> None:
        """Count one more, with what it took away; None where it was not simulated."""
        self.tried += 1
        if gain is None:
            self.unfit += 1
            return
        self.faster += gain > 0
        self.gain += gain


@dataclass(eq=False)
class Line:
    """A beginning, and what the moves made of it."""

    found: list[Evaluated]
    greedy: bool = False  # whether only the fastest is gone on from
    kinds: Sequence[str] = tuple(kind for kind in MOVES if kind not in (*LATER, "compact", *LAST, *ANEW, *AT_LAST))
    open: dict[int, dict[str, Iterator[Candidate]]] = field(default_factory=dict)  # moves left, by place among these
    # What the next move of a kind may gain: the mean of what they took away, the latest counting most.
    promise: dict[str, float] = field(default_factory=lambda: dict.fromkeys(MOVES, EXPECTED_GAIN))
    barren: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MOVES, 0))  # not simulated, one after another
    looked: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MOVES, 0))  # how far, among those of a kind

    def add(self, one: Evaluated) -> None:
        """Go on from a candidate as well; or from it alone, and only where it is the fastest."""
        if not self.greedy:
            self.found.append(one)
        elif one.latency_cycles < self.fastest.latency_cycles:
            self.found = [one]
            self.open.clear()

    def learn(self, kind: str, gain: float | None) -> None:
        """Note what a move took away; None where it was not simulated."""
        weight = LATEST / UNFIT if gain is None else LATEST
        self.promise[kind] += weight * ((gain or 0.0) - self.promise[kind])
        if gain:
            self.barren = dict.fromkeys(MOVES, 0)
        else:
            self.barren[kind] = self.barren[kind] + 1 if gain is None else 0

    def opened(self, scene: Scene) -> dict[str, Iterator[Candidate]]:
        """The moves of a candidate by kind, from behind those that were looked at last; these come at the end.

        Candidates that follow one another have much the same moves, and what comes first had just failed.
        """
        return {kind: _further(self.looked, kind, MOVES[kind](scene)) for kind in self.kinds}

    def rests(self, kind: str) -> bool:
        """Whether the latest moves of a kind all came to nothing that was worth a simulation."""
        return self.barren[kind] >= BARREN

    def widen(self, kinds: Sequence[str]) -> None:
        """Try moves of more kinds from now on, also of what was found before."""
        self.kinds = (*self.kinds, *kinds)
        self.open.clear()

    @property
    def fastest(self) -> Evaluated:
        """The first of the least latency."""
        return min(self.found, key=latency_cycles)


def _further(looked: dict[str, int], kind: str, moves: Iterator[Candidate]) -> Iterator[Candidate]:
    """Moves from the first that was not looked at, then those before; knows of no line, which holds it."""
    passed = list(islice(moves, looked[kind]))
    if len(passed) < looked[kind]:
        looked[kind] = 0
    for one in moves:
        looked[kind] += 1
        yield one
    looked[kind] = 0
    for one in passed:
        looked[kind] += 1
        yield one


@dataclass(eq=False)
class _State:
    """What was tried so far, and the best of it."""

    best: Evaluated
    lines: list[Line]
    seen: set[Candidate]
    first_cycles: int  # of the best beginning
    steps: list[SearchStep]  # see `Searched`
    tallies: dict[str, Tally] = field(default_factory=lambda: {kind: Tally() for kind in (*MOVES, cutting.KIND)})
    leading: dict[int, Evaluated] = field(default_factory=dict)  # the first of each of the least latencies
    simulated: list[Evaluated] = field(default_factory=list)  # all, in their order

    def note(self, one: Evaluated, by: str) -> None:
        """Count a candidate among the fastest, if it is one of them."""
        if not self.steps or one.latency_cycles < self.steps[-1].latency_cycles:
            self.steps.append(SearchStep(one.number, one.latency_cycles, by))
        self.simulated.append(one)
        self.leading.setdefault(one.latency_cycles, one)
        for cycles in sorted(self.leading)[GLIMPSED:]:
            del self.leading[cycles]
        self.best = one if one.latency_cycles < self.best.latency_cycles else self.best

    def learn(self, line: Line, kind: str, gain: float | None) -> None:
        """Count what a move of a line gained; None where it was not simulated."""
        self.tallies[kind].add(gain)
        line.learn(kind, gain)


@dataclass(slots=True)
class _Spending:
    """What was spent of a budget."""

    budget: Budget
    evaluator: Evaluator
    tilings_before: int
    instructions_before: int = 0
    tries: float = 0.0  # candidates that are not simulated count less

    @property
    def share(self) -> float:
        """Of candidates, of instructions, or of tilings, whichever is most."""
        budget, evaluator = self.budget, self.evaluator
        tilings = evaluator.tilings - self.tilings_before
        spent = (
            (self.tries, budget.candidates),
            (evaluator.instructions - self.instructions_before, budget.instructions),
            (tilings, budget.tilings),
        )
        return max(one / most if most else 1.0 for one, most in spent)


def improved(
    request: Request, networks: Networks, seeds: Sequence[Compilation], batches: Sequence[int]
) -> Compilation | None:
    """The fastest of the seeds and of what the moves make of them, compiled in full.

    `batches` are those that an iteration may have. Where there is no seed, as none fits, the search begins with the
    operators that TVM would run together; None where nothing is found then. With more than low effort the schedule of
    another strategy is taken instead where that is faster still. An interruption ends the search, not the compilation.
    """
    fastest = min(seeds, key=latency, default=None)
    evaluator = Evaluator(request, networks)
    budget = BUDGETS[request.options.effort]
    near = [one for one in sorted(seeds, key=latency) if fastest is None or latency(one) <= FAR * latency(fastest)]
    begins = tuple(dict.fromkeys(one for seed in near if (one := candidate_of(seed)) is not None))
    if fastest is None:
        begins = tuple(plain_candidate(at_batch(request, networks, PLAIN, batch)) for batch in batches)
    state, notes, interrupted = None, [_seeds_note(seeds)], False
    steps = [] if fastest is None else [SearchStep(0, latency(fastest), fastest.run.strategy)]
    try:
        with answered_later():
            state = _begun(request, evaluator, begins, batches, budget, steps)
            if state is not None:
                _search(request, evaluator, state, budget, batches)
    except KeyboardInterrupt:
        interrupted = True
        notes.append("The search was interrupted: this is the best that it had found.")
    if fastest is None and state is None:
        return None
    if state is not None:
        notes += _tried_notes(state, state.first_cycles if fastest is None else latency(fastest))
    done = fastest
    if state is not None and (fastest is None or state.best.latency_cycles < latency(fastest)):
        done = evaluator.compiled(state.best.candidate)
        assert latency(done) == state.best.latency_cycles, "a candidate takes other cycles than its full compilation"
    assert done is not None, "a seed or what was found"
    if request.options.effort is not Effort.LOW and not interrupted and seeds:
        begun = {one.run.strategy for one in seeds}
        others = [strategy_named(name) for name in outdone_by_best(request.options.effort) if name not in begun]
        found, more = _not_slower_than(request, networks, done, others)
        if found is not done:
            steps.append(SearchStep(evaluator.evaluations, latency(found), found.way.strategy))
        done, notes = found, notes + more
    return replace(_named(done, notes), searched=Searched(evaluator.evaluations, tuple(steps)))


def _not_slower_than(
    request: Request, networks: Networks, best: Compilation, others: Sequence[Strategy]
) -> tuple[Compilation, list[str]]:
    """`best`, or what the fastest of some strategies makes of the batch, and what to say of that.

    Few of them are planned: most are slower whatever their tiles, by `least_launched_cycles`.
    """
    now = best
    try:
        with answered_later():
            for number, other in enumerate(others):
                request.progress(f"other strategies ({latency(now):,} cycles)", number, len(others))
                now = not_slower(request, networks, now, other)
    except KeyboardInterrupt:
        pass
    if now is best:
        return best, []
    return now, [f"A schedule of another strategy, {now.way.strategy}, is faster than what the search found."]


def _begun(
    request: Request,
    evaluator: Evaluator,
    begins: Sequence[Candidate],
    batches: Sequence[int],
    budget: Budget,
    steps: list[SearchStep],
) -> _State | None:
    """Where the search begins; None where nothing of that runs. What is faster than all before is added to `steps`."""
    found, tried = beginnings(request, evaluator, begins, batches, budget.instructions)
    if not found:
        return None
    best = min(found, key=latency_cycles)
    lines = [Line([one]) for one in found if one.latency_cycles <= FAR * best.latency_cycles]
    state = _State(best, lines, set(tried), best.latency_cycles, steps)
    for one in found:
        state.note(one, START)
    return state


def _search(request: Request, evaluator: Evaluator, state: _State, budget: Budget, batches: Sequence[int]) -> None:
    """Try one move after another: on every beginning, then again and again on the faster half, at last on one."""
    spending = _Spending(budget, evaluator, evaluator.tilings)
    rounds = (len(state.lines) - 1).bit_length()
    for number in range(rounds):
        for at, line in enumerate(state.lines):
            until = TRIAL * (number + (at + 1) / len(state.lines)) / rounds
            _try_moves(request, state, spending, (), until, line)
        ranked = sorted(range(len(state.lines)), key=lambda at: (state.lines[at].fastest.latency_cycles, at))
        state.lines = [state.lines[at] for at in ranked[: (len(ranked) + 1) // 2]]
    state.lines[0].widen(LATER)
    _try_moves(request, state, spending, batches, 1.0 - FINISH, state.lines[0])
    _try_moves(request, state, spending, (), 1.0, Line([state.best], kinds=FINISHING))
    _try_moves(request, state, spending, batches, 1.0, state.lines[0])
    _try_last(request, spending, state)


def _try_last(request: Request, spending: _Spending, state: _State) -> None:
    """Moves of the fastest, however much was spent; with more than low effort it is gone on from before and behind."""
    is_low = request.options.effort is Effort.LOW
    polishes = spending.budget.candidates > 0 and not is_low
    last = [kind for kind in LAST if not is_low or kind not in DEAR]
    if polishes:
        _try_cuts(request, state, spending.evaluator, state.lines[0])
        state.lines[0].add(state.best)
        _try_cuts(request, state, spending.evaluator, state.lines[0])
        _try_moves(request, state, spending, (), spending.share + POLISH, Line([state.best], kinds=POLISHING))
    polished = state.best
    for one in sorted(state.lines[0].found, key=latency_cycles)[:COMPACTED]:
        _try_moves(request, state, spending, (), inf, Line([one], greedy=True, kinds=("compact",)))
    _try_moves(request, state, spending, (), inf, Line([state.best], greedy=True, kinds=last))
    if polishes:
        line = Line([polished], kinds=POLISHING)
        _try_moves(request, state, spending, (), spending.share + AGAIN, line)
        _try_cuts(request, state, spending.evaluator, line)
        if line.fastest is not polished:
            _try_moves(request, state, spending, (), inf, Line([line.fastest], greedy=True, kinds=last))
        _try_anew(request, spending, state)
    if not is_low:
        for one in _promising(request, spending, state):
            _try_moves(request, state, spending, (), inf, Line([one], greedy=True, kinds=AT_LAST))


def _try_cuts(request: Request, state: _State, evaluator: Evaluator, line: Line) -> None:
    """The fastest of a line with other cuts, while what was simulated tells of cheaper ones and some are faster."""
    refused, tally, in_vain = set[cutting.Part](), state.tallies[cutting.KIND], 0
    while in_vain < VAIN_CUTS:
        best = line.fastest
        found = cutting.cheapest_cuts(evaluator.graph(best.candidate), best, state.simulated, refused)
        if found is None:
            return
        in_vain += 1
        one = None
        if found.candidate not in state.seen:
            state.seen.add(found.candidate)
            request.progress(f"search ({best.latency_cycles:,} cycles)", in_vain, VAIN_CUTS)
            one = evaluator.evaluate(found.candidate, lowered_limit([best]), int(HOPELESS * best.estimated_cycles))
        if one is None or one.repeated:
            refused.update(found.parts)
            tally.add(None)
            continue
        tally.add(max(0.0, 1 - one.latency_cycles / best.latency_cycles))
        line.add(one)
        state.note(one, cutting.KIND)
        in_vain = 0 if line.fastest is one else in_vain


def _try_anew(request: Request, spending: _Spending, state: _State) -> None:
    """Moves of the fastest that the others do without; where they gain nothing, all goes on as if they were not there.

    Where they do, it is gone on from what they came to.
    """
    evaluator, before, leading = spending.evaluator, state.best, dict(state.leading)
    own = _Spending(spending.budget, evaluator, evaluator.tilings, evaluator.instructions)
    _try_moves(request, state, own, (), ANEW_SHARE, Line([before], greedy=True, kinds=ANEW))
    if state.best is before:
        state.leading = leading
    else:
        _try_moves(request, state, own, (), own.share + POLISH, Line([state.best], kinds=POLISHING))
    spending.tilings_before += evaluator.tilings - own.tilings_before
    spending.instructions_before += evaluator.instructions - own.instructions_before


def _promising(request: Request, spending: _Spending, state: _State) -> list[Evaluated]:
    """What to refine: of the fastest the one that is fastest once its order is refined a little, as moves settle it."""
    evaluator, budget = spending.evaluator, spending.budget
    leading = [one for _, one in sorted(state.leading.items())]
    most = MOST_GLIMPSED // state.best.instructions
    if most < 2:
        return [state.best]
    cycles = [evaluator.glimpsed(one.candidate) for one in leading[:most]]
    begin, least = leading[cycles.index(min(cycles))], min(cycles)
    # Searches of tiles are not counted anew: where most of the time went there, none is left.
    most_tilings = budget.tilings * (1 + POLISH + AGAIN) - (evaluator.tilings - spending.tilings_before)
    left = Budget(int(SETTLE * budget.candidates), int(SETTLE * budget.instructions), max(0.0, most_tilings))
    now, cycles_now = _settled(
        request, _Spending(left, evaluator, evaluator.tilings, evaluator.instructions), state, begin, least
    )
    return [now] if now is begin or cycles_now < (1 - SURE) * least else [now, begin]


def _settled(
    request: Request, spending: _Spending, state: _State, begin: Evaluated, least: int
) -> tuple[Evaluated, int]:
    """What moves make of a schedule where a glimpse of its refinement decides, which may gain more than all before.

    `least` is what a glimpse makes of the first. What is returned has its time before it is refined, and that at a
    glimpse.
    """
    now, line = begin, Line([begin], greedy=True, kinds=SETTLING)

    def limits(candidate: Candidate) -> tuple[int | None, int | None]:
        return lowered_limit([begin]), int(HOPELESS * now.estimated_cycles)

    for kind, one in _tried(request, state, spending, (), 1.0, line, limits):
        state.note(one, kind)
        is_close = one.latency_cycles <= CLOSE * begin.latency_cycles
        cycles = spending.evaluator.glimpsed(one.candidate) if is_close else least
        gain = max(0.0, 1 - cycles / least)
        state.learn(line, kind, gain)
        if gain:
            now, least = one, cycles
            line.found = [one]
            line.open.clear()
    return now, least


def _try_moves(
    request: Request, state: _State, spending: _Spending, batches: Sequence[int], until: float, line: Line
) -> None:
    """Moves of what was found in a line, until a share of the budget is spent or none is left."""

    def limits(candidate: Candidate) -> tuple[int | None, int | None]:
        fastest = line.fastest
        alike = candidate.rewriting == fastest.candidate.rewriting  # else estimates say little of what overlaps
        return lowered_limit(line.found), int(HOPELESS * fastest.estimated_cycles) if alike else None

    for kind, one in _tried(request, state, spending, batches, until, line, limits):
        state.learn(line, kind, max(0.0, 1 - one.latency_cycles / line.fastest.latency_cycles))
        line.add(one)
        state.note(one, kind)


def _tried(
    request: Request,
    state: _State,
    spending: _Spending,
    batches: Sequence[int],
    until: float,
    line: Line,
    limits: Callable[[Candidate], tuple[int | None, int | None]],
) -> Iterator[tuple[str, Evaluated]]:
    """What moves of a line come to, one after another, with their kind; `limits` are those of `Evaluator.evaluate`."""
    while spending.share < until:
        move = _next(request, spending.evaluator, state, batches, line)
        if move is None:
            return
        kind, candidate = move
        state.seen.add(candidate)
        request.progress(f"search ({state.best.latency_cycles:,} cycles)", int(100 * spending.share), 100)
        one = spending.evaluator.evaluate(candidate, *limits(candidate))
        if one is None or one.repeated:
            spending.tries += 1 / (UNFIT if one is None else KNOWN)
            state.learn(line, kind, None)
            continue
        spending.tries += 1
        yield kind, one


def _next(
    request: Request, evaluator: Evaluator, state: _State, batches: Sequence[int], line: Line
) -> tuple[str, Candidate] | None:
    """A move from the fastest candidate that has one left, of the most promising kind; None where all are tried."""
    for at in sorted(range(len(line.found)), key=lambda at: (line.found[at].latency_cycles, at)):
        one = line.found[at]
        if at not in line.open:
            graph = evaluator.graph(one.candidate)
            scene = Scene(one.candidate, graph, request.machine, one.lost_cycles, batches)
            line.open[at] = line.opened(scene)
        left = line.open[at]
        while left:
            kind = max(left, key=line.promise.__getitem__)  # the first of equals
            for candidate in () if line.rests(kind) else left[kind]:
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
    if not seeds:
        return "Searched from the operators that TVM would run together: no schedule of another strategy fits."
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
                f"  {kind}: {tally.tried} tried, {tally.unfit} not simulated, {tally.faster} faster, "
                f"{100 * tally.gain:.1f} % gained"
            )
    return lines
