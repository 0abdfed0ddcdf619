"""The picture in README.md: `python docs/pictures/make.py REPORT.json PICTURE.svg` (`all.py` makes all pictures).

The report is what `tilestitch compare MODEL ... --json REPORT.json` writes.
"""

import json
import sys
from html import escape
from pathlib import Path

WIDTH, LEFT, BAR, GAP = 760, 180, 22, 10
COLOURS = ("#8a8f98", "#0b6e99")  # of what goes through DDR, and of what stays on the chip
THROUGH_DDR = ("layerwise", "tvm")


def picture(comparison: dict) -> str:
    """Bars of the latency of each strategy, and a line where the largest bound is."""
    reports = comparison["reports"]
    latencies = [report["simulated"]["latency_seconds"] * 1e3 for report in reports]
    what = reports[0]["what"]
    bounds = [report["bounds"]["largest_cycles"] / what["clock_hz"] * 1e3 for report in reports]
    scale = (WIDTH - LEFT - 90) / max(latencies)
    height = 60 + len(reports) * (BAR + GAP) + 30
    title = f"{what['network']} on {what['machine']}, batch {what['batch']}: latency in ms (simulated)"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" font-family="sans-serif">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="10" y="26" font-size="16" fill="#1a1a1a">{escape(title)}</text>',
    ]
    for number, (report, latency) in enumerate(zip(reports, latencies, strict=True)):
        top, name = 48 + number * (BAR + GAP), report["what"]["strategy"]
        colour = COLOURS[name not in THROUGH_DDR]
        wide = latency * scale
        lines += [
            f'<text x="{LEFT - 8}" y="{top + 16}" font-size="14" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{LEFT}" y="{top}" width="{wide:.1f}" height="{BAR}" fill="{colour}"/>',
            f'<text x="{LEFT + wide + 6:.1f}" y="{top + 16}" font-size="14" fill="#1a1a1a">{latency:,.3f}</text>',
        ]
    bound = LEFT + min(bounds) * scale
    bottom = height - 26
    lines += [
        f'<line x1="{bound:.1f}" y1="40" x2="{bound:.1f}" y2="{bottom}" stroke="#b3261e" stroke-dasharray="5 4"/>',
        f'<text x="{bound + 6:.1f}" y="{bottom + 14}" font-size="13" fill="#b3261e">'
        f"no schedule is faster than {min(bounds):,.3f} (bound)</text>",
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    report, svg = map(Path, sys.argv[1:])
    svg.write_text(picture(json.loads(report.read_text(encoding="utf-8"))), encoding="utf-8")
