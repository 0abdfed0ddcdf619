"""The layers of a network, each by its fastest mapping alone, on an array or on a tree."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from tilestitch.base.progress import Progress, quiet
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.hardware.tree import Flow, MachineTree, Port, TreeMemory
from tilestitch.hardware.tree_chip import WIDE_BITS
from tilestitch.ir.choices import Objective
from tilestitch.mapping.evaluate import Pricer
from tilestitch.mapping.network import MapOptions, RepeatedNest, map_layer
from tilestitch.mapping.tree.bound import as_wide, bound, wired
from tilestitch.mapping.tree.chain import latency_cycles
from tilestitch.mapping.tree.choices import SpatialSpace
from tilestitch.mapping.tree.search import MOST_LABELS
from tilestitch.mapping.tree.spatial import best_spread
from tilestitch.mapping.tree.tables import Sums


@dataclass(frozen=True, slots=True)
class AloneLayer:
    """A layer with the time of its fastest mapping, and of that mapping if transfers from outside took none."""

    layer: RepeatedNest
    cycles: int  # once
    inside_cycles: int
    is_proven: bool  # no mapping is faster, by the model


def layers_on_array(
    layers: Sequence[RepeatedNest], machine: ArrayMachine, progress: Progress = quiet
) -> tuple[AloneLayer, ...]:
    """What `map --objective latency` finds on an array. Raises `DoesNotFit` for a layer that has no mapping."""
    at_once = replace(machine, dma_setup_cycles=Fraction(0), dma_cycles_per_byte=Fraction(0))
    found: list[AloneLayer] = []
    for number, layer in enumerate(layers):
        progress("map", number, len(layers))
        mapped = map_layer(layer, machine, MapOptions(Objective.LATENCY))
        inside = Pricer(layer.nest, at_once)(mapped.found[0].mapping).cycles
        found.append(AloneLayer(layer, mapped.prices[0].cycles, inside, True))
    return tuple(found)


def layers_on_tree(
    layers: Sequence[RepeatedNest], tree: MachineTree, local: str, progress: Progress = quiet
) -> tuple[AloneLayer, ...]:
    """What `map --objective latency` finds on a tree; `local` is the memory up to which transfers are inside.

    Raises `DoesNotFit` for a layer that has no mapping.
    """
    at_once = _at_once(tree, local)
    found: list[AloneLayer] = []
    for number, layer in enumerate(layers):
        progress("map", number, len(layers))
        nest, final_bits = layer.nest, layer.nest.write.element_bits
        if tree.bits is not None and tree.sum_bits is not None:
            nest, final_bits = as_wide(nest, tree.bits, tree.sum_bits), tree.bits
        bare = bound(nest, final_bits, tree)
        best = best_spread(bare, wired(bare, SpatialSpace()), Sums.FULL, MOST_LABELS, Objective.LATENCY).found
        inside = latency_cycles(replace(best.placed, tree=at_once), best.mapping)
        cycles = best.price.latency_cycles
        found.append(AloneLayer(layer, cycles, min(inside, cycles), best.is_proven))
    return tuple(found)


def _at_once(tree: MachineTree, local: str) -> MachineTree:
    """A tree in which a transfer to the memory `local` and to what lies further out takes one cycle, however large."""
    names = [memory.name for memory in tree.memories]
    memories = tuple(
        _with_wide_ports(memory, outwards_only=at == names.index(local)) if at >= names.index(local) else memory
        for at, memory in enumerate(tree.memories)
    )
    inner = next(memory for memory in tree.memories if memory.name == local)
    axes = tuple(
        axis
        if axis.name in inner.serves
        else replace(axis, networks=tuple(replace(one, bits_per_cycle=None) for one in axis.networks))
        for axis in tree.axes
    )
    engines = tuple(one for one in tree.engines if names.index(one.outer) <= names.index(local))
    return replace(tree, memories=memories, axes=axes, engines=engines)


def _with_wide_ports(memory: TreeMemory, *, outwards_only: bool) -> TreeMemory:
    """A memory that moves what goes over its outer border, or everything, in no time."""
    outwards = {Flow.FILL, Flow.DRAIN} if outwards_only else set(Flow)
    ports: list[Port] = []
    for port in memory.ports:
        for is_wide in (False, True):
            flows = tuple(one for one in port.flows if (one[1] in outwards) == is_wide)
            if flows and is_wide:
                ports.append(Port(f"{port.name} outwards", WIDE_BITS, 1, flows))
            elif flows:
                ports.append(replace(port, flows=flows))
    return replace(memory, ports=tuple(ports))


def total_cycles(found: Sequence[AloneLayer]) -> int:
    """All layers, each as often as the network runs it, one after another."""
    return sum(one.layer.times * one.cycles for one in found)
