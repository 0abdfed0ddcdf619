"""A validation as a picture: estimated over simulated cycles, and how many mappings have which error."""

from tilestitch.base.units import counted
from tilestitch.commands.validate.summary import JudgedNetwork
from tilestitch.report.curves import Axis, Curve, Series
from tilestitch.report.svg import curve_svg, stacked_svg

MOST_SERIES = 20  # whose names have room beside the picture
POINTS = 200  # of the distribution


def validation_svg(done: JudgedNetwork) -> str:
    """Two plots, one above the other."""
    origin = (
        f"{done.name}, {counted(len(done.found), 'random mapping')}: estimated by the analytical model, simulated "
        "cycle by cycle"
    )
    return stacked_svg([curve_svg(curve, done.machine_name, origin=origin) for curve in (_scatter(done), _share(done))])


def _scatter(done: JudgedNetwork) -> Curve:
    groups: dict[str, list[tuple[float, float]]] = {}
    by_layer = len(done.layers) <= MOST_SERIES
    for layer in done.layers:
        label = layer.layer.nest.name if by_layer else layer.layer.nest.kind
        points = [(float(one.simulated_cycles), float(one.estimated_cycles)) for one in layer.found]
        groups.setdefault(label, []).extend(points)
    return Curve(
        "cycles",
        "latency, estimated over simulated",
        Axis("simulated latency", "cycles", True),
        Axis("estimated latency", "cycles", True),
        tuple(Series(label, tuple(points)) for label, points in groups.items() if points),
        lines=False,
    )


def _share(done: JudgedNetwork) -> Curve:
    sizes = sorted(abs(one.error) for one in done.found)
    count = len(sizes)
    places = sorted({round(at * (count - 1) / (POINTS - 1)) for at in range(POINTS)})
    points = tuple((100 * sizes[at], 100 * (at + 1) / count) for at in places)
    return Curve(
        "errors",
        "mappings up to an error",
        Axis("absolute error of the estimated latency", "%", False),
        Axis("mappings with at most this error", "%", False),
        (Series("all mappings", points),),
    )
