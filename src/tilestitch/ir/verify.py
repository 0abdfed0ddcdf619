"""The invariants of our values, each stated once; breaking one is a bug of Tilestitch."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from tilestitch.base.errors import InvalidIR
from tilestitch.base.units import counted
from tilestitch.ir.boxes import overlapping
from tilestitch.ir.graph import Access, Dim, DimKind, Graph, Operator
from tilestitch.ir.program import Flag, Kind, Mode, Program
from tilestitch.ir.region import Region

# Kinds whose first operand may be indexed outside its tensor.
PADDED_KINDS = frozenset(
    {"average_pool", "carry", "conv", "lp_pool", "lrn", "max_pool", "pad", "place_of_largest", "reduce_sum"}
)

# Kinds that are computed as a whole, so that a loop need not move each of the results.
UNCUT_KINDS = frozenset({"generic"})

_MOST = 2**62  # of bytes and cycles: room for one more addition in 64 bits
_WORD = re.compile(r"[^\W\d][\w.]*")  # in which the sum of an index can be written


def verify_graph(graph: Graph) -> None:
    """Raise `InvalidIR`, with every broken invariant on a line, unless `graph` holds them all.

    Names are known and unique, operators come after what they read, accesses have an index per axis and stay inside
    their tensors (padding excepted), every write fills a box, and the boxes of a tensor cover it once.
    """
    faults = [*_names(graph), *_operator_forms(graph)]
    if not faults:  # the rest may rely on names and forms
        faults = [*_order(graph), *_reads(graph), *_writes(graph)]
    if faults:
        raise InvalidIR("\n".join(f"graph {graph.name}: {fault}" for fault in faults))


def pair_dims(op: Operator, number: int) -> tuple[int, ...]:
    """The dims that matter to `writes[number]`: all, or those of its pair where several reads move to several writes.

    A concatenation has dims that move only one of its pairs; the others ignore them.
    """
    if len(op.writes) == 1 or len(op.writes) != len(op.reads):
        return tuple(range(len(op.dims)))
    return tuple(sorted(op.reads[number].dims | op.writes[number].dims))


def fills_box(access: Access, dims: Sequence[Dim]) -> bool:
    """Whether the iterations touch each element of the access's hull exactly once.

    That is so where no dim moves two axes, and each axis is a mixed-radix number: sorted by stride, each stride is the
    reach of the smaller ones, plus one.
    """
    if sum(len(axis.terms) for axis in access.axes) != len(access.dims):
        return False
    for axis in access.axes:
        reach = 1
        for dim, stride in sorted(axis.terms, key=lambda term: abs(term[1])):
            if dims[dim].extent > 1 and abs(stride) != reach:
                return False
            reach *= dims[dim].extent
    return True


def _names(graph: Graph) -> Iterator[str]:
    yield from _unique_operators(graph)
    yield from _known_tensors(graph)
    yield from _tensor_entries(graph)
    yield from _constant_shapes(graph)


def _unique_operators(graph: Graph) -> Iterator[str]:
    for name, count in Counter(op.name for op in graph.operators).items():
        if count > 1:
            yield f"{count} operators have the name {name!r}"


def _known_tensors(graph: Graph) -> Iterator[str]:
    for op in graph.operators:
        for name in (*op.inputs, *op.outputs):
            if name not in graph.tensors:
                yield f"operator {op.name!r} uses {name!r}, which is not a tensor of the graph"
    for role, names in (("input", graph.inputs), ("output", graph.outputs), ("constant", graph.constants)):
        for name in names:
            if name not in graph.tensors:
                yield f"{role} {name!r} is not a tensor of the graph"


def _tensor_entries(graph: Graph) -> Iterator[str]:
    for name, tensor in graph.tensors.items():
        if tensor.name != name:
            yield f"tensor {tensor.name!r} is listed as {name!r}"
        if sorted(tensor.layout) != list(range(len(tensor.shape))):
            yield f"tensor {name!r} of {len(tensor.shape)} axes has layout {tensor.layout}, which is not a permutation"
        if any(extent < 1 for extent in tensor.shape):
            yield f"tensor {name!r} has shape {tensor.shape}; every extent is at least 1"


def _constant_shapes(graph: Graph) -> Iterator[str]:
    for name, value in graph.constants.items():
        if name in graph.tensors and tuple(value.shape) != graph.tensors[name].shape:
            yield f"constant {name!r} of shape {value.shape} is declared with shape {graph.tensors[name].shape}"


def _operator_forms(graph: Graph) -> Iterator[str]:
    for op in graph.operators:
        yield from _dims_form(op)
        for access in (*op.reads, *op.writes):
            if access.tensor in graph.tensors:
                yield from _access_form(op, access, graph)
        if not op.writes:
            yield f"operator {op.name!r} writes nothing"


def _dims_form(op: Operator) -> Iterator[str]:
    for name, count in Counter(dim.name for dim in op.dims).items():
        if count > 1:
            yield f"operator {op.name!r} has {count} dims with the name {name!r}"
    for name, count in Counter(name for name, _ in op.attributes).items():
        if count > 1:
            yield f"operator {op.name!r} has {count} attributes with the name {name!r}"
    for dim in op.dims:
        if _WORD.fullmatch(dim.name) is None:
            yield f"operator {op.name!r}: dim {dim.name!r} has a name of other characters than letters, digits, _ and ."
        if dim.extent < 1:
            yield f"operator {op.name!r}: dim {dim.name!r} has extent {dim.extent}; expected at least 1"


def _access_form(op: Operator, access: Access, graph: Graph) -> Iterator[str]:
    where = f"operator {op.name!r}: access to {access.tensor!r}"
    rank = len(graph.tensors[access.tensor].shape)
    if len(access.axes) != rank:
        yield f"{where} has {len(access.axes)} indices for {rank} axes"
    if access.indirect_axis is not None and not 0 <= access.indirect_axis < rank:
        yield f"{where} is indirect on axis {access.indirect_axis} of {rank}"
    for number, axis in enumerate(access.axes):
        dims, strides = [d for d, _ in axis.terms], [s for _, s in axis.terms]
        if any(not 0 <= d < len(op.dims) for d in dims) or len(set(dims)) < len(dims):
            yield f"{where}, axis {number}: terms {axis.terms} do not name each of {len(op.dims)} dims at most once"
        if 0 in strides or strides != sorted(strides, key=abs, reverse=True):
            yield f"{where}, axis {number}: terms {axis.terms} are not sorted by falling non-zero stride"


def _order(graph: Graph) -> Iterator[str]:
    """Inputs and constants are written by nobody, everything else before it is read."""
    for name in (*graph.inputs, *graph.constants):
        for op in graph.producers.get(name, ()):
            yield f"operator {op.name!r} writes {name!r}, which comes from outside"
    given, done = {*graph.inputs, *graph.constants}, set[str]()
    for op in graph.operators:
        for name in op.inputs:
            if name not in given and name not in graph.producers:
                yield f"operator {op.name!r} reads {name!r}, which no operator writes"
        late = {name for maker in graph.makers[op.name] if maker.name not in done for name in maker.outputs}
        for name in op.inputs:
            if name in late:
                yield f"operator {op.name!r} reads {name!r} before all of it is written"
        done.add(op.name)
    for name in graph.outputs:
        if name not in given and name not in graph.producers:
            yield f"output {name!r} is never written"


def _reads(graph: Graph) -> Iterator[str]:
    """Every index that is read lies inside the tensor, or is padding of a kind that has padding."""
    for op in graph.operators:
        for number, access in enumerate(op.reads):
            if op.kind in PADDED_KINDS and number == 0:
                continue
            hull, shape = access.hull(op.whole), graph.tensors[access.tensor].shape
            for axis, (low, high, extent) in enumerate(zip(hull.start, hull.stop, shape, strict=True)):
                if low < 0 or high > extent:
                    yield (
                        f"operator {op.name!r} ({op.kind}) reads {access.tensor!r} at {low}:{high} of axis {axis}, "
                        f"which has {extent} elements; only {', '.join(sorted(PADDED_KINDS))} pad"
                    )


def _writes(graph: Graph) -> Iterator[str]:
    """Reductions end before the write; writes are boxes that together cover each tensor once."""
    for op in graph.operators:
        yield from _reductions_end(op)
        yield from _everything_is_written(op)
        yield from _writes_are_boxes(op)
    for name in graph.producers:
        yield from _covered_once(graph, name)


def _reductions_end(op: Operator) -> Iterator[str]:
    for access in op.writes:
        for dim in sorted(access.dims):
            if op.dims[dim].kind is DimKind.REDUCTION:
                yield f"operator {op.name!r}: reduction dim {op.dims[dim].name!r} moves the write to {access.tensor!r}"


def _everything_is_written(op: Operator) -> Iterator[str]:
    """A loop that is no reduction moves the result; otherwise its iterations would write one element many times."""
    for number, access in enumerate(op.writes):
        for d in () if op.kind in UNCUT_KINDS else pair_dims(op, number):
            dim = op.dims[d]
            if dim.extent > 1 and dim.kind is not DimKind.REDUCTION and d not in access.dims:
                yield f"operator {op.name!r}: {dim.kind} dim {dim.name!r} does not move the write to {access.tensor!r}"


def _writes_are_boxes(op: Operator) -> Iterator[str]:
    """A gap in what is written could not be told from what others write there; backwards is for reads."""
    for access in op.writes:
        if not fills_box(access, op.dims) or any(stride < 0 for axis in access.axes for _, stride in axis.terms):
            where = f"{access.hull(op.whole)} of {access.tensor!r}"
            yield f"operator {op.name!r} does not write each element of {where} once, forwards"


def _covered_once(graph: Graph, name: str) -> Iterator[str]:
    """The boxes that are written to a tensor lie in it, apart, and leave nothing out."""
    whole = Region.whole(graph.tensors[name].shape)
    boxes: list[tuple[Operator, Region]] = []
    for op in graph.producers[name]:
        for box in (access.hull(op.whole) for access in op.writes if access.tensor == name):
            if not whole.contains(box):
                yield f"operator {op.name!r} writes {box} of {name!r}, which is {whole}"
            boxes.append((op, box))
    for first, second in overlapping([box for _, box in boxes]):
        (other, taken), (op, box) = boxes[first], boxes[second]
        yield f"operators {other.name!r} and {op.name!r} both write {box.intersect(taken)} of {name!r}"
    written = sum(box.size for _, box in boxes)
    if written < whole.size:
        yield f"tensor {name!r}: {written:,} of {whole.size:,} elements are written"


def verify_program(program: Program) -> None:
    """Raise `InvalidIR` unless a program is well-formed.

    What it names exists, instructions have the operands of their kind, waits look back, boxes lie inside.

    Whether waits suffice and buffers are free when they are used is for execution to show.
    """
    faults = [*_columns(program)]
    if not faults:  # the rest may rely on numbers that name something
        faults = [*_numbers(program), *_entries(program)]
    if not faults:
        faults = [*_ranks(program)]
    if not faults:
        faults = [*_forms(program), *_waits(program), *_places(program), *_operands(program), *_results(program)]
    if faults:
        raise InvalidIR("\n".join(f"program of {program.graph.name}: {fault}" for fault in faults))


def _columns(program: Program) -> Iterator[str]:
    length = len(program)
    for name in (
        "kind",
        "flags",
        "kernel",
        "iteration",
        "operator",
        "box",
        "cycles",
        "size_bytes",
        "run_bytes",
        "path",
    ):
        if len(getattr(program, name)) != length:
            yield f"column {name} has {len(getattr(program, name))} entries for {length} instructions"
    for name, flat in (("operand_offsets", program.operand_buffer), ("wait_offsets", program.waits)):
        offsets = getattr(program, name)
        if len(offsets) != length + 1 or offsets[0] != 0 or offsets[-1] != len(flat) or (np.diff(offsets) < 0).any():
            yield f"column {name} does not cut {len(flat)} entries into {length} instructions"
    for name in ("operand_region", "operand_mode"):
        if len(getattr(program, name)) != len(program.operand_buffer):
            yield f"column {name} has {len(getattr(program, name))} entries for {len(program.operand_buffer)} operands"
    for name in ("address", "size_bytes", "tensor", "region"):
        if len(getattr(program.buffers, name)) != len(program.buffers):
            found = len(getattr(program.buffers, name))
            yield f"column {name} of buffers has {found} entries for {len(program.buffers)} buffers"


def _numbers(program: Program) -> Iterator[str]:
    """Every number of a column stands for something that there is, or is an amount."""
    buffers, regions = program.buffers, len(program.regions)
    for what, column, least, stop in (
        ("engine of an instruction", program.engine, 0, len(program.engines)),
        ("kind of an instruction", program.kind, 0, len(Kind)),
        ("flags of an instruction", program.flags, 0, 2 * max(Flag)),
        ("kernel of an instruction", program.kernel, 0, len(program.kernels)),
        ("iteration of an instruction", program.iteration, 0, program.iterations),
        ("operator of an instruction", program.operator, -1, len(program.operators)),
        ("box of an instruction", program.box, -1, regions),
        ("cycles of an instruction", program.cycles, 0, _MOST),
        ("size_bytes of an instruction", program.size_bytes, 0, _MOST),
        ("run_bytes of an instruction", program.run_bytes, 0, _MOST),
        ("path of an instruction", program.path, -1, len(program.paths)),
        ("buffer of an operand", program.operand_buffer, 0, len(buffers)),
        ("region of an operand", program.operand_region, 0, regions),
        ("mode of an operand", program.operand_mode, 0, len(Mode)),
        ("space of a buffer", buffers.space, 0, len(program.spaces)),
        ("address of a buffer", buffers.address, 0, _MOST),
        ("size_bytes of a buffer", buffers.size_bytes, 0, _MOST),
        ("tensor of a buffer", buffers.tensor, 0, len(program.tensors)),
        ("region of a buffer", buffers.region, 0, regions),
    ):
        for at in np.flatnonzero((column < least) | (column >= stop))[:1]:
            right = f"{least} to {stop - 1:,}" if stop > least else "nothing, as there is none"
            yield f"{what} {at} is {column[at]}; expected {right}"


def _entries(program: Program) -> Iterator[str]:
    """What tables name is there, and regions have indices."""
    graph = program.graph
    for number, path in enumerate(program.paths):
        if not path or not all(0 <= resource < len(program.resources) for resource in path):
            yield f"path {number} is {list(path)}; expected resources 0 to {len(program.resources) - 1}"
    for number, region in enumerate(program.regions):
        if not all(0 <= low < high for low, high in zip(region.start, region.stop, strict=True)) or region.size > _MOST:
            yield f"region {number} is {region}; expected indices from 0 on, at least one of each axis, and few enough"
    for what, names, known in (
        ("tensor", program.tensors, graph.tensors),
        ("operator", program.operators, graph.by_name),
    ):
        for name in names:
            if name not in known:
                yield f"{what} {name!r} is not in the graph"
    for what, names, rows in (("input", graph.inputs, program.inputs), ("output", graph.outputs, program.outputs)):
        if len(names) != len(rows):
            yield f"there are buffers for {len(rows)} {what}s, and the graph has {len(names)}"
        for row in rows:
            if len(row) != program.iterations or not all(0 <= buffer < len(program.buffers) for buffer in row):
                right = f"one of 0 to {len(program.buffers) - 1} for each of {counted(program.iterations, 'iteration')}"
                yield f"the buffers of an {what} are {list(row)}; expected {right}"
    for name, buffer in program.constants:
        if name not in graph.constants or not 0 <= buffer < len(program.buffers):
            yield f"constant {name!r} in buffer {buffer}: there is no such constant, or no such buffer"


def _ranks(program: Program) -> Iterator[str]:
    """Regions have as many axes as what they are of: a tensor, or the loops of an operator."""
    ranks = np.array([len(region.start) for region in program.regions], np.int64)
    tensors = np.array([len(program.graph.tensors[name].shape) for name in program.tensors], np.int64)
    loops = np.array([len(program.graph.by_name[name].dims) for name in program.operators], np.int64)
    held = tensors[program.buffers.tensor]
    boxes = np.flatnonzero(np.isin(program.kind, (Kind.COMPUTE, Kind.GATHER)))
    for at in boxes[(program.box[boxes] < 0) | (program.operator[boxes] < 0)][:1]:
        yield f"instruction {at} computes no box of an operator"
        return
    for what, found, right in (
        ("the region of buffer", ranks[program.buffers.region], held),
        ("the region of operand", ranks[program.operand_region], held[program.operand_buffer]),
        ("the box of a computation", ranks[program.box[boxes]], loops[program.operator[boxes]]),
    ):
        for at in np.flatnonzero(found != right)[:1]:
            yield f"{what} {at} has {found[at]} axes; expected {right[at]}"


def _forms(program: Program) -> Iterator[str]:
    """A copy has one source and targets alike, a computation the operands of its operator, within its loops."""
    graph, count = program.graph, np.diff(program.operand_offsets)
    owner = np.repeat(np.arange(len(program)), count)
    reads, writes, sums = (
        np.bincount(owner[program.operand_mode == mode], minlength=len(program))
        for mode in (Mode.READ, Mode.WRITE, Mode.ACCUMULATE)
    )
    first = program.operand_offsets[:-1]
    begins = count > 0
    begins[begins] = program.operand_mode[first[begins]] == Mode.READ
    copies = program.kind == Kind.COPY
    for at in np.flatnonzero(copies & ~(begins & (reads == 1) & (writes > 0) & (sums == 0)))[:1]:
        yield f"copy {at} reads {reads[at]} and writes {writes[at]} operands; expected one, the first, and at least one"
    for at in np.flatnonzero((program.kind == Kind.STREAM) & (count != 1))[:1]:
        yield f"stream {at} has {count[at]} operands; expected one"
    computing = np.flatnonzero(np.isin(program.kind, (Kind.COMPUTE, Kind.GATHER)))
    operators = [graph.by_name[name] for name in program.operators]
    needed = np.array([len(op.reads) for op in operators], np.int64)[program.operator[computing]]
    made = np.array([len(op.writes) for op in operators], np.int64)[program.operator[computing]]
    last = (sums[computing] == 0) | (program.flags[computing] & Flag.LAST > 0)
    right = (reads[computing] >= np.where(last, needed, np.minimum(needed, 2))) & (sums[computing] <= 1)
    for at in computing[~right | (last & (writes[computing] != made))][:1]:
        op = operators[program.operator[at]]
        yield f"instruction {at} computes {op.name!r} and reads {reads[at]} and writes {writes[at]} operands"
    loops = [op.whole for op in operators]
    computed = zip(program.operator[computing].tolist(), program.box[computing].tolist(), strict=True)
    for number, box in dict.fromkeys(computed):
        if not loops[number].contains(program.regions[box]):
            found = program.regions[box]
            yield f"the iterations {found} of {operators[number].name!r} are computed, which has {loops[number]}"
    sizes = np.array([region.size for region in program.regions], np.int64)[program.operand_region]
    moved = np.flatnonzero(copies[owner])
    for at in moved[sizes[moved] != sizes[first[owner[moved]]]][:1]:
        yield f"copy {owner[at]} moves {sizes[first[owner[at]]]:,} elements to a region of {sizes[at]:,}"


def _waits(program: Program) -> Iterator[str]:
    owner = np.repeat(np.arange(len(program)), np.diff(program.wait_offsets))
    for at in np.flatnonzero((program.waits < 0) | (program.waits >= owner))[:1]:
        yield f"instruction {owner[at]} waits for {program.waits[at]}, which does not come before it"


def _places(program: Program) -> Iterator[str]:
    buffers = program.buffers
    size = np.array([space.size_bytes for space in program.spaces])
    ends = buffers.address + buffers.size_bytes
    for at in np.flatnonzero((buffers.address < 0) | (ends > size[buffers.space]))[:1]:
        space = program.spaces[buffers.space[at]]
        yield f"buffer {at} ({program.buffer_text(int(at))}) ends at {ends[at]:,}, {space.name} at {space.size_bytes:,}"
    need = np.array([program.regions[r].size for r in range(len(program.regions))])[buffers.region]
    element = np.array([program.buffer_dtype(b).size_bytes for b in range(len(buffers))])
    for at in np.flatnonzero(need * element != buffers.size_bytes)[:1]:
        yield f"buffer {at} ({program.buffer_text(int(at))}) has {buffers.size_bytes[at]:,} B for {need[at]:,} elements"


def _operands(program: Program) -> Iterator[str]:
    pairs = {(int(program.buffers.region[b]), int(r)): int(b) for b, r in zip(
        program.operand_buffer, program.operand_region, strict=True)}  # fmt: skip
    for (own, used), buffer in pairs.items():
        if not program.regions[own].contains(program.regions[used]):
            held, text = program.regions[own], program.buffer_text(buffer)
            yield f"{program.regions[used]} is used of {text}, which holds {held}"
            return


def _results(program: Program) -> Iterator[str]:
    """Every element of every output is written in every iteration, by counting: no instruction writes one twice."""
    written = np.zeros(len(program.buffers), np.int64)
    writes = program.operand_mode == Mode.WRITE
    sizes = np.array([region.size for region in program.regions])
    np.add.at(written, program.operand_buffer[writes], sizes[program.operand_region[writes]])
    for number, name in enumerate(program.graph.outputs):
        whole = Region.whole(program.graph.tensors[name].shape).size
        for iteration, buffer in enumerate(program.outputs[number]):
            if written[buffer] < whole:
                yield f"output {name} of iteration {iteration}: {written[buffer]:,} of {whole:,} elements are written"
                return
