"""What the schedules of one network at one batch on one machine have in common, found once for all of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilestitch.ir.graph import Graph
from tilestitch.lower.blocks import Known
from tilestitch.schedule.tilings import Tilings


@dataclass(frozen=True, eq=False)
class Shared:
    """The network without its views, the tilings of its kernels, and these as they were lowered; the latter grow.

    None of it depends on who asked for it first, so that a schedule is the same with it and without.
    """

    graph: Graph
    now: Mapping[str, tuple[str, ...]]  # operator with views -> the operators of `graph` that do its work
    tilings: Tilings
    blocks: dict[tuple, Known] = field(default_factory=dict)
