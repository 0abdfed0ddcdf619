"""A program as text, and read back from it, beside the graph that it was lowered from.

The head says what there is: memories, engines, resources and the paths over them, the names of tensors, operators and
kernels, and every region, a line each. Then come the columns of buffers, operands and instructions, a line each: short
ones as lists of numbers, long ones as the bytes of an array (see `arrays`).
"""

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tilestitch.base.errors import InputError, InvalidIR
from tilestitch.base.json_text import JsonPart, Rows, document_text, json_fields, json_number, json_value
from tilestitch.hardware.accelerator import Level
from tilestitch.ir.forms.arrays import packed, unpacked
from tilestitch.ir.forms.graph_form import graph_digest
from tilestitch.ir.graph import Graph
from tilestitch.ir.program import Buffers, Engine, EngineKind, Program, Resource, Space
from tilestitch.ir.region import Region
from tilestitch.ir.verify import verify_program

FORMAT = "tilestitch.program"
VERSION = 1
FIELDS = (
    *("graph", "graph_sha256", "iterations", "granule_bytes", "spaces", "engines", "resources", "paths"),
    *("tensors", "operators", "kernels", "regions", "inputs", "outputs", "constants"),
    *("buffers", "operands", "waits", "instructions"),
)
LISTED = 256  # entries of a column that is a list of numbers
MOST_ENTRIES = 2**31  # of a column
LARGEST = 2**62
MOST_FAULTS = 20  # that a message lists

_BUFFERS = {"space": np.int16, "address": np.int64, "size_bytes": np.int64, "tensor": np.int32, "region": np.int32}
_OPERANDS = {"buffer": np.int32, "region": np.int32, "mode": np.int8}
_WAITS = {"instruction": np.int64}
_INSTRUCTIONS = {
    "engine": np.int16,
    "kind": np.int8,
    "flags": np.uint8,
    "kernel": np.int32,
    "iteration": np.int32,
    "operator": np.int32,
    "box": np.int32,
    "cycles": np.int64,
    "size_bytes": np.int64,
    "run_bytes": np.int32,
    "path": np.int32,
}
_COUNTS = {"operand_count": np.int64, "wait_count": np.int64}  # the first operands are those of instruction 0
_LEVELS = {str(level): level for level in Level}
_ENGINE_KINDS = {kind.name.lower(): kind for kind in EngineKind}
_RATIO = re.compile(r"[1-9][0-9]{0,39}(/[1-9][0-9]{0,39})?")


def program_text(program: Program) -> str:
    """The whole program but for its graph, of which it has the name and the digest."""
    buffers, operands = program.buffers, [program.operand_buffer, program.operand_region, program.operand_mode]
    counts = [np.diff(program.operand_offsets), np.diff(program.wait_offsets)]
    fields = {
        "graph": program.graph.name,
        "graph_sha256": graph_digest(program.graph),
        "iterations": program.iterations,
        "granule_bytes": program.granule_bytes,
        "spaces": Rows([_space_row(space) for space in program.spaces]),
        "engines": Rows([_engine_row(engine) for engine in program.engines]),
        "resources": Rows([_resource_row(resource) for resource in program.resources]),
        "paths": Rows([list(path) for path in program.paths]),
        "tensors": Rows(program.tensors),
        "operators": Rows(program.operators),
        "kernels": Rows(program.kernels),
        "regions": Rows(list(map(str, program.regions))),
        "inputs": [list(row) for row in program.inputs],
        "outputs": [list(row) for row in program.outputs],
        "constants": Rows([{"tensor": name, "buffer": buffer} for name, buffer in program.constants]),
        "buffers": _table(_BUFFERS, [getattr(buffers, name) for name in _BUFFERS]),
        "operands": _table(_OPERANDS, operands),
        "waits": _table(_WAITS, [program.waits]),
        "instructions": _table(
            {**_INSTRUCTIONS, **_COUNTS}, [*(getattr(program, name) for name in _INSTRUCTIONS), *counts]
        ),
    }
    return document_text(FORMAT, VERSION, fields)


