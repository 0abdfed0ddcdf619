"""Networks on many machines, and what that comes to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from tilestitch.api import Machine, Model, checked_options, machine_of, open_model, shown
from tilestitch.base.errors import InputError, printable
from tilestitch.base.html import Record
from tilestitch.base.progress import Progress, quiet
from tilestitch.base.shown import Shown, as_kind
from tilestitch.commands.explore.explore_page import explore_result
from tilestitch.commands.explore.on_tree import MappedOnTree, packed_work, tree_options, work_of
from tilestitch.commands.map.networks import NetworkRuns, open_network
from tilestitch.commands.map.run import checked_map_options
from tilestitch.commands.map.sources import Nests, network_nests, open_nests
from tilestitch.commands.map.tree_value import TreeOptions
from tilestitch.exploration.clusters import expect_cluster
from tilestitch.exploration.evaluator import Packed
from tilestitch.exploration.explore_text import explored_json, explored_text, front_pictures
from tilestitch.exploration.mapped import Mapped, packed_layers
from tilestitch.exploration.methods import Grid, Method, Nsga2, Random
from tilestitch.exploration.objectives import DEFAULT, objective_named
from tilestitch.exploration.run import Explored
from tilestitch.exploration.run import explore as explored_by
from tilestitch.exploration.simulated import Simulated, packed_model
from tilestitch.exploration.space import space as space_of
from tilestitch.exploration.store import Store
from tilestitch.exploration.values import values_of
from tilestitch.exploration.workers import Workers
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.hardware.array_machine import array_of_core
from tilestitch.hardware.load import Machine as LoadedMachine
from tilestitch.hardware.load import machine_text
from tilestitch.hardware.tree_load import TreeMachine, load_either, load_tree
from tilestitch.ir.by_hand import FusionPlan
from tilestitch.mapping.network import MapOptions
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.origin import made_by, python_call
from tilestitch.report.html.page import result_page

GivenValues: TypeAlias = str | Sequence[int | float | str]

METHODS = ("grid", "random", "optuna")


@dataclass(frozen=True, slots=True)
class ExploreOptions:
    """How designs are proposed, and how each is priced."""

    by: str = ""  # simulate or map; "": map where the machine has an array
    strategy: str | FusionPlan = "auto"  # by simulate, as for compile
    compilation: Options = field(default_factory=Options)  # by simulate; of map its batch and dims
    mapping: MapOptions | TreeOptions = field(default_factory=MapOptions)  # by map; TreeOptions on a tree
    method: str = "grid"
    trials: int = 64  # of random and optuna
    seed: int = 0
    population: int = 16  # of optuna
    objectives: tuple[str, ...] = DEFAULT
    scale_energy: bool = False


@dataclass(frozen=True, repr=False)
class Exploration(Explored, Shown):
    """What was explored, with its page, its pictures and its JSON."""

    store: str = ""  # the file of points
    options: ExploreOptions = field(default_factory=ExploreOptions)

    def __str__(self) -> str:
        return explored_text(self, store=self.store)

    def to_json(self) -> str:
        """What `tilestitch explore --json` writes."""
        return explored_json(self)

    def to_html(self, command: str = "") -> str:
        """What `tilestitch explore --html` writes: a page to look at; `command` is said to make it again."""
        if not command:
            varied = {one.name: list(one.values) for one in self.space.parameters}
            command = python_call("explore", self.networks, self.space.machine, varied, self.options)
        said = (("method", self.options.method), ("seed", self.options.seed))
        return result_page(explore_result(self), made_by(command, said))

    def heading(self) -> str:
        """The machine, the networks, how many designs."""
        return f"{self.space.machine}, {', '.join(self.networks)}: {len(self.outcomes):,} designs"

    def records(self) -> tuple[Record, ...]:
        """A row for each point: the design, its values, its numbers, whether it is on the front of its network."""
        rows: list[Record] = []
        for design, outcomes in self.outcomes.items():
            for number, (network, outcome) in enumerate(zip(self.networks, outcomes, strict=True)):
                rows.append(
                    {
                        "design": design,
                        **self.space.values(design),
                        "network": network,
                        **{f"{one.name} ({one.unit})": one.value for one in outcome.metrics},
                        "on the front": design in self.fronts[number],
                        "infeasible": outcome.infeasible or None,
                    }
                )
        return tuple(rows)

    def pictures(self) -> tuple[str, ...]:
        """Every front, for every two objectives."""
        return tuple(picture for _, picture in front_pictures(self))


def explore(
    models: Model | Sequence[Model],
    machine: Machine | TreeMachine,
    vary: Mapping[str, GivenValues] | Sequence[tuple[str, GivenValues]],
    options: ExploreOptions = ExploreOptions(),
    *,
    store: str | Path | None = None,
    workers: int | None = None,
    cluster: str = "",
    progress: Progress | None = None,
) -> Exploration:
    """Run networks on many machines, and find those that no other beats: the Pareto front.

    `vary` has what is varied: places of the machine's YAML form, or short names as for `tilestitch explore --vary`,
    each with its values (a dict or a list of pairs), as a list or as text such as "64..1024*2". `store` is a file of
    points, which are not evaluated again. `workers` are processes; one for each processor, unless it says how many.
    """
    show = progress or quiet
    if not isinstance(options, ExploreOptions):
        raise InputError(f"options: expected ExploreOptions, such as ExploreOptions(by='map'), found {shown(options)}")
    pairs = list(vary.items()) if isinstance(vary, Mapping) else vary
    if not isinstance(pairs, list | tuple):
        raise InputError(f"vary: expected values by names, such as {{'bandwidth': [4, 8]}}, found {shown(vary)}")
    if cluster:
        expect_cluster(cluster)
    method = _method(options)
    given = [models] if isinstance(models, str | Path) or not isinstance(models, Sequence) else list(models)
    show("load", 0, 1)
    loaded = _loaded(machine)
    objectives = [objective_named(name) for name in dict.fromkeys(_objectives(loaded, options.objectives))]
    space = space_of(
        *_machine_text(machine, loaded),
        [(name, _values(name, values)) for name, values in pairs],
        scale_energy=options.scale_energy,
    )
    evaluator, networks, notes = _evaluated(given, loaded, options)
    path = None if store is None else Path(store)
    with Store(path) as points:
        found = explored_by(
            space,
            networks,
            evaluator,
            method,
            objectives,
            store=points,
            workers=Workers(workers or 0, cluster),
            progress=show,
        )
    found = replace(found, notes=notes)
    return as_kind(Exploration, found, store="" if path is None else printable(str(path)), options=options)


def _loaded(machine: Machine | TreeMachine) -> Accelerator | TreeMachine:
    """A machine as a chip where it says cores, else as a tree."""
    if isinstance(machine, TreeMachine):
        return machine
    if isinstance(machine, str | Path):
        return load_either(machine)
    return load_tree(machine) if isinstance(machine, Mapping) and "cores" not in machine else machine_of(machine)


def _objectives(machine: Accelerator | TreeMachine, names: Sequence[str]) -> tuple[str, ...]:
    """The objectives by their names; where nobody chose some, cycles instead of seconds if there is no clock."""
    is_tree = isinstance(machine, TreeMachine)
    if is_tree and machine.clock_hz is None:
        if tuple(names) == DEFAULT:
            return "cycles", "energy"
        if "latency" in names:
            raise InputError(
                f"{machine.name}: --objective latency counts seconds, and the machine has no clock; write clock, or "
                "--objective cycles"
            )
    if "area" in names and not (is_tree and machine.area_mm2 is not None):
        raise InputError(
            f"{machine.name}: --objective area adds up area_mm2 and mac_area_mm2, which this machine does not say, or "
            "it is a chip; leave out --objective area"
        )
    return tuple(names)


def way_of(machine: Accelerator | TreeMachine, by: str) -> str:
    """How designs are priced: as asked, else mapped where the machine has an array, or is a tree."""
    if by not in ("", "simulate", "map"):
        raise InputError(f"by: expected simulate or map, found {shown(by)}")
    if isinstance(machine, TreeMachine):
        if by == "simulate":
            raise InputError(f"{machine.name}: --by simulate runs on chips; this machine has no cores; leave out --by")
        return "map"
    return by or ("map" if any(core.array is not None for core in machine.cores) else "simulate")


def _evaluated(
    models: Sequence[Model], machine: Accelerator | TreeMachine, options: ExploreOptions
) -> tuple[Mapped | MappedOnTree | Simulated, list[Packed], tuple[str, ...]]:
    """Who prices a point, the networks as it takes them, and notes on those that are read as they were exported."""
    asked = checked_options(options.compilation)
    if way_of(machine, options.by) == "map":
        mapping = options.mapping
        if isinstance(machine, TreeMachine) or isinstance(mapping, TreeOptions):
            return _on_tree(models, machine, asked, mapping)
        asked_of_map = checked_map_options(mapping)
        nests = [_nests(one, asked) for one in models]
        array_of_core(machine)
        return Mapped(asked_of_map), [packed_layers(one.layers, one.name) for one in nests], _notes(nests)
    evaluator = Simulated(options.strategy, asked)
    evaluator.expect_strategy()
    networks = [packed_model(*open_model(one)) for one in models]
    opened = [_network(one, asked) for one in models]  # mistakes of a network are those of no machine
    return evaluator, networks, tuple(f"{one.graph.name}: {one.note}" for one in opened if one.note)


def _network(model: Model, asked: Options) -> NetworkRuns:
    return open_network(model, batch=asked.batch, dims=asked.dims, simplified=False)


def _nests(model: Model, asked: Options) -> Nests:
    if isinstance(model, str | Path):
        return open_nests(model, lambda name: _network(name, asked))
    return network_nests(_network(model, asked))


def _notes(nests: Sequence[Nests]) -> tuple[str, ...]:
    return tuple(f"{one.name}: {note}" for one in nests for note in one.notes)


def _on_tree(
    models: Sequence[Model], machine: Accelerator | TreeMachine, asked: Options, mapping: MapOptions | TreeOptions
) -> tuple[MappedOnTree, list[Packed], tuple[str, ...]]:
    """Who maps on trees, and the networks; files that say nothing of the machine are refused before anything runs."""
    options = tree_options(mapping if isinstance(mapping, TreeOptions) else checked_map_options(mapping))
    if isinstance(machine, TreeMachine) == options.uneven:
        raise InputError(
            f"{machine.name}: uneven storage goes with a PE array; the file of a tree says storage for each memory"
            if options.uneven
            else f"{machine.name}: TreeOptions go with a tree, or with a PE array and uneven; write MapOptions"
        )
    evaluator = MappedOnTree.of(options)
    opened: list[Nests] = []

    def load(model: Model) -> Nests:
        opened.append(_nests(model, asked))
        return opened[-1]

    works = [work_of(one, options, load) for one in models]
    for work in works:
        evaluator.expect_sense(machine, work)
    return evaluator, [packed_work(one) for one in works], _notes(opened)


def _machine_text(machine: Machine | TreeMachine, loaded: Accelerator | TreeMachine) -> tuple[str, str]:
    """The YAML form of a machine, and what its errors begin with."""
    if isinstance(machine, str | Path):
        return machine_text(machine)
    if isinstance(loaded, TreeMachine) and loaded.yaml:
        return loaded.yaml, f"machine {loaded.name}"
    if not isinstance(loaded, LoadedMachine):
        raise InputError(f"machine {loaded.name!r}: has no YAML form to vary; load it by its name, a file or a dict")
    return loaded.yaml_text(), f"machine {loaded.name}"


def _values(name: str, values: GivenValues) -> tuple[str, ...]:
    if isinstance(values, str):
        return values_of(values, f"--vary {name}")
    if not isinstance(values, Sequence) or not all(isinstance(one, int | float | str) for one in values):
        raise InputError(f"--vary {name}: expected a list of values, such as [4, 8, 16], found {shown(values)}")
    return tuple(str(one) for one in values)


def _method(options: ExploreOptions) -> Method:
    match options.method:
        case "grid":
            return Grid()
        case "random":
            return Random(options.trials, options.seed)
        case "optuna":
            return Nsga2(options.trials, options.seed, options.population)
        case _:
            raise InputError(f"method: expected one of {', '.join(METHODS)}, found {shown(options.method)}")
