"""Layers for machine trees that need no mapping file: of networks, of einsum, of other programs' files."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilestitch.base.errors import InputError
from tilestitch.base.text_files import file_text
from tilestitch.commands.map.sources import MAX_YAML_BYTES, Nests
from tilestitch.formats.zigzag.tree_workload import ZigzagLayer, zigzag_tree_layers
from tilestitch.hardware.tree import MachineTree
from tilestitch.ir.loop_nest import LoopOperand
from tilestitch.mapping.tree.choices import SpatialSpace
from tilestitch.mapping.tree.placed import PlacedNest, placed_faults

SUMS_AS_RESULTS = "sums that are added to have the width of results, as in the nests of the network"
# What nests and machines call the first operand that is read, the second, and the result.
ROLES = (
    ("I", "I1", "A", "Input", "Inputs"),
    ("W", "I2", "B", "Weight", "Weights"),
    ("O", "C", "Z", "Output", "Outputs"),
)


@dataclass(frozen=True, slots=True)
class TreeLayer(ZigzagLayer):
    """A layer of any source, and how often it is there."""

    times: int = 1


def is_zigzag_workload(model: str) -> bool:
    """Whether a file has ZigZag's layers, which say more than nests do: bits of partial and of complete sums."""
    path = Path(model)
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return False
    text = file_text(path, "YAML", MAX_YAML_BYTES)
    return re.search(r"^\s*-?\s*operator_type\s*:", text, re.MULTILINE) is not None


def is_timeloop_problem(model: str) -> bool:
    """Whether a file has Timeloop's problem, which says nothing of bits: they are those of the machine's words."""
    path = Path(model)
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return False
    return re.search(r"^\s*problem\s*:", file_text(path, "YAML", MAX_YAML_BYTES), re.MULTILINE) is not None


def with_words(
    layers: Sequence[TreeLayer], tree: MachineTree, bits: Mapping[str, tuple[int, int]]
) -> tuple[TreeLayer, ...]:
    """The layers with elements of a machine's words: `bits` are those of the innermost and outermost memory of each."""
    found: list[TreeLayer] = []
    for layer in layers:
        homes = bound_nest(layer, tree).homes
        reads = tuple(
            replace(array, element_bits=bits[home][0]) for array, home in zip(layer.nest.reads, homes, strict=False)
        )
        write = replace(layer.nest.write, element_bits=bits[homes[-1]][0])
        nest = replace(layer.nest, reads=reads, write=write)
        found.append(replace(layer, nest=nest, final_bits=bits[homes[-1]][1]))
    return tuple(found)


def as_wide_as_on(
    tree: MachineTree, layers: Sequence[TreeLayer], notes: Sequence[str]
) -> tuple[tuple[TreeLayer, ...], tuple[str, ...]]:
    """The layers with elements and sums of the widths that the machine states, if it does, and notes on them."""
    bits, sum_bits = tree.bits, tree.sum_bits
    if bits is None or sum_bits is None:
        return tuple(layers), tuple(notes)
    found: list[TreeLayer] = []
    for layer in layers:
        reads = tuple(_as_wide(array, bits) for array in layer.nest.reads)
        nest = replace(layer.nest, reads=reads, write=_as_wide(layer.nest.write, sum_bits))
        found.append(replace(layer, nest=nest, final_bits=bits))
    kept = [note for note in notes if note != SUMS_AS_RESULTS]
    note = f"elements have {bits} bits, and {sum_bits} while they are added to, as on {tree.name}"
    return tuple(found), (*kept, note)


def _as_wide(array: LoopOperand, bits: int) -> LoopOperand:
    return replace(array, element_bits=bits) if array.element_bits else array  # of no bits: nothing is moved


def zigzag_layers_of(model: str) -> tuple[str, tuple[TreeLayer, ...], tuple[str, ...]]:
    """The layers of ZigZag's file with its name, and notes."""
    path = Path(model)
    layers, notes = zigzag_tree_layers(file_text(path, "YAML", MAX_YAML_BYTES), path.name)
    return path.stem, tuple(TreeLayer(one.nest, one.final_bits, one.operator) for one in layers), notes


def layers_of_nests(nests: Nests) -> tuple[tuple[TreeLayer, ...], tuple[str, ...]]:
    """The nests of a network as they are: their sums have the width of results, partial ones as well."""
    notes = [SUMS_AS_RESULTS]
    if nests.unmapped:
        kinds = ", ".join(f"{kind} {count}" for kind, count in nests.unmapped.items())
        notes.append(f"operators without products are not in it: {kinds}")
    found = (TreeLayer(one.nest, one.nest.write.element_bits, one.nest.kind, one.times) for one in nests.layers)
    return tuple(found), tuple(notes)


def bound_nest(layer: TreeLayer, tree: MachineTree) -> PlacedNest:
    """A layer with what the machine calls its operands, and nothing spread.

    An operand has its own name where the machine knows it; else the name that the machine has for its role: its
    first or second input, by name or else by place, or the result. Raises `InputError` where that is no name for each.
    """
    names = [array.name for array in layer.nest.operands]
    homes = names if set(names) <= set(tree.operands) else _by_role(names, tree)
    placed = PlacedNest(layer.nest, layer.final_bits, tuple(homes), (), tree)
    for fault in placed_faults(placed):
        raise InputError(f"layer {layer.nest.name}: {fault}")
    return placed


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
