"""What a tree's file says of DMA engines between its memories."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, ClassVar, cast

from pydantic import Field, PlainValidator

from tilestitch.base.json_values import Json
from tilestitch.base.units import counted, format_number
from tilestitch.hardware.fields import NameField, WholeField, wrong
from tilestitch.hardware.tree import DmaEngine, MachineTree
from tilestitch.hardware.tree_fields import Rate, RateField
from tilestitch.hardware.unit_models import SETUP_CYCLES, Model


@dataclass(frozen=True, slots=True)
class PairField:
    """Two memories by name."""

    expected = "two different memories, such as [dram, buffer]"
    schema: ClassVar[Mapping[str, Json]] = {
        "type": "array",
        "items": NameField().schema,
        "uniqueItems": True,
        "minItems": 2,
        "maxItems": 2,
    }

    def __call__(self, found: object) -> tuple[str, str]:
        names = [NameField()(one) for one in cast("list[object]", found)] if isinstance(found, list) else []
        if len(set(names)) != 2 or len(names) != 2:
            raise wrong(self.expected, ", ".join(names) or found)
        return names[0], names[1]


class DmaModel(Model):
    """Engines that carry everything that crosses between two memories. They repeat as the inner one of these does."""

    name: Annotated[str, PlainValidator(NameField())] = Field(
        description="what reports call the engines", examples=["loads"]
    )
    joins: Annotated[tuple[str, str], PlainValidator(PairField())] = Field(
        description="the two memories: some operand crosses from the one directly to the other",
        examples=[["dram", "buffer"]],
    )
    count: Annotated[int, PlainValidator(WholeField("engines", 1, 1024))] = Field(
        1, description="how many there are at each of the inner memories; every transfer is divided over all of them"
    )
    setup_cycles: Annotated[int, PlainValidator(SETUP_CYCLES)] = Field(
        0, description="cycles before a transfer begins to move, for each tile in each direction", examples=[100]
    )
    bandwidth: Annotated[Rate, PlainValidator(RateField())] = Field(
        description="what one engine moves in a cycle or in a second", examples=["32 B/cycle"]
    )


def engines_of(
    models: Sequence[DmaModel], memories: Sequence[str], cycles: Mapping[bool, Fraction]
) -> tuple[DmaEngine, ...]:
    """The engines of a tree with these memories, innermost first; `cycles` are those in which a rate is said."""
    found: list[DmaEngine] = []
    for one in models:
        inner, outer = sorted(one.joins, key=lambda name: memories.index(name) if name in memories else -1)
        rate = one.bandwidth.bits * cycles.get(one.bandwidth.is_per_second, Fraction(1))
        found.append(DmaEngine(one.name, inner, outer, one.count, one.setup_cycles, rate))
    return tuple(found)


def engine_faults(tree: MachineTree) -> Iterator[tuple[str, str]]:
    """Engines that contradict the tree."""
    names = [engine.name for engine in tree.engines]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        yield name, "is there twice; names tell DMA engines apart"
    known = [memory.name for memory in tree.memories]
    crossed = {(a.name, b.name) for operand in tree.operands for a, b in pairwise(tree.chain(operand))}
    joined: dict[tuple[str, str], str] = {}
    for engine in tree.engines:
        ends = engine.inner, engine.outer
        unknown = [name for name in ends if name not in known]
        if unknown:
            yield engine.name, f"joins {unknown[0]!r}, which is no memory; known: {', '.join(known)}"
        elif ends not in crossed:
            pairs = ", ".join(f"{outer} and {inner}" for inner, outer in sorted(crossed)) or "none"
            yield (
                engine.name,
                f"joins {ends[1]} and {ends[0]}, but no operand crosses directly; such are {pairs}",
            )
        elif ends in joined:
            yield engine.name, f"joins the memories that {joined[ends]} joins; write one entry with their count"
        joined.setdefault(ends, engine.name)


def engine_lines(tree: MachineTree) -> list[str]:
    """The engines of a tree for people."""
    found = [
        f"  {one.name}: {one.count:,} between {one.outer} and each {one.inner}; "
        f"{counted(one.setup_cycles, 'cycle')} of set-up, then {format_number(one.bits_per_cycle)} b/cycle each"
        for one in tree.engines
    ]
    return ["", "DMA engines", *found] if found else []
