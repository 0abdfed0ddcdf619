"""A mapped nest for a page: its levels from the outermost memory to the arithmetic, as many as the machine has."""

from collections.abc import Mapping, Sequence
from math import prod

from tilestitch.base.json_values import Json
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.loop_nest import LoopMapping, LoopNest
from tilestitch.mapping.operand_energy import element_bits


def nest_levels(
    nest: LoopNest,
    mapping: LoopMapping,
    machine: ArrayMachine,
    energy: Mapping[str, tuple[float, ...]],
    components: Mapping[str, float],
) -> dict[str, Json]:
    """The levels with their loops, what each holds, and its energy by operand; and what is computed inside them.

    The loops of a level go over what the next one holds. `energy` has picojoules of every component by operand,
    `components` those of the whole component.
    """
    sizes = element_bits(nest, machine)
    inside = range(len(nest.loops))

    def level(name: str, kind: str, component: str, loops: list[Json], tile: Sequence[int], room: int | None) -> Json:
        return {
            "name": name,
            "kind": kind,
            "loops": loops,
            "holds": _held(nest, tile, sizes),
            "room_bytes": room,
            "energy_pj": components[component],
            "operands_pj": list(energy[component]),
        }

    def loops(factors: Sequence[int], order: Sequence[int]) -> list[Json]:
        return [{"name": nest.loops[at].name, "count": factors[at]} for at in order if factors[at] > 1]

    dram, spm = loops(mapping.dram, mapping.dram_order), loops(mapping.spm, mapping.spm_order)
    levels: list[Json] = [
        level("DRAM", "memory", "dram", dram, nest.extents, None),
        level("scratchpad", "memory", "spm", spm, mapping.scratchpad_tile, machine.scratchpad_bytes),
        level("array", "array", "noc", loops(mapping.spatial, inside), mapping.pass_tile, None),
        level("register file", "memory", "rf", loops(mapping.rf, inside), mapping.rf, machine.register_bytes),
        {
            "name": "arithmetic",
            "kind": "unit",
            "loops": [],
            "holds": [],
            "room_bytes": None,
            "energy_pj": components["mac"],
            "operands_pj": list(energy["mac"]),
        },
    ]
    return {
        "operands": [operand.name for operand in nest.operands],
        "body": f"{nest.write.name} += {' * '.join(read.name for read in nest.reads)}",
        "levels": levels,
        "spread": _spread(nest, mapping),
    }


def array_shape(machine: ArrayMachine) -> dict[str, Json]:
    """Rows and columns of the array; the last row may be shorter."""
    return {"elements": machine.elements, "columns": min(machine.columns, machine.elements)}


def _held(nest: LoopNest, tile: Sequence[int], bits: Sequence[int]) -> list[Json]:
    whole = [min(size, extent) for size, extent in zip(tile, nest.extents, strict=True)]
    found: list[Json] = []
    for operand, width in zip(nest.operands, bits, strict=True):
        extents = operand.extents(whole)
        found.append({"extents": list(extents), "size_bytes": -(-prod(extents) * width // 8)})
    return found


def _spread(nest: LoopNest, mapping: LoopMapping) -> dict[str, Json]:
    """Loops over elements, and which of them several elements add up; elements count the last loop fastest."""
    spread = [at for at, factor in enumerate(mapping.spatial) if factor > 1]
    return {
        "loops": [{"name": nest.loops[at].name, "count": mapping.spatial[at]} for at in spread],
        "summed": [nest.loops[at].name for at in spread if at not in nest.write.indexed_by],
        "elements": prod(mapping.spatial),
    }
