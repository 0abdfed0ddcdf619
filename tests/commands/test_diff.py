"""`diff`: two reports of one network side by side, number by number and decision by decision."""

import json
from dataclasses import replace

import pytest

import tilestitch
from tests.helpers.command import names_in, run
from tests.helpers.graphs import Net
from tilestitch import api
from tilestitch.base.errors import InputError
from tilestitch.commands.diff.compared import differences
from tilestitch.pipeline.options import Options
from tilestitch.report.summarise import place_rows

NETWORK = "bert-base-8:small"


@pytest.fixture(scope="module")
def compiled():
    """One network by two strategies, of which one cuts it into pieces."""
    options = Options(batch_per_cluster=2)
    return [api.compile(NETWORK, "toy", strategy=name, batch=8, options=options) for name in ("tvm", "graphturbo")]


@pytest.fixture(scope="module")
def reports(compiled, tmp_path_factory):
    """Their reports as files."""
    folder = tmp_path_factory.mktemp("reports")
    for name, done in zip("ab", compiled, strict=True):
        (folder / f"{name}.json").write_text(done.to_json(), encoding="utf-8")
    return folder


@pytest.mark.quick
def test_the_numbers_are_those_of_the_reports(compiled):
    """Of the run, of its ports and of every operator, whose bytes and work add up to the report's."""
    found = tilestitch.diff(*compiled)
    figures = {(one.what, one.unit): one for one in found.figures}
    for side, done in zip("ab", compiled, strict=True):
        report = done.report
        for (what, unit), value in {
            ("latency", "cycles"): report.latency_cycles,
            ("latency", "s"): report.latency_seconds,
            ("largest bound", "cycles"): report.bound_cycles,
            ("DDR traffic of a cluster", "bytes"): report.ddr_bytes,
            ("energy of a cluster", "pJ"): report.total_energy_pj,
            ("kernels", ""): len(report.kernels),
        }.items():
            assert getattr(figures[what, unit], side) == value
        assert {one.what: getattr(one, side) for one in found.traffic} == {
            row.level: row.size_bytes for row in report.traffic
        }
        rows = [one for operator in found.operators if (one := getattr(operator, side)) is not None]
        assert sum(one.ddr_bytes for one in rows) == report.ddr_bytes
        assert sum(one.macs for one in rows) == sum(kernel.macs for kernel in report.kernels)
        assert sum(one.vector_operations for one in rows) == sum(kernel.vector_operations for kernel in report.kernels)
        assert sorted(one.name for one in rows) == sorted(done.program.operators)
    ratio = compiled[0].report.latency_cycles / compiled[1].report.latency_cycles
    assert f"B is {ratio:,.3f} x as fast as A (latency, simulated)." in str(found)
    swapped = tilestitch.diff(compiled[1], compiled[0])
    assert f"A is {ratio:,.3f} x as fast as B (latency, simulated)." in str(swapped)


def test_decisions_that_differ_are_named(compiled):
    """Sub-graphs, pieces, where results wait; of an operator what is another there."""
    found = tilestitch.diff(*compiled)
    changes = {one.what: (one.a, one.b) for one in found.decisions}
    counts = [len({kernel.operators for kernel in done.schedule.kernels}) for done in compiled]
    assert changes["sub-graphs"][0] == f"{counts[0]}"
    assert [one.name for one in found.only_b] == sorted({piece.name[0] for piece in compiled[1].schedule.pieces})
    for level in ("ddr", "lb"):
        rows = [next(row for row in place_rows(done.schedule) if row.level == level) for done in compiled]
        assert [text.split()[0] for text in changes[f"results that wait in {level.upper()}"]] == [
            str(row.count) for row in rows
        ]
    product = next(one for one in found.operators if one.name == "pooler.tanh")
    assert {change.what for change in product.decided} >= {"sub-graph"}
    by_tvm = next(kernel for kernel in compiled[0].schedule.kernels if "pooler.tanh" in kernel.operators)
    assert product.a.runs_with == tuple(name for name in by_tvm.operators if name != "pooler.tanh")


