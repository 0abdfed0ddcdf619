"""Every fused mapping of a small chain or tree of operators, priced by counting what changes, step by step."""

import itertools
from collections import Counter
from dataclasses import replace
from functools import cache
from math import ceil, inf, prod

import numpy as np

from tests.helpers.tree_brute_force import _memory, _Operand, primes
from tilestitch.hardware.tree import Axis, Flow, MachineTree
from tilestitch.ir.loop_nest import Loop, LoopNest, LoopOperand
from tilestitch.mapping.fused.chain import Chain, Link, Reading
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
    return min(
        (energy for one in all_turns(chain) for _, energy in least_by_homes(one, final_sums=final_sums)), default=inf
    )


def least_by_homes(chain, *, final_sums):
    """The least energy of operators in this order, for all places where intermediates may wait."""
    counted = _Counted(chain, final_sums)
    for homes in all_homes(chain):
        yield homes, _least(chain, homes, counted)


def readers_of(chain):
    """Of each link the last operator that reads."""
    return chain.readers or tuple(range(1, len(chain.operators)))


def uses_of(chain):
    """All that is read of others: link, operator, operand."""
    last = [(link, reader, chain.links[link].read) for link, reader in enumerate(readers_of(chain))]
    return [*((one.link, one.reader, one.read) for one in chain.more), *last]


def is_added(chain, reader, read):
    """Whether something is not read but added to the result of a reader."""
    return read == len(chain.operators[reader].nest.reads)


def read_last(chain, link):
    """The last operator that reads a result, and the operand."""
    readers = [(reader, read) for one, reader, read in uses_of(chain) if one == link]
    return max(one for one in readers if not is_added(chain, *one))


