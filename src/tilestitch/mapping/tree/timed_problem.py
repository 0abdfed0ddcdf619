"""What a search for latency asks beside energies: cycles of every crossing, and the least that are still to come."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.errors import TooLarge
from tilestitch.mapping.tree.crossings import OperandOnTree, PortNumber, Tiles, operands_on_tree
from tilestitch.mapping.tree.labels import NEVER
from tilestitch.mapping.tree.loads import Loads, loads_of
from tilestitch.mapping.tree.pace import LEADS
from tilestitch.mapping.tree.problem import cuts_by_operand, least_from, problem_of
from tilestitch.mapping.tree.tables import FEMTO, Cut, Tables
from tilestitch.mapping.tree.timed_labels import TimedProblem
from tilestitch.mapping.tree.timed_pace import SUMS, Tracked, Using, first_row, in_line, tracked

MOST_CYCLES = 2.0**53


_Whole: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _TimedCut:
    """One cut with what its crossing takes once, at every point of the lattice."""

    cut: Cut
    loads: Loads


def timed_problem(tables: Tables) -> TimedProblem:
    """The arrays of a search for latency. Raises `TooLarge` where cycles would not stay exact."""
    tiles, shape = tables.lattice.tiles(), tables.lattice.shape
    left = tables.placed.total_steps // tiles.prod(axis=1)
    on_tree = operands_on_tree(tables.placed)
    operands = [[_timed(on_tree[cut.operand], cut, tiles) for cut in cuts] for cuts in cuts_by_operand(tables)]
    numbered = [cut for cuts in operands for cut in cuts]
    worst = sum(float((one.astype(float) * left).max()) for cut in numbered for one in cut.loads.both.values())
    if worst + float(tables.placed.total_steps) > MOST_CYCLES:
        raise TooLarge(f"{tables.placed.nest.name}: latencies above 9e15 cycles are not compared; use smaller loops")
    start = loads_of(on_tree[-1], 0, np.ones((1, tiles.shape[1]), np.int64))
    users = in_line([*(_using(cut.loads) for cut in numbered), _using(start)])
    ports = tracked(users, _outermost(on_tree[-1], tiles))
    rows, loads = _rows(ports, numbered, len(tiles))
    return TimedProblem(
        base=problem_of(tables),
        columns=ports.columns,
        rows=rows,
        loads=loads,
        uses=np.stack([ports.used_by(one) for one in users[:-1]], axis=1),
        stops=np.array([bool(cut.loads.stops) or cut.loads.line == LEADS for cut in numbered], np.bool_),
        crosses=np.array([cut.cut.crossing is not None for cut in numbered], np.bool_),
        left=left,
        least=_least_sums(ports, operands, left, shape),
        start=_start(ports, start),
        fixed_fj=float(fixed_fj(tables)),
    )


def fixed_fj(tables: Tables) -> int:
    """What every mapping costs, in whole femtojoules: results at the units, and arithmetic."""
    return tables.fixed_fj + round(tables.placed.tree.mac_pj * tables.placed.nest.macs * FEMTO)


def _timed(operand: OperandOnTree, cut: Cut, tiles: Tiles) -> _TimedCut:
    if cut.crossing is None:
        return _TimedCut(cut, Loads({}, {}, {}))
    return _TimedCut(cut, loads_of(operand, cut.crossing, tiles, cut.part))


def _using(loads: Loads) -> Using[PortNumber]:
    inwards, outwards, stops = (
        frozenset(port for port in way if way[port].any()) for way in (loads.inwards, loads.outwards, loads.stops)
    )
    return Using(inwards, outwards, stops, loads.operand, loads.may_go_through, loads.delays, loads.line)


def _outermost(result: OperandOnTree, tiles: Tiles) -> list[PortNumber]:
    """The ports by which results arrive in their outermost memory."""
    last, memories = len(result.memories) - 1, result.placed.tree.memories
    return [port for port in result.ways(last, tiles[:1])[1] if port[0] == memories.index(result.memories[last])]


def _rows(ports: Tracked[PortNumber], cuts: Sequence[_TimedCut], points: int) -> tuple[_Whole, _Whole]:
    """By column and cut which row, or -1; and the rows, those that are alike once."""
    found = np.full((ports.columns.end, len(cuts)), -1, np.int64)
    rows: dict[bytes, int] = {}
    loads: list[_Whole] = []
    for number, cut in enumerate(cuts):
        for column, some in ports.row(cut.loads.kinds, cut.loads.operand, cut.loads.ways, cut.loads.line).items():
            cycles = np.broadcast_to(some, points)
            if not cycles.any():
                continue
            at = rows.setdefault(cycles.tobytes(), len(loads))
            if at == len(loads):
                loads.append(cycles)
            found[column, number] = at
    return found, np.stack(loads) if loads else np.empty((0, points), np.int64)


def _least_sums(
    ports: Tracked[PortNumber], operands: Sequence[Sequence[_TimedCut]], left: _Whole, shape: tuple[int, ...]
) -> _Whole:
    """Of every sum in bounds the least that each cut and the later ones of its operand add from each point on.

    Most operands add nothing to most sums: what that comes to is worked out once, as it only says what fits.
    """
    until = ports.columns.until
    columns = [one for one in ports.each if one[0] < until]
    found = np.empty((len(columns), sum(map(len, operands)), 2, len(left)), np.int64)
    end = 0
    for cuts in operands:
        own, end = slice(end, end + len(cuts)), end + len(cuts)
        plain, fits = [one.cut for one in cuts], np.stack([one.cut.cost_fj < NEVER for one in cuts])
        kinds = [(one.loads.sure_stops, *one.loads.kinds[1:]) for one in cuts]
        found[:, own] = least_from(plain, np.where(fits, 0, NEVER), shape)
        for column, kind, port in columns:
            if any(port in one[kind] for one in kinds):
                cycles = np.zeros((len(cuts), 1, len(left)), np.int64)
                for at, one in enumerate(kinds):
                    if port in one[kind]:
                        cycles[at, 0] = one[kind][port] * (left if kind in (0, 3) else 1)
                found[column - SUMS, own] = least_from(plain, np.where(fits, cycles, NEVER), shape)
    return found


def _start(ports: Tracked[PortNumber], loads: Loads) -> _Whole:
    """The row of one iteration of the units, with its results."""
    load = np.zeros(ports.columns.end, np.int64)
    for column, cycles in ports.row(loads.kinds, loads.operand).items():
        load[column] = cycles[0]
    return first_row(ports.columns, load)
