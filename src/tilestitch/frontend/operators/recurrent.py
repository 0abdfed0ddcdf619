"""RNN, GRU and LSTM, unrolled: the operators of every step, of each direction, one after another."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilestitch.frontend.network import Handler, Node, Reading, text_of
from tilestitch.frontend.operators.accesses import Nest, along, axis
from tilestitch.frontend.operators.elementwise import apply
from tilestitch.frontend.operators.shapes import regroup
from tilestitch.frontend.operators.slicing import cut, join, select
from tilestitch.ir.graph import Access, Axis, Operator

MOST_STEPS = 256  # of all directions; each is about ten operators
_ACTIVATIONS = {"Relu": "relu", "Sigmoid": "sigmoid", "Softplus": "softplus", "Softsign": "softsign", "Tanh": "tanh"}


@dataclass(frozen=True, slots=True)
class RecurrentNode:
    """Sizes and settings of a recurrent node; `activations` holds a function per use and direction."""

    steps: int
    batch: int
    inputs: int
    hidden: int
    directions: int
    backwards: bool  # the first direction
    batch_first: bool
    linear_first: bool  # of a GRU: its reset scales the product of the state, not the state
    activations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction of a layer; `projected` is x W^T plus biases for all steps, [steps, batch, gates * hidden]."""

    node: Node
    network: Reading
    layer: RecurrentNode
    number: int
    projected: str
    activations: tuple[str, ...]

    def do(self, kind: str, operands: tuple[str, ...], name: str) -> str:
        """An element-wise step."""
        return apply(self.node, self.network, kind, operands, self.network.step(self.node, f"{self.number}.{name}"))

    def at_step(self, step: int) -> tuple[Axis, ...]:
        """Where the nest of a batch (dim 0) and of gates (dim 1) reads what is projected."""
        return (axis(offset=step), *along(0, 1))

    def gates(self, state: str | None, step: int, name: str) -> str:
        """What is projected for a step, plus the state times the recurrent weights: [batch, gates * hidden]."""
        shape = self.network.shape(self.projected)[1:]
        target = self.network.step(self.node, f"{self.number}.{name}")
        if state is None:
            return select(self.node, self.network, self.projected, shape, self.at_step(step), target)
        return self.recurrent(state, 0, shape[1], Access(self.projected, self.at_step(step)), name)

    def recurrent(self, state: str, first: int, count: int, added: Access | None, name: str) -> str:
        """The state times `count` rows of the recurrent weights from `first` on, plus `added`."""
        nest, layer = Nest(), self.layer
        n, j = nest.parallel("n", layer.batch), nest.parallel("j", count)
        k = nest.reduction("k", layer.hidden)
        weights = Access(self.node.inputs[2], (axis(offset=self.number), axis((j, 1), offset=first), *along(k)))
        reads = (Access(state, along(n, k)), weights, *(() if added is None else (added,)))
        target = self.network.step(self.node, f"{self.number}.{name}")
        write, shape = Access(target.tensor, along(n, j)), (layer.batch, count)
        op = Operator(target.operator, "matmul", nest.dims, reads, (write,))
        return self.network.emit(self.node, op, shape)

    def part(self, x: str, number: int, name: str) -> str:
        """One gate of several side by side."""
        size, target = self.layer.hidden, self.network.step(self.node, f"{self.number}.{name}")
        return cut(self.node, self.network, x, 1, number * size, (number + 1) * size, target)


@dataclass(frozen=True, slots=True)
class State:
    """What goes from step to step, [batch, hidden]; None is zeros."""

    hidden: str | None
    cell: str | None = None


Step = Callable[[Direction, State, int], State]


def _rnn_step(d: Direction, state: State, step: int) -> State:
    x = d.gates(state.hidden, step, f"{step}.gates")
    return State(d.do(d.activations[0], (x,), f"{step}.hidden"))


def _gru_step(d: Direction, state: State, step: int) -> State:
    """Gates z, r, h: h' = (1 - z) h~ + z h, where r scales what the candidate h~ sees of the state."""
    node, network, size = d.node, d.network, d.layer.hidden
    if state.hidden is None:
        network.afford(node, d.layer.batch * size)
        zeros = np.zeros((d.layer.batch, size), network.element_type(node.inputs[0]))
        state = State(network.new_constant(node, "initial", zeros))
    assert state.hidden is not None
    both = d.recurrent(state.hidden, 0, 2 * size, Access(d.projected, d.at_step(step)), f"{step}.gates")
    both = d.do(d.activations[0], (both,), f"{step}.open")
    z, r = d.part(both, 0, f"{step}.update"), d.part(both, 1, f"{step}.reset")
    candidate = Access(d.projected, (axis(offset=step), *along(0), axis((1, 1), offset=2 * size)))
    if d.layer.linear_first:
        bias = node.operand(3)
        added = None if bias is None else Access(bias, (axis(offset=d.number), axis((1, 1), offset=5 * size)))
        seen = d.recurrent(state.hidden, 2 * size, size, added, f"{step}.linear")
        seen = d.do("mul", (r, seen), f"{step}.seen")
        shape = (d.layer.batch, size)
        target = network.step(node, f"{d.number}.{step}.input")
        x = d.do("add", (select(node, network, d.projected, shape, candidate.axes, target), seen), f"{step}.sum")
    else:
        seen = d.do("mul", (r, state.hidden), f"{step}.seen")
        x = d.recurrent(seen, 2 * size, size, candidate, f"{step}.linear")
    x = d.do(d.activations[1], (x,), f"{step}.candidate")
    one = network.new_constant(node, "one", np.ones((), network.element_type(x)))
    new = d.do("mul", (d.do("sub", (one, z), f"{step}.rest"), x), f"{step}.new")
    return State(d.do("add", (new, d.do("mul", (z, state.hidden), f"{step}.old")), f"{step}.hidden"))


