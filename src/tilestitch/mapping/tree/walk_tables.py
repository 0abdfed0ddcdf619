"""The tables of the checker's walk in time, and of windows that slide, even storage and orders of loops.

Tiles, rooms and prices are those of `checker_tables`; here cuts of rows of windows, places of even memories and the
cycles of ports come to them.
"""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.errors import TooLarge
from tilestitch.mapping.tree.checker_tables import CheckerTables, checker_tables, order_reaches
from tilestitch.mapping.tree.crossings import OperandOnTree, Part, PortCycles, PortNumber, operands_on_tree
from tilestitch.mapping.tree.loads import Loads, loads_of
from tilestitch.mapping.tree.outside_in import NEVER
from tilestitch.mapping.tree.pace import ELSE, FOLLOWED, INPUTS, LEADS, TRAILS
from tilestitch.mapping.tree.placed import PlacedNest, Slide
from tilestitch.mapping.tree.tables import Sums, femtojoules

MOST_WAYS = 4096  # to slide windows
_MOST_CYCLES = 2.0**53
# kinds of cycles: the units stop; before all steps, after all; of ports; of two inputs, the units stop for it or those
# before; of these and the results, what it moves; of the inputs, what it and those before it bring before all steps,
# and what follows when the units next stop for it
STOPPING, BEFORE, AFTER, OCCUPIED, STOPPED = 0, 1, 2, 3, 4
BRINGS = STOPPED + INPUTS
BEGINS = BRINGS + FOLLOWED
TRAILING = BEGINS + INPUTS
KINDS = TRAILING + INPUTS

_Whole = NDArray[np.int64]


class WalkCuts(NamedTuple):
    """The cuts of all operands at every tile, then the place of every even memory as an operand with one cut."""

    price: np.ndarray  # by cut and tile, in femtojoules
    possible: np.ndarray  # by cut, whether partial sums arrive, and tile
    partial: np.ndarray  # by cut and tile: whether partial sums leave
    room: np.ndarray  # by cut, whether partial sums arrive, and tile
    shared: np.ndarray  # by cut: which of the shared memories it lies in, or -1
    limit: np.ndarray  # by shared memory: its room
    first: np.ndarray  # by operand: its first cut; one more at the end
    write: int
    up: np.ndarray  # by prime of a loop and tile: the tile that is so much larger, or -1
    loop: np.ndarray  # by prime: its loop
    row: np.ndarray  # by cut: the one loop that comes before it, where it ends a row of windows, or -1
    place: np.ndarray  # by cut: the operand whose only cut is the place of its memory, or -1
    waits: np.ndarray  # by cut and operand: whether it comes behind this place, of its memory or of one inside
    moves: np.ndarray  # by operand and loop: whether the loop moves it
    allowed: np.ndarray  # by tile: whether an order of loops comes there
    left: np.ndarray  # by tile: how many there are
    single: np.ndarray  # by kind, cut and tile: the most cycles of a port that no other cut uses
    sums: np.ndarray  # by sum, cut and tile: cycles of a port, of a kind that adds up
    kind: np.ndarray  # by sum: which
    uses: np.ndarray  # by sum and cut: whether it adds anything
    begin: np.ndarray  # what is known of the time of one iteration with its results, as `table_walk` has it
    from_units: int  # whether partial sums come from there
    joins: np.ndarray  # by sum, if it trails: the sums of that port, of stops and of each input, that it joins, or -1
    input: np.ndarray  # by cut: the input for which the units stop there, or -1
    leads: np.ndarray  # by cut: the input of which something may trail that stop, or -1
    result: np.ndarray  # by cut and tile: of results RESULT or THROUGH, else ELSE, as a pace has it


@dataclass(frozen=True, slots=True)
class WalkTables:
    """The tables of one placement; of the operands that move anything, then of the places."""

    checked: CheckerTables
    cuts: WalkCuts
    kinds: tuple[tuple[int, int, Part], ...]  # by cut: operand in the nest, crossing, and what part of it crosses
    places: tuple[int, ...]  # the memories that store evenly what several operands pass on


