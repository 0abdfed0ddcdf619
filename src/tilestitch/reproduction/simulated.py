"""GraphTurbo's tables and figures beside what the simulator gives. No row of these must match."""

from collections.abc import Iterable, Sequence
from math import prod

from tilestitch.reproduction.published import Mean, PublishedGraphTurbo, PublishedNetwork
from tilestitch.reproduction.quantised import SUFFIX
from tilestitch.reproduction.rows import Row, close
from tilestitch.reproduction.runs import VENDOR, Case, Outcomes, StrategyRun
from tilestitch.reproduction.vendor import IMAGES

_BASELINE = "tvm"
_APART = 1.1  # of two published numbers that should be the same


def network_rows(
    published: PublishedGraphTurbo, network: PublishedNetwork, machine: str, outcomes: Outcomes
) -> list[Row]:
    """Table 2 with Figs. 14 and 15, what the bounds allow, and Table 1, Figs. 16 and 17 where they have the network."""
    tvm = outcomes.get(Case(network.network, machine, _BASELINE, network.batch, network.tvm_batch))
    searched = outcomes.get(Case(network.network, machine, _BASELINE, network.batch, "auto"))
    if tvm is None or searched is None:
        return []
    name, note = f"{network.letter} {network.name}", published.notes.get(network.letter, "")
    rows = []
    for base, how in ((tvm, ""), (searched, " (searched)")):
        what = f"{name}: tvm, {base.per_cluster} a cluster{how}, {network.unit}"
        ours, theirs = (
            _gigabytes(base.ddr_bytes_per_sample * rate) for rate in (base.per_second, network.tvm_per_second)
        )
        traffic = (
            f"{base.ddr_bytes_per_sample / 1e6:,.3g} MB a sample are {ours} of DDR at our rate, {theirs} at theirs"
        )
        why = _sentences(note, traffic)
        rows.append(close(what, f"Table 2, on {machine}", network.tvm_per_second, base.per_second, why))
    for line in (published.vendor, *published.speed_ups):
        found = outcomes.get(Case(network.network, machine, line.strategy, network.batch, _searched(line.strategy)))
        if found is None:
            continue
        value = line.values.get(network.letter)
        for base, of in ((tvm, "over tvm"), (searched, "over tvm, its batch searched")):
            what = f"{name}: {line.strategy} {of}"
            row = close(what, f"{line.source}, on {machine}", value, base.seconds / found.seconds)
            why = note if row.ok is not False else _sentences(note, _cause(base, found))
            rows.append(close(what, row.source, row.published, row.ours, why))
    rows += _allowed(published, network, machine, tvm, searched)
    if network.letter == "B":
        rows += _table_1(published, network, machine, outcomes)
    rows += _table_3(published, network, machine, outcomes)
    rows += _figure_16(published, network, machine, outcomes)
    if network.letter == "A":
        rows += _figure_17(published, network, machine, outcomes)
    return rows


def mean_rows(
    published: PublishedGraphTurbo, chosen: Sequence[PublishedNetwork], machine: str, outcomes: Outcomes
) -> list[Row]:
    """Means over the networks that both ran here and have a published value."""
    rows = []
    for mean in published.means:
        bars = published_ratios(published, mean)
        ours = {
            one.letter: ratio
            for one in chosen
            if one.letter in bars and (ratio := _our_ratio(mean, one, machine, outcomes)) is not None
        }
        if not ours:
            continue
        theirs = [bars[letter] for letter in ours]
        what, source = f"{mean.strategy} over {mean.over}, {len(ours)} networks", f"{mean.source}, on {machine}"
        if len(ours) == len(bars):
            rows.append(close(f"{what}: arithmetic mean, claimed", source, mean.claimed, arithmetic(ours.values())))
        rows.append(
            close(f"{what}: arithmetic mean of the bars", source, arithmetic(theirs), arithmetic(ours.values()))
        )
        rows.append(close(f"{what}: geometric mean of the bars", source, geometric(theirs), geometric(ours.values())))
    return rows


