"""The gap of a run: its parts add up, for the run and for whatever is chosen of it, and each is what its name says."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import tilestitch
from tests.helpers.pairs import each_once, first
from tests.helpers.removed import removals, waited_cycles
from tilestitch.commands.why.explain import blame_of
from tilestitch.ir.gap import PARTS, PORT, Blame, Gap, Part
from tilestitch.ir.program import Kind
from tilestitch.pipeline.compilation import Compilation

NETWORKS = ("resnet18:small", "bert-base-128:small", "mobilenet-v2:small", "vit-b16:small", "dlrm:small")
STRATEGIES = ("tvm", "graphturbo", "stay-in-lb", "layerwise")
MACHINES = ("toy", "stcp920", "eyeriss")


@cache
def compiled(network: str, strategy: str, machine: str) -> Compilation:
    return tilestitch.compile(network, machine, strategy=strategy)


@cache
def taken(network: str, strategy: str, machine: str) -> Blame:
    return blame_of(compiled(network, strategy, machine))


def adds_up(gap: Gap) -> bool:
    return sum(part.cycles for part in gap.parts) == gap.latency_cycles - gap.bound_cycles


@pytest.mark.parametrize("network, strategy, machine", each_once(NETWORKS, STRATEGIES, MACHINES))
def test_the_parts_add_up_to_the_gap(network, strategy, machine):
    """Exactly, between the latency and the bound of the report; and none is negative, but for the bound's rounding."""
    report, gap = compiled(network, strategy, machine).report, taken(network, strategy, machine).whole()
    assert report is not None
    assert (gap.latency_cycles, gap.bound_cycles) == (report.latency_cycles, report.bound_cycles)
    assert adds_up(gap)
    for part in gap.parts:
        assert part.cycles > (-1 if part.part in (Part.SHAPE, Part.WAY) else 0)
        for some in (part.setup_cycles, part.sharing_cycles, part.room_cycles):
            assert 0 <= some <= max(0, part.cycles)
    assert sum(cycles for _, cycles in gap.ends) == gap.cycles(Part.ENDS)


