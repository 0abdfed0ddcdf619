"""Sub-graphs that stay whole because their pieces would make or read too much several times."""

import pytest

from tests.helpers.graphs import Net
from tilestitch import api
from tilestitch.hardware.load import load_machine
from tilestitch.ir.graph import Graph
from tilestitch.ir.partition import SubGraph
from tilestitch.partition.subgraphs import cuts
from tilestitch.partition.subgraphs.cuts import whole_may_be_better, without_repetition

KIB = 1024
ROOM = 2 * 64 * KIB + 512 * KIB  # of toy: two cores and the memory that they share


def two_convolutions(*, pieces: int, axis: int) -> tuple[Graph, SubGraph]:
    net = Net()
    x = net.input(4, 8, 16, 16)
    first = net.op("Conv", x, net.random(8, 8, 3, 3), name="first", pads=[1, 1, 1, 1])
    second = net.op("Conv", first, net.random(8, 8, 3, 3), name="second", pads=[1, 1, 1, 1])
    graph = net.graph(second)
    return graph, SubGraph(tuple(op.name for op in graph.operators), axis, pieces, 64 * KIB)


@pytest.mark.parametrize(
    ("axis", "pieces", "expected"),
    [
        (0, 4, 4),  # images have nothing in common
        (2, 2, 2),  # two halves make 2 of 16 rows of the first convolution twice
        (2, 8, 1),  # eight pieces of 2 rows need 4 rows of the first
        (1, 2, 1),  # every channel of the second needs all of the first
    ],
)
def test_a_sub_graph_is_cut_where_its_pieces_make_little_twice(axis, pieces, expected):
    graph, cut = two_convolutions(pieces=pieces, axis=axis)
    (found,) = without_repetition(graph, [cut])
    assert found.pieces == expected


@pytest.mark.parametrize(
    ("pieces", "too_much", "expected"),
    [
        (1, 0, False),  # as it is cut already
        (4, 0, True),
        (4, 3 * 2 * 8 * 8 * 9, True),  # bytes that go to DDR and back are at most the weights that are read again
        (4, 3 * 2 * 8 * 8 * 9 + 2, False),
    ],
)
def test_staying_whole_is_looked_at_where_pieces_read_more_weights_again(pieces, too_much, expected):
    """Two weights of 8x8x3x3 elements of 2 bytes."""
    machine = load_machine("toy")
    graph, cut = two_convolutions(pieces=pieces, axis=0)
    over = SubGraph(cut.operators, 0, pieces, ROOM + too_much if pieces > 1 else ROOM)
    assert whole_may_be_better(graph, [over], machine) == expected


def test_a_strategy_of_instances_leaves_sub_graphs_whole_where_that_is_faster(monkeypatch):
    """And says so, with the estimates of both."""
    asked = {"strategy": "graphturbo-ordering", "batch": 4, "verify": True}
    done = api.compile("bert-base-128:small", "toy", **asked)
    assert done.report is not None
    assert done.report.verified
    (note,) = (note for note in done.report.notes if "whole" in note)
    whole, pieces = (int(word.replace(",", "")) for word in note.split() if word[0].isdigit())
    assert done.schedule is not None
    assert whole == sum(kernel.estimated_cycles for kernel in done.schedule.kernels) * done.schedule.iterations
    assert whole < pieces
    monkeypatch.setattr(cuts, "whole_may_be_better", lambda *arguments: False)
    cut = api.compile("bert-base-128:small", "toy", **asked)
    assert cut.report is not None
    assert cut.report.latency_cycles > done.report.latency_cycles
    assert not any("whole" in note for note in cut.report.notes)
