"""dMazeRunner's own search: the best of a space that its rules have made small (TECS 2019, sections 5 and 6)."""

from dataclasses import dataclass

from tilestitch.base.errors import DoesNotFit
from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.choices import CostMode
from tilestitch.ir.loop_nest import LoopNest
from tilestitch.mapping.dataflow import pruned_limits
from tilestitch.mapping.search import SearchSpace, search_space

OPT1 = (0.8, 0.8, 0.5)  # elements, register file, scratchpad: the thresholds of its released code
STEP = 0.1
SCRATCHPAD_TOO = 0.6  # from here on the threshold of the scratchpad falls as well
WITHOUT_RULES = 0.3  # from here on the other rules are dropped
ENOUGH = 100


@dataclass(frozen=True, slots=True)
class Attempt:
    """One setting of the rules, and how many tilings they left."""

    least: tuple[float, float, float]
    rules: bool  # OPT2 and OPT3
    tilings: int


def adapted_space(
    nest: LoopNest, machine: ArrayMachine, mode: CostMode = CostMode.DEFAULT, *, enough: int = ENOUGH
) -> tuple[SearchSpace, tuple[Attempt, ...]]:
    """The adaptive optimizer (`auto`): the rules are loosened until they leave enough tilings.

    Each step lowers the thresholds of elements and registers by a tenth, and of the scratchpad too once those are at
    0.6; at 0.3 the other rules are dropped, and one tiling is enough. DoesNotFit where a threshold falls below 0.
    """
    elements, registers, scratchpad = OPT1
    rules, attempts = True, []
    while min(elements, registers, scratchpad) >= 0:
        limits = pruned_limits(
            nest, (elements, registers, scratchpad), windows_in_scratchpad=rules, no_spatial_reduction=rules
        )
        space = search_space(nest, machine, mode, limits=limits)
        tilings = space.tilings()
        attempts.append(Attempt((elements, registers, scratchpad), rules, tilings))
        if tilings >= (enough if rules else 1):
            return space, tuple(attempts)
        elements, registers = round(elements - STEP, 6), round(registers - STEP, 6)
        if min(elements, registers) <= SCRATCHPAD_TOO:
            scratchpad = round(scratchpad - STEP, 6)
        if min(elements, registers) <= WITHOUT_RULES:
            rules = False
    raise DoesNotFit(
        f"nest {nest.name!r} on {machine.name}: dMazeRunner's adaptive search found no tiling before a threshold fell "
        "below 0; try --search exact, a larger scratchpad or register file"
    )
