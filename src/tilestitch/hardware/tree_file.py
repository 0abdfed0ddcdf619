"""Machine trees from files: axes, memories from the innermost to the outermost, and what an operation costs.

Of a chip the units have no axes in the file. A matrix unit of m x k x n adds those that are not of one: along `UNIT.m`
loops of I and O may be spread, along `UNIT.k` those of I and W, along `UNIT.n` those of W and O. What it holds still is
in a register of each multiplier, whose energy is part of a multiply-accumulate. An array of processing elements adds
one axis, as its model knows no rows and columns, with its networks and register files.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import prod

from tilestitch.hardware.accelerator import Dataflow, Level
from tilestitch.hardware.array_machine import halves
from tilestitch.hardware.chip import OPERANDS, Layout, core_counts, layout_of, one_port, own_levels
from tilestitch.hardware.file_models import MAX_UNITS, CoreGroupModel, MachineModel, MemoryModel
from tilestitch.hardware.tree import MAX_LEVELS, Axis, Flow, MachineTree, Network, Port, TreeMemory, tree_faults
from tilestitch.hardware.tree_dma import engine_faults, engines_of
from tilestitch.hardware.tree_network import Storage, network_faults, networks_of, rate_fault
from tilestitch.hardware.unit_models import ArrayModel, MatrixModel
from tilestitch.hardware.yaml_tree import Mistake

SUM_BITS = 32  # of a partial sum in a matrix unit
WORD_BITS = 16  # of an operand, where a unit multiplies such


@dataclass(frozen=True, slots=True)
class Multiplier:
    """A group of cores that multiply, and the unit with which they do."""

    group: CoreGroupModel
    name: str
    unit: MatrixModel | ArrayModel


def multiplier_of(model: MachineModel) -> Multiplier | None:
    """The first group of cores with a unit that multiplies; None where there is none."""
    for group in model.cores or ():
        name = group.matrix or group.array
        unit = (model.units or {}).get(name) if name is not None else None
        if name is not None and isinstance(unit, MatrixModel | ArrayModel):
            return Multiplier(group, name, unit)
    return None


def tree_of_model(model: MachineModel) -> MachineTree:
    """The tree of a file: of a chip that of the cores that multiply, with the axes of their unit inside."""
    axes, memories = _parts(model)
    if model.cores is None:
        memories = tuple(map(_in_banks, memories, model.memories))
    mac_pj = model.mac_pj or 0.0
    found = multiplier_of(model)
    if found is not None:
        layout, shared = layout_of(model), {memory.name for memory in model.memories if memory.serves}
        inner, registers = _inside(found)
        outer = tuple(axis for axis in _limited(model, found.group, axes, layout) if axis.size > 1)
        levels = (*own_levels(found.group, layout), Level.GB, Level.DDR)
        kept = {place.name for place in layout.places if place.level in levels}
        named = found.group.memories
        kept |= {name for name in layout.others if name in shared or named is None or name in named}
        names, repeated = tuple(axis.name for axis in inner), {axis.name for axis in outer}
        around = (
            replace(one, serves=(*names, *(axis for axis in one.serves if axis in repeated)))
            for one in memories
            if one.name in kept
        )
        axes, memories, mac_pj = (*inner, *outer), (*registers, *around), found.unit.mac_pj
    engines = engines_of(model.dma, [memory.name for memory in memories], _cycles(model))
    tree = MachineTree(
        model.name,
        axes,
        memories,
        mac_pj,
        model.description,
        model.clock,
        model.mac_area_mm2,
        model.latches,
        model.reads_first_sums,
        model.moves_boxes,
        engines,
        model.bits,
        model.sum_bits if model.sum_bits is not None else model.bits,
    )
    return tree if found is None or isinstance(found.unit, MatrixModel) else _around_array(tree, model)


def _around_array(tree: MachineTree, model: MachineModel) -> MachineTree:
    """The tree of an array, with what its model says of the scratchpad, of DRAM and of how tiles move.

    A scratchpad in two halves of whole banks, where tiles of all operands change at once; boxes that are moved byte by
    byte; register files that are read and written at every step; and sums that are not read before the first addition.
    """
    registers, *around = tree.memories
    if len(around) < 2:
        return tree  # nobody maps on an array without a scratchpad
    scratchpad, *between, dram = around
    banks, bank_bytes = halves(scratchpad.size_bits // 8, _banks(model, scratchpad.name))
    link_pj = model.link.pj_per_byte if model.link is not None else 0.0
    return replace(
        tree,
        memories=(
            replace(registers, has_even_storage=True),
            replace(
                _by_bytes(scratchpad, 0.0),
                size_bits=2 * banks * bank_bytes * 8,
                buffers=2,
                bank_bits=bank_bytes * 8,
                has_even_storage=True,
            ),
            *between,
            _by_bytes(dram, link_pj),
        ),
        has_latches=False,
        reads_first_sums=False,
        moves_boxes=True,
    )


def _in_banks(memory: TreeMemory, model: MemoryModel) -> TreeMemory:
    return replace(memory, bank_bits=memory.size_bits // model.banks) if model.banks > 1 else memory


def _banks(model: MachineModel, name: str) -> int:
    return next(memory.banks for memory in model.memories if memory.name == name)


def _by_bytes(memory: TreeMemory, more_pj: float) -> TreeMemory:
    """A memory of one port with accesses of a byte each, and of parts of one."""
    if len(memory.ports) != 1:
        return memory
    (port,) = memory.ports
    byte = Port(port.name, 8, 1, port.flows, port.bits_per_cycle)
    scale = 8 / port.width_bits
    read_pj, write_pj = (energy * scale + more_pj for energy in (memory.read_pj, memory.write_pj))
    return replace(memory, ports=(byte,), read_pj=read_pj, write_pj=write_pj)


def _parts(model: MachineModel) -> tuple[tuple[Axis, ...], tuple[TreeMemory, ...]]:
    """The axes and memories as they are in the file."""
    cycles = _cycles(model)
    operands = sorted({operand for memory in model.memories for operand in memory.operands})
    axes = tuple(
        Axis(axis.name, axis.size, axis.loops or (), axis.operands or (), networks_of(axis.networks, operands, cycles))
        for axis in model.axes
    )
    return axes, tuple(_memory(memory, cycles) for memory in model.memories)


def _limited(model: MachineModel, group: CoreGroupModel, axes: tuple[Axis, ...], layout: Layout) -> tuple[Axis, ...]:
    """The axes of a chip with no more cores than there are of a group: of unlike cores the others do not multiply."""
    assert model.cores is not None, "the group is one of them"
    of_cores = [axis for axis in axes if axis.name in layout.core_axes]
    total = prod(axis.size for axis in of_cores)
    count = core_counts(model.cores, total)[model.cores.index(group)]
    if count == total:
        return axes
    last = of_cores[-1].name  # one axis of all these cores, in the place of the outermost
    kept = [axis for axis in axes if axis.name not in layout.core_axes or axis.name == last]
    return tuple(replace(axis, size=count) if axis.name == last else axis for axis in kept)


def _inside(found: Multiplier) -> tuple[tuple[Axis, ...], tuple[TreeMemory, ...]]:
    """The axes of a unit, and the registers in it."""
    name, unit = found.name, found.unit
    if isinstance(unit, MatrixModel):
        extents = (("m", unit.m, ("I", "O")), ("k", unit.k, ("I", "W")), ("n", unit.n, ("W", "O")))
        return tuple(Axis(f"{name}.{key}", size, (), kept) for key, size, kept in extents if size > 1), (
            _held(name, unit),
        )
    rate = Fraction(len(Flow) * WORD_BITS)  # registers hold neither units nor networks up
    own = (("I", Flow.FEED), ("W", Flow.FEED), ("O", Flow.FEED), ("O", Flow.COLLECT))
    others = tuple((one, flow) for one in OPERANDS for flow in Flow if (one, flow) not in own)
    ports = (
        *(Port(f"{one}-{flow}", 8, 1, ((one, flow),), rate) for one, flow in own),
        Port("networks", 8, 1, others, len(OPERANDS) * rate),
    )
    doubled = (unit.first_double_buffered, unit.second_double_buffered, unit.result_double_buffered)
    registers = TreeMemory(
        f"{name}.registers",
        unit.register_bytes * 8,
        OPERANDS,
        ports,
        unit.register_pj_per_byte,
        unit.register_pj_per_byte,
        (),
        ahead=tuple(one for one, is_doubled in zip(OPERANDS, doubled, strict=True) if is_doubled),
        bank_bits=8,
    )
    return (Axis(f"{name}.elements", unit.rows * unit.columns, networks=_networks(unit)),), (registers,)


def _networks(unit: ArrayModel) -> tuple[Network, ...]:
    """What carries operands between the scratchpad and the elements of an array: three networks, or fewer for all."""
    first, second, result = (
        rate * 8 for rate in (unit.first_bytes_per_cycle, unit.second_bytes_per_cycle, unit.result_bytes_per_cycle)
    )
    shared = {3: ((("I",), first), (("W",), second), (("O",), result)), 2: ((("I", "W"), second), (("O",), result))}
    return tuple(
        Network(
            operands,
            multicast=unit.multicast,
            pj_per_bit=unit.network_pj_per_byte / 8,
            bits_per_cycle=rate,
            shares_windows=unit.multicast and operands != ("O",),
            passes_sums="O" in operands,
        )
        for operands, rate in shared.get(unit.networks, ((OPERANDS, first),))
    )


def _held(name: str, unit: MatrixModel) -> TreeMemory:
    """The register of each multiplier: a weight, which takes k cycles to load; or a sum of m x n, which k share."""
    if unit.dataflow is Dataflow.OUTPUT_STATIONARY:
        flows = tuple(("O", flow) for flow in Flow)
        port = Port("sum", SUM_BITS, SUM_BITS, flows, Fraction(len(Flow) * SUM_BITS))
        serves = (f"{name}.k",) if unit.k > 1 else ()
        return TreeMemory(f"{name}.sums", SUM_BITS, ("O",), (port,), 0.0, 0.0, serves)
    widths = [dtype.bits for dtype in unit.rates]
    bits = WORD_BITS if WORD_BITS in widths else max(widths)
    ports = (
        Port("use", bits, bits, (("W", Flow.FEED),)),
        Port("load", bits, bits, (("W", Flow.FILL),), Fraction(bits, unit.k)),
    )
    buffers = 2 if unit.overlapped_folds else 1
    serves = (f"{name}.m",) if unit.m > 1 else ()
    return TreeMemory(f"{name}.weights", bits * buffers, ("W",), ports, 0.0, 0.0, serves, buffers)


def _cycles(model: MachineModel) -> Mapping[bool, Fraction]:
    """The cycles in which a rate is said: of a cycle (False), and of a second (True) where there is a clock."""
    rates = {False: Fraction(1)}
    return rates if model.clock is None else {**rates, True: Fraction(1, model.clock)}


def _memory(model: MemoryModel, cycles: Mapping[bool, Fraction]) -> TreeMemory:
    if model.ports is None:
        rate, burst_bytes, read_pj, write_pj = one_port(model, 1)
        flows = tuple((operand, flow) for operand in model.operands for flow in Flow)
        ports = (Port("port-1", burst_bytes * 8, burst_bytes * 8, flows, rate * 8),)
        energies = (read_pj * burst_bytes, write_pj * burst_bytes)
    else:
        assert model.read_pj is not None, "the file says ports or one port"
        assert model.write_pj is not None, "the file says ports or one port"
        energies = (model.read_pj, model.write_pj)
        ports = tuple(
            Port(
                port.name or f"port-{number}",
                port.width_bits,
                port.granule_bits if port.granule_bits is not None else port.width_bits,
                tuple((operand, Flow(flow)) for operand in port.operands or model.operands for flow in port.directions),
                port.bandwidth.bits * cycles.get(port.bandwidth.is_per_second, Fraction(1)) if port.bandwidth else None,
            )
            for number, port in enumerate(model.ports, 1)
        )
    return TreeMemory(
        model.name,
        model.size,
        model.operands,
        ports,
        *energies,
        model.serves,
        model.buffers,
        model.area_mm2,
        model.sliding_window,
        model.storage is Storage.EVEN,
    )


def tree_mistakes(model: MachineModel) -> Iterator[Mistake]:
    """What the axes and memories of a file say together that makes no sense."""
    axes, memories = _parts(model)
    engines = engines_of(model.dma, [memory.name for memory in memories], _cycles(model))
    tree = MachineTree(model.name, axes, memories, 0.0, engines=engines)
    for part, fault in (
        *tree_faults(tree),
        *_order_faults(tree, is_chip=model.cores is not None),
        *_port_faults(model),
        *network_faults(tree, {axis.name: axis.networks for axis in model.axes}),
        *engine_faults(tree),
        *_operand_faults(tree),
    ):
        yield Mistake((part,), fault)
    yield from _rate_mistakes(model)


def _operand_faults(tree: MachineTree) -> Iterator[tuple[str, str]]:
    """Axes that take loops of operands that are nowhere."""
    for axis in tree.axes:
        for operand in axis.operands:
            if operand not in tree.operands:
                yield (
                    axis.name,
                    f"takes loops of {operand}, which no memory holds; known: {', '.join(tree.operands)}",
                )


def _rate_mistakes(model: MachineModel) -> list[Mistake]:
    cycles = _cycles(model)
    mistakes: list[Mistake] = []
    for at, memory in enumerate(model.memories):
        for number, port in enumerate(memory.ports or ()):
            fault = rate_fault(port.bandwidth, cycles)
            if fault is not None:
                mistakes.append(Mistake(("memories", at, "ports", number, "bandwidth"), fault))
    for at, axis in enumerate(model.axes):
        for number, network in enumerate(axis.networks):
            fault = rate_fault(network.bandwidth, cycles)
            if fault is not None:
                mistakes.append(Mistake(("axes", at, "networks", number, "bandwidth"), fault))
    for at, engine in enumerate(model.dma):
        fault = rate_fault(engine.bandwidth, cycles)
        if fault is not None:
            mistakes.append(Mistake(("dma", at, "bandwidth"), fault))
    return mistakes


def _port_faults(model: MachineModel) -> list[tuple[str, str]]:
    twice = [
        (memory.name, f"has two ports called {name}; names tell ports apart")
        for memory in model.memories
        for name in _twice([port.name for port in memory.ports or () if port.name is not None])
    ]
    return twice + [
        (memory.name, f"port {port.name or number} serves {operand}, which the memory does not hold")
        for memory in model.memories
        for number, port in enumerate(memory.ports or (), 1)
        for operand in port.operands or ()
        if operand not in memory.operands
    ]


def _order_faults(tree: MachineTree, *, is_chip: bool) -> list[tuple[str, str]]:
    """What only a file of ours must hold: names are there once, axes are reached, and memories nest."""
    faults: list[tuple[str, str]] = []
    faults += [(name, "is there twice; names tell axes apart") for name in _twice([axis.name for axis in tree.axes])]
    names = [memory.name for memory in tree.memories]
    faults += [(name, "is there twice; names tell memories apart") for name in _twice(names)]
    if tree.units > MAX_UNITS:
        count = f"{tree.units:,}" if tree.units < 10**15 else f"about 1e{len(str(tree.units)) - 1}"
        faults.append(("axes", f"expected at most {MAX_UNITS:,} units together, found {count}"))
    if len(tree.memories) > 4 * MAX_LEVELS:
        faults.append(("memories", f"expected at most {4 * MAX_LEVELS}, found {len(tree.memories)}"))
    served = {axis for memory in tree.memories for axis in memory.serves}
    faults += [
        (axis.name, "lies inside no memory, so nothing reaches its units; name it where a memory says what it serves")
        for axis in tree.axes
        if axis.name not in served and not is_chip  # clusters may have a DRAM each
    ]
    known = {axis.name for axis in tree.axes}
    for operand in tree.operands:
        chain = tree.chain(operand)
        for inner, outer in pairwise(chain):
            lost = [axis for axis in inner.serves if axis in known and axis not in outer.serves]
            if lost:
                faults.append(
                    (
                        outer.name,
                        f"lies outside {inner.name} for {operand}, but does not serve {', '.join(lost)} as that does",
                    )
                )
    return faults


def _twice(names: list[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if names.count(name) > 1]
