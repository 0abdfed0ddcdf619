"""Mappings as a page to look at: the verdict, the layers, and the loop nest of each on the array."""

from collections.abc import Sequence

from tilestitch.base.json_values import Json
from tilestitch.commands.map.map_json import evaluated_tree, mapped_tree
from tilestitch.commands.map.map_text import evaluated_text, mapped_text, space_text
from tilestitch.commands.map.sources import MachineSource, Nests
from tilestitch.formats.einsum import einsum_text, nest_text
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.choices import CostMode
from tilestitch.ir.loop_nest import LoopMapping, LoopNest
from tilestitch.mapping.evaluate import Priced
from tilestitch.mapping.network import MapOptions, MappedLayer
from tilestitch.mapping.operand_energy import operand_energy
from tilestitch.mapping.optimum import value_of
from tilestitch.report.html.nest import array_shape, nest_levels
from tilestitch.report.html.page import Result


def map_result(nests: Nests, source: MachineSource, options: MapOptions, mapped: Sequence[MappedLayer]) -> Result:
    """All that the page of `map` holds."""
    machine = source.machine
    return Result(
        "map",
        f"{nests.name} on {machine.name}: mappings",
        mapped_text(nests, source, options, mapped),
        mapped_tree(nests, source, options, mapped),
        {
            "clock_hz": machine.clock_hz,
            "notes": [*nests.notes, *source.notes],
            "array": array_shape(machine),
            "layers": [
                {
                    "nest": nest_text(one.layer.nest),
                    "proof": _proof(one, options),
                    "mappings": [
                        drawn_mapping(one.layer.nest, found.mapping, machine, priced, options.mode)
                        for found, priced in zip(one.found, one.prices, strict=True)
                    ],
                }
                for one in mapped
            ],
        },
    )


def given_result(nest: LoopNest, source: MachineSource, mapping: LoopMapping, priced: Priced, mode: CostMode) -> Result:
    """All that the page of a mapping holds that was given, and not searched for."""
    machine = source.machine
    return Result(
        "given",
        f"{nest.name} on {machine.name}: a given mapping",
        evaluated_text(nest, source, mapping, priced, mode),
        evaluated_tree(nest, source, mapping, priced, mode),
        {
            "clock_hz": machine.clock_hz,
            "notes": list(source.notes),
            "array": array_shape(machine),
            "name": nest.name,
            "nest": nest_text(nest),
            "macs": nest.macs,
            "mapping": drawn_mapping(nest, mapping, machine, priced, mode),
        },
    )


def drawn_mapping(
    nest: LoopNest, mapping: LoopMapping, machine: ArrayMachine, priced: Priced, mode: CostMode
) -> dict[str, Json]:
    """The levels of a mapping with the energy of each by operand."""
    return nest_levels(nest, mapping, machine, operand_energy(nest, machine, priced, mode), priced.components)


def named_by(nests: Nests) -> str:
    """What names these nests again: a network, or a line of einsum."""
    only = nests.layers[0].nest
    return einsum_text(only) if len(nests.layers) == 1 and only.kind == "einsum" else nests.name


def _proof(one: MappedLayer, options: MapOptions) -> dict[str, Json]:
    """What became of every part of the space, and the certificate if there is one."""
    outcome, proof, found = one.outcome, one.certificate, one.found[0]
    value = value_of(options.objective, found.energy_pj, found.cycles)
    return {
        "text": space_text(one, options),
        "register_tilings_pruned": outcome.register_pruned,
        "tile_tilings_pruned": outcome.tile_pruned,
        "certificate": None if proof is None else {"problem": proof.problem, "bound": value, "tilings": proof.tilings},
    }
