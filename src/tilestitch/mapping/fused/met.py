"""What it costs that results meet, or are added to one another, which are not all at home.

A result that comes from outside of a group is read once per element in the outermost memory, where it meets what is
made, as soon as that is complete. Where none of those that meet is at home, the last one meets the others as it is
written, and is not read for that. So what this costs follows from which operators run together, whatever their loops.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from tilestitch.hardware.tree import Flow
from tilestitch.mapping.fused.chain import Chain, Reading
from tilestitch.mapping.fused.latency import cycles_of


@dataclass(frozen=True, slots=True)
class Met:
    """What reading results costs that meet others or are added to them, and how long that takes."""

    energy_pj: float
    cycles: int


def met_from_outside(chain: Chain, span: Sequence[int]) -> Met:
    """What operators that run together read of results that meet theirs, or are added to theirs, and come from outside.

    What several operators read that has met is made once: it counts with the first of them.
    """
    every = [_read_once(chain, one) for one in _from_outside(chain, span)]
    return Met(sum(one.energy_pj for one in every), sum(one.cycles for one in every))


def is_met_before_the_end(chain: Chain, span: Sequence[int]) -> bool:
    """Whether something from outside meets an intermediate of a group, or is added to one.

    If windows of that were made again it would be read again.
    """
    inside = set(span)
    for (links, _), first in _meetings(chain).items():
        if first.reader in inside and inside & links and not links <= inside:
            return True
    return any(one.reader in inside and one.reader != span[-1] and one.link not in inside for one in chain.added)


def _from_outside(chain: Chain, span: Sequence[int]) -> Iterator[Reading]:
    inside, meetings = set(span), _meetings(chain)
    sums = sorted((links for links, is_factor in meetings if not is_factor), key=len, reverse=True)
    for (links, _), first in meetings.items():
        if first.reader not in inside:
            continue
        outside = _stored(links - inside, [one for one in sums if one != links])
        for link in outside if inside & links else outside[:-1]:
            yield Reading(link, first.reader, first.read)
    for number in span:
        added = {one.link for one in chain.added if one.reader == number} - inside
        for link in _stored(added, sums):
            yield Reading(link, number, len(chain.operators[number].nest.reads))


def _meetings(chain: Chain) -> dict[tuple[frozenset[int], bool], Reading]:
    """The results that meet, whether they are multiplied, and the first operator that reads them."""
    found: dict[tuple[frozenset[int], bool], Reading] = {}
    for number in range(len(chain.operators)):
        for one in sorted(chain.read_by(number), key=lambda one: one.read):
            links = frozenset(other.link for other in chain.read_by(number) if other.read == one.read)
            if len(links) > 1:
                found.setdefault((links, one.is_factor), one)
    return found


def _stored(links: Iterable[int], sums: Sequence[frozenset[int]]) -> list[int]:
    """Results as the outermost memory holds them: of those that have met there as a sum the last stands for all."""
    left = set(links)
    for one in sums:
        if one <= left:
            left -= one - {max(one)}
    return sorted(left)


def _read_once(chain: Chain, reading: Reading) -> Met:
    """What it costs to read a result in the outermost memory: as it is read, or as sums are if it is added to some."""
    written, read = chain.intermediate(reading)
    memory = chain.tree.memories[-1]
    port = memory.port(chain.operators[reading.reader].homes[reading.read], Flow.FEED)
    if port is None:
        return Met(0.0, 0)
    each = chain.operators[reading.link].final_bits if chain.is_added(reading) else read.element_bits
    bits = prod(written.shape) * each
    return Met(bits * memory.read_pj / port.width_bits, cycles_of(port, bits))


def leaving_cycles(chain: Chain) -> int:
    """For how long the port of the outermost memory writes the results of a group that stay in it and leave as well."""
    memory, found = chain.tree.memories[-1], 0
    for link, one in enumerate(chain.links):
        placed = chain.operators[link]
        port = memory.port(placed.homes[-1], Flow.COLLECT)
        if one.leaves and port is not None:
            found += cycles_of(port, prod(placed.nest.write.shape) * placed.final_bits)
    return found
