"""What a search for latency asks beside energies: cycles of every crossing, and the least that are still to come."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.errors import TooLarge
from tilestitch.mapping.tree.crossings import OperandOnTree, Part, PortNumber, Tiles, operands_on_tree
from tilestitch.mapping.tree.labels import NEVER
from tilestitch.mapping.tree.pace import Pace
from tilestitch.mapping.tree.problem import cuts_by_operand, least_from, problem_of
from tilestitch.mapping.tree.tables import FEMTO, Cut, Tables
from tilestitch.mapping.tree.timed_labels import TimedProblem

MOST_CYCLES = 2.0**53


@dataclass(frozen=True, slots=True)
class _TimedCut:
    """One cut with what its crossing takes once, at every point of the lattice."""

    cut: Cut
    hides: bool
    wait: NDArray[np.int64]  # cycles of its busiest port
    served: Mapping[PortNumber, NDArray[np.int64]]  # of every port that it occupies

    def least(self, cycles: NDArray[np.int64]) -> NDArray[np.int64]:
        """These cycles where the tile fits, NEVER where it does not: [partial, point]."""
        return np.where(self.cut.cost_fj >= NEVER, NEVER, cycles)


def timed_problem(tables: Tables) -> TimedProblem:
    """The arrays of a search for latency. Raises `TooLarge` where cycles would not stay exact."""
    tiles, shape = tables.lattice.tiles(), tables.lattice.shape
    left = tables.placed.total_steps // tiles.prod(axis=1)
    on_tree = operands_on_tree(tables.placed)
    operands = [[_timed(on_tree[cut.operand], cut, tiles) for cut in cuts] for cuts in cuts_by_operand(tables)]
    numbered = [cut for cuts in operands for cut in cuts]
    worst = sum(float((cut.wait.astype(float) * left).max()) for cut in numbered) + float(tables.placed.total_steps)
    if worst > MOST_CYCLES:
        raise TooLarge(f"{tables.placed.nest.name}: latencies above 9e15 cycles are not compared; use smaller loops")
    start = _start(on_tree[-1], tables)
    ports = _shared_ports(numbered, start)
    rows = np.full((len(ports), len(numbered)), -1, np.int64)
    loads: list[NDArray[np.int64]] = []
    for number, cut in enumerate(numbered):
        for at, port in enumerate(ports):
            if port in cut.served:
                rows[at, number] = len(loads)
                loads.append(cut.served[port])
    nothing = np.zeros(len(tiles), np.int64)
    return TimedProblem(
        base=problem_of(tables),
        wait=np.stack([cut.wait for cut in numbered]),
        hides=np.array([cut.hides for cut in numbered], np.bool_),
        rows=rows,
        loads=np.stack(loads) if loads else np.empty((0, len(tiles)), np.int64),
        left=left,
        least_wait=_least(operands, [cut.wait for cut in numbered], shape),
        least_work=_least(operands, [cut.wait if cut.hides else cut.wait * left for cut in numbered], shape),
        least_busy=np.stack(
            [_least(operands, [cut.served.get(port, nothing) * left for cut in numbered], shape) for port in ports]
        )
        if ports
        else np.empty((0, len(numbered), 2, len(tiles)), np.int64),
        alone=start.alone,
        turn=start.turn,
        busy=np.array([start.busy.get(port, 0) for port in ports], np.int64),
        fixed_fj=float(fixed_fj(tables)),
    )


def fixed_fj(tables: Tables) -> int:
    """What every mapping costs, in whole femtojoules: results at the units, and arithmetic."""
    return tables.fixed_fj + round(tables.placed.tree.mac_pj * tables.placed.nest.macs * FEMTO)


def _timed(operand: OperandOnTree, cut: Cut, tiles: Tiles) -> _TimedCut:
    """A cut with the cycles of its crossing; what a row of windows begins with stops the units."""
    nothing = np.zeros(len(tiles), np.int64)
    if cut.crossing is None:
        return _TimedCut(cut, False, nothing, {})
    served = operand.served(cut.crossing, tiles, cut.part)
    wait = np.max(np.stack([nothing, *served.values()]), axis=0)
    return _TimedCut(cut, cut.part is not Part.FIRST and operand.is_hidden(cut.crossing), wait, served)


def _start(result: OperandOnTree, tables: Tables) -> Pace:
    """One iteration of the units, with its results."""
    one = np.ones((1, len(tables.placed.steps)), np.int64)
    served = {port: int(cycles[0]) for port, cycles in result.served(0, one).items()}
    return Pace().with_crossing(served, hidden=True)


def _shared_ports(cuts: Sequence[_TimedCut], start: Pace) -> list[PortNumber]:
    """The ports whose cycles add up beside the units' work: of several crossings, not all of which stop the units.

    What stops the units is in their time already, and what has a port for itself takes a turn of its own cycles.
    """
    users: dict[PortNumber, list[bool]] = {port: [True] for port in start.busy}
    for cut in cuts:
        for port in cut.served:
            users.setdefault(port, []).append(cut.hides)
    return sorted(port for port, hides in users.items() if len(hides) > 1 and any(hides))


def _least(
    operands: Sequence[Sequence[_TimedCut]], cycles: Sequence[NDArray[np.int64]], shape: tuple[int, ...]
) -> NDArray[np.int64]:
    """The least of these cycles that each cut and the later ones of its operand take from each point on."""
    found: list[NDArray[np.int64]] = []
    first = 0
    for cuts in operands:
        costs = [one.least(cycles[first + at]) for at, one in enumerate(cuts)]
        found.append(least_from([one.cut for one in cuts], costs, shape))
        first += len(cuts)
    return np.concatenate(found)
