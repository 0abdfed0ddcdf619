"""What a schedule asks beyond the least estimate: of tiles, of where results wait, and sums one behind the other."""

from dataclasses import replace
from itertools import pairwise
from itertools import product as choices
from math import prod

import numpy as np
import pytest

from tests.helpers.kernel_runs import product, resolved
from tests.helpers.pairs import first
from tilestitch import api
from tilestitch.base.errors import DoesNotFit
from tilestitch.base.units import ceil_div
from tilestitch.hardware.accelerator import Level
from tilestitch.hardware.load import load_machine
from tilestitch.ir.by_hand import HandSchedule
from tilestitch.ir.choices import BindingRule
from tilestitch.ir.program import Flag, Program
from tilestitch.ir.tile_rule import KernelRule, TileRoom, TileRule
from tilestitch.kernels.surroundings import Room, Surroundings
from tilestitch.lower.reorder import reordered
from tilestitch.pipeline.compilation import Compilation
from tilestitch.pipeline.hand_schedule import hand_schedule_of
from tilestitch.pipeline.options import Options
from tilestitch.schedule.tiling import Shapes, tile_in_rooms, tile_kernel

MACHINE = "stcp920"
RULES = (
    TileRule(parts=True),
    TileRule(columns=True),
    TileRule(room=TileRoom.WHOLE),
    TileRule(room=TileRoom.BETTER),
    TileRule(least=2),
)


def begun(network: str) -> tuple[Compilation, HandSchedule]:
    done = api.compile(network, MACHINE, strategy="astitch", batch=4)
    return done, hand_schedule_of(done)


def by_hand(network: str, schedule: HandSchedule) -> Compilation:
    done = api.compile(network, MACHINE, strategy=schedule, batch=4, options=Options(batch_per_cluster=1), verify=True)
    assert done.report is not None
    assert done.report.outcome == "passed"
    return done


def with_rule(done: Compilation, schedule: HandSchedule, rule: TileRule) -> HandSchedule:
    assert done.schedule is not None
    return replace(schedule, rules=tuple(KernelRule(kernel.sink, rule) for kernel in done.schedule.kernels))


def sums(done: Compilation) -> dict[int, list[tuple[int, int]]]:
    """By core, where its sums begin and end, in the order of the program."""
    program = done.program
    assert program is not None
    found: dict[int, list[tuple[int, int]]] = {}
    rows = zip(program.buffers.space, program.buffers.address, program.buffers.size_bytes, strict=True)
    for number, address, size in rows:
        space = program.spaces[number]
        if space.level is Level.ACCUMULATORS:
            assert space.core is not None
            found.setdefault(space.core, []).append((int(address), int(address + size)))
    return found


def test_sums_in_a_ring_lie_one_behind_the_other():
    """Each begins where the last one ends, or at the first address; the program computes what the network does."""
    done, schedule = begun("bert-base-128:small")
    assert {start for one in sums(done).values() for start, _ in one} == {0}
    ring = by_hand("bert-base-128:small", replace(schedule, ring=True))
    for one in sums(ring).values():
        assert len({start for start, _ in one}) > 2
        for (_, stop), (start, _) in pairwise(one):
            assert start == 0 or stop <= start < stop + 64


def weights(done: Compilation) -> list[tuple[int, int]]:
    """Of the first core, the interval of the weight buffers of each kernel that has any, in running order."""
    program = done.program
    assert program is not None
    rows = np.repeat(np.arange(len(program)), np.diff(program.operand_offsets))
    used = program.operand_buffer
    levels = [(space.level, space.core) for space in program.spaces]
    here = np.array([level is Level.WEIGHTS and core == 0 for level, core in levels])[program.buffers.space[used]]
    kernels = program.kernel[rows][here]
    starts = program.buffers.address[used][here]
    stops = starts + program.buffers.size_bytes[used][here]
    return [
        (int(starts[kernels == one].min()), int(stops[kernels == one].max())) for one in dict.fromkeys(kernels.tolist())
    ]


def test_tiles_behind_those_of_the_kernel_before():
    """Each kernel's begin where the last one's end, or at the first address; else they take turns at both ends."""
    _, schedule = begun("resnet18:small")
    memory = load_machine(MACHINE).memory(Level.WEIGHTS)
    assert memory is not None
    in_turns = weights(by_hand("resnet18:small", schedule))
    assert {start == 0 for start, _ in in_turns} == {False, True}
    assert all(start == 0 or memory.size_bytes - 64 < stop <= memory.size_bytes for start, stop in in_turns)
    behind = weights(by_hand("resnet18:small", replace(schedule, behind=True)))
    assert len({start for start, _ in behind}) > 3
    for (_, stop), (start, _) in pairwise(behind):
        assert start == 0 or stop <= start < stop + 64


def products_in_order(program: Program) -> dict[int, list[tuple[int, int]]]:
    """By engine, operator and iterations of its products."""
    found: dict[int, list[tuple[int, int]]] = {}
    for at in np.flatnonzero(program.flags & Flag.MATRIX).tolist():
        found.setdefault(int(program.engine[at]), []).append((int(program.operator[at]), int(program.box[at])))
    return found


@pytest.mark.parametrize("ring", [False, True])
def test_sums_in_a_ring_let_products_change_places(ring):
    """At one address every product of a core waits for the one before, whatever all of them take."""
    _, schedule = begun("bert-base-128:small")
    program = by_hand("bert-base-128:small", replace(schedule, ring=ring)).program
    assert program is not None
    times = np.random.default_rng(1).integers(1, 1000, len(program))
    other = reordered(program, times)
    assert other is not None
    assert (products_in_order(other) != products_in_order(program)) is ring


