"""Convolutions and matrix products: implicit products of blocks, and sums element by element where there is no block.

A product whose first operand is computed by the same kernel is a fused pair: that operand never leaves the chip. Where
it is a softmax, its rows stream past with a running maximum and a running sum (Dao et al., FlashAttention, NeurIPS
2022, algorithm 1, with one division at the end).
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeAlias

from tilestitch.backends.triton import functions, integers
from tilestitch.backends.triton.blocks import axes_of, by_stride, lanes, unflattened, with_dims
from tilestitch.backends.triton.code import Value
from tilestitch.backends.triton.index import Index, Var, along, of_var
from tilestitch.backends.triton.values import Emitter, Frame, Unfused, pieces, span
from tilestitch.base.dtypes import DType
from tilestitch.ir.graph import Access, DimKind, Operator
from tilestitch.ops.contraction import KINDS, Roles, roles

LEAST = 16  # of every extent of a product of blocks: the smallest that tensor cores take
LONG = 128  # terms of a sum that is no longer added up element by element in a fused kernel
Term: TypeAlias = Callable[[list[Index]], Value]
HELD = 256  # terms of a sum that lie between two other products, and are held at once
UNROLLED = 9  # turns of a loop that is written out by Triton


def product(e: Emitter, op: Operator, dims: Sequence[Index], frame: Frame) -> Value:
    """A block of a convolution or a matrix product, with its bias."""
    found = roles(op)
    block = _as_block(e, op, found, dims, frame)
    result = _added_up(e, op, dims, frame) if block is None else block
    return integers.finished(e, op, dims, frame, result)


def _as_block(e: Emitter, op: Operator, found: Roles, dims: Sequence[Index], frame: Frame) -> Value | None:
    """The product by blocks, where rows of the block are rows of one operand, and columns those of the other."""
    floats = all(e.graph.tensors[access.tensor].dtype.is_float for access in op.reads[:2])
    known = floats or integers.are_bytes(e, op)
    if len(frame) != 2 or not known or axes_of(dims, found.batch) or not is_large(op, found):
        return None
    m, n = axes_of(dims, found.m), axes_of(dims, found.n)
    if m <= {0} and n <= {1}:
        return _by_blocks(e, op, dims, frame, op.reads[0], op.reads[1])
    if m <= {1} and n <= {0}:
        return _by_blocks(e, op, dims, frame, op.reads[1], op.reads[0])
    return None


def is_large(op: Operator, found: Roles) -> bool:
    """Whether a product by blocks does not waste most of them: not so a depthwise convolution."""

    def size(dims: Sequence[int]) -> int:
        return prod(op.dims[dim].extent for dim in dims)

    return (size(found.m) > 1 and size(found.n) > 1) or size(found.k) > 64


def _by_blocks(e: Emitter, op: Operator, dims: Sequence[Index], frame: Frame, first: Access, second: Access) -> Value:
    again = next((one for one in e.chain(second.tensor) if one.kind in e.rules), None)
    if again is not None:
        raise Unfused(f"{again.name} would be computed for every block of rows of {op.name}")
    reduced = by_stride(e, first, roles(op).k)
    count = prod(op.dims[dim].extent for dim in reduced)
    block = depth_of(e, op, count, first)
    size = e.size("block_k", block)
    softmax = e.inside.get(first.tensor)
    if softmax is not None and softmax.kind == "softmax":
        return _streamed(e, op, dims, frame, (first, second), size)
    sums = Sums(e, op, frame, swapped=first is not op.reads[0])

    def turn(start: str, depth: int) -> None:
        a, b = (
            _multiplied(e, op, dims, access, each, (start, size, count, depth, axis, reduced))
            for access, each, axis in ((first, (frame[0], size), 1), (second, (size, frame[1]), 0))
        )
        sums.add(a, b)

    with e.asked(op, turns=pieces(count, block)):
        if block >= count:
            turn("", 0)
        else:
            start = e.code.name("k_start")
            with e.code.loop(f"for {start} in range(0, {count}, {size}):"):
                turn(start, e.code.depth)
    return sums.complete(count)


def depth_of(e: Emitter, op: Operator, count: int, first: Access | None = None) -> int:
    """Terms of a sum that one product of blocks takes: a power of two, of `count` terms in all.

    Of bytes tensor cores take twice as many at least. A result between two other products is held whole where it can
    be, since the first product is computed again for each of its parts.
    """
    least = 2 * LEAST if integers.are_bytes(e, op) else LEAST
    most = e.depth_of_sums
    before = _dense_before(e, op.reads[0] if first is None else first)
    if before is not None and any(_dense_before(e, access) is not None for access in before.reads[:2]):
        most = max(most, HELD)
    return min(max(span(count), least), most)


def _dense_before(e: Emitter, access: Access) -> Operator | None:
    """The product of the kernel that makes an operand; through a depthwise convolution the one before it."""
    before = next((op for op in e.chain(access.tensor) if op.kind in KINDS), None)
    if before is not None and not is_large(before, roles(before)):
        return _dense_before(e, before.reads[0])
    return before


class Sums:
    """A block of sums of products while it is added up: of floats in float32, of bytes exactly in int32."""

    def __init__(self, e: Emitter, op: Operator, frame: Frame, *, swapped: bool = False) -> None:
        """`swapped`: the rows of the block are those of the operator's second operand."""
        self._e, self._op, self._swapped = e, op, swapped
        self._kind = "int" if integers.are_bytes(e, op) else "float"
        e.sums += prod(e.sizes[size] for size in frame)
        self.acc = e.code.let("acc", f"tl.zeros(({', '.join(frame)}), dtype=tl.{self._kind}32)", e.code.depth)

    def add(self, a: Value, b: Value) -> None:
        """Add a product of two blocks, both as `multiplied` gives them."""
        exact = self._kind == "float" and product_type(self._e, self._op) is DType.FLOAT32
        self._e.code.line(f"{self.acc} += {dot(a, b, exact=exact)}")
        if self._kind == "int":
            integers.correct(self._e, self._op, self.acc, (a.name, b.name), swapped=self._swapped)

    def complete(self, terms: int) -> Value:
        """The sums, when all products are added."""
        e = self._e
        name = integers.complete(e, self._op, self.acc, terms) if self._kind == "int" else self.acc
        return Value(name, self._kind, frozenset({0, 1}), e.code.depth)


