"""A compiled network beside its layers mapped alone, as a section of a page for people."""

from tilestitch.ir.beside import BesideMap
from tilestitch.report.table import Row, table, title

LAYERS = 5  # those with the largest differences


def beside_lines(beside: BesideMap) -> list[str]:
    """Both numbers, what makes the difference, and the layers that differ most."""
    rows: list[Row] = [
        _cells(one.of, one.mapped_cycles, one.compiled_cycles)
        for one in beside.times
        if one.mapped_cycles or one.compiled_cycles
    ]
    rows.append(_cells("all", beside.mapped_cycles, beside.compiled_cycles))
    largest = sorted(beside.layers, key=lambda one: -abs(one.difference_cycles))[:LAYERS]  # ties stay in order
    names = [f"  {one.layer}" + (f" ({one.times:,} times)" if one.times > 1 else "") for one in largest]
    rows += [_cells(name, one.mapped_cycles, one.compiled_cycles) for name, one in zip(names, largest, strict=True)]
    return [
        *title("Beside the layers mapped alone: cycles (mapped: estimated, compiled: simulated)"),
        *table(["", "mapped", "compiled", "difference"], rows, "lrrr"),
        f"  While products run {beside.mapped_work:.1%} of the units multiply in the mappings (estimated), "
        f"{beside.compiled_work:.1%} as compiled (simulated).",
        "  Mapped: tilestitch map --objective latency. Compiled: mean over cores. A layer as compiled has all that its",
        "  kernel does.",
    ]


def beside_note(beside: BesideMap) -> str:
    """Both numbers and the two largest parts of their difference, in a sentence."""
    largest = sorted(beside.times, key=lambda one: -abs(one.difference_cycles))[:2]
    parts = " and ".join(f"{one.difference_cycles:+,.0f} for {one.of}" for one in largest)
    return (
        f"Layers mapped alone take {beside.mapped_cycles:,} cycles one after another (estimated), compiled the network "
        f"takes {beside.compiled_cycles:,} (simulated), {beside.ratio:.2f} x: above all {parts}."
    )


def _cells(name: str, mapped: float, compiled: float) -> Row:
    return (name, f"{mapped:,.0f}", f"{compiled:,.0f}", f"{compiled - mapped:+,.0f}")
