"""Schedules written by hand: what they say is what runs, and what cannot run is told."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.by_hand import BY_HAND, GROUPS, ORDER, scheduled
from tests.helpers.graphs import Net
from tests.helpers.pairs import first
from tilestitch import api
from tilestitch.api import HandGroup, HandItem, HandSchedule
from tilestitch.base.errors import InputError
from tilestitch.hardware.accelerator import Level
from tilestitch.hardware.load import load_machine
from tilestitch.ir.region import Region
from tilestitch.kernels.division import nearest_cores, needed_by, parts_of
from tilestitch.kernels.nest import flatten
from tilestitch.kernels.shape import kernel_shape
from tilestitch.kernels.surroundings import Source, Surroundings
from tilestitch.pipeline.options import Options


@pytest.mark.quick
def test_pieces_run_in_the_order_written():
    done = scheduled(BY_HAND).schedule
    assert done is not None
    images = [
        kernel.box.start[0] for kernel in done.kernels if kernel.box is not None and kernel.operators[0] == "conv1"
    ]
    assert images == [0, 1, 2, 3]
    joined = [n for n, kernel in enumerate(done.kernels) if kernel.operators[0] == "layer3.0.conv1"]
    assert sum(kernel.operators[0] == "conv1" for kernel in done.kernels[: joined[0]]) == 2


def test_pieces_may_be_uneven():
    groups = (replace(GROUPS[0], pieces=(1, 3)), *GROUPS[1:])
    done = scheduled(replace(BY_HAND, groups=groups, order="depth_first")).schedule
    assert done is not None
    images = {
        kernel.box.extents[0] for kernel in done.kernels if kernel.box is not None and "conv1" in kernel.operators
    }
    assert images == {1, 3}


def test_a_group_that_runs_whole_may_make_a_number():
    """Without axes there is nothing to cut; two pieces of it are refused."""
    net = Net(18)
    largest = net.op("ReduceMax", net.op("Relu", net.input(4, 8)), keepdims=0)
    model = net.model(net.op("Exp", largest))
    for pieces in (1, 2):
        schedule = HandSchedule("number", (HandGroup("a", (largest,), pieces=pieces), HandGroup("b")))
        if pieces == 1:
            done = api.compile(model, "toy", strategy=schedule, verify=True)
            assert done.report is not None
            assert done.report.verified
        else:
            with pytest.raises(InputError, match=r"axis 0; its result \w+ has axes 0 to -1"):
                api.compile(model, "toy", strategy=schedule)


ALONG_TWO = (replace(GROUPS[0], pieces=2, further=((2, 2),)), *GROUPS[1:])


def test_pieces_may_be_cut_along_two_axes():
    """Two halves of the samples, of each the upper rows and the lower ones, and a halo between these."""
    done = scheduled(replace(BY_HAND, groups=ALONG_TWO, order="depth_first")).schedule
    assert done is not None
    boxes = {
        name: [kernel.box for kernel in done.kernels if name in kernel.operators and kernel.box is not None]
        for name in ("layer2.0.add", "conv1")
    }
    whole = done.graph.by_name["layer2.0.add"].whole
    half = -(-whole.stop[2] // 2)
    places = sorted((box.start[0], box.start[2]) for box in boxes["layer2.0.add"])
    assert places == [(0, 0), (0, half), (2, 0), (2, half)]
    assert sum(box.size for box in boxes["layer2.0.add"]) == whole.size
    halves = [box for box in boxes["conv1"] if box.start[0] == 0]
    assert halves[0].overlaps(halves[1])


@pytest.mark.quick
def test_a_scope_is_where_the_results_wait():
    """Of what the second piece of the front makes for the next item, which would find it in the cores."""
    items = tuple(HandItem(name, Level.DDR if name == "front[1]" else None) for name in ORDER)
    waiting = {}
    for name, schedule in (("rule", BY_HAND), ("written", replace(BY_HAND, order=items))):
        done = scheduled(schedule).schedule
        assert done is not None
        waiting[name] = {(home.region.start[0], home.level) for home in done.homes if home.tensor == "layer2.0.relu"}
    assert (1, Level.LB) in waiting["rule"]
    assert all(image != 1 for image, _ in waiting["written"])


def test_cores_take_the_parts_in_the_order_written():
    cores = (3, 7, 2, 6, 1, 5, 0, 4)
    items = tuple(
        HandItem(name, cores=((3, 7), (2, 6), (1, 5), (0, 4)) if name == "end[0]" else None) for name in ORDER
    )
    done = scheduled(replace(BY_HAND, order=items)).schedule
    assert done is not None
    assert {kernel.cores for kernel in done.kernels if kernel.operators[0].startswith("layer4")} == {cores}


@pytest.mark.parametrize("order", first(1, [BY_HAND.order, "depth_first", "breadth_first"]))
def test_a_schedule_by_hand_means_the_network(order):
    report = scheduled(replace(BY_HAND, order=order), stop_after="simulate").report
    assert report is not None
    assert report.verified, report.checks


def test_pieces_along_two_axes_mean_the_network():
    report = scheduled(replace(BY_HAND, groups=ALONG_TWO, order="depth_first"), stop_after="simulate").report
    assert report is not None
    assert report.verified, report.checks


def ordered(*names: str) -> HandSchedule:
    return replace(BY_HAND, order=tuple(HandItem(name) for name in names))


def grouped(*groups: HandGroup) -> HandSchedule:
    return replace(BY_HAND, groups=groups, order="depth_first")


@pytest.mark.parametrize(
    ("schedule", "told"),
    [
        (ordered("front[0]", "middle[0]"), r"piece middle\[0\]: reads what front\[1\] makes, which runs after it"),
        (ordered("front[0]", "front[0]"), "runs twice"),
        (ordered(*ORDER[:-1]), r"does not run end\[0\]"),
        (ordered("front[9]"), "there is no such piece"),
        (replace(BY_HAND, order="sideways"), "order 'sideways'; expected depth_first, breadth_first"),
        (grouped(HandGroup("a", ("nowhere",))), "there is no operator nowhere"),
        (grouped(HandGroup("a", ("layer2.0.add",))), "is in no group"),
        (grouped(HandGroup("a"), HandGroup("b")), "has no operators of its own"),
        (grouped(HandGroup("a", ("layer2.0.add",), pieces=9), HandGroup("b")), "expected 1 to 4 pieces"),
        (grouped(HandGroup("a", ("layer2.0.add",), pieces=(1, 2)), HandGroup("b")), "extents that add up to 4"),
        (grouped(HandGroup("a", ("layer2.0.add",), axis=7), HandGroup("b")), "has axes 0 to 3"),
        (
            grouped(HandGroup("a", ("layer2.0.add",), further=((2, 99),)), HandGroup("b")),
            r"pieces 99 of .*, which has \d+ along axis 2",
        ),
        (
            grouped(HandGroup("a", ("layer2.0.add",), pieces=2, further=((0, 2),)), HandGroup("b")),
            "cut along the axes 0, 0; expected each once",
        ),
        (replace(BY_HAND, order=(HandItem("front[0]", cores=(8,)), *BY_HAND.order[1:])), "each core once, of 0 to 7"),
        (
            replace(BY_HAND, order=(HandItem("front[0]", cores=((0, 1), 2)), *BY_HAND.order[1:])),
            "as many cores for every",
        ),
        (replace(BY_HAND, order=(HandItem("front[0]", Level.WEIGHTS), *BY_HAND.order[1:])), "expected lb, gb or ddr"),
    ],
)
def test_what_cannot_run_is_told(schedule: HandSchedule, told: str) -> None:
    with pytest.raises(InputError, match=told):
        scheduled(schedule)


def test_new_owners_are_some_of_the_old_ones():
    """Two images lie on the halves of a cluster; split over as many cores again, each half keeps its image."""
    machine = load_machine("stcp920")
    done = api.compile(
        "resnet18:small", machine, strategy="tvm", batch=8, options=Options(batch_per_cluster=2, stop_after="schedule")
    )
    assert done.schedule is not None
    graph = done.schedule.graph
    relu = graph.by_name["layer2.0.relu1"]
    conv = graph.by_name["layer2.0.conv2"]
    shape = kernel_shape(graph, [conv], machine, machine.cores[0])
    whole = graph.tensors[relu.outputs[0]].shape
    owners = {1: 0, 3: 0, 5: 1, 7: 1}  # core -> image
    sources = tuple(
        Source(Region((image, 0, 0, 0), (image + 1, *whole[1:])), Level.LB, core) for core, image in owners.items()
    )
    row = Source(Region((0, 0, 0, 0), (1, whole[1], 1, whole[3])), Level.LB, 2)  # of one image, in a core besides
    around = Surroundings({relu.outputs[0]: (*sources, row)})
    splits = tuple(2 if number in (0, 2) else 1 for number in range(len(conv.dims)))  # images, then rows
    nest, operands = flatten(shape, machine), np.array([[o.tensor for o in shape.operands].index(relu.outputs[0])])
    lying, rows = around.lying
    loops = (np.array(row) for row in ((0,) * len(splits), conv.whole.stop, (1,) * len(splits), splits))
    needs = needed_by(nest, parts_of(*loops), operands)
    order = nearest_cores(nest, needs, operands, np.array([rows[relu.outputs[0]]]), lying, np.arange(8)).tolist()
    assert [owners[core] for core in order[:4]] == [0, 0, 1, 1]
    assert sorted(order) == list(range(8))
