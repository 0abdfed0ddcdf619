"""What can be computed before the network runs: views of constants, and the constants of a batch normalisation."""

from collections.abc import Container, Mapping
from dataclasses import replace

import numpy as np

from tilestitch.base.storage import STORAGE
from tilestitch.ir.graph import Access, Axis, Graph, Operator, Tensor
from tilestitch.ops import is_contraction, is_view
from tilestitch.ops.views import moved


def drop_unused(graph: Graph) -> Graph:
    """Without the operators that no output needs, and without the constants and tensors that nobody reads then."""
    needed = set(graph.outputs)
    kept = []
    for op in reversed(graph.operators):
        if needed.intersection(op.outputs):
            kept.append(op)
            needed.update(op.inputs)
    used = needed.union(graph.inputs, *(op.outputs for op in kept))
    return replace(
        graph,
        operators=tuple(reversed(kept)),
        tensors={name: tensor for name, tensor in graph.tensors.items() if name in used},
        constants={name: value for name, value in graph.constants.items() if name in needed},
    )


def fold_constants(graph: Graph) -> Graph:
    """Views of constants become constants, unless they would repeat elements or are outputs of the network.

    A view that repeats elements (Expand) stays: `resolve_views` lets its readers repeat the read instead.
    """
    constants = dict(graph.constants)
    kept = []
    for op in graph.operators:
        foldable = is_view(op) and not is_expanding(op) and not set(op.outputs).intersection(graph.outputs)
        if foldable and all(name in constants for name in op.inputs):
            constants.update(moved(op, constants, graph.tensors))
        else:
            kept.append(op)
    return drop_unused(replace(graph, operators=tuple(kept), constants=constants))


def is_expanding(view: Operator) -> bool:
    """Whether a view writes some element of its operands more than once."""
    return any(
        view.dims[dim].extent > 1 and dim not in read.dims
        for read, write in zip(view.reads, view.writes, strict=True)
        for dim in write.dims
    )


# By the normalisation's name and the identity of its arrays: these arrays, and what they are folded into.
Folded = dict[tuple[str, tuple[int, ...]], tuple[list[np.ndarray], tuple[np.ndarray, np.ndarray]]]


def fold_batch_norm(graph: Graph, known: Folded | None = None) -> Graph:
    """A batch normalisation behind a convolution or product becomes part of that operator's weights and bias.

    y = scale * (conv(x) + b - mean) / sqrt(variance + epsilon) + shift is a convolution with weights W * f and bias
    (b - mean) * f + shift, f = scale / sqrt(variance + epsilon) per output channel, computed in float64. It needs
    constants throughout, and a product that nobody else reads; any other normalisation stays as it is. `known` has what
    was folded of the same arrays before, for the same network at another batch.
    """
    known = {} if known is None else known
    tensors, constants = dict(graph.tensors), dict(graph.constants)
    operators = {op.name: op for op in graph.operators}
    for norm in graph.operators:
        product = _foldable_product(norm, graph)
        channel = None if product is None else _channel(norm, product)
        if product is None or channel is None:
            continue
        arrays = [graph.constants[access.tensor] for access in (*product.reads[1:], *norm.reads[1:])]
        same = norm.name, tuple(map(id, arrays))
        if same not in known:
            values = _folded_values(norm, product, product.reads[1].axes.index(channel), graph.constants)
            known[same] = arrays, values
        _, folded = known[same]
        names = []
        for role, value in zip(("weight", "bias"), folded, strict=True):
            name = fresh_name(f"{product.name}.{role}", tensors)
            tensors[name] = Tensor(name, value.shape, STORAGE[value.dtype], tuple(range(value.ndim)))
            constants[name] = value
            names.append(name)
        weight, bias = names
        operators[product.name] = replace(
            product,
            reads=(product.reads[0], replace(product.reads[1], tensor=weight), Access(bias, (channel,))),
            writes=(replace(product.writes[0], tensor=norm.writes[0].tensor),),
        )
        del operators[norm.name]
    return drop_unused(replace(graph, operators=tuple(operators.values()), tensors=tensors, constants=constants))


def fresh_name(wanted: str, taken: Container[str]) -> str:
    """`wanted`, or with the first number behind it that makes it new."""
    name, number = wanted, 1
    while name in taken:
        name, number = f"{wanted}.{number}", number + 1
    return name


def _foldable_product(norm: Operator, graph: Graph) -> Operator | None:
    """The operator whose result `norm` alone reads, as it is, if both have constant parameters."""
    if norm.kind != "batch_norm" or norm.reads[0].axes != norm.writes[0].axes:
        return None
    name = norm.reads[0].tensor
    producers = graph.producers.get(name, ())
    if len(producers) != 1 or not is_contraction(producers[0]) or len(producers[0].writes) != 1:
        return None
    alone = graph.consumers[name] == (norm,) and name not in graph.outputs
    parameters = (*producers[0].reads[1:], *norm.reads[1:])
    constant = all(access.tensor in graph.constants for access in parameters)
    return producers[0] if alone and constant else None


def _channel(norm: Operator, product: Operator) -> Axis | None:
    """The index of the output channel in the product's loops, if it also indexes its weights and its bias."""
    parameter = norm.reads[1].axes
    if len(parameter) != 1 or parameter[0] not in norm.reads[0].axes:
        return None
    channel = product.writes[0].axes[norm.reads[0].axes.index(parameter[0])]
    bias_fits = all(access.axes == (channel,) for access in product.reads[2:])
    alike = all(access.axes == parameter for access in norm.reads[2:])
    return channel if bias_fits and alike and channel in product.reads[1].axes else None


@np.errstate(all="ignore")  # a negative variance gives NaN, as it does in the network
def _folded_values(
    norm: Operator, product: Operator, axis: int, constants: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Weights and bias in the type of the weights; `axis` of the weights is the output channel."""
    weight = constants[product.reads[1].tensor]
    scale, shift, mean, variance = (constants[access.tensor].astype(np.float64) for access in norm.reads[1:])
    bias = constants[product.reads[2].tensor].astype(np.float64) if len(product.reads) > 2 else np.float64(0.0)
    epsilon = norm.attribute("epsilon")
    assert isinstance(epsilon, float)
    factor = scale / np.sqrt(variance + epsilon)
    along = factor.reshape([-1 if number == axis else 1 for number in range(weight.ndim)])
    folded = np.empty_like(weight)
    np.multiply(weight, along, out=folded, dtype=np.float64, casting="same_kind")  # without a copy in float64
    return folded, ((bias - mean) * factor + shift).astype(weight.dtype)
