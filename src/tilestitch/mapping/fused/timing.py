"""The cycles that a sweep for latency asks for: of an operator by itself, and of a block of joined operators."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilestitch.hardware.tree import MachineTree
from tilestitch.mapping.fused.laid import Laid
from tilestitch.mapping.fused.latency import loads_on
from tilestitch.mapping.fused.outside import Outside, least_togo
from tilestitch.mapping.fused.timed_sweep import Timing
from tilestitch.mapping.tree.crossings import PortNumber, operands_on_tree
from tilestitch.mapping.tree.labels import NEVER
from tilestitch.mapping.tree.loads import Loads, added
from tilestitch.mapping.tree.problem import Passing
from tilestitch.mapping.tree.timed_pace import Crossed, Tracked, first_row, tracked

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


def units_loads(tree: MachineTree, one: Laid) -> Loads:
    """What the results of one iteration do to ports."""
    placed = one.tables.placed
    if len(placed.nest.reads) not in one.operands:
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
    kept: Sequence[PortNumber],
    *,
    is_block: bool,
    is_all: bool,
    outside: Outside | None = None,
) -> tuple[Timing, _Whole]:
    """The arrays of a sweep, and the pace that it begins with. `left` is how often each tile is there.

    Of an operator by itself cuts outside of shared loops take nothing of the time inside them; of a block all are. What
    they take at least outside of loops over windows is said by `outside`.
    """
    numbered = [one for own in cuts for one in own]
    found = tracked([*(_crossed(one.loads) for one in numbered), _crossed(start)], ())
    stops, first, last, busy, *late = found.ports
    busy = (*kept, *(one for one in busy if one not in kept))
    ports: Tracked[PortNumber] = Tracked((stops, first, last, busy, *late), found.waits)
    columns = ports.columns
    rows, loads = _rows(ports, numbered, len(left))
    beyond = None if outside is None else outside.cycles
    least = _least_busy(ports, cuts, left, shape, beyond, only_inside=False)
    inside = _least_busy(ports, cuts, left, shape, None, only_inside=True) if not is_block else np.zeros_like(least)
    timing = Timing(columns, rows, loads, left, least, inside, len(kept), is_all, is_block)
    load = np.zeros(columns.end, np.int64)
    for column, cycles in ports.row(start.kinds, start.operand, start.ways).items():
        load[column] = cycles[0]
    return timing, first_row(columns, load)


def _crossed(loads: Loads) -> Crossed[PortNumber]:
    inwards, outwards, stops = (
        frozenset(port for port in way if way[port].any()) for way in (loads.inwards, loads.outwards, loads.stops)
    )
    return Crossed(inwards, outwards, stops, loads.operand, loads.may_go_through)


def _rows(ports: Tracked[PortNumber], cuts: Sequence[TimedCut], points: int) -> tuple[_Whole, _Whole]:
    """By column and cut which row, or -1; and the rows."""
    found = np.full((ports.columns.end, len(cuts)), -1, np.int64)
    loads: list[_Whole] = []
    for number, cut in enumerate(cuts):
        for column, cycles in ports.row(cut.loads.kinds, cut.loads.operand, cut.loads.ways).items():
            if cycles.any():
                found[column, number] = len(loads)
                loads.append(cycles)
    return found, np.stack(loads) if loads else np.empty((0, points), np.int64)


def _least_busy(
    ports: Tracked[PortNumber],
    cuts: Sequence[Sequence[TimedCut]],
    left: _Whole,
    shape: tuple[int, ...],
    beyond: Sequence[Sequence[_Whole]] | None,
    *,
    only_inside: bool,
) -> _Whole:
    """By busy column: of every cut and the later ones of its operand the least cycles in all from each point on."""
    numbered = sum(len(own) for own in cuts)
    found = np.zeros((len(ports.ports[3]), numbered, 2, len(left)), np.int64)
    nothing = np.zeros(len(left), np.int64)
    for column, port in enumerate(ports.ports[3]):
        at = 0
        for operand, own in enumerate(cuts):
            if not own:
                continue
            most = beyond[column][operand] if beyond is not None and column < len(beyond) else None
            counted = [added(one.loads.both) if one.is_inside or not only_inside else {} for one in own]
            if any(port in loads for loads in counted):
                costs = [
                    np.where(one.cost_fj >= NEVER, NEVER if one.is_inside or not only_inside else 0, 0)
                    + loads.get(port, nothing) * left
                    for one, loads in zip(own, counted, strict=True)
                ]
                found[column, at : at + len(own)] = least_togo([one.cut for one in own], costs, shape, most)
            at += len(own)
    return found
