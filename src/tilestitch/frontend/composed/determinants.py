"""Determinants of small matrices."""

from itertools import combinations

import numpy as np

from tilestitch.frontend.functions import Definition
from tilestitch.frontend.network import Node, Reading, text_of
from tilestitch.frontend.writing import Writer

MOST_ROWS = 6  # the minors double with each row


def determinant(node: Node, network: Reading) -> Definition:
    """Det: Laplace's expansion, one row after another, with all minors of the rows so far side by side.

    The minor of the first k + 1 rows and a set of k + 1 columns is the sum, over the columns j of the set, of
    `(-1)**(k + place of j in the set) * x[k, j]` times the minor of the first k rows and the other columns.
    """
    write = Writer(node, network)
    (x,), shape = node.inputs, network.shape(node.inputs[0])
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise node.fault(f"operand '{x}' has shape {text_of(shape)}; expected square matrices.")
    size = shape[-1]
    if size > MOST_ROWS:
        raise node.not_covered(f"matrices of {size} rows have no rule; those of up to {MOST_ROWS} have.")
    minors, sets = _row(write, x, 0), [(column,) for column in range(size)]
    for row in range(1, size):
        places = {columns: place for place, columns in enumerate(sets)}
        sets = list(combinations(range(size), row + 1))
        rest = [[places[(*columns[:at], *columns[at + 1 :])] for at in range(row + 1)] for columns in sets]
        signs = np.array([(-1) ** (row + at) for at in range(row + 1)], network.element_type(x))
        elements = write.op("Gather", _row(write, x, row), write.constant(np.array(sets)), axis=-1)
        signed = write.op("Mul", elements, write.constant(signs))
        products = write.op("Mul", signed, write.op("Gather", minors, write.constant(np.array(rest)), axis=-1))
        minors = write.op("ReduceSum", products, write.integers(-1), keepdims=0)
    write.op("Squeeze", minors, write.integers(-1), output=0)
    return write.finished()


def _row(write: Writer, x: str, number: int) -> str:
    return write.op("Gather", x, write.constant(np.asarray(number)), axis=-2)
