"""Sub-graphs split into instances, and the order in which these run.

Source: Zhao et al., GraphTurbo, OSDI 2023, section 3.3, Algorithm 3.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.instance import Instance, InstanceGraph
from tilestitch.ir.region import Region, even_pieces
from tilestitch.ir.tiles import box_for_needs


def split_into_instances(
    graph: Graph, groups: Sequence[tuple[str, ...]], splits: Sequence[tuple[int, int | tuple[int, ...]]]
) -> InstanceGraph:
    """Cut each group into pieces of its outputs and find which piece reads what another makes.

    `groups` hold operator names, in an order in which the groups can run; `splits` holds per group the axis of its
    outputs that is cut, and the number of pieces, which may be ragged, or the extent of each. An instance depends on
    another only where a region that it reads overlaps one that the other writes.
    """
    instances: list[Instance] = []
    for number, (group, (axis, cut)) in enumerate(zip(groups, splits, strict=True)):
        operators = [graph.by_name[name] for name in group]
        outputs = leaving(graph, operators)
        extent = 1 if cut == 1 else min(graph.tensors[name].shape[axis] for name in outputs)
        pieces = even_pieces(extent, cut) if isinstance(cut, int) else tuple(pairwise(accumulate(cut, initial=0)))
        for piece, (start, stop) in enumerate(pieces):
            wanted = {}
            for name in outputs:
                whole = Region.whole(graph.tensors[name].shape)
                wanted[name] = whole if cut == 1 else whole.slab(axis, start, stop)
            boxes, reads = _needs(graph, operators, wanted)
            instances.append(
                Instance(len(instances), f"g{number}[{piece}]", number, tuple(group), wanted, reads, boxes)
            )
    makers: dict[str, list[Instance]] = {}
    for instance in instances:
        for name in instance.writes:
            makers.setdefault(name, []).append(instance)
    producers = tuple(
        tuple(
            sorted(
                {
                    maker.number
                    for name, region in instance.reads.items()
                    for maker in makers.get(name, ())
                    if maker.writes[name].overlaps(region)
                }
            )
        )
        for instance in instances
    )
    return InstanceGraph(tuple(instances), producers)


def breadth_first(instances: InstanceGraph) -> tuple[int, ...]:
    """All pieces of a group before the first of the next."""
    return tuple(range(len(instances.instances)))


def depth_first(instances: InstanceGraph) -> tuple[int, ...]:
    """Every instance as soon as what it reads is there, the latest that was reached first.

    An instance is reached when the first of its producers has run, and waits in its place until the last has.
    """
    waiting = [len(producers) for producers in instances.producers]
    consumers = instances.consumers
    ready = [number for number, count in enumerate(waiting) if count == 0]
    reached = set(ready)
    order: list[int] = []
    while ready:
        at = next(i for i in reversed(range(len(ready))) if waiting[ready[i]] == 0)
        number = ready.pop(at)
        order.append(number)
        for consumer in consumers[number]:
            waiting[consumer] -= 1
            if consumer not in reached:
                reached.add(consumer)
                ready.append(consumer)
    return tuple(order)


def parked(instances: InstanceGraph, order: Sequence[int]) -> tuple[int, ...]:
    """Instances whose results wait while another instance runs that does not read them: they go to GB.

    A result that the very next instance reads, and nobody after it, stays in the local buffers.
    """
    place = {number: at for at, number in enumerate(order)}
    consumers = instances.consumers
    return tuple(
        number for number in order if any(place[consumer] != place[number] + 1 for consumer in consumers[number])
    )


def waiting_bytes(graph: Graph, instances: InstanceGraph, order: Sequence[int]) -> int:
    """The most bytes of parked results that wait at a time."""
    place = {number: at for at, number in enumerate(order)}
    consumers = instances.consumers
    change = [0] * (len(order) + 1)
    for number in parked(instances, order):
        size = sum(graph.tensors[name].bytes_of(region) for name, region in instances.instances[number].writes.items())
        change[place[number] + 1] += size
        change[max(place[consumer] for consumer in consumers[number])] -= size
    return max(accumulate(change))


def joined(instances: InstanceGraph) -> tuple[int, ...]:
    """Instances that read the results of several: a concatenation comes before them."""
    return tuple(number for number, producers in enumerate(instances.producers) if len(producers) > 1)


def leaving(graph: Graph, operators: Sequence[Operator]) -> list[str]:
    """The results of some operators that others, or the network, give to somebody."""
    inside = {op.name for op in operators}
    return [
        name
        for op in operators
        for name in op.outputs
        if name in graph.outputs or any(reader.name not in inside for reader in graph.consumers.get(name, ()))
    ]


def _needs(
    graph: Graph, operators: Sequence[Operator], wanted: Mapping[str, Region]
) -> tuple[dict[str, Region], dict[str, Region]]:
    """The iterations of each operator, and the regions from outside, that the wanted parts of the outputs need."""
    needed = dict(wanted)
    boxes: dict[str, Region] = {}
    made = {name for op in operators for name in op.outputs}
    for op in reversed(operators):
        box = box_for_needs(op, needed)
        if box is None:
            continue  # nobody needs any of it in this piece
        boxes[op.name] = box
        for read in op.reads:
            if read.tensor not in graph.constants:
                region = graph.read_region(read, box)
                needed[read.tensor] = region.hull(needed[read.tensor]) if read.tensor in needed else region
    return boxes, {name: region for name, region in needed.items() if name not in made}
