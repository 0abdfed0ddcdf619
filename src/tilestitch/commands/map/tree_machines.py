"""A machine tree from what a user names: ours by name or file, or the file of another program."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from tilestitch.base.errors import InputError
from tilestitch.base.text_files import file_text
from tilestitch.commands.map.sources import MAX_YAML_BYTES
from tilestitch.commands.map.tree_constraints import Constraints, constraints_of
from tilestitch.commands.map.tree_sources import TreeLayer
from tilestitch.formats.accelforge.expressions import TENSORS
from tilestitch.formats.accelforge.tree_machine import accelforge_tree
from tilestitch.formats.foreign_tree import EnergyTable, energy_table
from tilestitch.formats.timeloop.tree_machine import timeloop_tree
from tilestitch.formats.zigzag.tree_machine import zigzag_tree
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.hardware.array_machine import array_of_core
from tilestitch.hardware.chip import OPERANDS
from tilestitch.hardware.load import load_machine, machine_text
from tilestitch.hardware.tree import MachineTree
from tilestitch.hardware.tree_load import has_array, load_tree, parse_tree

_PROGRAMS = {"operational_array": "ZigZag", "architecture": "Timeloop", "arch": "AccelForge"}


@dataclass(frozen=True, slots=True)
class OpenedTree:
    """A tree, what its file restricts, and notes on what was read otherwise than it stands there."""

    tree: MachineTree
    notes: tuple[str, ...] = ()
    constraints: Constraints = field(default_factory=Constraints)
    bits: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # of operands: innermost and outermost
    has_own_bits: bool = False  # whatever layers say
    program: str = ""  # whose file it is; nothing for ours
    meshes: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)  # axes along X and Y, by target


GivenTree: TypeAlias = str | MachineTree | OpenedTree


def program_of(text: str) -> str:
    """The program that a text describes a machine for, by its key at the top; nothing for one of ours."""
    for key, program in _PROGRAMS.items():
        if re.search(rf"^{key}\s*:", text, re.MULTILINE) is not None:
            return program
    return ""


def is_accelforge_file(machine: str) -> bool:
    """Whether a name is that of a file of AccelForge, which is always a tree."""
    path = Path(machine)
    if path.suffix not in (".yaml", ".yml") or not path.is_file():
        return False
    return program_of(file_text(path, "YAML", MAX_YAML_BYTES)) == "AccelForge"


def uneven_array(machine: str | Path) -> OpenedTree:
    """The tree of a PE array whose operands may change at places of their own in every memory.

    Raises `InputError` for a machine without such an array.
    """
    if not has_array(machine):
        raise InputError("--storage goes with a PE array; the file of a tree says storage for each of its memories")
    return uneven_tree(load_tree(machine), load_machine(machine))


def uneven_tree(tree: MachineTree, machine: Accelerator) -> OpenedTree:
    """The tree of a machine with a PE array, where operands change at places of their own in every memory."""
    memories = tuple(replace(memory, has_even_storage=False) for memory in tree.memories)
    note = (
        "storage: uneven is a question, as the controller of a PE array stores evenly; energies are those of the "
        "array's model, cycles those of a tree, without the set-up of DMA and the pipelines"
    )
    widths = array_of_core(machine).operand_bits
    bits = {} if widths is None else {name: (each, each) for name, each in zip(OPERANDS, widths, strict=True)}
    return OpenedTree(replace(tree, memories=memories), (note,), bits=bits, has_own_bits=True)


def open_tree(machine: GivenTree, energies: Path | None = None, layers: Sequence[TreeLayer] = ()) -> OpenedTree:
    """The tree of a name or file, or one that is given.

    `energies` is a table for those of Timeloop and AccelForge that have none.

    Raises `InputError` for what is wrong with a file, or what a tree cannot say.
    """
    if isinstance(machine, OpenedTree):
        return machine
    if isinstance(machine, MachineTree):
        return OpenedTree(machine)
    text, where = machine_text(machine)
    where = Path(where).name
    table: EnergyTable = {}
    if energies is not None:
        table = energy_table(file_text(energies, "YAML", MAX_YAML_BYTES), energies.name)
    loops = [loop.name for layer in layers for loop in layer.nest.loops]
    program = program_of(text)
    match program:
        case "ZigZag":
            return OpenedTree(*zigzag_tree(text, where), program=program)
        case "Timeloop":
            foreign = timeloop_tree(text, where, table, loops)
        case "AccelForge":
            foreign = accelforge_tree(text, where, table, _bits(layers), _names(layers))
        case _:
            return OpenedTree(parse_tree(text, where))
    notes = tuple(f"{where}: {note}" for note in foreign.notes)
    fixed = constraints_of(foreign, where, loops)
    return OpenedTree(foreign.tree, notes, fixed, foreign.bits, program=program, meshes=foreign.meshes)


def _bits(layers: Sequence[TreeLayer]) -> dict[str, int]:
    """The bits of a value of each tensor of a product, where all layers have the same."""
    found: dict[str, int] = {}
    for place, name in enumerate(TENSORS):
        bits = {layer.nest.operands[place].element_bits for layer in layers if len(layer.nest.operands) == len(TENSORS)}
        if len(bits) == 1:
            found[name] = bits.pop()
    return found


def _names(layers: Sequence[TreeLayer]) -> dict[str, str]:
    """What layers call the tensors of a product, where all of them mean the same by a name; also as files write it."""
    found: dict[str, str] = {}
    for layer in layers:
        if len(layer.nest.operands) == len(TENSORS):
            for array, role in zip(layer.nest.operands, TENSORS, strict=True):
                if found.setdefault(array.name, role) != role:
                    return {}
    return {**found, **{f"{name}_": role for name, role in found.items()}}
