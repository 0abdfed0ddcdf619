"""Every fused mapping of a small chain or tree of operators, priced by counting what changes, step by step."""

import itertools
from collections import Counter
from dataclasses import replace
from functools import cache
from math import inf, prod

import numpy as np

from tests.helpers.tree_brute_force import _memory, _Operand, primes
from tilestitch.hardware.tree import Axis, Flow, MachineTree
from tilestitch.ir.loop_nest import Loop, LoopNest, LoopOperand
from tilestitch.mapping.fused.chain import Chain, Link
from tilestitch.mapping.tree.placed import PlacedNest, Unrolled


class Truncated(_Operand):
    """An operand of which nothing is outside of one of its memories."""

    def end_at(self, home):
        if home is not None:
            level = next(at for at, memory in enumerate(self.chain) if memory.name == home)
            rest = set().union(*self.axes[level + 1 :])
            self.chain = [*self.chain[:level], replace(self.chain[level], buffers=1)]
            self.axes = [*self.axes[: level + 1], rest]
        return self


def least_fused(chain: Chain, *, final_sums: bool) -> float:
    """The least energy of all orders, all places, all homes and all numbers of shared loops; infinite if none fits."""
    least = inf
    for one in all_turns(chain):
        counted = _Counted(one, final_sums)
        least = min([least, *(_least(one, homes, counted) for homes in all_homes(one))])
    return least


def readers_of(chain):
    """Of each link the operator that reads."""
    return chain.readers or tuple(range(1, len(chain.operators)))


def all_turns(chain):
    """The same operators in all orders in which they can run."""
    readers, count = readers_of(chain), len(chain.operators)
    for order in itertools.permutations(range(count)):
        places = [order.index(number) for number in range(count)]
        if all(places[link] < places[reader] for link, reader in enumerate(readers)):
            yield replace(
                chain,
                operators=tuple(chain.operators[number] for number in order),
                links=tuple(chain.links[number] for number in order[:-1]),
                readers=tuple(places[readers[number]] for number in order[:-1]),
            )


class _Counted:
    """What each operand of each operator costs at each place, counted once."""

    def __init__(self, chain, final_sums):
        self.chain, self.final_sums, self.operands, self.known = chain, final_sums, {}, {}

    def operand(self, number, at, home):
        if (number, at, home) not in self.operands:
            operand = Truncated(self.chain.operators[number], at, self.final_sums).end_at(home)
            self.operands[number, at, home] = operand
        return self.operands[number, at, home]

    def at(self, number, at, home, order, ends, forks, most):
        key = (number, at, home, order, ends, frozenset(forks), most)
        if key not in self.known:
            self.known[key] = _counted(self.operand(number, at, home), order, ends, forks, most)
        return self.known[key]


def all_homes(chain):
    """Where intermediates may wait: of each link a memory that both operators have; what meets waits in the same.

    Over axes that repeat a home all operators that run together spread the same.
    """
    homes, outermost = [], chain.tree.memories[-1].name
    for link, reader in enumerate(readers_of(chain)):
        writer = chain.operators[link]
        written, read = writer.chain(len(writer.nest.reads)), chain.operators[reader].chain(chain.links[link].read)
        homes.append([one.name for one in written if one in read])
    for one in itertools.product(*homes):
        inside = {}
        for link, (reader, home) in enumerate(zip(readers_of(chain), one, strict=True)):
            if home != outermost:
                inside.setdefault((reader, chain.links[link].read), set()).add(home)
        if all(len(meeting) == 1 for meeting in inside.values()) and _are_spread_alike(chain, one):
            yield one


def axes_of_cells(chain, homes):
    """Of each operator the axes that repeat homes of those with which it runs together."""
    serves = {memory.name: set(memory.serves) for memory in chain.tree.memories}
    every = {axis.name for axis in chain.tree.axes}
    groups = _groups(chain, homes)
    return [
        set().union(
            *(
                every - serves[home]
                for link, home in enumerate(homes)
                if groups[link] == group == groups[readers_of(chain)[link]]
            )
        )
        for group in groups
    ]


