"""Recorded cycles: what they hold is what the nest computes there, and what the simulator has."""

from itertools import pairwise
from math import prod

import numpy as np
import pytest

from tests.helpers.array_timing import walked
from tilestitch.api import load_machine
from tilestitch.formats.einsum import einsum_nest
from tilestitch.hardware.array_machine import array_of_core
from tilestitch.ir.choices import Values
from tilestitch.ir.loop_nest import LoopMapping
from tilestitch.sim.array.log import L_BUFFERS, L_PASS, L_ROW
from tilestitch.sim.array.recording import pass_starts, products_of, record, registers_after
from tilestitch.sim.array.runner import run_mapping
from tilestitch.sim.array.tally import FIRST_LOAD, LAST_STORE
from tilestitch.sim.array.values import random_operands

NEST = einsum_nest("O[m,n] += A[m,k] * B[k,n]; m=12 n=8 k=16")
# Every element has results of its own, which stay until k is done.
OWN = LoopMapping(
    dram=(3, 1, 1), spm=(1, 1, 4), rf=(2, 2, 4), spatial=(2, 4, 1), dram_order=(0, 1, 2), spm_order=(0, 1, 2)
)
# Two elements add to each result, results come back for the second tile of k, and the last tile of m is smaller.
SHARED = LoopMapping(
    dram=(2, 1, 2), spm=(1, 2, 1), rf=(4, 2, 4), spatial=(2, 2, 2), dram_order=(2, 0, 1), spm_order=(0, 1, 2)
)


def array(name="dmazerunner-256"):
    """The array of a preset."""
    return array_of_core(load_machine(name))


def passes_of(nest, mapping):
    """The first iterations and the sizes of all passes, in the order of the nest."""
    for tile in walked(mapping.dram, mapping.dram_order):
        first = [at * size for at, size in zip(tile, mapping.scratchpad_tile, strict=True)]
        for turn in walked(mapping.spm, mapping.spm_order):
            start = [begin + at * size for begin, at, size in zip(first, turn, mapping.pass_tile, strict=True)]
            if all(begin < extent for begin, extent in zip(start, nest.extents, strict=True)):
                ends = zip(start, mapping.pass_tile, nest.extents, strict=True)
                yield start, [min(size, extent - begin) for begin, size, extent in ends]


def instructions_of(mapping, start, sizes):
    """Of every instruction of a pass the iteration of each element; None where it has none."""
    places = [np.unravel_index(element, mapping.spatial) for element in range(prod(mapping.spatial))]
    own = [[min(rf, max(0, size - at * rf)) for at, rf, size in zip(p, mapping.rf, sizes, strict=True)] for p in places]
    for inner in np.ndindex(*np.max(own, axis=0)):
        yield [
            tuple(s + at * rf + i for s, at, rf, i in zip(start, place, mapping.rf, inner, strict=True))
            if all(i < most for i, most in zip(inner, size, strict=True))
            else None
            for place, size in zip(places, own, strict=True)
        ]


@pytest.mark.parametrize("values", [Values.INTEGERS, Values.FLOATS])
@pytest.mark.parametrize("mapping", [OWN, SHARED], ids=["own results", "shared results"])
def test_recorded_products_are_those_of_the_nest(mapping, values):
    """Every instruction of every pass, in order, multiplies in each element what numpy finds in A and B there.

    Of what elements have of their own the sums follow as well, cycle by cycle.
    """
    a, b = random_operands(NEST, values)
    cycles = run_mapping(NEST, array(), mapping).cycles
    recording = record(NEST, array(), mapping, [a, b], (0, cycles))
    expected = (
        (number, instruction)
        for number, (start, sizes) in enumerate(passes_of(NEST, mapping))
        for instruction in instructions_of(mapping, start, sizes)
    )
    elements = prod(mapping.spatial)
    registers = recording.registers.copy()
    sums = np.zeros((12, 8), registers.dtype)
    seen = 0
    for row, after in enumerate(registers_after(recording)):
        now = recording.log[row]
        if now[L_ROW] >= 0:
            number, instruction = next(expected)
            assert now[L_PASS] == number
            found = products_of(recording, after, row)  # what is read changes in no cycle in which it is read
            first = now[L_BUFFERS + 2] + recording.plan.registers[now[L_ROW], 2] * elements
            for element, iteration in enumerate(instruction):
                if iteration is None:
                    continue
                m, n, k = iteration
                assert found[element] == a[m, k] * b[k, n]
                sums[m, n] += a[m, k] * b[k, n]
                if mapping is OWN:
                    assert after[first + element] == sums[m, n]
                seen += 1
    assert next(expected, None) is None
    assert seen == NEST.macs


@pytest.mark.parametrize("mapping", [OWN, SHARED], ids=["own results", "shared results"])
@pytest.mark.parametrize("machine", ["dmazerunner-256", "eyeriss"])
def test_a_recording_ends_with_what_the_simulator_has(machine, mapping):
    """Wherever it is cut: replayed to its end it has the registers with which the simulator begins the next one."""
    operands = random_operands(NEST, Values.INTEGERS)
    run = run_mapping(NEST, array(machine), mapping)
    cuts = range(int(run.counts[FIRST_LOAD]) - 50, run.cycles - int(run.counts[LAST_STORE]), 37)
    compared = 0
    for begin, end in pairwise(cuts):
        one = record(NEST, array(machine), mapping, operands, (begin, end))
        other = record(NEST, array(machine), mapping, operands, (end, end + 37))
        *_, last = registers_after(one)
        assert (last == other.registers).all()
        compared += int(np.count_nonzero(last))
    assert compared > 100


@pytest.mark.parametrize("mapping", [OWN, SHARED], ids=["own results", "shared results"])
def test_pass_starts_are_those_of_the_nest(mapping):
    """Of all passes, and of some of them."""
    starts = [tuple(start) for start, _ in passes_of(NEST, mapping)]
    geometry = record(NEST, array(), mapping, random_operands(NEST, Values.INTEGERS), (0, 3000)).geometry
    assert pass_starts(geometry, range(len(starts))) == starts
    assert pass_starts(geometry, [1, len(starts) - 1]) == [starts[1], starts[-1]]
