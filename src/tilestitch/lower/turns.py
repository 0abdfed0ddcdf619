"""The cycles of a product on an array, wave by wave, where a kernel has its mapping."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilestitch.hardware.accelerator import Accelerator
from tilestitch.hardware.array_machine import array_of_core
from tilestitch.ir.graph import Operator
from tilestitch.ir.loop_nest import LoopMapping
from tilestitch.ir.region import Region
from tilestitch.kernels.shape import KernelShape
from tilestitch.lower.waves import Step

if TYPE_CHECKING:
    from tilestitch.mapping.turns import Turns


def turns_of_kernel(shape: KernelShape, anchor: Operator, mapping: LoopMapping, machine: Accelerator) -> "Turns":
    """What the array takes for the tiles of a mapping."""
    from tilestitch.mapping.network import iterations_of, nest_of_part  # the mapper, which few kernels need
    from tilestitch.mapping.turns import turns_of

    nest = nest_of_part(shape.graph, anchor, iterations_of(anchor, mapping))
    return turns_of(nest, array_of_core(machine, shape.core), mapping)


def wave_cycles(turns: "Turns", anchor: Operator, steps: Sequence[Step]) -> list[int]:
    """Cycles of the product of one core in each of its waves.

    What the mapping has in the registers as a whole stays there while the next wave needs the same.
    """
    used = [_used(step, anchor) for step in steps]
    changes: list[int | None] = [None, *map(_changes, used, used[1:]), None]
    following = [step.first for step in steps[1:]]
    return [
        turns.cycles(fresh=step.first, before=before, after=after, next_is_fresh=fresh)
        for step, fresh, before, after in zip(steps, [*following, True], changes, changes[1:], strict=False)
    ]


def _used(step: Step, anchor: Operator) -> tuple[Region, ...]:
    """What the product reads and writes in a wave."""
    return *step.part_reads[:2], step.writes[anchor.name][0]


def _changes(one: Sequence[Region], other: Sequence[Region]) -> int:
    """Which operands differ, as bits."""
    return sum((a != b) << at for at, (a, b) in enumerate(zip(one, other, strict=True)))