def product_type(e: Emitter, op: Operator) -> DType:
    """The floating type of both operands of a product."""
    found = {e.storage.dtype(e.graph.tensors[access.tensor].dtype) for access in op.reads[:2]}
    return DType.FLOAT32 if DType.FLOAT32 in found else e.storage.floats


def multiplied(e: Emitter, op: Operator, access: Access, value: Value) -> Value:
    """A block of an operand as products take it: signed bytes, or floats of the other operand's type."""
    dtype = e.graph.tensors[access.tensor].dtype
    if not dtype.is_float:
        return integers.signed(e, value, access.tensor)
    wanted = product_type(e, op)
    if e.storage.dtype(dtype) is wanted:
        return value
    return Value(e.code.let(value.name, f"{value.name}.to(tl.{wanted})", value.depth), "float", value.axes, value.depth)


def dot(a: Value, b: Value, *, exact: bool) -> str:
    """The product of two blocks; `exact`: operands in float32 are not rounded."""
    precision = ', input_precision="ieee"' if exact else ""
    return f"tl.dot({a.name}, {b.name}{precision})"


def _multiplied(e: Emitter, op: Operator, dims: Sequence[Index], access: Access, frame: Frame, part: tuple) -> Value:
    """A block of one operand: `part` says which of the sum, along which axis of the block, and in which loop."""
    start, size, count, depth, axis, reduced = part
    k = _terms(e, op, start, size, count, depth, axis)
    found = unflattened(e, k, op, reduced, op.whole)
    value = fetched(e, access, with_dims(dims, found), frame)
    value = multiplied(e, op, access, value)
    if not k.guards or (access.tensor not in e.inside and value.kind == "float"):
        return value
    return cut(e, value, k.guards[0].text)


def fetched(e: Emitter, access: Access, dims: Sequence[Index], frame: Frame) -> Value:
    """A block of an operand as it is stored; what a loop takes from memory is counted, as Triton fetches it ahead."""
    value = e.full(e.operand(access, dims, frame, raw=True), frame)
    if value.depth and access.tensor not in e.inside:
        dtype = e.storage.dtype(e.graph.tensors[access.tensor].dtype)
        e.fetched += prod(e.sizes[size] for size in frame) * dtype.size_bytes
    return value


def cut(e: Emitter, value: Value, guard: str) -> Value:
    """A block of an operand with zeros beyond the sum, where anything may have been computed."""
    zero = "0.0" if value.kind == "float" else "0"
    return Value(
        e.code.let(value.name, f"tl.where({guard}, {value.name}, {zero})"), value.kind, value.axes, e.code.depth
    )


def _terms(e: Emitter, op: Operator, start: str, size: str, count: int, depth: int, axis: int) -> Index:
    return lanes(e, "k" if axis else "k_down", size, count, start=start, axis=axis, depth=depth)


