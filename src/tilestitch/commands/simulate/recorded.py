"""Recorded cycles of a layer as a page plays them back: a header, and columns of whole numbers."""

from dataclasses import dataclass

import numpy as np

from tilestitch.base.json_values import Json
from tilestitch.commands.simulate.layers import SimulatedLayer
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.choices import Values
from tilestitch.report.html.packing import packed
from tilestitch.sim.array.events import BEGIN, END, KIND, ONE, OTHER, WHAT
from tilestitch.sim.array.log import (
    L_BUFFERS,
    L_HOP,
    L_HOPS,
    L_LANES,
    L_MASK,
    L_PASS,
    L_RESULTS,
    L_ROW,
    LANES,
)
from tilestitch.sim.array.plan import BUFFER, ELEMENTS, LATENCY, NETWORK, REGISTERS
from tilestitch.sim.array.recording import Recording, pass_starts, record
from tilestitch.sim.array.simulated import CAUSE_NAMES, NETWORK_NAMES
from tilestitch.sim.array.tally import FIRST_LOAD, LAST_STORE
from tilestitch.sim.array.values import random_operands

MOST_CYCLES = 1024  # of a recording
ALL_CYCLES = 2**15  # of the recordings of a page
LEAST_CYCLES = 128
LATEST = 2**20  # the cycle after which nothing is recorded: until there the layer is simulated again
EVENT_COLUMNS = ("kind", "what", "begin", "end", "one", "other")
EVENT_NAMES = ("pass", "network", "partial sums", "results", "DMA", "wait")


@dataclass(frozen=True, slots=True)
class Window:
    """Cycles that are recorded, and what they show."""

    name: str
    begin: int
    end: int


