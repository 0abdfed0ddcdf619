"""Waits and places: what the builder makes instructions wait for, and that execution shows what is missing."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.graphs import Net, random_inputs
from tests.helpers.kernel_runs import EXACT, Run, error, product, resolved, run, toy, two_windows
from tests.helpers.pairs import first
from tests.helpers.random_networks import random_machine, random_model
from tests.helpers.touched_bytes import conflicts, misread, too_early
from tilestitch.base import memory
from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.program import EngineKind, Kind, Mode, Program
from tilestitch.ir.region import Region
from tilestitch.ir.report import CheckRow
from tilestitch.ir.trace import Trace
from tilestitch.lower.builder import Address, Base, Builder
from tilestitch.lower.cluster import Cluster
from tilestitch.lower.link import Here, Linker, Numbering, section_of
from tilestitch.lower.motion import Motion
from tilestitch.pipeline.compile import compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import STRATEGIES
from tilestitch.sim.chip import room
from tilestitch.sim.chip.check import checked
from tilestitch.sim.chip.execute import event_order, execute, memory_bytes
from tilestitch.sim.chip.reference import Reference
from tilestitch.sim.chip.timing import simulate

# ---- what an instruction waits for

CLUSTER = Cluster(toy(2))
LB = CLUSTER.space(Level.LB, 0)
DMA, MOVER, MATRIX, VECTOR = (
    CLUSTER.engine(kind, core)
    for kind, core in ((EngineKind.DMA_IN, None), (EngineKind.MOVER, 0), (EngineKind.MATRIX, 0), (EngineKind.VECTOR, 0))
)
TOP, BOTTOM, MIDDLE = Region((0,), (50,)), Region((50,), (100,)), Region((30,), (70,))
R, W, A = Mode.READ, Mode.WRITE, Mode.ACCUMULATE


class Text:
    """A builder and the waits of what has been added to it."""

    def __init__(self) -> None:
        self.builder = Builder(CLUSTER)

    def buffer(self, address: int, size_bytes: int = 200, shape: tuple[int, ...] = (100,)) -> int:
        return self.builder.buffer(LB, Address(Base.MEMORY, address), size_bytes, "x", Region.whole(shape))

    def add(self, engine: int, *operands: tuple[int, Region, Mode]) -> tuple[int, ...]:
        """What a new instruction on this engine waits for."""
        self.builder.emit(Kind.COMPUTE, engine, operands, cycles=1)
        return self.waits()[-1]

    def launch(self) -> tuple[int, ...]:
        self.builder.launch(1000)
        return self.waits()[-1]

    def waits(self) -> list[tuple[int, ...]]:
        """What every instruction waits for."""
        linker, block = Linker(CLUSTER, Numbering(), ()), section_of(self.builder, Motion({}))
        linker.add(block, block.buffers[:, 1], Here(0, (), {"x": "x"}, {}, ()))
        found = linker.waits()
        ends = found.counts.cumsum()
        return [tuple(found.waits[end - count : end].tolist()) for count, end in zip(found.counts, ends, strict=True)]


def test_a_reader_waits_for_the_writer_of_its_part():
    """And for no writer of another part, and for no other reader."""
    text = Text()
    x = text.buffer(0)
    assert text.add(DMA, (x, TOP, W)) == ()
    assert text.add(MOVER, (x, BOTTOM, W)) == ()
    assert text.add(VECTOR, (x, TOP, R)) == (0,)
    assert text.add(MATRIX, (x, MIDDLE, R)) == (0, 1)


def test_a_writer_waits_for_the_readers_and_writers_of_its_part():
    text = Text()
    x = text.buffer(0)
    text.add(DMA, (x, TOP, W))
    text.add(VECTOR, (x, TOP, R))
    text.add(MATRIX, (x, BOTTOM, R))
    assert text.add(MOVER, (x, TOP, W)) == (0, 1)
    assert text.add(MATRIX, (x, TOP, A)) == (0, 1, 3)


def test_an_engine_does_not_wait_for_itself():
    """It executes its instructions in order anyway; and the latest of another engine covers all before it."""
    text = Text()
    x, y = text.buffer(0), text.buffer(200)
    text.add(DMA, (x, TOP, W))
    text.add(DMA, (y, TOP, W))
    assert text.add(DMA, (x, TOP, R)) == ()
    assert text.add(VECTOR, (x, TOP, R), (y, TOP, R)) == (1,)


def test_the_latest_of_several_uses_counts():
    """Also of a region that was used before another one, and again after it."""
    text = Text()
    x = text.buffer(0)
    text.add(DMA, (x, TOP, W))
    text.add(DMA, (x, MIDDLE, W))
    text.add(DMA, (x, TOP, W))
    assert text.add(VECTOR, (x, MIDDLE, R)) == (2,)


@pytest.mark.parametrize("address", [0, 50, 150, 199])
def test_a_new_owner_waits_for_the_last_users_of_its_place(address):
    """Readers and writers, wherever the two buffers meet, at the first and at every later write."""
    text = Text()
    x = text.buffer(0)
    text.add(DMA, (x, TOP, W))
    text.add(VECTOR, (x, TOP, R))
    new = text.buffer(address)
    assert text.add(MOVER, (new, TOP, W)) == (0, 1)
    assert text.add(MATRIX, (new, BOTTOM, W)) == (0, 1)


def test_a_new_owner_waits_for_the_last_user_of_an_engine():
    """Of two readers on one engine, and of two old owners, the later one."""
    text = Text()
    x, y = text.buffer(0), text.buffer(200)
    text.add(VECTOR, (x, TOP, R))
    text.add(VECTOR, (x, BOTTOM, R))
    text.add(VECTOR, (y, TOP, R))
    assert text.add(MOVER, (text.buffer(0, 400), TOP, W)) == (2,)
    text = Text()
    x = text.buffer(0)
    text.add(VECTOR, (x, BOTTOM, R))
    text.add(VECTOR, (x, TOP, R))
    assert text.add(MOVER, (text.buffer(0), TOP, W)) == (1,)


@pytest.mark.parametrize("address", [-200, 200])
def test_a_neighbour_waits_for_nobody(address):
    """Buffers that touch do not overlap."""
    text = Text()
    x = text.buffer(200)
    text.add(DMA, (x, TOP, W))
    assert text.add(MOVER, (text.buffer(200 + address), TOP, W)) == ()


def test_what_is_left_of_an_old_owner_is_still_its_own():
    """Of a buffer whose middle is overwritten, both ends are waited for later."""
    text = Text()
    x = text.buffer(0, 300)
    text.add(DMA, (x, TOP, W))
    text.add(MOVER, (text.buffer(100, 100), TOP, W))
    assert text.add(VECTOR, (text.buffer(0, 100), TOP, W)) == (0,)
    assert text.add(MATRIX, (text.buffer(200, 100), TOP, W)) == (0,)


def test_a_launch_waits_for_all_and_all_for_the_launch():
    """Once an engine has waited, directly or through another one, nothing before the launch is waited for."""
    text = Text()
    x, y = text.buffer(0), text.buffer(200)
    text.add(DMA, (x, TOP, W))
    text.add(DMA, (x, BOTTOM, W))
    text.add(VECTOR, (y, TOP, W))
    assert text.launch() == (1, 2)
    launch = 3
    assert text.add(MOVER, (x, TOP, R)) == (launch,)
    assert text.add(MOVER, (x, TOP, R)) == ()
    assert text.add(MATRIX, (y, TOP, R)) == (launch,)
    assert text.add(VECTOR, (x, TOP, W)) == (launch + 2,)


@given(st.integers(0, 10**6))
def test_many_uses_of_a_buffer_are_waited_for_like_few(seed):
    """Against looking at every use so far: of each engine, the latest that conflicts, whatever the regions."""
    random, text = Random(seed), Text()
    x = text.buffer(0, 2 * 40 * 40, (40, 40))
    before: list[tuple[int, Region, Mode]] = []
    expected = []
    for _ in range(80):
        largest = random.choice([2, 4, 4, 4, 40])
        start = random.randrange(40), random.randrange(40)
        stop = tuple(min(40, a + random.randint(1, largest)) for a in start)
        engine, region, mode = random.choice([DMA, MOVER, MATRIX, VECTOR]), Region(start, stop), random.choice([R, W])
        if before and random.random() < 0.3:
            region = random.choice(before)[1]
        latest = {
            other: number
            for number, (other, used, how) in enumerate(before)
            if other != engine and W in (mode, how) and used.overlaps(region)
        }
        expected.append(tuple(sorted(latest.values())))
        text.builder.emit(Kind.COMPUTE, engine, ((x, region, mode),), cycles=1)
        before.append((engine, region, mode))
    assert text.waits() == expected


# ---- nothing happens too early, byte by byte


def small_kernels() -> dict[str, Run]:
    """Kernels with everything that needs waits: two places, broadcasts, parts, halos, results in place, iterations."""
    net = Net()
    c = net.op("Conv", net.input(1, 4, 8, 8), net.random(4, 4, 3, 3), pads=[1] * 4)
    residual = resolved(net.graph(net.op("Add", net.op("Relu", c), net.op("Tanh", c))))
    net = Net()
    x = net.op("Relu", net.input(1, 6, 6, 6))
    two = resolved(net.graph(net.op("MaxPool", x, kernel_shape=[2, 2])))
    return {
        "tiles": run(product(64, 16, 8), toy(), tile=(8, 8, 16), order=(0, 1, 2), resident=()),
        "columns": run(product(32, 32, 32), toy(2), splits=(2, 1, 1), tile=(8, 8, 32), order=(1, 0, 2), resident=()),
        "kept": run(product(32, 32, 32), toy(2), splits=(2, 1, 1), tile=(8, 8, 32), order=(1, 0, 2), resident=("x",)),
        "parts": run(product(32, 64, 8, bias=True), toy(2), splits=(2, 1, 1), tile=(8, 8, 64), reduction=(8, 8, 16)),
        "windows": run(two_windows(3, 1), toy(2), splits=(1, 1, 2, 1), tile=(1, 8, 3, 12), resident=()),
        "in place": run(residual, toy(2), splits=(1, 1, 2, 1), tile=(1, 4, 2, 8), resident=()),
        "iterations": run(two, toy(2), [[op.name] for op in two.operators], iterations=3),
        "without gb": run(product(32, 32, 32), toy(2, gb=0), splits=(2, 1, 1), tile=(8, 8, 32), resident=()),
    }


@pytest.fixture(scope="module")
def kernels() -> dict[str, Run]:
    return small_kernels()


KERNELS = ("tiles", "columns", "kept", "parts", "windows", "in place", "iterations", "without gb")


@pytest.mark.parametrize("name", KERNELS)
def test_no_byte_is_touched_too_early(kernels, name):
    """Whoever reads or writes a byte has waited for those who wrote or read it before."""
    found = kernels[name]
    assert error(found.trace) < EXACT
    assert sum(1 for _ in conflicts(found.program)) > 10
    assert too_early(found.trace) == []
    assert misread(found.trace) == set()


@pytest.mark.parametrize("seed", first(4, range(24)))
def test_no_byte_of_a_random_network_is_touched_too_early(seed):
    """Any operators, any machine, two iterations."""
    machine = random_machine(seed)
    for strategy in STRATEGIES:
        try:
            options = Options(batch=2 * machine.clusters, batch_per_cluster=1)
            done = compile_network(random_model(seed), "random", machine, strategy, options)
        except DoesNotFit:
            continue
        assert done.trace is not None
        if len(done.trace.program) < 600:
            assert too_early(done.trace) == []
            assert misread(done.trace) == set()


# ---- execution shows what comes too early


def without_wait(program: Program, at: int) -> Program:
    """The program without entry `at` of its waits."""
    offsets = program.wait_offsets - (program.wait_offsets > at)
    return replace(program, wait_offsets=offsets, waits=np.delete(program.waits, at))


def unwaited(program: Program) -> Iterator[tuple[int, int, Program]]:
    """Every wait in turn: who waits, for whom, and the program without it."""
    for number in range(len(program)):
        for at in range(program.wait_offsets[number], program.wait_offsets[number + 1]):
            yield number, int(program.waits[at]), without_wait(program, at)


def reads_what_another_writes(program: Program, writer: int, reader: int) -> bool:
    written = [o for o in program[writer].operands if o.mode is not Mode.READ]
    return any(
        o.buffer == w.buffer and o.region.overlaps(w.region)
        for o in program[reader].operands
        for w in written
        if o.mode is not Mode.WRITE
    )


@pytest.mark.parametrize("name", KERNELS)
def test_a_value_that_is_read_too_early_is_seen(kernels, name):
    """Without the wait for its operand an instruction starts before that is there, and the outputs are wrong."""
    seen = 0
    for reader, writer, program in unwaited(kernels[name].program):
        trace = simulate(program)
        if trace.start_ticks[reader] < trace.end_ticks[writer] and reads_what_another_writes(program, writer, reader):
            assert not error(trace) < EXACT, (reader, writer)
            seen += 1
    assert seen > 3


def test_a_kernel_that_starts_too_early_is_seen(kernels):
    """Without the launch's waits the second kernel reads what the first has not yet stored."""
    program = kernels["iterations"].program
    launches = np.flatnonzero(program.kind == Kind.LAUNCH)
    assert len(launches) == 6
    for launch in launches[1::2].tolist():
        trace = simulate(without_launch(program, launch))
        assert too_early(trace) != []
        assert not error(trace) < EXACT


