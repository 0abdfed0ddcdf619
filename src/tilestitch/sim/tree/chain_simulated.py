"""Operators that run together on a tree simulated, and their values checked.

They take turns as their loops say: while it is one's turn its units work, and streams may move its tiles. Tiles of
loops that it shares with others have longer: they move whatever turn it is, as soon as there is room.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from tilestitch.base.errors import InvalidIR
from tilestitch.base.shown import Brief
from tilestitch.ir.choices import Values
from tilestitch.sim.tree.chain import ChainRun, Moment, Room, SharedLoops, expect_chain, rooms_of
from tilestitch.sim.tree.chain_plan import Pass, joined, pass_of
from tilestitch.sim.tree.chain_values import Operands, chain_operands, expect_right, met, passed_on
from tilestitch.sim.tree.clock import (
    BETWEEN,
    COMPUTE,
    ENDED,
    FIRST_LOAD,
    LAST_STORE,
    NEST,
    NOTED,
    NOW,
    PASSES,
    RUNNING,
    STATE_NUMBERS,
    STEPS,
    WAITS,
    advance,
)
from tilestitch.sim.tree.clock import EVENTS as HAPPENED
from tilestitch.sim.tree.simulated import (
    EVENTS_AT_ONCE,
    FlowCount,
    PortBusy,
    StreamState,
    TreeTally,
    beginning,
    flows_of,
    network_pj,
    tally_of,
)
from tilestitch.sim.tree.streams import Plan, Streams, streams_of
from tilestitch.sim.tree.values import Moves, Store, fill, moves_of, nothing, room_for, stores_of
from tilestitch.sim.tree.wiring import Reading


@dataclass(frozen=True, repr=False)
class SimulatedChain(Brief):
    """Operators that ran together, as the simulator ran them. Where values were computed they were right."""

    run: ChainRun
    values: Values
    cycles: int
    events: int
    cycles_by_cause: Mapping[str, int]
    ports: tuple[PortBusy, ...]
    flows: tuple[tuple[FlowCount, ...], ...]  # of each operator
    passes: tuple[tuple[FlowCount, ...], ...]  # over each link
    networks_pj: tuple[float, ...]  # of each operator
    rooms: tuple[Room, ...]
    result: np.ndarray | None
    left: Mapping[int, np.ndarray] = field(default_factory=dict)  # by operator the results that leave as well

    @property
    def macs(self) -> int:
        """Of the nests: what is made again counts once."""
        return sum(one.nest.macs for one in self.run.operators)

    @property
    def energy_pj(self) -> float:
        """Of memories, networks and arithmetic, with what is made again."""
        return sum(self.energy.values())

    @property
    def energy(self) -> dict[str, float]:
        """By component: arithmetic, networks, and every memory by name."""
        tree = self.run.operators[0].tree
        found = {"arithmetic": tree.mac_pj * sum(one.macs for one in self.run.operators)}
        if any(self.networks_pj):
            found["networks"] = sum(self.networks_pj)
        every = [flow for flows in (*self.flows, *self.passes) for flow in flows]
        for memory in tree.memories:
            found[memory.name] = sum(flow.energy_pj for flow in every if flow.memory == memory.name)
        return found

    @property
    def utilization(self) -> float:
        """Of all units of the machine."""
        return self.macs / self.run.operators[0].tree.units / self.cycles


@dataclass(frozen=True, eq=False)
class ChainRecording:
    """Cycles from the first on, as notes of the clock; streams are those of all operators, then those of passes."""

    end: int
    ports: tuple[str, ...]
    streams: tuple[Streams, ...]
    passes: tuple[Pass, ...]
    notes: np.ndarray


def simulate_chain(
    run: ChainRun, *, values: Values = Values.INTEGERS, progress: Callable[[int, int], None] | None = None
) -> SimulatedChain:
    """Simulate operators that run together; with values their result is held against numpy's.

    Raises `InputError` for what is not simulated, `InvalidIR` where loops, rooms or the result are wrong.
    """
    nests = [one.nest for one in run.operators]
    operands = None if values is Values.NONE else chain_operands(run.wiring, values)
    found = run_chain(run, operands, progress)
    if operands is not None:
        assert found.result is not None
        where = f"{' > '.join(nest.name for nest in nests)} on {run.operators[0].tree.name}"
        expect_right(where, found.result, run.wiring, operands)
    return found


def run_chain(
    run: ChainRun,
    operands: Operands | None = None,
    progress: Callable[[int, int], None] | None = None,
    beside: Mapping[tuple[int, int], np.ndarray] = MappingProxyType({}),
) -> SimulatedChain:
    """Simulate operators with these arrays as what is read, or without values; no result is compared.

    With what an operator reads of others, arrays that are `beside` it meet, by operator and read: they were made
    before, as was what is added to its result, by operator and the number of that. Raises as `simulate_chain`.
    """
    expect_chain(run)
    every = [streams_of(one) for one in run.runs]
    passes = _passes(run)
    plan, ports = joined(run, every, passes)
    memories = (
        _nothing(every, len(passes)) if operands is None else _memories(run, every, operands, len(passes), beside)
    )
    state = np.zeros(STATE_NUMBERS, np.int64)
    tally = tally_of(len(ports), len(operand_names(run)))
    clock = _Clock(run, plan, memories, state, beginning(plan, tally), tally, passes, progress, beside)
    for moment, block in run.events():
        clock.go_on(moment, block)
    causes = causes_of_chain(run)
    kind = Values.NONE
    if operands is not None:
        kind = Values.INTEGERS if np.issubdtype(memories.memory.dtype, np.integer) else Values.FLOATS
    return SimulatedChain(
        run,
        kind,
        int(state[NOW]),
        int(state[HAPPENED]),
        {name: int(tally.causes[at]) for name, at in causes.items()},
        tuple(PortBusy(name, int(cycles)) for name, cycles in zip(ports, tally.busy, strict=False)),
        tuple(flows_of(one) for one in every),
        tuple(_pass_flows(run, link, passes) for link in range(len(run.links))),
        tuple(network_pj(one) for one in every),
        rooms_of(run),
        None if operands is None else clock.result(),
        clock.left,
    )


def record_chain(run: ChainRun, most_notes: int) -> ChainRecording:
    """What happens from the beginning on, until so many things have been noted or all is done; without values."""
    every, passes = [streams_of(one) for one in run.runs], _passes(run)
    plan, ports = joined(run, every, passes)
    plan = plan._replace(periods=np.zeros_like(plan.periods))
    memories, state = _nothing(every, len(passes)), np.zeros(STATE_NUMBERS, np.int64)
    tally = tally_of(len(ports), len(operand_names(run)), most_notes)
    clock = _Clock(run, plan, memories, state, beginning(plan, tally), tally, passes, None)
    for moment, block in run.events():
        clock.go_on(moment, block)
        if clock.is_full:
            break
    return ChainRecording(int(state[NOW]), ports, tuple(every), tuple(passes), tally.notes[: state[NOTED]])


def operand_names(run: ChainRun) -> list[str]:
    """The operands of all operators, as causes name them."""
    return [f"{one.nest.name}.{array.name}" for one in run.runs for array in one.operands]


def causes_of_chain(run: ChainRun) -> dict[str, int]:
    """What the units' cycles are spent on, with the numbers that the clock gives it."""
    causes = {"compute": COMPUTE, "first_load": FIRST_LOAD, "last_store": LAST_STORE, "between": BETWEEN}
    causes |= {"passes": PASSES} if any(has.passes for has in run.links) else {}
    return causes | {f"waits_for_{name}": WAITS + at for at, name in enumerate(operand_names(run))}


