"""What a user fixes of mappings on a tree: a file of ours, or Timeloop's constraints.

Source of Timeloop's: the constraint files of its exercises (`architecture_constraints` and `mapspace_constraints`, a
list of targets, or a mapping with one). A factor at a memory counts the steps of the loops at that memory; the tile
that it holds is the product of the factors of all memories at and inside it. So a factor says something about a tile
where the memories inside say theirs.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from tilestitch.base.errors import InputError
from tilestitch.base.text_files import file_text
from tilestitch.commands.map.sources import MAX_YAML_BYTES
from tilestitch.formats.foreign_file import Part, yaml_file
from tilestitch.formats.foreign_tree import ForeignTree
from tilestitch.formats.limits import MAX_EXTENT
from tilestitch.formats.timeloop.constraints import factors_of, permutation_of
from tilestitch.hardware.tree import ROLES, MachineTree
from tilestitch.hardware.yaml_tree import Scalar
from tilestitch.mapping.tree.choices import SpatialSpace
from tilestitch.mapping.tree.placed import CutLimit, PlacedNest

_TIMELOOP = ("architecture_constraints", "mapspace_constraints", "mapspace", "constraints")
_DATASPACE = ("bypass", "bypassing", "datatype", "dataspace")


@dataclass(frozen=True, slots=True)
class Constraints:
    """What is fixed. Loops and operands have the names of the layers and of the machine."""

    file: str = ""
    factors: Mapping[tuple[str, str], int] = field(default_factory=dict)  # by axis and loop
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # loops by axis; "" alone: none
    bypass: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # operands by memory
    shares: Mapping[tuple[str, str], Fraction] = field(default_factory=dict)  # by memory and operand
    tiles: Mapping[tuple[str, str], tuple[int, int]] = field(default_factory=dict)  # by memory and loop
    order: tuple[tuple[str, int], ...] = ()  # loops and factors of the innermost steps in turn; 0: all that are left
    notes: tuple[str, ...] = ()
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # loops from the innermost, by memory

    def loops(self) -> tuple[str, ...]:
        """Every loop that is named, once."""
        named = [loop for loop, _ in self.order] + [loop for _, loop in (*self.factors, *self.tiles)]
        return tuple(dict.fromkeys([*named, *(loop for loops in self.only.values() for loop in loops if loop)]))

    def over(self, other: "Constraints") -> "Constraints":
        """These and others, of which these count where both say something of the same."""
        return Constraints(
            self.file or other.file,
            {**other.factors, **self.factors},
            {**other.only, **self.only},
            {**other.bypass, **self.bypass},
            {**other.shares, **self.shares},
            {**other.tiles, **self.tiles},
            self.order or other.order,
            (*other.notes, *self.notes),
            {**other.orders, **self.orders},
        )

    def space(self, space: SpatialSpace) -> SpatialSpace:
        """The choices of a space that keep to this."""
        return replace(space, given=dict(self.factors), only=dict(self.only))

    def limited(self, bare: PlacedNest) -> PlacedNest:
        """A nest with the limits of what memories hold of its operands, and the order of its loops."""
        limits: list[CutLimit] = []
        for memory in bare.tree.memories:
            tile = tuple(
                (number, *self.tiles[memory.name, loop.name])
                for number, loop in enumerate(bare.nest.loops)
                if (memory.name, loop.name) in self.tiles
            )
            for home in memory.operands:
                share = self.shares.get((memory.name, home), Fraction(1))
                if tile or share < 1:
                    limits.append(CutLimit(memory.name, home, share, tile))
        numbers = {loop.name: number for number, loop in enumerate(bare.nest.loops)}
        order = tuple((numbers[loop], factor) for loop, factor in self.order if loop in numbers)
        return replace(bare, limits=tuple(limits), order=order)

    def bypassed(self, tree: MachineTree) -> MachineTree:
        """The tree in which memories do not hold what goes past them."""
        memories = []
        for memory in tree.memories:
            past = self.bypass.get(memory.name, ())
            kept = tuple(one for one in memory.operands if one not in past)
            ports = tuple(
                replace(port, flows=tuple(flow for flow in port.flows if flow[0] in kept)) for port in memory.ports
            )
            if kept:
                memories.append(replace(memory, operands=kept, ports=ports) if past else memory)
        return replace(tree, memories=tuple(memories))


@dataclass(frozen=True, slots=True)
class ConstraintText:
    """What a file of constraints says, and its name."""

    text: str
    file: str


def constraint_text(given: Path) -> ConstraintText:
    """Read a file of constraints; what it means depends on the machine."""
    return ConstraintText(file_text(given, "YAML", MAX_YAML_BYTES), given.name)


def open_constraints(given: ConstraintText, tree: MachineTree) -> Constraints:
    """The constraints in a file, ours or Timeloop's. Raises `InputError` for what it does not understand."""
    file = yaml_file(given.text, given.file)
    keys = [key for key in _TIMELOOP if key in file.entries()]
    found = _timeloop(file, keys, tree) if keys else _ours(file, tree)
    for memory, operands in found.bypass.items():
        for operand in operands:
            if tree.chain(operand)[-1].name == memory:
                raise InputError(f"{given.file}: {memory} is the outermost memory of {operand}, which begins there")
    return found


