"""Timeloop's problems: a shape with its projections and an instance with its sizes, or a layer of the shape cnn-layer.

Source: the input formats of Timeloop v0.4, and the files of its exercises. What Timeloop itself reads and does not use
(`H`, `W`, `Hpad`, `Wpad`: the size of an input before padding) says nothing here either.
"""

from collections.abc import Mapping

from tilestitch.formats.foreign_file import Part, yaml_file
from tilestitch.formats.limits import MAX_EXTENT, MAX_LOOPS, MAX_STEP, checked, operand
from tilestitch.formats.timeloop.machine import TAGS
from tilestitch.ir.loop_nest import Loop, LoopNest, LoopOperand

_UNUSED = ("H", "W", "Hpad", "Wpad", "version")
_SHAPE_NAMES = {"data-spaces": "data_spaces", "read-write": "read_write"}  # in older files
_UNSUPPORTED = {"densities": "sparse data has no model; write the dense problem", "ops": "write one problem a file"}
_CNN_DIMENSIONS = ("R", "S", "P", "Q", "C", "K", "N")
_CNN_COEFFICIENTS = ("Wstride", "Hstride", "Wdilation", "Hdilation")
_CNN_SPACES = {
    "Inputs": (
        (("N", ""),),
        (("C", ""),),
        (("R", "Wdilation"), ("P", "Wstride")),
        (("S", "Hdilation"), ("Q", "Hstride")),
    ),
    "Weights": ((("C", ""),), (("K", ""),), (("R", ""),), (("S", ""),)),
    "Outputs": ((("N", ""),), (("K", ""),), (("Q", ""),), (("P", ""),)),
}

_Axis = tuple[tuple[str, str], ...]  # terms: a dimension, and its coefficient or nothing


def timeloop_problem(text: str, where: str, name: str = "problem") -> LoopNest:
    """The nest of a problem's file. Data spaces named Inputs or I come first, the others in the order of the file.

    Raises `InputError` with the keys that lead to what is not understood.
    """
    file = yaml_file(text, where, tags=TAGS)
    problem = file.fields(("problem",), _beside_a_problem(file))["problem"]
    entries = problem.entries()
    if "shape" not in entries or not isinstance(entries["shape"].value, dict):
        return checked(_cnn_layer(problem, name), where)
    parts = problem.fields(("shape", "instance"), ("version", "name"), _UNSUPPORTED)
    shape = _renamed(parts["shape"]).fields(
        ("dimensions", "data_spaces"), ("name", "coefficients", "version"), _UNSUPPORTED
    )
    names = [part.text("a name") for part in shape["dimensions"].items("dimensions")]
    if len(set(names)) != len(names) or len(names) > MAX_LOOPS:
        shape["dimensions"].refuse(f"expected each dimension once, at most {MAX_LOOPS}; found {', '.join(names[:20])}")
    defaults = _coefficients(shape["coefficients"]) if "coefficients" in shape else {}
    sizes, coefficients = _instance(parts["instance"], names, defaults)
    reads: list[LoopOperand] = []
    writes: list[LoopOperand] = []
    numbers = {dimension: number for number, dimension in enumerate(names)}
    for space in shape["data_spaces"].items("data spaces", least=2):
        fields = _renamed(space).fields(("name", "projection"), ("read_write",), _UNSUPPORTED)
        axes = [_axis(axis, numbers, coefficients) for axis in fields["projection"].items("axes", least=0)]
        found = operand(fields["name"].text("a name"), axes, tuple(sizes))
        (writes if "read_write" in fields and fields["read_write"].switch() else reads).append(found)
    if len(writes) != 1:
        shape["data_spaces"].refuse(f"expected one data space with read_write: true, found {len(writes)}")
    spaces = [found.name for found in (*reads, *writes)]
    if len(set(spaces)) != len(spaces):
        shape["data_spaces"].refuse(f"expected each name once, found {', '.join(spaces)}")
    loops = tuple(Loop(dimension, size) for dimension, size in zip(names, sizes, strict=True))
    if "name" in shape and not shape["name"].is_absent:
        name = shape["name"].text("a name")
    return checked(LoopNest(name, "einsum", loops, _inputs_first(reads), writes[0]), where)


def _beside_a_problem(file: Part) -> tuple[str, ...]:
    """Other top keys of one file for everything are for other readers."""
    known = (
        *("architecture", "components", "compound_components", "variables", "mapper", "mapping", "globals", "mapspace"),
        *("architecture_constraints", "mapspace_constraints", "ERT", "ART", "dumped_by_timeloop_front_end"),
        "sparse_optimizations",  # which the reader of the machine refuses
    )
    return tuple(key for key in known if key in file.entries())