@dataclass(frozen=True, slots=True)
class _Row:
    """One cut of an operand as the walk has it."""

    operand: OperandOnTree
    crossing: int  # as many as it has memories for the outermost
    part: Part
    source: int  # its cut in the plain tables
    row: int  # the one loop before it, or -1


def with_windows(placed: PlacedNest) -> list[PlacedNest]:
    """Every way to let windows of a placement slide: at each crossing that keeps overlaps along a loop, or not."""
    keeps = any(memory.has_sliding_window for memory in placed.tree.memories)
    if not keeps and not any(network.forwarding for axis in placed.tree.axes for network in axis.networks):
        return [placed]
    ways: list[list[Slide | None]] = []
    for operand in operands_on_tree(placed):
        for crossing in range(len(operand.memories)):
            if operand.array.element_bits == 0 or not operand.is_sliding(crossing):
                continue
            pairs = [terms for terms in operand.array.axes if len(terms) == 2]
            named = [loop for terms in operand.array.axes for loop, _ in terms]
            loops = [
                loop
                for terms in pairs
                for loop, _ in terms
                if placed.steps[loop] > 1
                and named.count(loop) == 1
                and all(placed.nest.extents[one] > 1 for one, _ in terms)
            ]
            ways.append([None, *(Slide(operand.number, crossing, loop) for loop in sorted(loops))])
    if prod(map(len, ways)) > MOST_WAYS:
        raise TooLarge(f"{placed.nest.name}: more than {MOST_WAYS:,} ways to slide windows are not checked")
    return [replace(placed, slides=tuple(one for one in chosen if one is not None)) for chosen in product(*ways)]


def walk_tables(placed: PlacedNest, sums: Sums) -> WalkTables:
    """The tables of a placement whose windows are chosen."""
    checked = checker_tables(placed, sums)
    plain, tiles = checked.cuts, checked.lattice.tiles
    own: list[list[_Row]] = []
    for number, operand in enumerate(checked.operands):
        own.append(_rows_of(operand, int(plain.first[number])))
    rows = [row for one in own for row in one]
    prices = [_price(row, plain.price[row.source], tiles) for row in rows]
    windows = np.array([row.part is Part.FIRST for row in rows], np.bool_)
    source = np.array([row.source for row in rows], np.int64)
    possible = np.where(windows[:, None, None], True, plain.possible[source])
    possible &= (np.stack(prices) < NEVER)[:, None]
    if placed.order:
        possible &= order_reaches(placed, tiles)
    places = _even_memories(placed, checked.operands)
    moving = [operand.array.indexed_by for operand in checked.operands]
    loops = range(len(placed.steps))
    none, count = len(places), len(tiles)
    loads = [_loads(row, tiles) for row in rows]
    served = [_kinds(one) for one in loads]
    left = placed.total_steps // tiles.prod(axis=1)
    most = sum(float((cycles.astype(float) * left).max()) for one in served for cycles in one[OCCUPIED].values())
    if most + placed.total_steps > _MOST_CYCLES:
        raise TooLarge(f"{placed.nest.name}: latencies above 9e15 cycles are not compared")
    result, ones = operands_on_tree(placed)[-1], np.ones((1, len(placed.steps)), np.int64)
    start = _kinds(loads_of(result, 0, ones))
    leads = [one.operand if one.line == LEADS else -1 for one in loads]
    adding = _adding([*served, start])
    joins, led = _joins(adding), _with(np.array(leads, np.int64), none, -1)
    single, added_up = _split(served, adding, none, count)
    chains = [len(one) for one in own] + [1] * none
    places_of_rows = _with(np.array([_place_of(row, places, len(own)) for row in rows], np.int64), none, -1)
    cuts = WalkCuts(
        price=_with(np.stack(prices), none, 0),
        possible=_with(possible, none, True),
        partial=_with(np.where(windows[:, None], False, plain.partial[source]), none, False),
        room=_with(np.where(windows[:, None, None], 0, plain.room[source]), none, 0),
        shared=_with(np.where(windows, -1, plain.shared[source]), none, -1),
        limit=plain.limit,
        first=np.cumsum([0, *chains], dtype=np.int64),
        write=plain.write,
        up=checked.lattice.up,
        loop=np.array(_prime_loops(checked.lattice.divisors), np.int64),
        row=_with(np.array([row.row for row in rows], np.int64), none, -1),
        place=places_of_rows,
        waits=_waits(checked.operands, places, places_of_rows),
        moves=np.array([[loop in one for loop in loops] for one in [*moving, *([()] * none)]], np.bool_),
        allowed=order_reaches(placed, tiles),
        left=left,
        single=single,
        sums=added_up,
        kind=np.array([kind for kind, _ in adding], np.int64),
        uses=np.any(added_up, axis=2) | _may_join(joins, adding, led),
        begin=_begin(start, adding),
        from_units=plain.from_units,
        joins=joins,
        input=_with(np.array([_stopped_for(one) for one in loads], np.int64), none, -1),
        leads=led,
        result=_with(np.stack([_leaving(one, count) for one in loads]), none, 0),
    )
    kinds = tuple((row.operand.number, row.crossing, row.part) for row in rows)
    return WalkTables(checked, cuts, kinds, places)


