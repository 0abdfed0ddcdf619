"""Reports and the values behind them as JSON: versioned, in the order in which they are declared, the same each time.

The fields of a report are those of docs/report.md; another meaning of one of them needs another version.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import IntEnum
from fractions import Fraction
from math import isfinite

import numpy as np

from tilestitch.base.json_values import Json, document
from tilestitch.ir.program import Program
from tilestitch.ir.report import CheckRow, KernelRow, Misfit, Outcome, Report


def report_json(report: Report, more: Mapping[str, Json] = {}) -> str:
    """One report, of the format `tilestitch.report`, and behind it groups that are not of the report itself."""
    return document("report", {**report_tree(report), **more})


def compare_json(results: Sequence[Report | Misfit]) -> str:
    """Several reports, of the format `tilestitch.comparison`; the first is the one that speed-ups refer to."""
    reports = [result for result in results if isinstance(result, Report)]
    first = reports[0].latency_cycles
    return document(
        "comparison",
        {
            "strategies": [
                {"strategy": result.strategy, "speed_up": first / result.latency_cycles}
                if isinstance(result, Report)
                else {"strategy": result.strategy, "speed_up": None, "does_not_fit": result.reason}
                for result in results
            ],
            "reports": [report_tree(report) for report in reports],
        },
    )


def value_json(kind: str, value: object, *, limit: int | None = None) -> str:
    """A machine, graph, schedule or program, of the format `tilestitch.<kind>`: its fields by their names.

    Ratios and infinities are written as text (`"239/8"`, `"-inf"`), arrays as their type and shape, without their
    values. Of a program, the first `limit` instructions are written.
    """
    body: dict[str, Json]
    if isinstance(value, Program):
        shown = len(value) if limit is None else min(limit, len(value))
        body = {
            "instructions_in_all": len(value),
            "buffers_in_all": len(value.buffers),
            "iterations": value.iterations,
            "kernels": list(value.kernels),
            "spaces": _plain(value.spaces),
            "engines": _plain(value.engines),
            "instructions": [_plain(value[number]) for number in range(shown)],
        }
    else:
        body = {kind: _plain(value)}
    return document(kind, body)


def report_tree(report: Report) -> dict[str, Json]:
    """A report as what JSON can hold."""
    return {
        "what": {
            "network": report.network,
            "machine": report.machine,
            "strategy": report.strategy,
            "clock_hz": report.clock_hz,
            "batch": report.batch,
            "clusters": report.clusters,
            "clusters_simulated": report.clusters_simulated,
            "batch_per_cluster": report.batch_per_cluster,
            "iterations": report.iterations,
            "batch_per_iteration": report.batch_per_iteration,
            "batches": report.batches,
            "own_operators": report.own_operators,
            "generic_operators": [_plain(row) for row in report.generic_operators],
            "results_that_stay": [_plain(row) for row in report.places],
            "notes": list(report.notes),
        },
        "simulated": {
            "latency_cycles": report.latency_cycles,
            "latency_seconds": report.latency_seconds,
            "samples_per_second": report.throughput_per_second,
            "sustained_cycles_per_batch": report.sustained_cycles_per_batch,
            "sustained_samples_per_second": report.sustained_per_second,
            "instructions": report.instructions,
            "ddr_bytes": report.ddr_bytes,
            "macs": sum(kernel.macs for kernel in report.kernels),
            "vector_operations": sum(kernel.vector_operations for kernel in report.kernels),
            "energy_pj": report.total_energy_pj,
            "energy_pj_by_part": dict(report.energy_pj),
            "engines": [_plain(row) for row in report.engines],
            "traffic": [_plain(row) for row in report.traffic],
            **({} if report.searched is None else {"search": _plain(report.searched)}),
        },
        "bounds": {
            "compute_cycles": report.compute_bound_cycles,
            "attainable_cycles": report.attainable_bound_cycles,
            "traffic_cycles": report.traffic_bound_cycles,
            "largest_cycles": report.bound_cycles,
            "latency_to_largest_ratio": report.ratio_to_bound,
            "ddr_bytes": report.compulsory_bytes,
            "macs": report.macs,
            "vector_operations": report.vector_operations,
        },
        **({} if report.beside is None else {"beside_map": _plain(report.beside)}),
        "verification": {
            "result": str(report.outcome or "not verified"),
            "checks": [_check(check) for check in report.checks],
        },
        "kernels": [_kernel(kernel) for kernel in report.kernels],
    }


def _check(check: CheckRow) -> Json:
    return {
        "precision": check.precision,
        "output": check.output,
        "relative_error": check.error if isfinite(check.error) else None,  # JSON has no NaN
        "allowed_relative_error": check.allowed if isfinite(check.allowed) else None,
        "outcome": str(check.outcome),
        "passed": check.passed if check.outcome in (Outcome.PASSED, Outcome.FAILED) else None,
        "largest_difference_to_rounding_ratio": check.ratio if isfinite(check.ratio) else None,
        "compared_values": check.compared,
        "decided_values": check.decided,
        "dispute": check.dispute or None,
        "lost_share": check.lost,
    }


def _kernel(kernel: KernelRow) -> Json:
    return {
        "name": kernel.name,
        "operators": list(kernel.operators),
        "kinds": list(kernel.kinds),
        "cores": kernel.cores,
        "simulated": {
            "cycles": kernel.cycles,
            "span_cycles": kernel.span_cycles,
            "matrix_busy_cycles": kernel.matrix_busy_cycles,
            "matrix_peak_cycles": kernel.matrix_peak_cycles,
            "vector_busy_cycles": kernel.vector_busy_cycles,
            "ddr_read_bytes": kernel.ddr_read_bytes,
            "ddr_written_bytes": kernel.ddr_written_bytes,
            "macs": kernel.macs,
            "vector_operations": kernel.vector_operations,
        },
        "estimated": {"cycles": kernel.estimated_cycles},
    }


def _plain(value: object) -> Json:
    """A frozen value as JSON: fields by name, tuples as lists, enumerations by name or text."""
    if isinstance(value, IntEnum):
        return value.name.lower()
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, np.ndarray):
        return {"dtype": str(value.dtype), "shape": list(value.shape)}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value) if field.compare}
    assert hasattr(value, "items"), f"no form in JSON for {type(value)}"
    return {str(key): _plain(item) for key, item in value.items()}  # pyright: ignore
