"""Collects instructions in program order and finds, from what they read and write, which must wait for which."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from operator import floordiv

from tilestitch.ir.program import EngineKind, Kind, Mode
from tilestitch.ir.region import Region
from tilestitch.lower.cluster import Cluster

FEW_USES = 16  # of a buffer, that are quicker to look through than to sort


@dataclass(slots=True)
class _Use:
    """The latest instruction of one engine that touched one region of a buffer in one way."""

    instruction: int
    engine: int
    region: Region
    writes: bool


class _Uses:
    """Uses of a buffer, found by region.

    Few are looked through one by one. Many, such as the stores of a thousand cores to one tensor, lie in the cells of a
    grid whose pitch is the extents of the first region; what covers many cells is looked at every time.
    """

    __slots__ = ("cells", "pitch", "uses", "wide")

    def __init__(self) -> None:
        self.uses: list[_Use] = []
        self.pitch: tuple[int, ...] = ()
        self.cells: dict[tuple[int, ...], list[_Use]] = {}
        self.wide: list[_Use] = []

    def near(self, region: Region) -> Sequence[_Use]:
        """All uses that overlap a region, and some that do not; one that covers several cells may come twice."""
        cells = self._cells_of(region) if self.pitch else None
        if cells is None:
            return self.uses
        return [*self.wide, *(use for cell in cells for use in self.cells.get(cell, ()))]

    def record(self, instruction: int, engine: int, region: Region, *, writes: bool) -> None:
        """Note a use; of one engine using one region in one way, only the latest counts."""
        for use in self.near(region):
            if use.engine == engine and use.writes == writes and use.region == region:
                use.instruction = instruction
                return
        use = _Use(instruction, engine, region, writes)
        self.uses.append(use)
        if self.pitch:
            self._sort_in(use)
        elif len(self.uses) > FEW_USES and region.start:
            self.pitch = self.uses[0].region.extents
            for each in self.uses:
                self._sort_in(each)

    def _sort_in(self, use: _Use) -> None:
        cells = self._cells_of(use.region)
        if cells is None:
            self.wide.append(use)
            return
        for cell in cells:
            self.cells.setdefault(cell, []).append(use)

    def _cells_of(self, region: Region) -> list[tuple[int, ...]] | None:
        """The cells that a region meets; None where they are many."""
        first = tuple(map(floordiv, region.start, self.pitch))
        last = tuple((stop - 1) // pitch for stop, pitch in zip(region.stop, self.pitch, strict=True))
        if first == last:
            return [first]
        if prod(b - a + 1 for a, b in zip(first, last, strict=True)) > FEW_USES:
            return None
        return list(product(*(range(a, b + 1) for a, b in zip(first, last, strict=True))))


class _Life:
    """What is known of a buffer while the program is built."""

    __slots__ = ("born_after", "region", "uses")

    def __init__(self, region: Region) -> None:
        self.region = region
        self.uses = _Uses()
        self.born_after: dict[int, int] = {}  # engine -> last user of the space before


class Builder:
    """Append-only program text with automatic waits.

    The order of the calls is a legal sequential execution. `emit` compares an instruction's operands with earlier uses
    of the same buffers, and a new buffer with whatever lay in its place, and waits for every read-after-write,
    write-after-read and write-after-write that another engine could break. A wait on an engine covers all that the
    engine did before, so at most one wait an engine is kept.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.engine: list[int] = []
        self.kernel: list[int] = []
        self.kind: list[int] = []
        self.flags: list[int] = []
        self.operator: list[int] = []
        self.box: list[int] = []
        self.cycles: list[int] = []
        self.size_bytes: list[int] = []
        self.run_bytes: list[int] = []
        self.path: list[int] = []
        self.operands: list[tuple[tuple[int, int, int], ...]] = []
        self.waits: list[tuple[int, ...]] = []
        self.buffer_rows: list[tuple[int, int, int, int, int]] = []  # space, address, bytes, tensor, region
        self.regions: dict[Region, int] = {}
        self.tensors: dict[str, int] = {}
        self.operators: dict[str, int] = {}
        self.paths: dict[tuple[int, ...], int] = {}
        self._lives: list[_Life] = []
        self._owners: list[list[tuple[int, int, int]]] = [[] for _ in cluster.spaces]  # start, stop, buffer, by start
        self._last: dict[int, int] = {}  # engine -> its latest instruction
        self._kernel = 0
        self._barrier = -1  # everything before this instruction has ended when anything after it starts
        self._touched: list[int] = []  # buffers with uses since the barrier

    def region(self, region: Region) -> int:
        return self.regions.setdefault(region, len(self.regions))

    def buffer(self, space: int, address: int, size_bytes: int, tensor: str, region: Region) -> int:
        """A new buffer at a place; whatever lay there is over once this buffer is first written."""
        number = len(self.buffer_rows)
        self.buffer_rows.append(
            (space, address, size_bytes, self.tensors.setdefault(tensor, len(self.tensors)), self.region(region))
        )
        life = _Life(region)
        self._lives.append(life)
        owners, stop = self._owners[space], address + size_bytes
        first = bisect_left(owners, (address,))
        first -= first > 0 and owners[first - 1][1] > address
        kept: list[tuple[int, int, int]] = []
        last = first
        while last < len(owners) and owners[last][0] < stop:
            start, end, owner = owners[last]
            last += 1
            for use in self._lives[owner].uses.uses:
                if use.instruction > life.born_after.get(use.engine, -1):
                    life.born_after[use.engine] = use.instruction
            if start < address:
                kept.append((start, address, owner))
            if stop < end:
                kept.append((stop, end, owner))
        owners[first:last] = sorted([*kept, (address, stop, number)])
        return number

    def region_of(self, buffer: int) -> Region:
        return self._lives[buffer].region

    def all_before(self) -> tuple[int, ...]:
        """The latest instruction of every engine since the last launch: what a launch here has to wait for."""
        control = self.cluster.engine(EngineKind.CONTROL)
        return tuple(sorted(i for e, i in self._last.items() if i > self._barrier and e != control))

    def launch(self, cycles: int) -> int:
        """Start a kernel: wait for everything before it; everything after it waits for this."""
        number = self._append(
            Kind.LAUNCH, self.cluster.engine(EngineKind.CONTROL), (), self.all_before(), cycles=cycles
        )
        for buffer in self._touched:
            self._lives[buffer].uses = _Uses()
        self._touched.clear()
        self._barrier = number
        return number

    def enter(self, kernel: int) -> None:
        """What follows belongs to kernel number `kernel` of this builder."""
        self._kernel = kernel

    def emit(
        self,
        kind: Kind,
        engine: int,
        operands: tuple[tuple[int, Region, Mode], ...],
        *,
        cycles: int,
        operator: str | None = None,
        box: Region | None = None,
        flags: int = 0,
        size_bytes: int = 0,
        run_bytes: int = 0,
        path: tuple[int, ...] | None = None,
    ) -> int:
        """Append one instruction that uses (buffer, region, mode) operands; returns its number."""
        waits: dict[int, int] = {}
        for buffer, region, mode in operands:
            life, writes = self._lives[buffer], mode is not Mode.READ
            for use in life.uses.near(region):
                if (
                    use.engine != engine
                    and (writes or use.writes)
                    and use.instruction > waits.get(use.engine, self._barrier)
                    and use.region.overlaps(region)
                ):
                    waits[use.engine] = use.instruction
            if writes:
                for other, instruction in life.born_after.items():
                    if instruction > waits.get(other, self._barrier):
                        waits[other] = instruction
        waits.pop(engine, None)
        if self._barrier >= 0 and not waits and self._last.get(engine, -1) < self._barrier:
            waits[self.cluster.engine(EngineKind.CONTROL)] = self._barrier
        number = self._append(
            kind,
            engine,
            tuple((buffer, self.region(region), int(mode)) for buffer, region, mode in operands),
            tuple(sorted(waits.values())),
            cycles=cycles,
            operator=-1 if operator is None else self.operators.setdefault(operator, len(self.operators)),
            box=-1 if box is None else self.region(box),
            flags=flags,
            size_bytes=size_bytes,
            run_bytes=run_bytes,
            path=-1 if path is None else self.paths.setdefault(path, len(self.paths)),
        )
        for buffer, region, mode in operands:
            self._record(buffer, number, engine, region, mode is not Mode.READ)
        return number

    def _record(self, buffer: int, number: int, engine: int, region: Region, writes: bool) -> None:
        uses = self._lives[buffer].uses
        if not uses.uses:
            self._touched.append(buffer)
        uses.record(number, engine, region, writes=writes)

    def _append(
        self,
        kind: Kind,
        engine: int,
        operands: tuple[tuple[int, int, int], ...],
        waits: tuple[int, ...],
        *,
        cycles: int,
        operator: int = -1,
        box: int = -1,
        flags: int = 0,
        size_bytes: int = 0,
        run_bytes: int = 0,
        path: int = -1,
    ) -> int:
        number = len(self.engine)
        self.engine.append(engine)
        self.kernel.append(self._kernel)
        self.kind.append(int(kind))
        self.flags.append(flags)
        self.operator.append(operator)
        self.box.append(box)
        self.cycles.append(cycles)
        self.size_bytes.append(size_bytes)
        self.run_bytes.append(run_bytes)
        self.path.append(path)
        self.operands.append(operands)
        self.waits.append(waits)
        self._last[engine] = number
        return number
