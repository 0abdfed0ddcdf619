"""The pages of map and its kin in a real browser: every pane is drawn, and what it says is the command's JSON."""

import json
from collections import defaultdict
from math import prod

import pytest

import tilestitch
from tests.helpers.command import run
from tests.helpers.given_trees import FORGE_ARCH, FORGE_MAPPING, FORGE_WORKLOAD
from tests.helpers.pages import summary_of
from tests.helpers.small_tree import small_tree
from tilestitch.ir.choices import Values
from tilestitch.sim.array.log import L_BUFFERS, L_PASS, L_ROW
from tilestitch.sim.array.recording import record, registers_after
from tilestitch.sim.array.values import random_operands

PRODUCT = "O[m,n] += A[m,k] * B[k,n]; m=24 n=16 k=32"


@pytest.fixture(scope="module")
def write(tmp_path_factory):
    """A function that writes a page, and says where."""

    def written(name, page):
        path = tmp_path_factory.mktemp("page") / f"{name}.html"
        path.write_text(page, encoding="utf-8")
        return path

    return written


@pytest.fixture(scope="module")
def mapped():
    """A small network on Eyeriss's array."""
    return tilestitch.map("resnet18:small", "eyeriss", layers=["layer1.0.conv1", "layer2.0.conv2", "fc"])


@pytest.fixture(scope="module")
def map_page(mapped, write):
    """Its page."""
    return write("map", mapped.to_html())


def expect_drawn(browser, page, panes, address=""):
    """At any width and in both themes: so many opaque colours, an empty console, no request, no sideways scroll."""
    for width, dark in ((390, False), (1280, True), (2560, False)):
        browser.size(width)
        browser.dark(dark)
        browser.open(page, address)
        assert browser.complaints() == []
        assert browser.requests() == [page.resolve().as_uri() + address]
        for pane, least in panes.items():
            colours = browser.pixels(pane)
            assert len(colours) >= least, (pane, len(colours))
            assert sum(colours.values()) > 100, pane
        assert browser.run("return document.documentElement.scrollWidth") <= width
        background = browser.run("return getComputedStyle(document.querySelector('section')).backgroundColor")
        assert background == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")


def number_in(text: str) -> int:
    """The whole number with which a text begins."""
    return int(text.split()[0].replace(",", ""))


def text_of(browser, part):
    """What a part of the page says."""
    return browser.run("return document.getElementById(arguments[0]).innerText", part)


def test_every_pane_of_mappings_is_drawn(browser, map_page):
    """The array has a colour for each result, and letters."""
    expect_drawn(browser, map_page, {"nest": 20})


def test_the_page_of_mappings_says_what_the_report_says(browser, map_page, mapped):
    """Totals, the table of layers, and the nest with its energy of the layer that is chosen."""
    report = json.loads(mapped.to_json())
    browser.open(map_page)
    text = text_of(browser, "verdict")
    assert f"{report['cycles']:,} cycles" in text
    assert f"{100 * report['utilization']:.1f} %" in text
    assert "Proven" in text
    rows = browser.rows("layers")
    for row, layer in zip(rows, report["layers"], strict=True):
        best = layer["mappings"][0]
        assert row[0] == layer["name"]
        assert [number_in(row[1]), number_in(row[2])] == [layer["times"], best["cycles"]]
        assert float(row[5]) == pytest.approx(best["edp"], rel=1e-4)
    browser.run("document.querySelectorAll(\"[data-table='layers'] button\")[1].click()")
    browser.settle()
    layer = report["layers"][1]
    assert "layer=layer2.0.conv2" in browser.run("return location.hash")
    nest = text_of(browser, "nest")
    assert f"{layer['mappings'][0]['cycles']:,} cycles" in nest
    assert f"{layer['tilings_evaluated']:,} tilings were priced" in nest
    lines = browser.run("return [...document.querySelectorAll('.lines .loop')].map((line) => line.textContent)")
    factors = layer["mappings"][0]["factors"]
    loops = [line.removeprefix("for ").rstrip(":").split(" in ") for line in lines if line.startswith("for")]
    expected = [factors[level] for level in ("dram", "spm", "rf")]
    assert sorted((name, int(count)) for name, count in loops) == sorted(
        (name, count) for level in expected for name, count in level.items()
    )
    spread = ", ".join(f"{name} over {count}" for name, count in factors["spatial"].items())
    assert any(line.startswith(f"spread {spread}:") for line in lines)


