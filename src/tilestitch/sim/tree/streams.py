"""Who moves tiles: one stream for each crossing and direction, with its ports and what it waits for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, prod
from typing import NamedTuple

import numpy as np

from tilestitch.hardware.tree import Flow, Network, Port
from tilestitch.sim.tree.run import TreeRun
from tilestitch.sim.tree.tiles import Digit, Digits, held_elements, parts_of

NONE = -1


@dataclass(frozen=True, slots=True)
class PortUse:
    """A port by name, and the cycles for which a tile occupies it."""

    port: str
    cycles: int


@dataclass(frozen=True, slots=True)
class Access:
    """What one tile costs in a memory: whole accesses and parts of one, in all of its instances."""

    level: int
    memory: str
    flow: Flow
    accesses: Fraction
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
    uses: tuple[PortUse, ...]
    accesses: tuple[Access, ...]
    delivered_pj: float  # of a tile, in networks
    first_free: bool  # the first of each sum is zero and not read


class Plan(NamedTuple):
    """The streams as the arrays that the clock takes; `NONE` where there is no such stream."""

    up: np.ndarray
    tile: np.ndarray  # steps of the units that a tile is of
    tiles: np.ndarray  # how many there are
    buffers: np.ndarray
    source: np.ndarray  # that fills what is read, or of results the inner ones that make it
    ratio: np.ndarray  # of its tile to that of the stream, or of the stream's to it
    room: np.ndarray  # that empties the memory outside, where nothing fills it
    room_ratio: np.ndarray
    room_buffers: np.ndarray
    gate: np.ndarray  # of results on their way in: those on their way out
    even: np.ndarray
    units: np.ndarray  # whether it ends or begins at the units
    first: np.ndarray  # whether sums that begin are not read
    place: np.ndarray
    operand: np.ndarray
    factors: np.ndarray  # of the loops of the nest
    reduces: np.ndarray  # whether each loop leaves the result alone
    port: np.ndarray  # of each stream the ports that it uses, in any order
    work: np.ndarray  # and the cycles of a tile there; 0 behind the last


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
        cycles: dict[str, int] = {}
        accesses: list[Access] = []
        for level, flow, elements, copies in self._ends(is_up=is_up):
            memory = run.chains[self.number][level]
            port = memory.port(run.homes[self.number], flow)
            assert port is not None, "a placed nest has a port for each direction"
            name = f"{memory.name}.{port.name}"
            bits = elements * self.bits
            cycles[name] = cycles.get(name, 0) + port_cycles(port, bits)
            share = Fraction(port.granule_bits, port.width_bits)
            accesses.append(
                Access(
                    level,
                    memory.name,
                    flow,
                    ceil(bits / port.granule_bits) * share * copies,
                    memory.read_pj if flow.is_read else memory.write_pj,
                )
            )
        for name, more in self._carried():
            cycles[name] = cycles.get(name, 0) + more
        return Stream(
            self.number,
            self.crossing,
            is_up,
            self.place,
            tile,
            run.iterations // tile,
            run.buffers(self.number, self.crossing),
            0 if even is None else run.steps_inside(even),
            tuple(PortUse(name, count) for name, count in cycles.items() if count > 0),
            tuple(accesses),
            self._delivered_pj(),
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

    def _amounts(self) -> tuple[int, int]:
        """Elements of one tile inside, and those that leave or reach the memory outside for all that it serves.

        Neighbours that need the same tile get it together; tiles that overlap count one by one, but where a network
        shares them or passes them on.
        """
        run, number = self.run, self.number
        inner = self.digits.inside(number, self.crossing - 1)
        spread = [
            one for one in self.digits.every if one.place is None and one.axis in run.fan_outs[number][self.crossing]
        ]
        together: list[Digit] = []
        apart: list[Digit] = []
        for one in spread:
            network = next((network for name, network in self._networks() if name == one.axis), None)
            if network is None:
                continue
            if not self.is_write and (network.shares_windows or network.forwarding):
                together.append(one)
            elif not (network.reduction if self.is_write else network.multicast):
                apart.append(one)
        alike = [one for one in spread if one not in together and one not in apart]
        parts = parts_of(run, number, alike) * prod(one.factor for one in apart)
        return (
            held_elements(run, number, inner),
            held_elements(run, number, (*inner, *together)) * parts,
        )

    def _ends(self, *, is_up: bool) -> Iterator[tuple[int, Flow, int, int]]:
        """Of both ends of the border: level, direction, elements in one memory, and memories."""
        run, level = self.run, self.crossing
        inner, outer = self._amounts()
        yield level, Flow.COLLECT if is_up else Flow.FEED, outer, run.instances(self.number, level)
        if level > 0:
            yield level - 1, Flow.DRAIN if is_up else Flow.FILL, inner, run.instances(self.number, level - 1)

    def _carried(self) -> Iterator[tuple[str, int]]:
        """Cycles of what lies between both ends: networks of a stated rate, and DMA engines."""
        inner, outer = self._amounts()
        for axis, network in self._networks():
            if network.bits_per_cycle is not None:
                yield f"network of {axis} {network.operands}", ceil(outer * self.bits / network.bits_per_cycle)
        if self.crossing == 0:
            return
        chain = self.run.chains[self.number]
        ends = chain[self.crossing - 1].name, chain[self.crossing].name
        for engine in self.run.tree.engines:
            if (engine.inner, engine.outer) == ends:
                moving = ceil(Fraction(inner * self.bits) / (engine.count * engine.bits_per_cycle))
                yield f"DMA {engine.name}", engine.setup_cycles + moving

    def _delivered_pj(self) -> float:
        """What networks take for a tile at all places that it reaches or leaves."""
        inner, _ = self._amounts()
        per_bit = sum(network.pj_per_bit for _, network in self._networks())
        return inner * self.bits * per_bit * self.run.instances(self.number, self.crossing - 1)


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
    port, work = np.zeros((count, most), np.int64), np.zeros((count, most), np.int64)
    for at, one in enumerate(every):
        for place, use in enumerate(one.uses):
            port[at, place], work[at, place] = streams.ports.index(use.port), use.cycles
    moved = streams.run.operands[streams.run.written].indexed_by
    reduces = [loop not in moved for loop, _ in streams.run.loops]
    return Plan(
        np.array([one.is_up for one in every], np.bool_),
        np.array([one.tile for one in every], np.int64),
        np.array([one.count for one in every], np.int64),
        np.array([one.buffers for one in every], np.int64),
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
        np.array([one.operand for one in every], np.int64),
        np.array([factor for _, factor in streams.run.loops] or [1], np.int64),
        np.array(reduces or [False], np.bool_),
        port,
        work,
    )
