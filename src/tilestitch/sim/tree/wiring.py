"""Which operator reads what others make, of operators that run together or one after another."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tilestitch.ir.loop_nest import LoopNest


@dataclass(frozen=True, slots=True)
class ChainLink:
    """Which read of an operator behind it is the result of one, where it stays, and what is done to it there.

    `passes` is how often each element is read and written in between, as softmax does along the axes `whole`. Where the
    next window finds what it has in common with this one, the innermost shared loop is that over windows, and so many
    tiles `ahead` are written before the first one is read; they are at home beside the one that is written. Results
    that are one and the same read are multiplied there, or added, element by element. What leaves goes out as well, for
    operators that run later.
    """

    read: int
    home: str
    shared: int  # loops, from the outermost, that the operator and the next one have in common
    passes: int = 0
    whole: frozenset[int] = frozenset()
    ahead: int | None = None
    is_factor: bool = False  # of results that meet
    leaves: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """An operator that reads the result of another: as which operand; as the last one it is added to its own result."""

    link: int
    reader: int
    read: int
    is_factor: bool = False  # whether results that meet there are multiplied, or else added


@dataclass(frozen=True)
class Wiring:
    """The links of all operators but the last: to the next one unless `readers` say otherwise; `more` read as well."""

    nests: tuple[LoopNest, ...]
    links: tuple[ChainLink, ...]
    readers: tuple[int, ...] = ()
    more: tuple[Reading, ...] = ()

    def reader(self, link: int) -> int:
        """The last operator that reads the result of one."""
        return self.readers[link] if self.readers else link + 1

    @cached_property
    def every(self) -> tuple[Reading, ...]:
        """All readings, in the order of what is read."""
        found = [
            *self.more,
            *(Reading(link, self.reader(link), one.read, one.is_factor) for link, one in enumerate(self.links)),
        ]
        return tuple(sorted(found, key=lambda one: (one.link, one.reader, one.read)))

    def readings(self, link: int) -> list[Reading]:
        """All that read the result of an operator, in their order."""
        return [one for one in self.every if one.link == link]

    def taken_by(self, number: int) -> list[Reading]:
        """What an operator reads of others and what is added to its result, in the order of these."""
        return [one for one in self.every if one.reader == number]

    def is_added(self, reading: Reading) -> bool:
        """Whether a result is added to that of its reader, or read by it."""
        return reading.read == len(self.nests[reading.reader].reads)

    def read_by(self, number: int) -> list[Reading]:
        """What an operator reads of others, in the order of these."""
        return [one for one in self.taken_by(number) if not self.is_added(one)]

    def fed(self, link: int) -> Reading:
        """The last operator that reads a result, not those to whose results it is added."""
        return [one for one in self.readings(link) if not self.is_added(one)][-1]

    def makers(self, reading: Reading) -> Sequence[int]:
        """The operators whose results meet in one operand, in their order."""
        key = reading.reader, reading.read
        return [one.link for one in self.every if (one.reader, one.read) == key]