def _passes(run: ChainRun) -> list[Pass]:
    return [pass_of(run, link) for link, has in enumerate(run.links) if has.passes]


def _pass_flows(run: ChainRun, link: int, passes: Sequence[Pass]) -> tuple[FlowCount, ...]:
    name = run.operators[link].nest.write.name
    return tuple(
        FlowCount(name, one.memory, flow, float(one.times * accesses), float(one.times * accesses) * pj)
        for one in passes
        if one.link == link
        for flow, accesses, pj in one.accesses
    )


@dataclass(frozen=True, slots=True)
class _Memories:
    """The tables by which values move in each turn, the array in which all memories stand, and where homes are."""

    moves: tuple[Moves, ...]  # of each operator, and at the end of passes
    memory: np.ndarray
    homes: tuple[tuple[int, tuple[int, ...]], ...] = ()
    met: Mapping[tuple[int, int], tuple[int, tuple[int, ...]]] = field(default_factory=dict)  # by reader and read
    written: Store | None = None
    shape: tuple[int, ...] = ()

    def home(self, link: int) -> np.ndarray:
        """What is at home, to be read and written."""
        return self._there(*self.homes[link])

    def meeting(self, reading: Reading) -> np.ndarray:
        """What is read where results meet."""
        return self._there(*self.met[reading.reader, reading.read])

    def _there(self, first: int, shape: tuple[int, ...]) -> np.ndarray:
        return self.memory[first : first + int(np.prod(shape))].reshape(shape)

    def result(self) -> np.ndarray:
        """What the last operator wrote."""
        assert self.written is not None
        found = self.memory[self.written.first : self.written.first + self.written.size]
        return found.reshape(self.written.shape.sizes or ())[tuple(slice(0, size) for size in self.shape)]


