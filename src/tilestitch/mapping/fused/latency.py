"""How long a fused mapping takes: docs/fused.md#latency has the reasons.

Ports are those of the tree as it is: where an operator ends at a home, the copy of it that stands in the operator's
tree (`chain.at_home`) has the ports of the memory itself.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from tilestitch.hardware.tree import Flow, MachineTree, Port, TreeMemory
from tilestitch.mapping.fused.chain import Chain, original_memory
from tilestitch.mapping.fused.mapping import FusedMapping, fused_crossings, placed_operator, steps_inside
from tilestitch.mapping.tree.crossings import OperandOnTree, Part, PortCycles, PortNumber, Tiles, operands_on_tree
from tilestitch.mapping.tree.loads import Loads, added, loads_of
from tilestitch.mapping.tree.pace import Crossed, Cycles, Pace, in_turn
from tilestitch.mapping.tree.placed import PlacedNest


def port_on(tree: MachineTree, placed: PlacedNest, port: PortNumber) -> PortNumber:
    """What a port of the tree of an operator is in the tree of all."""
    number, which = port
    own = placed.tree.memories
    if number < 0:
        return port
    if number >= len(own):
        engine = placed.tree.engines[number - len(own)]
        outer = original_memory(tree, engine.outer).name
        found = next(at for at, one in enumerate(tree.engines) if (one.name, one.outer) == (engine.name, outer))
        return len(tree.memories) + found, which
    memory = original_memory(tree, own[number].name)
    if memory.name != own[number].name:
        (name,) = own[number].operands
        which = [at for at, one in enumerate(memory.ports) if any(flow[0] == name for flow in one.flows)][which]
    return tree.memories.index(memory), which


def loads_on(
    tree: MachineTree, operand: OperandOnTree, crossing: int, tiles: Tiles, part: Part = Part.ALL
) -> Loads:  # fmt: skip
    """What a crossing does to the ports of the tree of all."""
    loads = loads_of(operand, crossing, tiles, part)

    def renamed(cycles: PortCycles) -> PortCycles:
        return added(*({port_on(tree, operand.placed, port): one} for port, one in cycles.items()))

    ways = renamed(loads.inwards), renamed(loads.outwards), renamed(loads.stops)
    return Loads(*ways, loads.operand, loads.ways, loads.delays, loads.line, renamed(loads.least_trail))


def cycles_of(port: Port, bits: int) -> int:
    """Cycles in which so many bits pass a port one after another."""
    granules = -(-bits // port.granule_bits)
    accesses = -(-granules * port.granule_bits // port.width_bits)
    return int(np.ceil(accesses * float(port.width_bits / port.bits_per_cycle) - 1e-9))


def pass_cycles(chain: Chain, link: int, memory: TreeMemory, elements: int) -> Cycles:
    """Cycles of ports for what is done to so many elements of an intermediate between its two operators.

    Each pass reads them from the memory where they lie, and writes them there.
    """
    if chain.links[link].passes == 0:
        return {}
    _, read = chain.intermediate(chain.fed(link))
    fed = chain.fed(link)
    wanted = [(chain.operators[fed.reader].homes[fed.read], Flow.FEED)]
    wanted.append((chain.operators[link].homes[-1], Flow.COLLECT))
    found: Counter[PortNumber] = Counter()
    for home, flow in wanted:
        port = memory.port(home, flow)
        if port is not None:
            each = cycles_of(port, elements * read.element_bits)
            found[chain.tree.memories.index(memory), memory.ports.index(port)] += chain.links[link].passes * each
    return found


def pass_latency(chain: Chain, link: int, memory: TreeMemory) -> int:
    """Cycles between two operators that run one after the other, for all of their intermediate."""
    elements = prod(chain.operators[link].nest.write.shape) // chain.cells.with_one_of(memory)
    return max(pass_cycles(chain, link, memory, elements).values(), default=0)


def fused_latency(fused: FusedMapping) -> int:
    """The latency of a fused mapping, in cycles."""
    return _pace(fused, 0, len(fused.mappings) - 1, 0).latency


def _pace(fused: FusedMapping, first: int, last: int, outside: int) -> Pace:
    """The pace of some operators inside so many loops that they share."""
    if first == last:
        return _own_pace(fused, first, min(fused.own_loops(first), default=len(fused.mappings[first].loops)))
    until = min(fused.shared[first:last])
    ends = [link for link in range(first, last) if fused.shared[link] == until]
    starts = [first, *(link + 1 for link in ends)]
    blocks = [_pace(fused, start, end, until) for start, end in zip(starts, [*ends, last], strict=True)]
    pace = in_turn(blocks, [_between(fused, link) for link in ends])
    kept = fused.kept_visits()
    if kept:  # then the innermost loop is that over rows, and operators run as often as there are some to make
        each = [one for one, times in zip(blocks, kept, strict=True) for _ in range(times)]
        pace = in_turn(each, [])
        until -= 1
    crossings = [_crossings(fused, number) for number in range(first, last + 1)]
    counts = [len(one.loops) for one in fused.mappings[first : last + 1]]
    for depth in range(until - (0 if kept else 1), outside - 1, -1):
        if depth < until:
            pace = pace.repeated(fused.mappings[last].loops[counts[-1] - 1 - depth][1])
        for count, own in zip(counts, crossings, strict=True):
            for at, loads in own:
                if at == count - depth:
                    pace = pace.with_crossing(loads)
    return pace


def _own_pace(fused: FusedMapping, number: int, until: int) -> Pace:
    """The pace of the loops that an operator has for itself: a whole nest from its first load to its last store."""
    crossings, loops = _crossings(fused, number), fused.mappings[number].loops
    pace = Pace()
    for inside in range(until + 1):
        for at, loads in crossings:
            if at == inside:
                pace = pace.with_crossing(loads)
        if inside < until:
            pace = pace.repeated(loops[inside][1])
    return pace


def _between(fused: FusedMapping, link: int) -> Cycles:
    """Cycles of ports for what is done to the tile of an intermediate that is at home at a time."""
    at = len(fused.mappings[link].loops) - fused.common(link)
    extents, _ = fused.inside(link, at)
    placed = placed_operator(fused, link, extents)
    operand = operands_on_tree(placed)[-1]
    elements = operand.held(len(operand.memories) - 1, np.array([steps_inside(fused, link, at, placed)], np.int64))
    memories = {memory.name: memory for memory in fused.chain.tree.memories}
    return pass_cycles(fused.chain, link, memories[fused.homes[link]], round(float(elements[0])))


def _crossings(fused: FusedMapping, number: int) -> Sequence[tuple[int, Crossed]]:
    """Everything that crosses in an operator: inside how many loops, and its cycles inwards, outwards, and of stops."""
    own = min(fused.own_loops(number), default=len(fused.mappings[number].loops))
    found: list[tuple[int, Crossed]] = []
    for operand, crossing, at in fused_crossings(fused, number):
        extents, _ = fused.inside(number, max(at, own))
        placed = placed_operator(fused, number, extents)
        tile = steps_inside(fused, number, at, placed)
        if at > own:  # with what others do in between, nothing of it depends on what is spread inside a cell
            cell = replace(placed, unrolled=fused.chain.cells.unrolled(number))
            tile = tuple(
                every if some == steps else some * (every // steps)
                for some, every, steps in zip(tile, cell.steps, placed.steps, strict=True)
            )
            placed = cell
        loads = loads_on(
            fused.chain.tree, operands_on_tree(placed)[operand], crossing, np.array([tile], np.int64)
        )  # fmt: skip
        inwards, outwards, stops, least_stops = (
            {port: int(cycles[0]) for port, cycles in way.items()}
            for way in (loads.inwards, loads.outwards, loads.stops, loads.least_stops)
        )
        if at > own:
            found.append((at, Crossed(inwards, outwards, least_stops)))
            continue
        found.append((at, Crossed(inwards, outwards, stops, loads.operand, loads.first_way, loads.delays, loads.line)))
    return found
