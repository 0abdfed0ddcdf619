"""A validation for people."""

import json
from collections.abc import Mapping, Sequence

from tilestitch.base.units import counted
from tilestitch.commands.map.map_json import mapping_json
from tilestitch.commands.map.map_text import COMPONENTS
from tilestitch.commands.validate.compare import MOST_PASSES, Compared
from tilestitch.commands.validate.mechanisms import DMA, Explanation
from tilestitch.commands.validate.summary import (
    LIMITS,
    Judged,
    JudgedNetwork,
    Validation,
    buckets_of,
    energy_of,
    errors_of,
)
from tilestitch.report.table import table, title
from tilestitch.sim.array.simulated import CAUSE_NAMES
from tilestitch.sim.array.tally import LOAD_WAIT, ROOM_WAIT


def validation_text(done: Validation) -> str:
    """How large errors are, where, and why the largest are."""
    notes = [f"note         {note}" for note in done.notes]
    lines = judged_lines(done, f"{MOST_PASSES:,} passes", components=COMPONENTS, notes=notes)
    if done.worst:
        lines += ["", *title("Worst mappings, and what the model misses")]
    for number, (case, why) in enumerate(done.worst, 1):
        lines += _case_lines(number, case, why)
    return "\n".join(lines)


def judged_lines(
    done: JudgedNetwork,
    longest: str,
    *,
    components: Mapping[str, str] = {},
    values: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> list[str]:
    """What the text says of an array and of a tree, but for the worst mappings.

    `longest` is what too long ones have more of, `components` are names of parts of the energy, `values` and `notes`
    lines of the head.
    """
    found, errors = done.found, errors_of(done.found)
    drawn, misfits, too_long = (
        sum(getattr(layer, name) for layer in done.layers) for name in ("drawn", "misfits", "too_long")
    )
    lines = title(f"{done.name} on {done.machine_name}: estimated cycles against simulated cycles", "=")
    lines += [
        f"layers       {len(done.layers)} different",
        f"mappings     {len(found):,} random ones, seed {done.seed}, {'ragged' if done.ragged else 'exact'} factors; "
        f"{drawn:,} drawn, {misfits:,} did not fit, {too_long:,} too long (over {longest})",
        *values,
        "error        (estimated - simulated) / simulated: analytical model, and simulation cycle by cycle",
        f"  mean       {errors.mean:.3%} of the absolute error, {errors.signed:+.3%} with its sign",
        f"  median     {errors.median:.3%}",
        f"  95 %       of all have at most {errors.most_of_95:.3%}",
        f"  worst      {errors.worst:.3%}",
        *notes,
        "",
        *title("Absolute errors"),
        *_bucket_lines(found),
        "",
        *title("Layers"),
    ]
    rows = [
        _layer_row(number, layer.layer.nest.name, layer.found)
        for number, layer in enumerate(done.layers, 1)
        if layer.found
    ]
    lines += table(("", "layer", "mappings", "mean", "median", "95 %", "worst", "signed"), rows, "rlrrrrrr")
    lines += ["", *title("Energy")]
    rows = [
        (components.get(name, name), f"{one.agree:,}", f"{one.worst:.3%}") for name, one in energy_of(found).items()
    ]
    return [*lines, *table(("", "mappings that agree", "largest difference"), rows, "lrr")]


def _bucket_lines(found: Sequence[Judged]) -> list[str]:
    """How many mappings have errors of which size."""
    rows, so_far = [], 0
    for bucket in buckets_of(found):
        so_far += bucket.mappings
        share = bucket.mappings / len(found)
        limit = f"more than {LIMITS[-1]:.1%}" if bucket.limit is None else f"up to {bucket.limit:.1%}"
        limit = "none" if bucket.limit == 0 else limit
        rows.append(
            (limit, f"{bucket.mappings:,}", f"{share:.1%}", f"{so_far / len(found):.1%}", "#" * round(40 * share))
        )
    return table(("error", "mappings", "share", "so far", ""), rows, "lrrrl")


def _layer_row(number: int, name: str, found: Sequence[Judged]) -> tuple[str, ...]:
    """The errors of one layer."""
    one = errors_of(found)
    sizes = [f"{size:.3%}" for size in (one.mean, one.median, one.most_of_95, one.worst)]
    return str(number), name, f"{one.mappings:,}", *sizes, f"{one.signed:+.3%}"


def _case_lines(number: int, case: Compared, why: Explanation) -> list[str]:
    causes = [int(count) for count in case.counts[: len(CAUSE_NAMES)]]
    waits = [
        f"{name.replace('_', ' ')} {cycles / sum(causes):.1%}"
        for name, cycles in zip(CAUSE_NAMES, causes, strict=True)
        if cycles > 0
    ]
    return [
        f"{number} {case.nest.name}: {case.estimated_cycles:,} estimated, {case.simulated_cycles:,} simulated, "
        f"{case.error:+.3%}",
        f"  mapping    {json.dumps(mapping_json(case.nest, case.mapping))}",
        f"  missed     {explanation_text(case, why)}",
        f"  simulated  {', '.join(waits)}",
    ]


def explanation_text(case: Compared, why: Explanation) -> str:
    """What was measured, in a sentence."""
    if not why.mechanisms:
        return f"unexplained: no mechanism takes half of the {counted(abs(case.difference), 'cycle')} along"
    names = list(why.mechanisms)
    if DMA in names:
        waits = [(int(case.counts[cause]), what) for cause, what in ((LOAD_WAIT, "next tile"), (ROOM_WAIT, "results"))]
        most, what = max(waits)
        names[names.index(DMA)] += f" (simulated: {most:,} cycles for the {what})" if most > 0 else ""
    return (
        f"{' or '.join(names)}: without, {abs(why.left):,} of {counted(abs(case.difference), 'cycle')} of difference "
        "are left"
    )
