"""Products that read from one another, with their names."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilestitch.ir.loop_nest import LoopNest
from tilestitch.mapping.fused.chain import Chain, Link, Reading


@dataclass(frozen=True, slots=True)
class NamedChain:
    """Nests that read from one another, what they read, and what happens in between; how often they are there.

    Each but the last has one link, to the next one unless `readers` say otherwise; `more` are those that read the same
    result before that one.
    """

    names: tuple[str, ...]
    nests: tuple[LoopNest, ...]
    links: tuple[Link, ...]
    between: tuple[tuple[str, ...], ...]  # operators between two nests, by kind
    times: int = 1
    readers: tuple[int, ...] = ()
    more: tuple[Reading, ...] = ()

    @property
    def label(self) -> str:
        """The names with what reads what, as in `a > (b, c) > d`."""
        return graph_label(self.names, self)

    @property
    def readings(self) -> tuple[Reading, ...]:
        """All that is read, and what is added to results, in the order of what makes it."""
        last = zip(self.readers or range(1, len(self.names)), self.links, strict=True)
        every = [*self.more, *(Reading(at, to, link.read, link.is_factor) for at, (to, link) in enumerate(last))]
        return tuple(sorted(every, key=lambda one: (one.link, one.reader, one.read)))

    @property
    def added(self) -> tuple[Reading, ...]:
        """What is added to results."""
        return tuple(one for one in self.readings if one.read == len(self.nests[one.reader].reads))


def graph_label(names: Sequence[str], chain: NamedChain | Chain | None = None) -> str:
    """Operators with what reads what: `a > b` in a row, `(a, b) > c` where one reads the results of several.

    Where several read a result its operator is named again: `(a > b, a > c) > d`. What is added to results is left out.
    """
    if chain is None:
        return " > ".join(names)
    added, told, named = chain.added, list[str](), set[int]()
    for number, name in enumerate(names):
        links = sorted({one.link for one in chain.readings if one.reader == number and one not in added})
        before = [names[link] if link in named else told[link] for link in links]
        named.update(links)
        together = before[0] if len(before) == 1 else f"({', '.join(before)})"
        told.append(f"{together} > {name}" if before else name)
    return told[-1]


def divided(chain: NamedChain) -> list[tuple[NamedChain, tuple[int, ...]]]:
    """What is left of a chain if nothing that several read stays inside: parts, with the numbers of their operators.

    Nothing where no result is read by several.
    """
    if not chain.more:
        return []
    cut = {one.link for one in chain.more}
    parts: list[list[int]] = []
    for number in range(len(chain.names)):
        before = {one.link for one in chain.readings if one.reader == number and one.link not in cut}
        inside = [part for part in parts if before & {*part}]
        parts = [part for part in parts if part not in inside]
        parts.append(sorted([*(one for part in inside for one in part), number]))
    found: list[tuple[NamedChain, tuple[int, ...]]] = []
    for part in parts:
        readers = tuple(part.index(chain.readers[number]) for number in part[:-1])
        one = NamedChain(
            tuple(chain.names[number] for number in part),
            tuple(chain.nests[number] for number in part),
            tuple(chain.links[number] for number in part[:-1]),
            tuple(chain.between[number] for number in part[:-1]),
            chain.times,
            () if readers == tuple(range(1, len(part))) else readers,
        )
        found.append((one, tuple(part)))
    return found


def backwards(link: Link, reader: LoopNest) -> Link:
    """The link with every axis whole that is read backwards: no loop along it is shared."""
    axes = enumerate(reader.reads[link.read].axes)
    return replace(link, whole=link.whole | {at for at, terms in axes if any(step < 0 for _, step in terms)})