def without_launch(program: Program, launch: int) -> Program:
    """The program in which one launch waits for nothing, and all of them take no time."""
    first, last = program.wait_offsets[launch : launch + 2]
    offsets = program.wait_offsets.copy()
    offsets[launch + 1 :] -= last - first
    waits = np.delete(program.waits, np.s_[first:last])
    cycles = np.where(program.kind == Kind.LAUNCH, 0, program.cycles)
    return replace(program, wait_offsets=offsets, waits=waits, cycles=cycles)


def test_what_the_next_owner_of_a_place_overwrites_is_seen():
    """Loads into GB run ahead of slow cores; without its wait a later tile lands where an earlier one still is."""
    sizes = {"weights": 1 << 17, "accumulators": 1 << 16}
    found = run(product(128, 64, 512), toy(1, **sizes), tile=(16, 512, 64), order=(0, 1, 2), resident=())
    program, seen = found.program, 0
    for number, waited, tampered in unwaited(program):
        if program[number].engine == "dma_in" and program[waited].engine == "mover0":
            trace = simulate(tampered)
            if trace.end_ticks[number] <= trace.start_ticks[waited]:
                assert not error(trace) < EXACT
                seen += 1
    assert seen > 2


@pytest.mark.parametrize("name", ["tiles", "columns", "kept", "parts", "windows", "without gb"])
def test_buffers_that_overlap_are_seen(kernels, name):
    """What lies above some address in a core's memory begins 64 bytes early, and so runs into its neighbour."""
    found = kernels[name]
    program, seen = found.program, 0
    for space in [number for number, space in enumerate(program.spaces) if space.level is Level.LB]:
        here = program.buffers.space == space
        for address in np.unique(program.buffers.address[here])[1:].tolist():
            addresses = program.buffers.address - 64 * (here & (program.buffers.address >= address))
            tampered = replace(program, buffers=replace(program.buffers, address=addresses))
            trace = replace(found.trace, program=tampered)
            if misread(trace):
                assert not error(trace) < EXACT
                seen += 1
    assert seen > 0


