"""Mappings found on trees as files of other programs."""

import re
from pathlib import PurePosixPath

from tilestitch.base.errors import InputError
from tilestitch.commands.map.tree_run import MappedOnTree, TreeMappings
from tilestitch.formats.accelforge.written_tree import accelforge_tree_files
from tilestitch.formats.timeloop.written_tree import timeloop_tree_files
from tilestitch.formats.zigzag.written_tree import zigzag_tree_files
from tilestitch.hardware.tree import MachineTree


def tree_mapping_files(program: str, mapped: TreeMappings) -> list[tuple[str, str]]:
    """Paths and texts: of several layers each in a folder of its own, by its number and name.

    Raises `InputError` for a mapping that the program has no words for; `expect_plain` has looked at the machine.
    """
    files: list[tuple[str, str]] = []
    for number, layer in enumerate(mapped.layers, 1):
        name = f"{number:02d}-{re.sub('[^A-Za-z0-9_.-]+', '-', layer.name)[:80]}"
        folder = PurePosixPath() if len(mapped.layers) == 1 else PurePosixPath(name)
        files += [(str(folder / file), text) for file, text in _written(program, layer).items()]
    return files


def expect_plain(program: str, tree: MachineTree) -> None:
    """Refuse what no other program's file says as ours does."""
    stated = (
        ("networks", any(axis.networks for axis in tree.axes)),
        ("sliding_window", program != "timeloop" and any(memory.has_sliding_window for memory in tree.memories)),
        ("storage: even", any(memory.has_even_storage for memory in tree.memories)),
        ("latches: false", program == "zigzag" and not tree.has_latches),  # the others have none
        ("moves_boxes", tree.moves_boxes),
        ("banks", any(memory.bank_bits for memory in tree.memories)),
    )
    found = ", ".join(field for field, is_there in stated if is_there)
    if found:
        raise InputError(f"{tree.name}: --emit {program} has no words for {found}; emit from a machine without")


def emitted_note(program: str, mapped: TreeMappings) -> str:
    """What the files cost otherwise in that program; nothing where all is as wide there as here."""
    placed = [layer.found.placed for layer in mapped.layers]
    if program == "zigzag" or all({a.element_bits for a in one.operands} == {one.final_bits} for one in placed):
        return ""
    words = "words of a memory are as wide as its widest operand" if program == "timeloop" else "sums have one width"
    return f"{program}: {words}, so these files cost more there than here, and may not fit"


def _written(program: str, layer: MappedOnTree) -> dict[str, str]:
    placed, mapping = layer.found.placed, layer.found.mapping
    match program:
        case "zigzag":
            return zigzag_tree_files(placed, mapping, layer.operator)
        case "timeloop":
            return timeloop_tree_files(placed, mapping)
        case _:
            return accelforge_tree_files(placed, mapping)