def published_mean_rows(published: PublishedGraphTurbo) -> list[Row]:
    """The means that the paper claims beside those of its own bars, which need no simulation."""
    rows = []
    for mean in published.means:
        bars = list(published_ratios(published, mean).values())
        recomputed = arithmetic(bars)
        why = f"the geometric mean of these {len(bars)} bars is {geometric(bars):.2f} x"
        if abs(recomputed / mean.claimed - 1) > 0.02:
            why = f"the paper contradicts itself: its bars have this mean, not the claimed one; {why}"
        what = f"{mean.strategy} over {mean.over}: arithmetic mean, claimed and of the published bars"
        rows.append(close(what, f"{mean.source}: the paper beside itself", mean.claimed, recomputed, why))
    return rows


def published_ratios(published: PublishedGraphTurbo, mean: Mean) -> dict[str, float]:
    """The bars of one strategy over those of another, by letter, where there are both."""
    bars = {line.strategy: line.values for line in published.speed_ups}
    bars[_BASELINE] = dict.fromkeys(bars[mean.strategy], 1.0)
    bars[VENDOR] = published.vendor.values
    return {
        letter: value / bars[mean.over][letter]
        for letter, value in bars[mean.strategy].items()
        if letter in bars[mean.over]
    }


def arithmetic(values: Iterable[float]) -> float:
    """Their arithmetic mean."""
    found = list(values)
    return sum(found) / len(found)


def geometric(values: Iterable[float]) -> float:
    """Their geometric mean."""
    found = list(values)
    return prod(found) ** (1 / len(found))


def _our_ratio(mean: Mean, network: PublishedNetwork, machine: str, outcomes: Outcomes) -> float | None:
    """As Table 2 compares: the batch per cluster is the paper's for tvm, and searched for the others."""
    found = outcomes.get(Case(network.network, machine, mean.strategy, network.batch, "auto"))
    per_cluster = network.tvm_batch if mean.over == _BASELINE else _searched(mean.over)
    over = outcomes.get(Case(network.network, machine, mean.over, network.batch, per_cluster))
    return None if found is None or over is None else over.seconds / found.seconds


def _searched(strategy: str) -> int | str:
    """The batch per cluster is searched, but for what is written for one."""
    return IMAGES if strategy == VENDOR else "auto"


def _allowed(
    published: PublishedGraphTurbo, network: PublishedNetwork, machine: str, tvm: StrategyRun, searched: StrategyRun
) -> list[Row]:
    """How much faster than tvm any schedule can be: tvm's latency over the largest lower bound."""
    speed_up = next(line.values[network.letter] for line in published.speed_ups if line.strategy == "graphturbo")
    rows = []
    for base, how in ((tvm, f"{network.tvm_batch} a cluster"), (searched, "its batch searched")):
        allowed = base.seconds / base.bound_seconds
        what = f"{network.letter} {network.name}: most that any schedule can win over tvm, {how}"
        why = (
            f"the published speed-up is {speed_up / allowed:.2f} x what the bound allows here"
            if speed_up > allowed
            else ""
        )
        rows.append(
            Row(
                what,
                f"lower bounds of the latency, on {machine}",
                speed_up,
                allowed,
                allowed / speed_up,
                False,
                None,
                why,
            )
        )
    return rows


def _table_1(published: PublishedGraphTurbo, network: PublishedNetwork, machine: str, outcomes: Outcomes) -> list[Row]:
    table, rows = published.table_1, []
    for line in table.rows:
        found = outcomes.get(Case(network.network, machine, line.strategy, line.batch, line.per_cluster))
        if found is None:
            continue
        implied = 1000 * line.batch / line.milliseconds
        why = ""
        if max(implied / line.per_second, line.per_second / implied) > _APART:
            why = f"the paper contradicts itself: batch / latency is {implied:,.0f}/s"
        what = f"BERT-128, batch {line.batch}, {line.per_cluster} a cluster, {line.strategy}"
        source = f"{table.source}, on {machine}"
        rows.append(close(f"{what}: sent/s", source, line.per_second, found.per_second, why))
        rows.append(close(f"{what}: ms", source, line.milliseconds, 1000 * found.seconds, why))
    return rows


