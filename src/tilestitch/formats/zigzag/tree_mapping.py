"""What a mapping file of ZigZag spreads over the units of a machine tree, with its rules for what does not fit.

Source: the mapping files of ZigZag 3.9.1, the schema that it checks them with, and how its stages take them: the entry
of the layer's name counts, else that of its operator, else `default`; loops that the layer does not have are left out;
a factor is at most the axis, the loop, what the innermost port moves at once and what the innermost memory holds; and
where the factors of a loop do not divide it, the largest becomes the fraction that makes its steps whole.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, prod

from tilestitch.base.errors import InputError
from tilestitch.formats.foreign_file import Part, yaml_file
from tilestitch.formats.limits import MAX_EXTENT
from tilestitch.formats.zigzag.tree_workload import ZigzagLayer
from tilestitch.hardware.tree import Flow, MachineTree, TreeMemory
from tilestitch.mapping.tree.countable import countable
from tilestitch.mapping.tree.placed import PlacedNest, Unrolled, placed_faults

MOST_CHOICES = 5_000  # of what is spread along open axes
_FIELDS = ("spatial_mapping", "memory_operand_links", "spatial_mapping_hint", "temporal_ordering")
_LINKS = {"O": "O", "W": "I2", "I": "I1"}
_UNROLLED = re.compile(r"([A-Za-z]\w*)\s*,\s*([0-9]{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Given:
    """A factor of a loop along an axis."""

    axis: str
    loop: int
    factor: int


@dataclass(frozen=True, slots=True)
class ZigzagMapping:
    """One entry of a mapping file."""

    name: str
    part: Part
    spatial: Mapping[str, tuple[tuple[str, int], ...]]  # loops with their factors, by axis
    links: Mapping[str, str]
    hints: Mapping[str, tuple[str, ...]]
    is_ordered: bool  # says an order of loops


def zigzag_tree_mappings(text: str, where: str) -> tuple[tuple[ZigzagMapping, ...], tuple[str, ...]]:
    """The entries of a mapping file, and notes. Raises `InputError` with the place of what is not understood."""
    notes: list[str] = []
    found = tuple(_entry(part) for part in yaml_file(text, where, notes=notes).items("mappings"))
    if any(entry.is_ordered for entry in found):
        notes.append(
            f"{where}: temporal_ordering is a choice of a search; only what is spread over units is fixed here"
        )
    return found, tuple(notes)


def _entry(part: Part) -> ZigzagMapping:
    fields = part.fields(("name",), _FIELDS)
    spatial: dict[str, tuple[tuple[str, int], ...]] = {}
    if "spatial_mapping" in fields and not fields["spatial_mapping"].is_absent:
        for axis, loops in fields["spatial_mapping"].entries().items():
            found: dict[str, int] = {}
            for item in loops.items("loops", least=0):
                match = _UNROLLED.fullmatch(item.text("a loop and its factor"))
                if match is None or not 1 <= int(match[2]) <= MAX_EXTENT:
                    item.expected("a loop and its factor, as in 'K, 32'")
                found[match[1].upper()] = int(match[2])
            spatial[axis] = tuple(found.items())
    links = dict(_LINKS)
    if "memory_operand_links" in fields:
        links = {key: value.text("a name") for key, value in fields["memory_operand_links"].entries().items()}
        if len(set(links.values())) != len(links):
            fields["memory_operand_links"].refuse("two operands have one place in the memories; expected one each")
    hints: dict[str, tuple[str, ...]] = {}
    if "spatial_mapping_hint" in fields and not fields["spatial_mapping_hint"].is_absent:
        for axis, names in fields["spatial_mapping_hint"].entries().items():
            hints[axis] = tuple(item.text("a loop").upper() for item in names.items("loops", least=0))
    ordered = "temporal_ordering" in fields and fields["temporal_ordering"].value not in ([], {})
    return ZigzagMapping(fields["name"].text("a name"), part, spatial, links, hints, ordered)


def chosen_mapping(layer: ZigzagLayer, mappings: Sequence[ZigzagMapping], where: str) -> ZigzagMapping:
    """The entry for a layer: that of its name, else of its operator, else the default."""
    for name in (layer.nest.name, layer.operator, "default"):
        for entry in mappings:
            if entry.name == name:
                return entry
    known = ", ".join(entry.name for entry in mappings)
    raise InputError(
        f"{where}: no entry for layer {layer.nest.name} ({layer.operator}) and no default; found {known}; add one "
        "named default"
    )


def placed_layer(
    layer: ZigzagLayer, mapping: ZigzagMapping, tree: MachineTree
) -> tuple[tuple[PlacedNest, ...], tuple[str, ...]]:
    """A layer on a tree, spread as a mapping says, and notes on what of that was changed to fit.

    Windows are rounded as ZigZag's evaluator rounds them, so that both say the same of its mapping.
    Along an axis that the mapping leaves open one loop may be spread, of those that its hint names where there are
    some: every choice is one placement. Raises `InputError` for an axis that the machine does not have.
    """
    homes = tuple(_homes(layer, mapping, tree))
    bare = PlacedNest(countable(layer.nest), layer.final_bits, homes, (), tree, zigzag_windows=True)
    for fault in placed_faults(bare):
        raise InputError(f"layer {layer.nest.name}: {fault}")
    known = {axis.name: axis.size for axis in tree.axes}
    for axis in mapping.spatial:
        if axis not in known:
            mapping.part.refuse(f"{tree.name} has no axis {axis}; known: {', '.join(known) or 'none'}")
    given, notes = _fitted(bare, mapping)
    open_axes = [axis for axis in known if axis not in mapping.spatial]
    if open_axes:
        notes = (*notes, f"{', '.join(open_axes)}: chosen by the search, one loop along each")
    choices = _choices(bare, mapping, given, open_axes)
    return tuple(replace(bare, unrolled=_fractions([*given, *chosen], bare)) for chosen in choices), notes


def _homes(layer: ZigzagLayer, mapping: ZigzagMapping, tree: MachineTree) -> Iterator[str]:
    """What the machine calls the operands: as the mapping says, or where it knows no such name, as the layer does."""
    for array in layer.nest.operands:
        home = mapping.links.get(array.name, array.name)
        if home not in tree.operands and array.name in tree.operands:
            home = array.name
        if array.name not in mapping.links and home not in tree.operands:
            mapping.part.refuse(f"memory_operand_links says nothing of {array.name}, which layer {layer.nest.name} has")
        yield home


def _choices(
    bare: PlacedNest, mapping: ZigzagMapping, given: Sequence[_Given], open_axes: Sequence[str]
) -> list[tuple[_Given, ...]]:
    """Every way to spread one loop along each open axis, by what divides it or what it may be spread at most."""
    extents = bare.nest.extents
    names = [loop.name for loop in bare.nest.loops]
    most = _most(bare)
    found: list[tuple[_Given, ...]] = [()]
    for axis in open_axes:
        hinted = [names.index(name) for name in mapping.hints.get(axis, ()) if name in names]
        loops = hinted or range(len(names))
        options: list[tuple[_Given, ...]] = [()]
        for loop in loops:
            limit = most[axis, loop]
            factors = [factor for factor in range(2, limit + 1) if limit % factor == 0 or extents[loop] % factor == 0]
            options += [(_Given(axis, loop, factor),) for factor in factors]
        found = [(*chosen, *option) for chosen in found for option in options]
        found = [chosen for chosen in found if _is_within([*given, *chosen], extents)]
        if len(found) > MOST_CHOICES:
            mapping.part.refuse(
                f"spatial_mapping: leaves {', '.join(open_axes)} open, more than {MOST_CHOICES:,} choices for layer "
                f"{bare.nest.name}; write a loop and its factor for some, as in 'K, 16'"
            )
    return found


def _is_within(given: Sequence[_Given], extents: Sequence[int]) -> bool:
    return all(prod(one.factor for one in given if one.loop == loop) <= extent for loop, extent in enumerate(extents))


def _fitted(bare: PlacedNest, mapping: ZigzagMapping) -> tuple[list[_Given], tuple[str, ...]]:
    """The factors with what the machine and the layer allow."""
    nest, tree = bare.nest, bare.tree
    numbers = {loop.name: number for number, loop in enumerate(nest.loops)}
    most = _most(bare)
    notes: list[str] = []
    given: list[_Given] = []
    for axis, loops in mapping.spatial.items():
        for name, factor in loops:
            if name not in numbers:
                if factor > 1:
                    notes.append(f"{axis}: {nest.name} has no loop {name}; left out")
                continue
            limit = most[axis, numbers[name]]
            if factor > limit:
                notes.append(f"{axis}: {name} {factor} is more than fits or may be spread there; {limit}")
            given.append(_Given(axis, numbers[name], min(factor, limit)))
    given = _limited_to_axes(given, bare, notes)
    given = _limited_to_loops(given, bare, notes)
    for memory in _innermost(tree):
        given = _limited_to_memory(given, memory, bare, notes)
    return given, tuple(notes)


def _most(bare: PlacedNest) -> dict[tuple[str, int], int]:
    """The largest factor of each loop along each axis that the layer, the axis and the innermost ports allow."""
    extents = bare.nest.extents
    names = [loop.name for loop in bare.nest.loops]
    most = {
        (axis.name, loop): min(extents[loop], axis.size) if names[loop] in (axis.loops or names) else 1
        for axis in bare.tree.axes
        for loop in range(len(extents))
    }
    for memory in _innermost(bare.tree):
        for number, (array, home) in enumerate(zip(bare.operands, bare.homes, strict=True)):
            is_write = number == len(bare.nest.reads)
            port = memory.port(home, Flow.COLLECT if is_write else Flow.FEED)
            if home not in memory.operands or port is None or array.element_bits == 0:
                continue
            at_once = max(1, port.width_bits // array.element_bits)
            for axis in memory.serves:
                for loop in array.indexed_by:
                    most[axis, loop] = min(most[axis, loop], at_once)
    return most


def _innermost(tree: MachineTree) -> list[TreeMemory]:
    """The memories below which no other holds any of their operands."""
    return [
        memory
        for number, memory in enumerate(tree.memories)
        if not any(set(memory.operands) & set(inner.operands) for inner in tree.memories[:number])
    ]


def _limited_to_axes(given: list[_Given], bare: PlacedNest, notes: list[str]) -> list[_Given]:
    for axis in bare.tree.axes:
        while prod(one.factor for one in given if one.axis == axis.name) > axis.size:
            dropped = next(one for one in reversed(given) if one.axis == axis.name and one.factor > 1)
            notes.append(f"{axis.name}: more than its {axis.size} units; without {_shown(dropped, bare)}")
            given = [one for one in given if one is not dropped]
    return given


def _limited_to_loops(given: list[_Given], bare: PlacedNest, notes: list[str]) -> list[_Given]:
    for loop, extent in enumerate(bare.nest.extents):
        while prod(one.factor for one in given if one.loop == loop) > extent:
            dropped = next(one for one in reversed(given) if one.loop == loop and one.factor > 1)
            notes.append(f"{dropped.axis}: more than {extent} iterations; without {_shown(dropped, bare)}")
            given = [one for one in given if one is not dropped]
    return given


def _limited_to_memory(given: list[_Given], memory: TreeMemory, bare: PlacedNest, notes: list[str]) -> list[_Given]:
    """Factors made smaller, the largest first, until the elements that are spread inside a memory fit into it."""
    for array, home in zip(bare.operands, bare.homes, strict=True):
        if home not in memory.operands or array.element_bits == 0:
            continue
        inside = [at for at, one in enumerate(given) if one.axis in memory.serves and one.loop in array.indexed_by]
        factors = {at: given[at].factor for at in inside}
        while prod(factors.values()) * array.element_bits > memory.size_bits and max(factors.values(), default=1) > 1:
            largest = max(factors, key=lambda at: (factors[at], -at))
            factors[largest] -= 1
        for at, factor in factors.items():
            if factor < given[at].factor:
                notes.append(f"{given[at].axis}: {_shown(given[at], bare)} does not fit {memory.name}; {factor}")
                given[at] = _Given(given[at].axis, given[at].loop, factor)
    return given


def _shown(one: _Given, bare: PlacedNest) -> str:
    return f"{bare.nest.loops[one.loop].name} {one.factor}"


def _fractions(given: Sequence[_Given], bare: PlacedNest) -> tuple[Unrolled, ...]:
    """The factors; the largest of a loop, the first of equal ones, as the fraction that makes its steps whole."""
    found: list[Unrolled] = []
    for at, one in enumerate(given):
        same = [other for other in given if other.loop == one.loop]
        factor = Fraction(one.factor)
        if one is max(same, key=lambda other: other.factor):
            before = prod((made.factor for made in found[:at] if made.loop == one.loop), start=Fraction(1))
            extent = bare.nest.extents[one.loop]
            factor = Fraction(extent, ceil(extent / (one.factor * before))) / before
        found.append(Unrolled(one.axis, one.loop, factor))
    return tuple(found)
