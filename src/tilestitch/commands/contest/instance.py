"""An instance of the contest: a graph of matrix products and pointwise operators, and a machine with two memories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from tilestitch.base.errors import InputError, printable
from tilestitch.base.json_text import json_value
from tilestitch.base.shown import Brief

MAX_EXTENT = 2**20  # of a tensor
MAX_OPERATORS = 500  # the largest of the contest has 152
MAX_NUMBER = 2**40  # of every other number

FIELDS = (
    "widths",
    "heights",
    "inputs",
    "outputs",
    "base_costs",
    "op_types",
    "fast_memory_capacity",
    "slow_memory_bandwidth",
    "native_granularity",
)


class Kind(StrEnum):
    """What an operator does; the names are those of the files."""

    MATMUL = "MatMul"
    POINTWISE = "Pointwise"


@dataclass(frozen=True)
class Operator:
    """A matrix product of (left, right), or a pointwise function of tensors of one shape."""

    kind: Kind
    inputs: tuple[int, ...]
    output: int
    base_cost: int  # time units


@dataclass(frozen=True, repr=False)
class Instance(Brief):
    """Tensors by number (width x height elements), operators, and the machine; checked where it is read."""

    name: str
    widths: tuple[int, ...]
    heights: tuple[int, ...]
    operators: tuple[Operator, ...]
    capacity: int  # elements of fast memory
    bandwidth: int  # elements per time unit between slow and fast memory
    native: tuple[int, int]  # width and height of the tile that costs a base cost

    @cached_property
    def producers(self) -> Mapping[int, int]:
        """The operator that makes a tensor; inputs of the graph are missing."""
        return {operator.output: number for number, operator in enumerate(self.operators)}

    @cached_property
    def consumers(self) -> Mapping[int, tuple[int, ...]]:
        """The operators that read a tensor, each once."""
        found: dict[int, list[int]] = {}
        for number, operator in enumerate(self.operators):
            for tensor in dict.fromkeys(operator.inputs):
                found.setdefault(tensor, []).append(number)
        return {tensor: tuple(numbers) for tensor, numbers in found.items()}

    @cached_property
    def results(self) -> frozenset[int]:
        """Tensors that nothing reads: they must end in slow memory."""
        return frozenset(operator.output for operator in self.operators if operator.output not in self.consumers)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The operators, each after those whose results it reads, ties by number."""
        waiting = {number: len(self._before(number)) for number in range(len(self.operators))}
        ready = [number for number, count in waiting.items() if count == 0]
        found: list[int] = []
        while ready:
            number = ready.pop(0)
            found.append(number)
            for after in self.consumers.get(self.operators[number].output, ()):
                waiting[after] -= 1
                if waiting[after] == 0:
                    ready.append(after)
        return tuple(found)

    def _before(self, number: int) -> frozenset[int]:
        tensors = self.operators[number].inputs
        return frozenset(self.producers[tensor] for tensor in tensors if tensor in self.producers)

    def size(self, tensor: int) -> int:
        """Elements of a tensor."""
        return self.widths[tensor] * self.heights[tensor]

    def depth(self, number: int) -> int:
        """How many products each element of a matrix product sums."""
        return self.widths[self.operators[number].inputs[0]]


def parse_instance(text: str, name: str) -> Instance:
    """The instance that a file holds. Raises `InputError` with the field where anything is not as it should be."""
    fields = parse_object(text, name, FIELDS)
    widths = _numbers(fields, "widths", name, 1, MAX_EXTENT)
    heights = _numbers(fields, "heights", name, 1, MAX_EXTENT)
    costs = _numbers(fields, "base_costs", name, 0, MAX_NUMBER)
    native = _numbers(fields, "native_granularity", name, 1, MAX_EXTENT)
    inputs = _lists(fields, "inputs", name)
    outputs = _lists(fields, "outputs", name)
    kinds = fields["op_types"]
    if not isinstance(kinds, list):
        raise InputError(f"{name}: op_types: expected a list, found {_shown(kinds)}")
    if len(widths) != len(heights):
        raise InputError(
            f"{name}: found widths of {len(widths)} tensors and heights of {len(heights)}; expected equal numbers"
        )
    counts = {"inputs": len(inputs), "outputs": len(outputs), "base_costs": len(costs), "op_types": len(kinds)}
    if len(set(counts.values())) != 1:
        found = ", ".join(f"{field} {count}" for field, count in counts.items())
        raise InputError(f"{name}: expected one entry per operator in each list, found {found}")
    if not 1 <= len(kinds) <= MAX_OPERATORS:
        raise InputError(f"{name}: expected 1 to {MAX_OPERATORS:,} operators, found {len(kinds):,}")
    if len(native) != 2:
        raise InputError(f"{name}: native_granularity: expected [width, height], found {len(native)} numbers")
    operators = []
    for number, kind in enumerate(kinds):
        if kind not in tuple(Kind):
            known = " or ".join(Kind)
            raise InputError(f"{name}: op_types[{number}]: expected {known}, found {_shown(kind)}")
        for field, tensors in (("inputs", inputs[number]), ("outputs", outputs[number])):
            for tensor in tensors:
                if not 0 <= tensor < len(widths):
                    raise InputError(
                        f"{name}: {field}[{number}]: there is no tensor {tensor}, only 0 to {len(widths) - 1}"
                    )
        if len(outputs[number]) != 1:
            raise InputError(f"{name}: outputs[{number}]: expected one tensor, found {len(outputs[number])}")
        operators.append(Operator(Kind(kind), tuple(inputs[number]), outputs[number][0], costs[number]))
    capacity = _number(fields["fast_memory_capacity"], f"{name}: fast_memory_capacity", 1, MAX_NUMBER)
    bandwidth = _number(fields["slow_memory_bandwidth"], f"{name}: slow_memory_bandwidth", 1, MAX_NUMBER)
    instance = Instance(
        name, tuple(widths), tuple(heights), tuple(operators), capacity, bandwidth, (native[0], native[1])
    )
    _check(instance)
    return instance


