"""How much memory there is, and what is known of an allocation that failed."""

import errno
import re
from pathlib import Path

from tilestitch.base.units import format_bytes

try:
    import resource
except ImportError:  # Windows
    resource = None

MEMINFO = Path("/proc/meminfo")  # Linux has them; elsewhere nothing is known
STATUS = Path("/proc/self/status")

_ASKED = re.compile(r"Unable to allocate ([\d.]+) ((?:[KMGTPE]i)?B)")  # numpy
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_FAILED = re.compile(  # what libraries say that have no MemoryError
    r"bad[_ ]alloc|[Cc]annot allocate memory|[Ff]ailed to allocate memory|can't start new thread|[Oo]ut of memory"
)


def available_bytes() -> int | None:
    """What this process can still take without swapping, within its limit of address space (`ulimit -v`)."""
    found = [bytes_ for bytes_ in (_kilobytes(MEMINFO, "MemAvailable"), _left_of_limit()) if bytes_ is not None]
    return min(found, default=None)


def is_shortage(error: BaseException) -> bool:
    """Whether an exception says that an allocation failed, a process or a thread among what was asked for."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and bool(_FAILED.search(str(error))))


def says_shortage(text: str) -> bool:
    """The same of the message of a library."""
    return bool(_FAILED.search(text))


def shortage_text(error: BaseException) -> str:
    """`out of memory: 3.10 GiB were asked for, and 1.20 GiB are available`, as far as that is known."""
    asked, available, limit = _asked_bytes(error), available_bytes(), _limit_bytes()
    parts = [] if asked is None else [f"{format_bytes(asked)} were asked for"]
    if available is not None and (asked is None or available < asked):  # else enough, but not in one piece
        parts.append(f"{format_bytes(available)} are available")
    known = ", and ".join(parts)
    of_all = "" if limit is None else f" (this process may take {format_bytes(limit)}: ulimit -v)"
    return f"out of memory{': ' if known else ''}{known}{of_all}"


def _asked_bytes(error: BaseException) -> int | None:
    asked = _ASKED.search(str(error))
    return None if asked is None else int(float(asked[1]) * 1024 ** _UNITS.index(asked[2]))


def _limit_bytes() -> int | None:
    """Of the address space, None where there is none."""
    if resource is None:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def _left_of_limit() -> int | None:
    limit, used = _limit_bytes(), _kilobytes(STATUS, "VmSize")
    return None if limit is None or used is None else max(0, limit - used)


def _kilobytes(file: Path, name: str) -> int | None:
    """An entry of one of the system's tables, in bytes."""
    try:
        found = re.search(rf"^{name}: *(\d+) kB$", file.read_text(), re.MULTILINE)
    except (OSError, MemoryError):
        return None
    return None if found is None else 1024 * int(found[1])
