"""Simulations that contradict themselves, mappings that have no schedule, and traces that cannot be written."""

import json
from collections.abc import Callable
from pathlib import Path

import tilestitch
from tests.hostile.inputs.making import RELU, Hostile, model
from tilestitch import api

PRODUCT = "O[m,n] += A[m,k] * B[k,n]; m=64 n=64 k=64"


def asked(name: str, *arguments: str, line: str = PRODUCT, make: Callable[[], object] = lambda: None) -> Hostile:
    """A right nest and wrong options."""
    return Hostile(name, ["simulate", line, *arguments], make)


def mapped(name: str, *arguments: str, line: str = PRODUCT, **levels: dict[str, int]) -> Hostile:
    """A nest and a mapping by its factors, in the file mapping.json."""
    orders = {level: list(levels.get(level, {})) for level in ("dram", "spm")}
    text = json.dumps({"factors": levels, "orders": orders})
    return asked(
        name,
        "--mapping",
        "mapping.json",
        *arguments,
        line=line,
        make=lambda: Path("mapping.json").write_text(text, encoding="utf-8"),
    )


def call(name: str, mapping: object, **options: object) -> Hostile:
    """The same for the Python API."""
    return Hostile(name, lambda: api.simulate_mapping(mapping, **options))  # pyright: ignore[reportArgumentType]


def only_relu() -> None:
    """A network without products."""
    Path("net.onnx").write_bytes(model(RELU, inputs=["x:2,3"]).SerializeToString())


FITS = {"factors": {"rf": {"M": 2, "N": 2, "K": 2}}, "orders": {}, "nest": {"kind": "gemm"}}
FITS["nest"]["extents"] = {"M": 2, "N": 2, "K": 2}

SIMULATION = (
    Hostile("nothing to simulate", "simulate"),
    Hostile("a simulation of a network that is not there", "simulate net.onnx"),
    Hostile("a simulation of a network without products", "simulate net.onnx", only_relu),
    asked("a nest without extents", line="O[m] += A[m,k] * B[k]; m=4"),
    asked("a trace of a machine without an array", "--trace", "t.json", "--machine", "stcp920"),
    asked("a simulation on a machine that is not there", "--machine", "eyeris"),
    asked("a simulated layer by a number that is not there", "--layer", "2"),
    asked("a simulated layer by a name that is not there", "--layer", "conv1"),
    asked("an objective of two kinds to simulate", "--objective", "pareto"),
    asked("values of a word", "--values", "oats"),
    asked("values where passes are left out", "--extrapolate", "--values", "integers"),
    asked("a trace where passes are left out", "--extrapolate", "--trace", "trace.json"),
    asked("a window without a trace", "--window", "0:10"),
    asked("a window of one number", "--trace", "trace.json", "--window", "5"),
    asked("a window of words", "--trace", "trace.json", "--window", "first:last"),
    asked("a window that ends before it begins", "--trace", "trace.json", "--window", "10:9"),
    asked("a window before the beginning", "--trace", "trace.json", "--window", "-5:9"),
    asked("a window in other digits", "--trace", "trace.json", "--window", "\u0661:\u0662"),
    asked("a window of a thousand digits", "--trace", "trace.json", "--window", f"0:{'9' * 1000}"),
    asked("a trace in the place of a folder", "--trace", "."),
    asked("a trace below a file", "--trace", "net/trace.json", make=Path("net").touch),
    asked("a trace and the JSON in one file", "--trace", "out.json", "--json", "out.json"),
    asked("a trace in the place of the machine", "--trace", "m.yaml", "--machine", "m.yaml", make=Path("m.yaml").touch),
    Hostile("a trace of two layers", ["simulate", "resnet18:small", "--trace", "trace.json"]),
    Hostile("a mapping of two layers to simulate", ["simulate", "resnet18:small", "--mapping", "none.json"]),
    asked("a simulated mapping that is not there", "--mapping", "none.json"),
    mapped("a simulated mapping and an objective", "--objective", "energy", rf={"m": 64}),
    mapped("a simulated mapping that leaves iterations out", rf={"m": 2}, spatial={"n": 64, "k": 64}),
    mapped("a simulated mapping of more elements than there are", spatial={"m": 64, "n": 64}, rf={"k": 64}),
    mapped("a simulated mapping of more registers than there are", rf={"m": 64, "n": 64, "k": 64}),
    mapped(
        "a simulated mapping of a larger scratchpad than there is",
        line="O[m,n] += A[m,k] * B[k,n]; m=512 n=512 k=512",
        spm={"m": 512, "n": 512, "k": 512},
    ),
    mapped(
        "results with a step to simulate",
        line="O[2*m,n] += A[m,k] * B[k,n]; m=4 n=4 k=4",
        rf={"m": 4, "n": 4, "k": 4},
    ),
    mapped(
        "results of a sum of loops to simulate",
        line="O[m+n] += A[m,k] * B[k,n]; m=4 n=4 k=4",
        rf={"m": 4, "n": 4, "k": 4},
    ),
    mapped(
        "an operand backwards to simulate",
        line="O[m,n] += A[m,-1*k+3] * B[k,n]; m=4 n=4 k=4",
        rf={"m": 4, "n": 4, "k": 4},
    ),
    call("a mapping without factors in Python", {"nest": FITS["nest"], "orders": {}}),
    call("a mapping of nothing in Python", {}),
    call("values of a word in Python", FITS, values="oats"),
    call("values of nothing in Python", FITS, values=None),
    call("a simulation on a number in Python", FITS, machine=3),
    call("a simulation on a machine without an array in Python", FITS, machine="toy"),
    Hostile("traffic with a buffer of no size", ["traffic", PRODUCT, "--capacity", "0"]),
    Hostile("traffic with a buffer in words", ["traffic", PRODUCT, "--capacity", "large"]),
    Hostile("traffic of a network without products", "traffic net.onnx", only_relu),
    Hostile("traffic with 100 capacities", ["traffic", PRODUCT, *(f"--capacity={size}" for size in range(1, 101))]),
    Hostile("traffic of a capacity that is no number", lambda: tilestitch.traffic(PRODUCT, [1.5])),  # pyright: ignore
)
