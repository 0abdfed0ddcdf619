"""Which result gives way where not all that should stay on chip finds room.

Source: Zhao et al., GraphTurbo, OSDI 2023, section 4.3: the tensor that is live across the most computation tasks;
prior work spills the largest.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tilestitch.ir.choices import Spill


@dataclass(frozen=True, slots=True)
class Stay:
    """What a policy looks at: how long a result stays, how large it is and when it is read next, counted in kernels."""

    first: int
    last: int
    size_bytes: int
    next_reader: int


def gives_way(spill: Spill, stays: Sequence[Stay]) -> int:
    """The number of the one of `stays` that goes down; of equals the one that was made first."""

    def weight(stay: Stay) -> int:
        if spill is Spill.LARGEST:
            return stay.size_bytes
        return stay.next_reader if spill is Spill.BELADY else stay.last - stay.first

    return max(range(len(stays)), key=lambda number: (weight(stays[number]), -stays[number].first, -number))
