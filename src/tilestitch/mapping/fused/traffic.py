"""The least that fused mappings of a chain move to and from a buffer, as a function of the buffer's capacity.

As for a nest by itself (`mapping/tree/traffic.py`) there is one buffer, and a memory outside it that holds everything.
Here operators may run together, and then what passes between them stays in the buffer. Where a chain has windows, rows
of intermediates at the edge of a tile are made again or kept, and no input slides in operators that run together; a
schedule that keeps rows of these could move less.
"""

from dataclasses import dataclass

from tilestitch.base.errors import DoesNotFit, TooLarge
from tilestitch.ir.loop_nest import LoopNest
from tilestitch.mapping.fused.chain import MOST_OPERATORS, Chain, Link, Reading
from tilestitch.mapping.fused.search import best_chain
from tilestitch.mapping.tree.countable import countable
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.tables import FEMTO
from tilestitch.mapping.tree.traffic import buffer_tree, whole_bits


@dataclass(frozen=True, slots=True)
class ChainTraffic:
    """Bits that cross at least, both ways."""

    together: int  # operators run together where that is better
    apart: int  # one after another, each with the buffer for itself


@dataclass(frozen=True, slots=True)
class BufferedChain:
    """Nests that read from one another, as in a chain, behind a buffer of any capacity; up to `most` run together."""

    name: str
    nests: tuple[LoopNest, ...]
    links: tuple[Link, ...]
    most: int = MOST_OPERATORS
    readers: tuple[int, ...] = ()
    more: tuple[Reading, ...] = ()

    @property
    def whole_bits(self) -> int:
        """Of all operands of all nests."""
        return sum(whole_bits(nest) for nest in self.nests)

    def least_bits(self, capacity_bits: int) -> ChainTraffic | None:
        """What crosses at least; None where an operator does not fit even by single elements.

        Raises `TooLarge` where the search does not come to its end with the labels that are looked at.
        """
        tree = buffer_tree(min(capacity_bits, self.whole_bits), self.whole_bits, max(map(_count, self.nests)))
        placed = tuple(
            PlacedNest(countable(nest), nest.write.element_bits, tree.operands[: _count(nest)], (), tree)
            for nest in self.nests
        )
        try:
            found = best_chain(
                Chain(self.name, placed, self.links, readers=self.readers, more=self.more), most=self.most
            )
        except DoesNotFit:
            return None
        if not found.is_proven:
            raise TooLarge(f"{self.name}: no least traffic among {found.labels:,} labels; ask for a larger capacity")
        return ChainTraffic(round(found.energy_pj * FEMTO), round(found.unfused_pj * FEMTO))

    def compulsory_bits(self) -> int:
        """What crosses at least with room for everything."""
        found = self.least_bits(self.whole_bits)
        assert found is not None, "there is room for everything"
        return found.together

    def enough_bytes(self, step: int) -> int:
        """The least capacity, in bytes and a multiple of `step`, from which on no more crosses than is compulsory."""
        compulsory = self.compulsory_bits()

        def is_enough(steps: int) -> bool:
            found = self.least_bits(8 * step * steps)
            return found is not None and found.together == compulsory

        most = -(-self.whole_bits // (8 * step))
        least = most // 2  # large buffers have short searches, so halve before anything else
        while least > 0 and is_enough(least):
            least, most = least // 2, least
        while most - least > 1:
            middle = (least + most) // 2
            least, most = (least, middle) if is_enough(middle) else (middle, most)
        return step * most


def _count(nest: LoopNest) -> int:
    return len(nest.operands)
