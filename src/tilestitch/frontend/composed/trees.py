"""Ensembles of decision trees, as products of matrices: every condition is decided, and the leaves are found by count.

Source: Nakandala et al., A Tensor Compiler for Unified Machine Learning Prediction Serving, OSDI 2020, section 4.1
(the strategy GEMM).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from onnx import TensorProto, helper

from tilestitch.frontend.functions import Definition
from tilestitch.frontend.network import Node, Reading, text_of
from tilestitch.frontend.writing import Writer

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
class _Path:
    """The way from a root to a leaf: nodes, and whether the condition of each holds."""

    leaf: int
    turns: tuple[tuple[int, bool], ...]


@dataclass(frozen=True, slots=True)
class _Nodes:
    """The inner nodes of all trees."""

    modes: tuple[_Mode, ...]
    features: tuple[int, ...]
    splits: np.ndarray
    sets: tuple[tuple[float, ...], ...]  # of those that ask for membership, in the order of the nodes
    missing: tuple[int, ...]  # whether a NaN meets the condition

    def of(self, mode: _Mode) -> list[int]:
        return [number for number, found in enumerate(self.modes) if found is mode]


def tree_ensemble(node: Node, network: Reading) -> Definition:
    """TreeEnsemble: the weights of the leaf that each tree reaches, added up or averaged.

    A leaf is reached where all conditions on its path that must hold do, and none of the others: where the sum of the
    former minus that of the latter is the number of the former.
    """
    write = Writer(node, network)
    (x,), shape = node.inputs, network.shape(node.inputs[0])
    if len(shape) != 2:
        raise node.fault(f"operand '{x}' has shape {text_of(shape)}; expected samples x features.")
    if node.integer("post_transform", 0) != 0:
        raise node.not_covered(
            "a transformation of the scores has no rule: onnxruntime and the standard number them apart."
        )
    element_type = network.element_type(x)
    roots, paths = _paths(node)
    weights = _leaf_weights(node, paths, element_type)
    aggregate = node.integer("aggregate_function", _SUM)
    if aggregate not in (_AVERAGE, _SUM):
        raise node.not_covered(f"attribute aggregate_function={aggregate} has no rule; a mean and a sum have.")
    if aggregate == _AVERAGE:
        weights = weights / np.asarray(len(roots), element_type)
    nodes = _nodes(node, shape[1])
    conditions, order = _conditions(write, x, nodes)
    places = {number: place for place, number in enumerate(order)}
    signs = np.zeros((len(order), len(paths)), np.int8)
    for column, path in enumerate(paths):
        for number, holds in path.turns:
            signs[places[number], column] = 1 if holds else -1
    met = write.op("MatMulInteger", write.op("Cast", conditions, to=TensorProto.INT8), write.constant(signs))
    reached = write.op("Equal", met, write.constant((signs > 0).sum(axis=0, dtype=np.int32)))
    kind = helper.np_dtype_to_tensor_dtype(element_type)
    write.op("MatMul", write.op("Cast", reached, to=kind), write.constant(weights), output=0)
    return write.finished()


def _paths(node: Node) -> tuple[tuple[int, ...], list[_Path]]:
    """The roots, and the way to each leaf; raises where the nodes are no trees."""
    roots = node.integers("tree_roots") or ()
    children = [
        tuple(zip(node.integers(f"nodes_{side}nodeids") or (), node.integers(f"nodes_{side}leafs") or (), strict=True))
        for side in ("true", "false")
    ]
    if not roots or len({len(found) for found in children}) != 1:
        raise node.fault(
            "expected a root at least, and as many children that a condition leads to as that it does not."
        )
    found, seen = [], set[int]()
    waiting: list[_Path] = [_Path(root, ()) for root in reversed(roots)]  # `leaf` is an inner node here
    while waiting:
        here = waiting.pop()
        number = here.leaf
        if number in seen or not 0 <= number < len(children[0]):
            raise node.fault(f"node {number} is reached twice, or does not exist; expected trees.")
        seen.add(number)
        for side, holds in zip(children, (True, False), strict=True):
            child, is_leaf = side[number]
            (found if is_leaf else waiting).append(_Path(child, (*here.turns, (number, holds))))
    return roots, found


def _leaf_weights(node: Node, paths: Sequence[_Path], element_type: np.dtype) -> np.ndarray:
    """Paths x targets."""
    values, targets = node.tensor("leaf_weights"), node.integers("leaf_targetids") or ()
    count = node.integer("n_targets", max(targets, default=0) + 1)
    if values is None or values.shape != (len(targets),) or not all(0 <= target < count for target in targets):
        raise node.fault(f"expected a weight for each leaf, and targets from 0 to {count - 1}.")
    if not all(0 <= path.leaf < len(targets) for path in paths):
        raise node.fault(f"its nodes lead to leaves beyond the {len(targets)} that it has.")
    weights = np.zeros((len(paths), count), element_type)
    for row, path in enumerate(paths):
        weights[row, targets[path.leaf]] = values[path.leaf]
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
    if len(sets) != len(found.of(_Mode.MEMBER)) or not all(sets):
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


def _conditions(write: Writer, x: str, nodes: _Nodes) -> tuple[str, list[int]]:
    """Which conditions hold, samples x nodes, and the order of the nodes: those of one mode side by side."""
    parts, order = [], []
    for mode in _Mode:
        numbers = nodes.of(mode)
        if not numbers:
            continue
        order += numbers
        read = write.op("Gather", x, write.constant(np.array([nodes.features[n] for n in numbers])), axis=1)
        if mode is _Mode.MEMBER:
            holds = _membership(write, read, nodes)
        else:
            holds = write.op(_COMPARISONS[mode], read, write.constant(nodes.splits[numbers]))
        if mode is _Mode.NOT_EQUAL:
            holds = write.op("Not", holds)
        missing = np.array([nodes.missing[number] != 0 for number in numbers])
        if missing.any():
            absent = write.op("And", write.op("IsNaN", read), write.constant(missing))
            holds = write.op("Or", holds, absent)
        parts.append(holds)
    return (write.op("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]), order


def _membership(write: Writer, read: str, nodes: _Nodes) -> str:
    """Whether a feature is one of the members of each node; short sets repeat one of theirs."""
    most = max(map(len, nodes.sets))
    members = np.array([found + found[:1] * (most - len(found)) for found in nodes.sets], nodes.splits.dtype)
    holds = None
    for column in range(most):
        same = write.op("Equal", read, write.constant(np.ascontiguousarray(members[:, column])))
        holds = same if holds is None else write.op("Or", holds, same)
    assert holds is not None
    return holds
