"""Depthwise convolutions as products of several channels and neighbouring results at once.

A depthwise convolution has few weights for each of its results, so that one fold of a matrix unit has little to do. The
weights of some channels and of some neighbouring results, each moved on by the stride, are one matrix: zeros, and bands
of weights. What multiplies by it makes all of these results from one row of operands, and the products with zeros
change nothing, as long as operands are finite.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tilestitch.base.errors import InputError, printable
from tilestitch.ir.graph import Access, Axis, Dim, DimKind, Graph, Operator, Tensor
from tilestitch.ir.rewriting import Band
from tilestitch.ops.depthwise import BANDED, Depthwise, depthwise_of
from tilestitch.passes.fold import fresh_name

_Terms = tuple[tuple[int, int], ...]  # what a dim became: dims, each with how many of its indices one of theirs is


def with_bands(graph: Graph, bands: Sequence[Band]) -> Graph:
    """The same network, of which views are composed away, with some depthwise convolutions as banded products.

    They keep their names. Raises `InputError` for what is no depthwise convolution with constant weights, and for
    numbers that do not divide it.
    """
    if not bands:
        return graph
    tensors, constants = dict(graph.tensors), dict(graph.constants)
    made: dict[str, Operator] = {}
    for band in bands:
        found = depthwise_of(graph.by_name[band.operator], graph) if band.operator in graph.by_name else None
        if found is None or band.operator in made:
            raise InputError(
                f"band of {printable(band.operator)}: expected a depthwise convolution with constant weights, once"
            )
        op = graph.by_name[band.operator]
        _expect_even(op, found, band)
        made[op.name] = _product(op, found, band, tensors, constants)
    operators = tuple(made.get(op.name, op) for op in graph.operators)
    read = {name for op in operators for name in op.inputs}.union(graph.outputs)
    gone = {name for name in constants if name not in read}
    return replace(
        graph,
        operators=operators,
        tensors={name: one for name, one in tensors.items() if name not in gone},
        constants={name: one for name, one in constants.items() if name not in gone},
    )


def _expect_even(op: Operator, found: Depthwise, band: Band) -> None:
    sizes = found.sizes(op.dims)
    wholes, parts = (sizes.channels, *sizes.positions), (band.channels, *band.neighbours)
    if len(wholes) != len(parts) or any(part < 1 or whole % part for whole, part in zip(wholes, parts, strict=False)):
        raise InputError(
            f"band of {printable(op.name)}: channels and neighbours {', '.join(map(str, parts))}; expected divisors of "
            f"{', '.join(map(str, wholes))}"
        )


def _product(
    op: Operator, found: Depthwise, band: Band, tensors: dict[str, Tensor], constants: dict[str, np.ndarray]
) -> Operator:
    """A convolution as a banded product; its weights join the constants."""
    dims: list[Dim] = []
    written: dict[int, _Terms] = {}  # what its dims became in its result and bias
    read: dict[int, _Terms] = {}  # and in its first operand
    inside: dict[int, int] = {}  # the loop of a result's channel in its block, or of a neighbour

    def loop(name: str, extent: int, kind: DimKind = DimKind.PARALLEL) -> int:
        dims.append(Dim(name, extent, kind))
        return len(dims) - 1

    together = dict(zip((found.channel, *found.positions), (band.channels, *band.neighbours), strict=True))
    for number, dim in enumerate(op.dims):
        if number in found.window:
            continue
        size = together.get(number, 1)
        written[number] = read[number] = ((loop(dim.name, dim.extent // size), size),)
        if size > 1:
            inside[number] = loop(f"{dim.name}.of", size)
            written[number] = (*written[number], (inside[number], 1))
    summed = []
    if band.channels > 1:
        summed.append(loop(f"{op.dims[found.channel].name}.in", band.channels, DimKind.REDUCTION))
        read[found.channel] = (*read[found.channel], (summed[0], 1))
    for window, step, size in zip(found.window, found.strides, band.neighbours, strict=True):
        dim = op.dims[window]
        summed.append(loop(dim.name, (size - 1) * step + dim.extent, DimKind.REDUCTION))
        read[window] = ((summed[-1], 1),)
    order = (written[found.channel][0][0], *(inside[dim] for dim in together if dim in inside), *summed)
    weights = _weights(op, found, band, constants).reshape([dims[dim].extent for dim in order])
    name = fresh_name(f"{op.name}.band", tensors)
    tensors[name] = Tensor(name, weights.shape, tensors[op.reads[1].tensor].dtype, tuple(range(weights.ndim)))
    constants[name] = weights
    return replace(
        op,
        dims=tuple(dims),
        reads=(
            _moved(op.reads[0], read),
            Access(name, tuple(Axis(((dim, 1),)) for dim in order)),
            *(_moved(one, written) for one in op.reads[2:]),
        ),
        writes=tuple(_moved(one, written) for one in op.writes),
        attributes=((BANDED, found.sizes(op.dims).flat),),
    )


def _moved(access: Access, became: Mapping[int, _Terms]) -> Access:
    axes = []
    for axis in access.axes:
        terms = [(one, stride * of) for dim, stride in axis.terms for one, of in became[dim]]
        axes.append(Axis(tuple(sorted(terms, key=lambda term: -term[1])), axis.offset))
    return replace(access, axes=tuple(axes))


def _weights(op: Operator, found: Depthwise, band: Band, constants: Mapping[str, np.ndarray]) -> np.ndarray:
    """By block of channels, channel and neighbours of the result, channel and place that are read."""
    access, sizes = op.reads[1], found.sizes(op.dims)
    value = constants[access.tensor]
    index = tuple(axis.offset if not axis.terms else slice(None) for axis in access.axes)
    along = [axis.terms[0][0] for axis in access.axes if axis.terms]
    plain = value[index].transpose([along.index(dim) for dim in (found.channel, *found.window)])
    blocks = plain.reshape(-1, band.channels, *sizes.window)
    reach = [(n - 1) * step + size for n, step, size in zip(band.neighbours, sizes.strides, sizes.window, strict=True)]
    made = np.zeros((*blocks.shape[:2], *band.neighbours, band.channels, *reach), value.dtype)
    for place in np.ndindex(*band.neighbours):
        span = tuple(
            slice(at * step, at * step + size)
            for at, step, size in zip(place, sizes.strides, sizes.window, strict=True)
        )
        for channel in range(band.channels):
            made[(slice(None), channel, *place, channel, *span)] = blocks[:, channel]
    return made
