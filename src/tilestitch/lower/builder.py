"""Collects instructions in program order and finds, from what they read and write, which must wait for which."""

from dataclasses import dataclass, field

from tilestitch.ir.program import EngineKind, Kind, Mode
from tilestitch.ir.region import Region
from tilestitch.lower.cluster import Cluster


@dataclass(slots=True)
class _Life:
    """What is known of a buffer while the program is built."""

    region: Region
    # By engine and whether it writes: the latest instruction of each region, in the order of the instructions.
    uses: dict[tuple[int, bool], dict[Region, int]] = field(default_factory=dict)
    born_after: dict[int, int] = field(default_factory=dict)  # engine -> last user of the space before


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
        self.kind: list[int] = []
        self.flags: list[int] = []
        self.kernel: list[int] = []
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
        self._owners: list[list[tuple[int, int, int]]] = [[] for _ in cluster.spaces]  # start, stop, buffer
        self._last: dict[int, int] = {}  # engine -> its latest instruction
        self._current_kernel = -1
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
        stop, kept = address + size_bytes, []
        for start, end, owner in self._owners[space]:
            if end <= address or stop <= start:
                kept.append((start, end, owner))
                continue
            for (engine, _), used in self._lives[owner].uses.items():
                latest = next(reversed(used.values()))
                if latest > life.born_after.get(engine, -1):
                    life.born_after[engine] = latest
            if start < address:
                kept.append((start, address, owner))
            if stop < end:
                kept.append((stop, end, owner))
        kept.append((address, stop, number))
        self._owners[space] = kept
        return number

    def region_of(self, buffer: int) -> Region:
        return self._lives[buffer].region

    def all_before(self) -> tuple[int, ...]:
        """The latest instruction of every engine since the last launch: what a launch here has to wait for."""
        control = self.cluster.engine(EngineKind.CONTROL)
        return tuple(sorted(i for e, i in self._last.items() if i > self._barrier and e != control))

    def launch(self, kernel: int, cycles: int) -> int:
        """Start a kernel: wait for everything before it; everything after it waits for this."""
        self._current_kernel = kernel
        number = self._append(
            Kind.LAUNCH, self.cluster.engine(EngineKind.CONTROL), (), self.all_before(), cycles=cycles
        )
        for buffer in self._touched:
            self._lives[buffer].uses.clear()
        self._touched.clear()
        self._barrier = number
        return number

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
            for (other, wrote), used in life.uses.items():
                if other != engine and (writes or wrote):
                    known = waits.get(other, self._barrier)
                    for before, instruction in reversed(used.items()):
                        if instruction <= known:
                            break
                        if before.overlaps(region):
                            waits[other] = instruction
                            break
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
        if not uses:
            self._touched.append(buffer)
        used = uses.setdefault((engine, writes), {})
        used.pop(region, None)  # the latest comes last
        used[region] = number

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
        self.kind.append(int(kind))
        self.flags.append(flags)
        self.kernel.append(self._current_kernel)
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
