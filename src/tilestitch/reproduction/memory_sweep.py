"""dMazeRunner's sweep of register files and scratchpads, point by point, and what its paper says of it."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

from tilestitch.hardware.array_machine import ArrayMachine
from tilestitch.ir.choices import CostMode, Objective
from tilestitch.ir.loop_nest import LoopNest
from tilestitch.mapping.search import search, search_space
from tilestitch.reproduction.array_layers import RULES, digits, of_the_paper, rule_limits
from tilestitch.reproduction.published_dmazerunner import PublishedSweep
from tilestitch.reproduction.rows import Row, exact, near

DIGITS = 16  # of the spreadsheets
FIGURE = 0.05  # relative difference of what is read off the figure
WORD_BYTES = 2
Points = dict[tuple[int, int], float | None]  # by scratchpad in KiB and register file in bytes; None: nothing fits


def sweep_rows(
    published: PublishedSweep, nests: Mapping[str, LoopNest], machine: ArrayMachine, *, whole: bool
) -> list[Row]:
    """Every point of the layers; where all layers are there, their sums and the best sizes.

    Rules: OPT1 to 3 without loosening them, the register check of the paper's code, and energies that follow the sizes.
    """
    rows: list[Row] = []
    found: dict[str, Points] = {}
    sizes = list(product(published.scratchpad_kib, published.register_bytes))
    for name, nest in nests.items():
        found[name], agree = {}, 0
        for scratchpad, registers in sizes:
            edp, tilings = _point(published, nest, machine, scratchpad, registers)
            found[name][scratchpad, registers] = edp
            at = published.scratchpad_kib.index(scratchpad), published.register_bytes.index(registers)
            agree += tilings == published.layers[name].tilings[at[0]][at[1]]
            known = published.layers[name].edp[at[0]][at[1]]
            rows.append(
                exact(
                    f"{name}, {scratchpad} KiB, {registers} B: pJ x cycles",
                    published.source,
                    known,
                    None if edp is None else digits(edp, DIGITS),
                    "nothing fits" if known is None else "",
                )
            )
        rows.append(exact(f"{name}: points with as many tilings", published.source, len(sizes), agree))
    return rows + _paper(published, found) if whole else rows


def _point(
    published: PublishedSweep, nest: LoopNest, machine: ArrayMachine, scratchpad_kib: int, register_bytes: int
) -> tuple[float | None, int]:
    """The best energy-delay product with these memories, None where nothing fits; and how many tilings fit."""
    energy = published.scratchpad_pj[published.scratchpad_kib.index(scratchpad_kib)]
    changed = replace(
        machine,
        register_bytes=register_bytes,
        banks=1024 * scratchpad_kib // 2 // machine.bank_bytes,  # half of them, for the tile in use
        register_pj_per_byte=published.register_pj * register_bytes / machine.register_bytes / WORD_BYTES,
        scratchpad_pj_per_byte=energy / WORD_BYTES,
    )
    limits = of_the_paper(rule_limits(nest, RULES[-1], published.thresholds), nest)
    space = search_space(nest, changed, CostMode.PUBLISHED, limits=limits)
    best = search(space, Objective.EDP).best
    return best[0].edp if best else None, space.tilings()


def _paper(published: PublishedSweep, found: Mapping[str, Points]) -> list[Row]:
    """Sums of Fig. 12, and the best sizes."""
    figure, best = published.figure_12, published.best
    totals = {
        (scratchpad, registers): sum(points[scratchpad, registers] or 0.0 for points in found.values())
        for scratchpad in figure.edp
        for registers in published.register_bytes
        if all(points[scratchpad, registers] is not None for points in found.values())
    }
    rows = []
    for scratchpad, sums in figure.edp.items():
        for registers, known in zip(published.register_bytes, sums, strict=True):
            what = f"{scratchpad} KiB, {registers} B: pJ x cycles"
            rows.append(near(what, figure.source, known, totals[scratchpad, registers], FIGURE))
    for scratchpad, known in best.total.items():
        what = f"all layers, {scratchpad} KiB: pJ x cycles"
        rows.append(exact(what, best.source, known, digits(totals[scratchpad, best.register_bytes], 4)))
    scratchpad, registers = min(totals, key=lambda size: totals[size])
    first = min(best.total, key=lambda size: best.total[size])
    rows.append(
        exact(
            "all layers: best",
            best.source,
            f"{first} KiB, {best.register_bytes} B",
            f"{scratchpad} KiB, {registers} B",
        )
    )
    for name, known in best.layers.items():
        points = {size: edp for size, edp in found[name].items() if edp is not None}
        size = min(points, key=lambda one: points[one])
        expected = f"{known.scratchpad_kib} KiB, {best.register_bytes} B"
        rows.append(exact(f"{name}: best", best.source, expected, f"{size[0]} KiB, {size[1]} B"))
        rows.append(exact(f"{name}: pJ x cycles", best.source, known.edp, digits(points[size], 4)))
    return rows
