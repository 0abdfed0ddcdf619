"""A machine as a tree: memories of any names and number, with fan-outs between them, and units at the leaves.

Every operand has a chain of memories of its own through the tree; chains may share memories. An axis is one direction
in which the units repeat. What lies between two memories of a chain is the fan-out of the axes that the outer one
serves and the inner one does not: there the inner memory repeats. The axes that no memory of an operand serves repeat
its whole chain.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import prod

from tilestitch.base.shown import Brief

MAX_LEVELS = 20
NO_LIMIT = 2**53  # bits of a memory without an end, bits a cycle of a port that nothing waits for
# What nests and machines call the first operand that is read, the second, and the result.
ROLES = (
    ("I", "I1", "A", "Input", "Inputs"),
    ("W", "I2", "B", "Weight", "Weights"),
    ("O", "C", "Z", "Output", "Outputs"),
)


class Flow(StrEnum):
    """How a memory moves an operand: what is above lies towards the outermost memory, what is below towards units."""

    FILL = "fill"  # written with what comes from above
    FEED = "feed"  # read for what is below
    COLLECT = "collect"  # written with results from below
    DRAIN = "drain"  # read for what is above

    @property
    def is_read(self) -> bool:
        return self in (Flow.FEED, Flow.DRAIN)


@dataclass(frozen=True, slots=True)
class Network:
    """What carries some operands along an axis, between what repeats there and the memory around it.

    Without `multicast` what is read goes out once for each unit; with `shares_windows` what overlaps in the windows of
    several units goes out once as well. Without `reduction` each unit's sum comes back by itself; with `passes_sums`
    units add theirs from neighbour to neighbour. With `forwarding` a unit passes on to its neighbour what that needs
    next. The energy is that of a bit at every place that it reaches or leaves; the rate is that at the memory around.
    """

    operands: tuple[str, ...]
    multicast: bool = True
    reduction: bool = True
    forwarding: bool = False
    pj_per_bit: float = 0.0
    bits_per_cycle: Fraction | None = None  # without limit unless stated
    shares_windows: bool = False
    passes_sums: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    """One direction in which units repeat, and the loops that may spread there; none named means any.

    Where `operands` are named, only loops that go through exactly these may, as along the axes of a matrix unit.
    """

    name: str
    size: int
    loops: tuple[str, ...] = ()
    operands: tuple[str, ...] = ()
    networks: tuple[Network, ...] = ()

    def network(self, operand: str) -> Network | None:
        """What carries an operand along the axis, where the machine says it."""
        return next((one for one in self.networks if operand in one.operands), None)


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a memory: the most bits that an access moves, and the least; unless stated, one access in a cycle."""

    name: str
    width_bits: int
    granule_bits: int
    flows: tuple[tuple[str, Flow], ...]  # operand and direction
    stated_bits_per_cycle: Fraction | None = None

    @property
    def bits_per_cycle(self) -> Fraction:
        """What the port moves in a cycle, on average."""
        return Fraction(self.width_bits) if self.stated_bits_per_cycle is None else self.stated_bits_per_cycle


@dataclass(frozen=True, slots=True)
class TreeMemory:
    """One memory; energies are those of an access of the whole width of a port, and smaller ones cost their share."""

    name: str
    size_bits: int
    operands: tuple[str, ...]
    ports: tuple[Port, ...]
    read_pj: float
    write_pj: float
    serves: tuple[str, ...]  # axes between this memory and the units
    buffers: int = 1  # two: what is not the whole operand takes twice its room
    area_mm2: float | None = None  # of one; for people
    has_sliding_window: bool = False  # a tile keeps what it has in common with the one before
    has_even_storage: bool = False  # tiles of all operands change at the same place of the nest
    ahead: tuple[str, ...] = ()  # operands of which the next tile has room beside this memory, as in registers of units
    bank_bits: int = 0  # of a bank, which holds data of one operand; 0 where any operand may take any bits

    def port(self, operand: str, flow: Flow) -> Port | None:
        """The port that moves an operand in a direction; None where there is none. Of several the last counts."""
        found = [port for port in self.ports if (operand, flow) in port.flows]
        return found[-1] if found else None


@dataclass(frozen=True, slots=True)
class DmaEngine:
    """What carries everything that crosses between two memories, with such engines at each of the inner ones.

    All of them share each transfer, which takes as long as they are set up and its bits at their rates together.
    """

    name: str
    inner: str
    outer: str
    count: int
    setup_cycles: int
    bits_per_cycle: Fraction  # of one


