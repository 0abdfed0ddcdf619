"""The page in a real browser: every pane is drawn, one selection holds in all, and what it says is the trace's."""

from collections import Counter, defaultdict

import numpy as np
import pytest

import tilestitch
from tests.helpers.pairs import each_once
from tilestitch import api
from tilestitch.commands.why.explain import idle_of
from tilestitch.ir.choices import Effort
from tilestitch.ir.idle import CAUSES
from tilestitch.ir.program import Kind, Mode
from tilestitch.pipeline.options import Options

CAUSE_COLOURS = (0x56B4E9, 0x0072B2, 0xE69F00, 0xD55E00, 0xCC79A7, 0xF0E442, 0x808080)  # as web/src/colours.ts has them
PANES = ("timeline", "memories", "graph", "roofline")
TALLEST = """
return Math.max(...[...document.querySelectorAll(arguments[0])].map((one) => one.getBoundingClientRect().height));
"""
TOPS = "return [...document.querySelectorAll(arguments[0])].map((one) => one.getBoundingClientRect().top)"


@pytest.fixture(scope="module")
def compared():
    """A small network by two strategies, of which one cuts it into pieces."""
    options = Options(batch_per_cluster=2)
    return api.compare("resnet18:small", "toy", ["graphturbo", "tvm"], batch=4, options=options)


@pytest.fixture(scope="module")
def page(compared, tmp_path_factory):
    """The page of both."""
    path = tmp_path_factory.mktemp("page") / "compared.html"
    path.write_text(compared.to_html("tilestitch compare resnet18:small"), encoding="utf-8")
    return path


def cycles_of(done):
    """Start and end of each instruction, in cycles."""
    trace = done.trace
    return trace.start_ticks // trace.ticks_per_cycle, trace.end_ticks // trace.ticks_per_cycle


def lifetimes(done):
    """First start and last end of the instructions that use each buffer; network inputs from 0, outputs to the end."""
    program = done.program
    start, end = cycles_of(done)
    user = np.repeat(np.arange(len(program)), np.diff(program.operand_offsets))
    first, last = np.full(len(program.buffers), 2**62), np.full(len(program.buffers), -1)
    np.minimum.at(first, program.operand_buffer, start[user])
    np.maximum.at(last, program.operand_buffer, end[user])
    for buffer in (*(b for one in program.inputs for b in one), *(b for _, b in program.constants)):
        first[buffer] = 0
    for buffer in (b for one in program.outputs for b in one):
        last[buffer] = end.max()
    return first, last


def critical(done, instruction):
    """Back from an instruction, each time to what ended last of all it waited for; the first of several."""
    program = done.program
    _, end = cycles_of(done)
    latest, previous = {}, []
    for number, engine in enumerate(program.engine.tolist()):
        previous.append(latest.get(engine))
        latest[engine] = number
    path = [instruction]
    while True:
        candidates = sorted({*program[path[-1]].waits} | ({previous[path[-1]]} - {None}))
        if not candidates:
            return path, previous
        path.append(max(candidates, key=lambda one: (end[one], -one)))


def number_in(text: str) -> int:
    """The whole number with which a text begins."""
    return int(text.split()[0].replace(",", ""))


def cycles_in(text: str) -> int:
    """The number of cycles in brackets."""
    return number_in(text.split("(")[1])


@pytest.mark.parametrize(("width", "dark"), each_once([390, 1280, 2560], [False, True]))
def test_every_pane_is_drawn_and_nothing_is_asked_for(browser, page, width, dark):
    """At any width and in both themes: many colours in each pane, an empty console, no request, no sideways scroll."""
    browser.size(width)
    browser.dark(dark)
    browser.open(page)
    assert browser.complaints() == []
    assert browser.requests() == [page.resolve().as_uri()]
    for pane in PANES:
        colours = browser.pixels(pane)
        most = max(colours.values())
        assert len(colours) > 20, pane
        assert sum(colours.values()) - most > 500, pane
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert "add --verify" in browser.run("return document.getElementById('values').innerText")
    assert browser.run(TALLEST, "td button, th button") < 30  # a name is not broken to make room for other columns
    rows = browser.run(TOPS, ".figure")
    assert len(set(Counter(rows).values())) == 1  # as many figures in each row
    background = browser.run("return getComputedStyle(document.querySelector('section')).backgroundColor")
    assert background == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")


