"""What a sub-graph costs in pieces, as far as that follows from the sub-graph alone, so that costs can be added up.

INFERRED, see docs/graphturbo.md#which-operators-are-grouped: Zhao et al. merge by rule and have no number for a
grouping. Counted is what they name: bytes that cross a border, weights that every piece reads again, work that halos
repeat, and what finds no room in the local buffers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tilestitch.base.jit import inner, tiered
from tilestitch.cost.kernel_cuts import HALVINGS, WHOLE, KernelCost, kernel_cost, operands_of
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.graph import Graph
from tilestitch.kernels.shape import kernel_signature, local_names

NOT_SEEN = -2  # in place of an axis
OUTSIDE, IN_LB, IN_GB, IN_DDR = range(4)  # where a tensor lies
BYTES, LEAVES, ENTERS, RANK, EXTENTS = range(5)  # columns of tensors
CYCLES = 3  # the first such column of cuts
MOST_PIECES = 64


class Tables(NamedTuple):
    """A network and its machine in numbers. Rows of `reads`, `made` and `readers` are sorted by their owners."""

    tensors: np.ndarray  # bytes, whether it leaves the network, whether it enters it, rank, extents
    first_read: np.ndarray  # by kernel, into `reads`
    reads: np.ndarray  # kernel, tensor
    follows: np.ndarray  # read, axis of the kernel's result: as `kernel_cuts.Followed`
    first_made: np.ndarray  # by kernel, into `made`
    made: np.ndarray  # kernel, tensor, bytes
    first_reader: np.ndarray  # by tensor, into `readers`
    readers: np.ndarray  # kernel
    cuts: np.ndarray  # kernel, axis of its result: cuttable, constants that are read again, others, cycles
    in_place: np.ndarray  # kernel
    machine: tuple[float, float, float, float]  # bytes of LB (else GB) and GB; bytes a cycle to the cores and of DDR


class State(NamedTuple):
    """What is noted of tensors while one block is priced."""

    leaves: np.ndarray
    last: np.ndarray  # place of the last kernel that reads it
    axes: np.ndarray  # along which pieces need a share
    share: np.ndarray
    level: np.ndarray
    held: np.ndarray  # bytes of a piece, in its level


@dataclass(frozen=True, slots=True)
class Pieces:
    """Into how many pieces a sub-graph is cut, along which axis of its results."""

    axis: int
    count: int


@dataclass(frozen=True)
class SubGraphCost:
    """Costs of sub-graphs of one network on one machine. A node is a kernel, or several that are always together."""

    graph: Graph
    machine: Accelerator
    kernels: tuple[tuple[str, ...], ...]  # operators, in running order
    nodes: tuple[tuple[int, ...], ...]  # numbers of kernels

    def price(self, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cycles of each sub-graph (a row; a column a node, 1 where it is inside), and its pieces as a number."""
        inside = np.zeros((len(blocks), len(self.kernels)), np.uint8)
        inside[:, self._order] = blocks[:, self._owner]
        found = _prices(inside, self._tables)
        return found[:, 0], found[:, 1]

    @staticmethod
    def pieces(choice: int) -> Pieces:
        """The pieces that a number of `price` stands for."""
        return Pieces(choice & 15, choice >> 4)

    @cached_property
    def _order(self) -> np.ndarray:
        return np.array([kernel for node in self.nodes for kernel in node], np.int64)

    @cached_property
    def _owner(self) -> np.ndarray:
        return np.array([number for number, node in enumerate(self.nodes) for _ in node], np.int64)

    @cached_property
    def _tables(self) -> Tables:
        graph, machine = self.graph, self.machine
        kernels = [[graph.by_name[name] for name in kernel] for kernel in self.kernels]
        known: dict[tuple, KernelCost] = {}
        costs = []
        for kernel in kernels:
            fixed = tuple(name in graph.constants for name in local_names(graph, kernel))
            signature = kernel_signature(graph, tuple(kernel)), fixed
            if signature not in known:
                known[signature] = kernel_cost(graph, kernel, machine)
            costs.append(known[signature])
        operands = [operands_of(graph, kernel) for kernel in kernels]
        results = [list(dict.fromkeys(kernel[-1].outputs)) for kernel in kernels]
        names = list(dict.fromkeys(name for kernel in (*operands, *results) for name in kernel))
        number = {name: at for at, name in enumerate(names)}
        readers = [[at for at, kernel in enumerate(operands) if name in kernel] for name in names]
        rank = max((len(graph.tensors[name].shape) for name in names), default=1) or 1
        tensors = np.zeros((len(names), 4 + rank), np.int64)  # bytes, leaves the network, enters it, rank, extents
        for at, name in enumerate(names):
            tensor = graph.tensors[name]
            leaves = name in graph.outputs or not readers[at]
            tensors[at, :4] = tensor.size_bytes, leaves, name in graph.inputs, len(tensor.shape)
            tensors[at, 4 : 4 + len(tensor.shape)] = tensor.shape
        reads = [(kernel, number[name]) for kernel, found in enumerate(operands) for name in found]
        made = [
            (kernel, number[name], self._made_bytes(kernel, name))
            for kernel, found in enumerate(results)
            for name in found
        ]
        follows = np.zeros((len(reads), rank, 3), np.float64)
        follows[:, :, 0] = WHOLE
        row = 0
        for cost in costs:
            for by_axis in cost.reads:
                follows[row, : len(by_axis)] = [(one.axis, one.stride, one.window) for one in by_axis]
                row += 1
        cuts = np.zeros((len(kernels), rank, 3 + HALVINGS + 1), np.float64)  # cuttable, bytes of constants, cycles
        for at, cost in enumerate(costs):
            for axis, able in enumerate(cost.cuttable):
                cuts[at, axis] = able, cost.repeated_bytes[axis], cost.once_bytes[axis], *cost.cycles[axis]
            cuts[at, len(cost.cuttable) :] = [0, cuts[at, 0, 1] + cuts[at, 0, 2], 0, *cuts[at, 0, 3:]]
        return Tables(
            tensors,
            _by_owner(reads, len(kernels)),
            np.array(reads, np.int64).reshape(-1, 2),
            follows,
            _by_owner(made, len(kernels)),
            np.array(made, np.int64).reshape(-1, 3),
            _by_owner([(at, reader) for at, found in enumerate(readers) for reader in found], len(names)),
            np.array([reader for found in readers for reader in found], np.int64),
            cuts,
            np.array([cost.in_place for cost in costs], np.bool_),
            _limits(machine),
        )

    def _made_bytes(self, kernel: int, name: str) -> int:
        """What a kernel makes of a tensor: all of it, or its part of a concatenation."""
        sink = self.graph.by_name[self.kernels[kernel][-1]]
        tensor = self.graph.tensors[name]
        return max(tensor.bytes_of(write.hull(sink.whole)) for write in sink.writes if write.tensor == name)


