"""Collects the instructions of one kernel, in an order in which they are legal one after another."""

from enum import IntEnum
from typing import NamedTuple

from tilestitch.ir.program import EngineKind, Kind, Mode
from tilestitch.ir.region import Region
from tilestitch.lower.cluster import Cluster


class Base(IntEnum):
    """What an address counts from, which is known when the kernel gets its place among others."""

    MEMORY = 0  # the begin of the memory
    WINDOW = 1  # that of the kernel's own places in it
    RING = 2  # the next address of the ring
    WHOLE = 3  # the place of the tensor, which is kept whole in GB
    SUMS = 4  # the next address of the ring of the accumulators


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
        self.engine: list[int] = []
        self.kind: list[int] = []
        self.flags: list[int] = []
        self.operator: list[int] = []
        self.box: list[int] = []
        self.cycles: list[int] = []
        self.size_bytes: list[int] = []
        self.run_bytes: list[int] = []
        self.path: list[int] = []
        self.operand_ends: list[int] = []
        self.operands: list[tuple[int, int, int]] = []  # buffer, region, mode
        self.given = 0
        self.space_of: list[int] = []  # of every buffer
        self.region_of: list[Region] = []
        self.tensor_of: list[str] = []
        self.address_of: list[Address] = []  # of the buffers that are not given, as what follows
        self.buffer_rows: list[tuple[int, int, int, int, int, int, int]] = []  # SPACE, ADDRESS, ... of `lower.link`
        self.regions: dict[tuple[Owner, Region], int] = {}
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
        held = self.region(Owner(tensor), region)
        self.address_of.append(address)
        self.buffer_rows.append((space, address.offset, size_bytes, at, held, int(address.base), len(self.engine)))
        return self._buffer(space, tensor, region)

    def _buffer(self, space: int, tensor: str, region: Region) -> int:
        self.space_of.append(space)
        self.region_of.append(region)
        self.tensor_of.append(tensor)
        return len(self.space_of) - 1

    def region(self, owner: Owner, region: Region) -> int:
        return self.regions.setdefault((owner, region), len(self.regions))

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
            self.operands.append((buffer, self.region(Owner(self.tensor_of[buffer]), region), int(mode)))
        self.operand_ends.append(len(self.operands))
        self.engine.append(engine)
        self.kind.append(int(kind))
        self.flags.append(flags)
        self.cycles.append(cycles)
        if work is None:
            self.operator.append(-1)
            self.box.append(-1)
        else:
            self.operator.append(self.operators.setdefault(work.operator, len(self.operators)))
            self.box.append(self.region(Owner(work.operator, True), work.box))
        if passage is None:
            self.size_bytes.append(0)
            self.run_bytes.append(0)
            self.path.append(-1)
        else:
            self.size_bytes.append(passage.size_bytes)
            self.run_bytes.append(passage.run_bytes)
            self.path.append(self.paths.setdefault(passage.path, len(self.paths)))
