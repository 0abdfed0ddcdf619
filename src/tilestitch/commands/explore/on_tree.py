"""Points by mapping every layer on the tree of a machine; estimated."""

import json
import pickle
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from tilestitch.api import Model, choice_of, expect_count, shown
from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.commands.map.sources import Nests
from tilestitch.commands.map.tree_constraints import ConstraintText, constraint_text
from tilestitch.commands.map.tree_machines import OpenedTree, uneven_tree
from tilestitch.commands.map.tree_run import (
    TreeTask,
    TreeWork,
    free_work,
    map_on_tree,
    placed_layers,
    task_on,
    zigzag_work,
)
from tilestitch.commands.map.tree_value import TreeOptions
from tilestitch.exploration.evaluator import Metric, NamedNetwork, Origin, Packed
from tilestitch.exploration.identity import digest_of
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.hardware.array_machine import array_of_core
from tilestitch.hardware.load import Machine
from tilestitch.hardware.tree import MachineTree
from tilestitch.hardware.tree_load import parse_tree
from tilestitch.ir.choices import CostMode, Objective
from tilestitch.mapping.network import MapOptions
from tilestitch.mapping.tree.choices import Ragged, SpatialSpace
from tilestitch.mapping.tree.found import FoundMapping
from tilestitch.mapping.tree.tables import Sums


def packed_work(work: TreeWork) -> Packed:
    """The layers of a workload, and what a file spreads of them, for `MappedOnTree`."""
    spread = [[one.name, one.spatial, one.links, one.hints] for one in work.mappings]
    text = json.dumps([[asdict(layer) for layer in work.layers], work.is_in_words, spread], default=str)
    return NamedNetwork(work.name, digest_of(text.encode())), np.frombuffer(pickle.dumps(work), np.uint8)


def tree_options(options: MapOptions | TreeOptions) -> TreeOptions:
    """What is asked of a tree. Refuses what is of PE arrays alone, and a front, which is no single number."""
    if isinstance(options, MapOptions):
        if options.pruned or options.dataflow or options.mode is not CostMode.DEFAULT:
            raise InputError(
                "--search, --dataflow and --mode are of machines with a PE array; leave them out on a tree"
            )
        options = TreeOptions(options.objective, ragged=options.ragged)
    if choice_of("objective", options.objective, Objective) is Objective.PARETO:
        raise InputError("options: a point has one mapping of each layer, and pareto is a front; choose another one")
    choice_of("sums", options.sums, Sums)
    expect_count("effort", options.effort)
    if options.spatial is not None:
        options.expect_fixed()
    return options


def work_of(model: Model, options: TreeOptions, load: Callable[[Model], Nests]) -> TreeWork:
    """The layers of a model; of ZigZag's file where a mapping of ZigZag's is given."""
    if options.spatial is None:
        return free_work(model, load)
    if not isinstance(model, str | Path):
        raise InputError(f"model: with spatial expected the path of ZigZag's layers, found {shown(model)}")
    return zigzag_work(str(model), str(options.spatial))


@dataclass(frozen=True)
class MappedOnTree:
    """Map each different layer on the tree, as often as the network runs it.

    Everything is free to be spread, within constraints, unless a file of ZigZag's says what is.
    """

    objective: Objective
    space: SpatialSpace
    sums: Sums = Sums.FULL
    effort: int = TreeOptions().effort
    constraints: ConstraintText | None = None
    spatial: str = ""  # the name of a file
    uneven: bool = False  # of a PE array

    @classmethod
    def of(cls, options: TreeOptions) -> "MappedOnTree":
        """Raises `InputError` for files that cannot be read."""
        return cls(
            Objective(options.objective),
            options.space(),
            Sums(options.sums),
            options.effort,
            None if options.constraints is None else constraint_text(Path(options.constraints)),
            "" if options.spatial is None else Path(options.spatial).name,
            options.uneven,
        )

    @property
    def identity(self) -> str:
        return json.dumps(
            {
                "evaluator": "mapped on tree",
                "objective": self.objective,
                "ragged": self.space.ragged,
                "utilization": self.space.least_use,
                "sums": self.sums,
                "effort": self.effort,
                "constraints": None if self.constraints is None else self.constraints.text,
                "uneven": self.uneven,
            },
            sort_keys=True,
        )

    @property
    def description(self) -> str:
        words = [f"mapped layer by layer on the tree: least {self.objective}, best of all"]
        if self.uneven:
            words.append("uneven storage")
        if self.spatial:
            words.append(f"spread as in {self.spatial}")
        elif self.space.ragged is Ragged.ALL:
            words.append("ragged factors")
        if self.space.least_use > 0:
            words.append(f"at least {self.space.least_use:.4g} of the units have work")
        if self.constraints is not None:
            words.append(f"constraints of {self.constraints.file}")
        if self.sums is not Sums.FULL:
            words.append(f"sums {self.sums}")
        return ", ".join(words)

    def prepared(self, content: bytes) -> TreeWork:
        """The layers; the bytes come from `packed_work`, in this process or the one that sent them."""
        return pickle.loads(content)

    def task(self, machine: Accelerator | MachineTree, work: TreeWork) -> TreeTask:
        """The layers on a machine, with what is fixed. Raises `InputError` where that says nothing."""
        if isinstance(machine, MachineTree):
            opened = OpenedTree(machine)
        else:
            array_of_core(machine)
            if not isinstance(machine, Machine):
                raise InputError(f"machine {machine.name!r}: has no YAML form; load it by its name, a file or a dict")
            opened = uneven_tree(parse_tree(machine.yaml_text(), machine.name), machine)
        return task_on(work, opened, self.space, (), self.constraints)

    def expect_sense(self, machine: Accelerator | MachineTree, work: TreeWork) -> None:
        """Refuse files that say nothing of a machine, before its parameters vary."""
        if self.constraints is not None or self.spatial:
            placed_layers(self.task(machine, work))

    def __call__(self, machine: Accelerator | MachineTree, prepared: TreeWork, name: str) -> tuple[Metric, ...]:
        mapped = map_on_tree(self.task(machine, prepared), self.sums, self.effort, objective=self.objective)
        if mapped.unmapped:
            raise DoesNotFit(mapped.unmapped[0].reason)
        metric = partial(Metric, origin=Origin.ESTIMATED)
        cycles = mapped.latency_cycles
        seconds = () if machine.clock_hz is None else (metric("latency", cycles / machine.clock_hz, "s"),)
        return (
            metric("cycles", cycles, "cycles"),
            *seconds,
            metric("energy", mapped.energy_pj, "pJ"),
            metric(
                "traffic", round(sum(layer.times * _outermost_bits(layer.found) for layer in mapped.layers) / 8), "B"
            ),
        )


def _outermost_bits(found: FoundMapping) -> int:
    """What the memories move that nothing fills, in whole accesses."""
    placed, bits = found.placed, 0
    outermost = {memory.name: memory for memory in placed.tree.outermost}
    for flow in found.price.flows:
        if flow.memory in outermost:
            port = outermost[flow.memory].port(placed.homes[flow.operand], flow.flow)
            bits += flow.accesses * (0 if port is None else port.width_bits)
    return bits
