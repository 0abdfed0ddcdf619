"""The shape of a transfer: contiguous runs and descriptors."""

from collections.abc import Sequence
from functools import lru_cache

from tilestitch.ir.graph import Tensor

MAX_STRIDES = 3  # of one descriptor; a transfer with more loops takes several


@lru_cache(maxsize=65536)
def runs(
    extents: tuple[int, ...], source: tuple[int, ...], target: tuple[int, ...], element_bytes: int
) -> tuple[int, int]:
    """Bytes of one contiguous run, and number of descriptors, of a copy of `extents` elements.

    All tuples are in memory order, outermost axis first; `source` and `target` are the extents of the two buffers. A
    run extends outwards as long as the copy takes all of the inner axes on both sides.
    """
    run = element_bytes
    loops: list[int] = []
    contiguous = True  # everything further in is copied whole on both sides, so this axis continues the run or loop
    for extent, from_, to in zip(reversed(extents), reversed(source), reversed(target), strict=True):
        if contiguous and not loops:
            run *= extent
        elif contiguous:
            loops[-1] *= extent
        elif extent > 1:
            loops.append(extent)
        else:
            continue  # one index of an axis: no loop, and what is further out is strided anyway
        contiguous = extent == from_ == to
    descriptors = 1
    for extent in loops[MAX_STRIDES:]:
        descriptors *= extent
    return run, descriptors


def in_memory_order(tensor: Tensor, extents: Sequence[int]) -> tuple[int, ...]:
    """Extents by logical axis, reordered to the tensor's layout, outermost first."""
    return tuple(extents[axis] for axis in tensor.layout)
