"""A study for people, and as JSON and CSV."""

import json
from dataclasses import asdict

from tilestitch.commands.characterize.study import Fit, Study
from tilestitch.partition.blocks.model import PICOSECONDS
from tilestitch.partition.blocks.synthetic import GRID, SATURATED, saturation
from tilestitch.report.curves import Curve
from tilestitch.report.table import table, title

ORIGIN = "estimated by the block model"
FORMAT = "tilestitch.characterization"
VERSION = 1
SHOWN_LAYERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # of the stacks, in the text


def study_text(study: Study) -> str:
    """What the study comes to, and its curves as tables."""
    share = f"{100 * SATURATED:.0f} %"
    lines = title(f"{study.machine}: {len(GRID)} synthetic convolutions, estimated", "=")
    lines += [
        "Every figure is estimated by the block model, which is INFERRED (docs/dlfusion.md); nothing is measured.",
        "",
        f"one core     at most {study.greatest_rate / 1e9:,.0f} GFLOP/s, {share} of it from "
        f"{study.critical_operations / 1e6:,.1f} million operations on",
        f"stacks       {_stacks(study)}",
    ]
    for fit in study.fits:
        lines += ["fit          " + _function(fit), "             " + _error(fit)]
    lines += ["", *title("Saturation by cores")]
    rows = []
    for column, cores in enumerate(study.model.core_counts):
        points = [(layer.operations, int(time)) for layer, time in zip(GRID, study.times[:, column], strict=True)]
        most = max(operations / time for operations, time in points) * PICOSECONDS / 1e9
        rows.append((str(cores), f"{most:,.0f}", f"{saturation(points, SATURATED) / 1e6:,.1f}"))
    lines += table(("cores", "greatest rate (GFLOP/s)", f"{share} of it from (million operations)"), rows, "rrr")
    lines += ["", *title("Best core number by operations")]
    lines += table(("operations", "layers", "least", "mean", "most"), _bands(study), "lrrrr")
    for curve in study.curves:
        if curve.name not in ("saturation", "best-cores"):
            lines += ["", *title(curve.title), *_pivot(curve)]
    return "\n".join(lines) + "\n"


def study_json(study: Study) -> str:
    """Of the format `tilestitch.characterization`: times are whole picoseconds, rates operations a second."""
    value = {
        "format": FORMAT,
        "version": VERSION,
        "machine": study.machine,
        "model": "inferred",
        "estimated": True,
        "core_counts": study.model.core_counts,
        "greatest_operations_per_second_of_one_core": study.greatest_rate,
        "critical_operations": study.critical_operations,
        "stack_operations_per_core": study.stack_operations,
        "fits": [
            {
                "score": fit.score.value,
                "log2_operations": fit.predictor.operations,
                "log2_channels": fit.predictor.channels,
                "constant": fit.predictor.constant,
                "error_log2": fit.predictor.error,
                "mean_slowdown": fit.mean_slowdown,
                "worst_slowdown": fit.worst_slowdown,
            }
            for fit in study.fits
        ],
        "layers": [
            {
                "rows": layer.extent,
                "channels": layer.channels,
                "kernel": layer.kernel,
                "operations": layer.operations,
                "time_ps": times.tolist(),
                "best_cores": cores,
            }
            for layer, times, cores in zip(GRID, study.times, study.best_cores, strict=True)
        ],
        "curves": [asdict(curve) for curve in study.curves],
    }
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def layers_csv(study: Study) -> str:
    """Every layer of the grid: what it is, its estimated time on each core number, and the best of them."""
    counts = study.model.core_counts
    times = [f"time on {cores} core{'' if cores == 1 else 's'} (ps): estimated" for cores in counts]
    rows = [",".join(("rows", "channels", "kernel", "operations", *times, "best cores: estimated"))]
    for layer, row, cores in zip(GRID, study.times, study.best_cores, strict=True):
        cells = (layer.extent, layer.channels, layer.kernel, layer.operations, *row.tolist(), cores)
        rows.append(",".join(map(str, cells)))
    return "\n".join(rows) + "\n"


def curve_csv(curve: Curve) -> str:
    """A row for each point; the head says what the columns count."""
    rows = [f"series,{curve.x},{curve.y}: estimated"]
    for series in curve.series:
        rows += [f"{series.label.replace(',', '')},{x:.12g},{y:.6g}" for x, y in series.points]
    return "\n".join(rows) + "\n"


def _stacks(study: Study) -> str:
    if study.stack_operations is None:
        return "one more layer always helps, or never does"
    return (
        f"one more layer no longer helps from {study.stack_operations / 1e6:,.1f} million operations a core on (median)"
    )


def _function(fit: Fit) -> str:
    found = fit.predictor
    return (
        f"log2 cores = {found.operations:.3f} log2 operations {_signed(found.channels)} log2 channels "
        f"{_signed(found.constant)} ({fit.score})"
    )


def _error(fit: Fit) -> str:
    return (
        f"off by a factor of {2**fit.predictor.error:.2f}; layers take {fit.mean_slowdown:.2f} x the least time, "
        f"at worst {fit.worst_slowdown:.2f} x"
    )


def _signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'} {abs(value):.3f}"


def _bands(study: Study) -> list[tuple[str, ...]]:
    """Best core numbers of layers by powers of ten of their operations."""
    bands: dict[int, list[int]] = {}
    for layer, cores in sorted(zip(GRID, study.best_cores, strict=True), key=lambda pair: pair[0].operations):
        bands.setdefault(len(str(layer.operations)) - 1, []).append(cores)
    return [
        (
            f"10^{power} to 10^{power + 1}",
            str(len(cores)),
            str(min(cores)),
            f"{sum(cores) / len(cores):.1f}",
            str(max(cores)),
        )
        for power, cores in bands.items()
    ]


def _pivot(curve: Curve) -> list[str]:
    """One column a series, one row a value of x."""
    values = [dict(series.points) for series in curve.series]
    places = sorted({x for points in values for x in points})
    if curve.x.name == "layers":
        places = [x for x in places if x in SHOWN_LAYERS]
    rows = [(f"{x:,.0f}", *(_number(points.get(x)) for points in values)) for x in places]
    head = (str(curve.x), *(series.label for series in curve.series))
    return [f"  {curve.y}", *table(head, rows, "r" * len(head))]


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.2f}" if value < 10 else f"{value:,.0f}"
