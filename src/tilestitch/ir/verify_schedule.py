"""The invariants of partitions and schedules, each stated once."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import prod

from tilestitch.base.errors import InvalidIR
from tilestitch.base.units import counted
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.graph import DimKind, Graph, Operator
from tilestitch.ir.partition import Blocks, ByHand, Kernels, Partition, SubGraphs
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Home, Kernel, Schedule
from tilestitch.ir.tiles import cuts_of, kernels_of


def verify_partition(partition: Partition, graph: Graph, machine: Accelerator) -> None:
    """Raise `InvalidIR`, with every broken invariant on a line, unless every operator is in one place and can run.

    Kernels have one end that all their operators lead to, and come after what they read.
    """
    faults = list(_kernel_sets(partition.kernels, graph))
    if isinstance(partition, SubGraphs):
        faults += _once("sub-graph", [one.operators for one in partition.sub_graphs], graph)
        for number, one in enumerate(partition.sub_graphs):
            if one.pieces < 1 or one.axis < 0 or one.peak_bytes < 0:
                faults.append(f"sub-graph {number} has {one.pieces} pieces along axis {one.axis}; expected 1 or more")
            elif one.pieces > 1:
                faults += _cuttable(number, one.operators, one.axis, one.pieces, graph)
    if isinstance(partition, Blocks):
        faults += _once("block", [one.operators for one in partition.blocks], graph)
        most = len(machine.cores)
        for number, block in enumerate(partition.blocks):
            if not 1 <= block.cores <= most:
                faults.append(f"block {number} runs on {block.cores} cores; expected 1 to {most}")
    if isinstance(partition, ByHand) and not partition.schedule.groups:
        faults.append("a schedule by hand has no groups")
    _refuse("partition", faults)


def verify_schedule(schedule: Schedule, machine: Accelerator) -> None:
    """Raise `InvalidIR`, with every broken invariant on a line, unless `schedule` can be lowered for `machine`.

    Kernels have one end, are cut where their operators allow it and run on cores that there are; what stays on chip
    lies inside a memory that there is, from the kernel that makes it to the last that reads it.
    """
    faults = []
    if min(schedule.batch, schedule.iterations, schedule.clusters) < 1 or schedule.clusters > machine.clusters:
        faults.append(
            f"runs {schedule.iterations} iterations of batch {schedule.batch} on {schedule.clusters} clusters; "
            f"expected 1 or more, and at most {machine.clusters} clusters"
        )
    for kernel in schedule.kernels:
        faults += [f"kernel {kernel.name}: {fault}" for fault in _kernel(kernel, schedule.graph, machine)]
    done = {name for kernel in schedule.kernels for name in kernel.operators}
    missing = [op.name for op in schedule.graph.operators if op.name not in done]
    if missing:
        faults.append(f"operator {missing[0]!r} runs in no kernel")
    for home in schedule.homes:
        faults += [f"home of {home.tensor!r}: {fault}" for fault in _home(home, schedule, machine)]
    last = len(schedule.kernels)
    for what, runs in (("piece", schedule.pieces), ("block", schedule.blocks)):
        for number, run in enumerate(runs):
            if not 0 <= run.first <= run.last < last:
                faults.append(f"{what} {number} runs kernels {run.first} to {run.last} of {last}")
    for number, piece in enumerate(schedule.pieces):
        if any(not 0 <= one < number for one in piece.producers):
            faults.append(f"piece {number} reads what pieces {piece.producers} make; expected some before it")
        for tensor, region in piece.writes:
            if tensor not in schedule.graph.tensors or not _inside(region, schedule.graph.tensors[tensor].shape):
                faults.append(f"piece {number} writes {tensor!r}{region}, which does not exist")
    _refuse(f"schedule {schedule.strategy}", faults)


def _refuse(what: str, faults: Sequence[str]) -> None:
    if faults:
        raise InvalidIR("\n".join(f"{what}: {fault}" for fault in faults))


def _once(what: str, sets: Sequence[tuple[str, ...]], graph: Graph) -> Iterator[str]:
    """Every operator of the graph in one of some sets; a block of views alone has none of its own."""
    for name, count in Counter(name for one in sets for name in one).items():
        if name not in graph.by_name:
            yield f"there is no operator {name!r}"
        elif count > 1:
            yield f"operator {name!r} is in {counted(count, what)}; expected one"
    inside = {name for one in sets for name in one}
    for op in graph.operators:
        if op.name not in inside:
            yield f"operator {op.name!r} is in no {what}"
    for number, one in enumerate(sets):
        if not one and what != "block":
            yield f"{what} {number} has no operators"


def _kernel_sets(kernels: Kernels, graph: Graph) -> Iterator[str]:
    faults = list(_once("kernel", kernels, graph))
    if faults:
        yield from faults
        return
    done: set[str] = set()
    for number, kernel in enumerate(kernels):
        operators = [graph.by_name[name] for name in kernel]
        if kernels_of(graph, operators) != [tuple(operators)]:
            yield f"kernel {number} ({' + '.join(kernel)}) has several ends, or an order in which it cannot run"
        done.update(kernel)
        for op in operators:
            late = [one.name for one in graph.makers[op.name] if one.name not in done]
            if late:
                yield f"kernel {number}: operator {op.name!r} reads what {late[0]!r} makes, which runs later"


def _cuttable(number: int, operators: Sequence[str], axis: int, pieces: int, graph: Graph) -> Iterator[str]:
    inside = set(operators)
    for name in operators:
        for tensor in graph.by_name[name].outputs:
            readers = [reader for reader in graph.readers[name] if tensor in reader.inputs]
            if tensor not in graph.outputs and all(reader.name in inside for reader in readers):
                continue
            shape = graph.tensors[tensor].shape
            if axis >= len(shape) or pieces > shape[axis]:
                yield f"sub-graph {number}: {pieces} pieces along axis {axis} of {tensor!r}, which has shape {shape}"


def _kernel(kernel: Kernel, graph: Graph, machine: Accelerator) -> Iterator[str]:
    unknown = [name for name in kernel.operators if name not in graph.by_name]
    if unknown or not kernel.operators:
        yield f"there is no operator {unknown[0]!r}" if unknown else "has no operators"
        return
    operators = tuple(graph.by_name[name] for name in kernel.operators)
    if kernels_of(graph, operators) != [operators]:
        yield "has several ends, or an order in which it cannot run"
    if kernel.anchor is not None and kernel.anchor not in kernel.operators:
        yield f"its anchor {kernel.anchor!r} is none of its operators"
        return
    yield from _cores(kernel, machine)
    sink, tiling = operators[-1], kernel.tiling
    dims = len(sink.dims)
    if kernel.box is not None and not _inside(kernel.box, tuple(dim.extent for dim in sink.dims)):
        yield f"covers {kernel.box}; expected iterations of {sink.name!r}"
    if any(len(one) != dims for one in (tiling.splits, tiling.tile, tiling.steps)) or dims != len(tiling.order):
        yield f"its splits, tiles, steps and order have not {dims} entries, as the dims of {sink.name!r}"
        return
    if sorted(tiling.order) != list(range(dims)):
        yield f"its order {tiling.order} is not an order of {counted(dims, 'dim')}"
    if min((*tiling.splits, *tiling.tile, *tiling.steps), default=1) < 1:
        yield "splits, tiles and steps are at least 1"
    elif not kernel.strips and prod(tiling.splits) > len(kernel.cores):
        yield f"is split {prod(tiling.splits)} times over {counted(len(kernel.cores), 'core')}"
    if not kernel.streamed and tiling.steps != cuts_of(graph, operators).steps:
        yield f"is cut at multiples of {tiling.steps}; expected {cuts_of(graph, operators).steps}"
    yield from _reduction(kernel, graph)
    yield from _mapping(kernel, graph, machine)
    halves = tiling.halves
    if halves is not None and not (0 <= halves.dim < dims and halves.first + halves.last > 0):
        yield f"has {halves.first} first and {halves.last} last tiles in halves of dim {halves.dim}"
    for name in tiling.resident:
        if name not in graph.tensors:
            yield f"keeps {name!r}, which is no tensor"
    for core, strip in kernel.strips:
        if core not in kernel.cores or not _inside(strip, tuple(dim.extent for dim in sink.dims)):
            yield f"a strip {strip} on core {core} is none of its iterations or cores"


def _cores(kernel: Kernel, machine: Accelerator) -> Iterator[str]:
    there = len(machine.cores)
    if not kernel.cores or len(set(kernel.cores)) != len(kernel.cores):
        yield f"runs on cores {kernel.cores}; expected one or more, each once"
    elif min(kernel.cores) < 0 or max(kernel.cores) >= there:
        yield f"runs on cores {kernel.cores}; expected 0 to {there - 1}"
    elif len({machine.cores[core] for core in kernel.cores}) > 1:
        yield f"runs on cores {kernel.cores}, which are not alike"


def _reduction(kernel: Kernel, graph: Graph) -> Iterator[str]:
    if kernel.anchor is None or kernel.streamed:
        return
    anchor: Operator = graph.by_name[kernel.anchor]
    parts = kernel.tiling.reduction
    if len(parts) != len(anchor.dims):
        yield f"its parts of a reduction have {len(parts)} entries for {len(anchor.dims)} dims of {anchor.name!r}"
        return
    for dim, part in zip(anchor.dims, parts, strict=True):
        if part < 1 or (part < dim.extent and dim.kind is not DimKind.REDUCTION):
            yield f"dim {dim.name} of {anchor.name!r} is reduced in parts of {part}"


def _mapping(kernel: Kernel, graph: Graph, machine: Accelerator) -> Iterator[str]:
    """A mapping is of the anchor, on an array, and its tile has the parts of the reduction."""
    mapping = kernel.mapping
    if mapping is None:
        return
    if kernel.anchor is None or any(machine.cores[core].array is None for core in kernel.cores[:1]):
        yield "has a mapping, and no product on an array"
        return
    anchor: Operator = graph.by_name[kernel.anchor]
    loops = list(range(len(anchor.dims)))
    rows = mapping.factors.values()
    if any(len(row) != len(loops) or min(row, default=1) < 1 for row in rows):
        yield f"its mapping has not a factor from 1 on for each of {len(loops)} dims of {anchor.name!r} at every level"
    elif sorted(mapping.dram_order) != loops or sorted(mapping.spm_order) != loops:
        yield f"the orders of its mapping do not have each of {len(loops)} loops once"
    elif prod(mapping.scratchpad_tile) % prod(_parts_of_reduction(kernel, anchor)):
        yield f"its mapping has tiles of {mapping.scratchpad_tile}, which are not its parts {kernel.tiling.reduction}"


def _parts_of_reduction(kernel: Kernel, anchor: Operator) -> Iterator[int]:
    for dim, part in zip(anchor.dims, kernel.tiling.reduction, strict=False):
        if dim.kind is DimKind.REDUCTION:
            yield part


def _home(home: Home, schedule: Schedule, machine: Accelerator) -> Iterator[str]:
    if home.tensor not in schedule.graph.tensors:
        yield "is no tensor"
        return
    memory = machine.memory(home.level) if home.level in (Level.LB, Level.GB) else None
    if memory is None:
        yield f"{home.level.upper()} is not a memory of {machine.name} in which results stay; expected LB or GB"
    elif home.address < 0 or home.size_bytes < 0 or home.address + home.size_bytes > memory.size_bytes:
        place = f"{home.size_bytes:,} B at {home.address:,} of {home.level.upper()}"
        yield f"{place}, which has {memory.size_bytes:,} B"
    if not 0 <= home.first <= home.last < len(schedule.kernels):
        yield f"is kept from kernel {home.first} to {home.last} of {len(schedule.kernels)}"
    elif not home.fetched and not _makes(schedule.kernels[home.first], home.tensor, schedule.graph):
        yield f"is kept from kernel {home.first}, which does not make it"
    shape = schedule.graph.tensors[home.tensor].shape
    if not all(_inside(region, shape) for region in (home.region, *(part for _, part in home.parts))):
        yield f"{home.region} and its parts are not all inside shape {shape}"
    if any(not 0 <= core < len(machine.cores) for core, _ in home.parts):
        yield f"has parts on cores {[core for core, _ in home.parts]}; expected 0 to {len(machine.cores) - 1}"


def _makes(kernel: Kernel, tensor: str, graph: Graph) -> bool:
    """Whether one of a kernel's operators writes a tensor; those that are not there are complained of elsewhere."""
    return any(name in graph.by_name and tensor in graph.by_name[name].outputs for name in kernel.operators)


def _inside(region: Region, shape: Sequence[int]) -> bool:
    """Whether a box has a place for each axis, and is not empty."""
    return len(region.start) == len(region.stop) == len(shape) and all(
        0 <= start < stop <= extent for start, stop, extent in zip(region.start, region.stop, shape, strict=True)
    )
