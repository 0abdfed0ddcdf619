"""What becomes part of the weights and biases of products: factors, and the scales and shifts of norms."""

from tilestitch.ir.graph import Graph
from tilestitch.ir.per_graph import once_per_graph
from tilestitch.passes.factors import Folded, without_factors
from tilestitch.passes.norms import with_norms_in_products


def folded(graph: Graph) -> Folded:
    """The same network, of which views are composed away, with all of these folded where they can be."""
    changed = _changed(graph)
    return (graph, {op.name: (op.name,) for op in graph.operators}) if changed is None else changed


@once_per_graph
def _changed(graph: Graph) -> Folded | None:
    """None where nothing is folded: what is kept of a network must not keep it alive."""
    found, became = without_factors(with_norms_in_products(graph)[0])  # which keeps its operators
    return None if found is graph else (found, became)
