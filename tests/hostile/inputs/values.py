"""Texts of graphs and programs that cannot be right."""

import json
from collections.abc import Callable
from functools import cache

from tests.hostile.inputs.making import Hostile, model, node, weight
from tilestitch import api
from tilestitch.ir.forms.graph_form import graph_from, graph_text
from tilestitch.ir.forms.program_form import program_from, program_text
from tilestitch.ir.graph import Graph


@cache
def right() -> tuple[Graph, str, str]:
    """A product and a pool, and its program, as they are written."""
    pool = node("MaxPool", "x", "h", kernel_shape=[2, 2], pads=[1, 0, 1, 0])
    weights = [weight("w", [[1, 2, 3], [4, 5, 6]])]
    network = model(pool, node("MatMul", "h w", "y"), inputs=["x:1,1,2,3"], outputs=["y"], weights=weights)
    program = api.compile(network, "toy").program
    assert program is not None
    return program.graph, graph_text(program.graph), program_text(program)


def graph(name: str, change: Callable[[str], str]) -> Hostile:
    """A graph's text with something in it that cannot be."""
    return Hostile(f"a graph {name}", lambda: graph_from(change(right()[1]), "graph.json"))


def program(name: str, change: Callable[[str], str]) -> Hostile:
    """A program's text, likewise."""
    return Hostile(f"a program {name}", lambda: program_from(change(right()[2]), "program.json", right()[0]))


def put(before: str, after: str) -> Callable[[str], str]:
    """Another text in the place of one that is there."""

    def change(text: str) -> str:
        assert before in text, f"{before} is not in\n{text}"
        return text.replace(before, after, 1)

    return change


def without(field: str) -> Callable[[str], str]:
    return lambda text: json.dumps({key: value for key, value in json.loads(text).items() if key != field})


def filled(field: str, value: object) -> Callable[[str], str]:
    return lambda text: json.dumps({**json.loads(text), field: value})


def column(table: str, name: str, change: Callable[[list[int]], list[int]]) -> Callable[[str], str]:
    """Other values in one column of a program."""

    def changed(text: str) -> str:
        fields = json.loads(text)
        row = next(row for row in fields[table] if row["column"] == name)
        row["values"] = change(row["values"])
        return json.dumps(fields)

    return changed


def packed_column(stream: str, count: int = 3) -> Callable[[str], str]:
    """The first column of buffers as a stream."""

    def changed(text: str) -> str:
        fields = json.loads(text)
        row = {key: value for key, value in fields["buffers"][0].items() if key != "values"}
        fields["buffers"][0] = {**row, "count": count, "zlib_base64": stream}
        return json.dumps(fields)

    return changed


def first(value: int) -> Callable[[list[int]], list[int]]:
    return lambda values: [value, *values[1:]]


def last(value: int) -> Callable[[list[int]], list[int]]:
    return lambda values: [*values[:-1], value]


POOL = '"x[n, c, oh+kh-1, ow+kw]"'
PACKED = '"zlib_base64": "'

