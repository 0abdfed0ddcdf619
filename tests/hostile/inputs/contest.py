"""Instances and solutions of the contest that cannot be right."""

import json
import os
from collections.abc import Callable
from pathlib import Path

from tests.hostile.inputs.making import Hostile

ABSENT = object()

CHAIN = {
    "widths": [128, 128, 128],
    "heights": [128, 128, 128],
    "inputs": [[0], [1]],
    "outputs": [[1], [2]],
    "base_costs": [1000, 100],
    "op_types": ["Pointwise", "Pointwise"],
    "fast_memory_capacity": 35000,
    "slow_memory_bandwidth": 10,
    "native_granularity": [128, 128],
}
TOGETHER = {
    "subgraphs": [[0, 1]],
    "granularities": [[128, 128, 1]],
    "tensors_to_retain": [[]],
    "traversal_orders": [None],
    "subgraph_latencies": [3276.8],
}
APART = {
    "subgraphs": [[0], [1]],
    "granularities": [[128, 128, 1], [128, 128, 1]],
    "tensors_to_retain": [[], []],
}
PRODUCT = {
    **CHAIN,
    "inputs": [[0, 0], [1]],
    "op_types": ["MatMul", "Pointwise"],
    "fast_memory_capacity": 60000,
}


def changed(fields: dict[str, object], changes: dict[str, object]) -> str:
    """The fields as JSON, with others in their place or without them."""
    found = {**fields, **changes}
    return json.dumps({field: value for field, value in found.items() if value is not ABSENT})


def raw(name: str, content: str | bytes | Callable[[], object]) -> Hostile:
    """Any content in the place of an instance."""

    def make() -> None:
        if callable(content):
            content()
        else:
            Path("in.json").write_bytes(content.encode() if isinstance(content, str) else content)

    return Hostile(name, "contest in.json -o out.json", make)


def instance(name: str, **changes: object) -> Hostile:
    """An instance with one thing wrong."""
    return raw(name, changed(CHAIN, changes))


def solution(
    name: str, base: dict[str, object] = TOGETHER, problem: dict[str, object] = CHAIN, **changes: object
) -> Hostile:
    """A right instance, and a solution with one thing wrong."""

    def make() -> None:
        Path("in.json").write_text(json.dumps(problem))
        Path("tried.json").write_text(changed(base, changes))

    return Hostile(name, "contest in.json --check tried.json", make)


