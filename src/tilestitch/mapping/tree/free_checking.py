"""Judges the proof that a mapping is the best of all choices of what is spread.

The choices are made again, loop by loop. Of each the bound is made anew, and those whose bound is below the claim are
walked through: for energy by the compiled walk of `choice_walk`; in time the same walk first looks for a chain with so
little energy that the claim could be beaten, in no less cycles than its steps, its ports and its stops take, and only
where there is one the walk over tables follows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilestitch.base.errors import InvalidIR, TooLarge, printable
from tilestitch.ir.choices import Objective
from tilestitch.mapping.optimum import UNLIMITED, Optimum
from tilestitch.mapping.tree.certificate import counts_chains, mac_value
from tilestitch.mapping.tree.checker_tables import checker_tables
from tilestitch.mapping.tree.checking import check_chain, check_count
from tilestitch.mapping.tree.choice_cuts import Task
from tilestitch.mapping.tree.choice_pace import least_cycles
from tilestitch.mapping.tree.choice_sums import pauses_of
from tilestitch.mapping.tree.choice_tables import tables_of_choice
from tilestitch.mapping.tree.choice_walk import BROKEN, TOO_LARGE, judged
from tilestitch.mapping.tree.choices import SpatialSpace
from tilestitch.mapping.tree.claim import MOST_LABELS, Claim, Verdict
from tilestitch.mapping.tree.crossings import OperandOnTree, operands_on_tree
from tilestitch.mapping.tree.free_certificate import (
    ChoiceBlock,
    FreeCertificate,
    blocks_of,
    bounded_loosely,
    free_digest,
    unrolled_texts,
)
from tilestitch.mapping.tree.outside_in import NEVER, SURVIVED, TOO_MANY
from tilestitch.mapping.tree.placed import PlacedNest, Slide, Unrolled
from tilestitch.mapping.tree.port_uses import port_uses
from tilestitch.mapping.tree.quick_arrays import Arrays, arrays_of
from tilestitch.mapping.tree.spread_count import SpreadList, spread_list
from tilestitch.mapping.tree.tables import Sums
from tilestitch.mapping.tree.walk_checking import MOST_STATES, Walker, check_walked_chain, walker_of
from tilestitch.mapping.tree.walk_tables import walk_tables, with_windows

FEW_LABELS = 2**12  # after which tables of a choice are made, where its cycles count as well
OF_ANOTHER = "it is of another nest, machine, space of choices, width of sums or objective"
_Whole = NDArray[np.int64]


def check_free_certificate(
    certificate: FreeCertificate,
    bare: PlacedNest,
    space: SpatialSpace,
    sums: Sums,
    objective: Objective = Objective.ENERGY,
) -> Verdict:
    """Judge a proof over all choices. Raises `InputError` that says which claim is wrong."""
    claim = Claim(bare.nest.name, Optimum(objective, certificate.value))
    if certificate.problem != free_digest(bare, space, sums, objective):
        raise claim.wrong(OF_ANOTHER)
    choices = counted_choices(claim, certificate.choices, bare, space)
    placed = placement_of(claim, certificate.spread, certificate.slides, choices)
    if objective is Objective.ENERGY and counts_chains(bare):
        check_chain(claim, certificate.mapping, checker_tables(placed, sums))
    else:
        check_walked_chain(claim, certificate.value, certificate.mapping, walk_tables(placed, sums))
    if counts_chains(bare):
        check_count(claim, "the choice that it takes", certificate.chains, checker_tables(placed, sums))
    labels = judged_labels(claim, choices, sums, certificate.blocks)
    opened = sum(block.opened for block in certificate.blocks)
    return Verdict(len(choices), opened, certificate.chains or 0, labels)


def counted_choices(claim: Claim, said: int, bare: PlacedNest, space: SpatialSpace) -> SpreadList:
    """The list of all choices; refuses a proof that has more or fewer."""
    choices = spread_list(bare, space)
    if said != len(choices):
        raise claim.wrong(f"there are {len(choices):,} choices of what is spread, it says {said:,}")
    return choices


def judged_labels(claim: Claim, choices: SpreadList, sums: Sums, blocks: Sequence[ChoiceBlock]) -> int:
    """The labels that it took to see that no choice has a better chain than the claim, and that its blocks are so."""
    judge = _Judge(claim, choices, sums)
    right = blocks_of(judge.energies, choices.steps.prod(axis=1), mac_value(choices.bare), claim.best)
    _check_blocks(claim, blocks, right)
    return judge.labels_below()


def placement_of(claim: Claim, spread: Sequence[str], slides: Sequence[Slide], choices: SpreadList) -> PlacedNest:
    """The placement that spreads what a certificate says, which must be one of the choices."""
    bare = choices.bare
    numbers = {loop.name: number for number, loop in enumerate(bare.nest.loops)}
    found: list[Unrolled] = []
    for text in spread:
        words = text.split(" ")
        if len(words) != 3 or words[1] not in numbers or words[0] not in {axis.name for axis in bare.tree.axes}:
            raise claim.wrong(f'it spreads {printable(text, 80)}; expected an axis, a loop and a factor, as "D1 K 32"')
        try:
            found.append(Unrolled(words[0], numbers[words[1]], Fraction(words[2])))
        except (ValueError, ZeroDivisionError):
            raise claim.wrong(f"it spreads {printable(text, 80)}, where {words[2][:20]!r} is no factor") from None
    placed = replace(bare, unrolled=tuple(found))
    if not choices.has(found) or any(one.factor == 1 for one in found) or _repeats(found):
        raise claim.wrong(f"what it spreads is none of the choices: {', '.join(unrolled_texts(placed)) or 'nothing'}")
    for way in with_windows(placed):
        if (way.slides or ()) == tuple(slides):
            return way
    raise claim.wrong("windows slide where they cannot")


def _repeats(found: Sequence[Unrolled]) -> bool:
    return len({(one.axis, one.loop) for one in found}) < len(found)


def _check_blocks(claim: Claim, said: Sequence[ChoiceBlock], right: Sequence[ChoiceBlock]) -> None:
    if [block.steps for block in said] != [block.steps for block in right]:
        raise claim.wrong(
            f"there are {len(right):,} blocks of choices by their steps, it says others or in other order"
        )
    for one, other in zip(said, right, strict=True):
        for what, own, its in (
            ("choices", other.choices, one.choices),
            ("choices to be opened", other.opened, one.opened),
            ("choices that fit nothing", other.misfits, one.misfits),
        ):
            if own != its:
                raise claim.wrong(f"the block of {one.steps:,} steps has {own:,} {what}, it says {its:,}")
        if one.bound != other.bound:
            bounds = ["none" if bound is None else _said_bound(claim, bound) for bound in (other.bound, one.bound)]
            raise claim.wrong(f"the block of {one.steps:,} steps has the bound {bounds[0]}, it says {bounds[1]}")


def _said_bound(claim: Claim, bound: int) -> str:
    """A bound of a block, which of a front is one of energy."""
    return f"{bound:,} fJ" if claim.objective is Objective.PARETO else claim.best.said(bound)


class _Judge:
    """Goes through all choices of a nest; `energies` are their bounds, without arithmetic."""

    def __init__(self, claim: Claim, choices: SpreadList, sums: Sums) -> None:
        self._claim, self._choices, self._sums = claim, choices, sums
        self._bare = choices.bare
        self._operands = _moving(self._bare)
        self._task = task_of(self._operands, sums)
        self._ports, self._pauses = port_uses(self._operands), pauses_of(self._operands)
        self._is_loose = bounded_loosely(self._bare)
        self._spread = spread_of(choices, self._operands)
        self._heads = np.full(1 if self._is_loose else self._places(choices), -1, np.int32)
        steps = choices.steps.prod(axis=1)
        if claim.objective is Objective.ENERGY and not self._is_loose:
            walked = self._walk(np.arange(len(choices)), self._limits(steps), MOST_LABELS)
            self.energies = walked[:, 0]
            self._open, self._below = walked[:, 1] == SURVIVED, walked[:, 2]
        else:
            walked = self._walk(np.arange(len(choices)), np.zeros(len(choices), np.int64), MOST_LABELS)
            self.energies = walked[:, 0]
            self._open, self._below = self.energies < self._limits(steps), self.energies
        self._labels = int(walked[:, 3].sum())
        if claim.objective is not Objective.ENERGY and not self._is_loose:
            self._close(steps)

    def _limits(self, cycles: _Whole) -> _Whole:
        """With less energy than this, without arithmetic, a choice of so many cycles would have something better."""
        different, back = np.unique(cycles, return_inverse=True)
        limits = np.array([self._claim.best.energy_below(count) for count in different.tolist()], np.int64)
        return np.maximum(0, np.where(limits >= UNLIMITED, NEVER, limits - mac_value(self._bare)))[back]

    def _close(self, steps: _Whole) -> None:
        """Leave those open for which the cycles of the ports do not say enough, nor a short walk for their energies."""
        opened = np.flatnonzero(self._open)
        cycles = least_cycles_of(self._choices, self._sums, opened)
        limits = self._limits(np.maximum(steps[opened], cycles))
        self._open[opened] = self.energies[opened] < limits
        limited = (self.energies[opened] < limits) & (limits < NEVER)
        walked = self._walk(opened[limited], limits[limited], FEW_LABELS)
        self._open[opened[limited]] = np.isin(walked[:, 1], (SURVIVED, TOO_MANY))
        self._labels += int(walked[:, 3].sum())

    def _walk(self, numbers: _Whole, limits: _Whole, most: int) -> _Whole:
        """Of choices the least energy, how their walk ended, what a chain costs below the limit, and labels."""
        skipped = [self._is_loose and any(map(one.is_sliding, range(len(one.memories)))) for one in self._operands]
        over, under, steps = (part[numbers] for part in self._spread)
        found = judged(
            self._task, (over, under, steps), np.array(skipped, np.bool_), self._is_loose, limits, self._heads, most
        )
        if (found[:, 1] == TOO_LARGE).any():
            raise TooLarge(f"{self._claim.name}: energies above 5e14 pJ, or rooms as large, are not compared")
        if (found[:, 1] == BROKEN).any():
            raise InvalidIR(f"{self._claim.name}: the potentials of the checker do not hold on every edge")
        if most == MOST_LABELS and (found[:, 1] == TOO_MANY).any():
            raise self._claim.wrong(f"a choice is not settled with {MOST_LABELS:,} labels")
        return found

    def labels_below(self) -> int:
        """The labels that it took to see that no choice has a chain below the claim."""
        claim, labels = self._claim, self._labels
        opened = np.flatnonzero(self._open)
        for number in opened[np.lexsort(self._choices.steps[opened].T)].tolist():  # those with one lattice in turn
            if claim.objective is Objective.ENERGY and not self._is_loose:
                raise claim.better(self._named(number), int(self._below[number]) + mac_value(self._bare), 0)
            for walker in self._walkers(number):
                if walker.bound is not None and claim.best.is_above(*walker.bound):
                    labels += walker.labels_below()
        return labels

    def _walkers(self, number: int) -> Iterator[Walker]:
        """Walkers of a choice: for every way to let its windows slide."""
        named = partial(self._named, number)
        if not self._is_loose:
            over, under, steps = (part[number] for part in self._spread)
            at_units, cuts = tables_of_choice(self._task, self._ports, self._pauses, over, under, steps)
            if at_units >= 0:
                yield Walker(self._claim, named, cuts, at_units + mac_value(self._bare))
                return
        for placed in with_windows(self._choices.placement(number)):
            yield walker_of(self._claim, named, walk_tables(placed, self._sums))

    def _named(self, number: int) -> str:
        return f"spreading {', '.join(unrolled_texts(self._choices.placement(number))) or 'nothing'}"

    def _places(self, choices: SpreadList) -> int:
        """Places where labels may stand, of the largest choice."""
        tiles = 1
        for loop, table in enumerate(choices.tables):
            counts = np.array([_divisor_count(one.steps) for one in table], np.int64)
            tiles = tiles * counts[choices.options[:, loop]]
        states = 2 * prod(int(count) + 1 for count in np.diff(self._task.first))
        places = states * int(np.max(tiles, initial=1))
        if places > MOST_STATES:
            raise self._claim.wrong(f"a choice has {places:,} states; at most {MOST_STATES:,} are looked at")
        return places


def _divisor_count(number: int) -> int:
    count, one = 0, 1
    while one * one <= number:
        count += (number % one == 0) + (number % one == 0 and one * one < number)
        one += 1
    return count


def task_of(operands: Sequence[OperandOnTree], sums: Sums) -> Task:
    tree = operands[0].placed.tree
    arrays = arrays_of(operands)
    memories: list[int] = []
    first = [0]
    for one in operands:
        memories += [*([] if one.is_write else [-1]), *(tree.memories.index(memory) for memory in one.memories)]
        first.append(len(memories))
    return Task(
        arrays,
        _early(arrays, sums),
        np.array(first, np.int64),
        np.array(memories, np.int64),
        np.array([memories.count(number) for number in range(len(tree.memories))], np.int64),
        np.array([memory.size_bits for memory in tree.memories], np.int64),
        sums is Sums.FINAL,
    )


def least_cycles_of(choices: SpreadList, sums: Sums, numbers: _Whole) -> _Whole:
    """Below how many cycles no mapping of some choices comes; not where networks, windows or places matter."""
    operands = _moving(choices.bare)
    over, under, steps = (part[numbers] for part in spread_of(choices, operands))
    return least_cycles(task_of(operands, sums), port_uses(operands), (over, under, steps))


def _moving(bare: PlacedNest) -> tuple[OperandOnTree, ...]:
    """The operands that move anything."""
    return tuple(one for one in operands_on_tree(bare) if one.array.element_bits > 0)


def spread_of(choices: SpreadList, operands: Sequence[OperandOnTree]) -> tuple[_Whole, _Whole, _Whole]:
    """What choices spread over the fan-outs of each operand, as numerators and denominators, and their steps."""
    levels = max(len(one.memories) for one in operands) + 1
    pairs = [choices.over_fan_outs(one.number, levels) for one in operands]
    over, under = (np.stack([pair[part] for pair in pairs], axis=1) for part in (0, 1))
    return over, under, choices.steps


def _early(arrays: Arrays, sums: Sums) -> Arrays:
    """The operands where completing sums early is never worse.

    A complete sum is no wider than a partial one, and where memories store sums at their final width it takes no second
    buffer.
    """
    bits, buffers = arrays.bits.copy(), arrays.buffers.copy()
    bits[-1, 1] = bits[-1].min()
    if sums is Sums.FINAL:
        buffers[-1] = 1
    return arrays._replace(bits=bits, buffers=buffers)