def windows_of(layer: SimulatedLayer, layers: int) -> tuple[Window, ...]:
    """Where a layer begins to compute, and its middle; where that is all there is, all of it in one."""
    counts = layer.simulated.run.counts
    begin, end = int(counts[FIRST_LOAD]), layer.simulated.cycles - int(counts[LAST_STORE])
    length = max(LEAST_CYCLES, min(MOST_CYCLES, ALL_CYCLES // (2 * layers)))
    if end - begin <= 2 * length:
        return (Window("all passes", begin, end),)
    middle = min((begin + end) // 2, LATEST)
    return Window("first passes", begin, begin + length), Window("steady state", middle, middle + length)


@dataclass(frozen=True, slots=True)
class Recorded:
    """The recording of a window."""

    window: Window
    first_work: int | None  # the first cycle in which elements execute an instruction, if there is one
    text: str  # packed


def recorded_windows(layer: SimulatedLayer, layers: int) -> tuple[Recorded, ...]:
    """The recordings of one of so many layers; random integers move where nothing else was simulated."""
    nest, machine, values = layer.layer.nest, layer.simulated.machine, layer.simulated.values
    operands = random_operands(nest, Values.INTEGERS if values is Values.NONE else values)
    found = []
    for window in windows_of(layer, layers):
        one = record(nest, machine, layer.mapping, operands, (window.begin, window.end))
        at_work = np.flatnonzero(one.log[one.before :, L_ROW] >= 0)
        first = window.begin + int(at_work[0]) if len(at_work) else None
        found.append(Recorded(window, first, packed(_header(one, machine), _columns(one))))
    return tuple(found)


def _header(one: Recording, machine: ArrayMachine) -> dict[str, Json]:
    geometry, plan = one.geometry, one.plan
    used = _used(one)
    return {
        "begin": one.begin,
        "end": one.end,
        "before": one.before,
        "lag": int(plan.numbers[LATENCY]) + 1,
        "elements": int(plan.numbers[ELEMENTS]),
        "float": one.registers.dtype.kind == "f",
        "operands": [
            {
                "name": operand.name,
                "registers": int(plan.operands[number, REGISTERS]),
                "buffer": int(plan.operands[number, BUFFER]),
                "network": int(plan.operands[number, NETWORK]),
                "extents": list(operand.extents(geometry.own_sizes)),
                "axes": [[list(term) for term in axis] for axis in operand.axes],
            }
            for number, operand in enumerate(geometry.nest.operands)
        ],
        "networks": list(NETWORK_NAMES[machine.networks]),
        "loops": [loop.name for loop in geometry.nest.loops],
        "rf": list(geometry.mapping.rf),
        "spatial": list(geometry.mapping.spatial),
        "events": list(EVENT_NAMES),
        "causes": list(CAUSE_NAMES),
        "first_row": used.rows[0],
        "first_mask": used.masks[0],
        "first_hop": used.hops[0],
        "first_word": used.words[0],
    }


@dataclass(frozen=True, slots=True)
class _Used:
    """Which parts of the tables of a plan a recording names: the first, and the one after the last."""

    rows: tuple[int, int]
    masks: tuple[int, int]
    hops: tuple[int, int]
    words: tuple[int, int]


def _used(one: Recording) -> _Used:
    log = one.log
    words = [(0, 0)]
    for lane in range(LANES):
        count, first = log[:, L_LANES + 3 * lane], log[:, L_LANES + 3 * lane + 1]
        sent = count > 0
        if sent.any():
            words.append((int(first[sent].min()), int((first + count)[sent].max())))
    spans = words[1:] or words
    rows, masks = log[:, L_ROW], log[:, L_MASK]
    hops = log[:, L_HOPS] > log[:, L_HOP]
    return _Used(
        rows=_span(rows[rows >= 0]),
        masks=_span(masks[masks >= 0]),
        hops=(int(log[hops, L_HOP].min()), int(log[hops, L_HOPS].max())) if hops.any() else (0, 0),
        words=(min(span[0] for span in spans), max(span[1] for span in spans)),
    )


def _span(numbers: np.ndarray) -> tuple[int, int]:
    return (int(numbers.min()), int(numbers.max()) + 1) if len(numbers) else (0, 0)


def _columns(one: Recording) -> dict[str, np.ndarray]:
    """Cycles, values, tables of the plan as far as the cycles name them, passes and events."""
    log, plan, used = one.log, one.plan, _used(one)
    numbers = np.unique(log[log[:, L_PASS] >= 0, L_PASS])
    starts = pass_starts(one.geometry, numbers.tolist())
    found = {
        "pass": log[:, L_PASS],
        "row": log[:, L_ROW],
        "mask": log[:, L_MASK],
        "hop": np.where(log[:, L_HOPS] > log[:, L_HOP], log[:, L_HOP], used.hops[0]),
        "hops": log[:, L_HOPS] - log[:, L_HOP],
        "results": log[:, L_RESULTS],
    }
    sent = np.zeros_like(one.words, bool)
    for lane in range(LANES):
        count, first, place = (log[:, L_LANES + 3 * lane + column] for column in range(3))
        sent[:, lane] = np.arange(one.words.shape[2]) < count[:, None]
        found[f"count{lane}"] = count
        found[f"first{lane}"] = np.where(count > 0, first, used.words[0])
        found[f"place{lane}"] = np.where(count > 0, place, 0)
    for operand in range(len(plan.operands)):
        found[f"buffer{operand}"] = log[:, L_BUFFERS + operand]
    aim = plan.aim[used.words[0] : used.words[1] + 1]
    found |= {
        "words": _whole(one.words[sent]),
        "registers": _whole(one.registers),
        "instructions": plan.registers[slice(*used.rows)].ravel(),
        "works": plan.mask[slice(*used.masks)].ravel(),
        "sum_source": plan.sum_source[slice(*used.hops)],
        "sum_target": plan.sum_target[slice(*used.hops)],
        "aim": aim - aim[0],
        "target": plan.target[aim[0] : aim[-1]],
        "pass_number": numbers,
        "pass_start": np.array(starts, np.int64).ravel(),
    }
    for name, column in (
        ("kind", KIND),
        ("what", WHAT),
        ("begin", BEGIN),
        ("end", END),
        ("one", ONE),
        ("other", OTHER),
    ):
        found[f"event_{name}"] = one.events[:, column]
    return found


def _whole(values: np.ndarray) -> np.ndarray:
    """Integers as they are, floats as the integers of the same bits."""
    return (values.view(np.int32) if values.dtype.kind == "f" else values).astype(np.int64)
