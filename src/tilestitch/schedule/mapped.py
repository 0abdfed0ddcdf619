"""Kernels whose product an array does by a mapping: its tiles of the scratchpad are those of the kernel.

docs/mapping.md#on-a-chip says how.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import prod

from tilestitch.base.units import aligned
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.hardware.array_machine import ArrayMachine, array_of_core
from tilestitch.ir.choices import Objective
from tilestitch.ir.graph import DimKind
from tilestitch.ir.loop_nest import LoopNest
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Kernel
from tilestitch.ir.tiles import operator_boxes
from tilestitch.ir.transfers import MAX_STRIDES
from tilestitch.kernels.mapped import Overlay, cycles_behind, overlay_of
from tilestitch.kernels.shape import KernelShape, made_regions, operand_region, part_box
from tilestitch.kernels.surroundings import Room, Surroundings
from tilestitch.mapping.factors import Limits
from tilestitch.mapping.network import loop_dims, nest_of_part
from tilestitch.mapping.search import Found, search, search_space

SEARCHES = 4  # of a kernel, each with less room, until everything beside the product's operands fits as well
SUM_BITS = 32
_KEPT = 4096  # nests whose fastest mapping is remembered


def mapped_kernel(
    shape: KernelShape, machine: Accelerator, kernel: Kernel, around: Surroundings, kept_bytes: int
) -> Kernel | None:
    """A kernel, divided among cores as it is, with the tiles of the fastest mapping of its product.

    `kept_bytes` is what results take where they stay. None where no array does the product, where sums have a memory
    of their own, or where no mapping fits.
    """
    anchor = shape.anchor
    if anchor is None or not _is_mapped(shape, machine):
        return None
    piece = _piece(shape, kernel, around)
    nest = nest_of_part(shape.graph, anchor, operator_boxes(shape.graph, shape.operators, piece)[anchor.name].extents)
    follows = _followed_dims(shape, piece, kernel.tiling.steps)
    whole = frozenset(
        loop
        for loop, dim in enumerate(loop_dims(anchor))
        if anchor.dims[dim].kind is not DimKind.REDUCTION and dim not in follows.values()
    )
    stays = bool(around.kept) and around.results is shape.home
    overlay = overlay_of(shape, around.sources, stays=stays)
    limits = Limits(whole_in_scratchpad=whole, sums_stay=True, room=_bits_of_results(shape, overlay))
    cores = len(around.strips) or prod(kernel.tiling.splits)
    home, shared = (_room(machine, around, level, kept_bytes) for level in (shape.home, Level.GB))
    size_bytes = home
    for _ in range(SEARCHES):
        found = _fastest(nest, _array(machine, shape, cores, size_bytes), limits)
        if found is None:
            return None
        mapped = _with_mapping(shape, kernel, found, follows, piece)
        if mapped is None:
            return None
        need, passing = _needed_bytes(shape, mapped, piece, around, overlay)
        if need <= home:
            passes = shape.home is not Level.GB and machine.memory(Level.GB) is not None
            return None if passes and passing * cores > shared else mapped
        size_bytes -= need - home
        if size_bytes <= 0:
            return None
    return None


def _is_mapped(shape: KernelShape, machine: Accelerator) -> bool:
    """Whether an array does the one product of a kernel, on operands that come from outside, and has no accumulators.

    Of several cores that work in one GB each has a part of it, which is not known here.
    """
    if shape.anchor is None or shape.core.array is None or machine.local(shape.core, Level.ACCUMULATORS) is not None:
        return False
    if machine.local(shape.core, Level.WEIGHTS) is not None or (shape.home is Level.GB and len(machine.cores) > 1):
        return False
    made = {write.tensor for op in shape.operators for write in op.writes}
    return len(shape.matrix) == 1 and not any(read.tensor in made for read in shape.anchor.reads)


def _piece(shape: KernelShape, kernel: Kernel, around: Surroundings) -> Region:
    """The iterations of the largest part of a core, at the first of them."""
    start = around.iterations(shape.sink).start
    extents = around.largest_piece(shape.sink, kernel.tiling.splits, kernel.tiling.steps)
    return Region(start, tuple(a + extent for a, extent in zip(start, extents, strict=True)))


def _followed_dims(shape: KernelShape, piece: Region, steps: Sequence[int]) -> dict[int, int]:
    """Per dim of the sink that may be cut anywhere, the dim of the product that it alone cuts, index by index."""
    assert shape.anchor is not None, "of a kernel with a product"

    def extents(box: Region) -> tuple[int, ...]:
        return operator_boxes(shape.graph, shape.operators, box)[shape.anchor.name].extents  # type: ignore[union-attr]

    whole, found = extents(piece), {}
    for number, dim in enumerate(shape.sink.dims):
        if dim.kind is not DimKind.PARALLEL or steps[number] > 1:
            continue
        stop = tuple(a + 1 if at == number else b for at, (a, b) in enumerate(zip(*piece, strict=True)))
        cut = extents(Region(piece.start, stop))
        changed = [at for at, (a, b) in enumerate(zip(whole, cut, strict=True)) if a != b]
        if len(changed) == 1 and whole[changed[0]] == piece.extents[number] and cut[changed[0]] == 1:
            found[number] = changed[0]
    return found


def _bits_of_results(shape: KernelShape, overlay: Overlay | None) -> tuple[int, int]:
    """Bits that one result of the product takes in half of the scratchpad: where sums are complete, and in parts.

    Complete ones have two places there, as every tensor of the kernel that is as large. Sums of parts have one, of 32
    bits, and so have the others, which come and go between the parts; with an overlay the product's has none.
    """
    assert shape.anchor is not None, "of a kernel with a product"
    tensors, result = shape.graph.tensors, shape.graph.tensors[shape.anchor.writes[0].tensor]
    made = [write.tensor for op in shape.operators for write in op.writes if op.name not in shape.in_place]
    late = [one.tensor for one in shape.operands if not one.from_the_start]
    large = [name for name in (*made, *late) if 2 * tensors[name].size_bytes >= result.size_bytes]
    bits = sum(8 * tensors[name].dtype.size_bytes for name in large)
    beside = bits if overlay is None else bits - 8 * result.dtype.size_bytes
    return bits, (SUM_BITS + beside + 1) // 2


def _room(machine: Accelerator, around: Surroundings, level: Level, kept_bytes: int) -> int:
    memory = machine.memory(level)
    if memory is None:
        return 0
    room = around.rooms.get(level, Room(memory.size_bytes))
    return room.left(kept_bytes if level is around.results else 0)


def _array(machine: Accelerator, shape: KernelShape, cores: int, room_bytes: int) -> ArrayMachine:
    """The array of a core in a program: set-ups of descriptors, bursts, and what so many cores share.

    Half of the room is for the tile in use, in any bytes of it.
    """
    rates = [machine.channel_bytes_per_cycle if cores == 1 else machine.ddr.bandwidth_bytes_per_cycle / cores]
    rates += [memory.bandwidth_bytes_per_cycle / cores for memory in machine.memories if memory.level is Level.GB]
    setup = machine.setup.mover_cycles if shape.home is Level.LB else machine.setup.dma_cycles
    return replace(
        array_of_core(machine, shape.core),
        banks=max(1, room_bytes // 2),
        bank_bytes=1,
        dma_setup_cycles=Fraction(setup),
        dma_cycles_per_byte=1 / min(*rates, machine.link.bandwidth_bytes_per_cycle),
        dma_burst_bytes=machine.ddr.burst_bytes,
        dma_strides=MAX_STRIDES,
        dma_channels=1,
    )


@lru_cache(_KEPT)
def _fastest(nest: LoopNest, array: ArrayMachine, limits: Limits) -> Found | None:
    """The fastest mapping of a nest, of several the one with the least energy."""
    best = search(search_space(nest, array, limits=limits), Objective.LATENCY).best
    return best[0] if best else None


def _with_mapping(
    shape: KernelShape, kernel: Kernel, found: Found, follows: Mapping[int, int], piece: Region
) -> Kernel | None:
    """The kernel with the tiles of a mapping; None where the other operators do not follow them exactly."""
    assert shape.anchor is not None, "of a kernel with a product"
    mapping, loop_of = found.mapping, {dim: loop for loop, dim in enumerate(loop_dims(shape.anchor))}
    tile = tuple(
        mapping.scratchpad_tile[loop_of[follows[dim]]] if dim in follows else extent
        for dim, extent in enumerate(piece.extents)
    )
    stop = tuple(a + extent for a, extent in zip(piece.start, tile, strict=True))
    boxes = operator_boxes(shape.graph, shape.operators, Region(piece.start, stop))
    reduced = [dim.kind is DimKind.REDUCTION for dim in shape.anchor.dims]
    own = boxes[shape.anchor.name].extents
    if any(not sums and own[dim] != mapping.scratchpad_tile[loop_of[dim]] for dim, sums in enumerate(reduced)):
        return None
    depth = {loop: at for at, loop in enumerate(mapping.dram_order)}
    order = sorted(range(len(tile)), key=lambda dim: depth[loop_of[follows[dim]]] if dim in follows else -1)
    tiling = replace(
        kernel.tiling,
        tile=tile,
        order=tuple(order),
        reduction=tuple(
            mapping.scratchpad_tile[loop_of[dim]] if sums else shape.anchor.dims[dim].extent
            for dim, sums in enumerate(reduced)
        ),
        resident=(),
    )
    tiles = prod(-(-whole // part) for whole, part in zip(piece.extents, tile, strict=True))
    others = sum(
        cycles_behind(shape, op, boxes[op.name].extents, mapping) for op in shape.operators if op is not shape.anchor
    )
    return replace(kernel, tiling=tiling, mapping=mapping, estimated_cycles=found.cycles + tiles * others)


def _largest_tiles(piece: Region, tile: Sequence[int]) -> list[Region]:
    """Tiles of a piece among which are those that need most: along each dim the first and the second one.

    At a border of an operand they need less, and a piece may begin or end there.
    """
    starts = [
        sorted({a, min(a + extent, b - extent)}) for a, b, extent in zip(piece.start, piece.stop, tile, strict=True)
    ]
    return [
        Region(start, tuple(a + extent for a, extent in zip(start, tile, strict=True))) for start in product(*starts)
    ]


def _needed_bytes(
    shape: KernelShape, kernel: Kernel, piece: Region, around: Surroundings, overlay: Overlay | None
) -> tuple[int, int]:
    """Bytes of the places of a kernel with a mapping: where its core works, and in GB on the way there and back."""
    assert shape.anchor is not None, "of a kernel with a product"
    graph, tiling = shape.graph, kernel.tiling
    tiles = [operator_boxes(graph, shape.operators, tile) for tile in _largest_tiles(piece, tiling.tile)]
    parts = [part_box(shape.anchor, boxes[shape.anchor.name], tiling.reduction) for boxes in tiles]
    in_parts = parts[0] != tiles[0][shape.anchor.name]
    several = in_parts or tiling.tile != piece.extents
    own = passing = 0
    for operand in shape.operands:
        regions = [
            operand_region(shape, operand, boxes, part if operand.in_parts else None)
            for boxes, part in zip(tiles, parts, strict=True)
        ]
        size = max(aligned(graph.tensors[operand.tensor].bytes_of(region)) for region in regions)
        own += 2 * size if several and (operand.from_the_start or not in_parts) else size
        passing += 2 * size
    made = made_regions(shape, tiles[0])
    in_place = {op.writes[0].tensor for op in shape.operators if op.name in shape.in_place}
    if in_parts and overlay is not None:
        in_place.add(shape.anchor.writes[0].tensor)
    for name, region in made.items():
        size = aligned(graph.tensors[name].bytes_of(region))
        passing += 2 * size if name in shape.results else 0
        if name not in in_place and not (name in around.kept and around.results is shape.home):
            own += size if in_parts or not several else 2 * size
    if in_parts:
        own += aligned(4 * made[shape.anchor.writes[0].tensor].size)
    return own, passing
