"""DiRAC: its bundled tests beside what our simulator takes for the same loops under its rules."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tilestitch.base.errors import InputError, printable
from tilestitch.base.progress import Progress
from tilestitch.formats.einsum import einsum_nest
from tilestitch.hardware.array_machine import ArrayMachine, array_of_core
from tilestitch.hardware.load import load_machine
from tilestitch.hardware.microarchitecture import Controller
from tilestitch.ir.choices import CostMode
from tilestitch.ir.loop_nest import LoopMapping, LoopNest
from tilestitch.mapping.evaluate import price
from tilestitch.reproduction.published import read
from tilestitch.reproduction.published_dirac import BundledTest, PublishedDirac
from tilestitch.reproduction.rows import Row, exact
from tilestitch.sim.array.runner import run_mapping
from tilestitch.sim.array.tally import FIRST_LOAD, LAST_STORE, LOADED, READ, STORED, WRITTEN

WORD_BYTES = 2
FIGURES = 16  # bits of its unsigned integers, which wrap around


def dirac_rows(*, networks: Sequence[str], machines: Sequence[str], progress: Progress) -> tuple[Row, ...]:
    """All rows, or those of one of the tests, which stand for networks here; see `reproduce`."""
    published = read(PublishedDirac, "dirac")
    known = [test.name for test in published.tests]
    for kind, given, possible in (("network", networks, known), ("machine", machines, [published.machine])):
        for name in given:
            if name not in possible:
                shown = printable(name)
                raise InputError(f"reproduce dirac: {kind} '{shown}': expected some of: {', '.join(possible)}")
    rows: list[Row] = []
    for number, test in enumerate(published.tests):
        if not networks or test.name in networks:
            progress(test.name, number, len(known))
            rows += _rows_of(test, published)
    return tuple(rows)


def machine_of(test: BundledTest, published: PublishedDirac) -> ArrayMachine:
    """The machine of a test, under DiRAC's rules."""
    base = array_of_core(load_machine(published.machine))
    micro = replace(
        base.micro,
        controller=Controller.DIRAC,
        double_buffered=(True, True, True),
        instruction_words=published.instruction_words,
    )
    return replace(
        base,
        elements=test.rows * test.columns,
        columns=test.columns,
        register_bytes=test.register_bytes,
        banks=test.banks // 2,
        bank_bytes=test.bank_bytes,
        micro=micro,
    )


def mapping_of(test: BundledTest, nest: LoopNest) -> LoopMapping:
    """Its mapping, generated from factors: there its schedules are written by hand."""
    names = [loop.name for loop in nest.loops]
    dram, spm, rf, spatial = (
        tuple(level.get(name, 1) for name in names) for level in (test.dram, test.spm, test.rf, test.spatial)
    )
    last = names.index(test.innermost)
    order = (*(at for at in range(len(names)) if at != last), last)
    return LoopMapping(dram, spm, rf, spatial, order, order)


def _rows_of(test: BundledTest, published: PublishedDirac) -> list[Row]:
    nest = einsum_nest(test.nest, test.name)
    machine, mapping = machine_of(test, published), mapping_of(test, nest)
    rng = np.random.default_rng(0)
    operands = [rng.integers(0, 1 << FIGURES, operand.shape).astype(np.int32) for operand in nest.reads]
    run = run_mapping(nest, machine, mapping, operands)
    counts, written = run.counts, len(nest.reads)
    source = f"DiRAC's bundled {test.name} (released code, run)"
    ours = (run.cycles, int(counts[FIRST_LOAD]), int(counts[LAST_STORE]))
    rows = [exact("ticks", source, test.ticks, run.cycles)]
    if test.first_load is not None:
        rows.append(exact("ticks: first tile", source, test.first_load, ours[1]))
        rows.append(exact("ticks: passes of the scratchpad", source, test.array, ours[0] - ours[1] - ours[2]))
        rows.append(exact("ticks: last results", source, test.last_store, ours[2]))
    rows.append(exact("multiply-accumulates", source, test.macs, int(run.busy.sum())))
    for number, operand in enumerate(nest.reads):
        loaded, words = int(counts[LOADED + number]) * WORD_BYTES, int(counts[READ + number])
        rows.append(exact(f"bytes from DRAM: {operand.name}", source, test.loaded_bytes[operand.name], loaded))
        rows.append(exact(f"words on networks: {operand.name}", source, test.network_words[operand.name], words))
    name = nest.write.name
    stored = int(counts[STORED + written]) * WORD_BYTES
    rows.append(exact(f"bytes to DRAM: {name}", source, test.stored_bytes, stored))
    rows.append(exact(f"words on networks: {name}", source, test.result_words, int(counts[WRITTEN + written])))
    assert run.result is not None
    wrong = np.count_nonzero((run.result - _sums(nest, operands)) % (1 << FIGURES))
    rows.append(exact("wrong results", source, 0, int(wrong)))
    if test.model_cycles is not None:
        modelled = price(nest, machine, mapping, CostMode.PUBLISHED).cycles
        rows.append(exact("cycles by dMazeRunner's model", source, test.model_cycles, modelled))
    return rows


def _sums(nest: LoopNest, operands: Sequence[np.ndarray]) -> np.ndarray:
    """The nest by its definition, iteration by iteration."""
    found = np.zeros(nest.write.shape, np.int64)
    for iteration in np.ndindex(nest.extents):
        product = 1
        for operand, array in zip(nest.reads, operands, strict=True):
            product *= int(array[_index(operand.axes, iteration)])
        found[_index(nest.write.axes, iteration)] += product
    return found


def _index(axes: tuple[tuple[tuple[int, int], ...], ...], iteration: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sum(step * iteration[loop] for loop, step in terms) for terms in axes)
