"""What the elements execute in a pass, and how they add up their sums afterwards."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, prod

import numpy as np

from tilestitch.base.shown import Brief
from tilestitch.hardware.accelerator import Reduction
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.sim.array.geometry import Geometry, coefficients, strides_of


@dataclass(frozen=True, repr=False)
class Programs(Brief):
    """Instructions of a pass by class, the same for all elements; some rest in a smaller pass.

    Instruction i of class q is row `first[q]` + i: the register of every operand. A round of `together[q]` instructions
    adds to as many different results. `mask[masked[q] + i]` says which elements take part; -1: all of them.
    `macs[q]` is how many multiply-accumulates a pass has, `busy[q]` how many of them each element does.
    """

    first: np.ndarray
    registers: np.ndarray
    together: np.ndarray
    masked: np.ndarray
    mask: np.ndarray
    macs: np.ndarray
    busy: np.ndarray


def programs_of(geometry: Geometry) -> Programs:
    """The loops of the register files in their order, results innermost where the adder has several stages."""
    loops = len(geometry.nest.loops)
    order = list(range(loops))
    if geometry.micro.adder_stages > 1:
        order = [*geometry.summed, *(loop for loop in order if loop not in geometry.summed)]
    steps = np.array(
        [
            coefficients(operand, strides_of(operand.extents(geometry.own_sizes)), loops)
            for operand in geometry.nest.operands
        ]
    )
    first, registers, together, masked, masks, macs, busy = [0], [], [], [], [], [], []
    rows = 0
    for one in range(1 << len(geometry.ragged)):
        own = geometry.own_of(geometry.class_sizes(one))
        most = own.max(axis=0)
        grid = np.indices([most[loop] for loop in order]).reshape(loops, -1)
        iteration = np.empty_like(grid)
        iteration[order] = grid
        registers.append((steps @ iteration).T)
        first.append(first[-1] + iteration.shape[1])
        together.append(prod(int(most[loop]) for loop in geometry.nest.write.indexed_by))
        works = np.ones((iteration.shape[1], len(own)), bool)
        for loop in range(loops):
            works &= iteration[loop][:, None] < own[None, :, loop]
        macs.append(int(works.sum()))
        busy.append(works.sum(axis=0))
        masked.append(-1 if works.all() else rows)
        if not works.all():
            masks.append(works)
            rows += len(works)
    return Programs(
        np.array(first, np.int64),
        np.ascontiguousarray(np.concatenate(registers), np.int64),
        np.array(together, np.int64),
        np.array(masked, np.int64),
        np.concatenate(masks) if masks else np.zeros((1, geometry.elements), bool),
        np.array(macs, np.int64),
        np.array(busy, np.int64),
    )


@dataclass(frozen=True)
class Sums:
    """How elements add up what they have of the same results, by class.

    Hop h of class q is row `first[q]` + h: in the cycle `cycle[...]` of the reduction the register `source` of one
    element goes to another, which adds it to its `target`. All take `cycles[q]`.
    """

    first: np.ndarray
    cycle: np.ndarray
    source: np.ndarray
    target: np.ndarray
    cycles: np.ndarray


def sums_of(geometry: Geometry, machine: ArrayMachine) -> Sums:
    """From the last element of each group to the first (serial on one network, or each group on a chain of its own), or
    in pairs (tree)."""
    word = Fraction(geometry.element_bits[-1], 8) / machine.reduction_bytes_per_cycle
    first, cycles, parts = [0], [], []
    for one in range(1 << len(geometry.ragged)):
        groups = _groups(geometry, geometry.class_sizes(one))
        time, hops = Fraction(0), []
        most = max((len(group) for group in groups), default=1)
        for senders in _rounds(most, machine.reduction):
            rows = []
            for group in groups:
                for sender, receiver in senders:
                    if sender < len(group):
                        registers = group[sender][1]
                        rows.append((registers + group[sender][0], registers + group[receiver][0]))
            if machine.reduction is Reduction.SERIAL:
                at = np.arange(sum(len(row[0]) for row in rows))
            else:
                at = np.concatenate([np.arange(len(row[0])) for row in rows])
            when = (time.numerator * word.denominator + at * word.numerator * time.denominator) // (
                time.denominator * word.denominator
            )
            hops.append((when, np.concatenate([row[0] for row in rows]), np.concatenate([row[1] for row in rows])))
            time += max((int(at.max()) + 1) * word, Fraction(geometry.micro.adder_stages))
        found = [np.concatenate(part) if hops else np.zeros(0, np.int64) for part in zip(*hops, strict=True)]
        if hops:
            order = np.argsort(found[0], kind="stable")
            parts.append([part[order] for part in found])
        first.append(first[-1] + (len(found[0]) if hops else 0))
        cycles.append(ceil(time))
    columns = zip(*parts, strict=True) if parts else ([np.zeros(0, np.int64)] for _ in range(3))
    when, source, target = (np.concatenate(list(column)) for column in columns)
    return Sums(np.array(first, np.int64), when, source, target, np.array(cycles, np.int64))


def _groups(geometry: Geometry, sizes: tuple[int, ...]) -> list[list[tuple[int, np.ndarray]]]:
    """For all results that several elements have, these in order: the element, and its registers x elements."""
    own = geometry.own_of(sizes)
    places = geometry.places()
    works = np.flatnonzero((own > 0).all(axis=1))
    apart = sorted(geometry.nest.write.indexed_by)
    strides = strides_of(geometry.nest.write.extents(geometry.own_sizes))
    found: dict[tuple[int, ...], list[tuple[int, np.ndarray]]] = {}
    for element in works:
        extents = geometry.nest.write.extents([max(1, int(size)) for size in own[element]])
        inside = np.indices(extents).reshape(len(extents), -1)
        registers = (strides @ inside) * geometry.elements
        found.setdefault(tuple(places[element, apart]), []).append((int(element), registers))
    return [group for group in found.values() if len(group) > 1]


def _rounds(most: int, reduction: Reduction) -> list[list[tuple[int, int]]]:
    """Which elements of a group of `most` send to which, one round after another."""
    if reduction is not Reduction.TREE:
        return [[(sender, sender - 1)] for sender in range(most - 1, 0, -1)]
    rounds, apart = [], 1
    while apart < most:
        rounds.append([(place + apart, place) for place in range(0, most - apart, 2 * apart)])
        apart *= 2
    return rounds