def expect_known_loops(constraints: Constraints, nests: Iterable[Sequence[str]]) -> None:
    """Refuse the name of a loop that no layer has; `nests` are the names of the loops of each."""
    known = tuple(dict.fromkeys(loop for nest in nests for loop in nest))
    for loop in constraints.loops():
        if loop not in known:
            raise InputError(f"{constraints.file}: no layer has a loop {loop}; known: {', '.join(known)}")


def _ours(file: Part, tree: MachineTree) -> Constraints:
    parts = file.fields((), ("spatial", "memories", "order"))
    factors: dict[tuple[str, str], int] = {}
    only: dict[str, tuple[str, ...]] = {}
    for axis, part in _named(parts.get("spatial"), [axis.name for axis in tree.axes], "axis"):
        if isinstance(part.value, list):
            only[axis] = tuple(item.text("a loop") for item in part.items("loops", least=0)) or ("",)
        else:
            factors |= {(axis, loop): one.whole("", 1, MAX_EXTENT) for loop, one in part.entries().items()}
    bypass: dict[str, tuple[str, ...]] = {}
    shares: dict[tuple[str, str], Fraction] = {}
    tiles: dict[tuple[str, str], tuple[int, int]] = {}
    for memory, part in _named(parts.get("memories"), [memory.name for memory in tree.memories], "memory"):
        fields = part.fields((), ("bypass", "share", "tile"))
        held = next(one for one in tree.memories if one.name == memory).operands
        if "bypass" in fields:
            bypass[memory] = tuple(_operand(item, held) for item in fields["bypass"].items("operands"))
        if "share" in fields:
            for operand, one in _named(fields["share"], held, "operand"):
                shares[memory, operand] = one.ratio("share of the memory")
                if shares[memory, operand] > 1:
                    one.expected("a share of at most 1")
        if "tile" in fields:
            for loop, one in fields["tile"].entries().items():
                tiles[memory, loop] = _range(one)
    order = _order(parts["order"]) if "order" in parts else ()
    return Constraints(file.file, factors, only, bypass, shares, tiles, order)


def _order(part: Part) -> tuple[tuple[str, int], ...]:
    """Loops and factors in turn; of a loop nothing may follow all that is left of it."""
    found: list[tuple[str, int]] = []
    for item in part.items("loops"):
        loop, factor = _ordered(item)
        if (loop, 0) in found:
            item.refuse(f"all steps of {loop} that are left stand in front of this already; remove one of the two")
        found.append((loop, factor))
    return tuple(found)


