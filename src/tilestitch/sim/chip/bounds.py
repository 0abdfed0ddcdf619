"""The network untiled, operator by operator, with what rounding may do to each value beside the value."""

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import prod

import ml_dtypes
import numpy as np

from tilestitch.base.dtypes import FLOAT16_MAX, DType
from tilestitch.base.storage import array_type
from tilestitch.ir.graph import Access, Graph, Operator
from tilestitch.ops import RULES, VIEWS, is_elementwise
from tilestitch.sim.chip.probing import NOWHERE, Places
from tilestitch.sim.chip.rounding import EXACT, FACTOR, UNIT, Bound, Computed, Moved, bounds_of
from tilestitch.sim.chip.values import constant_to_storage, operand, read_plans, store, to_arithmetic, to_storage

# Weights of a Resize, factors of a Fourier transform: functions of a place along an axis, which others round as well.
_COMPUTED = re.compile(r"\.(weights\d+|matrix)$")
_LEAST = float(np.finfo(np.float32).smallest_subnormal)
_WORTH_A_THREAD = 1 << 15  # elements of a result
_NEW_NUMBERS = frozenset({"bit_cast", "cast", "clip", "pad"})  # exact, and perhaps not stored so far


@dataclass(frozen=True, slots=True)
class Rounding:
    """Bounds by the name of a tensor: of outputs at both widths, and of quantised tensors in the wide execution.

    `beyond` are 64-bit integers that leave the 32 bits in which they are stored: the tensor, least and largest value.
    """

    wide: Mapping[str, np.ndarray]
    narrow: Mapping[str, np.ndarray]
    steps: Mapping[str, np.ndarray]
    beyond: tuple[tuple[str, int, int], ...] = ()
    probed: Mapping[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)  # both, at chosen places


@np.errstate(all="ignore")  # as in `execute`
def rounding(
    graph: Graph,
    inputs: Sequence[Mapping[str, np.ndarray]],
    known: Sequence[Mapping[str, np.ndarray]],
    *,
    long: frozenset[str] = frozenset(),
    places: Places = NOWHERE,
) -> list[Rounding]:
    """Analyse a network on the inputs of every iteration.

    `known` are the tensors with which an execution goes on, exactly as they are; `long` are the tensors that the file
    stores in 64 bits; `places` those of results whose bounds are kept as well.
    """
    with ThreadPoolExecutor(1) as other:
        start = _Walk(graph, {}, long, other)
        for name in graph.constants:
            if name in graph.consumers or name in graph.outputs:
                start.begin(name, graph.constants[name], constant=True)
        return [_analysed(start.again(ours), one, places) for one, ours in zip(inputs, known, strict=True)]


def _analysed(walk: "_Walk", inputs: Mapping[str, np.ndarray], places: Places) -> Rounding:
    graph = walk.graph
    for name in graph.inputs:
        walk.begin(name, inputs[name])
    uses = {name: len(graph.consumers.get(name, ())) for name in graph.tensors}
    probed: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for op in graph.operators:
        for name in op.inputs:
            if name in places and name not in probed:
                at = tuple(places[name].points.T)
                probed[name] = walk.bound(walk.bounds[0], name)[at], walk.bound(walk.bounds[1], name)[at]
        walk.step(op)
        for name in op.inputs:
            uses[name] -= 1
            if uses[name] == 0 and name not in graph.outputs:
                walk.forget(name)
    wide, narrow = ({name: walk.bound(one, name) for name in graph.outputs} for one in walk.bounds)
    return Rounding(wide, narrow, walk.steps, tuple(walk.beyond), probed)


