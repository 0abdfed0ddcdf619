"""Which tensors stay in fast memory between two sub-graphs, and the order that follows from it."""

from collections.abc import Sequence

from tilestitch.commands.contest.blocks import Prices
from tilestitch.commands.contest.cover import Group
from tilestitch.commands.contest.instance import Instance
from tilestitch.commands.contest.solution import Step

_Links = dict[int, tuple[int, frozenset[int]]]  # group -> the one right behind it, and what stays for it


def divide(prices: Prices, groups: Sequence[Group]) -> list[Group]:
    """Groups cut in two where that costs less, if what the first part makes stays in fast memory for the second."""
    instance = prices.instance
    found: list[Group] = []
    for group in groups:
        whole = prices.price(group)
        best = None if whole is None else whole.ticks
        parts = [group]
        order = [operator for operator in instance.order if operator in group]
        for cut in range(1, len(order)):
            first, second = frozenset(order[:cut]), frozenset(order[cut:])
            stay = frozenset(_outputs(instance, first) & _read(instance, second))
            if not stay or any(set(instance.consumers[tensor]) - second for tensor in stay):
                continue
            costs = prices.price(first, (), stay), prices.price(second, stay)
            if costs[0] is None or costs[1] is None or best is None:
                continue
            if costs[0].ticks + costs[1].ticks < best:
                best, parts = costs[0].ticks + costs[1].ticks, [first, second]
        found += parts
    return found


def retain(prices: Prices, groups: Sequence[Group]) -> list[tuple[Step, float]]:
    """Steps and their ticks: groups behind one another so that tensors stay between them, the largest gain first."""
    links: _Links = {}
    while True:
        best: tuple[float, int, int, frozenset[int]] | None = None
        for first, second, tensors in _links(prices.instance, groups):
            if first in links or any(second == behind for behind, _ in links.values()):
                continue
            gain = _gain(prices, groups, links, first, second, tensors)
            if (
                gain > 0
                and (best is None or gain > best[0])
                and _orderable(prices.instance, groups, links, first, second)
            ):
                best = (gain, first, second, tensors)
        if best is None:
            break
        links[best[1]] = best[2], best[3]
    steps = []
    resident: frozenset[int] = frozenset()
    order = _sequence(prices.instance, groups, links)
    assert order is not None
    for index in order:
        retained = links[index][1] if index in links else frozenset()
        priced = prices.price(groups[index], resident, retained, fine=True)
        assert priced is not None
        steps.append((prices.step(groups[index], priced, sorted(retained)), priced.ticks))
        resident = retained
    return steps


def _links(instance: Instance, groups: Sequence[Group]) -> list[tuple[int, int, frozenset[int]]]:
    """Pairs of groups and the tensors that only the second reads of what the first makes."""
    made = [_outputs(instance, group) for group in groups]
    makers: dict[int, int] = {}
    for tensors in made:
        for tensor in tensors:
            makers[tensor] = makers.get(tensor, 0) + 1
    found = []
    for first, tensors in enumerate(made):
        behind: dict[int, set[int]] = {}
        for tensor in sorted(tensors - instance.results):
            readers = [index for index, group in enumerate(groups) if tensor in _read(instance, group)]
            if len(readers) == 1 and makers[tensor] == 1:
                behind.setdefault(readers[0], set()).add(tensor)
        for second, stay in behind.items():
            found.append((first, second, frozenset(stay)))
            if len(stay) > 1:
                found.extend((first, second, frozenset([tensor])) for tensor in sorted(stay))
    return found


def _outputs(instance: Instance, group: Group) -> set[int]:
    read = {tensor for operator in group for tensor in instance.operators[operator].inputs}
    return {instance.operators[operator].output for operator in group} - read


def _read(instance: Instance, group: Group) -> set[int]:
    made = {instance.operators[operator].output for operator in group}
    return {tensor for operator in group for tensor in instance.operators[operator].inputs} - made


def _gain(
    prices: Prices,
    groups: Sequence[Group],
    links: _Links,
    first: int,
    second: int,
    tensors: frozenset[int],
) -> float:
    """Ticks that are saved when the tensors stay; negative where they do not fit."""
    stays_before: frozenset[int] = next((stay for behind, stay in links.values() if behind == first), frozenset())
    stays_after = links[second][1] if second in links else frozenset()
    before = prices.price(groups[first], stays_before), prices.price(groups[second], (), stays_after)
    after = prices.price(groups[first], stays_before, tensors), prices.price(groups[second], tensors, stays_after)
    if None in before or None in after:
        return -1.0
    return sum(part.ticks for part in before if part) - sum(part.ticks for part in after if part)


def _orderable(
    instance: Instance,
    groups: Sequence[Group],
    links: _Links,
    first: int,
    second: int,
) -> bool:
    return _sequence(instance, groups, {**links, first: (second, frozenset())}) is not None


def _sequence(instance: Instance, groups: Sequence[Group], links: _Links) -> list[int] | None:
    """An order of the groups in which linked ones follow one another; None where there is none."""
    behind = {second: first for first, (second, _) in links.items()}
    makers: dict[int, list[int]] = {}
    for index, group in enumerate(groups):
        for tensor in _outputs(instance, group):
            makers.setdefault(tensor, []).append(index)
    needs = [
        {maker for tensor in _read(instance, group) for maker in makers.get(tensor, ())} - {index}
        for index, group in enumerate(groups)
    ]
    chains = []
    for index in range(len(groups)):
        if index not in behind:
            chain = [index]
            while chain[-1] in links:
                chain.append(links[chain[-1]][0])
            chains.append(chain)
    if sum(map(len, chains)) != len(groups):
        return None
    done: set[int] = set()
    order: list[int] = []
    while chains:
        for chain in chains:
            if all(needs[index] <= done | set(chain[:place]) for place, index in enumerate(chain)):
                break
        else:
            return None
        order += chain
        done.update(chain)
        chains.remove(chain)
    return order
