"""What the readers of other programs' hierarchies share: energies from a table, and parts in a row as a tree."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tilestitch.formats.foreign_file import Part, yaml_file
from tilestitch.hardware.tree import NO_LIMIT, Axis, MachineTree, TreeMemory, tree_faults

MAX_UNITS = 2**24
MAX_BITS = NO_LIMIT  # of a memory; one without an end has so many
MAX_WIDTH = 2**24
UNLIMITED = NO_LIMIT  # bits a cycle of a port without a rate
EnergyTable: TypeAlias = Mapping[str, Mapping[str, float]]  # picojoules by component and action
READS = ("read", "random_read")
WRITES = ("write", "random_write", "random_fill", "update")
COMPUTES = ("compute", "mac_random", "mac", "multiply")


@dataclass(frozen=True, slots=True)
class ForeignTree:
    """The tree of another program's file, and what the file restricts besides."""

    tree: MachineTree
    notes: tuple[str, ...] = ()
    factors: Mapping[tuple[str, str], int] = field(default_factory=dict)  # spread, by axis and loop
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # loops by axis
    steps: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)  # least and most, by memory and loop
    bits: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # of operands: innermost and outermost
    meshes: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)  # axes along X and Y, by target
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # loops from the innermost, by memory
    loops: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # all that constraints name, by their target


def energy_table(text: str, where: str) -> EnergyTable:
    """Energies of actions from an ERT, the file that Accelergy writes. Raises `InputError` for what is none.

    Of rows of one action with different arguments the dearest counts.
    """
    entries = yaml_file(text, where).entries()
    if "ERT" not in entries:
        yaml_file(text, where).refuse("the field ERT is missing: energies are those of an ERT, as Accelergy writes it")
    return ert_energies(entries["ERT"])


def ert_energies(part: Part) -> EnergyTable:
    """The picojoules of each action of each component; a name is its last part, without its range."""
    found: dict[str, dict[str, float]] = {}
    for table in part.fields(("tables",), ("version",))["tables"].items("tables"):
        fields = table.fields(("name", "actions"), ("area",))
        here = found.setdefault(plain_component(fields["name"].text("a name")), {})
        for action in fields["actions"].items("actions", least=0):
            row = action.fields(("name", "energy"), ("arguments",))
            name = row["name"].text("an action")
            here[name] = max(here.get(name, 0.0), row["energy"].energy())
    return found


def plain_component(name: str) -> str:
    """`mac` of `system.PE[0..3].mac[1..16]`."""
    return re.sub(r"\[[^]]*\]", "", name).rpartition(".")[2]


def action_pj(table: EnergyTable, component: str, actions: Sequence[str], node: Part) -> float:
    """The energy of the first of some actions that a component has. Refuses where the table has none."""
    known = table.get(component, {})
    for action in actions:
        if action in known:
            return known[action]
    if not table:
        node.refuse(
            f"{component}: the file has no energies; write --energies FILE with an ERT as Accelergy writes it, or the "
            "ERT into this file"
        )
    found = f"it has {', '.join(known)}" if known else f"it has {', '.join(table)}"
    node.refuse(f"{component}: the table of energies has no {actions[0]} of it; {found}")


def tree_of_parts(
    name: str,
    parts: Sequence[TreeMemory | Axis],
    mac_pj: float,
    description: str,
    clock_hz: int | None,
    file: Part,
) -> MachineTree:
    """The tree of memories and fan-outs from the outermost inwards; every memory serves the axes after it."""
    memories: list[TreeMemory] = []
    for at, part in enumerate(parts):
        if isinstance(part, TreeMemory):
            serves = tuple(axis.name for axis in parts[at + 1 :] if isinstance(axis, Axis))
            memories.append(replace(part, serves=serves))
    axes = tuple(part for part in parts if isinstance(part, Axis))
    names = [part.name for part in parts]
    for one in names:
        if names.count(one) > 1:
            file.refuse(f"two parts have the name {one}; give each a name of its own")
    tree = MachineTree(name, axes, tuple(reversed(memories)), mac_pj, description, clock_hz)
    if not 1 <= tree.units <= MAX_UNITS:
        file.refuse(f"expected at most {MAX_UNITS:,} units together, found {tree.units:,}")
    for part, fault in tree_faults(tree):
        file.refuse(f"{part}: {fault}")
    return tree
