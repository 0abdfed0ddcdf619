"""How long a schedule may be, so that writing it out step by step ends."""

from dataclasses import replace
from math import prod

from tilestitch.base.errors import FEWER_BATCHES, LARGER_SHARE, SMALLER_BATCH, DoesNotFit
from tilestitch.base.units import ceil_div, counted
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.graph import DimKind, Graph
from tilestitch.ir.schedule import Kernel, Schedule
from tilestitch.kernels.shape import Signatures, kernel_key

MAX_STEPS = 2**19  # of the kernels of one iteration that differ; each becomes several instructions, in 0.4 ms
MAX_UNROLLED_STEPS = 2**22  # of all kernels and iterations, which repeat the others


def expect_few_steps(schedule: Schedule, machine: Accelerator) -> None:
    """Refuse a schedule whose program would be too long, before it is written out; raises `DoesNotFit`."""
    steps = {kernel.name: _steps(schedule.graph, kernel) for kernel in schedule.kernels}
    name = max(steps, key=lambda name: steps[name], default="")
    once = sum(steps.values())
    signatures, differing = Signatures(schedule.graph), once
    if once > MAX_STEPS:
        differing = sum({kernel_key(signatures, kernel): steps[kernel.name] for kernel in schedule.kernels}.values())
    if differing > MAX_STEPS:
        most = " + ".join(next(kernel.operators for kernel in schedule.kernels if kernel.name == name))
        raise DoesNotFit(
            f"{schedule.graph.name} at batch {schedule.batch} on {machine.name} takes {differing:,} steps, one per "
            f"tile of different kernels, and at most {MAX_STEPS:,} are scheduled; most of them, {steps[name]:,}, are "
            f"of kernel {most}.",
            SMALLER_BATCH,
            "a machine with larger local buffers",
        )
    if once * schedule.iterations > MAX_UNROLLED_STEPS:
        raise DoesNotFit(
            f"{schedule.graph.name}: {counted(schedule.iterations, 'iteration')} of {counted(once, 'step')} each, and "
            f"at most {MAX_UNROLLED_STEPS:,} steps are scheduled.",
            SMALLER_BATCH,
            LARGER_SHARE,
            FEWER_BATCHES,
        )


def steps_of(schedule: Schedule) -> int:
    """How many tiles the cores of a cluster work on in all iterations, parts of a reduction counted one by one."""
    return schedule.iterations * sum(_steps(schedule.graph, kernel) for kernel in schedule.kernels)


def _steps(graph: Graph, kernel: Kernel) -> int:
    """How many tiles the cores work on in one iteration, parts of a reduction counted one by one; rounded up."""
    tiling = kernel.tiling
    if kernel.strips:
        return sum(_steps(graph, replace(kernel, strips=(), box=strip)) for _, strip in kernel.strips)
    box = graph.by_name[kernel.sink].whole if kernel.box is None else kernel.box
    tiles = prod(
        max(pieces, ceil_div(extent, tile))
        for extent, pieces, tile in zip(box.extents, tiling.splits, tiling.tile, strict=True)
    )
    if kernel.anchor is None:
        return tiles
    anchor = graph.by_name[kernel.anchor]
    reduced = zip(anchor.dims, tiling.reduction, strict=True)
    return tiles * prod(ceil_div(dim.extent, part) for dim, part in reduced if dim.kind is DimKind.REDUCTION)
