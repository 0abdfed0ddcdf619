"""What is wide does not take the square of its width: readers of one tensor, and the cores of one cluster.

Steps are counted, and a run that takes too many ends there. The times: `python -m benchmarks wide`.
"""

from random import Random

import pytest

from benchmarks.wide import readers_of_one_tensor, two_convolutions, with_cores
from tests.helpers.pairs import first
from tilestitch.ir.region import Region
from tilestitch.partition.subgraphs.coarse import coarse_groups
from tilestitch.partition.subgraphs.liveness import Arranger, given_peak_bytes
from tilestitch.partition.subgraphs.pattern import Pattern
from tilestitch.partition.subgraphs.stretch import _STEPS, _Search
from tilestitch.passes import simplify
from tilestitch.pipeline.compile import compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import strategy_named

SEARCH_STEPS = 300_000  # for the first readers, until they are many
STEPS_OF_ONE = 40  # for every reader more


class _Counted:
    """Calls of a method; more than `most` of them fail the test."""

    def __init__(self, patch: pytest.MonkeyPatch, owner: type, name: str, most: int = 1 << 62) -> None:
        self.calls, whole = 0, getattr(owner, name)

        def counting(*arguments):
            self.calls += 1
            assert self.calls <= most, f"more than {most:,} calls of {name}"
            return whole(*arguments)

        patch.setattr(owner, name, counting)


@pytest.mark.parametrize("readers", first(1, [250, 1_000]))
def test_steps_grow_with_the_readers_of_a_tensor(monkeypatch, readers):
    """Every addition joins another reader to the sub-graph before it, which is not searched anew."""
    graph = simplify(readers_of_one_tensor(readers).graph("end"))
    _Counted(monkeypatch, _Search, "_step", SEARCH_STEPS + STEPS_OF_ONE * readers)
    groups = coarse_groups(graph, 10 * 2**20)
    assert len(groups) == 1
    operators = [graph.by_name[name] for name in groups[0].operators]
    assert len(operators) == 2 * readers
    assert groups[0].split.peak_bytes < given_peak_bytes(graph, operators) / 10


class _Looked(list[int]):
    """Numbers that count how often one of them is looked at."""

    looks = 0

    def __iter__(self):
        self.looks += len(self)
        return super().__iter__()

    def __getitem__(self, at):
        self.looks += 1
        return super().__getitem__(at)


def test_a_search_looks_at_what_waits_for_the_last_operator():
    """Not at all operators after each one: of four chains of a hundred, few may run next."""
    random = Random(2)
    chains, length = 4, 100
    count = chains * length
    reads = tuple((at - chains,) if at >= chains else () for at in range(count))
    makes = tuple((at,) for at in range(count))
    sizes = tuple(random.randint(1, 99) for _ in range(count))
    search = _Search(Pattern(sizes, (False,) * count, (True,) * count, reads, makes, (False,) * count))
    search.needs = looked = _Looked(search.needs)
    assert search._search(0, 1 << 62) is None  # given up
    assert looked.looks <= count + 2 * _STEPS


def test_a_wide_group_knows_the_peak_of_its_order(monkeypatch):
    """What is put together from parts has the peak that its order has, and the followers that it has as a whole."""
    graph = simplify(readers_of_one_tensor(150).graph("end"))
    joined = []
    append = Arranger.append

    def watched(arranger, first, second, tail):
        append(arranger, first, second, tail)
        joined.append((arranger, first))

    monkeypatch.setattr(Arranger, "append", watched)
    (group,) = coarse_groups(graph, 10 * 2**20)
    arranger, found = joined[-1]
    order = [op for stretch in found.stretches for number in stretch.order for op in arranger.nodes[number]]
    assert sorted(op.name for op in order) == sorted(group.operators)
    assert found.peak_bytes == given_peak_bytes(graph, order)
    assert group.split.operators == len(order)


def test_boxes_are_compared_as_often_as_there_are_cores(monkeypatch):
    """Each core reads what its neighbours made, and does not look through what all others have."""
    cores = 128
    _Counted(monkeypatch, Region, "overlaps", 64 * cores)
    compile_network(two_convolutions().model("end"), "many", with_cores(cores), strategy_named("graphturbo"), Options())
