"""Run a program for its values, on byte-addressed memories, in the order in which the simulation ran it.

An instruction reads at its start and writes at its end; between the two its targets hold NaN, and so does freed space.
A missing wait or an overlapping buffer is therefore a wrong number.
"""

from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType

import numpy as np

from tilestitch.base.dtypes import DType
from tilestitch.base.storage import array_type, memory_scale
from tilestitch.ir.graph import Operator
from tilestitch.ir.program import Flag, Kind, Mode, Program
from tilestitch.ir.trace import Trace
from tilestitch.ops.contraction import finished, multiply, sum_dtype
from tilestitch.ops.views import by_dims
from tilestitch.sim.chip.probing import Taken
from tilestitch.sim.chip.steps import Steps
from tilestitch.sim.chip.values import ReadPlan, constant_to_storage, evaluate, operand, read_plans, store, to_storage

POISON = 0xFF  # all bits set: NaN in every floating type, -1 in the signed integers


@np.errstate(all="ignore")  # an infinity or a NaN is a value like others, on the machine as in onnxruntime
def execute(
    trace: Trace,
    inputs: Sequence[Mapping[str, np.ndarray]],
    *,
    wide: bool,
    steps: Steps | None = None,
    taken: Taken | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[dict[str, np.ndarray]]:
    """Outputs of every iteration, in storage types; `inputs` holds one mapping an iteration.

    The quantised tensors that `steps` knows are compared where they are computed, and take the values expected.
    `taken` sees what the first iteration writes.

    `wide` runs the same instructions on memories in which every address and size is doubled, so that every stored type
    has twice its width (float32 for float16). Both memories are twice as large again where elements are of 8 bits
    without a format, which float16 and float32 stand for.
    """
    machine = _Memories(trace.program, wide=wide, steps=steps, taken=taken)
    program = trace.program
    for name, buffer in program.constants:
        machine.array(buffer)[...] = constant_to_storage(
            program.graph.constants[name], program.graph.tensors[name].dtype, wide=wide
        )
    for number, name in enumerate(program.graph.inputs):
        for iteration, buffer in enumerate(program.inputs[number]):
            dtype = program.graph.tensors[name].dtype
            machine.array(buffer)[...] = to_storage(inputs[iteration][name], dtype, wide=wide)
    machine.run(trace, progress)
    return [
        {
            name: machine.array(program.outputs[number][iteration]).copy()
            for number, name in enumerate(program.graph.outputs)
        }
        for iteration in range(program.iterations)
    ]


def memory_bytes(program: Program, *, wide: bool) -> list[int]:
    """How much of each of its memories a program touches, from address 0 on."""
    ends = np.zeros(len(program.spaces), np.int64)
    np.maximum.at(ends, program.buffers.space, program.buffers.address + program.buffers.size_bytes)
    return [int(end) * _scale(program, wide=wide) for end in ends]


def _scale(program: Program, *, wide: bool) -> int:
    return memory_scale({tensor.dtype for tensor in program.graph.tensors.values()}, wide=wide)


def event_order(trace: Trace) -> np.ndarray:
    """Events in time order: `2 * i` is the start of instruction i, `2 * i + 1` its end; ends come first in a tie."""
    count = len(trace.program)
    time = np.empty(2 * count, np.int64)
    time[0::2], time[1::2] = trace.start_ticks, trace.end_ticks
    phase = np.empty(2 * count, np.int8)
    phase[0::2] = 1
    phase[1::2] = np.where(trace.end_ticks > trace.start_ticks, 0, 2)
    return np.lexsort((np.arange(2 * count), phase, time))


class _Memories:
    """Byte arrays, one per memory of the cluster, and the values in flight."""

    def __init__(self, program: Program, *, wide: bool, steps: Steps | None, taken: Taken | None) -> None:
        self.program, self.wide, self.scale = program, wide, _scale(program, wide=wide)
        self.steps, self.taken = steps, taken
        buffers = program.buffers
        self.bytes = [np.full(size, POISON, np.uint8) for size in memory_bytes(program, wide=wide)]
        self.space, self.address = buffers.space.tolist(), buffers.address.tolist()
        self.size, self.region = buffers.size_bytes.tolist(), buffers.region.tolist()
        names = program.tensors
        self.tensor = [names[t] for t in buffers.tensor.tolist()]
        self.uses = np.bincount(program.operand_buffer, minlength=len(buffers)).tolist()
        borders = [buffer for row in (*program.inputs, *program.outputs) for buffer in row]
        for kept in (*(buffer for _, buffer in program.constants), *borders):
            self.uses[kept] = -1  # outlives the program
        self.views: dict[int, np.ndarray] = {}
        self.slices: dict[tuple[int, int], tuple[slice | EllipsisType, ...]] = {}  # a region inside another
        self.plans: dict[tuple[int, int], tuple[ReadPlan, ...]] = {}  # of an operator's box of iterations
        self.pending: dict[int, Callable[[], None]] = {}

    def array(self, buffer: int) -> np.ndarray:
        """The elements of a buffer in logical axis order; writing to it writes to the memory."""
        known = self.views.get(buffer)
        if known is not None:
            return known
        program = self.program
        tensor = program.graph.tensors[self.tensor[buffer]]
        return self._view(buffer, tensor.dtype)

    def _sums(self, buffer: int, op: Operator) -> np.ndarray:
        """The partial sums of an operator, in a buffer of the accumulators."""
        return self._view(buffer, sum_dtype(op, self.program.graph))

    def _view(self, buffer: int, dtype: DType) -> np.ndarray:
        layout = self.program.graph.tensors[self.tensor[buffer]].layout
        extents = self.program.regions[self.region[buffer]].extents
        ordered = tuple(extents[axis] for axis in layout)
        held, room = array_type(dtype, wide=self.wide), dtype.size_bytes * self.scale
        places = self._bytes_of(buffer)
        if held.itemsize < room:  # the rest of its place stays poisoned
            places = places.reshape(-1, room)[:, : held.itemsize]
        values = places.view(held).reshape(ordered)
        inverse = sorted(range(len(layout)), key=layout.__getitem__)
        self.views[buffer] = view = values.transpose(inverse)
        return view

    def _bytes_of(self, buffer: int) -> np.ndarray:
        start = self.address[buffer] * self.scale
        return self.bytes[self.space[buffer]][start : start + self.size[buffer] * self.scale]

    def part(self, buffer: int, region: int) -> np.ndarray:
        """The elements of a region, by number, which lies inside the buffer's own region."""
        own = self.region[buffer]
        if own == region:
            return self.array(buffer)
        index = self.slices.get((own, region))
        if index is None:
            regions = self.program.regions
            index = self.slices[own, region] = regions[region].relative_to(regions[own]).slices
        return self.array(buffer)[index]

    def run(self, trace: Trace, progress: Callable[[int, int], None]) -> None:
        """Start and end every instruction in the order of the trace."""
        program = self.program
        offsets, buffers = program.operand_offsets.tolist(), program.operand_buffer.tolist()
        regions, modes = program.operand_region.tolist(), program.operand_mode.tolist()
        kinds = program.kind.tolist()
        order = event_order(trace).tolist()
        for done, event in enumerate(order):
            number, ending = divmod(event, 2)
            if kinds[number] == Kind.LAUNCH:
                continue
            first, last = offsets[number], offsets[number + 1]
            if ending:
                self._end(number, buffers[first:last], modes[first:last])
                if done % 4096 == 0:
                    progress(done, len(order))
                continue
            used = [(buffers[o], regions[o], modes[o]) for o in range(first, last)]
            if kinds[number] == Kind.COPY:
                self._start_copy(number, used)
            elif kinds[number] == Kind.STREAM:
                self._start_stream(number, *used[0])
            else:
                self._start_compute(number, used)
            for buffer, region, mode in used:
                if mode != Mode.READ:
                    self._poison(buffer, region)
        progress(len(order), len(order))

    def _end(self, number: int, buffers: Sequence[int], modes: Sequence[int]) -> None:
        """Free what this was the last use of, then let the results appear."""
        dead, last = [], bool(self.program.flags[number] & Flag.LAST)
        for buffer, mode in zip(buffers, modes, strict=True):
            self.uses[buffer] -= 1 if self.uses[buffer] > 0 else 0
            if self.uses[buffer] == 0:
                read = mode == Mode.READ or (last and mode == Mode.ACCUMULATE)  # sums that are complete are not stored
                if read and buffer not in dead:
                    self._free(buffer)
                else:
                    dead.append(buffer)
        self.pending.pop(number)()
        for buffer in dead:
            self._free(buffer)

    def _free(self, buffer: int) -> None:
        self._bytes_of(buffer)[...] = POISON
        self.views.pop(buffer, None)

    def _poison(self, buffer: int, region: int) -> None:
        if region == self.region[buffer]:
            self._bytes_of(buffer)[...] = POISON
            return
        part = self.part(buffer, region)
        part[...] = np.full((), POISON, np.uint8).repeat(part.itemsize).view(part.dtype)[0]

    def _start_copy(self, number: int, used: Sequence[tuple[int, int, int]]) -> None:
        source, region, _ = used[0]
        values = self.part(source, region).copy()
        targets = used[1:]

        def finish() -> None:
            for buffer, where, _ in targets:
                self.part(buffer, where)[...] = values

        self.pending[number] = finish

    def _start_stream(self, number: int, buffer: int, region: int, mode: int) -> None:
        """What passes out is there when it has passed; what passes in is used where it lies."""
        values = self.part(buffer, region).copy() if mode == Mode.WRITE else None

        def finish() -> None:
            if values is not None:
                self.part(buffer, region)[...] = values

        self.pending[number] = finish

    def _start_compute(self, number: int, used: Sequence[tuple[int, int, int]]) -> None:
        program = self.program
        key = operator, box_number = int(program.operator[number]), int(program.box[number])
        op, box = program.graph.by_name[program.operators[operator]], program.regions[box_number]
        plans = self.plans.get(key)
        if plans is None:
            plans = self.plans[key] = read_plans(program.graph, op, box)
        reads = [(buffer, region) for buffer, region, mode in used if mode == Mode.READ]
        writes = [(buffer, region) for buffer, region, mode in used if mode == Mode.WRITE]
        partial = next(((buffer, region) for buffer, region, mode in used if mode == Mode.ACCUMULATE), None)
        flags = int(program.flags[number])

        def read(k: int) -> np.ndarray:
            part = self.part(*reads[k])  # always copied: the memory may change before the result appears
            return part.astype(np.float32 if plans[k].dtype.is_float else np.int64)

        if partial is None:
            results = evaluate(op, box, plans, read)
        else:
            product = multiply(op, operand(0, box, plans, read), operand(1, box, plans, read))
            origin = program.regions[partial[1]].start
            if not flags & Flag.FIRST:
                product = product + by_dims(self._sums(partial[0], op), op.writes[0], box, origin)
            if flags & Flag.LAST:
                others = [operand(k, box, plans, read) for k in range(2, len(op.reads))]
                product = finished(op, product, others)
            results = [product]

        def finish() -> None:
            if partial is not None and not flags & Flag.LAST:
                origin = program.regions[partial[1]].start
                store(self._sums(partial[0], op), op.writes[0], box, origin, results[0])
                return
            for access, (buffer, region), values in zip(op.writes, writes, results, strict=True):
                tensor = program.graph.tensors[access.tensor]
                stored = to_storage(values, tensor.dtype, wide=self.wide)
                if self.steps is not None:
                    expected = self.steps.compare(tensor, int(program.iteration[number]), access, box, stored)
                    stored = stored if expected is None else to_storage(expected, tensor.dtype, wide=self.wide)
                origin = program.regions[self.region[buffer]].start
                store(self.array(buffer), access, box, origin, stored)
                if self.taken is not None and program.iteration[number] == 0:
                    self.taken.see(number, access.tensor, program.regions[region], self.array(buffer), origin)

        self.pending[number] = finish