def _limits(machine: Accelerator) -> tuple[float, float, float, float]:
    """Of one cluster, see `Tables.machine`."""
    shared = machine.memory(Level.GB)
    room = 0 if shared is None else shared.size_bytes
    own = (machine.local(core, Level.LB) for core in machine.cores)
    local = sum(memory.size_bytes for memory in own if memory is not None)
    rate = machine.link.bandwidth_bytes_per_cycle * len(machine.cores)
    rate = rate if shared is None else min(rate, shared.bandwidth_bytes_per_cycle)
    ddr_rate = machine.ddr.bandwidth_bytes_per_cycle / (1 if machine.private_ddr else machine.clusters)
    return float(local or room), float(room), float(rate), float(ddr_rate)


def _by_owner(rows: Sequence[Sequence[int]], owners: int) -> np.ndarray:
    """Where the rows of each owner begin, rows being sorted by owner, and where the last ones end."""
    return np.searchsorted([row[0] for row in rows], np.arange(owners + 1)).astype(np.int64)


@tiered
def _prices(blocks: np.ndarray, tables: Tables) -> np.ndarray:
    """Cycles and pieces (16 times their number, and the axis) of the best way to cut each block."""
    count = len(tables.tensors)
    state = State(
        np.zeros(count, np.bool_), np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count),
        np.zeros(count, np.int64), np.zeros(count),
    )  # fmt: skip
    found = np.zeros((len(blocks), 2), np.int64)
    for number in range(len(blocks)):
        members = np.flatnonzero(blocks[number])
        rank = _borders(blocks[number], members, tables, state)
        best, choice = -1.0, 16
        for axis in range(max(1, rank)):
            extent = _common_extent(members, axis, rank, tables, state)
            for pieces in range(1 if axis == 0 else 2, min(max(1, extent), MOST_PIECES) + 1):
                if pieces > 1 and (extent % pieces != 0 or pieces == 3 or 4 < pieces < 8):
                    continue
                work, constants = _needs(members, axis, pieces, tables, state)
                ddr, moved, border, fits = _traffic(members, pieces, constants, tables, state)
                cycles = border + (max(work, ddr, moved) if fits else work + ddr + moved)
                if (fits or pieces == 1) and (best < 0 or cycles < best):
                    best, choice = cycles, pieces << 4 | axis
                if fits:
                    break
        found[number, 0], found[number, 1] = np.int64(np.ceil(best)), choice
    return found


