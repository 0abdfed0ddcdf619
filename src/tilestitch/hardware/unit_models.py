"""What a machine's file may say about units: matrix units, vector units, arrays of processing elements."""

from enum import StrEnum
from fractions import Fraction
from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, PlainValidator, Tag

from tilestitch.base.dtypes import DType
from tilestitch.hardware.accelerator import Dataflow, Reduction
from tilestitch.hardware.fields import ChoiceField, EnergyField, RatioField, SwitchField, WholeField
from tilestitch.hardware.microarchitecture import Controller, ScratchpadLayout
from tilestitch.hardware.yaml_tree import Scalar

MAX_MACS_PER_CYCLE = 2**24


class UnitKind(StrEnum):
    """What `kind` of a unit may say."""

    MATRIX = "matrix"
    VECTOR = "vector"
    ARRAY = "array"


EXTENT = WholeField("", 1, MAX_MACS_PER_CYCLE)
CHUNK_BYTES = WholeField("bytes", 1, 2**30)
CHANNELS = WholeField("channels", 1, 1024)
SETUP_CYCLES = WholeField("cycles", 0, 10**9)
BITS = WholeField("bits", 1, 64)  # of an element
BANDWIDTH = RatioField("bytes per cycle", 10**6, '34, 29.875 or "239/8"')
KIND = ChoiceField(tuple(UnitKind))
_LANES = WholeField("lanes", 1, 65536)
_NETWORKS = WholeField("networks", 1, 3)
_STAGES = WholeField("stages", 1, 64)
_WORDS = WholeField("words", 1, 2**20)
_NO_OR_MORE_WORDS = WholeField("words", 0, 2**20)
_LATENCY = WholeField("cycles", 1, 1024)
_PORTS = WholeField("ports", 1, 2)
_SETUP_RATIO = RatioField("cycles", 10**9, '46, 45.5 or "1455/32"')
_RATE = RatioField("", 1024, '1, 0.5 or "1/3"')

_Energy: TypeAlias = Annotated[float, PlainValidator(EnergyField())]
_Extent: TypeAlias = Annotated[int, PlainValidator(EXTENT)]
_ElementType: TypeAlias = Annotated[DType, PlainValidator(ChoiceField(tuple(DType)))]
_Bandwidth: TypeAlias = Annotated[Fraction, PlainValidator(BANDWIDTH)]
_Switch: TypeAlias = Annotated[bool, PlainValidator(SwitchField())]


class Model(BaseModel):
    """One mapping of the file: no key but its own, and nothing converted."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, arbitrary_types_allowed=True)


class MatrixModel(Model):
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
        description="the speed for each element type that it multiplies, as a factor of m x k x n"
    )
    mac_pj: _Energy = Field(description="energy of a multiply-accumulate, in picojoules")


class VectorModel(Model):
    """Performs one primitive operation on a number of elements per cycle."""

    kind: Annotated[UnitKind, PlainValidator(KIND)] = Field(description="`vector`")
    lanes: dict[_ElementType, Annotated[int, PlainValidator(_LANES)]] = Field(
        description="elements per cycle, for each element type; others run as float16, or as the slowest without that"
    )
    operation_pj: _Energy = Field(description="energy of a primitive operation on one element, in picojoules")


class ArrayModel(Model):
    """Processing elements in rows and columns; each multiplies and adds, with a register file of its own."""

    kind: Annotated[UnitKind, PlainValidator(KIND)] = Field(description="`array`")
    rows: _Extent = Field(description="rows of processing elements")
    columns: _Extent = Field(description="columns of processing elements")
    register_bytes: Annotated[int, PlainValidator(CHUNK_BYTES)] = Field(
        description="bytes of the register file of one element"
    )
    rates: dict[_ElementType, Annotated[Fraction, PlainValidator(_RATE)]] = Field(
        description="multiply-accumulates of one element per cycle, for each element type"
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
    dma_channels: Annotated[int, PlainValidator(CHANNELS)] = Field(
        1, description="runs between DRAM and scratchpad that proceed at the same time"
    )
    first_bits: Annotated[int, PlainValidator(BITS)] = Field(
        16, description="width of the first operand; with the next two unset, the network's own"
    )
    second_bits: Annotated[int, PlainValidator(BITS)] = Field(16, description="width of the second operand")
    result_bits: Annotated[int, PlainValidator(BITS)] = Field(16, description="width of results and partial sums")
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
    scratchpad_port_bytes: Annotated[int, PlainValidator(CHUNK_BYTES)] = Field(
        2, description="bytes that a port of a bank passes per cycle (array simulator only)"
    )
    scratchpad_layout: Annotated[ScratchpadLayout, PlainValidator(ChoiceField(tuple(ScratchpadLayout)))] = Field(
        ScratchpadLayout.INTERLEAVED,
        description="whether the words of an operand rotate over its banks, or fill one bank after another (array "
        "simulator only)",
    )
    dram_latency_cycles: Annotated[int, PlainValidator(SETUP_CYCLES)] = Field(
        0, description="delay of each contiguous run in addition to its set-up, for the mapper as well"
    )


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
