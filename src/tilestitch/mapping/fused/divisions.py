"""How operators are divided into groups that run together, one group after another.

What is made in a group stays at home for those of it that read it. It goes out as well if others read it; so every
group runs when those have run whose results it reads, and no two of them wait for one another.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from tilestitch.mapping.fused.chain import Chain

Span: TypeAlias = tuple[int, ...]  # operators that run together, in ascending order
Choice: TypeAlias = tuple[Span, list[Span]]  # a group, and the parts that are left without it


def readers_of(chain: Chain) -> list[list[int]]:
    """Of each operator those that read its result."""
    return [[one.reader for one in chain.read_from(link)] for link in range(len(chain.links))] + [[]]


def spans_of(chain: Chain, most: int) -> list[Span]:
    """All operators, two to so many of them, that may run together: fewer ones first."""
    beside: dict[int, set[int]] = {number: set() for number in range(len(chain.operators))}
    for one in chain.readings:
        beside[one.link].add(one.reader)
        beside[one.reader].add(one.link)
    found: list[Span] = []
    larger = {(number,) for number in range(len(chain.operators))}
    for _ in range(2, most + 1):
        larger = {
            tuple(sorted((*span, more)))
            for span in larger
            for one in span
            for more in sorted(beside[one])
            if more not in span
        }
        found += sorted(span for span in larger if _may_run_together(chain, span))
    return found


def _may_run_together(chain: Chain, span: Span) -> bool:
    """Whether each result but the last is read by others of a span, which wait for nothing that waits for them.

    Results that meet for several operators do so for all of them in a span, or for none.
    """
    inside = set(span)
    for link in span[:-1]:
        if not any(one.reader in inside and not chain.is_added(one) for one in chain.read_from(link)):
            return False
    readers: dict[frozenset[int], set[bool]] = {}  # of results that meet: whether those are inside that read them
    behind: set[int] = set()  # what is not in the span and waits for some of it
    for number in range(span[0], span[-1] + 1):
        taken = chain.taken_by(number)
        sources = {one.link for one in taken}
        if number in inside and sources & behind:
            return False
        if number not in inside and sources & (inside | behind):
            behind.add(number)
    for number in range(len(chain.operators)):
        taken = chain.read_by(number)
        for read in {one.read for one in taken}:
            links = frozenset(one.link for one in taken if one.read == read)
            if len(links) > 1 and links & inside:
                readers.setdefault(links, set()).add(number in inside)
    return all(len(where) == 1 for where in readers.values())


def others_of(chain: Chain, span: Span) -> list[Span]:
    """What is left of a chain without some operators: parts that hang together."""
    return _parts(readers_of(chain), [number for number in range(len(chain.operators)) if number not in span])


def divisions(chain: Chain, spans: Iterable[Span], every: Span) -> list[tuple[Span, list[Choice]]]:
    """By part of some operators the groups that may run last in it, and what is then left: smaller parts first.

    The last are all of these operators.
    """
    by_end: dict[int, list[Span]] = {number: [] for number in every}
    for span in sorted(spans):
        if all(number in by_end for number in span):
            by_end[span[-1]].append(span)
    found: dict[Span, list[Choice]] = {}
    readers, waiting = readers_of(chain), [every]
    while waiting:
        part = waiting.pop()
        if part in found:
            continue
        inside = set(part)
        found[part] = [
            (span, _parts(readers, [number for number in part if number not in span]))
            for end in part
            if inside.isdisjoint(readers[end])
            for span in by_end[end]
            if inside.issuperset(span) and all(inside.intersection(readers[number]) <= {*span} for number in span)
        ]
        waiting += [other for _, others in found[part] for other in others]
    return sorted(found.items(), key=lambda item: len(item[0]))


def _parts(readers: Sequence[Sequence[int]], numbers: Sequence[int]) -> list[Span]:
    """Some operators in parts between which nothing passes."""
    inside = set(numbers)
    beside: dict[int, list[int]] = {number: [] for number in numbers}
    for link in numbers:
        for reader in readers[link]:
            if reader in inside:
                beside[link].append(reader)
                beside[reader].append(link)
    found: list[Span] = []
    for number in numbers:
        if number in inside:
            inside.remove(number)
            part = [number]
            for one in part:
                part += [other for other in dict.fromkeys(beside[one]) if other in inside]
                inside.difference_update(beside[one])
            found.append(tuple(sorted(part)))
    return found


def in_turn(chain: Chain, spans: Iterable[Span]) -> list[Span]:
    """Groups in an order in which they can run: of those that can the one whose last operator comes first."""
    waiting, found = sorted(spans, key=max), list[Span]()
    while waiting:
        left = {number for span in waiting for number in span}
        ready = next(span for span in waiting if not _waits(chain, span, left.difference(span)))
        waiting.remove(ready)
        found.append(ready)
    return found


def _waits(chain: Chain, span: Span, left: set[int]) -> bool:
    """Whether a group reads results of operators that have not run."""
    return any(one.link in left for number in span for one in chain.taken_by(number))
