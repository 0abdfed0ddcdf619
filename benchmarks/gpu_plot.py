"""The plot of the GPU case study: times, ratios beside those of the paper, and kernels beside the simulator."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

WAYS = ("fused", "unfused", "torch", "torch.compile")
TITLES = (
    "median milliseconds (measured)",
    "ratio of times: fused against others (measured), GraphTurbo's (published, A100)",
    "milliseconds of each kernel: simulated for the preset (x), measured (y)",
)


def plot(rows: Sequence[Mapping[str, Any]], by_cutlass: Mapping[str, Any]) -> str:
    """A page with three pictures."""
    figure = make_subplots(rows=3, cols=1, subplot_titles=TITLES)
    names = [f"{row['network']}, {row['batch']}" for row in rows]
    for way in WAYS:
        times = [row["measured_ms"].get(way) for row in rows]
        figure.add_trace(go.Bar(name=way, x=names, y=times), row=1, col=1)
    for way in ("fused_ms", "unfused_ms"):
        if way in by_cutlass:
            time = by_cutlass[way]
            figure.add_trace(go.Bar(name=f"CUTLASS {way[:-3]}", x=["conv-pair, 32"], y=[time]), row=1, col=1)
    for way in WAYS[1:]:
        found = [row["fused_is_faster_than"].get(way) for row in rows]
        figure.add_trace(go.Bar(name=f"over {way} (measured)", x=names, y=found), row=2, col=1)
    for way in dict.fromkeys(way for row in rows for way in row["published_on_a100"]):
        found = [row["published_on_a100"].get(way) for row in rows]
        figure.add_trace(go.Bar(name=f"GraphTurbo {way} (published)", x=names, y=found), row=2, col=1)
    for way in WAYS[:2]:
        kernels = [(name, one) for name, row in zip(names, rows, strict=True) for one in row["kernels"][way]]
        figure.add_trace(
            go.Scatter(
                name=f"kernels, {way}",
                mode="markers",
                x=[one["simulated_ms"] for _, one in kernels],
                y=[one["measured_ms"] for _, one in kernels],
                text=[f"{name}: {' + '.join(one['operators'])}" for name, one in kernels],
            ),
            row=3,
            col=1,
        )
    figure.update_layout(title=f"measured on {rows[0]['device']['device']}", height=1400)
    return figure.to_html(include_plotlyjs=True)
