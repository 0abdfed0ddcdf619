"""What Timeloop and AccelForge charge for a mapping on their machines, where that is not what we do.

Neither reads a sum from the innermost memory before the first addition. Timeloop does not read what it hands upwards:
the last update of a result goes through. AccelForge moves an operand again for each iteration of a loop outside its
place, even of one that leaves it alone. Found in the results of Timeloop's exercises, word by word, and in those of
AccelForge 1.0.467 for small mappings: tests/formats/test_given_trees.py.
"""

from dataclasses import replace
from math import prod

from tilestitch.hardware.tree import Flow
from tilestitch.mapping.tree.chain import PricedFlow, TreeMapping, TreePrice, price
from tilestitch.mapping.tree.placed import PlacedNest

PROGRAMS = ("Timeloop", "AccelForge")


def foreign_price(program: str, placed: PlacedNest, mapping: TreeMapping) -> TreePrice:
    """The price of a mapping by the rules of one of these programs; its latency is ours."""
    priced = price(placed, mapping, stays=program != "AccelForge")
    flows = [_by_rules(program, placed, flow) for flow in priced.flows]
    return replace(priced, flows=tuple(flow for flow in flows if flow is not None))


def _by_rules(program: str, placed: PlacedNest, flow: PricedFlow) -> PricedFlow | None:
    if flow.operand != len(placed.nest.reads):
        return flow
    if flow.flow is Flow.DRAIN and program == "Timeloop":
        return None
    if flow.flow is Flow.FEED and flow.level == 0:
        moving = placed.nest.write.indexed_by
        first = prod(placed.steps[loop] for loop in moving)
        left = placed.total_steps - first
        accesses = flow.accesses * left // placed.total_steps
        return replace(flow, accesses=accesses, energy_pj=flow.energy_pj * left / placed.total_steps)
    return flow
