"""Curves: what is drawn over what, with units."""

from dataclasses import dataclass

from tilestitch.base.shown import Brief


@dataclass(frozen=True, slots=True)
class Axis:
    """What one direction counts."""

    name: str
    unit: str
    logarithmic: bool

    def __str__(self) -> str:
        return f"{self.name} ({self.unit})" if self.unit else self.name


@dataclass(frozen=True, slots=True, repr=False)
class Series(Brief):
    """Points of one kind, from left to right."""

    label: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, repr=False)
class Curve(Brief):
    """One plot."""

    name: str
    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    lines: bool = True  # else points alone
