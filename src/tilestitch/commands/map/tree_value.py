"""What `tilestitch.map` gives on a machine tree: the mappings, with their text, JSON and table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import cast

from tilestitch.api import Model, choice_of, expect_count, shown
from tilestitch.base.errors import InputError
from tilestitch.base.html import Record
from tilestitch.base.progress import Progress, quiet
from tilestitch.base.shown import Shown
from tilestitch.commands.map.run import ARRAY_MACHINE, GivenArray, NetworkMapping, map_network, nests_of
from tilestitch.commands.map.tree_given import GivenOnTree, open_given
from tilestitch.commands.map.tree_json import tree_json
from tilestitch.commands.map.tree_machines import GivenTree, uneven_array
from tilestitch.commands.map.tree_page import tree_result
from tilestitch.commands.map.tree_run import (
    MappedOnTree,
    TreeMappings,
    TreeTask,
    map_on_tree,
    maps_on_tree,
    open_free_task,
    open_tree_task,
)
from tilestitch.commands.map.tree_text import tree_text
from tilestitch.hardware.tree import MachineTree
from tilestitch.ir.choices import Objective
from tilestitch.mapping.network import MapOptions
from tilestitch.mapping.tree.choices import Ragged, SpatialSpace
from tilestitch.mapping.tree.search import MOST_LABELS
from tilestitch.mapping.tree.tables import Sums
from tilestitch.pipeline.origin import made_by, named_again, of_network, python_call
from tilestitch.report.html.page import result_page


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """What a search on a machine tree may do; the options of `tilestitch map` of the same names.

    `spatial` is ZigZag's mapping file, which fixes what is spread; without one all choices are searched. `uneven` lets
    the operands of a PE array change at places of their own; cycles are then those of a tree. `energies` is a table of
    energies for a machine of Timeloop or AccelForge. `mapping` is a mapping of theirs, which is priced: nothing is
    searched.
    """

    objective: Objective = Objective.EDP
    spatial: str | Path | None = None
    utilization: float = 0.0
    ragged: bool = False
    constraints: str | Path | None = None
    sums: Sums = Sums.FULL
    effort: int = MOST_LABELS
    uneven: bool = False
    energies: str | Path | None = None
    mapping: str | Path | None = None

    def space(self) -> SpatialSpace:
        """What may be spread. Raises `InputError` for a share of the units that is none."""
        share = self.utilization
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise InputError(f"utilization: expected a share from 0 to 1, found {shown(share)}")
        return SpatialSpace(Ragged.ALL if self.ragged else Ragged.NONE if self.uneven else Ragged.FILLING, share)

    def expect_fixed(self) -> None:
        """Refuse what says something of choices beside a file that fixes what is spread."""
        if self.ragged or self.utilization or self.energies is not None:
            raise InputError("options: spatial fixes what is spread; leave out ragged, utilization and energies")


@dataclass(frozen=True, repr=False)
class NetworkOnTree(Shown):
    """The best mapping of every different layer on a machine tree; all numbers are estimated."""

    mapped: TreeMappings
    options: TreeOptions = field(default=TreeOptions(), repr=False)
    call: str = field(default="", repr=False)  # in Python, that makes its page again

    def __iter__(self) -> Iterator[MappedOnTree]:
        return iter(self.mapped.layers)

    def __len__(self) -> int:
        return len(self.mapped.layers)

    def __getitem__(self, number: int) -> MappedOnTree:
        return self.mapped.layers[number]

    def __str__(self) -> str:
        return tree_text(self.mapped)

    def to_json(self) -> str:
        """What `tilestitch map --json` writes."""
        return tree_json(self.mapped)

    def to_html(self, command: str = "") -> str:
        """What `tilestitch map --html` writes: a page to look at; `command` is said to make it again."""
        options = self.options
        said = (
            ("effort", options.effort),
            ("constraints", options.constraints or ""),
            ("spatial", options.spatial or ""),
        )
        return result_page(tree_result(self.mapped), made_by(command or self.call, said))

    def heading(self) -> str:
        """Layers, machine, and the sums."""
        found = self.mapped
        return (
            f"{found.task.name} on {found.task.tree.name}: {found.latency_cycles:,} cycles, {found.energy_pj:,.0f} pJ "
            "(estimated)"
        )

    def records(self) -> tuple[Record, ...]:
        """The best mapping of every layer."""
        return tuple(
            {
                "layer": one.name,
                "kind": one.operator,
                "times": one.times,
                "macs": one.found.placed.nest.macs,
                "cycles": one.found.price.latency_cycles,
                "energy_pj": one.found.price.energy_pj,
                "edp": one.found.price.edp_pj_cycles,
                "utilization": one.found.utilization,
                "proven_best": one.found.is_proven,
                "gap": one.found.gap,
                "choices": one.choices,
                "labels": one.found.labels,
            }
            for one in self.mapped.layers
        )


def map_either(
    model: Model,
    machine: GivenArray | MachineTree = ARRAY_MACHINE,
    options: MapOptions | TreeOptions | None = None,
    *,
    layers: Sequence[str] = (),
    batch: int | None = None,
    dims: Mapping[str, int] = {},
    fold_bn: bool = True,
    progress: Progress | None = None,
) -> NetworkMapping | NetworkOnTree | GivenOnTree:
    """The best mappings of every different layer of a network on an array of processing elements, or on a tree.

    A model may also be a line of einsum or a file of layers, as for `tilestitch map`; `layers` names those that are
    mapped. An array takes `MapOptions` and gives a `NetworkMapping`; a tree (a value, a name or a file) takes
    `TreeOptions` and gives a `NetworkOnTree`, and so does the name or file of an array with `uneven`; with `mapping` in
    them it gives a `GivenOnTree`, the price of that mapping of one layer. Raises `InputError` for a machine that is
    neither, `DoesNotFit` for a layer that has no mapping, on a tree where no layer has one.
    """
    tree = machine if isinstance(machine, MachineTree) else None
    is_of_tree = isinstance(options, TreeOptions) and (
        options.uneven or options.energies is not None or options.mapping is not None
    )
    if tree is None and not (isinstance(machine, str | Path) and (is_of_tree or maps_on_tree(machine))):
        if isinstance(options, TreeOptions):
            raise InputError("options: TreeOptions go with a machine that is a tree; for an array write MapOptions")
        chosen = MapOptions() if options is None else options
        return map_network(
            model,
            cast(GivenArray, machine),
            chosen,
            layers=layers,
            batch=batch,
            dims=dims,
            fold_bn=fold_bn,
            progress=progress,
        )
    asked = TreeOptions() if options is None else options
    if not isinstance(asked, TreeOptions):
        raise InputError(
            f"options: expected TreeOptions for a tree, such as TreeOptions('energy'), found {shown(asked)}"
        )
    objective, sums = choice_of("objective", asked.objective, Objective), choice_of("sums", asked.sums, Sums)
    expect_count("effort", asked.effort)
    if isinstance(layers, str) or not all(isinstance(name, str) for name in layers):
        raise InputError(f"layers: expected a list of names or numbers such as ['conv1'], found {shown(layers)}")
    given: GivenTree = tree if tree is not None else str(machine)
    if asked.uneven:
        if tree is not None:
            raise InputError("options: uneven goes with the name or file of a PE array; a tree says its own storage")
        given = uneven_array(str(machine))
    load = partial(nests_of, layers=(), batch=batch, dims=dims, fold_bn=fold_bn)
    energies = None if asked.energies is None else Path(asked.energies)

    def called(task: TreeTask) -> str:
        named = named_again(model, task.name), named_again(machine, task.tree.name)
        return python_call("map", *named, asked, **of_network(layers, batch, dims, fold_bn=fold_bn))

    if asked.mapping is not None:
        if asked != TreeOptions(energies=asked.energies, mapping=asked.mapping):
            raise InputError("options: mapping is priced, and nothing searched; leave out all others but energies")
        found = open_given(model, given, Path(asked.mapping), layers, load, energies)
        return replace(found, call=called(found.task))
    if asked.spatial is None:
        constraints = None if asked.constraints is None else Path(asked.constraints)
        task = open_free_task(model, given, asked.space(), layers, load, constraints, energies)
    else:
        asked.expect_fixed()
        if not isinstance(model, str | Path):
            raise InputError(f"model: with spatial expected the path of ZigZag's layers, found {shown(model)}")
        constraints = None if asked.constraints is None else Path(asked.constraints)
        task = open_tree_task(str(model), given, str(asked.spatial), layers, constraints)
    return NetworkOnTree(map_on_tree(task, sums, asked.effort, progress or quiet, objective), asked, called(task))