def _groups(chain, homes):
    """Of each operator a number of those with which it runs together."""
    groups = list(range(len(chain.operators)))
    for link, (reader, home) in enumerate(zip(readers_of(chain), homes, strict=True)):
        if home != chain.tree.memories[-1].name:
            groups = [groups[reader] if one == groups[link] else one for one in groups]
    return groups


def _are_spread_alike(chain, homes):
    groups, cells = _groups(chain, homes), axes_of_cells(chain, homes)
    for link, reader in enumerate(readers_of(chain)):
        if groups[link] != groups[reader]:
            continue
        for axis in cells[link]:
            pieces = [
                Counter({one.loop: one.factor for one in chain.operators[at].unrolled if one.axis == axis})
                for at in (link, reader)
            ]
            onward = {one.writes: one.reads for one in chain.crossings(link) if one.halo is None}
            if {onward.get(loop): factor for loop, factor in pieces[0].items()} != dict(pieces[1]):
                return False
    return True


def all_orders(chain, homes, *, outermost_couples):
    """All orders of the prime loops of each operator, with all numbers of outer loops that neighbours share.

    Those with what is in the outermost memory are tried or not: it couples nothing.
    """
    prime_loops = [
        [(loop, prime) for loop, extent in enumerate(placed.steps) for prime in primes(extent)]
        for placed in chain.operators
    ]
    orders = [sorted(set(itertools.permutations(loops))) for loops in prime_loops]
    onward = [
        {one.writes: one.reads for one in chain.crossings(link) if one.halo is None} for link in range(len(homes))
    ]
    readers, outermost = readers_of(chain), chain.tree.memories[-1].name
    coupled = [outermost_couples or home != outermost for home in homes]

    def fits(chosen, shared):
        """Whether the last operator has the loops that others share with it."""
        number = len(chosen) - 1
        if any(one[1] != other[1] for one, other in zip(*_outer(chosen[-2:], shared[-1]), strict=True)):
            return False
        for link in range(number):
            if readers[link] == number:
                pairs = zip(*_outer([chosen[link], chosen[number]], min(shared[link:number])), strict=True)
                if any(onward[link].get(one[0]) != other[0] for one, other in pairs):
                    return False
        return True

    def grow(chosen, shared):
        number = len(chosen)
        if number == len(orders):
            if all(_hang_together(block, readers, coupled) for block in _blocks(shared)):
                yield chosen, shared
            return
        for order in orders[number]:
            if number == 0:
                yield from grow([order], [])
                continue
            for some in range(min(len(order), len(chosen[-1])) + 1):
                if fits([*chosen, order], [*shared, some]):
                    yield from grow([*chosen, order], [*shared, some])

    yield from grow([], [])


def _outer(orders, some):
    """So many outermost loops of each of some orders, from the outermost."""
    return [order[::-1][:some] for order in orders]


def _blocks(shared):
    """The operators that share each loop, from the first to the last."""
    for depth in range(max(shared, default=0)):
        first = 0
        for link, some in enumerate([*shared, 0]):
            if some <= depth:
                if link > first:
                    yield first, link
                first = link + 1


def _hang_together(block, readers, coupled):
    """Whether what some operators make and read inside leads from each of them to each other."""
    first, last = block
    groups = {number: number for number in range(first, last + 1)}
    for link in range(first, last):
        if readers[link] <= last and coupled[link]:
            groups = {at: groups[readers[link]] if one == groups[link] else one for at, one in groups.items()}
    return len(set(groups.values())) == 1


def places_of(chain, homes, shared, number):
    """Where others run between the loops of an operator; of each of its operands the home, and the loops outside it.

    Beside the innermost of these, in which it is read, those of what meets there further out.
    """
    forks = {min(shared[at:number]) for at in range(number)}
    forks |= {min(shared[number : at + 1]) for at in range(number, len(shared))}
    outermost, found = chain.tree.memories[-1].name, []
    for at in range(len(chain.operators[number].operands)):
        links = [
            link
            for link, reader in enumerate(readers_of(chain))
            if (reader, chain.links[link].read) == (number, at)
            or (link == number and at == len(chain.operators[number].nest.reads))
        ]
        inside = [link for link in links if homes[link] != outermost] or links
        depths = sorted({min(shared[link : readers_of(chain)[link]]) for link in inside}, reverse=True)
        found.append((homes[inside[0]], *depths) if inside else ())
    return tuple(sorted(forks)), tuple(found)