# ---- execution itself


def test_ends_come_before_starts_of_the_same_moment(kernels):
    """What ends at a cycle is there for what starts at it; what takes no time starts before it ends."""
    trace = kernels["tiles"].trace
    count = len(trace.program)
    start, end = np.arange(count) // 2 * 10, np.arange(count) // 2 * 10 + 10 * (np.arange(count) % 2)
    order = event_order(replace(trace, start_ticks=start, end_ticks=end)).tolist()
    assert order[:8] == [0, 2, 1, 3, 4, 6, 5, 7]


def retimed(trace: Trace, **times: tuple[int, int]) -> Trace:
    """The trace with other starts and ends of some instructions: `i7=(10, 20)` is instruction 7."""
    start, end = trace.start_ticks.copy(), trace.end_ticks.copy()
    for name, (begin, stop) in times.items():
        start[int(name[1:])], end[int(name[1:])] = begin, stop
    return replace(trace, start_ticks=start, end_ticks=end)


def outputs(trace: Trace) -> list[np.ndarray]:
    graph = trace.program.graph
    given = [random_inputs(graph, seed) for seed in range(trace.program.iterations)]
    return [found[graph.outputs[0]] for found in execute(trace, given, wide=True)]


def test_what_was_there_before_is_gone_once_nobody_needs_it():
    """In the second iteration the weights lie where the same weights lay in the first, and still have to be awaited."""
    found = run(product(32, 16, 8), toy(), iterations=3)
    assert error(found.trace) < EXACT
    length = len(found.program) // 3
    weights, multiply = (length + n for n in (4, 5))
    assert found.program[weights].operands[1].buffer == found.program[multiply].operands[1].buffer
    early = int(found.trace.start_ticks[weights]) - 1
    trace = retimed(found.trace, **{f"i{multiply}": (early, early + 1)})
    assert [bool(np.isnan(y).all()) for y in outputs(trace)] == [False, True, False]


