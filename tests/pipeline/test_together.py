"""What adjoins comes to GB together: the same bytes and values in fewer transfers, where there is room for them."""

from dataclasses import replace

import pytest

from tests.helpers.transfers import brought, weight_bytes
from tilestitch import api
from tilestitch.hardware.accelerator import Level
from tilestitch.hardware.load import load_machine
from tilestitch.ir.region import Region
from tilestitch.ir.tile_rule import BY_ESTIMATE, KernelRule, TileRule
from tilestitch.kernels.shape import Operand
from tilestitch.lower import passing
from tilestitch.lower import program as lowering
from tilestitch.lower.addresses import Demand
from tilestitch.lower.passing import BETWEEN, Load, Passing, together_bytes
from tilestitch.pipeline.compilation import Compilation
from tilestitch.pipeline.hand_schedule import hand_schedule_of
from tilestitch.pipeline.options import Options

MACHINE = load_machine("stcp920")
WEIGHTS = Operand("weights", Level.WEIGHTS, in_parts=True, from_the_start=True)
OTHERS = Operand("others", Level.WEIGHTS, in_parts=True, from_the_start=True)


def compiled(
    network: str, *, together: bool, gb_bytes: int | None = None, tiles: TileRule = BY_ESTIMATE
) -> Compilation:
    """As `graphturbo` has it, executed and compared with onnxruntime."""
    memories = [replace(one, size_bytes=gb_bytes) if one.level is Level.GB else one for one in MACHINE.memories]
    machine = MACHINE if gb_bytes is None else replace(MACHINE, memories=tuple(memories))
    done = api.compile(network, machine, strategy="graphturbo", batch=8)
    assert done.schedule is not None
    sinks = dict.fromkeys(kernel.sink for kernel in done.schedule.kernels)
    rules = tuple(KernelRule(sink, tiles, together=together) for sink in sinks)
    options = Options(batch_per_cluster=done.schedule.batch)
    schedule = replace(hand_schedule_of(done), rules=rules)
    found = api.compile(network, machine, strategy=schedule, batch=8, options=options, verify=True)
    assert found.report is not None
    assert found.report.outcome == "passed"
    return found


@pytest.mark.parametrize("network", ["mobilenet-v2:small", "bert-base-128:small"])
def test_the_same_bytes_come_in_fewer_transfers(network):
    apart, together = (compiled(network, together=one) for one in (False, True))
    assert weight_bytes(together) == weight_bytes(apart)
    assert len(brought(together)) < 0.9 * len(brought(apart))


def test_set_ups_are_saved():
    """Of a small network DDR waits for set-ups most of the time."""
    apart, together = (compiled("dlrm:small", together=one).trace for one in (False, True))
    assert apart is not None
    assert together is not None
    assert together.latency_cycles < 0.9 * apart.latency_cycles


def test_what_halves_of_tiles_need_twice_comes_beside_what_comes_together():
    """Executed: each finds its own in the ring."""
    halves = TileRule(first_cycles=100, last_cycles=100)
    apart, together = (compiled("bert-base-128:small", together=one, tiles=halves) for one in (False, True))
    assert together.schedule is not None
    assert any(kernel.tiling.halves is not None for kernel in together.schedule.kernels)
    assert len(brought(together)) < len(brought(apart))


def columns(*numbers: int, of: Operand = WEIGHTS) -> list[Load]:
    return [Load(of, Region((0, 10 * number), (10, 10 * number + 10)), 100) for number in numbers]


def joined(loads: list[Load], most_bytes: int = 300) -> list[str]:
    """What comes with each load."""
    ring = Passing()
    ring.join(loads, most_bytes)
    return [str(ring.brought(load.operand, load.region)) for load in loads]


def test_what_adjoins_comes_together_up_to_a_size():
    assert joined(columns(0, 1, 2, 3)) == ["[0:10, 0:30]"] * 3 + ["[0:10, 30:40]"]


def test_what_makes_no_box_comes_alone():
    assert joined(columns(0, 2, 3)) == ["[0:10, 0:10]", "[0:10, 20:40]", "[0:10, 20:40]"]


def test_what_overlaps_comes_alone():
    over = Load(WEIGHTS, Region((0, 5), (10, 15)), 100)
    assert joined([*columns(0), over]) == ["[0:10, 0:10]", "[0:10, 5:15]"]


def test_what_is_loaded_again_comes_alone():
    assert joined(columns(0, 1, 0)) == ["[0:10, 0:10]", "[0:10, 10:20]", "[0:10, 0:10]"]


def test_operands_come_apart_and_what_comes_much_later_alone():
    """Else the ring would have to hold the first part until the last is read, and all that comes in between."""
    between = columns(*range(0, 40, 2), of=OTHERS)
    few, many = between[:1], between[: 3 * BETWEEN + 1]
    assert joined([*columns(0), *few, *columns(1)])[-1] == "[0:10, 0:20]"
    assert joined([*columns(0), *many, *columns(1)])[-1] == "[0:10, 10:20]"


def test_the_ring_holds_a_part_until_it_is_read():
    ring, loads = Passing(), columns(0, 1)
    ring.join(loads, 300)
    whole = ring.brought(WEIGHTS, loads[0].region)
    assert ring.staged(WEIGHTS, whole) is None
    ring.passes(WEIGHTS, whole, 7, 256)
    ring.passes(OTHERS, columns(5)[0].region, 8, 128)
    assert ring.staged(WEIGHTS, ring.brought(WEIGHTS, loads[1].region)) == 7
    assert ring.with_room(Demand((), (), 256)).passing_bytes == 256 + 128 + 256


def test_how_much_comes_together_follows_from_the_machine():
    """100 set-ups of 100 cycles at 34 B a cycle, and no more than a 16th of GB."""
    assert together_bytes(MACHINE) == 340_000
    small = [replace(one, size_bytes=65536) if one.level is Level.GB else one for one in MACHINE.memories]
    assert together_bytes(replace(MACHINE, memories=tuple(small))) == 4096


def test_a_kernel_without_room_for_more_loads_part_by_part(monkeypatch):
    """Its parts come one by one there, and the program is right."""
    asked: list[bool] = []
    add = lowering._add

    def noted(linker, blocks, number, kernel, around, free):
        asked.append(kernel.together)
        add(linker, blocks, number, kernel, around, free)

    monkeypatch.setattr(lowering, "_add", noted)
    monkeypatch.setattr(passing, "SHARE", 1)
    monkeypatch.setattr(passing, "BETWEEN", 64)
    compiled("conformer:small", together=True, gb_bytes=6144)
    since = asked.index(True)
    assert 0 < asked[since:].count(False) < asked[since:].count(True)
