"""How a partition becomes a schedule, where that is left to choose."""

from dataclasses import dataclass

from tilestitch.hardware.accelerator import Level
from tilestitch.ir.choices import BindingRule, Spill


@dataclass(frozen=True, slots=True)
class Policy:
    """Where results may stay, who gives way, how kernels are divided among cores, and how many launches there are."""

    levels: tuple[Level, ...] = ()  # where results may stay between kernels, first choice first; else in DDR
    stitched: bool = False  # whether all kernels are one launch, without a barrier between them
    spill: Spill = Spill.NEWEST  # which result gives way where not all that should stay on chip finds room
    binding: BindingRule = BindingRule.NEAREST  # over how many cores each dim of a kernel is divided
