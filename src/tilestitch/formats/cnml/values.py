"""Calls of CNML as values: operators, tensors and constants of an emitted program."""

from dataclasses import dataclass

import numpy as np

from tilestitch.base.errors import InputError
from tilestitch.ir.graph import Access, Graph, Operator

Shape = tuple[int, int, int, int]  # samples, channels, rows, columns


@dataclass(frozen=True, slots=True)
class Constant:
    """Values that the program reads: of which kind of tensor, and of which shape."""

    name: str
    kind: str
    shape: Shape
    values: np.ndarray  # float32


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor as an argument, or where it is called for, its address."""

    name: str
    address: bool = False


@dataclass(frozen=True, slots=True)
class AllInputs:
    """All inputs of an operator as an argument: an array."""


Argument = str | Operand | AllInputs


@dataclass(frozen=True, slots=True)
class Call:
    """One operator of CNML."""

    name: str
    create: str  # cnmlCreate...
    arguments: tuple[Argument, ...]  # behind the operator and its parameters
    compute: str
    inputs: tuple[str, ...]
    output: str
    parameter: str = ""  # its type without cnml and _t, if it has one
    parameter_create: str = ""
    parameter_arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Calls:
    """What one operator becomes: calls in order, tensors between them, constants."""

    calls: tuple[Call, ...]
    between: tuple[tuple[str, Shape], ...] = ()
    constants: tuple[Constant, ...] = ()


def shape_of(graph: Graph, op: Operator, name: str) -> Shape:
    """A tensor's shape with four axes."""
    shape = graph.tensors[name].shape
    if len(shape) == 4:
        return shape[0], shape[1], shape[2], shape[3]
    if len(shape) == 2:
        return shape[0], shape[1], 1, 1
    raise fault(graph, op, f"tensor '{name}' has {len(shape)} axes; expected 4, or 2")


def fault(graph: Graph, op: Operator, what: str) -> InputError:
    """Why an operator cannot be a call, with the way out."""
    return InputError(
        f"{graph.name}: operator '{op.name}': {what}. Leave out --emit cnml: -o writes the plan as JSON then"
    )


def named_call(
    op: Operator,
    name: str,
    arguments: tuple[Argument, ...],
    inputs: tuple[str, ...],
    parameter: str = "",
    parameter_arguments: tuple[str, ...] = (),
) -> Call:
    """An operator `cnmlCreate<name>Op` with its parameters, and the run that goes with it."""
    create = f"cnmlCreate{parameter}" if parameter else ""
    compute = f"cnmlCompute{name}OpForward_V3"
    return Call(
        op.name,
        f"cnmlCreate{name}Op",
        arguments,
        compute,
        inputs,
        op.outputs[0],
        parameter,
        create,
        parameter_arguments,
    )


def operand_of(graph: Graph, op: Operator, read: Access, sources: dict[str, str]) -> str:
    """A tensor that the device computes, or that comes in."""
    if read.tensor in graph.constants:
        raise fault(graph, op, f"reads the constant '{read.tensor}' where CNML expects a tensor that is computed")
    shape_of(graph, op, read.tensor)
    return sources.get(read.tensor, read.tensor)


def weights_of(graph: Graph, op: Operator, name: str) -> np.ndarray:
    """The values of a constant, in float32."""
    if name not in graph.constants:
        raise fault(graph, op, f"reads '{name}', which is computed, where CNML expects a constant")
    return np.ascontiguousarray(graph.constants[name], np.float32)


def channels_of(name: str, values: np.ndarray) -> Constant:
    """A number for each channel."""
    return Constant(name, "CNML_CONST", (1, values.size, 1, 1), values)


def fresh(graph: Graph, name: str) -> str:
    """A name that nothing in the network has."""
    while name in graph.tensors or name in graph.by_name:
        name += "_"
    return name


def four(values: np.ndarray) -> Shape:
    """The shape of an array of four axes."""
    n, c, height, width = values.shape
    return n, c, height, width
