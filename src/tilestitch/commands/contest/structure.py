"""What one tile of a sub-graph reads, and which operators it runs: followed backwards from the outputs.

A slice of a tensor has an axis for its rows and one for its columns: as far as the tile (`TILE`), as far as the current
step of the reduction (`STEP`), or everything (`WHOLE`). Outputs and what pointwise operators make of them are tile x
tile. A matrix product with such an output is *split*: it reads tile x step and step x tile. One further up, whose
result is cut by the step, sums over all of its own depth at every step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from tilestitch.commands.contest.instance import Instance, Kind


class Axis(IntEnum):
    """How far one axis of a slice reaches."""

    TILE = 0
    STEP = 1
    WHOLE = 2


class Slice(NamedTuple):
    """The part of a tensor that a tile needs."""

    tensor: int
    rows: Axis
    columns: Axis


class Run(NamedTuple):
    """One execution of an operator for a tile."""

    operator: int
    rows: Axis
    columns: Axis
    split: bool  # over the steps of the reduction


@dataclass(frozen=True)
class Structure:
    """A sub-graph that the rules allow; what remains to be chosen are a granularity, an order and what is retained."""

    operators: tuple[int, ...]
    width: int  # of every output
    height: int
    depth: int  # of every split product; 0 where there is none
    inputs: tuple[Slice, ...]
    runs: tuple[Run, ...]
    outputs: tuple[int, ...]
    least_width: int  # of a tile that is less deep than this: it must span what a pointwise operator feeds a product
    least_height: int


class Refused(Exception):
    """Why the rules do not allow a sub-graph."""


def analyse(instance: Instance, operators: Sequence[int]) -> Structure:
    """The structure of the sub-graph with these operators. Raises `Refused` with the reason where there is none."""
    inside = frozenset(operators)
    if not inside:
        raise Refused("it has no operators")
    _expect_connected(instance, inside)
    made = {instance.operators[number].output for number in inside}
    read = {tensor for number in inside for tensor in instance.operators[number].inputs}
    outputs = tuple(sorted(made - read))
    shapes = {(instance.widths[tensor], instance.heights[tensor]) for tensor in outputs}
    if len(shapes) != 1:
        found = ", ".join(f"{tensor} is {instance.widths[tensor]}x{instance.heights[tensor]}" for tensor in outputs)
        raise Refused(f"its outputs have several shapes, and one grid of tiles must cover them ({found})")
    ((width, height),) = shapes
    inputs: dict[Slice, None] = {}
    runs: dict[Run, None] = {}
    depths: dict[int, None] = {}
    least_width = least_height = 0
    waiting = [(tensor, Axis.TILE, Axis.TILE, True) for tensor in outputs]
    seen = set(waiting)
    while waiting:
        tensor, rows, columns, spatial = waiting.pop()
        producer = instance.producers.get(tensor)
        if producer is None or producer not in inside:
            inputs[Slice(tensor, rows, columns)] = None
            continue
        operator = instance.operators[producer]
        if operator.kind is Kind.POINTWISE:
            runs[Run(producer, rows, columns, False)] = None
            wanted = [(source, rows, columns, spatial) for source in operator.inputs]
        else:
            left, right = operator.inputs
            depth = instance.depth(producer)
            if spatial:
                depths[depth] = None
            along = Axis.STEP if spatial else Axis.WHOLE
            runs[Run(producer, rows, columns, spatial)] = None
            wanted = []
            for source, of_left in ((left, True), (right, False)):
                before = instance.producers.get(source)
                axes = (rows, along) if of_left else (along, columns)
                if before in inside and instance.operators[before].kind is Kind.POINTWISE:
                    # a pointwise operator runs once a tile, so its tile must span the depth of the product
                    axes = (_unstepped(rows), Axis.WHOLE) if of_left else (Axis.WHOLE, _unstepped(columns))
                    least_width = max(least_width, depth if of_left else 0)
                    least_height = max(least_height, 0 if of_left else depth)
                wanted.append((source, *axes, False))
        for want in wanted:
            if want not in seen:
                seen.add(want)
                waiting.append(want)
    if len(depths) > 1:
        raise Refused(
            f"its products sum {' and '.join(map(str, sorted(depths)))} elements, and one number of steps must do"
        )
    return Structure(
        tuple(sorted(inside)),
        width,
        height,
        next(iter(depths), 0),
        tuple(sorted(inputs)),
        tuple(sorted(runs)),
        outputs,
        least_width,
        least_height,
    )


def _unstepped(axis: Axis) -> Axis:
    return Axis.WHOLE if axis is Axis.STEP else axis


def _expect_connected(instance: Instance, inside: frozenset[int]) -> None:
    """Every operator is reached from the first through tensors that two of them touch."""
    by_tensor: dict[int, list[int]] = {}
    for number in sorted(inside):
        operator = instance.operators[number]
        for tensor in (*operator.inputs, operator.output):
            by_tensor.setdefault(tensor, []).append(number)
    waiting = [min(inside)]
    reached = set(waiting)
    while waiting:
        operator = instance.operators[waiting.pop()]
        for tensor in (*operator.inputs, operator.output):
            for number in by_tensor[tensor]:
                if number not in reached:
                    reached.add(number)
                    waiting.append(number)
    if reached != inside:
        raise Refused(
            f"operators {min(inside)} and {min(inside - reached)} of it share no tensor, not even through others"
        )
