"""What a machine is worth to a network: named numbers, each with its unit and where it comes from."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

import numpy as np

from tilestitch.hardware.accelerator import Accelerator, Level, Sharing
from tilestitch.hardware.tree import MachineTree


class Origin(StrEnum):
    """Where a number comes from."""

    SIMULATED = "simulated"
    ESTIMATED = "estimated"
    MACHINE = "machine"  # a fact of the machine, whatever runs on it


@dataclass(frozen=True, slots=True)
class NamedNetwork:
    """A network by name, and the digest of what it is."""

    name: str
    digest: str


Packed: TypeAlias = tuple[NamedNetwork, np.ndarray]  # and the bytes in which it travels: an array is passed on once


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of a point."""

    name: str
    value: int | float
    unit: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class PointResult:
    """What became of one network on one design: its numbers, or why there are none."""

    metrics: tuple[Metric, ...]
    infeasible: str = ""
    bug: bool = False  # whether that is a mistake of Tilestitch rather than of the design


class Evaluator(Protocol):
    """Frozen options, and a call that prices a network on a machine; pickled to wherever the work is done."""

    @property
    def identity(self) -> str:
        """All that its numbers depend on besides machine, network and program, as JSON: part of a point's key."""
        ...

    @property
    def description(self) -> str:
        """What it does, in a few words."""
        ...

    def prepared(self, content: bytes) -> Any:
        """What of a network does not depend on the machine, from the bytes in which it travels."""
        ...

    def __call__(self, machine: Any, prepared: Any, name: str) -> tuple[Metric, ...]:
        """What a network costs on a design: a chip is an `Accelerator`, any other machine a `MachineTree`.

        Raises `DoesNotFit` or `InputError` where the network cannot run on that machine.
        """
        ...


def machine_metrics(machine: Accelerator | MachineTree) -> tuple[Metric, ...]:
    """What a machine costs to build, as far as its file says: multipliers, bytes on chip, and of a tree its area."""
    return _metrics_of_tree(machine) if isinstance(machine, MachineTree) else _metrics_of_chip(machine)


def _metrics_of_tree(tree: MachineTree) -> tuple[Metric, ...]:
    bits = sum(one.size_bits * tree.instances(one) for one in tree.memories if one not in tree.outermost)
    return (
        Metric("macs", tree.units, "MAC/cycle", Origin.MACHINE),
        Metric("memory", -(-bits // 8), "B", Origin.MACHINE),
        *([] if tree.area_mm2 is None else [Metric("area", tree.area_mm2, "mm2", Origin.MACHINE)]),
    )


def _metrics_of_chip(machine: Accelerator) -> tuple[Metric, ...]:
    macs, memory = 0, 0
    for core in machine.cores:
        if core.array is not None:  # whose products the compiler sees as a matrix unit's
            elements = core.array.rows * core.array.columns
            macs += elements
            memory += elements * core.array.register_bytes
        elif core.matrix is not None:
            macs += core.matrix.m * core.matrix.k * core.matrix.n
        memory += sum(local.size_bytes for level in core.levels if (local := machine.memory(level)) is not None)
    shared = machine.memory(Level.GB)
    once = 0 if shared is None or shared.sharing is Sharing.CLUSTER else shared.size_bytes
    memory += 0 if shared is None or once else shared.size_bytes
    return (
        Metric("macs", macs * machine.clusters, "MAC/cycle", Origin.MACHINE),
        Metric("memory", memory * machine.clusters + once, "B", Origin.MACHINE),
    )
