"""A compiled network beside the sum of its layers, each mapped alone: both numbers, and what makes the difference."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimeRow:
    """A part of both times, in cycles; those of a program are the mean over its cores."""

    of: str
    mapped_cycles: float
    compiled_cycles: float

    @property
    def difference_cycles(self) -> float:
        return self.compiled_cycles - self.mapped_cycles


@dataclass(frozen=True, slots=True)
class LayerRow:
    """A layer as often as it runs, and the kernels that run it with all that these do besides."""

    layer: str
    times: int
    mapped_cycles: int
    compiled_cycles: float

    @property
    def difference_cycles(self) -> float:
        return self.compiled_cycles - self.mapped_cycles


@dataclass(frozen=True, slots=True)
class BesideMap:
    """What `map --objective latency` says (estimated) beside what `compile` says (simulated), of one batch."""

    mapped_cycles: int  # of all layers, one after another
    compiled_cycles: int
    proven: bool  # no mapping of a layer is faster, by the model
    times: tuple[TimeRow, ...]  # whose differences add up
    layers: tuple[LayerRow, ...]  # in the order of the network
    mapped_work: float  # share of the units that multiply, on average while products run
    compiled_work: float

    @property
    def ratio(self) -> float:
        return self.compiled_cycles / self.mapped_cycles
