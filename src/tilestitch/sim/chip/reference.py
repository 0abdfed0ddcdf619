"""What an executed program is compared with: onnxruntime on the original network, and the network untiled.

Where it differs, onnx's reference evaluator is asked too.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import ml_dtypes
import numpy as np
import onnx
from threadpoolctl import threadpool_limits

from tilestitch.base.dtypes import DType
from tilestitch.base.errors import InputError, TooLarge
from tilestitch.base.memory import says_shortage
from tilestitch.ir.graph import Graph
from tilestitch.ops.onnx_node import by_reference, readable_opset
from tilestitch.ops.widening import in_float32
from tilestitch.sim.chip.bounds import rounding
from tilestitch.sim.chip.compare import decides, gaps
from tilestitch.sim.chip.defined import expect_defined
from tilestitch.sim.chip.exchange import exchangeable
from tilestitch.sim.chip.interpret import interpret
from tilestitch.sim.chip.long_integers import long_tensors
from tilestitch.sim.chip.probing import Places, Probed, Probes, places_of, read_values
from tilestitch.sim.chip.rounding import FACTOR
from tilestitch.sim.chip.steps import is_quantised, quantised_tensors, with_moved

_FLOAT32_MAX = float(np.finfo(np.float32).max)
_HALVES = (np.float16, ml_dtypes.bfloat16)
_LESS_EXACT = "accuracy_level"  # of MatMulNBits: how few bits a runtime may compute in; without it, float32
IR_VERSION = 11  # newer file formats differ in nothing that a network computes; onnxruntime reads them later than onnx


def onnxruntime_outputs(
    model: onnx.ModelProto,
    inputs: Sequence[Mapping[str, np.ndarray]],
    *,
    exported_batch: int | None = None,
    others: Sequence[str] = (),
    dtypes: Mapping[str, DType] = {},
    shapes: Mapping[str, tuple[int, ...]] = {},
    probes: Probes | None = None,
) -> list[dict[str, np.ndarray]]:
    """Outputs of the original network for every iteration's inputs: one thread, optimisations off, 16-bit floats wide.

    With the tensors `others` as well. Those of a type that onnxruntime does not give (`dtypes` are the types in the
    machine) come in float32, which holds all of their values.

    A network that was exported for `exported_batch` samples runs on so many at a time; what it gives for each run is
    put together along axis 0, where the samples are, unless `shapes` says that one run has all of it. The values that
    `probes` asks for are there as well, unless onnxruntime cannot give them.
    """
    import onnxruntime  # takes a third of a second to import, and only checks need it

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what goes wrong is said by us
    names = list(dict.fromkeys([*(value.name for value in model.graph.output), *others]))
    known, cast = exchangeable(in_float32(model), names, dtypes)
    if probes is not None:
        probes.add_to(known)
        names += probes.outputs
        options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED  # as the nodes stand: results live short
    known.ir_version = min(model.ir_version, IR_VERSION)
    for node in known.graph.node:
        node.ClearField("name")  # onnxruntime wants each of its own, and no result depends on it
        exact = [attribute for attribute in node.attribute if attribute.name != _LESS_EXACT]
        if len(exact) < len(node.attribute):
            del node.attribute[:]
            node.attribute.extend(exact)
    for opset in known.opset_import:
        opset.version = readable_opset(known.graph.node, opset)
    try:
        session = onnxruntime.InferenceSession(known.SerializeToString(), options, providers=["CPUExecutionProvider"])
        found = []
        for feed in inputs:
            parts = [_fed(part, cast) for part in _runs(model, feed, exported_batch)]
            runs = [session.run(None, part) for part in parts]
            each = zip(names, zip(*runs, strict=True), strict=True)
            found.append({name: np.asarray(_joined(parts, shapes.get(name))) for name, parts in each})
        return found
    except Exception as error:  # noqa: BLE001  (onnxruntime's own exceptions have no common public base)
        if probes is not None:
            return onnxruntime_outputs(
                model, inputs, exported_batch=exported_batch, others=others, dtypes=dtypes, shapes=shapes
            )
        text = str(error).splitlines()[0][:300]
        if isinstance(error, MemoryError) or says_shortage(text):
            raise MemoryError(text) from None
        raise InputError(
            f"onnxruntime cannot run {model.graph.name or 'the network'}, so nothing can be verified: {text}"
        ) from None


def _fed(inputs: Mapping[str, np.ndarray], cast: frozenset[str]) -> dict[str, np.ndarray]:
    """The inputs as `exchangeable` and `in_float32` want them."""
    return {
        f"{name}.float32" if name in cast else name: value.astype(np.float32)
        if name in cast or value.dtype in _HALVES
        else value
        for name, value in inputs.items()
    }


def _runs(
    model: onnx.ModelProto, feed: Mapping[str, np.ndarray], exported_batch: int | None
) -> list[dict[str, np.ndarray]]:
    """The inputs of one iteration, cut into as many as the network takes at a time."""
    sizes = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim][:1] for value in model.graph.input}
    grown = [name for name, value in feed.items() if sizes[name] == [exported_batch] != [*value.shape[:1]]]
    if exported_batch is None or not grown:
        return [dict(feed)]
    starts = range(0, len(feed[grown[0]]), exported_batch)
    return [
        {name: value[at : at + exported_batch] if name in grown else value for name, value in feed.items()}
        for at in starts
    ]


def _joined(parts: Sequence[np.ndarray], shape: tuple[int, ...] | None) -> np.ndarray:
    """What several runs give of a tensor; what depends on no sample is the same in all."""
    is_whole = len(parts) == 1 or np.shape(parts[0]) == shape
    return parts[0] if is_whole else np.concatenate(parts)


class Reference:
    """What the outputs should be, computed once for all strategies on the same inputs.

    `graph` is what runs, `network` the same before its views were taken in, where it has any.

    Raises `TooLarge` where 64-bit integers leave the 32 bits in which they are stored, and `InputError` where nothing
    can be compared.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        graph: Graph,
        inputs: Sequence[Mapping[str, np.ndarray]],
        *,
        network: Graph | None = None,
        exported_batch: int | None = None,
    ) -> None:
        self.inputs, self.outputs = inputs, graph.outputs
        self._model, self._exported_batch = model, exported_batch
        network = graph if network is None else network
        names = quantised_tensors(model, network)
        tensors = {**network.tensors, **graph.tensors}
        dtypes = {name: tensor.dtype for name, tensor in tensors.items()}
        self._shapes = {name: tensor.shape for name, tensor in tensors.items()}
        expect_defined(graph, inputs)
        probes = Probes(places_of(model, graph, exported_batch), model)
        read: dict[str, np.ndarray] = {}  # by the untiled network, in its first iteration

        def untiled() -> list[dict[str, np.ndarray]]:
            first = interpret(
                graph, inputs[0], wide=False, see=lambda op, stored: read.update(read_values(op, stored, probes.places))
            )
            return [first, *(interpret(graph, one, wide=False) for one in inputs[1:])]

        with threadpool_limits(1), ThreadPoolExecutor(1) as other:
            narrow_run = other.submit(untiled)
            self.expected = onnxruntime_outputs(
                model,
                inputs,
                exported_batch=exported_batch,
                others=names,
                dtypes=dtypes,
                shapes=self._shapes,
                probes=probes,
            )
            narrow = narrow_run.result()
        for name in graph.outputs:
            _expect_storable(name, dtypes[name], [one[name] for one in self.expected])
        known = [{name: one[name] for name in names if one[name].shape == self._shapes[name]} for one in self.expected]
        self.quantised = [
            {name: value for name, value in with_moved(one, network).items() if name in graph.tensors} for one in known
        ]
        long = long_tensors(model, graph)
        with threadpool_limits(1):
            found = rounding(graph, inputs, self.quantised, long=long, places=probes.places)
        for one in found:
            for name, least, largest in one.beyond:
                raise TooLarge(
                    f"network '{graph.name}': tensor '{name}' holds 64-bit integers from {least} to {largest}, and the "
                    f"machine stores them in 32 bits ({dtypes[name].limits[0]} to {dtypes[name].limits[1]}); nothing "
                    "can be verified. Export the network with smaller numbers there, or with 32-bit integers if they "
                    "should wrap around"
                )
        self.wide_bounds = [one.wide for one in found]
        self.narrow_bounds = [
            {name: _at_least(one.narrow[name], mine[name], theirs[name]) for name in graph.outputs}
            for one, mine, theirs in zip(found, narrow, self.expected, strict=True)
        ]
        self.step_bounds = [one.steps for one in found]
        self.probed = _probed(probes.values(self.expected[0], graph), probes.places, read, found[0].probed)
        self.narrow_error = {name: relative_error(name, narrow, self.expected) for name in graph.outputs}
        self.lost = {name: lost_share(name, narrow, self.expected) for name in graph.outputs}
        exact = [name for name in graph.outputs if not dtypes[name].is_float or is_quantised(dtypes[name])]
        self.narrow = [{name: one[name] for name in exact} for one in narrow]

    @property
    def decided(self) -> tuple[int, int]:
        """How many of the values of all outputs the comparison in float32 decides, and how many there are."""
        counts = [
            (int(np.count_nonzero(decides(expected[name], bounds[name]))), expected[name].size)
            for expected, bounds in zip(self.expected, self.wide_bounds, strict=True)
            for name in self.outputs
            if expected[name].shape == bounds[name].shape
        ]
        return sum(some for some, _ in counts), sum(size for _, size in counts)

    @property
    def flat(self) -> tuple[str, ...]:
        """Outputs of which all values are the same: they say little of how they came about."""
        return tuple(
            name
            for name in self.outputs
            if (first := self.expected[0][name]).size > 1
            and all(np.array_equal(one[name], np.full_like(first, first.flat[0])) for one in self.expected)
        )

    @cached_property
    def second(self) -> list[dict[str, np.ndarray]] | None:
        """The outputs by onnx's reference evaluator, None where it cannot run the network."""
        names = [value.name for value in self._model.graph.output]
        found = []
        try:
            run = by_reference(in_float32(self._model).SerializeToString())
            for feed in self.inputs:
                parts = [run(_fed(part, frozenset())) for part in _runs(self._model, feed, self._exported_batch)]
                each = zip(names, zip(*parts, strict=True), strict=True)
                found.append({name: _joined(runs, self._shapes.get(name)) for name, runs in each})
        except (InputError, ValueError):  # a network too large for a message of protobuf among them
            return None
        return found


