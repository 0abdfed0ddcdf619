"""Pieces of split sub-graphs, and which piece needs which."""

from collections.abc import Mapping
from dataclasses import dataclass

from tilestitch.ir.region import Region


@dataclass(frozen=True, slots=True)
class Instance:
    """One piece of a split sub-graph: the part of each of its outputs that it makes, and what it reads for that."""

    number: int  # in the order of the groups, then of their pieces
    name: str  # "g0[3]": piece 3 of group 0
    group: int
    operators: tuple[str, ...]
    writes: Mapping[str, Region]  # output of the group -> the piece of it that is made here
    reads: Mapping[str, Region]  # tensor from outside, constants left out -> the part that is needed
    boxes: Mapping[str, Region]  # operator -> its iterations


@dataclass(frozen=True, slots=True)
class InstanceGraph:
    """Instances with their dependences: `producers[i]` are the numbers of those whose results instance i reads."""

    instances: tuple[Instance, ...]
    producers: tuple[tuple[int, ...], ...]

    @property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        found: list[list[int]] = [[] for _ in self.instances]
        for number, producers in enumerate(self.producers):
            for producer in producers:
                found[producer].append(number)
        return tuple(map(tuple, found))