@pytest.mark.parametrize("network, strategy, machine", each_once(NETWORKS, STRATEGIES, MACHINES))
def test_what_is_chosen_adds_up(network, strategy, machine):
    """Operators, kernels and ranges of cycles: each by itself, and all of them to the run."""
    found = taken(network, strategy, machine)
    whole, latency = found.whole(), found.whole().latency_cycles
    behind = waited_cycles(replace(found, waits=_behind(found)), np.ones(len(found.program), bool))
    rounding = whole.bound_cycles - sum(one.bound_cycles for one in found.operators())
    assert 0 <= rounding < 1
    for gaps in (found.operators(), found.kernels()):
        assert all(adds_up(gap) for gap in gaps)
        assert sum(gap.latency_cycles for gap in gaps) + behind == latency
        assert sum(gap.bound_cycles for gap in gaps) + rounding == whole.bound_cycles
    cuts = [0, 1, int(latency) // 3, int(latency) // 2, int(latency)]
    ranges = [found.between(first, last) for first, last in pairwise(cuts)]
    assert all(adds_up(gap) for gap in ranges)
    assert [gap.latency_cycles for gap in ranges] == list(np.diff(cuts))
    assert sum(gap.bound_cycles for gap in ranges) + rounding == whole.bound_cycles
    for part in PARTS:
        off = rounding if part is (Part.WAY if found.unit == PORT else Part.SHAPE) else 0
        assert sum(gap.cycles(part) for gap in ranges) - off == whole.cycles(part), part


def _behind(found: Blame):
    """Only the waits behind the last instruction of each lane."""
    rows = np.flatnonzero(found.waits.waiting < 0)
    return type(found.waits)(*(getattr(found.waits, name)[rows] for name in found.waits.__dataclass_fields__))


def test_what_is_chosen_by_number_is_what_is_listed():
    """`of` one operator is its entry of `operators`; one range by operator adds up to the range."""
    found = taken("bert-base-128:small", "graphturbo", "toy")
    gaps = found.operators()
    number = max(range(len(gaps)), key=lambda n: gaps[n].gap_cycles)
    one = found.of(gaps[number].what, found.owner == number)
    assert one == gaps[number]
    assert one.gap_cycles > 0
    inside = found.by(found.owner, found.program.operators, (20_000, 40_000))
    whole = found.between(20_000, 40_000)
    assert all(adds_up(gap) for gap in inside)
    assert sum(gap.latency_cycles for gap in inside) == whole.latency_cycles == 20_000


def test_two_runs_say_the_same():
    """To the last fraction."""
    done = compiled("bert-base-128:small", "graphturbo", "toy")
    assert blame_of(done).whole() == blame_of(done).whole()


@pytest.mark.parametrize("strategy", first(1, ["tvm", "graphturbo"]))
def test_clusters_on_one_ddr_add_up(strategy):
    """Whether the bound is the traffic of all clusters, or the arithmetic of one."""
    shared = tilestitch.load_machine("toy").with_("memories.ddr.serves", ["core", "cluster"])
    units = set()
    for network in ("resnet18:small", "bert-base-128:small"):
        for bandwidth in (8, 256):
            machine = shared.with_("memories.ddr.bandwidth_bytes_per_cycle", bandwidth)
            done = tilestitch.compile(network, machine, strategy=strategy, batch=2)
            found, report = blame_of(done), done.report
            assert report is not None
            assert report.clusters_simulated == 2
            gap = found.whole()
            assert (gap.latency_cycles, gap.bound_cycles) == (report.latency_cycles, report.bound_cycles)
            assert adds_up(gap)
            units.add(found.unit)
    assert units == {PORT, "matrix units", "vector units"}


def test_a_unit_waits_for_its_core_and_for_others():
    """Of waits for arithmetic, those for the same core are the other unit's, all others those of other cores."""
    found = taken("bert-base-128:small", "graphturbo", "toy")
    program, waits = found.program, found.waits
    cores = {engine.name: engine.core for engine in program.engines}
    sums = dict.fromkeys((Part.OTHER_UNIT, Part.OTHER_CORES), 0)
    for lane, begin, end, culprit in zip(
        waits.lane.tolist(),
        waits.begin_ticks.tolist(),
        waits.end_ticks.tolist(),
        waits.waited_for.tolist(),
        strict=True,
    ):
        one = program[culprit]
        if one.kind == Kind.COMPUTE:
            own = cores[one.engine] == cores[found.lanes[lane]]
            sums[Part.OTHER_UNIT if own else Part.OTHER_CORES] += end - begin
    gap, ends = found.whole(), dict(found.whole().ends)
    for part, ticks in sums.items():
        assert 0 < ticks == (gap.cycles(part) + ends.get(part, 0)) * found.ticks_per_cycle * len(found.lanes)


@pytest.mark.parametrize("strategy, again", [("one-block", True), ("tvm", False)])
def test_halo_recomputation_is_unneeded_work(strategy, again):
    """Of a plan of fused blocks, whose cores compute again what their neighbours do; of no other strategy."""
    machine = tilestitch.load_machine("toy").with_("memories.ddr.bandwidth_bytes_per_cycle", 512)
    found = blame_of(tilestitch.compile("resnet18:small", machine, strategy=strategy))
    assert found.unit == "vector units"
    program, executed = found.program, Counter[str]()
    for one in program:
        if one.kind == Kind.COMPUTE and one.engine.startswith("vector"):
            assert one.operator is not None
            assert one.box is not None
            executed[one.operator] += one.box.size
    needed = {name: program.graph.by_name[name].whole.size for name in executed}
    assert any(executed[name] > needed[name] for name in executed) is again
    by_name = {gap.what: gap for gap in found.operators()}
    for name, gap in by_name.items():
        more = Fraction(executed[name], needed[name]) - 1 if name in executed else 0
        assert gap.cycles(Part.UNNEEDED) == gap.bound_cycles * more


# A cause is removed, and the latency falls by about what its part says.

RIGHT = (0.5, 1.5)  # saved cycles / cycles of the part
LARGE = 0.05  # of the latency

# docs/why.md has them with their numbers, and says why.
EXCEPTIONS = {
    ("bert-base-128:small", "layerwise", "eyeriss", "fast DDR"),
    ("bert-base-128:small", "tvm", "eyeriss", "fast DDR"),
    ("mobilenet-v2:small", "stay-in-lb", "eyeriss", "room for everything"),
    ("resnet50", "graphturbo", "stcp920", "no time for core to core"),
}
PAGE = Path(__file__).parent.parent.parent / "docs" / "why.md"


def expect_about_the_part(done: Compilation, network: str, strategy: str, machine: str) -> None:
    """Each large cause is about what its removal saves, or an exception that the page lists with these numbers."""
    listed = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    for removal in removals(done):
        case = (network, strategy, machine, removal.name)
        right = removal.share < LARGE or RIGHT[0] <= removal.ratio <= RIGHT[1]
        assert right != (case in EXCEPTIONS), removal
        if not right:
            assert any(line.startswith(f"| {' | '.join(case)} | {removal.text} |") for line in listed), removal


@pytest.mark.parametrize("network, strategy, machine", each_once(NETWORKS[:3], STRATEGIES, MACHINES))
def test_without_a_cause_the_latency_falls_by_about_its_part(network, strategy, machine):
    """Wherever the part exceeds 5 % of the latency; what is listed as an exception is one."""
    expect_about_the_part(compiled(network, strategy, machine), network, strategy, machine)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["tvm", "graphturbo"])
def test_without_a_cause_resnet50_is_faster_by_about_its_part(strategy):
    """At the size of docs/why.md."""
    done = tilestitch.compile("resnet50", "stcp920", strategy=strategy, batch=64)
    expect_about_the_part(done, "resnet50", strategy, "stcp920")


def test_a_slower_port_makes_its_waits_longer():
    """Half the bandwidth of DDR: what waits for it takes more, and nothing else changes by as much."""
    toy = tilestitch.load_machine("toy")
    gaps = []
    for bandwidth in (8, 4):
        machine = toy.with_("memories.ddr.bandwidth_bytes_per_cycle", bandwidth)
        done = tilestitch.compile("bert-base-128:small", machine, strategy="tvm")
        gaps.append(blame_of(done).whole())
    assert gaps[1].cycles(Part.SPILLS) > Fraction(3, 2) * gaps[0].cycles(Part.SPILLS)
