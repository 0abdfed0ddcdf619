"""How a search of schedules came to the fastest that it found: its search curve."""

from dataclasses import dataclass

START = "start"  # what made a schedule that the search began with


@dataclass(frozen=True, slots=True)
class SearchStep:
    """A schedule that is faster than all before it."""

    evaluations: int  # candidates that were simulated by then, this one among them; 0: known before
    latency_cycles: int
    by: str  # what made it: a strategy, `START`, or the kind of the last move


@dataclass(frozen=True, slots=True)
class Searched:
    """Latency against evaluations: what was faster than all before, in the order in which it was found."""

    evaluations: int  # candidates that were simulated in all
    steps: tuple[SearchStep, ...]
