"""Depthwise convolutions as banded products: the same values, on matrix units."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest

from tests.helpers.verified import machine_named, model
from tilestitch import api
from tilestitch.base.errors import InputError
from tilestitch.cost.bounds import bounds, limits
from tilestitch.frontend.reader import read_onnx
from tilestitch.ir.choices import Stage
from tilestitch.ir.graph import Graph
from tilestitch.ir.rewriting import Band, Rewriting
from tilestitch.ir.verify import verify_graph
from tilestitch.ops.contraction import product_shape
from tilestitch.ops.depthwise import Sizes, folds_of, least_folds_of, sizes_of, ways
from tilestitch.ops.work import on_matrix_unit, operand_dtype
from tilestitch.passes import simplify
from tilestitch.passes.banded import with_bands
from tilestitch.pipeline.compile import resume_network
from tilestitch.pipeline.hand_schedule import hand_schedule_of
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.stage_files import stage_text, started
from tilestitch.pipeline.views import composed_graph

BANDS = (  # of MobileNet-v2 on images of 32 x 32: channels, neighbours, both, behind a stride of 2
    Band("features.1.depthwise", 4, (1, 1)),
    Band("features.2.depthwise", 1, (2, 4)),
    Band("features.3.depthwise", 2, (2, 4)),
    Band("features.5.depthwise", 6, (1, 2)),
)


def composed(network: str = "mobilenet-v2", *, bands: tuple[Band, ...] = (), batch: int = 2) -> Graph:
    loaded = read_onnx(model(network, small=True), name=network, batch=batch, weights={})
    return composed_graph(simplify(loaded, fold_bn=True), Rewriting(bands=bands))[0]


def test_a_row_of_a_banded_product_is_several_channels_and_neighbours():
    """The operator keeps its name, its results and its sizes; its weights are bands of the old ones between zeros."""
    graph = composed()
    found = composed(bands=BANDS)
    verify_graph(found)
    for band in BANDS:
        before, after = graph.by_name[band.operator], found.by_name[band.operator]
        shape = product_shape(after, after.whole)
        assert shape.n == band.channels * prod(band.neighbours)
        assert before.outputs == after.outputs
        assert sizes_of(before, graph) == sizes_of(after, found)
        old, new = (one.constants[op.reads[1].tensor] for one, op in ((graph, before), (found, after)))
        assert np.count_nonzero(new) == np.count_nonzero(old) * prod(band.neighbours)
        assert before.reads[1].tensor not in found.constants


def test_a_large_banded_product_runs_on_matrix_units():
    """Alone it would be the work of vector units."""
    machine, band = machine_named("stcp920-paper"), Band("features.1.depthwise", 1, (2, 8))
    for bands, on_matrix in (((), False), ((band,), True)):
        graph = composed(bands=bands, batch=64)
        op = graph.by_name[band.operator]
        assert on_matrix_unit(op, operand_dtype(op, graph), machine) is on_matrix


@pytest.mark.parametrize("pieces", [1, 2])
def test_a_schedule_with_bands_computes_the_same(pieces):
    """As onnxruntime does, whole and in pieces along the rows; and is read back from the text of a file."""
    network = "mobilenet-v2:small"
    begin = api.compile(network, "toy", strategy="graphturbo", batch=4)
    groups = [replace(one, axis=0, pieces=pieces) for one in hand_schedule_of(begin).groups[-1:]]
    schedule = replace(hand_schedule_of(begin), groups=groups, order="depth_first", bands=BANDS)
    done = api.compile(network, "toy", strategy=schedule, batch=4, options=Options(batch_per_cluster=2), verify=True)
    assert done.report is not None
    assert done.report.outcome == "passed"
    assert done.schedule is not None
    assert all(done.schedule.graph.by_name[band.operator].reads[1].tensor.endswith(".band") for band in BANDS)
    start = started(stage_text(done, Stage.SCHEDULE), "file.json")
    again = resume_network(model("mobilenet-v2", small=True), start, machine_named("toy"), Options())
    assert again.schedule is not None
    assert again.schedule.kernels == done.schedule.kernels


def test_what_cannot_be_banded_is_refused():
    graph = composed()
    with pytest.raises(InputError, match=r"expected a depthwise convolution"):
        with_bands(graph, (Band("features.0", 1, (2, 2)),))
    with pytest.raises(InputError, match=r"channels and neighbours 3, 1, 1; expected divisors of 8, 16, 16"):
        with_bands(graph, (Band("features.1.depthwise", 3, (1, 1)),))


def test_the_fewest_folds_are_those_of_some_way_and_none_has_fewer():
    """Of a unit of 64 x 32 weights: 4 x 8 neighbours of one channel need 6 x 10 operands, and are a whole row."""
    sizes = Sizes(6, (8, 16), (3, 3), (1, 1))
    assert (1, (4, 8)) in ways(sizes, 64, 32)
    assert least_folds_of(sizes, 64, 32) == folds_of(sizes, (1, (4, 8)), 64, 32)
    every = [
        folds_of(sizes, (channels, (high, wide)), 64, 32)
        for channels in (1, 2, 3, 6)
        for high in (1, 2, 4, 8)
        for wide in (1, 2, 4, 8, 16)
    ]
    assert least_folds_of(sizes, 64, 32) == min(every)


def test_bounds_do_not_depend_on_who_is_banded():
    """The least of both classes of units holds whatever runs on which; and less than with vector units alone."""
    machine = machine_named("stcp920-paper")
    graph = composed(batch=4)
    every = tuple(
        Band(op.name, ways(sizes, 64, 32)[-1][0], ways(sizes, 64, 32)[-1][1])
        for op in graph.operators
        if (sizes := sizes_of(op, graph)) is not None
    )
    found = [bounds(composed(bands=bands, batch=4), machine, iterations=1) for bands in ((), BANDS, every)]
    assert len({one.attainable_cycles for one in found}) == 1
    assert len({one.compute_cycles for one in found}) == 1
    assert len({one.macs for one in found}) == 1
    assert len({one.compulsory_bytes for one in found}) == 1
    alone = sum(
        op.iterations / (8 * 64) for op in graph.operators if op.kind == "clip" or sizes_of(op, graph) is not None
    )
    assert found[0].attainable_cycles < alone
    assert found[0].latency_cycles == max(one.cycles for one in limits(graph, machine, iterations=1))