def test_an_element_of_the_array_says_its_place(browser, map_page, mapped):
    """Chosen by a click or by the keyboard; the address keeps it."""
    browser.open(map_page, "#layer=layer2.0.conv2&element=5")
    spatial = json.loads(mapped.to_json())["layers"][1]["mappings"][0]["factors"]["spatial"]
    place, rest = [], 5
    for name, count in reversed(spatial.items()):
        place.insert(0, f"{name} = {rest % count} of {count}")
        rest //= count
    assert text_of(browser, "element") == f"element 5: row 0, column 5; {', '.join(place)}"
    browser.run(
        "document.querySelector('#nest canvas').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowDown'}))"
    )
    browser.settle()
    assert "element=19" in browser.run("return location.hash")  # a row of Eyeriss has 14


@pytest.fixture(scope="module")
def simulated():
    """A product in which elements add to one another's results, in its best mapping of another shape."""
    return tilestitch.simulate(PRODUCT)


@pytest.fixture(scope="module")
def simulate_page(simulated, write):
    """Its page."""
    return write("simulate", simulated.to_html())


def test_every_pane_of_a_simulation_is_drawn(browser, simulate_page):
    """The array with its elements and values, and the lanes of what happens."""
    expect_drawn(browser, simulate_page, {"array": 8, "cycles": 8})
    first = summary_of(simulate_page.read_text())["layers"][0]["recordings"][0]["first_work"]
    assert f"Cycle {first:,}; pass 1: " in text_of(browser, "now")  # not one in which nothing is executed


def test_the_page_of_a_simulation_says_what_the_report_says(browser, simulate_page, simulated):
    """Simulated and estimated totals, and where the cycles of a layer go."""
    report = json.loads(simulated.to_json())
    browser.open(simulate_page)
    text = text_of(browser, "verdict")
    assert f"{report['simulated']['cycles']:,} cycles" in text
    assert f"{report['estimated']['cycles']:,} cycles" in text
    assert "Verified: every result of the array equals numpy's" in text
    [row], [layer] = browser.rows("layers"), report["layers"]
    assert [number_in(row[2]), number_in(row[3])] == [layer["simulated"]["cycles"], layer["estimated"]["cycles"]]
    causes = {row[0].replace(" ", "_"): number_in(row[1]) for row in browser.rows("causes")}
    assert causes == layer["simulated"]["cycles_by_cause"]


def test_the_array_shows_the_registers_of_the_simulator(browser, simulate_page, simulated):
    """In chosen cycles, of a chosen element: each register of the buffers in use, with its index in A, B or O."""
    [one] = simulated
    nest, mapping = one.layer.nest, one.mapping
    operands = random_operands(nest, Values.INTEGERS)
    browser.open(simulate_page)
    header = [
        (place["begin"], place["end"]) for place in summary_of(simulate_page.read_text())["layers"][0]["recordings"]
    ]
    begin, end = header[0]
    recording = record(nest, one.simulated.machine, mapping, operands, (begin, end))
    states = [registers.copy() for registers in registers_after(recording)]
    busy = [at for at in range(begin, end) if recording.log[at - begin + recording.before, L_ROW] >= 0]
    arrays = dict(zip([operand.name for operand in nest.reads], operands, strict=True))
    element, elements = 3, prod(mapping.spatial)
    for cycle in (busy[0], busy[-1]):
        browser.open(simulate_page, f"#cycle={cycle}&element={element}")
        browser.wait("return document.documentElement.dataset.recording")
        browser.settle()
        row = recording.log[cycle - begin + recording.before]
        files = browser.run(
            "return [...document.querySelectorAll('.file')].map((file) => [file.dataset.file, "
            "[...file.querySelectorAll('.word')].map((word) => [...word.children].map((part) => part.textContent))])"
        )
        found = {name: words for name, words in files if "other" not in name}
        assert len(found) == len(nest.operands)
        for number, (name, words) in enumerate(found.items()):
            first = row[L_BUFFERS + number] // elements * elements + element
            expected = states[cycle - begin][first : first + len(words) * elements : elements]
            assert [int(value) for _, value in words] == expected.tolist()
            read = browser.run("return document.querySelectorAll('.word.read').length")
            assert read == len(nest.operands)
            if name[0] in arrays:  # what is read now is what numpy has there
                register = recording.plan.registers[row[L_ROW], number]
                label, value = words[register]
                index = tuple(int(at) for at in label[2:-1].split(","))
                assert arrays[name[0]][index] == int(value)
        assert f"pass {row[L_PASS] + 1:,}" in text_of(browser, "now")


