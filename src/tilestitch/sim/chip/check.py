"""Compare an executed program with onnxruntime on the same network and inputs."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

import numpy as np
from threadpoolctl import threadpool_limits

from tilestitch.base.errors import InvalidIR
from tilestitch.ir.graph import Graph
from tilestitch.ir.report import STEPS, CheckRow
from tilestitch.ir.samples import OutputSamples, TensorSamples
from tilestitch.ir.trace import Trace
from tilestitch.sim.chip.compare import Element, compare, gaps
from tilestitch.sim.chip.execute import execute
from tilestitch.sim.chip.probing import Taken, tensor_samples
from tilestitch.sim.chip.reference import Reference, largest_magnitude, relative_error
from tilestitch.sim.chip.room import fits_side_by_side
from tilestitch.sim.chip.sampling import samples
from tilestitch.sim.chip.steps import SHARE, Steps, differing_share, is_quantised

FLOAT32_TOLERANCE = 1e-5  # of the output's largest magnitude, where rounding alone does not move decided values more
FLOAT16_FACTOR = 4.0  # times the error of the same network untiled, every stored tensor rounded to float16
INSTRUCTIONS_WORTH_A_PROCESS = 5000


@dataclass(frozen=True, slots=True)
class Checked:
    """What a comparison found, and some of the values that were compared."""

    rows: tuple[CheckRow, ...]
    samples: tuple[OutputSamples, ...]  # of the first iteration
    passed_on: tuple[TensorSamples, ...]  # results between operators, likewise


def checked(
    trace: Trace,
    reference: Reference,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Checked:
    """Execute the program at both widths and compare every value; rows that did not pass are rows too.

    Each value has a bound of its own, see `sim.chip.rounding`. Beside that no output may be further off than a share of
    its largest magnitude, which says something about the values that are not decided. An integer (the place of a
    maximum) may follow from rounded values: at float16 that of the untiled network is right as well. Quantised
    tensors are compared in steps, see `sim.chip.steps`.
    """
    rows: list[CheckRow] = []
    # One thread a matrix product: sums then do not depend on the number of cores, and the two processes do not fight.
    steps = Steps(reference.quantised, reference.step_bounds) if any(reference.quantised) else None
    with threadpool_limits(1):
        executed = _execute_both(trace, reference, steps, progress)
    if steps is not None and steps.counts:
        rows.append(_steps_row(steps))
    shown: list[OutputSamples] = []
    passed_on: list[TensorSamples] = []
    for wide, (outputs, taken) in zip((True, False), executed, strict=True):
        passed_on += tensor_samples(trace.program.graph, reference.probed, taken, wide=wide)
        bounds = reference.wide_bounds if wide else reference.narrow_bounds
        precision = "float32" if wide else "float16"
        shown += samples(trace.program.graph, outputs[0], reference.expected[0], bounds[0], precision)
        row = _row(trace.program.graph, reference, outputs, wide=wide)
        doubtful = row.failed or (wide and np.isnan(row.error))
        rows.append(
            row if not doubtful else _with_second_opinion(row, trace.program.graph, reference, outputs, wide=wide)
        )
    return Checked(tuple(rows), tuple(shown), tuple(passed_on))


def worst(rows: Sequence[tuple[CheckRow, ...]]) -> tuple[CheckRow, ...]:
    """The checks of several draws of inputs as those of one: of each precision the worst, with the values of all."""
    found = []
    for precision in dict.fromkeys(row.precision for checks in rows for row in checks):
        alike = [row for checks in rows for row in checks if row.precision == precision]
        counts = sum(row.compared for row in alike), sum(row.decided for row in alike)
        found.append(replace(max(alike, key=_badness), compared=counts[0], decided=counts[1]))
    return tuple(found)


def _steps_row(steps: Steps) -> CheckRow:
    share, tensor = steps.worst()
    compared, decided = steps.sizes()
    return CheckRow(STEPS, share, SHARE, tensor, ratio=steps.ratio(), compared=compared, decided=decided)


def _row(graph: Graph, reference: Reference, outputs: "Outputs", *, wide: bool) -> CheckRow:
    """All outputs at one width, the worst of them named."""
    bounds = reference.wide_bounds if wide else reference.narrow_bounds
    found: list[CheckRow] = []
    for name in graph.outputs:
        dtype = graph.tensors[name].dtype
        error = relative_error(name, outputs, reference.expected)
        one = compare(
            [values[name] for values in outputs],
            [values[name] for values in reference.expected],
            [values[name] for values in bounds],
        )
        ratio = one.ratio
        if not dtype.is_float:
            allowed = 0.0
        elif wide:
            allowed = max(FLOAT32_TOLERANCE, one.bound / (largest_magnitude(name, reference.expected) or 1.0))
        else:
            allowed = FLOAT16_FACTOR * reference.narrow_error[name]
        if error > allowed and not wide and name in reference.narrow[0]:
            error = relative_error(name, outputs, reference.narrow)
            untiled = [values[name] for values in reference.narrow]
            if is_quantised(dtype) and any(name in known for known in reference.quantised):
                allowed = SHARE
                error = differing_share([values[name] for values in outputs], untiled, dtype)
            ratio = min(ratio, 1.0)  # the untiled network has what the program has, or nearly
        precision, lost = ("float32", 0.0) if wide else ("float16", reference.lost[name])
        found.append(CheckRow(precision, error, allowed, name, lost, ratio, one.compared, one.decided))
    row = max(found, key=_badness)
    return replace(row, compared=sum(one.compared for one in found), decided=sum(one.decided for one in found))


def _with_second_opinion(
    row: CheckRow, graph: Graph, reference: Reference, outputs: "Outputs", *, wide: bool
) -> CheckRow:
    """The row as it is, or disputed: where onnx's reference evaluator has what the program has in every value.

    In every value that has a meaning: what a pool makes of NaN is open, and there all three may differ.
    """
    second = reference.second
    if second is None:
        return row
    bounds = reference.wide_bounds if wide else reference.narrow_bounds
    for name in graph.outputs:
        ours, limits = [one[name] for one in outputs], [one[name] for one in bounds]
        other = [np.asarray(one[name]) for one in second]
        if compare(ours, other, limits).wrong:
            return row
        finite = [np.minimum(limit, np.finfo(np.float32).max) for limit in limits]
        against = compare(other, [one[name] for one in reference.expected], finite)
        if against.wrong and against.worst is not None and not row.dispute:
            row = replace(row, dispute=_dispute(name, against.worst, ours[against.worst.iteration]))
    return row


def _dispute(name: str, between: Element, ours: np.ndarray) -> str:
    """A value that onnx's evaluator and onnxruntime see differently, with what the program has."""
    value, place = float(ours[between.place]), ", ".join(map(str, between.place))
    if gaps(np.asarray(value), np.asarray(between.found)) < np.inf:
        return (
            f"{name}[{place}] is {value:.9g} by the program and by onnx's reference evaluator, and "
            f"{between.expected:.9g} by onnxruntime"
        )
    return (
        f"{name}[{place}] is {value:.9g} by the program, {between.found:.9g} by onnx's reference evaluator and "
        f"{between.expected:.9g} by onnxruntime"
    )


