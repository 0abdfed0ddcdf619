"""Where what passes GB lies: where nothing was for longest."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tilestitch.hardware.accelerator import Level
from tilestitch.hardware.load import load_machine
from tilestitch.ir.schedule import Kernel, Tiling
from tilestitch.lower.addresses import Demand, Places, Ring, Surface, addresses, place
from tilestitch.lower.builder import Base
from tilestitch.lower.cluster import Cluster
from tilestitch.lower.link import ADDRESS, BASE, SIZE, TENSOR
from tilestitch.lower.staging import Staging

CLUSTER = Cluster(load_machine("stcp920"))
GB_BYTES = CLUSTER.spaces[CLUSTER.space(Level.GB)].size_bytes
TILING = Tiling(splits=(), tile=(), steps=(), order=(), reduction=(), resident=())
KERNEL = Kernel("k1", ("one",), None, TILING, (0,), 1, launches=False)
NOTHING = Demand((0,) * len(CLUSTER.spaces), (), None)


def placed(staging: Staging, free_from: int, *, own_bytes: int = 0, launches: bool = False) -> None:
    """Place a kernel that brings nothing, and whose own places take so much, where the begin of GB is taken."""
    own = [0] * len(CLUSTER.spaces)
    own[CLUSTER.space(Level.GB)] = own_bytes
    free = Surface({Level.GB: (free_from, GB_BYTES)}, staging, {}, {}, upper=False)
    place(CLUSTER, replace(KERNEL, launches=launches), replace(NOTHING, own_bytes=tuple(own)), free)


def test_sums_lie_behind_one_another_and_the_ring_begins_anew_at_its_end():
    ring = Ring()
    assert [ring.take(96, 0, 320) for _ in range(4)] == [0, 128, 0, 128]


def test_loads_lie_behind_one_another_and_begin_anew_at_the_end():
    staging = Staging(GB_BYTES)
    staging.enter(0, 320)
    assert staging.take([96] * 4, 0, 320) == [0, 128, 0, 128]


@pytest.mark.parametrize("before", [0, 4096])
def test_what_was_taken_meanwhile_is_not_filled_first_when_it_is_free_again(before):
    """Whoever lay there was just read; what lies beyond was free all the time, so loads need not wait for it."""
    staging = Staging(GB_BYTES)
    placed(staging, 0)
    staging.take([before], 0, GB_BYTES)
    placed(staging, 8192)
    placed(staging, 0)
    assert staging.take([64], 0, GB_BYTES) == [8192]


def test_loads_begin_behind_what_the_kernel_that_launches_has_in_gb():
    """Else those of the next one would wait until it has read that."""
    staging = Staging(GB_BYTES)
    placed(staging, 64, own_bytes=1024, launches=True)
    placed(staging, 64)
    assert staging.take([64], 64, GB_BYTES) == [64 + 1024]


def test_loads_go_on_where_the_last_one_ended_while_that_is_as_old_as_any_other_place():
    staging = Staging(GB_BYTES)
    placed(staging, 0)
    staging.take([16384], 0, GB_BYTES)
    placed(staging, 8192)
    assert staging.take([64], 0, GB_BYTES) == [16384]


def test_the_place_of_the_load_of_longest_ago_comes_first():
    """Not the one behind the last load, if that was filled since."""
    staging = Staging(GB_BYTES)
    for _ in range(4):
        placed(staging, 0)
        staging.take([GB_BYTES // 4], 0, GB_BYTES)
    placed(staging, GB_BYTES // 2)  # the first two places are in use again
    placed(staging, 0)
    assert staging.take([GB_BYTES // 4], 0, GB_BYTES) == [GB_BYTES // 2]


def test_a_buffer_may_lie_over_several_old_places_and_counts_as_old_as_the_latest_of_them():
    staging = Staging(1024)
    for begin in (0, 512, 768, 256):
        staging.enter(0, 1024)
        assert staging.take([256], begin, begin + 256) == [begin]
    staging.enter(0, 1024)
    assert staging.take([512], 0, 1024) == [512]  # of kernels 2 and 3; the half before is of kernels 1 and 4


def test_what_has_no_room_is_told_by_its_end():
    staging = Staging(1024)
    staging.enter(256, 1024)
    assert staging.take([1024], 256, 1024) == [256]


def test_a_try_can_be_taken_back():
    staging = Staging(1024)
    staging.enter(0, 1024)
    before = staging.copy()
    assert staging.take([256], 0, 1024) == [0]
    staging.restore(before)
    assert staging.take([512], 0, 1024) == [0]


def test_what_is_read_again_is_not_replaced_by_the_next_loads():
    """Though other places are older than what lies behind the first load, the next ones come there, in turn."""
    staging = Staging(1024)
    staging.enter(0, 1024)
    staging.take([1024], 0, 1024)
    staging.enter(256, 512)  # all but these 256 bytes is in use
    staging.enter(0, 1024)
    assert staging.take([128, 256, 512, 64], 0, 1024, in_turn=True) == [256, 384, 0, 512]
    assert staging.take([64], 0, 1024) == [640]  # the rest of what was in use before


@pytest.mark.parametrize(("again", "expected"), [(True, [256, 384, 512, 0]), (False, [256, 0, 512, 128])])
def test_loads_of_a_kernel_that_reads_some_again_lie_in_turn(again, expected):
    staging = Staging(1024)
    staging.enter(0, 1024)
    for begin, size_bytes in ((256, 128), (0, 256), (512, 512), (384, 128)):
        staging.enter(0, 1024)
        staging.take([size_bytes], begin, begin + size_bytes)
    staging.enter(0, 1024)
    buffers = np.zeros((4, 1 + max(BASE, ADDRESS, SIZE, TENSOR)), np.int64)
    buffers[:, BASE], buffers[:, ADDRESS] = Base.PASSING, [128, 128, 512, 128]
    places = Places((0,) * len(CLUSTER.spaces), {}, (0, 1024), again)
    free = Surface({}, staging, {}, {}, upper=False)
    block = SimpleNamespace(buffers=buffers, tensors=())
    assert addresses(CLUSTER, block, np.zeros(4, np.int64), places, free, ring=False).tolist() == expected
