"""Mistakes that several fields of a machine's file make together."""

import math
from collections.abc import Iterator, Mapping

from pydantic_core import PydanticCustomError

from tilestitch.base.units import counted
from tilestitch.hardware.fields import EnergyField, WholeField, closest, shown
from tilestitch.hardware.file_models import (
    CORE_COUNT,
    MAX_CORES_PER_CLUSTER,
    ONE_PORT,
    OWN_PORTS,
    SIZE,
    MemoryModel,
    field_expected,
)
from tilestitch.hardware.unit_models import BITS, EXTENT, MAX_MACS_PER_CYCLE, UnitKind, unit_kind
from tilestitch.hardware.yaml_tree import Mistake, Scalar, Tree

MAX_CORES = 65536


def contradictions(tree: Tree) -> list[Mistake]:
    """Mistakes across fields, as far as the fields that they need can be read."""
    return [
        *_core_mistakes(tree),
        *_unit_mistakes(tree),
        *_width_mistakes(tree),
        *_memory_mistakes(tree),
    ]


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


def _mappings(tree: Tree, key: str) -> list[tuple[int, Mapping[str, Tree]]]:
    """The mappings in a list of the file, with their positions."""
    found = _part(tree).get(key)
    return [(at, one) for at, one in enumerate(found) if isinstance(one, dict)] if isinstance(found, list) else []


def _core_mistakes(tree: Tree) -> Iterator[Mistake]:
    units = _part(tree).get("units")
    for index, group in _mappings(tree, "cores"):
        if not any(kind in group for kind in UnitKind):
            yield Mistake(("cores", index), f"expected a unit ({', '.join(UnitKind)}), found none")
        if UnitKind.ARRAY in group and UnitKind.MATRIX in group:
            yield Mistake(("cores", index), "expected an array or a matrix unit, found both; leave out one of them")
        yield from _own_memory_mistakes(index, group, tree)
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
    yield from _count_mistakes(tree)


def _count_mistakes(tree: Tree) -> Iterator[Mistake]:
    """Groups that have not the cores of a cluster together, and more cores than are known to work."""
    groups = _mappings(tree, "cores")
    sizes = {_text(axis.get("name")): _number(axis, "size", SIZE) for _, axis in _mappings(tree, "axes")}
    if not groups or not _mappings(tree, "memories") or None in sizes.values():
        return
    shared = [set(_texts(one.get("serves"))) for _, one in _mappings(tree, "memories")]
    along = next((one for one in shared if one), set[str]())
    per_cluster = math.prod(size or 1 for name, size in sizes.items() if name in along)
    every = math.prod(size or 1 for size in sizes.values())
    if per_cluster > MAX_CORES_PER_CLUSTER:
        yield Mistake(("axes",), f"expected at most {MAX_CORES_PER_CLUSTER} cores per cluster, found {per_cluster}")
    elif every > MAX_CORES:
        clusters = every // per_cluster
        product = f"{clusters} clusters x {per_cluster} cores = {every}"
        yield Mistake(("axes",), f"expected at most {MAX_CORES} cores in all, found {product}")
    counts = [_number(group, "count", CORE_COUNT) for _, group in groups if "count" in group]
    if None in counts:
        return
    said, rest = sum(count or 0 for count in counts), len(groups) - len(counts)
    axes = " x ".join(name for name in sizes if name in along)
    of_axes = f"{f'axis {axes} has' if axes else 'without an axis that a shared memory serves there is'} {per_cluster}"
    if rest > 1:
        yield Mistake(("cores",), f"expected the count of every group but one, found {len(counts)} of {len(groups)}")
    elif said + rest > per_cluster or (said < per_cluster and not rest):
        yield Mistake(("cores",), f"expected {counted(per_cluster, 'core')}, as {of_axes}, found {said + rest}")


def _text(found: "Tree | None") -> str:
    return found.text if isinstance(found, Scalar) else ""


def _texts(found: "Tree | None") -> list[str]:
    return [_text(one) for one in found] if isinstance(found, list) else []


def _own_memory_mistakes(index: int, group: Mapping[str, Tree], tree: Tree) -> Iterator[Mistake]:
    """Memories that a group of cores claims and that are not those of a core."""
    known = [_text(one.get("name")) for _, one in _mappings(tree, "memories") if one.get("serves") == []]
    for name in _texts(group.get("memories")):
        if name and name not in known:
            yield Mistake(
                ("cores", index, "memories"),
                f"expected memories of a core, which serve no axis, found {name}; known: {', '.join(known) or 'none'}",
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
        if _part(fields).get(speeds) == {}:
            yield Mistake(("units", name, speeds), f"expected {speeds} for at least one element type, found none")
    if "units" in _part(tree) and "mac_pj" in _part(tree):
        yield Mistake(("mac_pj",), "is said by the units; leave it out here")
    elif "units" not in _part(tree) and "cores" in _part(tree):
        yield Mistake(("units",), "expected a mapping from the names of units to what they are, found nothing")
    elif "memories" in _part(tree) and "units" not in _part(tree) and "mac_pj" not in _part(tree):
        yield Mistake(("mac_pj",), f"expected {EnergyField().expected}, found nothing; or write units, which say it")


def _width_mistakes(tree: Tree) -> Iterator[Mistake]:
    """Widths of elements on a chip, whose units say them, and of sums without or below those of elements."""
    found = _part(tree)
    if "units" in found:
        for key in ("bits", "sum_bits"):
            if key in found:
                yield Mistake((key,), "is said by the units of a chip; leave it out here")
        return
    bits, sum_bits = _number(found, "bits", BITS), _number(found, "sum_bits", BITS)
    if "sum_bits" in found and "bits" not in found:
        yield Mistake(("bits",), f"expected {BITS.expected}, found nothing; without it leave out sum_bits")
    elif bits is not None and sum_bits is not None and sum_bits < bits:
        problem = f"expected at least the {bits} bits of an element, as a sum becomes one, found {sum_bits}"
        yield Mistake(("sum_bits",), problem)


def _memory_mistakes(tree: Tree) -> Iterator[Mistake]:
    """Memories that say neither their ports nor one port for everything, or some of both."""
    for at, memory in _mappings(tree, "memories"):
        own, one = ([key for key in keys if key in memory] for keys in (OWN_PORTS, ONE_PORT))
        if not own and not one:
            yield Mistake(
                ("memories", at),
                f"expected its ports ({', '.join(OWN_PORTS)}), or one port for everything ({', '.join(ONE_PORT)}), "
                "found neither",
            )
        elif own and one:
            yield Mistake(
                ("memories", at),
                f"expected its ports ({', '.join(OWN_PORTS)}), or one port for everything ({', '.join(ONE_PORT)}), "
                f"found {', '.join((*own, *one))}; leave out one or the other",
            )
        for key in () if own and one else OWN_PORTS if own else ONE_PORT if one else ():
            if key not in memory:
                expected = "a list of ports, at least one" if key == "ports" else field_expected(MemoryModel, key)
                yield Mistake(("memories", at, key), f"expected {expected}, found nothing")
