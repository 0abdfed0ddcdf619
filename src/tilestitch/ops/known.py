"""What an operator of each kind has: how many operands and results, and which attributes.

The frontend and the passes make no others; a graph from a file may say anything.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tilestitch.base.dtypes import DType
from tilestitch.base.errors import InvalidIR
from tilestitch.base.units import counted
from tilestitch.ir.graph import Attribute, Graph, Operator
from tilestitch.ops import RULES, VIEWS, generic
from tilestitch.ops.functions import FUNCTIONS
from tilestitch.ops.partial_sums import PARTIAL
from tilestitch.ops.recomputed import AGAIN
from tilestitch.ops.streaming import BLOCK_OF

_MANY = 2**31


@dataclass(frozen=True, slots=True)
class Known:
    """How many operands and results there are, from the least to the most, and attributes with their types."""

    reads: tuple[int, int]
    writes: tuple[int, int] = (1, 1)
    attributes: Mapping[str, type] = field(default_factory=dict)
    optional: Mapping[str, type] = field(default_factory=dict)


def verify_operators(graph: Graph) -> None:
    """Raise `InvalidIR` unless every operator is of a known kind, and has what that kind needs and nothing else."""
    faults = [f"operator {op.name!r} ({op.kind}): {fault}" for op in graph.operators for fault in _faults(op)]
    if faults:
        raise InvalidIR("\n".join(f"graph {graph.name}: {fault}" for fault in faults))


def _faults(op: Operator) -> Iterator[str]:
    if op.kind not in RULES:
        yield "is of an unknown kind"
        return
    known = KNOWN[op.kind]
    for what, count, (least, most) in (
        ("operand", len(op.reads), known.reads),
        ("result", len(op.writes), known.writes),
    ):
        if not least <= count <= most:
            right = str(least) if least == most else f"at least {least}" if most == _MANY else f"{least} to {most}"
            yield f"has {counted(count, what)}; expected {right}"
    if op.kind in VIEWS and len(op.reads) != len(op.writes):
        yield f"moves {counted(len(op.reads), 'operand')} to {counted(len(op.writes), 'result')}; expected pairs"
    yield from _attribute_faults(op, known)


def _attribute_faults(op: Operator, known: Known) -> Iterator[str]:
    found = dict(op.attributes)
    needed, optional = dict(known.attributes), {**known.optional, AGAIN: int}
    if op.kind == generic.KIND:  # the dims of each operand and result
        needed |= {f"read.{number}": tuple for number in range(len(op.reads))}
        needed |= {f"write.{number}": tuple for number in range(len(op.writes))}
    if op.kind in _STEPS and len(op.reads) == 1:  # scale and zero point are one number each
        needed |= _STEPS[op.kind]
    for name, value in found.items():
        if name not in needed and name not in optional:
            all_known = ", ".join((*needed, *known.optional)) or "none"
            yield f"has an unknown attribute {name!r}; known: {all_known}"
        elif not _is_of(value, (needed | optional)[name]):
            yield f"attribute {name!r} is {str(value)[:40]!r}; expected {_WORDS[(needed | optional)[name]]}"
        elif name == "to" and op.kind != "bit_cast" and value not in [str(dtype) for dtype in DType]:
            yield f"attribute 'to' is {str(value)[:40]!r}; expected a type of elements in memory, such as float16"
    for name in needed:
        if name not in found:
            yield f"lacks the attribute {name!r}"


def _is_of(value: Attribute, kind: type) -> bool:
    if kind is tuple:
        return isinstance(value, tuple) and all(isinstance(item, int) for item in value)
    return isinstance(value, kind)


def _operands(function: Callable) -> tuple[int, int]:
    """How many arrays a function of an operator and arrays takes."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    fixed = sum(parameter.kind is not parameter.VAR_POSITIONAL for parameter in parameters)
    return fixed, fixed if fixed == len(parameters) else 3  # then a scale and a zero point may follow


