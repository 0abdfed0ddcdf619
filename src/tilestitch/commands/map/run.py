"""Every different layer of a network mapped on an array, and what that comes to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from tilestitch.api import Machine, Model, choice_of, expect_count, load_machine, machine_of, shown
from tilestitch.base.errors import InputError
from tilestitch.base.html import Record
from tilestitch.base.progress import Progress
from tilestitch.base.shown import Shown
from tilestitch.commands.map.map_json import mapped_json
from tilestitch.commands.map.map_page import map_result, named_by
from tilestitch.commands.map.map_text import mapped_text
from tilestitch.commands.map.networks import NetworkRuns, open_network
from tilestitch.commands.map.sources import MachineSource, Nests, chosen_layers, network_nests, open_machine, open_nests
from tilestitch.hardware.array_machine import ArrayMachine, array_of_core
from tilestitch.ir.choices import CostMode, Objective
from tilestitch.mapping.network import MapOptions, MappedLayer, Totals, map_layers, totals_of
from tilestitch.pipeline.origin import made_by, python_call
from tilestitch.report.html.page import result_page

ARRAY_MACHINE = "dmazerunner-256"  # where none is named, and for what another program's file does not say
MOST_MAPPINGS = 1000  # of a layer

GivenArray: TypeAlias = Machine | ArrayMachine


@dataclass(frozen=True, repr=False)
class NetworkMapping(Shown):
    """The best mappings of every different layer; all numbers are estimated."""

    nests: Nests
    source: MachineSource
    options: MapOptions
    layers: tuple[MappedLayer, ...]

    def __iter__(self) -> Iterator[MappedLayer]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, number: int) -> MappedLayer:
        return self.layers[number]

    @property
    def totals(self) -> Totals:
        """All layers, each as often as the network runs it."""
        return totals_of(self.layers)

    def __str__(self) -> str:
        return mapped_text(self.nests, self.source, self.options, self.layers)

    def to_json(self) -> str:
        """What `tilestitch map --json` writes."""
        return mapped_json(self.nests, self.source, self.options, self.layers)

    def to_html(self, command: str = "") -> str:
        """What `tilestitch map --html` writes: a page to look at; `command` is said to make it again."""
        options = self.options
        if not command:
            command = python_call("map", named_by(self.nests), self.source.machine.name, options, **self.nests.asked)
        said = (
            ("ragged factors", options.ragged),
            ("dataflow", options.dataflow),
            ("mappings of each layer", options.top),
        )
        return result_page(map_result(self.nests, self.source, options, self.layers), made_by(command, said))

    def heading(self) -> str:
        """Network, machine, and the sums."""
        total = self.totals
        return (
            f"{self.nests.name} on {self.source.machine.name}: {total.cycles:,} cycles, {total.energy_pj:,.0f} pJ "
            "(estimated)"
        )

    def records(self) -> tuple[Record, ...]:
        """The best mapping of every layer."""
        elements = self.source.machine.elements
        return tuple(
            {
                "layer": one.layer.nest.name,
                "kind": one.layer.nest.kind,
                "times": one.layer.times,
                "macs": one.layer.nest.macs,
                "cycles": one.prices[0].cycles,
                "energy_pj": one.prices[0].energy_pj,
                "edp": one.prices[0].edp,
                "utilization": one.layer.nest.macs / elements / one.prices[0].cycles,
                "tilings_evaluated": one.outcome.evaluated,
            }
            for one in self.layers
        )


def map_network(
    model: Model,
    machine: GivenArray = ARRAY_MACHINE,
    options: MapOptions = MapOptions(),
    *,
    layers: Sequence[str] = (),
    batch: int | None = None,
    dims: Mapping[str, int] = {},
    fold_bn: bool = True,
    progress: Progress | None = None,
) -> NetworkMapping:
    """The best mappings of every different layer of a network on an array of processing elements.

    A model may also be a line of einsum or a file of layers, as for `tilestitch map`; `layers` names those that are
    mapped. Raises `InputError` for a machine without such an array, `DoesNotFit` for a layer that has no mapping.
    """
    chosen, source = checked_map_options(options), source_of(machine)
    nests = nests_of(model, layers, batch=batch, dims=dims, fold_bn=fold_bn)
    return map_nests(nests, source, chosen, progress)


def map_nests(
    nests: Nests, source: MachineSource, options: MapOptions, progress: Progress | None = None
) -> NetworkMapping:
    """The best mappings of nests that were opened."""
    return NetworkMapping(nests, source, options, map_layers(nests.layers, source.machine, options, progress))


def nests_of(
    model: Model, layers: Sequence[str], *, batch: int | None, dims: Mapping[str, int], fold_bn: bool
) -> Nests:
    """The nests of a network, a line of einsum or a file of layers, or those of them that `layers` names."""
    if isinstance(layers, str) or not all(isinstance(name, str) for name in layers):
        raise InputError(f"layers: expected a list of names or numbers such as ['conv1'], found {shown(layers)}")

    asked: dict[str, object] = {"layers": tuple(layers), "batch": batch, "dims": dict(dims)}
    if not fold_bn:
        asked["fold_bn"] = False

    def opened(given: Model) -> NetworkRuns:
        return open_network(given, batch=batch, dims=dims, fold_bn=fold_bn)

    found = open_nests(model, opened) if isinstance(model, str | Path) else network_nests(opened(model))
    return replace(chosen_layers(found, layers), asked=asked)


def source_of(machine: GivenArray) -> MachineSource:
    """The array of a machine, which may be said in a file of another program."""
    if isinstance(machine, ArrayMachine):
        return MachineSource(machine)
    if isinstance(machine, str | Path):
        return open_machine(machine, load_machine, ARRAY_MACHINE)
    return MachineSource(array_of_core(machine_of(machine)))


def checked_map_options(options: MapOptions) -> MapOptions:
    """The same options, choices that were given by name included; refused where they say nothing together."""
    if not isinstance(options, MapOptions):
        raise InputError(f"options: expected MapOptions, such as MapOptions(top=3), found {shown(options)}")
    expect_count("top", options.top, MOST_MAPPINGS)
    made = replace(
        options,
        objective=choice_of("objective", options.objective, Objective),
        mode=choice_of("mode", options.mode, CostMode),
    )
    pareto = made.objective is Objective.PARETO
    if made.pruned and (made.dataflow or made.ragged or pareto):
        raise InputError("options: pruned has rules of its own; leave out dataflow, ragged and pareto")
    if made.mode is CostMode.PUBLISHED and made.ragged:
        raise InputError("options: mode published is dMazeRunner's model, whose factors divide; leave out ragged")
    if pareto and made.top > 1:
        raise InputError("options: objective pareto gives the whole front; leave out top")
    if made.certify and (pareto or made.pruned or made.dataflow or made.ragged):
        raise InputError("options: certify proves the best of all; leave out pareto, pruned, dataflow and ragged")
    return made
