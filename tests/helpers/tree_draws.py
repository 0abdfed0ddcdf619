"""Random mappings of random nests on random trees, as the model and as the simulator take them."""

from dataclasses import replace

from tests.helpers.tree_brute_force import like_arrays, timed_case, with_engines, with_networks
from tilestitch.commands.simulate.tree_layers import run_of
from tilestitch.commands.validate.tree_draw import TreeDraw


def without_sliding(placed):
    """The same case, where windows do not slide and neighbours pass on nothing but windows of one step."""
    axes = tuple(
        replace(
            axis,
            networks=tuple(replace(one, forwarding=False, passes_sums=False) for one in axis.networks),
        )
        for axis in placed.tree.axes
    )
    memories = tuple(replace(memory, has_sliding_window=False) for memory in placed.tree.memories)
    return replace(placed, tree=replace(placed.tree, axes=axes, memories=memories))


def drawn(seed, count, most_loops, changed=lambda placed, seed: placed, *, ragged=False):
    """So many random mappings; of ragged ones each spreads a loop by a factor that does not divide it."""
    found = []
    while len(found) < count:
        bare = replace(without_sliding(changed(timed_case(seed, most_loops), seed)), unrolled=())
        placed, mapping = next(TreeDraw(bare, {}, ragged).mappings(seed))
        has_end = any(one.factor.denominator > 1 for one in placed.unrolled)
        if mapping is not None and has_end == ragged:
            found.append((placed, mapping, run_of(placed, mapping)))
    return found


def every_kind(placed, seed):
    """Some of the trees with engines, some with networks and even storage, some as arrays are."""
    change = seed.choice((lambda one, _: one, with_engines, with_networks, lambda one, _: _arrays(one, seed)))
    return change(placed, seed)


def _arrays(placed, seed):
    return like_arrays(with_networks(placed, seed), seed)
