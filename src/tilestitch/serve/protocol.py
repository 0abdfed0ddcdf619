"""What the page sends, as values; everything else is refused with one sentence."""

from dataclasses import replace

from tilestitch.base.json_text import JsonPart, json_value
from tilestitch.base.json_values import value_of
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.by_hand import BREADTH_FIRST, DEPTH_FIRST, HandSchedule
from tilestitch.ir.choices import MAX_BATCH
from tilestitch.serve.edits import Border, Cut, Edit, Keep, KeepAll, Merge, Move, Reorder, Split
from tilestitch.serve.workbench import Asked, ByHandStart, Start

WHERE = "request"
_MOST = 10**6  # groups, pieces and their places
_SCOPES = {"lb": Level.LB, "gb": Level.GB, "ddr": Level.DDR}
_ORDERS = {name: name for name in (DEPTH_FIRST, BREADTH_FIRST)}
_FIELDS = {
    "border": ("group", "later"),
    "merge": ("group",),
    "split": ("group", "kernels"),
    "cut": ("group", "axis", "pieces"),
    "move": ("place", "later"),
    "order": ("order",),
    "keep": ("place", "scope"),
    "keep-all": ("group", "scope"),
}


def body(text: str) -> JsonPart:
    """The JSON of a request."""
    return JsonPart(json_value(text, WHERE), WHERE)


def compile_request(whole: JsonPart) -> Asked | tuple[int, Edit]:
    """What to compile: a strategy, a schedule, or an edit of an earlier compilation."""
    entries = whole.entries()
    if "edit" in entries:
        fields = whole.fields(("key", "edit"))
        return _key(fields["key"]), edit_of(fields["edit"])
    if "schedule" not in entries:
        fields = whole.fields(("network", "machine", "batch", "strategy"))
        named = fields["network"].text(), fields["machine"].text()
        return Start(*named, _batch(fields["batch"]), fields["strategy"].text())
    fields = whole.fields(("network", "machine", "batch", "batch_per_iteration", "schedule"))
    schedule = value_of(HandSchedule, fields["schedule"].value, f"{WHERE}: schedule")
    order = schedule.order if isinstance(schedule.order, str) else tuple(schedule.order)
    return ByHandStart(
        fields["network"].text(),
        fields["machine"].text(),
        _batch(fields["batch"]),
        fields["batch_per_iteration"].whole(1, MAX_BATCH),
        replace(schedule, groups=tuple(schedule.groups), order=order),
    )


def save_request(whole: JsonPart) -> tuple[int, str, bool]:
    """Which compilation to save, under which name, and whether that may replace a file."""
    fields = whole.fields(("key", "name", "replace"))
    return _key(fields["key"]), fields["name"].text(), _truth(fields["replace"])


def edit_of(part: JsonPart) -> Edit:
    """One change of a schedule."""
    entries = part.entries()
    kind = entries["kind"].choice({name: name for name in _FIELDS}) if "kind" in entries else "border"
    fields = part.fields(("kind", *_FIELDS[kind]))
    match kind:
        case "border":
            return Border(_number(fields["group"]), _truth(fields["later"]))
        case "merge":
            return Merge(_number(fields["group"]))
        case "split":
            return Split(_number(fields["group"]), _number(fields["kernels"]))
        case "cut":
            return Cut(_number(fields["group"]), _number(fields["axis"]), _number(fields["pieces"]))
        case "move":
            return Move(_number(fields["place"]), _truth(fields["later"]))
        case "order":
            return Reorder(fields["order"].choice(_ORDERS))
        case "keep":
            return Keep(_number(fields["place"]), _scope(fields["scope"]))
        case _:
            return KeepAll(_number(fields["group"]), _scope(fields["scope"]))


def _key(part: JsonPart) -> int:
    return part.whole(0, 10**9)


def _number(part: JsonPart) -> int:
    return part.whole(0, _MOST)


def _truth(part: JsonPart) -> bool:
    if not isinstance(part.value, bool):
        part.expected("true or false")
    return part.value


def _batch(part: JsonPart) -> int | None:
    return None if part.value is None else part.whole(1, MAX_BATCH)


def _scope(part: JsonPart) -> Level | None:
    return None if part.value is None else part.choice(_SCOPES)
