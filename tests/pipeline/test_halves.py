"""Tiles at the ends of kernels in two halves: what is computed stays the same, and what both need comes once."""

from dataclasses import replace

import pytest

from tests.helpers.graphs import Net
from tests.helpers.kernel_runs import product, resolved, toy
from tests.helpers.pairs import first as only_first
from tilestitch import api
from tilestitch.hardware.accelerator import Level
from tilestitch.hardware.load import load_machine
from tilestitch.ir.by_hand import HandSchedule
from tilestitch.ir.choices import Stage
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Halves, Tiling
from tilestitch.ir.tile_rule import KernelRule, TileRule
from tilestitch.ir.tiles import tiles_of
from tilestitch.kernels.shape import Operand
from tilestitch.kernels.surroundings import Room, Source, Surroundings
from tilestitch.lower.addresses import Demand
from tilestitch.lower.passing import Load, Passing
from tilestitch.pipeline.compilation import Compilation
from tilestitch.pipeline.compile import resume_network
from tilestitch.pipeline.hand_schedule import hand_schedule_of
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.stage_files import stage_text, started
from tilestitch.schedule.tiling import Shapes, tile_kernel

MACHINE = "stcp920"
LONG = 10**9  # cycles: all tiles


def with_halves(network: str, *, first: int, last: int) -> tuple[Compilation, Compilation]:
    """A network as it is and with halves in all kernels, both executed and equal to onnxruntime."""
    done = api.compile(network, MACHINE, strategy="astitch", batch=4)
    schedule = hand_schedule_of(done)
    assert done.schedule is not None
    rule = TileRule(first_cycles=first, last_cycles=last)
    asked = replace(schedule, rules=tuple(KernelRule(kernel.sink, rule) for kernel in done.schedule.kernels))
    return run(network, schedule), run(network, asked)


def run(network: str, schedule: HandSchedule) -> Compilation:
    done = api.compile(network, MACHINE, strategy=schedule, batch=4, options=Options(batch_per_cluster=1), verify=True)
    assert done.report is not None
    assert done.report.outcome == "passed"
    return done


def halved(done: Compilation) -> list[Halves]:
    assert done.schedule is not None
    return [kernel.tiling.halves for kernel in done.schedule.kernels if kernel.tiling.halves is not None]


NETWORKS = ("bert-base-128:small", "resnet18:small", "mobilenet-v2:small", "conformer:small")


@pytest.mark.parametrize("ends", [(LONG, 0), (100, 100), (0, 1), (1, 0)], ids=str)
@pytest.mark.parametrize("network", only_first(2, NETWORKS))
def test_halves_compute_the_same(network, ends):
    """With all tiles in halves, some at both ends, or one at one end."""
    _, found = with_halves(network, first=ends[0], last=ends[1])
    assert halved(found)


def test_weights_come_once_for_both_halves():
    """Not a byte more passes DDR, although the cores load the weights of both halves."""
    before, found = with_halves("bert-base-128:small", first=LONG, last=0)
    assert before.report is not None
    assert found.report is not None
    assert found.report.ddr_bytes == before.report.ddr_bytes
    assert before.program is not None
    assert found.program is not None
    assert len(found.program) > len(before.program)


@pytest.mark.parametrize(("first", "last"), [(0, 2), (1, 0), (2, 1), (6, 0)])
def test_first_halves_run_before_all_second_ones(first, last):
    """Tiles of 8 rows and 2 columns: of the ends the upper four rows come first; each iteration is in one tile."""
    tiling = Tiling((1, 1), (8, 2), (1, 1), (1, 0), (), (), Halves(0, first, last))
    tiles = tiles_of(Region((0, 0), (8, 12)), tiling)
    assert sorted((row, column) for tile in tiles for row, column in cells(tile)) == [
        (row, column) for row in range(8) for column in range(12)
    ]
    rows = [(tile.start[0], tile.stop[0]) for tile in tiles]
    upper, lower, whole = (0, 4), (4, 8), (0, 8)
    middle = 6 - first - last
    assert rows == [upper] * first + [lower] * first + [whole] * middle + [upper] * last + [lower] * last


