"""What the functions under `tilestitch` return shows itself: short in `repr`, as HTML, as JSON, as a table."""

import json
import pkgutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest

import tilestitch
from tests.helpers.command import run
from tilestitch.base.html import MOST_ROWS, table_html
from tilestitch.base.shown import Shown
from tilestitch.exploration.evaluator import Metric

PRODUCT = "O[m,n] += A[m,k] * B[k,n]; m=24 n=16 k=32"
INSTANCE = Path(__file__).parent.parent / "data" / "mlsys2026" / "mlsys-2026-1.json"
MAPPING = {
    "nest": {"kind": "gemm", "extents": {"M": 24, "N": 16, "K": 32}},
    "factors": {"dram": {"M": 3, "K": 32}, "spatial": {"M": 8, "N": 16}},
    "orders": {"dram": ["M", "K"], "spm": []},
}
CALLS = {
    "compile": lambda: tilestitch.compile("resnet18:small", "toy", strategy="graphturbo", batch=2, verify=True),
    "stopped": lambda: tilestitch.compile("resnet18:small", "toy", options=tilestitch.Options(stop_after="schedule")),
    "compare": lambda: tilestitch.compare("resnet18:small", "toy", ["tvm", "stay-in-gb"]),
    "map": lambda: tilestitch.map("resnet18:small", "eyeriss", layers=["conv1"]),
    "map_on_tree": lambda: tilestitch.map(PRODUCT, "tpu-like", tilestitch.TreeOptions("energy")),
    "simulate": lambda: tilestitch.simulate(PRODUCT),
    "simulate_mapping": lambda: tilestitch.simulate_mapping(MAPPING),
    "validate": lambda: tilestitch.validate(PRODUCT, options=tilestitch.ValidateOptions(mappings=20, worst=1)),
    "explore": lambda: tilestitch.explore(PRODUCT, "dmazerunner-256", {"bandwidth": [4, 8]}, workers=1),
    "fuse": lambda: tilestitch.fuse("resnet18:small", compare=True),
    "why": lambda: tilestitch.why("bert-base-8:small", "toy", strategy="graphturbo", batch=2),
    "diff": lambda: tilestitch.diff(*result("compare")),
    "characterize": lambda: tilestitch.characterize("mlu100"),
    "traffic": lambda: tilestitch.traffic(PRODUCT),
    "contest": lambda: tilestitch.contest(INSTANCE),
    "reproduce": lambda: tilestitch.reproduce("dirac"),
    "machines": tilestitch.machines,
    "models": tilestitch.models,
    "strategies": tilestitch.strategies,
    "load_machine": lambda: tilestitch.load_machine("eyeriss"),
    "load_graph": lambda: tilestitch.load_graph("bert-base-8:small"),
}


@cache
def result(name: str) -> object:
    return CALLS[name]()


def parts_of(value: object, seen: set[int]) -> Iterator[object]:
    """A value and every dataclass in it, however deep."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if is_dataclass(value) and not isinstance(value, type):
        yield value
        for one in fields(value):
            yield from parts_of(getattr(value, one.name), seen)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from parts_of(item, seen)
    elif isinstance(value, Mapping):
        yield from parts_of(list(value.values()), seen)


class Checked(HTMLParser):
    """Every element that is opened is closed, and in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.found.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.found.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(text: str) -> Checked:
    page = Checked()
    page.feed(text)
    page.close()
    assert page.open == []
    return page


@pytest.mark.parametrize("name", CALLS)
def test_the_repr_of_a_result_is_a_few_lines(name):
    """Of what a function returns, and of every value in it."""
    for value in parts_of(result(name), set()):
        text = repr(value)
        assert len(text) < 1000, (type(value), len(text))
        assert text.count("\n") < 10, type(value)


@pytest.mark.parametrize("name", [name for name in CALLS if name != "simulate_mapping"])
def test_a_result_is_html(name):
    """Well-formed, with a table that has a row for each record, up to a limit."""
    shown = result(name)
    assert isinstance(shown, Shown)
    page = parsed(shown._repr_html_())
    records = shown.records()
    assert page.found.count("tr") == 1 + min(len(records), MOST_ROWS) + (len(records) > MOST_ROWS)
    assert page.found.count("svg") >= len(shown.pictures())


@pytest.mark.parametrize("name", ["validate", "explore", "characterize", "traffic"])
def test_pictures_are_shown(name):
    """Those that the command draws."""
    assert "svg" in parsed(result(name)._repr_html_()).found


