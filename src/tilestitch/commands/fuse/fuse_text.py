"""A plan of fused blocks for people and for programs."""

import json
from collections.abc import Sequence
from typing import Any

from tilestitch.base.units import counted, format_seconds
from tilestitch.commands.fuse.fuse import Fused
from tilestitch.commands.fuse.simulated_plan import Simulated
from tilestitch.partition.blocks.dlfusion import repeated_arithmetic
from tilestitch.partition.blocks.model import PICOSECONDS, BlockCost
from tilestitch.partition.ideals import Plan
from tilestitch.report.table import table, title

_MODEL = "times are those of the block model, which is INFERRED (docs/dlfusion.md)"
_BOUNDS = (
    ("LB0 roofline", "roofline"),
    ("LB1 overheads", "overheads"),
    ("LB2 traffic", "traffic"),
    ("LB3 relaxed", "relaxed"),
)


def fused_text(
    fused: Fused,
    others: Sequence[tuple[str, Plan]] = (),
    *,
    verified: bool = False,
    ran: Simulated | None = None,
) -> str:
    """Time, speed-up, the gap to the best plan, the bounds, the blocks, and other plans where they are given.

    And beside the estimated times those that were simulated, where they are given.
    """
    network, plan = fused.cost.network, fused.plan
    lines = title(f"{network.name} on {fused.machine}: blocks by {fused.plan_name}", "=")
    lines += [
        f"time         {_time(plan.cost)} (estimated); {_MODEL}",
        *_simulated_lines(plan, ran),
        f"speed-up     {fused.baseline.cost / plan.cost:.2f} x over one core without fusion",
        f"best plan    {_time(fused.best.cost)}, {_proof(fused)}{'; the proof was checked' if verified else ''}",
        f"gap          {_gap(plan.cost, fused.least)} above {'the best plan' if fused.proof else 'the bound'}, at most",
    ]
    if not fused.fits:
        lines.append("             it does not fit the memory of the cores, and is priced as if it did")
    lines += ["", *title("Lower bounds")]
    rows = [
        (
            name,
            "too many ideals" if value is None else _time(value),
            "" if value is None else f"the best plan is {_gap(fused.best.cost, value)} above it",
            "binds" if field == fused.bounds.binding else "",
        )
        for name, field in _BOUNDS
        for value in (getattr(fused.bounds, field),)
    ]
    lines += table(None, rows, "lrrl")
    if others:
        lines += ["", *title("Plans")]
        rows = [
            (name, _time(found.cost), f"{fused.baseline.cost / found.cost:.2f} x", counted(len(found.blocks), "block"))
            for name, found in others
        ]
        lines += table(("", "time", "speed-up", ""), rows, "lrrr")
    lines += ["", *title(counted(len(plan.blocks), "block"))]
    rows = []
    head = ("", "layers", "number", "cores", "computed again", "time" if ran is None else "estimated")
    for number, (block, cores, cost) in enumerate(zip(plan.blocks, plan.choices, plan.costs, strict=True)):
        first, last = network.layers[block[0]].name, network.layers[block[-1]].name
        rows.append(
            (
                str(number),
                first if len(block) == 1 else f"{first} .. {last}",
                str(len(block)),
                str(cores),
                f"{100 * repeated_arithmetic(fused.cost, block, cores):.0f} %",
                _time(cost),
                *(() if ran is None else (_time(ran.blocks_ps[number]), _ratio(cost, ran.blocks_ps[number]))),
            )
        )
    lines += table((*head, *(() if ran is None else ("simulated", "est. / sim."))), rows, "rlrrrr" + "rr" * bool(ran))
    return "\n".join(lines) + "\n"


def _simulated_lines(plan: Plan, ran: Simulated | None) -> list[str]:
    if ran is None:
        return []
    lines = [f"simulated    {_time(ran.latency_ps)}; the estimate is {_ratio(plan.cost, ran.latency_ps)} of it"]
    if len(plan.blocks) > 1:
        apart = [abs(cost - time) for cost, time in zip(plan.costs, ran.blocks_ps, strict=True)]
        most = apart.index(max(apart))
        lines[0] += f"; most of the difference is in block {most}"
    if ran.report.checks:
        outcome = str(ran.report.outcome)
        known = {"passed": "equals onnxruntime", "failed": "differs from onnxruntime"}
        found = known.get(outcome, f"beside onnxruntime is {outcome}")
        errors = (f"{one.precision} error {one.error:.2e} of {one.allowed:.2e}" for one in ran.report.checks)
        lines.append(f"             the program {found}: {', '.join(errors)}")
    return lines


