"""What the simulator of trees is given: loops of a nest, where operands are kept, and what is spread over the units."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod

from tilestitch.base.errors import InputError, InvalidIR
from tilestitch.hardware.tree import MachineTree, TreeMemory
from tilestitch.ir.loop_nest import LoopNest, LoopOperand


@dataclass(frozen=True, slots=True)
class Kept:
    """An operand that goes no further out than one memory, which holds the tile of so many of the innermost loops."""

    operand: int
    memory: str
    loops: int


@dataclass(frozen=True, slots=True)
class Window:
    """A loop at a place of a nest that goes over windows which overlap: by how many iterations a step of it moves.

    `reach` is how many iterations all windows come to together, of this loop and those inside it.
    """

    place: int
    step: int
    reach: int


@dataclass(frozen=True)
class TreeRun:
    """Loops from the innermost with their factors, and of each operand how many of them each of its memories is inside.

    `loops` are (loop number, factor) pairs; `cuts[operand][level]` is the number of innermost loops whose tile the
    memory of that level holds, of the outermost memory all of them. `spread` are (axis, loop number, factor). `homes`
    are what the machine calls the operands. Complete results have `final_bits`, sums the bits of the result's elements.
    The factors of a loop may multiply to more than its iterations, by less than what is spread of it: then units are
    idle behind its end, and in no step all of them. Where others run between iterations of outer loops, `stops` are
    how many loops lie inside these, and `kept` says of what passes between them where it stays.

    Where a nest runs window by window, `part` are the iterations of its loops in one window, and `windows` its
    outermost loops that go over these. Every window is made as a whole, with what lies behind the end of the nest.
    """

    nest: LoopNest
    tree: MachineTree
    homes: tuple[str, ...]
    final_bits: int
    spread: tuple[tuple[str, int, int], ...]
    loops: tuple[tuple[int, int], ...]
    cuts: tuple[tuple[int, ...], ...]
    stops: tuple[int, ...] = ()
    kept: tuple[Kept, ...] = ()
    part: tuple[int, ...] = ()
    windows: tuple[Window, ...] = ()

    @property
    def extents(self) -> tuple[int, ...]:
        """Iterations of every loop, in one window where the nest runs on these."""
        return self.part or self.nest.extents

    @property
    def macs(self) -> int:
        """Products that are made, in every window those that are made again as well."""
        return prod(self.extents) * prod(self.loops[one.place][1] for one in self.windows)

    def window_at(self, place: int) -> Window | None:
        """What a loop of the nest does if it goes over windows."""
        return next((one for one in self.windows if one.place == place), None)

    @cached_property
    def chains(self) -> tuple[tuple[TreeMemory, ...], ...]:
        """The memories of every operand, innermost first."""
        return tuple(self._chain(number) for number in range(len(self.homes)))

    def _chain(self, number: int) -> tuple[TreeMemory, ...]:
        chain, kept = self.tree.chain(self.homes[number]), self.kept_at(number)
        if kept is None:
            return chain
        return chain[: [memory.name for memory in chain].index(kept.memory) + 1]

    def kept_at(self, number: int) -> Kept | None:
        """Where an operand stays that does not come from outside, or go there."""
        return next((one for one in self.kept if one.operand == number), None)

    def loops_of(self, number: int) -> int:
        """How many loops lie inside what the outermost memory of an operand holds at a time."""
        kept = self.kept_at(number)
        return len(self.loops) if kept is None else kept.loops

    @cached_property
    def fan_outs(self) -> tuple[tuple[tuple[str, ...], ...], ...]:
        """The axes of every operand inside its first memory, between each two, and outside the last."""
        found: list[tuple[tuple[str, ...], ...]] = []
        for home, chain in zip(self.homes, self.chains, strict=True):
            every = self.tree.fan_outs(home)
            found.append((*every[: len(chain)], sum(every[len(chain) :], ())))
        return tuple(found)

    @property
    def operands(self) -> tuple[LoopOperand, ...]:
        """What is read, then what is written."""
        return self.nest.operands

    @property
    def written(self) -> int:
        """The number of the result."""
        return len(self.nest.reads)

    @cached_property
    def iterations(self) -> int:
        """Steps of the units, one after another."""
        return prod(factor for _, factor in self.loops)

    @cached_property
    def padded(self) -> tuple[int, ...]:
        """Of every loop the product of its factors, without those over windows."""
        found = [1] * len(self.nest.loops)
        inside = [one for place, one in enumerate(self.loops) if self.window_at(place) is None]
        for loop, factor in (*inside, *((loop, factor) for _, loop, factor in self.spread)):
            found[loop] *= factor
        return tuple(found)

    @cached_property
    def spans(self) -> tuple[int, ...]:
        """Of every loop the iterations from the first to the last, in all windows."""
        found = list(self.padded)
        for one in self.windows:
            loop, factor = self.loops[one.place]
            found[loop] += (factor - 1) * one.step
        return tuple(found)

    @cached_property
    def places(self) -> tuple[tuple[int, ...], ...]:
        """Of every operand how many loops lie inside each crossing: that to the units, then that into each memory.

        While loops run that leave an operand alone the same tile is asked for, so it stays, but not where others run in
        between. Results leave the units at every step; where these have no latches, everything is read at every step.
        """
        return tuple(tuple(self._places(number)) for number in range(len(self.operands)))

    def _places(self, number: int) -> Iterator[int]:
        moved, inner = self.operands[number].indexed_by, 0
        for crossing, cut in enumerate((0, *self.cuts[number][:-1])):
            at = max(inner, cut)
            while at < len(self.loops) and at not in self.stops and self.loops[at][0] not in moved:
                at += 1
            inner = at
            stays = crossing > 0 or (number != self.written and self.tree.has_latches)
            yield at if stays else 0

    def steps_inside(self, place: int) -> int:
        """Iterations of so many of the innermost loops."""
        return prod(factor for _, factor in self.loops[:place])

    def buffers(self, number: int, crossing: int) -> int:
        """Tiles of an operand for which there is room behind a crossing: at the units one in use and the next."""
        if crossing == 0:
            return 2
        memory = self.chains[number][crossing - 1]
        return 2 if memory.buffers == 2 or self.homes[number] in memory.ahead else 1

    def even_place(self, number: int, crossing: int) -> int | None:
        """The loops inside the place of a memory that changes the tiles of all its operands together."""
        if crossing == 0 or not self.chains[number][crossing - 1].has_even_storage:
            return None
        memory = self.chains[number][crossing - 1]
        moved = [one for one, chain in enumerate(self.chains) if memory in chain[:-1] and self.moves(one)]
        return self.cuts[number][crossing - 1] if len(moved) > 1 else None

    def moves(self, number: int) -> bool:
        """Whether an operand has bits to move."""
        return self.operands[number].element_bits > 0


def expect_simulated(run: TreeRun) -> None:
    """Raises `InputError` for what is not simulated, and `InvalidIR` for a mapping that contradicts its nest."""
    where = f"{run.nest.name} on {run.tree.name}"
    if len(run.nest.reads) != 2:
        raise InputError(f"{where}: nests of two inputs and a result are simulated on trees, this one has "
                         f"{len(run.nest.reads)} inputs; map says what it costs")  # fmt: skip
    for array in run.operands:
        if any(step < 0 for terms in array.axes for _, step in terms):
            raise InputError(f"{where}: {array.name} runs backwards, which is not simulated on trees; turn its loop")
        loops = [loop for terms in array.axes for loop, _ in terms]
        if len(set(loops)) != len(loops):
            raise InputError(f"{where}: a loop indexes {array.name} twice, which is not simulated on trees")
    if any(len(terms) > 1 for terms in run.nest.write.axes):
        raise InputError(f"{where}: results that are indexed by a sum are not simulated on trees")
    for axis in run.tree.axes:
        for network in axis.networks:
            if network.passes_sums:
                raise InputError(
                    f"{where}: sums that neighbours add up along {axis.name} (passes_sums) are simulated on PE arrays "
                    "alone; leave the network out"
                )
    for loop, (one, extent, covered) in enumerate(zip(run.nest.loops, run.extents, run.padded, strict=True)):
        together = prod(factor for _, number, factor in run.spread if number == loop)
        if not extent <= covered < extent + together:
            raise InvalidIR(
                f"{where}: the factors of {one.name} multiply to {covered}, not {extent}"
                + (f", or to less than {extent + together}" if together > 1 else "")
            )
    for array, chain, cuts in zip(run.operands, run.chains, run.cuts, strict=True):
        rises = all(one <= other for one, other in pairwise(cuts))
        if len(cuts) != len(chain) or not rises or cuts[-1] != len(run.loops):
            raise InvalidIR(f"{where}: the cuts of {array.name} are {cuts}")
