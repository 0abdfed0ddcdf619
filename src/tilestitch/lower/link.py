"""Kernels one after another: blocks of instructions, each lowered by itself, get common numbers and places."""

from array import array
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import numpy as np

from tilestitch.ir.program import EngineKind, Kind, Mode
from tilestitch.ir.region import Region
from tilestitch.lower.builder import COLUMNS, Base, Builder, Owner
from tilestitch.lower.cluster import Cluster, OtherCores
from tilestitch.lower.hazards import Text, Waits, corners, find_waits
from tilestitch.lower.motion import Motion, moved

# Columns of buffers; the base of the address, and the instruction before which the buffer takes its place.
SPACE, ADDRESS, SIZE, TENSOR, REGION, BASE, BORN = range(7)

_Entry = TypeVar("_Entry", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Section:
    """The instructions of one kernel; all numbers count within the section and its own tables.

    The first `given` buffers exist before it: tensors in DDR, and what kernels before have left on chip.
    """

    columns: np.ndarray  # int64: a row for each of `COLUMNS`
    operand_ends: np.ndarray
    operands: np.ndarray  # buffer, region, mode
    buffers: np.ndarray  # of those that are not given: SPACE, ADDRESS, ...
    given: int
    regions: tuple[tuple[Owner, Region], ...]
    tensors: tuple[str, ...]
    operators: tuple[str, ...]
    paths: tuple[tuple[int, ...], ...]
    motion: Motion


def section_of(builder: Builder, motion: Motion) -> Section:
    """What a builder was told, as a section."""
    return Section(
        columns=np.array(builder.instructions, np.int64).reshape(-1, len(COLUMNS)).T.copy(),
        operand_ends=np.array(builder.operand_ends, np.int64),
        operands=np.array(builder.operands, np.int64).reshape(-1, 3),
        buffers=np.array(builder.buffer_rows, np.int64).reshape(-1, BORN + 1),
        given=builder.given,
        regions=tuple(builder.regions),
        tensors=tuple(builder.tensors),
        operators=tuple(builder.operators),
        paths=tuple(builder.paths),
        motion=motion,
    )


@dataclass(frozen=True)
class Here:
    """What is particular to one of the kernels that share a section."""

    kernel: int
    given: Sequence[int]  # numbers of the buffers that exist before it
    tensors: Mapping[str, str]  # what has which name here
    operators: Mapping[str, str]
    by: tuple[int, ...]  # steps that it has moved along the dims of its sink
    cores: OtherCores | None = None  # those that stand for the cores of the section; None: these


class Numbering:
    """Numbers of regions, names and paths; programs that share it have each other's as well."""

    def __init__(self) -> None:
        self.regions: dict[Region, int] = {}
        self.tensors: dict[str, int] = {}
        self.operators: dict[str, int] = {}
        self.paths: dict[tuple[int, ...], int] = {}
        self._moved: dict[tuple[Section, tuple[int, ...]], np.ndarray] = {}  # by how far a block moved
        self._paths_of: dict[tuple[Section, tuple[int, ...]], np.ndarray] = {}  # by the resources instead
        self._corners = corners(())

    def paths_of(self, block: Section, cores: OtherCores | None) -> np.ndarray:
        """The numbers of a block's paths."""
        resources = () if cores is None else cores.resources
        key = block, resources
        if key not in self._paths_of:
            paths: Iterable[tuple[int, ...]] = block.paths
            if resources:
                paths = (tuple(resources[one] for one in path) for path in block.paths)
            self._paths_of[key] = _numbers(self.paths, paths)
        return self._paths_of[key]

    def regions_of(self, block: Section, by: tuple[int, ...]) -> np.ndarray:
        """The numbers of a block's regions, where it has moved so far along each dim."""
        key = block, by
        if key not in self._moved:
            found: Iterable[Region] = (region for _, region in block.regions)
            if any(by):
                owners = dict.fromkeys(owner for owner, _ in block.regions)
                shifts = {owner: shift for owner in owners if any(shift := block.motion.shift(owner, by))}
                found = (moved(region, shifts[owner]) if owner in shifts else region for owner, region in block.regions)
            self._moved[key] = _numbers(self.regions, found)
        return self._moved[key]

    @property
    def corners(self) -> tuple[np.ndarray, np.ndarray]:
        """Those of all regions, a row each; only the new ones are added."""
        low, high = self._corners
        if len(low) < len(self.regions):
            new = corners(tuple(islice(self.regions, len(low), None)))
            if new[0].shape[1] > low.shape[1] and len(low):
                new = corners(tuple(self.regions))
                low, high = low[:0], high[:0]
            rank = max(low.shape[1], new[0].shape[1])
            self._corners = (
                np.concatenate([_wide(low, rank, 0), _wide(new[0], rank, 0)]),
                np.concatenate([_wide(high, rank, 1), _wide(new[1], rank, 1)]),
            )
        return self._corners


class Linker:
    """Joins blocks into the columns of one iteration, the tensors in DDR being its first buffers."""

    def __init__(
        self, cluster: Cluster, numbering: Numbering, buffers: Iterable[tuple[int, int, int, str, Region]]
    ) -> None:
        self.cluster, self.numbering = cluster, numbering
        self._buffers: list[np.ndarray] = []
        self._single = array("q")  # buffers that were added one by one behind these; row after row
        self._columns: list[np.ndarray] = []
        self._kernels: list[np.ndarray] = []
        self._operand_ends: list[np.ndarray] = []
        self._operands: list[np.ndarray] = []
        self._instructions = self._buffer_count = self._operand_count = 0
        self.in_ddr = {row[3]: self.buffer(*row) for row in buffers}

    def buffer(self, space: int, address: int, size_bytes: int, tensor: str, region: Region) -> int:
        """A new buffer at a place; whatever lay there is over once this buffer is first written."""
        numbers = _number(self.numbering.tensors, tensor), _number(self.numbering.regions, region)
        self._single.extend((space, address, size_bytes, *numbers, Base.MEMORY, self._instructions))
        self._buffer_count += 1
        return self._buffer_count - 1

    def _join_singles(self) -> None:
        """Make the buffers that were added one by one a table behind the others."""
        if self._single:
            self._buffers.append(np.array(self._single, np.int64).reshape(-1, BORN + 1))
            self._single = array("q")

    def add(self, block: Section, addresses: np.ndarray, here: Here) -> None:
        """Append a block, the new buffers of which lie at `addresses`."""
        paths, regions = self.numbering.paths_of(block, here.cores), self.numbering.regions_of(block, here.by)
        tensors = _numbers(self.numbering.tensors, (here.tensors[name] for name in block.tensors))
        operators = _numbers(self.numbering.operators, (here.operators[name] for name in block.operators))
        rows = block.buffers.copy()
        rows[:, ADDRESS] = addresses
        rows[:, TENSOR], rows[:, REGION] = tensors[rows[:, TENSOR]], regions[rows[:, REGION]]
        rows[:, BORN] += self._instructions
        if here.cores is not None:
            rows[:, SPACE] = here.cores.spaces[rows[:, SPACE]]
        buffers = np.concatenate([np.array(here.given, np.int64), self._buffer_count + np.arange(len(rows))])
        columns = block.columns.copy()
        if here.cores is not None:
            row = columns[COLUMNS.index("engine")]
            row[:] = here.cores.engines[row]
        for name, numbers in (("operator", operators), ("box", regions), ("path", paths)):
            row = columns[COLUMNS.index(name)]
            row[row >= 0] = numbers[row[row >= 0]]
        operands = block.operands
        self._columns.append(columns)
        self._kernels.append(np.full(columns.shape[1], here.kernel, np.int64))
        self._operand_ends.append(block.operand_ends + self._operand_count)
        self._operands.append(np.stack([buffers[operands[:, 0]], regions[operands[:, 1]], operands[:, 2]], axis=1))
        self._join_singles()
        self._buffers.append(rows)
        self._instructions += columns.shape[1]
        self._buffer_count += len(rows)
        self._operand_count += len(operands)

    def __len__(self) -> int:
        return self._instructions

    def column(self, name: str) -> np.ndarray:
        """One of `COLUMNS`, over all blocks."""
        if len(self._columns) != 1:
            self._columns = [_joined([np.zeros((len(COLUMNS), 0), np.int64), *self._columns], axis=1)]
        return self._columns[0][COLUMNS.index(name)]

    @property
    def kernels(self) -> np.ndarray:
        """The number of the kernel of every instruction."""
        return _joined(self._kernels)

    @property
    def operand_ends(self) -> np.ndarray:
        return _joined(self._operand_ends)

    @property
    def operands(self) -> np.ndarray:
        """Buffer, region and mode of every operand."""
        if len(self._operands) != 1:  # kept joined: there may be tens of millions
            self._operands = [_joined(self._operands).reshape(-1, 3)]
        return self._operands[0]

    @property
    def buffer_count(self) -> int:
        """How many rows `buffers` has."""
        return self._buffer_count

    @property
    def buffers(self) -> np.ndarray:
        """Space, address, bytes, tensor and region of every buffer."""
        self._join_singles()
        if len(self._buffers) != 1:
            self._buffers = [_joined(self._buffers).reshape(-1, BORN + 1)]
        return self._buffers[0]

    def waits(self) -> Waits:
        """What every instruction waits for."""
        operands, buffers = self.operands, self.buffers
        low, high = self.numbering.corners
        return find_waits(
            Text(
                engine=self.column("engine"),
                launches=self.column("kind") == Kind.LAUNCH,
                operand_ends=self.operand_ends,
                buffer=np.ascontiguousarray(operands[:, 0]),
                region=np.ascontiguousarray(operands[:, 1]),
                writes=operands[:, 2] != Mode.READ,
                space=np.ascontiguousarray(buffers[:, SPACE]),
                start=np.ascontiguousarray(buffers[:, ADDRESS]),
                stop=buffers[:, ADDRESS] + buffers[:, SIZE],
                born=np.ascontiguousarray(buffers[:, BORN]),
                low=low,
                high=high,
                control=self.cluster.engine(EngineKind.CONTROL),
                engines=len(self.cluster.engines),
                spaces=len(self.cluster.spaces),
            )
        )


def _number(table: dict[_Entry, int], entry: _Entry) -> int:
    return table.setdefault(entry, len(table))


def _numbers(table: dict[_Entry, int], entries: Iterable[_Entry]) -> np.ndarray:
    number = table.setdefault
    return np.array([number(entry, len(table)) for entry in entries], np.int64)


def _wide(rows: np.ndarray, rank: int, value: int) -> np.ndarray:
    """Rows of that many axes, the ones that are missing with `value`."""
    return np.pad(rows, ((0, 0), (0, rank - rows.shape[1])), constant_values=value)


def _joined(parts: list[np.ndarray], axis: int = 0) -> np.ndarray:
    return np.concatenate(parts, axis=axis) if parts else np.zeros(0, np.int64)