def _rows_of(operand: OperandOnTree, first: int) -> list[_Row]:
    """The cuts of an operand from the innermost; where windows slide the end of their row is one more."""
    found: list[_Row] = []
    crossings = range(1 if operand.is_write else 0, len(operand.memories) + 1)
    for source, crossing in enumerate(crossings, first):
        loop = operand.slide(crossing) if crossing < len(operand.memories) else None
        if loop is None:
            found.append(_Row(operand, crossing, Part.ALL, source, -1))
            continue
        found.append(_Row(operand, crossing, Part.NEW, source, -1))
        found.append(_Row(operand, crossing, Part.FIRST, source, loop))
    return found


def _price(row: _Row, plain: _Whole, tiles: _Whole) -> _Whole:
    if row.part is Part.ALL:
        return plain
    price = np.minimum(femtojoules(row.operand, row.crossing, tiles, row.part), NEVER)
    if row.part is Part.FIRST:
        return price
    return np.where((plain < NEVER) & row.operand.can_begin(row.crossing, tiles), price, NEVER)


def _loads(row: _Row, tiles: _Whole) -> Loads:
    """What a cut does to ports; nothing where it is that of the outermost memory."""
    if row.crossing >= len(row.operand.memories):
        return Loads({}, {}, {})
    return loads_of(row.operand, row.crossing, tiles, row.part)


def _stopped_for(loads: Loads) -> int:
    """The input for which the units stop at a cut, or -1."""
    return loads.operand if loads.stops and loads.operand < INPUTS else -1


def _leaving(loads: Loads, tiles: int) -> _Whole:
    """By tile how results leave a memory at a cut, as `WalkCuts` has it."""
    return np.full(tiles, ELSE, np.int64) if loads.ways is None else loads.ways


def _kinds(loads: Loads) -> list[PortCycles]:
    """In the order of the kinds; ports where nothing moves are left out."""
    stops, inwards, outwards, both, *own = (
        {port: cycles for port, cycles in way.items() if cycles.any()}
        for way in (loads.stops, loads.inwards, loads.outwards, loads.both, *loads.own)
    )
    until = [stops if loads.operand <= number else {} for number in range(INPUTS)]
    begun = [inwards if loads.operand <= number else {} for number in range(INPUTS)]
    trails = [both if loads.line == TRAILS and loads.operand == number else {} for number in range(INPUTS)]
    return [stops, inwards, outwards, both, *until, *own, *begun, *trails]


def _adding(served: list[list[PortCycles]]) -> list[tuple[int, PortNumber]]:
    """Kinds and ports that several cuts use, or the units' results and a cut; of stops, and of what trails, all."""
    used = Counter((kind, port) for one in served for kind, way in enumerate(one) for port in way)
    found = {one for one, count in used.items() if one[0] == STOPPING or count > 1}
    for kind, port in used:
        if kind >= TRAILING:
            behind = range(STOPPED + kind - TRAILING, STOPPED + INPUTS)
            found |= {(kind, port), (STOPPING, port), *((one, port) for one in behind)}
    return sorted(found)