def test_the_array_is_stepped_and_played(browser, simulate_page):
    """By buttons, by keys and by the slider; the address keeps the cycle."""
    browser.open(simulate_page, "#cycle=1200")
    shown = "return Number(document.getElementById('cycle').value)"
    browser.wait(f"{shown} === 1200")
    press = "document.querySelector('.player').dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0]}))"
    click = "[...document.querySelectorAll('.player button')].find((one) => one.textContent === arguments[0]).click()"
    for script, argument, cycle in (
        (press, "ArrowRight", 1201),
        (click, "step", 1202),
        (click, "back", 1201),
        (press, "ArrowLeft", 1200),
    ):
        browser.run(script, argument)
        browser.settle()
        assert browser.run(shown) == cycle
        assert f"cycle={cycle}" in browser.run("return location.hash")
    browser.run(click, "play")
    browser.wait(f"{shown} > 1202")
    browser.run(click, "pause")
    browser.settle()
    stopped = browser.run(shown)
    browser.settle()
    assert browser.run(shown) == stopped


@pytest.fixture(scope="module")
def explored():
    """Twelve designs of a small array, of which some beat others."""
    varied = {"pes": [4, 16, 64], "bandwidth": [2, 4], "spm": [16384, 65536]}
    return tilestitch.explore(PRODUCT, "dmazerunner-256", varied, workers=1)


@pytest.fixture(scope="module")
def explore_page(explored, write):
    """Its page."""
    return write("explore", explored.to_html())


def test_the_page_of_an_exploration_says_what_the_report_says(browser, explore_page, explored):
    """The points are drawn; the front as a table; the chosen design with its parameters and numbers."""
    expect_drawn(browser, explore_page, {"points": 8})
    report = json.loads(explored.to_json())
    [front] = report["fronts"]
    rows = browser.rows("front")
    assert [int(row[0]) for row in rows] == front["designs"]
    design = front["designs"][-1]
    browser.run("[...document.querySelectorAll('[data-table=front] button')].at(-1).click()")
    browser.settle()
    assert f"design={design}" in browser.run("return location.hash")
    [found] = [one for one in report["designs"] if one["design"] == design]
    assert {row[0]: row[1] for row in browser.rows("parameters")} == found["values"]
    metrics = {one["name"]: one for one in found["points"][0]["metrics"]}
    numbers = {row[1]: row[2:] for row in browser.rows("numbers")}
    assert set(numbers) == set(metrics)
    assert number_in(numbers["cycles"][0]) == metrics["cycles"]["value"]
    assert numbers["cycles"][1] == metrics["cycles"]["origin"] == "estimated"


def test_all_designs_are_printed(browser, explore_page):
    """Though the table is made anew for paper; on the screen it is folded again."""
    browser.open(explore_page)
    folded = "return document.querySelectorAll('details:not([open])').length"
    before = browser.run(folded)
    assert before > 0
    browser.run("window.dispatchEvent(new Event('beforeprint'))")
    browser.paper(True)
    assert browser.run(folded) == 0
    assert len(browser.rows("designs")) == 12
    browser.paper(False)
    browser.run("window.dispatchEvent(new Event('afterprint'))")
    assert browser.run(folded) == before