def test_every_decision_about_an_operator_is_compared(compiled):
    """A report in which one field of every operator is another one differs in that, and in nothing else."""
    report = tilestitch.diff(*compiled).a
    others = {
        "pieces": ("pieces", 99),
        "tiling": ("tiling", "another"),
        "cores": ("cores", 99),
        "results in": ("results_in", ("host",)),
        "runs with": ("runs_with", ("another",)),
    }
    for what, (field, value) in others.items():
        changed = replace(report, operators=tuple(replace(one, **{field: value}) for one in report.operators))
        for operator in differences(report, changed).operators:
            assert [change.what for change in operator.decided] == [what]


def test_a_run_does_not_differ_from_itself(compiled):
    """No change, no ratio but 1, and it says so."""
    found = tilestitch.diff(compiled[1], compiled[1])
    assert all(one.ratio in (1, None) for one in (*found.figures, *found.traffic))
    assert (found.settings, found.decisions, found.only_a, found.only_b) == ((), (), (), ())
    assert all(one.cycles == one.ddr_bytes == 0 and not one.decided for one in found.operators)
    assert "Both have the same latency (simulated)." in str(found)
    assert str(found).count("the same in both") == 4


def test_other_batches_are_compared_by_their_throughput(compiled):
    """A larger batch takes longer and is no slower for that."""
    larger = api.compile(NETWORK, "toy", strategy="tvm", batch=16)
    found = tilestitch.diff(compiled[0], larger)
    ratio = larger.report.throughput_per_second / compiled[0].report.throughput_per_second
    assert f"{max(ratio, 1 / ratio):,.3f} x as fast as" in str(found)
    assert "(throughput, of batches that differ, simulated)" in str(found)
    assert ("batch", "8 samples", "16 samples") in [(one.what, one.a, one.b) for one in found.settings]


def test_an_operator_of_one_run_alone_is_shown(compiled):
    """Without folding, batch normalisations run."""
    folded, kept = (
        api.compile("resnet18:small", "toy", strategy="tvm", options=Options(fold_bn=fold)) for fold in (1, 0)
    )
    found = tilestitch.diff(folded, kept)
    norm = next(one for one in found.operators if one.name == "bn1")
    assert norm.a is None
    assert norm.cycles == norm.b.occupied_cycles > 0
    assert found.records()[-1]["decided_differently"] == "in B alone"


def test_the_command_prints_and_writes_what_python_gives(reports, tmp_path, monkeypatch):
    """Text, JSON and the page; the same bytes each time; -o of compile writes such reports too."""
    monkeypatch.chdir(reports)
    found = tilestitch.diff("a.json", "b.json")
    result = run("diff", "a.json", "b.json")
    assert (result.exit_code, result.stdout) == (0, str(found))
    assert run("diff", "a.json", "b.json", "--json", "-").stdout == found.to_json()
    tree = json.loads(found.to_json())
    assert tree["format"] == "tilestitch.diff"
    assert len(tree["operators"]) == len(found.operators) == len(found.records())
    page = tmp_path / "page.html"
    for _ in range(2):
        assert run("diff", "a.json", "b.json", "--html", page, "--quiet").stdout == ""
        assert page.read_text(encoding="utf-8") == found.to_html(f"tilestitch diff a.json b.json --html {page}")
    assert run("compile", NETWORK, "--machine", "toy", "-o", tmp_path / "out", "--quiet").exit_code == 0
    assert run("diff", "a.json", tmp_path / "out" / "report.json").exit_code == 0


def changed(**fields):
    return lambda tree: tree.update(fields)


def without(*path):
    def change(tree):
        for name in path[:-1]:
            tree = tree[name]
        del tree[path[-1]]

    return change