def _lstm_step(d: Direction, state: State, step: int) -> State:
    """Gates i, o, f, c: c' = f c + i c~ and h' = o h(c'); peepholes let i and f see c, and o see c'."""
    x = d.gates(state.hidden, step, f"{step}.gates")
    i, o, f, new = (d.part(x, number, f"{step}.{name}.input") for number, name in enumerate("iofc"))
    squash, candidate, show = d.activations

    def peep(x: str, cell: str | None, number: int, name: str) -> str:
        weights = d.node.operand(7)
        if weights is None or cell is None:
            return x
        size, target = d.layer.hidden, d.network.step(d.node, f"{d.number}.{name}.peephole")
        read = (axis(offset=d.number), axis((1, 1), offset=number * size))
        weights = select(d.node, d.network, weights, (1, size), read, target)
        return d.do("add", (x, d.do("mul", (cell, weights), f"{name}.seen")), f"{name}.peeped")

    i = d.do(squash, (peep(i, state.cell, 0, f"{step}.i"),), f"{step}.i")
    cell = d.do("mul", (i, d.do(candidate, (new,), f"{step}.c")), f"{step}.new")
    if state.cell is not None:
        f = d.do(squash, (peep(f, state.cell, 2, f"{step}.f"),), f"{step}.f")
        cell = d.do("add", (d.do("mul", (f, state.cell), f"{step}.old"), cell), f"{step}.cell")
    o = d.do(squash, (peep(o, cell, 1, f"{step}.o"),), f"{step}.o")
    return State(d.do("mul", (o, d.do(show, (cell,), f"{step}.shown")), f"{step}.hidden"), cell)


def _recurrent(gates: int, defaults: tuple[str, ...], advance: Step) -> Handler:
    """The handler of a node with so many gates and these activations for each direction."""

    def handle(node: Node, network: Reading) -> None:
        layer = _layer(node, network, gates, defaults)
        runs = []
        for number in range(layer.directions):
            functions = layer.activations[number * len(defaults) : (number + 1) * len(defaults)]
            d = Direction(node, network, layer, number, _projected(node, network, layer, number, gates), functions)
            steps = range(layer.steps)
            state, states = _initial(d), {}
            for step in reversed(steps) if layer.backwards or number == 1 else steps:
                state = states[step] = advance(d, state, step)
            runs.append((states, state))
        hidden = [[states[step].hidden for states, _ in runs] for step in range(layer.steps)]
        if node.needs(0):
            _stack(node, network, layer, hidden, 0, per_step=True)
        for output, last in ((1, [s.hidden for _, s in runs]), (2, [s.cell for _, s in runs])):
            if node.needs(output):
                _stack(node, network, layer, [last], output, per_step=False)

    return handle


rnn = _recurrent(1, ("Tanh",), _rnn_step)
gru = _recurrent(3, ("Sigmoid", "Tanh"), _gru_step)
lstm = _recurrent(4, ("Sigmoid", "Tanh", "Tanh"), _lstm_step)


def _layer(node: Node, network: Reading, gates: int, defaults: tuple[str, ...]) -> RecurrentNode:
    """Sizes and settings, where all fit one another."""
    x, w, r = (network.shape(name) for name in node.inputs[:3])
    found = f"x {text_of(x)}, W {text_of(w)}, R {text_of(r)}"
    batch_first = node.flag("layout")
    direction = node.text("direction", "forward")
    directions = 2 if direction == "bidirectional" else 1
    if len(x) != 3 or len(w) != 3 or len(r) != 3:
        raise node.fault(f"{found}; expected three axes each.")
    batch, steps = (x[0], x[1]) if batch_first else (x[1], x[0])
    hidden = node.integer("hidden_size", r[2])
    if w != (directions, gates * hidden, x[2]) or r != (directions, gates * hidden, hidden):
        raise node.fault(f"{found}, direction={direction}, hidden_size={hidden}; their sizes do not match.")
    if direction not in ("forward", "reverse", "bidirectional"):
        raise node.fault(f"attribute direction='{direction}': expected forward, reverse or bidirectional.")
    attribute = node.attributes.pop("activations", None)
    names = defaults * directions if attribute is None else tuple(text.decode() for text in attribute.strings)
    known = {name.lower(): kind for name, kind in _ACTIVATIONS.items()}
    if len(names) < len(defaults) * directions or any(name.lower() not in known for name in names):
        raise node.not_covered(f"activations {', '.join(names)}: those without parameters are unrolled.")
    lengths = node.operand(4)
    if lengths is not None:
        value = network.value(lengths)
        if value is None or (value != steps).any():
            raise node.not_covered(f"sequence_lens '{lengths}' may be shorter than the {steps} steps.")
    if node.flag("input_forget") or "clip" in node.attributes:
        raise node.not_covered("attributes clip and input_forget are not unrolled.")
    if steps * directions > MOST_STEPS:
        raise node.not_covered(f"{steps * directions} steps; up to {MOST_STEPS} are unrolled.")
    functions = tuple(known[name.lower()] for name in names)
    linear_first, backwards = node.flag("linear_before_reset"), direction == "reverse"
    return RecurrentNode(steps, batch, x[2], hidden, directions, backwards, batch_first, linear_first, functions)


