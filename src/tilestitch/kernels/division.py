"""A kernel divided among cores, compiled: how long each part takes, what it needs and makes, and where that lies.

Boxes are rows of first and last index (the last excluded), as in `kernels.boxes`. `tests/kernels/test_division.py`
compares all of this with the same said of one `Region` after another.
"""

from typing import NamedTuple

import numpy as np

from tilestitch.base.arrays import copy_row, copy_rows
from tilestitch.base.jit import inner, lending, tiered
from tilestitch.kernels.arithmetic import aligned, busy_cycles
from tilestitch.kernels.boxes import boxes_into, bytes_of, made_region, operand_into
from tilestitch.kernels.nest import ANCHOR, ELEMENT, HOME, RANK, TENSOR_OF, WHERE, Nest

IN_DDR, IN_GB, IN_LB = range(3)  # where a source lies, and the columns of shares behind the first
NOT_HERE = -1  # in place of a core's number: of a source in GB
SAMPLE = 16  # different regions of an operand that are looked at, of those that cores copy


class Lying(NamedTuple):
    """What lies on chip of tensors that a kernel reads, a row each; the first that holds an element counts."""

    boxes: np.ndarray
    levels: np.ndarray
    cores: np.ndarray  # or `NOT_HERE`


@tiered
def parts_of(start: np.ndarray, extents: np.ndarray, steps: np.ndarray, splits: np.ndarray) -> np.ndarray:
    """The part of every core, by part and dim of the last operator; see `ir.tiles.core_pieces`."""
    dims, total = len(extents), 1
    for dim in range(dims):
        total *= min(splits[dim], -(-extents[dim] // steps[dim]))
    found = np.empty((total, 2, dims), np.int64)
    for number in range(total):
        rest = number
        for dim in range(dims - 1, -1, -1):
            extent, step = extents[dim], steps[dim]
            units = -(-extent // step)
            count = min(splits[dim], units)
            at, rest = rest % count, rest // count
            found[number, 0, dim] = start[dim] + min(extent, step * (units * at // count))
            found[number, 1, dim] = start[dim] + min(extent, step * (units * (at + 1) // count))
    return found


@tiered
def cycles_under(
    nest: Nest, start: np.ndarray, extents: np.ndarray, steps: np.ndarray, splits: np.ndarray
) -> np.ndarray:
    """Cycles of arithmetic of the largest part under each of several splits, a row each."""
    ops, width, tensors, rank = len(nest.operators), nest.dims.shape[1], len(nest.tensors), nest.places.shape[1]
    sink, boxes = np.zeros((2, width), np.int64), np.zeros((ops, 2, width), np.int64)
    needed, known = np.zeros((tensors, 2, rank), np.int64), np.zeros(tensors, np.int64)
    one, part = np.empty((2, width), np.int64), np.empty((2, rank), np.int64)
    found = np.zeros(len(splits))
    for number in range(len(splits)):
        for dim in range(len(extents)):
            extent, step = extents[dim], steps[dim]
            units = -(-extent // step)
            piece = min(extent, step * -(-units // splits[number, dim]))
            sink[0, dim], sink[1, dim] = start[dim], start[dim] + piece
        boxes_into(nest, sink, boxes, needed, known, one, part)
        for op in range(ops):
            found[number] += busy_cycles(nest, op, boxes[op])
    return found


@tiered
def made_by(nest: Nest, parts: np.ndarray, tensors: np.ndarray) -> np.ndarray:
    """The region that each part makes of some tensors, by tensor and part."""
    ops, width, count, rank = len(nest.operators), nest.dims.shape[1], len(nest.tensors), nest.places.shape[1]
    boxes, one = np.zeros((ops, 2, width), np.int64), np.zeros((2, rank), np.int64)
    box = np.empty((2, width), np.int64)
    needed, known = np.zeros((count, 2, rank), np.int64), np.zeros(count, np.int64)
    found = np.zeros((len(tensors), len(parts), 2, rank), np.int64)
    for number in range(len(parts)):
        boxes_into(nest, parts[number], boxes, needed, known, box, one)
        for at in range(len(tensors)):
            made_region(nest, tensors[at], boxes, found[at, number], one)
    return found


@tiered
def most_made(nest: Nest, parts: np.ndarray, tensors: np.ndarray) -> float:
    """Bytes of the part that makes most of some tensors, each aligned."""
    regions, most = made_by(nest, parts, tensors), 0.0
    for number in range(len(parts)):
        size = 0.0
        for at in range(len(tensors)):
            size += aligned(bytes_of(nest, tensors[at], regions[at, number]))
        most = max(most, size)
    return most


@tiered
def needed_by(nest: Nest, parts: np.ndarray, operands: np.ndarray) -> np.ndarray:
    """What each part needs of some operands, by operand and part."""
    ops, width, count, rank = len(nest.operators), nest.dims.shape[1], len(nest.tensors), nest.places.shape[1]
    boxes, whole = np.zeros((ops, 2, width), np.int64), max(0, nest.core[ANCHOR])
    needed, known = np.zeros((count, 2, rank), np.int64), np.zeros(count, np.int64)
    one, part = np.empty((2, width), np.int64), np.empty((2, rank), np.int64)
    found = np.zeros((len(operands), len(parts), 2, rank), np.int64)
    for number in range(len(parts)):
        boxes_into(nest, parts[number], boxes, needed, known, one, part)
        for at in range(len(operands)):
            operand_into(nest, operands[at], boxes, boxes[whole], found[at, number], part)
    return found


@lending
def common_size(one: np.ndarray, other: np.ndarray, rank: int) -> int:
    """How many elements two boxes have in common."""
    size = 1
    for axis in range(rank):
        size *= max(0, min(one[1, axis], other[1, axis]) - max(one[0, axis], other[0, axis]))
    return size


@tiered
def nearest_cores(
    nest: Nest, needs: np.ndarray, operands: np.ndarray, spans: np.ndarray, lying: Lying, cores: np.ndarray
) -> np.ndarray:
    """The cores in the order in which they take the parts of one split, each near what it holds already.

    The core that holds the most bytes of what some part needs takes that part, and so on with the rest. So the new
    owners of a tensor are some of the old ones, and what they hold does not move. `needs` are the regions by operand
    and part, `spans` the rows of each operand's sources.
    """
    parts, known = needs.shape[1], cores[np.argsort(cores, kind="mergesort")]
    held = np.zeros(parts * len(known), np.int64)  # bytes by part and core
    for at in range(len(operands)):
        tensor = nest.operands[operands[at], TENSOR_OF]
        for row in range(spans[at, 0], spans[at, 1]):
            column = np.searchsorted(known, lying.cores[row])
            if lying.levels[row] != IN_LB or column == len(known) or known[column] != lying.cores[row]:
                continue
            for number in range(parts):
                size = common_size(needs[at, number], lying.boxes[row], nest.tensors[tensor, RANK])
                held[number * len(known) + column] += size * nest.tensors[tensor, ELEMENT]
    if not held.any():
        return cores
    taken, free = np.full(parts, NOT_HERE), np.ones(len(known), np.bool_)
    for place in np.argsort(-held, kind="mergesort"):
        number, column = place // len(known), place % len(known)
        if held[place] and taken[number] == NOT_HERE and free[column]:
            taken[number], free[column] = known[column], False
    found, at = np.empty(len(cores), np.int64), 0
    for core in cores:  # those left over, in their order, where no core took a part
        if not free[np.searchsorted(known, core)]:
            continue
        while at < parts and taken[at] != NOT_HERE:
            at += 1
        if at < parts:
            taken[at] = core
        else:
            found[at] = core
            at += 1
    copy_row(found, taken)
    return found


@inner
def _first_holders(box: np.ndarray, rank: int, lying: Lying, begin: int, end: int, found: np.ndarray) -> None:
    """Count the elements of a box by where the first source that holds each lies; see `kernels.surroundings.cover`."""
    left = np.empty((8, 2, box.shape[1]), np.int64)
    count = 1
    copy_rows(left[0], box)
    low, high = np.empty(rank, np.int64), np.empty(rank, np.int64)
    for row in range(begin, end):
        at = 0
        while at < count:
            size = 1
            for axis in range(rank):
                low[axis] = max(left[at, 0, axis], lying.boxes[row, 0, axis])
                high[axis] = min(left[at, 1, axis], lying.boxes[row, 1, axis])
                size *= max(0, high[axis] - low[axis])
            if size == 0:
                at += 1
                continue
            found[lying.levels[row]] += size
            one = left[at].copy()
            count -= 1
            copy_rows(left[at], left[count])  # looked at next
            if count + 2 * rank > len(left):
                longer = np.empty((2 * len(left) + 2 * rank, 2, box.shape[1]), np.int64)
                for old in range(count):
                    copy_rows(longer[old], left[old])
                left = longer
            for axis in range(rank):  # what lies around the common part, cut along one axis after another
                if one[0, axis] < low[axis]:
                    copy_rows(left[count], one)
                    left[count, 1, axis] = low[axis]
                    count += 1
                if high[axis] < one[1, axis]:
                    copy_rows(left[count], one)
                    left[count, 0, axis] = high[axis]
                    count += 1
                one[0, axis], one[1, axis] = low[axis], high[axis]
        if count == 0:
            return
    for at in range(count):
        found[IN_DDR] += common_size(left[at], left[at], rank)


@lending
def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two boxes are the same."""
    for row in range(2):
        for axis in range(one.shape[1]):
            if one[row, axis] != other[row, axis]:
                return False
    return True


@lending
def _repeated(
    regions: np.ndarray, here: np.ndarray, rank: int, table: np.ndarray, first: np.ndarray, times: np.ndarray
) -> int:
    """How many different ones there are among the regions that are not here.

    `first` becomes the number of the first of each, `times` how many there are; `table` is room for twice as many
    numbers as there are regions, or more, a power of two.
    """
    count, room = 0, len(table)
    for place in range(room):
        table[place] = -1
    for number in range(len(regions)):
        if here[number]:
            continue
        place = 0
        for axis in range(rank):
            place = (place * 31 + regions[number, 0, axis]) * 31 + regions[number, 1, axis]
        place &= room - 1
        while table[place] >= 0 and not _alike(regions[first[table[place]]], regions[number]):
            place = (place + 1) & (room - 1)
        if table[place] < 0:
            table[place], first[count], times[count] = count, number, 0
            count += 1
        times[table[place]] += 1
    return count


@lending
def _find_here(
    regions: np.ndarray,
    rank: int,
    lying: Lying,
    begin: int,
    end: int,
    cores: np.ndarray,
    sizes: np.ndarray,
    here: np.ndarray,
) -> None:
    """The elements of each part's region, and whether a source holds all of it where the part's core can read it.

    The sources are the rows from `begin` to `end`; `cores` are `NOT_HERE` for parts that read GB.
    """
    for number in range(len(regions)):
        region = regions[number]
        sizes[number], here[number] = common_size(region, region, rank), False
        for row in range(begin, end):
            if lying.cores[row] == cores[number] and common_size(region, lying.boxes[row], rank) == sizes[number]:
                here[number] = True
                break


@tiered
def shares(
    nest: Nest,
    needs: np.ndarray,
    operands: np.ndarray,
    spans: np.ndarray,
    lying: Lying,
    cores: np.ndarray,
    in_lb: bool,
) -> np.ndarray:
    """Per operand 1 where every core has its own part complete and reads it there, and its bytes from DDR, GB and LB.

    The last three are shares of what all parts need; `in_lb` says where cores have operands and results.
    """
    found, by_level, parts = np.zeros((len(operands), 4)), np.zeros(3, np.int64), needs.shape[1]
    sizes, here, home = np.empty(parts, np.int64), np.empty(parts, np.bool_), IN_LB if in_lb else IN_GB
    first, times, parted = np.empty(parts, np.int64), np.empty(parts, np.int64), np.empty(3, np.int64)
    readers = cores.copy()
    if not in_lb:
        readers[:] = NOT_HERE
    room = 2
    while room < 2 * parts:
        room *= 2
    table = np.empty(room, np.int64)
    for at in range(len(operands)):
        operand, begin, end = operands[at], spans[at, 0], spans[at, 1]
        rank, regions = nest.tensors[nest.operands[operand, TENSOR_OF], RANK], needs[at]
        readable = nest.operands[operand, WHERE] == nest.core[HOME]
        _find_here(regions, rank, lying, begin if readable else end, end, readers, sizes, here)
        total = own = 0
        for number in range(parts):
            total += sizes[number]
            own += sizes[number] if here[number] else 0
        count = _repeated(regions, here, rank, table, first, times)
        by_level[:], seen = 0, 0
        for sampled in range(0, count, max(1, -(-count // SAMPLE))):
            parted[:] = 0
            _first_holders(regions[first[sampled]], rank, lying, begin, end, parted)
            for level in range(3):
                by_level[level] += parted[level] * times[sampled]
            seen += sizes[first[sampled]] * times[sampled]
        found[at, 0] = count == 0
        for level in range(3):
            copied = by_level[level] / seen * (total - own) if seen else 0.0
            found[at, 1 + level] = (copied + (own if level == home else 0)) / total
    return found
