"""The order in which instances run, and what waits meanwhile.

Source: Zhao et al., GraphTurbo, OSDI 2023, section 3.3, Algorithm 3.
"""

from collections.abc import Sequence
from itertools import accumulate

from tilestitch.base.errors import InputError
from tilestitch.ir.graph import Graph
from tilestitch.ir.instance import InstanceGraph


def can_run(instances: InstanceGraph) -> bool:
    """Whether no instance waits for itself by way of others."""
    waiting = [len(producers) for producers in instances.producers]
    consumers, done = instances.consumers, 0
    ready = [number for number, count in enumerate(waiting) if count == 0]
    while ready:
        done += 1
        for consumer in consumers[ready.pop()]:
            waiting[consumer] -= 1
            if waiting[consumer] == 0:
                ready.append(consumer)
    return done == len(waiting)


def breadth_first(instances: InstanceGraph) -> tuple[int, ...]:
    """All pieces of a group before the first of the next."""
    return tuple(range(len(instances.instances)))


def depth_first(instances: InstanceGraph) -> tuple[int, ...]:
    """Every instance as soon as what it reads is there, the latest that was reached first.

    An instance is reached when the first of its producers has run, and waits in its place until the last has. Raises
    `InputError` where some wait for one another.
    """
    waiting = [len(producers) for producers in instances.producers]
    consumers = instances.consumers
    ready = [number for number, count in enumerate(waiting) if count == 0]
    reached = set(ready)
    order: list[int] = []
    while ready:
        at = next((i for i in reversed(range(len(ready))) if waiting[ready[i]] == 0), None)
        if at is None:
            name = instances.instances[ready[0]].name
            raise InputError(f"piece {name}: reads what runs after it; let the groups end where none reads a later one")
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
