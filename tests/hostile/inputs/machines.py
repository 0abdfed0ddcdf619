"""Machine files that describe nothing, too much, or what cannot be."""

import os
import random
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import onnx
import yaml

from tests.hostile.inputs.making import RELU, Hostile, model, whole
from tilestitch import api

TOY = files("tilestitch.hardware").joinpath("presets/toy.yaml").read_text(encoding="utf-8")

SHOW = "show machine mine.yaml"
CHECK = "check resnet18:small --machine mine.yaml"  # of what is a tree, but none to compile for
COMPILE = "compile net.onnx --machine mine.yaml"
ABSENT = None


def text(name: str, content: str | bytes | Callable[[], str], asked: str = SHOW) -> Hostile:
    """Any text in the file mine.yaml."""

    def make() -> None:
        found = content() if callable(content) else content
        Path("mine.yaml").write_bytes(found.encode() if isinstance(found, str) else found)

    return Hostile(name, asked, make)


def toy(name: str, path: str, found: str | None, *, asked: str = SHOW) -> Hostile:
    """The machine `toy` with another text at a place, or without that place."""
    return text(name, lambda: edited({path: found}), asked)


def edited(changes: dict[str, str | None]) -> str:
    """The machine `toy` with other texts at some places; None leaves the place out."""
    tree = yaml.safe_load(TOY)
    for path, found in changes.items():
        *way, last = [int(part) if part.isdecimal() else part for part in path.split(".")]
        place = tree
        for part in way:
            place = place[_key(place, part)]
        if found is None:
            del place[_key(place, last)]
        else:
            place[_key(place, last)] = f"@{path}@"
    written = yaml.safe_dump(tree, sort_keys=False, width=1000)
    for path, found in changes.items():
        written = written.replace(f"'@{path}@'", found or "")
    return written


def _key(place: list[dict[str, str]] | dict[str, str], part: int | str) -> int | str:
    """The position of an entry of a list that goes by its name."""
    if isinstance(place, list) and isinstance(part, str):
        return [one["name"] for one in place].index(part)
    return part


