"""Operators are grouped as TVM groups them, and every partition can run group after group."""

import csv
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given

from tests.helpers.graphs import Net, chains
from tilestitch.frontend.reader import read_onnx
from tilestitch.ir.graph import Graph
from tilestitch.ops import pattern
from tilestitch.partition.groups.fuse_ops import fuse_ops
from tilestitch.partition.groups.layerwise import layerwise
from tilestitch.passes import simplify

pytestmark = pytest.mark.quick

TVM = Path(__file__).parent.parent / "data" / "tvm"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def groups_of(graph: Graph, partition=fuse_ops) -> set[frozenset[str]]:
    """The groups, as sets of the tensors that their operators write."""
    return {
        frozenset(name for op in group.operators for name in graph.by_name[op].outputs) for group in partition(graph)
    }


@cache
def light(name: str, *, fold_bn: bool) -> Graph:
    return simplify(read_onnx(LIGHT / f"light_{name}.onnx", batch=1), fold_bn=fold_bn)


@pytest.mark.parametrize(
    "recorded, model, fold_bn, nodes",
    [
        ("resnet50_bnf_add", "resnet50", True, 123),
        ("squeezenet", "squeezenet", True, 66),
        ("inception_v2", "inception_v2", False, 371),
    ],
)
def test_the_groups_are_those_of_tvm(recorded, model, fold_bn, nodes):
    """The same partition of the nodes that both know; `nodes` of them, so that none is lost unseen."""
    graph = light(model, fold_bn=fold_bn)
    theirs: dict[str, set[str]] = {}
    ours = groups_of(graph)
    known = frozenset().union(*ours)
    with open(TVM / f"{recorded}.onnx_groups.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["onnx_output"] in known:
                theirs.setdefault(row["group"], set()).add(row["onnx_output"])
                assert "x".join(map(str, graph.tensors[row["onnx_output"]].shape)) == row["shape"]
    assert sum(map(len, theirs.values())) == nodes
    both = frozenset().union(*theirs.values())
    assert {group & both for group in ours if group & both} == set(map(frozenset, theirs.values()))


# What an operator needs besides one operand of shape [1, 4, 6, 6].
ATTRIBUTES = {
    "AveragePool": {"kernel_shape": [2, 2]},
    "MaxPool": {"kernel_shape": [2, 2]},
    "Cast": {"to": onnx.TensorProto.INT32},
    "Concat": {"axis": 1},
    "Split": {"axis": 1, "num_outputs": 2},
}
OPERANDS = {
    "Add(same shape)": lambda net: [net.random(1, 4, 6, 6)],
    "Add(bias bcast)": lambda net: [net.random(4, 1, 1)],
    "BatchNormalization": lambda net: [net.random(4) for _ in range(4)],
    "ConvTranspose": lambda net: [net.random(4, 2, 3, 3)],
    "CumSum": lambda net: [np.asarray(1, np.int64)],
    "Pad": lambda net: [[0, 0, 1, 1, 0, 0, 1, 1]],
    "Resize(nearest)": lambda net: ["", [1.0, 1.0, 2.0, 2.0]],
    "Tile": lambda net: [[1, 2, 1, 1]],
    "TopK": lambda net: [[2]],
    "Concat": lambda net: [net.input(1, 2, 6, 6)],
    "Conv": lambda net: [net.random(2, 4, 3, 3)],
    "Conv(depthwise)": lambda net: [net.random(4, 1, 3, 3)],
    "Div": lambda net: [net.random(1, 4, 6, 6)],
    "Expand": lambda net: [[3, 4, 6, 6]],
    "Gather": lambda net: [net.input(3, dtype=onnx.TensorProto.INT64)],
    "LayerNormalization": lambda net: [net.random(6)],
    "MatMul": lambda net: [net.random(6, 5)],
    "MatMul(batched)": lambda net: [net.input(1, 4, 6, 5)],
    "Mul(bcast)": lambda net: [net.random(1)],
    "Pow": lambda net: [2.0],
    "ReduceMax": lambda net: [[1]],
    "ReduceMean": lambda net: [[1]],
    "ReduceSum": lambda net: [[1]],
    "Reshape": lambda net: [[1, 4, 36]],
    "Slice": lambda net: [[0], [3], [1]],
    "Squeeze": lambda net: [[0]],
    "Sub": lambda net: [net.random(1, 4, 6, 6)],
    "Unsqueeze": lambda net: [[0]],
}
# Operators that TVM writes as several kernels, and we as one of this class.
OURS = {
    "BatchNormalization": "Elementwise",  # after TVM has decomposed it, as every record of groups has
    "Elu": "Elementwise",
    "HardSigmoid": "Elementwise",
    "HardSwish": "Elementwise",
    "Gather": "Opaque",
    "Split": "Injective",
}
NAMES = {"ElemWise": "Elementwise", "CommReduce": "Reduce", "OutEWiseFusable": "OutElementwiseFusable"}


def recorded_patterns() -> list[tuple[str, str]]:
    """ONNX operator and class, where one kernel stands for it in TVM and we read it."""
    found = []
    with open(TVM / "op_patterns.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            op, kernels = row["onnx_op"], row["tvm_kernels:pattern"].split(" ; ")
            if op in OURS:
                found.append((op, OURS[op]))
            elif len(kernels) == 1 and ":" in kernels[0]:
                name = kernels[0].rpartition(":")[2]
                found.append((op, NAMES.get(name, name)))
    return found


# The first operand of Where is a boolean.
LEFT_OUT = {"Where"}


@pytest.mark.parametrize("op, expected", [case for case in recorded_patterns() if case[0] not in LEFT_OUT])
def test_an_operator_has_the_class_that_its_kernel_has_in_tvm(op, expected):
    """Element by element what the fusion rule sees."""
    net = Net()
    x = net.input(1, 4, 6, 6)
    attributes = dict(ATTRIBUTES.get(op, {}))
    if op == "Conv(depthwise)":
        attributes["group"] = 4
    operands = OPERANDS[op](net) if op in OPERANDS else []
    outputs = net.ops(2 if op == "Split" else 1, op.partition("(")[0], x, *operands, **attributes)
    (operator,) = net.graph(*outputs).operators
    assert pattern(operator).name.replace("_", "") == expected.upper()


def test_the_first_convolution_takes_the_addition():
    """Of two convolutions that an addition joins, the first in the graph gets addition and ReLU; the other is alone."""
    net = Net()
    x = net.input(1, 4, 6, 6)
    a, b = (net.op("Conv", x, net.random(4, 4, 1, 1), name=name) for name in "ab")
    graph = net.graph(net.op("Relu", net.op("Add", b, a, name="sum"), name="relu"))
    assert groups_of(graph) == {frozenset({"a", "sum", "relu"}), frozenset({"b"})}


def test_a_diamond_is_one_group():
    """Everything between a product and where its readers meet comes along."""
    net = Net()
    x = net.op("MatMul", net.input(4, 4), net.random(4, 4))
    graph = net.graph(net.op("Mul", net.op("Exp", x), net.op("Tanh", net.op("Neg", x))))
    assert len(groups_of(graph)) == 1


def test_an_output_leaves_its_group():
    """What makes an output of the network is never inside a group."""
    net = Net()
    x = net.op("Conv", net.input(1, 4, 6, 6), net.random(4, 4, 1, 1), name="conv")
    y = net.op("Relu", x, name="relu")
    graph = net.graph(y, net.op("Exp", y, name="exp"))
    assert groups_of(graph) == {frozenset({"conv", "relu"}), frozenset({"exp"})}


def test_a_result_without_common_readers_ends_its_group():
    """Two readers that lead to different outputs have no operator that both must pass."""
    net = Net()
    x = net.op("Conv", net.input(1, 4, 6, 6), net.random(4, 4, 1, 1), name="conv")
    graph = net.graph(net.op("Relu", x, name="relu"), net.op("Exp", x, name="exp"))
    assert groups_of(graph) == {frozenset({"conv"}), frozenset({"relu"}), frozenset({"exp"})}


def test_a_view_joins_views_and_elementwise_operators_but_no_anchor():
    """A transposition after a product stays out, and takes the operators after it."""
    net = Net()
    x = net.op("MatMul", net.input(4, 4), net.random(4, 4), name="product")
    y = net.op("Relu", net.op("Transpose", net.op("Transpose", x, name="a"), name="b"), name="relu")
    graph = net.graph(net.op("MatMul", y, net.random(4, 4), name="last"))
    assert groups_of(graph) == {frozenset({"product"}), frozenset({"a", "b", "relu"}), frozenset({"last"})}


def test_an_anchor_takes_no_broadcast():
    """Only element-wise operators follow a product into its group."""
    net = Net()
    x = net.op("MatMul", net.input(4, 4), net.random(4, 4), name="product")
    graph = net.graph(net.op("Relu", net.op("Unsqueeze", x, [0], name="wider"), name="relu"))
    assert groups_of(graph) == {frozenset({"product"}), frozenset({"wider", "relu"})}


def test_anchors_fuse_before_views():
    """A transposition that comes first in the graph does not keep the product from its addition."""
    net = Net()
    x = net.op("Transpose", net.input(4, 4), name="turned")
    product = net.op("MatMul", net.input(4, 4), net.random(4, 4), name="product")
    graph = net.graph(net.op("Add", product, x, name="sum"))
    assert groups_of(graph) == {frozenset({"turned"}), frozenset({"product", "sum"})}


def test_an_elementwise_operand_joins_a_group_that_has_an_anchor():
    """The other operand of an addition behind a product comes along."""
    net = Net()
    product = net.op("MatMul", net.input(4, 4), net.random(4, 4), name="product")
    graph = net.graph(net.op("Add", product, net.op("Neg", net.input(4, 4), name="negated"), name="sum"))
    assert groups_of(graph) == {frozenset({"product", "negated", "sum"})}


def test_a_group_has_one_anchor():
    """A product does not pass an operator that already belongs to another product."""
    net = Net()
    first, second = (net.op("MatMul", net.input(4, 4), net.random(4, 4), name=name) for name in ("first", "second"))
    total = net.op("Add", first, second, name="sum")
    graph = net.graph(net.op("Mul", total, second, name="scaled"))
    assert groups_of(graph) == {frozenset({"first", "sum", "scaled"}), frozenset({"second"})}


def test_a_reduction_stands_in_the_way():
    """What a quotient and its sum both read stays out of the group of the quotient."""
    net = Net()
    x = net.op("Exp", net.input(4, 4), name="exp")
    graph = net.graph(net.op("Div", x, net.op("ReduceSum", x, [1], name="sum"), name="share"))
    assert groups_of(graph) == {frozenset({"exp"}), frozenset({"sum"}), frozenset({"share"})}


def test_elementwise_operators_join_a_reduction_but_nothing_follows_it():
    """A reduction ends a group; it never begins one."""
    net = Net()
    x = net.op("Exp", net.input(4, 4), name="exp")
    x = net.op("ReduceSum", x, [1], name="sum")
    graph = net.graph(net.op("Log", x, name="log"))
    assert groups_of(graph) == {frozenset({"exp", "sum"}), frozenset({"log"})}


def test_no_group_has_more_than_256_operators():
    """A longer chain is cut where TVM cuts it."""
    net = Net()
    x = net.input(4)
    for _ in range(300):
        x = net.op("Neg", x)
    assert [len(group.operators) for group in fuse_ops(net.graph(x))] == [256, 44]


def test_layerwise_is_every_operator_alone():
    """In the order of the graph."""
    graph = light("squeezenet", fold_bn=True)
    assert [group.operators for group in layerwise(graph)] == [(op.name,) for op in graph.operators]


@given(chains())
def test_a_partition_has_each_operator_once_and_can_run(graph):
    """Group after group, everything that a group reads is there, and only its last operator is read by others."""
    for partition in (layerwise, fuse_ops):
        groups = partition(graph)
        assert [group.name for group in groups] == [f"g{number}" for number in range(len(groups))]
        assert sorted(op for group in groups for op in group.operators) == sorted(op.name for op in graph.operators)
        position = {op.name: number for number, op in enumerate(graph.operators)}
        known = {*graph.inputs, *graph.constants}
        for group in groups:
            assert list(group.operators) == sorted(group.operators, key=position.__getitem__)
            for name in group.operators:
                op = graph.by_name[name]
                assert known.issuperset(op.inputs)
                known.update(op.outputs)
                inside = all(
                    reader.name in group.operators and output not in graph.outputs
                    for output in op.outputs
                    for reader in graph.consumers.get(output, ())
                )
                assert inside or name == group.operators[-1]