def _table_3(published: PublishedGraphTurbo, network: PublishedNetwork, machine: str, outcomes: Outcomes) -> list[Row]:
    """Where tensors wait. The paper counts every operator's; ours are those of kernels, which fuse operators."""
    table, rows = published.table_3, []
    for strategy, counts, per_cluster in (
        (_BASELINE, table.tvm, network.tvm_batch),
        ("graphturbo", table.graphturbo, "auto"),
    ):
        found = outcomes.get(Case(network.network, machine, strategy, network.batch, per_cluster))
        if found is None:
            continue
        for level, theirs, ours in zip(("DDR", "GB", "LB"), counts[network.letter], found.results, strict=True):
            what = f"{network.letter} {network.name}: {strategy}, tensors in {level}"
            rows.append(close(what, f"{table.source}, on {machine}", theirs, ours))
    return rows


def _figure_16(
    published: PublishedGraphTurbo, network: PublishedNetwork, machine: str, outcomes: Outcomes
) -> list[Row]:
    figure, rows = published.figure_16, []
    for curve in figure.curves:
        if curve.letter != network.letter:
            continue
        for batch, matrix, vector in zip(curve.batches, curve.matrix, curve.vector, strict=True):
            own = network.network + (SUFFIX if curve.element == "int8" else "")
            found = outcomes.get(Case(own, machine, "graphturbo", 4 * batch, batch))
            if found is None:
                continue
            what, source = f"{network.name} {curve.element}, {batch} a cluster", f"{figure.source}, on {machine}"
            why = figure.int8_why if curve.element == "int8" else ""
            rows.append(close(f"{what}: matrix units at work, %", source, matrix, _percent(found, "matrix"), why))
            why = why or figure.vector_why
            rows.append(close(f"{what}: vector units at work, %", source, vector, _percent(found, "vector"), why))
    return rows


def _figure_17(
    published: PublishedGraphTurbo, network: PublishedNetwork, machine: str, outcomes: Outcomes
) -> list[Row]:
    figure, rows = published.figure_17, []
    for strategy, stages, per_cluster in (
        (_BASELINE, figure.tvm, network.tvm_batch),
        ("graphturbo", figure.graphturbo, "auto"),
    ):
        found = outcomes.get(Case(network.network, machine, strategy, network.batch, per_cluster))
        if found is None:
            continue
        for number, (matrix, vector) in enumerate(found.stages):
            what, source = f"stage {number + 1} of ResNet-50 by {strategy}", f"{figure.source}, on {machine}"
            rows.append(
                close(f"{what}: matrix units at work, %", source, stages.matrix[number], 100 * matrix, figure.why)
            )
            rows.append(
                close(f"{what}: vector units at work, %", source, stages.vector[number], 100 * vector, figure.why)
            )
    return rows


def _percent(outcome: StrategyRun, unit: str) -> float:
    return 100 * (outcome.matrix_share if unit == "matrix" else outcome.vector_share)


def _cause(base: StrategyRun, found: StrategyRun) -> str:
    """Traffic, utilization and overlap of both, for a ratio that is not the published one."""
    sides = [
        f"{one.ddr_bytes_per_sample / 1e6:,.3g} MB a sample through DDR, reading {one.dma_share:.0%} of the time, "
        f"matrix units at work {one.matrix_share:.0%}, vector units {one.vector_share:.0%}"
        for one in (base, found)
    ]
    allowed = base.seconds / found.bound_seconds
    return f"{sides[0]}; against {sides[1]}; the bound allows {allowed:.2f} x"


def _gigabytes(bytes_per_second: float) -> str:
    return f"{bytes_per_second / 1e9:.3g} GB/s"


def _sentences(*texts: str) -> str:
    return "; ".join(text for text in texts if text)
