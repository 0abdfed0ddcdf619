"""The shape of a transfer: contiguous runs and descriptors."""

from collections.abc import Sequence
from functools import lru_cache

from tilestitch.ir.graph import Tensor

MAX_STRIDES = 3  # of one descriptor; a transfer with more loops takes several
SLABS = 16  # a tensor that comes to GB as a whole does so in at most so many transfers, in the order of first need
SLAB_BYTES = 32768  # of at least this size


@lru_cache(maxsize=65536)
def runs(
    extents: tuple[int, ...], source: tuple[int, ...], target: tuple[int, ...], element_bytes: int
) -> tuple[int, int]:
    """Bytes of one contiguous run, and number of descriptors, of a copy of `extents` elements.

    All tuples are in memory order, outermost axis first; `source` and `target` are the extents of the two buffers. A
    run extends outwards as long as the copy takes all of the inner axes on both sides.
    """
    return contiguous_runs(extents, source, target, element_bytes, len(extents))


def contiguous_runs(
    extents: Sequence[int], source: Sequence[int], target: Sequence[int], element_bytes: int, rank: int
) -> tuple[int, int]:
    """As `runs`, in plain arithmetic for compiled callers too."""
    run, descriptors = element_bytes, 1
    loops, loop = 0, 1  # how many, and the extent of the outermost so far
    contiguous = True  # everything further in is copied whole on both sides, so this axis continues the run or loop
    for axis in range(rank - 1, -1, -1):
        extent = extents[axis]
        if contiguous and loops == 0:
            run *= extent
        elif contiguous:
            loop *= extent
        elif extent > 1:
            if loops > MAX_STRIDES:
                descriptors *= loop
            loops, loop = loops + 1, extent
        else:
            continue  # one index of an axis: no loop, and what is further out is strided anyway
        contiguous = extent == source[axis] and extent == target[axis]
    if loops > MAX_STRIDES:
        descriptors *= loop
    return run, descriptors


def whole_transfers(size_bytes: int) -> int:
    """In how many transfers a tensor comes to GB as a whole, at least."""
    return max(1, min(SLABS, size_bytes // SLAB_BYTES))


def in_memory_order(tensor: Tensor, extents: Sequence[int]) -> tuple[int, ...]:
    """Extents by logical axis, reordered to the tensor's layout, outermost first."""
    return tuple(extents[axis] for axis in tensor.layout)
