"""The analytical time of a fused block on some cores, as reconstructed for DLFusion (docs/dlfusion.md#block-model).

The paper's own model is not available: everything here is INFERRED from its abstract, from the public interface of the
MLU100 and from the literature that it cites; with the constants that are assumed, the best plans gain between the two
published end points.

A block runs on p cores. Each layer's result is cut into strips along its rows; each core computes its strip of every
layer, and the rows of its neighbours that it needs once more (the halo). Weights and what enters and leaves the block
pass through DDR, nothing else does.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tilestitch.base.errors import InputError
from tilestitch.base.jit import compiled
from tilestitch.base.units import ceil_div
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.hardware.units import matrix_rate

PICOSECONDS = 10**12
CORE_COUNTS = (1, 2, 4, 8, 12, 16, 24, 32)  # INFERRED: a natural set; CNML takes any number up to 32
ILLEGAL = -1


def core_counts(cores: int) -> tuple[int, ...]:
    """The numbers of cores that a block may run on, where there are so many; all of them are one."""
    doubled = (CORE_COUNTS[-1] << times for times in range(1, cores.bit_length()))
    return (*(count for count in (*CORE_COUNTS, *doubled) if count < cores), cores)


@dataclass(frozen=True, slots=True)
class BlockModel:
    """The constants of the model; those without a source are INFERRED (docs/dlfusion.md#block-model)."""

    core_flops: float  # operations a second of one core at full utilization
    bandwidth: float  # bytes a second of DDR
    channel_bandwidth: float  # of one channel: what each core adds until DDR is full
    launch_ps: int
    sync_ps: int  # per core
    layer_ps: int
    granule: int  # channels that a core multiplies at once, on both sides
    local_bytes: int  # of a core
    weight_area_bytes: int  # of that, for slices of weights
    core_counts: tuple[int, ...] = CORE_COUNTS
    serial: bool = False  # arithmetic and transfers one after the other instead of at once
    by_layer: bool = False  # only the transfers of a layer hide behind its arithmetic, not any of the block


def block_model(machine: Accelerator) -> BlockModel:
    """The model of a machine: its peak, its DDR and its launch; the rest is as for the MLU100.

    Raises `InputError` for a machine whose cores multiply otherwise than by a matrix unit.
    """
    core = machine.cores[0]
    if core.matrix is None or any(other.matrix is None for other in machine.cores):
        raise InputError(
            f"machine {machine.name}: has a core without matrix unit, whose blocks the model cannot price; choose a "
            "machine of which every core has one, such as mlu100"
        )
    rates = [matrix_rate(core.matrix, dtype) for dtype, _ in core.matrix.rates]
    rate = float(min(rate for rate in rates if rate is not None))
    peak = 2.0 * machine.clock_hz * core.matrix.m * core.matrix.k * core.matrix.n * rate
    local = machine.memory(machine.home(core))
    local_bytes = local.size_bytes if local is not None else machine.ddr.size_bytes
    ddr = machine.ddr
    return BlockModel(
        core_flops=peak,
        bandwidth=float(ddr.bandwidth_bytes_per_cycle) * machine.clock_hz,
        channel_bandwidth=float(machine.channel_bytes_per_cycle) * machine.clock_hz,
        launch_ps=machine.setup.launch_cycles * PICOSECONDS // machine.clock_hz,
        sync_ps=1_000_000,  # INFERRED: 1 us a core
        layer_ps=2_000_000,  # INFERRED: 2 us a layer
        granule=core.matrix.k,
        local_bytes=local_bytes,
        weight_area_bytes=min(256 * 1024, local_bytes // 8),  # INFERRED
        core_counts=core_counts(len(machine.cores)),
    )


def filled(channels: int, granule: int) -> float:
    """Which part of a core's width so many channels keep busy."""
    return channels / (granule * ceil_div(channels, granule))


@dataclass(frozen=True, slots=True)
class Read:
    """A tensor that a layer reads: of whom, and how many of its rows for some rows of the layer."""

    tensor: int  # number of the layer that makes it, or of an input of the network after the layers
    kernel: int = 1
    stride: int = 1
    whole: bool = False  # every row is needed for any of the layer's


@dataclass(frozen=True, slots=True)
class FusionLayer:
    """One node of a block: an anchor (product, window, sum, concatenation) and what rides with it."""

    name: str
    operators: tuple[str, ...]
    operations: int  # multiplications and additions of the anchor
    utilization: float  # of a core's peak, by its channels
    channels: int  # of its result
    rows: int  # that can be divided among cores
    result_bytes: int
    weight_bytes: int
    reads: tuple[Read, ...]
    fusible: bool = True


@dataclass(frozen=True)
class FusionNetwork:
    """Layers in an order in which they can run; inputs of the network are tensors after them."""

    name: str
    layers: tuple[FusionLayer, ...]
    inputs: tuple[tuple[int, int], ...]  # rows and bytes
    outputs: frozenset[int]  # layers whose results leave the network

    def before(self) -> tuple[tuple[int, ...], ...]:
        """For each layer those whose results it reads."""
        count = len(self.layers)
        return tuple(
            tuple(sorted({read.tensor for read in layer.reads if read.tensor < count})) for layer in self.layers
        )


@dataclass(frozen=True)
class BlockCost:
    """Times of blocks of a network, for one model. `price` is what the search calls; `explain` shows one block."""

    network: FusionNetwork
    model: BlockModel
    halo: bool = True  # without it, strips need nothing of their neighbours: a relaxation
    capacity: bool = True  # without it, every block fits: a relaxation
    traffic_only: bool = False  # only the time of transfers at full bandwidth: a relaxation

    def price(self, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Picoseconds of the best core number of each block, and that number; `ILLEGAL` where no number will do.

        `blocks` has one row a block, one column a layer, 1 where it is inside.
        """
        times = _times(blocks, *self._tables)
        best = np.argmin(np.where(times < 0, np.iinfo(np.int64).max, times), axis=1)
        found = times[np.arange(len(times)), best]
        return found, np.array(self.model.core_counts, np.int64)[best]

    def times(self, blocks: np.ndarray) -> np.ndarray:
        """The same for every core number: a column each."""
        return _times(blocks, *self._tables)

    def relaxed(self, *, halo: bool = True, capacity: bool = True, traffic_only: bool = False) -> "BlockCost":
        """A cost that is never larger."""
        return replace(self, halo=halo, capacity=capacity, traffic_only=traffic_only)

    @cached_property
    def _tables(self) -> tuple[np.ndarray, ...]:
        network, model = self.network, self.model
        layers = network.layers
        ints = [
            (layer.rows, layer.result_bytes, layer.weight_bytes, number in network.outputs, layer.fusible)
            for number, layer in enumerate(layers)
        ]
        work = [layer.operations / (model.core_flops * layer.utilization) * PICOSECONDS for layer in layers]
        reads = [
            (number, read.tensor, read.kernel, read.stride, read.whole)
            for number, layer in enumerate(layers)
            for read in layer.reads
        ]
        options = [
            model.bandwidth,
            model.channel_bandwidth,
            model.launch_ps,
            model.sync_ps,
            model.layer_ps,
            model.local_bytes - model.weight_area_bytes,
            model.serial,
            self.halo,
            self.capacity,
            self.traffic_only,
            model.by_layer,
        ]
        return (
            np.array(ints, np.int64).reshape(len(layers), 5),
            np.array(work, np.float64),
            np.array(reads, np.int64).reshape(len(reads), 5),
            np.array(network.inputs, np.int64).reshape(len(network.inputs), 2),
            np.array(model.core_counts, np.int64),
            np.array(options, np.float64),
        )


@compiled
def _times(
    blocks: np.ndarray,
    layers: np.ndarray,
    work: np.ndarray,
    reads: np.ndarray,
    inputs: np.ndarray,
    core_counts: np.ndarray,
    options: np.ndarray,
) -> np.ndarray:
    """Picoseconds of each block (row) on each number of cores (column)."""
    count, tensors = len(work), len(work) + len(inputs)
    first_read = np.zeros(count + 1, np.int64)
    for index in range(len(reads)):
        first_read[reads[index, 0] + 1] += 1
    for layer in range(count):
        first_read[layer + 1] += first_read[layer]
    outside = np.zeros(count, np.int64)  # readers of a layer that a block leaves out
    need = np.zeros(tensors, np.int64)
    parts = np.zeros(tensors, np.int64)
    last = np.zeros(tensors, np.int64)
    live = np.zeros(count + 1, np.float64)
    counted = np.zeros(tensors, np.int64)
    found = np.full((len(blocks), len(core_counts)), ILLEGAL, np.int64)
    for index in range(len(blocks)):
        block = blocks[index]
        members = np.flatnonzero(block)
        size = len(members)
        legal = True
        outside[:] = 0
        for read in range(len(reads)):
            source = reads[read, 1]
            if source < count and block[source] and not block[reads[read, 0]]:
                outside[source] += 1
        weights, stored = 0.0, 0.0
        for layer in members:
            weights += layers[layer, 2]
            legal = legal and (size == 1 or layers[layer, 4] != 0)
            if outside[layer] or layers[layer, 3]:
                stored += layers[layer, 1]
        if not legal:
            continue
        for option in range(len(core_counts)):
            cores = core_counts[option]
            need[:] = 0
            parts[:] = 0
            last[:] = -1
            compute = 0.0
            for place in range(size - 1, -1, -1):
                layer = members[place]
                rows = layers[layer, 0]
                if outside[layer] or layers[layer, 3]:
                    need[layer] = max(need[layer], -(-rows // cores))
                need[layer] = min(need[layer], rows)
                last[layer] = max(last[layer], place)
                compute += work[layer] * need[layer] / rows + options[4]
                for read in range(first_read[layer], first_read[layer + 1]):
                    source = reads[read, 1]
                    extent = layers[source, 0] if source < count else inputs[source - count, 0]
                    if reads[read, 4]:
                        wanted = extent
                    elif options[7]:
                        wanted = min(extent, (need[layer] - 1) * reads[read, 3] + reads[read, 2])
                    else:
                        wanted = min(
                            extent, need[layer] * reads[read, 3], (need[layer] - 1) * reads[read, 3] + reads[read, 2]
                        )
                    need[source] = max(need[source], wanted)
                    parts[source] = max(parts[source], min(cores, rows))
                    last[source] = max(last[source], place)
            limited = options[8] and size > 1
            if limited and not _fits(members, layers, inputs, reads, first_read, block, need, last, live, options[5]):
                continue
            loaded = 0.0
            for tensor in range(tensors):
                if parts[tensor] > 0 and (tensor >= count or not block[tensor]):
                    extent = layers[tensor, 0] if tensor < count else inputs[tensor - count, 0]
                    size_bytes = layers[tensor, 1] if tensor < count else inputs[tensor - count, 1]
                    loaded += size_bytes * parts[tensor] * need[tensor] / extent
            bandwidth = options[0] if options[9] else min(options[0], options[1] * cores)
            transfer = (loaded + stored + weights) / bandwidth * PICOSECONDS
            if options[9]:
                time = transfer
            else:
                time = compute + transfer if options[6] else max(compute, transfer)
                if options[10] and not options[6]:
                    time = 0.0
                    counted[:] = 0
                    for layer in members:
                        moved = layers[layer, 2] + 0.0
                        if outside[layer] or layers[layer, 3]:
                            moved += layers[layer, 1]
                        for read in range(first_read[layer], first_read[layer + 1]):
                            source = reads[read, 1]
                            if counted[source] or (source < count and block[source]):
                                continue
                            counted[source] = 1
                            extent = layers[source, 0] if source < count else inputs[source - count, 0]
                            size_bytes = layers[source, 1] if source < count else inputs[source - count, 1]
                            moved += size_bytes * parts[source] * need[source] / extent
                        own = work[layer] * need[layer] / layers[layer, 0] + options[4]
                        time += max(own, moved / bandwidth * PICOSECONDS)
                time += options[2] + options[3] * cores
            found[index, option] = int(np.floor(time))
    return found


@compiled
def _fits(
    members: np.ndarray,
    layers: np.ndarray,
    inputs: np.ndarray,
    reads: np.ndarray,
    first_read: np.ndarray,
    block: np.ndarray,
    need: np.ndarray,
    last: np.ndarray,
    live: np.ndarray,
    capacity: float,
) -> bool:
    """Whether the strips that a core holds at once fit: each from its layer, or its first reader, to its last."""
    count = len(layers)
    live[:] = 0.0
    for place in range(len(members)):
        layer = members[place]
        live[place] += layers[layer, 1] * need[layer] / layers[layer, 0]
        live[last[layer] + 1] -= layers[layer, 1] * need[layer] / layers[layer, 0]
        for read in range(first_read[layer], first_read[layer + 1]):
            source = reads[read, 1]
            if (source < count and block[source]) or last[source] < 0:
                continue
            extent = layers[source, 0] if source < count else inputs[source - count, 0]
            size_bytes = layers[source, 1] if source < count else inputs[source - count, 1]
            live[place] += size_bytes * need[source] / extent
            live[last[source] + 1] -= size_bytes * need[source] / extent
            last[source] = -1  # counted
    held = 0.0
    for place in range(len(members)):
        held += live[place]
        if held > capacity:
            return False
    return True