@pytest.mark.parametrize("rule", first(1, RULES), ids=str)
@pytest.mark.parametrize("network", first(1, ("bert-base-128:small", "resnet18:small", "mobilenet-v2:small")))
def test_tiles_by_another_rule_compute_the_same(network, rule):
    """As onnxruntime does."""
    done, schedule = begun(network)
    by_hand(network, with_rule(done, schedule, rule))


def test_results_wait_where_they_are_asked_to():
    """Those of the kernels that are named in GB, the others in the cores as before; the program computes the same."""
    done, schedule = begun("bert-base-128:small")
    assert done.schedule is not None
    sinks = [kernel.sink for kernel in done.schedule.kernels if kernel.sink.endswith("query")]
    found = by_hand("bert-base-128:small", replace(schedule, rules=tuple(KernelRule(s, scope=Level.GB) for s in sinks)))
    assert found.schedule is not None
    for before, now in zip(done.schedule.homes, found.schedule.homes, strict=True):
        parked = found.schedule.kernels[now.first].sink in sinks
        assert before.level is Level.LB
        assert now.level is (Level.GB if parked else Level.LB)


@pytest.mark.quick
def test_tiles_have_whole_columns_or_as_many_as_are_asked_for():
    """Of the unit's 32: halving 400 columns until the weights of two tiles fit gives 50 of them, and else 64."""
    graph, machine = resolved(product(512, 768, 400)), load_machine(MACHINE)

    def tiles(rule: TileRule) -> tuple[int, int]:
        """Columns of a tile, and how many parts of tiles the core with the most has."""
        tiling = tile_kernel(Shapes(graph, machine), graph.operators, "k", rule=rule).tiling
        cut = zip((512, 400, 768), tiling.splits, (*tiling.tile[:2], tiling.reduction[2]), strict=True)
        return tiling.tile[1], prod(ceil_div(ceil_div(extent, split), part) for extent, split, part in cut)

    assert tiles(TileRule())[0] == 50
    assert tiles(TileRule(columns=True))[0] == 64
    assert tiles(TileRule())[1] < 17 <= tiles(TileRule(least=17))[1]


@pytest.mark.quick
def test_reductions_are_cut_into_more_parts_where_tiles_are_larger_for_it():
    """512 rows of 3,072 take 3 MiB: rows are halved until a part fits, or parts are until more rows do."""
    graph, machine = resolved(product(512, 3072, 512)), load_machine(MACHINE)
    memories = [replace(one, size_bytes=2**17) if one.level is Level.LB else one for one in machine.memories]
    machine = replace(machine, cores=machine.cores[:1], memories=tuple(memories))

    def tiles(rule: TileRule) -> tuple[int, int, int]:
        """Rows of a tile, iterations of a part, and the estimate."""
        kernel = tile_kernel(Shapes(graph, machine), graph.operators, "k", rule=rule)
        return kernel.tiling.tile[0], kernel.tiling.reduction[2], kernel.estimated_cycles

    rows, part, cycles = tiles(TileRule())
    more_rows, smaller, fewer = tiles(TileRule(parts=True))
    assert more_rows > rows
    assert smaller < part
    assert fewer < cycles


def test_rooms_in_which_nothing_else_is_tested_give_the_same_tiling():
    """Of 400 rooms in GB and LB, some are known to give what another gave: they do; others give other tilings.

    Those that know of the searches in all rooms before give the same.
    """
    graph, machine = resolved(product(512, 768, 400)), load_machine(MACHINE)
    shapes, known, saved = Shapes(graph, machine), [], 0
    for gb, lb in choices(range(20), range(20)):
        rooms = {
            level: Room(memory.size_bytes * (step + 1) // 20 // 64 * 64)
            for level, step in ((Level.GB, gb), (Level.LB, lb))
            if (memory := machine.memory(level)) is not None
        }
        try:
            found, holding = tile_in_rooms(Shapes(graph, machine), graph.operators, "k", Surroundings(rooms=rooms))
        except DoesNotFit:
            continue
        assert tile_in_rooms(shapes, graph.operators, "k", Surroundings(rooms=rooms))[0] == found
        assert holding is not None
        assert holding.hold(rooms, machine)
        like = [kernel for kernel, others in known if others.hold(rooms, machine)]
        assert all(kernel == found for kernel in like)
        saved += bool(like)
        known.append((found, holding))
    assert 0 < saved < len(known)
    assert len({kernel.tiling for kernel, _ in known}) > 1


def test_a_division_among_cores_that_takes_much_longer_gives_way_where_it_may():
    """Of MobileNet's classifier, which has few rows; others are divided as Algorithm 4 says, and values are right."""
    splits: dict[BindingRule, dict[str, tuple[int, ...]]] = {}
    for binding in (BindingRule.PAPER, BindingRule.EVEN):
        options = Options(binding=binding, batch_per_cluster=8)
        done = api.compile(
            "mobilenet-v2:small", "stcp920-paper", strategy="astitch", batch=32, options=options, verify=True
        )
        assert done.report is not None
        assert done.report.outcome == "passed"
        assert done.schedule is not None
        splits[binding] = {one.sink: one.tiling.splits for one in done.schedule.kernels}
    paper, even = splits[BindingRule.PAPER], splits[BindingRule.EVEN]
    others = [sink for sink in paper if paper[sink] != even[sink]]
    assert 0 < len(others) < len(paper) / 4
    assert any(paper[sink] == even[sink] != (1,) * len(even[sink]) for sink in paper)
