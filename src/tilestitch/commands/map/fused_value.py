"""What the fused mappings of a network's chains are, as a value."""

from dataclasses import dataclass

from tilestitch.base.shown import Brief
from tilestitch.commands.map.named_chain import NamedChain
from tilestitch.commands.map.tree_sources import TreeLayer
from tilestitch.hardware.tree import MachineTree
from tilestitch.ir.choices import Objective
from tilestitch.mapping.fused.search import FoundChain
from tilestitch.mapping.tree.choices import SpatialSpace
from tilestitch.mapping.tree.tables import Sums


@dataclass(frozen=True, slots=True)
class FusedTask:
    """Chains and a machine, what may be spread, and how many operators may run together."""

    name: str
    tree: MachineTree
    chains: tuple[NamedChain, ...]
    layers: tuple[tuple[TreeLayer, ...], ...]  # of each chain
    notes: tuple[str, ...]
    space: SpatialSpace
    most: int
    objective: Objective = Objective.ENERGY


@dataclass(frozen=True, slots=True)
class UnmappedChain:
    """A chain that has no mapping, and why."""

    names: tuple[str, ...]
    label: str
    reason: str


@dataclass(frozen=True, slots=True, repr=False)
class MappedChains(Brief):
    """The best fused mapping of every different chain of a network, and the chains that have none."""

    task: FusedTask
    sums: Sums
    chains: tuple[tuple[NamedChain, FoundChain], ...]
    unmapped: tuple[UnmappedChain, ...] = ()

    @property
    def energy_pj(self) -> float:
        """Of all chains, each as often as it is there."""
        return sum(chain.times * found.energy_pj for chain, found in self.chains)

    @property
    def unfused_pj(self) -> float:
        return sum(chain.times * found.unfused_pj for chain, found in self.chains)

    @property
    def latency_cycles(self) -> int:
        """Of all chains, one after another."""
        return sum(chain.times * found.latency_cycles for chain, found in self.chains)

    @property
    def unfused_cycles(self) -> int:
        return sum(chain.times * found.unfused_cycles for chain, found in self.chains)

    @property
    def bound(self) -> float | None:
        """What no mapping of all chains comes below, in pJ or cycles; none for products, which are of each chain."""
        if self.task.objective in (Objective.ENERGY, Objective.LATENCY):
            return sum(chain.times * found.bound for chain, found in self.chains)
        return None

    @property
    def is_proven(self) -> bool:
        return all(found.is_proven for _, found in self.chains)
