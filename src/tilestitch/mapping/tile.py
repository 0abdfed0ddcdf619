"""The time and energy of one tile of an operator on an array, whose operands lie in the buffer of its core."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from tilestitch.base.errors import DoesNotFit
from tilestitch.hardware.accelerator import Accelerator, PEArray
from tilestitch.hardware.array_machine import ArrayMachine, array_alone
from tilestitch.ir.choices import Objective
from tilestitch.ir.graph import Graph, Operator
from tilestitch.ir.loop_nest import LoopMapping, LoopNest
from tilestitch.ir.verify_mapping import verify_mapping
from tilestitch.mapping.evaluate import Pricer
from tilestitch.mapping.factors import Limits
from tilestitch.mapping.network import iterations_of, nest_of_part, nest_of_tile
from tilestitch.mapping.search import search, search_space

_KEPT = 65536  # tiles of which the best mapping is remembered


@dataclass(frozen=True, slots=True)
class TileCost:
    """The fastest mapping of a tile, and what it takes; estimated by the default model."""

    mapping: LoopMapping
    cycles: int
    energy_pj: float  # of arithmetic, registers and networks
    again_bytes: float  # that the buffer gives or takes beyond every byte once


def tile_cost(graph: Graph, op: Operator, extents: tuple[int, ...], array: PEArray) -> TileCost:
    """The fastest mapping of a tile of a contraction, of several the one with the least energy.

    The tile fits the buffer, or nobody would ask; so there is no DRAM, and only registers and elements limit it.
    """
    return _fastest(nest_of_tile(graph, op, extents), array)


def tile_energy(
    machine: Accelerator, mappings: Mapping[str, LoopMapping]
) -> Callable[[Graph, Operator, tuple[int, ...], int], float]:
    """Picojoules of a tile on the array or tree of a core, by its number: beyond that its buffer gives every byte once.

    `mappings` are those of operators whose kernels have one: then a tile has a share of the energy of all iterations.
    """

    known: dict[tuple[str, int], float] = {}  # of an iteration, by operator and core

    def energy_pj(graph: Graph, op: Operator, extents: tuple[int, ...], core: int) -> float:
        found = machine.cores[core]
        if found.inside is not None:
            from tilestitch.mapping.tree.tile import tile_on_tree  # most of the mapper, and no array needs it

            return tile_on_tree(nest_of_tile(graph, op, extents), found.inside).energy_pj
        buffer = machine.memory(machine.home(found))
        assert found.array is not None, "asked for tiles on arrays and trees only"
        assert buffer is not None, "the compiler refuses a core without a buffer"
        if op.name in mappings:
            if (op.name, core) not in known:
                whole = iterations_of(op, mappings[op.name])
                cost = _cost_of(nest_of_part(graph, op, whole), array_alone(found.array), mappings[op.name])
                energy = cost.energy_pj + cost.again_bytes * buffer.read_pj_per_byte
                known[op.name, core] = energy / prod(whole)
            return known[op.name, core] * prod(extents)
        cost = tile_cost(graph, op, extents, found.array)
        return cost.energy_pj + cost.again_bytes * buffer.read_pj_per_byte

    return energy_pj


@lru_cache(_KEPT)
def _fastest(nest: LoopNest, array: PEArray) -> TileCost:
    machine = array_alone(array)
    within = search_space(nest, machine, limits=Limits(whole_in_scratchpad=frozenset(range(len(nest.loops)))))
    found = search(within, Objective.LATENCY).best
    if not found:
        raise DoesNotFit(
            f"array {array.name}: one word of each of {len(nest.operands)} operands takes more than the "
            f"{array.register_bytes} B of a register file; give it more register_bytes"
        )
    verify_mapping(found[0].mapping, nest)
    return _cost_of(nest, machine, found[0].mapping)


@lru_cache(_KEPT)
def _cost_of(nest: LoopNest, machine: ArrayMachine, mapping: LoopMapping) -> TileCost:
    """What all tiles of a mapping take; a program reads each of their operands once for every tile."""
    priced = Pricer(nest, machine)(mapping)
    again = 0.0
    for operand, accesses in zip(nest.operands, priced.accesses, strict=True):
        once = prod(mapping.dram) * prod(operand.extents(mapping.scratchpad_tile))
        again += max(0.0, accesses.scratchpad_words - once) * operand.element_bits / 8
    return TileCost(mapping, priced.cycles, priced.mac_pj + priced.rf_pj + priced.noc_pj, again)
