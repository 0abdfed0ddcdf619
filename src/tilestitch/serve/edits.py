"""Changes of a schedule by hand: borders of groups, their pieces, the order of these, and where their results wait."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tilestitch.base.errors import InputError
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.by_hand import BREADTH_FIRST, DEPTH_FIRST, HandGroup, HandItem, HandSchedule
from tilestitch.ir.graph import Graph
from tilestitch.ir.partition import Kernels
from tilestitch.pipeline.hand_schedule import NAME, group_name, until
from tilestitch.schedule.by_hand import HandOrder, group_members, hand_order
from tilestitch.schedule.pieces import KernelIndex, with_whole_kernels

MOST_PIECES = 4096  # of a group; each is compiled


@dataclass(frozen=True, slots=True)
class Draft:
    """A schedule by hand, and the network and the kernels that it is for."""

    graph: Graph
    kernels: Kernels
    schedule: HandSchedule

    def members(self) -> list[tuple[str, ...]]:
        """The operators of each group, with whole kernels as far as that can be."""
        return with_whole_kernels(self.graph, group_members(self.graph, self.schedule), self.kernels)

    def ends(self) -> list[tuple[str, ...]]:
        """Of each group the last operators of its kernels, in running order."""
        known = KernelIndex(self.graph, self.kernels)
        return [tuple(kernel[-1].name for kernel in known.within(names)) for names in self.members()]


@dataclass(frozen=True, slots=True)
class Border:
    """Move the border behind a group by one kernel, so that the group has one more or one less."""

    group: int
    later: bool


@dataclass(frozen=True, slots=True)
class Merge:
    """Make one group of this one and the next, in pieces as this one."""

    group: int


@dataclass(frozen=True, slots=True)
class Split:
    """Make two groups of one, the first with so many of its kernels, in pieces as before."""

    group: int
    kernels: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Cut a group into so many pieces along an axis of its results."""

    group: int
    axis: int
    pieces: int


@dataclass(frozen=True, slots=True)
class Move:
    """Run the piece at a place of the order before the one in front of it, or behind the next."""

    place: int
    later: bool


@dataclass(frozen=True, slots=True)
class Reorder:
    """Run all pieces depth first or breadth first."""

    order: str


@dataclass(frozen=True, slots=True)
class Keep:
    """Where the results of the piece at a place wait at best; without a scope the order decides."""

    place: int
    scope: Level | None
    further: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class KeepAll:
    """Where the results of all pieces of a group wait at best."""

    group: int
    scope: Level | None
    further: tuple[tuple[int, int], ...] = ()


Edit: TypeAlias = Border | Merge | Split | Cut | Move | Reorder | Keep | KeepAll


@dataclass(frozen=True, slots=True)
class _Part:
    """A group as it is changed: the last operators of its kernels, how it is cut, and where its results wait."""

    ends: tuple[str, ...]
    axis: int
    pieces: int | tuple[int, ...]
    scope: Level | None
    further: tuple[tuple[int, int], ...] = ()


def edited(draft: Draft, edit: Edit) -> HandSchedule:
    """The schedule after a change; raises `InputError` where it cannot be changed so.

    Groups are called g0, g1 and so on. Where groups or their pieces change, all pieces run breadth first if they did
    before, else depth first, and the pieces of a group whose results all waited at one place still do.
    """
    schedule = draft.schedule
    items = _items(draft)
    match edit:
        case Move():
            return replace(schedule, order=_moved(items, edit))
        case Keep():
            _expect(edit.place, len(items), "piece")
            items[edit.place] = replace(items[edit.place], scope=edit.scope)
            return replace(schedule, order=tuple(items))
        case KeepAll():
            _expect(edit.group, len(schedule.groups), "group")
            mine = f"{schedule.groups[edit.group].name}["
            found = (replace(one, scope=edit.scope) if one.instance.startswith(mine) else one for one in items)
            return replace(schedule, order=tuple(found))
        case Reorder():
            return _ordered(draft, schedule, edit.order, _scopes(schedule, items))
    breadth_first = [one.instance for one in _in_order(draft, replace(schedule, order=BREADTH_FIRST))]
    same = breadth_first == [one.instance for one in items]
    parts = _changed(_parts(draft, items), edit)
    changed = _with_groups(draft, parts)
    return _ordered(draft, changed, BREADTH_FIRST if same else DEPTH_FIRST, [part.scope for part in parts])


def _items(draft: Draft) -> list[HandItem]:
    """The pieces one by one."""
    schedule = draft.schedule
    return _in_order(draft, schedule) if isinstance(schedule.order, str) else list(schedule.order)


def _in_order(draft: Draft, schedule: HandSchedule) -> list[HandItem]:
    members = replace(draft, schedule=schedule).members()
    return _items_of(schedule, hand_order(draft.graph, schedule, members))


