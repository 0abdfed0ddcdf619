"""Points by mapping every layer on the tree of a machine; estimated."""

import json
import pickle
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np

from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.commands.map.sources import Nests
from tilestitch.commands.map.tree_run import map_on_tree, open_free_task
from tilestitch.exploration.evaluator import Metric, NamedNetwork, Origin, Packed
from tilestitch.exploration.identity import digest_of
from tilestitch.hardware.tree import MachineTree
from tilestitch.ir.choices import CostMode, Objective
from tilestitch.mapping.network import MapOptions
from tilestitch.mapping.tree.choices import Ragged, SpatialSpace
from tilestitch.mapping.tree.found import FoundMapping


def packed_nests(nests: Nests) -> Packed:
    """The different layers of a network, for `MappedOnTree`."""
    text = json.dumps([asdict(layer) for layer in nests.layers])
    return NamedNetwork(nests.name, digest_of(text.encode())), np.frombuffer(pickle.dumps(nests), np.uint8)


def expect_tree_options(options: MapOptions) -> None:
    """Refuse what is of PE arrays alone."""
    if options.pruned or options.dataflow or options.mode is not CostMode.DEFAULT:
        raise InputError("--search, --dataflow and --mode are of machines with a PE array; leave them out on a tree")


@dataclass(frozen=True)
class MappedOnTree:
    """Map each different layer on the tree, with everything free to be spread, as often as the network runs it."""

    objective: Objective
    ragged: bool

    @property
    def identity(self) -> str:
        return json.dumps({"evaluator": "mapped on tree", **asdict(self)}, sort_keys=True)

    @property
    def description(self) -> str:
        factors = ", ragged factors" if self.ragged else ""
        return f"mapped layer by layer on the tree: least {self.objective}, best of all{factors}"

    def prepared(self, content: bytes) -> Nests:
        """The layers; the bytes come from `packed_nests`, in this process or the one that sent them."""
        return pickle.loads(content)

    def __call__(self, machine: MachineTree, prepared: Nests, name: str) -> tuple[Metric, ...]:
        space = SpatialSpace(Ragged.ALL if self.ragged else Ragged.FILLING)
        task = open_free_task(name, machine, space, (), lambda _: prepared)
        mapped = map_on_tree(task, objective=self.objective)
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
