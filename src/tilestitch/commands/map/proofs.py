"""Files of certificates: one for each different problem, with the names of the layers that it is of."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilestitch.base.errors import printable
from tilestitch.base.json_text import JsonPart, json_fields, json_value
from tilestitch.commands.map.proof_files import expect_asked, expect_layers, expect_new, no_proof, proof_of_nothing
from tilestitch.commands.map.sources import Nests
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.choices import CostMode, Objective
from tilestitch.mapping.certificate import (
    FIELDS,
    PROVABLE,
    Certificate,
    certificate_from,
    certificate_json,
    check_certificate,
    problem_digest,
)
from tilestitch.mapping.network import MappedLayer

FORMAT = "tilestitch.mapping-certificates"
VERSION = 2


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a file of certificates says of all of them; None: whatever it is."""

    mode: CostMode | None = None
    objective: Objective | None = None


def certificates_json(mapped: Sequence[MappedLayer], mode: CostMode, objective: Objective) -> str:
    """The certificates of a run, each different one once."""
    names: dict[str, list[str]] = {}
    found: dict[str, Certificate] = {}
    for one in mapped:
        if one.certificate is not None:
            names.setdefault(one.certificate.problem, []).append(one.layer.nest.name)
            found[one.certificate.problem] = one.certificate
    proofs = [{"layers": names[problem], **certificate_json(proof)} for problem, proof in found.items()]
    head = {"format": FORMAT, "version": VERSION, "mode": mode, "objective": objective}
    return json.dumps({**head, "proofs": proofs}, indent=1) + "\n"


def check_certificates(
    text: str,
    where: str,
    nests: Nests,
    machine: ArrayMachine,
    progress: Callable[[str, int, int], None],
    asked: Claimed = Claimed(),
) -> str:
    """Check the certificate of every layer; a line for each. InputError that says what is wrong.

    A proof is found by the digest of its problem. There is one for each layer, and none of anything else.
    """
    found = json_fields(JsonPart(json_value(text, where), where), FORMAT, VERSION, ("mode", "objective", "proofs"))
    mode = found["mode"].choice({str(one): one for one in CostMode})
    objective = found["objective"].choice({str(one): one for one in PROVABLE})
    expect_asked("mode", mode, asked.mode, where)
    expect_asked("objective", objective, asked.objective, where)
    of_problem: dict[str, list[int]] = {}
    for number, layer in enumerate(nests.layers):
        of_problem.setdefault(problem_digest(layer.nest, machine, mode, objective), []).append(number)
    proofs: dict[str, Certificate] = {}
    for part in found["proofs"].items("proofs"):
        proof = part.fields(("layers", *FIELDS))
        certificate = certificate_from(proof)
        if certificate.problem not in of_problem:
            checked = f"{printable(nests.name, 80)} with this machine, mode and objective"
            proof_of_nothing(part, checked, certificate.problem, "the network, the layers and the machine")
        expect_new(part, certificate.problem, proofs)
        expect_layers(proof, [nests.layers[number].nest.name for number in of_problem[certificate.problem]])
        proofs[certificate.problem] = certificate
    lines = []
    problems = {number: problem for problem, numbers in of_problem.items() for number in numbers}
    for number, layer in enumerate(nests.layers):
        name = layer.nest.name
        progress(f"check {name}", number, len(nests.layers))
        if problems[number] not in proofs:
            raise no_proof(where, name)
        proof = proofs[problems[number]]
        verdict = check_certificate(proof, layer.nest, machine, mode, objective)
        lines.append(
            f"{name}: proven: no mapping has less {objective} than {proof.bound:.6e} ({mode} model, estimated); "
            f"{verdict.tilings:,} tilings fit, {verdict.priced:,} of them priced by the checker"
        )
    return "\n".join(lines)
