"""Who moves tiles: one stream for each crossing and direction, with its ports and what it waits for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import NamedTuple

import numpy as np

from tilestitch.hardware.tree import Flow, Network, Port
from tilestitch.sim.tree.amounts import Border, Crossed, Kind, LoopEnds, crossed
from tilestitch.sim.tree.run import TreeRun
from tilestitch.sim.tree.tiles import Digit, Digits

NONE = -1


@dataclass(frozen=True, slots=True)
class PortUse:
    """A port by name, and the cycles for which a tile of each kind occupies it."""

    port: str
    cycles: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Access:
    """What a tile of each kind costs in a memory: whole accesses and parts of one, in all of its instances."""

    level: int
    memory: str
    flow: Flow
    accesses: tuple[Fraction, ...]
    pj: float  # of a whole access


@dataclass(frozen=True, slots=True)
class Stream:
    """Tiles of one operand that cross one border in one direction, one after another."""

    operand: int
    crossing: int  # 0 is that between the innermost memory and the units
    is_up: bool  # results on their way out
    place: int  # loops inside a tile
    tile: int  # iterations of the units that a tile is of
    count: int  # tiles in all
    buffers: int  # tiles for which there is room behind the crossing
    even: int  # iterations after which the memory behind changes all its tiles together; 0 where each has its own
    crossed: Crossed  # how much crosses, by kinds of tiles
    uses: tuple[PortUse, ...]
    accesses: tuple[Access, ...]
    delivered_pj: tuple[float, ...]  # of a tile of each kind, in networks
    first_free: bool  # the first of each sum is zero and not read

    def carried(self) -> tuple[int, ...]:
        """Tiles of each kind that are moved: but for those of sums that begin, where these are not read."""
        return tuple(one.count - (one.first if self.first_free else 0) for one in self.crossed.kinds)


class Plan(NamedTuple):
    """The streams as the arrays that the clock takes; `NONE` where there is no such stream."""

    up: np.ndarray
    tile: np.ndarray  # steps of the units that a tile is of
    tiles: np.ndarray  # how many there are
    buffers: np.ndarray
    due: np.ndarray  # steps from the first of a tile until it must have ended
    urgent: np.ndarray  # whether the last of these in a tile further out has to leave with that, before its own time
    source: np.ndarray  # that fills what is read, or of results the inner ones that make it
    ratio: np.ndarray  # of its tile to that of the stream, or of the stream's to it
    room: np.ndarray  # that empties the memory outside, where nothing fills it
    room_ratio: np.ndarray
    room_buffers: np.ndarray
    gate: np.ndarray  # of results on their way in: those on their way out
    even: np.ndarray
    units: np.ndarray  # whether it ends or begins at the units
    first: np.ndarray  # whether sums that begin are not read
    place: np.ndarray  # in the loops of all nests
    outer: np.ndarray  # where those of its nest end
    operand: np.ndarray
    factors: np.ndarray  # of the loops of all nests
    reduces: np.ndarray  # whether each loop leaves the result alone
    port: np.ndarray  # of each stream the ports that it uses, in any order
    work: np.ndarray  # and the cycles of a tile there, in a row for each kind; 0 behind the last
    kind: np.ndarray  # the first row of each stream
    ends: np.ndarray  # of each loop with an end whether what a stream moves depends on it
    end_of: np.ndarray  # of each loop of the nest which of those it is part of, or `NONE`
    end_steps: np.ndarray  # and how many steps of that an iteration of it is
    end_kinds: np.ndarray  # rows from the first, by stream, loop with an end, and its step
    end_until: np.ndarray  # and the next step that has other rows
    nest: np.ndarray  # of each stream whose steps it goes by
    turn: np.ndarray  # of each nest the steps of a turn, how many it has, and the first of them
    turns: np.ndarray
    first_turn: np.ndarray
    begins: np.ndarray  # of each turn the step at which it begins, of all steps of the units
    periods: np.ndarray  # of each nest the steps of its tiles, each once and the fewest first; behind them 0


@dataclass(frozen=True)
class Streams:
    """All streams of a run, in the order of operands, crossings, and then inwards before outwards."""

    run: TreeRun
    every: tuple[Stream, ...]
    ports: tuple[str, ...]
    digits: Digits = field(repr=False)

    def find(self, operand: int, crossing: int, *, is_up: bool) -> int:
        """The number of a stream, or `NONE`."""
        wanted = (operand, crossing, is_up)
        return next((at for at, one in enumerate(self.every) if (one.operand, one.crossing, one.is_up) == wanted), NONE)


def streams_of(run: TreeRun) -> Streams:
    """The streams of a run."""
    digits = Digits(run)
    every = tuple(
        stream
        for number in range(len(run.operands))
        if run.moves(number)
        for crossing in range(len(run.chains[number]))
        for stream in _Crossing(run, digits, number, crossing).streams()
    )
    ports = tuple(dict.fromkeys(use.port for stream in every for use in stream.uses))
    return Streams(run, every, ports, digits)


@dataclass(frozen=True, slots=True)
class _Crossing:
    """One border of one operand."""

    run: TreeRun
    digits: Digits
    number: int
    crossing: int

    @property
    def place(self) -> int:
        return self.run.places[self.number][self.crossing]

    @property
    def is_write(self) -> bool:
        return self.number == self.run.written

    def streams(self) -> Iterator[Stream]:
        """Inputs on their way in; results on their way out, and before that in if they are partial sums."""
        is_partial = self.is_write and (self.is_partial or (self.crossing == 0 and not self.run.tree.has_latches))
        if not self.is_write or is_partial:
            yield self._stream(is_up=False)
        if self.is_write:
            yield self._stream(is_up=True)

    def _stream(self, *, is_up: bool) -> Stream:
        run, tile = self.run, self.run.steps_inside(self.place)
        even = run.even_place(self.number, self.crossing)
        found = crossed(run, self.digits, self.number, self.place, self._border())
        uses: dict[str, list[int]] = {}
        accesses: list[Access] = []
        for level, flow in self._ends(is_up=is_up):
            memory = run.chains[self.number][level]
            port = memory.port(run.homes[self.number], flow)
            assert port is not None, "a placed nest has a port for each direction"
            amounts = [one.outer if level == self.crossing else one.inner for one in found.kinds]
            cycles = [port_cycles(port, amount.most * self.bits) for amount in amounts]
            name = f"{memory.name}.{port.name}"
            uses[name] = [one + more for one, more in zip(uses.get(name, [0] * len(cycles)), cycles, strict=True)]
            granules = [
                sum(ceil(elements * self.bits / port.granule_bits) * count for elements, count in amount.memories)
                for amount in amounts
            ]
            share = Fraction(port.granule_bits, port.width_bits)
            price = memory.read_pj if flow.is_read else memory.write_pj
            accesses.append(Access(level, memory.name, flow, tuple(one * share for one in granules), price))
        for name, more in self._carried(found.kinds):
            uses[name] = [one + cycles for one, cycles in zip(uses.get(name, [0] * len(more)), more, strict=True)]
        return Stream(
            self.number,
            self.crossing,
            is_up,
            self.place,
            tile,
            run.iterations // tile,
            run.buffers(self.number, self.crossing),
            0 if even is None else run.steps_inside(even),
            found,
            tuple(PortUse(name, tuple(cycles)) for name, cycles in uses.items() if any(cycles)),
            tuple(accesses),
            tuple(one.inner.total * self.bits * self._pj_per_bit for one in found.kinds),
            self.is_write
            and not is_up
            and not run.tree.reads_first_sums
            and (self.crossing > 0 or run.tree.has_latches),
        )

    @property
    def is_partial(self) -> bool:
        """Whether sums are added to outside: in steps, over a fan-out further out, or over one that adds up nothing."""
        run = self.run
        moved = run.operands[self.number].indexed_by
        if any(loop not in moved and factor > 1 for loop, factor in run.loops[self.place :]):
            return True
        outside = {axis for names in run.fan_outs[self.number][self.crossing + 1 :] for axis in names}
        outside |= {axis for axis, network in self._networks() if not network.reduction}
        return any(axis in outside and loop not in moved and factor > 1 for axis, loop, factor in run.spread)

    @property
    def bits(self) -> int:
        """Of an element that crosses."""
        is_complete = self.is_write and not self.is_partial
        return self.run.final_bits if is_complete else self.run.operands[self.number].element_bits

    def _networks(self) -> list[tuple[str, Network]]:
        """What carries the operand along the axes of the fan-out, where the machine says it."""
        home, names = self.run.homes[self.number], self.run.fan_outs[self.number][self.crossing]
        found = [(axis.name, axis.network(home)) for axis in self.run.tree.axes if axis.name in names]
        return [(name, network) for name, network in found if network is not None]

    def _border(self) -> Border:
        """All digits as they lie at the border: which of those that are spread take together what they have in common.

        Neighbours that need the same tile get it together; tiles that overlap count one by one, but where a network
        shares them or passes them on.
        """
        run, number = self.run, self.number
        inside = self.digits.inside(number, self.crossing - 1)
        along, spread = run.fan_outs[number][self.crossing], [one for one in self.digits.every if one.place is None]
        networks = dict(self._networks())
        parts: dict[str, list[Digit]] = {"together": [], "alike": [], "apart": []}
        for one in spread:
            if one.axis not in along:
                continue
            network = networks.get(one.axis)
            part = "alike"
            if network is not None and not self.is_write and (network.shares_windows or network.forwarding):
                part = "together"
            elif network is not None and not (network.reduction if self.is_write else network.multicast):
                part = "apart"
            parts[part].append(one)
        return Border(
            inside,
            tuple(parts["together"]),
            tuple(parts["alike"]),
            tuple(parts["apart"]),
            tuple(one for one in spread if one.axis not in along and one not in inside),
            tuple(one for one in self.digits.every if one.place is not None and one.place >= self.place),
        )

    def _ends(self, *, is_up: bool) -> Iterator[tuple[int, Flow]]:
        """Of both ends of the border, the outer one first: level and direction."""
        yield self.crossing, Flow.COLLECT if is_up else Flow.FEED
        if self.crossing > 0:
            yield self.crossing - 1, Flow.DRAIN if is_up else Flow.FILL

    def _carried(self, kinds: Sequence[Kind]) -> Iterator[tuple[str, list[int]]]:
        """Cycles of what lies between both ends: networks of a stated rate, and DMA engines."""
        for axis, network in self._networks():
            rate = network.bits_per_cycle
            if rate is not None:
                name = f"network of {axis} {network.operands}"
                yield name, [ceil(one.outer.most * self.bits / rate) for one in kinds]
        if self.crossing == 0:
            return
        chain = self.run.chains[self.number]
        ends = chain[self.crossing - 1].name, chain[self.crossing].name
        for engine in self.run.tree.engines:
            if (engine.inner, engine.outer) == ends:
                rate = engine.count * engine.bits_per_cycle
                bits = [one.inner.most * self.bits for one in kinds]
                yield f"DMA {engine.name}", [engine.setup_cycles + ceil(Fraction(one) / rate) for one in bits]

    @property
    def _pj_per_bit(self) -> float:
        """What networks take for a bit at each place that it reaches or leaves."""
        return sum(network.pj_per_bit for _, network in self._networks())


def bits_across(digits: Digits, number: int, crossing: int) -> int:
    """Bits of an element of an operand where it crosses into or out of a memory, on its inner side."""
    return _Crossing(digits.run, digits, number, crossing).bits


def port_cycles(port: Port, bits: int) -> int:
    """Cycles of a port for so many bits: an access moves whole granules, up to its width."""
    accesses = ceil(Fraction(ceil(bits / port.granule_bits) * port.granule_bits, port.width_bits))
    return ceil(accesses * Fraction(port.width_bits) / port.bits_per_cycle)


def plan_of(streams: Streams) -> Plan:
    """The arrays of the clock."""
    every, number_of = streams.every, streams.find
    count = len(every)
    table: Mapping[str, np.ndarray] = {name: np.full(count, NONE, np.int64) for name in ("source", "room", "gate")} | {
        name: np.ones(count, np.int64) for name in ("ratio", "room_ratio", "room_buffers")
    }
    for at, one in enumerate(every):
        source = number_of(one.operand, one.crossing + (-1 if one.is_up else 1), is_up=one.is_up)
        table["source"][at] = source
        if source != NONE:
            large, small = (one, every[source]) if one.is_up else (every[source], one)
            table["ratio"][at] = large.tile // small.tile
        outside = number_of(one.operand, one.crossing + 1, is_up=True)
        filled = number_of(one.operand, one.crossing + 1, is_up=False) != NONE
        if one.operand == streams.run.written and outside != NONE and not filled:
            table["room"][at] = outside
            table["room_ratio"][at] = every[outside].tile // one.tile
            table["room_buffers"][at] = every[outside].buffers
        if one.operand == streams.run.written and not one.is_up:
            table["gate"][at] = number_of(one.operand, one.crossing, is_up=True)
    most = max([1, *(len(one.uses) for one in every)])
    rows = np.cumsum([0, *(len(one.crossed.kinds) for one in every)])
    port, work = np.zeros((count, most), np.int64), np.zeros((rows[-1], most), np.int64)
    for at, one in enumerate(every):
        for place, use in enumerate(one.uses):
            port[at, place], work[rows[at] : rows[at + 1], place] = streams.ports.index(use.port), use.cycles
    moved = streams.run.operands[streams.run.written].indexed_by
    reduces = [loop not in moved for loop, _ in streams.run.loops]
    return Plan(
        np.array([one.is_up for one in every], np.bool_),
        np.array([one.tile for one in every], np.int64),
        np.array([one.count for one in every], np.int64),
        np.array([one.buffers for one in every], np.int64),
        np.array([_due(streams, one) for one in every], np.int64),
        np.array([_is_urgent(streams, one) for one in every], np.bool_),
        table["source"],
        table["ratio"],
        table["room"],
        table["room_ratio"],
        table["room_buffers"],
        table["gate"],
        np.array([one.even for one in every], np.int64),
        np.array([one.crossing == 0 for one in every], np.bool_),
        np.array([one.first_free for one in every], np.bool_),
        np.array([one.place for one in every], np.int64),
        np.full(count, len(streams.run.loops), np.int64),
        np.array([one.operand for one in every], np.int64),
        np.array([factor for _, factor in streams.run.loops] or [1], np.int64),
        np.array(reduces or [False], np.bool_),
        port,
        work,
        rows[:-1],
        *_ends_of(streams),
        nest=np.zeros(count, np.int64),
        turn=np.array([streams.run.iterations]),
        turns=np.ones(1, np.int64),
        first_turn=np.zeros(1, np.int64),
        begins=np.zeros(1, np.int64),
        periods=np.unique([1, *(one.tile for one in every)]).astype(np.int64)[None],
    )


def _due(streams: Streams, stream: Stream) -> int:
    """Steps from the first that a tile is of until it must have ended.

    What is read must be there by then. Results must have left when others come to their place: the units' at the step
    that makes them, partial sums when the units need them, and those of a memory inside as they have to leave it.
    """
    if not stream.is_up:
        return 0
    found, crossing = stream.buffers * stream.tile, stream.crossing
    while crossing > 1 and all(
        streams.find(stream.operand, one, is_up=False) == NONE for one in (crossing, crossing - 1)
    ):
        crossing -= 1
        inner = streams.every[streams.find(stream.operand, crossing, is_up=True)]
        found += inner.buffers * inner.tile
    return found


def _is_urgent(streams: Streams, stream: Stream) -> bool:
    """Whether results further out have to leave before the last of these that they are made of has to for itself.

    So it is where sums that come back wait for a place of one tile, and two of these have room inside.
    """
    outer = [one for one in streams.every if (one.operand, one.is_up) == (stream.operand, True)]
    return stream.is_up and any(
        _due(streams, one) < one.tile - stream.tile + _due(streams, stream)
        for one in outer
        if one.crossing > stream.crossing
    )


def _ends_of(streams: Streams) -> tuple[np.ndarray, ...]:
    """The tables of loops with an end: `ends`, `end_of`, `end_steps`, `end_kinds`, `end_until`."""
    run, every = streams.run, streams.every
    with_end = sorted({one.loop for stream in every for one in stream.crossed.ends})
    steps, done = np.ones(max(1, len(run.loops)), np.int64), [1] * len(run.nest.loops)
    end_of = np.full(len(steps), NONE, np.int64)
    for at, (loop, factor) in enumerate(run.loops):
        if run.window_at(at) is None:
            steps[at], done[loop] = done[loop], done[loop] * factor
            end_of[at] = with_end.index(loop) if loop in with_end else NONE
    kinds = np.zeros((len(every), len(with_end), max([1, *(done[loop] for loop in with_end)])), np.int64)
    depends = np.zeros(kinds.shape[:2], np.bool_)
    for number, stream in enumerate(every):
        for one in stream.crossed.ends:
            at = with_end.index(one.loop)
            kinds[number, at, : len(one.kinds)] = one.kinds
            depends[number, at] = _changes(stream, one)
    kinds = np.where(depends[:, :, None], kinds, 0)
    until = np.full_like(kinds, kinds.shape[2])
    for step in range(kinds.shape[2] - 2, -1, -1):
        is_other = kinds[:, :, step] != kinds[:, :, step + 1]
        until[:, :, step] = np.where(is_other, step + 1, until[:, :, step + 1])
    return depends, end_of, steps, kinds, until


def _changes(stream: Stream, ends: LoopEnds) -> bool:
    """Whether the cycles of some port depend on how much is left of a loop."""
    numbers = np.unique(ends.kinds)
    stride = int(numbers[1]) if len(numbers) > 1 else 1
    cycles = np.array([use.cycles for use in stream.uses], np.int64).reshape(len(stream.uses), -1, len(numbers), stride)
    return bool((cycles != cycles[:, :, :1]).any())
