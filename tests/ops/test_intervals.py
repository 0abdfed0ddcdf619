"""Intervals contain every value that arises, and are as narrow as they can be where that is claimed."""

from itertools import product

import numpy as np
import pytest
from onnx import TensorProto

from tests.helpers.graphs import Net
from tilestitch.frontend.reader import read_onnx
from tilestitch.ir.graph import Attribute, Operator
from tilestitch.ops import RULES
from tilestitch.ops.intervals import Interval, result_intervals
from tilestitch.sim.chip.long_integers import long_tensors
from tilestitch.sim.chip.reference import onnxruntime_outputs
from tilestitch.sim.chip.widths import intervals

INTERVALS = [Interval(a, b) for a in range(-6, 7) for b in range(a, 7)]


def operator(kind: str, **attributes: Attribute) -> Operator:
    return Operator("op", kind, (), (), (), tuple(attributes.items()))


@np.errstate(divide="ignore")  # as whoever evaluates
def results(op: Operator, *operands: Interval) -> np.ndarray:
    """Those of all combinations of operands."""
    grid = np.array(list(product(*(range(one.least, one.largest + 1) for one in operands))), np.int64)
    return RULES[op.kind].evaluate(op, list(grid.T))[0]


@pytest.mark.parametrize("kind", ["abs", "bit_not", "copy", "neg", "relu", "sign"])
def test_intervals_of_one_operand_end_where_the_results_do(kind):
    op = operator(kind, **({"bits": 64} if kind == "bit_not" else {}))
    for x in INTERVALS:
        found = results(op, x)
        assert result_intervals(op, [x]) == [Interval(found.min(), found.max())], x


@pytest.mark.parametrize("kind", ["add", "div", "max", "min", "mul", "sub"])
def test_intervals_of_two_operands_end_where_the_results_do(kind):
    op = operator(kind)
    for x, y in product(INTERVALS[::3], INTERVALS):
        found = results(op, x, y)
        assert result_intervals(op, [x, y]) == [Interval(found.min(), found.max())], (x, y)


@pytest.mark.parametrize(
    "op",
    [
        operator("bit_and"),
        operator("bit_or"),
        operator("bit_shift", direction="LEFT", bits=64),
        operator("bit_shift", direction="RIGHT", bits=64),
        operator("bit_xor"),
        operator("mod", fmod=0),
        operator("mod", fmod=1),
        operator("pow"),
        operator("prelu"),
    ],
    ids=lambda op: f"{op.kind}{''.join(str(value) for _, value in op.attributes)}",
)
def test_intervals_contain_the_results(op):
    """And are not far beyond them: bits are bounded by the next power of two."""
    for x, y in product(INTERVALS[::3], INTERVALS):
        if op.kind == "bit_shift" and y.least < 0:
            continue
        (interval,) = result_intervals(op, [x, y])
        if op.kind == "pow" and y.least < 0 and x.least <= 0 <= x.largest:
            assert interval is None  # zero to a negative power
            continue
        assert interval is not None
        found = results(op, x, y)
        assert interval.least <= found.min() <= found.max() <= interval.largest, (x, y)
        assert interval.magnitude <= 2 * max(np.abs(found).max(), x.magnitude, y.magnitude) + 1, (x, y)


@pytest.mark.parametrize("low, high", [(-2.5, 2.5), (0.5, 3.0), (-np.inf, -0.5), (4.0, np.inf), (3.0, -3.0)])
def test_clipped_integers_lose_the_fraction_of_the_ends(low, high):
    op = operator("clip", min=low, max=high)
    for x in INTERVALS:
        (interval,) = result_intervals(op, [x])
        assert interval is not None
        found = results(op, x).astype(np.int64)
        assert interval.least <= found.min() <= found.max() <= interval.largest, x


# ---- whole networks

KINDS = {TensorProto.INT64: np.int64, TensorProto.INT32: np.int32}