def program_from(text: str, where: str, graph: Graph) -> Program:
    """The program that `program_text` wrote, of `graph`; see `program_in`."""
    return program_in(JsonPart(json_value(text, where), where), graph)


def program_in(whole: JsonPart, graph: Graph) -> Program:
    """The program that a document holds, of `graph`: that of the schedule from which it was lowered.

    Raises `InputError` with the place for anything else, and for the program of another graph.
    """
    fields = json_fields(whole, FORMAT, VERSION, FIELDS)
    name = fields["graph"].text("the name of a graph")
    digest = graph_digest(graph)
    if fields["graph_sha256"].text("a digest") != digest:
        fields["graph_sha256"].refuse(
            f"the program is of another graph, {name!r}, than {graph.name!r}, which has {digest}; give the graph of "
            "the schedule from which it was lowered"
        )
    operands, waits = _columns(fields["operands"], _OPERANDS), _columns(fields["waits"], _WAITS)
    instructions = _columns(fields["instructions"], {**_INSTRUCTIONS, **_COUNTS})
    program = Program(
        graph=graph,
        iterations=fields["iterations"].whole(1, MOST_ENTRIES),
        spaces=tuple(map(_space, fields["spaces"].items("memories"))),
        engines=tuple(map(_engine, fields["engines"].items("engines"))),
        resources=tuple(map(_resource, fields["resources"].items("resources"))),
        paths=tuple(part.wholes(0, MOST_ENTRIES) for part in fields["paths"].items("paths")),
        tensors=fields["tensors"].texts("names"),
        regions=_regions(fields["regions"]),
        operators=fields["operators"].texts("names"),
        kernels=fields["kernels"].texts("names"),
        granule_bytes=fields["granule_bytes"].whole(1, LARGEST),
        buffers=Buffers(**_columns(fields["buffers"], _BUFFERS)),
        **{column: instructions[column] for column in _INSTRUCTIONS},
        operand_offsets=_offsets(fields["instructions"], instructions, "operand_count", operands["buffer"]),
        operand_buffer=operands["buffer"],
        operand_region=operands["region"],
        operand_mode=operands["mode"],
        wait_offsets=_offsets(fields["instructions"], instructions, "wait_count", waits["instruction"]),
        waits=waits["instruction"],
        inputs=tuple(part.wholes(0, MOST_ENTRIES) for part in fields["inputs"].items("buffers")),
        outputs=tuple(part.wholes(0, MOST_ENTRIES) for part in fields["outputs"].items("buffers")),
        constants=tuple(map(_constant, fields["constants"].items("constants"))),
    )
    try:
        verify_program(program)
    except InvalidIR as error:
        raise InputError(
            "\n".join(f"{whole.place}: {line}" for line in str(error).splitlines()[:MOST_FAULTS])
        ) from None
    return program


def _space_row(space: Space) -> dict[str, Any]:
    return {"name": space.name, "level": str(space.level), "core": space.core, "size_bytes": space.size_bytes}


def _space(part: JsonPart) -> Space:
    fields = part.fields(("name", "level", "core", "size_bytes"))
    level, size_bytes = fields["level"].choice(_LEVELS), fields["size_bytes"].whole(0, LARGEST)
    return Space(fields["name"].text("a name"), level, _core(fields["core"]), size_bytes)


def _engine_row(engine: Engine) -> dict[str, Any]:
    return {"name": engine.name, "kind": engine.kind.name.lower(), "core": engine.core}


def _engine(part: JsonPart) -> Engine:
    fields = part.fields(("name", "kind", "core"))
    return Engine(fields["name"].text("a name"), fields["kind"].choice(_ENGINE_KINDS), _core(fields["core"]))


def _core(part: JsonPart) -> int | None:
    return None if part.value is None else part.whole(0, MOST_ENTRIES)


def _resource_row(resource: Resource) -> dict[str, Any]:
    return {
        "name": resource.name,
        "bandwidth_bytes_per_cycle": str(resource.bandwidth_bytes_per_cycle),
        "burst_bytes": resource.burst_bytes,
        "pj_per_byte": json_number(resource.pj_per_byte),
    }