def fused_json(fused: Fused, others: Sequence[tuple[str, Plan]] = (), *, ran: Simulated | None = None) -> str:
    """The same, of the format `tilestitch.fusion`; times are whole picoseconds."""
    return json.dumps(fused_tree(fused, others, ran=ran), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def fused_tree(
    fused: Fused, others: Sequence[tuple[str, Plan]] = (), *, ran: Simulated | None = None
) -> dict[str, Any]:
    """The same, before it is text."""
    network, plan = fused.cost.network, fused.plan
    return {
        "format": "tilestitch.fusion",
        "version": 1,
        "network": network.name,
        "machine": fused.machine,
        "model": "inferred",
        "plan": fused.plan_name,
        "time_ps": plan.cost,
        "simulated": None if ran is None else _simulated_value(ran),
        "fits": fused.fits,
        "speed_up": fused.baseline.cost / plan.cost,
        "best_time_ps": fused.best.cost,
        "best_is_proven": fused.proof is not None,
        "ideals": None if fused.proof is None else len(fused.proof.potentials),
        "gap": plan.cost / fused.least - 1,
        "bounds_ps": {field: getattr(fused.bounds, field) for _, field in _BOUNDS},
        "binding_bound": fused.bounds.binding,
        "plans": [
            {
                "plan": name,
                "time_ps": found.cost,
                "speed_up": fused.baseline.cost / found.cost,
                "blocks": len(found.blocks),
            }
            for name, found in others
        ],
        "blocks": [
            {
                "layers": [network.layers[number].name for number in block],
                "cores": cores,
                "time_ps": cost,
                "simulated_ps": None if ran is None else ran.blocks_ps[number],
                "computed_again": repeated_arithmetic(fused.cost, block, cores),
            }
            for number, (block, cores, cost) in enumerate(zip(plan.blocks, plan.choices, plan.costs, strict=True))
        ],
    }


def checked_text(name: str, cost: BlockCost, machine: str, plan: Plan, ideals: int) -> str:
    """That a certificate holds, and of what."""
    return (
        f"{name} holds: {_time(plan.cost)} for {cost.network.name} on {machine} in "
        f"{counted(len(plan.blocks), 'block')}, and no plan takes less\n"
        f"checked over {counted(ideals, 'ideal')}; every block was priced anew; {_MODEL}\n"
    )


def checked_json(name: str, cost: BlockCost, machine: str, plan: Plan, ideals: int) -> str:
    """The same, of the format `tilestitch.fusion-check`."""
    value = {
        "format": "tilestitch.fusion-check",
        "version": 1,
        "certificate": name,
        "network": cost.network.name,
        "machine": machine,
        "model": "inferred",
        "holds": True,
        "time_ps": plan.cost,
        "ideals": ideals,
        "blocks": [
            {"layers": [cost.network.layers[number].name for number in block], "cores": cores, "time_ps": time}
            for block, cores, time in zip(plan.blocks, plan.choices, plan.costs, strict=True)
        ],
    }
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _simulated_value(ran: Simulated) -> dict[str, object]:
    report = ran.report
    return {
        "latency_ps": ran.latency_ps,
        "latency_cycles": report.latency_cycles,
        "ddr_bytes": report.ddr_bytes,
        "verified": report.verified if report.checks else None,
    }


def _proof(fused: Fused) -> str:
    if fused.proof is None:
        return "not proven: the network has too many ideals, so this is a good plan and not the best"
    return f"proven over {counted(len(fused.proof.potentials), 'ideal')} and {counted(fused.proof.pairs, 'block')}"


def _time(picoseconds: int) -> str:
    return format_seconds(picoseconds / PICOSECONDS)


def _ratio(estimated: int, simulated: int) -> str:
    return f"{estimated / simulated:.2f} x" if simulated else "-"


def _gap(larger: int, smaller: int) -> str:
    return f"{100 * (larger / smaller - 1):.2f} %"
