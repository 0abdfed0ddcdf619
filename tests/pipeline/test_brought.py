"""What comes to GB once for all that read it, and rows that are picked of what waits there."""

from dataclasses import replace

import pytest

from tests.helpers.transfers import brought, sources, weight_bytes
from tilestitch import api
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.by_hand import DEPTH_FIRST, HandSchedule
from tilestitch.ir.program import EngineKind, Kind
from tilestitch.ir.tile_rule import KernelRule, Once
from tilestitch.pipeline.compilation import Compilation
from tilestitch.pipeline.hand_schedule import hand_schedule_of
from tilestitch.pipeline.options import Options

MACHINE = "stcp920"


def by_hand(
    network: str, *, picks: bool = False, once: Once = Once.NONE, batch: int = 8, pieces: int = 1
) -> Compilation:
    """As `graphturbo` has it with something else asked, executed and compared with onnxruntime."""
    done = api.compile(network, MACHINE, strategy="graphturbo", batch=batch)
    assert done.schedule is not None
    sinks = dict.fromkeys(kernel.sink for kernel in done.schedule.kernels)
    rules = tuple(KernelRule(sink, once=once) for sink in sinks)
    schedule: HandSchedule = replace(hand_schedule_of(done), picks=picks, rules=rules)
    if pieces > 1:
        groups = [replace(one, axis=0, pieces=pieces) for one in schedule.groups]
        schedule = replace(schedule, groups=groups, order=DEPTH_FIRST)
    options = Options(batch_per_cluster=done.schedule.batch)
    found = api.compile(network, MACHINE, strategy=schedule, batch=batch, options=options, verify=True)
    assert found.report is not None
    assert found.report.outcome == "passed"
    return found


@pytest.mark.parametrize("once", [Once.SMALL, Once.ALL])
def test_what_is_small_comes_in_one_transfer(once):
    """The numbers of all categories for all tables, and every bias; else each part comes by itself."""
    before, after = brought(by_hand("dlrm:small")), brought(by_hand("dlrm:small", once=once))
    assert before.count("categories") == 8
    assert after.count("categories") == 1
    assert len(after) == len(set(after)) < len(before)


def test_pieces_of_a_kernel_share_what_came_once():
    """Each weight comes once an iteration, and with each piece otherwise."""
    each, every = (by_hand("resnet18:small", once=once, batch=32, pieces=4) for once in (Once.NONE, Once.ALL))
    assert every.schedule is not None
    graph = every.schedule.graph
    least = sum(graph.tensors[name].size_bytes for name in graph.constants if "weight" in name)
    assert {piece.number for piece in every.schedule.pieces} == set(range(4))
    assert weight_bytes(every) == least < weight_bytes(each)


def test_rows_are_picked_of_what_waits_in_gb():
    """DLRM's products never reach DDR then, and take fewer cycles; the tables are there as before."""
    through, on_chip = by_hand("dlrm:small", batch=64), by_hand("dlrm:small", picks=True, batch=64)
    found = []
    for done in (through, on_chip):
        assert done.program is not None
        picked = sources(done.program, Kind.GATHER, EngineKind.MOVER)
        assert all(level is Level.DDR for name, level in picked if name.startswith("table"))
        found.append({level for name, level in picked if name.startswith("products")})
    assert found == [{Level.DDR}, {Level.GB}]
    assert through.trace is not None
    assert on_chip.trace is not None
    assert on_chip.trace.latency_cycles < through.trace.latency_cycles


@pytest.mark.parametrize(("batch", "words"), [(8, Level.DDR), (32, Level.GB)])
def test_rows_of_small_tables_are_picked_in_gb(batch, words):
    """Where all rows that are picked are at least the table: of two types, and, with 128 tokens, of 100 words."""
    through, on_chip = (
        by_hand("bert-base-16:small", picks=picks, once=Once.SMALL, batch=batch) for picks in (False, True)
    )
    found = []
    for done in (through, on_chip):
        assert done.program is not None
        picked = dict(sources(done.program, Kind.GATHER, EngineKind.MOVER))
        found.append({name: level for name, level in picked.items() if "embeddings" in name})
    assert set(found[0].values()) == {Level.DDR}
    assert sorted(found[1].values()) == sorted([Level.GB, words])
    assert on_chip.report is not None
    assert through.report is not None
    assert on_chip.report.ddr_bytes < through.report.ddr_bytes
