"""Softmax, LogSoftmax and LayerNormalization: every tile needs the whole of the axes that they run over."""

from tilestitch.frontend.accesses import aligned, broadcast, dims_of, straight
from tilestitch.frontend.network import Handler, Network, Node, Target, text_of
from tilestitch.frontend.shapes import normalised_axes


def softmax_like(kind: str) -> Handler:
    """The handler of a softmax: over one axis, or before opset 13 over that axis and all behind it."""

    def handle(node: Node, network: Network) -> None:
        rank = len(network.shape(node.inputs[0]))
        (at,) = normalised_axes(node, (node.integer("axis", -1 if node.opset >= 13 else 1),), rank)
        axes = (at,) if node.opset >= 13 else tuple(range(at, rank))
        over_axes(node, network, kind, node.inputs[0], axes, node.target)

    return handle


def over_axes(node: Node, network: Network, kind: str, x: str, axes: tuple[int, ...], target: Target) -> str:
    """A function of one operand that needs all of `axes` at once."""
    shape = network.shape(x)
    reads, write = (straight(x, len(shape)),), straight(target.tensor, len(shape))
    return network.emit(node, target, kind, dims_of(shape, whole=axes), reads, write, shape)


def layer_norm(node: Node, network: Network) -> None:
    """Normalise over the axes from `axis` on, then scale and, where there is a bias, shift."""
    node.refuse_outputs(1, "the mean or deviation")
    if node.integer("stash_type", 1) != 1:
        raise node.fault("attribute stash_type must be 1: statistics are computed in float32.")
    x, *parameters = (name for name in node.inputs if name)
    shape = network.shape(x)
    (at,) = normalised_axes(node, (node.integer("axis", -1),), len(shape))
    for name in parameters:
        if broadcast(shape[at:], network.shape(name)) != shape[at:]:
            raise node.fault(
                f"parameter '{name}' has shape {text_of(network.shape(name))}, which does not broadcast to the "
                f"normalised axes {text_of(shape[at:])}."
            )
    reads = (straight(x, len(shape)), *(aligned(name, network.shape(name), shape) for name in parameters))
    dims, write = dims_of(shape, whole=range(at, len(shape))), straight(node.outputs[0], len(shape))
    attributes = (("epsilon", node.real("epsilon", 1e-5)),)
    network.emit(node, node.target, "layer_norm", dims, reads, write, shape, attributes=attributes)
