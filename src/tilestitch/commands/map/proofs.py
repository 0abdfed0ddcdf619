"""Files of certificates of mappings on an array."""

from collections.abc import Sequence

from tilestitch.base.errors import printable
from tilestitch.base.json_text import JsonPart
from tilestitch.base.progress import Progress
from tilestitch.commands.map.proof_files import Problem, check_proofs, grouped, proofs_text, read_proofs
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
from tilestitch.mapping.optimum import value_text


def certificates_json(mapped: Sequence[MappedLayer], mode: CostMode, objective: Objective) -> str:
    """The certificates of a run, each different one once."""
    names: dict[str, list[str]] = {}
    found: dict[str, Certificate] = {}
    for one in mapped:
        if one.certificate is not None:
            names.setdefault(one.certificate.problem, []).append(one.layer.nest.name)
            found[one.certificate.problem] = one.certificate
    proofs = [(names[problem], certificate_json(proof)) for problem, proof in found.items()]
    return proofs_text(objective, "mode", mode, proofs)


def check_certificates(
    text: str,
    where: str,
    nests: Nests,
    machine: ArrayMachine,
    progress: Progress,
    mode: CostMode | None = None,
    objective: Objective | None = None,
) -> str:
    """Check the certificate of every layer; a line for each. InputError that says what is wrong.

    `mode` and `objective` are those that are expected; None: whatever the file says.
    """
    file = read_proofs(text, where, PROVABLE, objective, "mode", CostMode, mode)
    layers = [layer.nest for layer in nests.layers]
    groups = grouped([problem_digest(nest, machine, file.asked, file.objective) for nest in layers])

    def problem(numbers: tuple[int, ...]) -> Problem[Certificate]:
        nest = layers[numbers[0]]

        def judged(proof: Certificate) -> str:
            verdict = check_certificate(proof, nest, machine, file.asked, file.objective)
            return (
                f"no mapping has less {file.objective} than {value_text(file.objective, proof.value)} ({file.asked} "
                f"model, estimated); {verdict.tilings:,} tilings fit, {verdict.priced:,} of them priced by the checker"
            )

        return Problem(numbers, tuple(layers[one].name for one in numbers), _read, judged)

    problems = {digest: problem(numbers) for digest, numbers in groups.items()}
    checked = f"{printable(nests.name, 80)} with this machine, mode and objective"
    return check_proofs(file, problems, checked, "the network, the layers and the machine", progress)


def _read(part: JsonPart) -> Certificate:
    return certificate_from(part.fields(("layers", *FIELDS)))