def _ordered(part: Part) -> tuple[str, int]:
    """A loop with all steps that are left, or with a factor, as ZigZag's `temporal_ordering` has it."""
    if not isinstance(part.value, list):
        return part.text("a loop"), 0
    pair = part.items("a loop and its factor", least=2)
    if len(pair) != 2:
        part.expected("a loop, or a loop and its factor, as in [K, 4]")
    is_rest = isinstance(pair[1].value, Scalar) and pair[1].value.text == "*"
    return pair[0].text("a loop"), 0 if is_rest else pair[1].whole("", 1, MAX_EXTENT)


def _named(part: Part | None, known: Sequence[str], what: str) -> list[tuple[str, Part]]:
    entries = part.entries() if part is not None else {}
    for name, one in entries.items():
        if name not in known:
            one.refuse(f"no {what} has this name; known: {', '.join(known)}")
    return list(entries.items())


def _operand(part: Part, known: Sequence[str]) -> str:
    name = part.text("an operand")
    found = name if name in known else _of_role(name, known)
    if found is None:
        part.expected(f"an operand that this memory holds: {', '.join(known)}")
    return found


def _of_role(name: str, known: Sequence[str]) -> str | None:
    """What a machine calls the operand of another name for the same role."""
    for names in ROLES:
        if name in names:
            return next((one for one in names if one in known), None)
    return None


def _range(part: Part) -> tuple[int, int]:
    if isinstance(part.value, list):
        bounds = [one.whole("", 1, MAX_EXTENT) for one in part.items("a least and a most", least=2)]
        if len(bounds) != 2 or bounds[0] > bounds[1]:
            part.expected("a least and a most, as in [1, 14]")
        return bounds[0], bounds[1]
    exact = part.whole("", 1, MAX_EXTENT)
    return exact, exact


def _timeloop(file: Part, keys: Sequence[str], tree: MachineTree) -> Constraints:
    found = Constraints(file.file)
    notes: list[str] = []
    steps: dict[tuple[str, str], tuple[int, int]] = {}  # of loops at a memory
    factors, bypass = dict(found.factors), dict(found.bypass)
    orders: dict[str, tuple[str, ...]] = {}
    names = [memory.name for memory in tree.memories]
    for key in keys:
        part = file.entries()[key]
        listed = part.entries()["targets"] if isinstance(part.value, dict) and "targets" in part.entries() else part
        for target in listed.items("targets", least=0):
            fields = target.fields(
                ("target", "type"),
                ("factors", "permutation", "keep", "bypass", "split"),
                {"max_overbooked_proportion": "a tile that does not fit is no mapping"},
            )
            name, kind = fields["target"].text("a memory"), fields["type"].text("a type")
            if kind not in (*_DATASPACE, "temporal", "spatial"):
                fields["type"].expected("temporal, spatial, dataspace or bypass")
            axes = [axis.name for axis in tree.axes]
            if name not in (names if kind != "spatial" else (*axes, *names)):
                fields["target"].refuse(f"no part of {tree.name} has the name {name}; known: {', '.join(names)}")
            if "permutation" in fields and kind == "temporal":
                orders[name] = permutation_of(fields["permutation"])
            elif "permutation" in fields or "split" in fields:
                notes.append(f"{target.place}: what goes along X and along Y is that of the machine; left out")
            if kind in _DATASPACE:
                held = tree.memories[names.index(name)].operands
                for item in fields["keep"].items("operands", least=0) if "keep" in fields else ():
                    _operand(item, held)
                if "bypass" in fields:
                    bypass[name] = tuple(_operand(item, held) for item in fields["bypass"].items("operands", least=0))
            elif "factors" in fields:
                for loop, sign, factor in factors_of(fields["factors"]):
                    if kind == "temporal":
                        steps[name, loop] = (factor if sign == "=" else 1, factor)
                    elif sign != "=":
                        fields["factors"].refuse(f"{loop}: expected a fixed factor of what is spread, as in {loop}=4")
                    else:
                        factors[_axis(name, fields["target"], tree), loop] = factor
    tiles = _tiles(steps, names, file)
    return replace(found, factors=factors, bypass=bypass, tiles=tiles, notes=tuple(notes), orders=orders)


