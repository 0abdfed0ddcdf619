"""The best plan with its proof as JSON, written, and checked against a network and a machine.

Nothing that the check believes comes from the file but the numbers that it proves: layers, legal plans, ideals and
every cost are found anew.
"""

import json
from typing import Any

from tilestitch.base.errors import InputError, printable
from tilestitch.base.json_text import json_value
from tilestitch.commands.fuse.fuse import Fused
from tilestitch.partition.blocks.checker import check
from tilestitch.partition.blocks.model import BlockCost
from tilestitch.partition.ideals import Plan

FORMAT = "tilestitch.fusion-certificate"
VERSION = 1
FIELDS = ("format", "version", "network", "machine", "layers", "core_counts", "blocks", "potentials_ps")
BLOCK_FIELDS = ("cores", "time_ps", "layers")
LARGEST = 2**62  # picoseconds; costs are added in 64 bits


def certificate_json(fused: Fused) -> str:
    """The certificate of the best plan. Raises `InputError` where there is no proof of it."""
    network, plan = fused.cost.network, fused.best
    if fused.proof is None:
        raise InputError(f"--certificate: {network.name} has too many ideals for a proof; leave it out")
    blocks = [
        {"cores": cores, "time_ps": cost, "layers": list(block)}
        for block, cores, cost in zip(plan.blocks, plan.choices, plan.costs, strict=True)
    ]
    value = {
        "format": FORMAT,
        "version": VERSION,
        "network": network.name,
        "machine": fused.machine,
        "layers": [layer.name for layer in network.layers],
        "core_counts": list(fused.cost.model.core_counts),
    }
    head = [f"{json.dumps(name)}: {json.dumps(field, ensure_ascii=False)}" for name, field in value.items()]
    numbers = [f'"{ideal:x}": {cost}' for ideal, cost in sorted(fused.proof.potentials.items())]
    return (
        "{"
        + ",\n".join(head)
        + ',\n"blocks": [\n '
        + ",\n ".join(map(json.dumps, blocks))
        + '\n],\n"potentials_ps": {\n '
        + ",\n ".join(numbers)
        + "\n}}\n"
    )


def checked_certificate(cost: BlockCost, machine: str, text: str, where: str) -> tuple[Plan, int]:
    """The plan of a certificate and how many ideals its proof goes over, once every part of it has been found right.

    Raises `InputError` with what is wrong: the text, or the proof.
    """
    value = _fields(text, where)
    network = cost.network
    for field, name in (("network", network.name), ("machine", machine)):
        if value[field] != name:
            shown = printable(repr(value[field]), 60)
            raise InputError(f"{where}: {field}: expected {name!r}, which it is checked against, found {shown}")
    if value["layers"] != [layer.name for layer in network.layers]:
        raise InputError(
            f"{where}: layers: are not those of {network.name}; expected the certificate of this network with the same "
            "options"
        )
    if value["core_counts"] != list(cost.model.core_counts):
        raise InputError(f"{where}: core_counts: are not those of {machine}; expected {list(cost.model.core_counts)}")
    plan = _plan(value["blocks"], f"{where}: blocks")
    potentials = _potentials(value["potentials_ps"], f"{where}: potentials_ps")
    try:
        check(network.before(), plan.blocks, plan.choices, plan.costs, potentials, cost.price)
    except InputError as error:
        raise InputError(f"{where}: does not hold for {network.name} on {machine}: {error}") from None
    return plan, len(potentials)


def _fields(text: str, where: str) -> dict[str, Any]:
    value = json_value(text, where)
    version = value.get("version") if isinstance(value, dict) else None
    if not isinstance(value, dict) or value.get("format") != FORMAT or type(version) is not int or version != VERSION:
        raise InputError(f'{where}: expected an object with "format": "{FORMAT}" and "version": {VERSION}')
    for field in value:
        if field not in FIELDS:
            raise InputError(f"{where}: unknown field {printable(repr(field), 60)}. Known: {', '.join(FIELDS)}")
    for field in FIELDS:
        if field not in value:
            raise InputError(f"{where}: field '{field}' is missing")
    return value


def _plan(value: Any, where: str) -> Plan:
    if not isinstance(value, list) or not value:
        raise InputError(f"{where}: expected a list with at least one block, found {printable(repr(value), 60)}")
    blocks, cores, costs = [], [], []
    for number, block in enumerate(value):
        here = f"{where}[{number}]"
        if not isinstance(block, dict) or set(block) != set(BLOCK_FIELDS):
            known = ", ".join(f'"{field}"' for field in BLOCK_FIELDS)
            raise InputError(f"{here}: expected {known}, found {printable(repr(block), 60)}")
        layers = block["layers"]
        if not isinstance(layers, list) or not layers:
            raise InputError(f"{here}.layers: expected numbers of layers, found {printable(repr(layers), 60)}")
        blocks.append(tuple(_whole(layer, f"{here}.layers") for layer in layers))
        cores.append(_whole(block["cores"], f"{here}.cores"))
        costs.append(_whole(block["time_ps"], f"{here}.time_ps"))
    return Plan(tuple(blocks), tuple(cores), tuple(costs))


def _potentials(value: Any, where: str) -> dict[int, int]:
    if not isinstance(value, dict) or not value:
        raise InputError(f"{where}: expected an object of ideals, found {printable(repr(value), 60)}")
    found: dict[int, int] = {}
    for ideal, cost in value.items():
        plain = ideal.isascii() and ideal.isalnum()
        try:
            mask = int(ideal, 16) if plain else -1
        except ValueError:
            mask = -1
        if mask < 0 or f"{mask:x}" != ideal:
            shown = printable(repr(ideal), 60)
            raise InputError(f"{where}: expected an ideal as a lower-case hexadecimal number, found {shown}")
        found[mask] = _whole(cost, f"{where}[{printable(ideal, 60)}]")
    return found


def _whole(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST:
        raise InputError(f"{where}: expected a whole number of at least 0, found {printable(repr(value), 60)}")
    return value
