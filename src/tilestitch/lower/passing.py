"""What passes the ring of GB once on its way to the cores, although tiles in halves need it twice."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tilestitch.base.units import aligned
from tilestitch.ir.region import Region
from tilestitch.kernels.shape import Operand
from tilestitch.lower.addresses import Demand


class Passing:
    """What a kernel brings to the ring and needs again, and how large the ring has to be so that it is still there."""

    def __init__(self) -> None:
        self._times = Counter[tuple[Operand, Region]]()  # how often each region is loaded
        self._staged: dict[tuple[Operand, Region], tuple[int, int]] = {}  # its buffer, and the bytes before it
        self._passed_bytes = self._largest_bytes = 0
        self._reach_bytes = 0  # from where a region begins to the end of what comes until it is read for the last time

    def expect(self, operand: Operand, waves: Sequence[Sequence[Region]]) -> None:
        """Note which regions of an operand cores load in each wave."""
        for regions in waves:
            self._times.update((operand, region) for region in dict.fromkeys(regions))

    def staged(self, operand: Operand, region: Region) -> int | None:
        """The buffer in the ring that has a region already."""
        if (operand, region) not in self._staged:
            return None
        buffer, before_bytes = self._staged[operand, region]
        self._reach_bytes = max(self._reach_bytes, self._passed_bytes - before_bytes)
        return buffer

    def passes(self, operand: Operand, region: Region, buffer: int, size_bytes: int) -> None:
        """Note that a region takes the next place in the ring, of so many bytes."""
        if self._times[operand, region] > 1:
            self._staged[operand, region] = buffer, self._passed_bytes
        self._passed_bytes += aligned(size_bytes)
        self._largest_bytes = max(self._largest_bytes, aligned(size_bytes))

    def with_room(self, demand: Demand) -> Demand:
        """What a kernel needs of the memories, with what must not leave the ring too early.

        Of its interval the largest place may be left empty where it begins anew.
        """
        if not self._reach_bytes:
            return demand
        return replace(demand, passing_bytes=max(demand.passing_bytes or 0, self._reach_bytes + self._largest_bytes))
