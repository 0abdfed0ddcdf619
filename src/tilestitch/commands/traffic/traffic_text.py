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
_OF_LAYERS = (
    "What any mapping of a layer moves at least between a buffer of all its operands and the memory outside,",
    "as multiples of what is compulsory: every element that is needed, once. The search is exact; factors",
    "divide, windows that overlap stay, running sums have the width of results (docs/traffic.md).",
)
_OF_ALL_CHAINS = ("one by one   the operators of chains one after another, each with the buffer for itself",)
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
    if found.together > 1:
        apart = [_times(found.apart_bytes(at), found.compulsory_bytes) for at in shown]
        rows.append(["all, one by one", "", "", "", "", *apart])
    return "\n".join(
        [
            *title(f"{found.name}: least traffic by the capacity of one buffer, estimated", "="),
            *(_OF_LAYERS if found.together == 1 else _of_chains(found)),
            *(f"note: {note}" for note in found.notes),
            "",
            *table(head, rows, "l" + "r" * (len(head) - 1)),
            "",
            "compulsory   bytes that cross with room for everything",
            "enough       the least capacity from which on no more than that crosses",
            "all          layers one after another, each as often as it runs, with nothing kept between them",
            *(_OF_ALL_CHAINS if found.together > 1 else ()),
            "",
        ]
    )


def _of_chains(found: TrafficOfLayers) -> tuple[str, ...]:
    """What is said of chains before the table."""
    return (
        f"What any mapping of a chain with up to {found.together} operators together moves at least between a buffer",
        "and the memory outside, as multiples of what is compulsory: every element that is needed, once, but for what",
        "passes from one operator to the next. The search is exact; factors divide, rows at the edge of windows are",
        "made again or kept where operators run together, running sums have the width of results (docs/traffic.md).",
    )


def _times(least: int | None, compulsory: int) -> str:
    return "-" if least is None else f"{least / compulsory:.2f} x"


def traffic_tree(found: TrafficOfLayers) -> dict[str, Json]:
    """Of the format `tilestitch.traffic`: sizes and traffic are in bytes."""
    places = range(len(found.capacities))
    apart: dict[str, Json] = {"apart_bytes": [found.apart_bytes(at) for at in places]} if found.together > 1 else {}
    return {
        "format": FORMAT,
        "version": VERSION,
        "network": found.name,
        "estimated": True,
        "together": found.together,
        **({"notes": list(found.notes)} if found.notes else {}),
        "capacities_bytes": list(found.capacities),
        "compulsory_bytes": found.compulsory_bytes,
        "least_bytes": [found.total_bytes(at) for at in places],
        **apart,
        "layers": [_layer(one) for one in found.layers],
    }


def _layer(one: LayerTraffic) -> dict[str, Json]:
    apart: dict[str, Json] = {"apart_bytes": list(one.apart_bytes)} if one.apart_bytes else {}
    return {
        "name": one.name,
        "times": one.times,
        "macs": one.macs,
        "compulsory_bytes": one.compulsory_bytes,
        "enough_bytes": one.enough_bytes,
        "least_bytes": list(one.least_bytes),
        **apart,
    }


def traffic_json(found: TrafficOfLayers) -> str:
    return json.dumps(traffic_tree(found), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def traffic_csv(found: TrafficOfLayers) -> str:
    """A row for each layer and capacity."""
    head = "layer,times,MACs,compulsory (bytes): estimated,capacity (bytes),least traffic (bytes): estimated"
    rows = [f"{head},one by one (bytes): estimated" if found.together > 1 else head]
    for one in found.layers:
        name = one.name.replace(",", "")
        for at, capacity in enumerate(found.capacities):
            least = [one.least_bytes[at], *([one.apart_bytes[at]] if one.apart_bytes else [])]
            figures = ",".join("" if number is None else f"{number}" for number in least)
            rows.append(f"{name},{one.times},{one.macs},{one.compulsory_bytes},{capacity},{figures}")
    return "\n".join(rows) + "\n"


def traffic_curves(found: TrafficOfLayers) -> tuple[Curve, ...]:
    """The network as a whole, and the layers that move most at the least capacity."""
    x, y = Axis("capacity", "KiB", logarithmic=True), Axis("least traffic", "KiB", logarithmic=True)

    def series(label: str, least: list[int | None]) -> Series:
        points = zip(found.capacities, least, strict=True)
        return Series(label, tuple((at / 1024, bytes_ / 1024) for at, bytes_ in points if bytes_ is not None))

    places = range(len(found.capacities))
    whole = [series("all layers", [found.total_bytes(at) for at in places])]
    if found.together > 1:
        whole.append(series("one by one", [found.apart_bytes(at) for at in places]))
    most = sorted(found.layers, key=lambda one: (-max((least or 0 for least in one.least_bytes), default=0), one.name))
    each = [series(one.name, list(one.least_bytes)) for one in most[:LINES]]
    title_of = "least traffic by capacity"
    curves = [
        Curve("network", f"{title_of}, layer by layer", x, y, tuple(whole)),
        Curve("layers", title_of, x, y, tuple(one for one in each if one.points)),
    ]
    return tuple(one for one in curves if one.series and one.series[0].points)


def traffic_result(found: TrafficOfLayers) -> Result:
    """All that the page of `traffic` holds."""
    return Result("traffic", f"{found.name}: least traffic by capacity", traffic_text(found), traffic_tree(found), {})