def _projected(node: Node, network: Reading, layer: RecurrentNode, number: int, gates: int) -> str:
    """x W^T plus both biases, for all steps of one direction at once."""
    width = gates * layer.hidden
    nest = Nest()
    t, n, j = nest.parallel("t", layer.steps), nest.parallel("n", layer.batch), nest.parallel("j", width)
    k = nest.reduction("k", layer.inputs)
    x = Access(node.inputs[0], along(n, t, k) if layer.batch_first else along(t, n, k))
    reads = [x, Access(node.inputs[1], (axis(offset=number), *along(j, k)))]
    bias = node.operand(3)
    if bias is not None:
        reads.append(Access(_bias(node, network, bias, layer, number, gates), along(j)))
    target = network.step(node, f"{number}.projected")
    write, shape = Access(target.tensor, along(t, n, j)), (layer.steps, layer.batch, width)
    op = Operator(target.operator, "matmul", nest.dims, tuple(reads), (write,))
    return network.emit(node, op, shape)


def _bias(node: Node, network: Reading, bias: str, layer: RecurrentNode, number: int, gates: int) -> str:
    """Both biases of one direction, [gates * hidden]; what a GRU resets stays out, see `_gru_step`."""
    width, shape = gates * layer.hidden, network.shape(bias)
    if shape != (layer.directions, 2 * width):
        raise node.fault(f"B '{bias}' has shape {text_of(shape)}; expected [{layer.directions}, {2 * width}].")

    def run(first: int, stop: int, name: str) -> str:
        read, target = (axis(offset=number), axis((0, 1), offset=first)), network.step(node, f"{number}.{name}")
        return select(node, network, bias, (stop - first,), read, target)

    summed = 2 * layer.hidden if layer.linear_first else width
    operands = run(0, summed, "bias.w"), run(width, width + summed, "bias.r")
    found = apply(node, network, "add", operands, network.step(node, f"{number}.bias.sum"))
    if summed == width:
        return found
    return join(node, network, (found, run(summed, width, "bias.rest")), 0, network.step(node, f"{number}.bias"))


def _initial(d: Direction) -> State:
    """The states that operands give."""

    def given(operand: int, name: str) -> str | None:
        tensor = d.node.operand(operand)
        if tensor is None:
            return None
        layer, shape = d.layer, d.network.shape(tensor)
        expected = [layer.directions, layer.batch, layer.hidden]
        expected = [expected[1], expected[0], expected[2]] if layer.batch_first else expected
        if list(shape) != expected:
            raise d.node.fault(f"{name} '{tensor}' has shape {text_of(shape)}; expected {expected}.")
        fixed = axis(offset=d.number)
        read = (*along(0), fixed, *along(1)) if layer.batch_first else (fixed, *along(0, 1))
        target = d.network.step(d.node, f"{d.number}.{name}")
        return select(d.node, d.network, tensor, (layer.batch, layer.hidden), read, target)

    return State(given(5, "initial_h"), given(6, "initial_c"))


def _stack(
    node: Node,
    network: Reading,
    layer: RecurrentNode,
    states: list[list[str | None]],
    output: int,
    *,
    per_step: bool,
) -> None:
    """States of every step and direction as one output."""
    shape = [1, 1, layer.batch, layer.hidden] if per_step else [1, layer.batch, layer.hidden]
    if layer.batch_first:
        shape = [shape[-2], *shape[:-2], shape[-1]]
    direction_at = len(shape) - 2 if layer.batch_first else len(shape) - 3
    rows = []
    for directions in states:
        spread = [
            regroup(node, network, "reshape", name, tuple(shape), network.step(node, f"output{output}.part"))
            for name in directions
            if name is not None
        ]
        rows.append(join(node, network, tuple(spread), direction_at, network.step(node, f"output{output}.step")))
    target = network.step(node, f"output{output}", node.outputs[output])
    join(node, network, tuple(rows), direction_at - 1 if per_step else direction_at, target)
