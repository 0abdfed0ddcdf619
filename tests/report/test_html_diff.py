"""The page of two runs in a real browser: every pane is drawn, and what it says is what `diff` found."""

import pytest

import tilestitch
from tests.helpers.pairs import each_once
from tilestitch import api
from tilestitch.base.units import format_bytes
from tilestitch.pipeline.options import Options

PANES = ("decisions", "bytes", "operators")
BLUE, ORANGE = 0x0072B2, 0xE69F00  # of A and B, as web/src/colours.ts has them


@pytest.fixture(scope="module")
def found():
    """A small network by two strategies, of which one cuts it into pieces."""
    options = Options(batch_per_cluster=2)
    return tilestitch.diff(*api.compare("resnet18:small", "toy", ["tvm", "graphturbo"], batch=4, options=options))


@pytest.fixture(scope="module")
def page(found, tmp_path_factory):
    """Its page."""
    path = tmp_path_factory.mktemp("page") / "differences.html"
    path.write_text(found.to_html("tilestitch diff a.json b.json"), encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "dark"), each_once([390, 1280], [False, True]))
def test_every_pane_is_drawn_and_nothing_is_asked_for(browser, page, width, dark):
    """At any width and in both themes: bars and strips, an empty console, no request, no sideways scroll."""
    browser.size(width)
    browser.dark(dark)
    browser.open(page)
    assert browser.complaints() == []
    assert browser.requests() == [page.resolve().as_uri()]
    for pane in PANES:
        colours = browser.pixels(pane)
        assert sum(colours.values()) - max(colours.values()) > 300, pane
        assert len(colours) >= 3, pane
    assert browser.run("return document.documentElement.scrollWidth") <= width
    background = browser.run("return getComputedStyle(document.querySelector('section')).backgroundColor")
    assert background == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")
    browser.paper(True)  # a grid would leave the first page to the title alone
    assert browser.run("return getComputedStyle(document.querySelector('main')).display") == "block"
    browser.paper(False)


def test_the_page_says_what_diff_found(browser, page, found):
    """Every number of both runs, every decision of the whole network, and every operator."""
    browser.open(page)
    text = browser.run("return document.getElementById('differences').innerText")
    assert next(line for line in str(found).splitlines() if " as fast as " in line) in text
    assert "tilestitch diff a.json b.json" in text
    rows = browser.rows("figures")
    assert [(row[0], row[4]) for row in rows] == [(one.what, one.origin) for one in found.figures]
    assert rows[1][1:3] == [f"{one.latency_cycles:,} cycles" for one in (found.a, found.b)]
    assert browser.rows("settings") == [[one.what, one.a, one.b] for one in found.settings]
    assert browser.rows("decisions") == [[one.what, one.a, one.b] for one in found.decisions]
    for row, one in zip(browser.rows("traffic"), found.traffic, strict=True):
        assert row[:3] == [one.what, format_bytes(one.a), format_bytes(one.b)]
    by_cycles = sorted(found.operators, key=lambda one: -abs(one.cycles))
    assert [row[0] for row in browser.rows("operators")] == [one.name for one in by_cycles]
    browser.choose("measure", "DDR bytes")
    browser.settle()
    by_bytes = sorted(found.operators, key=lambda one: -abs(one.ddr_bytes))
    rows = browser.rows("operators")
    assert [row[0] for row in rows] == [one.name for one in by_bytes]
    for row, one in zip(rows, by_bytes, strict=True):
        assert row[2:4] == [f"{side.occupied_cycles:,}" for side in (one.a, one.b)]
        assert row[5:7] == [format_bytes(side.ddr_bytes) for side in (one.a, one.b)]
        assert row[8] == ", ".join(change.what for change in one.decided)


def test_the_bars_are_as_long_as_the_numbers(browser, page, found):
    """The pixels of A and B have the ratio of all bytes of either."""
    browser.open(page)
    colours = browser.pixels("bytes")
    ratio = sum(one.a for one in found.traffic) / sum(one.b for one in found.traffic)
    assert colours[BLUE] / colours[ORANGE] == pytest.approx(ratio, rel=0.05)


def test_an_operator_is_selected_by_name_click_and_address(browser, page, found):
    """The column on the right says its numbers and decisions in both runs; Escape selects nothing."""
    browser.open(page)
    one = max(found.operators, key=lambda each: len(each.decided))
    browser.find(one.name)
    assert browser.run("return document.querySelector('#details h2').textContent") == one.name
    numbers = {row[0]: row[1:] for row in browser.rows("operator")}
    assert numbers["occupied cycles"] == [f"{side.occupied_cycles:,}" for side in (one.a, one.b)]
    assert numbers["tiling"] == [one.a.tiling, one.b.tiling]
    assert browser.rows("operator decisions") == [[change.what, change.a, change.b] for change in one.decided]
    assert one.name in browser.run("return decodeURIComponent(location.hash)")
    address = browser.run("return location.hash")
    browser.run("document.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }))")
    browser.settle()
    assert browser.rows("operator") == []
    browser.open(page, address)
    assert browser.run("return document.querySelector('#details h2').textContent") == one.name
    browser.run("document.querySelector('[data-table=operators] button').click()")
    browser.settle()
    largest = max(found.operators, key=lambda each: abs(each.cycles))
    assert browser.run("return document.querySelector('#details h2').textContent") == largest.name
    assert browser.complaints() == []


@pytest.mark.slow
def test_names_never_become_markup(browser, tmp_path):
    """Of files, networks and operators."""
    evil = "<img src=x onerror=alert(1)></script>"
    done = api.compile("resnet18:small", "toy", strategy="tvm")
    path = tmp_path / "page.html"
    text = tilestitch.diff(done, done).to_html().replace("layer1.0.conv1", evil.replace("<", "\\u003c"))
    path.write_text(text, encoding="utf-8")
    browser.open(path)
    assert browser.run("return document.images.length") == 0
    assert evil in [row[0] for row in browser.rows("operators")]
