"""What the pane of proofs shows: bounds, what was verified and by whom, which invariants were held, what is certain."""

from dataclasses import dataclass

from tilestitch.base.json_values import Json, plain
from tilestitch.base.units import counted
from tilestitch.cost.bounds import limits
from tilestitch.hardware.accelerator import Accelerator
from tilestitch.ir.report import STEPS, Report
from tilestitch.ir.schedule import Schedule
from tilestitch.ir.trace import Trace

_BEST_PLANS = ("exact", "exact-by-layer")


@dataclass(frozen=True, slots=True)
class Verifier:
    """What looks at the value of one stage, and how many things it looked at; 0 where it did not run."""

    stage: str
    looked_at: str
    ran: bool
    holds: str


@dataclass(frozen=True, slots=True)
class Certainty:
    """What is known for sure, and what that rests on."""

    what: str
    rests_on: str


def proof(report: Report, schedule: Schedule, trace: Trace, machine: Accelerator) -> dict[str, Json]:
    """All of it, of one run."""
    sharers = 1 if machine.private_ddr else schedule.clusters
    every = limits(schedule.graph, machine, iterations=report.iterations, sharers=sharers)
    return {
        "limits": [plain(one) for one in every],
        "verifiers": [plain(one) for one in _verifiers(schedule, trace, verified=report.outcome is not None)],
        "judges": list(_judges(report)),
        "certain": [plain(one) for one in _certain(report)],
    }


def _verifiers(schedule: Schedule, trace: Trace, *, verified: bool) -> tuple[Verifier, ...]:
    program, graph = trace.program, schedule.graph
    return (
        Verifier(
            "load",
            "nodes of the network",
            True,
            "every node is what ONNX defines it to be at its opset; what is not understood is refused",
        ),
        Verifier(
            "simplify",
            counted(len(graph.operators), "operator"),
            True,
            "names are unique, operators come after what they read, accesses stay inside their tensors, and what is "
            "written covers each tensor once",
        ),
        Verifier(
            "partition",
            counted(len(graph.operators), "operator"),
            verified,
            "every operator is in one kernel, and kernels have one end and come after what they read",
        ),
        Verifier(
            "schedule",
            f"{counted(len(schedule.kernels), 'kernel')}, {counted(len(schedule.homes), 'home')}",
            verified,
            "kernels are cut where their operators allow it and run on cores that there are; what stays on chip lies "
            "inside a memory, from the kernel that makes it to the last that reads it",
        ),
        Verifier(
            "lower",
            f"{counted(len(program), 'instruction')}, {counted(len(program.buffers), 'buffer')}",
            verified,
            "instructions have the operands of their kind, waits look back, buffers lie inside their memories, and "
            "every element of every output is written in every iteration",
        ),
        Verifier(
            "simulate",
            counted(len(program), "instruction"),
            verified,
            "the program is executed in simulated order on memories by address; what is being written and what is free "
            "holds NaN, so that a wait that is missing, or buffers that overlap, give a wrong number",
        ),
    )


def _judges(report: Report) -> tuple[str, ...]:
    if report.outcome is None:
        return ()
    found = [
        "onnxruntime on the original network: optimisations off, one thread, 16-bit floats computed in float32",
        "float32: each value has a bound of its own, what rounding may do to it in any order of the sums",
        "float16: no output may be further off than four times the error of the same network run untiled, operator by "
        "operator, with every stored tensor rounded; and each value has a bound of its own",
    ]
    if any(check.precision == STEPS for check in report.checks):
        found.append("steps: each quantised tensor, computed from onnxruntime's own values, is at most one step off")
    if any(check.dispute for check in report.checks):
        found.append("onnx's reference evaluator, asked because onnxruntime differs, has the values of the program")
    if report.generic_operators:
        count = counted(len(report.generic_operators), "generic operator")
        found.append(f"not independent: {count} have their values from onnxruntime or onnx's reference evaluator")
    return tuple(found)


def _certain(report: Report) -> tuple[Certainty, ...]:
    """Statements that hold whatever the search did."""
    found = [
        Certainty(
            f"The best schedule of this batch, {counted(report.batch_per_iteration, 'sample')} an iteration, takes at "
            f"least {report.bound_cycles:,} cycles (bound), so that this one takes at most "
            f"{report.ratio_to_bound:,.3f} x as long as the best.",
            "the largest bound; the gap says how far the proof reaches, not that a better schedule exists",
        ),
        Certainty(
            f"Every schedule moves at least {report.compulsory_bytes:,} B through DDR (bound); this one moves "
            f"{report.ddr_bytes:,} B (simulated), {report.ddr_bytes / max(1, report.compulsory_bytes):,.3f} x as many.",
            "compulsory traffic of one cluster",
        ),
    ]
    if report.strategy in _BEST_PLANS:
        found.append(
            Certainty(
                "The plan is the best by the estimates of its blocks, of all plans that they allow.",
                "a proof that tilestitch fuse --certificate writes and --check judges; of estimates, not of simulated "
                "time",
            )
        )
    else:
        found.append(
            Certainty(
                f"There is no proof that the decisions of strategy {report.strategy} are the best.",
                "it decides by rules; what is proven are the bounds above",
            )
        )
    return tuple(found)
