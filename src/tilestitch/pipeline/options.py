"""What a user may ask of a compilation besides network, machine and strategy."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilestitch.ir.choices import BindingRule, Effort, GroupingRule, Spill, Stage


@dataclass(frozen=True, slots=True)
class Options:
    """What a user may choose besides network, machine and strategy."""

    batch: int | None = None  # samples of the whole machine; None: the network's own batch, else 1
    batch_per_cluster: int | str = "rule"  # samples of one cluster's iteration: a number, "rule" or "auto"
    batches: int = 1  # back to back, for sustained throughput
    dims: Mapping[str, int] = field(default_factory=dict)
    fold_bn: bool = True
    spill: Spill = Spill.NEWEST  # which result gives way where not all that should stay on chip finds room
    binding: BindingRule = BindingRule.NEAREST  # over how many cores each dim of a kernel is divided
    grouping: GroupingRule = GroupingRule.PAPER  # which operators are a sub-graph that is split into instances
    effort: Effort = Effort.MEDIUM  # of the strategy that searches
    verify: bool = False
    beside_map: bool = False  # whether the report has the sum of the layers mapped alone
    stop_after: Stage = Stage.SIMULATE
