"""Files of proofs: one for each different problem, found by its digest, and every layer has one."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from tilestitch.base.errors import InputError, printable
from tilestitch.base.json_text import JsonPart, Rows, document_text, json_fields, json_value
from tilestitch.base.progress import Progress
from tilestitch.ir.choices import Objective
from tilestitch.mapping.optimum import UNITS

FORMAT = "tilestitch.certificates"
VERSION = 3

Proof = TypeVar("Proof")
Asked = TypeVar("Asked", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Problem(Generic[Proof]):
    """What is to be proven of some layers, by their numbers and names, and how proofs of it are read and judged."""

    numbers: tuple[int, ...]
    names: tuple[str, ...]
    read: Callable[[JsonPart], Proof]
    judged: Callable[[Proof], str]  # what is proven, as a line says it; InputError where that is wrong


@dataclass(frozen=True, slots=True)
class ProofFile(Generic[Asked]):
    """A file of proofs: of which objective they are, what else was asked for, and the proofs."""

    where: str
    objective: Objective
    asked: Asked
    proofs: JsonPart


def grouped(digests: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The numbers of the layers that have the same problem, in the order of the layers."""
    found: dict[str, list[int]] = {}
    for number, problem in enumerate(digests):
        found.setdefault(problem, []).append(number)
    return {problem: tuple(numbers) for problem, numbers in found.items()}


def proofs_text(
    objective: Objective, option: str, asked: StrEnum, proofs: Iterable[tuple[Sequence[str], Mapping[str, Any]]]
) -> str:
    """The file of some proofs, each with the names of its layers; `option` says what else was asked for."""
    rows = Rows([{"layers": names, **proof} for names, proof in proofs])
    return document_text(
        FORMAT, VERSION, {"objective": objective, "unit": UNITS[objective], option: asked, "proofs": rows}
    )


def read_proofs(
    text: str,
    where: str,
    objectives: Iterable[Objective],
    objective: Objective | None,
    option: str,
    choices: Iterable[Asked],
    asked: Asked | None,
) -> ProofFile[Asked]:
    """Read what `proofs_text` wrote. `InputError` where it is something else than the options say that are given."""
    found = json_fields(
        JsonPart(json_value(text, where), where), FORMAT, VERSION, ("objective", "unit", option, "proofs")
    )
    claimed = found["objective"].choice({str(one): one for one in objectives})
    found["unit"].choice({UNITS[claimed]: None})
    other = found[option].choice({str(one): one for one in choices})
    _expect_asked("objective", claimed, objective, where)
    _expect_asked(option, other, asked, where)
    return ProofFile(where, claimed, other, found["proofs"])


def check_proofs(
    file: ProofFile[Asked], problems: Mapping[str, Problem[Proof]], checked: str, named: str, progress: Progress
) -> str:
    """Judge the proof of every problem; a line for each layer. `InputError` that says what is wrong.

    There is one proof for each problem, and none of anything else than what is `checked`; `named` is what makes another
    problem.
    """
    proofs: dict[str, Proof] = {}
    for part in file.proofs.items("proofs"):
        entries = part.entries()
        if "problem" not in entries:
            part.refuse("the field problem is missing")
        problem = entries["problem"].text()
        if problem not in problems:
            part.refuse(
                f"proves nothing that is checked: no layer of {checked} has the problem {printable(problem, 40)}; name "
                f"{named} with which it was written"
            )
        if problem in proofs:
            part.refuse(f"is a second proof of the problem {problem}; keep one")
        names = problems[problem].names
        proofs[problem] = problems[problem].read(part)
        if sorted(entries["layers"].texts("names of layers")) != sorted(names):
            shown = printable(", ".join(names), 200)
            entries["layers"].refuse(f"expected the layers that have this problem: {shown}")
    lines: dict[int, str] = {}
    for done, (problem, one) in enumerate(problems.items()):
        progress(f"check {one.names[0]}", done, len(problems))
        if problem not in proofs:
            raise InputError(
                f"{file.where}: there is no certificate for layer {one.names[0]!r}; write one with --certificate"
            )
        said = one.judged(proofs[problem])
        for number, name in zip(one.numbers, one.names, strict=True):
            lines[number] = f"{name}: proven: {said}"
    return "\n".join(lines[number] for number in sorted(lines))


def _expect_asked(option: str, claimed: str, asked: str | None, where: str) -> None:
    """Refuse an option that says something else than a file of proofs."""
    if asked is not None and asked != claimed:
        raise InputError(f"--{option} {asked}: the proofs in {where} are of {option} {claimed}; leave out --{option}")
