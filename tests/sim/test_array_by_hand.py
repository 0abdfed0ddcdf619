"""Cycles of the array simulator, each counted by hand."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tests.helpers.nests import DMAZERUNNER
from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.formats.einsum import einsum_nest
from tilestitch.hardware.accelerator import Reduction
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.hardware.microarchitecture import ScratchpadLayout
from tilestitch.ir.loop_nest import LoopMapping, product
from tilestitch.sim.array.runner import run_mapping
from tilestitch.sim.array.tally import NETWORK_CONFLICTS, NETWORK_FULL

pytestmark = pytest.mark.quick

FREE = replace(DMAZERUNNER.micro, configuration_words=0)
MACHINE = replace(
    DMAZERUNNER,
    elements=4,
    columns=2,
    bank_bytes=64,
    dma_setup_cycles=Fraction(5),
    dma_cycles_per_byte=Fraction(1),
    micro=FREE,
)
ORDER = (0, 1, 2)
ONES = (1, 1, 1)
WIDE = {"network_bytes_per_cycle": (Fraction(8), Fraction(8), Fraction(2))}


def changed(**changes: object) -> ArrayMachine:
    """The machine with other fields, of itself or of its microarchitecture."""
    own = {name: value for name, value in changes.items() if hasattr(MACHINE, name)}
    inner = {name: value for name, value in changes.items() if name not in own}
    return replace(MACHINE, **own, micro=replace(FREE, **inner))


# C[2,2] += A[2,3] * B[3,2] in one pass of one element: 17 + 17 cycles of DMA for 12 bytes each, 6 words on both
# networks at once, 12 multiply-accumulates, 6 cycles until the pipeline is empty, 4 results, 3 cycles until the last of
# them is in the scratchpad, 13 to store 8 bytes.
ALONE = 17 + 17 + 6 + 12 + 6 + 4 + 3 + 13


@pytest.mark.parametrize(
    ("changes", "cycles"),
    [
        ({}, ALONE),
        ({"multiplier_stages": 5}, ALONE + 3),
        ({"adder_stages": 2}, ALONE + 1),  # four results in turn hide the second stage
        ({"adder_stages": 6}, ALONE + 5 + 3 * 2),  # each round of four additions waits two cycles
        ({"double_buffered": (True, True, True)}, ALONE),  # results go in a slot of their own
        ({"network_latency_cycles": 5}, ALONE + 3 + 3),  # the first inputs and the last result come later
        ({"networks": 1}, ALONE + 6),  # one operand after the other
        ({"dram_latency_cycles": 7}, ALONE + 3 * 7),
        ({"configuration_words": 6}, ALONE + 6 * 6 - 34),  # two rows and four elements, while the first tile comes
        ({"dma_channels": 2}, ALONE),  # one run each
        ({**WIDE, "scratchpad_port_bytes": 8}, ALONE - 4),  # four words a cycle, side by side
        ({**WIDE, "bank_bytes": 2}, ALONE - 4),  # or in banks of their own
        (WIDE, ALONE),  # but one port gives one word a cycle
        ({**WIDE, "bank_bytes": 4}, ALONE - 4),  # three banks in turn: three words, then three
        ({**WIDE, "bank_bytes": 4, "scratchpad_layout": ScratchpadLayout.BLOCKED}, ALONE - 2),  # words 0, 1 2, 3 4, 5
        ({**WIDE, "bank_bytes": 2, "register_writes_per_cycle": 1}, ALONE),  # FIFOs empty by one word a cycle
        ({**WIDE, "bank_bytes": 2, "register_writes_per_cycle": 2}, ALONE - 3),
    ],
    ids=str,
)
def test_one_pass(changes: dict, cycles: int) -> None:
    nest = product("one pass", m=2, n=2, k=3)
    mapping = LoopMapping(ONES, ONES, (2, 2, 3), ONES, ORDER, ORDER)
    operands = [np.arange(6).reshape(2, 3), np.arange(6).reshape(3, 2)]
    run = run_mapping(nest, changed(**changes), mapping, operands)
    assert run.cycles == cycles
    assert run.result is not None
    assert (run.result == operands[0] @ operands[1]).all()


def test_what_holds_words_up_is_counted() -> None:
    nest = product("one pass", m=2, n=2, k=3)
    mapping = LoopMapping(ONES, ONES, (2, 2, 3), ONES, ORDER, ORDER)
    conflicts = run_mapping(nest, changed(**WIDE), mapping).counts[NETWORK_CONFLICTS:][:2]
    assert conflicts.tolist() == [5, 5]  # the last word is held up by none
    full = run_mapping(nest, changed(**WIDE, bank_bytes=2, register_writes_per_cycle=1), mapping)
    assert full.counts[NETWORK_FULL:][:2].tolist() == [4, 4]


# C[2,1] += A[2,4] * B[4,1] with four elements along k: 21 + 13 cycles of DMA, 8 words of A, 2 multiply-accumulates
# each, 6 cycles of pipeline, the sums, 2 results, 3 cycles, 9 to store 4 bytes.
TOGETHER = 21 + 13 + 8 + 2 + 6 + 2 + 3 + 9


@pytest.mark.parametrize(
    ("reduction", "adder_stages", "sums"),
    [
        (Reduction.SERIAL, 1, 6),  # two results from element to element, three times
        (Reduction.CHAIN, 1, 6),
        (Reduction.TREE, 1, 4),  # in two rounds
        (Reduction.TREE, 4, 8 + 2 + 3),  # each takes four cycles, as do two instructions; the pipeline is longer by 3
        (Reduction.SERIAL, 4, 12 + 2 + 3),
    ],
)
def test_elements_add_up_what_they_have(reduction: Reduction, adder_stages: int, sums: int) -> None:
    nest = product("sums", m=2, n=1, k=4)
    mapping = LoopMapping(ONES, ONES, (2, 1, 1), (1, 1, 4), ORDER, ORDER)
    operands = [np.arange(8).reshape(2, 4), np.arange(1, 5).reshape(4, 1)]
    run = run_mapping(nest, changed(reduction=reduction, adder_stages=adder_stages), mapping, operands)
    assert run.cycles == TOGETHER + sums
    assert run.result is not None
    assert (run.result == operands[0] @ operands[1]).all()


def test_the_next_pass_comes_while_this_one_is_computed() -> None:
    """Four passes over k of four cycles each, two words a pass on each network: only the first words and the results
    show."""
    nest = product("passes", m=2, n=2, k=4)
    mapping = LoopMapping(ONES, (1, 1, 4), (2, 2, 1), ONES, ORDER, ORDER)
    load, store = 2 * (5 + 16), 5 + 8
    assert run_mapping(nest, MACHINE, mapping).cycles == load + 2 + 4 * 4 + 6 + 4 + 3 + store
    late = changed(double_buffered=(False, False, False))  # now the words come when the elements are done
    assert run_mapping(nest, late, mapping).cycles == load + 2 + 3 * (4 + 2) + 4 + 6 + 4 + 3 + store


def test_one_port_serves_reads_and_writes_in_turn() -> None:
    """Sums over two tiles come back: with one port of a bank, what goes out and what comes in take turns."""
    nest = product("back", m=2, n=2, k=2)
    mapping = LoopMapping(ONES, (2, 1, 2), (1, 2, 1), ONES, ORDER, (2, 0, 1))
    operands = [np.arange(4).reshape(2, 2), np.arange(4).reshape(2, 2)]
    one = replace(changed(scratchpad_ports=1), bank_bytes=1024)
    two = replace(MACHINE, bank_bytes=1024)
    runs = [run_mapping(nest, machine, mapping, operands) for machine in (one, two)]
    assert all((run.result == operands[0] @ operands[1]).all() for run in runs if run.result is not None)
    # Two exchanges of two words bring two back: each word that comes waits for one that goes.
    assert runs[0].cycles > runs[1].cycles
    assert runs[0].counts[NETWORK_CONFLICTS:][2] > 0 == runs[1].counts[NETWORK_CONFLICTS:][2]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("O[x] += I[3-y] * W[x]; x=2 y=2", "goes backwards"),
        ("O[x+y] += I[x] * W[y]; x=2 y=2", "indexed by a sum"),
        ("O[2*x] += I[x] * W[x]; x=2", "with a step"),
        ("O[x,x] += I[x] * W[x]; x=2", "use a loop twice"),
    ],
)
def test_accesses_without_a_schedule_are_refused(line: str, found: str) -> None:
    nest = einsum_nest(line)
    ones = (1,) * len(nest.loops)
    order = tuple(range(len(nest.loops)))
    with pytest.raises(InputError, match=found):
        run_mapping(nest, MACHINE, LoopMapping(nest.extents, ones, ones, ones, order, order))


def test_a_mapping_that_does_not_fit_says_what_is_missing() -> None:
    nest = product("large", m=2, n=2, k=3)
    mapping = LoopMapping(ONES, ONES, (2, 2, 3), ONES, ORDER, ORDER)
    with pytest.raises(DoesNotFit, match="needs 32 bytes of a register file, and there are 30"):
        run_mapping(nest, replace(MACHINE, register_bytes=30), mapping)
    with pytest.raises(InputError, match="do not cover"):
        run_mapping(nest, MACHINE, replace(mapping, rf=(2, 2, 2)))
