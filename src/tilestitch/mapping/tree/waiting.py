"""Labels that wait in a heap, and the way that led to one: what the searches of trees have in common."""

from typing import Any, NamedTuple

import numpy as np

from tilestitch.base.jit import inner, lending


class Order(NamedTuple):
    """The least value goes first, then the least bound and limit; of equal ones the farthest, then the oldest."""

    value: np.ndarray
    bound: np.ndarray
    limit: np.ndarray
    rank: np.ndarray  # how far a label is


@lending
def _goes_first(order: Order, one: int, other: int) -> bool:
    if order.value[one] != order.value[other]:
        return order.value[one] < order.value[other]
    if order.bound[one] != order.bound[other]:
        return order.bound[one] < order.bound[other]
    if order.limit[one] != order.limit[other]:
        return order.limit[one] < order.limit[other]
    if order.rank[one] != order.rank[other]:
        return order.rank[one] > order.rank[other]
    return one < other


@lending
def push(heap: np.ndarray, order: Order, waiting: int, label: int) -> None:
    """Add a label to so many that wait."""
    heap[waiting] = label
    at = waiting
    while at > 0:
        above = (at - 1) // 2
        if not _goes_first(order, heap[at], heap[above]):
            break
        heap[at], heap[above] = heap[above], heap[at]
        at = above


@lending
def pop(heap: np.ndarray, order: Order, waiting: int) -> int:
    """Take the first of so many that wait."""
    found = heap[0]
    heap[0] = heap[waiting - 1]
    at = 0
    while True:
        least = at
        for child in (2 * at + 1, 2 * at + 2):
            if child < waiting - 1 and _goes_first(order, heap[child], heap[least]):
                least = child
        if least == at:
            return found
        heap[at], heap[least] = heap[least], heap[at]
        at = least


@inner
def chain_of(trail: Any, label: int, cuts: int) -> np.ndarray:
    """The cuts of a complete label in the order in which they were placed, each with its point."""
    chain = np.empty((cuts, 2), np.int64)
    while label >= 0:
        if trail.action[label] >= 0:
            cuts -= 1
            chain[cuts, 0], chain[cuts, 1] = trail.action[label], trail.point[label]
        label = trail.parent[label]
    return chain