def test_the_stages_of_a_compilation_are_html():
    """Its graph, its schedule and its report, each with a row for each operator or kernel."""
    done = result("compile")
    for value, rows in ((done.graph, done.graph.operators), (done.schedule, done.schedule.kernels)):
        assert len(value.records()) == len(rows)
        parsed(value._repr_html_())
    assert len(done.report.records()) == len(done.report.kernels) == len(done.records())


def test_text_of_users_is_escaped():
    """A name is no markup."""
    machine = tilestitch.load_machine("toy").with_("description", "a <script> & a 'quote'")
    page = parsed(machine._repr_html_())
    assert "script" not in page.found
    assert "a <script> & a 'quote'" in page.text
    assert "<script>" in parsed(table_html([{"<script>": "<script>"}])).text


JSON = {
    "compare": ("compare", "resnet18:small", "--machine", "toy", "--strategy", "tvm", "--strategy", "stay-in-gb"),
    "map": ("map", "resnet18:small", "--machine", "eyeriss", "--layer", "conv1"),
    "simulate": ("simulate", PRODUCT),
    "validate": ("validate", PRODUCT, "--mappings", 20, "--worst", 1),
    "explore": ("explore", PRODUCT, "--machine", "dmazerunner-256", "--vary", "bandwidth=4,8", "--workers", 1),
    "fuse": ("fuse", "resnet18:small", "--compare"),
    "why": ("why", "bert-base-8:small", "--machine", "toy", "--strategy", "graphturbo", "--batch", 2),
    "characterize": ("characterize",),
    "traffic": ("traffic", PRODUCT),
    "contest": ("contest", INSTANCE),
    "reproduce": ("reproduce", "dirac"),
    "machines": ("machines",),
    "models": ("models",),
    "compile": ("compile", "resnet18:small", "--machine", "toy", "--strategy", "graphturbo", "--batch", 2, "--verify"),
}


@pytest.mark.parametrize("name", JSON)
def test_to_json_is_what_the_command_writes(name):
    """To the byte."""
    assert result(name).to_json() == run(*JSON[name], "--json", "-").stdout
    json.loads(result(name).to_json())


def test_a_compilation_that_stopped_has_no_report():
    """The message names the way to the value of its stage."""
    stopped = result("stopped")
    with pytest.raises(tilestitch.InputError, match="was not simulated, so it has no report"):
        stopped.to_json()
    assert json.loads(tilestitch.stage_text(stopped, "schedule"))["stage"] == "schedule"
    assert len(stopped.records()) == len(stopped.schedule.kernels)


def test_a_result_is_a_table_of_pandas(monkeypatch):
    """A column for each name; here of a module that stands for pandas."""
    pandas = ModuleType("pandas")
    pandas.DataFrame = list  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    for name in ("compile", "compare", "map", "validate", "explore", "contest"):
        assert result(name).to_dataframe() == [dict(one) for one in result(name).records()]


def test_without_pandas_the_message_says_how_to_install_it(monkeypatch):
    """It is an ImportError, and one of ours."""
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas") as raised:
        result("compare").to_dataframe()
    assert isinstance(raised.value, tilestitch.TilestitchError)


def test_an_exploration_has_a_row_for_each_point():
    """With the metrics of the point by name and unit."""
    explored = result("explore")
    first = next(iter(explored.outcomes.values()))[0]
    metrics = [one for one in first.metrics if isinstance(one, Metric)]
    assert {f"{one.name} ({one.unit})": one.value for one in metrics}.items() <= explored.records()[0].items()
    assert [row["bandwidth"] for row in explored.records()] == ["4", "8"]


