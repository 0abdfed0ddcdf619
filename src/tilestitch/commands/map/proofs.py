"""Files of certificates: one for each different layer."""

import json
from collections.abc import Callable, Sequence

from tilestitch.base.errors import InputError, printable
from tilestitch.base.json_text import json_value
from tilestitch.commands.map.sources import Nests
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.choices import CostMode, Objective
from tilestitch.mapping.certificate import FORMAT, Verdict, certificate_from, certificate_json, check_certificate
from tilestitch.mapping.network import MappedLayer


def certificates_json(mapped: Sequence[MappedLayer], mode: CostMode, objective: Objective) -> str:
    """All certificates of a run, by the names of the layers."""
    layers = [
        {"layer": one.layer.nest.name, **certificate_json(one.certificate)}
        for one in mapped
        if one.certificate is not None
    ]
    return json.dumps({"format": FORMAT, "mode": mode, "objective": objective, "layers": layers}, indent=1) + "\n"


def check_certificates(
    text: str, where: str, nests: Nests, machine: ArrayMachine, progress: Callable[[str, int, int], None]
) -> str:
    """Check the certificate of every layer; a line for each. InputError that says what is wrong."""
    found = json_value(text, where)
    if not isinstance(found, dict) or found.get("format") != FORMAT or not isinstance(found.get("layers"), list):
        raise InputError(f"{where}: expected certificates of format {FORMAT!r}, as --certificate writes them")
    try:
        mode, objective = CostMode(found.get("mode")), Objective(found.get("objective"))
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None
    given = {}
    for number, one in enumerate(found["layers"], 1):
        if not isinstance(one, dict) or not isinstance(one.get("layer"), str):
            raise InputError(f"{where}: layers[{number}]: expected a certificate with the name of its layer")
        proof = {name: value for name, value in one.items() if name != "layer"}
        given[one["layer"]] = certificate_from(proof, f"{where}: {printable(one['layer'], 80)}")
    lines = []
    for number, layer in enumerate(nests.layers):
        name = layer.nest.name
        progress(f"check {name}", number, len(nests.layers))
        if name not in given:
            raise InputError(f"{where}: there is no certificate for layer {name!r}")
        verdict: Verdict = check_certificate(given[name], layer.nest, machine, mode, objective)
        lines.append(
            f"{name}: proven: no mapping has less {objective} than {given[name].bound:.6e} ({mode} model, estimated); "
            f"{verdict.tilings:,} tilings fit, {verdict.priced:,} of them priced by the checker"
        )
    return "\n".join(lines)
