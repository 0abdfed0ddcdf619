"""Machine files as they once were, with clusters, cores and memories by name: what they would be now, in one error."""

from collections.abc import Iterator

from tilestitch.hardware.fields import shown
from tilestitch.hardware.yaml_tree import Scalar, Tree

_OUTSIDE = {"chip": "[core, cluster]", "cluster": "[core]", "core": "[]"}
_KEPT = {"ddr": "[I, W, O]", "gb": "[I, W, O]", "lb": "[I, W, O]", "weights": "[W]", "accumulators": "[O]"}


def old_form(found: Tree) -> str:
    """What a file in the old form would be now, as one sentence; empty for every other file."""
    if not isinstance(found, dict) or isinstance(found.get("memories"), list):
        return ""
    if not isinstance(found.get("memories"), dict) and not {"clock_hz", "clusters"} & set(found):
        return ""
    changes = "; ".join(_changes(found))
    return f"is in the form that machine files had before memories were a list; write {changes}; see docs/tree-file.md"


def _changes(found: dict[str, Tree]) -> Iterator[str]:
    clock, clusters, cores = found.get("clock_hz"), found.get("clusters"), found.get("cores")
    if isinstance(clock, Scalar):
        yield f"clock: {_said(clock)} for clock_hz"
    axes = []
    counts = [group.get("count") for group in cores if isinstance(group, dict)] if isinstance(cores, list) else []
    whole = [int(one.text) for one in counts if isinstance(one, Scalar) and one.text.isdecimal() and len(one.text) < 9]
    if counts and len(whole) == len(counts):
        axes.append(f"{{name: core, size: {sum(whole)}}}")
    if isinstance(clusters, Scalar):
        axes.append(f"{{name: cluster, size: {_said(clusters)}}}")
    if axes:
        yield f"axes: [{', '.join(axes)}] for clusters and the cores of one"
    memories = found.get("memories")
    if isinstance(memories, dict):
        names = [name for name in reversed(_KEPT) if name in memories]
        each = [
            f"{{name: {name}, operands: {_kept(name, memories)}, serves: {_served(memories[name])}}}" for name in names
        ]
        yield f"memories as a list from the innermost outwards{': ' if each else ''}{', '.join(each)}"
        yield "size for size_bytes, and leave out per; the other keys of memories stay"


def _said(value: Scalar) -> str:
    return value.text if value.text.replace("_", "").isalnum() else shown(value)


def _kept(name: str, memories: dict[str, Tree]) -> str:
    return "[I, O]" if name == "lb" and "weights" in memories else _KEPT[name]


def _served(memory: Tree) -> str:
    per = memory.get("per") if isinstance(memory, dict) else None
    return _OUTSIDE.get(per.text, "[core]") if isinstance(per, Scalar) else "[core]"
