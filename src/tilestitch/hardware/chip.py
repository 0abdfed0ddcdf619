"""A machine's file as a chip to compile for: what each memory is for follows from its place in the tree.

- DDR is the outermost memory. It serves all axes, or it is there once for each cluster.
- GB is the one other memory that serves an axis: the cores along its axes are a cluster. Without one, a cluster is what
  shares DDR.
- A memory that serves no axis is a core's own: the local buffer (LB) is the outermost that keeps inputs and results,
  the weight area the outermost with W alone, the accumulators the outermost with O alone.
- All others of a core lie inside its local buffer, and belong to the mapping of a tile (`tree_chip.with_inside`). Then
  so does a weight area where LB keeps W.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import TypeVar

from tilestitch.base.dtypes import DType
from tilestitch.hardware.accelerator import (
    CORE_LEVELS,
    WORD_CYCLES,
    Accelerator,
    Core,
    Dataflow,
    Level,
    Link,
    MatrixUnit,
    Memory,
    PEArray,
    Setup,
    Sharing,
    VectorUnit,
)
from tilestitch.hardware.file_models import CHIP_PARTS, CoreGroupModel, MachineModel, MemoryModel
from tilestitch.hardware.microarchitecture import Microarchitecture
from tilestitch.hardware.unit_models import ArrayModel, MatrixModel, VectorModel

OPERANDS = ("I", "W", "O")

_Number = TypeVar("_Number", int, Fraction)


@dataclass(frozen=True, slots=True)
class Place:
    """What a memory of a chip is for, and how many of it there are."""

    name: str
    level: Level
    sharing: Sharing


@dataclass(frozen=True, slots=True)
class Layout:
    """The memories of a chip from the innermost, and the axes along which cores of a cluster and clusters repeat."""

    places: tuple[Place, ...]
    core_axes: tuple[str, ...]
    cluster_axes: tuple[str, ...]
    others: tuple[str, ...]  # memories without a place: those of a core lie inside its local buffer


def layout_of(model: MachineModel) -> Layout:
    """What the memories of a file are for, as far as compiling knows such memories: `missing` says what is not."""
    *inner, ddr = model.memories
    gb = next((memory for memory in inner if memory.serves), None)
    shared = ddr if gb is None else gb
    axes = [axis.name for axis in model.axes]
    core_axes = tuple(name for name in axes if name in shared.serves)
    cluster_axes = tuple(name for name in axes if name not in shared.serves)
    places = [Place(one.name, level, Sharing.CORE) for level, one in _of_core(model).items()]
    if gb is not None:
        places.append(Place(gb.name, Level.GB, Sharing.CLUSTER))
    sharing = Sharing.CHIP if set(axes) <= set(ddr.serves) else Sharing.CLUSTER
    places.append(Place(ddr.name, Level.DDR, sharing))
    placed = {place.name for place in places}
    order = {memory.name: at for at, memory in enumerate(model.memories)}
    return Layout(
        tuple(sorted(places, key=lambda place: order[place.name])),
        core_axes,
        cluster_axes,
        tuple(memory.name for memory in model.memories if memory.name not in placed),
    )


def _of_core(model: MachineModel) -> dict[Level, MemoryModel]:
    """The memories of a core that programs know: the outermost of each kind."""
    own = [memory for memory in model.memories[:-1] if not memory.serves]
    found = {level: memory for memory in own if (level := _level(memory)) is not None}
    if len(found) < len(own) and Level.LB in found and "W" in found[Level.LB].operands:
        found.pop(Level.WEIGHTS, None)  # it is inside LB for W
    return found


def _level(memory: MemoryModel) -> Level | None:
    """What a memory of a core may be for; None where it can only lie inside the local buffer."""
    if memory.operands == ("W",):
        return Level.WEIGHTS
    if memory.operands == ("O",):
        return Level.ACCUMULATORS
    return Level.LB if {"I", "O"} <= set(memory.operands) <= set(OPERANDS) else None


def missing(model: MachineModel) -> Iterator[str]:
    """What keeps compile from taking a machine, each as the rest of a sentence."""
    parts = [part for part in CHIP_PARTS if getattr(model, part) is None]
    parts += ["clock"] * (model.clock is None)
    if parts:
        yield f"it says no {', '.join(parts)}"
    if model.dma:
        names = ", ".join(engine.name for engine in model.dma)
        yield f"it has DMA engines of its own ({names}), where link and setup say what carries transfers"
    if {"units", "cores"} & set(parts):
        return  # what memories are for is a matter of cores
    yield from _missing_memories(model)
    placed = {place.name for place in layout_of(model).places}
    for memory in (one for one in model.memories if one.name in placed):
        if memory.ports is not None and (len(memory.ports) > 1 or memory.ports[0].operands is not None):
            yield f"{memory.name} has {len(memory.ports)} ports, where one for everything is known"
        if memory.size % 8:
            yield f"{memory.name} holds no whole number of bytes"


def _missing_memories(model: MachineModel) -> Iterator[str]:
    *inner, ddr = model.memories
    layout = layout_of(model)
    shared = [memory for memory in inner if memory.serves]
    if len(shared) > 1:
        names = ", ".join(memory.name for memory in shared)
        yield (
            f"{names} are shared by units or cores, where one such memory inside {ddr.name} is known (as a tree, with "
            "its units as axes and without units, cores, link and setup, it compiles)"
        )
    for memory in (*shared[:1], ddr):
        if set(memory.operands) != set(OPERANDS):
            yield f"{memory.name} keeps {', '.join(memory.operands)}, where a shared memory has to keep I, W and O"
    if shared and set(ddr.serves) not in ({axis.name for axis in model.axes}, set(shared[0].serves)):
        yield f"{ddr.name} is shared by some of the clusters, where one for all of them or one for each is known"
    own = [memory for memory in inner if not memory.serves]
    local = _of_core(model).get(Level.LB)
    if local is None:
        mixed = [memory for memory in own if _level(memory) is None]
        for memory in mixed:
            kept = ", ".join(memory.operands)
            yield f"{memory.name} keeps {kept}, where a core works in a local buffer, which keeps I and O"
        if own and not mixed:
            yield "a core has memories of its own for W or O without a local buffer, which keeps I and O"
        return
    if "W" not in local.operands and all(_level(memory) is not Level.WEIGHTS for memory in own):
        yield f"W has no memory in a core: neither {local.name} keeps it nor one of its own"
    if set(layout.others) & {memory.name for memory in own}:
        yield from _missing_inside(model, local, own)


def _missing_inside(model: MachineModel, local: MemoryModel, own: Sequence[MemoryModel]) -> Iterator[str]:
    """What keeps compile from taking a machine with more memories in a core than programs know."""
    assert model.units is not None, "cores are there"
    assert model.cores is not None, "cores are there"
    outside = own[own.index(local) + 1 :]
    for memory in (one for one in outside if set(one.operands) & set(local.operands)):
        both = ", ".join(name for name in memory.operands if name in local.operands)
        yield f"{memory.name} is outside of {local.name} for {both}, where a core's local buffer is the outermost"
    arrays = [group.array for group in model.cores if group.array is not None]
    if arrays:
        yield f"{arrays[0]} is a PE array, whose core has one memory for I and O"
    multiplying = [group for group in model.cores if group.matrix is not None]
    names = {memory.name for memory in own}
    if any(group.memories is not None and not names <= set(group.memories) for group in multiplying):
        yield f"some of the cores that multiply lack a memory, where all have those inside {local.name}"
    units = {group.matrix: model.units[group.matrix] for group in multiplying if group.matrix is not None}
    if len(units) > 1:
        yield f"{', '.join(units)} multiply, where cores with memories inside {local.name} have one unit"
    for name, unit in units.items():
        rates = _by_type(unit.rates) if isinstance(unit, MatrixModel) else ()
        if other := ", ".join(f"{dtype} {rate}" for dtype, rate in rates if rate != 1):
            yield f"{name} has rates of {other}, where units with memories inside {local.name} have a rate of 1"


def chip_of(model: MachineModel) -> Accelerator:
    """The accelerator of a file of which nothing is `missing`."""
    assert model.units is not None, "nothing is missing"
    assert model.cores is not None, "nothing is missing"
    assert model.link is not None, "nothing is missing"
    assert model.setup is not None, "nothing is missing"
    assert model.clock is not None, "nothing is missing"
    layout = layout_of(model)
    units = {name: _unit(name, unit) for name, unit in model.units.items()}
    sizes = {axis.name: axis.size for axis in model.axes}
    total = prod(sizes[name] for name in layout.core_axes)
    cores: list[Core] = []
    for group, count in zip(model.cores, core_counts(model.cores, total), strict=True):
        cores += [_core(group, units, layout)] * count
    found = {memory.name: memory for memory in model.memories}
    places = sorted(layout.places, key=lambda place: tuple(Level).index(place.level))
    return Accelerator(
        name=model.name,
        description=model.description or model.name,
        clock_hz=model.clock,
        clusters=prod(sizes[name] for name in layout.cluster_axes),
        cores=tuple(cores),
        memories=tuple(_memory(place, found[place.name], model.clock) for place in places),
        link=Link(model.link.bandwidth_bytes_per_cycle, model.link.pj_per_byte),
        setup=Setup(
            dma_cycles=model.setup.dma_cycles,
            mover_cycles=model.setup.mover_cycles,
            compute_cycles=model.setup.compute_cycles,
            launch_cycles=model.setup.launch_cycles,
        ),
        granule_bytes=model.granule_bytes,
    )


def core_counts(groups: Sequence[CoreGroupModel], total: int) -> list[int]:
    """How many cores each group has: those that one group does not say are all that others leave."""
    said = sum(group.count or 0 for group in groups)
    return [total - said if group.count is None else group.count for group in groups]


def _core(group: CoreGroupModel, units: Mapping[str, MatrixUnit | VectorUnit | PEArray], layout: Layout) -> Core:
    matrix = units[group.matrix] if group.matrix is not None else None
    vector = units[group.vector] if group.vector is not None else None
    array = units[group.array] if group.array is not None else None
    assert matrix is None or isinstance(matrix, MatrixUnit), "checked with the file"
    assert vector is None or isinstance(vector, VectorUnit), "checked with the file"
    assert array is None or isinstance(array, PEArray), "checked with the file"
    if array is not None:
        matrix, vector = _products_of(array), vector or _rest_of(array)
    return Core(matrix, vector, array, own_levels(group, layout))


def own_levels(group: CoreGroupModel, layout: Layout) -> tuple[Level, ...]:
    """The memories that the cores of a group have for themselves."""
    named = [
        place.level
        for place in layout.places
        if place.sharing is Sharing.CORE and (group.memories is None or place.name in group.memories)
    ]
    return tuple(level for level in CORE_LEVELS if level in named)


def _unit(name: str, unit: MatrixModel | VectorModel | ArrayModel) -> MatrixUnit | VectorUnit | PEArray:
    match unit:
        case MatrixModel():
            return MatrixUnit(
                name=name,
                m=unit.m,
                k=unit.k,
                n=unit.n,
                dataflow=unit.dataflow,
                systolic=unit.systolic,
                overlapped_folds=unit.overlapped_folds,
                rates=_by_type(unit.rates),
                mac_pj=unit.mac_pj,
            )
        case VectorModel():
            return VectorUnit(name, _by_type(unit.lanes), unit.operation_pj)
        case ArrayModel():
            return PEArray(
                name=name,
                rows=unit.rows,
                columns=unit.columns,
                register_bytes=unit.register_bytes,
                rates=_by_type(unit.rates),
                first_bytes_per_cycle=unit.first_bytes_per_cycle,
                second_bytes_per_cycle=unit.second_bytes_per_cycle,
                result_bytes_per_cycle=unit.result_bytes_per_cycle,
                reduction_bytes_per_cycle=unit.reduction_bytes_per_cycle,
                mac_pj=unit.mac_pj,
                register_pj_per_byte=unit.register_pj_per_byte,
                network_pj_per_byte=unit.network_pj_per_byte,
                networks=unit.networks,
                multicast=unit.multicast,
                reduction=unit.reduction,
                dma_setup_cycles=unit.dma_setup_cycles,
                dma_channels=unit.dma_channels,
                operand_bits=_operand_bits(unit),
                micro=_microarchitecture(unit),
            )


def _microarchitecture(unit: ArrayModel) -> Microarchitecture:
    return Microarchitecture(
        controller=unit.controller,
        multiplier_stages=unit.multiplier_stages,
        adder_stages=unit.adder_stages,
        double_buffered=(unit.first_double_buffered, unit.second_double_buffered, unit.result_double_buffered),
        network_latency_cycles=unit.network_latency_cycles,
        fifo_words=unit.fifo_words,
        register_writes_per_cycle=unit.register_writes_per_cycle,
        instruction_words=unit.instruction_words,
        configuration_words=unit.configuration_words,
        scratchpad_ports=unit.scratchpad_ports,
        scratchpad_port_bytes=unit.scratchpad_port_bytes,
        scratchpad_layout=unit.scratchpad_layout,
        dram_latency_cycles=unit.dram_latency_cycles,
    )


def _products_of(array: PEArray) -> MatrixUnit:
    """What an array is to estimates of products: rows of the result over its columns, columns over its rows."""
    return MatrixUnit(
        name=array.name,
        m=array.columns,
        k=1,
        n=array.rows,
        dataflow=Dataflow.OUTPUT_STATIONARY,
        systolic=False,
        overlapped_folds=True,
        rates=array.rates,
        mac_pj=array.mac_pj,
        network_words=(
            _words(array.first_bytes_per_cycle),
            _words(array.second_bytes_per_cycle),
            _words(array.result_bytes_per_cycle),
        ),
    )


def _words(bytes_per_cycle: Fraction) -> int:
    """Of 16 bits, in so many cycles as estimates count."""
    return max(1, int(bytes_per_cycle * WORD_CYCLES / 2))


def _rest_of(array: PEArray) -> VectorUnit:
    """What an array is to everything else: an operation of each element a cycle, or what its networks can bring.

    An operation takes two words and makes one, of 16 bits; assumed, as the sources of our arrays do only products.
    """
    rates = (array.first_bytes_per_cycle, array.second_bytes_per_cycle, array.result_bytes_per_cycle)
    lanes = max(1, min(array.rows * array.columns, *(int(rate / 2) for rate in rates)))
    energy = array.mac_pj + 6 * (array.register_pj_per_byte + array.network_pj_per_byte)
    return VectorUnit(array.name, ((DType.FLOAT16, lanes),), energy)


def _operand_bits(unit: ArrayModel) -> tuple[int, int, int] | None:
    """Widths of the operands where the file gives one of them; 16 is the default of the others."""
    if not unit.model_fields_set & {"first_bits", "second_bits", "result_bits"}:
        return None
    return unit.first_bits, unit.second_bits, unit.result_bits


def _by_type(numbers: Mapping[DType, _Number]) -> tuple[tuple[DType, _Number], ...]:
    return tuple((dtype, numbers[dtype]) for dtype in DType if dtype in numbers)


def _memory(place: Place, memory: MemoryModel, clock_hz: int) -> Memory:
    rate, burst_bytes, read_pj, write_pj = one_port(memory, clock_hz)
    return Memory(
        level=place.level,
        sharing=place.sharing,
        size_bytes=memory.size // 8,
        bandwidth_bytes_per_cycle=rate,
        burst_bytes=burst_bytes,
        read_pj_per_byte=read_pj,
        write_pj_per_byte=write_pj,
        channels=memory.channels,
        banks=memory.banks,
    )


def one_port(memory: MemoryModel, clock_hz: int) -> tuple[Fraction, int, float, float]:
    """Bytes a cycle, the burst in bytes, and the energies of a byte read and written, of a memory with one port."""
    if memory.ports is None:
        assert memory.bandwidth_bytes_per_cycle is not None, "the file says ports or one port"
        assert memory.burst_bytes is not None, "the file says ports or one port"
        assert memory.read_pj_per_byte is not None, "the file says ports or one port"
        assert memory.write_pj_per_byte is not None, "the file says ports or one port"
        energies = (memory.read_pj_per_byte, memory.write_pj_per_byte)
        return memory.bandwidth_bytes_per_cycle, memory.burst_bytes, *energies
    assert memory.read_pj is not None, "the file says ports or one port"
    assert memory.write_pj is not None, "the file says ports or one port"
    (port,) = memory.ports
    bits = Fraction(port.width_bits)
    if port.bandwidth is not None:
        bits = port.bandwidth.bits / (clock_hz if port.bandwidth.is_per_second else 1)
    burst_bytes = -(-(port.granule_bits or port.width_bits) // 8)
    return bits / 8, burst_bytes, memory.read_pj * 8 / port.width_bits, memory.write_pj * 8 / port.width_bits