def _items_of(schedule: HandSchedule, found: HandOrder) -> list[HandItem]:
    names = [f"{schedule.groups[one.group].name}{one.name[one.name.index('[') :]}" for one in found.instances.instances]
    return [HandItem(names[number]) for number in found.order]


def _scopes(schedule: HandSchedule, items: Sequence[HandItem]) -> list[Level | None]:
    """Of each group the scope of all of its pieces; None where they differ."""
    found = []
    for group in schedule.groups:
        own = {one.scope for one in items if one.instance.startswith(f"{group.name}[")}
        found.append(own.pop() if len(own) == 1 else None)
    return found


def _parts(draft: Draft, items: Sequence[HandItem]) -> list[_Part]:
    groups, scopes = draft.schedule.groups, _scopes(draft.schedule, items)
    return [
        _Part(ends, group.axis, group.pieces, scope, group.further)
        for group, ends, scope in zip(groups, draft.ends(), scopes, strict=True)
    ]


def _changed(parts: list[_Part], edit: Border | Merge | Split | Cut) -> list[_Part]:
    number = edit.group
    _expect(number, len(parts), "group")
    part = parts[number]
    match edit:
        case Cut():
            if not 1 <= edit.pieces <= MOST_PIECES:
                raise InputError(f"pieces: expected 1 to {MOST_PIECES:,}, found {edit.pieces:,}")
            return [
                *parts[:number],
                replace(part, axis=edit.axis, pieces=edit.pieces, further=()),
                *parts[number + 1 :],
            ]
        case Split():
            if len(part.ends) == 1:
                raise InputError(f"group {group_name(number)} has one kernel alone; there is nothing to split")
            if not 1 <= edit.kernels < len(part.ends):
                raise InputError(
                    f"group {group_name(number)} has {len(part.ends)} kernels; expected to split it behind "
                    f"1 to {len(part.ends) - 1} of them, found {edit.kernels}"
                )
            first, second = part.ends[: edit.kernels], part.ends[edit.kernels :]
            return [*parts[:number], replace(part, ends=first), replace(part, ends=second), *parts[number + 1 :]]
    if number + 1 == len(parts):
        raise InputError(f"group {group_name(number)} is the last; there is no border after it")
    after = parts[number + 1]
    if isinstance(edit, Merge):
        scope = part.scope if part.scope == after.scope else None
        both = replace(part, ends=(*part.ends, *after.ends), scope=scope)
        return [*parts[:number], both, *parts[number + 2 :]]
    giving = number + 1 if edit.later else number
    if len(parts[giving].ends) == 1:
        raise InputError(f"group {group_name(giving)} has one kernel alone; merge it instead")
    # The first kernel of a group in running order reads nothing of the group; nothing of the group reads the last.
    if edit.later:
        part, after = (
            replace(part, ends=(*part.ends, after.ends[0])),
            replace(after, ends=after.ends[1:]),
        )
    else:
        part, after = (
            replace(part, ends=part.ends[:-1]),
            replace(after, ends=(part.ends[-1], *after.ends)),
        )
    return [*parts[:number], part, after, *parts[number + 2 :]]


def _with_groups(draft: Draft, parts: Sequence[_Part]) -> HandSchedule:
    last = len(parts) - 1
    groups = [
        HandGroup(group_name(number), () if number == last else part.ends, part.axis, part.pieces, 0, part.further)
        for number, part in enumerate(parts)
    ]
    found = HandSchedule(NAME, tuple(groups), DEPTH_FIRST, draft.schedule.stitched)
    members = group_members(draft.graph, found)[:last]
    for number, names in enumerate(members):
        groups[number] = replace(groups[number], until=until(draft.graph, names))
    return replace(found, groups=tuple(groups))


def _ordered(draft: Draft, schedule: HandSchedule, order: str, scopes: Sequence[Level | None]) -> HandSchedule:
    """A schedule with the pieces of named order one by one, those of a group waiting at its scope."""
    scope_of = {group.name: scope for group, scope in zip(schedule.groups, scopes, strict=True)}
    items = _in_order(draft, replace(schedule, order=order))
    return replace(
        schedule,
        order=tuple(replace(one, scope=scope_of[one.instance[: one.instance.rindex("[")]]) for one in items),
    )


def _moved(items: Sequence[HandItem], edit: Move) -> tuple[HandItem, ...]:
    _expect(edit.place, len(items), "piece")
    other = edit.place + (1 if edit.later else -1)
    if not 0 <= other < len(items):
        where = "last" if edit.later else "first"
        raise InputError(f"piece {items[edit.place].instance} is the {where} already")
    found = list(items)
    found[edit.place], found[other] = found[other], found[edit.place]
    return tuple(found)


def _expect(number: int, count: int, what: str) -> None:
    if not 0 <= number < count:
        raise InputError(f"{what} {number}: there are {count:,}, 0 to {count - 1:,}")
