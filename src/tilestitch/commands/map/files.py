"""Found mappings as files of other programs."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from tilestitch.formats.accelforge.written_mapping import accelforge_files
from tilestitch.formats.timeloop.written_mapping import timeloop_files
from tilestitch.formats.zigzag.written_mapping import zigzag_files
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.loop_nest import LoopMapping, LoopNest

_WRITERS = {"zigzag": zigzag_files, "timeloop": timeloop_files, "accelforge": accelforge_files}


def mapping_files(
    program: str, machine: ArrayMachine, found: Sequence[tuple[LoopNest, LoopMapping]]
) -> list[tuple[str, str]]:
    """Paths and texts: of several layers each in a folder of its own, by its number and name."""
    files = []
    for number, (nest, mapping) in enumerate(found, 1):
        name = f"{number:02d}-{re.sub('[^A-Za-z0-9_.-]+', '-', nest.name)[:80]}"
        folder = PurePosixPath() if len(found) == 1 else PurePosixPath(name)
        written = _WRITERS[program](nest, machine, mapping)
        files += [(str(folder / file), text) for file, text in written.items()]
    return files
