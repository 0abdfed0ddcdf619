"""AccelForge's workloads as loop nests: one for each of its einsums, whatever they share.

Source: the workload format of AccelForge 1.0.467. Rank variables are loops; their bounds are `iteration_space_shape` of
the einsum or of the workload, or `rank_sizes`. A projection is a list of rank variables, or ranks with sums of them.
"""

import ast
import re
from collections.abc import Mapping

from tilestitch.formats.foreign_file import Part, yaml_file
from tilestitch.formats.limits import MAX_EXTENT, MAX_STEP, checked, operand
from tilestitch.ir.loop_nest import Loop, LoopNest, LoopOperand

_BESIDE = ("renames", "arch", "mapping", "variables", "config", "mapper", "model", "component_models")
_BOUND = re.compile(r"\s*0\s*<=\s*([A-Za-z]\w*)\s*<\s*([0-9]{1,9})\s*", re.ASCII)
_EINSUM = ("renames", "iteration_space_shape", "n_instances")
_ACCESS = ("output", "bits_per_value", "density")


def accelforge_layers(text: str, where: str) -> tuple[LoopNest, ...]:
    """The nests of a workload. Raises `InputError` with the keys that lead to what is not understood."""
    file = yaml_file(text, where)
    workload = file.fields(("workload",), _BESIDE)["workload"]
    fields = workload.fields(
        ("einsums",), ("bits_per_value", "iteration_space_shape", "rank_sizes", "version", "n_instances")
    )
    bounds = _bounds(fields.get("iteration_space_shape"))
    sizes = _sizes(fields.get("rank_sizes"))
    bits = _sizes(fields.get("bits_per_value"))
    return tuple(_nest(one, bounds, sizes, bits) for one in fields["einsums"].items("einsums"))


def _nest(part: Part, bounds: Mapping[str, int], sizes: Mapping[str, int], bits: Mapping[str, int]) -> LoopNest:
    fields = part.fields(("name", "tensor_accesses"), _EINSUM)
    own = {**bounds, **_bounds(fields.get("iteration_space_shape"))}
    accesses = [one.fields(("name", "projection"), _ACCESS) for one in fields["tensor_accesses"].items("tensors")]
    loops: dict[str, int] = {}
    shapes: list[list[dict[str, int]]] = []
    for access in accesses:
        axes: list[dict[str, int]] = []
        for rank, terms in _projection(access["projection"]):
            axes.append(terms)
            for name in terms:
                known = own.get(name, sizes.get(rank) if len(terms) == 1 else None)
                if known is not None:
                    loops.setdefault(name, known)
        shapes.append(axes)
    names = list(dict.fromkeys(name for axes in shapes for terms in axes for name in terms))
    for name in names:
        if name not in loops:
            part.refuse(f"the bounds of {name} are missing; write iteration_space_shape with 0 <= {name} < its extent")
    extents = tuple(loops[name] for name in names)
    reads: list[LoopOperand] = []
    writes: list[LoopOperand] = []
    for access, axes in zip(accesses, shapes, strict=True):
        name = access["name"].text("a tensor")
        wide = bits.get(name, bits.get("All", 16))
        terms = [[(names.index(one), step) for one, step in axis.items()] for axis in axes]
        found = operand(name, terms, extents, wide)
        (writes if "output" in access and access["output"].switch() else reads).append(found)
    if len(writes) != 1 or not reads:
        fields["tensor_accesses"].refuse(
            f"expected one tensor with output: true beside those read, found {len(writes)}"
        )
    nest_loops = tuple(Loop(name, extent) for name, extent in zip(names, extents, strict=True))
    nest = LoopNest(
        fields["name"].text("a name"), "einsum", nest_loops, _by_role(reads, fields.get("renames")), writes[0]
    )
    return checked(nest, part.place)


def _by_role(reads: list[LoopOperand], renames: Part | None) -> tuple[LoopOperand, ...]:
    """The input before the weight, where renames say which is which."""
    if renames is None or not isinstance(renames.value, dict):
        return tuple(reads)
    roles = [part.text() for key, part in renames.entries().items() if key in ("input", "weight")]
    return tuple(sorted(reads, key=lambda one: roles.index(one.name) if one.name in roles else len(roles)))


def _projection(part: Part) -> list[tuple[str, dict[str, int]]]:
    """Ranks with the steps of their loops."""
    if isinstance(part.value, list):
        names = [item.text("a rank variable") for item in part.items("rank variables", least=0)]
        return [(name.upper(), {name: 1}) for name in names]
    return [(rank, _terms(one)) for rank, one in part.entries().items()]


def _terms(part: Part) -> dict[str, int]:
    """The loops of a sum such as `2 * p + r` with their steps."""
    text = part.text("a sum of rank variables")
    found: dict[str, int] = {}
    try:
        _collect(ast.parse(text, mode="eval").body, 1, found)
    except (SyntaxError, ValueError, RecursionError):
        part.expected("a rank variable or a sum such as 2 * p + r")
    return found


def _collect(node: ast.expr, step: int, found: dict[str, int]) -> None:
    match node:
        case ast.Name(id=name) if 0 < abs(step) <= MAX_STEP:
            found[name] = found.get(name, 0) + step
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            _collect(left, step, found)
            _collect(right, step, found)
        case ast.BinOp(left=ast.Constant(value=int() as times), op=ast.Mult(), right=right):
            _collect(right, step * times, found)
        case ast.BinOp(left=left, op=ast.Mult(), right=ast.Constant(value=int() as times)):
            _collect(left, step * times, found)
        case _:
            raise ValueError


def _bounds(part: Part | None) -> dict[str, int]:
    """The extents of loops: a list or a mapping of `0 <= m < 64`."""
    if part is None or part.is_absent:
        return {}
    items = part.items("bounds") if isinstance(part.value, list) else tuple(part.entries().values())
    found: dict[str, int] = {}
    for item in items:
        match = _BOUND.fullmatch(item.text("bounds"))
        if match is None or not 1 <= int(match[2]) <= MAX_EXTENT:
            item.expected("bounds such as 0 <= m < 64")
        found[match[1]] = int(match[2])
    return found


def _sizes(part: Part | None) -> dict[str, int]:
    if part is None or part.is_absent:
        return {}
    return {key: one.whole("", 1, MAX_EXTENT) for key, one in part.entries().items()}