def _cnn_layer(problem: Part, name: str) -> LoopNest:
    """Sizes beside the name of a shape, as CoSA and older files write them."""
    entries = problem.entries()
    if "shape" in entries and entries["shape"].text("a shape") != "cnn-layer":
        entries["shape"].expected("cnn-layer or a mapping that says the shape", "write the shape into the file")
    sizes = entries.get("instance", problem)
    if sizes is problem:
        fields = {key: part for key, part in entries.items() if key not in ("shape", "name")}
    else:
        fields = problem.fields(("instance",), ("shape", "name"))["instance"].entries()
    known = (*_CNN_DIMENSIONS, *_CNN_COEFFICIENTS, *_UNUSED)
    for key, part in fields.items():
        if key not in known:
            part.refuse(f"unknown field; known: {', '.join(known)}")
    for key in _CNN_DIMENSIONS:
        if key not in fields:
            sizes.refuse(f"the field {key} is missing")
    extents = tuple(fields[key].whole("", 1, MAX_EXTENT) for key in _CNN_DIMENSIONS)
    steps = {key: fields[key].whole("", 1, MAX_STEP) if key in fields else 1 for key in _CNN_COEFFICIENTS}
    arrays = [
        operand(
            array,
            [[(_CNN_DIMENSIONS.index(loop), steps.get(step, 1)) for loop, step in axis] for axis in axes],
            extents,
        )
        for array, axes in _CNN_SPACES.items()
    ]
    loops = tuple(map(Loop, _CNN_DIMENSIONS, extents))
    return LoopNest(name, "einsum", loops, (arrays[0], arrays[1]), arrays[2])


def _renamed(part: Part) -> Part:
    """With the names of today for those of older files."""
    value = {_SHAPE_NAMES.get(key, key): entry.value for key, entry in part.entries().items()}
    return Part(value, part.file, part.path)


def _coefficients(part: Part) -> dict[str, int | None]:
    """The coefficients with their defaults."""
    found: dict[str, int | None] = {}
    for entry in part.items("coefficients", least=0):
        fields = entry.fields(("name",), ("default",))
        name = fields["name"].text("a name")
        if name in found:
            entry.refuse(f"the coefficient {name} appears twice")
        found[name] = fields["default"].whole("", -MAX_STEP, MAX_STEP) if "default" in fields else None
    return found


def _instance(
    part: Part, dimensions: list[str], defaults: Mapping[str, int | None]
) -> tuple[list[int], dict[str, int]]:
    """Sizes of the dimensions, and values of the coefficients."""
    entries = part.entries()
    if "densities" in entries and entries["densities"].value == {}:
        del entries["densities"]
    kept = Part({key: entry.value for key, entry in entries.items()}, part.file, part.path)
    fields = kept.fields(dimensions, (*defaults, *_UNUSED), _UNSUPPORTED)
    sizes = [fields[name].whole("", 1, MAX_EXTENT) for name in dimensions]
    coefficients: dict[str, int] = {}
    for name, default in defaults.items():
        value = fields[name].whole("", -MAX_STEP, MAX_STEP) if name in fields else default
        if value is None:
            part.refuse(f"the coefficient {name} is missing, and the shape has no default for it")
        coefficients[name] = value
    return sizes, coefficients


def _axis(axis: Part, numbers: Mapping[str, int], coefficients: Mapping[str, int]) -> list[tuple[int, int]]:
    """A sum of products: each a dimension, or a dimension and a coefficient."""
    steps: dict[int, int] = {}
    for term in axis.items("terms such as [P, Wstride]"):
        factors = [factor.text("a name") for factor in term.items("a dimension and at most one coefficient")]
        loops = [numbers[factor] for factor in factors if factor in numbers]
        others = [factor for factor in factors if factor not in numbers]
        if len(loops) != 1 or len(others) > 1:
            term.refuse(
                f"expected one dimension and at most one coefficient, found {' * '.join(factors[:9])}; known "
                f"dimensions: {', '.join(numbers)}"
            )
        if others and others[0] not in coefficients:
            term.refuse(f"there is no coefficient {others[0]}; known: {', '.join(coefficients) or 'none'}")
        step = coefficients[others[0]] if others else 1
        steps[loops[0]] = steps.get(loops[0], 0) + step
        if steps[loops[0]] == 0:
            term.refuse(f"the steps of {factors[0]} add up to 0; leave it out")
    return list(steps.items())


def _inputs_first(reads: list[LoopOperand]) -> tuple[LoopOperand, ...]:
    """The array that a machine's first network is for goes first."""
    return tuple(sorted(reads, key=lambda array: array.name not in ("Inputs", "I")))
