"""What is asked of a kernel beyond the least estimate: of its tiles, its constants, and where its results wait."""

from dataclasses import dataclass
from enum import StrEnum

from tilestitch.hardware.accelerator import Level


class TileRoom(StrEnum):
    """Of which part of the memories the tiles of a kernel may be that continues the one before, without a barrier."""

    HALF = "half"  # of half, so that its loads do not wait for the kernel before; of all where nothing fits half
    WHOLE = "whole"
    BETTER = "better"  # of half, unless the estimate for all is clearly less


class Once(StrEnum):
    """Which constants and inputs come to GB as a whole, for all tiles or also for all pieces of kernels that ask so."""

    NONE = "none"  # each tile brings its part
    KERNEL = "kernel"  # each kernel those constants of which its tiles need more parts than all of it takes transfers
    SMALL = "small"  # those that are one transfer: their parts would take longer to set up than to come
    ALL = "all"


@dataclass(frozen=True, slots=True)
class TileRule:
    """How the tiles of a kernel are chosen."""

    columns: bool = False  # whether a product's tiles have a multiple of its unit's columns, where they have as many
    room: TileRoom = TileRoom.HALF
    parts: bool = False  # whether a reduction is cut into more parts where its operands leave no room for larger tiles
    even: bool = False  # whether a division among cores that is decided already gives way to a much faster one
    least: int = 1  # tiles of a core, or parts of these, where it can have as many: its units work on several at once
    whole: bool = False  # whether constants come as a whole where that takes fewer transfers, as `Once.KERNEL` asks
    # Cycles of a core, at the beginning and at the end, of tiles in two halves: all first ones before all second ones.
    first_cycles: int = 0
    last_cycles: int = 0


BY_ESTIMATE = TileRule()


@dataclass(frozen=True, slots=True)
class KernelRule:
    """What is asked of the kernels that end with an operator."""

    sink: str
    tiles: TileRule = BY_ESTIMATE
    scope: Level = Level.LB  # where their results wait at best
    once: Once = Once.NONE
    splits: tuple[int, ...] = ()  # over how many cores each dim of the operator is divided; none: to be decided
    together: bool = False  # whether parts that adjoin come to GB together, so that set-ups take little of the time
