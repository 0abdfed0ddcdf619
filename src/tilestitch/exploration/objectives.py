"""What designs may be asked to be best in; the command line lists them, so nothing that is slow to import is here."""

from dataclasses import dataclass

from tilestitch.base.errors import InputError, printable


@dataclass(frozen=True, slots=True)
class DesignObjective:
    """A number of which less is better."""

    name: str
    unit: str
    factors: tuple[str, ...]  # the metrics of which it is the product
    of_the_machine: bool = False  # whether several networks share it, rather than add up


OBJECTIVES = (
    DesignObjective("latency", "s", ("latency",)),
    DesignObjective("cycles", "cycles", ("cycles",)),
    DesignObjective("energy", "pJ", ("energy",)),
    DesignObjective("edp", "pJ x cycles", ("energy", "cycles")),
    DesignObjective("traffic", "B", ("traffic",)),
    DesignObjective("memory", "B", ("memory",), of_the_machine=True),
    DesignObjective("macs", "MAC/cycle", ("macs",), of_the_machine=True),
    DesignObjective("area", "mm2", ("area",), of_the_machine=True),
)
DEFAULT = ("latency", "energy")


def objective_named(name: str) -> DesignObjective:
    """The objective of that name, or an `InputError` that lists them."""
    for one in OBJECTIVES:
        if one.name == name:
            return one
    known = ", ".join(one.name for one in OBJECTIVES)
    raise InputError(f"--objective {printable(name, 60)}: is not known; the objectives are: {known}")
