"""Pooling, reductions, softmax and normalisations: a window element by element, or a whole row in one block."""

from collections.abc import Callable, Sequence
from math import prod

from tilestitch.backends.triton import functions
from tilestitch.backends.triton.blocks import axes_of, by_stride, lanes, unflattened, with_dims
from tilestitch.backends.triton.code import Value
from tilestitch.backends.triton.index import Index
from tilestitch.backends.triton.products import over
from tilestitch.backends.triton.values import Emitter, Frame, Unfused, span
from tilestitch.ir.graph import DimKind, Operator

WINDOW = 64  # elements that are combined one after another; more are a row
LONGEST_ROW = 65_536  # elements of a row that one block holds
_MINUS = 'float("-inf")'
_WHOLE_NUMBERS = {_MINUS: str(-(2**31)), 'float("inf")': str(2**31 - 1), "0.0": "0"}  # what changes no other of them
# How two numbers are combined, what a row is combined by, and what changes no other.
STEPS = {
    "max_pool": ("tl.maximum({0}, {1})", "tl.max", _MINUS),
    "reduce_max": ("tl.maximum({0}, {1})", "tl.max", _MINUS),
    "reduce_min": ("tl.minimum({0}, {1})", "tl.min", 'float("inf")'),
    "reduce_sum": ("{0} + {1}", "tl.sum", "0.0"),
    "reduce_mean": ("{0} + {1}", "tl.sum", "0.0"),
    "average_pool": ("{0} + {1}", "tl.sum", "0.0"),
    "lrn": ("{0} + {1} * {1}", "", "0.0"),
}
OF_INTEGERS = frozenset(("max_pool", "reduce_max", "reduce_min", "reduce_sum"))
WHOLE = frozenset(("softmax", "log_softmax", "layer_norm", "rms_norm"))


def is_row(op: Operator) -> bool:
    """Whether it takes whole rows at once."""
    return op.kind in WHOLE or (op.kind in STEPS and _terms(op) > WINDOW and op.kind != "lrn")


def reduced(e: Emitter, op: Operator, dims: Sequence[Index], frame: Frame) -> Value:
    """A reduction or a window."""
    order = by_stride(e, op.reads[0], _dims(op, DimKind.REDUCTION))
    step, function, neutral = STEPS[op.kind]
    if not e.graph.tensors[op.reads[0].tensor].dtype.is_float:
        if op.kind not in OF_INTEGERS:
            raise Unfused(f"{op.name} ({op.kind}) reduces integers, which the Triton back end does not")
        neutral = _WHOLE_NUMBERS[neutral]
    others = [number for number in range(len(op.dims)) if number not in order]
    if is_row(op) and _terms(op) <= LONGEST_ROW and len(frame) == 2 and axes_of(dims, others) <= {0}:
        value = _row(e, op, dims, frame, order, function, neutral)
    elif is_row(op) and not e.slowly:
        raise Unfused(f"{op.name} needs whole rows, which the kernel does not have")
    else:
        value = over(e, op, dims, frame, order, lambda at: e.operand(op.reads[0], at, frame), step, neutral)
    return _finished(e, op, dims, frame, value)


def _finished(e: Emitter, op: Operator, dims: Sequence[Index], frame: Frame, value: Value) -> Value:
    """What becomes of the combined elements."""
    if op.kind == "lrn":
        return _local_response(e, op, dims, frame, value)
    if len(op.reads) > 1:  # an average whose padding does not count: one over the elements that do
        factor = e.operand(op.reads[1], dims, frame)
        text, others = f"{value.name} * {factor.name}", factor
    elif op.kind in ("reduce_mean", "average_pool"):
        text, others = f"{value.name} / {_terms(op)}", value
    else:
        return value
    depth = max(value.depth, others.depth)
    return Value(e.code.let(op.outputs[0], text, depth), "float", value.axes | others.axes, depth)


def _local_response(e: Emitter, op: Operator, dims: Sequence[Index], frame: Frame, squares: Value) -> Value:
    """x / (bias + alpha * mean w^2)^beta; positive, so that a power is an exponential of a logarithm."""
    x = e.operand(op.reads[1], dims, frame)
    alpha, beta, bias = (float(op.attribute(name)) for name in ("alpha", "beta", "bias"))  # type: ignore[arg-type]
    depth = max(x.depth, squares.depth)
    share = e.code.let("share", f"{bias!r} + {alpha / _terms(op)!r} * {squares.name}", depth)
    text = f"{x.name} * tl.exp({-beta!r} * tl.log({share}))"
    return Value(e.code.let(op.outputs[0], text, depth), "float", x.axes | squares.axes, depth)


