"""How much of a memory the results take that stay there between kernels, beside what no allocation can go below."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.schedule import Home


@dataclass(slots=True)
class AddressRange:
    """Addresses that are taken from one kernel to another: a home, and those that take its place one after another."""

    size_bytes: int
    first: int
    last: int
    address: int
    homes: list[Home]

    def meets(self, other: "AddressRange") -> bool:
        """Whether both are taken at some kernel."""
        return self.first <= other.last and other.first <= self.last


def blocks(homes: Sequence[Home], level: Level) -> list[AddressRange]:
    """The blocks of one level, in the order of the kernels that begin them."""
    found: list[AddressRange] = []
    open_at: dict[tuple[int, int], AddressRange] = {}  # by address and last kernel
    for home in homes:
        if home.level is not level:
            continue
        block = open_at.pop((home.address, home.first), None) if home.instead_of is not None else None
        if block is None:
            block = AddressRange(home.size_bytes, home.first, home.last, home.address, [])
            found.append(block)
        block.last = max(block.last, home.last)
        block.homes.append(home)
        open_at[home.address, block.last] = block
    return found


def live_bytes(found: Sequence[AddressRange]) -> int:
    """The most bytes that lie in blocks at once: no choice of addresses needs less."""
    changes = sorted(
        [(one.first, one.size_bytes) for one in found] + [(one.last + 1, -one.size_bytes) for one in found]
    )
    most = now = 0
    for _, change in sorted(changes):  # at the same kernel blocks end before others begin
        now += change
        most = max(most, now)
    return most


def occupied_bytes(found: Sequence[AddressRange], size_bytes: int) -> int:
    """The most of a memory that kernels cannot have in one piece: all of it but the largest gap between blocks."""
    most, open_ones = 0, list[AddressRange]()
    for kernel, begun in groupby(sorted(found, key=attrgetter("first")), attrgetter("first")):
        open_ones = sorted([*(one for one in open_ones if kernel <= one.last), *begun], key=attrgetter("address"))
        at = gap = 0
        for one in open_ones:
            gap, at = max(gap, one.address - at), max(at, one.address + one.size_bytes)
        most = max(most, size_bytes - max(gap, size_bytes - at))
    return most


def allocation_text(homes: Sequence[Home], machine: Accelerator) -> str:
    """A line for each memory in which results stay: what they take at their worst, and how much of it is live."""
    lines = []
    for memory in machine.memories:
        found = blocks(homes, memory.level)
        if found:
            lines.append(
                f"  results take {occupied_bytes(found, memory.size_bytes):,} B of {memory.size_bytes:,} B of "
                f"{memory.level.upper()} at their peak; {live_bytes(found):,} B are live at once"
            )
    return "\n".join(lines)
