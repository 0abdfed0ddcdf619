"""Einsum: one loop nest for each pair of operands, with a dim for each letter."""

from collections import Counter
from collections.abc import Sequence

from tilestitch.frontend.network import Node, Reading, Target, text_of
from tilestitch.frontend.operators.accesses import FIXED, Nest, along, axis
from tilestitch.frontend.operators.shapes import copy, permute
from tilestitch.frontend.operators.slicing import select
from tilestitch.ir.graph import Access, Operator

Labels = tuple[str, ...]  # one per axis: a letter, or "...1" for the last axis but one of an ellipsis


def einsum(node: Node, network: Reading) -> None:
    """Sums of products over the letters that the result does not have, two operands at a time from the left.

    A letter that one operand has twice is its diagonal. What only one operand of a pair has is summed before.
    """
    equation = node.text("equation", "").replace(" ", "")
    terms, result = _labels(node, network, equation)
    extents = _extents(node, network, terms)
    operands = [_diagonal(node, network, name, labels) for name, labels in zip(node.inputs, terms, strict=True)]
    while len(operands) > 1:
        (first, a), (second, b), *others = operands
        needed = set(result).union(*(labels for _, labels in others))
        wanted = result if not others else tuple(x for x in dict.fromkeys((*a, *b)) if x in needed)
        target = node.target if not others else network.step(node, f"product{len(others)}")
        operands = [(_pair(node, network, (first, a), (second, b), wanted, extents, target), wanted), *others]
    if len(node.inputs) == 1:
        _sum(node, network, *operands[0], result, extents, node.target)


def _labels(node: Node, network: Reading, equation: str) -> tuple[list[Labels], Labels]:
    """The labels of every operand, and of the result, by letters in alphabetical order where the equation has none."""
    left, arrow, right = equation.partition("->")
    texts = left.split(",")
    if len(texts) != len(node.inputs):
        raise node.fault(f"equation '{equation}' for {len(node.inputs)} operands.")
    terms = []
    for text, name in zip(texts, node.inputs, strict=True):
        rank = len(network.shape(name))
        before, dots, after = text.partition("...")
        letters, hidden = before + after, rank - len(before) - len(after)
        if (letters and not letters.isalpha()) or hidden < 0 or (hidden and not dots):
            found = text_of(network.shape(name))
            raise node.fault(f"equation '{equation}': '{text}' does not fit an operand of shape {found}.")
        terms.append((*before, *(f"...{hidden - number}" for number in range(hidden)), *after))
    dotted = sorted({label for labels in terms for label in labels if label.startswith(".")}, key=lambda x: -int(x[3:]))
    counts = Counter(label for labels in terms for label in labels if not label.startswith("."))
    if not arrow:
        return terms, (*dotted, *sorted(label for label, count in counts.items() if count == 1))
    before, dots, after = right.partition("...")
    result = (*before, *(dotted if dots else ()), *after)
    if len(set(result)) < len(result) or not set(before + after) <= counts.keys() or (dotted and not dots):
        raise node.fault(f"equation '{equation}': the result '{right}' needs letters of the operands, each once.")
    return terms, result


def _extents(node: Node, network: Reading, terms: Sequence[Labels]) -> dict[str, int]:
    """How many elements each label has; 1 gives way to more."""
    extents: dict[str, int] = {}
    for name, labels in zip(node.inputs, terms, strict=True):
        for label, extent in zip(labels, network.shape(name), strict=True):
            known = extents.setdefault(label, extent)
            if 1 not in (known, extent) and known != extent:
                raise node.fault(f"axes of {known} and {extent} elements have the letter '{label}' both.")
            extents[label] = max(known, extent)
    return extents


def _diagonal(node: Node, network: Reading, name: str, labels: Labels) -> tuple[str, Labels]:
    """An operand in which every label stands once."""
    unique = tuple(dict.fromkeys(labels))
    if unique == labels:
        return name, labels
    shape = dict(zip(labels, network.shape(name), strict=True))
    if any(shape[label] != extent for label, extent in zip(labels, network.shape(name), strict=True)):
        raise node.fault(f"operand of shape {text_of(network.shape(name))} has one letter on axes of two extents.")
    read = tuple(axis((unique.index(label), 1)) for label in labels)
    extents = tuple(shape[label] for label in unique)
    return select(node, network, name, extents, read, network.step(node, "diagonal")), unique


def _sum(
    node: Node,
    network: Reading,
    name: str,
    labels: Labels,
    result: Labels,
    extents: dict[str, int],
    target: Target,
) -> str:
    """The sum over the labels that the result does not have, its axes in the order of the result."""
    if set(result) == set(labels):
        if result == labels:
            return copy(node, network, name, target)
        return permute(node, network, name, tuple(labels.index(label) for label in result), target)
    nest = Nest()
    dims = {x: nest.parallel(f"d{i}", extents[x]) if x in result else nest.reduction(f"d{i}", extents[x])
            for i, x in enumerate(labels)}  # fmt: skip
    read = Access(name, along(*(dims[label] for label in labels)))
    write = Access(target.tensor, along(*(dims[label] for label in result)))
    shape = tuple(extents[label] for label in result)
    op = Operator(target.operator, "reduce_sum", nest.dims, (read,), (write,))
    return network.emit(node, op, shape)


def _pair(
    node: Node,
    network: Reading,
    first: tuple[str, Labels],
    second: tuple[str, Labels],
    result: Labels,
    extents: dict[str, int],
    target: Target,
) -> str:
    """The contraction of two operands; without a letter to sum over, their product element by element."""
    moving = [
        {label for label, extent in zip(labels, network.shape(name), strict=True) if extent == extents[label]}
        for name, labels in (first, second)
    ]
    operands = []
    for name, labels in (first, second):
        kept = tuple(label for label in labels if label in result or label in moving[0] & moving[1])
        if kept != labels:
            alone = dict(zip(labels, network.shape(name), strict=True))
            name = _sum(node, network, name, labels, kept, alone, network.step(node, "sum"))
        operands.append((name, kept))
    nest = Nest()
    used = dict.fromkeys((*result, *(label for _, labels in operands for label in labels)))
    dims = {x: nest.parallel(f"d{i}", extents[x]) if x in result else nest.reduction(f"d{i}", extents[x])
            for i, x in enumerate(used)}  # fmt: skip
    reads = tuple(
        Access(
            name,
            tuple(
                axis((dims[label], 1)) if extent == extents[label] else FIXED
                for label, extent in zip(labels, network.shape(name), strict=True)
            ),
        )
        for name, labels in operands
    )
    kind = "mul" if set(used) == set(result) else "matmul"
    write = Access(target.tensor, along(*(dims[label] for label in result)))
    shape = tuple(extents[label] for label in result)
    op = Operator(target.operator, kind, nest.dims, reads, (write,))
    return network.emit(node, op, shape)
