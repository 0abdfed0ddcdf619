"""One cluster of a machine, numbered: its memories, engines, and what a transfer occupies on its way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tilestitch.hardware.accelerator import CORE_LEVELS, Accelerator, Level, Memory
from tilestitch.ir.program import Engine, EngineKind, Resource, Space


class OtherCores(NamedTuple):
    """What stands for the spaces, engines and resources of a cluster where its cores take the places of others."""

    spaces: np.ndarray
    engines: np.ndarray
    resources: tuple[int, ...]


@dataclass(frozen=True)
class Cluster:
    """Numbers of the spaces, engines and resources of one cluster."""

    machine: Accelerator

    @property
    def cores(self) -> int:
        return len(self.machine.cores)

    @cached_property
    def spaces(self) -> tuple[Space, ...]:
        """DDR, GB where there is one, then the areas of each core."""
        found = [Space("ddr", Level.DDR, None, self.machine.ddr.size_bytes)]
        gb = self.machine.memory(Level.GB)
        if gb is not None:
            found.append(Space("gb", Level.GB, None, gb.size_bytes))
        for core, parts in enumerate(self.machine.cores):
            for level in CORE_LEVELS:
                memory = self.machine.local(parts, level)
                if memory is not None:
                    found.append(Space(f"{level}{core}", level, core, memory.size_bytes))
        return tuple(found)

    @cached_property
    def _space_numbers(self) -> Mapping[tuple[Level, int | None], int]:
        return {(space.level, space.core): number for number, space in enumerate(self.spaces)}

    def space(self, level: Level, core: int | None = None) -> int:
        """The memory of that level: that of `core`, where each core has one of its own."""
        return self._space_numbers[level, core if level in CORE_LEVELS else None]

    def has(self, level: Level, core: int | None = None) -> bool:
        return (level, core) in self._space_numbers

    @cached_property
    def engines(self) -> tuple[Engine, ...]:
        found = [
            Engine("control", EngineKind.CONTROL, None),
            Engine("dma_in", EngineKind.DMA_IN, None),
            Engine("dma_out", EngineKind.DMA_OUT, None),
        ]
        for core, parts in enumerate(self.machine.cores):
            if parts.matrix is not None:
                name = "matrix" if parts.array is None else "array"
                found.append(Engine(f"{name}{core}", EngineKind.MATRIX, core))
            if parts.vector is not None and not parts.only_array:
                found.append(Engine(f"vector{core}", EngineKind.VECTOR, core))
            found.append(Engine(f"mover{core}", EngineKind.MOVER, core))
        return tuple(found)

    @cached_property
    def _engine_numbers(self) -> Mapping[tuple[EngineKind, int | None], int]:
        found = {(engine.kind, engine.core): number for number, engine in enumerate(self.engines)}
        for core, parts in enumerate(self.machine.cores):
            if parts.only_array:
                found[EngineKind.VECTOR, core] = found[EngineKind.MATRIX, core]
        return found

    def engine(self, kind: EngineKind, core: int | None = None) -> int:
        return self._engine_numbers[kind, core]

    @cached_property
    def resources(self) -> tuple[Resource, ...]:
        """Ports of the memories, one each (per core for the core's), those of the cores to the network, and a channel.

        The channel of DDR is there where DDR has several.
        """
        link = self.machine.link
        found = []
        for space in self.spaces:
            memory = self.machine.memory(space.level)
            assert memory is not None
            found.append(_port(space.name, memory))
        for core in range(self.cores):
            found.append(Resource(f"link{core}", Fraction(link.bandwidth_bytes_per_cycle), 1, link.pj_per_byte))
        if self.machine.ddr.channels > 1:
            found.append(Resource("channel", self.machine.channel_bytes_per_cycle, self.machine.ddr.burst_bytes, 0.0))
        return tuple(found)

    @cached_property
    def alike(self) -> bool:
        """Whether any core may take the place of any other."""
        return len(self.machine.groups) == 1

    def with_cores(self, cores: Sequence[int]) -> OtherCores:
        """Everything by its number where core `i` is `cores[i]`, which is like it."""
        of_core = [None if space.core is None else cores[space.core] for space in self.spaces]
        spaces = [self.space(space.level, core) for space, core in zip(self.spaces, of_core, strict=True)]
        engines = [
            self.engine(engine.kind, None if engine.core is None else cores[engine.core]) for engine in self.engines
        ]
        links = [len(self.spaces) + core for core in cores]
        channel = range(len(self.spaces) + self.cores, len(self.resources))
        return OtherCores(np.array(spaces, np.int64), np.array(engines, np.int64), (*spaces, *links, *channel))

    def path(self, source: int, targets: tuple[int, ...], *, alone: bool) -> tuple[int, ...]:
        """Resources that a transfer occupies: ports of source and targets, and once each link that it crosses.

        A memory with several of the targets is occupied for each of them.

        `alone`: of a kernel on a single core, which reaches DDR by one of its channels.
        """
        places = (source, *targets)
        ends = {self.spaces[space].core for space in places}
        links = {}
        if len(ends) > 1:
            for space in places:
                core = self.spaces[space].core
                if core is not None:
                    links[len(self.spaces) + core] = None
        if alone and self.machine.ddr.channels > 1 and self.space(Level.DDR) in places:
            links[len(self.spaces) + self.cores] = None
        return (*places, *links)


def _port(name: str, memory: Memory) -> Resource:
    return Resource(name, Fraction(memory.bandwidth_bytes_per_cycle), memory.burst_bytes, 0.0)
