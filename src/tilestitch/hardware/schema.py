"""What a machine's file may hold, key by key, and pydantic's errors about it in our words."""

from difflib import get_close_matches
from enum import StrEnum
from fractions import Fraction
from typing import Annotated, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Discriminator, Field, PlainValidator, Tag
from pydantic_core import ErrorDetails

from tilestitch.base.dtypes import DType
from tilestitch.hardware.accelerator import CORE_LEVELS, Dataflow, Level, Reduction, Sharing
from tilestitch.hardware.fields import (
    ChoiceField,
    EnergyField,
    FieldReader,
    LineField,
    ListField,
    NameField,
    RatioField,
    SwitchField,
    WholeField,
    shown,
)
from tilestitch.hardware.microarchitecture import Controller, ScratchpadLayout
from tilestitch.hardware.yaml_tree import Mistake, Scalar

MAX_CORES_PER_CLUSTER = 4096
MAX_MACS_PER_CYCLE = 2**24


class UnitKind(StrEnum):
    """What `kind` of a unit may say."""

    MATRIX = "matrix"
    VECTOR = "vector"
    ARRAY = "array"


_CLOCK_HZ = WholeField("hertz", 1, 10**12)
CLUSTERS = WholeField("clusters", 1, 4096)
CORE_COUNT = WholeField("cores", 1, MAX_CORES_PER_CLUSTER)
EXTENT = WholeField("", 1, MAX_MACS_PER_CYCLE)
_LANES = WholeField("lanes", 1, 65536)
_SIZE_BYTES = WholeField("bytes", 1, 2**50)
_CHUNK_BYTES = WholeField("bytes", 1, 2**30)
_CHANNELS = WholeField("channels", 1, 1024)
_BANKS = WholeField("banks", 1, 2**20)
_NETWORKS = WholeField("networks", 1, 3)
_BITS = WholeField("bits", 1, 64)
_STAGES = WholeField("stages", 1, 64)
_WORDS = WholeField("words", 1, 2**20)
_NO_OR_MORE_WORDS = WholeField("words", 0, 2**20)
_LATENCY = WholeField("cycles", 1, 1024)
_PORTS = WholeField("ports", 1, 2)
_SETUP_CYCLES = WholeField("cycles", 0, 10**9)
BANDWIDTH = RatioField("bytes per cycle", 10**6, '34, 29.875 or "239/8"')
_SETUP_RATIO = RatioField("cycles", 10**9, '46, 45.5 or "1455/32"')
_RATE = RatioField("", 1024, '1, 0.5 or "1/3"')
_DTYPE = ChoiceField(tuple(DType))
KIND = ChoiceField(tuple(UnitKind))

_Energy: TypeAlias = Annotated[float, PlainValidator(EnergyField())]
_Name: TypeAlias = Annotated[str, PlainValidator(NameField())]
_Extent: TypeAlias = Annotated[int, PlainValidator(EXTENT)]
_ElementType: TypeAlias = Annotated[DType, PlainValidator(_DTYPE)]
_SetupCycles: TypeAlias = Annotated[int, PlainValidator(_SETUP_CYCLES)]
_Bandwidth: TypeAlias = Annotated[Fraction, PlainValidator(BANDWIDTH)]
_Switch: TypeAlias = Annotated[bool, PlainValidator(SwitchField())]


class _Model(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, arbitrary_types_allowed=True)


class CoreGroupModel(_Model):
    """Cores that are alike. Each needs at least one unit: a vector unit, a matrix unit or an array."""

    count: Annotated[int, PlainValidator(CORE_COUNT)] = Field(description="how many cores of each cluster")
    vector: Annotated[str, PlainValidator(NameField("the name of a vector unit"))] | None = Field(
        None, description="the vector unit of each core, by its name under `units`"
    )
    matrix: Annotated[str, PlainValidator(NameField("the name of a matrix unit"))] | None = Field(
        None, description="the matrix unit of each core; a core has a matrix unit or an array, not both"
    )
    array: Annotated[str, PlainValidator(NameField("the name of an array"))] | None = Field(
        None, description="the array of processing elements of each core"
    )
    memories: Annotated[tuple[Level, ...], PlainValidator(ListField(ChoiceField(CORE_LEVELS)))] = Field(
        CORE_LEVELS,
        description="which of the machine's memories per core these cores have; a core without `lb` works in `gb`",
    )


