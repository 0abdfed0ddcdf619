"""The values of a parameter as a user writes them: a list such as `64,128,256`, or a range such as `64..256*2`."""

import re
from collections import Counter
from collections.abc import Sequence

from tilestitch.base.errors import InputError, printable

MAX_VALUES = 1000  # of one parameter
_WHOLE = "[1-9][0-9]{0,17}|0"
_RANGE = re.compile(rf"({_WHOLE})\.\.({_WHOLE})(?:([*+])({_WHOLE}))?")
_FORMS = "write values with commas between them, or a range: 64..256*2 is 64,128,256, and 2..8+2 is 2,4,6,8"


def values_of(text: str, where: str) -> tuple[str, ...]:
    """Each value once, in the order in which they stand; `where` begins an error."""
    found: list[str] = []
    for part in text.split(","):
        part = part.strip()
        if not part:
            raise InputError(f"{where}: expected values, found {printable(repr(text), 60)}; {_FORMS}")
        found += _range(part, where) if ".." in part else [part]
        if len(found) > MAX_VALUES:
            raise InputError(f"{where}: expected at most {MAX_VALUES:,} values, found more; take larger steps")
    return once(found, where)


def once(values: Sequence[str], where: str) -> tuple[str, ...]:
    """The same values, refused where one of them comes twice."""
    for value, count in Counter(values).items():
        if count > 1:
            raise InputError(f"{where}: the value {printable(value, 60)} appears twice; remove one")
    return tuple(values)


def _range(text: str, where: str) -> list[str]:
    shown = printable(text, 60)
    match = _RANGE.fullmatch(text)
    if match is None:
        raise InputError(f"{where}: expected a range of whole numbers, found '{shown}'; {_FORMS}")
    first, last, geometric = int(match[1]), int(match[2]), match[3] == "*"
    step = int(match[4] or 1)
    if last < first:
        raise InputError(f"{where}: the range {shown} ends before it begins; write the smaller number first")
    if step == 0 or (geometric and (step == 1 or first == 0)):
        raise InputError(f"{where}: the range {shown} never ends; {_FORMS}")
    found = []
    while first <= last and len(found) <= MAX_VALUES:
        found.append(str(first))
        first = first * step if geometric else first + step
    return found
