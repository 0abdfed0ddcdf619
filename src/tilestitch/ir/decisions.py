"""A schedule without its network: every decision, the partition among them.

With the network and the machine it is all that lowering needs. A file holds it (`--stop-after schedule --json`).
"""

from dataclasses import dataclass

from tilestitch.ir.graph import Graph
from tilestitch.ir.partition import Partition
from tilestitch.ir.run import Run
from tilestitch.ir.schedule import BlockRun, Home, Kernel, PieceRun, Schedule


@dataclass(frozen=True, slots=True)
class Decisions:
    """What is scheduled together, then every kernel in order with its tiles and cores, and where each result waits."""

    run: Run
    partition: Partition
    kernels: tuple[Kernel, ...]
    homes: tuple[Home, ...]
    pieces: tuple[PieceRun, ...]
    blocks: tuple[BlockRun, ...]
    notes: tuple[str, ...]

    def of(self, graph: Graph) -> Schedule:
        """The schedule of a network whose views are composed away."""
        run = self.run
        return Schedule(
            run.strategy,
            graph,
            run.batch,
            run.iterations,
            run.clusters,
            self.kernels,
            self.homes,
            self.notes,
            self.pieces,
            self.blocks,
        )


def decisions_of(schedule: Schedule, partition: Partition) -> Decisions:
    """Every decision of a schedule, and the partition that it was made from."""
    run = Run(schedule.strategy, schedule.batch, schedule.iterations, schedule.clusters)
    return Decisions(run, partition, schedule.kernels, schedule.homes, schedule.pieces, schedule.blocks, schedule.notes)