def test_what_is_being_written_is_gone_already():
    """A tile that is still to be stored is lost as soon as the next one but one begins to be computed in its place."""
    found = run(product(64, 16, 8), toy(), tile=(16, 8, 16), order=(0, 1, 2), resident=())
    made = [one.number for one in found.program if one.kind is Kind.COMPUTE]
    store = next(one for one in found.program if one.engine == "mover0" and one.number > made[0])
    while found.program.tensors[found.program.buffers.tensor[store.operands[0].buffer]] != "y":
        store = found.program[store.number + 1]
    address = found.program.buffers.address
    assert address[store.operands[0].buffer] == address[found.program[made[2]].operands[-1].buffer]
    begin, end = int(found.trace.start_ticks[made[2]]), int(found.trace.end_ticks[made[2]])
    on = next(one for one in found.program if one.engine == "dma_out")
    late = {f"i{store.number}": (begin + 1, begin + 2), f"i{on.number}": (begin + 3, begin + 4)}
    assert begin + 4 < end
    rows = np.isnan(outputs(retimed(found.trace, **late))[0]).all(axis=1)
    assert rows.tolist() == [True] * 16 + [False] * 48


def test_what_nobody_wrote_is_no_number():
    """Memories begin with NaN: a load that never comes leaves nothing that looks like a result."""
    found = run(product(32, 16, 8), toy())
    last = found.trace.latency_cycles * found.trace.ticks_per_cycle
    assert np.isnan(outputs(retimed(found.trace, i4=(last + 1, last + 2)))[0]).all()
    assert not np.isnan(outputs(found.trace)[0]).any()


