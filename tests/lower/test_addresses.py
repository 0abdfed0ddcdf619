"""Where what passes GB lies: one behind the other, in what has long been free."""

from tilestitch.lower.addresses import Ring


def test_each_lies_behind_the_one_before_and_the_ring_begins_anew_at_its_end():
    ring = Ring()
    assert [ring.take(96, 0, 320) for _ in range(4)] == [0, 128, 0, 128]


def test_what_was_taken_meanwhile_is_not_filled_first_when_it_is_free_again():
    """Whoever lay there has just been read; what lies beyond was free all the time, so loads need not wait for it."""
    ring = Ring()
    ring.enter(256, 1024)  # a kernel that brings nothing, while others lie below
    assert ring.take(64, 0, 1024) == 256


def test_the_ring_stays_where_it_is_while_that_is_free():
    ring = Ring()
    ring.take(512, 0, 1024)
    ring.enter(256, 1024)
    assert ring.address == 512
