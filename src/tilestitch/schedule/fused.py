"""Plans of fused blocks as kernels: each core of a block makes its strip of what leaves, and all that this needs.

INFERRED, as docs/dlfusion.md#block-model: strips lie along the rows of a result, halos are computed by every core that
needs them, and nothing passes between the cores of a block.
"""

from collections.abc import Sequence

from tilestitch.base.errors import InputError, printable
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.graph import Graph
from tilestitch.ir.partition import FusedBlock
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import BlockRun
from tilestitch.schedule.pieces import KernelIndex, tasks_for
from tilestitch.schedule.tasks import KernelBoxes, Task


def tasks_of_blocks(
    graph: Graph, kernels: Sequence[tuple[str, ...]], blocks: Sequence[FusedBlock]
) -> tuple[list[Task], tuple[BlockRun, ...]]:
    """The kernels of the blocks, in their order, each with the strip of every core; a block of views alone has none.

    `kernels` hold operators that may run together, in running order; a block runs those of its own operators. Raises
    `InputError` where a block reads what runs after it.
    """
    _expect_order(graph, blocks)
    tasks: list[Task] = []
    runs: list[BlockRun] = []
    known = KernelIndex(graph, kernels)
    for number, block in enumerate(blocks):
        own = _tasks_of(graph, known, block, number)
        if own:
            runs.append(BlockRun(number, len(tasks), len(tasks) + len(own) - 1, block.cores))
            tasks += own
    return tasks, tuple(runs)


def expect_alike(machine: Accelerator) -> None:
    """Refuse a machine whose cores could not all make their strips of the same operators."""
    if len(machine.groups) > 1:
        raise InputError(
            f"{machine.name}: has cores that are not alike, and a fused block divides every operator among its cores; "
            "choose another machine, or another strategy, such as graphturbo"
        )


def _expect_order(graph: Graph, blocks: Sequence[FusedBlock]) -> None:
    block_of = {name: number for number, block in enumerate(blocks) for name in block.operators}
    for op in graph.operators:
        for maker in graph.makers[op.name]:
            if block_of[maker.name] > block_of[op.name]:
                raise InputError(
                    f"block {block_of[op.name]}: operator {printable(op.name)} reads what {printable(maker.name)} "
                    f"makes in block {block_of[maker.name]}; expected blocks in an order in which they can run"
                )


def _tasks_of(graph: Graph, kernels: KernelIndex, block: FusedBlock, number: int) -> list[Task]:
    own = kernels.within(block.operators)
    results = graph.leaving([graph.by_name[name] for name in block.operators])
    boxes = KernelBoxes(graph)
    strips: dict[tuple[str, ...], list[tuple[int, Region]]] = {}
    for core in range(block.cores):
        wanted = {name: strip for name in results if (strip := strip_of(graph, name, core, block.cores)) is not None}
        for task in tasks_for(boxes, own, wanted):
            assert task.box is not None
            strips.setdefault(task.operators, []).append((core, task.box))
    found = []
    for kernel in own:
        names = tuple(op.name for op in kernel)
        if names not in strips:
            continue  # nobody needs it
        hull = strips[names][0][1]
        for _, strip in strips[names]:
            hull = hull.hull(strip)
        found.append(Task(names, hull, not found, block=number, strips=tuple(strips[names])))
    return found


def strip_of(graph: Graph, tensor: str, core: int, cores: int) -> Region | None:
    """The part of a result that one of several cores brings out of a block; None where it is left without any.

    Strips of several results lie at the same height of each, so that one core needs few rows for all of them.
    """
    shape = graph.tensors[tensor].shape
    if not shape:
        return Region.whole(shape) if core == 0 else None
    axis = strip_axis(shape)
    start, stop = (shape[axis] * at // cores for at in (core, core + 1))
    return Region.whole(shape).slab(axis, start, stop) if start < stop else None


def strip_axis(shape: Sequence[int]) -> int:
    """Rows of an image (N, C, H, W), positions of a sequence (N, S, C), rows of a matrix; channels where there is one.

    And the longest axis where there are no channels either.
    """
    rows = {4: 2, 3: 1, 2: 0}.get(len(shape), 0)
    if not shape or shape[rows] > 1:
        return rows
    return 1 if len(shape) > 1 and shape[1] > 1 else max(range(len(shape)), key=lambda axis: (shape[axis], -axis))
