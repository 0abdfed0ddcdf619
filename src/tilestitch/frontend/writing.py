"""A node written out in operators of the standard, one after another."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import onnx
from onnx import helper

from tilestitch.frontend.functions import Definition
from tilestitch.frontend.network import Node, Reading

Value: TypeAlias = int | float | str | Sequence[int] | None  # of an attribute

OPSET = 24  # of the standard operators in which nodes of other domains are written out


class Writer:
    """The standard nodes that stand for one node, in the order in which they run; methods return names of tensors."""

    def __init__(self, node: Node, network: Reading) -> None:
        self._node, self._network = node, network
        self._nodes: list[onnx.NodeProto] = []
        self._written: set[str] = set()

    def op(self, op_type: str, *operands: str | None, output: int | None = None, **attributes: Value) -> str:
        """A node of one result, which is output number `output` of the whole where it is given.

        Operands that are None, and attributes likewise, are absent.
        """
        return self.ops(op_type, operands, (output,), **attributes)[0]

    def ops(
        self, op_type: str, operands: Sequence[str | None], outputs: Sequence[int | None], **attributes: Value
    ) -> tuple[str, ...]:
        """A node of several results, each with the number of the output that it is, or None."""
        node, network = self._node, self._network
        name = network.fresh(f"{node.name}.{op_type}")
        names: list[str] = []
        for number, output in enumerate(outputs):
            if output is not None and node.needs(output):
                names.append(node.outputs[output])
            else:
                names.append(network.fresh(f"{name}.{number}"))
        written = helper.make_node(op_type, [x or "" for x in operands], names, name)
        written.attribute.extend(
            helper.make_attribute(key, value) for key, value in sorted(attributes.items()) if value is not None
        )
        self._nodes.append(written)
        self._written.update(names)
        return tuple(names)

    def constant(self, value: np.ndarray) -> str:
        """A constant that is not in the file."""
        return self._network.new_constant(self._node, "constant", value)

    def integers(self, *values: int) -> str:
        """The same of an operand such as a shape."""
        return self.constant(np.array(values, np.int64))

    def reshape(self, x: str, *shape: int, output: int | None = None) -> str:
        """`x` in another shape."""
        return self.op("Reshape", x, self.integers(*shape), output=output)

    def cut(self, x: str, axis: int, start: int, stop: int) -> str:
        """Part of an axis of `x`."""
        return self.op("Slice", x, self.integers(start), self.integers(stop), self.integers(axis))

    def copy(self, x: str, output: int) -> None:
        """Let an output of the whole, if it is read, be `x`."""
        if self._node.needs(output) and self._node.outputs[output] not in self._written:
            self.op("Identity", x, output=output)

    def finished(self) -> Definition:
        """All that was written; raises where an attribute was not read, or an output not written."""
        node = self._node
        node.expect_nothing_left()
        for number, name in enumerate(node.outputs):
            if name and name not in self._written:
                raise node.not_covered(f"its output {number} ('{name}') is read, and no rule computes it.")
        opsets = {**node.opsets, "": OPSET}
        return Definition(tuple(self._nodes), opsets, tuple(filter(None, node.outputs)))
