"""A graph while it is being read: one ONNX node at a time, and what is known of every tensor so far."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tilestitch.base.dtypes import DType
from tilestitch.base.errors import InputError
from tilestitch.base.storage import STORAGE, array_type
from tilestitch.frontend.budget import Budget
from tilestitch.frontend.constant_steps import step_value
from tilestitch.frontend.element_types import known_types, numpy_type, type_name, type_text
from tilestitch.frontend.operators.accesses import Shape
from tilestitch.ir.graph import Operator, Tensor


class NotCovered(InputError):
    """A standard operator, or a feature of one, for which there is no rule; it may have a value all the same.

    `depends_on` names the computed tensors whose values would have to be known while reading.
    """

    def __init__(self, where: str, text: str, depends_on: tuple[str, ...] = ()) -> None:
        super().__init__(f"{where}: {text}")
        self.text, self.depends_on = text, depends_on


class Faults(InputError):
    """Everything that is not understood of one network."""

    def __init__(self, texts: Sequence[str]) -> None:
        super().__init__("\n".join(texts))
        self.texts = tuple(texts)


class EmptyOutput(InputError):
    """An output of the network without elements: nothing is there to compute or to store."""

    def __init__(self, where: str, name: str, value: np.ndarray) -> None:
        super().__init__(f"{where}: output '{name}' has shape {text_of(value.shape)}; it must not be empty.")
        self.name, self.value = name, value


class SequenceOutput(InputError):
    """An output of the network that is a sequence of `length` tensors."""

    def __init__(self, where: str, name: str, length: int) -> None:
        super().__init__(f"{where}: output '{name}' is a sequence of tensors; export with tensors for outputs.")
        self.name, self.length = name, length


@dataclass(frozen=True, slots=True)
class Target:
    """Where one step of a node goes: the name of its operator and the tensor that it writes."""

    operator: str
    tensor: str


@dataclass(slots=True)
class Node:
    """One ONNX node. Attributes are taken out when they are read, so that none is overlooked.

    An absent optional input is "", and so is an output that nobody needs.
    """

    where: str  # "net.onnx: node 'conv1' (Conv)"
    name: str
    op_type: str
    opsets: Mapping[str, int]  # version of each domain; "" is that of the standard operators
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, onnx.AttributeProto]

    @property
    def opset(self) -> int:
        """Version of the standard operators."""
        return self.opsets[""]

    def fault(self, text: str) -> InputError:
        """The error to raise: what was found, and what would be right."""
        return InputError(f"{self.where}: {text}")

    def not_covered(self, text: str, *, depends_on: tuple[str, ...] = ()) -> NotCovered:
        """The error to raise where the node is right, and only a rule for it is missing."""
        return NotCovered(self.where, text, depends_on)

    def operand(self, number: int) -> str | None:
        """The name of an optional input, or None where it is absent."""
        return self.inputs[number] if number < len(self.inputs) and self.inputs[number] else None

    def needs(self, output: int) -> bool:
        """Whether somebody reads that output."""
        return output < len(self.outputs) and self.outputs[output] != ""

    @property
    def target(self) -> Target:
        """The node's own name and its first output."""
        return Target(self.name, self.outputs[0])

    def refuse_outputs(self, first: int, meaning: str) -> None:
        """Refuse a node whose outputs from number `first` on are used."""
        for number in range(first, len(self.outputs)):
            if self.needs(number):
                name = self.outputs[number]
                raise self.not_covered(f"output '{name}' ({meaning}) is used; only the first is supported.")

    def integer(self, name: str, default: int) -> int:
        found = self.attributes.pop(name, None)
        return default if found is None else found.i

    def flag(self, name: str, *, default: bool = False) -> bool:
        found = self.integer(name, int(default))
        if found not in (0, 1):
            raise self.fault(f"attribute {name}={found}: expected 0 or 1.")
        return found == 1

    def integers(self, name: str) -> tuple[int, ...] | None:
        found = self.attributes.pop(name, None)
        return None if found is None else tuple(found.ints)

    def reals(self, name: str) -> tuple[float, ...] | None:
        found = self.attributes.pop(name, None)
        return None if found is None else tuple(found.floats)

    def tensor(self, name: str) -> np.ndarray | None:
        found = self.attributes.pop(name, None)
        return None if found is None else numpy_helper.to_array(found.t)

    def real(self, name: str, default: float) -> float:
        found = self.attributes.pop(name, None)
        if found is not None and isnan(found.f):
            raise self.fault(f"attribute {name}=nan: expected a number; the file is damaged: export it again.")
        return default if found is None else _shortest(found.f)

    def text(self, name: str, default: str) -> str:
        found = self.attributes.pop(name, None)
        return default if found is None else found.s.decode(errors="replace")

    def ignore(self, *names: str) -> None:
        """Take out attributes that do not change the result."""
        for name in names:
            self.attributes.pop(name, None)

    def expect_nothing_left(self) -> None:
        """Refuse attributes that no rule has read."""
        for name, attribute in self.attributes.items():
            value = helper.get_attribute_value(attribute)
            raise self.not_covered(f"attribute {name}={value!r} is not supported; export the network without it.")


