"""Layers on a machine tree, ZigZag's or ours: the best mapping of each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tilestitch.api import Model
from tilestitch.base.errors import DoesNotFit, InputError, TooLarge
from tilestitch.base.progress import Progress, quiet
from tilestitch.base.shown import Brief
from tilestitch.base.text_files import file_text
from tilestitch.base.units import format_energy
from tilestitch.commands.map.sources import MAX_YAML_BYTES, Nests
from tilestitch.commands.map.tree_constraints import (
    Constraints,
    ConstraintText,
    constraint_text,
    expect_known_loops,
    open_constraints,
)
from tilestitch.commands.map.tree_machines import GivenTree, OpenedTree, is_accelforge_file, open_tree
from tilestitch.commands.map.tree_permutations import with_permutations
from tilestitch.commands.map.tree_sources import (
    TreeLayer,
    as_wide_as_on,
    bound_nest,
    is_timeloop_problem,
    is_zigzag_workload,
    layers_of_nests,
    with_words,
    zigzag_layers_of,
)
from tilestitch.commands.map.unreached import unreached_notes
from tilestitch.formats.zigzag.tree_mapping import ZigzagMapping, chosen_mapping, placed_layer, zigzag_tree_mappings
from tilestitch.hardware.preset_files import preset_names
from tilestitch.hardware.tree import MachineTree
from tilestitch.hardware.tree_chip import missing_of
from tilestitch.hardware.tree_load import has_array
from tilestitch.hardware.yaml_tree import read_tree
from tilestitch.ir.choices import Objective
from tilestitch.mapping.tree.bound import wired
from tilestitch.mapping.tree.choices import SpatialSpace
from tilestitch.mapping.tree.found import FoundMapping
from tilestitch.mapping.tree.free_front import front_of_choices
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.search import MOST_LABELS, best_of, pareto_front
from tilestitch.mapping.tree.spatial import best_spread
from tilestitch.mapping.tree.tables import Sums


@dataclass(frozen=True, slots=True, repr=False)
class TreeTask(Brief):
    """Layers, a machine, and what is spread over its units: what mappings say, or all of a space."""

    name: str
    tree: MachineTree
    layers: tuple[TreeLayer, ...]
    mappings: tuple[ZigzagMapping, ...]
    mapping_file: str
    notes: tuple[str, ...]
    space: SpatialSpace | None = None
    constraints: Constraints = field(default_factory=Constraints)


@dataclass(frozen=True, slots=True, repr=False)
class MappedOnTree(Brief):
    """One layer with its best mapping, and what of its spatial mapping was changed to fit."""

    name: str
    operator: str
    found: FoundMapping
    notes: tuple[str, ...]
    front: tuple[FoundMapping, ...] = ()  # where that was asked for: `found` is its point of the least EDP
    times: int = 1  # how often the network runs it
    choices: int = 0  # of what is spread that were compared, where that was searched
    opened: int = 0  # of those, the ones whose bound did not settle it
    more_than: int = 0  # where not all were compared: how many ways to spread loops there are at least


@dataclass(frozen=True, slots=True)
class Unmapped:
    """A layer that has no mapping, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, repr=False)
class TreeMappings(Brief):
    """The best mapping of every layer, in the order of the workload, and the layers that have none."""

    task: TreeTask
    sums: Sums
    layers: tuple[MappedOnTree, ...]
    objective: Objective = Objective.ENERGY
    unmapped: tuple[Unmapped, ...] = ()

    @property
    def latency_cycles(self) -> int:
        """Of the layers one after another, each as often as it runs."""
        return sum(layer.times * layer.found.price.latency_cycles for layer in self.layers)

    @property
    def edp_pj_cycles(self) -> float:
        """Of the sums, not the sum over layers."""
        return self.energy_pj * self.latency_cycles

    @property
    def bound_cycles(self) -> int:
        return sum(layer.times * layer.found.bound_cycles for layer in self.layers)

    @property
    def energy_pj(self) -> float:
        return sum(layer.times * layer.found.price.energy_pj for layer in self.layers)

    @property
    def bound_pj(self) -> float:
        return sum(layer.times * layer.found.bound_pj for layer in self.layers)

    @property
    def more_than(self) -> int:
        """How many ways to spread loops there are at least of a layer of which not all were compared; 0 where all were.

        The most of all layers.
        """
        return max((layer.more_than for layer in self.layers), default=0)

    @property
    def is_proven(self) -> bool:
        return all(layer.found.is_proven for layer in self.layers)


