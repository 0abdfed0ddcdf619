"""The cycles that a sweep for latency asks for: of an operator by itself, and of a block of joined operators."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilestitch.hardware.tree import MachineTree
from tilestitch.mapping.fused.laid import Laid
from tilestitch.mapping.fused.latency import loads_on
from tilestitch.mapping.fused.outside import Outside, least_togo
from tilestitch.mapping.fused.timed_sweep import Timing
from tilestitch.mapping.tree.crossings import PortCycles, PortNumber, operands_on_tree
from tilestitch.mapping.tree.labels import NEVER
from tilestitch.mapping.tree.loads import Loads, added
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.problem import Passing
from tilestitch.mapping.tree.timed_pace import Tracked, Using, first_row, in_line, tracked

_Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TimedCut:
    """A cut, what its crossing does to ports at every point, and where it may be."""

    cut: Passing
    cost_fj: _Whole  # [partial, point]; NEVER where it may not be
    loads: Loads
    is_inside: bool  # operators never share loops inside of it


def own_loads(tree: MachineTree, one: Laid) -> list[list[TimedCut]]:
    """The cuts of an operator, operand by operand."""
    placed, tiles = one.tables.placed, one.tables.lattice.tiles()
    on_tree = operands_on_tree(placed)
    found: list[list[TimedCut]] = []
    for cuts, outer in zip(one.cuts, one.outer, strict=True):
        own: list[TimedCut] = []
        for at, cut in enumerate(cuts):
            assert cut.crossing is not None
            loads = loads_on(tree, on_tree[cut.operand], cut.crossing, tiles, cut.part)
            own.append(TimedCut(cut, cut.cost_fj, loads, at < outer))
        found.append(own)
    return found


def units_loads(tree: MachineTree, placed: PlacedNest) -> Loads:
    """What the results of one iteration do to ports."""
    if placed.nest.write.element_bits == 0:
        return Loads({}, {}, {})
    ones = np.ones((1, len(placed.steps)), np.int64)
    return loads_on(tree, operands_on_tree(placed)[-1], 0, ones)


def ports_outside(cuts: Sequence[Sequence[TimedCut]]) -> set[PortNumber]:
    """The ports that crossings use which may lie outside of shared loops."""
    return {port for own in cuts for one in own if not one.is_inside for port in one.loads.both}


def timing_of(
    cuts: Sequence[Sequence[TimedCut]],
    start: Loads,
    left: _Whole,
    shape: tuple[int, ...],
    kept: Mapping[PortNumber, int],
    *,
    is_block: bool,
    is_all: bool,
    outside: Outside | None = None,
) -> tuple[Timing, _Whole]:
    """The arrays of a sweep, and the pace that it begins with. `left` is how often each tile is there.

    Of an operator by itself cuts outside of shared loops take nothing of the time inside them; of a block all are. What
    they take at least outside of loops over windows is said by `outside`. Of the ports that are `kept` to the end it is
    known for how long other operators keep them busy at least.
    """
    numbered = [one for own in cuts for one in own]
    users = in_line([*(_using(one.loads) for one in numbered), _using(start)])
    found = tracked(users, ())
    stops, first, last, busy, *late = found.ports
    busy = (*kept, *(one for one in busy if one not in kept))
    ports: Tracked[PortNumber] = Tracked((stops, first, last, busy, *late), found.waits)
    columns = ports.columns
    rows, loads = _rows(ports, numbered, len(left))
    beyond = None if outside is None else outside.cycles
    least = _least(busy, cuts, left, shape, _all_of, beyond)
    inside, stopped = np.zeros_like(least), np.zeros((len(stops), *least.shape[1:]), np.int64)
    if not is_block:
        inside = _least(busy, cuts, left, shape, _of_inside)
    if outside is None:
        stopped = _least(stops, cuts, left, shape, lambda one: one.loads.sure_stops)
    beside = np.array(list(kept.values()), np.int64)
    uses = (
        np.stack([ports.used_by(one) for one in users[:-1]], axis=1)
        if numbered
        else np.zeros((columns.end, 0), np.bool_)
    )
    timing = Timing(columns, rows, loads, uses, left, least, inside, stopped, len(kept), is_all, is_block, beside)
    load = np.zeros(columns.end, np.int64)
    for column, cycles in ports.row(start.kinds, start.operand, start.ways).items():
        load[column] = cycles[0]
    return timing, first_row(columns, load)


def _using(loads: Loads) -> Using[PortNumber]:
    inwards, outwards, stops = (
        frozenset(port for port in way if way[port].any()) for way in (loads.inwards, loads.outwards, loads.stops)
    )
    return Using(inwards, outwards, stops, loads.operand, loads.may_go_through, loads.delays, loads.line)


def _rows(ports: Tracked[PortNumber], cuts: Sequence[TimedCut], points: int) -> tuple[_Whole, _Whole]:
    """By column and cut which row, or -1; and the rows."""
    found = np.full((ports.columns.end, len(cuts)), -1, np.int64)
    loads: list[_Whole] = []
    for number, cut in enumerate(cuts):
        for column, cycles in ports.row(cut.loads.kinds, cut.loads.operand, cut.loads.ways, cut.loads.line).items():
            if cycles.any():
                found[column, number] = len(loads)
                loads.append(np.broadcast_to(cycles, points))
    return found, np.stack(loads) if loads else np.empty((0, points), np.int64)


def _all_of(one: TimedCut) -> PortCycles:
    return added(one.loads.both)


def _of_inside(one: TimedCut) -> PortCycles | None:
    """None where loops may be shared inside of a cut: it may lie outside of visits, and need not fit in one."""
    return added(one.loads.both) if one.is_inside else None


def _least(
    ports: Sequence[PortNumber],
    cuts: Sequence[Sequence[TimedCut]],
    left: _Whole,
    shape: tuple[int, ...],
    cycles_of: Callable[[TimedCut], PortCycles | None],
    beyond: Sequence[Sequence[_Whole]] | None = None,
) -> _Whole:
    """By port: of every cut and the later ones of its operand the least cycles in all from each point on."""
    numbered = sum(len(own) for own in cuts)
    found = np.zeros((len(ports), numbered, 2, len(left)), np.int64)
    nothing = np.zeros(len(left), np.int64)
    at = 0
    for operand, own in enumerate(cuts):
        counted = [cycles_of(one) for one in own]
        for column, port in enumerate(ports):
            most = beyond[column][operand] if beyond is not None and column < len(beyond) else None
            if any(loads is not None and port in loads for loads in counted):
                costs = [
                    np.where(one.cost_fj >= NEVER, 0 if loads is None else NEVER, 0)
                    + (loads or {}).get(port, nothing) * left
                    for one, loads in zip(own, counted, strict=True)
                ]
                found[column, at : at + len(own)] = least_togo([one.cut for one in own], costs, shape, most)
        at += len(own)
    return found
