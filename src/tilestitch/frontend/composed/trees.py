"""Ensembles of decision trees, as products of matrices: all conditions are decided, and leaves are found by counting.

Source: Nakandala et al., A Tensor Compiler for Unified Machine Learning Prediction Serving, OSDI 2020, section 4.1
(the strategy GEMM).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import prod

import numpy as np
from onnx import TensorProto, helper

from tilestitch.frontend.functions import Definition
from tilestitch.frontend.network import Node, Reading, text_of
from tilestitch.frontend.writing import Writer

MOST_SIGNS = 2**26  # bytes of the first product's second operand: 16,000 trees of depth 6, or 256 of depth 9
_AVERAGE, _SUM = 0, 1  # values of `aggregate_function`


class _Mode(IntEnum):
    """How a node compares a feature with its split."""

    LESS_OR_EQUAL = 0
    LESS = 1
    GREATER_OR_EQUAL = 2
    GREATER = 3
    EQUAL = 4
    NOT_EQUAL = 5
    MEMBER = 6


_COMPARISONS = {
    _Mode.LESS_OR_EQUAL: "LessOrEqual",
    _Mode.LESS: "Less",
    _Mode.GREATER_OR_EQUAL: "GreaterOrEqual",
    _Mode.GREATER: "Greater",
    _Mode.EQUAL: "Equal",
    _Mode.NOT_EQUAL: "Equal",
}


@dataclass(frozen=True, slots=True)
class _Tree:
    """Its inner nodes, and for each leaf its number with the nodes above it and whether their conditions hold."""

    nodes: tuple[int, ...]
    leaves: tuple[tuple[int, Mapping[int, bool]], ...]


@dataclass(frozen=True, slots=True)
class _Nodes:
    """The inner nodes of all trees."""

    modes: tuple[_Mode, ...]
    features: tuple[int, ...]
    splits: np.ndarray
    sets: tuple[tuple[float, ...], ...]  # of those that ask for membership, in the order of the nodes
    missing: tuple[int, ...]  # whether a NaN meets the condition


def tree_ensemble(node: Node, network: Reading) -> Definition:
    """TreeEnsemble: the weights of the leaf that each tree reaches, added up or averaged.

    A leaf is reached where all conditions above it that must hold do, and none of the others: where the number of the
    former that hold minus that of the latter is the number of the former. Both products are batches, a tree each.
    """
    write = Writer(node, network)
    (x,), shape = node.inputs, network.shape(node.inputs[0])
    if len(shape) != 2:
        raise node.fault(f"operand '{x}' has shape {text_of(shape)}; expected samples x features.")
    if node.integer("post_transform", 0) != 0:
        raise node.not_covered(
            "a transformation of scores has no rule: onnxruntime and the standard number them apart."
        )
    nodes = _nodes(node, shape[1])
    trees = _trees(node, len(nodes.modes))
    aggregate = node.integer("aggregate_function", _SUM)
    if aggregate not in (_AVERAGE, _SUM):
        raise node.not_covered(f"attribute aggregate_function={aggregate} has no rule; a mean and a sum have.")
    signs = _signs(node, trees)
    weights = _leaf_weights(node, trees, network.element_type(x))
    if aggregate == _AVERAGE:
        weights = weights / np.asarray(len(trees), weights.dtype)

    conditions = _conditions(write, x, nodes, _padded(trees))
    conditions = write.reshape(write.op("Cast", conditions, to=TensorProto.INT8), shape[0], *signs.shape[:2])
    met = write.op("MatMulInteger", write.op("Transpose", conditions, perm=(1, 0, 2)), write.constant(signs))
    wanted = (signs > 0).sum(axis=1, keepdims=True, dtype=np.int32)
    kind = helper.np_dtype_to_tensor_dtype(weights.dtype)
    reached = write.op("Cast", write.op("Equal", met, write.constant(wanted)), to=kind)
    scores = write.op("MatMul", reached, write.constant(weights))
    write.op("ReduceSum", scores, write.integers(0), output=0, keepdims=0)
    return write.finished()


def _trees(node: Node, count: int) -> list[_Tree]:
    """The trees of `count` nodes from their roots on; raises where the nodes are none."""
    roots = node.integers("tree_roots") or ()
    listed = [
        node.integers(f"nodes_{side}") or () for side in ("truenodeids", "trueleafs", "falsenodeids", "falseleafs")
    ]
    if not roots or any(len(one) != count for one in listed):
        raise node.fault(f"expected a root at least, and two children of each of its {count} nodes.")
    children = [list(zip(*listed[:2], strict=True)), list(zip(*listed[2:], strict=True))]
    found, seen = [], set[int]()
    for root in roots:
        inner: list[int] = []
        leaves: list[tuple[int, Mapping[int, bool]]] = []
        waiting: list[tuple[int, Mapping[int, bool]]] = [(root, {})]
        while waiting:
            number, above = waiting.pop()
            if number in seen or not 0 <= number < count:
                raise node.fault(f"node {number} is reached twice, or does not exist; expected trees.")
            seen.add(number)
            inner.append(number)
            for side, holds in zip(children, (True, False), strict=True):
                child, is_leaf = side[number]
                (leaves if is_leaf else waiting).append((child, {**above, number: holds}))
        found.append(_Tree(tuple(inner), tuple(leaves)))
    return found


def _padded(trees: Sequence[_Tree]) -> list[int]:
    """The nodes of all trees, as many of each: smaller ones repeat one of theirs, on which no leaf depends."""
    most = max(len(tree.nodes) for tree in trees)
    return [number for tree in trees for number in tree.nodes + tree.nodes[:1] * (most - len(tree.nodes))]


def _signs(node: Node, trees: Sequence[_Tree]) -> np.ndarray:
    """Trees x nodes x leaves: 1 where a condition must hold, -1 where it must not."""
    shape = (len(trees), max(len(tree.nodes) for tree in trees), max(len(tree.leaves) for tree in trees))
    if prod(shape) > MOST_SIGNS:
        raise node.not_covered(
            f"trees of up to {shape[1]:,} nodes are too large for its rule, which multiplies with all."
        )
    signs = np.zeros(shape, np.int8)
    for number, tree in enumerate(trees):
        places = {inner: place for place, inner in enumerate(tree.nodes)}
        for column, (_, above) in enumerate(tree.leaves):
            for inner, holds in above.items():
                signs[number, places[inner], column] = 1 if holds else -1
    return signs


def _leaf_weights(node: Node, trees: Sequence[_Tree], element_type: np.dtype) -> np.ndarray:
    """Trees x leaves x targets."""
    values, targets = node.tensor("leaf_weights"), node.integers("leaf_targetids") or ()
    count = node.integer("n_targets", max(targets, default=0) + 1)
    if values is None or values.shape != (len(targets),) or not all(0 <= target < count for target in targets):
        raise node.fault(f"expected a weight for each leaf, and targets from 0 to {count - 1}.")
    weights = np.zeros((len(trees), max(len(tree.leaves) for tree in trees), count), element_type)
    for number, tree in enumerate(trees):
        for row, (leaf, _) in enumerate(tree.leaves):
            if not 0 <= leaf < len(targets):
                raise node.fault(f"its nodes lead to leaf {leaf}; expected one of the {len(targets)} that it has.")
            weights[number, row, targets[leaf]] = values[leaf]
    return weights


def _nodes(node: Node, width: int) -> _Nodes:
    """The conditions of all nodes; hit rates are advice for whoever walks the trees."""
    node.ignore("nodes_hitrates")
    modes, splits = node.tensor("nodes_modes"), node.tensor("nodes_splits")
    features, members = node.integers("nodes_featureids") or (), node.tensor("membership_values")
    missing = node.integers("nodes_missing_value_tracks_true") or (0,) * len(features)
    if modes is None or splits is None or not len(modes) == len(splits) == len(features) == len(missing):
        raise node.fault("expected a mode, a split and a feature for every node.")
    if any(mode not in list(_Mode) for mode in modes) or not all(0 <= feature < width for feature in features):
        raise node.fault(f"expected modes from 0 to {max(_Mode)}, and features from 0 to {width - 1}.")
    sets = tuple(_sets(members)) if members is not None else ()
    found = _Nodes(tuple(map(_Mode, modes)), features, splits, sets, missing)
    if len(sets) != found.modes.count(_Mode.MEMBER) or not all(sets):
        raise node.not_covered("expected members for every node that asks for them.")
    return found


def _sets(values: np.ndarray) -> Iterator[tuple[float, ...]]:
    """What stands before each NaN."""
    members: list[float] = []
    for value in values.tolist():
        if np.isnan(value):
            yield tuple(members)
            members = []
        else:
            members.append(value)
    if members:
        yield tuple(members)


def _conditions(write: Writer, x: str, nodes: _Nodes, wanted: Sequence[int]) -> str:
    """Samples x `wanted`: which conditions hold. Those of one mode are decided together, and then put in order."""
    parts: list[str] = []
    order: list[int] = []
    for mode in _Mode:
        numbers = [number for number in wanted if nodes.modes[number] is mode]
        if numbers:
            parts.append(_compared(write, x, nodes, mode, numbers))
            order += numbers
    if len(parts) == 1:
        return parts[0]
    places = {number: place for place, number in enumerate(order)}
    picked = write.constant(np.array([places[number] for number in wanted]))
    return write.op("Gather", write.op("Concat", *parts, axis=1), picked, axis=1)


def _compared(write: Writer, x: str, nodes: _Nodes, mode: _Mode, numbers: Sequence[int]) -> str:
    """Samples x nodes of one mode."""
    read = write.op("Gather", x, write.constant(np.array([nodes.features[number] for number in numbers])), axis=1)
    if mode is _Mode.MEMBER:
        holds = _membership(write, read, nodes, numbers)
    else:
        holds = write.op(_COMPARISONS[mode], read, write.constant(nodes.splits[list(numbers)]))
    if mode is _Mode.NOT_EQUAL:
        holds = write.op("Not", holds)
    missing = np.array([nodes.missing[number] != 0 for number in numbers])
    if missing.any():
        absent = write.op("And", write.op("IsNaN", read), write.constant(missing))
        holds = write.op("Or", holds, absent)
    return holds


def _membership(write: Writer, read: str, nodes: _Nodes, numbers: Sequence[int]) -> str:
    """Whether a feature is one of the members of each node; short sets repeat one of theirs."""
    asking = (number for number, mode in enumerate(nodes.modes) if mode is _Mode.MEMBER)
    of_node = dict(zip(asking, nodes.sets, strict=True))
    sets = [of_node[number] for number in numbers]
    most = max(map(len, sets))
    members = np.array([found + found[:1] * (most - len(found)) for found in sets], nodes.splits.dtype)
    same = [write.op("Equal", read, write.constant(np.ascontiguousarray(column))) for column in members.T]
    holds = same[0]
    for one in same[1:]:
        holds = write.op("Or", holds, one)
    return holds
