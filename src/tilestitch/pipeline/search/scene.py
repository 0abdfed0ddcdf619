"""What moves look at: a candidate, its network and machine, and what its kernels lose; and what of it is alike."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.graph import Graph, Operator
from tilestitch.pipeline.search.candidate import Candidate, Cut
from tilestitch.schedule.pieces import KernelIndex

Signature: TypeAlias = tuple
Cuts: TypeAlias = Sequence[Cut]


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
    def alike(self) -> list[list[str]]:
        """The last operators of kernels that are alike, first those that lose most cycles."""
        alike: dict[Signature, list[str]] = {}
        for kernel in self.candidate.kernels:
            operators = [self.graph.by_name[name] for name in kernel]
            alike.setdefault(signature(self.graph, operators), []).append(kernel[-1])
        return sorted(alike.values(), key=lambda sinks: -self.lost(sinks))

    def runs(self, length: int = 1) -> list[tuple[int, ...]]:
        """Where so many neighbouring cuts begin: those that are alike together, then each of these alone.

        Of alike ones that overlap the later one is alone only. Those that lose most cycles come first, alone as well.
        """
        cuts = self.candidate.cuts
        index = KernelIndex(self.graph, self.candidate.kernels)
        like = [self._likeness(cut, index) for cut in cuts]
        alike: dict[tuple, list[int]] = {}
        overlapping: list[int] = []
        for at in range(len(cuts) - length + 1):
            found = alike.setdefault(tuple(like[at : at + length]), [])
            (overlapping if found and at < found[-1] + length else found).append(at)
        lost = [self.lost(cut.operators) for cut in cuts]

        def loses(run: Sequence[int]) -> int:
            return -sum(sum(lost[at : at + length]) for at in run)

        together = sorted(alike.values(), key=loses)
        several = [at for run in together if len(run) > 1 for at in run]
        alone = sorted(([at] for at in sorted([*several, *overlapping])), key=loses)
        return [tuple(run) for run in (*together, *alone)]

    def _likeness(self, cut: Cut, index: KernelIndex) -> tuple:
        """Equal for cuts of the same operators, shapes, wires, kernels and pieces.

        So there are as many ways to cut either, in the same order.
        """
        operators = [self.graph.by_name[name] for name in cut.operators]
        maker = {name: at for at, op in enumerate(operators) for name in op.outputs}
        leaving = set(self.graph.leaving(operators))
        wired = tuple(tuple(maker.get(name, -1) for name in op.inputs) for op in operators)
        left = tuple(name in leaving for op in operators for name in op.outputs)
        place = {name: at for at, name in enumerate(cut.operators)}
        kernels = tuple(tuple(place[op.name] for op in kernel) for kernel in index.within(cut.operators))
        return signature(self.graph, operators), wired, left, kernels, replace(cut, operators=())

    def recut(self, length: int, ways: Callable[[int], Sequence[Cuts | None]]) -> Iterator[Candidate]:
        """The candidate with so many neighbouring cuts replaced, by what can be made of those from one on.

        The same is made of all that are alike, then of each alone; not where that is None. Of alike ones there are as
        many ways, in the same order.
        """
        for run in self.runs(length):
            for several in zip(*map(ways, run), strict=True):
                found = self.with_cuts(run, length, several)
                if found != self.candidate:
                    yield found

    def with_cuts(self, run: Sequence[int], length: int, several: Sequence[Cuts | None]) -> Candidate:
        """The candidate with other cuts in place of so many from each of some on, but where there are None."""
        cuts = list(self.candidate.cuts)
        for at, own in reversed(list(zip(run, several, strict=True))):
            if own is not None:
                cuts[at : at + length] = own
        return replace(self.candidate, cuts=tuple(cuts))


def signature(graph: Graph, operators: Sequence[Operator]) -> Signature:
    """Equal for kernels of the same operators on tensors of the same shapes."""
    return tuple((op.kind, *(graph.tensors[name].shape for name in (*op.inputs, *op.outputs))) for op in operators)
