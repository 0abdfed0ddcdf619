"""What files of proofs have in common: a proof is found by the digest of its problem, and every layer has one."""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from tilestitch.base.errors import InputError, printable
from tilestitch.base.json_text import JsonPart


def expect_asked(option: str, claimed: str, asked: str | None, where: str) -> None:
    """Refuse an option that says something else than a file of proofs."""
    if asked is not None and asked != claimed:
        raise InputError(f"--{option} {asked}: the proofs in {where} are of {option} {claimed}; leave out --{option}")


def proof_of_nothing(part: JsonPart, checked: str, problem: str, named: str) -> NoReturn:
    """Refuse a proof that no layer has."""
    part.refuse(
        f"proves nothing that is checked: no layer of {checked} has the problem {printable(problem, 40)}; name "
        f"{named} with which it was written"
    )


def expect_new(part: JsonPart, problem: str, known: Mapping[str, object]) -> None:
    """Refuse a second proof of one problem."""
    if problem in known:
        part.refuse(f"is a second proof of the problem {problem}; keep one")


def expect_layers(proof: Mapping[str, JsonPart], names: Sequence[str]) -> None:
    """Refuse a proof that names other layers than those that have its problem."""
    if sorted(proof["layers"].texts("names of layers")) != sorted(names):
        proof["layers"].refuse(f"expected the layers that have this problem: {printable(', '.join(names), 200)}")


def no_proof(where: str, name: str) -> InputError:
    """A layer that a file has no proof of."""
    return InputError(f"{where}: there is no certificate for layer {name!r}; write one with --certificate")
