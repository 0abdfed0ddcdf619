"""Which operators of a network are scheduled together."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FusedBlock:
    """A fused block: what one launch starts on so many cores, each of which makes all that its strip needs.

    Each result that leaves the block is divided among the cores into strips; what leaves passes through DDR.
    """

    operators: tuple[str, ...]
    cores: int


@dataclass(frozen=True, slots=True)
class SubGraph:
    """Operators that are scheduled together, by name, in the order of the graph."""

    name: str
    operators: tuple[str, ...]
