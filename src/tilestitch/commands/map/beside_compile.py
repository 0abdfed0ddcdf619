"""What a compiled network takes beside its layers mapped alone, for `map` to put beside its own numbers."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from tilestitch.api import compile, load_machine, open_model
from tilestitch.base.errors import InputError, printable
from tilestitch.base.progress import Progress, quiet
from tilestitch.ir.beside import BesideMap
from tilestitch.pipeline.beside import expect_comparable
from tilestitch.pipeline.options import Options
from tilestitch.report.beside_text import beside_lines

OPTION = "--beside-compile"


@dataclass(frozen=True, slots=True)
class BesideCompile:
    """A network as it was compiled and simulated, by which strategy, and why it takes more or less than its layers."""

    strategy: str
    beside: BesideMap


def expect_compiled(model: str, machine: str) -> None:
    """Refuse, before anything is mapped, a model that is no network, and machines for which there is no comparison.

    Such are those that `compile` does not take, and those of which `map` has not all units. Raises `InputError`.
    """
    try:
        open_model(model)
    except InputError:
        raise InputError(
            f"{OPTION} compiles a network, of the zoo or in an ONNX file, and {printable(model, 60)} is none; leave it "
            "out"
        ) from None
    expect_comparable(load_machine(machine), batches=1, option=OPTION)


def beside_compile(model: str, machine: str, options: Options, progress: Progress = quiet) -> BesideCompile:
    """Compile a network by the strategy `auto`; its layers are mapped for latency, whatever `map` minimises."""
    report = compile(model, machine, options=options, progress=progress).report
    assert report is not None, "a compilation that stops nowhere has a report"
    assert report.beside is not None, "a network with layers to map has products"
    return BesideCompile(report.strategy, report.beside)


def beside_compile_text(found: BesideCompile) -> str:
    """What `map` prints behind its mappings."""
    beside = found.beside
    said = (
        f"compile takes {beside.compiled_cycles:,} cycles for the whole network by {found.strategy} (simulated), "
        f"{beside.ratio:.2f} x its layers mapped for latency, {beside.mapped_cycles:,} (estimated)"
    )
    return "\n".join(["", *beside_lines(beside), "", said])


def with_beside_compile(json_text: str, found: BesideCompile) -> str:
    """The JSON of `map` with the same numbers."""
    tree: dict[str, Any] = json.loads(json_text)
    return json.dumps({**tree, "beside_compile": {"strategy": found.strategy, **asdict(found.beside)}}, indent=1) + "\n"
