"""Which results of kernels stay on chip until their last reader, at which level and address.

Source for the order of levels: Zhao et al., GraphTurbo, OSDI 2023, section 4.3.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from tilestitch.base.errors import DoesNotFit
from tilestitch.base.units import aligned, ceil_div
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.ir.allocation import blocks, live_bytes, occupied_bytes
from tilestitch.ir.choices import Spill
from tilestitch.ir.graph import Graph
from tilestitch.ir.region import Region
from tilestitch.ir.schedule import Home, Kernel
from tilestitch.ir.tile_rule import TileRoom
from tilestitch.kernels.division import parts_of
from tilestitch.kernels.shape import passes_through
from tilestitch.kernels.surroundings import (
    Room,
    Source,
    Surroundings,
    free_gaps,
    room_of,
)
from tilestitch.schedule.packing import Addresses, addresses_with, better_addresses
from tilestitch.schedule.spilling import Stay, gives_way
from tilestitch.schedule.splits import CoreOrders
from tilestitch.schedule.steps import Placed, Step
from tilestitch.schedule.tasks import Task, facts_of, packs_of
from tilestitch.schedule.tilings import Tilings, halved

# Room is counted in so many parts of a memory, so that kernels in like surroundings are tiled once.
ROOM_STEPS = {Level.LB: 64, Level.GB: 16}
BROUGHT_SHARE = 0.25  # of GB, in which constants that come once go round
COMPACTED = 4  # so often, at most, room is made in LB for more results
CLEARLY = 1.25  # an estimate that exceeds another by this factor is clearly more

_Found = tuple[tuple[Kernel, ...], tuple[Home, ...]]


@dataclass(frozen=True, slots=True)
class Keeping:
    """How results stay on chip: the levels at which they may, the first one first, and what is asked there."""

    levels: tuple[Level, ...]
    spill: Spill = Spill.NEWEST
    compact: bool = False  # whether results in LB move out of the way of those that find room there in parts alone
    in_place: bool = False  # whether a result takes the place of an operand in GB too, as it does in LB


def stay_on_chip(
    graph: Graph,
    tasks: Sequence[Task],
    machine: Accelerator,
    keeping: Keeping,
    *,
    tilings: Tilings | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[tuple[Kernel, ...], tuple[Home, ...]]:
    """Tile every task, in order, and keep its results at the first level at which it fits, else in DDR.

    Where a result finds no room at a level, it or another one gives way to the next level, as `spill` says; where a
    task fits at no level beside what others keep, one of those does. Planning then goes back to the kernel that makes
    it; each gives way at most once a level, so this ends. If `compact`, results for which LB has room, but in several
    gaps, lie there after all, where others can move out of their way. `tilings` found before, of the same graph and
    machine, are used and added to. Raises `DoesNotFit` where a task does not fit on the empty machine.
    """
    usable = replace(keeping, levels=tuple(level for level in keeping.levels if machine.memory(level) is not None))
    tilings = Tilings(graph, machine) if tilings is None else tilings
    planning = _Planning(tasks, usable, tilings)
    found = planning.run(progress)
    if keeping.compact:
        planning, found = _compacted(planning, found, progress)
    addresses = better_addresses(found[1], machine)
    if not addresses:
        return found
    again = _Planning(tasks, usable, tilings, planning)
    again.start, again.addresses, again.unfetched = planning.levels_found(), addresses, planning.unfetched
    packed = again.run(progress)
    moved = again.start != planning.levels_found()
    return found if moved or _holes(packed[1], machine) >= _holes(found[1], machine) else packed


def _compacted(
    planning: "_Planning", found: _Found, progress: Callable[[int, int], None]
) -> tuple["_Planning", _Found]:
    """Plan again with room made in LB, as long as more of the results come to lie there."""
    memory = planning.machine.memory(Level.LB)
    for _ in range(COMPACTED if memory is not None else 0):
        assert memory is not None
        there = {(home.first, home.tensor) for home in found[1] if home.level is Level.LB}
        more = [planning.crowded[number] for number in sorted(planning.crowded)]
        more = [home for home in more if home is not None and (home.first, home.tensor) not in there]
        addresses = addresses_with(found[1], more, memory)
        if not addresses:
            break
        start, into = planning.levels_found(), planning.levels.index(Level.LB)
        for number, _ in addresses.keys() - there:
            start[number] = into
        again = _Planning(planning.tasks, planning.keeping, planning.tilings, planning)
        again.start, again.addresses, again.unfetched = start, addresses, set(planning.unfetched)
        other = again.run(progress)
        if again.bytes_away() >= planning.bytes_away():
            break
        planning, found = again, other
    return planning, found


def _holes(homes: Sequence[Home], machine: Accelerator) -> int:
    """Bytes that no result takes and kernels cannot have, at the worst of each memory."""
    found = ((memory, blocks(homes, memory.level)) for memory in machine.memories)
    return sum(occupied_bytes(taken, memory.size_bytes) - live_bytes(taken) for memory, taken in found if taken)


class _Planning:
    """The state of planning: what is decided for the kernels so far, and from which level each task starts."""

    def __init__(
        self,
        tasks: Sequence[Task],
        keeping: Keeping,
        tilings: Tilings,
        before: "_Planning | None" = None,
    ) -> None:
        """`before` is one of the same tasks."""
        self.graph, self.machine, self.tilings = tilings.graph, tilings.shapes.machine, tilings
        self.tasks, self.keeping, self.spill = tasks, keeping, keeping.spill
        self.levels = (*keeping.levels, Level.DDR)
        self.facts = facts_of(self.graph, tasks, tilings.pieces.boxes) if before is None else before.facts
        self.steps = tilings.steps
        self.numbers = list(map(self.steps.task, tasks, self.facts)) if before is None else before.numbers
        self.brought_until = 0  # the end of the last constant or input that was given a place in GB
        self.addresses: Addresses = {}  # that an earlier planning would rather have had
        # The first level to try; spilling raises it.
        self.start = [
            max(self._first_level(task.scope), self._first_level(Level.GB) if facts.picked else 0)
            for task, facts in zip(tasks, self.facts, strict=True)
        ]
        self.kernels: list[Kernel] = []
        self.homes: list[list[Home]] = []
        self.crowded: dict[int, Home | None] = {}  # the result of a task for which there was room in LB, but in parts
        self.unfetched: set[tuple[int, str]] = set()  # operands for which there is no room, by who would bring them
        # The task whose surroundings were asked for last, what was live then, what it reads of that, and the orders of
        # cores that were found for it among these sources.
        self.asked: tuple[int, Sequence[Home], Mapping[str, tuple[Source, ...]], CoreOrders] | None = None

    def _first_level(self, scope: Level) -> int:
        order = (Level.LB, Level.GB, Level.DDR)
        return next(at for at, level in enumerate(self.levels) if order.index(level) >= order.index(scope))

    def run(self, progress: Callable[[int, int], None]) -> _Found:
        live: list[Home] = []
        while len(self.kernels) < len(self.tasks):
            number = len(self.kernels)
            live = [home for home in live if home.last >= number]
            placed = self._step(number, live)
            if isinstance(placed, DoesNotFit):
                if not live:
                    block = self.tasks[number].block
                    where = "" if block is None else f"block {block}: "
                    raise DoesNotFit(f"{where}{placed.problem}", *placed.remedies)
                placed = live[gives_way(self.spill, [self._stay(home, number) for home in live])]
            if isinstance(placed, Home):
                if placed.fetched:
                    self.unfetched.add((placed.first, placed.tensor))
                else:
                    self.start[placed.first] = self.levels.index(placed.level) + 1
                del self.kernels[placed.first :], self.homes[placed.first :]
                live = [home for homes in self.homes for home in homes]
                continue
            kernel, homes = placed
            self.kernels.append(kernel)
            self.homes.append(homes)
            live = [*live, *homes]
            progress(number + 1, len(self.tasks))
        return tuple(self.kernels), tuple(home for homes in self.homes for home in homes)

    def _step(self, number: int, live: Sequence[Home]) -> Placed | DoesNotFit:
        """As `_place`, or why that does not fit; what became of the task before in the same surroundings is known."""
        wished = [self.addresses.get((number, tensor)) for tensor in self.facts[number].kept if self.addresses]
        key = (
            *(self.spill, self.keeping.in_place, self.levels),
            *(number, self.numbers[number], self.start[number], self.brought_until),
            self.steps.homes(live),
            tuple(home and (home.level, home.address, home.size_bytes) for home in wished),
            tuple(sorted(tensor for by, tensor in self.unfetched if by == number)),
            () if self.spill is Spill.NEWEST else tuple(self._stay(home, number).next_reader for home in live),
        )
        step = self.steps.find(key)
        if step is None:
            self.crowded.pop(number, None)
            try:
                placed = self._place(number, live)
            except DoesNotFit as error:
                placed = DoesNotFit(error.problem, *error.remedies)
            step = Step(placed, self.brought_until, self.crowded.get(number))
            self.steps.add(key, step)
        self.brought_until, self.crowded[number] = step.brought_until, step.crowded
        return step.placed

    def bytes_away(self) -> int:
        """The bytes of all results that do not lie at the first level, for each level in between once more."""
        return sum(
            level * self.graph.tensors[tensor].bytes_of(facts.writes[tensor])
            for level, facts in zip(self.levels_found(), self.facts, strict=True)
            for tensor in facts.kept
        )

    def levels_found(self) -> list[int]:
        """The number of the level at which the results of each kernel stay."""
        made = [[home for home in homes if not home.fetched] for homes in self.homes]
        return [self.levels.index(homes[0].level if homes else Level.DDR) for homes in made]

    def _stay(self, home: Home, number: int) -> Stay:
        readers = self.facts[home.first].readers[home.tensor]
        next_reader = next(reader for reader in readers if reader >= number)
        return Stay(home.first, home.last, home.size_bytes * max(1, len(home.parts)), next_reader)

    def _instead(self, number: int, live: Sequence[Home], level: Level) -> Home | None:
        """The result at a level that gives way to those of a kernel there; None: these go to the next level."""
        there = [home for home in live if home.level is level]
        if self.spill is Spill.NEWEST or not there:
            return None
        try:
            self._tiled(number, [home for home in live if home.level is not level], level)
        except DoesNotFit:
            return None  # there is no room for them even if all others go
        facts = self.facts[number]
        own = [
            Stay(number, readers[-1], self.graph.tensors[tensor].bytes_of(facts.writes[tensor]), readers[0])
            for tensor in facts.kept
            for readers in (facts.readers[tensor],)
        ]
        found = gives_way(self.spill, [*(self._stay(home, number) for home in there), *own])
        return there[found] if found < len(there) else None

    def _place(self, number: int, live: Sequence[Home]) -> Placed:
        """The kernel of a task with its homes, or what gives way to them; what it brings for others first of all."""
        fetched = self._fetched(number, live)
        if fetched:
            try:
                placed = self._placed(number, [*live, *fetched])
            except DoesNotFit:
                return self._placed(number, live)
            if isinstance(placed, Home):
                return placed if placed not in fetched else self._placed(number, live)
            return placed[0], [*placed[1], *fetched]
        return self._placed(number, live)

    def _fetched(self, number: int, live: Sequence[Home]) -> list[Home]:
        """What a task brings from DDR for others as well, as far as there is room: in GB, else in LB."""
        facts, found = self.facts[number], list[Home]()
        level = Level.LB if self.machine.memory(Level.GB) is None else Level.GB
        memory = self.machine.memory(level)
        brought, packs = facts.brought.items() if level is Level.GB else (), packs_of(self.graph)
        for tensor, parts in (*facts.shared.items(), *((name, ((-1, region),)) for name, region in brought)):
            if (number, tensor) in self.unfetched or memory is None:
                continue
            region = parts[0][1]
            for _, part in parts:
                region = region.hull(part)
            held = parts if level is Level.LB else ()
            size = max(aligned(self.graph.tensors[tensor].bytes_of(part)) for _, part in held or ((-1, region),))
            taken = [(one.address, one.address + one.size_bytes) for one in (*live, *found) if one.level is level]
            gaps = [gap for gap in free_gaps(memory.size_bytes, taken) if gap[1] - gap[0] >= size]
            if gaps:
                _, top = min(gaps, key=lambda gap: (gap[1] - gap[0], gap[0]))
                if tensor in packs:
                    top = min(gaps)[0] + size
                elif tensor in facts.brought:
                    top = self._next_top(gaps, size, memory.size_bytes, top)
                last = facts.readers[tensor][-1]
                found.append(Home(tensor, region, level, held, top - size, size, number, last, fetched=True))
        return found

    def _next_top(self, gaps: Sequence[tuple[int, int]], size: int, memory_bytes: int, other: int) -> int:
        """Where the next constant ends: behind the last one, so that it need not wait until that was read.

        They go round in the upper part of a memory; where there is no gap, in the `other` place.
        """
        for begin in (self.brought_until, int(memory_bytes * (1 - BROUGHT_SHARE))):
            lows = [max(low, begin) for low, high in gaps if high - max(low, begin) >= size]
            if lows:
                self.brought_until = min(lows) + size
                return self.brought_until
        return other

    def _placed(self, number: int, live: Sequence[Home]) -> Placed:
        """The kernel of a task with its results at the first level at which it fits, or what gives way to them."""
        facts = self.facts[number]
        if not facts.kept:
            return self._tiled(number, live, Level.DDR), []
        misfit: DoesNotFit | None = None
        for level in self.levels[self.start[number] :]:
            for old in self._replaceable(number, live, level):
                try:
                    kernel = self._tiled(number, live, level, old)
                except DoesNotFit:
                    continue
                (tensor,) = facts.kept
                region, last, stored = facts.writes[tensor], facts.readers[tensor][-1], tensor in facts.leaving
                place = old.address, old.size_bytes
                return kernel, [Home(tensor, region, level, old.parts, *place, number, last, old.tensor, stored)]
            try:
                kernel = self._tiled(number, live, level)
            except DoesNotFit as error:
                misfit = error.unraised()
                if level is Level.LB:
                    self.crowded[number] = self._in_parts(number, live)
                if level is not Level.DDR and (instead := self._instead(number, live, level)) is not None:
                    return instead
                continue
            return kernel, self._homes(number, kernel, live, level)
        assert misfit is not None
        raise misfit.unraised()

    def _in_parts(self, number: int, live: Sequence[Home]) -> Home | None:
        """The one result of a task, evenly divided among cores, if LB has room for it, though not in one gap."""
        facts, memory = self.facts[number], self.machine.memory(Level.LB)
        if memory is None or len(facts.kept) != 1:
            return None
        (tensor,) = facts.kept
        region, last = facts.writes[tensor], facts.readers[tensor][-1]
        size = aligned(ceil_div(self.graph.tensors[tensor].bytes_of(region), len(self.machine.cores)))
        taken = sum(home.size_bytes for home in live if home.level is Level.LB)
        if taken + size >= memory.size_bytes:
            return None
        return Home(tensor, region, Level.LB, (), 0, size, number, last)

    def _replaceable(self, number: int, live: Sequence[Home], level: Level) -> list[Home]:
        """Operands at a level, read here for the last time, whose place the one result can take.

        In GB no core may read what another one writes, as those do whose strips overlap.
        """
        facts, in_gb = self.facts[number], level is Level.GB
        if (
            len(facts.kept) != 1
            or level is Level.DDR
            or (in_gb and (not self.keeping.in_place or self.tasks[number].strips))
        ):
            return []
        ending = [
            home
            for home in live
            if home.level is level and home.last == number and home.region == facts.writes[facts.kept[0]]
        ]
        return [
            home
            for home in ending
            if passes_through(
                self.tilings.shapes.shape(facts.operators, home.parts[0][0] if home.parts else 0), home.tensor
            )
        ]

    def _homes(self, number: int, kernel: Kernel, live: Sequence[Home], level: Level) -> list[Home]:
        """The homes of a kernel's results, one behind the other.

        They lie in the smallest gap that holds them and is not the largest, else in that: at the end where what lies
        beyond stays longer than they do, so that no gap is left between, and of two such ends at the upper one if they
        stay for more than the next kernel.
        """
        if level is Level.DDR:
            return []
        facts, memory = self.facts[number], self.machine.memory(level)
        assert memory is not None
        tiling, box = kernel.tiling, facts.box
        splits = tiling.splits if level is Level.LB else (1,) * len(tiling.splits)
        loops = (np.array(row, np.int64) for row in (box.start, box.extents, tiling.steps, splits))
        cores, parts = kernel.cores, parts_of(*loops)
        if kernel.strips and level is Level.LB:
            cores = tuple(core for core, _ in kernel.strips)
            parts = np.array([(strip.start, strip.stop) for _, strip in kernel.strips], np.int64)
        made = self.tilings.shapes.made_in_parts(facts.operators, kernel.cores[0], parts, facts.kept)
        sizes = [max(aligned(part[at][1]) for part in made) for at in range(len(facts.kept))]
        taken = [(home.address, home.address + home.size_bytes) for home in live if home.level is level]
        planned = self._planned(number, level, live)
        if any(stop - start < size for (start, stop), size in zip(planned, sizes, strict=False)):
            planned = []
        largest, *others = free_gaps(memory.size_bytes, taken)
        fitting = [gap for gap in others if gap[1] - gap[0] >= sum(sizes)]
        low, top = min(fitting, key=lambda gap: (gap[1] - gap[0], gap[0])) if fitting else largest
        until = max(facts.readers[tensor][-1] for tensor in facts.kept)
        ends = {edge: home.last for home in live if home.level is level for edge in _edges(home)}
        below, above = ends.get(low, len(self.tasks)), ends.get(top, len(self.tasks))
        if min(below, until) > min(above, until) or (above >= until and below >= until and until == number + 1):
            top = low + sum(sizes)
        found = []
        for at, tensor in enumerate(facts.kept):
            top = planned[at][0] if planned else top - sizes[at]
            held: tuple[tuple[int, Region], ...] = ()
            if level is Level.LB:
                held = tuple((core, part[at][0]) for core, part in zip(cores, made, strict=False))
            region, last, stored = facts.writes[tensor], facts.readers[tensor][-1], tensor in facts.leaving
            found.append(Home(tensor, region, level, held, top, sizes[at], number, last, stored=stored))
        return found

    def _planned(self, number: int, level: Level, live: Sequence[Home]) -> list[tuple[int, int]]:
        """The addresses of an earlier planning for a kernel's results at a level, where they are still free."""
        if not self.addresses:
            return []
        homes = [self.addresses.get((number, tensor)) for tensor in self.facts[number].kept]
        spans = [(home.address, home.address + home.size_bytes) for home in homes if home and home.level is level]
        taken = [(home.address, home.address + home.size_bytes) for home in live if home.level is level]
        free = all(before[1] <= after[0] for before, after in pairwise(sorted([*taken, *spans])))
        return spans if free and len(spans) == len(homes) else []

    def _tiled(self, number: int, live: Sequence[Home], level: Level, old: Home | None = None) -> Kernel:
        """The tiling of a task whose results stay at `level`, or in the place of an operand that lies there.

        Tasks that differ only in names and place are one.
        """
        task = self.tasks[number]
        around, orders = self._around(number, live, level)
        if old is not None:
            around = replace(around, instead=old.parts, in_place=level is Level.GB)
        facts, name, half = self.facts[number], f"k{number}", None
        if not task.launches and task.tiles.room is not TileRoom.WHOLE:
            with suppress(DoesNotFit):  # half of the memories, so that its loads do not wait for the kernel before
                half = self.tilings.tiled(task, facts, halved(around, self.machine), orders, name)
        if half is not None and task.tiles.room is TileRoom.HALF:
            return half
        whole = self.tilings.tiled(task, facts, around, orders, name)
        return whole if half is None or half.estimated_cycles > CLEARLY * whole.estimated_cycles else half

    def _sources(self, number: int, live: Sequence[Home]) -> dict[str, tuple[Source, ...]]:
        """What a task reads of what lies on chip."""
        reads = self.facts[number].reads
        found: dict[str, tuple[Source, ...]] = {}
        for home in reversed(live):
            needed = reads.get(home.tensor)
            if needed is not None and home.region.overlaps(needed):
                found[home.tensor] = (*found.get(home.tensor, ()), *self.steps.sources(home))
        return found

    def _around(self, number: int, live: Sequence[Home], level: Level) -> tuple[Surroundings, CoreOrders]:
        """What lies around a task whose results stay at `level`, and the orders of cores known for its sources."""
        facts = self.facts[number]
        if self.asked is None or self.asked[0] != number or self.asked[1] is not live:
            self.asked = number, live, self._sources(number, live), CoreOrders()
        _, _, sources, orders = self.asked
        rooms = {}
        for kept in (Level.LB, Level.GB):
            memory = self.machine.memory(kept)
            if memory is not None:
                taken = [(home.address, home.address + home.size_bytes) for home in live if home.level is kept]
                step = memory.size_bytes // ROOM_STEPS[kept]
                planned = self._planned(number, kept, live) if kept is level else []
                if planned:  # their place counts as a gap, so that what is left is the room beside it
                    low, high = free_gaps(memory.size_bytes, [*taken, *planned])[0]
                    rooms[kept] = Room((high - low) // step * step, (sum(stop - start for start, stop in planned),))
                elif taken:
                    rooms[kept] = room_of(memory.size_bytes, taken).rounded(step)
                else:
                    rooms[kept] = Room(memory.size_bytes)
        kept = facts.kept if level is not Level.DDR else ()
        task = self.tasks[number]
        around = Surroundings(
            sources,
            level,
            kept,
            rooms,
            task.box,
            core_map=task.core_map,
            splits=task.splits,
            strips=task.strips,
            stored=facts.leaving,
        )
        return around, orders


def _edges(home: Home) -> tuple[int, int]:
    return home.address, home.address + home.size_bytes
