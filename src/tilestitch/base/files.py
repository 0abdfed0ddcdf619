"""Output files that are whole or absent, never cut off."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tilestitch.base.errors import InputError, printable
from tilestitch.base.interruption import undisturbed


def expect_writable(path: Path) -> None:
    """Refuse, before the work, a file whose folder could not be made or written to after it."""
    if path.is_dir():
        raise InputError(f"{_shown(path)}: is a folder; expected the path of a file")
    expect_folder(path.parent)


def expect_folder(folder: Path) -> None:
    """Refuse, before the work, a folder that could not be made or written to after it."""
    shown, way_out = _shown(folder), "choose another path"
    try:
        place = folder.resolve()
        there = next(place for place in (place, *place.parents) if place.exists())
    except (OSError, RuntimeError, ValueError) as error:  # a name too long, a loop of links, a NUL character
        reason = error.strerror if isinstance(error, OSError) else printable(str(error))
        raise InputError(f"{shown}: cannot be a folder ({reason}); {way_out}") from None
    if not there.is_dir():
        raise InputError(f"{shown}: cannot be written, because {_shown(there)} is not a folder; {way_out}")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{shown}: cannot be written (no permission to write in {_shown(there)}); {way_out}")


def expect_empty(folder: Path) -> None:
    """Refuse, before the work, a folder that could not be written, or in which something is already."""
    expect_folder(folder)
    if folder.is_dir() and (there := min((path.name for path in folder.iterdir()), default="")):
        raise InputError(
            f"{_shown(folder)}: is not empty (it has {printable(there)}), and old files would lie among new ones; "
            "empty it, or choose another path"
        )


def expect_other(path: Path, source: str | Path) -> None:
    """Refuse, before the work, an output that would take the place of an input."""
    with suppress(OSError, ValueError):  # one of them is no file
        if path.samefile(source):
            raise InputError(f"{_shown(path)}: is read as an input, and would be overwritten; choose another path")


def expect_beside(option: str, path: Path, json_path: Path | None, sources: Sequence[str | Path]) -> None:
    """Refuse, before the work, a file of `option` that could not be written, or is that of --json or an input."""
    expect_writable(path)
    if json_path is not None and path.resolve() == json_path.resolve():
        raise InputError(f"{option} and --json both name {path.name}; choose two different paths")
    for source in sources:
        expect_other(path, source)


def write_files(files: Sequence[tuple[Path, bytes]]) -> None:
    """Write all of the files or none, each of them at once in its place; folders are made where they are missing.

    Every file is written under another name in its folder first. Raises `InputError` where that fails; folders that
    were made are then gone again. An interruption waits until every file is in its place.
    """
    _expect_places([path for path, _ in files])
    staged: list[tuple[Path, Path]] = []
    made: list[Path] = []
    try:
        for path, content in files:
            try:
                _stage(path, content, staged, made)
            except OSError as error:
                raise _unwritable(path, error) from None
        with undisturbed():
            for temporary, path in staged:
                try:
                    os.replace(temporary, path)
                except OSError as error:
                    raise _unwritable(path, error) from None
            made.clear()
    finally:
        for temporary, _ in staged:
            temporary.unlink(missing_ok=True)
        for folder in reversed(made):
            with suppress(OSError):  # somebody else may have put something there
                folder.rmdir()


def _expect_places(paths: Sequence[Path]) -> None:
    """Refuse folders in the place of files, and two files in one place, before any is written."""
    seen: set[Path] = set()
    for path in paths:
        try:
            place = path.resolve()
            if place.is_dir():
                raise InputError(f"{_shown(path)}: a folder has that name; choose another path")
        except (OSError, RuntimeError) as error:
            raise _unwritable(path, error) from None
        if place in seen:
            raise InputError(f"{_shown(path)}: two files would be written there; choose two different paths")
        seen.add(place)


def _stage(path: Path, content: bytes, staged: list[tuple[Path, Path]], made: list[Path]) -> None:
    path = path.resolve()  # through a link, not in place of it
    if path.exists() and not path.is_file():
        path.write_bytes(content)  # a device or a pipe, which must not be replaced
        return
    _make_folder(path.parent, made)
    temporary = path.with_name(f".{path.name[:200]}.{os.getpid()}.tmp")
    staged.append((temporary, path))
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _make_folder(folder: Path, made: list[Path]) -> None:
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    for place in reversed(missing):
        made.append(place)  # first: an interruption may come right behind either
        place.mkdir(exist_ok=True)


def _unwritable(path: Path, error: Exception) -> InputError:
    reason = error.strerror if isinstance(error, OSError) else printable(str(error))
    return InputError(f"{_shown(path)}: cannot be written ({reason}); choose another path, or free some space")


def _shown(path: Path) -> str:
    return printable(str(path))
