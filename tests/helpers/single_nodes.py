"""Networks of a single node, described by its operands and attributes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tilestitch.frontend.microsoft.schemas import DOMAIN

VERSIONS = {"ai.onnx.ml": 5}  # other domains are at their first


@dataclass(frozen=True)
class Input:
    """An input of the network."""

    shape: tuple[int, ...]
    dtype: str = "float32"


@dataclass(frozen=True)
class Case:
    """A node: its operands are inputs, constants or absent."""

    op: str
    operands: Sequence[Input | np.ndarray | None]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int | tuple[int, ...] = 1  # how many, or the numbers of those that are read
    name: str = ""
    generic: bool = False
    domain: str = DOMAIN

    def __str__(self) -> str:
        return f"{self.op}-{self.name}" if self.name else self.op


def model_of(case: Case, *, opset: int = 20) -> onnx.ModelProto:
    """The node alone, in the newest version of its domain, but for the standard's own."""
    inputs, weights, names = [], [], []
    for number, operand in enumerate(case.operands):
        name = "" if operand is None else f"x{number}"
        names.append(name)
        if isinstance(operand, Input):
            number = helper.np_dtype_to_tensor_dtype(np.dtype(operand.dtype))
            inputs.append(helper.make_tensor_value_info(name, number, operand.shape))
        elif operand is not None:
            weights.append(numpy_helper.from_array(operand, name))
    read = tuple(range(case.outputs)) if isinstance(case.outputs, int) else case.outputs
    outputs = [f"y{number}" if number in read else "" for number in range(max(read) + 1)]
    node = helper.make_node(case.op, names, outputs, "node", domain=case.domain, **case.attributes)
    results = [helper.make_empty_tensor_value_info(name) for name in outputs if name]
    graph = helper.make_graph([node], "net", inputs, results, weights)
    opsets = [helper.make_opsetid("", opset)]
    if case.domain:
        opsets.append(helper.make_opsetid(case.domain, VERSIONS.get(case.domain, 1)))
    return helper.make_model(graph, opset_imports=opsets, ir_version=helper.find_min_ir_version_for(opsets[:1]))
