"""ZigZag's layers: a YAML list of equations with the sizes of their loops.

Source: the workload files of ZigZag 3 and the schema that it checks them with. The result has the precision of partial
sums everywhere (`O`; ZigZag writes the last ones with `O_final`). An array of 0 bits, as the window of a pooling, is
none. An equation that adds (`Add`) has one operation an iteration, as one that multiplies; ZigZag counts it so too.
"""

import re

from tilestitch.formats.foreign_file import Part, yaml_file
from tilestitch.formats.limits import MAX_EXTENT, MAX_STEP, checked, operand
from tilestitch.formats.zigzag.precision import precision_of
from tilestitch.ir.loop_nest import Loop, LoopNest, LoopOperand

_EQUATION = re.compile(r"\s*(O(?:\[\w+\])+)\s*\+?=\s*(\w(?:\[\w*\])+)\s*[*+]\s*(\w(?:\[\w*\])+)\s*", re.ASCII)
_RELATION = re.compile(r"\s*(\w+)\s*=\s*(?:([0-9]+)\s*\*\s*)?(\w+)\s*\+\s*(?:([0-9]+)\s*\*\s*)?(\w+)\s*", re.ASCII)
_REQUIRED = ("id", "operator_type", "equation", "loop_dims", "loop_sizes", "operand_precision")
_OPTIONAL = ("name", "dimension_relations", "operand_source", "pr_loop_dims", "pr_loop_sizes", "padding")
_PADDING = 4096

_Relation = tuple[tuple[str, int], tuple[str, int]]  # of an index: two loops with their steps


def zigzag_layers(text: str, where: str) -> list[LoopNest]:
    """The layers of a workload's file, in its order. Raises `InputError` with the place of what is not understood."""
    return [checked(_layer(layer), f"{where}: [{layer.path[0]}]") for layer in yaml_file(text, where).items("layers")]


def _layer(layer: Part) -> LoopNest:
    fields = layer.fields(_REQUIRED, _OPTIONAL)
    number = fields["id"].whole("", 0, MAX_EXTENT)
    named = "name" in fields and not fields["name"].is_absent
    name = fields["name"].text("a name") if named else f"layer{number}"
    fields["operator_type"].text("an operator type")
    loops = _loops(fields["loop_dims"], fields["loop_sizes"])
    numbers = {loop.name: at for at, loop in enumerate(loops)}
    extents = tuple(loop.extent for loop in loops)
    relations = _relations(fields["dimension_relations"]) if "dimension_relations" in fields else {}
    held = _held(fields)
    fields["operand_precision"].fields(("O",), ("O_final", "I", "W"))
    precision = precision_of(fields["operand_precision"])
    match = _EQUATION.fullmatch(fields["equation"].text("an equation"))
    if match is None:
        fields["equation"].expected("an equation such as O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]")
    arrays: dict[str, LoopOperand] = {}
    for access in match.groups():
        array = access[0]
        if array in arrays:
            fields["equation"].refuse(f"the array {array} appears twice; give what is read twice two names")
        if array not in precision:
            fields["operand_precision"].refuse(f"the precision of {array} is missing")
        bits = precision[array]
        if bits > 0:
            indices = [index.upper() for index in re.findall(r"\[(\w+)\]", access)]
            axes = [_axis(index, numbers, relations, fields["equation"]) for index in indices]
            arrays[array] = _padded(operand(array, axes, extents, bits), indices, held, layer)
    write = arrays.pop("O")
    reads = sorted(arrays.values(), key=lambda found: found.name != "I")
    return LoopNest(name, "einsum", loops, tuple(reads), write)


def _loops(dims: Part, sizes: Part) -> tuple[Loop, ...]:
    names = [part.text("a name").upper() for part in dims.items("loop names")]
    extents = [part.whole("", 1, MAX_EXTENT) for part in sizes.items("loop sizes")]
    if len(names) != len(extents):
        sizes.refuse(f"expected a size for each of the {len(names)} loops, found {len(extents)}")
    if len(set(names)) != len(names):
        dims.refuse(f"expected every loop once, found {', '.join(names[:20])}")
    return tuple(map(Loop, names, extents))


def _relations(part: Part) -> dict[str, _Relation]:
    found: dict[str, _Relation] = {}
    for entry in part.items("relations", least=0):
        match = _RELATION.fullmatch(entry.text("a relation"))
        if match is None or any(step is not None and len(step) > 9 for step in (match[2], match[4])):
            entry.expected("a relation such as ix=2*ox+1*fx")
        index = match[1].upper()
        if index in found:
            entry.refuse(f"{match[1]} appears twice; keep one relation")
        steps = [int(step) if step is not None else 1 for step in (match[2], match[4])]
        if not all(1 <= step <= MAX_STEP for step in steps):
            entry.expected(f"factors from 1 to {MAX_STEP:,}")
        found[index] = ((match[3].upper(), steps[0]), (match[5].upper(), steps[1]))
    return found


def _axis(
    index: str, numbers: dict[str, int], relations: dict[str, _Relation], equation: Part
) -> list[tuple[int, int]]:
    if index in numbers:
        return [(numbers[index], 1)]
    if index not in relations:
        equation.refuse(f"the index {index.lower()} is neither a loop nor in dimension_relations")
    terms: dict[int, int] = {}
    for loop, step in relations[index]:
        if loop not in numbers:
            equation.refuse(f"the index {index.lower()} is made of {loop.lower()}, which is not a loop")
        terms[numbers[loop]] = terms.get(numbers[loop], 0) + step
    return list(terms.items())


def _held(fields: dict[str, Part]) -> dict[str, int]:
    """Sizes of an input in memory with its padding, where a layer says them."""
    given = {key: fields[key] for key in _OPTIONAL[3:] if key in fields and not fields[key].is_absent}
    if "pr_loop_dims" not in given:
        for key, part in given.items():
            part.refuse(f"says {key} of no index; write pr_loop_dims")
        return {}
    names = [part.text("an index").upper() for part in given["pr_loop_dims"].items("indices")]
    if "pr_loop_sizes" not in given:
        return {}
    sizes = [part.whole("", 1, MAX_EXTENT) for part in given["pr_loop_sizes"].items("sizes")]
    pads = [[0, 0] for _ in names]
    if "padding" in given:
        pads = [
            [side.whole("", 0, _PADDING) for side in part.items("paddings before and after")]
            for part in given["padding"].items("paddings")
        ]
    if not len(names) == len(sizes) == len(pads) or len(set(names)) != len(names) or any(len(pad) != 2 for pad in pads):
        given["pr_loop_dims"].refuse("expected a size and a pair of paddings for each index, and every index once")
    return {name: size + sum(pad) for name, size, pad in zip(names, sizes, pads, strict=True)}


def _padded(array: LoopOperand, indices: list[str], held: dict[str, int], layer: Part) -> LoopOperand:
    """The array as it is in memory; what is read must be there."""
    shape = []
    for index, size in zip(indices, array.shape, strict=True):
        if held.get(index, size) < size:
            layer.refuse(
                f"{array.name} has {held[index]} indices along {index.lower()} with its padding, but {size} are read; "
                "write the padding that the loops need"
            )
        shape.append(held.get(index, size))
    return LoopOperand(array.name, array.axes, tuple(shape), array.element_bits)
