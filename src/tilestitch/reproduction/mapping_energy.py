"""Energies of given and of the most frugal mappings, and the example of conv5_2, beside dMazeRunner's."""

from collections.abc import Mapping

from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.choices import CostMode, Objective
from tilestitch.ir.loop_nest import LoopNest
from tilestitch.mapping.evaluate import Priced, Pricer
from tilestitch.mapping.search import search, search_space
from tilestitch.reproduction.array_layers import best_orders, mapping_of
from tilestitch.reproduction.published_dmazerunner import Example, LeastEnergies, Validation
from tilestitch.reproduction.rows import Row, close, exact, near

FIGURE = 0.01  # relative difference of what is read off a figure


def validation_rows(published: Validation, nest: LoopNest, machine: ArrayMachine) -> list[Row]:
    """Mappings for 21 pairs of loops over elements, in the orders of least energy, priced."""
    price = Pricer(nest, machine, CostMode.PUBLISHED)
    rows, apart = [], []
    for row in published.rows:
        _, priced = best_orders(price, row)
        rows.append(exact(f"{row.pair}: pJ", published.source, row.energy_pj, int(priced.energy_pj)))
        apart.append(100 * abs(priced.energy_pj / row.yang_pj - 1))
    return [
        *rows,
        exact(
            "mean difference in per cent",
            published.source,
            published.mean_percent,
            round(sum(apart) / len(apart), 4),
        ),
        exact("least, in per cent", published.source, published.least_percent, round(min(apart), 3)),
        exact("most, in per cent", published.source, published.most_percent, round(max(apart), 3)),
    ]


def example_rows(published: Example, nest: LoopNest, machine: ArrayMachine) -> list[Row]:
    """An earlier mapping with multiple output channels beside dMazeRunner's, C innermost at both levels."""
    innermost = nest.loop("C")
    order = [*(loop for loop in range(len(nest.loops)) if loop != innermost), innermost]
    price = Pricer(nest, machine, CostMode.PUBLISHED)
    moc_mapping, mapping = (mapping_of(tiling, order, order) for tiling in (published.moc, published.ours))
    moc, ours = price(moc_mapping), price(mapping)
    passes = 1
    for dram, spm in zip(moc_mapping.dram, moc_mapping.spm, strict=True):
        passes *= dram * spm
    inputs_each_pass = int(moc.accesses[0].scratchpad_words) // passes  # a word a cycle
    elements = 1
    for factor in mapping.spatial:
        elements *= factor
    inputs_why = (
        "both mappings bring whole images of 9 x 9, and how often is a power of two: so is the ratio, in words or in "
        "bytes, in any order of the loops, and 4.57 (32 / 7) is none. The paper does not say how it counts"
    )
    words = [f"{priced.accesses[1].dram_load_words:,.0f}" for priced in (moc, ours)]
    weights_why = (
        f"the tilings bring {words[0]} and {words[1]} words: each weight four times, and once. 2 x would take other "
        "tilings, with other cycles"
    )
    return [
        exact(
            "MOC: cycles without stalls of results",
            published.source,
            published.moc_cycles_without_stalls,
            passes * inputs_each_pass,
            f"{passes:,} passes of {inputs_each_pass} words of inputs; {moc.cycles:,} with stalls",
        ),
        exact("dMazeRunner: cycles", published.source, published.cycles, ours.cycles),
        exact("ideal cycles of its elements", published.source, published.ideal_cycles, nest.macs // elements),
        exact("speed-up", published.source, published.speed_up, round(moc.cycles / ours.cycles, 2)),
        exact("pJ x cycles, reduction", published.source, published.edp_ratio, round(moc.edp / ours.edp, 2)),
        close("DRAM, inputs: reduction", published.source, published.input_reduction, _loads(moc, ours, 0), inputs_why),
        close(
            "DRAM, weights: reduction", published.source, published.weight_reduction, _loads(moc, ours, 1), weights_why
        ),
    ]


def _loads(some: Priced, others: Priced, operand: int) -> float:
    """Words from DRAM of one over those of another."""
    return some.accesses[operand].dram_load_words / others.accesses[operand].dram_load_words


def least_energy_rows(published: LeastEnergies, nests: Mapping[str, LoopNest], machine: ArrayMachine) -> list[Row]:
    """The most frugal mapping of all, beside the figure and beside Yang et al.'s optimizer."""
    rows, beside = [], []
    for name, nest in nests.items():
        energy = search(search_space(nest, machine, CostMode.PUBLISHED), Objective.ENERGY).best[0].energy_pj
        known = published.layers[name]
        rows.append(near(f"{name}: pJ", published.source, known.energy_pj, energy, FIGURE))
        beside.append(close(name, published.yang_source, known.yang_pj / known.energy_pj, known.yang_pj / energy))
    return rows + beside
