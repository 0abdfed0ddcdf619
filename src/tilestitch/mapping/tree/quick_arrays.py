"""The operands of a nest and their memories as arrays, for what is compiled.

It is asked of one spatial choice after another. What does not depend on what is spread is made once, as `Arrays`.
"""

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

import numpy as np

from tilestitch.hardware.tree import Flow, Network
from tilestitch.mapping.tree.crossings import OperandOnTree

# of what is read and of results: what goes through a memory towards the units, and outwards; partial sums come back
READ_FLOWS = ((Flow.FEED,), (Flow.FILL,))
RESULT_FLOWS = ((Flow.COLLECT, Flow.FEED), (Flow.DRAIN, Flow.FILL))
# What a fan-out makes of what crosses it: what differs by the loops that are spread; every unit's own; what units need
# together, or sums that they add from neighbour to neighbour; the least of these, for bounds where axes differ.
DIFFERING, OWN, TOGETHER, LEAST = range(4)


class Arrays(NamedTuple):
    """The operands that move anything and their memories, as far as nothing depends on what is spread; O by number.

    The last one is the result.
    """

    axes: np.ndarray  # [O] how many axes it has
    terms: np.ndarray  # [O, axis] how many terms; loop, step; loop, step; size; steps of a box; whether it rounds
    moving: np.ndarray  # [O, loop] whether a loop moves the operand
    bits: np.ndarray  # [O, complete]: of an element, and of a complete sum
    levels: np.ndarray  # [O]
    ports: np.ndarray  # [O, level, side, 4] towards units and outwards: bits of the granule (0: no port) and the width
    access_pj: np.ndarray  # [O, level, side, 2] of an access of the whole width, there and, of partial sums, back
    size_bits: np.ndarray  # [O, level]
    buffers: np.ndarray
    bank_bits: np.ndarray
    limits: np.ndarray  # [O, level, loop, 2] the least and most steps of a loop inside
    is_limited: bool
    sharing: np.ndarray  # [O, crossing]
    network_pj: np.ndarray  # [O, crossing, 2] of a bit that is delivered, and of one that is added at a neighbour's
    mac_pj: float
    has_latches: bool
    reads_first_sums: bool
    counts_copies: bool  # whether what each of several memories moves adds up, as energies do and cycles do not


class Placed(NamedTuple):
    """One spatial choice: for every operand what its fan-outs come to."""

    over: np.ndarray  # [O, fan-outs, loop] how far a loop is spread over so many inner fan-outs, as a fraction
    under: np.ndarray
    share: np.ndarray  # the same as a number
    differing: np.ndarray  # [O, crossing]
    exchanging: np.ndarray  # [O, crossing] memories or units inside that what is around exchanges with
    outside: np.ndarray  # [O, crossing] whether what leaves the operand alone is spread further out
    whole: np.ndarray  # [O, level] elements of all steps
    instances: np.ndarray  # [O, level + 1] memories in use; the first is that of the units
    steps: np.ndarray  # [loop]
    total: int


def sharing_of(operand: OperandOnTree, crossing: int) -> int | None:
    """What a fan-out makes of what crosses it, if that is alike along all of its axes."""
    found = _sharings(operand, crossing)
    return found.pop() if len(found) == 1 else None


def _sharings(operand: OperandOnTree, crossing: int) -> set[int]:
    home = operand.placed.homes[operand.number]
    names = operand.placed.tree.fan_outs(home)[crossing]
    networks = [axis.network(home) for axis in operand.placed.tree.axes if axis.name in names]
    return {_sharing_along(one, is_write=operand.is_write) for one in networks} or {DIFFERING}


def _sharing_along(network: Network | None, *, is_write: bool) -> int:
    if network is None:
        return DIFFERING
    if network.passes_sums if is_write else network.shares_windows:
        return TOGETHER
    return DIFFERING if (network.reduction if is_write else network.multicast) else OWN


def arrays_of(operands: Sequence[OperandOnTree]) -> Arrays:
    """What the compiled functions ask about operands that move anything."""
    count, loops = len(operands), len(operands[0].placed.nest.loops)
    levels = max(len(one.memories) for one in operands)
    tree = operands[0].placed.tree
    found = Arrays(
        np.array([len(one.array.axes) for one in operands], np.int64),
        np.zeros((count, max(1, *(len(one.array.axes) for one in operands)), 9), np.int64),
        np.array([[loop in one.array.indexed_by for loop in range(loops)] for one in operands], np.bool_),
        np.array(
            [
                [one.array.element_bits, one.placed.final_bits if one.is_write else one.array.element_bits]
                for one in operands
            ],
            np.int64,
        ),
        np.array([len(one.memories) for one in operands], np.int64),
        np.zeros((count, levels, 2, 4), np.int64),
        np.zeros((count, levels, 2, 2), np.float64),
        np.zeros((count, levels), np.int64),
        np.ones((count, levels), np.int64),
        np.zeros((count, levels), np.int64),
        np.tile(np.array([1, 2**62], np.int64), (count, levels, loops, 1)),
        bool(operands[0].placed.limits),
        np.zeros((count, levels), np.int64),
        np.zeros((count, levels, 2), np.float64),
        tree.mac_pj,
        tree.has_latches,
        tree.reads_first_sums,
        True,
    )
    for number, one in enumerate(operands):
        home = one.placed.homes[one.number]
        for axis, (given, size) in enumerate(zip(one.array.axes, one.array.shape, strict=True)):
            common = gcd(*(step for _, step in given))
            flat = (
                [part for loop, step in given for part in (loop, step // common)]
                if len(given) == 2
                else [given[0][0], 1]
                if given
                else []
            )
            found.terms[number, axis, 0], found.terms[number, axis, 5] = len(given), size
            found.terms[number, axis, 1 : 1 + len(flat)] = flat
            if tree.moves_boxes:
                found.terms[number, axis, 6 : 6 + len(given)] = [abs(step) for _, step in given]
            found.terms[number, axis, 8] = one.placed.zigzag_windows
        for level, memory in enumerate(one.memories):
            bits, limits = one.placed.limits_of(one.number, memory)
            found.size_bits[number, level], found.buffers[number, level] = bits, memory.buffers
            found.bank_bits[number, level] = memory.bank_bits
            kinds = _sharings(one, level)
            found.sharing[number, level] = max(kinds) if len(kinds) == 1 else LEAST if TOGETHER in kinds else DIFFERING
            per_bit = sum(network.pj_per_bit for _, network in one.networks(level))
            found.network_pj[number, level] = per_bit, one.addition_pj(level) if one.is_write else 0.0
            for loop, least, most in limits:
                here = found.limits[number, level, loop]
                here[0], here[1] = max(here[0], least), min(here[1], most)
            for side, flows in enumerate(RESULT_FLOWS if one.is_write else READ_FLOWS):
                for at, flow in enumerate(flows):
                    port = memory.port(home, flow)
                    found.access_pj[number, level, side, at] = memory.read_pj if flow.is_read else memory.write_pj
                    if port is not None:
                        found.ports[number, level, side, 2 * at : 2 * at + 2] = port.granule_bits, port.width_bits
    return found


def relaxed(arrays: Arrays, *, final_sums: bool) -> Arrays:
    """The operands where completing sums is never worse, so that doing it at once is best."""
    bits = arrays.bits.copy()
    bits[-1, 1] = min(bits[-1])
    buffers = arrays.buffers.copy()
    if final_sums:
        buffers[-1] = 1
    return arrays._replace(bits=bits, buffers=buffers)
