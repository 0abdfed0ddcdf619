"""ZigZag's layers as they are: bits of partial and of complete sums, and inputs without their padding.

Source: the workload files of ZigZag 3.9.1 and the schema that it checks them with. `O` are the bits of partial sums,
`O_final` those of complete ones. An operand of 0 bits, as the window of a pooling, moves nothing.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tilestitch.formats.foreign_file import Part, yaml_file
from tilestitch.formats.limits import MAX_EXTENT, MAX_ITERATIONS, MAX_LOOPS, MAX_STEP
from tilestitch.formats.zigzag.precision import precision_of
from tilestitch.ir.loop_nest import Loop, LoopNest, LoopOperand
from tilestitch.mapping.tree.placed import distinct

_EQUATION = re.compile(r"(O(?:\[\w+\])+)\+?=(\w+(?:\[\w*\])+)[*+](\w+(?:\[\w*\])+)", re.ASCII)
_RELATION = re.compile(r"(\w+)=(?:([0-9]+)\*)?(\w+)\+(?:([0-9]+)\*)?(\w+)", re.ASCII)
_REQUIRED = ("id", "operator_type", "equation", "loop_dims", "loop_sizes", "operand_precision")
_OPTIONAL = ("name", "dimension_relations", "operand_source", "pr_loop_dims", "pr_loop_sizes", "padding")


@dataclass(frozen=True, slots=True)
class ZigzagLayer:
    """One layer of a workload."""

    nest: LoopNest  # what is read has the order of the equation
    final_bits: int
    operator: str  # such as Conv, by which a mapping may be chosen


@dataclass(frozen=True, slots=True)
class _Relation:
    """An index that is the sum of two loops, each times a step."""

    loops: tuple[str, str]
    steps: tuple[int, int]


def zigzag_tree_layers(text: str, where: str) -> tuple[tuple[ZigzagLayer, ...], tuple[str, ...]]:
    """The layers of a workload's file in its order, and notes on what was read otherwise than it stands there.

    Raises `InputError` with the place of what is not understood.
    """
    notes: list[str] = []
    file = yaml_file(text, where, notes=notes)
    return tuple(_layer(part) for part in file.items("layers")), tuple(notes)


def _layer(layer: Part) -> ZigzagLayer:
    fields = layer.fields(_REQUIRED, _OPTIONAL)
    number = fields["id"].whole("", 0, MAX_EXTENT)
    named = "name" in fields and not fields["name"].is_absent
    name = fields["name"].text("a name") if named else f"Layer{number}"
    loops = _loops(fields["loop_dims"], fields["loop_sizes"])
    relations = _relations(fields["dimension_relations"]) if _is_given(fields, "dimension_relations") else {}
    sizes = _sizes(fields, loops, relations)
    match = _EQUATION.fullmatch(re.sub(r"\s", "", fields["equation"].text("an equation")).replace("++", "+"))
    if match is None:
        fields["equation"].expected("an equation such as O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]")
    bits = precision_of(fields["operand_precision"])
    arrays: list[LoopOperand] = []
    for access in match.groups():
        array, *indices = re.findall(r"\w+", access)
        if array in (one.name for one in arrays):
            fields["equation"].refuse(f"the operand {array} is there twice; give what is read twice two names")
        if array not in bits:
            fields["operand_precision"].refuse(f"the precision of {array} is missing")
        terms = [_terms(index.upper(), loops, relations, fields["equation"]) for index in indices]
        shape = tuple(sizes.get(index.upper(), loops.get(index.upper(), 1)) for index in indices)
        arrays.append(LoopOperand(array, tuple(terms), shape, bits[array]))
    nest = LoopNest(name, "einsum", tuple(Loop(*one) for one in loops.items()), tuple(arrays[1:]), arrays[0])
    if nest.macs > MAX_ITERATIONS:
        fields["loop_sizes"].refuse(f"expected at most 2^52 iterations, found {nest.macs:,}")
    return ZigzagLayer(nest, bits.get("O_final", bits["O"]), fields["operator_type"].text("an operator type"))


def _is_given(fields: Mapping[str, Part], name: str) -> bool:
    return name in fields and not fields[name].is_absent and fields[name].value != []


def _loops(dims: Part, sizes: Part) -> dict[str, int]:
    names = [part.text("a name").upper() for part in dims.items("loop names")]
    extents = [part.whole("", 1, MAX_EXTENT) for part in sizes.items("loop sizes")]
    if len(names) != len(extents):
        sizes.refuse(f"expected a size for each of the {len(names)} loops, found {len(extents)}")
    if len(set(names)) != len(names) or len(names) > MAX_LOOPS:
        dims.refuse(f"expected at most {MAX_LOOPS} loops, each once, found {', '.join(names[:20])}")
    return dict(zip(names, extents, strict=True))


def _relations(part: Part) -> dict[str, _Relation]:
    found: dict[str, _Relation] = {}
    for entry in part.items("relations"):
        match = _RELATION.fullmatch(re.sub(r"\s", "", entry.text("a relation")))
        if match is None or any(step is not None and len(step) > 9 for step in (match[2], match[4])):
            entry.expected("a relation such as ix=2*ox+1*fx")
        if match[1].upper() in found:
            entry.refuse(f"{match[1]} is there twice; keep one relation")
        steps = (int(match[2] or 1), int(match[4] or 1))
        if not all(1 <= step <= MAX_STEP for step in steps):
            entry.expected(f"factors from 1 to {MAX_STEP:,}")
        found[match[1].upper()] = _Relation((match[3].upper(), match[5].upper()), steps)
    return found


def _terms(
    index: str, loops: Mapping[str, int], relations: Mapping[str, _Relation], equation: Part
) -> tuple[tuple[int, int], ...]:
    numbers = {name: number for number, name in enumerate(loops)}
    if index in relations:
        relation = relations[index]
        for loop in relation.loops:
            if loop not in loops:
                equation.refuse(f"the index {index.lower()} is made of {loop.lower()}, which is no loop")
        first, second = ((numbers[loop], step) for loop, step in zip(relation.loops, relation.steps, strict=True))
        return (first, second)
    if index not in loops:
        equation.refuse(f"the index {index.lower()} is neither a loop nor in dimension_relations")
    return ((numbers[index], 1),)


def _sizes(fields: Mapping[str, Part], loops: Mapping[str, int], relations: Mapping[str, _Relation]) -> dict[str, int]:
    """How many values each index of two loops takes without padding: what the layer says, or what its loops do."""
    sizes: dict[str, int] = {}
    for index, relation in relations.items():
        a, b = (loops.get(loop, 1) for loop in relation.loops)
        sizes[index] = _values(a, b, relation.steps)
    if not _is_given(fields, "pr_loop_dims"):
        return sizes
    names = [part.text("an index").upper() for part in fields["pr_loop_dims"].items("indices")]
    if _is_given(fields, "padding"):
        pads = [part.items("paddings before and after", least=2) for part in fields["padding"].items("paddings")]
        if len(pads) != len(names):
            fields["padding"].refuse(f"expected paddings for each of the {len(names)} indices, found {len(pads)}")
        for name, sides in zip(names, pads, strict=True):
            around = sum(side.whole("", 0, MAX_EXTENT) for side in sides[:2])
            if name in sizes and around >= sizes[name]:
                fields["padding"].refuse(f"{name.lower()} has {sizes[name]} values, of which {around} are padding")
            sizes[name] = sizes.get(name, 0) - around
    if _is_given(fields, "pr_loop_sizes"):
        given = [part.whole("", 1, MAX_EXTENT) for part in fields["pr_loop_sizes"].items("sizes")]
        if len(given) != len(names):
            fields["pr_loop_sizes"].refuse(f"expected a size for each of the {len(names)} indices, found {len(given)}")
        sizes |= dict(zip(names, given, strict=True))
    return {name: size for name, size in sizes.items() if name in relations}


def _values(a: int, b: int, steps: tuple[int, int]) -> int:
    """The count of `distinct`, of all iterations of two loops."""
    whole = LoopOperand("", (((0, steps[0]), (1, steps[1])),), (2**62,))
    return int(distinct(whole, (a, b), rounds=True))
