"""A loop nest with the names that a machine has for its operands, and what the wiring of its axes lets be spread."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod

from tilestitch.base.errors import InputError
from tilestitch.hardware.tree import ROLES, MachineTree
from tilestitch.ir.loop_nest import LoopNest, LoopOperand
from tilestitch.mapping.tree.choices import SpatialSpace
from tilestitch.mapping.tree.countable import countable
from tilestitch.mapping.tree.placed import PlacedNest, placed_faults


def bound(nest: LoopNest, final_bits: int, tree: MachineTree, *, widest: bool = False) -> PlacedNest:
    """A nest with what the machine calls its operands, and nothing spread; complete results have `final_bits`.

    An operand has its own name where the machine knows it; else the name that the machine has for its role: its
    first or second input, by name or else by place, or the result. Raises `InputError` where that is no name for each,
    and for an index of more than two loops, unless the two `widest` will do.
    """
    names = [array.name for array in nest.operands]
    homes = names if set(names) <= set(tree.operands) else _by_role(names, tree)
    placed = PlacedNest(countable(nest, widest=widest), final_bits, tuple(homes), (), tree)
    for fault in placed_faults(placed):
        raise InputError(f"layer {nest.name}: {fault}")
    return placed


def as_wide(nest: LoopNest, bits: int, sum_bits: int) -> LoopNest:
    """A nest with elements and sums of other widths; what has no bits, as nothing of it moves, keeps none."""
    reads = tuple(_as_wide(array, bits) for array in nest.reads)
    return replace(nest, reads=reads, write=_as_wide(nest.write, sum_bits))


def _as_wide(array: LoopOperand, bits: int) -> LoopOperand:
    return replace(array, element_bits=bits) if array.element_bits else array


def wired(placed: PlacedNest, space: SpatialSpace) -> SpatialSpace:
    """The choices of a space that the axes of a machine allow.

    Those that name operands take loops that go through exactly these. Along those outside every memory of the result,
    as that of clusters with a DRAM each, nothing can be added up: they take loops of the result.
    """
    only, result = dict(space.only), placed.homes[-1]
    apart = placed.tree.fan_outs(result)[-1]
    for axis in placed.tree.axes:
        if not axis.operands and axis.name not in apart:
            continue
        loops: list[str] = []
        for number, loop in enumerate(placed.nest.loops):
            operands = _operands_of(placed, number)
            is_of_axis = not axis.operands or operands == set(axis.operands)
            if is_of_axis and (axis.name not in apart or result in operands):
                loops.append(loop.name)
        only[axis.name] = tuple(name for name in only.get(axis.name, loops) if name in loops) or ("",)
    return replace(space, only=only)


def most_units(placed: PlacedNest) -> int:
    """How many units work in a step at most, whatever is spread: those along each axis, and of a loop its extent.

    What axes and the loops that they may take let through together is the least that cuts them apart.
    """
    only, loops, axes = wired(placed, SpatialSpace()).only, placed.nest.loops, placed.tree.axes
    taken = [
        {at for at, loop in enumerate(loops) if axis.name not in only or loop.name in only[axis.name]} for axis in axes
    ]
    least = placed.tree.units
    for by_loops in product((False, True), repeat=len(axes)):
        cut = set().union(*(of_axis for of_axis, is_cut in zip(taken, by_loops, strict=True) if is_cut))
        along = prod(axis.size for axis, is_cut in zip(axes, by_loops, strict=True) if not is_cut)
        least = min(least, along * prod(loops[at].extent for at in cut))
    return least


def _operands_of(placed: PlacedNest, loop: int) -> set[str]:
    """What the machine calls the operands that a loop goes through."""
    return {home for home, array in zip(placed.homes, placed.nest.operands, strict=True) if loop in array.indexed_by}


def _by_role(names: Sequence[str], tree: MachineTree) -> list[str]:
    roles = [next((role for role in (0, 1) if name in ROLES[role]), -1) for name in names[:-1]]
    if sorted(roles) != [0, 1]:
        roles = list(range(len(names) - 1))
    homes: list[str] = []
    for name, role in zip(names, (*roles, len(ROLES) - 1), strict=True):
        known = [one for one in ROLES[min(role, len(ROLES) - 1)] if one in tree.operands]
        homes.append(name if name in tree.operands else known[0] if known else "")
    if len(names) != len(ROLES) or "" in homes or len(set(homes)) != len(homes):
        raise InputError(
            f"machine {tree.name}: its memories hold {', '.join(tree.operands)}; the operands of the layer are "
            f"{', '.join(names)}; expected those names in the machine, or I, W and O for two inputs and a result"
        )
    return homes