def _least(chain, homes, counted) -> float:
    count = len(chain.operators)

    @cache
    def options(number, order, places):
        return list(_options(chain, number, order, places, homes, counted))

    best = inf
    passes = sum(_passes(chain, link, homes[link]) for link in range(count - 1))
    for chosen, shared in all_orders(chain, homes, outermost_couples=count == 2):
        found = [options(at, chosen[at], places_of(chain, homes, shared, at)) for at in range(count)]
        if all(found) and sum(one[0][0] for one in found) + passes < best:
            best = min(best, _fitting(chain, homes, shared, found, best - passes) + passes)
    return best


def _passes(chain, link, home):
    if not chain.links[link].passes:
        return 0
    (memory,) = [one for one in chain.tree.memories if one.name == home]
    read, write = (
        [port.width_bits for port in memory.ports if (name, flow) in port.flows][-1]
        for name, flow in (
            (chain.operators[readers_of(chain)[link]].homes[chain.links[link].read], Flow.FEED),
            (chain.operators[link].homes[-1], Flow.COLLECT),
        )
    )
    array = chain.operators[readers_of(chain)[link]].nest.reads[chain.links[link].read]
    bits = prod(chain.operators[link].nest.write.shape) * array.element_bits
    return chain.links[link].passes * bits * (memory.read_pj / read + memory.write_pj / write)


def _fitting(chain, homes, shared, found, below):
    """The least energy of options that fit together in every memory that all units share."""
    best = below
    least = [0, *itertools.accumulate(one[0][0] for one in reversed(found))][::-1]
    tables, limits = rooms_taken(chain, homes, shared, found)

    def grow(number, energy, taken):
        nonlocal best
        used = tables[number]
        for at in np.flatnonzero((taken + used <= limits).all(axis=1)).tolist():  # in ascending order
            so_far = energy + found[number][at][0]
            if so_far + least[number + 1] >= best:
                break
            if number == len(found) - 1:
                best = so_far
                break
            grow(number + 1, so_far, taken + used[at])

    grow(0, 0, np.zeros(len(limits)))
    return best


def rooms_taken(chain, homes, shared, found):
    """By operator a row for each of its options: bits of each memory while each operator runs; and what there is."""
    memories = [memory.name for memory in chain.tree.memories]
    firsts, tables = [some[0] for some in found], []  # what intermediates take does not depend on the option
    for number, some in enumerate(found):
        used = [_used_by(chain, homes, shared, firsts, number, one) for one in some]
        every = [[[one[memory, phase] for memory in memories] for phase in range(len(found))] for one in used]
        tables.append(np.array(every, float).reshape(len(some), -1))
    return tables, np.tile([float(memory.size_bits) for memory in chain.tree.memories], len(found))


def _usage(chain, homes, shared, chosen):
    """Bits of each memory while each operator runs."""
    return sum((_used_by(chain, homes, shared, chosen, number, one) for number, one in enumerate(chosen)), Counter())


def _used_by(chain, homes, shared, chosen, number, one):
    """Bits that one operator takes of each memory while each operator runs; others are needed for what they make."""
    used = Counter()

    def block(number, outside):
        """The operators that run in turn with one inside more than so many loops."""
        first = last = number
        while first > 0 and shared[first - 1] > outside:
            first -= 1
        while last < len(shared) and shared[last] > outside:
            last += 1
        return range(first, last + 1)

    _, rooms, written, read = one
    for memory, bits, outside in rooms:
        for phase in block(number, outside):
            used[memory, phase] += bits
    if written is not None:
        (_, summed), (outside, complete) = written
        for phase in block(number, outside):
            used[homes[number], phase] += summed
        reader = readers_of(chain)[number]
        meets = [
            link
            for link in range(number + 1, reader)
            if (readers_of(chain)[link], chain.links[link].read) == (reader, chain.links[number].read)
            and homes[link] == homes[number]
            and min(shared[link:reader]) == outside
        ]
        for phase in range(number + 1, len(shared) + 1):
            runs = block(phase, outside)
            is_one = any(link < runs[0] for link in meets)  # with one that has been made since
            if phase not in block(number, outside) and runs[-1] < reader and not is_one:
                used[homes[number], phase] += complete
    for home, outside, bits, at in read:
        if block(number, outside)[0] < number:  # it waits for others inside as it was written
            bits = max(bits, _complete(chain, shared, chosen, number, at, outside))
        for phase in block(number, outside):
            used[home, phase] += bits
    return used