def all_turns(chain):
    """The same operators in all orders in which they can run."""
    uses, count = uses_of(chain), len(chain.operators)
    factors = [*(one.is_factor for one in chain.more), *(one.is_factor for one in chain.links)]  # as uses are
    for order in itertools.permutations(range(count)):
        places = [order.index(number) for number in range(count)]
        if not all(places[link] < places[reader] for link, reader, _ in uses):
            continue
        links, readers, more = [], [], []
        for at, number in enumerate(order[:-1]):
            every = sorted(
                (places[reader], read, is_factor)
                for (link, reader, read), is_factor in zip(uses, factors, strict=True)
                if link == number
            )
            more += [Reading(at, *one) for one in every[:-1]]
            reader, read, is_factor = every[-1]
            readers.append(reader)
            links.append(replace(chain.links[number], read=read, is_factor=is_factor))
        yield replace(
            chain,
            operators=tuple(chain.operators[number] for number in order),
            links=tuple(links),
            readers=tuple(readers),
            more=tuple(more),
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
    """Where intermediates may wait: of each link a memory that all have that write and read it; what meets in the same.

    Of operators that run together one result alone goes out, and that of the last. Over axes that repeat a home all
    of them spread the same.
    """
    homes, outermost, uses = [], chain.tree.memories[-1].name, uses_of(chain)
    for link in range(len(chain.links)):
        writer = chain.operators[link]
        held = [
            chain.operators[reader].chain(read)
            for one, reader, read in uses
            if one == link and not is_added(chain, reader, read)
        ]
        homes.append([one.name for one in writer.chain(len(writer.nest.reads)) if all(one in its for its in held)])
    for one in itertools.product(*homes):
        inside = {}
        for link, reader, read in uses:
            if one[link] != outermost:
                inside.setdefault((reader, read), set()).add(one[link])
        groups = _groups(chain, one)
        out = [
            groups[number] for number in range(len(chain.operators)) if number == len(one) or one[number] == outermost
        ]
        if (
            all(len(meeting) == 1 for meeting in inside.values())
            and len(set(out)) == len(out)
            and _are_spread_alike(chain, one)
        ):
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
    for link, reader, _ in uses_of(chain):
        if homes[link] != chain.tree.memories[-1].name:
            groups = [groups[reader] if one == groups[link] else one for one in groups]
    return groups


def _are_spread_alike(chain, homes):
    groups, cells = _groups(chain, homes), axes_of_cells(chain, homes)
    for link, reader, read in uses_of(chain):
        if groups[link] != groups[reader]:
            continue
        for axis in cells[link]:
            pieces = [
                Counter({one.loop: one.factor for one in chain.operators[at].unrolled if one.axis == axis})
                for at in (link, reader)
            ]
            onward = _onward(chain, link, reader, read)
            if {onward.get(loop): factor for loop, factor in pieces[0].items()} != dict(pieces[1]):
                return False
    return True


def _onward(chain, link, reader, read):
    """The loops of an operator and those of a reader that go along the same axis of what passes, one by one."""
    written, taken = chain.operators[link].nest.write, chain.operators[reader].nest.operands[read]
    extents, later = chain.operators[link].nest.extents, chain.operators[reader].nest.extents
    found = {}
    for axis, (made, terms) in enumerate(zip(written.axes, taken.axes, strict=True)):
        if axis in chain.links[link].whole or len(made) != 1:
            continue
        long = [one for one in terms if later[one[0]] > 1] or list(terms[:1])
        if made[0][1] == 1 and len(long) == 1 and long[0][1] == 1 and extents[made[0][0]] == later[long[0][0]]:
            found[made[0][0]] = long[0][0]
    return found


def all_orders(chain, homes, *, outermost_couples):
    """All orders of the prime loops of each operator, with all numbers of outer loops that neighbours share.

    Those with what is in the outermost memory are tried or not: it couples nothing.
    """
    prime_loops = [
        [(loop, prime) for loop, extent in enumerate(placed.steps) for prime in primes(extent)]
        for placed in chain.operators
    ]
    orders = [sorted(set(itertools.permutations(loops))) for loops in prime_loops]
    uses, outermost = uses_of(chain), chain.tree.memories[-1].name
    onward = {one: _onward(chain, *one) for one in uses}
    coupled = [outermost_couples or home != outermost for home in homes]

    def fits(chosen, shared):
        """Whether the last operator has the loops that others share with it."""
        number = len(chosen) - 1
        if any(one[1] != other[1] for one, other in zip(*_outer(chosen[-2:], shared[-1]), strict=True)):
            return False
        for link, reader, read in uses:
            if reader == number:
                pairs = zip(*_outer([chosen[link], chosen[number]], min(shared[link:number])), strict=True)
                if any(onward[link, reader, read].get(one[0]) != other[0] for one, other in pairs):
                    return False
        return True

    def grow(chosen, shared):
        number = len(chosen)
        if number == len(orders):
            if all(_hang_together(block, uses, coupled) for block in _blocks(shared)):
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


def _hang_together(block, uses, coupled):
    """Whether what some operators make and read inside leads from each of them to each other.

    And whether of all results that of the last alone is read outside.
    """
    first, last = block
    groups = {number: number for number in range(first, last + 1)}
    for link, reader, _ in uses:
        if first <= link < last and coupled[link]:
            if reader > last:
                return False
            groups = {at: groups[reader] if one == groups[link] else one for at, one in groups.items()}
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
            for link, reader, read in uses_of(chain)
            if (reader, read) == (number, at) and not is_added(chain, reader, read)
        ]
        links += [number] if number < len(homes) and at == len(chain.operators[number].nest.reads) else []
        links.sort()
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
    passes = sum(_passes(chain, link, homes[link]) for link in range(count - 1)) + read_from_outside(chain, homes)[0]
    for chosen, shared in all_orders(chain, homes, outermost_couples=count == 2):
        found = [options(at, chosen[at], places_of(chain, homes, shared, at)) for at in range(count)]
        if all(found) and sum(one[0][0] for one in found) + passes < best:
            best = min(best, _fitting(chain, homes, shared, found, best - passes) + passes)
    return best


def _passes(chain, link, home):
    if not chain.links[link].passes:
        return 0
    (memory,) = [one for one in chain.tree.memories if one.name == home]
    reader, operand = read_last(chain, link)
    read, write = (
        [port.width_bits for port in memory.ports if (name, flow) in port.flows][-1]
        for name, flow in (
            (chain.operators[reader].homes[operand], Flow.FEED),
            (chain.operators[link].homes[-1], Flow.COLLECT),
        )
    )
    array = chain.operators[reader].nest.reads[operand]
    bits = prod(chain.operators[link].nest.write.shape) * array.element_bits
    return chain.links[link].passes * bits * (memory.read_pj / read + memory.write_pj / write)


