"""What a machine's file may hold, key by key, and pydantic's errors about it in our words."""

from collections.abc import Mapping
from difflib import get_close_matches
from fractions import Fraction
from typing import Annotated, ClassVar, TypeAlias, cast

from pydantic import Field, PlainValidator, ValidationError
from pydantic_core import ErrorDetails

from tilestitch.hardware.fields import (
    AmountField,
    ChoiceField,
    EnergyField,
    FieldReader,
    LineField,
    NameField,
    SwitchField,
    WholeField,
    shown,
)
from tilestitch.hardware.tree import Flow
from tilestitch.hardware.tree_dma import DmaModel
from tilestitch.hardware.tree_fields import ClockField, NamesField, Rate, RateField, SizeField
from tilestitch.hardware.tree_network import NetworkModel, Storage
from tilestitch.hardware.unit_models import (
    BANDWIDTH,
    BITS,
    CHANNELS,
    CHUNK_BYTES,
    KIND,
    SETUP_CYCLES,
    ArrayModel,
    MatrixModel,
    Model,
    UnitModel,
    VectorModel,
)
from tilestitch.hardware.yaml_tree import Mistake, Tree

MAX_UNITS = 2**24
MAX_CORES_PER_CLUSTER = 4096
CORE_COUNT = WholeField("cores", 1, MAX_CORES_PER_CLUSTER)
SIZE = WholeField("units", 1, MAX_UNITS)
ONE_PORT = ("bandwidth_bytes_per_cycle", "burst_bytes", "read_pj_per_byte", "write_pj_per_byte")
OWN_PORTS = ("ports", "read_pj", "write_pj")
CHIP_PARTS = ("units", "cores", "link", "setup")  # what a chip has beside its tree
_BANKS = WholeField("banks", 1, 2**20)

_Name: TypeAlias = Annotated[str, PlainValidator(NameField())]
_Energy: TypeAlias = Annotated[float, PlainValidator(EnergyField())]
_Area: TypeAlias = Annotated[float, PlainValidator(AmountField("square millimetres"))]
_ElementBits: TypeAlias = Annotated[int, PlainValidator(BITS)]
_Width: TypeAlias = Annotated[int, PlainValidator(WholeField("bits", 1, 2**24))]
_ChunkBytes: TypeAlias = Annotated[int, PlainValidator(CHUNK_BYTES)]
_Bandwidth: TypeAlias = Annotated[Fraction, PlainValidator(BANDWIDTH)]
_SetupCycles: TypeAlias = Annotated[int, PlainValidator(SETUP_CYCLES)]
_Flows: TypeAlias = Annotated[tuple[str, ...], PlainValidator(NamesField("directions", tuple(Flow), 1))]
_Loops: TypeAlias = Annotated[
    tuple[str, ...],
    PlainValidator(NamesField("loops", (), 1, "leave loops out where any may spread, or remove the axis")),
]
_Operands: TypeAlias = Annotated[
    tuple[str, ...],
    PlainValidator(NamesField("operands", (), 1, "nothing reaches a memory that holds none: name them, or remove it")),
]
_AxisOperands: TypeAlias = Annotated[
    tuple[str, ...],
    PlainValidator(NamesField("operands", (), 1, "leave operands out where any loop may spread, or remove the axis")),
]


class AxisModel(Model):
    """One direction in which units repeat, or the cores of a chip, or its clusters."""

    name: _Name = Field(description="what memories, mappings and reports call the axis", examples=["columns"])
    size: Annotated[int, PlainValidator(SIZE)] = Field(
        description="units along the axis, of all axes together at most 16,777,216", examples=[16]
    )
    loops: _Loops | None = Field(
        None, description="the loops of a layer that may be spread along it; any, unless stated", examples=[["K", "C"]]
    )
    operands: _AxisOperands | None = Field(
        None,
        description="the loops that go through exactly these operands may be spread along it, whatever they are "
        "called; any, unless stated. With `loops` both restrict it",
        examples=[["I", "W"]],
    )
    networks: list[NetworkModel] = Field([], description="what carries operands along it, where that is not free")


