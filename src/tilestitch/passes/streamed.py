"""Softmax between two products, block by block: no more of a row of scores is there at a time than one block of it.

Every block of keys has its operators: scores, what is done to these, exponentials below the running maximum, and their
product with the values. What they hand to the next block is one tensor, the state of the rows: sums of products, the
sum of the exponentials, and the maximum. A larger maximum rescales the former two. Behind the last block the sums of
products are divided by that of the exponentials. All of this are ordinary operators and tensors, so that tiles, places,
waits, prices and bounds are those of any others; that a block is one kernel is for those to say who group operators.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilestitch.base.dtypes import DType
from tilestitch.base.errors import InputError, printable
from tilestitch.ir.graph import Access, Axis, Dim, DimKind, Graph, Operator, Tensor
from tilestitch.ir.region import pieces
from tilestitch.ir.rewriting import Stream
from tilestitch.ops import is_contraction, is_elementwise
from tilestitch.ops.contraction import product_shape, roles
from tilestitch.ops.streaming import BLOCK_OF, CARRY, STATE_COLUMNS
from tilestitch.passes.fold import drop_unused, fresh_name

_FLOATS = frozenset({DType.FLOAT16, DType.BFLOAT16})

# A network, and which of its operators do the work of each that was there before; of one that is left out none.
Streamed = tuple[Graph, Mapping[str, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Attention:
    """A softmax, the operators that make what it reads from a product on, and the product behind it."""

    softmax: Operator
    chain: tuple[Operator, ...]  # the scores, then what is done to them element by element
    context: Operator
    keys: int  # the axis of the scores
    rows: int | None  # the longest axis along which queries differ and keys do not, of whose parts results are boxes

    def extents(self, graph: Graph) -> tuple[int, int, int]:
        """How many keys, rows along the axis that may be cut, and columns of the context there are."""
        shape = graph.tensors[self.softmax.inputs[0]].shape
        (column,) = roles(self.context).n
        return shape[self.keys], 1 if self.rows is None else shape[self.rows], self.context.dims[column].extent


def attention_of(graph: Graph, softmax: Operator) -> Attention | None:
    """What lies around a softmax that can run block by block; None of any other operator."""
    whole = [number for number, dim in enumerate(softmax.dims) if dim.kind is DimKind.WHOLE]
    if softmax.kind != "softmax" or len(whole) != 1 or softmax.reads[0].axes != softmax.writes[0].axes:
        return None
    weights = softmax.outputs[0]
    readers = graph.consumers.get(weights, ())
    chain = _chain(graph, softmax.inputs[0])
    if (
        chain is None
        or len(readers) != 1
        or weights in graph.outputs
        or not _is_whole(softmax, softmax.reads[0], graph, 1)
    ):
        return None
    context, scores = readers[0], chain[0]
    axis = next(at for at, one in enumerate(softmax.reads[0].axes) if one.terms and one.terms[0][0] == whole[0])
    if not _is_product(graph, context) or context.reads[0].tensor != weights or len(context.reads) != 2:
        return None
    of, read = roles(context), context.reads[0]
    if not _is_whole(context, read, graph) or [dim for dim, _ in read.axes[axis].terms] != list(of.k) or len(of.n) != 1:
        return None
    made, shape = scores.writes[0].axes, graph.tensors[weights].shape
    if len(made[axis].terms) != 1 or _factors(context, read) != _factors(scores, scores.writes[0]):
        return None
    apart = [at for at, one in enumerate(made) if len(one.terms) == 1 and one.terms[0][0] not in scores.reads[1].dims]
    apart = [at for at in apart if len(read.axes[at].terms) == 1 and _parts_are_boxes(context, read.axes[at])]
    rows = max((at for at in apart if at != axis), key=lambda at: (shape[at], at), default=None)
    return Attention(softmax, chain, context, axis, rows)


def _parts_are_boxes(context: Operator, axis: Axis) -> bool:
    """Whether a part of the loop of an axis makes a box of results, as it does not inside another loop of one axis."""
    loop = axis.terms[0][0]
    return all(
        dim == loop or stride < dict(written.terms)[loop] or context.dims[dim].extent == 1
        for written in context.writes[0].axes
        if loop in dict(written.terms)
        for dim, stride in written.terms
    )


def _chain(graph: Graph, tensor: str) -> tuple[Operator, ...] | None:
    """The product that makes a tensor, and what is done to its results element by element; nobody else reads these."""
    makers = graph.producers.get(tensor, ())
    if len(makers) != 1 or len(graph.consumers[tensor]) != 1 or tensor in graph.outputs:
        return None
    (maker,) = makers
    if len(maker.writes) != 1 or not _is_whole(maker, maker.writes[0], graph, None if is_contraction(maker) else 1):
        return None
    if any(read.indirect_axis is not None for read in maker.reads) or graph.tensors[tensor].dtype not in _FLOATS:
        return None
    if _is_product(graph, maker):
        return (maker,)
    if not is_elementwise(maker) or any(dim.kind is not DimKind.PARALLEL for dim in maker.dims):
        return None
    for read in maker.reads:
        if read.axes == maker.writes[0].axes and sum(one.tensor == read.tensor for one in maker.reads) == 1:
            found = _chain(graph, read.tensor)
            if found is not None:
                return (*found, maker)
    return None


def _is_product(graph: Graph, op: Operator) -> bool:
    """Whether an operator is a plain product of floats."""
    floats = all(graph.tensors[name].dtype in _FLOATS for name in (*op.inputs, *op.outputs))
    return is_contraction(op) and floats and not op.attributes and len(op.writes) == 1


def _is_whole(op: Operator, access: Access, graph: Graph, most_loops: int | None = None) -> bool:
    """Whether an access touches each element of a tensor once: axes of one loop, or of several one inside another."""
    loops = [dim for axis in access.axes for dim, _ in axis.terms]
    for axis, size in zip(access.axes, graph.tensors[access.tensor].shape, strict=True):
        inner = 1
        for dim, stride in reversed(axis.terms):
            if stride != inner:
                return False
            inner *= op.dims[dim].extent
        if inner != size or axis.offset or (most_loops is not None and len(axis.terms) > most_loops):
            return False
    return len(set(loops)) == len(loops)


def with_streams(graph: Graph, streams: Sequence[Stream]) -> Streamed:
    """The same network, of which views are composed away, with some softmaxes block by block.

    Operators are named `<operator>.<number of the rows>.<number of the block>`; what divides at the end has the name of
    the product, with the number of the rows where there are several. Raises `InputError` for what is no
    softmax between two products, and for blocks and rows that it does not have.
    """
    became: dict[str, tuple[str, ...]] = {op.name: (op.name,) for op in graph.operators}
    for stream in streams:
        found = attention_of(graph, graph.by_name[stream.operator]) if stream.operator in graph.by_name else None
        if found is None:
            raise InputError(
                f"stream of {printable(stream.operator)}: expected a softmax along one axis between two products of "
                "floats, of which nobody else reads what lies between, once"
            )
        keys, rows, _ = found.extents(graph)
        if not 1 <= stream.keys <= keys or not 1 <= stream.rows <= rows:
            raise InputError(
                f"stream of {printable(stream.operator)}: {stream.keys} keys and {stream.rows} rows; expected 1 to "
                f"{keys} keys and 1 to {rows} rows"
            )
        graph = _with_loops_apart(graph, found)
        found = attention_of(graph, graph.by_name[stream.operator])
        assert found is not None, "it is the same attention"
        graph, became[found.context.name] = _Blocks(graph, found, stream).streamed()
        became.update((op.name, ()) for op in (found.softmax, *found.chain))
    return graph, became


def _factors(op: Operator, access: Access) -> list[list[int]]:
    """The extents of the loops of each axis."""
    return [[op.dims[dim].extent for dim, _ in axis.terms] for axis in access.axes]


def _with_loops_apart(graph: Graph, found: Attention) -> Graph:
    """The same network with an axis of the scores for each of several loops that the products have of one.

    Such as heads, of which groups share keys: groups and what is in one can be cut then.
    """
    factors = _factors(found.context, found.context.reads[0])
    if all(len(extents) < 2 for extents in factors):
        return graph
    between = (*found.chain[1:], found.softmax)
    names = [op.outputs[0] for op in (*found.chain, found.softmax)]
    tensors, changed = dict(graph.tensors), dict[str, Operator]()
    shape = tuple(
        one for extents, size in zip(factors, graph.tensors[names[0]].shape, strict=True) for one in extents or [size]
    )
    for name in names:
        tensors[name] = replace(tensors[name], shape=shape, layout=tuple(range(len(shape))))

    def by_loop(access: Access) -> Access:
        loops = ([Axis(((dim, 1),)) for dim, _ in axis.terms] or [axis] for axis in access.axes)
        return replace(access, axes=tuple(one for axes in loops for one in axes))

    scores, context = found.chain[0], found.context
    changed[scores.name] = replace(scores, writes=(by_loop(scores.writes[0]),))
    changed[context.name] = replace(context, reads=(by_loop(context.reads[0]), *context.reads[1:]))
    for op in between:
        split = {
            axis.terms[0][0]: extents
            for axis, extents in zip(op.writes[0].axes, factors, strict=True)
            if len(extents) > 1
        }
        changed[op.name] = _with_dims_split(op, split, set(names))
    return replace(graph, tensors=tensors, operators=tuple(changed.get(op.name, op) for op in graph.operators))


def _with_dims_split(op: Operator, split: Mapping[int, Sequence[int]], apart: set[str]) -> Operator:
    """An operator with several loops for each of some; those tensors are `apart` that have an axis for each."""
    dims: list[Dim] = []
    became: dict[int, list[tuple[int, int]]] = {}  # loops, with how many indices of the old one each of theirs is
    for number, dim in enumerate(op.dims):
        inner, became[number] = 1, []
        extents = split.get(number, [dim.extent])
        for place, extent in reversed(list(enumerate(extents))):
            became[number].insert(0, (len(dims) + place, inner))
            inner *= extent
        dims += [
            Dim(f"{dim.name}.{at}" if len(extents) > 1 else dim.name, one, dim.kind) for at, one in enumerate(extents)
        ]

    def moved(access: Access) -> Access:
        axes: list[Axis] = []
        for axis in access.axes:
            terms = [(one, stride * by) for dim, stride in axis.terms for one, by in became[dim]]
            if access.tensor in apart and terms:
                axes += [Axis(((one, 1),)) for one, _ in terms]
            else:
                axes.append(Axis(tuple(sorted(terms, key=lambda term: -term[1])), axis.offset))
        return replace(access, axes=tuple(axes))

    return replace(op, dims=tuple(dims), reads=tuple(map(moved, op.reads)), writes=tuple(map(moved, op.writes)))


class _Blocks:
    """One attention as it is cut: operators and tensors so far."""

    def __init__(self, graph: Graph, found: Attention, stream: Stream) -> None:
        self.graph, self.found, self.stream = graph, found, stream
        self.tensors = dict(graph.tensors)
        self.taken = {op.name for op in graph.operators} - {found.context.name}
        self.made: list[Operator] = []
        self.suffix = ""  # of names
        self.held = self.stream.keys < graph.tensors[found.softmax.inputs[0]].shape[found.keys]  # copies of queries
        self.shape = graph.tensors[found.softmax.inputs[0]].shape
        self.dtype = graph.tensors[found.softmax.outputs[0]].dtype
        (self.column,) = roles(found.context).n
        self.columns = found.context.dims[self.column].extent

    def streamed(self) -> tuple[Graph, tuple[str, ...]]:
        """The network, and the names of the operators that do the work of all of them."""
        found, graph = self.found, self.graph
        rows = [(0, 1)] if found.rows is None else pieces(0, self.shape[found.rows], self.stream.rows)
        for number, span in enumerate(rows):
            state: str | None = None
            only = {} if found.rows is None else {found.rows: span}
            self.suffix = f".{number}"
            scores = self._with_queries(only)
            for block, keys in enumerate(pieces(0, self.shape[found.keys], self.stream.keys)):
                self.suffix = f".{number}.{block}"
                ranges = {found.keys: keys, **only}
                state = self._block(scores, ranges, state)
            assert state is not None
            self.suffix = f".{number}" if len(rows) > 1 else ""
            self._divided(only, state)
        gone = {op.name for op in (found.softmax, *found.chain)}
        operators: list[Operator] = []
        for op in graph.operators:
            if op.name == found.context.name:
                operators += self.made
            elif op.name not in gone:
                operators.append(op)
        names = tuple(op.name for op in self.made)
        return drop_unused(replace(graph, operators=tuple(operators), tensors=self.tensors)), names

    def _with_queries(self, ranges: Mapping[int, tuple[int, int]]) -> Operator:
        """The scores with a copy of their first operand, of some rows, that is there for all blocks."""
        scores = replace(self.found.chain[0], attributes=_block_of(self.found.chain[0]))
        if not self.held:
            return scores
        part = _part(scores, scores.writes[0], ranges, {})
        moving = sorted(part.reads[0].dims)
        dims = tuple(replace(part.dims[dim], kind=DimKind.PARALLEL) for dim in moving)
        axes = tuple(
            Axis(tuple((moving.index(dim), by) for dim, by in axis.terms), axis.offset) for axis in part.reads[0].axes
        )
        read, everywhere = Access(part.reads[0].tensor, axes), tuple(Axis(((at, 1),)) for at in range(len(dims)))
        dtype, shape = self.graph.tensors[read.tensor].dtype, [dim.extent for dim in dims]
        held = self._made(f"{scores.name}.held", "copy", dims, (read,), everywhere, shape, dtype)
        first = Access(held, tuple(Axis(((dim, 1),)) for dim in moving))
        return replace(scores, reads=(first, *scores.reads[1:]))

    def _block(self, product: Operator, ranges: Mapping[int, tuple[int, int]], before: str | None) -> str:
        """The operators of one block, from a product that makes scores on; gives the state behind it."""
        found = self.found
        local = dict.fromkeys(product.inputs[:1], product.inputs[0]) if self.held else dict[str, str]()
        extents = [ranges[at][1] - ranges[at][0] if at in ranges else size for at, size in enumerate(self.shape)]
        dims = [Dim(f"d{at}", size, DimKind.PARALLEL) for at, size in enumerate(extents)]
        row_axes = [at for at in range(len(dims)) if at != found.keys]
        rows = tuple(dims[at] for at in row_axes)
        by_row = tuple(Axis(((at, 1),)) for at in range(len(rows)))
        in_row = tuple(Axis(((at, 1),)) for at in row_axes)  # of loops over whole rows of scores
        everywhere = tuple(Axis(((at, 1),)) for at in range(len(dims)))
        reduced = tuple(
            replace(dim, kind=DimKind.REDUCTION) if at == found.keys else dim for at, dim in enumerate(dims)
        )
        scores = ""
        for op in (product, *found.chain[1:]):
            scores = self._tensor(op.outputs[0], extents, self.graph.tensors[op.outputs[0]].dtype)
            self._add(_part(op, op.writes[0], ranges, {**local, op.outputs[0]: scores}))
            local[op.outputs[0]] = scores
        name, shape = found.softmax.name, [dim.extent for dim in rows]
        read = Access(scores, everywhere)
        largest = self._made(f"{name}.max", "reduce_max", reduced, (read,), in_row, shape, self.dtype)
        wide, end = DType.FLOAT32, self.columns + 1
        kept = None if before is None else Access(before, (*by_row, Axis((), end)))
        if kept is not None:
            reads = Access(largest, by_row), kept
            largest = self._made(f"{name}.running", "max", rows, reads, by_row, shape, self.dtype)
        reads = read, Access(largest, in_row)
        weights = self._made(f"{name}.exp", "exp_difference", tuple(dims), reads, everywhere, extents, self.dtype)
        weighed = Access(weights, everywhere)
        total = self._made(f"{name}.sum", "reduce_sum", reduced, (weighed,), in_row, shape, wide)
        products = self._product(ranges, weights, row_axes, shape)
        added: tuple[Access, ...] = ()
        if kept is not None and before is not None:
            reads = kept, Access(largest, by_row)
            factor = self._made(f"{name}.factor", "exp_difference", rows, reads, by_row, shape, wide)
            added = Access(before, (*by_row, Axis(((len(rows), 1),)))), Access(factor, by_row)
        loops = (*rows, Dim("e", self.columns + STATE_COLUMNS, DimKind.WHOLE))
        columns = (*by_row, Axis(((len(rows), 1),)))
        reads = Access(products, columns), Access(total, by_row), Access(largest, by_row), *added
        shape = [*shape, self.columns + STATE_COLUMNS]
        return self._made(f"{name}.state", CARRY, loops, reads, columns, shape, wide)

    def _product(
        self, ranges: Mapping[int, tuple[int, int]], weights: str, row_axes: Sequence[int], shape: Sequence[int]
    ) -> str:
        """A block of weights times the values, by row and column."""
        op = self.found.context
        name = self._tensor(op.outputs[0], [*shape, self.columns], DType.FLOAT32)
        axes = (*(op.reads[0].axes[at] for at in row_axes), Axis(((self.column, 1),)))
        write = replace(op, writes=(Access(name, axes),), attributes=_block_of(op))
        self._add(_part(write, op.reads[0], ranges, {op.reads[0].tensor: weights, name: name}))
        return name

    def _divided(self, ranges: Mapping[int, tuple[int, int]], state: str) -> None:
        """The sums of products by those of the exponentials, where the product behind the softmax writes."""
        op, found = self.found.context, self.found
        summed = set(roles(op).k)
        cut = _part(op, op.reads[0], ranges, {})
        left = [dim for dim in range(len(op.dims)) if dim not in summed]
        number = {dim: at for at, dim in enumerate(left)}

        def moved(axes: Sequence[Axis]) -> tuple[Axis, ...]:
            return tuple(replace(axis, terms=tuple((number[dim], by) for dim, by in axis.terms)) for axis in axes)

        in_row = moved([axis for at, axis in enumerate(op.reads[0].axes) if at != found.keys])
        self._add(
            Operator(
                op.name,
                "div",
                tuple(cut.dims[dim] for dim in left),
                (
                    Access(state, (*in_row, Axis(((number[self.column], 1),)))),
                    Access(state, (*in_row, Axis((), self.columns))),
                ),
                (Access(op.outputs[0], moved(cut.writes[0].axes)),),
            )
        )

    def _made(
        self,
        name: str,
        kind: str,
        dims: tuple[Dim, ...],
        reads: tuple[Access, ...],
        axes: tuple[Axis, ...],
        shape: Sequence[int],
        dtype: DType,
    ) -> str:
        """Add an operator; gives the tensor that it makes."""
        tensor = self._tensor(name, shape, dtype)
        self._add(Operator(name, kind, dims, reads, (Access(tensor, axes),)))
        return tensor

    def _tensor(self, like: str, shape: Sequence[int], dtype: DType) -> str:
        name = fresh_name(f"{like}{self.suffix}", self.tensors)
        self.tensors[name] = Tensor(name, tuple(shape), dtype, tuple(range(len(shape))))
        return name

    def _add(self, op: Operator) -> None:
        name = fresh_name(f"{op.name}{self.suffix}", self.taken)
        self.taken.add(name)
        self.made.append(replace(op, name=name))


def _block_of(op: Operator) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The attributes of a block of a product."""
    shape = product_shape(op, op.whole)
    return ((BLOCK_OF, (shape.groups, shape.m, shape.k, shape.n)),)


def _part(op: Operator, along: Access, ranges: Mapping[int, tuple[int, int]], local: Mapping[str, str]) -> Operator:
    """An operator with ranges of the axes of one of its accesses; `local` are tensors that hold only what it has."""
    span = {along.axes[at].terms[0][0]: one for at, one in ranges.items() if along.axes[at].terms}

    def moved(access: Access) -> Access:
        if access.tensor in local:
            return replace(access, tensor=local[access.tensor])
        return replace(
            access,
            axes=tuple(
                replace(axis, offset=axis.offset + sum(by * span[dim][0] for dim, by in axis.terms if dim in span))
                for axis in access.axes
            ),
        )

    dims = tuple(
        replace(dim, extent=span[at][1] - span[at][0]) if at in span else dim for at, dim in enumerate(op.dims)
    )
    return replace(op, dims=dims, reads=tuple(map(moved, op.reads)), writes=tuple(map(moved, op.writes)))


def ends_of_blocks(graph: Graph) -> frozenset[str]:
    """Operators behind which a kernel ends: those that hand a state to the next block."""
    return frozenset(
        op.name
        for op in graph.operators
        if op.kind == CARRY and any(reader.kind == CARRY for reader in graph.consumers.get(op.outputs[0], ()))
    )