def read_outside(chain, is_outside):
    """Energy and cycles of what is read in the outermost memory as it meets other results, or is added to one.

    There a sum of results is one as soon as the last of them has been written, and no reader makes it again.
    """
    memory = chain.tree.memories[-1]
    kinds = {(one.reader, one.read, one.link): one.is_factor for one in chain.more}
    for link, one in enumerate(chain.links):
        kinds[readers_of(chain)[link], one.read, link] = one.is_factor
    places = {}
    for link, reader, read in uses_of(chain):
        places.setdefault((reader, read), set()).add(link)
    outside = {place: {one for one in links if is_outside(one, place[0])} for place, links in places.items()}
    sums = [
        links
        for (reader, read), links in places.items()
        if not is_added(chain, reader, read) and not kinds[reader, read, min(links)]
    ]
    energy, cycles, made = 0, 0, set()
    for (reader, read), links in sorted(places.items()):
        added, there = is_added(chain, reader, read), outside[reader, read]
        if not added:
            what = (frozenset(links), kinds[reader, read, min(links)])
            if what in made:
                continue
            made.add(what)
        count = len(there)
        for one in sorted(sums, key=len, reverse=True):
            if len(one) > 1 and one <= there and (added or one != links):
                there = there - one  # they are one array
                count -= len(one) - 1
        if not added and outside[reader, read] == links:
            count -= 1  # the last one is not read but written
        link = min(links)
        operator = chain.operators[reader]
        (port,) = [one for one in memory.ports if (operator.homes[read], Flow.FEED) in one.flows]
        bits = chain.operators[link].final_bits if added else operator.nest.reads[read].element_bits
        bits *= prod(chain.operators[link].nest.write.shape)
        energy += count * bits * memory.read_pj / port.width_bits
        cycles += count * ceil(ceil(bits / port.granule_bits) * port.granule_bits / port.width_bits)
    return energy, cycles


def read_from_outside(chain, homes):
    """The same where results are outside of which the home is the outermost memory."""
    return read_outside(chain, lambda link, _: homes[link] == chain.tree.memories[-1].name)


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
    # what intermediates take once they are complete does not depend on the option, and stands with the last operator
    kept = _kept_by(chain, homes, shared, [some[0] for some in found])
    tables = []
    for number, some in enumerate(found):
        used = [_used_by(homes, shared, number, one) for one in some]
        if number == len(found) - 1:
            used = [one + kept for one in used]
        every = [[[one[memory, phase] for memory in memories] for phase in range(len(found))] for one in used]
        tables.append(np.array(every, float).reshape(len(some), -1))
    return tables, np.tile([float(memory.size_bits) for memory in chain.tree.memories], len(found))


def _usage(chain, homes, shared, chosen):
    """Bits of each memory while each operator runs."""
    own = sum((_used_by(homes, shared, number, one) for number, one in enumerate(chosen)), Counter())
    return own + _kept_by(chain, homes, shared, chosen)


def _in_turn_with(shared, number, outside):
    """The operators that run in turn with one inside more than so many loops."""
    first = last = number
    while first > 0 and shared[first - 1] > outside:
        first -= 1
    while last < len(shared) and shared[last] > outside:
        last += 1
    return range(first, last + 1)


def _used_by(homes, shared, number, one):
    """Bits of each memory that one operator takes while each operator runs, with what it makes while it makes it."""
    used = Counter()
    _, rooms, written, _ = one
    for memory, bits, outside in rooms:
        for phase in _in_turn_with(shared, number, outside):
            used[memory, phase] += bits
    if written is not None:
        (_, summed), (outside, _) = written
        for phase in _in_turn_with(shared, number, outside):
            used[homes[number], phase] += summed
    return used


def _kept_by(chain, homes, shared, chosen):
    """Bits of each memory that complete intermediates take while each operator runs.

    What is there is a result, or one of several that have met inside the same loops, for each set of those that are
    one to somebody who still reads it. It takes what it does as it is read by those that run, and as it was written if
    it waits for one that is not the next to run.
    """
    used, outermost = Counter(), chain.tree.memories[-1].name
    depths = {link: min(shared[link:reader]) for link, reader in enumerate(readers_of(chain))}
    for phase in range(len(chosen)):
        there = {}  # by what has been made, its home and its loops: who reads it
        for _, reader, read in uses_of(chain):
            makers = [link for link, *its in uses_of(chain) if its == [reader, read] and homes[link] != outermost]
            for home, depth in {(homes[link], depths[link]) for link in makers}:
                runs = _in_turn_with(shared, phase, depth)
                made = [
                    link for link in makers if (homes[link], depths[link]) == (home, depth) and link < runs[0] <= reader
                ]
                if made:
                    there.setdefault((frozenset(made), home, depth), set()).add((reader, read))
        for (made, home, depth), readers in there.items():
            runs = _in_turn_with(shared, phase, depth)
            sizes = [
                bits
                for reader, read in readers
                if reader in runs
                for where, outside, bits, at in chosen[reader][3]
                if (where, outside, at) == (home, depth, read)
            ]
            if any(reader > runs[0] or is_added(chain, reader, read) for reader, read in readers):
                sizes.append(chosen[max(made)][2][1][1])
            used[home, phase] += max(sizes)
    return used


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


