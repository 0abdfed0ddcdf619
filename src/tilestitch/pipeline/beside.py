"""A compiled network beside the sum of its layers mapped alone, and what of the program makes the difference."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tilestitch.base.errors import InputError
from tilestitch.base.progress import Progress, quiet
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.hardware.array_machine import array_of_core
from tilestitch.hardware.tree_chip import roles_of
from tilestitch.ir.beside import BesideMap, LayerRow, TimeRow
from tilestitch.ir.graph import Graph
from tilestitch.ir.program import Flag, Kind
from tilestitch.ir.schedule import Schedule
from tilestitch.ir.trace import Trace

if TYPE_CHECKING:
    from tilestitch.mapping.alone import AloneLayer

PRODUCTS, WAITS, OTHERS = range(3)  # columns of what a core does


def expect_comparable(machine: Accelerator, batches: int, option: str = "--beside-map") -> None:
    """Refuse machines whose layers have no mapping on all of their units, and several batches, for an option."""
    array = len(machine.cores) == 1 and machine.cores[0].array is not None
    if machine.clusters > 1 or not (array or machine.tree is not None):
        raise InputError(
            f"{option}: {machine.name} is neither one array nor a tree of memories whose units are one cluster, so "
            f"map has no number for all of its units; leave out {option}"
        )
    if batches > 1:
        raise InputError(f"{option}: is of one batch, and --batches says {batches}; leave out one of them")


def beside_map(
    graph: Graph, schedule: Schedule, trace: Trace, machine: Accelerator, progress: Progress = quiet
) -> BesideMap | None:
    """The comparison of a simulated program; `graph` is the simplified network, at the batch of an iteration.

    None where the network has no product. The parts of both times add up to them.
    """
    from tilestitch.mapping.alone import layers_on_array, layers_on_tree, total_cycles
    from tilestitch.mapping.network import layers_of

    layers, _ = layers_of(graph)
    if not layers:
        return None
    if machine.tree is None:
        alone = layers_on_array(layers, array_of_core(machine), progress)
    else:
        alone = layers_on_tree(layers, machine.tree, roles_of(machine.tree).lb.name, progress)
    runs = schedule.iterations
    done = _done(trace, len(machine.cores))
    mapped = runs * total_cycles(alone)
    inside = runs * sum(one.layer.times * one.inside_cycles for one in alone)
    macs = runs * sum(one.layer.times * prod(one.layer.nest.extents) for one in alone)
    products = float(done.cycles[:, PRODUCTS].sum())
    units = machine.cores[0].array.rows * machine.cores[0].array.columns if machine.cores[0].array is not None else 0
    units = units if machine.tree is None else machine.tree.units
    return BesideMap(
        mapped_cycles=mapped,
        compiled_cycles=trace.latency_cycles,
        proven=all(one.is_proven for one in alone),
        times=_times(schedule, done, mapped, inside),
        layers=tuple(_layer_rows(schedule, done, alone, runs)),
        mapped_work=macs / units / inside,
        compiled_work=macs / units / products if products else 0.0,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Done:
    """What cores do in cycles, mean over them: of each kernel a row, by column; and what they do for none."""

    cycles: np.ndarray
    idle_cycles: float  # of cores that compute nothing at all, or while others do kernels that leave them out


def _done(trace: Trace, cores: int) -> _Done:
    """The time of every core as parts: its products, other operators beside which none runs, and what it waits.

    A core waits for what it computes next; behind its last operator for what that kernel brings out. While others do
    kernels in between, or behind its last one, it has no work.
    """
    program = trace.program
    found, idle, end = np.zeros((len(program.kernels), 3)), 0.0, int(trace.end_ticks.max(initial=0))
    core_of = np.array([-1 if one.core is None else one.core for one in program.engines], np.int64)
    computing = np.flatnonzero((program.kind == Kind.COMPUTE) & (trace.end_ticks > trace.start_ticks))
    computing = computing[np.argsort(trace.start_ticks[computing], kind="stable")]
    runs = [computing[program.kernel[computing] == kernel] for kernel in range(len(program.kernels))]
    begun = [trace.start_ticks[one] for one in runs]
    ended = [np.maximum.accumulate(trace.end_ticks[one]) for one in runs]
    for core in range(cores):
        own = computing[core_of[program.engine[computing]] == core]
        if not len(own):
            idle += end
            continue
        own = own[np.lexsort((trace.end_ticks[own], trace.start_ticks[own]))]
        start, stop, kernel = trace.start_ticks[own], trace.end_ticks[own], program.kernel[own]
        product = (program.flags[own] & Flag.MATRIX) != 0
        before = np.concatenate([[0], np.maximum.accumulate(stop)])  # until when something has run
        waited = np.maximum(0, start - before[:-1])
        without = np.zeros_like(waited)
        for at in np.flatnonzero(waited):
            between = range(kernel[at - 1] + 1 if at else 0, kernel[at])
            without[at] = _other_work(begun, ended, between, before[at], start[at])
        np.add.at(found[:, WAITS], kernel, waited - without)
        last = int(stop.argmax())
        behind = 0 if kernel[last] == len(runs) - 1 else end - before[-1]
        found[kernel[last], WAITS] += end - before[-1] - behind
        idle += without.sum() + behind
        np.add.at(found[:, PRODUCTS], kernel[product], (stop - start)[product])
        beside = _covered(start[product], stop[product], stop) - _covered(start[product], stop[product], start)
        np.add.at(found[:, OTHERS], kernel[~product], (stop - start - beside)[~product])
    scale = trace.ticks_per_cycle * cores
    return _Done(found / scale, float(idle) / scale)


def _other_work(
    begun: Sequence[np.ndarray], ended: Sequence[np.ndarray], kernels: range, since: int, until: int
) -> int:
    """How long some kernels still compute in a stretch of time: from its beginning to the last of their operators."""
    latest = since
    for kernel in kernels:
        count = int(np.searchsorted(begun[kernel], until))
        if count:
            latest = max(latest, int(ended[kernel][count - 1]))
    return min(latest, until) - since


def _covered(start: np.ndarray, stop: np.ndarray, until: np.ndarray) -> np.ndarray:
    """Of intervals in order of which none overlaps another, the time before each of some moments."""
    total = np.concatenate([[0], np.cumsum(stop - start)])
    number = np.searchsorted(start, until, side="right")
    running = np.concatenate([[0], stop])[number] - until  # of the last one that has begun what is still to come
    return total[number] - np.maximum(0, running)


def _times(schedule: Schedule, done: _Done, mapped: int, inside: int) -> tuple[TimeRow, ...]:
    with_product = np.array([kernel.anchor is not None for kernel in schedule.kernels], bool)
    own, others = done.cycles[with_product].sum(axis=0), float(done.cycles[~with_product].sum())
    return (
        TimeRow("products on the units of a core", inside, float(own[PRODUCTS])),
        TimeRow("waits for what comes to a core or leaves it", mapped - inside, float(own[WAITS])),
        TimeRow("other operators behind products", 0, float(own[OTHERS])),
        TimeRow("kernels without a product", 0, others),
        TimeRow("cores that have no work", 0, done.idle_cycles),
    )


def _layer_rows(schedule: Schedule, done: _Done, alone: "Sequence[AloneLayer]", runs: int) -> Iterator[LayerRow]:
    """Of the layers whose operators are products of kernels by the same name."""
    took = done.cycles.sum(axis=1)
    of = {kernel.anchor: float(took[number]) for number, kernel in enumerate(schedule.kernels) if kernel.anchor}
    for one in alone:
        if all(name in of for name in one.layer.operators):
            compiled = sum(of[name] for name in one.layer.operators)
            yield LayerRow(one.layer.nest.name, runs * one.layer.times, runs * one.layer.times * one.cycles, compiled)
