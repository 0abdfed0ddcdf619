"""The time and energy of one tile of an operator on the units of a core, on the tree of memories inside LB.

A network has hundreds of different tiles. So of the choices of what a tile spreads few are opened, those with the least
bounds; loops and places are searched to the end in each. Nothing is proven: of the tiles that were tried all but single
rows of a product, which may take some hundredths more, have the optimum.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from tilestitch.base.errors import DoesNotFit
from tilestitch.hardware.tree import Flow, MachineTree
from tilestitch.ir.choices import Objective
from tilestitch.ir.loop_nest import LoopNest
from tilestitch.mapping.tree.bound import as_wide, bound, wired
from tilestitch.mapping.tree.choices import SpatialSpace, choices_of
from tilestitch.mapping.tree.cycle_bounds import least_cycles
from tilestitch.mapping.tree.found import FoundMapping
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.sliding import with_slides
from tilestitch.mapping.tree.spatial import placement
from tilestitch.mapping.tree.spread_task import task_of
from tilestitch.mapping.tree.tables import Sums
from tilestitch.mapping.tree.timed_search import Bounded, best_in_order

_KEPT = 65536  # tiles of which the best mapping is remembered
_LABELS = 100_000  # of a tile's search: far more than tiles need that were tried
_BOUNDED = 256  # choices of what is spread, those with the fewest steps, of which bounds are made
_OPENED = 6  # of these, the ones that are searched


@dataclass(frozen=True, slots=True)
class TileOnTree:
    """The fastest mapping of a tile, and what it takes; estimated by the model of trees."""

    found: FoundMapping
    cycles: int
    energy_pj: float  # of arithmetic and the memories inside LB, and of what LB moves beyond every element once


@lru_cache(_KEPT)
def tile_on_tree(nest: LoopNest, inside: MachineTree) -> TileOnTree:
    """The fastest mapping of a tile whose operands lie in LB; elements are as wide there as the machine says.

    `nest` has no name, so that tiles that differ only in that are one. Raises `DoesNotFit` where a memory inside LB is
    too small for one iteration.
    """
    bits = inside.bits
    if bits is not None:
        nest = as_wide(nest, bits, inside.sum_bits or bits)
    placed = bound(nest, bits or nest.write.element_bits, inside, widest=True)
    found = _fast(placed)
    return TileOnTree(found, found.price.latency_cycles, _energy_pj(found))


def _fast(bare: PlacedNest) -> FoundMapping:
    """The fastest mapping of few choices; of more where none of these fits."""
    choices = choices_of(bare, wired(bare, SpatialSpace()))
    fewest = np.argsort(choices.steps.prod(axis=1), kind="stable")
    task = task_of(bare, Sums.FULL)
    for start in range(0, len(fewest), _BOUNDED):
        numbers = fewest[start : start + _BOUNDED]
        bounds = least_cycles(task, choices[numbers], loose=True)
        order = np.argsort(bounds, kind="stable")
        for first in range(0, len(order), _OPENED):
            ordered = (
                Bounded(one, float(bounds[at]), int(at))
                for at in order[first : first + _OPENED].tolist()
                for one in with_slides([placement(bare, choices, int(numbers[at]))])
            )
            found, _ = best_in_order(ordered, Sums.FULL, _LABELS, Objective.LATENCY)
            if found is not None:
                return found
    raise DoesNotFit(
        f"a tile of {' x '.join(str(loop.extent) for loop in bare.nest.loops)} iterations has no mapping that fits the "
        f"memories inside the local buffer of {bare.tree.name}"
    )


def _energy_pj(found: FoundMapping) -> float:
    """Without what the outermost memories give or take of every element once, which programs count themselves."""
    price, placed = found.price, found.placed
    energy = price.energy_pj
    for number, operand in enumerate(placed.operands):
        top = placed.chain(number)[-1]
        flow = Flow.COLLECT if operand is placed.nest.write else Flow.FEED
        port = top.port(placed.homes[number], flow)
        outermost = sum(one.energy_pj for one in price.flows if one.operand == number and one.memory == top.name)
        if port is not None:
            bits = placed.final_bits if operand is placed.nest.write else operand.element_bits
            once = prod(operand.shape) * bits / port.width_bits * (top.read_pj if flow.is_read else top.write_pj)
            energy -= min(outermost, once)
    return energy
