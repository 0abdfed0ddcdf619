"""Below what no latency of a choice of what is spread comes, by the compiled functions that are made for energies.

Cycles of a port are counted as if every access of its whole width cost so many picojoules, and each memory were there
once. So they are not rounded up for each transfer: a bound, no latency.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.errors import TooLarge
from tilestitch.hardware.tree import Flow
from tilestitch.mapping.tree import labels
from tilestitch.mapping.tree.choices import Choices
from tilestitch.mapping.tree.crossings import OperandOnTree
from tilestitch.mapping.tree.quick_arrays import READ_FLOWS, RESULT_FLOWS
from tilestitch.mapping.tree.spread_task import SpreadTask, bounds_fj, units_fj
from tilestitch.mapping.tree.tables import FEMTO

_ROUNDED = 0.05  # cycles: what is rounded to whole thousandths at each cut, all together


def least_cycles(task: SpreadTask, choices: Choices, *, loose: bool) -> NDArray[np.float64]:
    """Below what no mapping of each choice comes: each port, and the units' steps with all for which it stops them."""
    steps = choices.steps.prod(axis=1).astype(np.float64)
    found = steps
    for port in _ports(task):
        for stopping in (False, True):
            cycles = _cycles(task, choices, _occupying(task, port, stopping=stopping), loose=loose)
            found = np.maximum(found, cycles + steps if stopping else cycles)
    return found


def port_cycles(task: SpreadTask) -> list[NDArray[np.float64]]:
    """Of each port the cycles of an access of its whole width: of every operand, level, side and direction."""
    return [_occupying(task, port, stopping=False) for port in _ports(task)]


def _cycles(task: SpreadTask, choices: Choices, access: NDArray[np.float64], *, loose: bool) -> NDArray[np.float64]:
    """What so many cycles of an access add up to at least; nothing where no mapping fits."""
    if not access.any():
        return np.zeros(len(choices))
    nothing = np.zeros_like(task.bounds.network_pj)
    bounds = task.bounds._replace(access_pj=access, network_pj=nothing, mac_pj=0.0, counts_copies=False)
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