def _complete(chain, shared, chosen, number, at, outside):
    """Bits of what an operator reads inside so many shared loops as the last one that makes it has written it."""
    for link in reversed(range(number)):
        key = readers_of(chain)[link], chain.links[link].read, min(shared[link:number])
        if key == (number, at, outside):
            return chosen[link][2][1][1]
    raise AssertionError


def lists_of(chain, number, order, places, homes, counted, more):
    """Of each operand of an operator: energy, rooms, what it takes at home, and what more is asked of its places."""
    forks, operands = places
    every = {axis.name for axis in chain.tree.axes} - axes_of_cells(chain, homes)[number]
    lists = []
    for at, own in enumerate(operands):
        home, depths = own[0] if own else None, own[1:]
        operand = counted.operand(number, at, home)
        # an intermediate is in its home from the shared loops on
        most = len(order) - (depths[0] if own else 0)
        found = {}
        for ends in itertools.combinations_with_replacement(range(most + 1), len(operand.chain) - 1):
            if any(
                not every <= set(operand.chain[level].serves) and len(order) - end < max(forks, default=0)
                for level, end in enumerate(ends)
            ):
                continue
            energy, rooms, top = counted.at(number, at, home, order, ends, forks, most)
            if energy == inf:
                continue
            whole = [operand.room(len(ends), operand._tile(order[: len(order) - one]), False, False) for one in depths]
            taken = None
            if own and operand.is_write:
                taken = (depths[0], top), (depths[0], whole[0])
            elif own:
                taken = tuple((home, *one, at) for one in zip(depths, [top, *whole[1:]], strict=True))
            key = (tuple(rooms), taken, more(operand, at, home, order, ends, forks))
            found[key] = min(float(energy), found.get(key, inf))
        lists.append([(energy, *key, operand) for key, energy in found.items()])
    return lists


def _options(chain, number, order, places, homes, counted):
    """Energy, rooms with the loops outside of each, and what the intermediates take, of all places of all operands."""
    placed = chain.operators[number]
    kept = {}
    for _, energy, rooms, written, read in fitting_alone(
        chain, placed, lists_of(chain, number, order, places, homes, counted, lambda *_: None)
    ):
        summed = Counter()
        for memory, bits, outside in rooms:
            summed[memory, outside] += bits
        key = (tuple(sorted((memory, bits, outside) for (memory, outside), bits in summed.items())), written, read)
        kept[key] = min(energy, kept.get(key, inf))
    return _not_beaten([(energy, *key) for key, energy in sorted(kept.items(), key=lambda item: item[1])])


def _not_beaten(options):
    """Those, in ascending order of energy, that take less than each before them of some memory in some loops."""
    found = []
    for one in options:
        rooms = {(memory, outside): bits for memory, bits, outside in one[1]}
        if not any(
            other[2:] == one[2:] and all(bits <= rooms.get((memory, outside), 0) for memory, bits, outside in other[1])
            for other in found
        ):
            found.append(one)
    return found


def fitting_alone(chain, placed, lists):
    """The places of all operands of an operator that fit together if it has all memories for itself."""
    limits = {memory.name: memory.size_bits for memory in chain.tree.memories}
    for chosen in itertools.product(*lists):
        rooms = [one for item in chosen for one in item[1]]
        alone = Counter()
        for memory, bits, _ in rooms:
            alone[memory] += bits
        if any(bits > limits[memory] for memory, bits in alone.items()):
            continue
        energy = sum(item[0] for item in chosen) + placed.tree.mac_pj * placed.nest.macs
        written = next((item[2] for item in chosen if item[2] is not None and item[4].is_write), None)
        read = tuple(one for item in chosen if item[2] is not None and not item[4].is_write for one in item[2])
        yield chosen, energy, rooms, written, read


