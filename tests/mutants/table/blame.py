"""What idle times waited for, and what the gap is made of."""

from tests.mutants.mutant import Mutant

BLAME = (
    Mutant(
        "a walk stops at what ended last",
        "blame/walk.py",
        "                follower, now = now, critical[now]\n",
        "                follower, now = now, -1\n",
        ("test_idle::test_a_unit_waits_for_the_other_unit_and_what_that_waits_for",),
    ),
    Mutant(
        "what reads from a place makes nobody wait for data",
        "blame/waits.py",
        "and operands.mode[its] != Mode.READ",
        "and operands.mode[its] == Mode.READ",
        ("test_idle::test_a_unit_waits_for_room",),
    ),
    Mutant(
        "time behind the last work of a lane is forgotten",
        "blame/walk.py",
        "            until = total if behind else lanes.begin[at]\n",
        "            until = idle_from if behind else lanes.begin[at]\n",
        ("test_idle::test_idle_and_busy_times_are_the_whole_run",),
    ),
    Mutant(
        "the other unit of a core is another core",
        "blame/gap.py",
        "return np.where(own, PARTS.index(Part.OTHER_UNIT), part)",
        "return part",
        ("test_gap::test_a_unit_waits_for_its_core_and_for_others",),
    ),
    Mutant(
        "all work is needed",
        "blame/gap.py",
        "needed = Fraction(wanted, int(executed[number])) if executed[number] else Fraction(1)",
        "needed = Fraction(1)",
        ("test_gap::test_halo_recomputation_is_unneeded_work",),
    ),
    Mutant(
        "a transfer that shares a port is delayed by all that it takes",
        "sim/chip/timing.py",
        "return passed - time - alone, behind",
        "return passed - time, behind",
        ("test_chip_timing::test_sharing_by_hand",),
    ),
)
