"""Plans of fused blocks as JSON, written and read: layers by name, and a number of cores for each block."""

import json
from typing import Any

from tilestitch.base.errors import InputError, printable
from tilestitch.base.json_text import json_value
from tilestitch.ir.by_hand import NamedBlock
from tilestitch.partition.blocks.model import FusionNetwork
from tilestitch.partition.ideals import Plan

FORMAT = "tilestitch.fusion-plan"
VERSION = 1
MAX_CORES = 2**20


def plan_json(network: FusionNetwork, plan: Plan) -> str:
    """The plan of a network."""
    blocks = [
        json.dumps({"cores": cores, "layers": [network.layers[number].name for number in block]}, ensure_ascii=False)
        for block, cores in zip(plan.blocks, plan.choices, strict=True)
    ]
    head = f'"format": {json.dumps(FORMAT)}, "version": {VERSION}, "network": {json.dumps(network.name)}'
    return "{" + head + ', "blocks": [\n  ' + ",\n  ".join(blocks) + "\n]}\n"


def parse_plan(text: str, where: str) -> tuple[NamedBlock, ...]:
    """The blocks of a plan's text. Raises `InputError` with the field where anything is not as it should be."""
    value = json_value(text, where)
    known = ("format", "version", "network", "blocks")
    if not isinstance(value, dict) or value.get("format") != FORMAT or value.get("version") != VERSION:
        raise InputError(f'{where}: expected an object with "format": "{FORMAT}" and "version": {VERSION}')
    for field in value:
        if field not in known:
            raise InputError(f"{where}: unknown field {printable(repr(field), 60)}. Known: {', '.join(known)}")
    blocks = value.get("blocks")
    if not isinstance(blocks, list) or not blocks:
        raise InputError(
            f"{where}: blocks: expected a list with at least one block, found {printable(repr(blocks), 60)}"
        )
    return tuple(_block(block, f"{where}: blocks[{number}]") for number, block in enumerate(blocks))


def _block(value: Any, where: str) -> NamedBlock:
    if not isinstance(value, dict) or set(value) != {"cores", "layers"}:
        raise InputError(f'{where}: expected "cores" and "layers", found {printable(repr(value), 60)}')
    cores, layers = value["cores"], value["layers"]
    if not isinstance(cores, int) or isinstance(cores, bool) or not 1 <= cores <= MAX_CORES:
        raise InputError(f"{where}: cores: expected a whole number of at least 1, found {printable(repr(cores), 60)}")
    if not isinstance(layers, list) or not layers or not all(isinstance(name, str) for name in layers):
        raise InputError(f"{where}: layers: expected names of layers, found {printable(repr(layers), 60)}")
    return NamedBlock(tuple(layers), cores)