def test_a_point_of_an_exploration_is_chosen_by_a_click(browser, explore_page, explored):
    """The design nearest to it, on the canvas; the keyboard goes on to the next."""
    browser.size(1280)
    browser.open(explore_page)
    blue = browser.run(
        "const canvas = document.querySelector('#points canvas');"
        "const { data, width } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);"
        "for (let at = 0; at < data.length; at += 4)"
        " if (data[at] === 0 && data[at + 1] === 114 && data[at + 2] === 178)"
        " return [(at / 4) % width, Math.floor(at / 4 / width)];"
    )
    click = (
        "const box = document.querySelector('#points canvas').getBoundingClientRect();"
        "document.querySelector('#points canvas').dispatchEvent(new MouseEvent('click',"
        " {clientX: box.left + arguments[0], clientY: box.top + arguments[1] + 4}))"
    )
    browser.run(click, *blue)
    browser.settle()
    [front] = json.loads(explored.to_json())["fronts"]
    first = int(browser.run("return new URLSearchParams(location.hash.slice(1)).get('design')"))
    assert first in front["designs"]
    browser.run(
        "document.querySelector('#points canvas').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}))"
    )
    browser.settle()
    assert int(browser.run("return new URLSearchParams(location.hash.slice(1)).get('design')")) != first


@pytest.fixture(scope="module")
def validated():
    """A few ragged mappings, whose model errs."""
    options = tilestitch.ValidateOptions(mappings=30, ragged=True, worst=3)
    return tilestitch.validate("O[m,n] += A[m,k] * B[k,n]; m=10 n=6 k=15", "dmazerunner-256", options)


def test_the_page_of_a_validation_says_what_the_report_says(browser, validated, write):
    """Errors, their distribution, the layers; the worst is explained with its nest."""
    page = write("validate", validated.to_html())
    expect_drawn(browser, page, {"points": 8, "histogram": 2})
    report = json.loads(validated.to_json())
    text = text_of(browser, "verdict")
    for name in ("mean_absolute_error", "median_absolute_error", "worst_absolute_error"):
        assert f"{report[name]:.3f} %" in text
    shown = [int(row[1]) for row in browser.rows("distribution")]
    assert shown == [one["mappings"] for one in report["distribution"]]
    rows = browser.rows("worst")
    for row, case in zip(rows, report["worst"], strict=True):
        assert [number_in(row[1]), number_in(row[2])] == [case["estimated_cycles"], case["simulated_cycles"]]
        assert all(name in row[4] for name in case["mechanisms"])
    browser.run("document.querySelector('[data-table=worst] button').click()")
    browser.settle()
    assert "point=" in browser.run("return location.hash")
    trials = {row[0]: number_in(row[2]) for row in browser.rows("trials")}
    assert trials == {name: one["difference_cycles"] for name, one in report["worst"][0]["without"].items()}
    assert browser.run("return document.querySelectorAll('#worst .level').length") == 5


def test_the_page_of_a_fusion_says_what_the_report_says(browser, write):
    """Times of the plan and of every block beside those unfused; the nest of the chosen block."""
    done = tilestitch.fuse("resnet18:small", plan="fixed-cores", compare=True)
    page = write("fuse", done.to_html())
    expect_drawn(browser, page, {"times": 1})
    report = json.loads(done.to_json())
    rows = browser.rows("blocks")
    assert [int(row[3].replace(",", "")) for row in rows] == [block["cores"] for block in report["blocks"]]
    assert {row[0]: row[2] for row in browser.rows("plans")} == {
        one["plan"]: f"{one['speed_up']:,.2f} x" for one in report["plans"]
    }
    browser.run("document.querySelectorAll('[data-table=blocks] button')[2].click()")
    browser.settle()
    assert "block=2" in browser.run("return location.hash")
    assert [row[0] for row in browser.rows("layers")] == report["blocks"][2]["layers"]
    nest = text_of(browser, "nest")
    assert f"spread rows over {report['blocks'][2]['cores']} core" in nest


