"""What a page says is proven: bounds, verification, invariants; and the values that were compared."""

import numpy as np
import pytest

from tests.helpers.graphs import Net
from tests.helpers.pages import embedded
from tests.helpers.pairs import each_once
from tilestitch import api
from tilestitch.ir.report import Outcome
from tilestitch.pipeline.options import Options
from tilestitch.sim.chip.check import checked
from tilestitch.sim.chip.execute import execute
from tilestitch.sim.chip.reference import Reference
from tilestitch.sim.chip.sampling import CORNER, SPREAD, WORST
from tilestitch.zoo.inputs import iteration_inputs

NETWORK = "resnet18:small"


@pytest.fixture(scope="module")
def done():
    """A small network, verified."""
    return api.compile(NETWORK, "toy", strategy="graphturbo", batch=4, verify=True)


@pytest.fixture(scope="module")
def unverified():
    return api.compile(NETWORK, "toy", strategy="graphturbo", batch=4)


@pytest.mark.parametrize(
    ("machine", "network"), each_once(["toy", "mlu100", "eyeriss"], [NETWORK, "bert-base-8:small"])
)
def test_the_limits_of_a_page_are_the_bounds_of_the_report(machine, network):
    """Each bound is the largest of its limits, and what the port of DDR carries is the compulsory traffic."""
    done = api.compile(network, machine, strategy="tvm", batch=4)
    peak, folds, vector, port = embedded(done.to_html())[0]["proof"]["limits"]
    report = done.report
    assert max(peak["cycles"], vector["cycles"]) == report.compute_bound_cycles
    assert max(folds["cycles"], vector["cycles"]) == report.attainable_bound_cycles
    assert port["cycles"] == report.traffic_bound_cycles
    sharers = 1 if done.machine.private_ddr else report.clusters
    assert port["work"] == report.compulsory_bytes if sharers == 1 else port["work"] >= report.compulsory_bytes
    assert vector["work"] == report.vector_operations


def test_only_what_was_looked_at_is_said_to_hold(done, unverified):
    """Without --verify the network alone is; nobody judged then, and no values are held."""
    for one, verified in ((done, True), (unverified, False)):
        header, _ = embedded(one.to_html())
        ran = {row["stage"]: row["ran"] for row in header["proof"]["verifiers"]}
        assert ran.pop("load")
        assert ran.pop("simplify")
        assert set(ran.values()) == {verified}
        assert bool(header["proof"]["judges"]) == bool(header["values"]) == verified
        counts = {row["stage"]: row["looked_at"] for row in header["proof"]["verifiers"]}
        assert counts["lower"] == f"{len(one.program):,} instructions, {len(one.program.buffers):,} buffers"
        assert counts["schedule"].startswith(f"{len(one.schedule.kernels)} kernels")
    report = unverified.report
    certain = embedded(unverified.to_html())[0]["proof"]["certain"]
    assert f"{report.bound_cycles:,} cycles (bound)" in certain[0]["what"]
    assert f"{report.ratio_to_bound:,.3f} x as long" in certain[0]["what"]


def test_the_best_plan_is_said_to_be_proven():
    """That of a strategy that searches all plans; of the others it is said that nothing is."""
    said = {}
    for strategy in ("exact", "dlfusion"):
        done = api.compile(NETWORK, "mlu100", strategy=strategy)
        said[strategy] = embedded(done.to_html())[0]["proof"]["certain"][-1]["what"]
    assert said["exact"].startswith("The plan is the best by the estimates")
    assert said["dlfusion"].startswith("There is no proof that the decisions of strategy dlfusion")


def test_the_values_of_a_page_are_those_that_were_compared(done):
    """The program executed again, and onnxruntime asked again, give the same numbers at the same places."""
    model, _ = api.open_model(NETWORK)
    schedule, program = done.schedule, done.trace.program
    shapes = {name: tensor.shape for name, tensor in schedule.graph.tensors.items()}
    feeds = iteration_inputs(model, shapes, batch=schedule.batch, iterations=schedule.iterations, exported_batch=None)
    reference = Reference(model, schedule.graph, feeds, exported_batch=None)
    held = embedded(done.to_html())[0]["values"]
    assert [(one["output"], one["precision"]) for one in held] == [("logits", "float32"), ("logits", "float16")]
    for one, wide in zip(held, (True, False), strict=True):
        found = execute(done.trace, reference.inputs, wide=wide)[0]["logits"]
        expected = reference.expected[0]["logits"]
        bounds = (reference.wide_bounds if wide else reference.narrow_bounds)[0]["logits"]
        assert one["shape"] == list(found.shape)
        assert one["values"] == found.size
        rows, columns = one["corner"]
        assert [row[0] for row in one["first"]] == [[y, x] for y in range(rows) for x in range(columns)]
        assert (rows, columns) == (min(2, CORNER), min(10, CORNER))
        assert len(one["worst"]) <= WORST
        assert len(one["spread"]) == min(SPREAD, found.size)
        for place, ours, theirs, bound, _, _ in (*one["first"], *one["worst"], *one["spread"]):
            at = tuple(place)
            assert (ours, theirs) == (float(found[at]), float(expected[at]))
            assert bound == float(bounds[at])
        shares = np.abs(found.astype(np.float64) - expected) / bounds
        assert [row[4] for row in one["worst"]] == pytest.approx(sorted(shares.ravel(), reverse=True)[:WORST])
    assert program.iterations == 1
    ratios = {check.precision: check.ratio for check in done.report.checks}
    assert {one["precision"]: one["worst"][0][4] for one in held} == ratios