def test_all_names_are_there():
    """Each of `__all__`, and nothing else answers."""
    assert set(tilestitch.__all__) <= set(dir(tilestitch))
    assert all(getattr(tilestitch, name) is not None for name in tilestitch.__all__)
    assert {*CALLS, "evaluate_mapping"} - {"stopped", "map_on_tree"} <= set(tilestitch.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'map_network'"):
        _ = tilestitch.map_network


def test_no_function_has_the_name_of_a_package():
    """Else importing a module of that package would put it in the place of the function."""
    packages = {one.name for one in pkgutil.iter_modules(tilestitch.__path__)}
    assert packages.isdisjoint(tilestitch.__all__)


def test_listings_import_no_compiler():
    """`import tilestitch`, `machines` and `models` are quick: neither numba nor, for the first, anything of weight."""
    code = (
        "import sys, tilestitch; assert 'numpy' not in sys.modules; assert 'resnet18' in list(tilestitch.models()); "
        "assert 'toy' in list(tilestitch.machines()); assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_with_changes_one_place():
    """And leaves the machine as it was; entries of lists go by position, values may be dicts."""
    toy = tilestitch.load_machine("toy")
    wide = toy.with_("memories.ddr.bandwidth_bytes_per_cycle", 32)
    assert (toy.ddr.bandwidth_bytes_per_cycle, wide.ddr.bandwidth_bytes_per_cycle) == (8, 32)
    assert replace(wide, memories=toy.memories) == toy
    assert wide.with_("memories.ddr.bandwidth_bytes_per_cycle", 8) == toy
    assert len(toy.with_("axes.core.size", 3).cores) == 3
    assert toy.with_("units.vme.lanes", {"float16": 32, "int8": 32}).cores[0].vector.lanes[0][1] == 32
    slow, fast = (tilestitch.compile("resnet18:small", machine).report.latency_cycles for machine in (toy, wide))
    assert fast < slow


@pytest.mark.parametrize(
    "path, value, message",
    [
        ("memories.ddr.bandwith", 3, "memories.ddr.bandwith: unknown key; known.*bandwidth_bytes_per_cycle"),
        ("memory.ddr", 3, "the machine has no 'memory'; the closest is 'memories'; known: name,"),
        ("cores.first.count", 3, "expected a position of cores from 0 to 0, found 'first'"),
        ("axes.core.size.x", 3, "axes.core.size is one value, which has no 'x'"),
        (
            "memories.ddr.size",
            "4 megabytes",
            "ddr.size: expected a size above 0 in bytes.*found '4 megabytes'",
        ),
        ("clock", {1}, "clock: expected a number, text, true or false, a list or a mapping, found set"),
        (3, 3, "expected a path such as 'memories.ddr.size', found 3"),
    ],
)
def test_a_wrong_place_is_one_clear_error(path, value, message):
    """Which names what there is."""
    with pytest.raises(tilestitch.InputError, match=message):
        tilestitch.load_machine("toy").with_(path, value)


def test_a_machine_that_was_changed_otherwise_has_no_yaml_form():
    """Rather than lose the change."""
    with pytest.raises(tilestitch.InputError, match="make every change by with_"):
        replace(tilestitch.load_machine("toy"), clusters=1).with_("granule_bytes", 2048)


@pytest.mark.parametrize("name", ["toy", "eyeriss", "stcp920"])
def test_a_machine_is_loaded_from_a_dict(name):
    """What a YAML reader makes of its file gives the same machine."""
    yaml = pytest.importorskip("yaml")
    machine = tilestitch.load_machine(name)
    assert tilestitch.load_machine(yaml.safe_load(machine.yaml_text())) == machine
    with pytest.raises(tilestitch.InputError, match="expected words of at most 64 characters as keys, found 1"):
        tilestitch.load_machine({1: 2})
    with pytest.raises(tilestitch.InputError, match="expected a name, the path of a YAML file or a dict, found list"):
        tilestitch.load_machine([name])


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: tilestitch.map(PRODUCT, options={}), "options: expected MapOptions"),
        (lambda: tilestitch.map(PRODUCT, options=tilestitch.MapOptions("speed")), "objective 'speed': expected one of"),
        (lambda: tilestitch.map(PRODUCT, options=tilestitch.MapOptions(top=0)), "top: expected 1 to 1,000, found 0"),
        (lambda: tilestitch.map(PRODUCT, layers="conv1"), "layers: expected a list of names"),
        (
            lambda: tilestitch.map(PRODUCT, options=tilestitch.MapOptions(pruned=True, ragged=True)),
            "pruned has rules of its own",
        ),
        (lambda: tilestitch.simulate(PRODUCT, options=3), "options: expected SimulateOptions"),
        (lambda: tilestitch.simulate(PRODUCT, options=tilestitch.SimulateOptions("words")), "values: expected"),
        (lambda: tilestitch.validate(PRODUCT, options=tilestitch.ValidateOptions(seed=-1)), "seed: expected a whole"),
        (lambda: tilestitch.explore(PRODUCT, "toy", "bandwidth"), "vary: expected values by names"),
        (
            lambda: tilestitch.explore(PRODUCT, "toy", {}, tilestitch.ExploreOptions(method="all")),
            "method: expected one of grid, random, optuna",
        ),
        (lambda: tilestitch.why(result("compile"), "toy"), "a compilation already has its machine"),
        (lambda: tilestitch.why(result("stopped")), "was not simulated; compile it without stop_after"),
        (lambda: tilestitch.why(result("compile"), top=0), "top: expected at least 1, found 0"),
        (lambda: tilestitch.fuse("resnet18:small", plan=3), "plan: expected a name, the path of a file"),
        (lambda: tilestitch.contest({"widths": {1}}), "instance: expected the content of a JSON file"),
    ],
)
def test_what_is_no_option_is_refused(call, message):
    """With what would be right."""
    with pytest.raises(tilestitch.InputError, match=message):
        call()
