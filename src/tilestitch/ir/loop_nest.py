"""Perfectly nested loops over affine accesses, and how one such nest runs on an array of processing elements."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import prod

from tilestitch.base.units import ceil_div


class LoopLevel(StrEnum):
    """Where a part of a loop runs, from the outermost level to the innermost."""

    DRAM = "dram"
    SPM = "spm"  # the scratchpad
    RF = "rf"  # the register file of one processing element
    SPATIAL = "spatial"  # over processing elements


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop of a nest."""

    name: str
    extent: int


@dataclass(frozen=True, slots=True)
class LoopOperand:
    """An array that every iteration reads or adds to.

    The index along an axis is the sum of coefficient x loop over its terms, (loop number, coefficient) pairs; an axis
    without terms has the index 0. Axes go from the outermost in memory to the innermost. `shape` is what memory holds:
    an input of a convolution is there with its padding, and may be larger than what is read.
    """

    name: str
    axes: tuple[tuple[tuple[int, int], ...], ...]
    shape: tuple[int, ...]
    element_bits: int = 16

    @property
    def indexed_by(self) -> frozenset[int]:
        """The loops that move this access."""
        return frozenset(loop for terms in self.axes for loop, _ in terms)

    def extents(self, tile: Sequence[int]) -> tuple[int, ...]:
        """Indices touched along each axis by a contiguous tile of so many iterations of each loop."""
        return tuple(1 + sum(abs(step) * (tile[loop] - 1) for loop, step in terms) for terms in self.axes)


@dataclass(frozen=True, slots=True)
class LoopNest:
    """`write[...] += reads[0][...] * reads[1][...] * ...` for all iterations, in any order.

    `kind` is what it was made from ("conv", "dwconv", "gemm", "einsum"); nothing but its printing depends on it.
    """

    name: str
    kind: str
    loops: tuple[Loop, ...]
    reads: tuple[LoopOperand, ...]
    write: LoopOperand

    @property
    def operands(self) -> tuple[LoopOperand, ...]:
        """What is read, then what is written."""
        return (*self.reads, self.write)

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple(loop.extent for loop in self.loops)

    @property
    def macs(self) -> int:
        """Iterations, each of which multiplies and adds once."""
        return prod(self.extents)

    def loop(self, name: str) -> int | None:
        """The number of a loop, None where there is none of that name."""
        return next((at for at, loop in enumerate(self.loops) if loop.name == name), None)


