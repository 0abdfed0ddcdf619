"""Mappings on trees of memories: their price, and the search for the least."""

from tests.mutants.mutant import Mutant

_SEARCH = ("test_tree_search::test_nothing_costs_less_than_what_is_found",)
_PRICE = ("test_zigzag_prices::test_a_chain_costs_what_zigzag_says",)

TREES = (
    Mutant(
        "what is alike over a fan-out is read for each of its parts",
        "mapping/tree/crossings.py",
        "return round(outer / inner)",
        "return round(prod(float(one) for one in self.spread[crossing]))",
        _PRICE,
    ),
    Mutant(
        "an access moves parts of granules",
        "mapping/tree/crossings.py",
        "granules = np.ceil(bits / port.granule_bits)",
        "granules = bits / port.granule_bits",
        _PRICE,
    ),
    Mutant(
        "partial sums are not read back",
        "mapping/tree/crossings.py",
        "np.where(partial, amount * bits, 0)",
        "np.where(partial, 0 * amount, 0)",
        _PRICE,
    ),
    Mutant(
        "windows that overlap are counted twice",
        "mapping/tree/crossings.py",
        "count *= np.minimum(size, a * b - twice)",
        "count *= np.minimum(size, a * b)",
        _PRICE,
    ),
    Mutant(
        "operands that share a memory each have all of it",
        "mapping/tree/labels.py",
        "        if taken[component] > problem.limit[component]:\n",
        "        if taken[component] > 3 * problem.limit[component]:\n",
        _SEARCH,
    ),
    Mutant(
        "a label in less room is dropped for a cheaper one",
        "mapping/tree/labels.py",
        "better = better and labels.taken[other, component] <= taken[component]",
        "better = better and labels.taken[other, component] >= 0",
        _SEARCH,
    ),
    Mutant(
        "what is left is counted twice in a proof",
        "mapping/tree/search.py",
        "labels.least_chain(problem, 1, most_labels)",
        "labels.least_chain(problem, 2, most_labels)",
        _SEARCH,
    ),
)
