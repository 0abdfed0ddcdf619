"""The sizes and the reading and making of a few operators: what the search for an order looks at, and what it finds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pattern:
    """Operators, by number in an order in which they can run, and the tensors that they touch.

    A tensor that is `live` counts before the first operator already; any other from the first operator that touches
    it. One that `ends` counts until the last operator that reads it, or until it is made where none does.
    """

    size_bytes: tuple[int, ...]  # of each tensor
    live: tuple[bool, ...]
    ends: tuple[bool, ...]
    reads: tuple[tuple[int, ...], ...]  # of each operator, tensors
    makes: tuple[tuple[int, ...], ...]
    in_place: tuple[bool, ...]  # of each operator: whether its result may take the place of an operand that ends


@dataclass(frozen=True, slots=True)
class Best:
    """An order, and bytes beyond those that are live before: the largest number at once, and those after the last."""

    order: tuple[int, ...]
    peak_bytes: int
    after_bytes: int