def random_forks(seed, count, most_loops=2, *, spread=True) -> Chain:
    """So many products of which some result is read by several, or added to what is made of it; others may meet."""
    axes = tuple(Axis(f"D{at}", seed.choice((2, 3))) for at in range(seed.randrange(3) if spread else 0))
    tree = _tree(seed, axes)
    while (drawn := _drawn_forks(seed, count, most_loops)) is None:
        pass
    extents, sources = drawn
    operators, uses = [], {}
    for number, (rows, columns, inner) in enumerate(extents):
        first = LoopOperand("I", (((0, 1),), ((2, 1),)), (rows, inner), seed.choice((4, 8)))
        second = LoopOperand("W", (((2, 1),), ((1, 1),)), (inner, columns), seed.choice((4, 8)))
        write = LoopOperand("O", (((0, 1),), ((1, 1),)), (rows, columns), seed.choice((16, 24)))
        loops = tuple(Loop(name, extent) for name, extent in zip("mnk", (rows, columns, inner), strict=True))
        nest = LoopNest(f"op{number}", "einsum", loops, (first, second), write)
        operators.append(PlacedNest(nest, 8, ("I", "W", "O"), _spread(seed, axes, (rows, columns, inner)), tree))
        for read, links in enumerate(sources[number]):
            is_factor = read < 2 and seed.random() < 0.5
            for link in links:
                uses.setdefault(link, []).append((number, read, is_factor))
    links = tuple(
        Link(
            uses[link][-1][1],
            frozenset({1}) if seed.random() < 0.15 else frozenset(),
            seed.choice((0, 0, 1)),
            uses[link][-1][2],
        )
        for link in range(count - 1)
    )
    more = tuple(Reading(link, *one) for link in range(count - 1) for one in uses[link][:-1])
    readers = tuple(uses[link][-1][0] for link in range(count - 1))
    return Chain("random", tuple(operators), links, readers=readers, more=more)


def _drawn_forks(seed, count, most_loops):
    """Extents of each operator, and which results its two operands are made of, and which are added to what it makes.

    None where some do not fit together.
    """
    extents, sources = [], []
    for number in range(count):
        rows, columns, inner = (seed.choice((1, 2, 2, 3)) for _ in range(3))
        own = []
        for _ in range(2):
            links = seed.sample(range(number), min(number, seed.choice((0, 1, 1, 2)))) if number else []
            own.append(sorted(links))
        for link in own[0]:
            rows, inner = extents[link][:2]
        for link in own[1]:
            inner, columns = extents[link][:2]
        alike = [link for link in range(number) if extents[link][:2] == (rows, columns)]
        own.append(sorted(seed.sample(alike, min(len(alike), seed.choice((0, 0, 1, 2))))))
        shapes = [{extents[link][:2] for link in links} for links in own]
        if not shapes[0] <= {(rows, inner)} or not shapes[1] <= {(inner, columns)}:
            return None
        if _primes_of((rows, columns, inner)) > most_loops:
            return None
        extents.append((rows, columns, inner))
        sources.append(own)
    reads = Counter(link for own in sources for links in own[:2] for link in links)
    added = Counter(link for own in sources for link in own[2])
    is_forked = all(reads[link] for link in range(count - 1)) and max((reads + added).values()) > 1
    return (extents, sources) if is_forked else None


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


def random_heads(seed) -> Chain:
    """A projection that is read head by head, or a product for each head that is read as one row of all heads."""
    axes = tuple(Axis(f"D{at}", seed.choice((2, 3))) for at in range(seed.randrange(3)))
    tree, is_joined = _tree(seed, axes), seed.random() < 0.5
    sizes = {}
    lines = (("mhed", "md", "dhe", "mhe"), ("hmne", "mhe", "hne", "hmn"))
    if is_joined:
        lines = (("hmen", "hmn", "hne", "hme"), ("mfhe", "hme", "hef", "mf"))
    while not sizes or any(_primes_of([sizes[name] for name in names]) > 3 for names, *_ in lines):
        sizes = {name: seed.choice((1, 2, 2, 3)) for name in "mhednf"}
    operators = []
    for number, (names, *arrays) in enumerate(lines):
        bits = (seed.choice((4, 8)), seed.choice((4, 8)), seed.choice((16, 24)))
        first, second, write = (
            LoopOperand(
                label, tuple(((names.index(one), 1),) for one in its), tuple(sizes[one] for one in its), element_bits
            )
            for label, its, element_bits in zip("IWO", arrays, bits, strict=True)
        )
        extents = [sizes[name] for name in names]
        loops = tuple(Loop(name, extent) for name, extent in zip(names, extents, strict=True))
        nest = LoopNest(f"op{number}", "einsum", loops, (first, second), write)
        operators.append(PlacedNest(nest, 8, ("I", "W", "O"), _spread(seed, axes, extents), tree))
    return Chain("heads", tuple(operators), (Link(0),))


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
