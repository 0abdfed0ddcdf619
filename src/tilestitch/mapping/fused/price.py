"""What a fused mapping costs: the energy of each operator, flow by flow, and the latency of all of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from tilestitch.base.shown import Brief
from tilestitch.hardware.tree import Flow
from tilestitch.mapping.fused.latency import fused_latency
from tilestitch.mapping.fused.mapping import FusedMapping, fused_crossings, placed_operator, steps_inside
from tilestitch.mapping.fused.shapes import leaving_pj, passes_pj
from tilestitch.mapping.tree.chain import PricedFlow
from tilestitch.mapping.tree.crossings import Part, operands_on_tree


@dataclass(frozen=True, slots=True, repr=False)
class FusedPrice(Brief):
    """The energy of each operator of a fused mapping and what is done between, and the latency of all; estimated."""

    mac_pj: tuple[float, ...]
    flows: tuple[tuple[PricedFlow, ...], ...]
    passes_pj: tuple[float, ...]  # of each link
    latency_cycles: int
    leaving_pj: tuple[float, ...]  # of each link what it costs that its result goes out as well

    @property
    def operators_pj(self) -> tuple[float, ...]:
        """Of each operator its arithmetic and what it moves."""
        pairs = zip(self.mac_pj, self.flows, strict=True)
        return tuple(mac + sum(flow.energy_pj for flow in flows) for mac, flows in pairs)

    @property
    def energy_pj(self) -> float:
        return sum(self.operators_pj) + sum(self.passes_pj) + sum(self.leaving_pj)


def fused_price(fused: FusedMapping) -> FusedPrice:
    """The energy of a fused mapping, flow by flow, and its latency."""
    macs, flows = [], []
    tree = fused.chain.tree
    for number in range(len(fused.mappings)):
        places = fused.own_loops(number)
        extents, times = fused.inside(number, min(places, default=len(fused.mappings[number].loops)))
        macs.append(tree.mac_pj * prod(extents) * times)
        flows.append(tuple(_flows(fused, number)))
    memories = {memory.name: memory for memory in tree.memories}
    passes = [passes_pj(fused.chain, link, memories[home]) for link, home in enumerate(fused.homes)]
    leaving = [leaving_pj(fused.chain, link, memories[home]) for link, home in enumerate(fused.homes)]
    return FusedPrice(tuple(macs), tuple(flows), tuple(passes), fused_latency(fused), tuple(leaving))


def _flows(fused: FusedMapping, number: int) -> Iterator[PricedFlow]:
    mapping = fused.mappings[number]
    own = min(fused.own_loops(number), default=len(mapping.loops))
    for operand_number, crossing, at in fused_crossings(fused, number):
        extents, times = fused.inside(number, max(at, own))
        placed = placed_operator(fused, number, extents)
        operand = operands_on_tree(placed)[operand_number]
        tile = np.array([steps_inside(fused, number, at, placed)], np.int64)
        for moved in operand.moved(crossing, tile, Part.ALL):
            level = operand.memories.index(moved.memory)
            count, energy = int(moved.accesses[0]) * times, float(moved.energy_pj[0]) * times
            if moved.accesses[0] > 0:
                yield PricedFlow(operand_number, level, moved.memory.name, moved.flow, count, energy)
        delivered = float(operand.delivered_pj(crossing, tile)[0]) * times
        if delivered > 0:
            name = f"network inside {operand.memories[crossing].name}"
            flow = Flow.COLLECT if operand.is_write else Flow.FEED
            yield PricedFlow(operand_number, crossing, name, flow, 0, delivered)
