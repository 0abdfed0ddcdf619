"""Layers on a machine tree in their best mappings, simulated, beside what the model estimates."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, prod

from tilestitch.api import Model
from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.base.progress import Progress
from tilestitch.base.shown import Brief
from tilestitch.base.units import format_energy
from tilestitch.commands.map.run import nests_of
from tilestitch.commands.map.tree_machines import GivenTree
from tilestitch.commands.map.tree_run import MappedOnTree, TreeTask, map_on_tree, open_free_task
from tilestitch.ir.choices import Objective, Values
from tilestitch.ir.loop_nest import LoopOperand
from tilestitch.mapping.tree.bound import wired
from tilestitch.mapping.tree.chain import TreeMapping, price, window_rows
from tilestitch.mapping.tree.choices import Ragged, SpatialSpace
from tilestitch.mapping.tree.found import FoundMapping
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.rooms import fullest, too_full
from tilestitch.mapping.tree.search import best_mapping
from tilestitch.mapping.tree.spatial import best_spread
from tilestitch.sim.tree.run import TreeRun
from tilestitch.sim.tree.simulated import SimulatedOnTree, simulate_on_tree


@dataclass(frozen=True, slots=True, repr=False)
class SimulatedTreeLayer(Brief):
    """A layer, its best mapping by the model, and what the simulator found of it.

    `instead` says which other mapping it is where the best one is not simulated, and why; else nothing.
    """

    mapped: MappedOnTree
    simulated: SimulatedOnTree
    instead: str = ""

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
    model: Model,
    machine: GivenTree,
    layers: Sequence[str],
    space: SpatialSpace = SpatialSpace(),
    *,
    batch: int | None,
    dims: dict[str, int],
    fold_bn: bool,
) -> TreeTask:
    """The layers of a network, of einsum or of another program's file on a tree. Raises `InputError` as `map` does."""
    return open_free_task(
        model, machine, space, layers, lambda one: nests_of(one, (), batch=batch, dims=dims, fold_bn=fold_bn)
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
        chosen, instead = simulated_mapping(one.found, task.space)
        run = run_of(chosen.placed, chosen.mapping)
        show = partial(progress, f"simulate {one.name}")
        simulated = simulate_on_tree(run, values=values, progress=show)
        said = f"layer {one.name}: {instead}" if instead else ""
        found.append(SimulatedTreeLayer(replace(one, found=chosen), simulated, said))
    return tuple(found)


def simulated_mapping(found: FoundMapping, space: SpatialSpace | None) -> tuple[FoundMapping, str]:
    """The mapping that is simulated: that which was found, or what comes nearest to it and why.

    `space` is what may be spread, where that was searched.
    """
    why: list[str] = []
    what = "the best that spreads the same without that"
    if window_rows(found.placed, found.mapping):
        why.append(f"windows slide in its best mapping ({_price(found)}), which is not simulated on trees")
        found = best_mapping(replace(found.placed, slides=()), found.sums, objective=found.objective)
    elif found.mapping.rows:  # none of them has steps: the same mapping where none slide
        bare = replace(found.placed, slides=())
        found = replace(found, placed=bare, mapping=replace(found.mapping, rows=()))
    overfull = too_full(fullest(found.placed), found.mapping)
    if overfull:
        why.append(
            f"in the fullest step of its best mapping ({_price(found)}) {overfull}, and fewer on average over the steps"
        )
        try:
            other = best_mapping(fullest(found.placed), found.sums, objective=found.objective)
            own = price(found.placed, other.mapping)
            found = replace(found, mapping=other.mapping, price=own, is_proven=False)
        except DoesNotFit:
            assert space is not None, "factors that do not divide come from a search"
            bare = replace(found.placed, unrolled=())
            exact = wired(bare, replace(space, ragged=Ragged.NONE))
            found = best_spread(bare, exact, found.sums, objective=found.objective).found
            what = "the best of factors that divide"
    return found, f"{'; '.join(why)}; simulated instead: {what} ({_price(found)})" if why else ""


def _price(found: FoundMapping) -> str:
    return f"{found.price.latency_cycles:,} cycles, {format_energy(found.price.energy_pj)}, estimated"


def run_of(placed: PlacedNest, mapping: TreeMapping) -> TreeRun:
    """A mapping as the simulator takes it: of a factor that is no whole number as many units as one step needs.

    Raises `InputError` for what it does not simulate.
    """
    if window_rows(placed, mapping):
        raise InputError(
            f"{placed.nest.name} on {placed.tree.name}: windows slide in this mapping, which is not simulated on "
            "trees; leave sliding_window and forwarding out of the machine's file"
        )
    spread = tuple((one.axis, one.loop, ceil(one.factor)) for one in placed.unrolled)
    nest = replace(placed.nest, write=_by_loop(placed.nest.write, placed.nest.extents))
    return TreeRun(nest, placed.tree, placed.homes, placed.final_bits, spread, mapping.loops, mapping.cuts)


def _by_loop(array: LoopOperand, extents: Sequence[int]) -> LoopOperand:
    """An array with an axis of its own for each loop of an index in which no two places are one.

    So is that of a grouped convolution's channel, `M*g + m`: the elements are the same, and none is moved otherwise.
    """
    axes: list[tuple[tuple[int, int], ...]] = []
    shape: list[int] = []
    for terms, size in zip(array.axes, array.shape, strict=True):
        ordered = sorted(terms, key=lambda term: -term[1])
        counts = [extents[loop] for loop, _ in ordered]
        steps = [prod(counts[at + 1 :]) for at in range(len(counts))]
        if len(terms) > 1 and [step for _, step in ordered] == steps and size == prod(counts):
            axes += [((loop, 1),) for loop, _ in ordered]
            shape += counts
        else:
            axes.append(terms)
            shape.append(size)
    return replace(array, axes=tuple(axes), shape=tuple(shape))
