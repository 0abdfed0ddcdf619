"""The least energy of chains of operators that run together."""

import random
from math import inf

import pytest

from tests.helpers.fused_brute_force import least_fused, random_chain, with_cells
from tests.helpers.tree_brute_force import least_energy
from tilestitch.base.errors import DoesNotFit
from tilestitch.mapping.fused.chain import Chain
from tilestitch.mapping.fused.search import best_chain
from tilestitch.mapping.fused.traffic import BufferedChain
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.tables import FEMTO, Sums
from tilestitch.mapping.tree.traffic import buffer_tree


def found_in(chain, sums):
    """The groups of the best mapping, whose energy is the least of all; none where an operator has none by itself."""
    final_sums = sums is Sums.FINAL
    try:
        found = best_chain(chain, sums)
    except DoesNotFit:
        assert inf in [least_energy(placed, final_sums=final_sums) for placed in chain.operators], chain
        return ()
    assert found.is_proven
    assert found.energy_pj <= found.unfused_pj * (1 + 1e-12)
    assert found.energy_pj == pytest.approx(least_fused(chain, final_sums=final_sums), rel=1e-9), chain
    return found.groups


def check_chain(chain, sums):
    """The least energy is that of all mappings; whether operators run together in it."""
    return 0 < len(found_in(chain, sums)) < len(chain.operators)


def check_block(name, cases, operators, most_loops):
    """So many random chains, of which some run together in their best mapping."""
    seed = random.Random(name)
    chains = [(random_chain(seed, operators, most_loops), seed.choice(list(Sums))) for _ in range(cases)]
    fused = sum(check_chain(*one) for one in chains)
    assert fused > cases / 5, fused


def test_no_fused_mapping_of_two_products_costs_less():
    """All orders, places, homes and shared loops of small random chains, counted step by step, have the same least."""
    check_block("two", 5, 2, 3)


def test_no_fused_mapping_of_longer_chains_costs_less():
    """Three products and four: blocks of neighbours that share further loops, homes that differ."""
    check_block("three", 3, 3, 2)
    check_block("four", 2, 4, 2)


def test_an_operator_between_two_intermediates_shares_more_loops_with_the_second():
    """Where they begin, its tile of the first intermediate need not be in its memories yet."""
    seed = random.Random("3 products 4")
    chains = [(random_chain(seed, 3, 2), seed.choice(list(Sums))) for _ in range(9)]
    assert check_chain(*chains[8])


def check_cells(name, cases, operators, most_loops):
    """So many chains on trees that repeat a memory: in how many best mappings several of them hold an intermediate."""
    seed = random.Random(name)
    chains = [
        (with_cells(random_chain(seed, operators, most_loops), seed), seed.choice(list(Sums))) for _ in range(cases)
    ]
    groups = [group for one in chains for group in found_in(*one) if group.mapping is not None]
    return sum(bool(group.mapping.chain.cells.spread) for group in groups)


@pytest.mark.parametrize(("operators", "most_loops", "cases"), [(2, 3, 6), (3, 2, 6)])
def test_no_mapping_with_an_intermediate_in_several_memories_costs_less(operators, most_loops, cases):
    """Each holds its part, of rows or of what is added up; and none does where operators are not spread alike."""
    assert check_cells(f"cells {operators}", cases, operators, most_loops) > cases / 8


@pytest.mark.slow
@pytest.mark.parametrize("block", range(4))
@pytest.mark.parametrize(("operators", "most_loops", "cases"), [(2, 3, 50), (3, 2, 20)])
def test_no_mapping_of_many_with_an_intermediate_in_several_memories_costs_less(operators, most_loops, cases, block):
    """200 chains of two products and 80 of three."""
    assert check_cells(f"{operators} in cells {block}", cases, operators, most_loops) > cases / 8


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
@pytest.mark.parametrize(("operators", "most_loops", "cases"), [(2, 3, 20), (3, 2, 20), (4, 2, 3)])
def test_no_fused_mapping_of_many_chains_costs_less(operators, most_loops, cases, block):
    """200 chains each of two and three products, and 30 of four: of the next ones a single one takes minutes."""
    check_block(f"{operators} products {block}", cases, operators, most_loops)


def check_traffic(seed, most_loops):
    """Behind a buffer of a random capacity as much crosses as in the best of all fused mappings."""
    drawn = random_chain(seed, 2, most_loops, spread=False)
    nests = tuple(placed.nest for placed in drawn.operators)
    buffered = BufferedChain("drawn", nests, drawn.links)
    capacity = seed.randrange(buffered.whole_bits // 16, buffered.whole_bits)
    found = buffered.least_bits(capacity)
    tree = buffer_tree(capacity, buffered.whole_bits, 3)
    operators = tuple(PlacedNest(nest, nest.write.element_bits, tree.operands, (), tree) for nest in nests)
    if found is None:
        assert inf in [least_energy(placed, final_sums=False) for placed in operators]
        return False
    least = least_fused(Chain("drawn", operators, drawn.links), final_sums=False) * FEMTO
    assert found.together == pytest.approx(least, rel=1e-9)
    return found.together < found.apart


def test_no_fused_mapping_moves_less_through_a_buffer():
    seed = random.Random("traffic")
    assert sum(check_traffic(seed, 3) for _ in range(6)) > 1