@dataclass(frozen=True, slots=True, repr=False)
class MachineTree(Brief):
    """Memories from the innermost to the outermost, the axes of the units, and what one multiply-accumulate costs."""

    name: str
    axes: tuple[Axis, ...]
    memories: tuple[TreeMemory, ...]
    mac_pj: float
    description: str = ""
    clock_hz: int | None = None  # for people, and for bandwidths a second
    mac_area_mm2: float | None = None  # of one unit; for people
    has_latches: bool = True  # what a unit works on stays there while loops leave it alone
    reads_first_sums: bool = True  # although they are zero
    moves_boxes: bool = False  # with what lies between strided values
    engines: tuple[DmaEngine, ...] = ()
    bits: int | None = None  # of an element of every operand; None: as layers say
    sum_bits: int | None = None  # of results that are still added to, where `bits` are stated

    @property
    def operands(self) -> tuple[str, ...]:
        """The operands that some memory holds, in the order of their names."""
        return tuple(sorted({operand for memory in self.memories for operand in memory.operands}))

    @property
    def units(self) -> int:
        return prod(axis.size for axis in self.axes)

    @property
    def outermost(self) -> tuple[TreeMemory, ...]:
        """The memories that nothing fills: those that are outermost of every operand that they hold."""
        tops = [self.chain(operand)[-1] for operand in self.operands]
        return tuple(
            memory
            for memory in self.memories
            if memory.operands and all(memory is tops[self.operands.index(one)] for one in memory.operands)
        )

    @property
    def area_mm2(self) -> float | None:
        """Of all memories and units whose area is known; None where there is none."""
        parts = [one.area_mm2 * self.instances(one) for one in self.memories if one.area_mm2 is not None]
        parts += [] if self.mac_area_mm2 is None else [self.mac_area_mm2 * self.units]
        return sum(parts) if parts else None

    def instances(self, memory: TreeMemory) -> int:
        """How often a memory is there: once for each place along the axes that it does not serve."""
        return prod(axis.size for axis in self.axes if axis.name not in memory.serves)

    def chain(self, operand: str) -> tuple[TreeMemory, ...]:
        """The memories of an operand, innermost first."""
        return tuple(memory for memory in self.memories if operand in memory.operands)

    def fan_outs(self, operand: str) -> tuple[tuple[str, ...], ...]:
        """The axes inside the first memory of an operand, between each two, and of the whole chain at the end."""
        left = [axis.name for axis in self.axes]
        found: list[tuple[str, ...]] = []
        for memory in self.chain(operand):
            here = tuple(name for name in left if name in memory.serves)
            left = [name for name in left if name not in here]
            found.append(here)
        return (*found, tuple(left))


def tree_faults(tree: MachineTree) -> Iterator[tuple[str, str]]:
    """What makes no sense in a tree: the part, and what is wrong with it."""
    if not tree.memories:
        yield "memories", "there is none; describe at least the one that holds every operand at the start"
    for axis in tree.axes:
        if axis.size < 1:
            yield axis.name, f"expected at least one unit along an axis, found {axis.size}"
    known = {axis.name for axis in tree.axes}
    for memory in tree.memories:
        yield from _memory_faults(memory, known)
    for operand in tree.operands:
        if len(tree.chain(operand)) > MAX_LEVELS:
            yield (
                operand,
                f"lies in {len(tree.chain(operand))} memories one above another; expected at most {MAX_LEVELS}",
            )


def _memory_faults(memory: TreeMemory, axes: set[str]) -> Iterator[tuple[str, str]]:
    if not memory.operands:
        yield memory.name, "holds no operand, so nothing reaches it; name its operands or remove it"
    if memory.size_bits < 1:
        yield memory.name, f"expected a size above 0, found {memory.size_bits} bits"
    for axis in memory.serves:
        if axis not in axes:
            yield memory.name, f"serves {axis!r}, which is no axis; known: {', '.join(sorted(axes)) or 'none'}"
    for port in memory.ports:
        if not 1 <= port.granule_bits <= port.width_bits:
            yield (
                memory.name,
                f"port {port.name}: expected 1 to {port.width_bits:,} bits as the least that it moves, found "
                f"{port.granule_bits:,}",
            )