def _probed(
    expected: Mapping[str, np.ndarray],
    places: Places,
    untiled: Mapping[str, np.ndarray],
    bounds: Mapping[str, tuple[np.ndarray, np.ndarray]],
) -> Probed:
    """What is expected at the chosen places; at float16 a bound is no less than what the untiled network needs."""
    known = {name: values for name, values in expected.items() if name in bounds and name in untiled}
    narrow = {name: _at_least(bounds[name][1], untiled[name], values) for name, values in known.items()}
    return Probed(places, known, {name: bounds[name][0] for name in known}, narrow)


def _at_least(bound: np.ndarray, untiled: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """A bound at float16, and no less than what the untiled network needs; anything where that has lost the value."""
    if untiled.shape != expected.shape:
        return bound
    return np.maximum(bound, FACTOR * gaps(untiled, expected))


def _expect_storable(name: str, dtype: DType, values: Sequence[np.ndarray]) -> None:
    """Refuse outputs beyond what the machine computes in: a comparison would say that the program is wrong."""
    if dtype is DType.BOOL:
        return
    low, high = (-_FLOAT32_MAX, _FLOAT32_MAX) if dtype.is_float else dtype.limits
    for array in values:
        finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array
        if finite.size and (finite.min() < low or finite.max() > high):
            raise TooLarge(
                f"output '{name}': onnxruntime's values lie between {finite.min()} and {finite.max()}, and the machine "
                f"holds {low} to {high}, so nothing can be verified; see where they grow, or feed smaller inputs"
            )


@np.errstate(invalid="ignore")  # an infinity less another
def relative_error(
    name: str, found: Sequence[Mapping[str, np.ndarray]], expected: Sequence[Mapping[str, np.ndarray]]
) -> float:
    """Largest difference over all iterations, relative to the largest magnitude expected; 1 for unequal shapes.

    Equal infinities and NaNs in both agree; integers and booleans must be equal (0 or 1).
    """
    difference = 0.0
    for ours, theirs in zip(found, expected, strict=True):
        a, b = np.asarray(ours[name]), np.asarray(theirs[name])
        if a.shape != b.shape:
            return 1.0
        if b.dtype.kind in "iub":
            if not np.array_equal(a.astype(np.int64), b.astype(np.int64)):
                return 1.0
            continue
        a, b = a.astype(np.float64), b.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        gap = np.where(same, 0.0, np.abs(a - b))
        if np.isnan(gap).any():
            return float("nan")
        difference = max(difference, float(gap.max(initial=0.0)))
    largest = largest_magnitude(name, expected)
    return difference / largest if largest else difference


def largest_magnitude(name: str, expected: Sequence[Mapping[str, np.ndarray]]) -> float:
    """That of the finite values of an output over all iterations."""
    arrays = (np.abs(np.asarray(one[name], np.float64)) for one in expected)
    return max(float(np.max(array, initial=0.0, where=np.isfinite(array))) for array in arrays)


def lost_share(
    name: str, found: Sequence[Mapping[str, np.ndarray]], expected: Sequence[Mapping[str, np.ndarray]]
) -> float:
    """The share of an output's elements that are infinite or NaN, and expected to be finite."""
    lost = elements = 0
    for ours, theirs in zip(found, expected, strict=True):
        a, b = np.asarray(ours[name]).astype(np.float64), np.asarray(theirs[name]).astype(np.float64)
        elements += b.size
        if a.shape == b.shape:
            lost += int(np.count_nonzero(np.isfinite(b) & ~np.isfinite(a)))
    return lost / max(1, elements)
