"""What the cuts into the innermost memories cost together, as a bound of the searches of one choice."""

import numpy as np
import pytest

from tilestitch.formats.einsum import einsum_nest
from tilestitch.hardware.tree_load import parse_tree
from tilestitch.ir.choices import Objective
from tilestitch.mapping.tree.choices import SpatialSpace, choices_of
from tilestitch.mapping.tree.labels import FOUND, NEVER, NOTHING
from tilestitch.mapping.tree.opener import TRIED, Opener
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.search import best_mapping
from tilestitch.mapping.tree.spatial import placement
from tilestitch.mapping.tree.spread_task import task_of
from tilestitch.mapping.tree.tables import FEMTO, Sums
from tilestitch.mapping.tree.timed_opened import NO_POINTS, Aim
from tilestitch.mapping.tree.timed_quick import timing_of
from tilestitch.mapping.tree.timed_search import NUMBERS

# Registers that cost nothing themselves, and one memory around: all that costs anything are the near cuts.
REGISTERS = """
name: registers
mac_pj: 0
axes: [{{name: a, size: 4}}]
memories:
  - {{name: rI, size: {size}, operands: [I], read_pj: 0, write_pj: 0, serves: [], ports: [{{width_bits: 16}}]}}
  - {{name: rW, size: {size}, operands: [W], read_pj: 0, write_pj: 0, serves: [], ports: [{{width_bits: 16}}]}}
  - {{name: rO, size: {size}, operands: [O], read_pj: 0, write_pj: 0, serves: [], ports: [{{width_bits: 16}}]}}
  - {{name: dram, size: 1 MiB, operands: [I, W, O], read_pj: 10, write_pj: 12, serves: [a],
     ports: [{{width_bits: 16}}]}}
"""
CONVOLUTION = "O[k,x,y] += I[c,x+f,y] * W[k,c,f]; k=16 c=16 x=12 y=12 f=3"


def opener_on(tree, *, in_time):
    nest = einsum_nest(CONVOLUTION)
    bare = PlacedNest(nest, nest.write.element_bits, ("I", "W", "O"), (), parse_tree(tree, "registers.yaml"))
    choices, task = choices_of(bare, SpatialSpace()), task_of(bare, Sums.FULL)
    return bare, choices, Opener(task, choices, timing_of(task.operands) if in_time else None)


def test_the_bound_of_near_cuts_is_the_least_energy_where_there_are_no_others():
    """So the search of a choice for something a little better ends as soon as there is a table."""
    bare, choices, opener = opener_on(REGISTERS.format(size=16), in_time=False)
    for number in range(len(choices)):
        least = best_mapping(placement(bare, choices, number)).price.memory_pj * FEMTO
        ended, found, labels = opener.least(number, 10**6, NEVER)
        assert (ended, found) == (FOUND, pytest.approx(least, rel=1e-12))
        ended, _, fewer = opener.least(number, 10**6, int(least * 0.9999))
        assert ended == NOTHING
        assert 3 * fewer < labels, (number, fewer, labels)


def test_the_bound_of_near_cuts_is_about_the_least_latency_where_their_port_decides():
    """The units stop for every tile; nothing else takes time but what comes first and last."""
    bare, choices, opener = opener_on(REGISTERS.format(size=16), in_time=True)
    aim = Aim(NUMBERS[Objective.LATENCY], 0.0, np.inf, np.inf, np.inf, 0, NO_POINTS)
    for number in range(len(choices)):
        least = best_mapping(placement(bare, choices, number), objective=Objective.LATENCY).value
        opener.take(np.array([number]))
        ended, _, value, _ = opener.best(number, aim, 10**6)
        assert (ended, value) == (FOUND, least)
        ended, labels, _, _ = opener.best(number, aim._replace(cutoff=0.99 * least), 10**6)
        assert ended == NOTHING
        assert labels < 150, (number, labels)  # 250 and more without these bounds


def test_tables_that_say_nothing_are_given_up():
    """Where all operands stay in what is innermost nothing is in the way of any; a search then begins but once."""
    _, _, opener = opener_on(REGISTERS.format(size=4096), in_time=False)
    counts = [opener.least(0, 10**6, NEVER) for _ in range(TRIED + 2)]
    assert len(set(counts[:TRIED])) == 1
    assert counts[-1][:2] == counts[0][:2]
    assert counts[-1][2] < counts[0][2]
