"""A curve as a picture in SVG, which needs nothing else to be seen."""

import colorsys
import math
from collections.abc import Sequence
from html import escape

from tilestitch.report.curves import Axis, Curve

WIDTH, HEIGHT = 860, 520
LEFT, RIGHT, TOP, BOTTOM = 80, 230, 50, 60  # margins; the names of the series are on the right
TICKS = 6  # of a linear axis, about


def curve_svg(curve: Curve, machine: str, *, origin: str) -> str:
    """The picture: axes with units, a line or points for each series, and their names; `origin` of the values."""
    points = [point for series in curve.series for point in series.points]
    across = _Scale(curve.x, [x for x, _ in points], LEFT, WIDTH - RIGHT)
    up = _Scale(curve.y, [y for _, y in points], HEIGHT - BOTTOM, TOP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 20, f"{machine}: {curve.title}", size=14),
        _text(LEFT, 38, origin),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 15, str(curve.x), anchor="middle"),
        _text(20, (TOP + HEIGHT - BOTTOM) / 2, str(curve.y), anchor="middle", turned=True),
    ]
    for value in across.ticks:
        place = across.place(value)
        lines.append(_line(place, TOP, place, HEIGHT - BOTTOM, "#dddddd"))
        lines.append(_text(place, HEIGHT - BOTTOM + 18, f"{value:g}", anchor="middle"))
    for value in up.ticks:
        place = up.place(value)
        lines.append(_line(LEFT, place, WIDTH - RIGHT, place, "#dddddd"))
        lines.append(_text(LEFT - 6, place + 4, f"{value:g}", anchor="end"))
    for number, series in enumerate(curve.series):
        colour = _colour(number, len(curve.series))
        places = [(across.place(x), up.place(y)) for x, y in series.points]
        if curve.lines:
            shown = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            lines.append(f'<polyline points="{shown}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        lines += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in places]
        place = TOP + 10 + 18 * number
        lines.append(f'<circle cx="{WIDTH - RIGHT + 20}" cy="{place - 4}" r="4" fill="{colour}"/>')
        lines.append(_text(WIDTH - RIGHT + 32, place, series.label))
    lines.append("</svg>")
    return "\n".join(lines) + "\n"


def stacked_svg(pictures: Sequence[str]) -> str:
    """Pictures of curves, one above the other."""
    height = HEIGHT * len(pictures)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">'
    ]
    lines += [one.rstrip().replace("<svg ", f'<svg y="{HEIGHT * at}" ', 1) for at, one in enumerate(pictures)]
    return "\n".join([*lines, "</svg>"]) + "\n"


class _Scale:
    """Values along one axis as places in the picture."""

    def __init__(self, axis: Axis, values: list[float], first: float, last: float) -> None:
        self.logarithmic = axis.logarithmic
        least, most = min(values), max(values)
        if axis.logarithmic:
            self.ticks = [10.0**power for power in range(math.floor(math.log10(least)), _ceil(math.log10(most)) + 1)]
        else:
            step = _step(max(most, 1e-12) / TICKS)
            self.ticks = [number * step for number in range(_ceil(max(most, step) / step) + 1)]
        if len(self.ticks) < 2:
            self.ticks.append(self.ticks[0] * 10)
        self.begin, self.end = self._value(self.ticks[0]), self._value(self.ticks[-1])
        self.first, self.last = first, last

    def place(self, value: float) -> float:
        """Where a value is, in pixels."""
        share = (self._value(value) - self.begin) / (self.end - self.begin)
        return self.first + share * (self.last - self.first)

    def _value(self, value: float) -> float:
        return math.log10(value) if self.logarithmic else value


def _ceil(value: float) -> int:
    return math.ceil(value - 1e-9)  # a value on a tick needs no tick above it


def _step(least: float) -> float:
    """The next of 1, 2, 5, 10, ..."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def _colour(number: int, count: int) -> str:
    """From red over green to violet."""
    red, green, blue = colorsys.hls_to_rgb(0.8 * number / max(1, count - 1), 0.42, 0.75)
    return f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"


def _line(x: float, y: float, to_x: float, to_y: float, colour: str) -> str:
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, turned: bool = False) -> str:
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{turn}>{escape(text)}</text>'
