"""A cheap evaluator, and explorations with it: in a module of its own, so that other processes can import it."""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tilestitch.base.errors import DoesNotFit
from tilestitch.exploration.evaluator import Metric, NamedNetwork, Origin, Packed
from tilestitch.exploration.explore_text import explored_json, points_csv
from tilestitch.exploration.identity import digest_of
from tilestitch.exploration.methods import Grid, Method
from tilestitch.exploration.objectives import objective_named
from tilestitch.exploration.run import Explored, explore
from tilestitch.exploration.space import Space, space
from tilestitch.exploration.store import Store
from tilestitch.exploration.values import values_of
from tilestitch.exploration.workers import Workers
from tilestitch.hardware.accelerator import Accelerator, Level
from tilestitch.hardware.load import machine_text

VARIED = ("memories.lb.size=1024..65536*2", "bandwidth=2..16*2", "clusters=1,2")  # 7 x 4 x 2 machines


@dataclass(frozen=True)
class Formula:
    """Prices a machine by its numbers, and notes each call in a file."""

    log: Path
    seconds: float = 0.0  # that a call takes
    identity: str = "formula"
    description: str = "priced by a formula"

    def prepared(self, content: bytes) -> bytes:
        return content

    def __call__(self, machine: Accelerator, prepared: bytes, name: str) -> tuple[Metric, ...]:
        local = machine.memory(Level.LB)
        assert local is not None
        size, rate = local.size_bytes, machine.ddr.bandwidth_bytes_per_cycle
        with open(self.log, "ab", buffering=0) as file:
            file.write(f"{name} {size} {rate} {machine.clusters}\n".encode())
        time.sleep(self.seconds)
        if size < 2048 * machine.clusters:
            raise DoesNotFit(f"{size:,} B are too few for {name} on {machine.clusters} clusters")
        length = len(name)
        cycles = length * 10**6 // int(size * rate * machine.clusters)
        return (
            Metric("cycles", cycles, "cycles", Origin.ESTIMATED),
            Metric("latency", cycles / machine.clock_hz, "s", Origin.ESTIMATED),
            Metric("energy", float(length * size**0.5 * rate * machine.clusters), "pJ", Origin.ESTIMATED),
        )

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


def networks(*names: str) -> list[Packed]:
    """Networks of which only the name matters."""
    return [(NamedNetwork(name, digest_of(name.encode())), np.frombuffer(name.encode(), np.uint8)) for name in names]


def toy_space(*varied: str, machine: str = "toy", scale_energy: bool = False) -> Space:
    """The machines that the options `--vary` describe."""
    pairs = [one.partition("=") for one in varied or VARIED]
    text, where = machine_text(machine)
    return space(text, where, [(name, values_of(values, name)) for name, _, values in pairs], scale_energy=scale_energy)


def explored_by(
    formula: Formula,
    method: Method = Grid(),
    *,
    store: Path | None = None,
    workers: Workers = Workers(1),
    names: tuple[str, ...] = ("net", "other"),
    objectives: tuple[str, ...] = ("latency", "energy"),
) -> Explored:
    """An exploration of the usual space."""
    with Store(store) as points:
        return explore(
            toy_space(),
            networks(*names),
            formula,
            method,
            [objective_named(name) for name in objectives],
            store=points,
            workers=workers,
            progress=lambda step, done, total: None,
        )


def told(explored: Explored) -> str:
    """All of it that does not depend on what was in the store."""
    value = json.loads(explored_json(explored))
    del value["run"]
    return json.dumps(value) + points_csv(explored)


def main(log: str, store: str, seconds: str, workers: str) -> None:
    """The same in a process that can be killed."""
    explored_by(Formula(Path(log), float(seconds)), store=Path(store), workers=Workers(int(workers)))
    os._exit(0)
