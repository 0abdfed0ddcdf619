"""Every different layer of a network simulated cycle by cycle, and what that comes to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from tilestitch.api import Model, choice_of, shown, values_of
from tilestitch.base.errors import InputError
from tilestitch.base.html import Record
from tilestitch.base.progress import Progress, quiet
from tilestitch.base.shown import Shown
from tilestitch.commands.map.map_page import named_by
from tilestitch.commands.map.run import ARRAY_MACHINE, GivenArray, checked_map_options, nests_of, source_of
from tilestitch.commands.map.sources import MachineSource, Nests
from tilestitch.commands.map.tree_run import maps_on_tree
from tilestitch.commands.map.tree_value import TreeOptions
from tilestitch.commands.simulate.layers import (
    SimulatedLayer,
    SimulatedTotals,
    SimulateOptions,
    simulate_layers,
    totals_of,
)
from tilestitch.commands.simulate.simulate_json import simulated_json
from tilestitch.commands.simulate.simulate_page import simulate_result
from tilestitch.commands.simulate.simulate_text import simulated_text
from tilestitch.commands.simulate.tree_layers import open_simulated, simulate_tree_layers
from tilestitch.commands.simulate.tree_simulation import TreeSimulation
from tilestitch.hardware.tree import MachineTree
from tilestitch.ir.choices import Objective, Values
from tilestitch.pipeline.origin import made_by, named_again, of_network, python_call
from tilestitch.report.html.page import result_page


@dataclass(frozen=True, repr=False)
class Simulation(Shown):
    """Every different layer as it was simulated, beside what the model estimates."""

    nests: Nests
    source: MachineSource
    chosen: str  # where the mappings are from
    layers: tuple[SimulatedLayer, ...]
    options: SimulateOptions = field(default_factory=SimulateOptions)

    def __iter__(self) -> Iterator[SimulatedLayer]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, number: int) -> SimulatedLayer:
        return self.layers[number]

    @property
    def totals(self) -> SimulatedTotals:
        """All layers, each as often as the network runs it."""
        return totals_of(self.layers)

    def __str__(self) -> str:
        return self.text()

    def text(self, *, stats: bool = False) -> str:
        """What `tilestitch simulate` prints; with `stats` also what elements, networks and DMA did."""
        return simulated_text(self.nests, self.source, self.layers, self.chosen, stats=stats)

    def to_json(self, *, stats: bool = False) -> str:
        """What `tilestitch simulate --json` writes."""
        return simulated_json(self.nests, self.source, self.layers, self.chosen, stats=stats)

    def to_html(self, command: str = "") -> str:
        """What `tilestitch simulate --html` writes: a page to look at; `command` is said to make it again.

        Records some cycles of every layer, which simulates it again until there.
        """
        if not command:
            command = python_call(
                "simulate", named_by(self.nests), self.source.machine.name, self.options, **self.nests.asked
            )
        said = (("mappings", self.chosen), ("extrapolated", self.options.extrapolate))
        return result_page(simulate_result(self.nests, self.source, self.layers, self.chosen), made_by(command, said))

    def heading(self) -> str:
        """Network, machine, and the sums."""
        total = self.totals
        return (
            f"{self.nests.name} on {self.source.machine.name}: {total.cycles:,} cycles simulated, "
            f"{total.estimated_cycles:,} estimated"
        )

    def records(self) -> tuple[Record, ...]:
        """Every layer."""
        return tuple(
            {
                "layer": one.layer.nest.name,
                "kind": one.layer.nest.kind,
                "times": one.layer.times,
                "simulated_cycles": one.simulated.cycles,
                "estimated_cycles": one.estimated.cycles,
                "cycle_error": one.cycle_error,
                "simulated_energy_pj": one.simulated.energy.total_pj,
                "estimated_energy_pj": one.estimated.energy_pj,
                "utilization": one.simulated.utilization,
                "verified": one.simulated.values is not Values.NONE,
                **{f"{cause}_cycles": cycles for cause, cycles in one.simulated.cycles_by_cause.items()},
            }
            for one in self.layers
        )


def simulate(
    model: Model,
    machine: GivenArray | MachineTree = ARRAY_MACHINE,
    options: SimulateOptions = SimulateOptions(),
    *,
    layers: Sequence[str] = (),
    batch: int | None = None,
    dims: Mapping[str, int] = {},
    fold_bn: bool = True,
    progress: Progress | None = None,
) -> Simulation | TreeSimulation:
    """The best mapping of every different layer of a network, by the model, simulated cycle by cycle.

    A model may also be a line of einsum or a file of layers, as for `tilestitch simulate`. A machine that is a tree (a
    value, a name or a file) gives a `TreeSimulation`. Raises as `map` does.
    """
    if maps_on_tree(machine):
        objective, values = _checked_on_tree(options)
        given = machine if isinstance(machine, MachineTree) else str(machine)
        space = options.tree.space()
        task = open_simulated(model, given, layers, space, batch=batch, dims=dict(dims), fold_bn=fold_bn)
        found = simulate_tree_layers(task, objective, values, progress or quiet)
        named = named_again(model, task.name), named_again(machine, task.tree.name)
        call = python_call("simulate", *named, options, **of_network(layers, batch, dims, fold_bn=fold_bn))
        return TreeSimulation(task, objective, values, found, call)
    chosen, source = _checked(options), source_of(cast(GivenArray, machine))
    nests = nests_of(model, layers, batch=batch, dims=dims, fold_bn=fold_bn)
    return simulate_nests(nests, source, chosen, progress or quiet)


def simulate_nests(nests: Nests, source: MachineSource, options: SimulateOptions, progress: Progress) -> Simulation:
    """Nests that were opened, in their best mappings."""
    how = f"least {options.mapping.objective}" + (", ragged factors" if options.mapping.ragged else "")
    found = simulate_layers(nests.layers, source.machine, options, progress)
    return Simulation(nests, source, f"mappings by exact search, {how}", found, options)


def _checked(options: SimulateOptions) -> SimulateOptions:
    if not isinstance(options, SimulateOptions):
        example = "SimulateOptions(extrapolate=True)"
        raise InputError(f"options: expected SimulateOptions, such as {example}, found {shown(options)}")
    mapping = checked_map_options(options.mapping)
    if mapping.pruned or mapping.dataflow or mapping.objective is Objective.PARETO:
        raise InputError("options: the proven best mapping is simulated; leave out pruned, dataflow and pareto")
    if options.tree != TreeOptions():
        raise InputError("options: tree says which mappings are simulated on a tree; of an array mapping says it")
    return replace(options, values=values_of(options.values, extrapolate=options.extrapolate), mapping=mapping)


def _checked_on_tree(options: SimulateOptions) -> tuple[Objective, Values]:
    """What the mappings on a tree minimise, and which values move. Raises `InputError` for what only arrays have."""
    if not isinstance(options, SimulateOptions):
        raise InputError(f"options: expected SimulateOptions, found {shown(options)}")
    if replace(options, values=Values.INTEGERS, tree=TreeOptions()) != SimulateOptions():
        raise InputError("options: of a tree say values, and tree=TreeOptions(...); the others are of PE arrays")
    asked = options.tree
    if asked != TreeOptions(objective=asked.objective, ragged=asked.ragged, utilization=asked.utilization):
        raise InputError("options: of tree objective, ragged and utilization say which mappings are simulated")
    objective = choice_of("objective", asked.objective, Objective)
    if objective is Objective.PARETO:
        raise InputError("options: one mapping of each layer is simulated; leave out pareto")
    return objective, values_of(options.values, extrapolate=False)
