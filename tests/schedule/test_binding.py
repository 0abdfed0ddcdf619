"""Algorithm 4 of GraphTurbo: over how many cores each dim of a piece's result is divided, and where it waits."""

import pytest

from tests.helpers.graphs import Net
from tests.helpers.pairs import first
from tests.helpers.paper_networks import MIB, network, pieces_of_resnet50
from tilestitch import api
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.region import Region
from tilestitch.partition.groups.fuse_ops import fuse_ops
from tilestitch.partition.subgraphs.liveness import least_peak
from tilestitch.passes.layouts import assign_layouts
from tilestitch.passes.views import resolve_views
from tilestitch.pipeline.options import Options
from tilestitch.schedule.binding import Binding, Piece, Work, bind, infer, pieces_of, plain, update
from tilestitch.schedule.orders import depth_first
from tilestitch.schedule.pieces import bound
from tilestitch.schedule.tasks import Task

FREE = (True, True)


@pytest.mark.parametrize(
    ("extents", "free", "cores", "expected"),
    [
        ((2, 56, 56, 256), (True,) * 4, 8, (2, 4, 1, 1)),
        ((6, 12), FREE, 8, (2, 4)),
        ((16, 8), FREE, 8, (8, 1)),
        ((16, 8), (False, True), 8, (1, 8)),
        ((7, 5), FREE, 8, (1, 1)),
        ((9, 4), FREE, 6, (3, 2)),
    ],
)
def test_the_plain_binding_divides_the_outermost_dims_evenly(extents, free, cores, expected):
    assert plain(Piece(extents, free, {}), cores) == expected


def test_a_producer_is_bound_as_its_reader_where_its_dims_follow():
    """The reader's axes 0 and 1 are the producer's 1 and 0."""
    pieces = [Piece((4, 8), FREE, {}), Piece((8, 4), FREE, {0: (1, 0)})]
    assert infer((4, 2), pieces[1], pieces, 0) == (2, 4)
    assert bind(pieces, 8) == (Binding((1, 8), Level.LB), Binding((8, 1), Level.LB))


@pytest.mark.parametrize(
    "producer",
    [Piece((6, 8), FREE, {}), Piece((8, 8), (False, True), {})],
    ids=["an extent that is not divided", "an axis that may not be bound"],
)
def test_what_cannot_be_bound_alike_gets_a_binding_of_its_own(producer):
    reader = Piece((8, 3), FREE, {0: (0, None)})
    assert infer((8, 1), reader, [producer, reader], 0) == ()
    found = bind([producer, reader], 8)
    assert found[0] == Binding(plain(producer, 8), Level.LB)


def test_a_result_that_two_readers_want_otherwise_waits_in_gb():
    """One reader takes rows, the other columns."""
    maker = Piece((8, 8), FREE, {})
    by_rows, by_columns = Piece((8, 3), FREE, {0: (0, None)}), Piece((8, 3), FREE, {0: (None, 0)})
    assert bind([maker, by_rows, by_columns], 8)[0] == Binding((8, 1), Level.GB)
    assert bind([maker, by_rows, by_rows], 8)[0] == Binding((8, 1), Level.LB)


def test_a_binding_that_was_handed_on_gives_way_to_one_of_more_cores():
    """The reader has two rows and nothing else to divide; the producer has columns as well."""
    producer, reader = Piece((2, 8), FREE, {}), Piece((2, 3), FREE, {0: (0, None)})
    assert bind([producer, reader], 8) == (Binding((2, 4), Level.LB), Binding((2, 1), Level.LB))
    assert update((2, 4), Piece((2, 8), (True, False), {})) == (2, 1)


def test_pieces_of_resnet50_are_bound_as_the_vendor_does():
    """2 images over 2 x 4 cores, 4 over 4 x 2, 8 and 16 over 8: the core maps of the manual of TensorTurbo."""
    graph = assign_layouts(network("resnet50", 16))
    instances = pieces_of_resnet50()
    order = depth_first(instances)
    works = []
    for number in order:
        one = instances.instances[number]
        ((tensor, region),) = one.writes.items()
        works.append(Work(one.operators, tensor, region, one.reads))
    found = bind(pieces_of(graph, works), 8)
    expected = {0: (2, 4, 1, 1), 1: (4, 2, 1, 1), 2: (8, 1, 1, 1), 3: (8, 1)}
    assert [one.factors for one in found] == [expected[instances.instances[number].group] for number in order]
    assert {one.scope for one in found} == {Level.LB}


def test_bert_is_bound_by_sentences():
    """With one for each core, nothing has to move but weights; attention's products keep the batch outermost."""
    graph = assign_layouts(network("bert-base-128", 8))
    assert least_peak(graph, graph.operators).peak_bytes < 10 * MIB
    tasks = bound(graph, [Task(group.operators) for group in fuse_ops(graph)], 8)
    in_encoder = [task for task in tasks if task.operators[-1].startswith("encoder")]
    assert in_encoder
    for task in in_encoder:
        assert task.splits[0] == 8, task
        assert set(task.splits[1:]) <= {1}, task


def test_axes_that_are_joined_or_normalised_along_are_not_free():
    net = Net()
    x = net.input(8, 16)
    first, second = net.op("Relu", x), net.op("Exp", x)
    joined = net.op("Concat", first, second, axis=1)
    normalised = net.op("Softmax", joined, axis=-1)
    graph = assign_layouts(resolve_views(net.graph(normalised))[0])
    works = [
        Work(
            (op.name,),
            op.writes[0].tensor,
            op.writes[0].hull(op.whole),
            {name: _all(graph, name) for name in op.inputs},
        )
        for op in graph.operators
    ]
    free = {work.result: piece.free for work, piece in zip(works, pieces_of(graph, works), strict=True)}
    apart = {first: (True, True), second: (True, True)}
    assert free == {**apart, joined: (True, False), normalised: (True, False)}


def _all(graph, name: str) -> Region:
    return Region.whole(graph.tensors[name].shape)


@pytest.mark.parametrize("network_name", first(2, ["resnet18:small", "mobilenet-v2:small", "bert-base-128:small"]))
def test_programs_bound_by_the_paper_are_right(network_name):
    done = api.compile(
        network_name, "toy", strategy="graphturbo", batch=4, options=Options(binding="paper"), verify=True
    )
    assert done.report is not None
    assert done.report.verified
