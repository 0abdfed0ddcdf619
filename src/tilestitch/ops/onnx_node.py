"""One ONNX node as a model of its own, evaluated by onnxruntime, or by onnx's reference where that has no kernel."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper

from tilestitch.base.errors import InputError

ONNXRUNTIME_OPSET = 26  # the newest opset of the standard operators that onnxruntime reads
_STANDARD = ("", "ai.onnx")
_NUMPY_TYPES = frozenset(  # of tensors that onnxruntime gives and takes as arrays
    f"tensor({name})"
    for name in (
        *("bool", "string", "float16", "float", "double"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    )
)


def node_model(
    node: onnx.NodeProto,
    opsets: Sequence[onnx.OperatorSetIdProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    settings: Sequence[onnx.TensorProto] = (),
) -> onnx.ModelProto:
    """A model of one node; `settings` are its inputs that are constants of the model, `outputs` those to compute."""
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph([node], "node", list(inputs), results, list(settings))
    known = [helper.make_opsetid(opset.domain, readable_opset([node], opset)) for opset in opsets]
    return helper.make_model(graph, opset_imports=known, ir_version=helper.find_min_ir_version_for(known, True))


def readable_opset(nodes: Sequence[onnx.NodeProto], opset: onnx.OperatorSetIdProto) -> int:
    """The version of a domain, or the newest that onnxruntime reads if every node is defined alike in both."""
    if opset.domain not in _STANDARD or opset.version <= ONNXRUNTIME_OPSET:
        return opset.version
    for node in nodes:
        if node.domain in _STANDARD and defs.get_schema(node.op_type, opset.version).since_version > ONNXRUNTIME_OPSET:
            return opset.version
    return ONNXRUNTIME_OPSET


def evaluator(model: bytes) -> str:
    """Who can evaluate a serialised model of one node; raises `InputError` with both reasons where nobody can."""
    return _program(model, os.getpid())[0]


def evaluate_node(model: bytes, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of a serialised model of one node; raises `InputError` where it cannot be evaluated on these."""
    return _program(model, os.getpid())[1](inputs)


Run = Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]


@lru_cache(maxsize=256)
def _program(model: bytes, process: int) -> tuple[str, Run]:
    """Name of the evaluator, and what runs the model; a forked process makes its own."""
    try:
        return "onnxruntime", _by_onnxruntime(model)
    except InputError as error:
        first = str(error)
    try:
        return "onnx.reference", by_reference(model)
    except InputError as error:
        raise InputError(f"onnxruntime: {first}; onnx.reference: {error}") from None


def results_of(model: bytes) -> list[tuple[tuple[int, ...], np.dtype]] | str:
    """Shapes and types of a model's outputs as onnxruntime infers them, or why they are not known."""
    found = []
    for value in _session(model)[0].get_outputs():
        if value.type not in _NUMPY_TYPES or value.type == "tensor(string)":
            return f"a result is a {value.type}."
        if not all(isinstance(size, int) for size in value.shape):
            return "the shape of a result is not known."
        found.append((tuple(value.shape), _dtype(value.type)))
    return found


def _dtype(name: str) -> np.dtype:
    """float32 for `tensor(float)`."""
    short = name.removeprefix("tensor(").removesuffix(")")
    return np.dtype({"float": "float32", "double": "float64"}.get(short, short))


def _by_onnxruntime(model: bytes) -> Run:
    """A session without optimisations, on one thread."""
    session, failures = _session(model)
    for value in (*session.get_inputs(), *session.get_outputs()):
        if value.type not in _NUMPY_TYPES:
            raise InputError(f"{value.type} does not pass between it and numpy")

    def run(inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        try:
            return _arrays(session.run(None, dict(inputs)))
        except failures as error:
            raise InputError(f"onnxruntime: {first_line(error)}") from error

    return run


def _session(model: bytes) -> tuple[Any, tuple[type[Exception], ...]]:
    """A session of onnxruntime's, and what it raises; raises `InputError` where it does not take the model."""
    import onnxruntime  # takes a while to import, and only networks with something to evaluate need it
    from onnxruntime.capi import onnxruntime_pybind11_state as state  # pyright: ignore[reportAttributeAccessIssue]

    failures = (
        *(state.Fail, state.InvalidArgument, state.InvalidGraph, state.NotImplemented, state.RuntimeException),
        *(RuntimeError, ValueError, TypeError),
    )
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.enable_cpu_mem_arena = False  # it would keep the memory of the largest tensor, for every cached node
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]), failures
    except failures as error:
        raise InputError(first_line(error)) from error


def by_reference(model: bytes) -> Run:
    """What runs a serialised model by onnx's reference evaluator; raises `InputError` where that cannot."""
    from onnx.reference import ReferenceEvaluator  # hundreds of modules

    # Its operators raise whatever numpy or Python raise on what they do not expect.
    failures = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, RuntimeError)
    failures = (*failures, TypeError, ValueError, onnx.checker.ValidationError)
    try:
        reference = ReferenceEvaluator(onnx.ModelProto.FromString(model))
    except failures as error:
        raise InputError(first_line(error)) from error

    def run(inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        try:
            return _arrays(reference.run(None, dict(inputs)))
        except failures as error:
            raise InputError(f"onnx.reference: {first_line(error)}") from error

    return run


def _arrays(results: Iterable[object]) -> list[np.ndarray]:
    arrays = []
    for result in results:
        if not isinstance(result, np.ndarray | np.generic):
            raise InputError(f"a result is a {type(result).__name__}, not a tensor")
        arrays.append(np.asarray(result))
    return arrays


def first_line(error: Exception) -> str:
    """The first line of a message, not too long."""
    return (str(error).strip().split("\n")[0] or type(error).__name__)[:300]