class PortModel(Model):
    """One port of a memory. Without `operands` and `directions` it serves all that the memory holds, in all directions.

    Directions are seen from the memory: `fill` is written with what comes from above (towards DRAM), `feed` is read for
    what is below (towards the units), `collect` is written with results from below, `drain` is read for what is above.
    """

    name: _Name | None = Field(
        None, description="what reports call it; `port-1` and so on unless stated", examples=["read"]
    )
    width_bits: _Width = Field(
        description="the most bits that one access moves; the energies of the memory are those of such an access",
        examples=[256],
    )
    granule_bits: _Width | None = Field(
        None,
        description="the least bits that an access moves, at its share of the energy; the whole width unless stated",
        examples=[64],
    )
    bandwidth: Annotated[Rate, PlainValidator(RateField())] | None = Field(
        None,
        description="what the port moves on average, in a cycle or, where the machine has a clock, in a second; one "
        "access in a cycle unless stated. Latencies depend on it, energies do not",
        examples=["34.1 GB/s"],
    )
    operands: _Operands | None = Field(
        None, description="the operands that it serves; all of the memory's unless stated", examples=[["O"]]
    )
    directions: _Flows = Field(
        tuple(Flow), description="the directions that it serves", examples=[["collect", "drain"]]
    )


class MemoryModel(Model):
    """One memory, inside those that are listed after it. An operand has the memories that hold it as its chain.

    A memory has either `ports` with `read_pj` and `write_pj`, or in short one port for everything: then it has
    `bandwidth_bytes_per_cycle`, `burst_bytes`, `read_pj_per_byte` and `write_pj_per_byte`.
    """

    either: ClassVar[tuple[tuple[str, ...], ...]] = (OWN_PORTS, ONE_PORT)

    name: _Name = Field(description="what reports and paths call the memory", examples=["buffer"])
    size: Annotated[int, PlainValidator(SizeField())] = Field(
        description="capacity of one: bytes, or with a unit (KiB is 1,024 bytes, KB 1,000, b are bits)",
        examples=["64 KiB"],
    )
    operands: _Operands = Field(
        description="what the memory keeps: each of these is stored here on its way, all others pass it by",
        examples=[["I", "W", "O"]],
    )
    serves: Annotated[tuple[str, ...], PlainValidator(NamesField("axes"))] = Field(
        description="the axes between it and the units; along the others the memory is repeated",
        examples=[["rows", "columns"]],
    )
    ports: Annotated[list[PortModel], Field(min_length=1)] | None = Field(None, description="its ports, at least one")
    read_pj: _Energy | None = Field(
        None, description="energy of a read of the whole width of a port, in picojoules", examples=[20.5]
    )
    write_pj: _Energy | None = Field(
        None, description="energy of a write of the whole width of a port, in picojoules", examples=[25]
    )
    bandwidth_bytes_per_cycle: _Bandwidth | None = Field(
        None, description="rate of the one port, which reads and writes share, kept exactly", examples=[64]
    )
    burst_bytes: _ChunkBytes | None = Field(
        None, description="the unit that the one port moves: every contiguous run rounds up to it", examples=[64]
    )
    read_pj_per_byte: _Energy | None = Field(
        None, description="energy of a byte read through the one port, in picojoules", examples=[6.75]
    )
    write_pj_per_byte: _Energy | None = Field(
        None, description="energy of a byte written through the one port, in picojoules", examples=[6.75]
    )
    buffers: Annotated[int, PlainValidator(WholeField("buffers", 1, 2))] = Field(
        1,
        description="2: a tile that is not all of its operand takes twice its room, so that the next one can arrive",
        examples=[2],
    )
    channels: Annotated[int, PlainValidator(CHANNELS)] = Field(
        1, description="of DRAM: channels that share the rate; a kernel on a single core uses one of them"
    )
    banks: Annotated[int, PlainValidator(_BANKS)] = Field(
        1,
        description="banks, each of which holds one operand of it, of the scratchpad of a PE array and of what is no "
        "chip; with two buffers half of them are for the tile in use; 1 is no limit",
    )
    area_mm2: _Area | None = Field(
        None,
        description="area of one, in square millimetres; it is shown, and `explore` adds it up",
        examples=[0.25],
    )
    sliding_window: Annotated[bool, PlainValidator(SwitchField())] = Field(
        False,
        description="true: a tile of an input keeps what it has in common with the one before (a line buffer), and "
        "only the rest is moved",
        examples=[True],
    )
    storage: Annotated[Storage, PlainValidator(ChoiceField(tuple(Storage)))] = Field(
        Storage.UNEVEN,
        description="even: the tiles of all its operands change at the same place of the loop nest; uneven: at any",
        examples=["even"],
    )