VALUES = (
    graph("that is empty", lambda text: ""),
    graph("that is a list", lambda text: "[]"),
    graph("that is a number", lambda text: "7"),
    graph("cut off in the middle", lambda text: text[: len(text) // 2]),
    graph("as deep as can be", lambda text: "[" * 100_000),
    graph("that says no format", without("format")),
    graph("of another format", put("tilestitch.graph", "tilestitch.program")),
    graph("of a later version", put('"version": 1', '"version": 2')),
    graph("of a version in words", put('"version": 1', '"version": "1"')),
    graph("without a version", without("version")),
    graph("without operators", without("operators")),
    graph("with a field too many", filled("author", "me")),
    graph("with a field twice", put('"name": ', '"name": "a", "name": ')),
    graph("whose name is a number", filled("name", 7)),
    graph("whose tensors are an object", filled("tensors", {"x": 1})),
    graph("with NaN", put('"shape": [1', '"shape": [NaN')),
    graph("with a number of five thousand digits", put('"shape": [1', f'"shape": [{"1" * 5000}')),
    graph("with an axis of no elements", put('"shape": [1', '"shape": [0')),
    graph("with an axis of a half", put('"shape": [1', '"shape": [0.5')),
    graph("with an axis of true", put('"shape": [1', '"shape": [true')),
    graph("with a tensor of 65 axes", put('"shape": [1', f'"shape": [{"1, " * 64} 1')),
    graph("with a tensor of no type", put('"dtype": "float16"', '"dtype": "float17"')),
    graph("with a tensor twice", put('{"name": "h"', '{"name": "x"')),
    graph("with a layout that repeats an axis", put('"layout": [0, 2, 3, 1]', '"layout": [0, 2, 3, 0]')),
    graph("with an input that is no tensor", filled("inputs", ["z"])),
    graph("with an operator that lacks its kind", put('"kind": "max_pool", ', "")),
    graph("with a field of an operator too many", put('"kind": "max_pool"', '"kind": "max_pool", "type": 1')),
    graph("with an operator of a number", filled("operators", [7])),
    graph("with a dim that has no extent", put("oh:3", "oh:")),
    graph("with a dim of extent 0", put("oh:3", "oh:0")),
    graph("with a dim of another mark", put("oh:3", "oh/3")),
    graph("with a dim twice", put("oh:3", "n:3")),
    graph("with an access without indices", put(POOL, '"x"')),
    graph("with an index of an unknown dim", put("oh+kh-1", "oh+kx-1")),
    graph("with an index that breaks off", put("oh+kh-1", "oh+kh-")),
    graph("with an index of two offsets", put("oh+kh-1", "oh+kh-1-0")),
    graph("with an index written otherwise", put("oh+kh-1", "kh-1+oh")),
    graph("with an index by a factor of 1", put("oh+kh-1", "1*oh+kh-1")),
    graph("with an access to a number", put(POOL, "7")),
    graph("with an access of an unknown field", put('"pad_value"', '"padding"')),
    graph("with padding of words", put('"pad_value": "-inf"', '"pad_value": "none"')),
    graph("with an access to no tensor", put(POOL, '"z[n, c, oh+kh-1, ow+kw]"')),
    graph("that reads beyond a tensor", put("h[b0, b1, i, k]", "h[b0, b1, i+1, k]")),
    graph("with attributes in a list", put('"reads"', '"attributes": [], "reads"')),
    graph("with an attribute of true", put('"reads"', '"attributes": {"axis": true}, "reads"')),
    graph("with an attribute of mixed numbers", put('"reads"', '"attributes": {"axes": [1, 2.5]}, "reads"')),
    graph(
        "with an attribute of bytes that are none",
        put('"reads"', '"attributes": {"model": {"bytes_base64": "?"}}, "reads"'),
    ),
    graph("with a constant of no tensor", put('"tensor": "w"', '"tensor": "v"')),
    graph("with a constant of no type", put('"element_type": "float32"', '"element_type": "complex64"')),
    graph("with a constant of another type", put('"element_type": "float32"', '"element_type": "float64"')),
    graph("with a constant that is no base64", put(PACKED, PACKED + "?")),
    graph("with a constant that is no stream", put(PACKED, PACKED + "AAAA")),
    graph("with a constant that is cut off", put('BCA="}', '"}')),
    graph("with a constant that says too much", put('BCA="}', 'BCAA"}')),
    graph("with a constant as a list", filled("constants", [{"tensor": "w", "value": [1]}])),
    program("that is a graph", lambda text: right()[1]),
    program("cut off in the middle", lambda text: text[: len(text) // 2]),
    program("of another graph", put('"graph_sha256": "', '"graph_sha256": "0')),
    program("of no iteration", filled("iterations", 0)),
    program("of two iterations with the results of one", filled("iterations", 2)),
    program("without engines", filled("engines", [])),
    program("with a memory of an unknown level", put('"level": "gb"', '"level": "l2"')),
    program("with a memory that lacks its size", put(', "size_bytes": 67108864', "")),
    program("with a core in words", put('"core": 0', '"core": "first"')),
    program("with a rate of zero", put('"bandwidth_bytes_per_cycle": "8"', '"bandwidth_bytes_per_cycle": "0"')),
    program("with a rate as a number", put('"bandwidth_bytes_per_cycle": "8"', '"bandwidth_bytes_per_cycle": 8')),
    program("with a path over nothing", filled("paths", [[]])),
    program("with a path over what is not there", put(" [0, 1]", " [0, 100]")),
    program("with a region that is a list", filled("regions", [[0, 1]])),
    program("with a region without an end", put("[0:1, ", "[0:, ")),
    program("with a region of nothing", put("[0:1, ", "[1:1, ")),
    program("with a region of other signs", put("[0:1, ", "[0:+1, ")),
    program("with a region of more than there can be", put("[0:1, ", f"[0:{2**70}, ")),
    program("of an operator that is not there", put(' "matmul"', ' "matmul2"')),
    program("with a constant that is not there", filled("constants", [{"tensor": "v", "buffer": 0}])),
    program("with an input in a buffer that is not there", filled("inputs", [[1000]])),
    program("without its output", filled("outputs", [])),
    program("without columns", filled("waits", [])),
    program("with columns in another order", put('"column": "buffer"', '"column": "region"')),
    program("with a column of another type", put('"type": "int16"', '"type": "int32"')),
    program("with a column of words", put('"values": [', '"values": ["one", ')),
    program("with a column beyond its type", column("instructions", "engine", first(2**15))),
    program("with columns of several lengths", column("instructions", "kind", lambda values: values[1:])),
    program("with a packed column that is short", packed_column("eAEBAwD8/wAAAAADAAE=")),
    program("with a packed column of too many entries", packed_column("eAEBAwD8/wAAAAADAAE=", count=2**40)),
    program("with an engine that is not there", column("instructions", "engine", first(100))),
    program("with an unknown kind of instruction", column("instructions", "kind", first(9))),
    program("that takes less than no time", column("instructions", "cycles", first(-1))),
    program("with operands that nobody has", column("instructions", "operand_count", first(1))),
    program("with less than no operands", column("instructions", "operand_count", first(-1))),
    program("that waits for what comes after", column("waits", "instruction", first(10**6))),
    program("with an operand in a buffer that is not there", column("operands", "buffer", first(10**6))),
    program("with a buffer beyond its memory", column("buffers", "address", last(2**40))),
    program("with a buffer of another size", column("buffers", "size_bytes", last(1))),
    program("with a copy that reads nothing", column("operands", "mode", first(1))),
    program("with a computation of nothing", column("instructions", "box", lambda values: [-1] * len(values))),
)
