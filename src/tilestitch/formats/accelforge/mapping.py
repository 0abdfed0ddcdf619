"""AccelForge's mappings on machine trees: nodes from the outermost, each inside the one before.

`!Storage` holds tensors in a memory from here inwards, `!Temporal` and `!Spatial` make tiles of `tile_shape` iterations
of a loop out of what is left of it. AccelForge reads a tensor again for every iteration of a loop outside the place
where it is stored, even of one that does not move it.

Source: the mapping format of AccelForge 1.0.467 and the mappings that it ships.
"""

from tilestitch.base.errors import InputError
from tilestitch.formats.exact_mapping import letters
from tilestitch.formats.foreign_file import Part, yaml_file
from tilestitch.formats.limits import MAX_EXTENT
from tilestitch.formats.tree_row import Along, Keeps, RowNode, Runs
from tilestitch.hardware.yaml_tree import TAG
from tilestitch.mapping.tree.placed import PlacedNest

MAPPING_TAGS = (
    *("!Storage", "!Temporal", "!Spatial", "!Compute", "!Nested", "!Toll", "!Sequential", "!Pipeline", "!Split"),
    "!Reservation",
)
_REFUSED = {
    "!Toll": "a tree has no tolls; leave it out",
    "!Reservation": "it is the mapper's own; leave it out",
    "!Sequential": "several einsums in one mapping are fused; write one for each, and its nodes in a row",
    "!Pipeline": "several einsums in one mapping are fused; write one for each, and its nodes in a row",
    "!Split": "several einsums in one mapping are fused; write one for each, and its nodes in a row",
}
_ROLES = ("input", "weight", "output")  # as renames of a product call its tensors


def accelforge_row(text: str, where: str, bare: PlacedNest) -> tuple[tuple[RowNode, ...], Part]:
    """The row of nodes that a file maps a nest to, and the file.

    Raises `InputError` with the place of what is not understood: fused einsums, tolls, tiles that do not divide.
    """
    file = yaml_file(text, where, tags=MAPPING_TAGS)
    entries = file.entries()
    if "mapping" not in entries:
        file.refuse("the field mapping is missing")
    left = list(bare.nest.extents)
    row: list[RowNode] = []
    ended = False
    for node in _flat(entries["mapping"].fields(("nodes",), ("version",))["nodes"]):
        if ended:
            node.refuse("expected nothing inside !Compute")
        kind = node.entries()[TAG].text()
        if kind == "!Compute":
            node.fields((TAG, "einsum", "component"))
            ended = True
        elif kind == "!Storage":
            fields = node.fields((TAG, "tensors", "component"), ("persistent",))
            held = tuple(_operand(item, bare) for item in fields["tensors"].items("tensors", least=0))
            if held:
                row.append(Keeps(fields["component"].text("a memory"), held, node))
        else:
            row.append(_loop(node, kind, left, bare))
    if not ended:
        entries["mapping"].refuse("expected !Compute as the last node")
    return tuple(row), file


def _flat(part: Part) -> list[Part]:
    """The nodes in a row, those of a nest in its place."""
    found: list[Part] = []
    for node in part.items("nodes"):
        tag = node.entries().get(TAG)
        kind = tag.text() if tag is not None else ""
        if kind in _REFUSED:
            node.refuse(f"{kind} is not supported: {_REFUSED[kind]}")
        if kind not in MAPPING_TAGS:
            node.refuse(f"expected one of the tags {', '.join(MAPPING_TAGS[:5])}")
        found += _flat(node.fields((TAG, "nodes"))["nodes"]) if kind == "!Nested" else [node]
    return found


def _loop(node: Part, kind: str, left: list[int], bare: PlacedNest) -> RowNode:
    """A loop in steps or along an axis; what is left of it becomes its tile."""
    known = ("rank_variable", "tile_shape", *(("name", "component") if kind == "!Spatial" else ()))
    unsupported = {
        "initial_tile_shape": "a first tile of another size does not divide its loop; write tile_shape alone"
    }
    fields = node.fields((TAG, *known), (), unsupported)
    loop = _number(fields["rank_variable"], bare)
    tile = fields["tile_shape"].whole("iterations", 1, MAX_EXTENT)
    if left[loop] % tile != 0:
        fields["tile_shape"].refuse(
            f"{tile:,} does not divide the {left[loop]:,} iterations of {bare.nest.loops[loop].name} that are left; "
            "expected a divisor"
        )
    factor, left[loop] = left[loop] // tile, tile
    if kind == "!Temporal":
        return Runs(loop, factor)
    component, name = fields["component"].text("a component"), fields["name"].text("a fan-out")
    known_axes = [axis.name for axis in bare.tree.axes]
    for axis in (f"{component}_{name}", component, name):
        if axis in known_axes:
            return Along(axis, loop, factor, node)
    node.refuse(f"{bare.tree.name} has no fan-out {name} of {component}; known: {', '.join(known_axes) or 'none'}")


def _number(part: Part, bare: PlacedNest) -> int:
    """The loop of a rank variable: of its name, or of the letter that written files have for it."""
    name = part.text("a rank variable")
    names = [loop.name for loop in bare.nest.loops]
    for known in (names, [one.lower() for one in names], [one.lower() for one in letters(bare.nest)]):
        if known.count(name) == 1:
            return known.index(name)
    raise InputError(f"{part.place}: there is no loop {name!r}; known: {', '.join(names)}")


def _operand(part: Part, bare: PlacedNest) -> int:
    name = part.text("a tensor")
    names = [array.name for array in bare.operands]
    roles = _ROLES if len(names) == len(_ROLES) else ()
    for known in (names, [f"{one}_" for one in names], bare.homes, roles):
        if name in known:
            return list(known).index(name)
    part.refuse(f"{name} is no tensor of the layer; known: {', '.join(names)}")
