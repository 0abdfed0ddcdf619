"""What moves look at: a candidate, its network and machine, and what its kernels lose; and which kernels are alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.graph import Graph, Operator
from tilestitch.pipeline.search.candidate import Candidate, Cut

Signature: TypeAlias = tuple


@dataclass(frozen=True, slots=True)
class Scene:
    """A candidate with its network, its machine, and the cycles that kernels lose, by their last operator."""

    candidate: Candidate
    graph: Graph
    machine: Accelerator
    lost_cycles: Mapping[str, int]
    batches: Sequence[int]  # that an iteration may have

    def lost(self, operators: Sequence[str]) -> int:
        """By the kernels that end with one of the operators."""
        return sum(self.lost_cycles.get(name, 0) for name in operators)

    @property
    def by_loss(self) -> list[int]:
        """Numbers of the cuts, the one that loses most first."""
        cuts = self.candidate.cuts
        return sorted(range(len(cuts)), key=lambda at: (-self.lost(cuts[at].operators), at))

    @property
    def alike(self) -> list[list[str]]:
        """The last operators of kernels that are alike, first those that lose most cycles."""
        alike: dict[Signature, list[str]] = {}
        for kernel in self.candidate.kernels:
            operators = [self.graph.by_name[name] for name in kernel]
            alike.setdefault(signature(self.graph, operators), []).append(kernel[-1])
        return sorted(alike.values(), key=lambda sinks: -self.lost(sinks))

    def with_cuts(self, at: int, count: int, cuts: Sequence[Cut]) -> Candidate:
        """The candidate with others instead of some neighbouring cuts."""
        own = self.candidate.cuts
        return replace(self.candidate, cuts=(*own[:at], *cuts, *own[at + count :]))


def signature(graph: Graph, operators: Sequence[Operator]) -> Signature:
    """Equal for kernels of the same operators on tensors of the same shapes."""
    return tuple((op.kind, *(graph.tensors[name].shape for name in (*op.inputs, *op.outputs))) for op in operators)
