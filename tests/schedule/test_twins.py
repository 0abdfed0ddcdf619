"""Two pieces in flight: their kernels take turns, and the program computes the same."""

from dataclasses import replace
from itertools import groupby

import pytest

from tilestitch import api
from tilestitch.ir.by_hand import DEPTH_FIRST
from tilestitch.pipeline.hand_schedule import hand_schedule_of
from tilestitch.pipeline.options import Options
from tilestitch.schedule.tasks import Task
from tilestitch.schedule.twins import alternating


@pytest.mark.quick
def test_the_second_of_two_pieces_is_late_by_so_many_kernels():
    """The third has no twin; every task runs once, and the first launches."""
    tasks = [Task((name,), launches=(name, piece) == ("a", 0), piece=piece) for piece in range(3) for name in "abcd"]

    def order(lag: int) -> str:
        found = alternating(tasks, {0: lag, 1: lag, 2: lag})
        assert [one.launches for one in found] == [True] + [False] * 11
        return " ".join(f"{one.operators[0]}{one.piece}" for one in found)

    rest = "a2 b2 c2 d2"
    assert order(0) == f"a0 b0 c0 d0 a1 b1 c1 d1 {rest}"
    assert order(1) == f"a0 b0 a1 c0 b1 d0 c1 d1 {rest}"
    assert order(3) == f"a0 b0 c0 d0 a1 b1 c1 d1 {rest}"
    assert order(9) == order(0)


@pytest.mark.quick
def test_pieces_of_other_operators_are_no_twins():
    """What one of them leaves out, the other could read."""
    tasks = [Task(("a",), piece=0), Task(("b",), piece=0), Task(("b",), piece=1)]
    assert alternating(tasks, {0: 1, 1: 1}) == tasks


def test_pieces_in_flight_compute_the_same():
    """As onnxruntime does; each operator's two kernels have those of the other piece between."""
    network = "mobilenet-v2:small"
    begin = hand_schedule_of(api.compile(network, "stcp920", strategy="graphturbo", batch=8))
    options = Options(batch_per_cluster=2)
    runs = []
    for lag in (0, 2):
        groups = [replace(begin.groups[-1], axis=0, pieces=2, lag=lag)]
        schedule = replace(begin, groups=groups, order=DEPTH_FIRST)
        done = api.compile(network, "stcp920", strategy=schedule, batch=8, options=options, verify=True)
        assert done.report is not None
        assert done.report.outcome == "passed"
        assert done.schedule is not None
        boxes = [kernel.box.start[0] if kernel.box is not None else -1 for kernel in done.schedule.kernels]
        runs.append(len(list(groupby(boxes))))
    assert runs[0] == 2 < len(boxes) // 2 < runs[1]
