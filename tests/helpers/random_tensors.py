"""Random small networks of operators that move, pick, count and contract, with inputs that they accept."""

from collections.abc import Callable, Sequence
from math import prod
from random import Random

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int, ...]
MOST_ELEMENTS = 4000  # of a tensor, so that a network takes a fraction of a second
_ELEMENT_TYPES = {"f": TensorProto.FLOAT, "i": TensorProto.INT64, "b": TensorProto.BOOL}


class _Network:
    """An ONNX graph under construction; `tensors` holds shape and kind (f, i or b) of what has been made."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.numpy = np.random.default_rng(random.randrange(1 << 30))
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}
        self.inputs: dict[str, np.ndarray] = {}
        self.tensors: dict[str, tuple[Shape, str]] = {}

    def weight(self, value: object) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(value)
        return name

    def floats(self, *shape: int) -> np.ndarray:
        return self.numpy.standard_normal(shape).astype(np.float32)

    def input(self, value: np.ndarray) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = value
        self.tensors[name] = value.shape, value.dtype.kind
        return name

    def either(self, value: np.ndarray) -> str:
        """A constant, or an input."""
        return self.weight(value) if self.random.random() < 0.5 else self.input(value)

    def node(self, op: str, operands: Sequence[str], *results: tuple[Sequence[int], str], **attributes: object) -> str:
        """Append a node; the name of its first result."""
        names = []
        for shape, kind in results:
            names.append(f"t{len(self.tensors)}")
            self.tensors[names[-1]] = tuple(shape), kind
        self.nodes.append(helper.make_node(op, operands, names, name=f"{op}{len(self.nodes)}", **attributes))
        return names[0]

    def some(self, kind: str, *, ranks: tuple[int, int] = (0, 4)) -> str | None:
        """A tensor of that kind, often the newest."""
        found = [n for n, (shape, k) in self.tensors.items() if k == kind and ranks[0] <= len(shape) <= ranks[1]]
        if not found:
            return None
        return found[-1] if self.random.random() < 0.5 else self.random.choice(found)


def _view(net: _Network, x: str, shape: Shape, at: int) -> None:
    random, rank = net.random, len(shape)
    op = random.choice(["Transpose", "Reshape", "Slice", "Split", "Concat", "Expand", "Tile"])
    if op == "Transpose":
        order = random.sample(range(rank), rank)
        net.node(op, [x], ([shape[i] for i in order], "f"), perm=order)
    elif op == "Reshape":
        extents, left = [], prod(shape)
        while left > 1 and len(extents) < 3:
            extents.append(random.choice([d for d in range(1, left + 1) if left % d == 0]))
            left //= extents[-1]
        extents += [left] if left > 1 or not extents else []
        net.node(op, [x, net.weight(extents)], (extents, "f"))
    elif op == "Slice":
        low, step = random.randrange(shape[at]), random.choice([1, 2, 3])
        high = random.randrange(low, shape[at])
        backwards = random.random() < 0.5
        start, stop = (high, low - 1 - (low == 0) * shape[at]) if backwards else (low, high + 1)
        settings = [net.weight([value]) for value in (start, stop, at, -step if backwards else step)]
        extent = -(-(high - low + 1) // step)
        net.node(op, [x, *settings], ((*shape[:at], extent, *shape[at + 1 :]), "f"))
    elif op == "Split" and shape[at] > 1:
        first = random.randrange(1, shape[at])
        parts = [first, shape[at] - first]
        results = [((*shape[:at], part, *shape[at + 1 :]), "f") for part in parts]
        net.node(op, [x, net.weight(parts)], *results, axis=at)
    elif op == "Concat":
        others = shape[:at], shape[at + 1 :]
        floats = [name for name, (shape, kind) in net.tensors.items() if kind == "f" and len(shape) == rank]
        other = random.choice([n for n in floats if (net.tensors[n][0][:at], net.tensors[n][0][at + 1 :]) == others])
        extent = shape[at] + net.tensors[other][0][at]
        net.node(op, [x, other], ((*others[0], extent, *others[1]), "f"), axis=at)
    elif op == "Expand" and rank < 4:
        result = (random.randint(1, 3), *shape)
        net.node(op, [x, net.weight(result)], (result, "f"))
    elif op == "Tile":
        repeats = [random.choice([1, 1, 2]) for _ in shape]
        net.node(op, [x, net.weight(repeats)], ([a * b for a, b in zip(repeats, shape, strict=True)], "f"))


def _gather(net: _Network, x: str, shape: Shape, at: int) -> None:
    random, rank = net.random, len(shape)
    op = random.choice(["Gather", "GatherElements", "GatherND"])
    if op == "Gather":
        picked = tuple(random.randint(1, 4) for _ in range(random.randint(0, min(2, 5 - rank))))
        indices = net.either(net.numpy.integers(-shape[at], shape[at], picked))
        net.node(op, [x, indices], ((*shape[:at], *picked, *shape[at + 1 :]), "f"), axis=at)
    elif op == "GatherElements":
        picked = tuple(random.randint(1, 6) if i == at else random.randint(1, d) for i, d in enumerate(shape))
        indices = net.either(net.numpy.integers(-shape[at], shape[at], picked))
        net.node(op, [x, indices], (picked, "f"), axis=at)
    else:
        batch = random.randrange(rank)
        named = random.randint(1, rank - batch)
        picked = (*shape[:batch], *(random.randint(1, 4) for _ in range(random.randint(batch == 0, 1))))
        tuples = [net.numpy.integers(-d, d, picked) for d in shape[batch : batch + named]]
        result = (*picked, *shape[batch + named :])
        net.node(op, [x, net.either(np.stack(tuples, axis=-1))], (result, "f"), batch_dims=batch)


def _scatter(net: _Network, x: str, shape: Shape, at: int) -> None:
    random = net.random
    op = random.choice(["ScatterElements", "ScatterND", "TensorScatter"])
    reduction = random.choice(["none", "add", "mul", "max", "min"])
    if op == "ScatterElements":
        picked = tuple(random.randint(1, d) for d in shape)
        places = net.numpy.random((*picked[:at], shape[at], *picked[at + 1 :])).argsort(axis=at)  # each at most once
        places = places.take(range(picked[at]), axis=at)
        if reduction != "none":
            places = net.numpy.integers(-shape[at], shape[at], picked)
        operands = [x, net.either(places), net.input(net.floats(*picked))]
        net.node(op, operands, (shape, "f"), axis=at, reduction=reduction)
    elif op == "ScatterND":
        named = random.randint(1, len(shape))
        count = prod(shape[:named])
        updates = random.randint(1, min(count, 6))
        places = net.numpy.permutation(count)[:updates]
        if random.random() < 0.3:
            places = np.arange(updates)
        elif reduction != "none":
            places = net.numpy.integers(0, count, updates)
        tuples = np.stack(np.unravel_index(places, shape[:named]), axis=-1)
        operands = [x, net.either(tuples), net.input(net.floats(updates, *shape[named:]))]
        net.node(op, operands, (shape, "f"), reduction=reduction)
    elif at > 0:
        count, mode = random.randint(1, shape[at]), random.choice(["linear", "circular"])
        starts = net.numpy.integers(0, shape[at] - count + 1 if mode == "linear" else shape[at], shape[0])
        update = net.input(net.floats(*shape[:at], count, *shape[at + 1 :]))
        net.node(op, [x, update, net.either(starts)], (shape, "f"), axis=at, mode=mode)


def _along_an_axis(net: _Network, x: str, shape: Shape, at: int) -> None:
    random = net.random
    before, after = shape[:at], shape[at + 1 :]
    op = random.choice(["ArgMax", "ArgMin", "CumSum", "ReduceL2", "ReduceLogSumExp", "ReduceProd", "Softmax", "TopK"])
    op = "ReverseSequence" if len(shape) > 1 and random.random() < 0.2 else op
    keep = random.randint(0, 1)
    reduced = (*before, *(1,) * keep, *after)
    if op.startswith("Arg"):
        last = random.randint(0, 1)
        net.node(op, [x], (reduced, "i"), axis=at, keepdims=keep, select_last_index=last)
    elif op.startswith("Reduce"):
        net.node(op, [x, net.weight([at])], (reduced, "f"), keepdims=keep)
    elif op == "CumSum":
        settings = {"exclusive": random.randint(0, 1), "reverse": random.randint(0, 1)}
        net.node(op, [x, net.weight(at)], (shape, "f"), **settings)
    elif op == "TopK":
        count = random.randint(1, shape[at])
        result = (*before, count, *after)
        net.node(op, [x, net.weight([count])], (result, "f"), (result, "i"), axis=at, largest=random.randint(0, 1))
    elif op == "ReverseSequence":
        batch = random.randint(0, 1)
        lengths = net.either(net.numpy.integers(1, shape[1 - batch] + 1, shape[batch]))
        net.node(op, [x, lengths], (shape, "f"), batch_axis=batch, time_axis=1 - batch)
    else:
        net.node(op, [x], (shape, "f"), axis=at)


def _product(net: _Network, x: str, shape: Shape, at: int) -> None:
    """An Einsum over one axis, whose result has its axes in any order; or a MatMul."""
    columns = net.random.randint(1, 9)
    weight = net.weight(net.floats(shape[at], columns) / shape[at] ** 0.5)
    if at == len(shape) - 1:
        net.node("MatMul", [x, weight], ((*shape[:-1], columns), "f"))
        return
    letters = "abcd"[: len(shape)]
    result = [*letters.replace(letters[at], ""), "z"]
    net.random.shuffle(result)
    extents = dict(zip(letters, shape, strict=True), z=columns)
    equation = f"{letters},{letters[at]}z->{''.join(result)}"
    net.node("Einsum", [x, weight], ([extents[letter] for letter in result], "f"), equation=equation)


def _attention(net: _Network, x: str, shape: Shape, at: int) -> None:
    """With x as queries of any number of heads, or turned; there may be a cache."""
    if len(shape) != 4:
        return
    random, (batch, heads, tokens, size) = net.random, shape
    if size % 2 == 0 and random.random() < 0.4:
        rows = max(9, tokens)  # onnxruntime wants one for each token at least
        tables = [net.weight(net.floats(rows, size // 2)) for _ in range(2)]
        positions = net.input(net.numpy.integers(0, rows, (batch, tokens)))
        net.node("RotaryEmbedding", [x, *tables, positions], (shape, "f"), interleaved=random.randint(0, 1))
        return
    groups = random.choice([d for d in range(1, heads + 1) if heads % d == 0])
    keys, past = random.randint(1, 6), random.choice([0, 3])
    sizes = [(count, width) for count in (keys, past) if count for width in (size, 5)]
    names = [net.input(net.floats(batch, groups, *of)) for of in sizes]
    operands = [x, *names[:2], *(["", *names[2:]] if past else [])]
    caches = [((batch, groups, keys + past, width), "f") for width in (size, 5)] if past else []
    # onnxruntime lets a single query attend to all keys
    settings = {"is_causal": random.randint(0, 1) if tokens > 1 else 0, "softcap": random.choice([0.0, 2.0])}
    net.node("Attention", operands, ((*shape[:3], 5), "f"), *caches, **settings)


def _elementwise(net: _Network, x: str, shape: Shape, at: int) -> None:
    random = net.random
    op = random.choice(["Atan", "Relu", "Trilu", "Add", "Where", "OneHot", "Cast"])
    if op in ("Atan", "Relu"):
        net.node(op, [x], (shape, "f"))
    elif op == "Trilu" and len(shape) > 1:
        net.node(op, [x, net.weight(random.randint(-3, 3))], (shape, "f"), upper=random.randint(0, 1))
    elif op in ("Add", "Where"):
        other = net.some("f")
        assert other is not None
        try:
            result = np.broadcast_shapes(shape, net.tensors[other][0])
        except ValueError:
            return
        mask = [net.node("Greater", [x, other], (result, "b"))] if op == "Where" else []
        net.node(op, [*mask, x, other], (result, "f"))
    elif op in ("OneHot", "Cast"):
        indices = net.some("i", ranks=(1, 3))
        if indices is None:
            return
        picked = net.tensors[indices][0]
        if op == "Cast":
            net.node(op, [indices], (picked, "f"), to=TensorProto.FLOAT)
            return
        spread = random.randint(0, len(picked))
        values = net.weight(np.array([0.5, 2], np.float32))
        net.node(op, [indices, net.weight(5), values], ((*picked[:spread], 5, *picked[spread:]), "f"), axis=spread)


_STEPS: tuple[Callable[[_Network, str, Shape, int], None], ...] = (
    *(_view, _view, _gather, _scatter, _along_an_axis, _along_an_axis),
    *(_product, _attention, _elementwise, _elementwise),
)


def random_tensor_model(seed: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A network of 1 to 7 operators on a tensor of up to four axes, and values for its inputs."""
    random = Random(seed)
    net = _Network(random)
    shape = (random.randint(1, 2), random.choice([1, 2, 4]), random.randint(1, 12), random.choice([4, 6, 8]))
    if random.random() < 0.5:
        shape = tuple(random.randint(1, 12) for _ in range(random.randint(1, 3)))
    net.input(net.floats(*shape))
    for _ in range(random.randint(2, 7)):
        x = net.some("f", ranks=(1, 4))
        if x is not None and max(prod(shape) for shape, _ in net.tensors.values()) < MOST_ELEMENTS:
            shape = net.tensors[x][0]
            random.choice(_STEPS)(net, x, shape, random.randrange(len(shape)))
    if not net.nodes:
        net.node("Neg", ["x0"], (net.inputs["x0"].shape, "f"))
    used = {name for node in net.nodes for name in node.input}
    outputs = [name for node in net.nodes for name in node.output if name not in used or random.random() < 0.1]
    inputs = {name: value for name, value in net.inputs.items() if name in used}
    graph = helper.make_graph(
        net.nodes,
        f"tensors{seed}",
        [
            helper.make_tensor_value_info(name, _ELEMENT_TYPES[value.dtype.kind], value.shape)
            for name, value in inputs.items()
        ],
        [
            helper.make_tensor_value_info(name, _ELEMENT_TYPES[net.tensors[name][1]], net.tensors[name][0])
            for name in outputs
        ],
        [numpy_helper.from_array(value, name) for name, value in net.weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10), inputs