def _row(
    e: Emitter, op: Operator, dims: Sequence[Index], frame: Frame, order: Sequence[int], function: str, neutral: str
) -> Value:
    count = _terms(op)
    size = e.size("block_k", span(count))
    k = lanes(e, "k", size, count, axis=1)
    inner = (frame[0], size)
    value = e.full(e.operand(op.reads[0], with_dims(dims, unflattened(e, k, op, order, op.whole)), inner), inner)
    depth, text = value.depth, value.name
    if k.guards:
        text = e.code.let("row", f"tl.where({k.guards[0].text}, {text}, {neutral})", depth)
    name = e.code.let("combined", f"{function}({text}, axis=1, keep_dims=True)", depth)
    return Value(name, value.kind, frozenset({0}), depth)


def whole_rows(e: Emitter, op: Operator, dims: Sequence[Index], frame: Frame) -> Value:
    """A softmax or a normalisation, where the block holds its rows from the first element to the last."""
    rows = _dims(op, DimKind.WHOLE)
    moving = [dims[number] for number in rows if op.dims[number].extent > 1]
    others = [number for number in range(len(op.dims)) if number not in rows]
    if set(moving) != set(e.columns) or axes_of(dims, others) - {0}:
        raise Unfused(f"{op.name} needs whole rows, which the kernel does not have")
    x = e.full(e.operand(op.reads[0], dims, frame), frame)
    guards = dict.fromkeys(guard.text for index in moving for guard in index.guards)
    row = _Row(e, op, x.depth, " & ".join(guards))
    text = WRITTEN[op.kind](row, x.name, float(op.attribute("epsilon", 0.0)))  # type: ignore[arg-type]
    axes, depth = x.axes, x.depth
    for sign, access in zip("*+", op.reads[1:], strict=False):
        factor = e.operand(access, dims, frame)
        depth = max(depth, factor.depth)
        text = f"{e.code.let('scaled', text, depth)} {sign} {factor.name}"
    return Value(e.code.let(op.outputs[0], text, depth), "float", axes, depth)


class _Row:
    """Steps over whole rows, in which lanes beyond the end do not count."""

    def __init__(self, e: Emitter, op: Operator, depth: int, guard: str) -> None:
        self._code, self._depth, self._guard = e.code, depth, guard
        self.count = prod(op.dims[number].extent for number in _dims(op, DimKind.WHOLE))

    def let(self, name: str, text: str) -> str:
        return self._code.let(name, text, self._depth)

    def inside(self, text: str, neutral: str) -> str:
        return self.let("row", f"tl.where({self._guard}, {text}, {neutral})") if self._guard else text

    def total(self, name: str, text: str) -> str:
        return self.let(name, f"tl.sum({self.inside(text, '0.0')}, axis=1, keep_dims=True)")

    def largest(self, text: str) -> str:
        return self.let("largest", f"tl.max({self.inside(text, _MINUS)}, axis=1, keep_dims=True)")


def _softmax(row: _Row, x: str, epsilon: float) -> str:
    share = row.let("share", f"tl.exp({x} - {row.largest(x)})")
    return f"{share} / {row.total('total', share)}"


def _log_softmax(row: _Row, x: str, epsilon: float) -> str:
    shifted = row.let("shifted", f"{x} - {row.largest(x)}")
    share = row.let("share", f"tl.exp({shifted})")
    return f"{shifted} - tl.log({row.total('total', share)})"


def _layer_norm(row: _Row, x: str, epsilon: float) -> str:
    mean = row.let("mean", f"{row.total('total', x)} / {row.count}")
    centred = row.let("centred", f"{x} - {mean}")
    squares = row.let("squares", f"{centred} * {centred}")
    variance = row.let("variance", f"{row.total('total', squares)} / {row.count}")
    return f"{centred} / tl.sqrt({variance} + {functions.number(epsilon)})"


def _rms_norm(row: _Row, x: str, epsilon: float) -> str:
    squares = row.let("squares", f"{x} * {x}")
    mean = row.let("mean", f"{row.total('total', squares)} / {row.count}")
    return f"{x} / tl.sqrt({mean} + {functions.number(epsilon)})"


WRITTEN: dict[str, Callable[[_Row, str, float], str]] = {
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
}


def _dims(op: Operator, kind: DimKind) -> list[int]:
    return [number for number, dim in enumerate(op.dims) if dim.kind is kind]


def _terms(op: Operator) -> int:
    return prod(dim.extent for dim in op.dims if dim.kind is DimKind.REDUCTION)
