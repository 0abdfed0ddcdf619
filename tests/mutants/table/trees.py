"""Mappings on trees of memories: their price, and the search for the least."""

from tests.mutants.mutant import Mutant

_SEARCH = ("test_tree_search::test_nothing_costs_less_than_what_is_found",)
_CHECKED = ("test_tree_certificate::test_the_checker_finds_the_least_itself",)
_PLANTED = ("test_tree_certificate::test_the_best_is_accepted_and_the_next_best_refused",)
_TAMPERED = ("test_tree_certificate::test_a_proof_that_was_tampered_with_is_refused",)
_FREE_TAMPERED = ("test_free_certificate::test_a_proof_that_was_tampered_with_is_refused",)
_FRONT_TAMPERED = ("test_front_certificate::test_a_front_that_was_tampered_with_is_refused",)
_FREE_PLANTED = ("test_free_certificate::test_the_best_of_all_choices_is_accepted_and_that_of_another_refused",)
_PRICE = ("test_zigzag_prices::test_a_chain_costs_what_zigzag_says",)

_LATENCY = ("test_tree_latency::test_nothing_is_better_than_what_is_found",)

TREES = (
    Mutant(
        "what is alike over a fan-out is read for each of its parts",
        "mapping/tree/crossings.py",
        "parts = all_of_it / inner\n",
        "parts = float(prod(outer) / prod(together))\n",
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
        "return bits, np.where(partial, bits, 0)",
        "return bits, np.where(partial, 0 * bits, 0)",
        _PRICE,
    ),
    Mutant(
        "windows that overlap are counted twice",
        "mapping/tree/crossings.py",
        "np.minimum(size, a * b - twice)",
        "np.minimum(size, a * b)",
        _PRICE,
    ),
    Mutant(
        "the two parts of a window are rounded apart",
        "mapping/tree/crossings.py",
        "return np.rint(whole) - new if part is Part.FIRST else new",
        "return np.rint(kept(self.array, tiles, spread, loop)) if part is Part.FIRST else new",
        ("test_tree_networks::test_a_row_of_windows_without_steps_is_no_cheaper_than_none",),
    ),
    Mutant(
        "ports are busy in no visit",
        "mapping/tree/pace.py",
        "return Pace(turn, turn, turn, busy=_added(*(one.busy for one in ended), *others), late=(turn,) * INPUTS)",
        "return Pace(turn, turn, turn, late=(turn,) * INPUTS)",
        ("test_fused_latency::test_a_port_is_busy_for_visits_and_for_what_crosses_outside_of_them",),
    ),
    Mutant(
        "an even memory may change further out than one around it",
        "mapping/tree/walk_checking.py",
        "inner = max((places[one] for one in inside & places.keys()), default=0)",
        "inner = 0",
        ("test_front_certificate::test_an_even_memory_does_not_change_further_out_than_one_outside_it",),
    ),
    Mutant(
        "the search lets an even memory change further out than one around it",
        "mapping/tree/problem.py",
        "return any(inner in chain and outer in chain[chain.index(inner) + 1 : -1] for chain in chains)",
        "return False",
        ("test_front_certificate::test_an_even_memory_does_not_change_further_out_than_one_outside_it",),
    ),
    Mutant(
        "a way beats others that go on otherwise",
        "mapping/fused/unbeaten.py",
        "group = group * (int(column.max(initial=0)) + 1) + column",
        "group = group + 0 * column",
        ("test_unbeaten::test_a_way_that_goes_on_otherwise_is_not_beaten",),
    ),
    Mutant(
        "what is brought for several windows is bounded by what it costs for each",
        "mapping/fused/group.py",
        "self._outside(number, base, times) if times > 1 else None",
        "None",
        ("test_fused_windows::test_what_lies_outside_of_windows_is_bounded_by_what_it_costs_there",),
    ),
    Mutant(
        "half a window in one of two buffers takes the room of two windows",
        "mapping/fused/laid.py",
        "whole = held >= held[-1]",
        "whole = held >= 0",
        ("test_fused_windows::test_what_lies_outside_of_windows_is_bounded_by_what_it_costs_there",),
    ),
    Mutant(
        "what a choice costs outside of the units is that of choices that divide their loops",
        "mapping/fused/outer.py",
        "for loop, factor in spread.items() if factor != 1)",
        "for loop, factor in spread.items() if factor.denominator == 1 and factor != 1)",
        ("test_fused_outer::test_the_least_is_that_of_all_tiles_whatever_is_spread",),
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
        "better = better and trail.taken[other, component] <= taken[component]",
        "better = better and trail.taken[other, component] >= 0",
        _SEARCH,
    ),
    Mutant(
        "what is left is counted twice in a proof",
        "mapping/tree/search.py",
        "labels.least_chain(problem, 1, most_labels)",
        "labels.least_chain(problem, 2, most_labels)",
        _SEARCH,
    ),
    Mutant(
        "the checker lets no step end before its turn does",
        "mapping/tree/choice_pace.py",
        "early = 2 * (step - 1)",
        "early = 0.0",
        ("test_free_certificate::test_no_choice_is_faster_than_the_checker_says",),
    ),
    Mutant(
        "the checker drops a beginning that takes less room for a cheaper one",
        "mapping/tree/outside_in.py",
        "no_more = no_more and labels.taken[other, memory] <= taken[memory]",
        "no_more = no_more and labels.taken[other, memory] >= 0",
        _CHECKED,
    ),
    Mutant(
        "the checker gives operands that share a memory twice as much",
        "mapping/tree/outside_in.py",
        "    if taken[memory] > cuts.limit[memory]:\n",
        "    if taken[memory] > 2 * cuts.limit[memory]:\n",
        _CHECKED,
    ),
    Mutant(
        "the checker leaves out tiles",
        "mapping/tree/outside_in.py",
        "for move in range(primes + 2 * operands):",
        "for move in range(1, primes + 2 * operands):",
        _PLANTED,
    ),
    Mutant(
        "potentials are not held against the edges at which a cut is placed",
        "mapping/tree/outside_in.py",
        "if here > inner and _can_be(",
        "if here > 2 * inner + 1 and _can_be(",
        ("test_tree_certificate::test_potentials_that_are_too_high_are_noticed",),
    ),
    Mutant(
        "the checker counts chains again for every order of their cuts",
        "mapping/tree/outside_in.py",
        "_added(larger[tile], modulus - ended[tile], modulus)",
        "_added(larger[tile], 0 * ended[tile], modulus)",
        ("test_tree_certificate::test_the_count_is_that_of_all_ways_to_place_cuts",),
    ),
    Mutant(
        "a value above that of the mapping is accepted",
        "mapping/tree/claim.py",
        "if found != said:",
        "if found > said:",
        _TAMPERED,
    ),
    Mutant(
        "a bound of a choice that was not opened is not compared",
        "mapping/tree/checking.py",
        "if proof.is_opened or proof.bound != bound:",
        "if proof.is_opened:",
        _TAMPERED,
    ),
    Mutant(
        "a block of choices is not counted again",
        "mapping/tree/free_checking.py",
        "            if own != its:\n",
        "            if own < its:\n",
        _FREE_TAMPERED,
    ),
    Mutant(
        "a choice that has a better chain is let pass",
        "mapping/tree/free_checking.py",
        "for number in np.flatnonzero(self._open).tolist():",
        "for number in np.flatnonzero(self._open)[:0].tolist():",
        _FREE_PLANTED,
    ),
    Mutant(
        "the checker walks as if what stops the units were hidden",
        "mapping/tree/walk_tables.py",
        "ways = [loads.stops, loads.inwards, loads.outwards, loads.both]",
        "ways = [{}, loads.inwards, loads.outwards, loads.both]",
        ("test_walked_certificate::test_the_walk_finds_the_least_itself",),
    ),
    Mutant(
        "the checker takes results that left inside a smaller tile for those of the same one",
        "mapping/tree/table_walk.py",
        "    pace[_APART] = 1\n",
        "",
        ("test_tree_certificate::test_proofs_cover_cycles_of_engines",),
    ),
    Mutant(
        "the front leaves out choices by energy alone",
        "mapping/tree/free_front.py",
        "at = bisect_right([-one.cycles for one in points], -cycles - 1)",
        "at = 0",
        ("test_free_front::test_the_front_is_that_of_brute_force",),
    ),
    Mutant(
        "a point of a front may be as slow as the one before it",
        "mapping/tree/front_checking.py",
        "if other.cycles >= one.cycles:",
        "if other.cycles > one.cycles:",
        _FRONT_TAMPERED,
    ),
    Mutant(
        "the checker looks for nothing that is slower than some point of a front",
        "mapping/tree/table_walk.py",
        "return low == 0 or target.front[low - 1, 1] > cycles",
        "return low == 0",
        ("test_front_certificate::test_fronts_are_accepted_and_not_without_a_point",),
    ),
    Mutant(
        "the checker opens only choices with less energy than all points of a front",
        "mapping/optimum.py",
        "return self.front[at][0] if at < len(self.front) else UNLIMITED",
        "return self.front[0][0]",
        ("test_front_certificate::test_fronts_over_all_choices_are_accepted_and_not_without_a_point",),
    ),
    Mutant(
        "stops take no time before the second of two tiles",
        "mapping/tree/pace.py",
        "second = self.work + _most(self.stops)  # when",
        "second = self.work  # when",
        _LATENCY,
    ),
    Mutant(
        "a sum to which something else adds is forgotten",
        "mapping/tree/timed_labels.py",
        "needed = needed or timed.rows[column, cut] >= 0",
        "needed = needed or timed.rows[column, cut] > cut",
        _LATENCY,
    ),
    Mutant(
        "a label whose units are done sooner is dropped",
        "mapping/tree/timed_pace.py",
        "if one[AHEAD] > other[AHEAD] or one[FIRST]",
        "if one[FIRST]",
        ("test_tree_latency::test_a_pace_that_keeps_up_is_never_slower",),
    ),
    Mutant(
        "what a narrow search does not find is nowhere",
        "mapping/tree/timed_spread.py",
        "self._open(number, 0, most_labels)",
        "self._open(number, 8, most_labels)",
        ("test_tree_spatial::test_nothing_is_better_in_another_objective_on_any_choice",),
    ),
    Mutant(
        "a bound counts first tiles as often as they come",
        "mapping/tree/timed_problem.py",
        "(left if kind in (0, 3) else 1)",
        "left",
        _LATENCY,
    ),
)