@dataclass(frozen=True, slots=True)
class TreeWork:
    """The layers of a workload, for any machine; and what a file of ZigZag's spreads of them, if one does."""

    name: str
    layers: tuple[TreeLayer, ...]
    notes: tuple[str, ...]
    is_in_words: bool = False  # of the machine, whose bits they are
    is_network: bool = False  # which has operators that are not mapped
    file: str = ""  # of layers, beside that of mappings
    mappings: tuple[ZigzagMapping, ...] = ()
    mapping_file: str = ""
    mapping_notes: tuple[str, ...] = ()


def zigzag_work(workload: str, spatial: str) -> TreeWork:
    """ZigZag's layers and spatial mapping. Raises `InputError` for what is wrong with a file."""
    text, where = file_text(Path(spatial), "YAML", MAX_YAML_BYTES), Path(spatial).name
    name, layers, notes = zigzag_layers_of(workload)
    mappings, mapping_notes = zigzag_tree_mappings(text, where)
    return TreeWork(
        name,
        layers,
        notes,
        file=Path(workload).name,
        mappings=mappings,
        mapping_file=where,
        mapping_notes=mapping_notes,
    )


def free_work(workload: Model, load: Callable[[Model], Nests]) -> TreeWork:
    """The different layers of a network, of einsum or of another program's file (`load`)."""
    if isinstance(workload, str | Path) and is_zigzag_workload(str(workload)):
        name, layers, notes = zigzag_layers_of(str(workload))
        return TreeWork(name, _different(layers), notes)
    nests = load(workload)
    is_in_words = isinstance(workload, str | Path) and is_timeloop_problem(str(workload))
    return TreeWork(nests.name, *layers_of_nests(nests), is_in_words, bool(nests.unmapped))


def layers_on(work: TreeWork, opened: OpenedTree) -> tuple[tuple[TreeLayer, ...], tuple[str, ...]]:
    """The layers of a workload as wide as a machine has their words, and the notes on them."""
    layers = work.layers
    if opened.bits and not work.mapping_file and (work.is_in_words or opened.has_own_bits):
        layers = with_words(layers, opened.tree, opened.bits)
    return as_wide_as_on(opened.tree, layers, work.notes)


def task_on(
    work: TreeWork,
    opened: OpenedTree,
    space: SpatialSpace,
    names: Sequence[str] = (),
    constraints: ConstraintText | None = None,
) -> TreeTask:
    """A workload on a tree, with `names` of layers or all of them; a space is free where no file says what is spread.

    Raises `InputError` for layers that are not there, and constraints that say nothing.
    """
    layers, notes = layers_on(work, opened)
    chosen = layers_named(layers, names, work.file or work.name)
    tree, fixed = _constrained(opened, layers, constraints)
    if work.mapping_file and (fixed.factors or fixed.only):
        file = work.mapping_file
        raise InputError(f"{fixed.file}: {file} fixes what is spread; leave spatial out, or --spatial {file}")
    notes = (*notes, *opened.notes, *work.mapping_notes, *fixed.notes)
    free = None if work.mapping_file else fixed.space(space)
    if free is not None:
        notes = (*notes, *_unreached(tree, chosen, layers))
    return TreeTask(work.name, tree, chosen, work.mappings, work.mapping_file, notes, free, fixed)


def _unreached(tree: MachineTree, chosen: Sequence[TreeLayer], layers: Sequence[TreeLayer]) -> tuple[str, ...]:
    placed = [bound_nest(layer, tree) for layer in chosen]
    return unreached_notes(tree, placed, (loop.name for layer in layers for loop in layer.nest.loops))


