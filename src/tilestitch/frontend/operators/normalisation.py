"""Softmax and the norms: every tile needs the whole of the axes that they run over."""

from collections.abc import Sequence

import numpy as np

from tilestitch.frontend.network import Handler, Node, Reading, Target, text_of
from tilestitch.frontend.operators.accesses import Nest, aligned, along, axis, broadcast, dims_of, straight
from tilestitch.frontend.operators.elementwise import apply
from tilestitch.frontend.operators.reductions import reduce_axes
from tilestitch.frontend.operators.shapes import normalised_axes
from tilestitch.ir.graph import Access, Operator

MAX_NEIGHBOURS = 2**16  # of one channel


def softmax_like(kind: str) -> Handler:
    """The handler of a softmax: over one axis, or before opset 13 over that axis and all behind it."""

    def handle(node: Node, network: Reading) -> None:
        rank = len(network.shape(node.inputs[0]))
        (at,) = normalised_axes(node, (node.integer("axis", -1 if node.opset >= 13 else 1),), rank)
        axes = (at,) if node.opset >= 13 else tuple(range(at, rank))
        over_axes(node, network, kind, node.inputs[0], axes, node.target)

    return handle


def over_axes(
    node: Node,
    network: Reading,
    kind: str,
    x: str,
    axes: tuple[int, ...],
    target: Target,
    *,
    parameters: Sequence[Access] = (),
    attributes: tuple[tuple[str, float | int], ...] = (),
) -> str:
    """A function of one operand that needs all of `axes` at once; dim i is axis i, and parameters follow the dims."""
    shape = network.shape(x)
    reads, write = (straight(x, len(shape)), *parameters), straight(target.tensor, len(shape))
    op = Operator(target.operator, kind, dims_of(shape, whole=axes), reads, (write,), attributes)
    return network.emit(node, op, shape)


def layer_norm(node: Node, network: Reading) -> None:
    """Normalise over the axes from `axis` on, then scale and, where there is a bias, shift.

    The mean and one over the deviation, where somebody needs them, are operators of their own.
    """
    axes, parameters = _last_axes(node, network)
    attributes = (("epsilon", node.real("epsilon", 1e-5)),)
    x, epsilon = node.inputs[0], attributes[0][1]
    if node.needs(0):
        over_axes(node, network, "layer_norm", x, axes, node.target, parameters=parameters, attributes=attributes)
    if node.needs(1):
        target = Target(network.fresh(f"{node.name}.mean"), node.outputs[1])
        reduce_axes(node, network, "reduce_mean", x, axes, target, keep=True)
    if node.needs(2):
        variance = reduce_axes(node, network, "reduce_variance", x, axes, network.step(node, "variance"), keep=True)
        added = network.new_constant(node, "epsilon", np.asarray(epsilon, network.element_type(x)))
        above = apply(node, network, "add", (variance, added), network.step(node, "above_zero"))
        deviation = apply(node, network, "sqrt", (above,), network.step(node, "deviation"))
        target = Target(network.fresh(f"{node.name}.inverse"), node.outputs[2])
        apply(node, network, "reciprocal", (deviation,), target)


def rms_norm(node: Node, network: Reading) -> None:
    """Divide by the root of the mean square over the axes from `axis` on, then scale."""
    axes, parameters = _last_axes(node, network)
    attributes = (("epsilon", node.real("epsilon", 1e-5)),)
    x = node.inputs[0]
    over_axes(node, network, "rms_norm", x, axes, node.target, parameters=parameters, attributes=attributes)


def _last_axes(node: Node, network: Reading) -> tuple[tuple[int, ...], tuple[Access, ...]]:
    """The axes from `axis` on, and the accesses to parameters that broadcast to them."""
    if node.integer("stash_type", 1) != 1:
        raise node.not_covered("attribute stash_type must be 1: statistics are computed in float32.")
    x, *parameters = (name for name in node.inputs if name)
    shape = network.shape(x)
    (at,) = normalised_axes(node, (node.integer("axis", -1),), len(shape))
    for name in parameters:
        if broadcast(shape[at:], network.shape(name)) != shape[at:]:
            raise node.fault(
                f"parameter '{name}' has shape {text_of(network.shape(name))}, which does not broadcast to the "
                f"normalised axes {text_of(shape[at:])}."
            )
    reads = tuple(aligned(name, network.shape(name), shape) for name in parameters)
    return tuple(range(at, len(shape))), reads


def lp_normalisation(node: Node, network: Reading) -> None:
    """Divide by the sum of magnitudes (p = 1), or by the root of the sum of squares (p = 2), along one axis."""
    x = node.inputs[0]
    p = node.integer("p", 2)
    if p not in (1, 2):
        raise node.fault(f"attribute p={p}: expected 1 or 2.")
    axes = normalised_axes(node, (node.integer("axis", -1),), len(network.shape(x)))
    over_axes(node, network, "lp_norm", x, axes, node.target, attributes=(("p", p),))


# Far below any variance that float32 tells from 0, and not 0, by which a constant would be divided.
_LEAST_VARIANCE = 1e-18


def mean_variance_norm(node: Node, network: Reading) -> None:
    """Mean 0 and variance 1 over several axes, by default all but the channels."""
    x = node.inputs[0]
    axes = normalised_axes(node, node.integers("axes") or (0, 2, 3), len(network.shape(x)))
    over_axes(node, network, "layer_norm", x, axes, node.target, attributes=(("epsilon", _LEAST_VARIANCE),))


