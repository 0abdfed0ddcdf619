"""What a concatenation joins is written where it lies there: the same values, and nothing is copied."""

import os
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.concatenations import joining_model
from tests.helpers.random_networks import random_machine
from tests.helpers.verified import machine_named, model
from tilestitch import api
from tilestitch.api import HandGroup, HandSchedule
from tilestitch.base.errors import DoesNotFit
from tilestitch.frontend.reader import read_onnx
from tilestitch.ir.by_hand import BREADTH_FIRST, DEPTH_FIRST
from tilestitch.ir.choices import Stage
from tilestitch.ir.graph import Graph
from tilestitch.ir.rewriting import Rewriting
from tilestitch.ir.verify import verify_graph
from tilestitch.passes import simplify
from tilestitch.passes.joined import joined
from tilestitch.pipeline.compile import compile_network, resume_network
from tilestitch.pipeline.hand_schedule import hand_schedule_of
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.stage_files import stage_text, started
from tilestitch.pipeline.strategies import strategy_by_hand
from tilestitch.pipeline.views import composed_graph

EXAMPLES = 300 if os.environ.get("HYPOTHESIS_PROFILE") == "slow" else 12


def composed(network: str) -> Graph:
    loaded = read_onnx(model(network, small=True), name=network, batch=2, weights={})
    return composed_graph(simplify(loaded, fold_bn=True))[0]


def copies(graph: Graph) -> list[str]:
    return [op.name for op in graph.operators if op.kind == "copy"]


@pytest.mark.parametrize("network", ["googlenet", "unet", "densenet121"])
def test_nothing_is_copied_where_all_can_be_written_and_read_in_place(network):
    """The other operators do what they did; whoever reads a part waits for its makers alone."""
    graph = composed(network)
    found, now = joined(graph)
    verify_graph(found)
    assert copies(graph)
    assert not copies(found)
    assert set(now) == {op.name for op in graph.operators}
    assert {name for name, after in now.items() if not after} == set(copies(graph))
    assert [op.name for op in found.operators] == [op.name for op in graph.operators if op.kind != "copy"]
    assert all(found.by_name[op.name].dims == op.dims for op in graph.operators if op.kind != "copy")
    place = {op.name: number for number, op in enumerate(found.operators)}
    assert all(place[maker.name] < place[name] for name in place for maker in found.makers[name])
    reads = [(op.name, name) for op in found.operators for name in op.inputs if name in found.producers]
    early = [name for name, tensor in reads if set(found.producers[tensor]) - set(found.makers[name])]
    assert bool(early) is (network != "googlenet")
    alone = composed("resnet18")
    assert joined(alone)[0] is alone


def test_what_is_an_output_as_well_is_copied():
    """An output is a tensor of its own."""
    graph = composed("googlenet")
    copy = next(op for op in graph.operators if op.kind == "copy")
    found, _ = joined(replace(graph, outputs=(*graph.outputs, copy.inputs[0])))
    assert copies(found) == [copy.name]


@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 10**6), machine=st.integers(0, 10**6), pieces=st.integers(1, 3), stitched=st.booleans())
def test_concatenations_along_any_axis_compute_the_same(seed: int, machine: int, pieces: int, stitched: bool):
    """As onnxruntime does, on chip and in DDR, whole and in pieces, and no faster than any bound."""
    hardware = random_machine(machine) if machine % 2 else machine_named("toy")
    schedule = HandSchedule("hand", (HandGroup("all", pieces=pieces),), stitched=stitched, joined=True)
    options = Options(batch=3, batch_per_cluster=3 if hardware.clusters == 1 else "rule", verify=True)
    if hardware.clusters > 1:
        schedule = replace(schedule, groups=(HandGroup("all"),))
    try:
        done = compile_network(joining_model(seed), f"joining{seed}", hardware, strategy_by_hand(schedule), options)
    except DoesNotFit:
        return
    assert done.report is not None
    assert done.report.verified, done.report.checks
    assert done.report.latency_cycles >= done.report.bound_cycles
    assert done.report.ddr_bytes >= done.report.compulsory_bytes


@settings(max_examples=EXAMPLES)
@given(
    seed=st.integers(0, 10**6),
    places=st.sets(st.integers(0, 20), max_size=3),
    pieces=st.lists(st.integers(1, 2), min_size=4, max_size=4),
    order=st.sampled_from([BREADTH_FIRST, DEPTH_FIRST]),
)
def test_parts_that_several_groups_make_compute_the_same(
    seed: int, places: set[int], pieces: list[int], order: str
) -> None:
    """Cut anywhere, groups write parts of one tensor and read parts that others wrote before them."""
    proto, toy = joining_model(seed), machine_named("toy")
    loaded = read_onnx(proto, name="joining", batch=2, weights={})
    graph = composed_graph(simplify(loaded, fold_bn=True), Rewriting(joined=True))[0]
    groups, taken = list[HandGroup](), set[str]()
    for place in [*sorted(place for place in places if place < len(graph.operators)), None]:
        wanted = {op.name for op in graph.operators} if place is None else {graph.operators[place].name}
        for op in reversed(graph.operators):
            wanted |= {maker.name for maker in graph.makers[op.name]} if op.name in wanted else set()
        if wanted - taken:
            until = () if place is None else (graph.operators[place].name,)
            groups.append(HandGroup(f"g{len(groups)}", until, pieces=pieces[len(groups)]))
        taken |= wanted
    schedule = HandSchedule("hand", groups, order, joined=True)
    options = Options(batch=2 * toy.clusters, batch_per_cluster=2, verify=True)
    done = compile_network(proto, "joining", toy, strategy_by_hand(schedule), options)
    assert done.report is not None
    assert done.report.verified, done.report.checks
    assert done.report.latency_cycles >= done.report.bound_cycles


@pytest.mark.parametrize("network", ["googlenet", "unet"])
def test_a_schedule_without_copies_computes_the_same(network):
    """As onnxruntime does, in two pieces; and is read back from the text of a file."""
    begin = api.compile(f"{network}:small", "toy", strategy="graphturbo", batch=4)
    assert begin.schedule is not None
    groups = [replace(one, axis=0, pieces=2) for one in hand_schedule_of(begin).groups[-1:]]
    schedule = replace(hand_schedule_of(begin), groups=groups, order="depth_first", joined=True)
    options = Options(batch_per_cluster=2)
    done = api.compile(f"{network}:small", "toy", strategy=schedule, batch=4, options=options, verify=True)
    assert done.report is not None
    assert done.report.outcome == "passed"
    assert done.schedule is not None
    assert len(copies(done.schedule.graph)) < len(copies(begin.schedule.graph))
    assert hand_schedule_of(done).joined
    start = started(stage_text(done, Stage.SCHEDULE), "file.json")
    again = resume_network(model(network, small=True), start, machine_named("toy"), Options())
    assert again.schedule is not None
    assert again.schedule.kernels == done.schedule.kernels
