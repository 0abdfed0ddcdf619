"""Kernels one after another: blocks of instructions, each lowered by itself, get common numbers.

A launch waits for everything before it and everything up to the next launch waits for it, so those instructions are
the same wherever they stand. Kernels that differ only in names therefore share one block.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from tilestitch.ir.region import Region
from tilestitch.lower.builder import Builder

COLUMNS = ("engine", "kernel", "kind", "flags", "operator", "box", "cycles", "size_bytes", "run_bytes", "path")

_Entry = TypeVar("_Entry", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Block:
    """What one launch starts, the launch first; all numbers count within the block and its own tables.

    The first `given` buffers exist before it: tensors in DDR, whose places are the program's to give, and what kernels
    before have left on chip.
    """

    columns: np.ndarray  # int64: a row for each of `COLUMNS`
    operand_counts: np.ndarray
    operands: np.ndarray  # buffer, region, mode
    wait_counts: np.ndarray
    waits: np.ndarray
    buffers: np.ndarray  # space, address, bytes, tensor, region
    given: int
    regions: tuple[Region, ...]
    tensors: tuple[str, ...]
    operators: tuple[str, ...]
    paths: tuple[tuple[int, ...], ...]
    last: np.ndarray  # of every engine, what a launch after this has to wait for


def block_of(builder: Builder, given: int) -> Block:
    """What a builder was told, as a block."""
    return Block(
        columns=np.array([getattr(builder, name) for name in COLUMNS], np.int64),
        operand_counts=np.array([len(operands) for operands in builder.operands], np.int64),
        operands=np.array([one for operands in builder.operands for one in operands], np.int64).reshape(-1, 3),
        wait_counts=np.array([len(waits) for waits in builder.waits], np.int64),
        waits=np.array([one for waits in builder.waits for one in waits], np.int64),
        buffers=np.array(builder.buffer_rows, np.int64).reshape(-1, 5),
        given=given,
        regions=tuple(builder.regions),
        tensors=tuple(builder.tensors),
        operators=tuple(builder.operators),
        paths=tuple(builder.paths),
        last=np.array(builder.all_before(), np.int64),
    )


class Linker:
    """Joins blocks into the columns of one iteration, the tensors in DDR being its first buffers."""

    def __init__(self, buffers: Iterable[tuple[int, int, int, str, Region]]) -> None:
        self.regions: dict[Region, int] = {}
        self.tensors: dict[str, int] = {}
        self.operators: dict[str, int] = {}
        self.paths: dict[tuple[int, ...], int] = {}
        self.in_ddr: dict[str, int] = {}
        rows = []
        for number, (space, address, size_bytes, name, region) in enumerate(buffers):
            self.in_ddr[name] = number
            rows.append((space, address, size_bytes, _number(self.tensors, name), _number(self.regions, region)))
        self._buffers = [np.array(rows, np.int64).reshape(-1, 5)]
        self._columns: list[np.ndarray] = []
        self._operand_counts: list[np.ndarray] = []
        self._operands: list[np.ndarray] = []
        self._wait_counts: list[np.ndarray] = []
        self._waits: list[np.ndarray] = []
        self._known: dict[Block, tuple[np.ndarray, np.ndarray]] = {}  # numbers of its regions and paths
        self._instructions, self._buffer_count = 0, len(rows)
        self.last = np.zeros(0, np.int64)  # of every engine that did something since the last launch

    def add(
        self,
        block: Block,
        kernel: int,
        given: Sequence[int],
        tensors_now: Mapping[str, str],
        operators_now: Mapping[str, str],
    ) -> np.ndarray:
        """Append a block, its first kernel as number `kernel`; returns the numbers of its buffers.

        `given` are those of the buffers that exist before it, the mappings say which names its tensors and operators
        have there.
        """
        if block not in self._known:
            self._known[block] = _numbers(self.regions, block.regions), _numbers(self.paths, block.paths)
        regions, paths = self._known[block]
        tensors = _numbers(self.tensors, (tensors_now[name] for name in block.tensors))
        operators = _numbers(self.operators, (operators_now[name] for name in block.operators))
        own = block.buffers[block.given :]
        buffers = np.concatenate([np.array(given, np.int64), self._buffer_count + np.arange(len(own))])
        begin = self._instructions

        columns = block.columns.copy()
        for name, numbers in (("operator", operators), ("box", regions), ("path", paths)):
            row = columns[COLUMNS.index(name)]
            row[row >= 0] = numbers[row[row >= 0]]
        columns[COLUMNS.index("kernel")] += kernel
        wait_counts = block.wait_counts.copy()
        wait_counts[0] = len(self.last)
        self._columns.append(columns)
        self._operand_counts.append(block.operand_counts)
        operands = block.operands
        self._operands.append(np.stack([buffers[operands[:, 0]], regions[operands[:, 1]], operands[:, 2]], axis=1))
        self._wait_counts.append(wait_counts)
        self._waits += [self.last, block.waits + begin]
        rows = own.copy()
        rows[:, 3], rows[:, 4] = tensors[own[:, 3]], regions[own[:, 4]]
        self._buffers.append(rows)
        self.last = block.last + begin
        self._instructions += columns.shape[1]
        self._buffer_count += len(own)
        return buffers

    def __len__(self) -> int:
        return self._instructions

    def column(self, name: str) -> np.ndarray:
        """One of `COLUMNS`, over all blocks."""
        return _joined([columns[COLUMNS.index(name)] for columns in self._columns])

    @property
    def operand_counts(self) -> np.ndarray:
        return _joined(self._operand_counts)

    @property
    def operands(self) -> np.ndarray:
        """Buffer, region and mode of every operand."""
        return _joined(self._operands).reshape(-1, 3)

    @property
    def wait_counts(self) -> np.ndarray:
        return _joined(self._wait_counts)

    @property
    def waits(self) -> np.ndarray:
        return _joined(self._waits)

    @property
    def buffers(self) -> np.ndarray:
        """Space, address, bytes, tensor and region of every buffer."""
        return np.concatenate(self._buffers)


def _number(table: dict[_Entry, int], entry: _Entry) -> int:
    return table.setdefault(entry, len(table))


def _numbers(table: dict[_Entry, int], entries: Iterable[_Entry]) -> np.ndarray:
    return np.array([_number(table, entry) for entry in entries], np.int64)


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
