"""Numbers that say how far the model is from the simulation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tilestitch.base.html import Record
from tilestitch.base.shown import Brief
from tilestitch.commands.validate.compare import Compared, LayerCompared
from tilestitch.commands.validate.mechanisms import Explanation, explain
from tilestitch.hardware.array_machine import ArrayMachine

LIMITS = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)  # errors up to which a row of the table counts
ROUNDING = 1e-9  # of sums of floats


class Judged(Protocol):
    """A mapping that was estimated and simulated."""

    @property
    def estimated_cycles(self) -> int: ...

    @property
    def simulated_cycles(self) -> int: ...

    @property
    def error(self) -> float: ...

    @property
    def energy_errors(self) -> dict[str, float]: ...


class NamedNest(Protocol):
    """The loop nest of a layer."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...


class RepeatedLayer(Protocol):
    """A layer, as often as the network runs it."""

    @property
    def nest(self) -> NamedNest: ...

    @property
    def times(self) -> int: ...


class JudgedLayer(Protocol):
    """The mappings of one layer, and how many were drawn for them."""

    @property
    def layer(self) -> RepeatedLayer: ...

    @property
    def found(self) -> Sequence[Judged]: ...

    @property
    def drawn(self) -> int: ...

    @property
    def misfits(self) -> int: ...

    @property
    def too_long(self) -> int: ...


class JudgedNetwork(Protocol):
    """The model against the simulation on one machine, an array or a tree."""

    @property
    def name(self) -> str: ...

    @property
    def machine_name(self) -> str: ...

    @property
    def seed(self) -> int: ...

    @property
    def ragged(self) -> bool: ...

    @property
    def layers(self) -> Sequence[JudgedLayer]: ...

    @property
    def found(self) -> Sequence[Judged]: ...


@dataclass(frozen=True, slots=True)
class Errors:
    """Of several mappings, as parts of what was simulated; but for `signed`, how large they are."""

    mappings: int
    mean: float
    median: float
    most_of_95: float  # of the 95 % that are smallest
    worst: float
    signed: float  # mean with signs: above 0 where the model says too many cycles


@dataclass(frozen=True, slots=True)
class EnergyErrors:
    """Of one component: mappings in which model and simulation agree, and the largest relative difference."""

    agree: int
    worst: float


@dataclass(frozen=True, slots=True)
class Bucket:
    """Mappings whose error is above the last limit and up to this one; the last has no limit."""

    limit: float | None
    mappings: int


@dataclass(frozen=True, slots=True, repr=False)
class Validation(Brief):
    """The model against the simulation on one machine."""

    name: str
    machine: ArrayMachine
    seed: int
    ragged: bool
    layers: tuple[LayerCompared, ...]
    worst: tuple[tuple[Compared, Explanation], ...]  # of all, the largest error first
    notes: tuple[str, ...] = ()  # on how the network was read

    @property
    def machine_name(self) -> str:
        return self.machine.name

    @property
    def found(self) -> tuple[Compared, ...]:
        return tuple(one for layer in self.layers for one in layer.found)


def errors_of(found: Sequence[Judged]) -> Errors:
    """Of at least one mapping."""
    sizes, count = sorted(abs(one.error) for one in found), len(found)
    return Errors(
        count,
        sum(sizes) / count,
        (sizes[(count - 1) // 2] + sizes[count // 2]) / 2,
        sizes[(95 * count + 99) // 100 - 1],
        sizes[-1],
        sum(one.error for one in found) / count,
    )


def buckets_of(found: Sequence[Judged]) -> tuple[Bucket, ...]:
    """How many mappings have errors of which size."""
    sizes = [abs(one.error) for one in found]
    counts = [sum(size <= limit for size in sizes) for limit in LIMITS] + [len(sizes)]
    fresh = [after - before for before, after in zip([0, *counts[:-1]], counts, strict=True)]
    return tuple(Bucket(limit, many) for limit, many in zip([*LIMITS, None], fresh, strict=True))


def energy_of(found: Sequence[Judged]) -> dict[str, EnergyErrors]:
    """By component."""
    errors = [one.energy_errors for one in found]
    return {
        name: EnergyErrors(sum(abs(one[name]) <= ROUNDING for one in errors), max(abs(one[name]) for one in errors))
        for name in errors[0]
    }


def records_of(layers: Sequence[JudgedLayer]) -> tuple[Record, ...]:
    """The errors of every layer, as parts of what was simulated."""
    rows: list[Record] = []
    for one in layers:
        errors = errors_of(one.found) if one.found else None
        rows.append(
            {
                "layer": one.layer.nest.name,
                "times": one.layer.times,
                "mappings": len(one.found),
                "mean_error": None if errors is None else errors.mean,
                "median_error": None if errors is None else errors.median,
                "error_of_95_percent": None if errors is None else errors.most_of_95,
                "worst_error": None if errors is None else errors.worst,
                "mean_signed_error": None if errors is None else errors.signed,
            }
        )
    return tuple(rows)


def worst_of(
    layers: Sequence[LayerCompared], machine: ArrayMachine, count: int
) -> tuple[tuple[Compared, Explanation], ...]:
    """The mappings with the largest errors that are not 0, and why; of equal ones those that were drawn first."""
    found = [one for layer in layers for one in layer.found if one.difference != 0]
    found.sort(key=lambda one: -abs(one.error))
    return tuple((one, explain(one, machine)) for one in found[:count])
