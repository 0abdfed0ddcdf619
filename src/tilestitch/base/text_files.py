"""The text of a file that a user names."""

import os
import stat
from pathlib import Path

from tilestitch.base.errors import InputError, printable

MAX_JSON_BYTES = 16 * 2**20


def file_text(
    path: str | Path, kind: str, most_bytes: int, *, subject: str = "", missing: str = "", advice: str = ""
) -> str:
    """What stands in a file of some `kind`: YAML, JSON.

    Raises `InputError` where it cannot be read, is a pipe, has more than `most_bytes` or is no UTF-8: of `subject`, by
    default its path. `missing` is said instead where there is no such file, `advice` where it is too long.
    """
    where = printable(str(path))
    subject = subject or where
    try:
        if stat.S_ISFIFO(os.stat(path).st_mode):
            raise InputError(f"{subject}: expected a {kind} file, found a pipe; write it to a file")
        with open(path, "rb") as file:
            content = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        if missing and isinstance(error, FileNotFoundError):
            raise InputError(f"{subject}: {missing}") from None
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{subject}: expected a readable {kind} file, found: {reason}") from None
    if len(content) > most_bytes:
        raise InputError(f"{where}: expected at most {most_bytes:,} bytes, found more{advice}")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{where}: line {line}: expected UTF-8 text, found the byte 0x{content[error.start]:02x}; save it as UTF-8"
        ) from None
