"""The text of an instance's or a solution's file."""

import stat
from pathlib import Path

from tilestitch.errors import InputError, printable

MAX_FILE_BYTES = 16 * 2**20


def file_text(path: Path) -> str:
    """What stands in the file. Raises `InputError` where it cannot be read, is no file, is too long or is no text."""
    where = printable(str(path))
    try:
        if stat.S_ISFIFO(path.stat().st_mode):
            raise InputError(f"{where}: expected a JSON file, found a pipe; write it to a file")
        with open(path, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{where}: expected a readable JSON file, found: {reason}") from None
    if len(content) > MAX_FILE_BYTES:
        raise InputError(f"{where}: expected at most {MAX_FILE_BYTES:,} bytes, found more")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{where}: line {line}: expected UTF-8 text, found the byte 0x{content[error.start]:02x}"
        ) from None
