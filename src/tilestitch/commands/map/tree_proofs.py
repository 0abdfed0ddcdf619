"""Files of certificates of layers on a machine tree: one for each different problem, with the layers that it is of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilestitch.base.errors import InputError, printable
from tilestitch.base.json_text import JsonPart, Rows, document_text, json_fields, json_value
from tilestitch.base.progress import Progress, quiet
from tilestitch.commands.map.proof_files import expect_asked, expect_layers, expect_new, no_proof, proof_of_nothing
from tilestitch.commands.map.tree_run import TreeMappings, TreeTask, placed_layers
from tilestitch.ir.choices import Objective, TreeObjective
from tilestitch.mapping.tree.certificate import (
    FIELDS,
    PROVABLE,
    UNITS,
    TreeCertificate,
    certificate_from,
    certificate_json,
    certificate_of,
    problem_digest,
)
from tilestitch.mapping.tree.checking import Verdict, check_certificate
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.tables import Sums

FORMAT = "tilestitch.tree-certificates"
VERSION = 1
_HEAD = ("objective", "unit", "sums", "proofs")


@dataclass(frozen=True, slots=True)
class TreeClaimed:
    """What a file of certificates says of all of them; None: whatever it is."""

    sums: Sums | None = None
    objective: TreeObjective | None = None


@dataclass(frozen=True, slots=True)
class _Problem:
    """What is to be proven of some layers, by their numbers and names."""

    placements: tuple[PlacedNest, ...]
    numbers: tuple[int, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TreeProof:
    """A certificate, and the layers that it is of by their numbers and names."""

    numbers: tuple[int, ...]
    names: tuple[str, ...]
    placed: PlacedNest  # any of the ways to spread loops
    certificate: TreeCertificate


def tree_certificates(mapped: TreeMappings, objective: Objective = Objective.ENERGY) -> tuple[TreeProof, ...]:
    """The certificates of a run, each different one once. `InputError` where a search stopped or nothing fits."""
    if mapped.unmapped:
        name = printable(mapped.unmapped[0].name)
        raise InputError(f"--certificate: layer {name} has no mapping to prove; name the others with --layer")
    return tuple(
        TreeProof(
            one.numbers,
            one.names,
            one.placements[0],
            certificate_of(one.placements, mapped.layers[one.numbers[0]].found, objective),
        )
        for one in _problems(mapped.task, mapped.sums, objective).values()
    )


def tree_certificates_json(
    mapped: TreeMappings, proofs: Sequence[TreeProof], objective: Objective = Objective.ENERGY
) -> str:
    """The file of the certificates of a run."""
    rows: list[dict[str, Any]] = [
        {"layers": one.names, **certificate_json(one.certificate, one.placed)} for one in proofs
    ]
    head = {"objective": objective, "unit": UNITS[objective], "sums": mapped.sums}
    return document_text(FORMAT, VERSION, {**head, "proofs": Rows(rows)})


def check_tree_certificates(
    text: str, where: str, task: TreeTask, asked: TreeClaimed = TreeClaimed(), progress: Progress = quiet
) -> str:
    """Check the certificate of every layer; a line for each. `InputError` that says what is wrong.

    A proof is found by the digest of its problem. There is one for each layer, and none of anything else.
    """
    found = json_fields(JsonPart(json_value(text, where), where), FORMAT, VERSION, _HEAD)
    objective = found["objective"].choice({str(one): one for one in PROVABLE})
    found["unit"].choice({UNITS[objective]: None})
    sums = found["sums"].choice({str(one): one for one in Sums})
    expect_asked("objective", objective, asked.objective, where)
    expect_asked("sums", sums, asked.sums, where)
    problems = _problems(task, sums, objective)
    proofs: dict[str, TreeCertificate] = {}
    for part in found["proofs"].items("proofs"):
        proof = part.fields(("layers", *FIELDS))
        problem = proof["problem"].text()
        if problem not in problems:
            checked = f"{printable(task.name, 80)} with this machine, spatial mapping, objective and width of sums"
            proof_of_nothing(part, checked, problem, "the workload, the layers, the machine and the spatial mapping")
        expect_new(part, problem, proofs)
        expect_layers(proof, problems[problem].names)
        proofs[problem] = certificate_from(proof, problems[problem].placements[0])
    lines: dict[int, str] = {}
    for done, (problem, one) in enumerate(problems.items()):
        progress(f"check {one.names[0]}", done, len(problems))
        if problem not in proofs:
            raise no_proof(where, one.names[0])
        verdict = check_certificate(proofs[problem], one.placements, sums, objective)
        for number, name in zip(one.numbers, one.names, strict=True):
            lines[number] = _line(name, proofs[problem], verdict, objective, sums)
    return "\n".join(lines[number] for number in sorted(lines))


def _line(name: str, proof: TreeCertificate, verdict: Verdict, objective: Objective, sums: Sums) -> str:
    ways = "1 way to spread loops" if verdict.choices == 1 else f"{verdict.choices:,} ways to spread loops"
    return (
        f"{name}: proven: no mapping has less {objective} than {proof.value:,} fJ (sums {sums}, estimated); {ways}, "
        f"{verdict.opened:,} opened, with {verdict.chains:,} chains if no memory is shared; "
        f"{verdict.labels:,} labels of the checker"
    )


def _problems(task: TreeTask, sums: Sums, objective: Objective) -> dict[str, _Problem]:
    """Every different problem of a task by its digest, with its layers, in the order of the workload."""
    layers: dict[str, list[int]] = {}
    placed = [placements for placements, _ in placed_layers(task)]
    for number, placements in enumerate(placed):
        layers.setdefault(problem_digest(placements, sums, objective), []).append(number)
    return {
        problem: _Problem(placed[numbers[0]], tuple(numbers), tuple(task.layers[one].nest.name for one in numbers))
        for problem, numbers in layers.items()
    }