@tiered
def _borders(block: np.ndarray, members: np.ndarray, tables: Tables, state: State) -> int:
    """Note which results leave a block, and where each tensor is read last; gives the least rank of what leaves."""
    rank = 16
    for place in range(len(members)):
        kernel = members[place]
        for row in range(tables.first_read[kernel], tables.first_read[kernel + 1]):
            state.last[tables.reads[row, 1]] = place
            state.leaves[tables.reads[row, 1]] = False
    for kernel in members:
        for row in range(tables.first_made[kernel], tables.first_made[kernel + 1]):
            tensor = tables.made[row, 1]
            leaves = tables.tensors[tensor, LEAVES] != 0
            for reader in range(tables.first_reader[tensor], tables.first_reader[tensor + 1]):
                leaves |= not block[tables.readers[reader]]
            state.leaves[tensor] = leaves
            if leaves:
                rank = min(rank, tables.tensors[tensor, RANK])
    return rank


@inner
def _common_extent(members: np.ndarray, axis: int, rank: int, tables: Tables, state: State) -> int:
    """The extent along an axis of all that leaves a block; 1 where they differ."""
    extent = 0
    for kernel in members:
        for row in range(tables.first_made[kernel], tables.first_made[kernel + 1]):
            tensor = tables.made[row, 1]
            if state.leaves[tensor] and rank > 0:
                size = tables.tensors[tensor, EXTENTS + axis]
                extent = size if extent in (0, size) else 1
    return extent


@tiered
def _needs(members: np.ndarray, axis: int, pieces: int, tables: Tables, state: State) -> tuple[float, float]:
    """Cycles of the kernels and bytes of constants of all pieces; notes which share of each tensor a piece needs.

    A kernel takes as long as its arithmetic or as its constants on their way, whichever is longer.
    """
    for kernel in members:
        for row in range(tables.first_read[kernel], tables.first_read[kernel + 1]):
            state.axes[tables.reads[row, 1]] = NOT_SEEN
            state.level[tables.reads[row, 1]], state.held[tables.reads[row, 1]] = OUTSIDE, 0.0
    for kernel in members:
        for row in range(tables.first_made[kernel], tables.first_made[kernel + 1]):
            tensor = tables.made[row, 1]
            state.axes[tensor] = NOT_SEEN
            state.level[tensor], state.held[tensor] = OUTSIDE, 0.0
            if state.leaves[tensor]:
                state.axes[tensor], state.share[tensor] = axis if pieces > 1 else WHOLE, 1.0 / pieces
    work = constants = 0.0
    for place in range(len(members) - 1, -1, -1):
        kernel = members[place]
        result = tables.made[tables.first_made[kernel], 1]
        along, share = state.axes[result], state.share[result]
        if along < 0 or tables.cuts[kernel, along, 0] == 0:
            along, share = WHOLE, 1.0
            for row in range(tables.first_made[kernel], tables.first_made[kernel + 1]):
                state.axes[tables.made[row, 1]], state.share[tables.made[row, 1]] = WHOLE, 1.0
        cut = tables.cuts[kernel, max(0, along)]
        halvings = min(float(HALVINGS), -np.log2(share))
        low = min(HALVINGS - 1, int(halvings))
        busy = cut[CYCLES + low] + (halvings - low) * (cut[CYCLES + 1 + low] - cut[CYCLES + low])
        loaded = cut[1] + share * cut[2]
        work += pieces * max(busy, loaded / tables.machine[3])  # weights load ahead, but not by many kernels
        constants += pieces * loaded
        for row in range(tables.first_read[kernel], tables.first_read[kernel + 1]):
            tensor = tables.reads[row, 1]
            follower = WHOLE if along < 0 else int(tables.follows[row, along, 0])
            if follower < 0 or state.axes[tensor] not in (NOT_SEEN, follower):
                state.axes[tensor], state.share[tensor] = WHOLE, 1.0
                continue
            indices = tables.follows[row, along, 1] * (share * tables.tensors[result, EXTENTS + along] - 1)
            wanted = (max(0.0, indices) + tables.follows[row, along, 2]) / tables.tensors[tensor, EXTENTS + follower]
            before = 0.0 if state.axes[tensor] == NOT_SEEN else state.share[tensor]
            state.axes[tensor], state.share[tensor] = follower, max(before, min(1.0, wanted))
    return work, constants


