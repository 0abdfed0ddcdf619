"""Networks with QuantizeLinear and DequantizeLinear: arithmetic on the integers, wherever it means the same.

Between a DequantizeLinear and the next QuantizeLinear a file computes in floating point. Where that is a movement of
data or a maximum, it is done to the integers; where it is a convolution or a matrix product, perhaps with a bias and a
ReLU, it becomes one product of integers whose complete sums are rescaled and quantised. Everything else stays as it is
written: real arithmetic between a `dequantize` and a `quantize`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tilestitch.base.dtypes import DType
from tilestitch.base.storage import STORAGE
from tilestitch.ir.graph import Access, Attribute, Axis, Dim, DimKind, Graph, Operator, Tensor
from tilestitch.ops import RULES, is_contraction, is_view
from tilestitch.ops.views import by_dims
from tilestitch.passes.fold import drop_unused, fresh_name, is_expanding

_FIRST = frozenset({DType.INT8, DType.UINT8})  # what a matrix unit multiplies, by
_SECOND = _FIRST | {DType.INT4, DType.UINT4, DType.INT2, DType.UINT2}  # these, which are stored in bytes
_MOVING = frozenset({"gather", "max_pool"})  # besides views

Attributes = tuple[tuple[str, Attribute], ...]


@dataclass(frozen=True, slots=True)
class _Steps:
    """How integers stand for real numbers, `(integer - zero) * scale`; the scale differs along `axis` if not None."""

    scale: np.ndarray  # of one axis
    zero: int
    axis: int | None

    def same(self, other: "_Steps") -> bool:
        one_step = self.axis is None and other.axis is None
        return one_step and self.zero == other.zero and np.array_equal(self.scale, other.scale)


@dataclass(frozen=True, slots=True)
class _Quantised:
    """A real tensor that is known as integers."""

    tensor: str
    dtype: DType
    steps: _Steps

    def same(self, other: "_Quantised") -> bool:
        """Whether equal integers stand for equal numbers."""
        return self.dtype is other.dtype and self.steps.same(other.steps)


def quantised_arithmetic(graph: Graph) -> Graph:
    """The graph with products of integers for products of what was dequantised."""
    if not any(op.kind in ("dequantize", "quantize") for op in graph.operators):
        return graph
    return _fold_dequantised(drop_unused(_Rewriting(graph).rewritten()))


class _Rewriting:
    """The graph while it is rewritten, operator by operator; a dequantised tensor is written when somebody reads it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.tensors, self.constants = dict(graph.tensors), dict(graph.constants)
        self.operators: list[Operator] = []
        self.quantised: dict[str, _Quantised] = {}
        self.dequantisations: dict[str, Operator] = {}  # per real tensor the operator that would write it
        self.written: set[str] = set()  # those of them that somebody has needed
        self.absorbed: set[str] = set()

    def rewritten(self) -> Graph:
        for op in self.graph.operators:
            if op.name in self.absorbed:
                continue
            if not (self._dequantised(op) or self._requantised(op) or self._moved(op) or self._multiplied(op)):
                for name in op.inputs:
                    self._write(name)
                self.operators.append(op)
        for name in self.graph.outputs:
            self._write(name)
        return replace(self.graph, operators=tuple(self.operators), tensors=self.tensors, constants=self.constants)

    def _write(self, name: str) -> None:
        """Append the dequantisation that a tensor needs, once."""
        if name in self.dequantisations and name not in self.written:
            self.written.add(name)
            self.operators.append(self.dequantisations[name])

    # -- what becomes of one operator; each method says whether it has dealt with it

    def _dequantised(self, op: Operator) -> bool:
        """Remember what a dequantisation stands for, and leave it out for now."""
        steps = self._steps(op, "dequantize")
        source = op.reads[0].tensor
        if steps is None or self.tensors[source].dtype.is_float:
            return False
        name = op.writes[0].tensor
        self.quantised[name] = _Quantised(source, self.tensors[source].dtype, steps)
        self.dequantisations[name] = op
        return True

    def _requantised(self, op: Operator) -> bool:
        """Quantising what was dequantised in the same steps gives the integers that it was."""
        steps = self._steps(op, "quantize")
        source = self.quantised.get(op.reads[0].tensor)
        result = self.tensors[op.writes[0].tensor]
        if steps is None or source is None or not source.same(_Quantised(result.name, result.dtype, steps)):
            return False
        read = replace(op.reads[0], tensor=source.tensor)
        self.operators.append(Operator(op.name, "identity", op.dims, (read,), op.writes))
        return True

    def _moved(self, op: Operator) -> bool:
        """Move integers, or take their maximum, and dequantise them afterwards."""
        if op.kind not in _MOVING and (not is_view(op) or is_expanding(op)):
            return False
        data = len(op.reads) if is_view(op) else 1
        sources = [self.quantised.get(read.tensor) for read in op.reads[:data]]
        first = sources[0]
        if first is None or not all(source is not None and source.same(first) for source in sources):
            return False
        reads = []
        for read in op.reads:
            source = self.quantised[read.tensor] if len(reads) < data else None
            if source is None:
                self._write(read.tensor)
                reads.append(read)
            else:
                lowest = float(first.dtype.limits[0])  # what pads a maximum
                reads.append(replace(read, tensor=source.tensor, pad_value=lowest if op.kind == "max_pool" else 0.0))
        integers = {
            name: self._tensor(f"{name}.quantized", self.tensors[name].shape, first.dtype) for name in op.outputs
        }
        writes = tuple(replace(write, tensor=integers[write.tensor]) for write in op.writes)
        self.operators.append(replace(op, reads=tuple(reads), writes=writes))
        for name, tensor in integers.items():
            self.quantised[name] = replace(first, tensor=tensor)
            self.dequantisations[name] = self._dequantisation(name, tensor, first.steps)
        return True

    def _multiplied(self, op: Operator) -> bool:
        """One product of integers for a product of real numbers and what follows it."""
        if not is_contraction(op) or op.attribute("rescaled", 0) or op.attribute("corrected", 0):
            return False
        if op.attribute("zeros", ""):
            return self._rescaled(op)
        first, second = (self.quantised.get(read.tensor) for read in op.reads[:2])
        if first is None or second is None or first.steps.axis is not None:
            return False
        if first.dtype not in _FIRST or second.dtype not in _SECOND:
            return False
        factor, axis = first.steps.scale * second.steps.scale, second.steps.axis
        along = () if axis is None else (op.reads[1].axes[axis],)
        if any(dim not in op.writes[0].dims for index in along for dim, _ in index.terms):
            return False
        reads = [
            replace(op.reads[0], tensor=first.tensor, pad_value=float(first.steps.zero)),
            replace(op.reads[1], tensor=second.tensor),
        ]
        bias = (self._bias(op),) if len(op.reads) > 2 else ()
        zeros = ("zeros", (first.steps.zero, second.steps.zero))
        op = replace(op, reads=tuple(reads), attributes=(*op.attributes, zeros))
        self._finish(self._with_factor(op, factor, along, bias))
        return True

    def _rescaled(self, op: Operator) -> bool:
        """A product of integers and the dequantisation that alone reads its sums."""
        real = self._only_reader(op.writes[0].tensor)
        steps = None if real is None else self._steps(real, "dequantize")
        if real is None or steps is None or steps.zero != 0:
            return False
        along = () if steps.axis is None else (op.writes[0].axes[steps.axis],)
        biases = []
        for read in op.reads[2:]:
            bias = self.constants.get(read.tensor)
            if bias is None or (along and read.axes != along):
                return False
            biases.append(replace(read, tensor=self._real(f"{op.name}.bias", bias.astype(np.float32) * steps.scale)))
        self.absorbed.add(real.name)
        write = replace(op.writes[0], tensor=real.writes[0].tensor)
        op = replace(op, reads=op.reads[:2], writes=(write,))
        self._finish(self._with_factor(op, steps.scale, along, tuple(biases)))
        return True

    def _with_factor(
        self, op: Operator, factor: np.ndarray, along: tuple[Axis, ...], bias: tuple[Access, ...]
    ) -> Operator:
        """A product of integers whose sums are rescaled; a factor that is one number is an attribute."""
        if along:
            reads = (*op.reads, Access(self._real(f"{op.name}.factor", factor), along), *bias)
            return replace(op, reads=reads, attributes=(*op.attributes, ("rescaled", 1)))
        attributes = (*op.attributes, ("rescaled", 1), ("factor", float(factor[0])))
        return replace(op, reads=(*op.reads, *bias), attributes=attributes)

    def _finish(self, op: Operator) -> None:
        """Append a product of integers, with the activation and the quantisation that alone follow it."""
        activation: Attributes = ()
        absorbed: list[Operator] = []
        reader = self._only_reader(op.writes[0].tensor)
        if reader is not None and reader.kind in ("relu", "clip") and _is_straight(reader):
            low, high = (0.0, np.inf) if reader.kind == "relu" else (reader.attribute("min"), reader.attribute("max"))
            activation = (("low", low), ("high", high))
            absorbed.append(reader)
            reader = self._only_reader(reader.writes[0].tensor)
        steps = None if reader is None else self._steps(reader, "quantize")
        if reader is not None and steps is not None and steps.axis is None:
            result = self.tensors[reader.writes[0].tensor]
            if not result.dtype.is_float:
                last = (("scale", float(steps.scale[0])), ("zero", steps.zero), ("to", str(result.dtype)))
                self.absorbed.update(other.name for other in (*absorbed, reader))
                write = replace(op.writes[0], tensor=result.name)
                op = replace(op, writes=(write,), attributes=(*op.attributes, *activation, *last))
        self.operators.append(op)

    # -- helpers

    def _steps(self, op: Operator, kind: str) -> _Steps | None:
        """The steps of a `quantize` or `dequantize`, if they are constant, along one axis at most, around one zero."""
        if op.kind != kind or not _is_straight(op) or any(r.tensor not in self.constants for r in op.reads[1:]):
            return None
        if len(op.reads) == 1:
            scale, zero = op.attribute("scale"), op.attribute("zero")
            return _Steps(np.array([scale], np.float32), zero, None) if isinstance(zero, int) else None
        values = [self.constants[read.tensor] for read in op.reads[1:]]
        zeros = np.unique(values[1].astype(np.int64)) if len(values) > 1 else np.zeros(1, np.int64)
        moving = [axis for axis in op.reads[1].axes if axis.terms]
        if len(zeros) != 1 or len(moving) > 1:
            return None
        axis = op.reads[0].axes.index(moving[0]) if moving else None
        return _Steps(values[0].astype(np.float32).ravel(), int(zeros[0]), axis)

    def _only_reader(self, name: str) -> Operator | None:
        """The operator that alone reads a tensor that one operator writes and that does not leave the network."""
        readers = self.graph.consumers.get(name, ())
        alone = len(readers) == 1 == len(self.graph.producers.get(name, ())) and name not in self.graph.outputs
        return readers[0] if alone else None

    def _bias(self, op: Operator) -> Access:
        """The bias of a product, in float32 where it is constant."""
        read = op.reads[2]
        source = self.quantised.get(read.tensor)
        if source is not None and source.tensor in self.constants:
            value = _evaluated(self.dequantisations[read.tensor], self.constants, self.tensors)
        elif read.tensor in self.constants:
            value = self.constants[read.tensor]
        else:
            self._write(read.tensor)
            return read
        return replace(read, tensor=self._real(f"{op.name}.bias", value))

    def _tensor(self, name: str, shape: tuple[int, ...], dtype: DType) -> str:
        name = fresh_name(name, self.tensors)
        self.tensors[name] = Tensor(name, shape, dtype, tuple(range(len(shape))))
        return name

    def _real(self, name: str, value: np.ndarray) -> str:
        """A new constant that is stored in float32."""
        value = np.asarray(value, np.float32)
        name = self._tensor(name, value.shape, DType.FLOAT32)
        self.constants[name] = value
        return name

    def _dequantisation(self, name: str, integers: str, steps: _Steps) -> Operator:
        """The operator that writes the real tensor `name`; one step for all of it."""
        shape = self.tensors[name].shape
        axes = tuple(Axis(((number, 1),)) for number in range(len(shape)))
        dims = tuple(Dim(f"d{number}", extent, DimKind.PARALLEL) for number, extent in enumerate(shape))
        attributes = (("scale", float(steps.scale[0])), ("zero", steps.zero))
        return Operator(
            f"{integers}.dequantize", "dequantize", dims, (Access(integers, axes),), (Access(name, axes),), attributes
        )


