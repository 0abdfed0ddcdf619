"""What passes GB on its way to the cores: once where halves of tiles need it twice, or with others."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilestitch.base.units import aligned
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.region import Region
from tilestitch.kernels.shape import Operand
from tilestitch.lower.addresses import Demand

SETUPS = 100  # so many set-ups take as long as what adjoins and comes together, at most
SHARE = 16  # that takes at most such a part of GB
BETWEEN = 4  # so many times as much may be loaded between the first part of it and the last


@dataclass(frozen=True, slots=True)
class Load:
    """A region that cores need next, and do not have."""

    operand: Operand
    region: Region
    size_bytes: int


@dataclass(slots=True)
class _Parcel:
    """Regions that come together; they make a box, and do not overlap."""

    operand: Operand
    region: Region
    size_bytes: int
    begin_bytes: int  # what is loaded before the first of them
    parts: list[Region]

    def adjoins(self, load: Load, most_bytes: int) -> bool:
        """Whether a region makes a larger box with these, of at most so many bytes."""
        box = self.region.hull(load.region).size == self.region.size + load.region.size
        return box and not self.region.overlaps(load.region) and self.size_bytes + load.size_bytes <= most_bytes

    def add(self, load: Load) -> None:
        """Let a region that adjoins come with these."""
        self.region = self.region.hull(load.region)
        self.size_bytes += load.size_bytes
        self.parts.append(load.region)


class Passing:
    """What a kernel brings to GB and needs again, and how much has to pass before its place is taken."""

    def __init__(self) -> None:
        self._times = Counter[tuple[Operand, Region]]()  # how often each region that comes is read
        self._together: dict[tuple[Operand, Region], Region] = {}  # what comes with a region, that itself included
        self._staged: dict[tuple[Operand, Region], tuple[int, int]] = {}  # its buffer, and the bytes before it
        self._passed_bytes = self._largest_bytes = 0
        self._reach_bytes = 0  # from where a region begins to the end of what comes until it is read for the last time

    def expect(self, loads: Sequence[Load]) -> None:
        """Note what is loaded, in its order."""
        self._times.update((load.operand, load.region) for load in loads)

    def join(self, loads: Sequence[Load], most_bytes: int) -> None:
        """Let what adjoins come together, up to so many bytes, where not much else comes in between.

        What is loaded again comes alone.
        """
        times = Counter((load.operand, load.region) for load in loads)
        latest: dict[Operand, _Parcel] = {}
        parcels: list[_Parcel] = []
        passed_bytes = 0
        for load in loads:
            parcel = latest.get(load.operand)
            again = times[load.operand, load.region] > 1
            near = parcel is not None and passed_bytes - parcel.begin_bytes <= BETWEEN * most_bytes
            if parcel is not None and near and not again and parcel.adjoins(load, most_bytes):
                parcel.add(load)
            elif again:
                latest.pop(load.operand, None)
            else:
                latest[load.operand] = _Parcel(load.operand, load.region, load.size_bytes, passed_bytes, [load.region])
                parcels.append(latest[load.operand])
            passed_bytes += load.size_bytes
        for parcel in parcels:
            if len(parcel.parts) > 1:
                self._together.update({(parcel.operand, part): parcel.region for part in parcel.parts})
                self._times[parcel.operand, parcel.region] = len(parcel.parts)

    def brought(self, operand: Operand, region: Region) -> Region:
        """What comes when a region does."""
        return self._together.get((operand, region), region)

    def staged(self, operand: Operand, region: Region) -> int | None:
        """The buffer in GB that has what was brought already."""
        if (operand, region) not in self._staged:
            return None
        buffer, before_bytes = self._staged[operand, region]
        self._reach_bytes = max(self._reach_bytes, self._passed_bytes - before_bytes)
        return buffer

    def passes(self, operand: Operand, region: Region, buffer: int, size_bytes: int) -> None:
        """Note that a region takes the next place in GB, of so many bytes."""
        if self._times[operand, region] > 1:
            self._staged[operand, region] = buffer, self._passed_bytes
        self._passed_bytes += aligned(size_bytes)
        self._largest_bytes = max(self._largest_bytes, aligned(size_bytes))

    def with_room(self, demand: Demand) -> Demand:
        """What a kernel needs of the memories, with what must not leave GB too early.

        Of its interval the largest place may be left empty where it begins anew.
        """
        if not self._reach_bytes:
            return demand
        passing_bytes = max(demand.passing_bytes or 0, self._reach_bytes + self._largest_bytes)
        return replace(demand, passing_bytes=passing_bytes, again=True)


def together_bytes(machine: Accelerator) -> int:
    """How much may come together, so that set-ups are a small part of the time of DDR; 0 without GB."""
    gb = machine.memory(Level.GB)
    if gb is None:
        return 0
    setups_bytes = int(SETUPS * machine.setup.dma_cycles * machine.ddr.bandwidth_bytes_per_cycle)
    return min(setups_bytes, gb.size_bytes // SHARE)
