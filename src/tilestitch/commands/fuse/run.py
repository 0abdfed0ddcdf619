"""A network divided into fused blocks, and what that comes to."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from tilestitch.api import Machine, Model, checked_options, compile, load_graph, machine_of
from tilestitch.base.errors import InputError
from tilestitch.base.html import Record
from tilestitch.base.progress import Progress, quiet
from tilestitch.base.shown import Shown
from tilestitch.base.text_files import MAX_JSON_BYTES, file_text
from tilestitch.base.units import counted
from tilestitch.commands.fuse.fuse import Fused, block_cost, every_plan, fuse_blocks, verify_proof
from tilestitch.commands.fuse.fuse_page import fuse_result
from tilestitch.commands.fuse.fuse_text import fused_json, fused_text
from tilestitch.commands.fuse.plan_file import parse_plan, plan_json
from tilestitch.commands.fuse.simulated_plan import Simulated, simulated
from tilestitch.ir.by_hand import FusionPlan
from tilestitch.partition.ideals import Plan
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.origin import made_by, python_call
from tilestitch.report.html.page import result_page


@dataclass(frozen=True, repr=False)
class Fusion(Shown):
    """A plan of fused blocks beside the best one; times are those of the block model, but for what `ran`."""

    fused: Fused
    others: tuple[tuple[str, Plan], ...] = ()  # plans of all strategies, where they are compared
    verified: bool = False  # whether the proof of the best plan was checked
    ran: Simulated | None = None
    options: Options = field(default_factory=Options)

    def __str__(self) -> str:
        return fused_text(self.fused, self.others, verified=self.verified, ran=self.ran)

    def to_json(self) -> str:
        """What `tilestitch fuse --json` writes."""
        return fused_json(self.fused, self.others, ran=self.ran)

    def to_html(self, command: str = "") -> str:
        """What `tilestitch fuse --html` writes: a page to look at; `command` is said to make it again."""
        fused = self.fused
        if not command:
            asked = {"compare": bool(self.others), "simulate": self.ran is not None, "verify": self.verified}
            asked = {name: value for name, value in asked.items() if value}
            command = python_call(
                "fuse", fused.cost.network.name, fused.machine, fused.plan_name, self.options, **asked
            )
        result = fuse_result(fused, self.others, verified=self.verified, ran=self.ran)
        return result_page(result, made_by(command, (("plan", fused.plan_name),)))

    def plan_json(self) -> str:
        """What `tilestitch fuse -o` writes: the plan, as `compile` takes it."""
        return plan_json(self.fused.cost.network, self.fused.plan)

    def heading(self) -> str:
        """Network, machine, and the time."""
        fused = self.fused
        blocks = f"{counted(len(fused.plan.blocks), 'block')} by {fused.plan_name}"
        return f"{fused.cost.network.name} on {fused.machine}: {blocks}, {fused.plan.cost:,} ps (estimated)"

    def records(self) -> tuple[Record, ...]:
        """Every block of the plan."""
        plan, layers = self.fused.plan, self.fused.cost.network.layers
        return tuple(
            {
                "block": number,
                "layers": len(block),
                "first": layers[min(block)].name,
                "last": layers[max(block)].name,
                "cores": cores,
                "estimated_ps": cost,
                **({} if self.ran is None else {"simulated_ps": self.ran.blocks_ps[number]}),
            }
            for number, (block, cores, cost) in enumerate(zip(plan.blocks, plan.choices, plan.costs, strict=True))
        )


def fuse(
    model: Model,
    machine: Machine = "mlu100",
    plan: str | FusionPlan = "exact",
    options: Options = Options(),
    *,
    compare: bool = False,
    simulate: bool = False,
    verify: bool = False,
    progress: Progress | None = None,
) -> Fusion:
    """Divide a network into blocks of layers, each on a number of cores, and price them by DLFusion's block model.

    A plan is a name, the path of a file ending in .json, or a `FusionPlan`. `compare` sets the plans of all strategies
    beside it, `simulate` runs it on one cluster, `verify` checks the proof of the best plan, and with `simulate` the
    outputs of the program. Of `options` the network's count, and with `simulate` all.
    """
    show = progress or quiet
    asked = checked_options(options)
    if isinstance(plan, FusionPlan):
        given, name = plan.blocks, plan.name
    elif isinstance(plan, str):
        given, name = plan, plan
        if plan.endswith(".json"):
            name = Path(plan).name
            given = parse_plan(file_text(plan, "JSON", MAX_JSON_BYTES), name)
    else:
        raise InputError(f"plan: expected a name, the path of a file or a FusionPlan, found {type(plan).__name__}")
    show("load", 0, 4)
    graph, accelerator = load_graph(model, batch=asked.batch, dims=asked.dims), machine_of(machine)
    show("plan", 1, 4)
    cost = block_cost(graph, accelerator, fold_bn=asked.fold_bn)
    fused = fuse_blocks(cost, accelerator.name, given, name)
    checked = verify and (fused.proof is not None or not simulate)
    if checked:
        show("verify", 2, 4)
        verify_proof(fused)
    show("compare", 3, 4)
    others = tuple(every_plan(fused)) if compare else ()
    if not simulate:
        return Fusion(fused, others, checked, options=asked)
    done = compile(
        model,
        replace(accelerator, clusters=1),
        strategy=given if isinstance(given, str) else FusionPlan(name, given),
        verify=verify,
        options=replace(asked, batch_per_cluster="rule" if asked.batch is None else asked.batch),
        progress=show,
    )
    return Fusion(fused, others, checked, simulated(done, len(fused.plan.blocks)), asked)
