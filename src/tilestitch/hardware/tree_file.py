"""Machine trees from YAML: axes, memories from the innermost to the outermost, and what an operation costs."""

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, NoReturn, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError
from pydantic_core import ErrorDetails

from tilestitch.base.errors import InputError
from tilestitch.hardware.fields import AmountField, EnergyField, LineField, NameField, WholeField, closest, shown
from tilestitch.hardware.tree import MAX_LEVELS, Axis, Flow, MachineTree, Port, TreeMemory, tree_faults
from tilestitch.hardware.tree_fields import MAX_BITS_PER_CYCLE, ClockField, NamesField, Rate, RateField, SizeField
from tilestitch.hardware.yaml_tree import Mistake, Tree, read_tree

MAX_UNITS = 2**24
MAX_LINES = 100  # of one error message

_Name: TypeAlias = Annotated[str, PlainValidator(NameField())]
_Energy: TypeAlias = Annotated[float, PlainValidator(EnergyField())]
_Area: TypeAlias = Annotated[float, PlainValidator(AmountField("square millimetres"))]
_Width: TypeAlias = Annotated[int, PlainValidator(WholeField("bits", 1, 2**24))]
_Flows: TypeAlias = Annotated[tuple[str, ...], PlainValidator(NamesField("directions", tuple(Flow), 1))]
_Loops: TypeAlias = Annotated[
    tuple[str, ...],
    PlainValidator(NamesField("loops", (), 1, "leave loops out where any may spread, or remove the axis")),
]
_Operands: TypeAlias = Annotated[
    tuple[str, ...],
    PlainValidator(NamesField("operands", (), 1, "nothing reaches a memory that holds none: name them, or remove it")),
]


class _Model(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, arbitrary_types_allowed=True)


class AxisModel(_Model):
    """One direction in which units repeat."""

    name: _Name = Field(description="what memories, mappings and reports call the axis", examples=["columns"])
    size: Annotated[int, PlainValidator(WholeField("units", 1, MAX_UNITS))] = Field(
        description="units along the axis, of all axes together at most 16,777,216", examples=[16]
    )
    loops: _Loops | None = Field(
        None, description="the loops of a layer that may be spread along it; any, unless stated", examples=[["K", "C"]]
    )


class PortModel(_Model):
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
        "access in a cycle unless stated. It is shown, and no energy depends on it",
        examples=["34.1 GB/s"],
    )
    operands: _Operands | None = Field(
        None, description="the operands that it serves; all of the memory's unless stated", examples=[["O"]]
    )
    directions: _Flows = Field(
        tuple(Flow), description="the directions that it serves", examples=[["collect", "drain"]]
    )


class TreeMemoryModel(_Model):
    """One memory, inside those that are listed after it. An operand has the memories that hold it as its chain."""

    name: _Name = Field(description="what reports call the memory", examples=["buffer"])
    size: Annotated[int, PlainValidator(SizeField())] = Field(
        description="capacity of one: bytes, or with a unit (KiB is 1,024 bytes, KB 1,000, b are bits)",
        examples=["64 KiB"],
    )
    operands: _Operands = Field(
        description="what the memory keeps: each of these is stored here on its way, all others pass it by",
        examples=[["I", "W", "O"]],
    )
    read_pj: _Energy = Field(
        description="energy of a read of the whole width of a port, in picojoules", examples=[20.5]
    )
    write_pj: _Energy = Field(
        description="energy of a write of the whole width of a port, in picojoules", examples=[25]
    )
    ports: Annotated[list[PortModel], Field(min_length=1)] = Field(description="its ports, at least one")
    serves: Annotated[tuple[str, ...], PlainValidator(NamesField("axes"))] = Field(
        description="the axes between it and the units; along the others the memory is repeated",
        examples=[["rows", "columns"]],
    )
    buffers: Annotated[int, PlainValidator(WholeField("buffers", 1, 2))] = Field(
        1,
        description="2: a tile that is not all of its operand takes twice its room, so that the next one can arrive",
        examples=[2],
    )
    area_mm2: _Area | None = Field(
        None,
        description="area of one, in square millimetres; it is shown, and nothing else depends on it",
        examples=[0.25],
    )


class MachineTreeModel(_Model):
    """A machine as a tree: memories of any number, from the innermost to the outermost, with fan-outs between them."""

    name: _Name = Field(description="what reports and command lines call the machine", examples=["my-npu"])
    description: Annotated[str, PlainValidator(LineField())] = Field(
        "", description="what it is, in one line", examples=["A small array with one buffer"]
    )
    clock: Annotated[int, PlainValidator(ClockField())] | None = Field(
        None,
        description="cycles a second, in hertz or with a unit; it turns bandwidths a second into bits a cycle",
        examples=["1.05 GHz"],
    )
    mac_pj: _Energy = Field(description="energy of one multiply-accumulate of a unit, in picojoules", examples=[0.04])
    mac_area_mm2: _Area | None = Field(
        None,
        description="area of one unit, in square millimetres; it is shown, and nothing else depends on it",
        examples=[0.0005],
    )
    axes: list[AxisModel] = Field([], description="the directions in which units repeat; none: there is one unit")
    memories: Annotated[list[TreeMemoryModel], Field(min_length=1)] = Field(
        description="the memories, from the innermost to the outermost"
    )


