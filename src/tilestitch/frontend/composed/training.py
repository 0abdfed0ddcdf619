"""The steps of optimisers (domain `ai.onnx.preview.training`): element-wise arithmetic on each tensor of a network."""

from collections.abc import Iterator

import numpy as np
from onnx import helper

from tilestitch.frontend.functions import Definition
from tilestitch.frontend.network import Node, Reading
from tilestitch.frontend.writing import Writer


class _Step:
    """What the optimisers have in common: a learning rate, the number of the update, and tensors in groups."""

    def __init__(self, node: Node, network: Reading, group: int) -> None:
        """`group` tensors belong to each one that is optimised: the values, the gradients and what is remembered."""
        self.write = Writer(node, network)
        self._node, self._network, self._group = node, network, group
        self.rate, self._update, *self._tensors = node.inputs
        if len(self._tensors) % group or not self._tensors:
            raise node.fault(f"it reads {len(self._tensors)} tensors to optimise; expected a multiple of {group}.")

    def groups(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """The number of each tensor that is optimised, with its group."""
        count = len(self._tensors) // self._group
        for number in range(count):
            yield number, tuple(self._tensors[number::count])

    def output(self, number: int, part: int) -> int:
        """Outputs come in groups of one fewer, without the gradients."""
        return part * (len(self._tensors) // self._group) + number

    def number(self, value: float) -> str:
        """A constant of the type of the learning rate."""
        return self.write.constant(np.asarray(value, self._network.element_type(self.rate)))

    def update(self) -> str:
        """The number of the update, as a floating number."""
        kind = helper.np_dtype_to_tensor_dtype(self._network.element_type(self.rate))
        return self.write.op("Cast", self._update, to=kind)

    def later(self, then: str, first: str) -> str:
        """One of two values: that for the first update is the second."""
        zero = self.write.constant(np.asarray(0, self._network.element_type(self._update)))
        return self.write.op("Where", self.write.op("Greater", self._update, zero), then, first)

    def scaled(self, factor: float, x: str) -> str:
        return self.write.op("Mul", self.number(factor), x)

    def regularised(self, factor: float, x: str, gradient: str) -> str:
        """The gradient of the loss with half of `factor` times the square of `x`."""
        return self.write.op("Add", self.scaled(factor, x), gradient)


def adagrad(node: Node, network: Reading) -> Definition:
    """Adagrad: steps divided by the root of the sum of all squared gradients."""
    step = _Step(node, network, 3)
    write, epsilon, norm = step.write, node.real("epsilon", 1e-6), node.real("norm_coefficient", 0.0)
    decay = step.scaled(node.real("decay_factor", 0.0), step.update())
    rate = write.op("Div", step.rate, write.op("Add", step.number(1.0), decay))
    for number, (x, gradient, squares) in step.groups():
        gradient = step.regularised(norm, x, gradient)
        squares = write.op("Add", squares, write.op("Mul", gradient, gradient), output=step.output(number, 1))
        root = write.op("Add", write.op("Sqrt", squares), step.number(epsilon))
        change = write.op("Div", write.op("Mul", rate, gradient), root)
        write.op("Sub", x, change, output=step.output(number, 0))
    return write.finished()


def adam(node: Node, network: Reading) -> Definition:
    """Adam: steps along the running mean of gradients, divided by the root of that of their squares."""
    step = _Step(node, network, 4)
    write, epsilon, norm = step.write, node.real("epsilon", 1e-6), node.real("norm_coefficient", 0.0)
    alpha, beta = node.real("alpha", 0.9), node.real("beta", 0.999)
    after = 1 - node.real("norm_coefficient_post", 0.0)
    rate = _adams_rate(step, alpha, beta)
    for number, (x, gradient, mean, squares) in step.groups():
        gradient = step.regularised(norm, x, gradient)
        square = write.op("Mul", gradient, gradient)
        mean = write.op(
            "Add", step.scaled(alpha, mean), step.scaled(1 - alpha, gradient), output=step.output(number, 1)
        )
        squares = write.op(
            "Add", step.scaled(beta, squares), step.scaled(1 - beta, square), output=step.output(number, 2)
        )
        root = write.op("Add", write.op("Sqrt", squares), step.number(epsilon))
        found = write.op("Sub", x, write.op("Div", write.op("Mul", rate, mean), root))
        write.op("Mul", step.number(after), found, output=step.output(number, 0))
    return write.finished()


def _adams_rate(step: _Step, alpha: float, beta: float) -> str:
    """The learning rate times `sqrt(1 - beta**t) / (1 - alpha**t)`, but at update 0."""
    write, update, one = step.write, step.update(), step.number(1.0)
    grown = [write.op("Sub", one, write.op("Pow", step.number(base), update)) for base in (beta, alpha)]
    corrected = write.op("Div", write.op("Mul", step.rate, write.op("Sqrt", grown[0])), grown[1])
    return step.later(corrected, step.rate)


def momentum(node: Node, network: Reading) -> Definition:
    """Momentum: steps along a decaying sum of gradients; `nesterov` looks one step ahead."""
    step = _Step(node, network, 3)
    write, norm = step.write, node.real("norm_coefficient", 0.0)
    alpha, beta, mode = node.real("alpha", 0.0), node.real("beta", 0.0), node.text("mode", "")
    if mode not in ("standard", "nesterov"):
        raise node.fault(f"attribute mode={mode!r}: expected standard or nesterov.")
    share = step.later(step.number(beta), step.number(1.0))
    for number, (x, gradient, velocity) in step.groups():
        gradient = step.regularised(norm, x, gradient)
        kept, added = step.scaled(alpha, velocity), write.op("Mul", share, gradient)
        velocity = write.op("Add", kept, added, output=step.output(number, 1))
        if mode == "nesterov":
            velocity = write.op("Add", gradient, step.scaled(alpha, velocity))
        write.op("Sub", x, write.op("Mul", step.rate, velocity), output=step.output(number, 0))
    return write.finished()