def _nothing(every: Sequence[Streams], passes: int) -> _Memories:
    parts = [nothing(one) for one in every]
    moves = [one for one, _ in parts]
    return _Memories(_in_turn(moves, passes), parts[0][1])


def _memories(
    run: ChainRun,
    every: Sequence[Streams],
    operands: Operands,
    passes: int,
    beside: Mapping[tuple[int, int], np.ndarray],
) -> _Memories:
    """All memories one behind the other: first the homes of intermediates, of one tile each.

    What results are where they meet stands in the home of the last of them, or beside it if others read that alone.
    """
    homes: list[tuple[int, tuple[int, ...]]] = []
    size = 0
    for link in range(len(run.links)):
        shape = run.home_shape(link)
        homes.append((size, shape))
        size += int(np.prod(shape))
    met: dict[tuple[int, int], tuple[int, tuple[int, ...]]] = {}
    for reading in run.wiring.every:
        key, makers = (reading.reader, reading.read), run.wiring.makers(reading)
        if run.wiring.is_added(reading) or reading.link != makers[-1]:
            continue
        met[key] = homes[reading.link]
        if (len(makers) > 1 or key in beside) and len(run.wiring.readings(reading.link)) > 1:
            met[key] = size, homes[reading.link][1]
            size += int(np.prod(met[key][1]))
    placed: list[list[list[Store]]] = []
    for number, one in enumerate(every):
        kept = {one.read: met[number, one.read] for one in run.wiring.read_by(number)}
        if number < len(homes):
            first, shape = homes[number]
            kept[one.run.written] = first + int(np.ravel_multi_index(run.first_written(number), shape)), shape
        stores, size = stores_of(one.run, one.digits, size, kept)
        placed.append(stores)
    first = next(array for arrays in operands for array in arrays if array is not None)
    memory = room_for(size, first.dtype)
    for arrays, stores in zip(operands, placed, strict=True):
        for array, levels in zip(arrays, stores, strict=False):
            if array is not None:
                fill(memory, levels[-1], array)
    moves = [moves_of(one, stores, memory.dtype) for one, stores in zip(every, placed, strict=True)]
    last = run.runs[-1]
    return _Memories(
        _in_turn(moves, passes), memory, tuple(homes), met, placed[-1][last.written][-1], last.nest.write.shape
    )


_EACH = (
    "moves",
    "up",
    "clears",
    "outer",
    "outer_size",
    "outer_buffers",
    "inner",
    "inner_size",
    "inner_buffers",
    "leads",
    "stretch",
    "stretch_inner",
    "stretch_outer",
)
_RAGGED = {
    "pairs": ("pair_inner", "pair_outer"),
    "jumps": ("jump",),
    "copies": ("copy_inner", "copy_outer"),
}


