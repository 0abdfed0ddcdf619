"""Every division of some operators into groups that run one after another, where results of a group may leave it.

Each group is tried by itself, in all its mappings. What is between them is counted here.
"""

from collections import Counter
from dataclasses import replace
from math import ceil, inf, prod

from tests.helpers.fused_brute_force import (
    Truncated,
    _moved,
    _passes,
    all_homes,
    all_turns,
    axes_of_cells,
    is_added,
    least_by_homes,
    read_last,
    read_outside,
    uses_of,
)
from tests.helpers.fused_time_brute_force import front_at_homes
from tests.helpers.tree_brute_force import primes
from tilestitch.hardware.tree import Flow
from tilestitch.mapping.fused.chain import Link, Reading


def least_divided(chain, most, *, final_sums):
    """The least energy of all divisions into groups of at most so many operators."""
    known = {}

    def least(group):
        if group not in known:
            known[group] = inf
            for one, names in _turns(chain, group):
                for homes, energy in least_by_homes(one, final_sums=final_sums):
                    if _all_inside(one, homes):
                        leaving = _leaving(chain, one, names, homes, final_sums)[0]
                        known[group] = min(known[group], energy + leaving)
        return known[group]

    return min(sum(map(least, groups)) + _between(chain, groups)[0] for groups in _divisions(chain, most))


def divided_front(chain, most, *, final_sums):
    """Energies and cycles of all of them that no other beats in both."""
    known = {}

    def front(group):
        if group not in known:
            known[group] = []
            for one, names in _turns(chain, group):
                for homes in all_homes(one):
                    if _all_inside(one, homes):
                        energy, cycles = _leaving(chain, one, names, homes, final_sums)
                        found = front_at_homes(one, homes, final_sums=final_sums)
                        known[group] += [(pj + energy, time + cycles) for pj, time in found]
            known[group] = _best(known[group])
        return known[group]

    found = []
    for groups in _divisions(chain, most):
        points = [_between(chain, groups)]
        for group in groups:
            points = _best([(a + c, b + d) for a, b in points for c, d in front(group)])
        found += points
    return _best(found)


def _best(points):
    kept = []
    for one in sorted(points):
        if not kept or one[1] < kept[-1][1]:
            kept.append(one)
    return kept


def _divisions(chain, most):
    """All ways to divide operators so that groups can run one after another, with what each makes read inside."""
    uses = uses_of(chain)

    def grow(number, groups):
        if number == len(chain.operators):
            if _can_run(groups, uses) and all(_holds_together(chain, group) for group in groups):
                yield [tuple(group) for group in groups]
            return
        for at, group in enumerate(groups):
            if len(group) < most:
                yield from grow(number + 1, [*groups[:at], [*group, number], *groups[at + 1 :]])
        yield from grow(number + 1, [*groups, [number]])

    yield from grow(0, [])


def _can_run(groups, uses):
    """Whether some order of groups has each result before it is read."""
    where = {number: at for at, group in enumerate(groups) for number in group}
    before = {at: {where[link] for link, reader, _ in uses if where[reader] == at} - {at} for at in range(len(groups))}
    done = set()
    while len(done) < len(groups):
        ready = [at for at in before if at not in done and before[at] <= done]
        if not ready:
            return False
        done.update(ready)
    return True


def _holds_together(chain, group):
    """Whether each result but the last is read in a group; and results that meet do so for all readers, or for none."""
    places = {}
    for link, reader, read in uses_of(chain):
        places.setdefault((reader, read), set()).add(link)
    for link in group[:-1]:
        readers = [(reader, read) for one, reader, read in uses_of(chain) if one == link and reader in group]
        if all(is_added(chain, *one) for one in readers):
            return False
    for (reader, read), links in places.items():
        if len(links) > 1 and links & {*group} and not is_added(chain, reader, read):
            its = [one for (one, at), other in places.items() if other == links and not is_added(chain, one, at)]
            if len({one in group for one in its}) > 1:
                return False
    return True


def _turns(chain, group):
    """A group by itself in all orders, and of each operator its number."""
    at = {number: place for place, number in enumerate(group)}
    links, more, readers = [], [], []
    kinds = {(one.link, one.reader, one.read): one.is_factor for one in chain.more}
    for link, one in enumerate(chain.links):
        kinds[link, (chain.readers or range(1, len(chain.operators)))[link], one.read] = one.is_factor
    for number in group[:-1]:
        *others, last = sorted(
            (at[reader], read, kinds[link, reader, read])
            for link, reader, read in uses_of(chain)
            if link == number and reader in at
        )
        more += [Reading(at[number], *one) for one in others]
        readers.append(last[0])
        was = chain.links[number]
        links.append(Link(last[1], was.whole, was.passes, last[2]))
    operators = tuple(
        replace(chain.operators[number], nest=replace(chain.operators[number].nest, name=str(number)))
        for number in group
    )
    alone = replace(chain, operators=operators, links=tuple(links), readers=tuple(readers), more=tuple(more))
    for one in all_turns(alone):
        yield one, [int(placed.nest.name) for placed in one.operators]


def _all_inside(chain, homes):
    return chain.tree.memories[-1].name not in homes


def _leaving(chain, one, names, homes, final_sums):
    """Energy and cycles of what leaves a group beside the result of its last operator."""
    energy, cycles = 0, 0
    for link, home in enumerate(homes):
        if all(reader in names for of, reader, _ in uses_of(chain) if of == names[link]):
            continue
        placed = one.operators[link]
        cells = axes_of_cells(one, homes)[link]
        placed = replace(placed, unrolled=tuple(some for some in placed.unrolled if some.axis in cells))
        operand = Truncated(placed, len(placed.nest.reads), final_sums)
        order = [(loop, prime) for loop, extent in enumerate(placed.steps) for prime in primes(extent)]
        first = next(level for level, memory in enumerate(operand.chain) if memory.name == home)
        for level in range(first + 1, len(operand.chain)):
            energy += _moved(operand, order, level, len(order), (), at_units=False)
        (port,) = [it for it in chain.tree.memories[-1].ports if (placed.homes[-1], Flow.COLLECT) in it.flows]
        bits = prod(placed.nest.write.shape) * placed.final_bits
        cycles += ceil(ceil(bits / port.granule_bits) * port.granule_bits / port.width_bits)
    return energy, cycles


def _between(chain, groups):
    """Energy and cycles of what is done in the outermost memory between groups."""
    where = {number: at for at, group in enumerate(groups) for number in group}
    energy, cycles = read_outside(chain, lambda link, reader: where[link] != where[reader])
    memory = chain.tree.memories[-1]
    for *_, link in groups:
        if link == len(chain.links) or not chain.links[link].passes:
            continue
        energy += _passes(chain, link, memory.name)
        reader, read = read_last(chain, link)
        bits = prod(chain.operators[link].nest.write.shape) * chain.operators[reader].nest.reads[read].element_bits
        busy = Counter()
        for name, flow in (
            (chain.operators[reader].homes[read], Flow.FEED),
            (chain.operators[link].homes[-1], Flow.COLLECT),
        ):
            (port,) = [one for one in memory.ports if (name, flow) in one.flows]
            accesses = ceil(ceil(bits / port.granule_bits) * port.granule_bits / port.width_bits)
            busy[port.name] += chain.links[link].passes * accesses
        cycles += max(busy.values())
    return energy, cycles
