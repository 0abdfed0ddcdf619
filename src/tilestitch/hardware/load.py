"""Machines to compile for, from YAML: what a file says of a chip becomes an `Accelerator`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tilestitch.base.errors import InputError, printable
from tilestitch.base.html import Record
from tilestitch.base.shown import Shown, as_kind
from tilestitch.base.text_files import file_text
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.hardware.chip import chip_of, layout_of, missing
from tilestitch.hardware.describe import describe
from tilestitch.hardware.fields import closest
from tilestitch.hardware.file_models import CHIP_PARTS, MachineModel
from tilestitch.hardware.preset_files import preset_names, preset_text
from tilestitch.hardware.read_file import MAX_FILE_BYTES, ONE_PAGE, checked, parsed
from tilestitch.hardware.tree_chip import chip_of_tree, missing_of, with_inside
from tilestitch.hardware.tree_file import multiplier_of, tree_of_model
from tilestitch.hardware.tree_svg import tree_svg
from tilestitch.hardware.yaml_path import known_path, replaced, tree_of
from tilestitch.hardware.yaml_tree import Tree, quoted, read_tree, tree_text


@dataclass(frozen=True, repr=False)
class Machine(Accelerator, Shown):
    """An accelerator with the YAML text that describes it."""

    yaml: str = field(default="", compare=False, repr=False)

    def with_(self, path: str, value: object) -> "Machine":
        """The machine with another value at a place of its YAML form, such as `memories.ddr.bandwidth_bytes_per_cycle`.

        Entries of lists go by their `name`, where they have one, or by their positions: `axes.core.size`,
        `cores.0.matrix`. Raises
        `InputError` for a place that there is not, and for what the machine cannot be.
        """
        where = f"machine {printable(self.name, 80)}"
        if not isinstance(path, str):
            raise InputError(f"{where}: expected a path such as 'memories.ddr.size', found {path!r:.60}")
        tree = read_tree(self.yaml_text(), where, [])
        at = known_path(tree, path, f"{where}: with_ {printable(path, 80)!r}")
        return _machine(replaced(tree, at, tree_of(value, f"{where}: {path}")), where)

    def yaml_text(self) -> str:
        """Its YAML form; refused where it was changed by other means than `with_`, and has none."""
        where = f"machine {printable(self.name, 80)}"
        if _machine(read_tree(self.yaml, where, []), where) != self:
            raise InputError(
                f"{where}: was changed in Python by other means, so that its YAML form is out of date; make every "
                "change by with_, or load the machine from a file or a dict"
            )
        return self.yaml

    def heading(self) -> str:
        """Its name and what it is."""
        return str(self)

    def records(self) -> tuple[Record, ...]:
        """Its memories."""
        return tuple(
            {
                "memory": str(one.level),
                "per": str(one.sharing),
                "size_bytes": one.size_bytes,
                "bandwidth_bytes_per_cycle": float(one.bandwidth_bytes_per_cycle),
                "burst_bytes": one.burst_bytes,
                "read_pj_per_byte": one.read_pj_per_byte,
                "write_pj_per_byte": one.write_pj_per_byte,
            }
            for one in self.memories
        )

    def pictures(self) -> tuple[str, ...]:
        """Its memories, one above another, down to the units that multiply; none of a machine without those."""
        model = parsed(self.yaml_text(), f"machine {printable(self.name, 80)}")[1]
        is_chip = model.cores is not None
        return () if is_chip and multiplier_of(model) is None else (tree_svg(tree_of_model(model)),)

    def page(self) -> str:
        """Units, peaks and memories."""
        return describe(self)


def load_machine(machine: str | Path | Mapping[str, object]) -> Machine:
    """The preset of that name, the machine in that file, or the one that a dict says as such a file would.

    A `Path` is always a file, so a file called like a preset can be read too. Raises `InputError` for everything else,
    and for a tree that compile does not take.
    """
    if isinstance(machine, Mapping):
        return _machine(tree_of(machine, "machine"), "machine")
    if not isinstance(machine, str | Path):
        found = f"{type(machine).__name__} {printable(repr(machine), 50)}"
        raise InputError(f"machine: expected a name, the path of a YAML file or a dict, found {found}")
    return parse_machine(*machine_text(machine))


def machine_text(name_or_path: str | Path) -> tuple[str, str]:
    """The text of a machine, and what its errors begin with."""
    if isinstance(name_or_path, str) and name_or_path in preset_names():
        return preset_text(name_or_path), f"{name_or_path}.yaml"
    return _file_text(name_or_path), printable(str(name_or_path))


def parse_machine(text: str, where: str) -> Machine:
    """The machine that a YAML text describes; `where` begins each line of an error, which lists every mistake."""
    return _of_model(*parsed(text, where), where)


def _machine(tree: Tree, where: str) -> Machine:
    return _of_model(tree, checked(tree, [], where), where)


def _of_model(tree: Tree, model: MachineModel, where: str) -> Machine:
    """The machine of a model, refused with everything that compile misses."""
    if reasons := not_compiled(model):
        raise InputError(
            f"{where}: is a machine for map, simulate, validate and show machine; compile does not take it yet, "
            f"because {'; '.join(reasons)}"
        )
    return as_kind(Machine, _chip(model), yaml=tree_text(tree))


def _chip(model: MachineModel) -> Accelerator:
    """The accelerator of a machine that compile takes."""
    if _is_tree_alone(model):
        return chip_of_tree(tree_of_model(model))
    chip, layout = chip_of(model), layout_of(model)
    if not layout.others:
        return chip
    local = next(place.name for place in layout.places if place.level is Level.LB)
    return with_inside(chip, tree_of_model(model), local)


def not_compiled(model: MachineModel) -> list[str]:
    """Why a machine is not one to compile for; empty where it is."""
    return list(missing_of(tree_of_model(model)) if _is_tree_alone(model) else missing(model))


def _is_tree_alone(model: MachineModel) -> bool:
    return all(getattr(model, part) is None for part in CHIP_PARTS)


def _file_text(path: str | Path) -> str:
    name = str(path)
    return file_text(
        path,
        "YAML",
        MAX_FILE_BYTES,
        subject=f"machine {quoted(name)}",
        missing=(
            f"expected the name of a preset or the path of a file, found neither{closest(name, preset_names())}; known "
            f"presets: {', '.join(preset_names())}; for a machine of your own write the path of its file, ending in "
            ".yaml"
        ),
        advice=ONE_PAGE,
    )
