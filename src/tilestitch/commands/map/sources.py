"""Nests, machines and mappings from what a user names: our own, a network's, or another program's file."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tilestitch.base.errors import InputError, printable
from tilestitch.base.text_files import MAX_JSON_BYTES, file_text
from tilestitch.commands.map.networks import NetworkRuns
from tilestitch.formats.accelforge.read_workload import accelforge_layers
from tilestitch.formats.dmazerunner.machine import dmazerunner_machine
from tilestitch.formats.dmazerunner.nest import dmazerunner_layers, dmazerunner_mapping
from tilestitch.formats.einsum import einsum_nest
from tilestitch.formats.timeloop.machine import OWN_TARGETS, TimeloopTargets, timeloop_machine
from tilestitch.formats.timeloop.mapping import timeloop_mapping
from tilestitch.formats.timeloop.nest import timeloop_problem
from tilestitch.formats.zigzag.machine import zigzag_machine
from tilestitch.formats.zigzag.mapping import zigzag_mapping
from tilestitch.formats.zigzag.nest import zigzag_layers
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.hardware.array_machine import ArrayMachine, array_of_core
from tilestitch.ir.choices import CostMode
from tilestitch.ir.loop_nest import LoopMapping, LoopNest
from tilestitch.ir.verify_mapping import mapping_faults
from tilestitch.mapping.json_lines import mapping_of, parsed_line
from tilestitch.mapping.network import RepeatedNest, layers_of

MAX_YAML_BYTES = 4 * 2**20
_EINSUM = re.compile(r"\[[^]]*\]\s*\+?=")


@dataclass(frozen=True, slots=True)
class Nests:
    """What is to be mapped."""

    name: str
    layers: tuple[RepeatedNest, ...]
    unmapped: Mapping[str, int] = field(default_factory=dict)  # operators that are no nests of products, by kind
    asked: Mapping[str, object] = field(default_factory=dict)  # with what else they were opened
    notes: tuple[str, ...] = ()  # on how the network was read


@dataclass(frozen=True, slots=True)
class MachineSource:
    """A machine, how a Timeloop mapping calls its parts, and what its file says that was not taken."""

    machine: ArrayMachine
    targets: TimeloopTargets = OWN_TARGETS
    notes: tuple[str, ...] = ()


def open_nests(given: str | Path, load: Callable[[str | Path], NetworkRuns]) -> Nests:
    """The nests of a line of einsum, of another program's file, or of a network (`load`)."""
    if isinstance(given, str) and _EINSUM.search(given) is not None:
        nest = einsum_nest(given)
        return Nests(nest.name, (RepeatedNest(nest, (nest.name,)),))
    path = Path(given)
    if path.suffix == ".json":
        found = dmazerunner_layers(file_text(path, "JSON", MAX_JSON_BYTES), path.name)
        return Nests(path.stem, _different(found))
    if path.suffix in (".yaml", ".yml"):
        text = file_text(path, "YAML", MAX_YAML_BYTES)
        if re.search(r"^\s*problem\s*:", text, re.MULTILINE) is not None:
            return Nests(path.stem, (_one(timeloop_problem(text, path.name, path.stem)),))
        if re.search(r"^workload\s*:", text, re.MULTILINE) is not None:
            return Nests(path.stem, _different([(nest, 1) for nest in accelforge_layers(text, path.name)]))
        return Nests(path.stem, _different([(nest, 1) for nest in zigzag_layers(text, path.name)]))
    return network_nests(load(given))


def network_nests(network: NetworkRuns) -> Nests:
    """The nests of a network, each as often as a batch runs it."""
    graph, runs = network.graph, network.runs
    layers, others = layers_of(graph)
    if not layers:
        raise InputError(f"{graph.name}: no convolution and no matrix product, so there is nothing to map")
    kinds: dict[str, int] = {}
    for op in others:
        kinds[op.kind] = kinds.get(op.kind, 0) + runs
    layers = tuple(replace(one, runs=runs) for one in layers)
    return Nests(graph.name, layers, kinds, notes=(network.note,) if network.note else ())


