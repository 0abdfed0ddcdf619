"""Changes of a schedule by hand: what moves, what stays, what is refused."""

import pytest

from tilestitch import api
from tilestitch.base.errors import InputError
from tilestitch.hardware.accelerator import Level
from tilestitch.pipeline.hand_schedule import hand_schedule_of
from tilestitch.pipeline.options import Options
from tilestitch.serve.edits import Border, Cut, Draft, Keep, KeepAll, Merge, Move, Reorder, Split, edited

OPTIONS = Options(stop_after="schedule", batch_per_cluster=4)


def draft_by(strategy, network="resnet18:small"):
    done = api.compile(network, "toy", strategy=strategy, batch=8, options=OPTIONS)
    return Draft(done.graph, done.partition.kernels, hand_schedule_of(done))


@pytest.fixture(scope="module")
def kernels():
    """Every kernel a group, its results in LB."""
    return draft_by("stay-in-lb")


def after(draft, *edits):
    for edit in edits:
        draft = Draft(draft.graph, draft.kernels, edited(draft, edit))
    return draft


def names(draft):
    return [item.instance for item in draft.schedule.order]


def runs(draft):
    """Its latency, executed and right."""
    options = Options(batch_per_cluster=4)
    done = api.compile("resnet18:small", "toy", strategy=draft.schedule, batch=8, options=options, verify=True)
    assert done.report.outcome == "passed"
    return done.report.latency_cycles


def test_two_groups_are_merged_and_split_again(kernels):
    """Merging and splitting at the same place gives what there was."""
    merged = after(kernels, Merge(2))
    assert merged.members()[2] == (*kernels.members()[2], *kernels.members()[3])
    assert len(merged.schedule.groups) == len(kernels.schedule.groups) - 1
    assert after(merged, Split(2, 1)).schedule == kernels.schedule


def test_a_border_moves_by_one_kernel_and_back(kernels):
    """The kernel goes from one group to the other."""
    wide = after(kernels, Merge(0), Merge(1))  # two groups of two kernels
    first, second = wide.ends()[:2]
    later = after(wide, Border(0, later=True))
    assert later.ends()[:2] == [(*first, second[0]), second[1:]]
    assert after(later, Border(0, later=False)).schedule == wide.schedule
    with pytest.raises(InputError, match="group g1 has one kernel alone; merge it instead"):
        after(later, Border(0, later=True))


def test_a_group_is_cut_into_pieces_that_run(kernels):
    """Pieces appear in the order, keep the scope of their group, and the program is right."""
    cut = after(kernels, Merge(0), Cut(0, 0, 4))
    assert names(cut)[:5] == ["g0[0]", "g0[1]", "g0[2]", "g0[3]", "g1[0]"]
    assert {item.scope for item in cut.schedule.order} == {Level.LB}
    assert runs(cut) != runs(kernels)


def test_pieces_run_depth_first_or_breadth_first(kernels):
    """And one is moved by hand; what reads another's results cannot come before it."""
    both = after(kernels, Cut(0, 0, 2), Cut(1, 0, 2))
    assert names(both)[:4] == ["g0[0]", "g0[1]", "g1[0]", "g1[1]"]
    depth = after(both, Reorder("depth_first"))
    assert names(depth) != names(both)
    assert sorted(names(depth)) == sorted(names(both))
    moved = after(both, Move(1, later=True))
    assert names(moved)[:4] == ["g0[0]", "g1[0]", "g0[1]", "g1[1]"]
    runs(moved)
    with pytest.raises(InputError, match=r"piece g1\[1\]: reads what g0\[1\] makes, which runs after it"):
        runs(after(moved, Move(2, later=True)))


def test_results_wait_where_they_are_told(kernels):
    """One piece, or all of a group; in DDR it takes longer."""
    spilled = after(kernels, Keep(0, Level.DDR))
    assert [item.scope for item in spilled.schedule.order][:2] == [Level.DDR, Level.LB]
    cut = after(kernels, Cut(0, 0, 2), KeepAll(0, Level.GB))
    assert [item.scope for item in cut.schedule.order][:3] == [Level.GB, Level.GB, Level.LB]
    assert runs(spilled) > runs(kernels)


@pytest.mark.parametrize(
    "edit, message",
    [
        (Border(99, later=True), "group 99: there are"),
        (Cut(0, 0, 0), "pieces: expected 1 to 4,096, found 0"),
        (Cut(0, 7, 2), "axis 7; its result"),
        (Split(0, 1), "group g0 has one kernel alone; there is nothing to split"),
        (Move(0, later=False), r"piece g0\[0\] is the first already"),
        (Keep(-1, None), "piece -1: there are"),
    ],
)
def test_what_cannot_be_changed_is_refused(kernels, edit, message):
    """With one sentence."""
    with pytest.raises(InputError, match=message):
        edited(kernels, edit)


def test_the_last_group_has_no_border_behind_it(kernels):
    last = len(kernels.schedule.groups) - 1
    for edit in (Merge(last), Border(last, later=False)):
        with pytest.raises(InputError, match="is the last; there is no border after it"):
            edited(kernels, edit)
