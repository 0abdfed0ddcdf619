"""Where what passes GB lies: one behind the other, in what has long been free."""

from dataclasses import replace

import pytest

from tilestitch.hardware.accelerator import Level
from tilestitch.hardware.load import load_machine
from tilestitch.ir.schedule import Kernel, Tiling
from tilestitch.lower.addresses import Demand, Ring, Surface, place
from tilestitch.lower.cluster import Cluster

CLUSTER = Cluster(load_machine("stcp920"))
GB_BYTES = CLUSTER.spaces[CLUSTER.space(Level.GB)].size_bytes
TILING = Tiling(splits=(), tile=(), steps=(), order=(), reduction=(), resident=())
KERNEL = Kernel("k1", ("one",), None, TILING, (0,), 1, launches=False)
NOTHING = Demand((0,) * len(CLUSTER.spaces), (), None)


def placed(ring: Ring, free_from: int) -> None:
    """Place a kernel that brings nothing and whose own places take nothing, where the begin of GB is taken."""
    place(CLUSTER, KERNEL, NOTHING, surface(ring, free_from))


def surface(ring: Ring, free_from: int) -> Surface:
    return Surface({Level.GB: (free_from, GB_BYTES)}, ring, {}, {}, upper=False)


def test_each_lies_behind_the_one_before_and_the_ring_begins_anew_at_its_end():
    ring = Ring()
    assert [ring.take(96, 0, 320) for _ in range(4)] == [0, 128, 0, 128]


@pytest.mark.parametrize("before", [0, 4096])
def test_what_was_taken_meanwhile_is_not_filled_first_when_it_is_free_again(before):
    """Whoever lay there was just read; what lies beyond was free all the time, so loads need not wait for it."""
    ring = Ring()
    ring.take(before, 0, GB_BYTES)
    placed(ring, 8192)
    assert ring.take(64, 0, GB_BYTES) == 8192


def test_the_ring_begins_behind_what_the_kernel_that_launches_has_in_gb():
    """Else the loads of the next one would wait until it has read that."""
    ring, own = Ring(), [0] * len(CLUSTER.spaces)
    own[CLUSTER.space(Level.GB)] = 1000
    place(CLUSTER, replace(KERNEL, launches=True), replace(NOTHING, own_bytes=tuple(own)), surface(ring, 64))
    assert ring.take(64, 64, GB_BYTES) == 64 + 1024


def test_the_ring_stays_where_it_is_while_that_is_free():
    ring = Ring()
    ring.take(16384, 0, GB_BYTES)
    placed(ring, 8192)
    assert ring.take(64, 0, GB_BYTES) == 16384
