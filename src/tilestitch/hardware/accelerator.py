"""The machine: clusters of cores, memories, links and engines, as frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import cached_property

from tilestitch.base.dtypes import DType
from tilestitch.base.shown import Brief
from tilestitch.hardware.microarchitecture import Microarchitecture
from tilestitch.hardware.tree import MachineTree


class Level(StrEnum):
    """What a memory is for. GB and the per-core areas may be absent."""

    DDR = "ddr"
    GB = "gb"
    LB = "lb"
    WEIGHTS = "weights"  # the part of the local buffer that feeds the matrix unit's second operand
    ACCUMULATORS = "accumulators"  # partial sums of the matrix unit: float32, or int32 of integers


WORD_CYCLES = 64
CORE_LEVELS = (Level.LB, Level.WEIGHTS, Level.ACCUMULATORS)  # one of each per core


class Sharing(StrEnum):
    """How many of a memory there are."""

    CHIP = "chip"
    CLUSTER = "cluster"
    CORE = "core"


class Dataflow(StrEnum):
    """Which operand a matrix unit holds still."""

    WEIGHT_STATIONARY = "weight_stationary"
    OUTPUT_STATIONARY = "output_stationary"


class Reduction(StrEnum):
    """How partial sums of different elements come together."""

    SERIAL = "serial"  # on one network, one after another
    CHAIN = "chain"  # from neighbour to neighbour, every result at the same time as the others
    TREE = "tree"  # in pairs, every result at the same time as the others


@dataclass(frozen=True, slots=True)
class Memory:
    """One kind of memory: its place, size, port and energy. Every instance of it (per core, ...) is alike."""

    level: Level
    sharing: Sharing
    size_bytes: int
    bandwidth_bytes_per_cycle: Fraction
    burst_bytes: int
    read_pj_per_byte: float
    write_pj_per_byte: float
    channels: int = 1  # of DDR: a kernel on one core draws from one of them, any other from all
    banks: int = 1  # of LB, each of which holds data of one operand of a PE array


@dataclass(frozen=True, slots=True)
class MatrixUnit:
    """Does m x k x n multiply-accumulates a cycle; `rates` is the factor per element type (int8 may be 2)."""

    name: str
    m: int
    k: int
    n: int
    dataflow: Dataflow
    systolic: bool
    overlapped_folds: bool
    rates: tuple[tuple[DType, Fraction], ...]
    mac_pj: float
    # Of one that stands for an array of processing elements, whose mapper says what a tile takes: the words that the
    # networks of both operands and of results carry in WORD_CYCLES cycles.
    network_words: tuple[int, int, int] | None = None
    spreads_freely: bool = False  # it stands for the units of a tree, whose mapper says what a tile takes

    @property
    def mapped(self) -> bool:
        """Whether it stands for units whose mapper chooses what they do at the same time."""
        return self.network_words is not None or self.spreads_freely


@dataclass(frozen=True, slots=True)
class VectorUnit:
    """Does one primitive operation on `lanes` elements a cycle, per element type."""

    name: str
    lanes: tuple[tuple[DType, int], ...]
    operation_pj: float

    @property
    def usual_lanes(self) -> int:
        """Of types without lanes of their own: those of float16, or the fewest of a unit without that."""
        lanes = dict(self.lanes)
        return lanes.get(DType.FLOAT16, min(lanes.values()))


@dataclass(frozen=True, slots=True)
class PEArray:
    """Processing elements in rows and columns; each multiplies and adds, with a register file of its own.

    One network for each operand brings its values to the elements that need them, in one cycle to however many, one
    collects results, and one carries partial sums between elements.
    """

    name: str
    rows: int
    columns: int
    register_bytes: int  # of one element
    rates: tuple[tuple[DType, Fraction], ...]  # multiply-accumulates of one element a cycle
    first_bytes_per_cycle: Fraction  # of the network of the first operand
    second_bytes_per_cycle: Fraction
    result_bytes_per_cycle: Fraction
    reduction_bytes_per_cycle: Fraction
    mac_pj: float
    register_pj_per_byte: float
    network_pj_per_byte: float
    networks: int = 3  # 2: all that is read shares the second's; 1: everything shares the first's
    multicast: bool = True  # a word goes to every element that needs it at once; else to one after another
    reduction: Reduction = Reduction.SERIAL
    dma_setup_cycles: Fraction | None = None  # of a contiguous run; None: as the machine's DMA
    dma_channels: int = 1
    operand_bits: tuple[int, int, int] | None = None  # first, second, result; None: those of the network's tensors
    micro: Microarchitecture = field(default_factory=Microarchitecture)


@dataclass(frozen=True, slots=True, repr=False)
class Core(Brief):
    """The units of one core, and the memories of its own; cores of a cluster may differ.

    An array of processing elements multiplies as `matrix`, which stands for it, and where the core has no vector unit
    does everything else as `vector`.

    A core without LB works in the GB of its cluster: its units read and write there.
    """

    matrix: MatrixUnit | None
    vector: VectorUnit | None
    array: PEArray | None = None
    levels: tuple[Level, ...] = CORE_LEVELS  # of those memories per core that the machine has
    inside: MachineTree | None = None  # units and memories inside LB, of a tree, on which tiles of products are mapped

    @property
    def has_mapper(self) -> bool:
        """Whether tiles of its products take what a mapper finds: those of arrays, and of the units of a tree."""
        return self.array is not None or self.inside is not None

    @property
    def only_array(self) -> bool:
        """Whether one array does all arithmetic, one thing at a time."""
        return self.array is not None and self.vector is not None and self.vector.name == self.array.name


@dataclass(frozen=True, slots=True)
class CoreGroup:
    """Cores of a cluster that are alike, by number."""

    core: Core
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """The on-chip network as a crossbar: each core has one port of this rate."""

    bandwidth_bytes_per_cycle: Fraction
    pj_per_byte: float


@dataclass(frozen=True, slots=True)
class Setup:
    """Cycles that an instruction occupies its engine before its work begins."""

    dma_cycles: int  # per descriptor, DDR <-> GB
    mover_cycles: int  # per descriptor, to and from a core
    compute_cycles: int
    launch_cycles: int  # per kernel


@dataclass(frozen=True, repr=False)
class Accelerator(Brief):
    """d clusters of c cores; identical clusters. `memories` holds one entry per level that exists."""

    name: str
    description: str
    clock_hz: int
    clusters: int
    cores: tuple[Core, ...]
    memories: tuple[Memory, ...]
    link: Link
    setup: Setup
    granule_bytes: int
    # Whether DMA engines of a cluster carry what goes between DDR and GB, through which everything passes on its way to
    # cores. Without them cores carry it for themselves, past GB unless it stays there.
    has_dma: bool = True
    # Of a tree whose file says no units: all of it, of which everything above follows.
    tree: MachineTree | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """Its name and what it is; `describe` has the page with units, peaks and memories."""
        return f"{self.name}: {self.description}"

    def memory(self, level: Level) -> Memory | None:
        """The memory of that level, None where the machine has none."""
        return self._by_level.get(level)

    @cached_property
    def _by_level(self) -> Mapping[Level, Memory]:
        return {memory.level: memory for memory in self.memories}

    def local(self, core: Core, level: Level) -> Memory | None:
        """The memory of that level which this core has for itself."""
        return self.memory(level) if level in core.levels else None

    @property
    def element_bits(self) -> int | None:
        """How wide its elements are, where it is a tree that says so: then a network's are no wider."""
        inside = next((core.inside for core in self.cores if core.inside is not None), None)
        return None if inside is None else inside.bits

    def home(self, core: Core) -> Level:
        """Where the operands and results of this core lie while it works: its local buffer, or the global one."""
        return Level.LB if self.local(core, Level.LB) is not None else Level.GB

    @cached_property
    def groups(self) -> tuple[CoreGroup, ...]:
        """The cores of a cluster, those that are alike together, in the order of the first of each."""
        found: dict[Core, list[int]] = {}
        for number, core in enumerate(self.cores):
            found.setdefault(core, []).append(number)
        return tuple(CoreGroup(core, tuple(numbers)) for core, numbers in found.items())

    @property
    def ddr(self) -> Memory:
        memory = self.memory(Level.DDR)
        assert memory is not None, "the loader refuses a machine without DDR"
        return memory

    @property
    def channel_bytes_per_cycle(self) -> Fraction:
        """The rate of one channel of DDR, which is all that a kernel on a single core can draw."""
        return self.ddr.bandwidth_bytes_per_cycle / self.ddr.channels

    @property
    def local_capacity_bytes(self) -> int:
        """Bytes of the local buffers of a cluster's cores together; of GB where no core has one."""
        local = [memory for core in self.cores if (memory := self.local(core, Level.LB)) is not None]
        shared = self.memory(Level.GB)
        if not local and shared is not None:
            return shared.size_bytes
        return sum(memory.size_bytes for memory in local)

    @property
    def private_ddr(self) -> bool:
        """Whether each cluster has a DDR of its own, so that one cluster stands for all."""
        return self.ddr.sharing is Sharing.CLUSTER