@tiered
def _traffic(
    members: np.ndarray, pieces: int, constants: float, tables: Tables, state: State
) -> tuple[float, float, float, bool]:
    """Cycles of DDR and of the way to the cores for all pieces, and whether a piece fits into the local buffers.

    The third are the cycles of what crosses the border. A result that finds no room in the local buffers goes to GB,
    and where that is full to DDR. What comes from outside lies in GB if the share of a piece finds room there; where
    the local buffers have none for it, every reader brings it anew.
    """
    local_bytes, shared_bytes, rate, ddr_rate = tables.machine
    local = shared = border = 0.0
    ddr = moved = constants
    fits = True
    for place in range(len(members)):
        kernel = members[place]
        for row in range(tables.first_read[kernel], tables.first_read[kernel + 1]):
            tensor = tables.reads[row, 1]
            size = tables.tensors[tensor, BYTES] * state.share[tensor]
            missing = size - state.held[tensor]  # all, or the parts of a concatenation that others make
            if missing >= 1 and state.level[tensor] in (OUTSIDE, IN_LB):
                if tables.tensors[tensor, ENTERS]:
                    ddr += pieces * missing
                else:
                    border += pieces * missing
                    if missing > shared_bytes:
                        ddr += tables.tensors[tensor, BYTES] + pieces * missing
                if local + missing <= local_bytes:
                    state.level[tensor] = IN_LB
                    local += missing
                    moved += pieces * missing
                else:
                    local -= state.held[tensor]
                    state.level[tensor] = IN_DDR
                    fits = False
                state.held[tensor] = size
            if state.level[tensor] != IN_LB:
                moved += pieces * size
        for row in range(tables.first_made[kernel], tables.first_made[kernel + 1]):
            tensor = tables.made[row, 1]
            size = tables.made[row, 2] * state.share[tensor]
            taken = 0.0
            for read in range(tables.first_read[kernel], tables.first_read[kernel + 1]):
                operand = tables.reads[read, 1]
                ends = state.last[operand] == place and state.level[operand] == IN_LB and not state.leaves[operand]
                if tables.in_place[kernel] and ends:
                    taken = max(taken, state.held[operand])
            if state.level[tensor] in (OUTSIDE, IN_LB) and local + size - taken <= local_bytes:
                state.level[tensor] = IN_LB
                local += size
            else:
                fits = False
                if state.level[tensor] == IN_LB:  # the parts that others made go with it
                    local -= state.held[tensor]
                    size += state.held[tensor]
                    state.held[tensor] = 0.0
                moved += pieces * size
                if state.level[tensor] != IN_DDR and shared + size <= shared_bytes:
                    state.level[tensor] = IN_GB
                    shared += size
                else:
                    state.level[tensor] = IN_DDR
                    ddr += 2 * pieces * size
            state.held[tensor] += size
            if state.leaves[tensor]:
                moved += tables.made[row, 2]
                if tables.tensors[tensor, LEAVES]:
                    ddr += tables.made[row, 2]
                else:
                    border += tables.made[row, 2]
        for row in range(tables.first_read[kernel], tables.first_read[kernel + 1]):
            tensor = tables.reads[row, 1]
            if state.last[tensor] == place and not state.leaves[tensor]:
                if state.level[tensor] == IN_LB:
                    local -= state.held[tensor]
                elif state.level[tensor] == IN_GB:
                    shared -= state.held[tensor]
                state.held[tensor] = 0.0
    return ddr / ddr_rate, moved / rate, border / rate, fits
