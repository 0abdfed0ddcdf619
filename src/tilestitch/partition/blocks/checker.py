"""An independent check that a plan is the best: nothing here is shared with the search that found it.

A proof is a number for each ideal, such that no plan can reach it with less. It holds if the empty ideal has zero and,
for every block that leads from one ideal to another, the second number is at most the first plus the cost of the block.
A plan that costs the number of the whole graph is then the best.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tilestitch.base.errors import InputError

MAX_IDEALS = 20_000  # beyond which a graph takes too long to check

Price = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # as ideals.Price


def check(
    before: Sequence[Sequence[int]],
    blocks: Sequence[Sequence[int]],
    choices: Sequence[int],
    costs: Sequence[int],
    potentials: Mapping[int, int],
    price: Price,
) -> None:
    """Raise `InputError` with what is wrong unless the plan is legal, costs what it says, and is proven the best.

    `price` prices blocks as `ideals.Price` does; it is asked anew for every block.
    """
    count = len(before)
    _check_plan(before, blocks, choices, costs, price)
    every = _ideals(before)
    for ideal in sorted(every - set(potentials)):
        reached = (other for other in potentials if _below(other, ideal))
        if any(_cost(price, ideal & ~other, count) is not None for other in reached):
            raise InputError(f"certificate: has no number for the ideal {_names(ideal)}")
    if potentials.get(0) != 0:
        raise InputError(f"certificate: the empty ideal has {potentials.get(0)}; expected 0")
    for ideal in potentials:
        if ideal not in every:
            raise InputError(f"certificate: {_names(ideal)} is not an ideal of the graph")
    numbered = sorted(potentials)
    for upper in numbered:
        below = [lower for lower in numbered if _below(lower, upper)]
        if not below:
            continue
        found, _ = price(_rows([upper & ~lower for lower in below], count))
        for lower, cost in zip(below, found.tolist(), strict=True):
            if cost >= 0 and potentials[upper] > potentials[lower] + cost:
                raise InputError(
                    f"certificate: {_names(upper)} has {potentials[upper]}, but block {_names(upper & ~lower)} leads "
                    f"there from {potentials[lower]} at {cost}"
                )
    whole = (1 << count) - 1
    if potentials.get(whole) != sum(costs):
        raise InputError(f"certificate: proves {potentials.get(whole)}, and the plan costs {sum(costs)}")


def _check_plan(
    before: Sequence[Sequence[int]],
    blocks: Sequence[Sequence[int]],
    choices: Sequence[int],
    costs: Sequence[int],
    price: Price,
) -> None:
    if not len(blocks) == len(choices) == len(costs):
        raise InputError(
            f"plan: {len(blocks)} blocks, {len(choices)} choices, {len(costs)} costs; expected equal numbers"
        )
    done: set[int] = set()
    for number, block in enumerate(blocks):
        if len(set(block)) < len(block):
            raise InputError(f"plan: block {number} has a node twice: {', '.join(map(str, sorted(block)))}")
        for node in block:
            if node in done or not 0 <= node < len(before):
                raise InputError(f"plan: block {number} has node {node}, which has run or does not exist")
        after = done | set(block)
        for node in block:
            missing = sorted(set(before[node]) - after)
            if missing:
                raise InputError(f"plan: node {node} of block {number} needs node {missing[0]}, which has not run")
        mask = sum(1 << node for node in set(block))
        found = _priced(price, mask, len(before))
        if found[0] != costs[number] or found[1] != choices[number]:
            raise InputError(
                f"plan: block {number} costs {found[0]} at choice {found[1]}, not {costs[number]} at {choices[number]}"
            )
        done = after
    if len(done) != len(before):
        raise InputError(f"plan: holds {len(done)} of {len(before)} nodes")


def _ideals(before: Sequence[Sequence[int]]) -> set[int]:
    """Every ideal: one node after the other is in it, with all that it needs, or not."""
    found = {0}
    for node in range(len(before)):
        needed = sum(1 << other for other in before[node])
        found |= {ideal | 1 << node for ideal in found if needed & ~ideal == 0}
        if len(found) > MAX_IDEALS:
            raise InputError(f"certificate: the graph has more than {MAX_IDEALS:,} ideals, which are too many to check")
    return found


def _below(lower: int, upper: int) -> bool:
    return lower != upper and lower & ~upper == 0


def _rows(masks: Sequence[int], count: int) -> np.ndarray:
    return np.array([[mask >> node & 1 for node in range(count)] for mask in masks], np.uint8)


def _priced(price: Price, mask: int, count: int) -> tuple[int, int]:
    costs, choices = price(_rows([mask], count))
    return int(costs[0]), int(choices[0])


def _cost(price: Price, mask: int, count: int) -> int | None:
    cost = _priced(price, mask, count)[0]
    return None if cost < 0 else cost


def _names(mask: int) -> str:
    return str([node for node in range(mask.bit_length()) if mask >> node & 1])
