"""Rewrites of a network that keep its meaning: from what a file says to what a machine should run.

`simplify` gives a smaller graph of the same operators that a native import would give; grouping rules look at that one.
`views.resolve_views` then turns every view into accesses of its neighbours, and `layouts.assign_layouts` decides how
tensors lie in memory; schedules are made for the result.
"""

from tilestitch.ir.graph import Graph
from tilestitch.passes.dynamic import dynamic_quantisation
from tilestitch.passes.fold import Folded, drop_unused, fold_batch_norm, fold_constants
from tilestitch.passes.groups import merge_group_norms
from tilestitch.passes.quantised import quantised_arithmetic
from tilestitch.passes.recognise import recognise


def simplify(graph: Graph, *, fold_bn: bool = True, folded: Folded | None = None) -> Graph:
    """Fold constants, batch normalisation where `fold_bn`, and decomposed functions; multiply integers where meant.

    `folded` keeps what `fold_batch_norm` finds, for other batches of the network.
    """
    graph = fold_constants(graph)
    if fold_bn:
        graph = fold_batch_norm(graph, folded)
    graph = drop_unused(merge_group_norms(recognise(graph)))
    return quantised_arithmetic(dynamic_quantisation(graph))
