"""The analytical time of a fused block on some cores, as reconstructed for DLFusion (docs/dlfusion.md#block-model).

The paper's own model is not available: everything here is INFERRED from its abstract, from the public interface of the
MLU100 and from the literature that it cites; with the constants that are assumed, the best plans gain between the two
published end points.

A block runs on p cores. Each layer's result is cut into strips along its rows; each core computes its strip of every
layer, and the rows of its neighbours that it needs once more (the halo). Weights and what enters and leaves the block
pass through DDR, nothing else does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from tilestitch.base.errors import InputError
from tilestitch.base.jit import tiered
from tilestitch.base.shown import Brief
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
            f"machine {machine.name}: has a core without a matrix unit, for which plans of fused blocks (baseline, "
            "fixed-cores, dlfusion and so on) have no prices; leave them out, or choose a machine of which every core "
            "has one, such as mlu100"
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


@dataclass(frozen=True, repr=False)
class FusionNetwork(Brief):
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


@dataclass(frozen=True, repr=False)
class BlockCost(Brief):
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
    def _tables(self) -> "tuple[_Tables, _Constants]":
        network, model = self.network, self.model
        layers, reads = network.layers, [read for layer in network.layers for read in layer.reads]
        tables = _Tables(
            rows=_ints([*(layer.rows for layer in layers), *(rows for rows, _ in network.inputs)]),
            size_bytes=_ints([*(layer.result_bytes for layer in layers), *(size for _, size in network.inputs)]),
            weight_bytes=_ints([layer.weight_bytes for layer in layers]),
            leaves=np.array([number in network.outputs for number in range(len(layers))], np.bool_),
            fusible=np.array([layer.fusible for layer in layers], np.bool_),
            work_ps=np.array(
                [layer.operations / (model.core_flops * layer.utilization) * PICOSECONDS for layer in layers],
                np.float64,
            ),
            first_read=_ints([*accumulate((len(layer.reads) for layer in layers), initial=0)]),
            source=_ints([read.tensor for read in reads]),
            kernel=_ints([read.kernel for read in reads]),
            stride=_ints([read.stride for read in reads]),
            whole=np.array([read.whole for read in reads], np.bool_),
            core_counts=_ints(model.core_counts),
        )
        return tables, _Constants(
            bandwidth=float(model.bandwidth),
            channel_bandwidth=float(model.channel_bandwidth),
            launch_ps=float(model.launch_ps),
            sync_ps=float(model.sync_ps),
            layer_ps=float(model.layer_ps),
            strip_bytes=float(model.local_bytes - model.weight_area_bytes),
            serial=model.serial,
            by_layer=model.by_layer,
            halo=self.halo,
            capacity=self.capacity,
            traffic_only=self.traffic_only,
        )


def _ints(values: Sequence[int]) -> np.ndarray:
    return np.array(values, np.int64)


class _Tables(NamedTuple):
    """A network for compiled code: columns by tensor, which are layers and then inputs, by layer, and by read."""

    rows: np.ndarray  # by tensor
    size_bytes: np.ndarray
    weight_bytes: np.ndarray  # by layer
    leaves: np.ndarray  # whether its result leaves the network
    fusible: np.ndarray
    work_ps: np.ndarray  # of all its rows on one core
    first_read: np.ndarray  # and after the last layer the number of reads
    source: np.ndarray  # by read, those of a layer after those of the one before: the tensor
    kernel: np.ndarray
    stride: np.ndarray
    whole: np.ndarray
    core_counts: np.ndarray


class _Constants(NamedTuple):
    """What a `BlockCost` says of the machine, for compiled code."""

    bandwidth: float
    channel_bandwidth: float
    launch_ps: float
    sync_ps: float
    layer_ps: float
    strip_bytes: float  # of a core, for the strips that it holds at once
    serial: bool
    by_layer: bool
    halo: bool
    capacity: bool
    traffic_only: bool


@tiered
def _times(blocks: np.ndarray, tables: _Tables, constants: _Constants) -> np.ndarray:
    """Picoseconds of each block (row) on each number of cores (column)."""
    rows, first_read, source_of, work_ps = tables.rows, tables.first_read, tables.source, tables.work_ps
    count, tensors = len(work_ps), len(rows)
    outside = np.zeros(count, np.int64)  # readers of a layer that a block leaves out
    need = np.zeros(tensors, np.int64)
    parts = np.zeros(tensors, np.int64)
    last = np.zeros(tensors, np.int64)
    live = np.zeros(count + 1, np.float64)
    counted = np.zeros(tensors, np.int64)
    found = np.full((len(blocks), len(tables.core_counts)), ILLEGAL, np.int64)
    for index in range(len(blocks)):
        block = blocks[index]
        members = np.flatnonzero(block)
        size = len(members)
        legal = True
        outside[:] = 0
        for layer in range(count):
            if not block[layer]:
                for read in range(first_read[layer], first_read[layer + 1]):
                    source = source_of[read]
                    if source < count and block[source]:
                        outside[source] += 1
        weights, stored = 0.0, 0.0
        for layer in members:
            weights += tables.weight_bytes[layer]
            legal = legal and (size == 1 or tables.fusible[layer])
            if outside[layer] or tables.leaves[layer]:
                stored += tables.size_bytes[layer]
        if not legal:
            continue
        for option in range(len(tables.core_counts)):
            cores = tables.core_counts[option]
            need[:] = 0
            parts[:] = 0
            last[:] = -1
            compute = 0.0
            for place in range(size - 1, -1, -1):
                layer = members[place]
                if outside[layer] or tables.leaves[layer]:
                    need[layer] = max(need[layer], -(-rows[layer] // cores))
                need[layer] = min(need[layer], rows[layer])
                last[layer] = max(last[layer], place)
                compute += work_ps[layer] * need[layer] / rows[layer] + constants.layer_ps
                for read in range(first_read[layer], first_read[layer + 1]):
                    source, stride = source_of[read], tables.stride[read]
                    window = (need[layer] - 1) * stride + tables.kernel[read]
                    if tables.whole[read]:
                        wanted = rows[source]
                    elif constants.halo:
                        wanted = min(rows[source], window)
                    else:
                        wanted = min(rows[source], need[layer] * stride, window)
                    need[source] = max(need[source], wanted)
                    parts[source] = max(parts[source], min(cores, rows[layer]))
                    last[source] = max(last[source], place)
            if constants.capacity and size > 1 and not _fits(tables, members, block, need, last, live, constants):
                continue
            loaded = 0.0
            for tensor in range(tensors):
                if parts[tensor] > 0 and (tensor >= count or not block[tensor]):
                    loaded += tables.size_bytes[tensor] * parts[tensor] * need[tensor] / rows[tensor]
            bandwidth = constants.bandwidth
            if not constants.traffic_only:
                bandwidth = min(bandwidth, constants.channel_bandwidth * cores)
            transfer = (loaded + stored + weights) / bandwidth * PICOSECONDS
            if constants.traffic_only:
                time = transfer
            else:
                time = compute + transfer if constants.serial else max(compute, transfer)
                if constants.by_layer and not constants.serial:
                    time = 0.0
                    counted[:] = 0
                    for layer in members:
                        moved = tables.weight_bytes[layer] + 0.0
                        if outside[layer] or tables.leaves[layer]:
                            moved += tables.size_bytes[layer]
                        for read in range(first_read[layer], first_read[layer + 1]):
                            source = source_of[read]
                            if counted[source] or (source < count and block[source]):
                                continue
                            counted[source] = 1
                            moved += tables.size_bytes[source] * parts[source] * need[source] / rows[source]
                        own = work_ps[layer] * need[layer] / rows[layer] + constants.layer_ps
                        time += max(own, moved / bandwidth * PICOSECONDS)
                time += constants.launch_ps + constants.sync_ps * cores
            found[index, option] = int(np.floor(time))
    return found


@tiered
def _fits(
    tables: _Tables,
    members: np.ndarray,
    block: np.ndarray,
    need: np.ndarray,
    last: np.ndarray,
    live: np.ndarray,
    constants: _Constants,
) -> bool:
    """Whether the strips that a core holds at once fit: each from its layer, or its first reader, to its last."""
    count, first_read = len(tables.work_ps), tables.first_read
    live[:] = 0.0
    for place in range(len(members)):
        layer = members[place]
        strip_bytes = tables.size_bytes[layer] * need[layer] / tables.rows[layer]
        live[place] += strip_bytes
        live[last[layer] + 1] -= strip_bytes
        for read in range(first_read[layer], first_read[layer + 1]):
            source = tables.source[read]
            if (source < count and block[source]) or last[source] < 0:
                continue
            strip_bytes = tables.size_bytes[source] * need[source] / tables.rows[source]
            live[place] += strip_bytes
            live[last[source] + 1] -= strip_bytes
            last[source] = -1  # counted
    held = 0.0
    for place in range(len(members)):
        held += live[place]
        if held > constants.strip_bytes:
            return False
    return True