class CoreGroupModel(Model):
    """Cores that are alike. Each needs at least one unit: a vector unit, a matrix unit or an array."""

    count: Annotated[int, PlainValidator(CORE_COUNT)] | None = Field(
        None,
        description="how many of the cores of a cluster; all of them unless stated, which only one group can leave out",
    )
    vector: Annotated[str, PlainValidator(NameField("the name of a vector unit"))] | None = Field(
        None, description="the vector unit of each core, by its name under `units`"
    )
    matrix: Annotated[str, PlainValidator(NameField("the name of a matrix unit"))] | None = Field(
        None, description="the matrix unit of each core; a core has a matrix unit or an array, not both"
    )
    array: Annotated[str, PlainValidator(NameField("the name of an array"))] | None = Field(
        None, description="the array of processing elements of each core"
    )
    memories: Annotated[tuple[str, ...], PlainValidator(NamesField("memories"))] | None = Field(
        None,
        description="which of the memories of a core these cores have, by name; all unless stated. A core without a "
        "local buffer works in the buffer that the cores share",
    )


class LinkModel(Model):
    """The port of each core to the network on the chip, which connects all ports at full rate."""

    bandwidth_bytes_per_cycle: _Bandwidth = Field(description="rate of the port of one core")
    pj_per_byte: _Energy = Field(description="energy of a byte that passes the port, in picojoules")


class SetupModel(Model):
    """Cycles for which an instruction occupies its engine before its work begins."""

    dma_cycles: _SetupCycles = Field(description="for each descriptor of a transfer between DRAM and the shared buffer")
    mover_cycles: _SetupCycles = Field(description="for each descriptor of a transfer to or from a core")
    compute_cycles: _SetupCycles = Field(description="for each computation on a unit")
    launch_cycles: _SetupCycles = Field(description="for each kernel that is launched")


class MachineModel(Model):
    """A machine: a tree of memories with axes, and, where it is a chip to compile for, the units of its cores.

    `units`, `cores`, `link` and `setup` go together and make it a chip. A tree without them is compiled for as
    docs/tree-compile.md says; to compile, either needs a `clock`.
    """

    name: _Name = Field(description="what reports and command lines call the machine", examples=["my-npu"])
    description: Annotated[str, PlainValidator(LineField())] = Field(
        "", description="what it is, in one line", examples=["A small array with one buffer"]
    )
    clock: Annotated[int, PlainValidator(ClockField())] | None = Field(
        None,
        description="cycles a second, in hertz or with a unit; it turns bandwidths a second into bits a cycle",
        examples=["1.05 GHz"],
    )
    mac_pj: _Energy | None = Field(
        None,
        description="energy of one multiply-accumulate of a unit, in picojoules; of a chip its units say it",
        examples=[0.04],
    )
    mac_area_mm2: _Area | None = Field(
        None,
        description="area of one unit, in square millimetres; it is shown, and `explore` adds it up",
        examples=[0.0005],
    )
    bits: _ElementBits | None = Field(
        None,
        description="how wide an element of every operand is on this machine, whatever layers say; as wide as these "
        "say, unless stated. Of a chip its units say it",
        examples=[8],
    )
    sum_bits: _ElementBits | None = Field(
        None,
        description="with `bits`: how wide results are while they are still added to; as wide as elements, unless "
        "stated",
        examples=[32],
    )
    latches: Annotated[bool, PlainValidator(SwitchField())] = Field(
        True,
        description="false: units read their operands and write their sums at every step, whatever the loops; true: "
        "inputs stay there while loops leave them alone. Of a chip with a PE array it is false",
        examples=[False],
    )
    reads_first_sums: Annotated[bool, PlainValidator(SwitchField())] = Field(
        True,
        description="false: a sum that nothing was added to yet is zero and is not read; true: it is read as others "
        "are. Of a chip with a PE array it is false",
        examples=[False],
    )
    moves_boxes: Annotated[bool, PlainValidator(SwitchField())] = Field(
        False,
        description="true: tiles are boxes, with padding and what lies between strided values; false: only values "
        "that are needed are moved and stored. Of a chip with a PE array it is true",
        examples=[True],
    )
    axes: list[AxisModel] = Field(
        [],
        description="the directions in which units repeat; of a chip those in which cores and clusters do; none: "
        "there is one",
    )
    memories: Annotated[list[MemoryModel], Field(min_length=1)] = Field(
        description="the memories, from the innermost to the outermost"
    )
    dma: list[DmaModel] = Field(
        [], description="DMA engines between memories; without any, what crosses waits for the ports of both alone"
    )
    units: dict[_Name, UnitModel] | None = Field(
        None, description="the units of the cores of a chip, by names of your choice"
    )
    cores: Annotated[list[CoreGroupModel], Field(min_length=1)] | None = Field(
        None, description="the cores of one cluster of a chip, in groups of cores that are alike"
    )
    link: LinkModel | None = Field(None, description="the port of each core to the network on the chip")
    setup: SetupModel | None = Field(None, description="cycles before the work of an instruction begins")
    granule_bytes: _ChunkBytes = Field(
        4096, description="the piece of a transfer after which another transfer may take its turn at a port"
    )


