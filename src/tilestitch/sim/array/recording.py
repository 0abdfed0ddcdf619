"""Some cycles of an array as they went, word by word: what a page plays back.

A recording has what came over the networks, what elements executed and which sums they handed on in every cycle, and
the registers before the first of them. From these follow the registers in every cycle, as `registers_after` tells.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tilestitch.base.errors import InvalidIR
from tilestitch.base.shown import Brief
from tilestitch.base.units import ceil_div
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.loop_nest import LoopMapping, LoopNest
from tilestitch.sim.array.events import EVENT_COLUMNS, FOUND, WINDOW_NUMBERS
from tilestitch.sim.array.geometry import Geometry
from tilestitch.sim.array.log import (
    L_BUFFERS,
    L_HOP,
    L_HOPS,
    L_LANES,
    L_MASK,
    L_RESULTS,
    L_ROW,
    LANES,
    LOG_TAKEN,
)
from tilestitch.sim.array.plan import ELEMENTS, LATENCY, NETWORKS, Plan
from tilestitch.sim.array.runner import ArrayTally, empty_log, memory_of, prepare, run_until
from tilestitch.sim.array.tally import COUNTS

MOST_EVENTS = 2**14  # of a recording; more are left out


@dataclass(frozen=True, repr=False)
class Recording(Brief):
    """The cycles from `begin` until `end`, which is not among them; `log` and `words` begin `before` cycles earlier."""

    geometry: Geometry
    plan: Plan
    begin: int
    end: int
    before: int
    log: np.ndarray  # cycle, column as `log` has them
    words: np.ndarray  # cycle, lane, word
    registers: np.ndarray  # before the first cycle
    events: np.ndarray  # rows by `events`


def record(
    nest: LoopNest,
    machine: ArrayMachine,
    mapping: LoopMapping,
    operands: Sequence[np.ndarray],
    window: tuple[int, int],
) -> Recording:
    """Simulate a mapping until the end of a window, and keep what happens in it; the window is within the run.

    Raises what `run_mapping` does.
    """
    begin, end = window
    assert 0 <= begin < end, "a window has cycles"
    prepared = prepare(nest, machine, mapping)
    plan, memory = prepared.plan, memory_of(nest, operands)
    last = end
    while True:
        log = empty_log(plan, memory.dtype, (begin, last))
        found = np.zeros(WINDOW_NUMBERS, np.int64)
        found[:2] = window
        passes = np.zeros(len(prepared.programs.macs), np.int64)
        events = np.zeros((MOST_EVENTS, EVENT_COLUMNS), np.int64)
        tally = ArrayTally(np.zeros(COUNTS, np.int64), passes, events, found)
        reached = run_until(last, prepared, memory.copy(), True, True, tally, log, None)
        if log.window[LOG_TAKEN] == 1:
            break
        if reached < last:
            raise InvalidIR(f"nest {nest.name!r}: after cycle {begin:,} nothing happens in the array any more")
        last = begin + 2 * (
            last - begin
        )  # nothing happens in the window: the registers are those with which it goes on
    rows = len(log.cycles) - (last - end)
    return Recording(
        geometry=prepared.geometry,
        plan=plan,
        begin=begin,
        end=end,
        before=rows - (end - begin),
        log=log.cycles[:rows],
        words=log.words[:rows],
        registers=log.registers,
        events=events[: min(int(found[FOUND]), MOST_EVENTS)],
    )


def registers_after(recording: Recording) -> Iterator[np.ndarray]:
    """The registers at the end of every cycle of a recording, one after another in one array.

    Words arrive, an instruction is executed, partial sums go on, and results leave, in this order.
    """
    plan, registers = recording.plan, recording.registers.copy()
    elements, lag = int(plan.numbers[ELEMENTS]), int(plan.numbers[LATENCY]) + 1
    for row in range(recording.before, len(recording.log)):
        if row >= lag:
            _arrive(plan, registers, recording.log[row - lag], recording.words[row - lag])
        now = recording.log[row]
        if now[L_ROW] >= 0:
            products = products_of(recording, registers, row)
            works = slice(None) if now[L_MASK] < 0 else plan.mask[now[L_MASK]]
            first = now[L_BUFFERS + len(plan.operands) - 1] + plan.registers[now[L_ROW], -1] * elements
            registers[first : first + elements][works] += products[works]
        for hop in range(now[L_HOP], now[L_HOPS]):
            source = now[L_RESULTS] + plan.sum_source[hop]
            registers[now[L_RESULTS] + plan.sum_target[hop]] += registers[source]
            registers[source] = 0
        sent, first, _ = now[L_LANES + 3 * NETWORKS : L_LANES + 3 * LANES]
        registers[now[L_RESULTS] + plan.target[plan.aim[first : first + sent]]] = 0
        yield registers


def products_of(recording: Recording, registers: np.ndarray, row: int) -> np.ndarray:
    """What every element multiplies in a cycle, whether it takes part or not."""
    plan, now = recording.plan, recording.log[row]
    elements = int(plan.numbers[ELEMENTS])
    found = np.ones(elements, registers.dtype)
    for operand in range(len(plan.operands) - 1):
        first = now[L_BUFFERS + operand] + plan.registers[now[L_ROW], operand] * elements
        found *= registers[first : first + elements]
    return found


def _arrive(plan: Plan, registers: np.ndarray, sent: np.ndarray, words: np.ndarray) -> None:
    for network in range(NETWORKS):
        count, first, place = sent[L_LANES + 3 * network : L_LANES + 3 * network + 3]
        for one in range(count):
            word = first + one
            registers[place + plan.target[plan.aim[word] : plan.aim[word + 1]]] = words[network, one]


def pass_starts(geometry: Geometry, numbers: Sequence[int]) -> list[tuple[int, ...]]:
    """Of passes by their numbers the first iteration of every loop; numbers rise."""
    found: list[tuple[int, ...]] = []
    mapping, extents = geometry.mapping, geometry.nest.extents
    done = 0
    asked = iter(numbers)
    number = next(asked, None)
    for tile in range(prod(mapping.dram)):
        if number is None:
            break
        begins = _places(tile, mapping.dram, mapping.dram_order)
        begins = [at * size for at, size in zip(begins, mapping.scratchpad_tile, strict=True)]
        passes = [
            ceil_div(min(extent - begin, whole), one)
            for extent, begin, whole, one in zip(
                extents, begins, mapping.scratchpad_tile, mapping.pass_tile, strict=True
            )
        ]
        while number is not None and number < done + prod(passes):
            turn = _places(number - done, passes, mapping.spm_order)
            steps = zip(begins, turn, mapping.pass_tile, strict=True)
            found.append(tuple(begin + at * size for begin, at, size in steps))
            number = next(asked, None)
        done += prod(passes)
    return found


def _places(number: int, counts: Sequence[int], order: Sequence[int]) -> list[int]:
    """The counts of loops at a number, the last loop of the order fastest."""
    found = [0] * len(counts)
    for loop in reversed(order):
        found[loop] = number % counts[loop]
        number //= counts[loop]
    return found