def cells(tile: Region) -> list[tuple[int, int]]:
    (top, left), (bottom, right) = tile.start, tile.stop
    return [(row, column) for row in range(top, bottom) for column in range(left, right)]


@pytest.mark.parametrize("stage", [Stage.SCHEDULE, Stage.PARTITION])
def test_a_schedule_in_a_file_keeps_its_halves(stage):
    """Read back, it has the same tiles, and takes as long."""
    _, found = with_halves("bert-base-16:small", first=LONG, last=0)
    text = stage_text(found, stage)
    again = resume_network(api.zoo_model("bert-base-16:small"), started(text, "value.json"), found.machine, Options())
    assert stage_text(again, stage) == text
    assert halved(again) == halved(found)
    assert again.trace is not None
    assert found.trace is not None
    assert again.trace.latency_cycles == found.trace.latency_cycles


def test_what_cores_do_not_read_where_it_lies_is_not_halved():
    """Rows that come from DDR would come again and again, and need more room; the weights of all tiles pass GB once."""
    graph, machine = product(128, 64, 64), load_machine(MACHINE)
    shapes, operators = Shapes(graph, machine), tuple(graph.operators)
    rule = TileRule(first_cycles=LONG)
    assert tile_kernel(shapes, operators, "k0", rule=rule).tiling.halves is None
    parts = tuple(Source(Region((at, 0), (at + 16, 64)), Level.LB, at // 16) for at in range(0, 128, 16))
    near = Surroundings({"x": parts}, Level.LB, ("y",), splits=(8, 1, 1))
    assert tile_kernel(shapes, operators, "k0", near, rule=rule).tiling.halves is not None


@pytest.mark.parametrize(("room_bytes", "halves"), [(5_600, None), (6_144, Halves(0, 1, 0))])
@pytest.mark.parametrize("level", [Level.LB, Level.GB])
def test_halves_of_the_only_tile_need_room_for_two_of_the_larger_one(level, room_bytes, halves):
    """Of seven rows the first half has three and the second four: eight in all, where the whole tile has seven.

    Of eight cores with memories of their own, and of one that has none.
    """
    machine, cores = (load_machine(MACHINE), range(8)) if level is Level.LB else (toy(lb=0), (None,))
    net = Net()
    x = net.input(7 * len(cores), 64, name="x")
    rows = net.op("Concat", net.op("Relu", x), net.op("Relu", x), axis=1)
    graph = resolved(net.graph(net.op("Softmax", rows, name="y")))
    parts = tuple(Source(Region((7 * at, 0), (7 * at + 7, 64)), level, core) for at, core in enumerate(cores))
    near = Surroundings({"x": parts}, level, ("y",), {level: Room(room_bytes)}, splits=(len(cores), 1))
    rule = TileRule(first_cycles=LONG)
    tiling = tile_kernel(Shapes(graph, machine), tuple(graph.operators), "k0", near, rule=rule).tiling
    assert (tiling.tile, tiling.halves) == ((7, 128), halves)


def test_the_ring_is_large_enough_for_what_is_needed_again():
    """Three parts of 64 bytes come between the first and the last use of the first: it needs room for all, and one."""
    operand = Operand("w", Level.WEIGHTS, in_parts=True, from_the_start=True)
    regions = [Region((at,), (at + 1,)) for at in range(3)]
    passing = Passing()
    passing.expect([Load(operand, one, 64) for one in (*regions, *regions)])
    for number, region in enumerate(regions):
        assert passing.staged(operand, region) is None
        passing.passes(operand, region, number, 64)
    assert [passing.staged(operand, region) for region in regions] == [0, 1, 2]
    assert passing.with_room(Demand((0,), (), 64)).passing_bytes == 3 * 64 + 64
