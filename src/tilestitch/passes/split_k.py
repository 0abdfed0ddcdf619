"""Products in parts of their reduction (split-K), each right behind what makes its part of the first operand.

Such as the two products of a perceptron: the second adds up over hidden channels, which the first one makes. Of these
no more than one part is there at a time. What a part comes to is float32, as in any product, and is added to the sum of
those before it, which waits in the type of the result. All of this are ordinary operators and tensors, so that tiles,
places, waits, prices and bounds are those of any others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from tilestitch.base.dtypes import DType
from tilestitch.base.errors import InputError, printable
from tilestitch.base.units import ceil_div
from tilestitch.ir.graph import Access, Axis, Dim, DimKind, Graph, Operator, Tensor
from tilestitch.ir.region import pieces
from tilestitch.ir.rewriting import SplitK
from tilestitch.ops import is_contraction, is_elementwise
from tilestitch.ops.contraction import product_shape, roles
from tilestitch.ops.partial_sums import PARTIAL, is_partial_sum
from tilestitch.ops.streaming import BLOCK_OF
from tilestitch.passes.fold import drop_unused, fresh_name

_FLOATS = frozenset({DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32})

# A network, and which of its operators do the work of each that was there before.
Split = tuple[Graph, Mapping[str, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class Reduction:
    """A product, the loop over the channels that it adds up, and the operators that make these channel by channel."""

    product: Operator
    loop: int
    makers: tuple[tuple[Operator, int], ...]  # in the order of the network, each with its loop over the channels
    channels: int

    @property
    def hidden(self) -> str:
        """What the product adds up."""
        return self.product.reads[0].tensor

    @property
    def result(self) -> str:
        """What the product comes to."""
        return self.product.outputs[0]


def reduction_of(graph: Graph, product: Operator) -> Reduction | None:
    """What a product adds up, where it can run in parts of that; None of any other operator.

    Its channels are made by another product, and by what follows that channel by channel; nobody else reads them.
    """
    if not is_plain_product(graph, product) or product.reads[0].tensor in product.inputs[1:]:
        return None
    shape = graph.tensors[product.reads[0].tensor].shape
    for loop in roles(product).k:
        axis = _axis_of(product, product.reads[0], loop, shape)
        apart = all(loop not in read.dims for read in product.reads[2:])
        if axis is None or not apart or loop not in product.reads[1].dims:
            continue
        makers = _makers(graph, product, axis)
        if any(is_contraction(op) for op, _ in makers):
            return Reduction(product, loop, makers, shape[axis])
    return None


def _makers(graph: Graph, product: Operator, axis: int) -> tuple[tuple[Operator, int], ...]:
    """The operators that can make one part after another of what a product reads, in the order of the network."""
    cut = {product.reads[0].tensor: axis}  # tensors of which a part is made at a time, and along which axis
    inside = {product.name}
    found: list[tuple[Operator, int]] = []
    left: list[int] = []  # a heap of what makes such tensors, the last of the network first
    _ask_makers(graph, product.reads[0].tensor, left)
    while left:
        op = graph.operators[-heappop(left)]
        loop = _loop_of(graph, op, cut)
        if loop is None or any(reader.name not in inside for reader in graph.consumers[op.outputs[0]]):
            continue
        inside.add(op.name)
        found.append((op, loop))
        for read in op.reads:
            along = _axis_of(op, read, loop, graph.tensors[read.tensor].shape)
            if along is not None and read.tensor not in cut:
                _ask_makers(graph, read.tensor, left)
            if along is not None and cut.setdefault(read.tensor, along) != along:
                return ()
    return tuple(reversed(found))


def _ask_makers(graph: Graph, tensor: str, left: list[int]) -> None:
    """Add the operators that write a tensor to a heap of such, by their place in the network from behind."""
    for op in graph.producers.get(tensor, ()):
        heappush(left, -graph.position[op.name])


def _loop_of(graph: Graph, op: Operator, cut: Mapping[str, int]) -> int | None:
    """The loop over the channels of an operator that can make a part of them; None where it cannot."""
    name = op.outputs[0]
    if len(op.writes) != 1 or len(graph.producers[name]) != 1 or name in graph.outputs:
        return None
    if not (is_elementwise(op) or is_plain_product(graph, op)) or graph.tensors[name].dtype not in _FLOATS:
        return None
    terms = op.writes[0].axes[cut[name]].terms
    if len(terms) != 1 or any(read.indirect_axis is not None for read in op.reads):
        return None
    loop = terms[0][0]
    if op.dims[loop].kind is not DimKind.PARALLEL:
        return None
    if _axis_of(op, op.writes[0], loop, graph.tensors[name].shape) != cut[name]:
        return None
    plain = all(
        loop not in read.dims or _axis_of(op, read, loop, graph.tensors[read.tensor].shape) is not None
        for read in op.reads
    )
    return loop if plain else None


def _axis_of(op: Operator, access: Access, loop: int, shape: Sequence[int]) -> int | None:
    """The axis that a loop alone moves from end to end; None where there is no such, or others are moved by it too."""
    moved = [at for at, axis in enumerate(access.axes) if any(dim == loop for dim, _ in axis.terms)]
    if len(moved) != 1:
        return None
    (at,) = moved
    whole = access.axes[at] == Axis(((loop, 1),)) and op.dims[loop].extent == shape[at]
    return at if whole else None


def is_plain_product(graph: Graph, op: Operator) -> bool:
    """Whether an operator is a product of floats, and nothing but that."""
    floats = all(graph.tensors[name].dtype in _FLOATS for name in (*op.inputs, *op.outputs))
    return is_contraction(op) and floats and not op.attributes and len(op.writes) == 1


def with_split_k(graph: Graph, splits: Sequence[SplitK]) -> Split:
    """The same network, of which views are composed away, with some products in parts of their reduction.

    Operators of a part are named `<operator>.<number of the part>`; what adds the last one has the name of the product.
    Raises `InputError` for what is no product of what another one makes, and for parts that it does not have.
    """
    became: dict[str, tuple[str, ...]] = {op.name: (op.name,) for op in graph.operators}
    for split in splits:
        found = reduction_of(graph, graph.by_name[split.operator]) if split.operator in graph.by_name else None
        if found is None:
            raise InputError(
                f"split_k of {printable(split.operator)}: expected a product of floats that adds up channels which "
                "another product makes, and which nobody else reads"
            )
        if not 2 <= split.parts <= found.channels:
            raise InputError(
                f"split_k of {printable(split.operator)}: {split.parts} parts; expected 2 to {found.channels}"
            )
        graph, own = _Parts(graph, found).split(split.parts)
        became.update(own)
    return graph, became


class _Parts:
    """One product as it is cut: operators and tensors so far."""

    def __init__(self, graph: Graph, found: Reduction) -> None:
        self.graph, self.found = graph, found
        self.tensors = dict(graph.tensors)
        self.taken = {op.name for op in graph.operators} - {found.product.name}
        self.made: list[Operator] = []
        self.became: dict[str, list[str]] = {op.name: [] for op in (*(op for op, _ in found.makers), found.product)}

    def split(self, parts: int) -> Split:
        """The network with so many parts, and the operators that do the work of those that were cut."""
        found, product = self.found, self.found.product
        spans = pieces(0, found.channels, ceil_div(found.channels, parts))
        before: str | None = None
        for number, span in enumerate(spans):
            local: dict[str, str] = {}
            for op, loop in found.makers:
                made = self._tensor(op.outputs[0], number, _shortened(self.graph, op, loop, span))
                self._add(op, number, _part(op, loop, span, local | {op.outputs[0]: made}))
                local[op.outputs[0]] = made
            is_last = number == len(spans) - 1
            whole = product if is_last else replace(product, reads=product.reads[:2])
            wide = None if before is None else DType.FLOAT32  # what is added up at once is not rounded before
            name = self._tensor(product.outputs[0], number, self.graph.tensors[product.outputs[0]].shape, wide)
            self._add(product, number, _part(whole, found.loop, span, local | {product.outputs[0]: name}))
            if before is not None:
                added = product.outputs[0] if is_last else self._sum(number)
                self._add_up(before, name, added, number, is_last=is_last)
                name = added
            before = name
        cut = set(self.became)
        operators: list[Operator] = []
        for op in self.graph.operators:
            if op.name == product.name:
                operators += self.made
            elif op.name not in cut:
                operators.append(op)
        changed = drop_unused(replace(self.graph, operators=tuple(operators), tensors=self.tensors))
        return changed, {name: tuple(names) for name, names in self.became.items()}

    def _add(self, op: Operator, number: int, part: Operator) -> None:
        """Add a part of an operator; a product says of which one it is a part."""
        attributes = op.attributes
        if is_contraction(op):
            shape = product_shape(op, op.whole)
            attributes = ((BLOCK_OF, (shape.groups, shape.m, shape.k, shape.n)),)
        self._named(replace(part, attributes=attributes), f"{op.name}.{number}", op.name)

    def _add_up(self, before: str, part: str, result: str, number: int, *, is_last: bool) -> None:
        """Add what a part comes to, to the sum of those before it."""
        product, shape = self.found.product, self.graph.tensors[self.found.product.outputs[0]].shape
        axes = tuple(Axis(((at, 1),)) for at in range(len(shape)))
        dims = tuple(Dim(f"d{at}", size, DimKind.PARALLEL) for at, size in enumerate(shape))
        reads = Access(before, axes), Access(part, axes)
        op = Operator("", "add", dims, reads, (Access(result, axes),), ((PARTIAL, 1),))
        self._named(op, product.name if is_last else f"{product.name}.sum.{number}", product.name)

    def _named(self, op: Operator, name: str, of: str) -> None:
        name = fresh_name(name, self.taken)
        self.taken.add(name)
        self.made.append(replace(op, name=name))
        self.became[of].append(name)

    def _sum(self, number: int) -> str:
        """A tensor for the sum of the parts up to one."""
        result = self.found.product.outputs[0]
        return self._tensor(f"{result}.sum", number, self.graph.tensors[result].shape)

    def _tensor(self, like: str, number: int, shape: Sequence[int], dtype: DType | None = None) -> str:
        name = fresh_name(f"{like}.{number}", self.tensors)
        whole = self.tensors.get(like, self.tensors[self.found.product.outputs[0]])
        self.tensors[name] = Tensor(name, tuple(shape), dtype or whole.dtype, whole.layout)
        return name


def _shortened(graph: Graph, op: Operator, loop: int, span: tuple[int, int]) -> tuple[int, ...]:
    """The shape of a part of what an operator writes."""
    shape = graph.tensors[op.outputs[0]].shape
    cut = _axis_of(op, op.writes[0], loop, shape)
    return tuple(span[1] - span[0] if at == cut else size for at, size in enumerate(shape))


def _part(op: Operator, loop: int, span: tuple[int, int], local: Mapping[str, str]) -> Operator:
    """An operator with a range of one loop; `local` are tensors that hold no more than that of what they stand for."""

    def moved(access: Access) -> Access:
        if access.tensor in local:
            return replace(access, tensor=local[access.tensor])
        axes = (
            replace(axis, offset=axis.offset + sum(by * span[0] for dim, by in axis.terms if dim == loop))
            for axis in access.axes
        )
        return replace(access, axes=tuple(axes))

    dims = tuple(replace(dim, extent=span[1] - span[0]) if at == loop else dim for at, dim in enumerate(op.dims))
    return replace(op, dims=dims, reads=tuple(map(moved, op.reads)), writes=tuple(map(moved, op.writes)))


def ends_of_parts(graph: Graph) -> frozenset[str]:
    """Operators behind which a kernel ends: those that hand a sum of parts to the next one."""
    return frozenset(
        maker.name
        for op in graph.operators
        if is_partial_sum(op)
        for maker in graph.producers.get(op.reads[0].tensor, ())
    )