def _resource(part: JsonPart) -> Resource:
    fields = part.fields(("name", "bandwidth_bytes_per_cycle", "burst_bytes", "pj_per_byte"))
    ratio = fields["bandwidth_bytes_per_cycle"]
    if _RATIO.fullmatch(ratio.text('a ratio above 0, such as "64" or "239/8"')) is None:
        ratio.expected('a ratio above 0, such as "64" or "239/8"')
    return Resource(
        fields["name"].text("a name"),
        Fraction(ratio.value),
        fields["burst_bytes"].whole(1, LARGEST),
        fields["pj_per_byte"].real(),
    )


def _regions(part: JsonPart) -> tuple[Region, ...]:
    found = []
    for number, text in enumerate(part.texts("regions")):
        try:
            cuts = [cut.split(":") for cut in text[1:-1].split(", ")] if text != "[]" else []
            region = Region(tuple(int(low) for low, _ in cuts), tuple(int(high) for _, high in cuts))
        except ValueError:
            region = None
        if region is None or str(region) != text:
            JsonPart(text, part.where, (*part.path, number)).expected("a region, such as '[0:1, 3:8]'")
        found.append(region)
    return tuple(found)


def _constant(part: JsonPart) -> tuple[str, int]:
    fields = part.fields(("tensor", "buffer"))
    return fields["tensor"].text("the name of a tensor"), fields["buffer"].whole(0, MOST_ENTRIES)


def _table(types: Mapping[str, type], columns: Sequence[np.ndarray]) -> Rows:
    rows = []
    for (name, dtype), column in zip(types.items(), columns, strict=True):
        row: dict[str, Any] = {"column": name, "type": np.dtype(dtype).name}
        if len(column) <= LISTED:
            row["values"] = column.tolist()
        else:
            row |= {"count": len(column), "zlib_base64": packed(column.astype(dtype, copy=False))}
        rows.append(row)
    return Rows(rows)


def _columns(part: JsonPart, types: Mapping[str, type]) -> dict[str, np.ndarray]:
    """The columns of a table by name, of one length."""
    rows = part.items("columns")
    if len(rows) != len(types):
        part.refuse(f"expected the columns {', '.join(types)}, found {len(rows)} columns")
    found: dict[str, np.ndarray] = {}
    for row, (name, dtype) in zip(rows, types.items(), strict=True):
        found[name] = _column(row, name, np.dtype(dtype))
        if len(found[name]) != len(next(iter(found.values()))):
            row.refuse(
                f"expected {len(next(iter(found.values()))):,} entries as in the first, found {len(found[name]):,}"
            )
    return found


def _column(part: JsonPart, name: str, dtype: np.dtype) -> np.ndarray:
    entries = part.entries()
    listed = "values" in entries
    fields = part.fields(("column", "type", "values") if listed else ("column", "type", "count", "zlib_base64"))
    fields["column"].choice({name: name})
    fields["type"].choice({dtype.name: dtype})
    if listed:
        limits = np.iinfo(dtype)
        return np.array(fields["values"].wholes(int(limits.min), int(limits.max)), dtype)
    count = fields["count"].whole(0, MOST_ENTRIES)
    return unpacked(fields["zlib_base64"], dtype, (count,), count).copy()  # apart from the text, as others are


def _offsets(table: JsonPart, columns: Mapping[str, np.ndarray], name: str, flat: np.ndarray) -> np.ndarray:
    """Where the entries of each instruction begin, and after the last of them where they end."""
    counts = columns[name]
    if len(counts) and not 0 <= counts.min() <= counts.max() <= MOST_ENTRIES:
        table.refuse(f"column {name}: expected counts from 0 to {MOST_ENTRIES:,}")
    if counts.sum() != len(flat):
        table.refuse(f"column {name}: expected counts that add up to {len(flat):,}, found {counts.sum():,}")
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
