"""What a machine is worth to a network: named numbers, each with its unit and where it comes from."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from typing import Protocol

import onnx

from tilestitch.compilation import Options, Strategy, strategy_named, strategy_of_plan
from tilestitch.hardware.accelerator import Accelerator, Level, Sharing
from tilestitch.ir.by_hand import FusionPlan
from tilestitch.pipeline import compile_network


class Origin(StrEnum):
    """Where a number comes from."""

    SIMULATED = "simulated"
    ESTIMATED = "estimated"
    MACHINE = "machine"  # a fact of the machine, whatever runs on it


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of a point."""

    name: str
    value: int | float
    unit: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Outcome:
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

    def __call__(self, machine: Accelerator, model: onnx.ModelProto, name: str) -> tuple[Metric, ...]:
        """Raises `DoesNotFit` or `InputError` where the network cannot run on that machine."""
        ...


@dataclass(frozen=True)
class Simulated:
    """Compile by one strategy, and simulate."""

    strategy: str | FusionPlan
    options: Options

    @property
    def identity(self) -> str:
        return json.dumps({"evaluator": "simulated", **asdict(self)}, sort_keys=True, default=str)

    @property
    def description(self) -> str:
        name = self.strategy if isinstance(self.strategy, str) else self.strategy.name
        batch = "" if self.options.batch is None else f", batch {self.options.batch:,}"
        return f"compiled by strategy {name}{batch}, and simulated"

    def __call__(self, machine: Accelerator, model: onnx.ModelProto, name: str) -> tuple[Metric, ...]:
        report = compile_network(model, name, machine, self._strategy(), self.options).report
        assert report is not None, "it was simulated"
        metric = partial(Metric, origin=Origin.SIMULATED)
        return (
            metric("cycles", report.latency_cycles, "cycles"),
            metric("latency", report.latency_seconds, "s"),
            metric("energy", report.total_energy_pj * report.clusters, "pJ"),
            metric("traffic", report.ddr_bytes * report.clusters, "B"),
        )

    def expect_strategy(self) -> None:
        """Refuse a strategy that is not known, before the work."""
        self._strategy()

    def _strategy(self) -> Strategy:
        return strategy_named(self.strategy) if isinstance(self.strategy, str) else strategy_of_plan(self.strategy)


def machine_metrics(machine: Accelerator) -> tuple[Metric, ...]:
    """What a machine costs to build, as far as its file says: multipliers, and bytes on chip."""
    macs, memory = 0, 0
    for core in machine.cores:
        macs += 0 if core.matrix is None else core.matrix.m * core.matrix.k * core.matrix.n
        if core.array is not None:
            elements = core.array.rows * core.array.columns
            macs += elements
            memory += elements * core.array.register_bytes
        memory += sum(local.size_bytes for level in core.levels if (local := machine.memory(level)) is not None)
    shared = machine.memory(Level.GB)
    once = 0 if shared is None or shared.sharing is Sharing.CLUSTER else shared.size_bytes
    memory += 0 if shared is None or once else shared.size_bytes
    return (
        Metric("macs", macs * machine.clusters, "MAC/cycle", Origin.MACHINE),
        Metric("memory", memory * machine.clusters + once, "B", Origin.MACHINE),
    )