def instance_norm(node: Node, network: Reading) -> None:
    """Normalise every channel of every sample, then scale and shift per channel."""
    x, *parameters = node.inputs
    _check_channels(node, network, x, parameters)
    shape = network.shape(x)
    reads = tuple(Access(name, along(1)) for name in parameters)
    attributes = (("epsilon", node.real("epsilon", 1e-5)),)
    axes = tuple(range(2, len(shape)))
    over_axes(node, network, "layer_norm", x, axes, node.target, parameters=reads, attributes=attributes)


def group_norm(node: Node, network: Reading) -> None:
    """Normalise groups of consecutive channels, then scale and shift per channel."""
    if node.integer("stash_type", 1) != 1:
        raise node.fault("attribute stash_type must be 1: statistics are computed in float32.")
    x, *parameters = node.inputs
    shape, groups = network.shape(x), node.integer("num_groups", 0)
    if len(shape) < 2 or groups < 1 or shape[1] % groups:
        raise node.fault(f"operand of shape {text_of(shape)} in {groups} groups; expected groups of equal size.")
    _check_channels(node, network, x, parameters)
    size = shape[1] // groups
    nest = Nest()
    n, g = nest.parallel("n", shape[0]), nest.parallel("g", groups)
    c = nest.whole("c", size)
    rest = [nest.whole(f"d{number}", extent) for number, extent in enumerate(shape[2:], start=2)]
    channel = axis((g, size), (c, 1))
    moved = (*along(n), channel, *along(*rest))
    reads = [Access(x, moved), *(Access(name, (channel,)) for name in parameters)]
    attributes = (("epsilon", node.real("epsilon", 1e-5)),)
    write = Access(node.outputs[0], moved)
    op = Operator(node.name, "layer_norm", nest.dims, tuple(reads), (write,), attributes)
    network.emit(node, op, shape)


def batch_norm(node: Node, network: Reading) -> None:
    """Scale and shift per channel, by given statistics; while training by those of the batch, which update them."""
    momentum, epsilon = node.real("momentum", 0.9), node.real("epsilon", 1e-5)
    if not node.flag("spatial", default=True):
        raise node.fault("expected spatial=1; export the network for inference.")
    training = node.flag("training_mode")
    x, *parameters = node.inputs
    _check_channels(node, network, x, parameters)
    shape = network.shape(x)
    reads = tuple(Access(name, along(1)) for name in parameters)
    attributes = (("epsilon", epsilon),)
    if not training:
        node.refuse_outputs(1, "the statistics of training")
        over_axes(node, network, "batch_norm", x, (), node.target, parameters=reads, attributes=attributes)
        return
    axes = (0, *range(2, len(shape)))
    if node.needs(0):
        over_axes(node, network, "layer_norm", x, axes, node.target, parameters=reads[:2], attributes=attributes)
    for number, kind, old in ((1, "mean", parameters[2]), (2, "variance", parameters[3])):
        if node.needs(number):
            new = reduce_axes(node, network, f"reduce_{kind}", x, axes, network.step(node, f"batch_{kind}"), keep=False)
            parts = []
            for role, name, share in (("old", old, momentum), ("new", new, 1 - momentum)):
                factor = network.new_constant(node, f"{role}_share", np.asarray(share, network.element_type(name)))
                parts.append(apply(node, network, "mul", (name, factor), network.step(node, f"{role}_{kind}")))
            target = Target(network.fresh(f"{node.name}.{kind}"), node.outputs[number])
            apply(node, network, "add", (parts[0], parts[1]), target)


def _check_channels(node: Node, network: Reading, x: str, parameters: Sequence[str]) -> None:
    shape = network.shape(x)
    for name in parameters:
        if len(shape) < 2 or network.shape(name) != shape[1:2]:
            raise node.fault(
                f"operand of shape {text_of(shape)} with parameter '{name}' of shape {text_of(network.shape(name))}; "
                "expected one value per channel, axis 1."
            )


def local_response_norm(node: Node, network: Reading) -> None:
    """Divide by a power of the mean square of `size` neighbouring channels; channels outside count as 0."""
    x = node.inputs[0]
    shape, size = network.shape(x), node.integer("size", 0)
    if len(shape) < 2 or not 1 <= size <= MAX_NEIGHBOURS:
        known = f"expected channels on axis 1, and a size from 1 to {MAX_NEIGHBOURS:,}"
        raise node.fault(f"operand of shape {text_of(shape)}, size={size}; {known}.")
    attributes = tuple(
        (name, node.real(name, default)) for name, default in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    )
    nest = Nest()
    dims = [nest.parallel(f"d{number}", extent) for number, extent in enumerate(shape)]
    k = nest.reduction("k", size)
    n, _, *rest = along(*dims)
    neighbours = axis((dims[1], 1), (k, 1), offset=-((size - 1) // 2))
    reads = (Access(x, (n, neighbours, *rest)), straight(x, len(shape)))
    write = straight(node.outputs[0], len(shape))
    op = Operator(node.name, "lrn", nest.dims, reads, (write,), attributes)
    network.emit(node, op, shape)
