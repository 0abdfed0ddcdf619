"""Which operators of a network are scheduled together."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SubGraph:
    """Operators that are scheduled together, by name, in the order of the graph."""

    name: str
    operators: tuple[str, ...]