# ---- what a check lets pass


def scaled(scale: float) -> dict[str, CheckRow]:
    """A small network whose program has one weight times `scale`, compared with the network as it is."""
    net = Net()
    x = net.op("Relu", net.op("Conv", net.input(1, 4, 8, 8), net.random(6, 4, 3, 3), pads=[1] * 4))
    model = net.model(net.op("Conv", x, net.random(5, 6, 3, 3), name="y"))
    done = compile_network(model, "net", toy(), STRATEGIES[0], Options(batch=1))
    assert done.trace is not None
    program = done.trace.program
    feeds = [random_inputs(program.graph)]
    constants = dict(program.graph.constants)
    constants["w1"] = (constants["w1"].astype(np.float64) * scale).astype(np.float32)
    wrong = replace(program, graph=replace(program.graph, constants=constants))
    rows = checked(replace(done.trace, program=wrong), Reference(model, program.graph, feeds)).rows
    return {row.precision: row for row in rows}


def test_a_right_program_passes_both_checks():
    rows = scaled(1.0)
    assert rows["float32"].passed
    assert rows["float16"].passed


@pytest.mark.parametrize("scale", [1 + 2e-5, 1 - 2e-5])
def test_twenty_millionths_are_too_much_for_float32(scale):
    """An error that float16 cannot show is seen in float32, where 1e-5 is allowed."""
    rows = scaled(scale)
    assert rows["float32"].error > rows["float32"].allowed
    assert not rows["float32"].passed
    assert rows["float16"].passed


@pytest.mark.parametrize("scale", [1.005, 0.995])
def test_half_a_percent_is_too_much_for_float16(scale):
    """Rounding every tensor costs about 3e-4 here, and four times that is allowed."""
    rows = scaled(scale)
    assert 2e-4 < rows["float16"].allowed < 4e-3
    assert not rows["float16"].passed


@pytest.mark.parametrize("available, executions", [(3.0, "at once"), (2.5, "one by one"), (1.5, "none")])
def test_executions_take_no_more_memory_than_there_is(monkeypatch, tmp_path, available, executions):
    """In sizes of the narrow one: the wide one takes twice as much, and both at once three times."""
    program = run(product(32, 16, 8), toy()).program
    needed = sum(memory_bytes(program, wide=False))
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemTotal:       99999999 kB\nMemAvailable: {int(available * needed / 1024) + 1} kB\n")
    monkeypatch.setattr(memory, "MEMINFO", meminfo)
    if executions == "none":
        with pytest.raises(InputError, match=r"its execution takes .* available; leave out --verify"):
            room.fits_side_by_side(program)
    else:
        assert room.fits_side_by_side(program) is (executions == "at once")


@pytest.mark.parametrize("text", ["", "MemFree: 1 kB\n"])
def test_where_the_system_does_not_say_there_is_room(monkeypatch, tmp_path, text):
    program = run(product(32, 16, 8), toy()).program
    meminfo = tmp_path / "meminfo"
    if text:
        meminfo.write_text(text)
    monkeypatch.setattr(memory, "MEMINFO", meminfo)
    assert room.fits_side_by_side(program)


def test_a_missing_number_never_passes():
    rows = scaled(float("nan"))
    assert not rows["float32"].passed
    assert not rows["float16"].passed
