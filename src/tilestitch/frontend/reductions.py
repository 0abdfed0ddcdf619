"""ReduceMean, ReduceSum, ReduceMax and ReduceMin."""

from tilestitch.frontend.accesses import along, dims_of, straight
from tilestitch.frontend.network import Handler, Network, Node, Target
from tilestitch.frontend.shapes import identity, normalised_axes
from tilestitch.ir.graph import Access


def reduction(kind: str, *, axes_as_input_since: int) -> Handler:
    """The handler of an operator that reduces the axes it names, which came as an attribute in older opsets."""

    def reduce(node: Node, network: Network) -> None:
        keep = node.flag("keepdims", default=True)
        nothing_is_nothing = node.flag("noop_with_empty_axes")
        if node.opset < axes_as_input_since:
            axes = node.integers("axes") or ()
        else:
            axes = () if node.operand(1) is None else network.integers(node, 1, "axes")
        rank = len(network.shape(node.inputs[0]))
        axes = normalised_axes(node, axes, rank)
        if (not axes and nothing_is_nothing) or rank == 0:
            identity(node, network)
            return
        if kind == "reduce_mean" and not network.is_float(node.inputs[0]):
            found = network.element_type(node.inputs[0])
            raise node.fault(f"operand '{node.inputs[0]}' has elements of type {found}; a mean needs a floating type.")
        reduce_axes(node, network, kind, node.inputs[0], axes or tuple(range(rank)), node.target, keep=keep)

    return reduce


def reduce_axes(
    node: Node, network: Network, kind: str, x: str, axes: tuple[int, ...], target: Target, *, keep: bool
) -> str:
    """Combine all elements along `axes`, which stay with extent 1 or go."""
    shape = network.shape(x)
    kept = [number for number in range(len(shape)) if keep or number not in axes]
    write = Access(target.tensor, along(*(None if number in axes else number for number in kept)))
    result = tuple(1 if number in axes else shape[number] for number in kept)
    dims = dims_of(shape, reduced=axes)
    return network.emit(node, target, kind, dims, (straight(x, len(shape)),), write, result)
