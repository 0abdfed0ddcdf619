"""Addresses of results that stay on chip: how much of a memory they take, beside what no choice of addresses beats."""

from dataclasses import replace
from itertools import permutations
from random import Random

import pytest

import tilestitch
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.allocation import AddressRange, blocks, live_bytes, occupied_bytes
from tilestitch.ir.choices import Stage
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Home
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import STRATEGIES
from tilestitch.schedule.packing import first_fit, packed

pytestmark = pytest.mark.quick

CLOSE = 1.02  # to the optimum
NETWORKS = (
    ("resnet18", 4), ("resnet50", 4), ("mobilenet-v2", 8), ("googlenet", 4), ("densenet121", 1), ("vit-b16", 2),
    ("bert-base-128", 4), ("dlrm", 64), ("conformer", 1), ("unet", 1), ("alexnet", 4), ("vgg19", 1),
)  # fmt: skip


def random_blocks(random: Random, count: int) -> list[AddressRange]:
    found = []
    for _ in range(count):
        first = random.randint(0, 9)
        found.append(AddressRange(random.randint(1, 9), first, first + random.randint(0, 5), 0, []))
    return found


def place(taken: list[AddressRange], addresses: list[int]) -> int:
    """Put the blocks there; the end of the highest. No two of them may be at one address at one time."""
    for one, address in zip(taken, addresses, strict=True):
        one.address = address
    for number, a in enumerate(taken):
        for b in taken[:number]:
            apart = a.last < b.first or b.last < a.first
            assert apart or a.address + a.size_bytes <= b.address or b.address + b.size_bytes <= a.address
    return max(one.address + one.size_bytes for one in taken)


@pytest.mark.parametrize("seed", range(60))
def test_few_blocks_are_packed_as_well_as_they_can_be(seed):
    """Within 2 % of the best of all orders, one of which first fit turns into an optimum."""
    random = Random(seed)
    taken = random_blocks(random, random.randint(1, 6))
    optimum = min(place(taken, first_fit(taken, order)) for order in permutations(range(len(taken))))
    assert live_bytes(taken) <= optimum
    assert place(taken, packed(taken, live_bytes(taken))) <= CLOSE * optimum


@pytest.mark.parametrize("seed", range(20))
def test_many_blocks_are_packed_within_a_tenth_of_what_is_live(seed):
    """No two of them in one place at one time; how near the optimum is, the solver says below."""
    taken = random_blocks(Random(seed), 60)
    assert live_bytes(taken) <= place(taken, packed(taken, live_bytes(taken))) <= 1.1 * live_bytes(taken)


def test_holes_count_as_occupied():
    """Of 100 bytes, 10 lie at each end and 10 from address 40 on: kernels have 50 in one piece at most."""
    taken = [AddressRange(10, 0, 2, address, []) for address in (0, 40, 90)]
    assert occupied_bytes(taken, 100) == 60
    assert live_bytes(taken) == 30


def test_results_that_take_the_place_of_an_operand_are_one_block():
    """Of three results the second takes over from the first, and the third lies beside it."""

    def home(tensor: str, first: int, last: int, address: int, instead_of: str | None = None) -> Home:
        return Home(tensor, Region((0,), (8,)), Level.GB, (), address, 16, first, last, instead_of)

    found = blocks([home("a", 0, 1, 0), home("b", 1, 3, 0, "a"), home("c", 2, 3, 16)], Level.GB)
    assert [(one.first, one.last, one.address) for one in found] == [(0, 3, 0), (2, 3, 16)]
    assert live_bytes(found) == 32


def optimum_bytes(taken: list[AddressRange], size_bytes: int) -> int:
    """A lower bound of the peak of any allocation, its optimum where the solver ends in time."""
    cp_model = pytest.importorskip("ortools.sat.python.cp_model", reason="needs the extra `solve`")
    model = cp_model.CpModel()
    top = model.new_int_var(0, size_bytes, "top")
    spans, places = [], []
    for number, one in enumerate(taken):
        at = model.new_int_var(0, size_bytes - one.size_bytes, f"at{number}")
        spans.append(model.new_fixed_size_interval_var(one.first, one.last - one.first + 1, f"span{number}"))
        places.append(model.new_fixed_size_interval_var(at, one.size_bytes, f"place{number}"))
        model.add(at + one.size_bytes <= top)
    model.add_no_overlap_2d(spans, places)
    model.add_cumulative(spans, [one.size_bytes for one in taken], top)
    model.minimize(top)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = 20.0
    solver.parameters.random_seed = 0
    solver.solve(model)
    return round(solver.best_objective_bound)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_many_blocks_are_packed_within_2_percent_of_the_optimum(seed):
    taken = random_blocks(Random(seed), 60)
    most = sum(one.size_bytes for one in taken)
    assert place(taken, packed(taken, live_bytes(taken))) <= CLOSE * optimum_bytes(taken, most)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [one.name for one in STRATEGIES if one.levels])
@pytest.mark.parametrize(("network", "batch"), NETWORKS, ids=lambda value: str(value))
def test_memory_is_allocated_within_2_percent_of_the_optimum(network, batch, strategy):
    """Each level at its worst, holes included; where that is all live there is nothing to solve."""
    options = Options(batch_per_cluster=batch, stop_after=Stage.SCHEDULE)
    done = tilestitch.compile(network, one_cluster(), strategy=strategy, batch=batch, options=options)
    assert done.schedule is not None
    for memory in done.machine.memories:
        taken = blocks(done.schedule.homes, memory.level)
        if not taken:
            continue
        occupied, live = occupied_bytes(taken, memory.size_bytes), live_bytes(taken)
        assert occupied >= live
        if occupied > CLOSE * live:
            assert occupied <= CLOSE * optimum_bytes(taken, memory.size_bytes), f"{memory.level}: {live:,} B are live"


def one_cluster():
    """The STCP920 of the paper with one of its clusters."""
    return replace(tilestitch.load_machine("stcp920-paper"), clusters=1)