def random_network(rng: np.random.Generator):
    """Operators on integers of 32 and 64 bits, of shape [3, 4] or what is left of it by a reduction."""
    net, there = Net(), []  # names and types
    for kind in (TensorProto.INT64, TensorProto.INT32, TensorProto.INT64):
        there.append((net.input(3, 4, dtype=kind), kind))
    for _ in range(12):
        x, kind = there[rng.integers(len(there))]
        same = [name for name, one in there if one == kind]
        y = same[rng.integers(len(same))]
        number = KINDS[kind]
        small = net.constant(number(rng.choice([-9, -3, 2, 5, 100])))
        match rng.choice(OPERATORS):
            case "Div" | "Mod" as op:
                found = net.op(op, x, small if rng.integers(2) else net.op("Max", y, net.constant(number(2))))
            case "Pow":
                found = net.op("Pow", x, net.constant(number(rng.integers(4))))
            case "Clip":
                ends = sorted(rng.integers(-1000, 1000, 2))
                found = net.op("Clip", x, *(net.constant(number(end)) for end in ends))
            case "ReduceSum" | "ReduceMax" | "ReduceMin" | "ReduceProd" as op:
                found = net.op(op, x, [int(rng.integers(2))], keepdims=1)
            case "CumSum":
                found = net.op("CumSum", x, net.constant(np.int64(1)), exclusive=int(rng.integers(2)))
            case "ArgMax":
                found, kind = net.op("ArgMax", x, axis=0, keepdims=1), TensorProto.INT64
            case "Where":
                found = net.op("Where", net.op("Less", x, small), x, y)
            case "Cast":
                kind = int(rng.choice(list(KINDS)))
                found = net.op("Cast", x, to=kind)
            case "Narrow":
                found = net.op("Cast", net.op("Cast", x, to=int(rng.choice([2, 3, 4, 5, 9]))), to=kind)
            case "Gather":
                rows = net.op("Mod", y, net.constant(number(3)))
                found = net.op("Gather", net.constant(rng.integers(-50, 50, 3).astype(number)), rows)
            case "Neg" | "Abs" | "Sign" | "BitwiseNot" as op:
                found = net.op(op, x)
            case op:
                found = net.op(op, x, small if rng.integers(2) else y)
        there.append((found, kind))
    return net.model(*dict.fromkeys(name for name, _ in there[3:]))


OPERATORS = (
    *("Abs", "Add", "Add", "ArgMax", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Cast", "Clip", "CumSum"),
    *("Div", "Div", "Gather", "Max", "Min", "Mod", "Mul", "Narrow", "Neg", "Pow", "ReduceMax", "ReduceMin"),
    *("ReduceProd", "ReduceSum", "Sign", "Sub", "Where"),
)


@pytest.mark.parametrize("seed", range(60))
def test_intervals_contain_what_onnxruntime_computes(seed):
    """In 64 bits, of inputs of all magnitudes that 32 bits hold; most intervals are narrower than their type."""
    rng = np.random.default_rng(seed)
    model = random_network(rng)
    graph = read_onnx(model)
    found = intervals(graph, long_tensors(model, graph))
    feeds = [{name: drawn(rng, graph.tensors[name].shape) for name in graph.inputs} for _ in range(4)]
    kinds = {int(kind): number for kind, number in KINDS.items()}
    types = {value.name: kinds[value.type.tensor_type.elem_type] for value in model.graph.input}
    feeds = [{name: array.astype(types[name]) for name, array in feed.items()} for feed in feeds]
    for outputs in onnxruntime_outputs(model, feeds):
        for name, values in outputs.items():
            least, largest = found[name]
            assert least <= int(values.min()) <= int(values.max()) <= largest, name
    narrow = sum(one.largest - one.least < 2**31 for one in found.values())
    assert narrow > 0


def drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    whole = rng.integers(-(2**31), 2**31, shape)
    array = whole >> rng.integers(0, 32, shape)
    return np.where(rng.integers(0, 4, shape) == 0, rng.choice([-(2**31), 2**31 - 1, -1, 0, 1], shape), array)
