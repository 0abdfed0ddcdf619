"""Which calls of CNML an operator of a network is (docs/dlfusion.md#code).

Names and parameter lists are those of the public header of CNML 1.0.0. What a parameter means, where the header does
not say, is INFERRED from how Cambricon's Caffe of that version calls it: padding of a convolution is the sum of both
sides, a depthwise filter has one sample of all channels, a fully connected layer takes the image as it is.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilestitch.formats.cnml.values import (
    AllInputs,
    Argument,
    Call,
    Calls,
    Constant,
    Operand,
    Shape,
    channels_of,
    fault,
    four,
    fresh,
    named_call,
    operand_of,
    shape_of,
    weights_of,
)
from tilestitch.ir.graph import Axis, DimKind, Graph, Operator

LOWEST = -65_504.0  # of float16: what padding is to a maximum


def calls_of(graph: Graph, op: Operator, sources: dict[str, str]) -> Calls:
    """The calls of an operator; none of a view that those who read it see through.

    `sources` maps a tensor to the one whose values it has in the same order; a view adds its own. Raises `InputError`
    with the operator where CNML has no call for it.
    """
    if op.kind not in KINDS:
        raise fault(graph, op, f"CNML has no call for {op.kind} here; known are {', '.join(sorted(KINDS))}")
    for name in (*op.inputs, *op.outputs):
        if not graph.tensors[name].dtype.is_float:
            raise fault(graph, op, f"tensor '{name}' is of type {graph.tensors[name].dtype}; expected floating point")
    return KINDS[op.kind](graph, op, sources)


def _flatten(graph: Graph, op: Operator, sources: dict[str, str]) -> Calls:
    """No call: products take the image as it is, and nobody else may read the result."""
    (output,) = op.outputs
    readers = graph.consumers.get(output, ())
    shape = graph.tensors[op.inputs[0]].shape
    if output in graph.outputs or any(reader.kind != "matmul" for reader in readers):
        raise fault(
            graph,
            op,
            "its result is read by operators other than fully connected layers, which CNML would see rearranged",
        )
    if graph.tensors[output].shape[0] != shape[0] or len(graph.tensors[output].shape) != 2:
        raise fault(graph, op, "changes the samples; expected all but the samples on one axis")
    sources[output] = sources.get(op.inputs[0], op.inputs[0])
    return Calls(())


def _conv(graph: Graph, op: Operator, sources: dict[str, str]) -> Calls:
    x, filters, *rest = (read.tensor for read in op.reads)
    n, c, height, width = shape_of(graph, op, x)
    weights = weights_of(graph, op, filters)
    turned = any(axis.offset or any(factor != 1 for _, factor in axis.terms) for axis in op.reads[1].axes[2:])
    if weights.ndim != 4 or op.attributes or turned:
        raise fault(graph, op, "is not a convolution of an image by floating-point constants")
    groups = c // weights.shape[1]
    rows, columns = (_window(graph, op, axis) for axis in (2, 3))
    constants = [Constant(filters, "CNML_FILTER", four(weights), weights)]
    constants += [channels_of(name, weights_of(graph, op, name)) for name in rest]
    arguments: list[Argument] = [Operand(op.outputs[0]), Operand(filters), Operand(rest[0]) if rest else "nullptr"]
    strides = (str(rows.stride), str(columns.stride))
    depthwise = groups > 1 and groups == c == weights.shape[0]
    dilated = rows.dilation > 1 or columns.dilation > 1
    if depthwise and dilated:
        raise fault(graph, op, "is a dilated depthwise convolution, which CNML does not have")
    uneven = rows.before != rows.after or columns.before != columns.after
    padded = rows.before or rows.after or columns.before or columns.after
    x = operand_of(graph, op, op.reads[0], sources)
    before = Calls(())
    if padded and (depthwise or dilated or uneven):
        before = _padding(graph, op, x, (n, c, height, width), rows, columns, 0.0)
        x, padded = before.calls[0].output, False
    if depthwise:
        filters = four(weights)
        constants[0] = Constant(constants[0].name, "CNML_FILTER", (1, filters[0], *filters[2:]), weights)
        name, parameter, parameters = "ConvDepthwise", "ConvDepthwiseOpParam", strides
    else:
        sums = (rows.before + rows.after, columns.before + columns.after) if padded else (0, 0)
        dilations = (str(rows.dilation), str(columns.dilation))
        parameters = (*strides, *dilations, *(str(value) for value in sums), "CNML_NoSparse")
        name, parameter = "ConvGroup" if groups > 1 else "Conv", "ConvOpParam"
        arguments += [str(groups)] if groups > 1 else []
    call = named_call(op, name, (Operand(x), *arguments), (x,), parameter, parameters)
    return Calls((*before.calls, call), before.between, tuple(constants))


def _matmul(graph: Graph, op: Operator, sources: dict[str, str]) -> Calls:
    x, filters, *rest = (read.tensor for read in op.reads)
    if len(graph.tensors[x].shape) != 2 or op.attributes:
        raise fault(graph, op, "is not a fully connected layer of floating-point numbers")
    weights = weights_of(graph, op, filters)
    if weights.ndim != 2:
        raise fault(graph, op, f"multiplies by '{filters}' of {weights.ndim} axes; expected 2")
    if op.reads[1].axes[0] == op.reads[0].axes[1]:  # a row for each input
        weights = np.ascontiguousarray(weights.T)
    source = operand_of(graph, op, op.reads[0], sources)
    _, c, height, width = shape_of(graph, op, source)
    if c * height * width != weights.shape[1]:
        raise fault(graph, op, f"multiplies {c * height * width} inputs by {weights.shape[1]} weights")
    constants = [Constant(filters, "CNML_FILTER", (weights.shape[0], c, height, width), weights)]
    constants += [channels_of(name, weights_of(graph, op, name)) for name in rest]
    bias = Operand(rest[0]) if rest else "nullptr"
    arguments = (Operand(source), Operand(op.outputs[0]), Operand(filters), bias, "CNML_NoSparse")
    return Calls((named_call(op, "Mlp", arguments, (source,)),), (), tuple(constants))


def _pool(graph: Graph, op: Operator, sources: dict[str, str]) -> Calls:
    shape = shape_of(graph, op, op.reads[0].tensor)
    if len(op.reads) != 1 or op.attributes:
        raise fault(graph, op, "has windows that hang over the image, or an option that CNML does not have")
    rows, columns = (_window(graph, op, axis) for axis in (2, 3))
    padding = (rows.before, rows.after, columns.before, columns.after)
    x = operand_of(graph, op, op.reads[0], sources)
    before = Calls(())
    if any(padding):
        value = LOWEST if op.kind == "max_pool" else 0.0
        before = _padding(graph, op, x, shape, rows, columns, value)
        x = before.calls[0].output
    mode = "CNML_POOL_MAX" if op.kind == "max_pool" else "CNML_POOL_AVG"
    return Calls((*before.calls, _window_call(op, x, mode, rows, columns)), before.between)


def _mean(graph: Graph, op: Operator, sources: dict[str, str]) -> Calls:
    """The mean over the image, as one window."""
    (read,) = op.reads
    _, _, height, width = shape_of(graph, op, read.tensor)
    reduced = [number for number, dim in enumerate(op.dims) if dim.kind is DimKind.REDUCTION]
    image = [axis.terms[0][0] for axis in read.axes[2:] if axis.terms]
    if reduced != image or len(graph.tensors[read.tensor].shape) != 4:
        raise fault(graph, op, "is a mean over axes other than rows and columns")
    source = operand_of(graph, op, read, sources)
    rows, columns = (_Window(extent, 1, 1, 0, 0) for extent in (height, width))
    return Calls((_window_call(op, source, "CNML_POOL_AVG", rows, columns),))


def _window_call(op: Operator, x: str, mode: str, rows: "_Window", columns: "_Window") -> Call:
    """A pool without padding of its own; every window is inside the image."""
    sizes = (rows.kernel, columns.kernel, rows.stride, columns.stride, 0, 0, rows.dilation, columns.dilation)
    parameters = (*(str(value) for value in sizes), mode, "CNML_POOL_KVALID", "false")
    return named_call(op, "Pool", (Operand(x), Operand(op.outputs[0])), (x,), "PoolOpParam", parameters)


def _active(function: str) -> Callable[[Graph, Operator, dict[str, str]], Calls]:
    def calls(graph: Graph, op: Operator, sources: dict[str, str]) -> Calls:
        return _activation(graph, op, sources, function)

    return calls


def _clip(graph: Graph, op: Operator, sources: dict[str, str]) -> Calls:
    limits = op.attribute("min", ""), op.attribute("max", "")
    known: dict[tuple[object, object], str] = {(0.0, 6.0): "CNML_ACTIVE_RELU6", (0.0, 1.0): "CNML_ACTIVE_RELU1"}
    if limits not in known or len(op.reads) > 1:
        raise fault(graph, op, f"clips to {limits[0]} .. {limits[1]}; CNML clips to 0 .. 6 and 0 .. 1")
    return _activation(graph, op, sources, known[limits])


def _activation(graph: Graph, op: Operator, sources: dict[str, str], function: str) -> Calls:
    x = operand_of(graph, op, op.reads[0], sources)
    return Calls((named_call(op, "Active", (function, Operand(x), Operand(op.outputs[0])), (x,)),))


def _binary(name: str) -> Callable[[Graph, Operator, dict[str, str]], Calls]:
    def calls(graph: Graph, op: Operator, sources: dict[str, str]) -> Calls:
        operands = tuple(operand_of(graph, op, read, sources) for read in op.reads)
        if len(operands) != 2 or len({graph.tensors[name].shape for name in (*op.inputs, *op.outputs)}) > 1:
            raise fault(graph, op, "has operands of different shapes; CNML takes two of one shape here")
        arguments = tuple(Operand(tensor) for tensor in (*operands, op.outputs[0]))
        return Calls((named_call(op, name, arguments, operands),))

    return calls


def _batch_norm(graph: Graph, op: Operator, sources: dict[str, str]) -> Calls:
    """One factor and one term for each channel."""
    x = operand_of(graph, op, op.reads[0], sources)
    scale, bias, mean, variance = (weights_of(graph, op, read.tensor).astype(np.float64) for read in op.reads[1:])
    epsilon = op.attribute("epsilon")
    assert isinstance(epsilon, float)
    factor = scale / np.sqrt(variance + epsilon)
    alpha = channels_of(fresh(graph, f"{op.name}.alpha"), factor.astype(np.float32))
    beta = channels_of(fresh(graph, f"{op.name}.beta"), (bias - mean * factor).astype(np.float32))
    arguments = tuple(Operand(tensor) for tensor in (x, op.outputs[0], alpha.name, beta.name))
    return Calls((named_call(op, "Scale", arguments, (x,)),), (), (alpha, beta))


def _lrn(graph: Graph, op: Operator, sources: dict[str, str]) -> Calls:
    x = operand_of(graph, op, op.reads[1], sources)
    size = op.dims[-1].extent
    if size % 2 == 0:
        raise fault(graph, op, f"takes {size} neighbours; expected an odd number, as many on both sides")
    values = (repr(op.attribute(name)) for name in ("alpha", "beta", "bias"))
    parameters = ("CNML_LRN_V3", str(size), *values)
    return Calls((named_call(op, "Lrn", (Operand(x), Operand(op.outputs[0])), (x,), "LrnOpParam", parameters),))


def _softmax(graph: Graph, op: Operator, sources: dict[str, str]) -> Calls:
    read = op.reads[0]
    x = operand_of(graph, op, read, sources)
    whole = {number for number, dim in enumerate(op.dims) if dim.kind is DimKind.WHOLE}
    if {place for place, axis in enumerate(read.axes) if whole & {dim for dim, _ in axis.terms}} != {1}:
        raise fault(graph, op, "is a softmax over an axis other than the channels")
    return Calls((named_call(op, "Softmax", ("CNML_SOFTMAX_DIM_C", Operand(x), Operand(op.outputs[0])), (x,)),))


def _concat(graph: Graph, op: Operator, sources: dict[str, str]) -> Calls:
    (output,) = op.outputs
    inputs = tuple(operand_of(graph, op, read, sources) for read in op.reads)
    moved = {place for write in op.writes for place, axis in enumerate(write.axes) if axis.offset}
    if len(graph.tensors[output].shape) != 4 or len(moved) > 1:
        raise fault(graph, op, "joins tensors that are not images, or along several axes")
    mode = ("BATCH", "FEAT", "HIGHT", "WIDTH")[min(moved, default=1)]
    parameters = (str(len(inputs)), "1", f"CNML_CONCAT_{mode}")
    arguments = (AllInputs(), str(len(inputs)), Operand(output, address=True), "1")
    return Calls((named_call(op, "Concat", arguments, inputs, "ConcatOpParam", parameters),))


@dataclass(frozen=True, slots=True)
class _Window:
    """One axis of a window: how far it reaches over the image, before and after."""

    kernel: int
    stride: int
    dilation: int
    before: int
    after: int


def _window(graph: Graph, op: Operator, place: int) -> _Window:
    """What an access along an axis of an image says of a window; padding is even on both sides where that will do."""
    axis, out = op.reads[0].axes[place], op.writes[0].axes[place]
    kernel = stride = dilation = 1
    for dim, factor in axis.terms:
        if op.dims[dim].kind is DimKind.REDUCTION:
            kernel, dilation = op.dims[dim].extent, factor
        elif out == Axis(((dim, 1),)):
            stride = factor
        else:
            raise fault(graph, op, "moves along its image in a way that CNML does not have")
    name = op.reads[0].tensor
    extent, count = graph.tensors[name].shape[place], graph.tensors[op.outputs[0]].shape[place]
    reach = (kernel - 1) * dilation + 1
    before = -axis.offset
    after = max(0, (count - 1) * stride + reach - before - extent)
    if before < 0 or dilation < 1 or stride < 1:
        raise fault(graph, op, "moves along its image in a way that CNML does not have")
    if (extent + 2 * before - reach) // stride + 1 == count:
        after = before
    return _Window(kernel, stride, dilation, before, after)


def _padding(
    graph: Graph, op: Operator, source: str, shape: Shape, rows: _Window, columns: _Window, value: float
) -> Calls:
    """The image with what a window reads around it, as an operator of its own."""
    n, c, height, width = shape
    name = fresh(graph, f"{op.name}.padded")
    larger = (n, c, height + rows.before + rows.after, width + columns.before + columns.after)
    sides = (str(side) for side in (rows.before, rows.after, columns.before, columns.after))
    call = Call(
        name=name,
        create="cnmlCreateAddPadOp",
        arguments=(Operand(source), Operand(name)),
        compute="cnmlComputeAddPadOpForward_V3",
        inputs=(source,),
        output=name,
        parameter="AddPadOpParam",
        parameter_create="cnmlCreateAddPadOp4Param",
        parameter_arguments=(*sides, f"{value:.1f}f"),
    )
    return Calls((call,), ((name, larger),))


KINDS: dict[str, Callable[[Graph, Operator, dict[str, str]], Calls]] = {
    "conv": _conv,
    "matmul": _matmul,
    "max_pool": _pool,
    "average_pool": _pool,
    "reduce_mean": _mean,
    "relu": _active("CNML_ACTIVE_RELU"),
    "sigmoid": _active("CNML_ACTIVE_SIGMOID"),
    "tanh": _active("CNML_ACTIVE_TANH"),
    "clip": _clip,
    "add": _binary("Add"),
    "sub": _binary("Sub"),
    "mul": _binary("Mult"),
    "batch_norm": _batch_norm,
    "lrn": _lrn,
    "softmax": _softmax,
    "concat": _concat,
    "flatten": _flatten,
}
