"""Where the search begins: schedules of others at every batch per iteration, with what pays only together.

Attention as one kernel and sums in a ring; and, where constants come so often that they take most of the time, more
samples an iteration than there would be room for otherwise.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tilestitch.cost.bounds import bounds
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.choices import Effort
from tilestitch.ir.graph import Graph
from tilestitch.ir.tile_rule import Once, TileRoom, TileRule
from tilestitch.pipeline.search.banding import with_bands
from tilestitch.pipeline.search.candidate import NAME, Candidate
from tilestitch.pipeline.search.columns import with_columns
from tilestitch.pipeline.search.evaluate import Evaluated, Evaluator, latency_cycles
from tilestitch.pipeline.search.fusing import with_attention
from tilestitch.pipeline.search.heads import with_heads_in_turn
from tilestitch.pipeline.search.moves import WHOLE_ROOM, constants_of, with_fewer_cores, with_rules
from tilestitch.pipeline.search.parting import with_folded_constants
from tilestitch.pipeline.search.places import recounted
from tilestitch.pipeline.search.splitting import with_parts_that_fit
from tilestitch.pipeline.search.streaming import streamed
from tilestitch.pipeline.stages import Request

NEAR = 1.02  # slower than the fastest by this factor, both before instructions are reordered: stays slower
FAR = 1.5  # a schedule that is slower than the fastest by this factor is not changed
SLOW = 1.6  # a beginning that is estimated to take longer by this factor takes longer by `FAR`: 22 of 22 did
OFTEN = 0.5  # of the time, for constants that come in every iteration: more samples an iteration are worth a look
TURNS = 4  # numbers of pieces of which it is looked at whether attention runs faster some heads at a time
LARGE = TileRule(columns=True, room=TileRoom.WHOLE)


class _Beginnings:
    """What was tried so far, and what of it runs."""

    def __init__(self, request: Request, evaluator: Evaluator, instructions: int) -> None:
        self.request, self.evaluator, self.machine = request, evaluator, request.machine
        self.most = instructions
        self.found: list[Evaluated] = []
        self.tried: list[Candidate] = []

    @property
    def is_left(self) -> bool:
        """Whether there is budget for more, or nothing that runs."""
        return not self.found or self.evaluator.instructions < self.most

    @property
    def fastest(self) -> Evaluated:
        return min(self.found, key=latency_cycles)

    def add(self, candidate: Candidate, most_estimated: int | None = None) -> bool:
        """Evaluate a candidate; whether it runs."""
        self.tried.append(candidate)
        one = self.evaluator.evaluate(candidate, lowered_limit(self.found), most_estimated)
        self.found += [one] if one is not None else []
        return one is not None

    def most_estimated(self, candidate: Candidate) -> int | None:
        """What it may be estimated to take beside the fastest that is like it; None where nothing is: anything."""
        alike = [one for one in self.found if one.candidate.rewriting == candidate.rewriting]
        if not alike:
            return None
        share = FAR if self.request.options.effort is Effort.LOW else SLOW
        return int(share * min(alike, key=latency_cycles).estimated_cycles)

    def add_faster_in_blocks(self, begins: Sequence[Candidate]) -> None:
        """Add attention in the largest blocks at the batch of the fastest, where that is faster than all others."""
        blocks = in_blocks(self.evaluator, begins[:1], (self.fastest.candidate.batch,), self.machine)
        self._add_if_faster(blocks[:1])

    def add_faster_in_parts(self, batches: Sequence[int]) -> None:
        """Add the fastest, also uncut, with products in parts of their reduction, where that is faster than all others.

        In as many parts as it takes for what they add up to have room, or twice as many; uncut at every batch at which
        it takes any. Products whose weights have room stay whole: they do as well in pieces of rows.
        """
        best, evaluator = self.fastest.candidate, self.evaluator
        whole = [one.uncut(evaluator.graph(one)) for one in (evaluator.at(best, batch) for batch in batches)]
        ways = [
            with_parts_that_fit(one, evaluator.graph(one), self.machine, times, if_weights_do_not=True)
            for one in (best, *whole)
            for times in (1, 2)
        ]
        self._add_if_faster([way for way in dict.fromkeys(ways) if way.split_k and way not in self.tried])

    def add_faster_by_heads(self) -> None:
        """Add the fastest, also uncut, with attention and its projections some heads at a time, where that is faster.

        Looked at where what these make has no room on the chip as a whole.
        """
        best, evaluator = self.fastest.candidate, self.evaluator
        graph = evaluator.graph(best)
        plain = dict.fromkeys((best, best.uncut(graph)))
        ways = [with_heads_in_turn(one, graph, self.machine, more) for one in plain for more in range(TURNS)]
        self._add_if_faster([way for way in dict.fromkeys(ways) if way not in plain and way not in self.tried])

    def add_with_constants_once(self) -> None:
        """Add the fastest, also uncut, with every constant brought once, where that is faster than all others.

        Looked at where kernels that read what others had read make up most of what they read of constants, as the
        steps of a recurrent network do.
        """
        best, evaluator = self.fastest.candidate, self.evaluator
        graph = evaluator.graph(best)
        readers = Counter(name for kernel in best.kernels for name in constants_of(kernel, graph))
        read = sum(graph.tensors[name].size_bytes * count for name, count in readers.items())
        if read > 2 * sum(graph.tensors[name].size_bytes for name in readers):
            ways = (with_rules(one, one.sinks, once=Once.ALL) for one in (best, best.uncut(graph)))
            self._add_if_faster([way for way in dict.fromkeys(ways) if way not in self.tried])

    def _add_if_faster(self, ways: Sequence[Candidate]) -> None:
        """Add what is faster than all that was found; looked at once, and not at the expense of the budget."""
        evaluator, spent = self.evaluator, self.evaluator.instructions
        for way in ways:
            one = evaluator.evaluate(way, lowered_limit(self.found))
            if one is not None and one.latency_cycles < self.fastest.latency_cycles:
                self.tried.append(way)
                self.found.append(one)
        evaluator.instructions = spent

    def add_on_fewer_cores(self) -> None:
        """Add the fastest, also uncut, with every kernel on fewer cores, where that is faster than all others.

        Where kernels are small, transfers to and from many cores take longest. The cores are halved as long as that is
        not much slower and arithmetic alone would end before the fastest. Not at the expense of the budget.
        """
        evaluator, best, spent = self.evaluator, self.fastest, self.evaluator.instructions
        self._add_halved(best.candidate, best.latency_cycles)
        if self.fastest is not best:
            self._add_halved(best.candidate.uncut(evaluator.graph(best.candidate)), None)
        evaluator.instructions = spent

    def _add_halved(self, one: Candidate, latency_cycles: int | None) -> None:
        """Add a candidate on fewer cores; it takes so many cycles on all of them, where that is known."""
        evaluator, cores = self.evaluator, len(self.machine.cores)
        graph, iterations = evaluator.graph(one), self.request.run(NAME, one.batch).iterations
        least_cycles = bounds(graph, self.machine, iterations=iterations).attainable_cycles
        most = cores // 2
        while most > 0 and least_cycles * cores < most * self.fastest.latency_cycles:
            way = with_fewer_cores(one, graph, cores, most)
            found = evaluator.evaluate(way, lowered_limit(self.found))
            if found is None or (latency_cycles is not None and found.latency_cycles > FAR * latency_cycles):
                return
            latency_cycles = found.latency_cycles
            if latency_cycles < self.fastest.latency_cycles:
                self.tried.append(way)
                self.found.append(found)
            most //= 2

    def add_with_more_samples(self, batches: Sequence[int]) -> None:
        """Add more samples an iteration where constants that come in every one take most of the fastest's time.

        What runs whole stays so, and other pieces are as large as before; or products run in as many parts of their
        reduction as it takes for what they add up to have room. Not at the expense of the budget.
        """
        evaluator, best, spent = self.evaluator, self.fastest, self.evaluator.instructions
        if best.latency_cycles * OFTEN < evaluator.constant_cycles(best.candidate):
            more = [batch for batch in batches if batch > best.candidate.batch]
            ways = [grown(one, evaluator, batch) for one in self.tried for batch in more if one.batch < batch]
            large = [one for one in (*self.tried, *ways) if one.batch > best.candidate.batch]
            ways += [with_parts_that_fit(one, evaluator.graph(one), self.machine) for one in large]
            for way in dict.fromkeys(ways):
                if way not in self.tried:
                    self.add(way, self.most_estimated(way))
        evaluator.instructions = spent


def beginnings(
    request: Request, evaluator: Evaluator, begins: Sequence[Candidate], batches: Sequence[int], instructions: int
) -> tuple[list[Evaluated], list[Candidate]]:
    """The seeds that can be changed, and these at every batch, with attention fused where there is any, also uncut.

    What runs of them, and what was tried. Those that come when the budget of instructions is spent are left out.

    Where whole rows of its scores fit in none of them, or blocks are faster, attention runs block by block in others.
    There vector units that have more to do than matrix units leave depthwise convolutions to these.
    """
    machine = request.machine
    begins = [with_folded_constants(one, evaluator.graph(one), machine) for one in begins]
    fused: dict[Candidate, None] = {}
    whole: set[Candidate] = set()  # with attention as one kernel
    for one in (evaluator.at(seed, batch) for seed in begins for batch in batches):
        ways = with_fused_attention(one, evaluator.graph(one), machine)
        own = [with_bands(way, evaluator.graph(way), machine) for way in ways]
        fused.update(dict.fromkeys(own))
        whole.update(replace(way, ring=True) for way in own if ways != [one])
    state = _Beginnings(request, evaluator, instructions)
    fits = False  # whether attention is one kernel in some of them
    for candidate in dict.fromkeys(replace(one, ring=True) for one in (*begins, *fused)):
        if not state.is_left:
            break
        runs = state.add(candidate, state.most_estimated(candidate))
        fits = fits or (runs and candidate in whole)
    for candidate in in_blocks(evaluator, begins, batches, machine) if not fits else ():
        if not state.is_left:
            break
        state.add(candidate)
    if fits and state.is_left:
        state.add_faster_in_blocks(begins)
    if state.found:
        state.add_with_more_samples(batches)
        state.add_faster_in_parts(batches)
        state.add_faster_by_heads()
        state.add_with_constants_once()
        state.add_on_fewer_cores()
    return state.found, state.tried


def in_blocks(
    evaluator: Evaluator, begins: Sequence[Candidate], batches: Sequence[int], machine: Accelerator
) -> list[Candidate]:
    """Ways to have attention block by block, with all else uncut."""
    whole = (evaluator.at(one, batch) for one in begins for batch in batches)
    plain = dict.fromkeys(one.uncut(evaluator.graph(one)) for one in whole)
    ways = [way for one in plain for way in streamed(one, evaluator.graph(one), machine)]
    return list(dict.fromkeys(replace(way, ring=True) for way in ways))


def with_fused_attention(begin: Candidate, graph: Graph, machine: Accelerator) -> list[Candidate]:
    """A beginning, or ways to have its attention fused: also uncut, and with tiles of all of the memories.

    Whole rows of scores may need more room than half of the memories, or than what pieces leave. Where results are too
    large for the cores uncut, those are also in pieces of their weights' columns.
    """
    fused = with_attention(begin, graph, machine)
    if fused is begin:
        return [begin]
    uncut = fused.uncut(graph)
    found = [like for one in (fused, uncut) for like in (one, with_rules(one, one.sinks, tiles=LARGE))]
    wide = with_columns(uncut, graph, machine)
    return found if wide is uncut else [*found, with_rules(wide, wide.sinks, tiles=WHOLE_ROOM)]


def grown(candidate: Candidate, evaluator: Evaluator, batch: int) -> Candidate:
    """With more samples an iteration: in pieces as large as before, and whole where it ran whole."""
    larger = evaluator.fitted(replace(candidate, batch=batch))
    graph, factor = evaluator.graph(larger), batch // candidate.batch
    cuts = (recounted(graph, cut, factor) if cut.pieces > 1 else cut for cut in larger.cuts)
    return replace(larger, cuts=tuple(cuts))


def lowered_limit(found: Sequence[Evaluated]) -> int | None:
    """From which latency on, as lowered, a candidate will not be faster than the fastest of some; None: from none."""
    return int(NEAR * min(found, key=latency_cycles).lowered_cycles) if found else None