def _is_straight(op: Operator) -> bool:
    """Whether an element-wise operator reads the element that it writes."""
    return op.reads[0].axes == op.writes[0].axes


def _fold_dequantised(graph: Graph) -> Graph:
    """Constants that are still dequantised become real ones; what reads them computes in floating point anyway."""
    constants = dict(graph.constants)
    kept = []
    for op in graph.operators:
        known = op.kind == "dequantize" and all(name in constants for name in op.inputs)
        if known and op.writes[0].tensor not in graph.outputs:
            constants[op.writes[0].tensor] = _evaluated(op, constants, graph.tensors)
        else:
            kept.append(op)
    return drop_unused(replace(graph, operators=tuple(kept), constants=constants))


@np.errstate(all="ignore")  # an infinity or a NaN is a value like others
def _evaluated(op: Operator, values: Mapping[str, np.ndarray], tensors: Mapping[str, Tensor]) -> np.ndarray:
    """What a dequantisation of constants writes."""
    operands = []
    for read in op.reads:
        value = values[read.tensor]
        array = value.astype(np.float32 if STORAGE[value.dtype].is_float else np.int64)
        operands.append(by_dims(array, read, op.whole, (0,) * array.ndim))
    (result,) = RULES[op.kind].evaluate(op, operands)
    found = np.empty(tensors[op.writes[0].tensor].shape, np.float32)
    by_dims(found, op.writes[0], op.whole, (0,) * found.ndim)[...] = result
    return found
