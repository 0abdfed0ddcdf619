"""The least that any mapping of a nest moves to and from a buffer, as a function of the buffer's capacity.

Q. Huang et al., "Mind the Gap: Attainable Data Movement and Operational Intensity Bounds for Tensor Algorithms" (ISCA
2024, Orojenesis), call the curve a ski slope [RECALL: the name; the search here is our own]. It is a question about the
nest alone: one buffer that any operand may take any part of, one memory outside it that holds everything, and no units
that would need something at a certain time. So it says what a capacity is worth before there is a machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tilestitch.base.errors import TooLarge
from tilestitch.hardware.tree import Flow, MachineTree, Port, TreeMemory
from tilestitch.ir.loop_nest import LoopNest
from tilestitch.mapping.tree import labels
from tilestitch.mapping.tree.countable import countable
from tilestitch.mapping.tree.placed import PlacedNest
from tilestitch.mapping.tree.problem import MOST_STATES, problem_of, states_of
from tilestitch.mapping.tree.sliding import with_slides
from tilestitch.mapping.tree.tables import FEMTO, Sums, tables_of

MOST_LABELS = 20_000_000
_BUFFER, _OUTSIDE = "buffer", "outside"


@dataclass(frozen=True, slots=True, eq=False)
class BufferedNest:
    """A nest behind a buffer of any capacity; `BufferedNest.of` prepares one."""

    nest: LoopNest
    whole_bits: int  # of all operands
    problems: tuple[labels.Problem, ...]  # one for each way in which windows may slide

    @classmethod
    def of(cls, nest: LoopNest) -> "BufferedNest":
        """Raises `TooLarge` where the search would need more than is kept."""
        placed = buffered(nest, max(1, whole_bits(nest)))
        problems = tuple(problem_of(tables_of(one, Sums.FULL)) for one in with_slides([placed]))
        if states_of(problems[0]) > MOST_STATES:
            raise TooLarge(
                f"{nest.name}: {states_of(problems[0]):,} states of the search; at most {MOST_STATES:,} are kept"
            )
        return cls(nest, whole_bits(nest), problems)

    def least_bits(self, capacity_bits: int, most_labels: int = MOST_LABELS) -> int | None:
        """What crosses at least, both ways; None where not even single elements fit.

        Raises `TooLarge` where more than `most_labels` partial mappings would have to be looked at.
        """
        found: list[int] = []
        for problem in self.problems:
            limit = np.array([float(min(capacity_bits, self.whole_bits)), *problem.limit[1:]])
            ended, bits, count, _ = labels.least_chain(problem._replace(limit=limit), 1, most_labels)
            if ended == labels.STOPPED:
                raise TooLarge(f"{self.nest.name}: no least traffic among {count:,} labels; ask for a larger capacity")
            if ended == labels.FOUND:
                found.append(int(bits))
        return min(found, default=None)

    def compulsory_bits(self) -> int:
        """What crosses at least with room for everything: every element that is needed, once."""
        bits = self.least_bits(self.whole_bits)
        assert bits is not None
        return bits

    def enough_bytes(self) -> int:
        """The least capacity, in bytes, from which on nothing crosses twice."""
        least, most, compulsory = 0, -(-self.whole_bits // 8), self.compulsory_bits()
        while most - least > 1:
            middle = (least + most) // 2
            if self.least_bits(8 * middle) == compulsory:
                most = middle
            else:
                least = middle
        return most


def buffered(nest: LoopNest, capacity_bits: int) -> PlacedNest:
    """A nest on a machine of a buffer and what is outside, where a bit that crosses costs a femtojoule."""
    tree = buffer_tree(capacity_bits, whole_bits(nest), len(nest.operands))
    return PlacedNest(countable(nest), nest.write.element_bits, tree.operands, (), tree)


def buffer_tree(capacity_bits: int, held_bits: int, operands: int) -> MachineTree:
    """A buffer for so many operands, and outside it room for so many bits, twice as windows may need."""
    names = tuple(f"operand {number}" for number in range(operands))
    inside = _memory(_BUFFER, capacity_bits, names, pj_per_bit=0.0)
    outside = _memory(_OUTSIDE, 2 * held_bits + 1, names, pj_per_bit=1 / FEMTO)
    return MachineTree("buffered", (), (inside, outside), mac_pj=0.0, has_latches=False, reads_first_sums=False)


def _memory(name: str, size_bits: int, operands: Sequence[str], *, pj_per_bit: float) -> TreeMemory:
    """One port for everything, a bit wide, so that every bit is counted."""
    port = Port("port", 1, 1, tuple((operand, flow) for operand in operands for flow in Flow))
    return TreeMemory(
        name, size_bits, tuple(operands), (port,), pj_per_bit, pj_per_bit, (), has_sliding_window=name == _BUFFER
    )


def whole_bits(nest: LoopNest) -> int:
    """Of all operands of a nest."""
    return sum(prod(array.shape) * array.element_bits for array in nest.operands)
