"""Machines as trees by name or from a file, as values that show themselves."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tilestitch.base.errors import InputError, printable
from tilestitch.base.html import Record
from tilestitch.base.shown import Shown, as_kind
from tilestitch.base.text_files import file_text
from tilestitch.hardware.fields import closest
from tilestitch.hardware.load import Machine, load_machine
from tilestitch.hardware.preset_files import is_tree_file, preset_names, preset_text, tree_names
from tilestitch.hardware.tree import MachineTree
from tilestitch.hardware.tree_describe import describe_tree
from tilestitch.hardware.tree_file import tree_of_file
from tilestitch.hardware.tree_svg import tree_svg
from tilestitch.hardware.yaml_path import tree_of
from tilestitch.hardware.yaml_tree import Mistake, quoted, read_tree, tree_text

MAX_FILE_BYTES = 256 * 1024


@dataclass(frozen=True, repr=False)
class TreeMachine(MachineTree, Shown):
    """A machine tree with the YAML text that describes it."""

    yaml: str = field(default="", compare=False, repr=False)

    def heading(self) -> str:
        """Its name and what it is."""
        return f"{self.name}: {self.description}" if self.description else self.name

    def records(self) -> tuple[Record, ...]:
        """Its memories, the outermost first."""
        return tuple(
            {
                "memory": one.name,
                "instances": self.instances(one),
                "size_bytes": one.size_bits // 8 if one.size_bits % 8 == 0 else one.size_bits / 8,
                "operands": ", ".join(one.operands),
                "width_bits": max(port.width_bits for port in one.ports) if one.ports else 0,
                "bandwidth_bits_per_cycle": float(sum(port.bits_per_cycle for port in one.ports)),
                "read_pj": one.read_pj,
                "write_pj": one.write_pj,
            }
            for one in reversed(self.memories)
        )

    def pictures(self) -> tuple[str, ...]:
        """Its memories, one above another, down to the units."""
        return (tree_svg(self),)

    def page(self) -> str:
        """Memories with their ports, fan-outs and units."""
        return describe_tree(self)


def load_tree(machine: str | Path | Mapping[str, object]) -> TreeMachine:
    """The machine tree of that name, in that file, or the one that a dict says as such a file would.

    A `Path` is always a file. Raises `InputError` for everything else, machines of clusters and cores among it.
    """
    if isinstance(machine, Mapping):
        found = tree_of(machine, "machine")
        return as_kind(TreeMachine, tree_of_file(found, [], "machine"), yaml=tree_text(found))
    return parse_tree(*tree_file_text(machine))


def parse_tree(text: str, where: str) -> TreeMachine:
    """The machine tree that a YAML text describes; `where` begins each line of an error."""
    mistakes: list[Mistake] = []
    found = read_tree(text, where, mistakes)
    return as_kind(TreeMachine, tree_of_file(found, mistakes, where), yaml=tree_text(found))


def tree_file_text(machine: str | Path) -> tuple[str, str]:
    """The text of a tree by name or path, and what its errors begin with."""
    if isinstance(machine, str) and machine in tree_names():
        return preset_text(machine), f"{machine}.yaml"
    name = str(machine)
    if isinstance(machine, str) and machine in preset_names():
        raise InputError(
            f"machine {quoted(name)}: has clusters and cores, and is no tree of memories; known trees: "
            f"{', '.join(tree_names())}"
        )
    missing = (
        f"expected the name of a tree or the path of a file, found neither{closest(name, tree_names())}; known trees: "
        f"{', '.join(tree_names())}; for a tree of your own write the path of its file, ending in .yaml"
    )
    text = file_text(machine, "YAML", MAX_FILE_BYTES, subject=f"machine {quoted(name)}", missing=missing)
    return text, printable(name)


def load_either(machine: str) -> Machine | TreeMachine:
    """The machine of that name or in that file, in the form that it has. Raises `InputError` for everything else."""
    if is_tree_machine(machine):
        return load_tree(machine)
    if machine not in preset_names() and not os.path.exists(machine):
        raise InputError(
            f"machine {quoted(machine)}: expected the name of a preset or the path of a file, found neither"
            f"{closest(machine, (*preset_names(), *tree_names()))}; known presets: {', '.join(preset_names())}; trees: "
            f"{', '.join(tree_names())}; for a machine of your own write the path of its file, ending in .yaml"
        )
    return load_machine(machine)


def is_tree_machine(machine: str | Path) -> bool:
    """Whether a name or the path of a file is that of a tree; not where there is no such file, or it is no YAML."""
    if isinstance(machine, str) and machine in (*tree_names(), *preset_names()):
        return machine in tree_names()
    try:
        text = file_text(machine, "YAML", MAX_FILE_BYTES)
        return is_tree_file(read_tree(text, str(machine), []))
    except InputError:
        return False