def _check(instance: Instance) -> None:
    """Shapes fit, every tensor has one producer, and nothing waits for itself."""
    name, made = instance.name, {}
    for number, operator in enumerate(instance.operators):
        if operator.output in made:
            raise InputError(
                f"{name}: tensor {operator.output} is an output of operators {made[operator.output]} and {number}; "
                "expected one"
            )
        made[operator.output] = number
        _check_shapes(instance, number)
    if len(instance.order) != len(instance.operators):
        stuck = min(set(range(len(instance.operators))) - set(instance.order))
        raise InputError(f"{name}: operator {stuck} depends on its own result; expected a graph without cycles")


def _check_shapes(instance: Instance, number: int) -> None:
    operator = instance.operators[number]
    where = f"{instance.name}: operator {number} ({operator.kind})"
    out = operator.output

    def shape(tensor: int) -> str:
        return f"{instance.widths[tensor]}x{instance.heights[tensor]}"

    if operator.kind is Kind.MATMUL:
        if len(operator.inputs) != 2:
            raise InputError(f"{where}: expected two inputs (left, right), found {len(operator.inputs)}")
        left, right = operator.inputs
        fits = (
            instance.widths[left] == instance.heights[right]
            and instance.heights[left] == instance.heights[out]
            and instance.widths[right] == instance.widths[out]
        )
        if not fits:
            raise InputError(
                f"{where}: {shape(left)} times {shape(right)} (width x height) cannot be {shape(out)}; "
                "expected k x h times w x k to be w x h"
            )
        return
    if not operator.inputs:
        raise InputError(f"{where}: expected an input, found none")
    for tensor in operator.inputs:
        if shape(tensor) != shape(out):
            raise InputError(
                f"{where}: input {tensor} is {shape(tensor)} and its output {shape(out)}; expected one shape"
            )


def parse_object(text: str, name: str, known: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
    """The fields of a JSON object that has all of `known` and nothing but them and `optional`."""
    fields = json_value(text, name)
    if not isinstance(fields, dict):
        raise InputError(f"{name}: expected a JSON object, found {_shown(fields)}")
    for field in fields:
        if field not in (*known, *optional):
            raise InputError(f"{name}: unknown field {_shown(field)}. Known: {', '.join((*known, *optional))}")
    for field in known:
        if field not in fields:
            raise InputError(f"{name}: the field {field} is missing")
    return fields


def _shown(value: Any) -> str:
    return printable(repr(value), 60)


def _number(value: Any, where: str, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InputError(f"{where}: expected a whole number from {least:,} to {most:,}, found {_shown(value)}")
    return value


def _numbers(fields: dict[str, Any], field: str, name: str, least: int, most: int) -> list[int]:
    return parse_numbers(fields[field], f"{name}: {field}", least, most)


def parse_numbers(values: Any, where: str, least: int, most: int) -> list[int]:
    """A list of whole numbers in a range."""
    if not isinstance(values, list):
        raise InputError(f"{where}: expected a list, found {_shown(values)}")
    return [_number(value, f"{where}[{index}]", least, most) for index, value in enumerate(values)]


def _lists(fields: dict[str, Any], field: str, name: str) -> list[list[int]]:
    if not isinstance(fields[field], list):
        raise InputError(f"{name}: {field}: expected a list of lists, found {_shown(fields[field])}")
    return [
        parse_numbers(values, f"{name}: {field}[{index}]", 0, MAX_NUMBER) for index, values in enumerate(fields[field])
    ]