Outputs = list[dict[str, np.ndarray]]  # per iteration
Executed = tuple[Outputs, Taken]


def _execute_both(
    trace: Trace,
    reference: Reference,
    steps: Steps | None,
    progress: Callable[[int, int], None],
) -> tuple[Executed, Executed]:
    """The wide and the narrow execution, the second in a process of its own where there is a core for it.

    Forked, so that gigabytes of constants are shared and not copied; where a system cannot fork, or has no room for
    both, one after the other.
    """
    roomy = fits_side_by_side(trace.program)
    small = len(trace.program) < INSTRUCTIONS_WORTH_A_PROCESS
    if small or not roomy or "fork" not in multiprocessing.get_all_start_methods() or (os.cpu_count() or 1) < 2:
        wide = _executed(trace, reference, wide=True, steps=steps, progress=progress)
        return wide, _executed(trace, reference, wide=False)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_execute_narrow, args=(trace, reference, sender), daemon=True)
    try:
        with _signals_blocked():  # a new process is not ready for them
            child.start()
        sender.close()
        wide = _executed(trace, reference, wide=True, steps=steps, progress=progress)
        narrow = receiver.recv()
    except EOFError:
        child.join()
        if child.exitcode == -signal.SIGKILL:  # as systems do that run out of memory
            raise MemoryError("the process that executes the float16 check was killed") from None
        raise InvalidIR("the process that executes the float16 check ended without a result") from None
    finally:
        if child.pid is not None:
            child.terminate()
            child.join()
    if isinstance(narrow, BaseException):
        raise narrow
    return wide, narrow


def _executed(
    trace: Trace,
    reference: Reference,
    *,
    wide: bool,
    steps: Steps | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Executed:
    """The outputs at one width, and what of the results between operators is shown."""
    taken = Taken(reference.probed.places)
    return execute(trace, reference.inputs, wide=wide, steps=steps, taken=taken, progress=progress), taken


_ENDING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Ctrl-C and the order to end come after the block, and to a process that begins in it when it asks for them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _execute_narrow(trace: Trace, reference: Reference, sender: Connection) -> None:
    """Body of the second process: send the outputs, or the exception that the first one shall raise."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    try:
        sender.send(_executed(trace, reference, wide=False))
    except Exception as error:  # noqa: BLE001  (whatever it is, it belongs to the parent)
        sender.send(error)


def _badness(row: CheckRow) -> tuple[bool, bool, bool, float]:
    """A failure first, then what is disputed or proves nothing, then by the error."""
    share = row.error / row.allowed if row.passed and row.allowed else 0.0
    return row.failed, row.dispute != "", not row.conclusive, share