_MODELS: Mapping[tuple[str, ...], type[Model]] = {  # by the keys that lead there; "*" is any name or position
    (): MachineModel,
    ("axes", "*"): AxisModel,
    ("axes", "*", "networks", "*"): NetworkModel,
    ("memories", "*"): MemoryModel,
    ("memories", "*", "ports", "*"): PortModel,
    ("dma", "*"): DmaModel,
    ("cores", "*"): CoreGroupModel,
    ("units", "*", "matrix"): MatrixModel,
    ("units", "*", "vector"): VectorModel,
    ("units", "*", "array"): ArrayModel,
    ("link",): LinkModel,
    ("setup",): SetupModel,
}
_LISTS = {
    ("axes",): "a list of axes, such as [{name: core, size: 8}]",
    ("memories",): "a list of memories, at least one",
    ("memories", "*", "ports"): "a list of ports, at least one",
    ("axes", "*", "networks"): "a list of networks",
    ("dma",): "a list of DMA engines, such as [{name: loads, joins: [dram, buffer], bandwidth: 32 B/cycle}]",
    ("cores",): "a list with at least one group of cores, such as [{matrix: mme, vector: vme}]",
    ("units",): "a mapping from the names of units to what they are",
}
_RENAMED = {"size_bytes": "size", "clock_hz": "clock", "per": "serves"}  # of the form that files once had


def model_of(tree: Tree) -> tuple[MachineModel | None, list[Mistake]]:
    """What a file says, or what is wrong with single fields of it, whatever the others say."""
    try:
        return MachineModel.model_validate(tree), []
    except ValidationError as error:
        return None, [_mistake_of(details) for details in error.errors(include_url=False)]


def _keys(location: tuple[str | int, ...]) -> tuple[str, ...]:
    """The keys that lead to a place, with `*` for positions and for the names of units."""
    keys = tuple("*" if isinstance(part, int) else part for part in location)
    return (keys[0], "*", *keys[2:]) if keys[:1] == ("units",) and len(keys) > 1 else keys


def _mistake_of(details: ErrorDetails) -> Mistake:
    """Pydantic's error in our words."""
    location = details["loc"]
    path = _path(location)
    found = details["input"]
    match details["type"]:
        case "wrong":
            return Mistake(path, details["msg"])
        case "extra_forbidden":
            return Mistake(path, _unknown_key(str(location[-1]), _MODELS.get(_keys(location[:-1]))))
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


def _unknown_key(key: str, model: type[Model] | None) -> str:
    known = list(model.model_fields) if model is not None else []
    if _RENAMED.get(key) in known:
        return f"unknown key; write {_RENAMED[key]}"
    close = get_close_matches(key, known, n=len(known) or 1)
    others = [name for name in known if name not in close]
    return f"unknown key; known{', closest first' if close else ''}: {', '.join(close + others)}"


def _expected(location: tuple[str | int, ...]) -> str:
    """What belongs at a place of the file, for a place where something else or nothing stands."""
    keys = _keys(location)
    model = _MODELS.get(keys)
    if model is not None:
        return f"a mapping with the keys {', '.join(model.model_fields)}"
    if keys in _LISTS:
        return _LISTS[keys]
    if keys[0] == "units" and len(keys) == 2:
        return f"a mapping whose kind is {KIND.expected}"
    key = keys[-1]
    if key in ("rates", "lanes"):
        return f"a mapping from element types to numbers, such as {{float16: {16 if key == 'lanes' else 1}}}"
    parent = _MODELS.get(keys[:-1])
    assert parent is not None, f"the models know no place {location}"
    return field_expected(parent, key)


def field_expected(model: type[Model], key: str) -> str:
    """What a field of a model may say."""
    found = model.model_fields[key]
    arguments = [*found.metadata, *_metadata(found.annotation)]
    readers = [piece.func for piece in arguments if isinstance(piece, PlainValidator)]
    return cast("FieldReader", readers[0]).expected


def _metadata(annotation: object) -> list[object]:
    """What is annotated to the type of a field that may be left out."""
    return [piece for one in getattr(annotation, "__args__", ()) for piece in getattr(one, "__metadata__", ())]
