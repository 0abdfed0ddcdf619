"""What a tree's file says of the networks along its axes, and of how memories change their tiles."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from fractions import Fraction
from typing import Annotated

from pydantic import Field, PlainValidator

from tilestitch.base.units import format_number
from tilestitch.hardware.fields import AmountField, SwitchField
from tilestitch.hardware.tree import MachineTree, Network
from tilestitch.hardware.tree_fields import MAX_BITS_PER_CYCLE, NamesField, Rate, RateField
from tilestitch.hardware.unit_models import Model


class Storage(StrEnum):
    """Whether the tiles of several operands in one memory change at places of their own, or all at the same."""

    UNEVEN = "uneven"
    EVEN = "even"


class NetworkModel(Model):
    """What carries operands along an axis, between the memory around it and what is repeated there.

    An operand without a network is shared as by the defaults, for no energy and at any rate.
    """

    operands: Annotated[tuple[str, ...], PlainValidator(NamesField("operands", (), 1))] | None = Field(
        None, description="the operands that it carries; all unless stated", examples=[["W", "I"]]
    )
    multicast: Annotated[bool, PlainValidator(SwitchField())] = Field(
        True,
        description="true: a value that several places along the axis need is read once; false: once for each place",
        examples=[False],
    )
    reduction: Annotated[bool, PlainValidator(SwitchField())] = Field(
        True,
        description="true: sums of several places are added on the way; false: the memory around is read and written "
        "for each of them",
        examples=[False],
    )
    forwarding: Annotated[bool, PlainValidator(SwitchField())] = Field(
        False,
        description="true: places pass on to their neighbours what these need as well, at the same time or next, so "
        "that overlapping windows are read once",
        examples=[True],
    )
    shares_windows: Annotated[bool, PlainValidator(SwitchField())] = Field(
        False,
        description="true: what overlaps in the windows of several places in one step is read once as well",
        examples=[True],
    )
    passes_sums: Annotated[bool, PlainValidator(SwitchField())] = Field(
        False,
        description="true: sums of several places are added from neighbour to neighbour, each for the energy of its "
        "bits, of two reads and a write of the memory there, and of a multiply-accumulate; one place of them all "
        "exchanges with the memory around",
        examples=[True],
    )
    pj_per_bit: Annotated[float, PlainValidator(AmountField("picojoules"))] = Field(
        0.0,
        description="energy of a bit at every place that it reaches or leaves, in picojoules",
        examples=[0.06],
    )
    hops: Annotated[float, PlainValidator(AmountField("links"))] = Field(
        1.0,
        description="links that a bit passes on its way to a place along the axis, on average, each for `pj_per_bit`: "
        "of a row of chips more than one",
        examples=[3.5],
    )
    bandwidth: Annotated[Rate, PlainValidator(RateField())] | None = Field(
        None,
        description="what the network takes from the memory around, or brings it, in a cycle or in a second; any "
        "amount unless stated. Latency depends on it",
        examples=["32 B/cycle"],
    )


def networks_of(
    models: Sequence[NetworkModel], operands: Sequence[str], cycles: Mapping[bool, Fraction]
) -> tuple[Network, ...]:
    """The networks along an axis of a tree with these operands; `cycles` are those in which a rate is said."""
    return tuple(
        Network(
            tuple(operands) if one.operands is None else one.operands,
            one.multicast,
            one.reduction,
            one.forwarding,
            one.pj_per_bit * one.hops,
            None if one.bandwidth is None else one.bandwidth.bits * cycles.get(one.bandwidth.is_per_second, 0),
            one.shares_windows,
            one.passes_sums,
        )
        for one in models
    )


def rate_fault(rate: Rate | None, cycles: Mapping[bool, Fraction]) -> str | None:
    """What is wrong with a bandwidth on a machine with this clock."""
    if rate is None:
        return None
    if rate.is_per_second not in cycles:
        return "is said a second, and the machine has no clock; write clock, such as 1 GHz, or a rate a cycle"
    bits = rate.bits * cycles[rate.is_per_second]
    if not 0 < bits <= MAX_BITS_PER_CYCLE:
        return f"expected at most {MAX_BITS_PER_CYCLE:,} bits a cycle, found {float(bits):,.0f}; look at the clock"
    return None


def network_faults(tree: MachineTree, stated: Mapping[str, Sequence[NetworkModel]]) -> Iterator[tuple[str, str]]:
    """Networks that contradict the tree; `stated` are those of each axis as the file says them."""
    for axis in tree.axes:
        carried = [operand for network in axis.networks for operand in network.operands]
        for operand in dict.fromkeys(one for one in carried if carried.count(one) > 1):
            yield axis.name, f"two networks carry {operand}; give each of them operands of its own"
        for operand in (one for model in stated[axis.name] for one in model.operands or ()):
            if operand not in tree.operands:
                yield (
                    axis.name,
                    f"a network carries {operand}, which no memory holds; known: {', '.join(tree.operands)}",
                )
            elif axis.name in tree.fan_outs(operand)[-1]:
                yield axis.name, f"a network carries {operand}, of which no memory lies around the axis"
        for network in axis.networks:
            if network.shares_windows and not network.multicast:
                yield axis.name, "shares_windows: nothing is shared where multicast is false; leave one of them out"
            if network.passes_sums and not network.reduction:
                yield axis.name, "passes_sums: nothing is added up where reduction is false; leave one of them out"
    for memory in tree.memories:
        passed_on = [one for one in memory.operands if tree.chain(one)[-1] is not memory]
        if memory.has_sliding_window and not passed_on:
            yield memory.name, "sliding_window: it is the outermost memory, which is never filled; leave it out"
        if memory.has_even_storage and len(passed_on) < 2:
            yield memory.name, "storage: even is of several operands that come from further out; leave it out"


def network_lines(tree: MachineTree) -> list[str]:
    """The networks of a tree for people."""
    found: list[str] = []
    for axis in tree.axes:
        for one in axis.networks:
            said = [
                *(["each place reads for itself"] if not one.multicast else []),
                *(["each place writes its own sums"] if not one.reduction else []),
                *(["neighbours pass on overlaps"] if one.forwarding else []),
                *(["overlapping windows are read once"] if one.shares_windows else []),
                *(["neighbours add up sums"] if one.passes_sums else []),
                *([f"{one.pj_per_bit:g} pJ a bit"] if one.pj_per_bit > 0 else []),
                *([f"{format_number(one.bits_per_cycle)} b/cycle"] if one.bits_per_cycle is not None else []),
            ]
            found.append(f"  {', '.join(one.operands)} along {axis.name}: {'; '.join(said) or 'shared for no energy'}")
    return ["", "networks", *found] if found else []