@pytest.fixture(scope="module")
def tree_page(tmp_path_factory):
    """A convolution on a small tree, and its report."""
    folder = tmp_path_factory.mktemp("tree")
    product = "O[k,p] += I[c,p+r] * W[k,c,r]; k=8 c=4 p=12 r=3"
    page, report = folder / "page.html", folder / "report.json"
    result = run("map", product, "--machine", small_tree(folder), "--html", page, "--json", report)
    assert result.exit_code == 0, result.output
    return page, json.loads(report.read_text())


@pytest.mark.parametrize(("width", "dark"), [(390, True), (1280, False), (2560, False)])
def test_the_page_of_a_tree_says_what_the_report_says(browser, tree_page, width, dark):
    """Verdict, layers, loops, energies, the machine's picture; nothing is asked for, and nothing scrolls sideways."""
    page, report = tree_page
    browser.size(width)
    browser.dark(dark)
    browser.open(page)
    assert browser.complaints() == []
    assert browser.requests() == [page.resolve().as_uri()]
    assert browser.run("return document.documentElement.scrollWidth") <= width
    text = text_of(browser, "verdict")
    assert f"{report['latency_cycles']:,} cycles" in text
    assert "Proven: no mapping of a layer has less EDP" in text
    [row], [layer] = browser.rows("layers"), report["layers"]
    assert number_in(row[3]) == layer["latency_cycles"]
    loops = browser.run("return [...document.querySelectorAll('.lines .loop')].map((line) => line.textContent)")
    counts = [int(line.rstrip(":").split(" in ")[1]) for line in loops if line.startswith("for")]
    assert prod(counts) == layer["steps"]
    names = [row[0] for row in browser.rows("energy")]
    assert names == ["dram", "buffer", "rf", "arithmetic"]
    assert all(number_in(row[2]) <= layer["latency_cycles"] for row in browser.rows("ports"))
    boxes = browser.run("return document.querySelectorAll('#machine svg rect').length")
    assert boxes == 1 + len(names)  # the ground, memories, units


def test_the_page_of_fused_mappings_says_what_the_report_says(browser, write):
    """What runs together: where results stay, the loops that are shared counted once, and where energy goes."""
    product = "S[m,n] += Q[m,d] * K[n,d]; O[m,e] += softmax(S[m,n]) * V[n,e]; m=32 n=32 d=16 e=16"
    found = tilestitch.map_fused(product, "tpu-v4i", tilestitch.FuseOptions(2))
    page = write("chains", found.to_html())
    expect_drawn(browser, page, {})
    report = json.loads(found.to_json())
    text = text_of(browser, "verdict")
    assert "Proven: no fused mapping of these chains costs less" in text
    assert f"{report['energy_pj'] / report['unfused_pj']:.1%}".replace("%", " %") in text
    [row], [group] = browser.rows("layers"), report["chains"][0]["groups"]
    assert row[0] == "1 S > O"
    assert row[5] == "2"
    assert "S of S stays in vmem, in one of them, softmax there" in text_of(browser, "groups")
    lines = browser.run("return [...document.querySelectorAll('.lines .loop')].map((line) => line.textContent)")
    operators = group["mapping"]["operators"]
    shared = group["mapping"]["shared_loops"][0]
    assert len(lines) == sum(len(one["loops"]) for one in operators) - shared
    parts = defaultdict(float)
    for operator in operators:
        for flow in operator["flows"]:
            parts[flow["memory"]] += flow["energy_pj"] / group["energy_pj"]
    shares = {row[0]: float(row[4].split()[0]) / 100 for row in browser.rows("energy")}
    assert {name for name, share in shares.items() if share} >= {"hbm", "cmem", "vmem"}
    assert {name: shares[name] for name in parts} == pytest.approx(parts, abs=6e-4)
    assert sum(shares.values()) == pytest.approx(1, abs=3e-3)