class MatrixModel(_Model):
    """An array of multipliers: m x k x n multiply-accumulates per cycle."""

    kind: Annotated[UnitKind, PlainValidator(KIND)] = Field(description="`matrix`")
    m: _Extent = Field(description="rows of the first operand that enter per cycle")
    k: _Extent = Field(description="products that are added to one sum per cycle: the depth")
    n: _Extent = Field(description="columns of the second operand, each with a sum of its own")
    dataflow: Annotated[Dataflow, PlainValidator(ChoiceField(tuple(Dataflow)))] = Field(
        description="what stays in the unit: the second operand, whose loading takes k cycles, or the sums"
    )
    systolic: _Switch = Field(False, description="whether filling and draining takes k + n - 1 cycles more")
    overlapped_folds: _Switch = Field(
        True, description="whether the second operand of the next fold loads during this one"
    )
    rates: dict[_ElementType, Annotated[Fraction, PlainValidator(_RATE)]] = Field(
        description="the speed for each element type that it multiplies, as a factor of m x k x n; float16 is required"
    )
    mac_pj: _Energy = Field(description="energy of a multiply-accumulate, in picojoules")


class VectorModel(_Model):
    """Performs one primitive operation on a number of elements per cycle."""

    kind: Annotated[UnitKind, PlainValidator(KIND)] = Field(description="`vector`")
    lanes: dict[_ElementType, Annotated[int, PlainValidator(_LANES)]] = Field(
        description="elements per cycle, for each element type; float16 is required"
    )
    operation_pj: _Energy = Field(description="energy of a primitive operation on one element, in picojoules")


