"""Layers on a machine tree in their best mappings, simulated, beside what the model estimates."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tilestitch.base.errors import InputError
from tilestitch.base.progress import Progress
from tilestitch.base.shown import Brief
from tilestitch.commands.map.run import nests_of
from tilestitch.commands.map.tree_machines import GivenTree
from tilestitch.commands.map.tree_run import MappedOnTree, TreeTask, map_on_tree, open_free_task
from tilestitch.ir.choices import Objective, Values
from tilestitch.mapping.tree.chain import TreeMapping
from tilestitch.mapping.tree.choices import Ragged, SpatialSpace
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.sim.tree.run import TreeRun
from tilestitch.sim.tree.simulated import SimulatedOnTree, simulate_on_tree

WHOLE_FACTORS = SpatialSpace(Ragged.NONE)  # what is spread divides its loop: smaller tiles at an end are not simulated


@dataclass(frozen=True, slots=True, repr=False)
class SimulatedTreeLayer(Brief):
    """A layer, its best mapping by the model, and what the simulator found of it."""

    mapped: MappedOnTree
    simulated: SimulatedOnTree

    @property
    def estimated_cycles(self) -> int:
        return self.mapped.found.price.latency_cycles

    @property
    def estimated_pj(self) -> float:
        return self.mapped.found.price.energy_pj

    @property
    def cycle_error(self) -> float:
        """Of the estimate, relative to what was simulated."""
        return self.estimated_cycles / self.simulated.cycles - 1


def open_simulated(
    model: str, machine: GivenTree, layers: Sequence[str], *, batch: int | None, dims: dict[str, int], fold_bn: bool
) -> TreeTask:
    """The layers of a network, of einsum or of another program's file on a tree. Raises `InputError` as `map` does."""
    return open_free_task(
        model, machine, WHOLE_FACTORS, layers, lambda one: nests_of(one, (), batch=batch, dims=dims, fold_bn=fold_bn)
    )


def simulate_tree_layers(
    task: TreeTask, objective: Objective, values: Values, progress: Progress
) -> tuple[SimulatedTreeLayer, ...]:
    """Every layer in its best mapping.

    Raises `DoesNotFit` or `InputError` where one has none, `InputError` for what is not simulated.
    """
    mapped = map_on_tree(task, progress=progress, objective=objective)
    for one in mapped.unmapped:
        raise InputError(f"layer {one.name} has no mapping to simulate: {one.reason}")
    found: list[SimulatedTreeLayer] = []
    for one in mapped.layers:
        run = run_of(one.found.placed, one.found.mapping)
        show = partial(progress, f"simulate {one.name}")
        found.append(SimulatedTreeLayer(one, simulate_on_tree(run, values=values, progress=show)))
    return tuple(found)


def run_of(placed: PlacedNest, mapping: TreeMapping) -> TreeRun:
    """A mapping as the simulator takes it. Raises `InputError` for what it does not simulate."""
    where = f"{placed.nest.name} on {placed.tree.name}"
    if mapping.rows:
        raise InputError(
            f"{where}: windows slide in this mapping, which is not simulated on trees; leave sliding_window and "
            "forwarding out of the machine's file"
        )
    for one in placed.unrolled:
        if one.factor.denominator != 1:
            name = placed.nest.loops[one.loop].name
            raise InputError(
                f"{where}: {name} is spread over {float(one.factor):.3g} units along {one.axis} on average; factors "
                "that divide their loop are simulated on trees"
            )
    spread = tuple((one.axis, one.loop, int(one.factor)) for one in placed.unrolled)
    return TreeRun(placed.nest, placed.tree, placed.homes, placed.final_bits, spread, mapping.loops, mapping.cuts)
