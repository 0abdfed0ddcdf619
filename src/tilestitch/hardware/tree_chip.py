"""A tree of memories as a machine to compile for: one rule says what each of its memories is for.

- DDR is the outermost memory, and keeps everything.
- GB is the outermost memory inside it that keeps everything and serves all axes that DDR serves, where there is another
  one inside that can be LB.
- LB is the outermost other memory that keeps the first input and serves several units: there is one in each core, and
  the units that it serves are those of the core. Results of a core's tiles lie there too.
- What lies inside LB belongs to the mapping of a tile: the units take what the fastest mapping of it takes on the tree
  inside LB. Of these memories the outermost that several units share and that keeps W alone is the weight area of a
  core, if LB does not keep W; the outermost that keeps O alone has the sums of products in parts.
- What is no product is done where sums lie: as many elements a cycle as the innermost memory of results that several
  units share can read. docs/tree-compile.md has the reasons.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

from tilestitch.base.dtypes import DType
from tilestitch.base.units import counted
from tilestitch.hardware.accelerator import (
    Accelerator,
    Core,
    Dataflow,
    Level,
    Link,
    MatrixUnit,
    Memory,
    Setup,
    Sharing,
    VectorUnit,
)
from tilestitch.hardware.tree import ROLES, Axis, Flow, MachineTree, Port, TreeMemory

MOST_CORES = 4096
ROOM_BITS = 2**50  # more than any tile
WIDE_BITS = 2**30  # a cycle: more than any port needs
WORD_BITS = 16  # of an element, where a machine does not say
BEYOND = "beyond the local buffer"  # where what LB does not keep comes from


@dataclass(frozen=True, slots=True)
class Roles:
    """What the memories of a tree are for, and what it calls the two inputs and the result."""

    operands: tuple[str, str, str]
    ddr: TreeMemory
    gb: TreeMemory | None
    lb: TreeMemory
    weights: TreeMemory | None
    sums: TreeMemory | None
    core_axes: tuple[Axis, ...]  # inside LB
    cores: int  # of a cluster
    clusters: int


def roles_of(tree: MachineTree) -> Roles:
    """What its memories are for; of a tree of which nothing is `missing_of`."""
    names = _operands(tree)
    assert names is not None, "nothing is missing"
    *_, ddr = tree.memories
    candidates = _candidates(tree)
    *rest, gb = candidates
    if not rest or set(gb.serves) != set(ddr.serves) or not set(names) <= set(gb.operands):
        rest, gb = candidates, None
    return _roles(tree, ddr, gb, rest[-1])


def _roles(tree: MachineTree, ddr: TreeMemory, gb: TreeMemory | None, lb: TreeMemory) -> Roles:
    """What the memories of a core are for, where its local buffer is known."""
    names = _operands(tree)
    assert names is not None, "nothing is missing"
    second, result = names[1:]
    inside = [one for one in _inside(tree, lb) if one.serves]
    alone = {one: [memory for memory in inside if memory.operands == (one,)] for one in (second, result)}
    sizes = {axis.name: axis.size for axis in tree.axes}
    return Roles(
        operands=names,
        ddr=ddr,
        gb=gb,
        lb=lb,
        weights=alone[second][-1] if alone[second] and second not in lb.operands else None,
        sums=alone[result][-1] if alone[result] else None,
        core_axes=tuple(axis for axis in tree.axes if axis.name in lb.serves),
        cores=prod(sizes[name] for name in ddr.serves if name not in lb.serves),
        clusters=prod(size for name, size in sizes.items() if name not in ddr.serves),
    )


def _operands(tree: MachineTree) -> tuple[str, str, str] | None:
    """What a tree calls the first input, the second and the result; None where it has other operands."""
    found = [[name for name in role if name in tree.operands] for role in ROLES]
    if len(tree.operands) != len(ROLES) or any(len(names) != 1 for names in found):
        return None
    return found[0][0], found[1][0], found[2][0]


def _candidates(tree: MachineTree) -> list[TreeMemory]:
    """The memories inside the outermost one that several units share and that keep the first input."""
    names = _operands(tree)
    return [one for one in tree.memories[:-1] if one.serves and names is not None and names[0] in one.operands]


def _inside(tree: MachineTree, lb: TreeMemory) -> list[TreeMemory]:
    """The memories of a core inside its local buffer."""
    within = [one for one in tree.memories[:-1] if one is not lb and set(one.serves) <= set(lb.serves)]
    return [one for one in within if not _outer(tree, lb, one)]


def _outer(tree: MachineTree, lb: TreeMemory, one: TreeMemory) -> bool:
    """Whether a memory lies outside LB for an operand of both."""
    both = set(lb.operands) & set(one.operands)
    return bool(both) and tree.memories.index(one) > tree.memories.index(lb)


def missing_of(tree: MachineTree) -> Iterator[str]:
    """What keeps compile from taking a tree, each as the rest of a sentence."""
    if tree.clock_hz is None:
        yield "it says no clock"
    if not tree.memories or _operands(tree) is None:
        kept = ", ".join(tree.operands)
        yield f"its memories keep {kept}, where two inputs and a result are known, such as I, W and O"
        return
    ddr = tree.memories[-1]
    if set(ddr.operands) != set(tree.operands):
        yield f"{ddr.name} keeps {', '.join(ddr.operands)}, where the outermost memory has to keep everything"
    if not _candidates(tree):
        first = next(name for name in ROLES[0] if name in tree.operands)
        yield f"no memory inside {ddr.name} that several units share keeps {first}, so tiles have no place"
        return
    if set(ddr.operands) == set(tree.operands):
        cores = roles_of(tree).cores
        if cores > MOST_CORES:
            yield f"it has {cores:,} of {roles_of(tree).lb.name}, each with a core; at most {MOST_CORES:,} are known"
        yield from _without_a_byte(tree)


def _without_a_byte(tree: MachineTree) -> Iterator[str]:
    """The memories of a role that hold less than a byte, in which programs place what they move."""
    roles = roles_of(tree)
    inside = [(one, _copies(roles, one)) for one in (roles.weights, roles.sums) if one is not None]
    for one, copies in [*((one, 1) for one in (roles.ddr, roles.gb, roles.lb) if one is not None), *inside]:
        if one.size_bits * copies < 8:
            yield f"{one.name} holds {counted(one.size_bits, 'bit')}, and programs place whole bytes"


def chip_of_tree(tree: MachineTree) -> Accelerator:
    """The accelerator that a tree is to a compiler, of a tree of which nothing is `missing_of`."""
    roles = roles_of(tree)
    assert tree.clock_hz is not None, "nothing is missing"
    everything = Sharing.CHIP if roles.clusters == 1 else Sharing.CLUSTER
    setups = {engine.inner: engine.setup_cycles for engine in tree.engines}
    loaded = roles.gb if roles.gb is not None and roles.gb.name in setups else roles.lb  # without an engine, past GB
    ddr = _memory(tree, Level.DDR, roles.ddr, everything, (Flow.FEED, Flow.COLLECT))
    memories = [_behind_networks(tree, ddr, roles.ddr, loaded)]
    if roles.gb is not None:
        gb = _memory(tree, Level.GB, roles.gb, Sharing.CLUSTER, tuple(Flow))
        memories.append(_behind_networks(tree, gb, roles.gb, roles.lb))
    outwards = (Flow.FILL, Flow.DRAIN)
    for level, one in ((Level.LB, roles.lb), (Level.WEIGHTS, roles.weights), (Level.ACCUMULATORS, roles.sums)):
        if one is not None:
            memories.append(_memory(tree, level, one, Sharing.CORE, outwards, _copies(roles, one)))
    return Accelerator(
        name=tree.name,
        description=tree.description or tree.name,
        clock_hz=tree.clock_hz,
        clusters=roles.clusters,
        cores=(_core(tree, roles, tuple(one.level for one in memories if one.sharing is Sharing.CORE)),) * roles.cores,
        memories=tuple(sorted(memories, key=lambda memory: tuple(Level).index(memory.level))),
        link=_link(tree, roles),
        setup=Setup(
            dma_cycles=setups.get(roles.gb.name, 0) if roles.gb is not None else 0,
            mover_cycles=setups.get(roles.lb.name, 0),
            compute_cycles=0,
            launch_cycles=0,
        ),
        granule_bytes=4096,
        has_dma=loaded is roles.gb,
        tree=tree,
    )


def with_inside(chip: Accelerator, tree: MachineTree, lb: str) -> Accelerator:
    """A chip of which the cores that multiply have more memories inside their local buffer than programs know.

    `tree` is its tree, `lb` the name of that buffer. Tiles of products take what the mapper finds on what is inside.
    """
    local = next(memory for memory in tree.memories if memory.name == lb)
    inside = _inner_tree(tree, _roles(tree, tree.memories[-1], None, local))
    cores = tuple(
        core if core.matrix is None else replace(core, matrix=replace(core.matrix, spreads_freely=True), inside=inside)
        for core in chip.cores
    )
    return replace(chip, cores=cores)


def _copies(roles: Roles, memory: TreeMemory) -> int:
    """How many of a memory a core has."""
    return prod(axis.size for axis in roles.core_axes if axis.name not in memory.serves)


def _memory(
    tree: MachineTree, level: Level, memory: TreeMemory, sharing: Sharing, flows: Iterable[Flow], copies: int = 1
) -> Memory:
    """A memory with one port, as transfers see it: the slowest of those that move something in some directions."""
    ports = _ports(memory, flows) or list(memory.ports)
    rates = [port.bits_per_cycle for port in ports]
    if level is Level.DDR:
        rates += _engine_rates(tree, roles_of(tree).gb)
    elif level is not Level.GB:
        rates += _engine_rates(tree, memory)
    width = max(port.width_bits for port in memory.ports)
    return Memory(
        level=level,
        sharing=sharing,
        size_bytes=copies * memory.size_bits // 8,
        bandwidth_bytes_per_cycle=copies * min(rates) / 8,
        burst_bytes=max(-(-port.granule_bits // 8) for port in ports),
        read_pj_per_byte=memory.read_pj * 8 / width,
        write_pj_per_byte=memory.write_pj * 8 / width,
    )


def _engine_rates(tree: MachineTree, memory: TreeMemory | None) -> list[Fraction]:
    """Bits in a cycle of the engines that load a memory: those of GB carry all that comes from DDR or goes there."""
    name = "" if memory is None else memory.name
    return [engine.count * engine.bits_per_cycle for engine in tree.engines if engine.inner == name]


def _behind_networks(tree: MachineTree, memory: Memory, outer: TreeMemory, inner: TreeMemory) -> Memory:
    """A memory no faster than the networks between it and one inside, each of which carries all that passes."""
    axes = [axis for axis in tree.axes if axis.name in outer.serves and axis.name not in inner.serves]
    rates = [one.bits_per_cycle / 8 for axis in axes for one in axis.networks if one.bits_per_cycle is not None]
    return replace(memory, bandwidth_bytes_per_cycle=min([memory.bandwidth_bytes_per_cycle, *rates]))


def _ports(memory: TreeMemory, flows: Iterable[Flow]) -> list[Port]:
    """The ports through which a memory moves something in some directions."""
    found = [memory.port(operand, flow) for operand in memory.operands for flow in flows]
    return [port for port in dict.fromkeys(found) if port is not None]


def _link(tree: MachineTree, roles: Roles) -> Link:
    """The port of a core to what is around: as fast as LB, or as the slowest network along the axes of cores."""
    between = [axis for axis in tree.axes if axis.name in roles.ddr.serves and axis not in roles.core_axes]
    networks = [one for axis in between for one in axis.networks]
    rates = [port.bits_per_cycle for port in _ports(roles.lb, (Flow.FILL, Flow.DRAIN))]
    rates += [one.bits_per_cycle for one in networks if one.bits_per_cycle is not None]
    along = [max((one.pj_per_bit for one in axis.networks), default=0.0) for axis in between]
    return Link(min(rates) / 8, 8 * sum(along))


def _core(tree: MachineTree, roles: Roles, levels: tuple[Level, ...]) -> Core:
    first, second, result = roles.operands
    deep = [axis.size for axis in roles.core_axes if set(axis.operands) == {first, second}]
    across = [axis.size for axis in roles.core_axes if set(axis.operands) == {second, result}]
    units = prod(axis.size for axis in roles.core_axes)
    matrix = MatrixUnit(
        name="units",
        m=units // prod(deep) // prod(across),  # what takes any loop counts as rows of the result
        k=prod(deep),
        n=prod(across),
        dataflow=Dataflow.OUTPUT_STATIONARY,
        systolic=False,
        overlapped_folds=True,
        rates=tuple((dtype, Fraction(1)) for dtype in DType if dtype is not DType.BOOL),
        mac_pj=tree.mac_pj,
        spreads_freely=True,
    )
    return Core(matrix, _beside(tree, roles), None, levels, _inner_tree(tree, roles))


def _beside(tree: MachineTree, roles: Roles) -> VectorUnit:
    """What does everything else: an operation on each of the sums that are read where they lie in a cycle."""
    shared = [one for one in (*_inside(tree, roles.lb), roles.lb) if one.serves and roles.operands[2] in one.operands]
    memory = shared[0] if shared else roles.lb
    ports = _ports(memory, (Flow.DRAIN, Flow.FEED))
    bits = tree.sum_bits or tree.bits or WORD_BITS
    rate = _copies(roles, memory) * max(port.bits_per_cycle for port in ports) / bits
    units = prod(axis.size for axis in roles.core_axes)
    width = max(port.width_bits for port in memory.ports)
    energy = tree.mac_pj + (2 * memory.read_pj + memory.write_pj) * bits / width
    return VectorUnit(f"beside {memory.name}", ((DType.FLOAT16, max(1, min(units, int(rate)))),), energy)


def _inner_tree(tree: MachineTree, roles: Roles) -> MachineTree:
    """What is inside LB, with all room there, and beyond it what LB does not keep."""
    kept = [*_inside(tree, roles.lb), replace(roles.lb, size_bits=ROOM_BITS, buffers=1, has_even_storage=False)]
    kept.sort(key=lambda memory: [one.name for one in tree.memories].index(memory.name))
    others = tuple(name for name in roles.operands if name not in roles.lb.operands)
    serves = tuple(axis.name for axis in roles.core_axes)
    if others:
        flows = tuple((name, flow) for name in others for flow in Flow)
        port = Port("beyond", WIDE_BITS, 1, flows)
        kept.append(TreeMemory(BEYOND, ROOM_BITS, others, (port,), 0.0, 0.0, serves))
    names = {memory.name for memory in kept}
    engines = tuple(one for one in tree.engines if {one.inner, one.outer} <= names)
    return replace(tree, axes=roles.core_axes, memories=tuple(kept), engines=engines, description="")
