"""What no plan of fused blocks can cost less than: a physical limit, and more (docs/dlfusion.md#bounds)."""

from dataclasses import dataclass

from tilestitch.base.units import ceil_div
from tilestitch.partition.blocks.model import PICOSECONDS, BlockCost, FusionNetwork, Read
from tilestitch.partition.ideals import exact


@dataclass(frozen=True)
class FusionBounds:
    """Lower bounds in picoseconds; None where the network has too many ideals for the search that gives it."""

    roofline: int  # LB0: all arithmetic on all cores, or every byte once; holds for any schedule of the model's machine
    overheads: int  # LB1: strips of whole rows, every layer's overhead, one launch
    traffic: int | None  # LB2: the least traffic of any plan whose blocks fit
    relaxed: int | None  # LB3: the best plan if nothing were computed twice and everything fitted

    @property
    def best(self) -> int:
        """The largest."""
        return max(value for value in (self.roofline, self.overheads, self.traffic, self.relaxed) if value is not None)

    @property
    def binding(self) -> str:
        """Which of them that is; the plainest where several are."""
        named = (
            ("roofline", self.roofline),
            ("overheads", self.overheads),
            ("traffic", self.traffic),
            ("relaxed", self.relaxed),
        )
        return next(name for name, value in named if value == self.best)


def fusion_bounds(cost: BlockCost) -> FusionBounds:
    """All bounds of a network."""
    network, model = cost.network, cost.model
    once = model.launch_ps + model.sync_ps * min(model.core_counts)
    bytes_once = sum(layer.weight_bytes for layer in network.layers)
    bytes_once += sum(size for number, (_, size) in enumerate(network.inputs) if _loaded_whole(network, number))
    bytes_once += sum(network.layers[number].result_bytes for number in sorted(network.outputs))
    transfer = int(bytes_once / model.bandwidth * PICOSECONDS)
    cores = max(model.core_counts)
    rows = _least_rows(network, 1)
    operations = sum(
        layer.operations * rows[number] / layer.rows / layer.utilization for number, layer in enumerate(network.layers)
    )
    floors = _compute_floor(cost)
    before = network.before()
    least = exact(before, cost.relaxed(traffic_only=True).price)
    relaxed = exact(before, cost.relaxed(halo=False, capacity=False).price)
    return FusionBounds(
        roofline=max(int(operations / model.core_flops / cores * PICOSECONDS), transfer),
        overheads=max(floors, transfer) + once,
        traffic=None if least is None else least.plan.cost + once,
        relaxed=None if relaxed is None else relaxed.plan.cost,
    )


def _loaded_whole(network: FusionNetwork, number: int) -> bool:
    """Whether somebody reads every row of an input: no stride leaves rows out."""
    tensor = number + len(network.layers)
    return any(
        read.tensor == tensor and (read.whole or read.stride == 1) for layer in network.layers for read in layer.reads
    )


def _compute_floor(cost: BlockCost) -> int:
    """The arithmetic of every layer on the core number that suits it, in whole rows, and its overhead."""
    network, model = cost.network, cost.model
    every = [_least_rows(network, cores) for cores in model.core_counts]
    total = 0.0
    for number, layer in enumerate(network.layers):
        work = layer.operations / (model.core_flops * layer.utilization) * PICOSECONDS
        total += work * min(rows[number] for rows in every) / layer.rows
    return int(total) + len(network.layers) * model.layer_ps


def _least_rows(network: FusionNetwork, cores: int) -> list[int]:
    """Rows of each layer that a core computes at least, whatever the blocks; rows that no stride reads are left out."""
    count = len(network.layers)
    readers: list[list[tuple[int, Read]]] = [[] for _ in network.layers]
    for number, layer in enumerate(network.layers):
        for read in layer.reads:
            if read.tensor < count:
                readers[read.tensor].append((number, read))
    need = [0] * count
    for number in range(count - 1, -1, -1):
        layer = network.layers[number]
        rows = ceil_div(layer.rows, cores)
        for reader, read in readers[number]:
            taken = min(need[reader] * read.stride, (need[reader] - 1) * read.stride + read.kernel)
            rows = min(rows, layer.rows if read.whole else taken)
        need[number] = max(1, rows)
    return need