def _joins(adding: list[tuple[int, PortNumber]]) -> _Whole:
    """`WalkCuts.joins`."""
    found = np.full((len(adding), 1 + INPUTS), -1, np.int64)
    rows = {one: row for row, one in enumerate(adding)}
    for row, (kind, port) in enumerate(adding):
        number = kind - TRAILING
        if number >= 0:
            found[row, 0] = rows[STOPPING, port]
            found[row, 1 + number :] = [rows[STOPPED + one, port] for one in range(number, INPUTS)]
    return found


def _may_join(joins: _Whole, adding: list[tuple[int, PortNumber]], leads: _Whole) -> NDArray[np.bool_]:
    """By sum and cut whether something trails there and joins."""
    found = np.zeros((len(adding), len(leads)), np.bool_)
    for row, (kind, _) in enumerate(adding):
        if kind >= TRAILING:
            found[[row, *joins[row][joins[row] >= 0]]] |= leads == kind - TRAILING
    return found


def _split(
    served: list[list[PortCycles]], adding: list[tuple[int, PortNumber]], places: int, tiles: int
) -> tuple[_Whole, _Whole]:
    """What adds up, and the most of what does not, with empty rows for places."""
    single = np.zeros((KINDS, len(served) + places, tiles), np.int64)
    sums = np.zeros((len(adding), len(served) + places, tiles), np.int64)
    rows = {one: row for row, one in enumerate(adding)}
    for number, one in enumerate(served):
        for kind, way in enumerate(one):
            for port, cycles in way.items():
                row = rows.get((kind, port))
                if row is not None:
                    sums[row, number] = cycles
                else:
                    single[kind, number] = np.maximum(single[kind, number], cycles)
    return single, sums


def _begin(start: list[PortCycles], adding: list[tuple[int, PortNumber]]) -> _Whole:
    """A pace of one iteration, as `table_walk` has it."""
    most = [max((int(cycles[0]) for cycles in way.values()), default=0) for way in start]
    sums = [int(start[kind][port][0]) if port in start[kind] else 0 for kind, port in adding]
    inputs = [0] * (INPUTS + 1)  # whether the units stop for each, and what is apart
    ends = most[BEFORE], most[AFTER]
    return np.array(
        [max(1, most[OCCUPIED]), 1, 1, 0, *ends, *[1] * FOLLOWED, *most[STOPPED:TRAILING], *inputs, *sums], np.int64
    )


def _with(table: NDArray, more: int, value: int) -> NDArray:
    """A table with rows for places."""
    return np.concatenate([table, np.full((more, *table.shape[1:]), value, table.dtype)])


def _even_memories(placed: PlacedNest, operands: tuple[OperandOnTree, ...]) -> tuple[int, ...]:
    """The memories with one place for several operands, those aside of which they are the outermost."""
    return tuple(
        number
        for number, memory in enumerate(placed.tree.memories)
        if memory.has_even_storage and sum(memory in one.memories[:-1] for one in operands) > 1
    )


def _place_of(row: _Row, places: tuple[int, ...], operands: int) -> int:
    if row.part is Part.FIRST or not 0 < row.crossing < len(row.operand.memories):
        return -1
    memory = row.operand.placed.tree.memories.index(row.operand.memories[row.crossing - 1])
    return operands + places.index(memory) if memory in places else -1


def _waits(operands: tuple[OperandOnTree, ...], places: tuple[int, ...], place_of: _Whole) -> NDArray[np.bool_]:
    """Cuts wait for the place of their memory, and places for those of memories inside with an operand in common."""
    found = np.zeros((len(place_of), len(operands) + len(places)), np.bool_)
    here = np.flatnonzero(place_of >= 0)
    found[here, place_of[here]] = True
    for operand in operands:
        memories = operand.placed.tree.memories
        held = [places.index(at) for at in map(memories.index, operand.memories[:-1]) if at in places]
        for number, place in enumerate(held):
            found[len(place_of) - len(places) + place, [len(operands) + one for one in held[:number]]] = True
    return found


def _prime_loops(divisors: tuple[tuple[int, ...], ...]) -> list[int]:
    """The loop of every prime, in the order of `Cuts.down`."""
    return [
        loop
        for loop, sizes in enumerate(divisors)
        for one in sizes
        if one > 1 and not any(one % other == 0 for other in sizes if 1 < other < one)
    ]
