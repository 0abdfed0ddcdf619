"""What `show schedule` says about pieces: order, core maps, what waits, what is copied and redistributed."""

from dataclasses import replace

import pytest

from tests.helpers.by_hand import BY_HAND, scheduled
from tests.helpers.graphs import Net
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.graph import Graph
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import PieceRun
from tilestitch.kernels.surroundings import Source
from tilestitch.report.schedule_text import joined, lying, schedule_text


def four_images() -> Graph:
    net = Net()
    return net.graph(net.op("Relu", net.input(4, 2), name="y"))


@pytest.mark.parametrize(("owners", "transfers"), [((0, 1, 2, 3), 7), ((0, 2, 4, 6), 4)])
def test_new_owners_among_the_old_ones_need_fewer_transfers(owners, transfers):
    """The counting example of TensorTurbo's manual: [[0, 1], [2, 3], [4, 5], [6, 7]] before, an image a core behind."""
    halves = [
        Source(Region((image, half), (image + 1, half + 1)), Level.LB, 2 * image + half)
        for image in range(4)
        for half in range(2)
    ]
    needs = [(core, Region((image, 0), (image + 1, 2))) for image, core in enumerate(owners)]
    found = lying(needs, halves, four_images(), "y")
    assert found.transfers == transfers
    assert found.redistributed == 2 * transfers  # bytes: an element each
    assert found.in_place == 2 * (8 - transfers)
    assert (found.copied, found.loaded) == (0, 0)


def test_what_is_needed_is_in_place_copied_redistributed_or_loaded():
    """One image each: in the core, in GB, in another core, and nowhere on chip."""
    rows = [Region((image, 0), (image + 1, 2)) for image in range(4)]
    sources = [Source(rows[0], Level.LB, 0), Source(rows[1], Level.GB, None), Source(rows[2], Level.LB, 5)]
    found = lying([(0, Region((0, 0), (4, 2)))], sources, four_images(), "y")
    assert (found.in_place, found.copied, found.redistributed, found.loaded) == (4, 4, 4, 4)
    assert found.transfers == 1


def test_pieces_are_named_as_in_the_figures_of_the_paper():
    names = [PieceRun(group, number, 0, 0, (), (), False).name for group, number in ((0, 7), (3, 0), (26, 1), (52, 0))]
    assert names == ["a8", "d1", "aa2", "ba1"]


def test_a_schedule_is_shown_piece_by_piece():
    done = scheduled(BY_HAND)
    assert done.schedule is not None
    text = schedule_text(done.schedule, done.machine, limit=3)
    assert "3 sub-graphs, cut into pieces" in text
    assert "order: a1 a2 b1 a3 a4 b2 c1" in text
    assert "3 results to wait in GB while others run: a1 b1 a3" in text
    assert "3 concatenations of results of several pieces" in text
    rows = [line.split() for line in text.splitlines()]
    (first,) = (row for row in rows if row[:1] == ["b1"])
    assert {"a1", "a2"} <= set(first)
    assert "results stay: 1 in DDR" in text
    assert "... 4 pieces more" in text
    assert f"... {len(done.schedule.kernels) - 3} kernels more" in text
    assert len(schedule_text(done.schedule, done.machine).splitlines()) > len(text.splitlines())


def test_what_waits_in_gb_is_copied_and_what_the_next_piece_reads_is_in_the_cores():
    """Each core gets all that it needs, from one place or another."""
    done = scheduled(BY_HAND).schedule
    assert done is not None
    by_name = {run.name: at for at, run in enumerate(done.pieces)}
    found = joined(done, by_name["b1"])
    assert found.copied > 0  # what a1 made
    assert found.in_place + found.redistributed > 0  # what a2 made
    assert found.loaded == 0
    assert joined(done, by_name["a1"]) == type(found)(0, 0, 0, 0, 0)


def test_pieces_that_read_different_tensors_of_others_concatenate_nothing():
    done = scheduled(BY_HAND)
    assert done.schedule is not None
    schedule, graph = done.schedule, done.schedule.graph
    tensors = [name for op in graph.operators for name in op.outputs]
    runs = tuple(
        replace(run, writes=((name, Region.whole(graph.tensors[name].shape)),))
        for name, run in zip(tensors, schedule.pieces, strict=False)
    )
    assert "0 concatenations" in schedule_text(replace(schedule, pieces=runs), done.machine, limit=0)
