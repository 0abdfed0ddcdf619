"""ONNX's own tests of single nodes, as the installed onnx has them: how each of them fares, and the counts."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.test_case import TestCase

from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.onnx_backend import Executed, execute_model


class NodeVerdict(StrEnum):
    """What became of one test."""

    OWN = "verified by rules of our own"
    GENERIC = "generic, or evaluated while reading"
    REFUSED = "refused"
    DISPUTED = "disputed"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Result:
    """One test, and why: the generic operators, the reason of a refusal, the difference."""

    name: str
    outcome: NodeVerdict
    reason: str


_NOISE = (
    "the expected data has the rounding noise of an FFT, 2e-7 where the exact sum is 0, and allows 1e-7; "
    "onnxruntime is off by 1e-5"
)
_RESIZE = "onnxruntime aligns corners to the rounded length of the result, the expected data to the exact one"
# Tests whose expected data is not what the standard says to the tolerance of the test, each with the reason.
DISPUTED = {
    "test_dft_inverse": _NOISE,
    "test_dft_inverse_opset19": _NOISE,
    "test_resize_downsample_scales_cubic_align_corners": _RESIZE,
    "test_resize_downsample_scales_linear_align_corners": _RESIZE,
}


def cases() -> list[TestCase]:
    """The tests of the installed onnx, sorted by name; takes seconds, as onnx computes what it expects."""
    from onnx.backend.test.case.node import collect_testcases  # hundreds of modules

    return sorted(collect_testcases(None), key=lambda case: case.name)


def results(selected: Sequence[TestCase]) -> Iterator[Result]:
    """One after another, with warnings of numpy about infinities that tests want left out."""
    for case in selected:
        with np.errstate(all="ignore"):
            yield result(case)


def result(case: TestCase) -> Result:
    """Compile, execute and compare one test, with its own tolerance; a disputed one may pass."""
    reasons: list[str] = []
    assert case.data_sets is not None
    assert case.model is not None
    for inputs, expected in case.data_sets:
        try:
            executed = execute_model(case.model, [_array(value) for value in inputs])
        except (InputError, DoesNotFit) as error:
            return Result(case.name, NodeVerdict.REFUSED, str(error))
        difference = _difference(case, executed.outputs, [_array(value) for value in expected])
        if difference and case.name in DISPUTED:
            return Result(case.name, NodeVerdict.DISPUTED, DISPUTED[case.name])
        if difference:
            return Result(case.name, NodeVerdict.WRONG, difference)
        reasons += _not_ours(executed)
    if reasons:
        return Result(case.name, NodeVerdict.GENERIC, ", ".join(dict.fromkeys(reasons)))
    return Result(case.name, NodeVerdict.OWN, "")


def _array(value: object) -> object:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _difference(case: TestCase, outputs: Sequence[object], expected: Sequence[object]) -> str:
    """What onnx's own comparison says, or nothing; it is given the tensors of sequences one by one."""
    from onnx.backend.test.runner import Runner

    found = [len(one) if isinstance(one, list | tuple) else None for one in outputs]
    wanted = [len(one) if isinstance(one, list | tuple) else None for one in expected]
    if found != wanted:
        return f"sequences of lengths {found}; expected {wanted}"
    try:
        Runner.assert_similar_outputs(_tensors(expected), _tensors(outputs), rtol=case.rtol, atol=case.atol)
    except AssertionError as error:
        return " ".join(str(error).split())
    return ""


def _tensors(outputs: Sequence[object]) -> list[object]:
    return [tensor for one in outputs for tensor in (one if isinstance(one, list | tuple) else [one])]


def _not_ours(executed: Executed) -> list[str]:
    """Operators whose value comes from elsewhere: the generic ones; where nothing is left to compute, the evaluated."""
    if executed.compilation is None:
        return []
    if not executed.compilation.loaded.operators:
        return list(executed.evaluated)
    report = executed.compilation.report
    assert report is not None
    return [row.operator for row in report.generic_operators]


def summary(found: Sequence[Result]) -> str:
    """The counts with their shares, what is generic, and the reasons of what is not verified."""
    counts = Counter(one.outcome for one in found)
    lines = [f"{len(found):,} tests of single nodes in onnx {onnx.__version__}"]
    lines += [f"  {counts[kind]:5,}  {100 * counts[kind] / len(found):5.1f} %  {kind}" for kind in NodeVerdict]
    for kind, title in (
        (NodeVerdict.GENERIC, "generic, or evaluated while reading: operators"),
        (NodeVerdict.REFUSED, "refused"),
        (NodeVerdict.DISPUTED, "disputed"),
        (NodeVerdict.WRONG, "wrong"),
    ):
        reasons = Counter(_reason(one) for one in found if one.outcome is kind)
        lines += ["", title] if reasons else []
        lines += [f"  {count:5,}  {reason}" for reason, count in sorted(reasons.items(), key=lambda item: -item[1])]
    return "\n".join(lines) + "\n"


def _reason(one: Result) -> str:
    """A reason without the names of network and node, so that alike ones are counted together."""
    if one.outcome is NodeVerdict.WRONG:
        return f"{one.name}: {one.reason[:200]}"
    if one.outcome is NodeVerdict.DISPUTED:
        return f"{one.name}: {one.reason}"
    quoted = one.reason.split("'")
    return "'...'".join(quoted[::2])[:160]