def test_the_verdict_is_the_report(browser, page, compared):
    """Latency, bounds, traffic and energy as the report has them, of the strategy that is shown."""
    browser.open(page)
    for done in compared.fitting:
        report = done.report
        browser.choose("strategy", report.strategy)
        browser.wait(f"return document.documentElement.dataset.drawn === '{report.strategy}'")
        browser.settle()
        text = browser.run("return document.getElementById('verdict').innerText")
        assert f"{report.latency_cycles:,} cycles" in text
        assert f"{report.bound_cycles:,} cycles" in text
        assert f"{report.ratio_to_bound:,.2f} x" in text
        assert "Not verified" in text
        assert f"There is no proof that the decisions of strategy {report.strategy} are the best." in text
        assert f"at most {report.ratio_to_bound:,.3f} x as long as the best" in text
        bounds = {row[0]: number_in(row[2]) for row in browser.rows("bounds")}
        assert bounds["compute roofline"] == report.compute_bound_cycles
        assert bounds["attainable"] == report.attainable_bound_cycles
        assert bounds["compulsory traffic"] == report.traffic_bound_cycles
        occupied = {row[0]: row[3] for row in browser.rows("engines")}
        for engine in report.engines:
            assert occupied[engine.kind] == f"{100 * engine.busy_cycles / report.latency_cycles:.1f} %"
        assert f"strategy={report.strategy}" in browser.run("return location.hash")


def test_an_instruction_says_what_it_waited_for(browser, page, compared):
    """Start, end, waits with their ends, and what waited for it; the critical path adds up to its end."""
    done = compared.fitting[0]
    program = done.program
    start, end = cycles_of(done)
    computes = np.flatnonzero(program.kind == Kind.COMPUTE).tolist()
    number = max(computes, key=lambda one: (len(program[one].waits), one))
    browser.open(page, f"#strategy=graphturbo&select=instruction:{number}")
    facts = dict(browser.rows("instruction"))
    assert facts["engine"] == program[number].engine
    assert cycles_in(facts["start"]) == start[number]
    assert cycles_in(facts["end"]) == end[number]
    assert facts["operator"] == program[number].operator
    path, previous = critical(done, number)
    expected = {*program[number].waits} | ({previous[number]} - {None})
    shown = {int(row[0]): number_in(row[2]) for row in browser.rows("waited")}
    assert set(shown) <= expected
    assert len(shown) == min(16, len(expected))
    assert all(shown[one] == end[one] for one in shown)
    assert max(shown.values()) == start[number]
    after = {one for one in range(len(program)) if number in program[one].waits or previous[one] == number}
    title = browser.run("return [...document.querySelectorAll('#details h3')].map(h => h.textContent)")
    assert f"What waited for it: {len(after)}" in title
    assert {int(row[0]) for row in browser.rows("waiting")} <= after
    assert f"Critical path to its end: {len(path):,} instructions" in title
    sums = defaultdict(int)
    for one in path:
        sums[program.engines[program.engine[one]].kind.name.lower()] += int(end[one] - start[one])
    assert {row[0]: cycles_in(row[1]) for row in browser.rows("path")} == sums
    assert sum(sums.values()) == end[number]