class _Walk:
    """Values as the float32 execution stores them, and their bounds at both widths (None: exact)."""

    def __init__(
        self, graph: Graph, known: Mapping[str, np.ndarray], long: frozenset[str], other: ThreadPoolExecutor
    ) -> None:
        self.graph, self.known, self.long, self.other = graph, known, long, other
        self.values: dict[str, np.ndarray] = {}
        self.bounds: tuple[dict[str, Bound], dict[str, Bound]] = {}, {}  # wide, narrow
        self.origins: dict[str, frozenset[str]] = {}  # of inputs and results: whose errors theirs follow from
        self.steps: dict[str, np.ndarray] = {}
        self.beyond: list[tuple[str, int, int]] = []

    def again(self, known: Mapping[str, np.ndarray]) -> "_Walk":
        """Another walk from here."""
        other = _Walk(self.graph, known, self.long, self.other)
        other.values, other.beyond = dict(self.values), list(self.beyond)
        other.bounds = dict(self.bounds[0]), dict(self.bounds[1])
        return other

    def begin(self, name: str, array: np.ndarray, *, constant: bool = False) -> None:
        """What comes from outside: off by what storing it loses, which is known."""
        dtype = self.graph.tensors[name].dtype
        self._expect_32_bits(name, array)
        if not constant:
            self.origins[name] = frozenset({name})
        self.values[name] = to_storage(array, dtype, wide=True)
        self.bounds[0][name] = self.bounds[1][name] = None
        if dtype.is_float:
            keep = constant_to_storage if constant else to_storage
            lost = _lost(keep(array, dtype, wide=False), self.values[name])
            if array.dtype == np.float64:  # of which float32 loses something as well
                rounded = _lost(self.values[name], array)
                self.bounds[0][name] = np.where(rounded > 0, np.maximum(rounded, _LEAST), rounded).astype(np.float32)
            if dtype.has_float16:  # an infinity, or the largest number, of the same sign
                size = np.abs(array.astype(np.float64))
                lost = np.where(np.isfinite(size) & (size > FLOAT16_MAX), size / 2, lost)
            computed = UNIT * max(array.shape) * np.abs(array).max() if constant and _COMPUTED.search(name) else 0.0
            if computed and not (array * 2.0**12 % 1 == 0).all():
                self.bounds[0][name] = np.full(array.shape, computed, np.float32)
                lost = np.hypot(lost, computed)
            self.bounds[1][name] = lost.astype(np.float32) if lost.any() else None

    def forget(self, name: str) -> None:
        del self.values[name], self.bounds[0][name], self.bounds[1][name]

    def bound(self, bounds: Mapping[str, Bound], name: str) -> np.ndarray:
        found = bounds[name]
        return np.zeros(self.graph.tensors[name].shape, np.float32) if found is None else found

    def step(self, op: Operator) -> None:
        """One operator: its results, and their bounds."""
        plans = read_plans(self.graph, op, op.whole)
        stored = [self.values[plan.access.tensor][plan.region.slices] for plan in plans]
        results = RULES[op.kind].evaluate(
            op, [operand(n, op.whole, plans, stored.__getitem__) for n in range(len(plans))]
        )
        arithmetic = [to_arithmetic(x, plan.dtype) for x, plan in zip(stored, plans, strict=True)]
        computed = Computed(op, plans, arithmetic, results)
        for write, result in zip(op.writes, results, strict=True):
            self._expect_32_bits(write.tensor, _unwrapped(op, arithmetic, result))
        self._bound_both(computed, self._related(op))
        for write, result in zip(op.writes, results, strict=True):
            self._keep(op, write, result)
            self.origins[write.tensor] = self._origins(op) or frozenset({write.tensor})

    def _related(self, op: Operator) -> tuple[int, ...]:
        """Of each operand the first one that has errors in common with it."""
        found: list[int] = []
        for number, read in enumerate(op.reads):
            origins = self.origins.get(read.tensor, frozenset())
            others = (at for at in range(number) if origins & self.origins.get(op.reads[at].tensor, frozenset()))
            found.append(next((found[at] for at in others), number))
        return tuple(found)

    def _origins(self, op: Operator) -> frozenset[str]:
        """What the errors of a result follow from, if it follows from its operands element by element; else nothing."""
        tensors = self.graph.tensors
        keeps_all = len(op.writes) == len(op.reads) == 1 and prod(tensors[op.reads[0].tensor].shape) == prod(
            tensors[op.writes[0].tensor].shape
        )
        if not (is_elementwise(op) or (op.kind in VIEWS and keeps_all)):
            return frozenset()
        return frozenset().union(*(self.origins.get(read.tensor, frozenset()) for read in op.reads))

    def _bound_both(self, computed: Computed, related: tuple[int, ...]) -> None:
        """Of the results at both widths, at the same time where that is worth it."""
        if max(result.size for result in computed.results) < _WORTH_A_THREAD:
            for wide in (True, False):
                self._bound(computed, related, wide=wide)
            return
        narrow = self.other.submit(self._bound, computed, related, wide=False)
        self._bound(computed, related, wide=True)
        narrow.result()

    @np.errstate(all="ignore")  # which holds for one thread
    def _bound(self, computed: Computed, related: tuple[int, ...], *, wide: bool) -> None:
        op, bounds = computed.op, self.bounds[0 if wide else 1]
        mine = []
        for plan in computed.plans:
            bound = bounds[plan.access.tensor]
            mine.append(None if bound is None else bound[plan.region.slices])
        found = bounds_of(Moved(computed, mine, related))
        for write, result, bound in zip(op.writes, computed.results, found, strict=True):
            tensor = self.graph.tensors[write.tensor]
            bound = _with_storing(op, result, bound, tensor.dtype, wide=wide)
            kept = bounds.setdefault(write.tensor, None)
            if bound is None:
                continue
            if kept is None:
                kept = bounds[write.tensor] = np.zeros(tensor.shape, np.float32)
            bound = np.asarray(bound, np.float32)
            odd = np.isnan(bound)
            if odd.any():
                bound = np.where(odd, np.float32(np.inf), bound)
            store(kept, write, op.whole, (0,) * len(tensor.shape), np.broadcast_to(bound, result.shape))

    def _keep(self, op: Operator, write: Access, result: np.ndarray) -> None:
        """Store a result; execution goes on with what is expected, where that is known."""
        name, tensor = write.tensor, self.graph.tensors[write.tensor]
        if name not in self.values:
            self.values[name] = np.zeros(tensor.shape, array_type(tensor.dtype, wide=True))
        origin = (0,) * len(tensor.shape)
        store(self.values[name], write, op.whole, origin, to_storage(result, tensor.dtype, wide=True))
        if name in self.known:
            self.steps[name] = self.bound(self.bounds[0], name).copy()
            self.values[name] = to_storage(self.known[name], tensor.dtype, wide=True)
            self.bounds[0][name] = None

    def _expect_32_bits(self, name: str, array: np.ndarray) -> None:
        if name in self.long and array.dtype.kind in "iu" and array.size:
            low, high = self.graph.tensors[name].dtype.limits
            least, largest = int(array.min()), int(array.max())
            if least < low or largest > high:
                self.beyond.append((name, least, largest))


