"""Least traffic by capacity for people, as JSON, as curves and as a page."""

import json

from tilestitch.base.json_values import Json
from tilestitch.base.units import format_bytes
from tilestitch.commands.traffic.value import LayerTraffic, TrafficOfLayers
from tilestitch.report.curves import Axis, Curve, Series
from tilestitch.report.html.page import Result
from tilestitch.report.table import table, title

FORMAT = "tilestitch.traffic"
VERSION = 1
COLUMNS = 8  # of capacities, in the text
LINES = 12  # in the picture of layers


def traffic_text(found: TrafficOfLayers) -> str:
    """A row for each layer, a column for each capacity; of many capacities every second or fourth."""
    shown = range(0, len(found.capacities), -(-len(found.capacities) // COLUMNS))
    head = ["layer", "times", "MACs", "compulsory", "enough", *(format_bytes(found.capacities[at]) for at in shown)]
    rows = [
        [
            one.name,
            f"{one.times:,}",
            f"{one.macs:,}",
            format_bytes(one.compulsory_bytes),
            format_bytes(one.enough_bytes),
            *(_times(one.least_bytes[at], one.compulsory_bytes) for at in shown),
        ]
        for one in found.layers
    ]
    macs = sum(one.times * one.macs for one in found.layers)
    enough = max(one.enough_bytes for one in found.layers)
    totals = [_times(found.total_bytes(at), found.compulsory_bytes) for at in shown]
    rows.append(["all", "", f"{macs:,}", format_bytes(found.compulsory_bytes), format_bytes(enough), *totals])
    return "\n".join(
        [
            *title(f"{found.name}: least traffic by the capacity of one buffer, estimated", "="),
            "What any mapping of a layer moves at least between a buffer of all its operands and the memory outside,",
            "as multiples of what is compulsory: every element that is needed, once. The search is exact; factors",
            "divide, windows that overlap stay, running sums have the width of results (docs/traffic.md).",
            "",
            *table(head, rows, "l" + "r" * (len(head) - 1)),
            "",
            "compulsory   bytes that cross with room for everything",
            "enough       the least capacity from which on no more than that crosses",
            "all          layers one after another, each as often as it runs, with nothing kept between them",
            "",
        ]
    )


def _times(least: int | None, compulsory: int) -> str:
    return "-" if least is None else f"{least / compulsory:.2f} x"


def traffic_tree(found: TrafficOfLayers) -> dict[str, Json]:
    """Of the format `tilestitch.traffic`: sizes and traffic are in bytes."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "network": found.name,
        "estimated": True,
        "capacities_bytes": list(found.capacities),
        "compulsory_bytes": found.compulsory_bytes,
        "least_bytes": [found.total_bytes(at) for at in range(len(found.capacities))],
        "layers": [_layer(one) for one in found.layers],
    }


def _layer(one: LayerTraffic) -> dict[str, Json]:
    return {
        "name": one.name,
        "times": one.times,
        "macs": one.macs,
        "compulsory_bytes": one.compulsory_bytes,
        "enough_bytes": one.enough_bytes,
        "least_bytes": list(one.least_bytes),
    }


def traffic_json(found: TrafficOfLayers) -> str:
    return json.dumps(traffic_tree(found), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def traffic_csv(found: TrafficOfLayers) -> str:
    """A row for each layer and capacity."""
    rows = ["layer,times,MACs,compulsory (bytes): estimated,capacity (bytes),least traffic (bytes): estimated"]
    for one in found.layers:
        for capacity, least in zip(found.capacities, one.least_bytes, strict=True):
            name = one.name.replace(",", "")
            rows.append(
                f"{name},{one.times},{one.macs},{one.compulsory_bytes},{capacity},{'' if least is None else least}"
            )
    return "\n".join(rows) + "\n"


def traffic_curves(found: TrafficOfLayers) -> tuple[Curve, ...]:
    """The network as a whole, and the layers that move most at the least capacity."""
    x, y = Axis("capacity", "KiB", logarithmic=True), Axis("least traffic", "KiB", logarithmic=True)

    def series(label: str, least: list[int | None]) -> Series:
        points = zip(found.capacities, least, strict=True)
        return Series(label, tuple((at / 1024, bytes_ / 1024) for at, bytes_ in points if bytes_ is not None))

    whole = series("all layers", [found.total_bytes(at) for at in range(len(found.capacities))])
    most = sorted(found.layers, key=lambda one: (-max((least or 0 for least in one.least_bytes), default=0), one.name))
    each = [series(one.name, list(one.least_bytes)) for one in most[:LINES]]
    title_of = "least traffic by capacity"
    curves = [
        Curve("network", f"{title_of}, layer by layer", x, y, (whole,)),
        Curve("layers", title_of, x, y, tuple(one for one in each if one.points)),
    ]
    return tuple(one for one in curves if one.series and one.series[0].points)


def traffic_result(found: TrafficOfLayers) -> Result:
    """All that the page of `traffic` holds."""
    return Result("traffic", f"{found.name}: least traffic by capacity", traffic_text(found), traffic_tree(found), {})
