"""Fused mappings, run on arrays."""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.fused_brute_force import random_chain, random_graph, windows_in_a_row
from tests.helpers.fused_execution import execute
from tilestitch.base.errors import DoesNotFit
from tilestitch.mapping.fused.price import fused_price
from tilestitch.mapping.fused.search import best_chain


def in_bits(chain):
    """A chain whose ports move single bits and whose sums are as wide as results."""

    def port(one):
        return replace(one, width_bits=1, granule_bits=1)

    memories = tuple(replace(one, ports=tuple(map(port, one.ports))) for one in chain.tree.memories)
    tree = replace(chain.tree, memories=memories, has_latches=True, reads_first_sums=False)
    operators = tuple(
        replace(one, tree=tree, final_bits=one.nest.write.element_bits, unrolled=()) for one in chain.operators
    )
    return replace(chain, operators=operators)


def unfused(chain, arrays):
    """The result of operators one after another, iteration by iteration."""
    readers, made = chain.readers or range(1, len(chain.operators)), []
    for number, placed in enumerate(chain.operators):
        reads, known = list(arrays[number]), set()
        for link, one in enumerate(chain.links[:number]):
            if readers[link] == number:
                before = reads[one.read] if one.read in known else int(one.is_factor)
                reads[one.read] = before * made[link] if one.is_factor else before + made[link]
                known.add(one.read)
        value = np.zeros(placed.nest.write.shape, np.int64)
        for at in np.ndindex(*placed.nest.extents):
            indices = [
                tuple(sum(step * at[loop] for loop, step in terms) for terms in array.axes)
                for array in placed.nest.operands
            ]
            value[indices[-1]] += np.prod([array[index] for array, index in zip(reads, indices, strict=False)])
        made.append(value)
    return value


def fused_of(chain):
    """The best mapping of a chain if all of it is fused."""
    try:
        found = best_chain(chain)
    except DoesNotFit:
        return None
    return found.groups[0].mapping if len(found.groups) == 1 else None


def check(chain):
    """Whether a chain is fused; then it is run."""
    fused = fused_of(chain)
    if fused is not None:
        run(fused)
    return fused is not None


def run(fused):
    """Values and traffic of a fused mapping are as they should be."""
    chain = fused.chain
    draw = np.random.default_rng(0)
    arrays = [[draw.integers(-9, 9, array.shape) for array in placed.nest.reads] for placed in chain.operators]
    values, moved = execute(fused, arrays)
    expected = unfused(chain, arrays)
    assert {index: int(expected[index]) for index in np.ndindex(*expected.shape)} == values
    price = fused_price(fused)
    priced = Counter()
    for number, flows in enumerate(price.flows):
        for flow in flows:
            priced[number, flow.operand, flow.memory.split(" (")[0], flow.flow] += flow.accesses
    assert +priced == +moved


@pytest.mark.parametrize(
    ("counts", "times"), [((2, 2, 3), 3), pytest.param((2, 2, 3, 4), 4, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_fused_mappings_compute_what_unfused_ones_do_and_move_what_they_are_priced_for(counts, times):
    """Values equal those of numpy, and of every operand in every memory the bits that were moved are those priced."""
    seed = random.Random("executed")
    chains = [random_chain(seed, count, 3, spread=False) for count in counts for _ in range(times)]
    assert sum(check(in_bits(chain)) for chain in chains) > len(chains) / 4


@pytest.mark.parametrize(
    ("counts", "times"), [((3,), 8), pytest.param((3, 3, 4), 10, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_operators_that_read_several_results_compute_what_unfused_ones_do(counts, times):
    """Values and bits as above; results that meet in one operand, and others that are operands of their own."""
    seed = random.Random("trees executed")
    chains = [in_bits(random_graph(seed, count, 2, spread=False)) for count in counts for _ in range(times)]
    fused = [one for one in map(fused_of, chains) if one is not None]
    for one in fused:
        run(one)
    assert len(fused) > len(chains) / 4
    assert {len(one.chain.meeting(0)) for one in fused} == {1, 2}


def test_windows_that_overlap_are_made_again():
    """Two convolutions with shared loops over pixels: values, and what is moved, are those of each window."""
    seed = random.Random("windows")
    best = [fused_of(in_bits(windows_in_a_row(seed))) for _ in range(24)]
    fused = [one for one in best if one is not None and not one.kept_visits()]  # others are simulated
    over_pixels = [one for one in fused if one.windows(0)]
    for one in fused:
        run(one)
    assert len(over_pixels) > 0