class ArrayModel(_Model):
    """Processing elements in rows and columns; each multiplies and adds, with a register file of its own."""

    kind: Annotated[UnitKind, PlainValidator(KIND)] = Field(description="`array`")
    rows: _Extent = Field(description="rows of processing elements")
    columns: _Extent = Field(description="columns of processing elements")
    register_bytes: Annotated[int, PlainValidator(_CHUNK_BYTES)] = Field(
        description="bytes of the register file of one element"
    )
    rates: dict[_ElementType, Annotated[Fraction, PlainValidator(_RATE)]] = Field(
        description="multiply-accumulates of one element per cycle, for each element type; float16 is required"
    )
    first_bytes_per_cycle: _Bandwidth = Field(description="rate of the network that brings the first operand")
    second_bytes_per_cycle: _Bandwidth = Field(description="rate of the network that brings the second operand")
    result_bytes_per_cycle: _Bandwidth = Field(description="rate of the network that collects results")
    reduction_bytes_per_cycle: _Bandwidth = Field(
        description="rate of the network that carries partial sums from element to element"
    )
    mac_pj: _Energy = Field(description="energy of a multiply-accumulate, in picojoules")
    register_pj_per_byte: _Energy = Field(description="energy of a byte read or written in a register file")
    network_pj_per_byte: _Energy = Field(description="energy of a byte that a network brings to one element")
    networks: Annotated[int, PlainValidator(_NETWORKS)] = Field(
        3, description="3: one for each operand; 2: both inputs share the second's; 1: everything shares the first's"
    )
    multicast: _Switch = Field(
        True, description="whether a word reaches every element that needs it at once, or one element after another"
    )
    reduction: Annotated[Reduction, PlainValidator(ChoiceField(tuple(Reduction)))] = Field(
        Reduction.SERIAL,
        description="how partial sums of several elements meet: one result after another (`serial`), or all results at "
        "the same time, from neighbour to neighbour (`chain`) or in pairs (`tree`)",
    )
    dma_setup_cycles: Annotated[Fraction, PlainValidator(_SETUP_RATIO)] | None = Field(
        None, description="set-up of each contiguous run between DRAM and scratchpad; `setup.dma_cycles` unless stated"
    )
    dma_channels: Annotated[int, PlainValidator(_CHANNELS)] = Field(
        1, description="runs between DRAM and scratchpad that proceed at the same time"
    )
    first_bits: Annotated[int, PlainValidator(_BITS)] = Field(
        16, description="width of the first operand; with the next two unset, the network's own"
    )
    second_bits: Annotated[int, PlainValidator(_BITS)] = Field(16, description="width of the second operand")
    result_bits: Annotated[int, PlainValidator(_BITS)] = Field(16, description="width of results and partial sums")
    controller: Annotated[Controller, PlainValidator(ChoiceField(tuple(Controller)))] = Field(
        Controller.OVERLAPPED,
        description="whether passes overlap across tiles too, or by DiRAC's rules, with two more passes for each tile "
        "(array simulator only)",
    )
    multiplier_stages: Annotated[int, PlainValidator(_STAGES)] = Field(
        2, description="pipeline stages of the multiplier; four more are fetch, decode, register read and write"
    )
    adder_stages: Annotated[int, PlainValidator(_STAGES)] = Field(1, description="pipeline stages of the adder")
    first_double_buffered: _Switch = Field(
        True, description="whether the register files have room for the next pass's first operand"
    )
    second_double_buffered: _Switch = Field(True, description="the same for the second operand")
    result_double_buffered: _Switch = Field(
        False, description="the same for results; if false, the array stops while results leave"
    )
    network_latency_cycles: Annotated[int, PlainValidator(_LATENCY)] = Field(
        2, description="cycles of a word through a network, from end to end"
    )
    fifo_words: Annotated[int, PlainValidator(_WORDS)] = Field(
        2, description="words between a network and a register file (array simulator only)"
    )
    register_writes_per_cycle: Annotated[int, PlainValidator(_WORDS)] | None = Field(
        None,
        description="words that a FIFO hands to its register file in a cycle; as many as its network brings unless "
        "stated (array simulator only)",
    )
    instruction_words: Annotated[int, PlainValidator(_WORDS)] | None = Field(
        None,
        description="instructions that an element holds; unless stated loops are in hardware, for passes of any length "
        "(array simulator only)",
    )
    configuration_words: Annotated[int, PlainValidator(_NO_OR_MORE_WORDS)] = Field(
        4, description="words that configure each multicast controller; every row and every element has one"
    )
    scratchpad_ports: Annotated[int, PlainValidator(_PORTS)] = Field(
        2, description="ports of a bank: 2 read and write at the same time, 1 does either (array simulator only)"
    )
    scratchpad_port_bytes: Annotated[int, PlainValidator(_CHUNK_BYTES)] = Field(
        2, description="bytes that a port of a bank passes per cycle (array simulator only)"
    )
    scratchpad_layout: Annotated[ScratchpadLayout, PlainValidator(ChoiceField(tuple(ScratchpadLayout)))] = Field(
        ScratchpadLayout.INTERLEAVED,
        description="whether the words of an operand rotate over its banks, or fill one bank after another (array "
        "simulator only)",
    )
    dram_latency_cycles: _SetupCycles = Field(
        0, description="delay of each contiguous run in addition to its set-up, for the mapper as well"
    )


class MemoryModel(_Model):
    """A memory behind one port, which reads and writes share."""

    per: Sharing = Field(description="what has one of these memories for itself")
    size_bytes: Annotated[int, PlainValidator(_SIZE_BYTES)] = Field(description="capacity of each")
    bandwidth_bytes_per_cycle: _Bandwidth = Field(description="rate of its port, kept exactly")
    burst_bytes: Annotated[int, PlainValidator(_CHUNK_BYTES)] = Field(
        description="the unit that the port moves: every contiguous run rounds up to it"
    )
    read_pj_per_byte: _Energy = Field(description="energy of a byte read, in picojoules")
    write_pj_per_byte: _Energy = Field(description="energy of a byte written, in picojoules")