def test_the_search_curve_is_drawn_for_what_was_searched(browser, tmp_path):
    """Its table has the steps of the report, keys go from one to the next; other strategies have no such pane."""
    found = api.compare("resnet18:small", "toy", ["graphturbo", "best"], options=Options(effort=Effort.LOW))
    path = tmp_path / "searched.html"
    path.write_text(found.to_html("tilestitch compare resnet18:small"), encoding="utf-8")
    report = found.fitting[1].report
    steps = report.searched.steps
    browser.open(path, "#strategy=best")
    assert browser.complaints() == []
    rows = [(number_in(row[0]), number_in(row[1]), row[3]) for row in browser.rows("steps")]
    assert rows == [(one.evaluations, one.latency_cycles, one.by) for one in steps]
    assert browser.pixels("search")[0x1B1F24] > 250  # the line, in the colour of ink
    said = "return document.getElementById('search-step').textContent"
    assert f"{report.searched.evaluations} candidates were simulated" in browser.run(said)
    press = "document.querySelector('#search canvas').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}))"
    for one in steps[:2]:
        browser.run(press)
        browser.settle()
        assert f"{one.latency_cycles:,} cycles (simulated), " in browser.run(said)
        assert browser.run(said).endswith(f"made by {one.by}")
        assert browser.pixels("search")[0x0072B2] > 30  # the point that is chosen
    browser.choose("strategy", "graphturbo")
    browser.wait("return document.documentElement.dataset.drawn === 'graphturbo'")
    assert browser.run("return document.getElementById('search').getBoundingClientRect().height") == 0


