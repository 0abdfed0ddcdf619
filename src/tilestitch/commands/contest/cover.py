"""Which sub-graphs of the pool make up the whole graph: the cheapest exact cover, by a beam over what is covered."""

from collections.abc import Sequence

from tilestitch.base.errors import DoesNotFit
from tilestitch.commands.contest.blocks import Prices
from tilestitch.commands.contest.instance import Instance
from tilestitch.commands.contest.pool import Pool

BEAM = 3_000  # covered sets that are kept for each operator that is next

Group = frozenset[int]


def cover(prices: Prices, pool: Pool) -> list[Group]:
    """Sub-graphs that hold every operator once, in an order in which they can run.

    States are sets of covered operators; the next sub-graph holds the first operator that is not covered. Nothing is
    cut off unless a level has more than `BEAM` states: without that the cover is the cheapest of the pool.
    """
    count = len(pool.order)
    for place, operator in enumerate(pool.order):
        if 1 << place not in pool.ticks:
            raise DoesNotFit(
                f"{prices.instance.name}: operator {operator} alone does not fit into fast memory of "
                f"{prices.instance.capacity:,} elements at any granularity; it needs a larger fast memory"
            )
    rest = _least_rest(pool)
    levels: list[dict[int, tuple[float, int]]] = [{} for _ in range(count + 1)]
    levels[0][0] = (0.0, 0)
    for level in range(count):
        states = levels[level]
        if len(states) > BEAM:
            ranked = sorted(states, key=lambda mask: (states[mask][0] + rest(mask), mask))
            states = levels[level] = {mask: states[mask] for mask in ranked[:BEAM]}
        for covered, (ticks, _) in states.items():
            for block in pool.by_lowest[level]:
                if block & covered:
                    continue
                after = covered | block
                following = levels[_first_free(after)]
                cost = ticks + pool.ticks[block]
                if after not in following or cost < following[after][0]:
                    following[after] = (cost, block)
    masks = []
    covered = (1 << count) - 1
    while covered:
        block = levels[_first_free(covered) if covered != (1 << count) - 1 else count][covered][1]
        masks.append(block)
        covered &= ~block
    return runnable(prices.instance, [pool.operators(mask) for mask in masks])


def _first_free(mask: int) -> int:
    return (~mask & (mask + 1)).bit_length() - 1


class _least_rest:  # noqa: N801 (a function with a table)
    """What the operators outside a mask cost at least, if each shared the best sub-graph that holds it."""

    def __init__(self, pool: Pool) -> None:
        self.shares = [float("inf")] * len(pool.order)
        for mask, ticks in pool.ticks.items():
            share = ticks / mask.bit_count()
            for place in range(len(pool.order)):
                if mask >> place & 1:
                    self.shares[place] = min(self.shares[place], share)

    def __call__(self, mask: int) -> float:
        return sum(share for place, share in enumerate(self.shares) if not mask >> place & 1)


def runnable(instance: Instance, groups: Sequence[Group]) -> list[Group]:
    """The groups, each after those whose outputs it reads; where they wait for each other, one is taken apart."""
    waiting = sorted(groups, key=min)
    done: list[Group] = []
    while waiting:
        ready = [group for group in waiting if not _before(instance, group, waiting)]
        if ready:
            done.append(ready[0])
            waiting.remove(ready[0])
            continue
        stuck = max(waiting, key=lambda group: (len(group), -min(group)))
        waiting.remove(stuck)
        waiting = sorted([*waiting, *(frozenset([operator]) for operator in stuck)], key=min)
    return done


def _before(instance: Instance, group: Group, others: Sequence[Group]) -> bool:
    """Whether the group reads what another of them still has to make."""
    wanted = {tensor for operator in group for tensor in instance.operators[operator].inputs}
    wanted -= {instance.operators[operator].output for operator in group}
    return any(
        instance.operators[operator].output in wanted for other in others if other != group for operator in other
    )