def machine_tree(text: str, where: str) -> MachineTree:
    """The tree that a YAML text describes. Raises `InputError` with a line for every mistake."""
    mistakes: list[Mistake] = []
    return tree_of_file(read_tree(text, where, mistakes), mistakes, where)


def tree_of_file(found: Tree, mistakes: list[Mistake], where: str) -> MachineTree:
    """The tree that the values of a file say, unless the file already has mistakes. Raises `InputError` likewise."""
    try:
        model = MachineTreeModel.model_validate(found)
    except ValidationError as error:
        _refuse([*mistakes, *(_mistake(details) for details in error.errors(include_url=False))], where)
    rates = {} if model.clock is None else {True: Fraction(1, model.clock)}
    rates |= {False: Fraction(1)}
    tree = MachineTree(
        model.name,
        tuple(Axis(axis.name, axis.size, axis.loops or ()) for axis in model.axes),
        tuple(_memory(memory, rates) for memory in model.memories),
        model.mac_pj,
        model.description,
        model.clock,
        model.mac_area_mm2,
    )
    faults = (*tree_faults(tree), *_order_faults(tree), *_port_faults(model))
    mistakes = [*mistakes, *(Mistake((part,), fault) for part, fault in faults), *_rate_mistakes(model, rates)]
    if mistakes:
        _refuse(mistakes, where)
    return tree


def _refuse(mistakes: list[Mistake], where: str) -> NoReturn:
    lines = [f"{where}: {mistake}" for mistake in mistakes[:MAX_LINES]]
    if len(mistakes) > MAX_LINES:
        lines.append(f"{where}: and {len(mistakes) - MAX_LINES} more mistakes")
    raise InputError("\n".join(lines)) from None


def _memory(model: TreeMemoryModel, cycles: Mapping[bool, Fraction]) -> TreeMemory:
    """A memory; `cycles` are those in which a rate is said: of a cycle, and of a second where there is a clock."""
    ports = tuple(
        Port(
            port.name or f"port-{number}",
            port.width_bits,
            port.granule_bits if port.granule_bits is not None else port.width_bits,
            tuple((operand, Flow(flow)) for operand in port.operands or model.operands for flow in port.directions),
            None if port.bandwidth is None else port.bandwidth.bits * cycles.get(port.bandwidth.is_per_second, 0),
        )
        for number, port in enumerate(model.ports, 1)
    )
    return TreeMemory(
        model.name,
        model.size,
        model.operands,
        ports,
        model.read_pj,
        model.write_pj,
        model.serves,
        model.buffers,
        model.area_mm2,
    )


def _rate_mistakes(model: MachineTreeModel, cycles: Mapping[bool, Fraction]) -> list[Mistake]:
    mistakes: list[Mistake] = []
    for at, memory in enumerate(model.memories):
        for number, port in enumerate(memory.ports):
            place = ("memories", at, "ports", number, "bandwidth")
            if port.bandwidth is None:
                continue
            if port.bandwidth.is_per_second not in cycles:
                fault = "is said a second, and the machine has no clock; write clock, such as 1 GHz, or a rate a cycle"
                mistakes.append(Mistake(place, fault))
            elif not 0 < port.bandwidth.bits * cycles[port.bandwidth.is_per_second] <= MAX_BITS_PER_CYCLE:
                found = float(port.bandwidth.bits * cycles[port.bandwidth.is_per_second])
                fault = f"expected at most {MAX_BITS_PER_CYCLE:,} bits a cycle, found {found:,.0f}; look at the clock"
                mistakes.append(Mistake(place, fault))
    return mistakes


def _port_faults(model: MachineTreeModel) -> list[tuple[str, str]]:
    twice = [
        (memory.name, f"has two ports called {name}; names tell ports apart")
        for memory in model.memories
        for name in _twice([port.name for port in memory.ports if port.name is not None])
    ]
    return twice + [
        (memory.name, f"port {port.name or number} serves {operand}, which the memory does not hold")
        for memory in model.memories
        for number, port in enumerate(memory.ports, 1)
        for operand in port.operands or ()
        if operand not in memory.operands
    ]


def _order_faults(tree: MachineTree) -> list[tuple[str, str]]:
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
        if axis.name not in served
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


def _mistake(details: ErrorDetails) -> Mistake:
    """Pydantic's error in our words."""
    place = tuple(details["loc"])
    *above, key = place or ("",)
    match details["type"]:
        case "wrong":
            return Mistake(place, details["msg"])
        case "extra_forbidden":
            known = list(_model_at(tuple(above)).model_fields)
            return Mistake(place, f"unknown key{closest(str(key), known)}; known: {', '.join(known)}")
        case "missing":
            return Mistake(tuple(above), f"the field {key} is missing")
        case _:
            return Mistake(place, f"expected {_expected(place)}, found {shown(details['input'])}")


_MODELS: Mapping[str, type[_Model]] = {"axes": AxisModel, "memories": TreeMemoryModel, "ports": PortModel}


def _model_at(place: tuple[str | int, ...]) -> type[_Model]:
    lists = [part for part in place if isinstance(part, str)]
    return _MODELS[lists[-1]] if lists else MachineTreeModel


def _expected(place: tuple[str | int, ...]) -> str:
    """What belongs where a list or a mapping should stand."""
    if place and isinstance(place[-1], str):
        return f"a list of {place[-1]}, at least one" if place[-1] != "axes" else "a list of axes"
    return f"a mapping with the keys {', '.join(_model_at(place).model_fields)}"
