"""Collects the instructions of one kernel, in an order in which they are legal one after another."""

from array import array
from enum import IntEnum
from typing import NamedTuple

from tilestitch.ir.program import EngineKind, Kind, Mode
from tilestitch.ir.region import Region
from tilestitch.lower.cluster import Cluster

COLUMNS = ("engine", "kind", "flags", "operator", "box", "cycles", "size_bytes", "run_bytes", "path")


class Base(IntEnum):
    """What an address counts from, which is known when the kernel gets its place among others."""

    MEMORY = 0  # the begin of the memory
    WINDOW = 1  # that of the kernel's own places in it
    PASSING = 2  # where something passes GB
    WHOLE = 3  # the place of the tensor, which is kept whole in GB
    SUMS = 4  # the begin of the accumulators, or the next address of their ring


class Address(NamedTuple):
    """Where a buffer of a kernel lies."""

    base: Base
    offset: int = 0


class Owner(NamedTuple):
    """Whose region: a tensor's, or the iterations of an operator; both move where a kernel begins elsewhere."""

    name: str
    is_operator: bool = False


class Iterations(NamedTuple):
    """What is computed, or picked: so many iterations of an operator."""

    operator: str
    box: Region


class Passage(NamedTuple):
    """What is moved: bytes, how many of them follow one another, and the resources that they pass."""

    size_bytes: int
    path: tuple[int, ...]
    run_bytes: int = 0


class Builder:
    """Append-only text of one kernel. The first `given` buffers are there before it, at places of their own."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.instructions = array("q")  # a row of `COLUMNS` for each, row after row
        self.operand_ends = array("q")
        self.operands = array("q")  # buffer, region, mode; row after row
        self.given = 0
        self.space_of: list[int] = []  # of every buffer
        self.region_of: list[Region] = []
        self.extents_of: list[tuple[int, ...]] = []
        self.tensor_of: list[str] = []
        self._numbers_of: list[dict[Region, int]] = []  # of the regions of a buffer's tensor
        self.address_of: list[Address] = []  # of the buffers that are not given, as what follows
        self.buffer_rows = array("q")  # SPACE, ADDRESS, ... of `lower.link`; row after row
        self.regions: list[tuple[Owner, Region]] = []
        self._numbers: dict[Owner, dict[Region, int]] = {}  # of these
        self._numbers_by_tensor: dict[str, dict[Region, int]] = {}  # likewise, of tensors
        self._numbers_by_operator: dict[str, dict[Region, int]] = {}
        self.tensors: dict[str, int] = {}
        self.operators: dict[str, int] = {}
        self.paths: dict[tuple[int, ...], int] = {}

    def given_buffer(self, space: int, tensor: str, region: Region) -> int:
        """A buffer that is there already; all of them come before the first new one."""
        self.given += 1
        return self._buffer(space, tensor, region)

    def buffer(self, space: int, address: Address, size_bytes: int, tensor: str, region: Region) -> int:
        """A new buffer at a place; whatever lay there is over once this buffer is first written."""
        at = self.tensors.setdefault(tensor, len(self.tensors))
        number = self._buffer(space, tensor, region)
        numbers = self._numbers_of[number]
        held = numbers.get(region)
        if held is None:
            held = self._new_region(numbers, Owner(tensor), region)
        self.address_of.append(address)
        born = len(self.operand_ends)
        self.buffer_rows.extend((space, address.offset, size_bytes, at, held, address.base, born))
        return number

    def _buffer(self, space: int, tensor: str, region: Region) -> int:
        numbers = self._numbers_by_tensor.get(tensor)
        if numbers is None:
            numbers = self._numbers_by_tensor[tensor] = self._numbers.setdefault(Owner(tensor), {})
        self.space_of.append(space)
        self.region_of.append(region)
        self.extents_of.append(region.extents)
        self.tensor_of.append(tensor)
        self._numbers_of.append(numbers)
        return len(self.space_of) - 1

    def region(self, owner: Owner, region: Region) -> int:
        """The number of a region of an owner."""
        numbers = self._numbers.setdefault(owner, {})
        found = numbers.get(region)
        return self._new_region(numbers, owner, region) if found is None else found

    def _new_region(self, numbers: dict[Region, int], owner: Owner, region: Region) -> int:
        found = numbers[region] = len(self.regions)
        self.regions.append((owner, region))
        return found

    def launch(self, cycles: int) -> None:
        """Start the kernel: wait for everything before it; everything after it waits for this."""
        self.emit(Kind.LAUNCH, self.cluster.engine(EngineKind.CONTROL), (), cycles=cycles)

    def emit(
        self,
        kind: Kind,
        engine: int,
        operands: tuple[tuple[int, Region, Mode], ...],
        *,
        cycles: int,
        work: Iterations | None = None,
        passage: Passage | None = None,
        flags: int = 0,
    ) -> None:
        """Append one instruction that uses (buffer, region, mode) operands."""
        for buffer, region, mode in operands:
            numbers = self._numbers_of[buffer]
            number = numbers.get(region)
            if number is None:
                number = self._new_region(numbers, Owner(self.tensor_of[buffer]), region)
            self.operands.extend((buffer, number, mode))
        self.operand_ends.append(len(self.operands) // 3)
        operator = box = path = -1
        size_bytes = run_bytes = 0
        if work is not None:
            name, region = work
            numbers = self._numbers_by_operator.get(name)
            if numbers is None:
                numbers = self._numbers_by_operator[name] = self._numbers.setdefault(Owner(name, True), {})
            operator = self.operators.setdefault(name, len(self.operators))
            found = numbers.get(region)
            box = self._new_region(numbers, Owner(name, True), region) if found is None else found
        if passage is not None:
            size_bytes, run_bytes = passage.size_bytes, passage.run_bytes
            path = self.paths.setdefault(passage.path, len(self.paths))
        self.instructions.extend((engine, kind, flags, operator, box, cycles, size_bytes, run_bytes, path))
