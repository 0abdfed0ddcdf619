"""What becomes part of the weights and biases of products: factors, and the scales and shifts of norms."""

from tilestitch.ir.graph import Graph
from tilestitch.passes.factors import Folded, without_factors
from tilestitch.passes.norms import with_norms_in_products


def folded(graph: Graph) -> Folded:
    """The same network, of which views are composed away, with all of these folded where they can be."""
    return without_factors(with_norms_in_products(graph))  # the first of which keeps all operators