def _streamed(
    e: Emitter, op: Operator, dims: Sequence[Index], frame: Frame, operands: tuple[Access, Access], size: str
) -> Value:
    """The product of a softmax and a matrix, block after block of the softmax's rows."""
    first, second = operands
    softmax, reduced = e.inside[first.tensor], roles(op).k
    count = prod(op.dims[dim].extent for dim in reduced)
    whole = [number for number, dim in enumerate(softmax.dims) if dim.kind is DimKind.WHOLE]
    code, shape = e.code, ", ".join(frame)
    e.sums += prod(e.sizes[size] for size in frame)
    acc = code.let("acc", f"tl.zeros(({shape}), dtype=tl.float32)", code.depth)
    largest = code.let("largest", f'tl.full(({frame[0]}, 1), float("-inf"), dtype=tl.float32)', code.depth)
    below = code.let("total", f"tl.zeros(({frame[0]}, 1), dtype=tl.float32)", code.depth)
    start = code.name("k_start")
    parts = pieces(count, e.sizes[size])
    with e.asked(op, turns=parts), code.loop(f"for {start} in range(0, {count}, {size}):"):
        k = _terms(e, op, start, size, count, code.depth, 1)
        at = with_dims(dims, unflattened(e, k, op, reduced, op.whole))
        inside = e.solved(softmax.writes[0], [along(axis, at) for axis in first.axes], softmax)
        if len(whole) != 1 or inside[whole[0]] != k:
            raise Unfused(f"{op.name} does not add up along the rows of {softmax.name}")
        row_frame = (frame[0], size)
        scores = e.full(e.operand(softmax.reads[0], inside, row_frame), row_frame)
        text = scores.name
        if k.guards:
            text = code.let("scores", f'tl.where({k.guards[0].text}, {text}, float("-inf"))')
        new = code.let("new_largest", f"tl.maximum({largest}, tl.max({text}, axis=1, keep_dims=True))")
        known = code.let("finite", f'tl.where({new} == float("-inf"), 0.0, {new})')
        share = code.let("share", f"tl.exp({text} - {known})")
        fade = code.let("fade", f"tl.exp({largest} - {known})")
        code.line(f"{below} = {below} * {fade} + tl.sum({share}, axis=1, keep_dims=True)")
        low = e.stored(Value(share, "float", frozenset({0, 1}), code.depth), first.tensor)
        down = _terms(e, op, start, size, count, code.depth, 0)
        rows = with_dims(dims, unflattened(e, down, op, reduced, op.whole))
        down_frame = (size, frame[1])
        b = fetched(e, second, rows, down_frame)
        exact = e.storage.floats is DType.FLOAT32
        code.line(f"{acc} = {acc} * {fade} + {dot(low, b, exact=exact)}")
        code.line(f"{largest} = {new}")
    name = code.let(op.outputs[0], f"{acc} / {below}", code.depth)
    return Value(name, "float", frozenset({0, 1}), code.depth)


def _added_up(e: Emitter, op: Operator, dims: Sequence[Index], frame: Frame) -> Value:
    """A sum of products for every element by itself, as in depthwise convolutions."""
    reduced = by_stride(e, op.reads[0], roles(op).k)
    count = prod(op.dims[dim].extent for dim in reduced)
    if (count > LONG or is_large(op, roles(op))) and not e.slowly:
        raise Unfused(f"{op.name} is no product of blocks there, and its sums have {count:,} terms")

    inner = next((one for access in op.reads[:2] for one in e.chain(access.tensor) if one.kind in KINDS), None)
    if inner is not None:
        raise Unfused(f"{inner.name} would be computed for every term of the sums of {op.name}")

    def term(at: list[Index]) -> Value:
        a, b = (e.operand(access, at, frame) for access in op.reads[:2])
        depth = max(a.depth, b.depth)
        first, second = (
            f"({one.name} - {functions.bracketed(str(zero))})" if zero else one.name
            for one, zero in zip((a, b), integers.zeros(op), strict=True)
        )
        return Value(e.code.let("term", f"{first} * {second}", depth), a.kind, a.axes | b.axes, depth)

    return over(e, op, dims, frame, reduced, term, "{0} + {1}", "0")


def over(
    e: Emitter,
    op: Operator,
    dims: Sequence[Index],
    frame: Frame,
    reduced: Sequence[int],
    term: Term,
    step: str,
    first: str,
) -> Value:
    """Combine a term of every iteration of some dims, one after another, beginning with `first`.

    `step` says how, with the result so far as {0} and the term as {1}.
    """
    count = prod(op.dims[dim].extent for dim in reduced)
    others = [number for number in range(len(op.dims)) if number not in reduced]
    axes, code = axes_of(dims, others), e.code
    if count == 1:
        return term([Index() if number in reduced else index for number, index in enumerate(dims)])
    kind = "float" if e.graph.tensors[op.reads[0].tensor].dtype.is_float else "int"
    shape = ", ".join(size if axis in axes else "1" for axis, size in enumerate(frame))
    shape = f"({shape},)" if len(frame) == 1 else f"({shape})"
    result = code.let("result", f"tl.full({shape}, {first}, dtype=tl.{kind}32)", code.depth)
    turn, loop = code.name("turn"), "tl.static_range" if count <= UNROLLED else "range"
    with code.loop(f"for {turn} in {loop}({count}):"):
        flat = of_var(Var(turn, 0, count - 1, depth=code.depth))
        found = term(with_dims(dims, unflattened(e, flat, op, reduced, op.whole)))
        code.line(f"{result} = {step.format(result, found.name)}")
    full = frozenset(range(len(frame)))
    return Value(result, kind, axes if len(axes) < len(frame) else full, code.depth)
