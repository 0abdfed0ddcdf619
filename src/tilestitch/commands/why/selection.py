"""What of a run is looked at: an operator, a kernel, a piece, a sub-graph, or a range of cycles."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np

from tilestitch.base.errors import InputError, printable
from tilestitch.ir.gap import Blame, Gap
from tilestitch.ir.schedule import PieceRun

KINDS = ("operator", "kernel", "piece", "sub-graph")
FORM = "operator=NAME, kernel=NAME, piece=NAME, sub-graph=NAME or cycles=FIRST:LAST"


class Selection(NamedTuple):
    """Some instructions, or a range of cycles, and their gap."""

    gap: Gap
    instructions: np.ndarray  # true for those that are chosen
    cycles: tuple[int, int] | None  # the first, and the one behind the last


def selected(blame: Blame, pieces: Sequence[PieceRun], asked: str) -> Selection:
    """What is asked for, the whole run where that is nothing; raises `InputError` where there is no such thing."""
    every = np.ones(len(blame.program), bool)
    if not asked:
        return Selection(blame.whole(), every, None)
    kind, equals, name = asked.partition("=")
    if equals and kind == "cycles":
        cycles = _range(blame, name)
        return Selection(blame.between(*cycles), every, cycles)
    if not equals or kind not in KINDS:
        raise InputError(f"select {printable(asked, 80)}: expected {FORM}")
    labels, names = labels_of(kind, blame, pieces)
    if name not in names:
        found = printable(name, 80)
        if not names:
            raise InputError(f"select {kind}={found}: no sub-graph of this run is cut into pieces; expected {FORM}")
        near = get_close_matches(name, names, 1, 0.0)[0]
        raise InputError(
            f"select {kind}={found}: there is none with that name; the closest of {len(names):,} is {near}"
        )
    chosen = labels == names.index(name)
    return Selection(blame.of(f"{kind} {name}", chosen), chosen, None)


def labels_of(kind: str, blame: Blame, pieces: Sequence[PieceRun]) -> tuple[np.ndarray, tuple[str, ...]]:
    """For each instruction the number of its operator, kernel, piece or sub-graph, or -1; and their names."""
    program = blame.program
    if kind == "operator":
        return blame.owner, program.operators
    if kind == "kernel":
        return program.kernel, program.kernels
    names = tuple(dict.fromkeys(_name(kind, piece) for piece in pieces))
    of_kernel = np.full(len(program.kernels), -1, np.int64)
    for piece in pieces:
        of_kernel[piece.first : piece.last + 1] = names.index(_name(kind, piece))
    return of_kernel[program.kernel], names


def _name(kind: str, piece: PieceRun) -> str:
    return piece.name if kind == "piece" else piece.name.rstrip("0123456789")


def _range(blame: Blame, text: str) -> tuple[int, int]:
    """The first cycle, and the one behind the last."""
    ends = (int(rows.end_ticks.max(initial=0)) for rows in (blame.waits, blame.busy))
    total = max(ends) // blame.ticks_per_cycle
    found = re.fullmatch(r"([0-9]{1,15}):([0-9]{1,15})", text, re.ASCII)
    if found is None or not int(found[1]) <= int(found[2]) < total:
        shown = printable(text, 60)
        raise InputError(
            f"select cycles={shown}: expected FIRST:LAST, two cycles in ascending order, 0 to {total - 1:,}"
        )
    return int(found[1]), int(found[2]) + 1