def _in_turn(moves: Sequence[Moves], passes: int) -> tuple[Moves, ...]:
    """The tables of each operator with the streams of all, and those of passes, which move nothing."""
    table: dict[str, np.ndarray] = {}
    for name in _EACH:
        parts = [getattr(one, name) for one in moves]
        table[name] = np.concatenate([*parts, np.zeros(passes, parts[0].dtype)])
    for ends, names in _RAGGED.items():
        lengths = np.concatenate([*(np.diff(getattr(one, ends)) for one in moves), np.zeros(passes, np.int64)])
        table[ends] = np.cumsum([0, *lengths])
        for name in names:
            table[name] = np.concatenate([getattr(one, name) for one in moves])
    every = [one._replace(**table) for one in moves]
    return (*every, every[0]._replace(block=0))


@dataclass(slots=True)
class _Clock:
    """The clock, and what it has come to."""

    run: ChainRun
    plan: Plan
    memories: _Memories
    state: np.ndarray
    now: StreamState
    tally: TreeTally
    passes: Sequence[Pass]
    progress: Callable[[int, int], None] | None
    beside: Mapping[tuple[int, int], np.ndarray] = field(default_factory=dict)
    gated: dict[SharedLoops, np.ndarray] = field(init=False)  # the streams that a block opens
    opens: np.ndarray = field(init=False)  # and their tiles in a visit
    emptied: list[int] = field(init=False)  # how often each home was
    readings: list[int] = field(init=False)  # of homes where rows are kept the windows that were read
    rows: list[int] = field(init=False)  # and which window's rows are the last there
    total: int = field(init=False)
    added: dict[int, np.ndarray] = field(default_factory=dict)  # by operator what is added to its result
    left: dict[int, np.ndarray] = field(default_factory=dict)  # and its result, where that leaves as well

    def __post_init__(self) -> None:
        plan, run = self.plan, self.run
        places = plan.place - np.concatenate([[0], np.cumsum([len(one.loops) or 1 for one in run.runs])])[plan.nest]
        around: dict[SharedLoops, list[int]] = {}
        self.opens = np.ones(len(plan.up), np.int64)
        for stream, (nest, place) in enumerate(zip(plan.nest.tolist(), places.tolist(), strict=True)):
            if nest < len(run.runs):
                block, one = run.around(nest, place), run.runs[nest]
                around.setdefault(block, []).append(stream)
                self.opens[stream] = one.steps_inside(len(one.loops) - block.outside) // plan.tile[stream]
        self.gated = {block: np.array(streams, np.int64) for block, streams in around.items()}
        self.total = sum(one.iterations for one in run.runs)
        self.emptied, self.readings, self.rows = ([0] * len(run.links) for _ in range(3))

    def go_on(self, moment: Moment, block: SharedLoops) -> None:
        """What comes next."""
        if moment is Moment.BEGIN:
            self._begin(block)
        elif moment is Moment.PASS:
            self._add_to(block.last, block)
            self._pass(block.last)
            self._meet(block.last, block)
            self._leave(block.last, block)
        elif moment is Moment.STEPS:
            one = self.run.operators[block.first]
            self._want(block)
            steps = int(self.now.steps[block.first]) + one.steps_inside(len(one.loops) - block.outside)
            is_last = int(self.state[STEPS]) + steps - int(self.now.steps[block.first]) == self.total
            self._advance(block.first, steps, LAST_STORE if is_last else BETWEEN)
        else:
            if self._want(block):
                is_last = int(self.state[STEPS]) == self.total
                self._advance(block.last, int(self.now.steps[block.last]), LAST_STORE if is_last else BETWEEN)
            if not block.inside:
                self._end(block.first)
            self._take_along(block)
            link = block.last
            if link < len(self.run.links) and not self.run.links[link].passes:
                self._add_to(link, block)
                self._meet(link, block)
                self._leave(link, block)

    @property
    def is_full(self) -> bool:
        """Whether there are notes, and no room for more."""
        notes = len(self.tally.notes)
        return notes > 0 and int(self.state[NOTED]) + len(self.tally.busy) + 1 > notes

    def _begin(self, block: SharedLoops) -> None:
        """Open what is of this visit; where an intermediate begins, its home is empty."""
        if block in self.gated:
            self.now.opened[self.gated[block]] += self.opens[self.gated[block]]
        link = block.last
        if self.memories.homes and link < len(self.run.links) and self.run.common(link) == block.outside:
            self._make_room(link)
        if self.memories.homes and not block.inside and block.first > 0:
            link = block.first - 1
            ahead = self.run.links[link].ahead
            if ahead is not None:  # rows that there are no more of are nothing
                self._move_up(link, self.readings[link] + ahead)
                self.readings[link] += 1

    def _make_room(self, link: int) -> None:
        """Nothing is at home, but for rows that the next window needs as well: these move up."""
        self.emptied[link] += 1
        if self.run.links[link].ahead is not None:
            window = (self.emptied[link] - 1) % self.run.often(self.run.root)[link]
            if window > 0:
                self._move_up(link, window)
                return
            self.rows[link] = self.readings[link] = 0
        self.memories.home(link)[...] = 0

    def _move_up(self, link: int, window: int) -> None:
        """Make room for the rows of so many windows."""
        axis, rows = self.run.kept_along(link)
        home = np.moveaxis(self.memories.home(link), axis, 0)
        by = min(len(home), (window - self.rows[link]) * rows)
        home[: len(home) - by] = home[by:].copy()
        home[len(home) - by :] = 0
        self.rows[link] = window

    def _end(self, link: int) -> None:
        """Of what was written what lies behind the end of the intermediate, or of a window, is nothing."""
        if self.memories.homes and link < len(self.run.links):
            home, first = self.memories.home(link), self.run.first_written(link)
            for axis, size in enumerate(self.run.valid_shape(link, self.emptied[link] - 1)):
                np.moveaxis(home, axis, 0)[first[axis] + size :] = 0

    def _meet(self, link: int, block: SharedLoops) -> None:
        """What others have made for the same read meets the tile at home, where that is complete."""
        run, wiring = self.run, self.run.wiring
        if not self.memories.homes or block.outside != run.common(link):
            return
        home = self.memories.home(link)
        for reading in wiring.readings(link):
            *before, last = wiring.makers(reading)
            if link != last or wiring.is_added(reading):
                continue
            others = [(self.memories.home(other), run.common(other)) for other in before]
            if (reading.reader, reading.read) in self.beside:
                others.append((self.beside[reading.reader, reading.read], 0))
            target = self.memories.meeting(reading)
            if others:
                target[...] = home
            for other, outside in others:
                self._meet_there(target, other, self._begins(link, outside), reading)

    def _leave(self, link: int, block: SharedLoops) -> None:
        """The tile at home, where it is complete, goes out as well if others read it there."""
        if not self.memories.homes or not self.run.links[link].leaves or block.outside != self.run.common(link):
            return
        home = self.memories.home(link)
        if link not in self.left:
            self.left[link] = np.zeros(self.run.runs[link].nest.write.shape, home.dtype)
        first = self._begins(link, 0)
        within = tuple(slice(at, at + size) for at, size in zip(first, home.shape, strict=True))
        there = self.left[link][within]
        there[...] = home[tuple(slice(0, size) for size in there.shape)]

    def _meet_there(self, home: np.ndarray, other: np.ndarray, first: Sequence[int], where: Reading) -> None:
        """What is at home, with a part of something larger."""
        within = tuple(slice(at, at + size) for at, size in zip(first, home.shape, strict=True))
        here = tuple(slice(0, size) for size in other[within].shape)
        home[here] = met(home[here], other[within], where)

    def _take_along(self, block: SharedLoops) -> None:
        """Of tiles at home those that are added to results of which a larger tile is not complete yet."""
        run = self.run
        for number in range(block.first, block.last + 1) if self.memories.homes else ():
            outside = run.common(number) if number < len(run.links) else -1
            for reading in run.wiring.taken_by(number):
                common = run.common(reading.link)
                if run.wiring.is_added(reading) and reading.link < block.first and outside < common == block.outside:
                    tile, all_ = self.memories.home(reading.link), self._added_to(number)
                    first = self._begins(reading.link, 0)
                    within = tuple(slice(at, at + size) for at, size in zip(first, tile.shape, strict=True))
                    all_[within] += tile[tuple(slice(0, size) for size in all_[within].shape)]

    def _added_to(self, number: int) -> np.ndarray:
        """All that is added to the result of an operator and does not stand in a home when that is complete."""
        if number not in self.added:
            write = self.run.runs[number].nest.write
            self.added[number] = np.zeros(write.shape, self.memories.memory.dtype)
            before = self.beside.get((number, self.run.runs[number].written))
            if before is not None:
                self.added[number] += before[tuple(slice(0, size) for size in write.shape)]
        return self.added[number]

    def _add_to(self, link: int, block: SharedLoops) -> None:
        """What is added to a result joins the tile at home, where that is complete."""
        run = self.run
        taken = [one for one in run.wiring.taken_by(link) if run.wiring.is_added(one)]
        is_beside = (link, run.runs[link].written) in self.beside
        if not self.memories.homes or block.outside != run.common(link) or not (taken or is_beside):
            return
        home, where = self.memories.home(link), Reading(link, link, run.runs[link].written)
        for one in taken:
            if (common := run.common(one.link)) <= run.common(link):
                self._meet_there(home, self.memories.home(one.link), self._begins(link, common), where)
        self._meet_there(home, self._added_to(link), self._begins(link, 0), where)

    def result(self) -> np.ndarray:
        """What the last operator wrote, with what is added to it."""
        return self.memories.result() + self._added_to(len(self.run.runs) - 1)

    def _begins(self, link: int, outside: int) -> list[int]:
        """Where the tile at home begins in that of fewer loops that are outside."""
        one, number = self.run.runs[link], self.emptied[link] - 1
        found = [0] * len(one.nest.write.axes)
        for place in range(len(one.loops) - self.run.common(link), len(one.loops) - outside):
            loop, factor = one.loops[place]
            axis = next(at for at, terms in enumerate(one.nest.write.axes) if terms[0][0] == loop)
            found[axis] += number % factor * self.run.weight(link, place)
            number //= factor
        return found

    def _want(self, block: SharedLoops) -> bool:
        """All of a visit has to end before anything else: whether some of it has not."""
        if block not in self.gated:
            return False
        streams = self.gated[block]
        self.now.wanted[streams] = self.now.opened[streams]
        return bool((self.now.done[streams] < self.now.wanted[streams]).any())

    def _pass(self, link: int) -> None:
        count = len(self.plan.up) - len(self.passes)
        stream = count + next(at for at, one in enumerate(self.passes) if one.link == link)
        self.now.opened[stream] += 1
        self.now.wanted[stream] += 1
        self._advance(len(self.run.runs), 0, PASSES)
        if self.memories.homes:
            part = self.memories.home(link)[tuple(slice(0, size) for size in self.run.written_shape(link))]
            part[...] = passed_on(part, self.run.links[link])

    def _advance(self, nest: int, steps: int, ending: int) -> None:
        """Until one has done so many steps in all, and what is wanted has ended."""
        self.state[NEST] = nest
        self.now = self.now._replace(total=steps, ending=ending)
        moves, memory = self.memories.moves[nest], self.memories.memory
        if self.is_full:
            return
        while (ended := advance(self.plan, moves, memory, self.state, self.now, self.tally, EVENTS_AT_ONCE)) == RUNNING:
            self._tell()
            if self.is_full:
                return
        self._tell()
        if ended != ENDED:
            names = " > ".join(one.nest.name for one in self.run.operators)
            raise InvalidIR(f"{names}: nothing can move any more after {self.state[NOW]:,} cycles")

    def _tell(self) -> None:
        if self.progress is not None:
            self.progress(int(self.state[STEPS]), self.total)
