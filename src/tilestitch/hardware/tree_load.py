"""Machines as trees by name or from a file, as values that show themselves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tilestitch.base.errors import InputError
from tilestitch.base.html import Record
from tilestitch.base.shown import Shown, as_kind
from tilestitch.hardware.file_models import MachineModel
from tilestitch.hardware.load import Machine, machine_text, not_compiled, parse_machine
from tilestitch.hardware.read_file import checked, parsed
from tilestitch.hardware.tree import MachineTree
from tilestitch.hardware.tree_describe import describe_tree
from tilestitch.hardware.tree_file import multiplier_of, tree_of_model
from tilestitch.hardware.tree_svg import tree_svg
from tilestitch.hardware.unit_models import UnitKind, unit_kind
from tilestitch.hardware.yaml_path import tree_of
from tilestitch.hardware.yaml_tree import Tree, read_tree, tree_text


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
        """Memories with their ports, fan-outs and units, and why compile does not take it, if it does not."""
        reasons = not_compiled(parsed(self.yaml, self.name)[1])
        why = f"\ncompile does not take it: {'; '.join(reasons)}\n" if reasons else ""
        return describe_tree(self) + why


def load_tree(machine: str | Path | Mapping[str, object]) -> TreeMachine:
    """The tree of memories of the machine of that name, in that file, or of the one that a dict says.

    A `Path` is always a file. Of a chip it is that of the cores that multiply, with the axes of their unit. Raises
    `InputError` for everything else, and for a chip without a unit that multiplies.
    """
    if isinstance(machine, Mapping):
        found = tree_of(machine, "machine")
        return _of_model(found, checked(found, [], "machine"), "machine")
    return parse_tree(*machine_text(machine))


def parse_tree(text: str, where: str) -> TreeMachine:
    """The machine tree that a YAML text describes; `where` begins each line of an error."""
    return _of_model(*parsed(text, where), where)


def _of_model(found: Tree, model: MachineModel, where: str) -> TreeMachine:
    if model.units is not None and multiplier_of(model) is None:
        raise InputError(f"{where}: none of its cores has a matrix unit or an array, so nothing can be mapped on it")
    return as_kind(TreeMachine, tree_of_model(model), yaml=tree_text(found))


def load_either(machine: str | Path) -> Machine | TreeMachine:
    """The machine of that name or in that file: a chip where it says all that one needs, else a tree.

    Raises `InputError` likewise.
    """
    return parse_either(*machine_text(machine))


def parse_either(text: str, where: str) -> Machine | TreeMachine:
    """The machine that a YAML text describes: a chip where it says all that one needs, else a tree."""
    found, model = parsed(text, where)
    is_chip = model.cores is not None and (multiplier_of(model) is None or not not_compiled(model))
    return parse_machine(text, where) if is_chip else _of_model(found, model, where)


def has_array(machine: str | Path) -> bool:
    """Whether the cores of a machine have arrays of processing elements, which have a mapper of their own.

    Not where there is no such machine or file, or it is no YAML.
    """
    try:
        found = read_tree(machine_text(machine)[0], str(machine), [])
    except InputError:
        return False
    units = found.get("units") if isinstance(found, dict) else None
    return isinstance(units, dict) and any(unit_kind(one) == UnitKind.ARRAY for one in units.values())
