"""What the search changes: a schedule as a value, and the partition by hand that says the same."""

from dataclasses import dataclass, replace
from math import prod

from tilestitch.hardware.accelerator import Level
from tilestitch.ir.by_hand import DEPTH_FIRST, HandGroup, HandItem, HandSchedule
from tilestitch.ir.choices import BindingRule, Spill
from tilestitch.ir.graph import Graph
from tilestitch.ir.partition import ByHand, Kernels, SubGraphs
from tilestitch.ir.rewriting import Across, Again, Band, Rewriting, SplitK, Stream
from tilestitch.ir.tile_rule import KernelRule
from tilestitch.kernels.instances import split_into_instances
from tilestitch.pipeline.compilation import Compilation, given
from tilestitch.pipeline.hand_schedule import group_name, until
from tilestitch.schedule.by_hand import expect_pieces
from tilestitch.schedule.orders import breadth_first, depth_first
from tilestitch.schedule.pieces import with_whole_kernels

NAME = "best"


@dataclass(frozen=True, slots=True)
class Cut:
    """Operators that run piece by piece, in the order of the network."""

    operators: tuple[str, ...]
    axis: int = 0
    pieces: int = 1
    scope: Level | None = None  # where its results wait; None: in LB where the next piece reads them, else in GB
    lag: int = 0  # by how many kernels the second of two pieces in flight is late; 0: they run one after the other
    # More axes, along which each piece is cut again, with into how many. Samples are cut first.
    further: tuple[tuple[int, int], ...] = ()

    @property
    def along(self) -> tuple[tuple[int, int], ...]:
        """Axes with the pieces along each, the outermost first."""
        return (self.axis, self.pieces), *self.further

    @property
    def count(self) -> int:
        """How many pieces there are in all."""
        return prod(pieces for _, pieces in self.along)

    def cut_along(self, first: tuple[int, int], *further: tuple[int, int]) -> "Cut":
        """Cut along some axes, into so many pieces each."""
        return replace(self, axis=first[0], pieces=first[1], further=further)

    def in_pieces(self, pieces: int) -> "Cut":
        """In so many pieces along the outermost axis, and each of these as before."""
        return self.cut_along(*self.further) if pieces == 1 and self.further else replace(self, pieces=pieces)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schedule: samples of an iteration, what runs together, how that is cut and ordered, who leaves the chip."""

    batch: int
    kernels: Kernels
    cuts: tuple[Cut, ...]  # in an order in which they can run
    order: str = DEPTH_FIRST
    spill: Spill = Spill.NEWEST
    binding: BindingRule = BindingRule.NEAREST
    ring: bool = False  # whether sums lie one behind the other in the accumulators
    behind: bool = False  # whether tiles of a kernel lie behind those of the one before
    rules: tuple[KernelRule, ...] = ()  # of kernels of which more is asked than the least estimate, in their order
    joined: bool = False  # whether what a concatenation joins is written where it lies there
    apart: bool = False  # whether element-wise operators work on the parts of a concatenation one by one
    folded: bool = False  # whether factors, and scales and shifts of norms, are part of weights, where they can be
    picks: bool = False  # whether rows are picked of what waits in GB as well, not of DDR alone
    compact: bool = False  # whether results in LB move out of the way of those that find room there in parts alone
    refined: bool = False  # whether the order of instructions is made better by its own simulation
    bands: tuple[Band, ...] = ()  # depthwise convolutions that run as banded products, in the order of the network
    streams: tuple[Stream, ...] = ()  # softmaxes between products that run block by block, in the same order
    split_k: tuple[SplitK, ...] = ()  # products in parts of their reduction, in the same order
    across: tuple[Across, ...] = ()  # products whose reduction is divided among cores, in the same order
    packed: bool = False  # whether small constants lie together, so that one transfer brings those of several operators
    in_place: bool = False  # whether results take the place of operands in GB too, as they do in LB
    again: tuple[Again, ...] = ()  # what is computed once more, in an order in which it is rewritten

    @property
    def rewriting(self) -> Rewriting:
        """The network in whose terms it is."""
        several = self.bands, self.streams, self.split_k, self.across
        return Rewriting(self.joined, self.apart, self.folded, *several, self.packed, self.again)

    @property
    def together(self) -> tuple[str, ...]:
        """The last operators of kernels that bring more with a transfer."""
        return tuple(rule.sink for rule in self.rules if rule.together)

    @property
    def sinks(self) -> tuple[str, ...]:
        """The last operators of the kernels."""
        return tuple(kernel[-1] for kernel in self.kernels)

    def at(self, batch: int) -> "Candidate":
        """With so many samples an iteration: in pieces as large as before, or whole where all runs whole."""
        if all(cut.pieces == 1 for cut in self.cuts):
            return replace(self, batch=batch)
        cuts = tuple(
            cut.in_pieces(max(1, min(batch, cut.pieces * batch // self.batch))) if cut.axis == 0 else cut
            for cut in self.cuts
        )
        return replace(self, batch=batch, cuts=cuts)

    def uncut(self, graph: Graph) -> "Candidate":
        """With the whole network as one sub-graph in one piece."""
        return replace(self, cuts=(Cut(tuple(op.name for op in graph.operators)),))

    def partition(self, graph: Graph) -> ByHand:
        """The same as a partition of the network without its views."""
        last = len(self.cuts) - 1
        groups = tuple(
            HandGroup(
                group_name(at),
                () if at == last else until(graph, cut.operators),
                cut.axis,
                cut.pieces,
                cut.lag,
                cut.further,
            )
            for at, cut in enumerate(self.cuts)
        )
        schedule = HandSchedule(
            NAME,
            groups,
            self.order,
            ring=self.ring,
            behind=self.behind,
            joined=self.joined,
            apart=self.apart,
            folded=self.folded,
            picks=self.picks,
            compact=self.compact,
            refined=self.refined,
            bands=self.bands,
            streams=self.streams,
            split_k=self.split_k,
            across=self.across,
            packed=self.packed,
            rules=self.rules,
            lean=True,
            in_place=self.in_place,
            again=self.again,
        )
        if any(cut.scope is not None for cut in self.cuts):
            schedule = replace(schedule, order=self._items(graph, schedule))
        return ByHand(self.kernels, schedule)

    def _items(self, graph: Graph, schedule: HandSchedule) -> tuple[HandItem, ...]:
        """Every piece in its order, with where its results wait."""
        names = with_whole_kernels(graph, [cut.operators for cut in self.cuts], self.kernels)
        for group, inside in zip(schedule.groups, names, strict=True):
            expect_pieces(graph, schedule, group, inside)
        instances = split_into_instances(graph, names, [cut.along for cut in self.cuts])
        order = depth_first(instances) if self.order == DEPTH_FIRST else breadth_first(instances)
        found = []
        for number in order:
            one = instances.instances[number]
            piece = one.name[one.name.index("[") :]
            found.append(HandItem(f"{group_name(one.group)}{piece}", self.cuts[one.group].scope))
        return tuple(found)


def candidate_of(done: Compilation) -> Candidate | None:
    """What a strategy decided, as far as the search can change it; None of what it has no words for.

    Results stay on chip where they can, and one launch starts all kernels, also where the strategy had neither.
    """
    graph, partition, schedule = given(done.graph), given(done.partition), given(done.schedule)
    names = tuple(op.name for op in graph.operators)
    cuts = (Cut(names),)
    if isinstance(partition, SubGraphs) and schedule.pieces:
        cuts = tuple(Cut(one.operators, one.axis, one.pieces) for one in partition.sub_graphs)
    if not in_running_order(graph, cuts):
        return None
    return Candidate(schedule.batch, partition.kernels, cuts, spill=done.options.spill, binding=done.options.binding)


def plain_candidate(done: Compilation) -> Candidate:
    """The whole network in one piece, of a compilation that got as far as its partition."""
    graph, options = given(done.graph), done.options
    cuts = (Cut(tuple(op.name for op in graph.operators)),)
    return Candidate(done.run.batch, given(done.partition).kernels, cuts, spill=options.spill, binding=options.binding)


def in_running_order(graph: Graph, cuts: tuple[Cut, ...]) -> bool:
    """Whether every cut has operators, and none reads what a later one makes."""
    number = {name: at for at, cut in enumerate(cuts) for name in cut.operators}
    return all(cut.operators for cut in cuts) and all(
        number[maker.name] <= number[op.name] for op in graph.operators for maker in graph.makers[op.name]
    )
