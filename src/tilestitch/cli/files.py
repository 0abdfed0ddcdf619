"""Output files that are whole or absent, never cut off."""

import os
from collections.abc import Sequence
from pathlib import Path

from tilestitch.errors import InputError


def expect_writable(path: Path) -> None:
    """Refuse, before the work, a file whose folder could not be made or written to after it."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder; expected the path of a file")
    expect_folder(path.parent)


def expect_folder(folder: Path) -> None:
    """Refuse, before the work, a folder that could not be made or written to after it."""
    try:
        place = folder.resolve()
        there = next(place for place in (place, *place.parents) if place.exists())
    except OSError as error:  # a name too long, a loop of links
        raise InputError(f"{folder}: cannot be a folder ({error.strerror})") from None
    if not there.is_dir():
        raise InputError(f"{folder}: cannot be written, because {there} is not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{folder}: cannot be written (no permission to write in {there}); choose another place")


def write_files(files: Sequence[tuple[Path, bytes]]) -> None:
    """Write all of the files or none, each of them at once in its place; folders are made where they are missing.

    Every file is written under another name in its folder first. Raises `InputError` where that fails.
    """
    staged: list[tuple[Path, Path]] = []
    try:
        for path, content in files:
            try:
                _stage(path, content, staged)
            except OSError as error:
                raise InputError(f"{path}: cannot be written ({error.strerror})") from None
        for temporary, path in staged:
            try:
                os.replace(temporary, path)
            except OSError as error:
                raise InputError(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        for temporary, _ in staged:
            temporary.unlink(missing_ok=True)


def _stage(path: Path, content: bytes, staged: list[tuple[Path, Path]]) -> None:
    path = path.resolve()  # through a link, not in place of it
    if path.exists() and not path.is_file() and not path.is_dir():
        path.write_bytes(content)  # a device or a pipe, which must not be replaced
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    staged.append((temporary, path))
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
