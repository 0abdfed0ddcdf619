"""Points by compiling and simulating."""

import json
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np
import onnx
from google.protobuf.message import EncodeError

from tilestitch.base.errors import InputError
from tilestitch.exploration.evaluator import Metric, NamedNetwork, Origin, Packed
from tilestitch.exploration.identity import digest_of
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.by_hand import FusionPlan
from tilestitch.pipeline.compile import compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import AUTO, Strategy, strategy_named, strategy_of_plan


def packed_model(model: onnx.ModelProto, name: str) -> Packed:
    """A network for `Simulated`."""
    try:
        content = model.SerializeToString(deterministic=True)
    except (ValueError, EncodeError):  # protobuf's limit
        raise InputError(f"{name}: has more than 2 GiB, which cannot be passed to other processes") from None
    return NamedNetwork(name, digest_of(content)), np.frombuffer(content, np.uint8)


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
        way = AUTO.description if name == AUTO.name else f"strategy {name}"
        batch = "" if self.options.batch is None else f", batch {self.options.batch:,}"
        return f"compiled by {way}{batch}, and simulated"

    def prepared(self, content: bytes) -> onnx.ModelProto:
        """The network; whoever compiles it leaves it as it is."""
        return onnx.ModelProto.FromString(content)

    def __call__(self, machine: Accelerator, prepared: onnx.ModelProto, name: str) -> tuple[Metric, ...]:
        report = compile_network(prepared, name, machine, self._strategy(), self.options).report
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
