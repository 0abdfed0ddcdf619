"""Machine trees from YAML: axes, memories from the innermost to the outermost, and what an operation costs."""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, PlainValidator, ValidationError
from pydantic_core import ErrorDetails

from tilestitch.base.errors import InputError
from tilestitch.hardware.fields import EnergyField, NameField, WholeField, closest, shown, wrong
from tilestitch.hardware.tree import MAX_LEVELS, Axis, Flow, MachineTree, Port, TreeMemory, tree_faults
from tilestitch.hardware.yaml_tree import Mistake, Scalar, read_tree

MAX_BITS = 2**53
_SIZE = re.compile(r"([0-9]{1,15})(?: ?([KMGT]i?)?(B|b))?", re.ASCII)
_PREFIXES = {"": 1, **{f"{one}i": 1024**at for at, one in enumerate("KMGT", 1)}}
_PREFIXES |= {one: 1000**at for at, one in enumerate("KMGT", 1)}


@dataclass(frozen=True, slots=True)
class SizeField:
    """A size in bits: a whole number of bytes, or one with B or b (bits) and a prefix: KiB is 1,024 B, KB is 1,000."""

    expected = "a size above 0 in bytes, such as 2048, 64 KiB or 16 b (bits)"

    def __call__(self, found: object) -> int:
        match = _SIZE.fullmatch(found.text) if isinstance(found, Scalar) else None
        if match is None:
            raise wrong(self.expected, found)
        bits = int(match[1]) * _PREFIXES[match[2] or ""] * (1 if match[3] == "b" else 8)
        if not 1 <= bits <= MAX_BITS:
            raise wrong(f"{self.expected}, at most 1 PiB", found)
        return bits


@dataclass(frozen=True, slots=True)
class NamesField:
    """A list of names, each once."""

    what: str
    known: tuple[str, ...] = ()

    @property
    def expected(self) -> str:
        return f"a list of {self.what}{': ' if self.known else ''}{', '.join(self.known)}, each once"

    def __call__(self, found: object) -> tuple[str, ...]:
        if not isinstance(found, list):
            raise wrong(self.expected, found)
        names = tuple(NameField()(one) for one in found)
        for name in names:
            if names.count(name) > 1 or (self.known and name not in self.known):
                raise wrong(self.expected, name)
        return names


_Name: TypeAlias = Annotated[str, PlainValidator(NameField())]
_Energy: TypeAlias = Annotated[float, PlainValidator(EnergyField())]
_Width: TypeAlias = Annotated[int, PlainValidator(WholeField("bits", 1, 2**24))]
_Flows: TypeAlias = Annotated[tuple[str, ...], PlainValidator(NamesField("directions", tuple(Flow)))]


class _Model(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, arbitrary_types_allowed=True)


class AxisModel(_Model):
    """One direction in which units repeat."""

    name: _Name
    size: Annotated[int, PlainValidator(WholeField("units", 1, 2**24))]
    loops: Annotated[tuple[str, ...], PlainValidator(NamesField("loops"))] = ()


class PortModel(_Model):
    """One port; without `operands` and `directions` it serves all of the memory's in all directions."""

    name: _Name = "port"
    width_bits: _Width
    granule_bits: _Width | None = None
    operands: Annotated[tuple[str, ...], PlainValidator(NamesField("operands"))] | None = None
    directions: _Flows = tuple(Flow)


class TreeMemoryModel(_Model):
    """One memory, inside those that are listed after it."""

    name: _Name
    size: Annotated[int, PlainValidator(SizeField())]
    operands: Annotated[tuple[str, ...], PlainValidator(NamesField("operands"))]
    read_pj: _Energy
    write_pj: _Energy
    ports: list[PortModel]
    serves: Annotated[tuple[str, ...], PlainValidator(NamesField("axes"))]
    buffers: Annotated[int, PlainValidator(WholeField("buffers", 1, 2))] = 1


class MachineTreeModel(_Model):
    """A machine as a tree."""

    name: _Name
    mac_pj: _Energy
    axes: list[AxisModel] = []
    memories: list[TreeMemoryModel]