class OuterMemoryModel(MemoryModel):
    """A buffer on the chip that the cores of a cluster share."""

    per: Annotated[Sharing, PlainValidator(ChoiceField((Sharing.CLUSTER, Sharing.CHIP)))] = Field(
        description="whether every cluster has its own, or all clusters share one"
    )


class DDRModel(OuterMemoryModel):
    """The memory outside the chip, where networks begin and end."""

    channels: Annotated[int, PlainValidator(_CHANNELS)] = Field(
        1, description="channels that share the rate; a kernel on a single core uses one of them"
    )


class CoreMemoryModel(MemoryModel):
    """A memory of one core."""

    per: Annotated[Sharing, PlainValidator(ChoiceField((Sharing.CORE,)))] = Field(description="`core`")


class LocalModel(CoreMemoryModel):
    """The local buffer of a core: operands and results of its units."""

    banks: Annotated[int, PlainValidator(_BANKS)] = Field(
        1,
        description="banks, each of which holds one operand of an array; half of them are for the tile in use; 1 is no "
        "limit",
    )


class MemoriesModel(_Model):
    """Each memory is described once, for all memories of its kind. Every core needs `lb`, or its cluster needs `gb`."""

    ddr: DDRModel = Field(description="the memory outside the chip")
    gb: OuterMemoryModel | None = Field(None, description="the buffer that the cores of a cluster share")
    lb: LocalModel | None = Field(None, description="the local buffer of each core; the scratchpad of an array")
    weights: CoreMemoryModel | None = Field(
        None, description="the memory that feeds the second operand of each core's matrix unit; `lb` unless stated"
    )
    accumulators: CoreMemoryModel | None = Field(
        None, description="partial sums of each core's matrix unit, 32 bits each"
    )


class LinkModel(_Model):
    """The port of each core to the network on the chip, which connects all ports at full rate."""

    bandwidth_bytes_per_cycle: _Bandwidth = Field(description="rate of the port of one core")
    pj_per_byte: _Energy = Field(description="energy of a byte that passes the port, in picojoules")


class SetupModel(_Model):
    """Cycles for which an instruction occupies its engine before its work begins."""

    dma_cycles: _SetupCycles = Field(description="for each descriptor of a transfer between DDR and GB")
    mover_cycles: _SetupCycles = Field(description="for each descriptor of a transfer to or from a core")
    compute_cycles: _SetupCycles = Field(description="for each computation on a unit")
    launch_cycles: _SetupCycles = Field(description="for each kernel that is launched")


def unit_kind(tree: object) -> str | None:
    """The kind that a unit's mapping names, None where it names none that is known."""
    kind = tree.get("kind") if isinstance(tree, dict) else None
    return kind.text if isinstance(kind, Scalar) and kind.text in tuple(UnitKind) else None


UnitModel: TypeAlias = Annotated[
    Annotated[MatrixModel, Tag(UnitKind.MATRIX.value)]
    | Annotated[VectorModel, Tag(UnitKind.VECTOR.value)]
    | Annotated[ArrayModel, Tag(UnitKind.ARRAY.value)],
    Discriminator(unit_kind),
]


class MachineModel(_Model):
    """A machine is one file. All times except `clock_hz` are in cycles, and all clusters are alike."""

    name: _Name = Field(description="what reports and command lines call the machine")
    description: Annotated[str, PlainValidator(LineField())] = Field(description="what it is, in one line")
    clock_hz: Annotated[int, PlainValidator(_CLOCK_HZ)] = Field(description="cycles a second")
    clusters: Annotated[int, PlainValidator(CLUSTERS)] = Field(description="how many clusters the chip has")
    cores: Annotated[list[CoreGroupModel], Field(min_length=1)] = Field(
        description="the cores of one cluster, in groups of cores that are alike"
    )
    units: dict[_Name, UnitModel] = Field(description="the units, by names of your choice")
    memories: MemoriesModel = Field(description="the memories, from DDR to the cores' own")
    link: LinkModel = Field(description="the port of each core to the network on the chip")
    setup: SetupModel = Field(description="cycles before the work of an instruction begins")
    granule_bytes: Annotated[int, PlainValidator(_CHUNK_BYTES)] = Field(
        4096, description="the piece of a transfer after which another transfer may take its turn at a port"
    )


