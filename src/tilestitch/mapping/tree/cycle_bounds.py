"""Below what no latency of a choice of what is spread comes, by the compiled functions that are made for energies.

Cycles of a port are counted as if every access of its whole width cost so many picojoules, and each memory were there
once. So they are not rounded up for each transfer: a bound, no latency. A network of a stated bandwidth counts as a
port of one bit in the place of that of the memory around, a DMA engine as one in that of the memory inside.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.errors import TooLarge
from tilestitch.hardware.tree import Flow
from tilestitch.mapping.tree import labels
from tilestitch.mapping.tree.choices import Choices
from tilestitch.mapping.tree.crossings import OperandOnTree, PortNumber
from tilestitch.mapping.tree.quick_arrays import READ_FLOWS, RESULT_FLOWS
from tilestitch.mapping.tree.spread_task import SpreadTask, bounds_fj, units_fj
from tilestitch.mapping.tree.tables import FEMTO

_ROUNDED = 0.05  # cycles: what is rounded to whole thousandths at each cut, all together


def least_cycles(task: SpreadTask, choices: Choices, *, loose: bool) -> NDArray[np.float64]:
    """Below what no mapping of each choice comes: each port, and the units' steps with all for which it stops them."""
    steps = choices.steps.prod(axis=1).astype(np.float64)
    found = steps
    for stopping in (False, True):
        for used in _uses(task, stopping=stopping):
            cycles = _cycles(task, choices, used, loose=loose)
            found = np.maximum(found, cycles + steps if stopping else cycles)
    return found


def port_cycles(task: SpreadTask) -> list[NDArray[np.float64]]:
    """Of each port the cycles of an access of its whole width: of every operand, level, side and direction."""
    return [_occupying(task, port, stopping=False) for port in _ports(task)]


@dataclass(frozen=True, slots=True)
class _Use:
    """The cycles of an access of the whole width at one port, and how wide all ports are then."""

    access: NDArray[np.float64]  # [operand, level, side, direction]
    ports: NDArray[np.int64]


def _uses(task: SpreadTask, *, stopping: bool) -> Iterator[_Use]:
    """The uses of ports of memories, networks and engines; with `stopping` only by crossings that stop the units."""
    for port in _ports(task):
        yield _Use(_occupying(task, port, stopping=stopping), task.bounds.ports)
    carriers = sorted({key for number in range(len(task.operands)) for key, _, _ in _carriers(task, number)})
    for wanted in carriers:
        access, ports = np.zeros_like(task.bounds.access_pj), task.bounds.ports.copy()
        for number, operand in enumerate(task.operands):
            for key, (crossing, side), bits in _carriers(task, number):
                if key == wanted and (not stopping or operand.surely_stops(crossing)):
                    level = crossing - side
                    access[number, level, side] = 1 / bits
                    ports[number, level, side] = np.where(ports[number, level, side] > 0, 1, 0)
        yield _Use(access, ports)


def _carriers(task: SpreadTask, number: int) -> Iterator[tuple[PortNumber, tuple[int, int], float]]:
    """Networks and engines of an operand: the number of each, the crossing and the end of it whose bits it carries,
    those of the memory around (0) or of the one inside (1), and how many bits in a cycle.
    """
    operand = task.operands[number]
    tree = operand.placed.tree
    for crossing, memory in enumerate(operand.memories):
        for axis, network in operand.networks(crossing):
            if network.bits_per_cycle is not None:
                key = -1 - tree.axes.index(axis), axis.networks.index(network)
                yield key, (crossing, 0), float(network.bits_per_cycle)
        for at, engine in enumerate(tree.engines):
            if crossing > 0 and (engine.inner, engine.outer) == (operand.memories[crossing - 1].name, memory.name):
                yield (len(tree.memories) + at, 0), (crossing, 1), float(engine.count * engine.bits_per_cycle)


def _cycles(task: SpreadTask, choices: Choices, used: _Use, *, loose: bool) -> NDArray[np.float64]:
    """What so many cycles of an access add up to at least; nothing where no mapping fits."""
    access = used.access
    if not access.any():
        return np.zeros(len(choices))
    nothing = np.zeros_like(task.bounds.network_pj)
    bounds = task.bounds._replace(
        access_pj=access, ports=used.ports, network_pj=nothing, mac_pj=0.0, counts_copies=False
    )
    timed = replace(task, bounds=bounds)
    try:
        thousandths = units_fj(timed, choices) + bounds_fj(timed, choices, loose=loose)
    except TooLarge:  # of which only the search says how much it can count
        return np.zeros(len(choices))
    return np.where(thousandths < labels.NEVER, np.maximum(thousandths / FEMTO - _ROUNDED, 0), 0.0)


def _flows(operand: OperandOnTree) -> tuple[tuple[Flow, ...], ...]:
    return RESULT_FLOWS if operand.is_write else READ_FLOWS


def _port(operand: OperandOnTree, level: int, flow: Flow) -> tuple[tuple[int, int], float] | None:
    """The port of a direction, and the cycles of an access of its whole width."""
    memory = operand.memories[level]
    port = memory.port(operand.placed.homes[operand.number], flow)
    if port is None:
        return None
    key = operand.placed.tree.memories.index(memory), memory.ports.index(port)
    return key, float(port.width_bits / port.bits_per_cycle)


def _ports(task: SpreadTask) -> list[tuple[int, int]]:
    found = {
        port[0]
        for operand in task.operands
        for level in range(len(operand.memories))
        for flows in _flows(operand)
        for flow in flows
        if (port := _port(operand, level, flow)) is not None
    }
    return sorted(found)


def _occupying(task: SpreadTask, wanted: tuple[int, int], *, stopping: bool) -> NDArray[np.float64]:
    """Of every operand, level, side and direction the cycles of an access at one port.

    With `stopping` only of crossings that stop the units.
    """
    access = np.zeros_like(task.bounds.access_pj)
    for number, operand in enumerate(task.operands):
        for level in range(len(operand.memories)):
            for side, flows in enumerate(_flows(operand)):
                crossing = level + side
                if stopping and (crossing == len(operand.memories) or not operand.surely_stops(crossing)):
                    continue
                for at, flow in enumerate(flows):
                    port = _port(operand, level, flow)
                    if port is not None and port[0] == wanted:
                        access[number, level, side, at] = port[1]
    return access