def machine_tree(text: str, where: str) -> MachineTree:
    """The tree that a YAML text describes. Raises `InputError` with a line for every mistake."""
    mistakes: list[Mistake] = []
    found = read_tree(text, where, mistakes)
    try:
        model = MachineTreeModel.model_validate(found)
    except ValidationError as error:
        mistakes += [_mistake(details) for details in error.errors(include_url=False)]
        raise InputError("\n".join(f"{where}: {mistake}" for mistake in mistakes)) from None
    tree = MachineTree(
        model.name,
        tuple(Axis(axis.name, axis.size, axis.loops) for axis in model.axes),
        tuple(_memory(memory) for memory in model.memories),
        model.mac_pj,
    )
    mistakes += [Mistake((part,), fault) for part, fault in (*tree_faults(tree), *_order_faults(tree))]
    mistakes += [Mistake((part,), fault) for part, fault in _port_faults(model)]
    if mistakes:
        raise InputError("\n".join(f"{where}: {mistake}" for mistake in mistakes))
    return tree


def _memory(model: TreeMemoryModel) -> TreeMemory:
    ports = tuple(
        Port(
            port.name,
            port.width_bits,
            port.granule_bits if port.granule_bits is not None else port.width_bits,
            tuple((operand, Flow(flow)) for operand in port.operands or model.operands for flow in port.directions),
        )
        for port in model.ports
    )
    return TreeMemory(
        model.name, model.size, model.operands, ports, model.read_pj, model.write_pj, model.serves, model.buffers
    )


def _port_faults(model: MachineTreeModel) -> list[tuple[str, str]]:
    return [
        (memory.name, f"port {port.name} serves {operand}, which the memory does not hold")
        for memory in model.memories
        for port in memory.ports
        for operand in port.operands or ()
        if operand not in memory.operands
    ]


def _order_faults(tree: MachineTree) -> list[tuple[str, str]]:
    """What only a file of ours must hold: names are there once, axes are reached, and memories nest."""
    faults: list[tuple[str, str]] = []
    names = [memory.name for memory in tree.memories]
    faults += [
        (name, "is there twice; names tell memories apart") for name in dict.fromkeys(names) if names.count(name) > 1
    ]
    if len(tree.memories) > 4 * MAX_LEVELS:
        faults.append(("memories", f"expected at most {4 * MAX_LEVELS}, found {len(tree.memories)}"))
    served = {axis for memory in tree.memories for axis in memory.serves}
    faults += [
        (axis.name, "lies inside no memory, so nothing reaches its units; name it where a memory says what it serves")
        for axis in tree.axes
        if axis.name not in served
    ]
    for operand in tree.operands:
        chain = tree.chain(operand)
        for inner, outer in pairwise(chain):
            lost = [axis for axis in inner.serves if axis not in outer.serves]
            if lost:
                faults.append(
                    (
                        outer.name,
                        f"lies outside {inner.name} for {operand}, but does not serve {', '.join(lost)} as that does",
                    )
                )
    return faults


def _mistake(details: ErrorDetails) -> Mistake:
    """Pydantic's error in our words."""
    *above, key = details["loc"] or ("",)
    match details["type"]:
        case "wrong":
            return Mistake(tuple(details["loc"]), details["msg"])
        case "extra_forbidden":
            known = _keys(tuple(above))
            return Mistake(tuple(details["loc"]), f"unknown key{closest(str(key), known)}; known: {', '.join(known)}")
        case "missing":
            return Mistake(tuple(above), f"the field {key} is missing")
        case _:
            return Mistake(
                tuple(details["loc"]), f"expected {_expected(tuple(details['loc']))}, found {shown(details['input'])}"
            )


def _keys(above: tuple[str | int, ...]) -> list[str]:
    models: dict[tuple[str, ...], type[_Model]] = {
        (): MachineTreeModel,
        ("axes",): AxisModel,
        ("memories",): TreeMemoryModel,
        ("memories", "ports"): PortModel,
    }
    return list(models[tuple(str(part) for part in above if isinstance(part, str))].model_fields)


def _expected(location: tuple[str | int, ...]) -> str:
    return "a list" if location and location[-1] in ("axes", "memories", "ports") else "a mapping"