def open_tree_task(
    workload: str, machine: GivenTree, spatial: str, names: Sequence[str], constraints: Path | None = None
) -> TreeTask:
    """ZigZag's layers and spatial mapping, on its machine or a tree; `names` of layers, or all of them.

    Raises `InputError` for what is wrong with a file.
    """
    work, opened = zigzag_work(workload, spatial), open_tree(machine)
    return task_on(work, opened, SpatialSpace(), names, None if constraints is None else constraint_text(constraints))


def _constrained(
    opened: OpenedTree, layers: Sequence[TreeLayer], constraints: ConstraintText | None
) -> tuple[MachineTree, Constraints]:
    """A machine with what constraints let pass by its memories, and the constraints, its own among them."""
    if constraints is None:
        return opened.tree, opened.constraints
    fixed = open_constraints(constraints, opened.tree).over(opened.constraints)
    expect_known_loops(fixed, ([loop.name for loop in layer.nest.loops] for layer in layers))
    return fixed.bypassed(opened.tree), fixed


def maps_on_tree(machine: object) -> bool:
    """Whether it is a tree, or the name or path of a machine whose layers are mapped on its tree: without PE arrays.

    So is every machine of AccelForge. Not where there is no such file, or it is no YAML of a machine of ours or theirs.
    """
    if not isinstance(machine, str | Path):
        return isinstance(machine, MachineTree)
    if isinstance(machine, str) and machine in preset_names():
        return not has_array(machine)
    if is_accelforge_file(str(machine)):
        return True
    try:
        found = read_tree(file_text(Path(machine), "YAML", MAX_YAML_BYTES), str(machine), [])
    except InputError:
        return False
    return isinstance(found, dict) and "memories" in found and not has_array(machine)


def open_free_task(
    workload: Model,
    machine: GivenTree,
    space: SpatialSpace,
    names: Sequence[str],
    load: Callable[[Model], Nests],
    constraints: Path | None = None,
    energies: Path | None = None,
) -> TreeTask:
    """The layers of a network, of einsum or of another program's file (`load`), with everything free to be spread.

    Raises `InputError` for what is wrong with a file.
    """
    work = free_work(workload, load)
    opened = open_tree(machine, energies, work.layers)
    task = task_on(work, opened, space, names, None if constraints is None else constraint_text(constraints))
    if work.is_network and machine in preset_names() and not any(missing_of(opened.tree)):
        command = f"tilestitch compile {work.name} --machine {opened.tree.name} --beside-map"
        note = f"{command} runs the whole network, and says why it takes more or less than the sum of its layers"
        task = replace(task, notes=(*task.notes, note))
    return task


def _different(layers: Sequence[TreeLayer]) -> tuple[TreeLayer, ...]:
    """Every different layer once, under its first name, with how often it is there."""
    found: dict[TreeLayer, TreeLayer] = {}
    for layer in layers:
        key = replace(layer, nest=replace(layer.nest, name=""))
        found[key] = replace(found[key], times=found[key].times + 1) if key in found else layer
    return tuple(found.values())


def layers_named(layers: tuple[TreeLayer, ...], names: Sequence[str], where: str) -> tuple[TreeLayer, ...]:
    """The layers of those names or numbers, all of them where none is named."""
    found: list[TreeLayer] = []
    for name in names:
        for number, layer in enumerate(layers, 1):
            if name in (str(number), layer.nest.name):
                found.append(layer)
                break
        else:
            known = ", ".join(f"{number} {layer.nest.name}" for number, layer in enumerate(layers[:8], 1))
            raise InputError(f"--layer {name}: {where} has no such layer; known: {known}{', ...' * (len(layers) > 8)}")
    return tuple(found) if names else layers


def placed_layers(task: TreeTask) -> list[tuple[tuple[PlacedNest, ...], tuple[str, ...]]]:
    """Every way to spread each layer, and notes on what of its spatial mapping was changed to fit."""
    return [_placements(layer, task) for layer in task.layers]


