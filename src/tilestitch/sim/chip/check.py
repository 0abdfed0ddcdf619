"""Compare an executed program with onnxruntime on the same network and inputs."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection

import numpy as np
import onnx
from threadpoolctl import threadpool_limits

from tilestitch.errors import InputError, InvalidIR
from tilestitch.ir.graph import Graph
from tilestitch.ir.report import CheckRow
from tilestitch.ir.trace import Trace
from tilestitch.ops.onnx_node import readable_opset
from tilestitch.sim.chip.execute import execute
from tilestitch.sim.chip.interpret import interpret

FLOAT32_TOLERANCE = 1e-5  # of the output's largest magnitude
FLOAT16_FACTOR = 4.0  # times the error of the same network untiled, every stored tensor rounded to float16
INSTRUCTIONS_WORTH_A_PROCESS = 5000
IR_VERSION = 11  # newer file formats differ in nothing that a network computes; onnxruntime reads them later than onnx


def onnxruntime_outputs(
    model: onnx.ModelProto, inputs: Sequence[Mapping[str, np.ndarray]], *, exported_batch: int | None = None
) -> list[dict[str, np.ndarray]]:
    """Outputs of the original network for every iteration's inputs: one thread, optimisations off.

    A network that was exported for `exported_batch` samples runs on so many at a time; what it gives for each run is
    put together along axis 0, where the samples are.
    """
    import onnxruntime  # takes a third of a second to import, and only checks need it

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    known = onnx.ModelProto()
    known.CopyFrom(model)
    known.ir_version = min(model.ir_version, IR_VERSION)
    for node in known.graph.node:
        node.ClearField("name")  # onnxruntime wants each of its own, and no result depends on it
    for opset in known.opset_import:
        opset.version = readable_opset(known.graph.node, opset)
    try:
        session = onnxruntime.InferenceSession(known.SerializeToString(), options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        found = []
        for feed in inputs:
            runs = [session.run(names, part) for part in _runs(model, feed, exported_batch)]
            joined = (run[0] if len(run) == 1 else np.concatenate(run) for run in zip(*runs, strict=True))
            found.append({name: np.asarray(value) for name, value in zip(names, joined, strict=True)})
        return found
    except Exception as error:  # noqa: BLE001  (onnxruntime's own exceptions have no common public base)
        text = str(error).splitlines()[0][:300]
        raise InputError(
            f"onnxruntime cannot run {model.graph.name or 'the network'}, so nothing can be verified: {text}"
        ) from None


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


class Reference:
    """What the outputs should be, computed once for all strategies on the same inputs."""

    def __init__(
        self,
        model: onnx.ModelProto,
        graph: Graph,
        inputs: Sequence[Mapping[str, np.ndarray]],
        *,
        exported_batch: int | None = None,
    ) -> None:
        self.inputs = inputs
        self.expected = onnxruntime_outputs(model, inputs, exported_batch=exported_batch)
        with threadpool_limits(1):
            narrow = [interpret(graph, one, wide=False) for one in inputs]
        self.narrow_error = {name: _error(name, narrow, self.expected) for name in graph.outputs}
        exact = [name for name in graph.outputs if not graph.tensors[name].dtype.is_float]
        self.narrow = [{name: one[name] for name in exact} for one in narrow]


def check(
    trace: Trace,
    reference: Reference,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[CheckRow, ...]:
    """Execute the program at both widths and compare every output; rows that did not pass are rows too.

    An integer (the place of a maximum) may follow from rounded values: at float16 that of the untiled network is right
    as well.
    """
    graph = trace.program.graph
    rows = []
    # One thread a matrix product: sums then do not depend on the number of cores, and the two processes do not fight.
    with threadpool_limits(1):
        executed = _execute_both(trace, reference.inputs, progress)
    for wide, outputs in zip((True, False), executed, strict=True):
        worst: CheckRow | None = None
        for name in graph.outputs:
            if graph.tensors[name].dtype.is_float:
                allowed = FLOAT32_TOLERANCE if wide else FLOAT16_FACTOR * reference.narrow_error[name]
            else:
                allowed = 0.0
            error = _error(name, outputs, reference.expected)
            if error > allowed and not wide and name in reference.narrow[0]:
                error = _error(name, outputs, reference.narrow)
            row = CheckRow("float32" if wide else "float16", error, allowed, name)
            if worst is None or _badness(row) > _badness(worst):
                worst = row
        assert worst is not None
        rows.append(worst)
    return tuple(rows)


Outputs = list[dict[str, np.ndarray]]  # per iteration


def _execute_both(
    trace: Trace, inputs: Sequence[Mapping[str, np.ndarray]], progress: Callable[[int, int], None]
) -> tuple[Outputs, Outputs]:
    """The wide and the narrow execution, the second in a process of its own where there is a core for it.

    Forked, so that gigabytes of constants are shared and not copied; where a system cannot fork, one after the other.
    """
    small = len(trace.program) < INSTRUCTIONS_WORTH_A_PROCESS
    if small or "fork" not in multiprocessing.get_all_start_methods() or (os.cpu_count() or 1) < 2:
        return execute(trace, inputs, wide=True, progress=progress), execute(trace, inputs, wide=False)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_execute_narrow, args=(trace, inputs, sender), daemon=True)
    child.start()
    sender.close()
    try:
        wide = execute(trace, inputs, wide=True, progress=progress)
        narrow = receiver.recv()
    except EOFError:
        raise InvalidIR("the process that executes the float16 check ended without a result") from None
    finally:
        child.terminate()
        child.join()
    if isinstance(narrow, BaseException):
        raise narrow
    return wide, narrow


def _execute_narrow(trace: Trace, inputs: Sequence[Mapping[str, np.ndarray]], sender: Connection) -> None:
    """Body of the second process: send the outputs, or the exception that the first one shall raise."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        sender.send(execute(trace, inputs, wide=False))
    except Exception as error:  # noqa: BLE001  (whatever it is, it belongs to the parent)
        sender.send(error)


def _badness(row: CheckRow) -> float:
    if not row.passed:
        return float("inf")
    return row.error / row.allowed if row.allowed else 0.0


def _error(name: str, found: Sequence[Mapping[str, np.ndarray]], expected: Sequence[Mapping[str, np.ndarray]]) -> float:
    """Largest difference over all iterations, relative to the largest magnitude expected; 1 for unequal shapes.

    Equal infinities and NaNs in both agree; integers and booleans must be equal (0 or 1).
    """
    largest, difference = 0.0, 0.0
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
        finite = b[np.isfinite(b)]
        largest = max(largest, float(np.abs(finite).max(initial=0.0)))
    return difference / largest if largest else difference