@pytest.mark.parametrize("kind", ["checked", "given"])
def test_pages_without_a_search_are_drawn(browser, tmp_path, kind):
    """What the checker said, or the price and the nest of the mapping that was given."""
    asked = ("map", PRODUCT, "--machine", "dmazerunner-256")
    proofs, best, page = tmp_path / "proofs.json", tmp_path / "best.json", tmp_path / "page.html"
    assert run(*asked, "--certificate", proofs, "--json", best).exit_code == 0
    price = json.loads(best.read_text())["layers"][0]["mappings"][0]
    if kind == "checked":
        result = run(*asked, "--check", proofs, "--html", page)
    else:
        mapping = tmp_path / "mapping.json"
        mapping.write_text(json.dumps({"factors": price["factors"], "orders": price["orders"]}))
        result = run(*asked, "--mapping", mapping, "--html", page)
    assert result.exit_code == 0, result.output
    browser.size(1280)
    browser.open(page)
    assert browser.complaints() == []
    if kind == "checked":
        assert [": ".join(row) for row in browser.rows("checked")] == result.stdout.splitlines()
    else:
        assert f"{price['cycles']:,} cycles" in text_of(browser, "verdict")
        assert browser.run("return document.querySelectorAll('.level').length") == 5
        assert len(browser.pixels("nest")) > 5


def test_the_page_of_a_given_mapping_on_a_tree_says_what_the_report_says(browser, tmp_path):
    for name, text in (("layer", FORGE_WORKLOAD), ("arch", FORGE_ARCH), ("mapping", FORGE_MAPPING)):
        (tmp_path / f"{name}.yaml").write_text(text)
    options = tilestitch.TreeOptions(mapping=tmp_path / "mapping.yaml")
    found = tilestitch.map(tmp_path / "layer.yaml", tmp_path / "arch.yaml", options)
    (tmp_path / "page.html").write_text(found.to_html(), encoding="utf-8")
    browser.open(tmp_path / "page.html")
    assert browser.complaints() == []
    assert f"{found.layer.found.price.latency_cycles:,} cycles" in text_of(browser, "verdict")
    rows = browser.rows("flows")
    assert [(row[0], row[1], row[2]) for row in rows] == [
        (one["memory"], one["operand"], one["direction"]) for one in found.records()
    ]
    assert len(rows[0]) == 7
    assert browser.run("return document.querySelectorAll('.level').length") > 2
    assert "Memories from the outermost" in text_of(browser, "machine")


def test_the_page_of_traffic_says_what_the_report_says(browser, write):
    """The curve of the network, then that of a layer, point by point."""
    found = tilestitch.traffic("resnet18:small", [512, 1024, 4096], layers=["conv1", "layer1.0.conv1"])
    page = write("traffic", found.to_html())
    expect_drawn(browser, page, {"points": 4})
    report = json.loads(found.to_json())
    browser.open(page, "#layer=1&capacity=0")
    least, compulsory = (report["layers"][1][name] for name in ("least_bytes", "compulsory_bytes"))
    said = text_of(browser, "capacity-said")
    assert "capacity 512 B" in said
    assert f"{least[0] / compulsory:.2f} x" in said
    assert [row[0] for row in browser.rows("layers")] == ["conv1", "layer1.0.conv1"]


@pytest.fixture(scope="module")
def tree_simulation():
    """Two layers on a tree, simulated."""
    return tilestitch.simulate("resnet18:small", "gemmini", layers=["conv1", "layer2.0.conv1"])


def test_the_page_of_a_simulated_tree_says_what_the_report_says(browser, write, tree_simulation):
    """Verdict, layers, causes and ports; the lanes have the colours of operands and units, and say what is clicked."""
    page = write("simulate-tree", tree_simulation.to_html())
    expect_drawn(browser, page, {"ports": 5})
    report = json.loads(tree_simulation.to_json(stats=True))
    assert f"{report['simulated']['cycles']:,} cycles" in text_of(browser, "verdict")
    for number, layer in enumerate(report["layers"]):
        browser.open(page, f"#layer={layer['name']}")
        row = browser.rows("layers")[number]
        assert [number_in(row[2]), number_in(row[3])] == [layer["simulated"]["cycles"], layer["estimated"]["cycles"]]
        causes = {name.replace(" ", "_"): number_in(cycles) for name, cycles, *_ in browser.rows("causes")}
        assert causes == layer["simulated"]["cycles_by_cause"]
        ports = {name: number_in(cycles) for name, cycles, *_ in browser.rows("busy")}
        assert ports == {one["port"]: one["busy_cycles"] for one in layer["statistics"]["ports"]}
        flows = [(row[0], row[1], row[2], number_in(row[3])) for row in browser.rows("flows")]
        assert flows == [
            (one["memory"], one["operand"], one["flow"], round(one["accesses"])) for one in layer["statistics"]["flows"]
        ]
    said = browser.run(CLICK_ON_LANE, 0.01)
    assert said.startswith("units: first load; ")
    assert "(simulated)" in said


