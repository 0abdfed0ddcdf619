"""Files of certificates of layers on a machine tree: one for each different problem, with the layers that it is of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tilestitch.base.errors import InputError, printable
from tilestitch.base.json_text import JsonPart
from tilestitch.base.progress import Progress, quiet
from tilestitch.base.units import counted
from tilestitch.commands.map.proof_files import Problem, check_proofs, grouped, proofs_text, read_proofs
from tilestitch.commands.map.tree_run import MappedOnTree, TreeMappings, TreeTask, placed_layers
from tilestitch.ir.choices import Objective
from tilestitch.mapping.optimum import UNITS, value_text
from tilestitch.mapping.tree.bound import wired
from tilestitch.mapping.tree.certificate import (
    FIELDS,
    OPTIONAL,
    TreeCertificate,
    certificate_from,
    certificate_json,
    certificate_of,
    problem_digest,
)
from tilestitch.mapping.tree.checking import check_certificate
from tilestitch.mapping.tree.choices import SpatialSpace
from tilestitch.mapping.tree.claim import Verdict
from tilestitch.mapping.tree.free_certificate import (
    FREE_FIELDS,
    FREE_OPTIONAL,
    FreeCertificate,
    free_certificate_from,
    free_certificate_json,
    free_certificate_of,
    free_digest,
)
from tilestitch.mapping.tree.free_checking import check_free_certificate
from tilestitch.mapping.tree.front_certificate import (
    FREE_FRONT_FIELDS,
    FRONT_FIELDS,
    FreeFrontCertificate,
    FrontCertificate,
    free_front_certificate_of,
    free_front_from,
    free_front_json,
    front_certificate_of,
    front_from,
    front_json,
)
from tilestitch.mapping.tree.front_checking import check_free_front, check_front
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.tables import Sums

Proof: TypeAlias = TreeCertificate | FreeCertificate | FrontCertificate | FreeFrontCertificate


@dataclass(frozen=True, slots=True)
class _Problem:
    """What is to be proven of some layers, by their numbers and names; of a space all ways to spread the first."""

    placements: tuple[PlacedNest, ...]
    space: SpatialSpace | None
    numbers: tuple[int, ...]
    names: tuple[str, ...]

    def certificate(self, layer: MappedOnTree, objective: Objective) -> Proof:
        bare, space = self.placements[0], self.space
        if layer.more_than:
            raise InputError(
                f"--certificate: layer {printable(layer.name)} has more than {layer.more_than:,} choices of what to "
                "spread, of which not all were searched; name loops for some axes, or leave out --certificate"
            )
        if objective is Objective.PARETO and space is not None:
            return free_front_certificate_of(bare, space, layer.front)
        if objective is Objective.PARETO:
            return front_certificate_of(self.placements, layer.front)
        if space is not None:
            return free_certificate_of(bare, space, layer.found, objective)
        return certificate_of(self.placements, layer.found, objective)

    def read(self, part: JsonPart, objective: Objective) -> Proof:
        bare = self.placements[0]
        if objective is Objective.PARETO and self.space is not None:
            return free_front_from(part.fields(("layers", *FREE_FRONT_FIELDS)), bare)
        if objective is Objective.PARETO:
            return front_from(part.fields(("layers", *FRONT_FIELDS)), bare)
        if self.space is not None:
            return free_certificate_from(part.fields(("layers", *FREE_FIELDS), FREE_OPTIONAL), bare)
        return certificate_from(part.fields(("layers", *FIELDS), OPTIONAL), bare)

    def verdict(self, certificate: Proof, sums: Sums, objective: Objective) -> Verdict:
        if isinstance(certificate, TreeCertificate):
            return check_certificate(certificate, self.placements, sums, objective)
        if isinstance(certificate, FrontCertificate):
            return check_front(certificate, self.placements, sums)
        assert self.space is not None
        if isinstance(certificate, FreeFrontCertificate):
            return check_free_front(certificate, self.placements[0], self.space, sums)
        return check_free_certificate(certificate, self.placements[0], self.space, sums, objective)


def _json(certificate: Proof, placed: PlacedNest) -> dict[str, Any]:
    """A certificate as an object of JSON."""
    if isinstance(certificate, FreeCertificate):
        return free_certificate_json(certificate, placed)
    if isinstance(certificate, FreeFrontCertificate):
        return free_front_json(certificate, placed)
    if isinstance(certificate, FrontCertificate):
        return front_json(certificate, placed)
    return certificate_json(certificate, placed)


@dataclass(frozen=True, slots=True)
class TreeProof:
    """A certificate, and the layers that it is of by their numbers and names."""

    numbers: tuple[int, ...]
    names: tuple[str, ...]
    placed: PlacedNest  # any of the ways to spread loops
    certificate: Proof

    @property
    def choices(self) -> int:
        """How many ways to spread loops, and to let windows slide, there are."""
        choices = self.certificate.choices
        return choices if isinstance(choices, int) else len(choices)

    @property
    def opened(self) -> int:
        """How many of them their bounds do not settle."""
        one = self.certificate
        if isinstance(one, FreeCertificate | FreeFrontCertificate):
            return sum(block.opened for block in one.blocks)
        return sum(choice.is_opened for choice in one.choices)


def tree_certificates(mapped: TreeMappings) -> tuple[TreeProof, ...]:
    """The certificates of a run, each different one once. `InputError` where a search stopped or nothing fits."""
    if mapped.unmapped:
        name = printable(mapped.unmapped[0].name)
        raise InputError(f"--certificate: layer {name} has no mapping to prove; name the others with --layer")
    return tuple(
        TreeProof(
            one.numbers,
            one.names,
            one.placements[0],
            one.certificate(mapped.layers[one.numbers[0]], mapped.objective),
        )
        for one in _problems(mapped.task, mapped.sums, mapped.objective).values()
    )


def tree_certificates_json(mapped: TreeMappings, proofs: Sequence[TreeProof]) -> str:
    """The file of the certificates of a run."""
    rows = ((one.names, _json(one.certificate, one.placed)) for one in proofs)
    return proofs_text(mapped.objective, "sums", mapped.sums, rows)


def check_tree_certificates(
    text: str,
    where: str,
    task: TreeTask,
    sums: Sums | None = None,
    objective: Objective | None = None,
    progress: Progress = quiet,
) -> str:
    """Check the certificate of every layer; a line for each. `InputError` that says what is wrong.

    `sums` and `objective` are those that are expected; None: whatever the file says.
    """
    file = read_proofs(text, where, UNITS, objective, "sums", Sums, sums)

    def problem(one: _Problem) -> Problem[Proof]:
        def read(part: JsonPart) -> Proof:
            return one.read(part, file.objective)

        def judged(proof: Proof) -> str:
            return _said(proof, one.verdict(proof, file.asked, file.objective), file.objective, file.asked)

        return Problem(one.numbers, one.names, read, judged)

    problems = {digest: problem(one) for digest, one in _problems(task, file.asked, file.objective).items()}
    fixed, named = "spatial mapping", "the workload, the layers, the machine and the spatial mapping"
    if task.space is not None:
        fixed = "choices of what is spread"
        named = "the workload, the layers, the machine and the options of what is spread"
    checked = f"{printable(task.name, 80)} with this machine, {fixed}, objective and width of sums"
    return check_proofs(file, problems, checked, named, progress)


def claimed_text(objective: Objective, proof: Proof) -> str:
    """What a proof says of a layer: of its least value, or of its front from the first point to the last."""
    if isinstance(proof, TreeCertificate | FreeCertificate):
        return f"no mapping has less {objective} than {value_text(objective, proof.value)}"
    ends = [f"{one.energy_fj:,} fJ in {one.cycles:,} cycles" for one in (proof.points[0], proof.points[-1])]
    points, reach = counted(len(proof.points), "mapping"), " to ".join(dict.fromkeys(ends))
    return f"no mapping is missing on its front of {points}, {reach}, and none of them beats another"


def _said(proof: Proof, verdict: Verdict, objective: Objective, sums: Sums) -> str:
    ways = "1 way to spread loops" if verdict.choices == 1 else f"{verdict.choices:,} ways to spread loops"
    of_which = ""
    if isinstance(proof, FreeCertificate):
        of_which = " for that of the mapping"
    elif isinstance(proof, FreeFrontCertificate):
        of_which = " for those of the front" if len(proof.taken) > 1 else " for that of the front"
    chains = f", with {verdict.chains:,} chains{of_which} if no memory is shared" if verdict.chains else ""
    return (
        f"{claimed_text(objective, proof)} (sums {sums}, estimated); {ways}, "
        f"{verdict.opened:,} opened{chains}; {verdict.labels:,} labels of the checker"
    )


def _problems(task: TreeTask, sums: Sums, objective: Objective) -> dict[str, _Problem]:
    """Every different problem of a task by its digest, with its layers, in the order of the workload."""
    placed = [placements for placements, _ in placed_layers(task)]
    spaces = [None if task.space is None else wired(one[0], task.space) for one in placed]
    digests = [
        problem_digest(placements, sums, objective)
        if space is None
        else free_digest(placements[0], space, sums, objective)
        for placements, space in zip(placed, spaces, strict=True)
    ]
    return {
        problem: _Problem(
            placed[numbers[0]],
            spaces[numbers[0]],
            numbers,
            tuple(task.layers[one].nest.name for one in numbers),
        )
        for problem, numbers in grouped(digests).items()
    }
