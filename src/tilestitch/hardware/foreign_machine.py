"""A machine from the file of another program, whichever it is."""

from dataclasses import dataclass

from tilestitch.errors import InputError
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.hardware.dmazerunner_json import dmazerunner_machine
from tilestitch.hardware.foreign_file import yaml_file
from tilestitch.hardware.timeloop_yaml import TAGS, TimeloopTargets, timeloop_machine
from tilestitch.hardware.zigzag_yaml import zigzag_machine


@dataclass(frozen=True, slots=True)
class ForeignMachine:
    """The machine, notes on what its file says otherwise, and the names by which Timeloop's mappings call its parts."""

    machine: ArrayMachine
    notes: tuple[str, ...] = ()
    targets: TimeloopTargets | None = None


def foreign_machine(text: str, where: str, base: ArrayMachine) -> ForeignMachine:
    """The machine that a text of dMazeRunner, Timeloop or ZigZag describes; what it leaves open is that of `base`."""
    if text.lstrip().startswith("{"):
        machine, options = dmazerunner_machine(text, where)
        notes = tuple(f"{name} {value} is an option of a search, and not used here" for name, value in options)
        return ForeignMachine(machine, notes)
    keys = yaml_file(text, where, tags=TAGS).entries()
    if "architecture" in keys:
        machine, targets = timeloop_machine(text, where, base)
        return ForeignMachine(machine, (f"energies and set-up of DMA are those of {base.name}",), targets)
    if "operational_array" in keys:
        machine, notes = zigzag_machine(text, where, base)
        return ForeignMachine(machine, (*notes, f"clock and set-up of DMA are those of {base.name}"))
    raise InputError(
        f"{where}: expected a machine of dMazeRunner (JSON), Timeloop (architecture) or ZigZag (operational_array), "
        f"found the keys {', '.join(keys) or 'none'}"
    )


def is_foreign(text: str) -> bool:
    """Whether a text looks like a machine of another program rather than of ours, which names clock_hz."""
    return text.lstrip().startswith("{") or any(
        line.startswith(("architecture:", "operational_array:")) for line in text.splitlines()
    )