def _counted(operand, order, ends, forks, most):
    """Energy, rooms and the room at the end of the chain, by going through all iterations outside."""
    energy, rooms = 0, []
    placed = operand.placed
    whole = (*ends, most)
    for level, end in enumerate(whole):
        inner = 0 if level == 0 else whole[level - 1]
        at_units = level == 0 and (operand.is_write or not placed.tree.has_latches)
        energy += _moved(operand, order, level, inner, forks, at_units)
        tile = operand._tile(order[:end])
        arriving = operand.is_write and operand.is_partial(level, _stretched(operand, order, inner, forks, at_units))
        is_top = level == len(whole) - 1
        leaving = (
            operand.is_write and not is_top and operand.is_partial(level + 1, _stretched(operand, order, end, forks))
        )
        room = operand.room(level, tile, arriving, leaving)
        if is_top:
            return energy, rooms, room
        if room > operand.chain[level].size_bits:
            return inf, [], 0
        rooms.append((operand.chain[level].name, room, len(order) - end))
    raise AssertionError


def _stretched(operand, order, end, forks, at_units=False):
    """The tile for which something crosses: loops that leave it alone directly outside are inside, up to a fork."""
    stops = {len(order) - some for some in forks}
    while not at_units and end < len(order) and end not in stops and order[end][0] not in operand.moving:
        end += 1
    return operand._tile(order[:end])


def _moved(operand, order, number, end, forks, at_units):
    """Energy of a crossing: as often as what is inside changes, or another operator came between."""
    outside = [*reversed(order[0 if at_units else end :])]  # from the outermost
    lost = max((some for some in forks if some <= len(outside)), default=0)
    times, known, last = 0, set(), None
    for indices in itertools.product(*(range(factor) for _, factor in outside)):
        moving = tuple(i for i, (loop, _) in zip(indices, outside, strict=True) if loop in operand.moving)
        now = (moving, indices[:lost]) if not at_units else indices
        if now != last:
            times, last = times + 1, now
            known.add(moving)
    tile = operand._tile(order[:end]) if not at_units else (1,) * len(operand.placed.steps)
    crossing = tile if at_units else _stretched(operand, order, end, forks)
    first = 0
    tree = operand.placed.tree
    if not tree.reads_first_sums and (number > 0 or tree.has_latches):
        first = len(known)
    energy = 0
    bits = operand._bits(number, crossing)
    inner, outer = operand._counts(number, ("all", None), tile)
    ends = [(number, outer, Flow.COLLECT if operand.is_write else Flow.FEED, Flow.FEED, operand._copies(number))]
    if number > 0:
        below = Flow.DRAIN if operand.is_write else Flow.FILL
        ends.append((number - 1, inner, below, Flow.FILL, operand.exchanging(number)))
    for level, amount, flow, returning, copies in ends:
        energy += operand._port(level, flow, amount * bits[0], times * copies, "all")
        if bits[1]:
            energy += operand._port(level, returning, amount * bits[1], (times - first) * copies, "all")
    return energy


LETTERS = "abcdefgh"


def random_chain(seed, count, most_loops=3, *, spread=True) -> Chain:
    """So many products in a row on a tree of up to four memories an operand, some of them shared."""
    axes = tuple(Axis(f"D{at}", seed.choice((2, 3))) for at in range(seed.randrange(3) if spread else 0))
    tree = _tree(seed, axes)
    choices = (1, 2, 3, 4) if count == 2 else (1, 2, 2, 3)
    rows, inner = seed.choice(choices), seed.choice(choices)
    while len(primes(rows)) + len(primes(inner)) > most_loops:
        inner = seed.choice(choices)
    operators, links = [], []
    for number in range(count):
        outer = seed.choice(choices)
        while sum(len(primes(one)) for one in (rows, inner, outer)) > most_loops:
            outer = seed.choice((1, 1, 2))
        extents = (rows, outer, inner)
        bits = [seed.choice((4, 8)), seed.choice((4, 8))]
        swapped = number > 0 and seed.random() < 0.3
        first = LoopOperand("I", (((0, 1),), ((2, 1),)), (rows, inner), bits[0])
        second = LoopOperand("W", (((2, 1),), ((1, 1),)), (inner, outer), bits[1])
        write = LoopOperand("O", (((0, 1),), ((1, 1),)), (rows, outer), seed.choice((16, 24)))
        loops = tuple(Loop(name, extent) for name, extent in zip("mnk", extents, strict=True))
        reads, homes = ((second, first), ("I", "W", "O")) if swapped else ((first, second), ("I", "W", "O"))
        if number > 0:
            whole = frozenset({1}) if seed.random() < 0.2 else frozenset()
            links.append(Link(1 if swapped else 0, whole, seed.choice((0, 0, 1))))
        nest = LoopNest(f"op{number}", "einsum", loops, reads, write)
        operators.append(PlacedNest(nest, 8, homes, _spread(seed, axes, extents), tree))
        inner = outer
    return Chain("random", tuple(operators), tuple(links))