def test_a_wrong_value_is_the_worst_of_its_output():
    """It stands first, with a share above 1, at its place."""
    net = Net()
    model = net.model(net.op("Relu", net.input(3, 40), name="relu"))
    done = api.compile(model, "toy", strategy="tvm")
    graph = done.schedule.graph
    feed = {"in0": np.random.default_rng(0).uniform(1, 2, (3, 40)).astype(np.float32)}
    reference = Reference(model, graph, [feed])
    reference.expected[0]["relu"] = reference.expected[0]["relu"].copy()
    reference.expected[0]["relu"][2, 33] *= 1.5
    found = checked(done.trace, reference)
    assert found.rows[0].outcome is Outcome.DISPUTED  # onnx's reference evaluator has the right one
    worst = found.samples[0].worst
    assert worst[0].place == (2, 33)
    assert worst[0].share > 1
    assert worst[0].expected == pytest.approx(1.5 * worst[0].found)
    assert len(worst) == 1  # a ReLU rounds nothing


def test_values_that_are_no_numbers_are_held_as_text():
    """Infinities and NaNs of both sides; integers and truth values as they are."""
    net = Net()
    x = net.input(1, 6)
    low = net.op("Log", net.op("Sub", x, x), name="low")
    place = net.op("ArgMax", x, name="place", axis=1)
    done = api.compile(
        net.model(low, place, net.op("Greater", x, 0.0, name="above")), "toy", strategy="tvm", verify=True
    )
    header, _ = embedded(done.to_html())
    values = {(one["output"], one["precision"]): one for one in header["values"]}
    assert [row[1:3] for row in values["low", "float32"]["first"]] == [["-inf", "-inf"]] * 6
    assert values["above", "float32"]["dtype"] == "bool"
    assert {row[1] for row in values["above", "float32"]["first"]} <= {0.0, 1.0}
    assert values["place", "float32"]["first"][0][1] in range(6)


@pytest.fixture(scope="module")
def page(done, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(done.to_html("tilestitch compile"), encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "dark"), each_once([390, 1280], [False, True]))
def test_both_panes_are_drawn(browser, page, width, dark):
    """At any width and in both themes: bars and points, an empty console, no request, no sideways scroll."""
    browser.size(width)
    browser.dark(dark)
    browser.open(page)
    assert browser.complaints() == []
    assert browser.requests() == [page.resolve().as_uri()]
    for pane in ("proof", "values"):
        colours = browser.pixels(pane)
        assert len(colours) >= 3, pane
        assert sum(colours.values()) > 300, pane
    assert browser.run("return document.documentElement.scrollWidth") <= width
    if width == 1280:  # nothing of the bounds is beyond an edge
        assert browser.run(
            "const box = document.querySelector('[data-table=limits]').parentElement;"
            "return box.scrollWidth <= box.clientWidth"
        )


def test_the_panes_say_what_was_proven_and_compared(browser, page, done):
    """Bounds with the largest marked, counts of the checks, invariants; values of the chosen output and precision."""
    browser.open(page)
    report = done.report
    rows = browser.rows("limits")
    largest = [row for row in rows if row[0].endswith(": the largest")]
    assert [row[1] for row in largest] == [f"{report.bound_cycles:,}"]
    assert largest[0][3] == f"{report.ratio_to_bound:.2f} x"
    for row, check in zip(browser.rows("verification"), report.checks, strict=True):
        assert row[:3] == [check.precision, str(check.outcome), f"{check.compared:,}"]
        assert row[3].startswith(f"{check.decided:,} (")
        assert float(row[7]) == pytest.approx(check.ratio, abs=6e-4)
    assert [row[2] for row in browser.rows("verifiers")] == ["yes"] * 6
    for number, samples in enumerate(done.samples):
        browser.choose("values-output", f"{number}")
        for chosen, expected in enumerate((samples.worst, samples.first, samples.spread)):
            browser.choose("values-set", f"{chosen}")
            browser.settle()
            shown = browser.rows("values")
            assert [row[0] for row in shown] == [f"[{', '.join(map(str, one.place))}]" for one in expected]
            for row, one in zip(shown, expected, strict=True):
                assert [float(row[1]), float(row[2])] == pytest.approx([one.found, one.expected], rel=1e-8)
                assert float(row[5]) == pytest.approx(one.share, abs=6e-5)


def test_what_was_not_verified_has_no_values(browser, unverified, tmp_path):
    """The pane has nothing to choose from, and says what to do; so does the proof."""
    path = tmp_path / "page.html"
    path.write_text(unverified.to_html(), encoding="utf-8")
    browser.open(path)
    assert browser.run("return document.querySelectorAll('#values canvas, #values select').length") == 3
    assert browser.run(
        "return [...document.querySelectorAll('#values canvas, #values select')].every((one) => one.offsetHeight === 0)"
    )
    assert "Nothing was executed: add --verify" in browser.run("return document.getElementById('values').innerText")
    text = browser.run("return document.getElementById('proof').innerText")
    assert "add --verify to compare every output value" in text
    assert [row[2] for row in browser.rows("verifiers")].count("not looked at: add --verify") == 4
    assert browser.complaints() == []


@pytest.mark.slow
def test_several_iterations_and_strategies_have_values():
    """Of the first iteration; each strategy on its own."""
    options = Options(batch_per_cluster=1)
    compared = api.compare(NETWORK, "toy", ["tvm", "stay-in-gb"], batch=8, verify=True, options=options)
    page = compared.to_html()
    for number, one in enumerate(compared.fitting):
        header, _ = embedded(page, number)
        assert one.report.iterations > 1
        assert [row["shape"] for row in header["values"]] == [[1, 10]] * 2
