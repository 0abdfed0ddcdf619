"""What is built in: machines, networks and strategies, by name."""

from collections.abc import Iterator
from dataclasses import dataclass

from tilestitch.base.html import Record
from tilestitch.base.json_values import document
from tilestitch.base.shown import Shown
from tilestitch.base.units import counted


@dataclass(frozen=True, slots=True)
class Listed:
    """One entry: its name, a line about it, and facts by name."""

    name: str
    description: str
    facts: tuple[tuple[str, int | str], ...] = ()
    size: str = ""  # in the text


@dataclass(frozen=True, slots=True, repr=False)
class Listing(Shown):
    """Entries of one kind; iterating gives their names."""

    kind: str
    entries: tuple[Listed, ...]

    def __iter__(self) -> Iterator[str]:
        return (one.name for one in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __str__(self) -> str:
        rows = [tuple(filter(None, (one.name, one.size, one.description))) for one in self.entries]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "".join("  ".join(map(str.ljust, row, widths)).rstrip() + "\n" for row in rows)

    def to_json(self) -> str:
        """What `tilestitch machines --json` and `tilestitch models --json` write."""
        return document(self.kind, {self.kind: [dict(one) for one in self._plain()]})

    def heading(self) -> str:
        """How many there are."""
        return counted(len(self.entries), self.kind.removesuffix("s").replace("strategie", "strategy"))

    def records(self) -> tuple[Record, ...]:
        """Every entry."""
        return tuple(self._plain())

    def _plain(self) -> Iterator[dict[str, str | int]]:
        return ({"name": one.name, "description": one.description, **dict(one.facts)} for one in self.entries)


def machines() -> Listing:
    """The machines that are built in: chips, which `load_machine` loads; then trees, for `load_tree` alone."""
    from tilestitch.hardware.preset_files import preset_lines

    return Listing(
        "machines",
        tuple(
            Listed(one.name, one.description, (("form", one.form), *one.numbers), one.size) for one in preset_lines()
        ),
    )


def models() -> Listing:
    """The networks of the zoo, which `compile` and others take by name; `NAME:small` is a small variant."""
    from tilestitch.zoo import ENTRIES

    return Listing("models", tuple(Listed(entry.name, entry.description) for entry in ENTRIES))


def strategies() -> Listing:
    """The strategies of `compile` and `compare`, then plans of fused blocks, which are strategies as well."""
    from tilestitch.pipeline.strategies import FUSION_PLANS, NAMED

    found = (*NAMED, *FUSION_PLANS)
    return Listing("strategies", tuple(Listed(one.name, one.description) for one in found))