def map_on_tree(
    task: TreeTask,
    sums: Sums = Sums.FULL,
    most_labels: int = MOST_LABELS,
    progress: Progress = quiet,
    objective: Objective = Objective.ENERGY,
) -> TreeMappings:
    """The best mapping of every layer; layers that differ only in their names are searched once.

    A layer without a mapping does not stop the others. Raises `DoesNotFit` where no layer has one.
    """
    placed = placed_layers(task)
    known: dict[tuple[PlacedNest, ...], _Searched | DoesNotFit | TooLarge] = {}
    layers: list[MappedOnTree] = []
    unmapped: list[Unmapped] = []
    for number, (layer, (placements, notes)) in enumerate(zip(task.layers, placed, strict=True)):
        progress("map", number, len(placed))
        unnamed = tuple(replace(one, nest=replace(one.nest, name="")) for one in placements)
        if unnamed not in known:
            known[unnamed] = _searched(placements, task.space, sums, most_labels, objective)
        outcome = known[unnamed]
        if not isinstance(outcome, _Searched):
            unmapped.append(Unmapped(layer.nest.name, str(outcome)))
            continue
        points = [replace(one, placed=replace(one.placed, nest=layer.nest)) for one in outcome.points]
        found = min(points, key=lambda one: one.price.edp_pj_cycles)
        if task.constraints.orders and objective is not Objective.PARETO:
            found, said = with_permutations(found, task.constraints.orders)
            notes = (*notes, *said)
        if outcome.more_than:
            notes = (*notes, _some_text(outcome))
        front = tuple(points) if objective is Objective.PARETO else ()
        counts = (outcome.choices, outcome.opened, outcome.more_than)
        layers.append(MappedOnTree(layer.nest.name, layer.operator, found, notes, front, layer.times, *counts))
    if not layers:
        raise DoesNotFit("\n".join(one.reason for one in unmapped))
    return TreeMappings(task, sums, tuple(layers), objective, tuple(unmapped))


@dataclass(frozen=True, slots=True)
class _Searched:
    """What a search found: one mapping, or a front of them; of how many choices of what is spread, where searched."""

    points: tuple[FoundMapping, ...]
    choices: int = 0
    opened: int = 0
    more_than: int = 0


def _some_text(searched: _Searched) -> str:
    """How many choices were compared where there are too many for all, and what holds for all of them."""
    found = searched.points[0]
    return (
        f"{searched.choices:,} choices of what is spread were compared, of more than {searched.more_than:,}; no "
        f"mapping with any of them takes less than {format_energy(found.bound_pj)} or {found.bound_cycles:,} cycles"
    )


def _placements(layer: TreeLayer, task: TreeTask) -> tuple[tuple[PlacedNest, ...], tuple[str, ...]]:
    if task.space is not None:
        return (task.constraints.limited(bound_nest(layer, task.tree)),), ()
    found, notes = placed_layer(layer, chosen_mapping(layer, task.mappings, task.mapping_file), task.tree)
    return tuple(map(task.constraints.limited, found)), notes


def _searched(
    placements: tuple[PlacedNest, ...],
    space: SpatialSpace | None,
    sums: Sums,
    most_labels: int,
    objective: Objective,
) -> _Searched | DoesNotFit | TooLarge:
    try:
        if space is not None:
            wires = wired(placements[0], space)
            if objective is Objective.PARETO:
                front = front_of_choices(placements[0], wires, sums, most_labels)
                return _Searched(front.points, front.choices, front.opened, front.more_than)
            spread = best_spread(placements[0], wires, sums, most_labels, objective)
            return _Searched((spread.found,), spread.choices, spread.opened, spread.more_than)
        if objective is Objective.PARETO:
            return _Searched(pareto_front(placements, sums, most_labels).points)
        return _Searched((best_of(placements, sums, most_labels, objective),))
    except (DoesNotFit, TooLarge) as error:
        return error
