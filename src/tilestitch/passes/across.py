"""Products whose reduction is divided among cores: each adds up a part of it, and what they come to is added up.

Where a product has few results, cores run out of these before they run out of work. A new outermost loop over equal
parts of the reduction is parallel, and can be divided among cores like any other; a sum over it follows. Both are
ordinary operators, so that tiles, places, waits, prices and bounds are those of any others.
"""

from collections.abc import Sequence
from dataclasses import replace

from tilestitch.base.dtypes import DType
from tilestitch.base.errors import InputError, printable
from tilestitch.ir.graph import Access, Axis, Dim, DimKind, Graph, Operator, Tensor
from tilestitch.ir.rewriting import Across
from tilestitch.ops.contraction import product_shape, roles
from tilestitch.ops.partial_sums import PARTIAL
from tilestitch.ops.streaming import BLOCK_OF
from tilestitch.passes.fold import fresh_name
from tilestitch.passes.split_k import Split, is_plain_product


def reduction_loop(graph: Graph, op: Operator) -> int | None:
    """The longest loop of a product's reduction; None of what is no product of floats, or takes part in another one."""
    if not is_plain_product(graph, op) or len(graph.producers[op.outputs[0]]) != 1:
        return None
    if any(read.indirect_axis is not None for read in op.reads):
        return None
    loops = roles(op).k
    if not loops or any(_of_result(op, read) is None for read in op.reads[2:]):
        return None
    return max(loops, key=lambda loop: (op.dims[loop].extent, -loop))


def with_reductions_across(graph: Graph, asked: Sequence[Across]) -> Split:
    """The same network, of which views are composed away, with the reductions of some products in equal parts.

    What makes all parts is named `<operator>.parts`; what ends with the result has the name of the product. Raises
    `InputError` for what is no product of floats, and for parts that its reduction cannot have.
    """
    became: dict[str, tuple[str, ...]] = {op.name: (op.name,) for op in graph.operators}
    for one in asked:
        op = graph.by_name.get(one.operator)
        loop = None if op is None else reduction_loop(graph, op)
        if op is None or loop is None:
            raise InputError(f"across of {printable(one.operator)}: expected a product of floats that stands alone")
        extent = op.dims[loop].extent
        if one.parts < 2 or extent % one.parts:
            raise InputError(
                f"across of {printable(one.operator)}: {one.parts} parts; expected a divisor of the {extent} "
                f"iterations of its loop {op.dims[loop].name}"
            )
        graph, became[op.name] = _divided(graph, op, loop, one.parts)
    return graph, became


def _divided(graph: Graph, op: Operator, loop: int, parts: int) -> tuple[Graph, tuple[str, ...]]:
    """The network with a product in parts, and the operators that do its work."""
    operators, tensors = {one.name for one in graph.operators}, dict(graph.tensors)
    result = tensors[op.outputs[0]]

    def named(name: str) -> str:
        operators.add(found := fresh_name(name, operators))
        return found

    def tensor(name: str, shape: tuple[int, ...], layout: tuple[int, ...]) -> str:
        found = fresh_name(name, tensors)
        tensors[found] = Tensor(found, shape, DType.FLOAT32, layout)  # as the sums of any product, not rounded before
        return found

    outermost = (0, *(axis + 1 for axis in result.layout))
    partial = tensor(f"{result.name}.parts", (parts, *result.shape), outermost)
    made = [_in_parts(op, named(f"{op.name}.parts"), partial, loop, parts)]
    bias = [one for read in op.reads[2:] if (one := _of_result(op, read)) is not None]
    total = tensor(f"{result.name}.sum", result.shape, result.layout) if bias else result.name
    own = tuple(Axis(((at, 1),)) for at in range(len(result.shape)))
    dims = tuple(Dim(f"d{at}", size, DimKind.PARALLEL) for at, size in enumerate(result.shape))
    along = Axis(((len(dims), 1),))
    made.append(
        Operator(
            named(f"{op.name}.sum") if bias else op.name,
            "reduce_sum",
            (*dims, Dim("part", parts, DimKind.REDUCTION)),
            (Access(partial, (along, *own)),),
            (Access(total, own),),
            ((PARTIAL, 1),),
        )
    )
    for added in bias:  # once; as first operand, because a kernel ends behind what makes the first one of such a sum
        reads = (added, Access(total, own))
        made.append(Operator(op.name, "add", dims, reads, (Access(result.name, own),), ((PARTIAL, 1),)))
    listed = [one for old in graph.operators for one in (made if old.name == op.name else [old])]
    return replace(graph, operators=tuple(listed), tensors=tensors), tuple(one.name for one in made)


def _in_parts(op: Operator, name: str, partial: str, loop: int, parts: int) -> Operator:
    """A product with an outermost loop over parts of its reduction, whose results it keeps apart."""
    length = op.dims[loop].extent // parts

    def moved(axis: Axis) -> Axis:
        terms = [(dim + 1, by) for dim, by in axis.terms]
        terms += [(0, by * length) for dim, by in axis.terms if dim == loop]
        return Axis(tuple(sorted(terms, key=lambda term: -abs(term[1]))), axis.offset)

    reads = tuple(replace(read, axes=tuple(map(moved, read.axes))) for read in op.reads[:2])
    write = Access(partial, (Axis(((0, 1),)), *map(moved, op.writes[0].axes)))
    dims = [replace(dim, extent=length) if at == loop else dim for at, dim in enumerate(op.dims)]
    shape = product_shape(op, op.whole)
    whole = (BLOCK_OF, (shape.groups, shape.m, shape.k, shape.n))
    return Operator(name, op.kind, (Dim("part", parts, DimKind.PARALLEL), *dims), reads, (write,), (whole,))


def _of_result(op: Operator, read: Access) -> Access | None:
    """What a product adds at the end, by the axes of its result instead of by its loops; None where it has others."""
    place = {(axis.terms, axis.offset): at for at, axis in enumerate(op.writes[0].axes)}
    if any(axis.terms and (axis.terms, axis.offset) not in place for axis in read.axes):
        return None
    axes = (Axis(((place[axis.terms, axis.offset], 1),)) if axis.terms else axis for axis in read.axes)
    return replace(read, axes=tuple(axes))