_WORDS = {int: "a whole number", float: "a number", str: "text", bytes: "bytes", tuple: "a list of whole numbers"}
_STEPS = {"quantize": {"scale": float, "zero": int}, "dequantize": {"scale": float, "zero": int}}
_ATTRIBUTES: dict[str, dict[str, type]] = {  # of element-wise kinds
    "batch_norm": {"epsilon": float},
    "bit_cast": {"from": str, "to": str},
    "bit_not": {"bits": int},
    "bit_shift": {"direction": str, "bits": int},
    "cast": {"to": str},
    "celu": {"alpha": float},
    "clip": {"min": float, "max": float},
    "elu": {"alpha": float},
    "is_inf": {"detect_negative": int, "detect_positive": int},
    "leaky_relu": {"alpha": float},
    "mod": {"fmod": int},
    "quantize": {"to": str},
    "selu": {"alpha": float, "gamma": float},
    "shrink": {"bias": float, "lambd": float},
    "thresholded_relu": {"alpha": float},
}
_OPTIONAL: dict[str, dict[str, type]] = {
    "add": {PARTIAL: int},
    "cast": {"saturate": int, "round_mode": str},
    "gelu": {"approximate": str},
    "hard_sigmoid": {"alpha": float, "beta": float},
    "quantize": {"saturate": int},
    "swish": {"alpha": float},
}
_RESCALED = {"factor": float, "low": float, "high": float, "to": str, "scale": float, "zero": int}
# A product's sums are corrected by a zero point and sums of weights, then rescaled by a factor, then get a bias.
_PRODUCT = Known((2, 6), optional={"zeros": tuple, "corrected": int, "rescaled": int, **_RESCALED, BLOCK_OF: tuple})

KNOWN: dict[str, Known] = {
    **{kind: Known((1, _MANY), (1, _MANY)) for kind in VIEWS},
    **{
        kind: Known(_operands(function.apply), (1, 1), _ATTRIBUTES.get(kind, {}), _OPTIONAL.get(kind, {}))
        for kind, function in FUNCTIONS.items()
    },
    **dict.fromkeys(("conv", "matmul"), _PRODUCT),
    **{f"reduce_{name}": Known((1, 1)) for name in ("max", "mean", "min", "prod", "variance")},
    "reduce_sum": Known((1, 1), optional={PARTIAL: int}),
    **dict.fromkeys(("hardmax", "log_softmax", "max_pool", "pad", "softmax"), Known((1, 1))),
    **dict.fromkeys(("arg_max", "arg_min"), Known((1, 1), attributes={"select_last_index": int})),
    **dict.fromkeys(("cum_prod", "cum_sum"), Known((1, 1), attributes={"exclusive": int, "reverse": int})),
    **dict.fromkeys(("lp_norm", "lp_pool"), Known((1, 1), attributes={"p": int})),
    "average_pool": Known((1, 2)),
    "carry": Known((3, 5)),
    "deformed_places": Known((1, _MANY), (1, 2), {"sizes": tuple}),
    "gather": Known((2, 2)),
    "generic": Known((1, _MANY), (1, _MANY), {"op_type": str, "evaluator": str, "model": bytes}),
    "grid_places": Known(
        (1, _MANY), (1, 2), {"sizes": tuple, "mode": str, "padding": str, "align_corners": int, "shares": int}
    ),
    "layer_norm": Known((1, 3), attributes={"epsilon": float}),
    "lrn": Known((2, 2), attributes={"alpha": float, "beta": float, "bias": float}),
    "place_of_largest": Known((3, 3)),
    "region_places": Known(
        (1, _MANY),
        (1, 2),
        {"sizes": tuple, "bins": tuple, "samples": int, "scale": float, "shift": float, "count": int},
    ),
    "rms_norm": Known((1, 2), attributes={"epsilon": float}),
    "scatter": Known((4, 4), attributes={"reduction": str, "size": int}),
    "top_k": Known((1, 1), (1, 2), {"largest": int, "results": str}),
}
