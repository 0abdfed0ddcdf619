"""A schedule that somebody writes by hand: groups, how they split, the order of their pieces, where each lives.

Or a plan of fused blocks.

Source: the manual interface of TensorTurbo, the compiler in which GraphTurbo (Zhao et al., OSDI 2023) became a product:
`Group`, `SplitGroups`, `ScheduleInfo` with memory scope and core binding, in the order of execution.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilestitch.hardware.accelerator import Level
from tilestitch.ir.rewriting import Across, Again, Band, Rewriting, SplitK, Stream
from tilestitch.ir.tile_rule import KernelRule

AxisCut: TypeAlias = tuple[int, int | tuple[int, ...]]  # an axis, and the number of pieces or the extent of each

DEPTH_FIRST, BREADTH_FIRST = "depth_first", "breadth_first"


@dataclass(frozen=True, slots=True)
class HandGroup:
    """All that the operators `until` need and no group before has; without `until`, all that is left.

    Its results are cut along `axis` into so many `pieces`, as even as possible, or into pieces of the extents given;
    and each of these along each axis of `further`, into as many as that says, pieces of the last axis first. With a
    `lag` two pieces that follow one another are in flight together: the second begins when so many kernels of the first
    have run, and then they take turns.
    """

    name: str
    until: tuple[str, ...] = ()
    axis: int = 0
    pieces: int | tuple[int, ...] = 1
    lag: int = 0
    further: tuple[tuple[int, int], ...] = ()

    @property
    def along(self) -> tuple[AxisCut, ...]:
        """Axes with how each is cut, the outermost first."""
        return (self.axis, self.pieces), *self.further


@dataclass(frozen=True, slots=True)
class HandItem:
    """One piece of a group, such as "g0[3]", where its results wait, and on which cores it runs.

    `scope` is LB, GB or DDR; without, they stay in LB where the next item reads them, else in GB. `cores` is one entry
    for each part of the outermost dim, which is split over that many: a core, or the cores that share the part.
    """

    instance: str
    scope: Level | None = None
    cores: tuple[int | tuple[int, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class HandSchedule:
    """Groups in running order, and their pieces in theirs: every piece once, or the name of an order."""

    name: str
    groups: Sequence[HandGroup]
    order: Sequence[HandItem] | str = DEPTH_FIRST
    stitched: bool = True  # whether one launch starts all of them, so that the next operators' weights load early
    ring: bool = False  # whether sums lie one behind the other in the accumulators, so that products may change places
    behind: bool = False  # whether tiles of a kernel lie behind those of the one before, so that more than one may load
    picks: bool = False  # whether rows are picked of what waits in GB as well, not of DDR alone
    compact: bool = False  # whether results in LB move out of the way of those that find room there in parts alone
    joined: bool = False  # whether what a concatenation joins is written where it lies there
    apart: bool = False  # whether element-wise operators work on the parts of a concatenation one by one
    bands: tuple[Band, ...] = ()  # depthwise convolutions that run as banded products
    folded: bool = False  # whether factors, and scales and shifts of norms, are part of weights, where they can be
    streams: tuple[Stream, ...] = ()  # softmaxes between products that run block by block
    split_k: tuple[SplitK, ...] = ()  # products in parts of their reduction, each behind what makes that part
    across: tuple[Across, ...] = ()  # products whose reduction can be divided among cores
    packed: bool = False  # whether small constants lie together, so that one transfer brings those of several operators
    refined: bool = False  # whether the order of instructions is made better by its own simulation, back and forth
    rules: Sequence[KernelRule] = ()  # of kernels of which more is asked than the least estimate
    lean: bool = False  # whether pieces make only what the network's outputs need, where they need any of it
    in_place: bool = False  # whether results take the place of operands in GB too, as they do in LB
    again: tuple[Again, ...] = ()  # operators that are computed once more, for some of those that read their results

    @property
    def rewriting(self) -> Rewriting:
        """The network in whose terms it is."""
        whole = self.joined, self.apart, self.folded
        several = tuple(self.bands), tuple(self.streams), tuple(self.split_k), tuple(self.across)
        return Rewriting(*whole, *several, self.packed, tuple(self.again))


@dataclass(frozen=True, slots=True)
class NamedBlock:
    """One fused block of a plan: its layers by name, and its cores."""

    layers: tuple[str, ...]
    cores: int


@dataclass(frozen=True, slots=True)
class FusionPlan:
    """A plan of fused blocks that somebody writes: every layer in one block, in an order in which the blocks can run.

    A layer has the name of its first operator; `tilestitch fuse -o FILE` writes a plan with all of them.
    """

    name: str
    blocks: Sequence[NamedBlock]