def _axis(name: str, part: Part, tree: MachineTree) -> str:
    """The axis of a name, or the one directly inside the memory of that name."""
    if name in [axis.name for axis in tree.axes]:
        return name
    at = [memory.name for memory in tree.memories].index(name)
    inner = {axis for memory in tree.memories[:at] for axis in memory.serves}
    here = [axis for axis in tree.memories[at].serves if axis not in inner]
    if len(here) != 1:
        part.refuse(f"{len(here)} axes lie directly inside {name}; write the name of one instead: {', '.join(here)}")
    return here[0]


def _tiles(
    steps: Mapping[tuple[str, str], tuple[int, int]], names: Sequence[str], file: Part
) -> dict[tuple[str, str], tuple[int, int]]:
    """The tiles that factors at memories come to, which all memories inside must say as well."""
    found, open_ones = tiles_of_steps(steps, names)
    for name, loop, missing in open_ones:
        file.refuse(f"{name}: a factor of {loop} says what {name} holds only if {missing}, further inside, has one too")
    return found


def tiles_of_steps(
    steps: Mapping[tuple[str, str], tuple[int, int]], names: Sequence[str]
) -> tuple[dict[tuple[str, str], tuple[int, int]], list[tuple[str, str, str]]]:
    """Least and most of the tiles by memory and loop; and those that say nothing: memory, loop, and what is missing.

    `names` are the memories from the innermost; what is missing is one further inside that says nothing of the loop.
    """
    found: dict[tuple[str, str], tuple[int, int]] = {}
    left: list[tuple[str, str, str]] = []
    for loop in dict.fromkeys(loop for _, loop in steps):
        least = most = 1
        missing = ""
        for name in names:
            if (name, loop) not in steps:
                missing = missing or name
            elif missing:
                left.append((name, loop, missing))
            else:
                least, most = least * steps[name, loop][0], most * steps[name, loop][1]
                found[name, loop] = (least, most)
    return found, left


def constraints_of(foreign: ForeignTree, where: str, loops: Iterable[str]) -> Constraints:
    """What another program's file of a machine restricts, for layers with these loops.

    Loops that no layer has are left out, with a note; so are factors at a memory that say nothing of a tile. Raises
    `InputError` for a loop that layers have in another case, unless they have none of those that are named.
    """
    known = set(loops)
    tiles, left = tiles_of_steps(foreign.steps, [memory.name for memory in foreign.tree.memories])
    unknown = {part: [loop for loop in named if loop not in known] for part, named in foreign.loops.items()}
    unknown = {part: named for part, named in unknown.items() if named}
    places = ", ".join(f"{part} ({', '.join(named)})" for part, named in unknown.items())
    named = {loop for one in foreign.loops.values() for loop in one}
    if named and not named & known:
        note = f"{where}: its constraints name only loops that no layer has: {places}; all of them are left out"
        return Constraints(where, notes=(note,))
    _expect_cases(unknown, where, known)
    notes = [f"{where}: its constraints name loops that no layer has: {places}; these are left out"] if unknown else []
    notes += [
        f"{where}: {name}: factors that say nothing of what it holds; left out"
        for name in dict.fromkeys(name for name, loop, _ in left if loop in known)
    ]
    only = {axis: tuple(one for one in named if one in {"", *known}) for axis, named in foreign.only.items()}
    orders = {part: tuple(one for one in named if one in known) for part, named in foreign.orders.items()}
    return Constraints(
        where,
        {key: factor for key, factor in foreign.factors.items() if key[1] in known},
        {axis: named for axis, named in only.items() if named},
        tiles={key: tile for key, tile in tiles.items() if key[1] in known},
        notes=tuple(notes),
        orders={part: named for part, named in orders.items() if named},
    )


def _expect_cases(unknown: Mapping[str, Sequence[str]], where: str, known: Collection[str]) -> None:
    """Refuse loops that differ from known ones only in their case."""
    for part, named in unknown.items():
        for loop in named:
            for other in (loop.upper(), loop.lower()):
                if other in known:
                    raise InputError(f"{where}: {part}: no layer has the loop {loop} of its constraints; write {other}")
