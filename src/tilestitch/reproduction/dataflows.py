"""The best mappings under each pair of loops over elements, beside the figures of dMazeRunner's paper."""

from collections.abc import Mapping

from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.choices import CostMode, Objective
from tilestitch.ir.loop_nest import LoopNest
from tilestitch.mapping.dataflow import dataflow_limits
from tilestitch.mapping.search import Found, search, search_space
from tilestitch.reproduction.published_dmazerunner import Averages, Bar, DataflowBars, PublishedDMazeRunner
from tilestitch.reproduction.rows import Row, close, near

EDP, CYCLES = 0.01, 0.05  # relative differences of what is read off the figures
Totals = tuple[float, int]  # energy-delay products and cycles of all layers


def dataflow_rows(published: PublishedDMazeRunner, nests: Mapping[str, LoopNest], machine: ArrayMachine) -> list[Row]:
    """Layers of Fig. 9a; where all layers are there, totals of Fig. 9a and 9b and what follows from them."""
    bars = published.dataflows
    names = [layer.name for layer in published.layers]
    rows = []
    totals: dict[str, Totals] = {}
    for bar in bars.bars:
        best = {name: _best(nest, machine, bar.pair) for name, nest in nests.items()}
        for name, known in zip(names, bar.layers, strict=True):
            if name in best:
                rows.append(near(f"{_label(bar)}, {name}: pJ x cycles", bars.layers_source, known, best[name].edp, EDP))
        totals[bar.label] = _totals(best)
    if len(nests) < len(names):
        return rows
    for bar in bars.bars:
        edp, cycles = totals[bar.label]
        rows.append(near(f"{_label(bar)}: pJ x cycles", bars.totals_source, bar.edp, edp, EDP))
        rows.append(near(f"{_label(bar)}: cycles", bars.totals_source, bar.cycles, float(cycles), CYCLES))
    return [*rows, *_more(bars, nests, machine), *_averages(published.averages, totals)]


def _more(bars: DataflowBars, nests: Mapping[str, LoopNest], machine: ArrayMachine) -> list[Row]:
    """The other 17 pairs."""
    products, cycles = [], []
    for bar in bars.more:
        edp, latency = _totals({name: _best(nest, machine, bar.pair) for name, nest in nests.items()})
        products.append(near(f"{_label(bar)}: pJ x cycles", bars.more_source, bar.edp, edp, EDP))
        cycles.append(close(_label(bar), bars.cycles_source, bar.cycles, float(latency), bars.cycles_why))
    return products + cycles


def _averages(published: Averages, totals: Mapping[str, Totals]) -> list[Row]:
    """Each earlier mapping over ours of its class, and their mean."""
    rows, products, latencies = [], [], []
    for before in published.before:
        edp, cycles = totals[before.label]
        products.append(before.edp / edp)
        latencies.append(before.cycles / cycles)
        what = f"{before.name} over {before.label}"
        rows.append(close(f"{what}: pJ x cycles", published.source, None, products[-1]))
        rows.append(close(f"{what}: cycles", published.source, None, latencies[-1]))
    for what, known, ratios, tolerance in (
        ("pJ x cycles", published.edp, products, published.edp_tolerance),
        ("cycles", published.cycles, latencies, published.cycles_tolerance),
    ):
        mean = sum(ratios) / len(ratios)
        why = f"within {100 * tolerance:.0f} %, as the totals of earlier mappings are read off a figure"
        rows.append(near(f"mean: {what}", published.source, known, mean, tolerance, why))
    return rows


def _label(bar: Bar) -> str:
    """The name in the figure, and in the code where that is another."""
    return bar.label if bar.label == bar.pair else f"{bar.label} ({bar.pair} here)"


def _best(nest: LoopNest, machine: ArrayMachine, pair: str) -> Found:
    space = search_space(nest, machine, CostMode.PUBLISHED, limits=dataflow_limits(nest, pair))
    return search(space, Objective.EDP).best[0]


def _totals(best: Mapping[str, Found]) -> Totals:
    return sum(found.edp for found in best.values()), sum(found.cycles for found in best.values())
