"""Mistakes that several fields of a machine's file make together."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from pydantic_core import PydanticCustomError

from tilestitch.base.dtypes import DType
from tilestitch.hardware.accelerator import CORE_LEVELS, Level, Sharing
from tilestitch.hardware.fields import WholeField, closest, shown
from tilestitch.hardware.schema import (
    BANDWIDTH,
    CLUSTERS,
    CORE_COUNT,
    EXTENT,
    MAX_CORES_PER_CLUSTER,
    MAX_MACS_PER_CYCLE,
    UnitKind,
    unit_kind,
)
from tilestitch.hardware.yaml_tree import Mistake, Scalar, Tree

MAX_CORES = 65536
MAX_TICKS_PER_CYCLE = 10**6  # the simulator counts time in whole ticks, each an exact fraction of a cycle


def contradictions(tree: Tree) -> list[Mistake]:
    """Mistakes across fields, as far as the fields that they need can be read."""
    return [*_core_mistakes(tree), *_unit_mistakes(tree), *_memory_mistakes(tree), *_bandwidth_mistakes(tree)]


def _part(tree: Tree, *path: str) -> Mapping[str, Tree]:
    """The mapping at `path`, empty where there is none."""
    for key in path:
        tree = tree.get(key, {}) if isinstance(tree, dict) else {}
    return tree if isinstance(tree, dict) else {}


def _number(tree: Mapping[str, Tree], key: str, field: WholeField) -> int | None:
    try:
        return field(tree.get(key))
    except PydanticCustomError:
        return None


def _core_mistakes(tree: Tree) -> Iterator[Mistake]:
    groups, units = _part(tree).get("cores"), _part(tree).get("units")
    cores = 0
    for index, group in enumerate(groups if isinstance(groups, list) else []):
        if not isinstance(group, dict):
            continue
        if not any(kind in group for kind in UnitKind):
            yield Mistake(("cores", index), f"expected a unit ({', '.join(UnitKind)}), found none")
        if UnitKind.ARRAY in group and UnitKind.MATRIX in group:
            yield Mistake(("cores", index), "expected an array or a matrix unit, found both; leave out one of them")
        yield from _level_mistakes(index, group, _part(tree, "memories"))
        cores += _number(group, "count", CORE_COUNT) or 0
        for kind in UnitKind:
            name = group.get(kind)
            if not isinstance(units, dict) or not isinstance(name, Scalar):
                continue
            known = [unit for unit, fields in units.items() if unit_kind(fields) == kind]
            problem = f"expected a unit of kind {kind}, found {shown(name)}"
            if name.text not in units:
                hint = closest(name.text, known) or f"; known: {', '.join(known) or 'none'}"
                yield Mistake(("cores", index, kind), f"{problem}, which units does not define{hint}")
            elif (other := unit_kind(units[name.text])) not in (kind, None):
                yield Mistake(("cores", index, kind), f"{problem} of kind {other}; known: {', '.join(known) or 'none'}")
    if cores > MAX_CORES_PER_CLUSTER:
        yield Mistake(("cores",), f"expected at most {MAX_CORES_PER_CLUSTER} cores per cluster, found {cores}")
    clusters = _number(_part(tree), "clusters", CLUSTERS) or 0
    if clusters * cores > MAX_CORES:
        product = f"{clusters} clusters x {cores} cores = {clusters * cores}"
        yield Mistake(("clusters",), f"expected at most {MAX_CORES} cores in all, found {product}")


def _level_mistakes(index: int, group: Mapping[str, Tree], memories: Mapping[str, Tree]) -> Iterator[Mistake]:
    """Memories that a group of cores claims and the machine does not have."""
    named = group.get("memories")
    for item in named if isinstance(named, list) else []:
        if isinstance(item, Scalar) and item.text in CORE_LEVELS and item.text not in memories:
            yield Mistake(
                ("cores", index, "memories"),
                f"expected memories per core that the machine has, found {item.text}; "
                f"describe memories.{item.text}, or leave it out here",
            )


def _unit_mistakes(tree: Tree) -> Iterator[Mistake]:
    for name, fields in _part(tree, "units").items():
        match unit_kind(fields):
            case UnitKind.MATRIX | UnitKind.ARRAY as kind:
                speeds = "rates"
                keys = ("m", "k", "n") if kind == UnitKind.MATRIX else ("rows", "columns")
                extents = [_number(_part(fields), key, EXTENT) or 0 for key in keys]
                if math.prod(extents) > MAX_MACS_PER_CYCLE:
                    limit = f"at most {MAX_MACS_PER_CYCLE} multiply-accumulates a cycle"
                    product = f"{' x '.join(keys)} = {' x '.join(map(str, extents))} = {math.prod(extents)}"
                    yield Mistake(("units", name), f"expected {limit}, found {product}")
            case UnitKind.VECTOR:
                speeds = "lanes"
            case _:
                continue
        types = _part(fields).get(speeds)
        if isinstance(types, dict) and DType.FLOAT16 not in types:
            found = ", ".join(key for key in types if key in tuple(DType)) or "none"
            yield Mistake(
                ("units", name, speeds), f"expected {speeds} for float16, in which networks run, found {found}"
            )


def _memory_mistakes(tree: Tree) -> Iterator[Mistake]:
    memories = _part(tree, "memories")
    for level in (Level.WEIGHTS, Level.ACCUMULATORS):
        if level in memories and Level.LB not in memories:
            yield Mistake(
                ("memories", level), f"expected memories.lb beside it, found none; add lb or leave {level} out"
            )
    ddr, gb = (_part(memories.get(level, {})).get("per") for level in (Level.DDR, Level.GB))
    apart = isinstance(ddr, Scalar) and ddr.text == Sharing.CLUSTER
    if apart and isinstance(gb, Scalar) and gb.text == Sharing.CHIP:
        yield Mistake(
            ("memories", "gb", "per"),
            "expected cluster, because memories.ddr is per cluster, found 'chip'; write cluster, or share ddr too",
        )


def _bandwidth_mistakes(tree: Tree) -> Iterator[Mistake]:
    """Bandwidths that leave the simulator no tick short enough for all of them and long enough to count.

    A byte at p/q bytes per cycle takes q/p cycles, so the longest tick that divides every such time is 1/LCM(p).
    """
    key = "bandwidth_bytes_per_cycle"
    places = [("memories", level) for level in Level] + [("link",)]
    bandwidths: dict[tuple[str, ...], Fraction] = {}
    for place in places:
        try:
            bandwidths[place] = BANDWIDTH(_part(tree, *place).get(key))
        except PydanticCustomError:
            continue  # absent, or reported already
    ticks = _ticks_per_cycle(bandwidths.values())
    kept = dict(bandwidths)
    while _ticks_per_cycle(kept.values()) > MAX_TICKS_PER_CYCLE:
        # without the oddest one the rest agree best; the later one where two are alike
        del kept[min(reversed(kept), key=lambda place: _ticks_per_cycle(v for p, v in kept.items() if p != place))]
    for place, found in bandwidths.items():
        if place not in kept:
            kept[place] = _nearest(found, _ticks_per_cycle(kept.values()))
            yield Mistake(
                (*place, key),
                f"expected a bandwidth that shares a tick of at least 1/{MAX_TICKS_PER_CYCLE} cycle with the others, "
                f"found {shown(_part(tree, *place).get(key))}, which needs 1/{ticks} cycle; "
                f"round it, for example to {kept[place]}, or round the others",
            )


def _ticks_per_cycle(bandwidths: Iterable[Fraction]) -> int:
    return math.lcm(*(bandwidth.numerator for bandwidth in bandwidths))


def _nearest(bandwidth: Fraction, ticks: int) -> Fraction:
    """The ratio nearest to `bandwidth`, with a denominator up to 8, that keeps the common tick long enough."""
    numerators = [one for one in range(1, MAX_TICKS_PER_CYCLE + 1) if math.lcm(one, ticks) <= MAX_TICKS_PER_CYCLE]
    candidates: list[Fraction] = []
    for denominator in range(1, 9):
        above = bisect_left(numerators, math.ceil(bandwidth * denominator))
        for index in (above - 1, above):
            index = min(max(index, 0), len(numerators) - 1)
            candidates.append(Fraction(numerators[index], denominator))
    return min(candidates, key=lambda candidate: (abs(candidate - bandwidth), candidate.denominator))
