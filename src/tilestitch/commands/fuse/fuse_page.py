"""A plan of fused blocks as a page to look at: each block as a nest over strips, beside its layers unfused."""

from collections.abc import Sequence

from tilestitch.base.json_values import Json
from tilestitch.commands.fuse.fuse import Fused
from tilestitch.commands.fuse.fuse_text import fused_text, fused_tree
from tilestitch.commands.fuse.simulated_plan import Simulated
from tilestitch.partition.blocks.dlfusion import alone, strip_rows
from tilestitch.partition.ideals import Plan
from tilestitch.report.html.page import Result


def fuse_result(fused: Fused, others: Sequence[tuple[str, Plan]], *, verified: bool, ran: Simulated | None) -> Result:
    """All that the page of `fuse` holds."""
    cost = fused.cost
    best_alone = alone(cost)
    blocks: list[Json] = []
    for block, cores in zip(fused.plan.blocks, fused.plan.choices, strict=True):
        rows = strip_rows(cost.network, block, cores)
        blocks.append(
            {
                "layers": [_layer(fused, block, number, rows[number]) for number in block],
                "one_core_ps": sum(fused.baseline.costs[number] for number in block),
                "alone_ps": sum(best_alone.costs[number] for number in block),
            }
        )
    return Result(
        "fuse",
        f"{cost.network.name} on {fused.machine}: blocks by {fused.plan_name}",
        fused_text(fused, others, verified=verified, ran=ran),
        fused_tree(fused, others, ran=ran),
        {
            "proof_checked": verified,
            "baseline_ps": fused.baseline.cost,
            "alone_ps": best_alone.cost,
            "alone_cores": list(best_alone.choices),
            "drawn_blocks": blocks,
        },
    )


def _layer(fused: Fused, block: Sequence[int], number: int, rows: int) -> dict[str, Json]:
    """A layer of a block: what a core computes of it, what it reads from where, and whether its result leaves."""
    network = fused.cost.network
    layer, count = network.layers[number], len(network.layers)
    reads = [
        {"name": network.layers[read.tensor].name if read.tensor < count else "input", "inside": read.tensor in block}
        for read in layer.reads
    ]
    readers = [at for at, one in enumerate(network.layers) for read in one.reads if read.tensor == number]
    return {
        "name": layer.name,
        "operators": list(layer.operators),
        "operations": layer.operations,
        "channels": layer.channels,
        "rows": layer.rows,
        "strip_rows": rows,
        "weight_bytes": layer.weight_bytes,
        "result_bytes": layer.result_bytes,
        "reads": reads,
        "leaves": number in network.outputs or any(reader not in block for reader in readers),
        "one_core_ps": fused.baseline.costs[number],
    }