def _different(nests: Sequence[tuple[LoopNest, int]]) -> tuple[RepeatedNest, ...]:
    """Every different nest once, under its first name, for all that are like it."""
    names: dict[LoopNest, list[str]] = {}
    for nest, times in nests:
        names.setdefault(replace(nest, name=""), []).extend([nest.name] * times)
    return tuple(RepeatedNest(replace(nest, name=found[0]), tuple(found)) for nest, found in names.items())


def _one(nest: LoopNest) -> RepeatedNest:
    return RepeatedNest(nest, (nest.name,))


def open_machine(given: str | Path, load_machine: Callable[[str | Path], Accelerator], base: str) -> MachineSource:
    """The array of a machine of ours, or of another program's file.

    What such a file does not say (energies, networks) is that of the machine `base`, and noted.
    """
    path = Path(given)
    if path.suffix == ".json":
        machine, options = dmazerunner_machine(file_text(path, "JSON", MAX_JSON_BYTES), path.name)
        notes = tuple(f"{name}: {value} is an option of a search and was left out" for name, value in options)
        return MachineSource(machine, notes=notes)
    if path.suffix in (".yaml", ".yml") and path.exists():
        text = file_text(path, "YAML", MAX_YAML_BYTES)
        if re.search(r"^architecture\s*:", text, re.MULTILINE) is not None:
            machine, targets = timeloop_machine(text, path.name, array_of_core(load_machine(base)))
            return MachineSource(machine, targets, (f"what the file does not say is that of {base}",))
        if re.search(r"^operational_array\s*:", text, re.MULTILINE) is not None:
            machine, notes = zigzag_machine(text, path.name, array_of_core(load_machine(base)))
            return MachineSource(machine, notes=(*notes, f"what the file does not say is that of {base}"))
    return MachineSource(array_of_core(load_machine(given)))


def open_mapping(given: str, nest: LoopNest, source: MachineSource, mode: CostMode) -> LoopMapping:
    """A mapping of a nest from a file: our JSON, Timeloop's or ZigZag's YAML, or what dMazeRunner prints.

    Raises `InputError` for one that does not run every iteration once, whatever its format lets pass.
    """
    path = Path(given)
    found = _mapping_in(file_text(path, "mapping", MAX_YAML_BYTES), path, nest, source, mode)
    for fault in mapping_faults(found, nest, ragged=mode is CostMode.DEFAULT):
        raise InputError(f"{path.name}: the mapping of {printable(nest.name, 80)}: {fault}")
    return found


def _mapping_in(text: str, path: Path, nest: LoopNest, source: MachineSource, mode: CostMode) -> LoopMapping:
    if text.lstrip().startswith("{"):
        return mapping_of(nest, parsed_line(text), mode)
    if re.search(r"^mapping\s*:", text, re.MULTILINE) is not None:
        return timeloop_mapping(text, nest, source.targets, path.name)
    if re.search(r"^\s*-?\s*(spatial_mapping|temporal_ordering)\s*:", text, re.MULTILINE) is not None:
        return zigzag_mapping(text, nest, source.machine, path.name)
    return dmazerunner_mapping(text, nest, path.name)


def chosen_layers(nests: Nests, names: Sequence[str]) -> Nests:
    """The layers of those names or numbers (the first is 1), all of them where none is named."""
    if not names:
        return nests
    found = []
    for name in names:
        for number, layer in enumerate(nests.layers, 1):
            if name == str(number) or name in layer.operators:
                found.append(layer)
                break
        else:
            known = ", ".join(f"{number} {layer.nest.name}" for number, layer in enumerate(nests.layers[:8], 1))
            more = ", ..." if len(nests.layers) > 8 else ""
            raise InputError(f"--layer {name}: {nests.name} has no such layer; known: {known}{more}")
    return Nests(nests.name, tuple(dict.fromkeys(found)), notes=nests.notes)
