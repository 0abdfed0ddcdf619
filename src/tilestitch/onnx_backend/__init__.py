"""Tilestitch as a backend of ONNX: a model is compiled for the machine `toy`, and the program is executed on arrays.

    import onnx.backend.test
    import tilestitch.onnx_backend

    tests = onnx.backend.test.BackendTest(tilestitch.onnx_backend, __name__)

`python -m tilestitch.onnx_backend` runs ONNX's own tests of single nodes, and says how many are computed by rules of
Tilestitch, by generic operators, or refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper
from onnx.backend.base import Backend, BackendRep

from tilestitch.base.errors import InputError, TilestitchError
from tilestitch.frontend.network import EmptyOutput, NotCovered, SequenceOutput
from tilestitch.frontend.reader import read_onnx
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.hardware.load import load_machine
from tilestitch.ir.graph import Graph
from tilestitch.ir.verify import verify_program
from tilestitch.onnx_backend.sequences import with_tensor_inputs, with_tensor_outputs
from tilestitch.ops.generic import KIND
from tilestitch.pipeline.compilation import Compilation
from tilestitch.pipeline.compile import compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import strategy_named
from tilestitch.sim.chip.execute import execute

MACHINE, STRATEGY = "toy", "tvm"
SETTING_ELEMENTS = 64  # axes, sizes, pads, scales: what a network has as constants is never longer


@dataclass(frozen=True)
class Executed:
    """What became of a model on some inputs; `compilation` is None where no output has an element to compute.

    An output that is a sequence is a tuple. `evaluated` are the operators whose values, of constants alone, came from
    onnxruntime.
    """

    outputs: tuple[np.ndarray | tuple[np.ndarray, ...], ...]
    compilation: Compilation | None
    evaluated: tuple[str, ...] = ()


class Prepared(BackendRep):
    """A model that can be run; it is compiled when it is, for the shapes and settings that come."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model

    def run(self, inputs: Sequence[object] | Mapping[str, object], **kwargs: object) -> tuple[Any, ...]:
        """The outputs, in the types that the model declares; inputs in order, or by name."""
        return execute_model(self.model, inputs).outputs