def whole_numbers(values, total):
    """Rounded down, but for the largest rests, so that the sum is the total."""
    found = [int(value // 1) for value in values]
    for at in sorted(range(len(values)), key=lambda at: found[at] - values[at])[: total - sum(found)]:
        found[at] += 1
    return found


def expect_gap(browser, gap):
    """The table of the pane has the parts of a gap, the largest first, and its bar is as long as they are."""
    parts = sorted(gap.parts, key=lambda one: -one.cycles)
    *rows, last = browser.rows("gap")
    assert [row[0] for row in rows] == [str(one.part) for one in parts]
    assert [number_in(row[1]) for row in rows] == whole_numbers([p.cycles for p in parts], round(gap.gap_cycles))
    assert number_in(last[1]) == round(gap.gap_cycles)
    for row, one in zip(rows, parts, strict=True):
        some = (one.cycles, one.setup_cycles, one.sharing_cycles, one.room_cycles)
        assert row[2:6] == [f"{float(100 * each / gap.gap_cycles):.1f} %" if each else "" for each in some]
    bar = browser.pixels("why")
    grey = bar[0x808080] / sum(bar.values())
    assert grey == pytest.approx(float(gap.bound_cycles / gap.latency_cycles), abs=0.06)


def test_the_page_says_why_it_is_not_faster(browser, page, compared):
    """Parts of the run as `why` has them, and of the operator that is chosen from the list of the heaviest."""
    done = compared.fitting[0]
    found = tilestitch.why(done)
    browser.open(page)
    expect_gap(browser, found.gap)
    part = max(found.gap.parts, key=lambda one: one.cycles)
    heaviest = max(found.blame.operators(), key=lambda gap: gap.cycles(part.part))
    row = browser.rows("heaviest operators")[0]
    assert row[:2] == [str(part.part), heaviest.what]
    assert number_in(row[2]) == round(heaviest.cycles(part.part))
    browser.run("document.querySelector(\"[data-table='heaviest operators'] button\").click()")
    browser.settle()
    assert f"operator%3A{heaviest.what}" in browser.run("return location.hash")
    assert f"operator {heaviest.what}" in browser.run("return document.getElementById('details').innerText")
    expect_gap(browser, heaviest)
    browser.open(page, "#strategy=tvm")
    expect_gap(browser, tilestitch.why(compared.fitting[1]).gap)


@pytest.mark.slow
def test_idle_time_has_the_colour_of_its_cause(browser, page, compared):
    """In its middle, hatched; without the switch it has none. A click selects what was waited for, a hover says it."""
    done = compared.fitting[0]
    idle, ticks = idle_of(done), done.trace.ticks_per_cycle
    start, end = idle.begin_ticks // ticks, idle.end_ticks // ticks
    seen = set()
    browser.open(page)
    heights = browser.run(f"return ({HEIGHTS})()")
    for at in np.argsort(start - end, kind="stable").tolist():
        cause = int(idle.cause[at])
        if cause in seen or end[at] - start[at] < 9:
            continue
        seen.add(cause)
        name = done.program.engines[idle.engine[at]].name
        window = f"cycles={start[at]}-{end[at]}"
        turn_to(browser, f"#strategy=graphturbo&{window}&idle=hidden")
        y = heights[name]
        assert not column(browser, y) & set(CAUSE_COLOURS)
        turn_to(browser, f"#strategy=graphturbo&{window}")
        assert column(browser, y) & set(CAUSE_COLOURS) == {CAUSE_COLOURS[cause]}
        number = int(idle.waited_for[at])
        text = hovered(browser, y)
        assert f"{start[at]:,} to {end[at]:,}: idle for {end[at] - start[at]:,} cycles" in text
        assert f"meanwhile: instruction {number}," in text
        browser.run(CLICK, "timeline", 500, y)
        browser.settle()
        assert f"instruction%3A{number}" in browser.run("return location.hash")
        if (after := int(idle.waiting[at])) >= 0:
            turn_to(browser, f"#strategy=graphturbo&select=instruction:{after}")
            own = np.flatnonzero((idle.waiting == after) & (idle.engine == idle.engine[at]))
            rows = [(int(row[0]), number_in(row[2]), row[3]) for row in browser.rows("idle")]
            expected = [(int(idle.waited_for[n]), int(end[n] - start[n]), str(CAUSES[idle.cause[n]])) for n in own]
            assert rows == expected[:16]
    assert len(seen) > 4
    shown = browser.run("return [...document.querySelectorAll('#causes [data-cause]')].map(e => e.textContent)")
    sums = [int((end - start)[idle.cause == cause].sum()) for cause in range(len(CAUSES))]
    expected = [f"{CAUSES[n]} {100 * some / sum(sums):.1f} %" for n, some in enumerate(sums) if some]
    assert shown == expected


def test_idle_time_lies_where_no_work_is(browser, page, compared):
    """Of the whole run: pixels full of work stay as they are, those full of one cause have its colour."""
    done = compared.fitting[0]
    idle, ticks = idle_of(done), done.trace.ticks_per_cycle
    number = [engine.name for engine in done.program.engines].index("matrix0")
    browser.open(page, "#idle=hidden")
    y = browser.run(f"return ({HEIGHTS})()")["matrix0"]
    plain = np.array(browser.run(LANE, y), np.int64).reshape(10, -1)
    browser.open(page)
    shown = np.array(browser.run(LANE, y), np.int64).reshape(10, -1)
    edges = np.linspace(0, done.trace.latency_cycles * ticks, plain.shape[1] + 1)
    covered = np.zeros((len(CAUSES), plain.shape[1]))
    for at in np.flatnonzero(idle.engine == number).tolist():
        inside = np.minimum(edges[1:], idle.end_ticks[at]) - np.maximum(edges[:-1], idle.begin_ticks[at])
        covered[idle.cause[at]] += np.maximum(0, inside) / np.diff(edges)
    busy = np.flatnonzero(covered.sum(axis=0) < 1e-6)
    assert len(busy) > 100
    assert (plain[:, busy] == shown[:, busy]).all()
    checked = 0
    for cause, colour in enumerate(CAUSE_COLOURS):
        for x in np.flatnonzero(covered[cause] > 1 - 1e-6).tolist():
            assert colour in shown[:, x]
            checked += 1
    assert checked > 100


def turn_to(browser, address):
    """Show what an address behind # says, on the page that is open."""
    browser.run("location.hash = arguments[0]", address)
    browser.settle()


def column(browser, y):
    """The colours around the middle of a lane."""
    return set(browser.run(COLUMN, y))


def hovered(browser, y):
    return browser.run(
        "const c = document.querySelector('#timeline canvas'), b = c.getBoundingClientRect();"
        "c.dispatchEvent(new PointerEvent('pointermove',"
        "  { clientX: b.left + 500, clientY: b.top + arguments[0], bubbles: true }));"
        "return document.querySelector('.tip').innerText",
        y,
    )


HEIGHTS = """
() => {
  const canvas = document.querySelector("#timeline canvas");
  const box = canvas.getBoundingClientRect();
  const found = {};
  for (let y = 20; y < box.height; y++) {
    const place = { clientX: box.left + 500, clientY: box.top + y, bubbles: true };
    canvas.dispatchEvent(new PointerEvent("pointermove", place));
    const name = document.querySelector(".tip").textContent.split(/[ :]/)[0];
    found[name] ??= y + 8; // the first pixel of a lane, then its middle
  }
  return found;
}
"""

LANE = """
const canvas = document.querySelector("#timeline canvas");
const { data } = canvas.getContext("2d").getImageData(92, arguments[0] - 5, canvas.width - 92, 10);
const found = [];
for (let at = 0; at < data.length; at += 4) found.push((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
return found;
"""

COLUMN = """
const canvas = document.querySelector("#timeline canvas");
const { data } = canvas.getContext("2d").getImageData(480, arguments[0] - 5, 40, 10);
const found = [];
for (let at = 0; at < data.length; at += 4) found.push((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
return found;
"""


def test_the_memories_are_recomputed_from_the_program(browser, page, compared):
    """High-water marks and the most in use at once, of the cluster's memories and those of its first core."""
    done = compared.fitting[0]
    program, buffers = done.program, done.program.buffers
    first, last = lifetimes(done)
    for space, memory in enumerate(program.spaces):
        if memory.core not in (None, 0):
            continue
        browser.open(page, f"#strategy=graphturbo&memory={memory.name}")
        own = np.flatnonzero(buffers.space == space)
        [row] = browser.rows("memories")
        assert number_in(row[5]) == len(own)
        stop = buffers.address + buffers.size_bytes
        highest = int(stop[own].max(initial=0))
        assert row[2] == f"{_bytes(highest)}, {100 * highest / memory.size_bytes:.1f} %"
        most = 0
        for time in np.unique(first[own]).tolist():
            used = np.zeros(highest, bool)
            for one in own[(first[own] <= time) & (last[own] > time)].tolist():
                used[buffers.address[one] : stop[one]] = True
            most = max(most, int(used.sum()))
        assert row[3] == _bytes(most)


def _bytes(size: int) -> str:
    from tilestitch.base.units import format_bytes

    return format_bytes(size)


def test_a_buffer_says_who_lay_there_before(browser, page, compared):
    """The last holders of all its addresses, and whether their data come again."""
    done = compared.fitting[0]
    program, buffers = done.program, done.program.buffers
    first, last = lifetimes(done)
    space = next(number for number, memory in enumerate(program.spaces) if memory.name == "lb0")
    own = np.flatnonzero(buffers.space == space)
    later = own[first[own] > np.median(first[own])]
    number = int(later[np.argmax(buffers.size_bytes[later])])
    expected = set()
    for address in range(int(buffers.address[number]), int(buffers.address[number] + buffers.size_bytes[number]), 8):
        held = own[(buffers.address[own] <= address) & (address < buffers.address[own] + buffers.size_bytes[own])]
        held = held[(first[held] < first[number]) & (held != number)]
        if len(held):
            expected.add(int(max(held.tolist(), key=lambda one: (last[one], -one))))
    assert expected
    browser.open(page, f"#strategy=graphturbo&select=buffer:{number}")
    assert browser.run("return document.getElementById('memory').value") == "lb0"
    rows = browser.rows("before")
    assert [number_in(row[1]) for row in rows] == sorted((int(last[one]) for one in expected), reverse=True)[:16]
    names = {program.tensors[buffers.tensor[one]] for one in expected}
    assert all(any(row[0].startswith(name) for name in names) for row in rows)
    readers = {
        i for i in range(len(program)) for o in program[i].operands if o.buffer == number and o.mode == Mode.READ
    }
    assert {int(row[0]) for row in browser.rows("readers")} <= readers


def test_one_selection_holds_in_every_pane(browser, page, compared):
    """Each canvas changes, the address has its name, and that address shows the same again."""
    browser.open(page)
    before = {pane: browser.pixels(pane) for pane in PANES}
    operator = compared.fitting[0].program.operators[10]
    browser.find(operator)
    selected = {pane: browser.pixels(pane) for pane in PANES}
    assert all(selected[pane] != before[pane] for pane in PANES)
    address = browser.run("return location.hash")
    assert operator in address
    assert f"operator {operator}" in browser.run("return document.getElementById('details').innerText")
    browser.open(page, address)
    assert {pane: browser.pixels(pane) for pane in PANES if pane != "graph"} == {
        pane: selected[pane] for pane in PANES if pane != "graph"
    }  # the graph may lie elsewhere, but shows it
    assert browser.run("return location.hash") == address
    browser.run("document.querySelector('#details .close').click()")
    browser.settle()
    assert browser.pixels("timeline") == before["timeline"]


def test_what_is_selected_stays_in_sight_on_a_narrow_screen(browser, page):
    """At the lower edge, wherever the page is scrolled to, until it is closed."""
    browser.size(390)
    browser.open(page, "#strategy=graphturbo&select=instruction:40")
    browser.run("document.getElementById('timeline').scrollIntoView()")
    place = "return ({top, bottom} = document.getElementById('details').getBoundingClientRect(), [top, bottom])"
    top, bottom = browser.run(f"let top, bottom; {place}")
    assert 450 < top < bottom <= 900
    browser.run("document.querySelector('#details .close').click()")
    browser.settle()
    assert browser.run(f"let top, bottom; {place}")[0] > 900


def test_a_click_selects_what_is_under_it(browser, page, compared):
    """In the middle of an instruction of the timeline, and of a buffer in the memories."""
    done = compared.fitting[0]
    program = done.program
    start, end = cycles_of(done)
    number = int(np.argmax(end - start))
    low, high = int(start[number]) - 100, int(end[number]) + 100
    browser.open(page, f"#strategy=graphturbo&cycles={max(0, low)}-{min(high, int(end.max()))}")
    lane = browser.run(
        "const c = document.querySelector('#timeline canvas').getBoundingClientRect(); return [c.left, c.top, c.width]"
    )
    low, high = max(0, low), min(high, int(end.max()))
    x = 92 + (int(start[number] + end[number]) / 2 - low) / (high - low) * (lane[2] - 92)
    for y in range(24, 400, 4):  # down the lanes until it is hit
        browser.run(CLICK, "timeline", x, y)
        browser.settle()
        if f"instruction%3A{number}" in browser.run("return location.hash"):
            break
    else:
        pytest.fail("the instruction is under no point of its column")
    assert dict(browser.rows("instruction"))["engine"] == program[number].engine


CLICK = """
const canvas = document.querySelector(`#${arguments[0]} canvas`);
canvas.setPointerCapture = () => {};
const box = canvas.getBoundingClientRect();
const [clientX, clientY] = [box.left + arguments[1], box.top + arguments[2]];
const place = { clientX, clientY, pointerId: 1, button: 0, bubbles: true };
canvas.dispatchEvent(new PointerEvent("pointerdown", { ...place, buttons: 1 }));
canvas.dispatchEvent(new PointerEvent("pointerup", place));
"""


def test_the_keyboard_is_enough(browser, page):
    """Tab reaches every canvas; w zooms, d moves, arrows select, Escape selects nothing."""
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    browser.open(page)
    reached = set()
    for _ in range(200):
        ActionChains(browser.driver).send_keys(Keys.TAB).perform()
        pane = browser.run(
            "return document.activeElement.matches('canvas') && document.activeElement.closest('section').id"
        )
        if pane == "timeline" and "timeline" not in reached:
            ActionChains(browser.driver).send_keys("wwd").perform()
            browser.settle()
            assert "cycles=" in browser.run("return location.hash")
            ActionChains(browser.driver).send_keys(Keys.ARROW_RIGHT).perform()
            browser.settle()
            assert "instruction" in browser.run("return location.hash")
            ActionChains(browser.driver).send_keys("0" + Keys.ESCAPE).perform()
            browser.settle()
            assert browser.run("return location.hash") == "#strategy=graphturbo"
        reached.add(pane)
        if reached >= set(PANES):
            return
    pytest.fail(f"Tab reaches only {reached}")


def test_a_page_of_one_operator(browser, tmp_path):
    """The smallest network has every pane as well; where no value differs, those of a corner are shown."""
    from tests.helpers.graphs import Net

    net = Net()
    done = api.compile(net.model(net.op("Relu", net.input(1, 64))), "toy", strategy="tvm", batch=1, verify=True)
    path = tmp_path / "one.html"
    path.write_text(done.to_html(), encoding="utf-8")
    browser.open(path)
    assert browser.complaints() == []
    for pane in (*PANES, "values"):
        colours = browser.pixels(pane)
        assert len(colours) > 1, pane
        assert sum(colours.values()) > 100, pane
    assert browser.rows("roofline")
    assert browser.run("return document.getElementById('values-set').selectedOptions[0].text") == "the first corner"
    assert [row[3] for row in browser.rows("values")] == ["none"] * 8


SCRIPTED = """
const done = arguments[0];
const canvas = document.querySelector("#timeline canvas");
canvas.setPointerCapture = () => {};
canvas.focus();
const box = canvas.getBoundingClientRect();
const middle = box.width / 2;
const at = (x) => ({ clientX: box.left + x, clientY: box.top + 50, bubbles: true, cancelable: true, pointerId: 1 });
const wheel = (deltaY) => canvas.dispatchEvent(new WheelEvent("wheel", { ...at(middle), deltaY, ctrlKey: true }));
const pointer = (kind, x) => canvas.dispatchEvent(new PointerEvent(kind, { ...at(x), button: 0, buttons: 1 }));
const found = [];
let x = 600;
function step(number) {
  const frames = window.frames_ms.length;
  const start = performance.now();
  if (number < 60) wheel(-60);
  else if (number === 60) pointer("pointerdown", x);
  else if (number < 120) pointer("pointermove", (x += number < 90 ? -9 : 9));
  else if (number === 120) pointer("pointerup", x);
  else wheel(60);
  const handlers = performance.now() - start;
  setTimeout(() => {
    found.push(window.frames_ms.slice(frames).reduce((sum, each) => sum + each, handlers));
    if (number < 180) step(number + 1);
    else done(found);
  }, 34);
}
step(0);
"""


@pytest.mark.slow
def test_resnet50_is_small_and_quick_and_answers(browser, tmp_path):
    """Under 15 MB, 3 s to the first picture, 8 ms of script a frame (median); and two questions are answered."""
    done = api.compile("resnet50", "stcp920", strategy="graphturbo", batch=64)
    path = tmp_path / "resnet50.html"
    path.write_text(done.to_html(), encoding="utf-8")
    assert path.stat().st_size < 15e6
    browser.open(path)
    [first] = browser.run(
        "return performance.getEntriesByType('paint').filter(e => e.name === 'first-contentful-paint')"
        ".map(e => e.startTime)"
    )
    assert first < 3000
    frames = browser.driver.execute_async_script(SCRIPTED)
    assert len(frames) == 181
    assert np.median(frames) <= 8
    print(
        f"{path.stat().st_size:,} B; first picture {first:.0f} ms; script {np.median(frames):.2f} ms a frame (median)"
    )
    assert browser.complaints() == []
    _expect_delay(browser, done, path, "layer3.0.conv2")
    _expect_evicted(browser, done, path)
    _expect_sub_graphs(browser, done, path)


def _expect_delay(browser, done, path, operator):
    """Which instruction delayed an operator, and why: the last to end of what its first compute waited for."""
    program = done.program
    start, end = cycles_of(done)
    name = program.operators.index(operator)
    own = np.flatnonzero((program.operator == name) & (program.kind == Kind.COMPUTE))
    number = int(own[np.argmin(start[own])])
    browser.open(path, f"#select=instruction:{number}")
    waited = browser.rows("waited")
    culprit = int(waited[0][0])
    assert end[culprit] == start[number]
    assert "the last to end" in waited[0][3] or "its engine was busy" in waited[0][3]
    browser.run("document.querySelector(\"[data-table='waited'] button\").click()")
    browser.settle()
    assert f"instruction%3A{culprit}" in browser.run("return location.hash")
    assert dict(browser.rows("instruction"))["engine"] == program[culprit].engine


HOVERED = """
const canvas = document.querySelector("#graph canvas");
const box = canvas.getBoundingClientRect();
const found = [];
for (let y = 0; y < box.height; y += 8) {
  const place = { clientX: box.left + box.width / 2, clientY: box.top + y, bubbles: true };
  canvas.dispatchEvent(new PointerEvent("pointermove", place));
  const tip = document.querySelector(".tip");
  if (tip.style.display !== "none") found.push([...tip.children].map((line) => line.textContent));
}
return found;
"""


def _expect_sub_graphs(browser, done, path):
    """Each has the operators that its kernels compute, though a later one copies some of their results."""
    operators = defaultdict(set)
    for piece in done.schedule.pieces:
        for kernel in done.schedule.kernels[piece.first : piece.last + 1]:
            operators[f"sub-graph {piece.name.rstrip('0123456789')}"].update(kernel.operators)
    browser.open(path)
    shown = {name: number_in(line) for name, line, *_ in browser.run(HOVERED)}
    assert shown == {name: len(some) for name, some in operators.items()}


def _expect_evicted(browser, done, path):
    """What was evicted to make room for the largest tensor of GB: by two clicks from the beginning."""
    program, buffers = done.program, done.program.buffers
    browser.open(path)
    browser.run("document.querySelector(\"[data-table='largest'] button\").click()")
    browser.settle()
    number = int(browser.run("return location.hash").split("buffer%3A")[1].split("&")[0])
    gb = next(at for at, space in enumerate(program.spaces) if space.name == "gb")
    assert buffers.size_bytes[number] == buffers.size_bytes[buffers.space == gb].max()
    first, last = lifetimes(done)
    evicted = [row for row in browser.rows("before") if row[2].startswith("evicted")]
    assert evicted
    for row in evicted:
        again = int(row[2].split("buffer ")[1])
        assert row[0].startswith(program.tensors[buffers.tensor[again]])
        assert number_in(row[1]) <= first[again]
        assert number_in(row[1]) <= last[number]


@pytest.fixture(scope="module")
def verified(tmp_path_factory):
    """A small network whose values were compared, and its page."""
    done = api.compile("resnet18:small", "toy", strategy="graphturbo", batch=2, verify=True)
    path = tmp_path_factory.mktemp("page") / "verified.html"
    path.write_text(done.to_html(), encoding="utf-8")
    return done, path


def test_the_values_of_a_selected_operator_are_shown(browser, verified):
    """Both values of each place of a tile of its result; a click on the writer selects that instruction."""
    done, path = verified
    held = {one.tensor: one for one in done.passed_on if one.precision == "float32"}
    browser.open(path, "#select=operator:layer3.0.conv1")
    [name] = done.program.graph.by_name["layer3.0.conv1"].outputs
    rows = browser.rows("values")
    tile = held[name].tiles[0]
    assert [float(row[1]) for row in rows] == pytest.approx(tile.found, rel=1e-8)
    assert [float(row[2]) for row in rows] == pytest.approx(tile.expected, rel=1e-8)
    assert [int(row[6]) for row in rows] == list(tile.written_by)
    browser.run("document.querySelector(\"[data-table='values'] button\").click()")
    browser.settle()
    assert f"instruction%3A{tile.written_by[0]}" in browser.run("return location.hash")
    assert len(browser.pixels("values")) > 3


def test_paper_is_light_and_has_everything(browser, verified):
    """However dark the screen: pictures are drawn anew before they are printed, and what is folded is opened."""
    _, path = verified
    browser.size(1280)
    browser.dark(True)
    browser.open(path)
    before = browser.pixels("roofline")
    darkest = 0x000000
    assert darkest not in before  # ink on a dark ground is pale
    browser.paper(True)
    browser.wait_for_colour("roofline", darkest, at_least=51)
    browser.paper(False)
    browser.settle()  # the change is told with the next frame
    browser.run("window.dispatchEvent(new Event('beforeprint'))")
    assert browser.run("return document.querySelectorAll('details:not([open])').length") == 0
    browser.run("window.dispatchEvent(new Event('afterprint'))")
    assert browser.run("return document.querySelectorAll('details[open]').length") == 0
