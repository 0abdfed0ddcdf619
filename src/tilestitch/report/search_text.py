"""The search curve as a section of a page for people."""

from collections.abc import Iterator

from tilestitch.ir.report import Report
from tilestitch.ir.searched import Searched
from tilestitch.report.table import Row, table, title

ROUND = (1, 2, 5)  # numbers of candidates that have a row: these, and ten, a hundred ... times as many


def search_lines(report: Report, searched: Searched) -> list[str]:
    """The fastest schedule after so many candidates, where that is another one than in the row before."""
    rows: list[Row] = []
    shown = None
    for evaluations in (*_round_numbers(searched.evaluations), searched.evaluations):
        known = [one for one in searched.steps if one.evaluations <= evaluations]
        if not known or (known[-1] is shown and evaluations < searched.evaluations):
            continue
        step = shown = known[-1]
        cells = f"{evaluations:,}", f"{step.latency_cycles:,} cycles"
        if report.batches == 1:  # the bound is of one batch
            cells += (f"{step.latency_cycles / report.bound_cycles:,.2f} x",)
        rows.append((*cells, step.by))
    head = ["candidates", "latency", *(["latency / bound"] if report.batches == 1 else []), "made by"]
    return [
        *title("Search: the fastest schedule after so many candidates (simulated)"),
        *table(head, rows, "r" * (len(head) - 1) + "l"),
    ]


def _round_numbers(end: int) -> Iterator[int]:
    """0 and the round numbers below another."""
    if end > 0:
        yield 0
    power = 1
    while power < end:
        yield from (power * one for one in ROUND if power * one < end)
        power *= 10