@dataclass(frozen=True, slots=True)
class LoopMapping:
    """Factors of every loop at every level, and the order of the loops outside the register file.

    Orders hold loop numbers, outermost first, every loop once. The factors of a loop multiply to its extent, or where
    they are ragged to more: the last tiles of a level are smaller then, and the factor of a level is what its largest
    tile has. The orders of the two inner levels change nothing.
    """

    dram: tuple[int, ...]
    spm: tuple[int, ...]
    rf: tuple[int, ...]
    spatial: tuple[int, ...]
    dram_order: tuple[int, ...]
    spm_order: tuple[int, ...]

    @property
    def factors(self) -> dict[LoopLevel, tuple[int, ...]]:
        levels = (LoopLevel.DRAM, LoopLevel.SPM, LoopLevel.RF, LoopLevel.SPATIAL)
        return dict(zip(levels, (self.dram, self.spm, self.rf, self.spatial), strict=True))

    @property
    def pass_tile(self) -> tuple[int, ...]:
        """Iterations of each loop in one pass of the register files, over all elements."""
        return tuple(rf * spatial for rf, spatial in zip(self.rf, self.spatial, strict=True))

    @property
    def scratchpad_tile(self) -> tuple[int, ...]:
        """Iterations of each loop while one tile is in the scratchpad."""
        return tuple(spm * tile for spm, tile in zip(self.spm, self.pass_tile, strict=True))

    def is_exact(self, nest: LoopNest) -> bool:
        """Whether every factor divides: no tile is smaller than another."""
        tiles = zip(self.dram, self.scratchpad_tile, nest.extents, strict=True)
        return all(dram * tile == extent for dram, tile, extent in tiles)

    def covers(self, nest: LoopNest) -> bool:
        """Whether the tiles cover every loop, and no tile of DRAM or scratchpad is without iterations."""
        return all(
            dram == ceil_div(extent, spm * tile) and spm <= ceil_div(extent, tile)
            for dram, spm, tile, extent in zip(self.dram, self.spm, self.pass_tile, nest.extents, strict=True)
        )


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """A window that slides over the rows and columns of an image: its size, its steps, how far its pixels are apart."""

    size: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)

    def pixels_read(self, output: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of the input, padding included, that an output of so many pixels needs."""
        rows, columns = (
            (pixels - 1) * step + (size - 1) * apart + 1
            for pixels, size, step, apart in zip(output, self.size, self.stride, self.dilation, strict=True)
        )
        return rows, columns


def convolution(
    name: str,
    *,
    n: int,
    m: int,
    c: int,
    output: tuple[int, int],
    window: SlidingWindow,
    groups: int = 1,
    padded: tuple[int, int] | None = None,
) -> LoopNest:
    """`O[n][m][ox][oy] += I[n][c][ox*S+fx*D][oy*S+fy*D] * W[m][c][fx][fy]`; x counts rows, y columns of `output`.

    `m` and `c` are channels of one group; with more than one group a loop G goes before them in every array. `padded`
    is the size of the input in memory with its padding, by default what is read. Loop names, their order and that of
    the axes are those of dMazeRunner (TECS 2019).
    """
    (ox, oy), (fx, fy) = output, window.size
    rows, columns = window.pixels_read(output) if padded is None else padded
    extents = {"N": n, "G": groups, "M": m, "C": c, "Ox": ox, "Oy": oy, "Fx": fx, "Fy": fy}
    if groups == 1:
        del extents["G"]
    at = {loop: number for number, loop in enumerate(extents)}

    def axes(*names: str) -> tuple[tuple[tuple[int, int], ...], ...]:
        return tuple(((at[name], 1),) for name in names if name in at)

    def size(*names: str) -> tuple[int, ...]:
        return tuple(extents[name] for name in names if name in at)

    moving = tuple(
        ((at[f"O{axis}"], step), (at[f"F{axis}"], apart))
        for axis, step, apart in zip("xy", window.stride, window.dilation, strict=True)
    )
    return LoopNest(
        name,
        "conv",
        tuple(Loop(loop, extent) for loop, extent in extents.items()),
        (
            LoopOperand("I", (*axes("N", "G", "C"), *moving), (*size("N", "G", "C"), rows, columns)),
            LoopOperand("W", axes("G", "M", "C", "Fx", "Fy"), size("G", "M", "C", "Fx", "Fy")),
        ),
        LoopOperand("O", axes("N", "G", "M", "Ox", "Oy"), size("N", "G", "M", "Ox", "Oy")),
    )


def depthwise(
    name: str,
    *,
    n: int,
    c: int,
    output: tuple[int, int],
    window: SlidingWindow,
    padded: tuple[int, int] | None = None,
) -> LoopNest:
    """`O[n][c][ox][oy] += I[n][c][ox*S+fx*D][oy*S+fy*D] * W[0][c][fx][fy]`, with a loop M of one iteration."""
    (ox, oy), (fx, fy) = output, window.size
    rows, columns = window.pixels_read(output) if padded is None else padded
    names, sizes = ("N", "M", "C", "Ox", "Oy", "Fx", "Fy"), (n, 1, c, ox, oy, fx, fy)
    moving = tuple(
        ((3 + axis, step), (5 + axis, apart))
        for axis, (step, apart) in enumerate(zip(window.stride, window.dilation, strict=True))
    )
    return LoopNest(
        name,
        "dwconv",
        tuple(map(Loop, names, sizes)),
        (
            LoopOperand("I", (((0, 1),), ((2, 1),), *moving), (n, c, rows, columns)),
            LoopOperand("W", ((), ((2, 1),), ((5, 1),), ((6, 1),)), (1, c, fx, fy)),
        ),
        LoopOperand("O", (((0, 1),), ((2, 1),), ((3, 1),), ((4, 1),)), (n, c, ox, oy)),
    )


def product(name: str, *, m: int, n: int, k: int, batch: int = 1) -> LoopNest:
    """`C[m][n] += A[m][k] * B[k][n]`; more than one such product have a loop B before them in every array."""
    extents = {"B": batch, "M": m, "N": n, "K": k}
    if batch == 1:
        del extents["B"]
    at = {loop: number for number, loop in enumerate(extents)}

    def operand(name: str, *names: str) -> LoopOperand:
        found = [loop for loop in ("B", *names) if loop in at]
        return LoopOperand(name, tuple(((at[loop], 1),) for loop in found), tuple(extents[loop] for loop in found))

    loops = tuple(Loop(loop, extent) for loop, extent in extents.items())
    return LoopNest(name, "gemm", loops, (operand("A", "M", "K"), operand("B", "K", "N")), operand("C", "M", "N"))
