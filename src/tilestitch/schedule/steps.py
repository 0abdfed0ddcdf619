"""Steps of plannings, each taken once: schedules that differ in little decide most kernels in the same surroundings."""

from collections.abc import Iterable
from dataclasses import dataclass

from tilestitch.base.errors import DoesNotFit
from tilestitch.ir.schedule import Home, Kernel
from tilestitch.kernels.surroundings import Source
from tilestitch.schedule.tasks import Facts, Task

Placed = tuple[Kernel, list[Home]] | Home  # a kernel with its homes, or what gives way to them


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What became of a task, or why it does not fit."""

    placed: Placed | DoesNotFit
    brought_until: int  # where the constants that come once end then
    crowded: Home | None  # its result where it found no room in LB in one piece, but has it in several


class Steps:
    """What became of the tasks of one graph, by numbers for all that decides it."""

    def __init__(self) -> None:
        self._tasks: dict[tuple, int] = {}
        self._homes: dict[Home, int] = {}
        self._seen: dict[int, tuple[Home, int]] = {}  # by identity, which is theirs as long as they are kept
        self._sources: dict[int, tuple[Source, ...]] = {}
        self._known: dict[tuple, Step] = {}

    def task(self, task: Task, facts: Facts) -> int:
        """Equal for equal tasks of which the same follows."""
        key = (
            task,
            tuple(facts.reads.items()),
            tuple(facts.writes.items()),
            facts.kept,
            facts.picked,
            facts.leaving,
            tuple(facts.shared.items()),
            tuple(facts.brought.items()),
            tuple((tensor, tuple(readers)) for tensor, readers in facts.readers.items()),
        )
        return self._tasks.setdefault(key, len(self._tasks))

    def homes(self, homes: Iterable[Home]) -> tuple[int, ...]:
        """A number for each, equal for equal ones."""
        seen = self._seen
        return tuple(seen[id(home)][1] if id(home) in seen else self._number(home) for home in homes)

    def sources(self, home: Home) -> tuple[Source, ...]:
        """Where a result lies as long as it has its home, part by part."""
        (number,) = self.homes((home,))
        if number not in self._sources:
            parts = home.parts or ((None, home.region),)
            self._sources[number] = tuple(Source(region, home.level, core) for core, region in parts)
        return self._sources[number]

    def _number(self, home: Home) -> int:
        number = self._homes.setdefault(home, len(self._homes))
        self._seen[id(home)] = home, number
        return number

    def find(self, key: tuple) -> Step | None:
        """What became of a task."""
        return self._known.get(key)

    def add(self, key: tuple, step: Step) -> None:
        """Note what became of a task."""
        self._known[key] = step
