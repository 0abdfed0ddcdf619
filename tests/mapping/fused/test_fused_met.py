"""What is read from outside of a group as it meets the results of it, or is added to them."""

from dataclasses import replace

import pytest

from tests.helpers.tiny_trees import memory, nest, port, tree
from tilestitch.mapping.fused.chain import Chain, Link, Reading
from tilestitch.mapping.fused.met import Met, is_met_before_the_end, met_from_outside
from tilestitch.mapping.fused.search import best_chain
from tilestitch.mapping.fused.spans import Task, groups_of
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.tables import Sums

ONCE = 4 * 2  # elements of a result
PER_ELEMENT = 8 * 5 / 16  # bits, pJ of an access, bits of an access


def placed_on(*lines):
    """Operators behind a buffer; the memory outside reads 16 bits for 5 pJ, in a cycle."""
    machine = tree(
        memory("buffer", [port("all", 8, "AO")], size=10**6, operands="AO"),
        replace(memory("dram", [port(of, 16, of) for of in "AWO"]), read_pj=5.0),
    )
    return tuple(PlacedNest(nest(line), 8, ("A", "W", "O"), (), machine) for line in lines)


def made(name):
    return f"{name}[m,f] += X[m,d] * B[d,f]; m=4 f=2 d=1"


READS = "T[m,g] += H[m,f] * C[f,g]; m=4 g=2 f=2"
MEETING = Chain("meet", placed_on(made("G"), made("U"), READS), (Link(0), Link(0)), readers=(2, 2))


@pytest.mark.parametrize(("span", "reads"), [((0, 1, 2), 0), ((0, 2), 1), ((1, 2), 1), ((2,), 1), ((0,), 0)])
def test_what_meets_is_read_once_unless_it_is_at_home(span, reads):
    """Of two that come from outside the last one meets the other as it is written."""
    found = met_from_outside(MEETING, span)
    assert found == Met(pytest.approx(reads * ONCE * PER_ELEMENT), reads * ONCE * 8 // 16)
    assert is_met_before_the_end(MEETING, span) == (span in ((0, 2), (1, 2)))


def test_what_has_met_is_read_by_several_and_added_as_one():
    """P and Q are one sum: it is made once for both readers, and read once more where it is added to R.

    What these readers make meets in R.
    """
    operators = placed_on(made("P"), made("Q"), READS, READS, "R[m,f] += T[m,g] * D[g,f]; m=4 f=2 g=2")
    more = (Reading(0, 2, 0), Reading(0, 3, 0), Reading(1, 2, 0), Reading(1, 3, 0))
    chain = Chain("sums", operators, (Link(2), Link(2), Link(0), Link(0)), readers=(4, 4, 4, 4), more=more)
    reads = {(2,): 1, (3,): 0, (4,): 2, (2, 3, 4): 2, (0, 1, 2, 3, 4): 0}
    assert {span: met_from_outside(chain, span).cycles // 4 for span in reads} == reads
    found = best_chain(chain, most=2)
    assert [one.cycles for one in found.met] == [0, 0, 4, 0, 8]
    assert found.unfused_pj == sum(one.price.energy_pj for one in found.unfused) + 3 * ONCE * PER_ELEMENT


def test_a_result_from_outside_is_added_before_what_is_made_of_the_sum_or_behind_all():
    """Rows of an image that is made again for each window would have it read again; the last result is made once."""
    lines = (
        "P[x,f] += X[x,d] * B[d,f]; x=4 f=2 d=1",
        "E[x,g] += P[x,f] * C[f,g]; x=4 g=2 f=2",
        "R[x,f] += E[x,g] * D[g,f]; x=4 f=2 g=2",
        "T[y,h] += R[y+r,f] * V[r,f,h]; y=3 r=2 f=2 h=1",
    )
    chain = Chain(
        "windows", placed_on(*lines), (Link(2), Link(0), Link(0)), readers=(2, 2, 3), more=(Reading(0, 1, 0),)
    )
    assert not is_met_before_the_end(chain, (1, 2))
    assert is_met_before_the_end(chain, (2, 3))
    part = chain.part((2, 3))
    kinds = {}
    for is_met in (False, True):
        groups = groups_of(Task(part, Sums.FULL, (None,) * 2, 1, is_met))
        kinds[is_met] = {(group.has_halo, group.chain.keeps) for group in groups}
    assert kinds == {False: {(False, False), (True, False), (True, True)}, True: {(False, False), (True, True)}}