def test_the_page_of_a_validated_tree_says_what_the_report_says(browser, write):
    """The mappings as points, and of the worst one the nest and what its ports do."""
    product = "O[m,x] += I[c,x+f] * W[m,c,f]; m=12 c=8 x=14 f=3"
    found = tilestitch.validate(product, "eyeriss-like", tilestitch.ValidateOptions(40, worst=1))
    report = json.loads(found.to_json())
    page = write("validate-tree", found.to_html())
    expect_drawn(browser, page, {"points": 2, "histogram": 2})
    assert number_in(text_of(browser, "verdict").split("mappings compared\n")[1]) == report["mappings"]
    assert number_in(browser.rows("distribution")[0][1]) == report["distribution"][0]["mappings"]
    assert len(report["worst"]) >= 1
    for row, case in zip(browser.rows("worst"), report["worst"], strict=True):
        assert [number_in(row[1]), number_in(row[2])] == [case["estimated_cycles"], case["simulated_cycles"]]
    first = summary_of(page.read_text())["worst"][0]["point"]
    browser.open(page, f"#point={first}")
    browser.wait("return document.documentElement.dataset.recording")
    assert len(browser.pixels("ports")) >= 4
    causes = {name.replace(" ", "_"): number_in(cycles) for name, cycles, *_ in browser.rows("causes")}
    assert causes == {name: spent for name, spent in report["worst"][0]["cycles_by_cause"].items() if spent}
    assert "<svg" in found.svg()


def test_the_page_of_simulated_chains_says_what_the_report_says(browser, tmp_path):
    """Fused beside unfused, what the ports do while operators run together, and the loops that they share."""
    line = "S[m,n] += Q[m,d] * K[n,d]; O[m,e] += softmax(S[m,n]) * V[n,e]; m=32 n=32 d=16 e=16"
    page, written = tmp_path / "page.html", tmp_path / "report.json"
    options = ("--fuse", 2, "--objective", "energy", "--stats", "--html", page, "--json", written)
    result = run("simulate", line, "--machine", "tpu-v4i", *options)
    assert result.exit_code == 0, result.output
    expect_drawn(browser, page, {"ports": 6})
    report = json.loads(written.read_text())
    [row], [chain] = browser.rows("layers"), report["chains"]
    assert [number_in(row[2]), number_in(row[3])] == [chain["simulated"]["cycles"], chain["estimated"]["cycles"]]
    assert row[8] == "2"
    [group] = chain["groups"]
    causes = {name.replace(" ", "_"): number_in(cycles) for name, cycles, *_ in browser.rows("causes")}
    assert causes == group["simulated"]["cycles_by_cause"]
    ports = {name: number_in(cycles) for name, cycles, *_ in browser.rows("busy")}
    assert ports == {one["port"]: one["busy_cycles"] for one in group["statistics"]["ports"]}
    assert "S of S stays in vmem" in text_of(browser, "groups")
    assert "S.Q" in text_of(browser, "legend")
    assert "between S and O" in text_of(browser, "legend")


CLICK_ON_LANE = """
const canvas = document.querySelector("#ports canvas");
const box = canvas.getBoundingClientRect();
const x = box.left + 132 + arguments[0] * (box.width - 132);
const at = { clientX: x, clientY: box.top + 24, button: 0, pointerId: 1 };
canvas.setPointerCapture = () => {};
for (const kind of ["pointerdown", "pointerup"]) canvas.dispatchEvent(new PointerEvent(kind, at));
return canvas.parentElement.nextElementSibling.textContent;
"""
