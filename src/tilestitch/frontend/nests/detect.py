"""Which format a text of nests or of a mapping is in, by what it looks like."""

import re

from tilestitch.errors import InputError
from tilestitch.frontend.nests.dmazerunner import dmazerunner_layers, dmazerunner_mapping
from tilestitch.frontend.nests.einsum import einsum_nest
from tilestitch.frontend.nests.timeloop import timeloop_problem
from tilestitch.frontend.nests.timeloop_mapping import timeloop_mapping
from tilestitch.frontend.nests.zigzag import zigzag_layers
from tilestitch.frontend.nests.zigzag_mapping import zigzag_mapping
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.hardware.timeloop_yaml import TimeloopTargets
from tilestitch.ir.loop_nest import LoopMapping, LoopNest

_EINSUM = re.compile(r"\s*\w+\s*\[[^]:]*\]\s*\+?=", re.ASCII)
_ENTRY = re.compile(r"^(?:- |\[)", re.MULTILINE)  # of a YAML list
_OWN_TARGETS = TimeloopTargets("DRAM", "scratchpad", "registers", ("PE",))  # in the files that are written here


def read_nests(text: str, where: str, name: str = "nest") -> list[tuple[LoopNest, int]]:
    """The nests of a text, with how often each is there.

    Lines of einsum, one nest each; JSON is dMazeRunner's, a YAML list is ZigZag's, another YAML Timeloop's.
    """
    lines = [(at, line) for at, line in enumerate(text.splitlines(), 1) if line.strip() and not _is_comment(line)]
    if not lines:
        raise InputError(f"{where}: expected loop nests, found an empty text")
    if _EINSUM.match(lines[0][1]) is not None:
        many = len(lines) > 1
        return [(einsum_nest(line, f"{where}, line {at}" if many else name), 1) for at, line in lines]
    if lines[0][1].lstrip().startswith("{"):
        return dmazerunner_layers(text, where)
    if _ENTRY.match(lines[0][1]) is not None:
        return [(nest, 1) for nest in zigzag_layers(text, where)]
    return [(timeloop_problem(text, where, name), 1)]


def read_mapping(
    text: str, nest: LoopNest, machine: ArrayMachine, where: str, targets: TimeloopTargets | None = None
) -> LoopMapping:
    """The mapping of a nest in a text: as dMazeRunner prints it, ZigZag's YAML list, or Timeloop's YAML.

    `targets` are the names in Timeloop's architecture, by default those that we write.
    """
    lines = [line for line in text.splitlines() if line.strip() and not _is_comment(line)]
    if not lines:
        raise InputError(f"{where}: expected a mapping, found an empty text")
    if lines[0].startswith(("(", "Tiling factors")):
        return dmazerunner_mapping(text, nest, where)
    if _ENTRY.match(lines[0]) is not None:
        return zigzag_mapping(text, nest, machine, where)
    return timeloop_mapping(text, nest, targets if targets is not None else _OWN_TARGETS, where)


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")