_MODELS: dict[tuple[str, ...], type[_Model]] = {  # by the keys that lead there; "*" is any name or position
    (): MachineModel,
    ("cores", "*"): CoreGroupModel,
    ("units", "*", "matrix"): MatrixModel,
    ("units", "*", "vector"): VectorModel,
    ("units", "*", "array"): ArrayModel,
    ("memories",): MemoriesModel,
    ("memories", "ddr"): DDRModel,
    ("memories", "gb"): OuterMemoryModel,
    ("memories", "lb"): LocalModel,
    ("memories", "weights"): CoreMemoryModel,
    ("memories", "accumulators"): CoreMemoryModel,
    ("link",): LinkModel,
    ("setup",): SetupModel,
}


def _model_at(location: tuple[str | int, ...]) -> type[_Model] | None:
    keys = tuple(str(part) for part in location)
    if keys[:1] in (("cores",), ("units",)) and len(keys) > 1:
        keys = (keys[0], "*", *keys[2:])
    return _MODELS.get(keys)


def mistake_of(details: ErrorDetails) -> Mistake:
    """Pydantic's error in our words."""
    location = details["loc"]
    path = _path(location)
    found = details["input"]
    match details["type"]:
        case "wrong":
            return Mistake(path, details["msg"])
        case "extra_forbidden":
            return Mistake(path, _unknown_key(str(location[-1]), _model_at(location[:-1])))
        case "missing":
            return Mistake(path, f"expected {_expected(location)}, found nothing")
        case "union_tag_not_found" if isinstance(found, dict):
            return Mistake((*path, "kind"), f"expected {KIND.expected}, found {shown(found.get('kind'))}")
        case _:
            return Mistake(path, f"expected {_expected(location)}, found {shown(found)}")


def _path(location: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Where that is in the file: pydantic inserts the kind of a unit after its name, and marks bad keys."""
    if location[0:1] == ("units",) and len(location) > 3:
        location = location[:2] + location[3:]
    return location[:-1] if location[-1:] == ("[key]",) else location


def _unknown_key(key: str, model: type[_Model] | None) -> str:
    known = list(model.model_fields) if model is not None else []
    close = get_close_matches(key, known, n=len(known) or 1)
    others = [name for name in known if name not in close]
    return f"unknown key; known{', closest first' if close else ''}: {', '.join(close + others)}"


def _expected(location: tuple[str | int, ...]) -> str:
    """What belongs at a place of the file, for a place where something else or nothing stands."""
    model = _model_at(location)
    if model is not None:
        keys = f"a mapping with the keys {', '.join(model.model_fields)}"
        return f"{keys} (every network starts in DDR)" if location == ("memories", "ddr") else keys
    if location == ("cores",):
        return "a list with at least one group of cores, such as [{count: 8, matrix: mme, vector: vme}]"
    if location == ("units",):
        return "a mapping from the names of units to what they are"
    if location[0] == "units" and len(location) == 2:
        return f"a mapping whose kind is {KIND.expected}"
    key = str(location[-1])
    if key in ("rates", "lanes"):
        return f"a mapping from element types to numbers, such as {{float16: {16 if key == 'lanes' else 1}}}"
    parent = _model_at(location[:-1])
    assert parent is not None, f"the models know no place {location}"
    readers = [piece.func for piece in parent.model_fields[key].metadata if isinstance(piece, PlainValidator)]
    return cast("FieldReader", readers[0]).expected