def _shortest(value: float) -> float:
    """The shortest decimal that is the same float32: 0.01, not 0.009999999776482582."""
    return float(str(np.float32(value)))


_STAYING = frozenset({"dequantize", "expand", "gather", "tile"})


class Reading:
    """Tensors, constants and operators in the order in which they were found.

    Constants are weights of the file and everything that follows from them. A weight is converted to an array when it
    is first needed as one.
    """

    def __init__(self, where: str, names: set[str], budget: Budget, exported_shapes: Mapping[str, Shape] = {}) -> None:
        self._where = where  # the file, for messages
        self.budget = budget
        self.exported_shapes = exported_shapes  # of tensors at the batch of the file, where another one is read
        self.tensors: dict[str, Tensor] = {}
        self.operators: list[Operator] = []
        self._names = set(names)  # of the file's tensors and nodes, which new ones must not meet
        self._types: dict[str, np.dtype] = {}
        self._weights: dict[str, onnx.TensorProto] = {}
        self._constants: dict[str, np.ndarray] = {}
        self.sequences: dict[str, tuple[str, ...]] = {}  # the tensors of each sequence
        self.evaluated: list[str] = []  # operators of which onnxruntime gave the values

    def add_input(self, name: str, shape: Shape, element_type: np.dtype) -> None:
        self._types[name] = element_type
        self.tensors[name] = _tensor(name, shape, STORAGE[element_type])

    def mark(self) -> tuple[int, int]:
        """Where the network ends now; see `rollback`."""
        return len(self.operators), len(self.tensors)

    def rollback(self, mark: tuple[int, int]) -> None:
        """Forget the operators and tensors that came after `mark`; new constants stay, and are harmless."""
        operators, tensors = mark
        del self.operators[operators:]
        for name in list(self.tensors)[tensors:]:
            del self.tensors[name]
            self._types.pop(name, None)

    def add_weight(self, name: str, proto: onnx.TensorProto) -> None:
        """A constant as it stands in the file."""
        self._weights[name] = proto

    def add_constant(self, name: str, value: np.ndarray) -> None:
        self._constants[name] = np.asarray(value)  # numpy makes scalars of arrays without axes

    def has(self, name: str) -> bool:
        """Whether a tensor has been found."""
        return name in self.tensors or name in self.sequences or self.is_known(name)

    def is_known(self, name: str) -> bool:
        """Whether the value is known while reading."""
        return name in self._constants or name in self._weights

    def shape(self, name: str) -> Shape:
        if name in self._constants:
            return self._constants[name].shape
        if name in self._weights:
            return tuple(self._weights[name].dims)
        return self.tensors[name].shape

    def element_type(self, name: str) -> np.dtype:
        """The type in the ONNX file, which may be wider than the one that is stored."""
        if name in self._constants:
            return self._constants[name].dtype
        if name in self._weights:
            found = numpy_type(self._weights[name].data_type)
            return np.dtype(object) if found is None else found
        return self._types[name]

    def is_float(self, name: str) -> bool:
        dtype = STORAGE.get(self.element_type(name))
        return dtype is not None and dtype.is_float

    def value(self, name: str) -> np.ndarray | None:
        """The value of a constant, or None where it depends on the network's inputs."""
        if name in self._weights:
            proto = self._weights.pop(name)
            try:
                self._constants[name] = numpy_helper.to_array(proto)
            except (ValueError, TypeError, KeyError) as error:
                size = "x".join(map(str, proto.dims))
                raise InputError(
                    f"{self._where}: tensor '{name}' ({type_name(proto.data_type)}[{size}]) cannot be read "
                    f"({_first_line(error)}); the file is damaged: export it again."
                ) from error
        return self._constants.get(name)

    def converted(self, weights: Iterable[str]) -> dict[str, np.ndarray]:
        """Those of the file's `weights` that somebody needed as arrays."""
        return {name: self._constants[name] for name in weights if name in self._constants}

    def known_value(self, name: str) -> np.ndarray:
        """The value of a tensor of which `is_known` holds."""
        value = self.value(name)
        assert value is not None, name
        return value

    def required_value(self, node: Node, number: int, meaning: str) -> np.ndarray:
        """The value of an operand that must be known while reading."""
        value = self.value(node.inputs[number])
        if value is None:
            raise node.not_covered(
                f"{meaning} '{node.inputs[number]}' depends on the network's inputs; "
                "it must be a constant: export with static shapes.",
                depends_on=(node.inputs[number],),
            )
        return value

    def integers(self, node: Node, number: int, meaning: str) -> tuple[int, ...]:
        """The values of an operand that must be known while reading, as integers."""
        return tuple(int(value) for value in self.required_value(node, number, meaning).ravel())

    def scalar(self, node: Node, number: int, meaning: str) -> float | int:
        """The value of an operand that must be known while reading, and be one number."""
        value = self.required_value(node, number, meaning)
        if value.size != 1:
            raise node.fault(f"{meaning} '{node.inputs[number]}' has {value.size} elements; expected one number.")
        return value.reshape(()).item()

    def fresh(self, name: str) -> str:
        """`name`, or with a number behind it where something has that name already."""
        found, count = name, 1
        while found in self._names:
            count += 1
            found = f"{name}_{count}"
        self._names.add(found)
        return found

    def step(self, node: Node, suffix: str, tensor: str | None = None) -> Target:
        """The target of a step of a node: operator `<node>.<suffix>`, and a tensor of the same name unless told."""
        name = self.fresh(f"{node.name}.{suffix}")
        return Target(name, name if tensor is None else tensor)

    def last_step(self, node: Node, suffix: str) -> Target:
        """The target of the last of a node's steps, which writes its first output."""
        return self.step(node, suffix, node.outputs[0])

    def afford(self, node: Node, elements: int) -> None:
        """Refuse a node that would need so many numbers at once for its constants, before they are made."""
        Budget().spend(8 * elements, elements, node.fault)

    def new_constant(self, node: Node, suffix: str, value: np.ndarray) -> str:
        """A constant that is not in the file."""
        name = self.fresh(f"{node.name}.{suffix}")
        self.add_constant(name, value)
        return name

    def exact(self, node: Node, name: str) -> str:
        """A constant that is stored in float32, such as the scale of a quantisation; other tensors as they are."""
        value = self.value(name)
        if value is None or not self.is_float(name):
            return name
        if name in self.tensors and self.tensors[name].dtype is not DType.FLOAT32:
            name = self.new_constant(node, f"{name}.exact", value)  # another operator reads it as it is stored
        self.tensors[name] = _tensor(name, value.shape, DType.FLOAT32)
        return name

    def define(self, node: Node, name: str, shape: Shape, element_type: np.dtype) -> None:
        """Declare a tensor that an operator will write."""
        if 0 in shape or any(size < 0 for size in shape):
            raise node.not_covered(
                f"the result '{name}' has shape {text_of(shape)}; every axis needs at least 1 element."
            )
        self._types[name] = element_type
        self.tensors[name] = _tensor(name, shape, self._storage(node, name, element_type))

    def add(self, node: Node, op: Operator) -> None:
        """Append an operator; a constant that it reads becomes a tensor of the graph."""
        for access in op.reads:
            if access.tensor not in self.tensors:
                self._keep(node, access.tensor)
        self.operators.append(op)

    def emit(self, node: Node, op: Operator, shape: Shape, *, element_type: np.dtype | None = None) -> str:
        """Append an operator with one result, of the first operand's type unless told, and return the result's name.

        A result without elements, and what follows from constants alone, becomes a constant; but repeated elements,
        rows that indices pick and dequantised weights stay with the operator.
        """
        (name,), element_type = op.outputs, element_type or self.element_type(op.reads[0].tensor)
        if 0 in shape:
            self.add_constant(name, np.zeros(shape, element_type))
        elif op.kind not in _STAYING and all(self.is_known(access.tensor) for access in op.reads):
            known = [self.known_value(access.tensor) for access in op.reads]
            self.add_constant(name, step_value(op, known, shape, element_type))
        else:
            self.define(node, name, shape, element_type)
            self.add(node, op)
        return name

    def keep_output(self, name: str) -> None:
        """Make a constant that is an output of the network a tensor of the graph."""
        if self.is_known(name) and 0 in self.shape(name):
            raise EmptyOutput(self._where, name, self.known_value(name))
        if name not in self.tensors:
            self._keep(None, name)

    def _keep(self, node: Node | None, name: str) -> None:
        value = self.known_value(name)
        where = self._where if node is None else node.where
        if value.size == 0:
            raise InputError(f"{where}: constant '{name}' has shape {text_of(value.shape)}; it must not be empty.")
        dtype = self._storage(node, name, value.dtype)
        if value.dtype in (np.int64, np.uint64):
            stored = np.iinfo(array_type(dtype, wide=False))
            if value.min() < stored.min or value.max() > stored.max:
                raise InputError(
                    f"{where}: constant '{name}' holds integers from {value.min()} to {value.max()}; "
                    "they are stored in 32 bits and must fit."
                )
        self.tensors[name] = _tensor(name, value.shape, dtype)

    def _storage(self, node: Node | None, name: str, element_type: np.dtype) -> DType:
        where = self._where if node is None else node.where
        if element_type not in STORAGE:
            raise InputError(
                f"{where}: tensor '{name}' has elements of type {type_text(element_type)}; supported: {known_types()}."
            )
        return STORAGE[element_type]


Handler = Callable[[Node, Reading], None]  # writes the operators of a node


def text_of(shape: Shape) -> str:
    """`[1, 3, 224, 224]`."""
    return str(list(shape))


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


def _tensor(name: str, shape: Shape, dtype: DType) -> Tensor:
    return Tensor(name, shape, dtype, layout=tuple(range(len(shape))))