def laughs(levels: int) -> str:
    """Ten times ten times ten laughs, in a few lines."""
    lines = ["a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, levels)]
    return "\n".join(lines)


def impossible(
    name: str,
    changes: dict[str, str | None],
    asked: str = COMPILE,
    network: Callable[[], onnx.ModelProto] = whole,
) -> Hostile:
    """A machine that can be described, and on which the network cannot run."""

    def make() -> None:
        Path("mine.yaml").write_text(edited(changes), encoding="utf-8")
        Path("net.onnx").write_bytes(network().SerializeToString())

    return Hostile(name, asked, make)


MACHINES = (
    text("empty", ""),
    text("nothing but comments", "# a machine\n"),
    text("a word", "toy"),
    text("a list", "- a\n- b\n"),
    text("JSON of another kind", '{"format": "tilestitch.machine"}'),
    text("random bytes", random.Random(0).randbytes(2048)),
    text("zeros", bytes(100)),
    text("not UTF-8", TOY.encode().replace(b"small", b"sm\xe4ll")),
    text("UTF-16", TOY.encode("utf-16")),
    text("a million laughs", laughs(9)),
    text("an alias to itself", "a: &a [*a]\n"),
    text("brackets in brackets", "[" * 100_000),
    text("mappings in mappings", "".join(f"{' ' * i}k:\n" for i in range(300))),
    text("braces in braces", "{a: " * 5000),
    text("indentation by tabs", TOY.replace("\n  ", "\n\t")),
    text("a tag of Python", "!!python/object/apply:os.system ['touch owned']\n"),
    text("a tag for a number", TOY.replace("size: 2}", "size: !!int 2}")),
    text("a key twice", TOY + "clock: 3\n"),
    text("a section twice", TOY + "setup: {}\n"),
    text("two documents", TOY + "---\n" + TOY),
    text("a document that never ends its text", TOY + 'note: "' + "x" * 1000),
    text("a key of a hundred thousand letters", f"{'k' * 100_000}: 1\n"),
    text("a key that is a list", "? [a, b]\n: 1\n"),
    text("a value of a hundred thousand digits", lambda: edited({"clock": "9" * 100_000})),
    text("a hundred thousand keys", "".join(f"k{i}: 1\n" for i in range(20_000))),
    text("a file of megabytes", "#" * 10_000_000),
    text("a merge", TOY + "<<: {name: other}\n"),
    text("a directive", "%YAML 9.9\n---\n" + TOY),
    text("an unknown escape", 'name: "\\q"\n'),
    text("a character that moves the cursor", lambda: edited({"description": '"\\e[2J"'})),
    toy("an unknown key", "name", "toy\ncolour: blue"),
    toy("a missing key", "name", ABSENT),
    toy("no memories", "memories", ABSENT),
    toy("an outermost memory for inputs only", "memories.ddr.operands", "[I]", asked=CHECK),
    toy("a list in the place of a mapping", "memories", "[ddr]"),
    toy("a mapping in the place of a number", "axes.cluster.size", "{count: 2}"),
    toy("a number in the place of a list", "cores", "8"),
    toy("a unit that does not exist", "cores.0.matrix", "gpu"),
    toy("a size with its unit", "memories.ddr.size", "64 megabytes"),
    toy("a size as a list", "memories.ddr.size", "[67108864]"),
    toy("a size of zero", "memories.lb.size", "0"),
    toy("a negative size", "memories.lb.size", "-65536"),
    toy("a size beyond 64 bits", "memories.ddr.size", str(2**64)),
    toy("a size that is no number", "memories.ddr.size", ".nan"),
    toy("a size without end", "memories.ddr.size", ".inf"),
    toy("a size in scientific notation", "memories.ddr.size", "1e9"),
    toy("half a byte", "memories.ddr.size", "1024.5", asked=CHECK),
    toy("a bandwidth of zero", "memories.ddr.bandwidth_bytes_per_cycle", "0"),
    toy("a negative bandwidth", "memories.gb.bandwidth_bytes_per_cycle", "-64"),
    toy("a bandwidth without end", "link.bandwidth_bytes_per_cycle", ".inf"),
    toy("a bandwidth of one over zero", "link.bandwidth_bytes_per_cycle", "1/0"),
    toy("a tiny bandwidth", "link.bandwidth_bytes_per_cycle", "1e-30"),
    toy("an energy that is no number", "link.pj_per_byte", ".nan"),
    toy("a negative energy", "link.pj_per_byte", "-1"),
    toy("no clock", "clock", "0"),
    toy("a clock of a third of a hertz", "clock", "0.333 Hz"),
    toy("half a cluster", "axes.cluster.size", "0.5"),
    toy("a thousand million clusters", "axes.cluster.size", "1000000000"),
    toy("a thousand million cores", "axes.core.size", "1000000000"),
    toy("no cores", "cores", "[]"),
    impossible("no vector unit", {"cores.0.vector": ABSENT}),
    toy("a vector unit of no lanes", "units.vme.lanes", "{}"),
    toy("a matrix unit of no width", "units.mme.k", "0"),
    toy("a huge matrix unit", "units.mme.k", "16777216"),
    toy("a yes", "units.mme.systolic", "yes"),
    toy("an unknown dataflow", "units.mme.dataflow", "sideways"),
    toy("a setup of negative time", "setup.dma_cycles", "-5"),
    toy("a granule of zero", "granule_bytes", "0"),
    impossible("a local memory of one byte", {"memories.lb.size": "1"}),
    impossible("a local memory smaller than a tile", {"memories.lb.size": "16"}),
    impossible("a DDR smaller than the network", {"memories.ddr.size": "64"}),
    impossible(
        "no memory beside DDR",
        {f"memories.{level}": ABSENT for level in ("gb", "lb", "weights", "accumulators")},
    ),
    impossible(
        "a million iterations of one sample",
        {"memories.ddr.size": str(2**50)},
        f"{COMPILE} --batch 100000000 --batch-per-cluster 1",
        network=lambda: model(RELU, inputs=["x:N,4"]),
    ),
    impossible(
        "transfers byte by byte",
        {"granule_bytes": "1", "memories.lb.size": str(2**40), "memories.gb.size": str(2**40)}
        | {"memories.ddr.size": str(2**50)},
        network=lambda: model(RELU, inputs=[f"x:{2**15},{2**16}"]),
    ),
    Hostile("a folder", SHOW, lambda: Path("mine.yaml").mkdir()),
    Hostile("a pipe that nobody writes to", SHOW, lambda: os.mkfifo("mine.yaml")),
    Hostile("a device without end", "show machine /dev/zero"),
    Hostile("a name that is nearly right", "show machine stcp921"),
    Hostile("no name", ["show", "machine", ""]),
    Hostile("a number in the place of a name", lambda: api.compile("resnet18:small", 7)),  # pyright: ignore[reportArgumentType]
)
