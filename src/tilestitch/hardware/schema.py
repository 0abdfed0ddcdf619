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
    count: Annotated[int, PlainValidator(CORE_COUNT)]
    vector: Annotated[str, PlainValidator(NameField("the name of a vector unit"))] | None = None
    matrix: Annotated[str, PlainValidator(NameField("the name of a matrix unit"))] | None = None
    array: Annotated[str, PlainValidator(NameField("the name of an array"))] | None = None
    memories: Annotated[tuple[Level, ...], PlainValidator(ListField(ChoiceField(CORE_LEVELS)))] = CORE_LEVELS


class MatrixModel(_Model):
    kind: Annotated[UnitKind, PlainValidator(KIND)]
    m: _Extent
    k: _Extent
    n: _Extent
    dataflow: Annotated[Dataflow, PlainValidator(ChoiceField(tuple(Dataflow)))]
    systolic: _Switch = False
    overlapped_folds: _Switch = True
    rates: dict[_ElementType, Annotated[Fraction, PlainValidator(_RATE)]]
    mac_pj: _Energy


class VectorModel(_Model):
    kind: Annotated[UnitKind, PlainValidator(KIND)]
    lanes: dict[_ElementType, Annotated[int, PlainValidator(_LANES)]]
    operation_pj: _Energy


class ArrayModel(_Model):
    kind: Annotated[UnitKind, PlainValidator(KIND)]
    rows: _Extent
    columns: _Extent
    register_bytes: Annotated[int, PlainValidator(_CHUNK_BYTES)]
    rates: dict[_ElementType, Annotated[Fraction, PlainValidator(_RATE)]]
    first_bytes_per_cycle: _Bandwidth
    second_bytes_per_cycle: _Bandwidth
    result_bytes_per_cycle: _Bandwidth
    reduction_bytes_per_cycle: _Bandwidth
    mac_pj: _Energy
    register_pj_per_byte: _Energy
    network_pj_per_byte: _Energy
    networks: Annotated[int, PlainValidator(_NETWORKS)] = 3
    multicast: _Switch = True
    reduction: Annotated[Reduction, PlainValidator(ChoiceField(tuple(Reduction)))] = Reduction.SERIAL
    dma_setup_cycles: Annotated[Fraction, PlainValidator(_SETUP_RATIO)] | None = None
    dma_channels: Annotated[int, PlainValidator(_CHANNELS)] = 1
    first_bits: Annotated[int, PlainValidator(_BITS)] = 16
    second_bits: Annotated[int, PlainValidator(_BITS)] = 16
    result_bits: Annotated[int, PlainValidator(_BITS)] = 16
    controller: Annotated[Controller, PlainValidator(ChoiceField(tuple(Controller)))] = Controller.OVERLAPPED
    multiplier_stages: Annotated[int, PlainValidator(_STAGES)] = 2
    adder_stages: Annotated[int, PlainValidator(_STAGES)] = 1
    first_double_buffered: _Switch = True
    second_double_buffered: _Switch = True
    result_double_buffered: _Switch = False
    network_latency_cycles: Annotated[int, PlainValidator(_LATENCY)] = 2
    fifo_words: Annotated[int, PlainValidator(_WORDS)] = 2
    register_writes_per_cycle: Annotated[int, PlainValidator(_WORDS)] | None = None
    instruction_words: Annotated[int, PlainValidator(_WORDS)] | None = None
    configuration_words: Annotated[int, PlainValidator(_NO_OR_MORE_WORDS)] = 4
    scratchpad_ports: Annotated[int, PlainValidator(_PORTS)] = 2
    scratchpad_port_bytes: Annotated[int, PlainValidator(_CHUNK_BYTES)] = 2
    scratchpad_layout: Annotated[ScratchpadLayout, PlainValidator(ChoiceField(tuple(ScratchpadLayout)))] = (
        ScratchpadLayout.INTERLEAVED
    )
    dram_latency_cycles: _SetupCycles = 0


class MemoryModel(_Model):
    per: Sharing
    size_bytes: Annotated[int, PlainValidator(_SIZE_BYTES)]
    bandwidth_bytes_per_cycle: _Bandwidth
    burst_bytes: Annotated[int, PlainValidator(_CHUNK_BYTES)]
    read_pj_per_byte: _Energy
    write_pj_per_byte: _Energy


class OuterMemoryModel(MemoryModel):
    per: Annotated[Sharing, PlainValidator(ChoiceField((Sharing.CLUSTER, Sharing.CHIP)))]


class DDRModel(OuterMemoryModel):
    channels: Annotated[int, PlainValidator(_CHANNELS)] = 1


class CoreMemoryModel(MemoryModel):
    per: Annotated[Sharing, PlainValidator(ChoiceField((Sharing.CORE,)))]


class LocalModel(CoreMemoryModel):
    banks: Annotated[int, PlainValidator(_BANKS)] = 1


class MemoriesModel(_Model):
    ddr: DDRModel
    gb: OuterMemoryModel | None = None
    lb: LocalModel | None = None
    weights: CoreMemoryModel | None = None
    accumulators: CoreMemoryModel | None = None


class LinkModel(_Model):
    bandwidth_bytes_per_cycle: _Bandwidth
    pj_per_byte: _Energy


class SetupModel(_Model):
    dma_cycles: _SetupCycles
    mover_cycles: _SetupCycles
    compute_cycles: _SetupCycles
    launch_cycles: _SetupCycles


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
    name: _Name
    description: Annotated[str, PlainValidator(LineField())]
    clock_hz: Annotated[int, PlainValidator(_CLOCK_HZ)]
    clusters: Annotated[int, PlainValidator(CLUSTERS)]
    cores: Annotated[list[CoreGroupModel], Field(min_length=1)]
    units: dict[_Name, UnitModel]
    memories: MemoriesModel
    link: LinkModel
    setup: SetupModel
    granule_bytes: Annotated[int, PlainValidator(_CHUNK_BYTES)] = 4096


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
