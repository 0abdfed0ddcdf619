"""Layers with their mappings, simulated, beside what the model estimates."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod

from tilestitch.base.progress import Progress
from tilestitch.base.shown import Brief
from tilestitch.commands.map.tree_value import TreeOptions
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.choices import Values
from tilestitch.ir.loop_nest import LoopMapping
from tilestitch.mapping.evaluate import Priced, price
from tilestitch.mapping.network import MapOptions, RepeatedNest, map_layer
from tilestitch.sim.array.simulated import SimulatedMapping, simulate_mapping


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """What of a layer is simulated."""

    values: Values = Values.INTEGERS
    extrapolate: bool = False  # passes that repeat are not simulated again, and no values are computed
    window: tuple[int, int] = (0, 0)  # of cycles whose events are kept: the first, and the one after the last
    mapping: MapOptions = field(default_factory=MapOptions)  # which mapping of each layer it is
    tree: TreeOptions = field(default_factory=TreeOptions)  # which it is on a tree


@dataclass(frozen=True, slots=True, repr=False)
class SimulatedLayer(Brief):
    """A layer, one mapping of it, what the model estimates for that and what the simulator found."""

    layer: RepeatedNest
    mapping: LoopMapping
    estimated: Priced
    simulated: SimulatedMapping

    @property
    def cycle_error(self) -> float:
        """Of the estimate, relative to what was simulated."""
        return self.estimated.cycles / self.simulated.cycles - 1


@dataclass(frozen=True, slots=True)
class SimulatedTotals:
    """All layers one after another, each as often as the network runs it."""

    runs: int
    cycles: int
    estimated_cycles: int
    energy_pj: float
    estimated_energy_pj: float
    macs: int

    @property
    def cycle_error(self) -> float:
        return self.estimated_cycles / self.cycles - 1


def simulate_layers(
    layers: Sequence[RepeatedNest],
    machine: ArrayMachine,
    options: SimulateOptions,
    progress: Progress,
) -> tuple[SimulatedLayer, ...]:
    """Find the best mapping of every layer by the model, and simulate it."""
    found = []
    for number, layer in enumerate(layers):
        progress(f"map {layer.nest.name}", number, len(layers))
        best = map_layer(layer, machine, options.mapping, progress).found[0].mapping
        found.append(simulate_layer(layer, machine, best, options, progress))
    return tuple(found)


def simulate_layer(
    layer: RepeatedNest, machine: ArrayMachine, mapping: LoopMapping, options: SimulateOptions, progress: Progress
) -> SimulatedLayer:
    """Simulate a given mapping of one layer."""
    simulated = simulate_mapping(
        layer.nest,
        machine,
        mapping,
        values=options.values,
        extrapolate=options.extrapolate,
        window=options.window,
        progress=partial(progress, f"simulate {layer.nest.name}"),
    )
    return SimulatedLayer(layer, mapping, price(layer.nest, machine, mapping), simulated)


def totals_of(layers: Sequence[SimulatedLayer]) -> SimulatedTotals:
    """The sums over a network."""
    times = [one.layer.times for one in layers]
    every = list(zip(times, layers, strict=True))
    return SimulatedTotals(
        sum(times),
        sum(n * one.simulated.cycles for n, one in every),
        sum(n * one.estimated.cycles for n, one in every),
        sum(n * one.simulated.energy.total_pj for n, one in every),
        sum(n * one.estimated.energy_pj for n, one in every),
        sum(n * prod(one.layer.nest.extents) for n, one in every),
    )
