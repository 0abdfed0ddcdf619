"""Mappings on a machine tree as a page to look at: the verdict, the layers, each nest memory by memory, the machine."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tilestitch.base.json_values import Json
from tilestitch.base.units import ceil_div
from tilestitch.commands.map.tree_json import tree_values
from tilestitch.commands.map.tree_proofs import TreeProof, claimed_text
from tilestitch.commands.map.tree_run import MappedOnTree, TreeMappings
from tilestitch.commands.map.tree_text import LEAST, factor_text, proof_text, tree_text, verdict_text
from tilestitch.formats.einsum import nest_text
from tilestitch.hardware.tree import MachineTree
from tilestitch.hardware.tree_svg import tree_svg
from tilestitch.ir.choices import Objective
from tilestitch.mapping.tree.chain import crossing_tiles, pace_of
from tilestitch.mapping.tree.crossings import (
    OperandOnTree,
    PortNumber,
    Tiles,
    operands_on_tree,
    tile_elements,
)
from tilestitch.mapping.tree.found import FoundMapping
from tilestitch.mapping.tree.tables import Sums, stored_bits
from tilestitch.report.html.page import Result


def tree_result(mapped: TreeMappings, proofs: Sequence[TreeProof] = ()) -> Result:
    """All that the page of `map` holds of a tree."""
    tree = mapped.task.tree
    certificates = {number: one for one in proofs for number in one.numbers}
    return Result(
        "tree",
        f"{mapped.task.name} on {tree.name}: mappings",
        tree_text(mapped),
        tree_values(mapped),
        {
            **drawn_machine(tree),
            "sought": LEAST[mapped.objective],
            "proof": proof_text(mapped),
            "layers": [
                _layer(one, certificates.get(number), mapped.objective) for number, one in enumerate(mapped.layers)
            ],
        },
    )


def drawn_machine(tree: MachineTree) -> dict[str, Json]:
    """What every page says of a tree: memories from the outermost, and a picture."""
    return {
        "clock_hz": tree.clock_hz,
        "units": tree.units,
        "picture": tree_svg(tree),
        "memories": [memory.name for memory in reversed(tree.memories)],
    }


def _layer(layer: MappedOnTree, proof: TreeProof | None, objective: Objective) -> dict[str, Json]:
    found = layer.front or (layer.found,)
    return {
        "nest": nest_text(layer.found.placed.nest),
        "verdict": verdict_text(layer),
        "chosen": next(at for at, one in enumerate(found) if one is layer.found),
        "certificate": None
        if proof is None
        else {
            "problem": proof.certificate.problem,
            "value": claimed_text(objective, proof.certificate),
            "choices": proof.choices,
            "opened": proof.opened,
            "layers": list(proof.names),
        },
        "mappings": [drawn(one) for one in found],
    }


def drawn(found: FoundMapping) -> dict[str, Json]:
    """A mapping as code by memory, with its energies and the time of each port."""
    placed, price = found.placed, found.price
    names = [loop.name for loop in placed.nest.loops]
    return {
        "energy_pj": price.energy_pj,
        "latency_cycles": price.latency_cycles,
        "edp_pj_cycles": price.edp_pj_cycles,
        "utilization": found.utilization,
        "operands": [array.name for array in placed.operands],
        "body": f"{placed.nest.write.name} += {' * '.join(read.name for read in placed.nest.reads)}",
        "blocks": _blocks(found),
        "spread": [
            {"axis": one.axis, "loop": names[one.loop], "factor": factor_text(one.factor)} for one in placed.unrolled
        ],
        "working_units": placed.nest.macs / placed.total_steps,
        "energy": _energies(found),
        "ports": _ports(found),
    }


def _blocks(found: FoundMapping) -> list[Json]:
    """From the outermost loop: which memory holds which operands inside the loops so far, and the loops that follow.

    The loops of a block follow the last of the memories that hold something at the same place.
    """
    placed, mapping = found.placed, found.mapping
    names = [loop.name for loop in placed.nest.loops]
    held: dict[tuple[int, int], list[Json]] = {}  # by how many loops are inside, and the number of the memory
    for operand in operands_on_tree(placed):
        if operand.array.element_bits:
            for level, memory in enumerate(operand.memories):
                key = mapping.cuts[operand.number][level], placed.tree.memories.index(memory)
                held.setdefault(key, []).append(_held(found, operand, level))
    places = sorted(held, reverse=True)
    blocks: list[Json] = []
    for at, (inside, number) in enumerate(places):
        memory = placed.tree.memories[number]
        following = places[at + 1][0] if at + 1 < len(places) else 0
        loops = [{"name": names[loop], "count": factor} for loop, factor in mapping.loops[following:inside][::-1]]
        blocks.append(
            {
                "memory": memory.name,
                "size_bits": memory.size_bits,
                "instances": placed.tree.instances(memory),
                "holds": held[inside, number],
                "loops": loops,
            }
        )
    return blocks


def _held(found: FoundMapping, operand: OperandOnTree, level: int) -> dict[str, Json]:
    """What one memory of a level holds of an operand: indices along each axis, and room, a second buffer included."""
    tile = _tile(found, found.mapping.cuts[operand.number][level])
    spread = operand.inside(level + 1)
    array = operand.array
    along = (replace(array, axes=(terms,), shape=(size,)) for terms, size in zip(array.axes, array.shape, strict=True))
    bits = _element_bits(found, operand, level)
    return {
        "operand": operand.number,
        "extents": [round(float(tile_elements(found.placed, one, tile, spread)[0])) for one in along],
        "room_bits": ceil_div(round(1000 * float(stored_bits(operand, level, tile, bits)[0])), 1000),
    }


def _element_bits(found: FoundMapping, operand: OperandOnTree, level: int) -> int:
    """The width of an element in a memory; of a result that of the sums that come, or of those that go."""
    if not operand.is_write:
        return operand.array.element_bits
    tiles = crossing_tiles(found.placed, found.mapping)[operand.number]
    crossing = level + 1 if found.sums is Sums.FINAL else level
    partial = crossing < len(tiles) and operand.is_partial(crossing, np.array([tiles[crossing]], np.int64))[0]
    return operand.array.element_bits if partial else found.placed.final_bits


def _tile(found: FoundMapping, inside: int) -> Tiles:
    """The steps of each loop in so many innermost loops."""
    tile = np.ones((1, len(found.placed.nest.loops)), np.int64)
    for loop, factor in found.mapping.loops[:inside]:
        tile[0, loop] *= factor
    return tile


def _energies(found: FoundMapping) -> list[Json]:
    """Of each memory from the outermost the energy by operand, then of networks, then that of arithmetic."""
    placed, price = found.placed, found.price
    rows: list[Json] = []
    memories = [memory.name for memory in reversed(placed.tree.memories)]
    networks = dict.fromkeys(flow.memory for flow in price.flows if flow.memory not in memories)
    for name in (*memories, *networks):
        flows = [flow for flow in price.flows if flow.memory == name]
        of_operand = [
            sum(flow.energy_pj for flow in flows if flow.operand == number) for number in range(len(placed.operands))
        ]
        rows.append({"name": name, "operands_pj": of_operand, "energy_pj": sum(of_operand)})
    return [*rows, {"name": "arithmetic", "operands_pj": [], "energy_pj": price.mac_pj}]


def _ports(found: FoundMapping) -> list[Json]:
    """For how many cycles of the latency each port of one memory is occupied, of every port that moves something.

    First comes the same of DMA engines, last of networks with a bandwidth.
    """
    busy = sorted(pace_of(found.placed, found.mapping).busy.items(), reverse=True)
    return [{**_port(found.placed.tree, port), "busy_cycles": cycles} for port, cycles in busy if cycles]


def _port(tree: MachineTree, port: PortNumber) -> dict[str, Json]:
    """A port of a memory, a DMA engine, or a network along an axis, with its rate."""
    place, number = port
    if place >= len(tree.memories):
        engine = tree.engines[place - len(tree.memories)]
        rate = float(engine.count * engine.bits_per_cycle)
        return {"memory": f"{engine.outer} to {engine.inner}", "port": engine.name, "bits_per_cycle": rate}
    if place >= 0:
        memory = tree.memories[place]
        found = memory.ports[number]
        return {"memory": memory.name, "port": found.name, "bits_per_cycle": float(found.bits_per_cycle)}
    axis = tree.axes[-1 - place]
    network = axis.networks[number]
    rate = float(network.bits_per_cycle) if network.bits_per_cycle is not None else 0.0
    return {"memory": f"network along {axis.name}", "port": ", ".join(network.operands), "bits_per_cycle": rate}