class TilestitchBackend(Backend):
    """The interface of `onnx.backend.base`, for the device CPU: the simulated machine."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: object) -> bool:
        """Whether the model can be read as it is; one with settings among its inputs may still run."""
        try:
            read_onnx(model)
        except TilestitchError:
            return False
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: object) -> Prepared:
        """A handle for a model; nothing is refused before it is run."""
        if not cls.supports_device(device):
            raise InputError(f"device {device!r}: expected CPU, which stands for the simulated machine.")
        return Prepared(model)

    @classmethod
    def run_model(
        cls,
        model: onnx.ModelProto,
        inputs: Sequence[object] | Mapping[str, object],
        device: str = "CPU",
        **kwargs: object,
    ) -> tuple[Any, ...]:
        """The outputs of a model on some inputs."""
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Sequence[object] | Mapping[str, object],
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: object,
    ) -> tuple[Any, ...]:
        """The outputs of one node of the newest opset, or of `opset_version`."""
        names = [name for name in node.input if name]
        arrays = _arrays(inputs if isinstance(inputs, Mapping) else dict(zip(names, inputs, strict=True)))
        opset = kwargs.get("opset_version", defs.onnx_opset_version())
        assert isinstance(opset, int)
        values = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in arrays.items()
        ]
        results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "node", values, results)
        opsets = [helper.make_opsetid(node.domain, opset)]
        return cls.run_model(helper.make_model(graph, opset_imports=opsets), arrays, device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


is_compatible = TilestitchBackend.is_compatible
prepare = TilestitchBackend.prepare
run_model = TilestitchBackend.run_model
run_node = TilestitchBackend.run_node
supports_device = TilestitchBackend.supports_device


def execute_model(model: onnx.ModelProto, inputs: Sequence[object] | Mapping[str, object]) -> Executed:
    """Compile a model for the shapes of some inputs, and execute the program at twice the storage width.

    Inputs that must be known while reading (axes, shapes, sizes, scales, as the tests of single nodes have them) become
    constants of the model, with the values that came; so do inputs without elements. Outputs without elements are not
    computed. Raises `InputError` for what is not understood, `DoesNotFit` for what is too large for the machine.
    """
    weights = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in weights]
    results = [value.name for value in model.graph.output]
    values = inputs if isinstance(inputs, Mapping) else dict(zip(names, inputs, strict=True))
    model, values = with_tensor_inputs(model, values)
    arrays = _arrays(values)
    settings = {name for name, array in arrays.items() if array.size == 0}
    empty: dict[str, np.ndarray] = {}
    sequences: dict[str, tuple[str, ...]] = {}
    bound, graph, evaluated = model, None, list[str]()
    while len(empty) < len(model.graph.output) and graph is None:
        bound = _bound(model, arrays, settings, [one.name for one in model.graph.output if one.name not in empty])
        try:
            evaluated.clear()
            graph = read_onnx(bound, evaluated=evaluated)
        except NotCovered as error:
            more = _settings(bound, arrays, error.depends_on) - settings
            if not more:
                raise
            settings |= more
        except EmptyOutput as error:
            empty[error.name] = error.value
        except SequenceOutput as error:
            model, sequences[error.name] = with_tensor_outputs(model, error.name, error.length)
    if graph is None:
        return Executed(_results(model, results, sequences, empty), None)
    bound = _with_rules(bound, graph, arrays)
    done = compile_network(bound, graph.name, _machine(), strategy_named(STRATEGY), Options())
    assert done.program is not None
    assert done.trace is not None
    verify_program(done.program)
    (found,) = execute(done.trace, [arrays], wide=True)
    return Executed(_results(model, results, sequences, {**found, **empty}), done, tuple(evaluated))


@cache
def _machine() -> Accelerator:
    return load_machine(MACHINE)


def _arrays(values: Mapping[str, object]) -> dict[str, np.ndarray]:
    """Arrays by the names of the inputs, None left out; what is no tensor is refused."""
    arrays = {}
    for name, value in values.items():
        if isinstance(value, onnx.TensorProto):
            value = numpy_helper.to_array(value)
        if value is None:
            continue
        if not isinstance(value, np.ndarray | np.generic | int | float | bool):
            raise InputError(f"input '{name}' is a {type(value).__name__}; expected a tensor.")
        arrays[name] = np.asarray(value)
    return arrays


def _bound(
    model: onnx.ModelProto, arrays: Mapping[str, np.ndarray], settings: set[str], outputs: Sequence[str]
) -> onnx.ModelProto:
    """The model for inputs of these shapes, those of `settings` being constants, and for some of its outputs.

    An optional input is a tensor, or absent where None came for it.
    """
    bound = onnx.ModelProto()
    bound.CopyFrom(model)
    absent = {v.name for v in bound.graph.input if v.name not in arrays and v.type.HasField("optional_type")}
    for node in bound.graph.node:
        node.input[:] = ["" if name in absent else name for name in node.input]
    inputs = [value for value in bound.graph.input if value.name not in settings | absent]
    for value in inputs:
        if value.name in arrays and value.type.HasField("optional_type"):
            value.type.CopyFrom(value.type.optional_type.elem_type)
        if value.name in arrays and value.type.HasField("tensor_type"):
            shape = value.type.tensor_type.shape
            shape.Clear()
            for extent in arrays[value.name].shape:
                shape.dim.add(dim_value=extent)
    del bound.graph.input[:]
    bound.graph.input.extend(inputs)
    del bound.graph.output[:]
    bound.graph.output.extend(value for value in model.graph.output if value.name in outputs)
    bound.graph.initializer.extend(numpy_helper.from_array(arrays[name], name) for name in arrays if name in settings)
    return bound


def _with_rules(bound: onnx.ModelProto, graph: Graph, arrays: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    """The model with such settings known, of those that generic operators read, as give an operator a rule instead."""
    generic = [op for op in graph.operators if op.kind == KIND]
    read = {name for op in generic for name in op.inputs}
    for name in graph.inputs:
        if name not in read or not _is_short(arrays[name]) or set(graph.inputs) == {name}:
            continue
        known = _bound(bound, arrays, {name}, [value.name for value in bound.graph.output])
        try:
            found = read_onnx(known)
        except InputError:
            continue
        if sum(op.kind == KIND for op in found.operators) < len(generic) and found.inputs:
            return _with_rules(known, found, arrays)
    return bound


def _is_short(array: np.ndarray) -> bool:
    return array.ndim <= 1 and array.size <= SETTING_ELEMENTS


def _settings(model: onnx.ModelProto, arrays: Mapping[str, np.ndarray], tensors: Sequence[str]) -> set[str]:
    """The inputs, short ones of at most one axis, that some tensors are computed from.

    Of tensors inside a node nothing is known: all short integers.
    """
    wanted = set(tensors)
    for node in reversed(model.graph.node):
        if wanted.intersection(node.output):
            wanted.update(node.input)
    found = {name for name, array in arrays.items() if name in wanted and _is_short(array)}
    return found or {name for name, array in arrays.items() if _is_short(array) and array.dtype.kind in "iub"}


def _results(
    model: onnx.ModelProto,
    names: Sequence[str],
    sequences: Mapping[str, Sequence[str]],
    found: Mapping[str, np.ndarray],
) -> tuple[np.ndarray | tuple[np.ndarray, ...], ...]:
    """Outputs in the element types that the model declares for them, where it does; those of a sequence in a tuple."""
    types = {value.name: value.type.tensor_type.elem_type for value in model.graph.output}

    def typed(name: str) -> np.ndarray:
        value, kind = np.asarray(found[name]), types[name]
        return value.astype(helper.tensor_dtype_to_np_dtype(kind)) if kind else value

    return tuple(tuple(typed(part) for part in sequences[name]) if name in sequences else typed(name) for name in names)
