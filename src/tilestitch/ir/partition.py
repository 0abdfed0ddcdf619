"""Which operators of a network are scheduled together: the decision of the partition stage, one of four kinds."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilestitch.base.shown import Brief
from tilestitch.base.units import counted, format_bytes
from tilestitch.ir.by_hand import HandSchedule

MOST_NAMES = 12  # of operators on a line
Kernels: TypeAlias = tuple[tuple[str, ...], ...]  # names of operators that may run together, in running order


@dataclass(frozen=True, slots=True)
class Group:
    """Operators that may become one kernel, by name, in the order of the graph, views included."""

    name: str
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SubGraph:
    """Operators that run piece by piece: along which axis of their results they are cut, and into how many pieces."""

    operators: tuple[str, ...]
    axis: int
    pieces: int
    peak_bytes: int  # what it needs at once if it stays whole


@dataclass(frozen=True, slots=True)
class FusedBlock:
    """A fused block: what one launch starts on so many cores, each of which makes all that its strip needs.

    Each result that leaves the block is divided among the cores into strips; what leaves passes through DDR.
    """

    operators: tuple[str, ...]
    cores: int


@dataclass(frozen=True, slots=True, repr=False)
class Groups(Brief):
    """Kernel after kernel, as TVM has it, or operator after operator."""

    kernels: Kernels

    def __str__(self) -> str:
        return _listed(counted(len(self.kernels), "group"), map(" + ".join, self.kernels), "g")


@dataclass(frozen=True, slots=True, repr=False)
class SubGraphs(Brief):
    """Sub-graphs that are cut into pieces, as GraphTurbo has it; `kernels` says what a piece may run together.

    Scheduling moves a kernel's operators to the sub-graph in which the kernel begins (`schedule.pieces`), and runs the
    kernels whole where pieces cannot be cut as they would have to be.
    """

    kernels: Kernels
    sub_graphs: tuple[SubGraph, ...]
    whole_may_be_better: bool  # whether to look at a schedule in which none is cut as well

    def __str__(self) -> str:
        pieces = sum(one.pieces for one in self.sub_graphs)
        title = f"{counted(len(self.sub_graphs), 'sub-graph')} in {counted(pieces, 'piece')}"
        lines = (
            (f"{one.pieces} pieces along axis {one.axis}" if one.pieces > 1 else "uncut")
            + f", {format_bytes(one.peak_bytes)} of results at once if uncut: {_named(one.operators)}"
            for one in self.sub_graphs
        )
        return _listed(title, lines, "g")


@dataclass(frozen=True, slots=True, repr=False)
class Blocks(Brief):
    """Fused blocks, each on a number of cores, as DLFusion has it; `kernels` says what a block may run together."""

    kernels: Kernels
    blocks: tuple[FusedBlock, ...]

    def __str__(self) -> str:
        lines = (f"{counted(one.cores, 'core')}: {_named(one.operators)}" for one in self.blocks)
        return _listed(counted(len(self.blocks), "fused block"), lines, "b")


@dataclass(frozen=True, slots=True, repr=False)
class ByHand(Brief):
    """Sub-graphs, pieces, their order and places as somebody wrote them."""

    kernels: Kernels
    schedule: HandSchedule

    def __str__(self) -> str:
        groups = self.schedule.groups
        lines = (
            f"{group.name}: pieces {', each in '.join(f'{pieces} along axis {axis}' for axis, pieces in group.along)}"
            + (f", until {', '.join(group.until)}" if group.until else ", all that is left")
            for group in groups
        )
        order = self.schedule.order
        ordered = order if isinstance(order, str) else " ".join(item.instance for item in order)
        return "\n".join(
            [f"{counted(len(groups), 'sub-graph')} by hand, order {ordered}", *(f"  {line}" for line in lines)]
        )


Partition: TypeAlias = Groups | SubGraphs | Blocks | ByHand


def _named(operators: Sequence[str]) -> str:
    """All by name where they are few, else how many, with the first and the last."""
    if len(operators) <= MOST_NAMES:
        return " + ".join(operators)
    return f"{len(operators)} operators, {operators[0]} to {operators[-1]}"


def _listed(title: str, lines: Iterable[str], letter: str) -> str:
    return "\n".join([title, *(f"  {letter}{number}: {line}" for number, line in enumerate(lines))])
