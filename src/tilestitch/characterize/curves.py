"""Curves: what is drawn over what, with units."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Axis:
    """What one direction counts."""

    name: str
    unit: str
    logarithmic: bool

    def __str__(self) -> str:
        return f"{self.name} ({self.unit})" if self.unit else self.name


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one kind, from left to right."""

    label: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Curve:
    """One plot. Its values are estimated."""

    name: str
    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    lines: bool = True  # else points alone

    @property
    def csv(self) -> str:
        """A row for each point; the head says what the columns count."""
        rows = [f"series,{self.x},{self.y}: estimated"]
        for series in self.series:
            rows += [f"{series.label.replace(',', '')},{x:.12g},{y:.6g}" for x, y in series.points]
        return "\n".join(rows) + "\n"