def random_graph(seed, count, most_loops=2, *, spread=True) -> Chain:
    """So many products, not all in a row: some operator reads the results of several, which may meet in one operand."""
    axes = tuple(Axis(f"D{at}", seed.choice((2, 3))) for at in range(seed.randrange(3) if spread else 0))
    tree, readers = _tree(seed, axes), [1]
    while readers == [*range(1, count)] or len(readers) < count - 1:
        readers = [seed.randrange(link + 1, count) for link in range(count - 1)]
    which = [seed.randrange(2) for _ in readers]  # the first or the second operand
    sizes = {}
    operators = []
    for number in reversed(range(count)):
        rows, columns = sizes.get(number, (None, None))
        extents = [rows or seed.choice((1, 2, 2, 3)), columns or seed.choice((1, 2, 2, 3)), 1]
        extents[2] = seed.choice([n for n in (1, 2, 2, 3) if _primes_of((*extents, n)) <= most_loops] or [1])
        rows, columns, inner = extents
        for link, reader in enumerate(readers):
            if reader == number:
                sizes[link] = (inner, columns) if which[link] else (rows, inner)
        first = LoopOperand("I", (((0, 1),), ((2, 1),)), (rows, inner), seed.choice((4, 8)))
        second = LoopOperand("W", (((2, 1),), ((1, 1),)), (inner, columns), seed.choice((4, 8)))
        write = LoopOperand("O", (((0, 1),), ((1, 1),)), (rows, columns), seed.choice((16, 24)))
        loops = tuple(Loop(name, extent) for name, extent in zip("mnk", extents, strict=True))
        nest = LoopNest(f"op{number}", "einsum", loops, (first, second), write)
        operators.insert(0, PlacedNest(nest, 8, ("I", "W", "O"), _spread(seed, axes, extents), tree))
    links = tuple(
        Link(read, frozenset({1}) if seed.random() < 0.15 else frozenset(), seed.choice((0, 0, 1)), number % 2 == 0)
        for number, read in zip(readers, which, strict=True)
    )
    return Chain("random", tuple(operators), links, readers=tuple(readers))


def _primes_of(extents):
    return sum(len(primes(one)) for one in extents)


def with_cells(chain, seed) -> Chain:
    """The same chain where one more axis repeats the innermost of the memories that were one for all units.

    Over it operators spread their rows, or what the first two make and read; or one spreads rows and the others do not.
    """
    factor, kind = seed.choice((1, 2, 2)), seed.choice(("rows", "rows", "columns", "apart"))
    count = len(chain.operators)
    loops = [0] * count if kind != "columns" else [1, 2, *[None] * (count - 2)]
    return _in_cells(chain, factor, loops, first_alone=kind == "apart")


def graph_with_cells(chain, seed) -> Chain:
    """The same of operators that are no row: over one more axis all spread a loop that goes through all of them."""
    threads = chain.threads(0, len(chain.operators) - 1)
    loops = seed.choice(threads) if threads else [None] * len(chain.operators)
    return _in_cells(chain, seed.choice((1, 2, 2)), loops, first_alone=seed.random() < 0.2)