CONTEST = (
    raw("no instance", lambda: None),
    raw("a folder as an instance", lambda: Path("in.json").mkdir()),
    raw("a pipe as an instance", lambda: os.mkfifo("in.json")),
    raw("an empty instance", ""),
    raw("an instance of bytes", b"\xff\xfe{}"),
    raw("a list as an instance", "[]"),
    raw("a number as an instance", "7"),
    raw("brackets as an instance", "[" * 100_000),
    raw("an instance cut off", json.dumps(CHAIN)[:-20]),
    instance("an instance without bandwidth", slow_memory_bandwidth=ABSENT),
    instance("an instance with another field", frequency=1),
    instance("a capacity of zero", fast_memory_capacity=0),
    instance("half a bandwidth", slow_memory_bandwidth=0.5),
    instance("a bandwidth that is true", slow_memory_bandwidth=True),
    instance("a capacity beyond all bounds", fast_memory_capacity=10**30),
    instance("widths that are a number", widths=128),
    instance("a width of text", widths=[128, "128", 128]),
    instance("a width of zero", widths=[128, 0, 128]),
    instance("a tensor wider than a million", widths=[2**21, 2**21, 2**21]),
    instance("fewer heights than widths", heights=[128, 128]),
    instance("one native extent", native_granularity=[128]),
    instance("a native extent of zero", native_granularity=[0, 128]),
    instance("fewer costs than operators", base_costs=[1000]),
    instance("a negative cost", base_costs=[1000, -1]),
    instance("no operators", inputs=[], outputs=[], base_costs=[], op_types=[]),
    instance(
        "a thousand operators",
        inputs=[[0]] * 1000,
        outputs=[[1]] * 1000,
        base_costs=[1] * 1000,
        op_types=["Pointwise"] * 1000,
    ),
    instance("an unknown kind", op_types=["Pointwise", "Softmax"]),
    instance("a kind that is a list", op_types=["Pointwise", []]),
    instance("an input that does not exist", inputs=[[0], [7]]),
    instance("a negative input", inputs=[[0], [-1]]),
    instance("inputs that are numbers", inputs=[0, 1]),
    instance("an operator without inputs", inputs=[[], [1]]),
    instance("an operator of two outputs", outputs=[[1, 0], [2]]),
    instance("two producers of a tensor", outputs=[[2], [2]]),
    instance("a product of one input", op_types=["MatMul", "Pointwise"]),
    instance(
        "a product of shapes that do not fit",
        inputs=[[0, 2], [1]],
        op_types=["MatMul", "Pointwise"],
        widths=[64, 128, 128],
    ),
    instance("a pointwise operator of two shapes", widths=[128, 128, 64]),
    instance("operators that wait for each other", inputs=[[2], [1]]),
    instance("an instance that does not fit", fast_memory_capacity=1),
    instance("an instance of too many tiles", widths=[2**20] * 3, heights=[2**20] * 3),
    Hostile("unknown rules", "contest in.json --rules mine", lambda: Path("in.json").write_text(json.dumps(CHAIN))),
    Hostile(
        "a solution in the place of its instance",
        "contest in.json -o in.json",
        lambda: Path("in.json").write_text(json.dumps(CHAIN)),
    ),
    Hostile("a solution to check and one to write", "contest in.json --check tried.json -o out.json"),
    solution("a solution without granularities", granularities=ABSENT),
    solution("a solution with another field", makespan=1),
    solution("lists of different lengths", granularities=[]),
    solution("a granularity of two numbers", granularities=[[128, 128]]),
    solution("a granularity of zero", granularities=[[128, 0, 1]]),
    solution("a granularity above the native one", granularities=[[256, 128, 1]]),
    solution("a sub-graph of nothing", subgraphs=[[]]),
    solution("an operator that does not exist", subgraphs=[[0, 9]]),
    solution("an operator twice in a sub-graph", subgraphs=[[0, 0]]),
    solution("an operator that is missing", subgraphs=[[0]]),
    solution("a tensor that nobody made yet", base=APART, subgraphs=[[1], [0]]),
    solution(
        "a retained tensor of another operator",
        base=APART,
        problem={**CHAIN, "fast_memory_capacity": 10**6},
        subgraphs=[[0], [0], [1]],
        granularities=[[128, 128, 1]] * 3,
        tensors_to_retain=[[1], [2], []],
    ),
    solution(
        "a tensor that was not stored",
        base=APART,
        problem={
            **CHAIN,
            "inputs": [[0], [0], [1]],
            "outputs": [[1], [2], [3]],
            "widths": [128] * 4,
            "heights": [128] * 4,
            "base_costs": [1] * 3,
            "op_types": ["Pointwise"] * 3,
            "fast_memory_capacity": 10**6,
        },
        subgraphs=[[0], [1], [2]],
        granularities=[[128, 128, 1]] * 3,
        tensors_to_retain=[[1], [], []],
    ),
    solution("a retained input", tensors_to_retain=[[0]]),
    solution(
        "a result that stays in fast memory",
        base=APART,
        tensors_to_retain=[[], [2]],
        problem={**CHAIN, "fast_memory_capacity": 10**6},
    ),
    solution("a working set that does not fit", problem={**CHAIN, "fast_memory_capacity": 30000}),
    solution("an order that leaves a tile out", granularities=[[64, 64, 1]], traversal_orders=[[0, 1, 2]]),
    solution("an order that repeats a tile", granularities=[[64, 64, 1]], traversal_orders=[[0, 1, 1, 2]]),
    solution("a claim that is too good", subgraph_latencies=[3000]),
    solution("a claim of text", subgraph_latencies=["3276.8"]),
    solution("a negative claim", subgraph_latencies=[-1]),
    solution(
        "a pointwise operator before a reduction in steps",
        problem={**CHAIN, "inputs": [[0], [1, 1]], "op_types": ["Pointwise", "MatMul"], "fast_memory_capacity": 10**6},
        granularities=[[64, 128, 32]],
        subgraph_latencies=[None],
    ),
    solution(
        "operators that share nothing",
        problem={**CHAIN, "inputs": [[0], [3]], "outputs": [[1], [2]], "widths": [128] * 4, "heights": [128] * 4},
    ),
)