def _unwrapped(op: Operator, operands: Sequence[np.ndarray], result: np.ndarray) -> np.ndarray:
    """A result as 64 bits have it, where the rule of an operator gives 32: a power, a float that becomes an integer."""
    if result.dtype.kind != "i" or op.kind not in ("cast", "pow"):
        return result
    exact = operands[0] if op.kind == "cast" else np.power(operands[0].astype(np.float64), operands[1])
    if exact.dtype.kind != "f":
        return result
    limit = 2.0**63
    exact = np.nan_to_num(exact.astype(np.float64), nan=-limit, posinf=-limit, neginf=-limit)  # as onnxruntime
    return np.clip(exact, -limit, np.nextafter(limit, 0)).astype(np.int64)


def _lost(stored: np.ndarray, given: np.ndarray) -> np.ndarray:
    """What storing values loses."""
    return FACTOR * np.nan_to_num(np.abs(np.subtract(stored, given, dtype=np.float64)), nan=0.0, posinf=np.inf)


def _with_storing(op: Operator, result: np.ndarray, bound: Bound, dtype: DType, *, wide: bool) -> Bound:
    """And the rounding of a store, which is known where the result is: of what is no copy of something stored."""
    if not dtype.is_float:
        return bound
    coarse = FACTOR * _half_step(array_type(dtype, wide=wide))
    if coarse > UNIT and (op.kind not in EXACT or op.kind in _NEW_NUMBERS):
        known = np.ones(result.shape, bool) if bound is None else (bound == 0) | ~np.isfinite(result)
        squared = np.float32 if dtype.has_float16 else np.float64  # which holds the squares of its range
        size = np.asarray(np.abs(result, dtype=squared))  # of 0 dims too
        rounded = np.asarray(np.square(coarse * size))
        if bound is not None:
            rounded += np.square(bound, dtype=squared)
        if dtype.has_float16:
            rounded += (FACTOR * 2.0**-25) ** 2
        bound = np.sqrt(rounded, out=rounded)
        if known.any():
            lost = np.abs(np.subtract(to_storage(result[known], dtype, wide=wide), result[known], dtype=np.float64))
            bound[known] = FACTOR * np.nan_to_num(lost, nan=0.0, posinf=0.0)
        if dtype.has_float16 and not wide:
            beyond = np.isfinite(size) & (size > FLOAT16_MAX)
            bound[beyond] = size[beyond] / 2  # an infinity of the same sign
    return bound if bound is not None and np.any(bound) else None


def _half_step(dtype: np.dtype) -> float:
    """Half of the distance of 1 to the next larger number of a type."""
    info = np.finfo(dtype) if dtype in (np.float16, np.float32, np.float64) else ml_dtypes.finfo(dtype)
    return float(info.eps) / 2
