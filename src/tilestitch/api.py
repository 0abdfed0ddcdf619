"""Networks and machines, compile and compare, mappings that somebody wrote; `commands` has the other commands.

    import tilestitch

    done = tilestitch.compile("resnet50", "stcp920", batch=64, verify=True)
    print(done)                        # the report, as a page
    print(done.report.latency_cycles)  # every number has a name with its unit
    print(done.schedule)               # and every stage's value is there

A model is the name of a network in the zoo (`resnet50`, `bert-base-128`; `resnet50:small` is a small variant of the
same structure), the path of an ONNX file, or a `ModelProto`.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import onnx

from tilestitch import zoo
from tilestitch.base.errors import DoesNotFit, InputError, printable
from tilestitch.base.progress import Progress, quiet
from tilestitch.base.text_files import file_text
from tilestitch.frontend import inlining
from tilestitch.frontend.binding import exported_batch_of, with_sizes
from tilestitch.frontend.inlining import without_functions
from tilestitch.frontend.loading import load_model, weight_files, with_own_outputs
from tilestitch.frontend.reader import read_onnx
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.hardware.array_machine import array_of_core
from tilestitch.hardware.load import load_machine
from tilestitch.ir.by_hand import FusionPlan, HandGroup, HandItem, HandSchedule, NamedBlock
from tilestitch.ir.choices import MAX_BATCH, BindingRule, CostMode, Effort, GroupingRule, Spill, Stage, Values
from tilestitch.ir.graph import Graph
from tilestitch.ir.report import Misfit, misfit_lines
from tilestitch.pipeline.comparison import Comparison
from tilestitch.pipeline.compilation import Compilation
from tilestitch.pipeline.compile import References, compile_network, resume_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.stage_files import MOST_BYTES, started
from tilestitch.pipeline.strategies import STRATEGIES, Strategy, strategy_by_hand, strategy_named, strategy_of_plan

if TYPE_CHECKING:
    from tilestitch.sim.array.simulated import SimulatedMapping

__all__ = [
    "FusionPlan",
    "HandGroup",
    "HandItem",
    "HandSchedule",
    "NamedBlock",
    "Options",
    "annotated",
    "compare",
    "compile",
    "evaluate_mapping",
    "load_graph",
    "load_machine",
    "open_model",
    "simulate_mapping",
    "with_function",
]

Model: TypeAlias = str | Path | onnx.ModelProto
Machine: TypeAlias = str | Path | Accelerator | Mapping[str, object]

MACHINE = "stcp920"  # where none is named

_SMALL = ":small"

_Choice = TypeVar("_Choice", bound=StrEnum)


def open_model(name_or_path: Model) -> tuple[onnx.ModelProto, str]:
    """A network and what to call it; names of the zoo come before files, and a `Path` is always a file."""
    if isinstance(name_or_path, onnx.ModelProto):
        return _prepared(name_or_path, printable(name_or_path.graph.name or "network"))
    if not isinstance(name_or_path, str | Path):
        found = shown(name_or_path)
        raise InputError(f"model: expected the name of a network, the path of a file or a ModelProto, found {found}")
    if isinstance(name_or_path, Path):
        return _from_file(name_or_path)
    try:
        return zoo_model(printable(name_or_path)), name_or_path
    except InputError as error:
        if name_or_path and "\0" not in name_or_path and os.path.lexists(name_or_path):
            return _from_file(Path(name_or_path))
        raise InputError(f"model '{printable(name_or_path)}': there is no such file, and {error}") from None


def _from_file(path: Path) -> tuple[onnx.ModelProto, str]:
    return _prepared(load_model(path), printable(path.name))


def _prepared(model: onnx.ModelProto, name: str) -> tuple[onnx.ModelProto, str]:
    """The same network in the form that reader and reference share."""
    return with_own_outputs(without_functions(name, model)), name


def with_function(model: str | Path | onnx.ModelProto, text: str) -> onnx.ModelProto:
    """A network with the definition of an operator of one's own by others, a function in ONNX's text form.

        <domain: "mine", opset_import: ["" : 20]> Twice (x) => (y) { y = Add (x, x) }

    Every node of that domain and name then stands for these nodes. Raises `InputError` for what is no function.
    """
    if isinstance(model, onnx.ModelProto):
        return inlining.with_function(printable(model.graph.name or "network"), model, text)
    path = Path(model)
    return inlining.with_function(printable(path.name), load_model(path), text)


def zoo_model(name: str) -> onnx.ModelProto:
    """Build a network of the zoo; `resnet50:small` is the small variant of `resnet50`."""
    return zoo.build(name.removesuffix(_SMALL), small=name.endswith(_SMALL))


def load_graph(model: Model, *, batch: int | None = None, dims: Mapping[str, int] = {}) -> Graph:
    """A network as Tilestitch reads it, before any pass; `dims` gives sizes to symbolic dims other than the batch.

    Without `batch` it is the network's own, else 1.
    """
    if batch is not None:
        expect_count("batch", batch)
    _expect_dims(dims)
    proto, name = open_model(model)
    proto = with_sizes(name, proto, dims)
    return read_onnx(proto, name=name, batch=batch or exported_batch_of(proto) or 1)


def compile(
    model: Model,
    machine: Machine | None = None,
    *,
    strategy: str | HandSchedule | FusionPlan = "auto",
    batch: int | None = None,
    verify: bool = False,
    options: Options = Options(),
    start: str | Path | None = None,
    progress: Progress | None = None,
) -> Compilation:
    """Take a network through every stage, up to `options.stop_after`, by one strategy, or by what somebody wrote.

    That is a schedule, or a plan of fused blocks; plans of fused blocks have names as well, such as "dlfusion".

    `batch` samples run on the whole machine (by default the network's own batch, else 1). `verify` executes the
    program and compares its outputs with onnxruntime's; look at `.report.verified`. `options` say the rest, and these
    two as well. `start` is the file of a stage's value (`tilestitch compile --stop-after STAGE --json FILE`), from
    which the run goes on with the strategy and the options that it was made with.

    The machine is that of the file then, where it comes with Tilestitch and no other is named; else it is stcp920.
    Raises `InputError` for what is wrong or not understood, `DoesNotFit` for what is too large.
    """
    asked = _asked(options, batch, verify=verify)
    if start is None:
        chosen, target = _strategy(strategy), machine_of(MACHINE if machine is None else machine)
        proto, name = open_model(model)  # last: the others are refused at once
        return compile_network(proto, name, target, chosen, asked, progress=progress or quiet)
    begin = started(file_text(start, "JSON", MOST_BYTES), printable(Path(start).name))
    target = machine_of(begin.machine if machine is None else machine)
    return resume_network(open_model(model)[0], begin, target, asked, progress=progress or quiet)


def compare(
    model: Model,
    machine: Machine = "stcp920",
    strategies: Sequence[str | HandSchedule | FusionPlan] = tuple(strategy.name for strategy in STRATEGIES),
    *,
    batch: int | None = None,
    verify: bool = False,
    options: Options = Options(),
    progress: Progress | None = None,
) -> Comparison:
    """Compile one network by several strategies, by all unless some are named; the options are those of `compile`.

    For a strategy that the machine is too small for there is a `Misfit` with the reason; raises `DoesNotFit` where it
    is too small for all.
    """
    asked = replace(_asked(options, batch, verify=verify), stop_after=Stage.SIMULATE)
    chosen, target = [_strategy(strategy) for strategy in strategies], machine_of(machine)
    if not chosen:
        raise InputError(f"strategies: expected at least one; they are: {', '.join(each.name for each in STRATEGIES)}")
    proto, name = open_model(model)
    references: References = {}  # what onnxruntime gives, once for all

    def named(strategy: str) -> Progress:
        return lambda step, done, total: show(f"{strategy}: {step}", done, total)

    show = progress or quiet
    found: list[Compilation | Misfit] = []
    for each in chosen:
        try:
            found.append(
                compile_network(proto, name, target, each, asked, references=references, progress=named(each.name))
            )
        except DoesNotFit as error:
            found.append(Misfit(each.name, str(error)))
    if all(isinstance(result, Misfit) for result in found):
        raise DoesNotFit("\n".join(misfit_lines(one for one in found if isinstance(one, Misfit))))
    return Comparison(tuple(found))


def annotated(done: Compilation, model: Model) -> onnx.ModelProto:
    """The network that was compiled with what became of each node in the node's metadata (docs/report.md#annotations).

    `model` is what `compile` was given. Weights that its file keeps in other files stay there, so save the result
    beside them. Functions that the file defines are written out. Raises `InputError` for another network, and where
    nothing was simulated.
    """
    from tilestitch.pipeline.annotate import annotate

    found = _unfilled(model)
    annotate(done, found)
    return found


def expect_annotatable(model: Model, path: Path) -> None:
    """Refuse a place for `annotated` that is a file of the network's weights, or from which they are not found."""
    source = _file_of(model)
    files = () if source is None else weight_files(load_model(source, external=False))
    if source is None or not files:
        return
    if path.resolve().parent != source.resolve().parent:
        raise InputError(
            f"{printable(str(path))}: the weights of {printable(source.name)} are in {printable(files[0])} in its own "
            f"folder, and an annotated network must be there to find them; write it to that folder"
        )
    if any(path.resolve() == (source.parent / name).resolve() for name in files):
        raise InputError(f"{printable(str(path))}: holds weights of the network; choose another path")


def _file_of(model: Model) -> Path | None:
    """The file that `open_model` reads; None where there is none."""
    if isinstance(model, Path):
        return model
    if not isinstance(model, str):
        return None
    try:
        zoo.find(model.removesuffix(_SMALL))
    except InputError:
        return Path(model)
    return None


def _unfilled(model: Model) -> onnx.ModelProto:
    """A network of one's own with its nodes, functions written out; weights in other files are not read."""
    if isinstance(model, onnx.ModelProto):
        copied = onnx.ModelProto()
        copied.CopyFrom(model)
        return without_functions("the network", copied)
    path = _file_of(model)
    if path is None:
        return open_model(model)[0]
    return without_functions(printable(path.name), load_model(path, external=False))


def evaluate_mapping(mapping: Mapping[str, object], machine: Machine = "dmazerunner-256") -> dict[str, Any]:
    """The estimated price of a mapping, both as `tilestitch map --evaluate` reads and prints them.

    A mapping that does not fit is priced as well, and `valid` is false; raises InputError for what is no mapping.
    """
    from tilestitch.mapping.json_lines import price_json  # the mapper takes as long to import as much of the compiler

    return price_json(mapping, array_of_core(machine_of(machine)))


def simulate_mapping(
    mapping: Mapping[str, object],
    machine: Machine = "dmazerunner-256",
    *,
    values: str = "integers",
    extrapolate: bool = False,
) -> "SimulatedMapping":
    """Simulate a mapping cycle by cycle; it is said as `tilestitch map --evaluate` reads it.

    `values` ("integers", "floats", "none") move through the array, and what it computes is compared with numpy;
    `extrapolate` leaves out passes that repeat, and computes no values. Raises InputError for what is no mapping or has
    no schedule, DoesNotFit for what the machine is too small for.
    """
    from tilestitch.mapping.json_lines import mapping_of, nest_of
    from tilestitch.sim.array import simulated

    nest = nest_of(mapping)
    return simulated.simulate_mapping(
        nest,
        array_of_core(machine_of(machine)),
        mapping_of(nest, mapping, CostMode.DEFAULT),
        values=values_of(values, extrapolate=extrapolate),
        extrapolate=extrapolate,
    )


def values_of(values: str, *, extrapolate: bool) -> Values:
    """What moves through an array; nothing where passes are left out."""
    known = [str(one) for one in Values]
    if values not in known:
        raise InputError(f"values: expected {', '.join(known)}, found {shown(values)}")
    return Values.NONE if extrapolate else Values(values)


def _strategy(strategy: str | HandSchedule | FusionPlan) -> Strategy:
    if isinstance(strategy, HandSchedule):
        return strategy_by_hand(strategy)
    return strategy_of_plan(strategy) if isinstance(strategy, FusionPlan) else strategy_named(strategy)


def machine_of(machine: Machine) -> Accelerator:
    """A machine by its name, its file, its dict, or as it is."""
    if isinstance(machine, Accelerator):
        return machine
    if not isinstance(machine, str | Path | Mapping):
        raise InputError(
            "machine: expected the name of a preset, the path of a YAML file, a dict or an Accelerator, "
            f"found {shown(machine)}"
        )
    return load_machine(machine)


def shown(value: object) -> str:
    """What was given where something else belongs."""
    return f"{type(value).__name__} {printable(repr(value), 50)}"


def expect_count(name: str, value: object, most: int | None = None) -> None:
    """Refuse what is no whole number from 1 on; a truth value is one for Python, and not meant."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f"{name}: expected a whole number, found {shown(value)}")
    if value < 1 or (most is not None and value > most):
        limits = "at least 1" if most is None else f"1 to {most:,}"
        raise InputError(f"{name}: expected {limits}, found {value:,}")


def _expect_dims(dims: Mapping[str, int]) -> None:
    if not isinstance(dims, Mapping) or not all(isinstance(name, str) for name in dims):
        raise InputError(f"dims: expected sizes by the names of dims, such as {{'length': 128}}, found {shown(dims)}")
    for name, size in dims.items():
        expect_count(f"dim '{printable(name)}'", size)


def _asked(options: Options, batch: int | None, *, verify: bool) -> Options:
    """The options of a run, `batch` and `verify` among them where they are given apart."""
    if not isinstance(options, Options):
        raise InputError(f"options: expected Options, such as Options(grouping='exact'), found {shown(options)}")
    return checked_options(
        replace(options, batch=options.batch if batch is None else batch, verify=verify or options.verify)
    )


def checked_options(options: Options) -> Options:
    """The same options, choices that were given by name included; refused where no run could make sense of them."""
    if options.batch is not None:
        expect_count("batch", options.batch, MAX_BATCH)
    expect_count("batches", options.batches, MAX_BATCH)
    if not isinstance(options.batch_per_cluster, str):
        expect_count("batch_per_cluster", options.batch_per_cluster)
    _expect_dims(options.dims)
    return replace(
        options,
        dims=dict(options.dims),
        stop_after=choice_of("stop_after", options.stop_after, Stage),
        binding=choice_of("binding", options.binding, BindingRule),
        grouping=choice_of("grouping", options.grouping, GroupingRule),
        spill=choice_of("spill", options.spill, Spill),
        effort=choice_of("effort", options.effort, Effort),
    )


def choice_of(name: str, given: str, kind: type[_Choice]) -> _Choice:
    """One of a few by its name."""
    if given not in list(kind):
        raise InputError(f"{name} {printable(repr(given), 40)}: expected one of {', '.join(kind)}")
    return kind(given)