def _in_cells(chain, factor, loops, *, first_alone):
    axis = Axis("cell", 4)
    core = next(at for at, one in enumerate(chain.tree.memories) if one.name.startswith("buffer"))
    memories = tuple(
        one if at <= core else replace(one, serves=(*one.serves, axis.name))
        for at, one in enumerate(chain.tree.memories)
    )
    tree = replace(chain.tree, axes=(*chain.tree.axes, axis), memories=memories)
    operators = []
    for number, placed in enumerate(chain.operators):
        larger = loops[number]
        extents = [n * factor if loop == larger else n for loop, n in enumerate(placed.nest.extents)]
        arrays = [replace(one, shape=one.extents(extents)) for one in placed.nest.operands]
        every = tuple(Loop(loop.name, n) for loop, n in zip(placed.nest.loops, extents, strict=True))
        spreads = factor > 1 and larger is not None and not (first_alone and number > 0)
        spread = (Unrolled(axis.name, larger, factor),) if spreads else ()
        nest = replace(placed.nest, loops=every, reads=tuple(arrays[:-1]), write=arrays[-1])
        operators.append(replace(placed, nest=nest, tree=tree, unrolled=(*placed.unrolled, *spread)))
    return replace(chain, operators=tuple(operators))


def windows_in_a_row(seed) -> Chain:
    """Two convolutions of a row of pixels in turn, without padding, on a random tree."""
    kernels, step = [seed.choice((1, 2)), seed.choice((1, 2, 3))], seed.choice((1, 1, 2))
    pixels = seed.choice((4, 6))
    before = step * (pixels - 1) + kernels[1]
    tree = _tree(seed, ())
    dear = replace(tree.memories[-1], read_pj=50.0, write_pj=50.0)  # so that it pays to make windows again
    tree = replace(tree, memories=(*tree.memories[:-1], dear))
    operators = []
    inner = 2
    for number, (count, kernel, apart) in enumerate(((before, kernels[0], 1), (pixels, kernels[1], step))):
        extents = (seed.choice((1, 2)), inner, count, kernel)  # channels made, channels read, pixels, taps
        image = apart * (count - 1) + kernel
        image_axis = ((2, apart), (3, 1))
        operators.append(
            PlacedNest(
                LoopNest(
                    f"conv{number}",
                    "conv",
                    tuple(Loop(name, extent) for name, extent in zip("kcxf", extents, strict=True)),
                    (
                        LoopOperand("I", (((1, 1),), image_axis), (inner, image), 8),
                        LoopOperand("W", (((0, 1),), ((1, 1),), ((3, 1),)), (extents[0], inner, kernel), 8),
                    ),
                    LoopOperand("O", (((0, 1),), ((2, 1),)), (extents[0], count), 16),
                ),
                8,
                ("I", "W", "O"),
                (),
                tree,
            )
        )
        inner = extents[0]
    return Chain("row", tuple(operators), (Link(0),))


def _spread(seed, axes, extents):
    unrolled, left = [], list(extents)
    for axis in axes:
        options = [
            (loop, factor)
            for loop, much in enumerate(left)
            for factor in (2, 3)
            if factor <= axis.size and much % factor == 0
        ]
        if options and seed.random() < 0.8:
            loop, factor = seed.choice(options)
            left[loop] //= factor
            unrolled.append(Unrolled(axis.name, loop, factor))
    return tuple(unrolled)


def _tree(seed, axes) -> MachineTree:
    names = tuple(axis.name for axis in axes)
    memories = []
    for operand in "WIO":
        if seed.random() < 0.4:
            serves = tuple(name for name in names if seed.random() < 0.3)
            memories.append(_memory(seed, f"rf_{operand}", (operand,), seed.choice((32, 48, 96)), serves))
    for number in range(seed.choice((1, 1, 2))):
        held = tuple(operand for operand in "WIO" if seed.random() < 0.85) or ("O",)
        memories.append(_memory(seed, f"buffer{number}", held, seed.choice((64, 96, 160, 256)), names))
    tree = MachineTree("random", axes, (*memories, _memory(seed, "dram", ("W", "I", "O"), 10**6, names)), 0.25)
    return replace(tree, has_latches=seed.random() < 0.7, reads_first_sums=seed.random() < 0.5)
