"""What the schedules of one network at one batch on one machine have in common, found once for all of them.

Tilings and lowered kernels are those of all batches: they know a kernel by its shapes.
"""

from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.graph import Graph
from tilestitch.ir.rewriting import Rewriting
from tilestitch.lower.blocks import Known
from tilestitch.pipeline.views import WithoutViews, composed_graph
from tilestitch.schedule.tilings import Tilings


class Shared:
    """The network without its views, the tilings of its kernels, and these as they were lowered; the latter grow.

    None of it depends on who asked for it first, so that a schedule is the same with it and without.
    """

    def __init__(
        self,
        simplified: Graph,
        machine: Accelerator,
        like: "Shared | None" = None,
        rewriting: Rewriting = Rewriting(),
        resolved: WithoutViews | None = None,
    ) -> None:
        """`like` is that of another batch on the same machine, `resolved` the network with its views resolved."""
        self.graph, self.now = composed_graph(simplified, rewriting, resolved)
        self.tilings = Tilings(self.graph, machine, None if like is None else like.tilings)
        self.blocks: dict[tuple, Known] = {} if like is None else like.blocks