BROKEN = {
    "another version": (changed(version=2), "a report of version 2, expected 1; write it again with this Tilestitch"),
    "another format": (changed(format="tilestitch.why"), "has the format tilestitch.why, expected tilestitch.report"),
    "a comparison": (changed(format="tilestitch.comparison"), "holds several reports; give that of one strategy"),
    "no format": (without("format"), "is not a report of Tilestitch; write it again with this Tilestitch"),
    "an older report": (without("operators"), "the field operators is missing; write it again"),
    "no latency": (without("simulated", "latency_cycles"), "simulated: the field latency_cycles is missing"),
    "a latency of nothing": (
        lambda tree: tree["simulated"].update(latency_cycles=0),
        "latency_cycles: expected a whole",
    ),
    "text for a number": (lambda tree: tree["operators"][0]["simulated"].update(ddr_bytes="1"), "ddr_bytes: expected"),
    "an operator twice": (lambda tree: tree["operators"].append(tree["operators"][0]), "appears twice"),
    "no object": (lambda tree: tree.update(decisions=[]), "decisions: expected an object, found an empty list"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_report_is_refused_in_one_line(reports, tmp_path, name):
    """With exit code 2, and nothing is written."""
    change, message = BROKEN[name]
    tree = json.loads((reports / "b.json").read_text(encoding="utf-8"))
    change(tree)
    path = tmp_path / "b.json"
    path.write_text(json.dumps(tree), encoding="utf-8")
    result = run("diff", reports / "a.json", path, "--html", tmp_path / "page.html", "--json", tmp_path / "diff.json")
    assert result.exit_code == 2
    [line] = result.stderr.splitlines()
    assert line.startswith(f"error: {path}: ")
    assert message in line
    assert names_in(tmp_path) == ["b.json"]


def test_files_that_cannot_be_read_are_refused(reports, tmp_path):
    """Cut off, going on behind its end, no JSON, or not there; and places that are inputs."""
    whole = (reports / "a.json").read_text(encoding="utf-8")
    (tmp_path / "cut.json").write_text(whole[: len(whole) // 2], encoding="utf-8")
    (tmp_path / "more.json").write_text(whole + "garbage", encoding="utf-8")
    (tmp_path / "text.json").write_text("latency 5", encoding="utf-8")
    (tmp_path / "list.json").write_text("[1, 2]", encoding="utf-8")
    for arguments, message in (
        (("cut.json",), "the end of the file is missing"),
        (("more.json",), "remove what stands behind its end"),
        (("text.json",), "is not JSON"),
        (("list.json",), "is not a report of Tilestitch"),
        (("absent.json",), "No such file"),
        (("a.json", "--json", "a.json"), "is read as an input, and would be overwritten"),
        (("a.json", "--html", "a.json"), "is read as an input, and would be overwritten"),
    ):
        (tmp_path / "a.json").write_text(whole, encoding="utf-8")
        rest = [argument if argument.startswith("--") else tmp_path / argument for argument in arguments]
        result = run("diff", reports / "a.json", *rest)
        assert result.exit_code == 2, arguments
        [line] = result.stderr.splitlines()
        assert message in line
        assert (tmp_path / "a.json").read_text(encoding="utf-8") == whole


def test_reports_of_two_networks_are_refused(reports, tmp_path):
    """They have no operators in common, or neither all of them nor the name; another name alone is compared."""
    net = Net()
    other = api.compile(net.model(net.op("Relu", net.input(1, 8), name="pooler.tanh")), "toy", strategy="tvm")
    for done in (other, api.compile("resnet18:small", "toy", strategy="tvm")):
        path = tmp_path / "b.json"
        path.write_text(done.to_json(), encoding="utf-8")
        result = run("diff", reports / "a.json", path)
        assert result.exit_code == 2
        [line] = result.stderr.splitlines()
        assert "give two reports of one network" in line
    tree = json.loads((reports / "b.json").read_text(encoding="utf-8"))
    tree["what"]["network"] = "renamed"
    path.write_text(json.dumps(tree), encoding="utf-8")
    assert "network" in run("diff", reports / "a.json", path).stdout


def test_what_is_neither_a_path_nor_a_compilation_is_refused(compiled):
    """And a compilation without a report."""
    with pytest.raises(InputError, match=r"^b: expected the path of a report or what compile gave, found int 5"):
        tilestitch.diff(compiled[0], 5)
    stopped = api.compile(NETWORK, "toy", options=Options(stop_after="schedule"))
    with pytest.raises(InputError, match="was not simulated, so it has no report"):
        tilestitch.diff(compiled[0], stopped)
