"""What a machine must have to be compiled for."""

from functools import cache

from tilestitch.base.errors import InputError
from tilestitch.hardware.accelerator import Accelerator, Level, Sharing
from tilestitch.hardware.load import load_machine
from tilestitch.hardware.preset_files import preset_names


def expect_compilable(machine: Accelerator) -> None:
    """Refuse a machine that can be described but not yet scheduled for, with every reason at once."""
    reasons = []
    if all(group.core.vector is None for group in machine.groups):
        reasons.append("none of its cores has a vector unit")
    gb = machine.memory(Level.GB)
    if gb is None and any(machine.local(group.core, Level.LB) is None for group in machine.groups):
        reasons.append("it has cores with neither a local buffer nor one that the cores of a cluster share")
    if gb is not None and gb.sharing is Sharing.CHIP and machine.clusters > 1:
        reasons.append("its clusters share one global buffer")
    if reasons:
        raise InputError(
            f"{machine.name}: cannot be compiled for yet: {'; '.join(reasons)}; "
            "describe a vector unit, a buffer that each core works in, and a global buffer per cluster or none"
        )


@cache
def compilable_presets() -> tuple[tuple[str, str], ...]:
    """The machines that come with the package and that compile takes, chips and trees, with what they are."""
    found: list[tuple[str, str]] = []
    for name in preset_names():
        try:
            machine = load_machine(name)
            expect_compilable(machine)
        except InputError:
            continue
        found.append((name, machine.description))
    return tuple(found)
