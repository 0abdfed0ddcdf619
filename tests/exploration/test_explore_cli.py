"""`tilestitch explore`: what it prints, what it writes, how it ends."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import tilestitch
from tests.helpers.command import START, names_in, run
from tests.helpers.graphs import Net
from tests.helpers.pairs import first
from tilestitch import api
from tilestitch.cli.explore import METHODS
from tilestitch.commands.explore.run import ExploreOptions
from tilestitch.exploration import clusters
from tilestitch.exploration.store import Store
from tilestitch.pipeline.options import Options

SMALL = ("explore", "alexnet:small", "--machine", "toy", "--workers", "1")
USUAL = (*SMALL, "--strategy", "tvm")  # the quickest
SIX = ("--vary", "memories.lb.size=4096,16384,65536", "--vary", "bandwidth=4,8")


def test_a_point_is_what_compile_says_of_that_machine(tmp_path):
    """Latency, energy and traffic of the report, for the file that the front has of the machine."""
    result = run(
        *USUAL, *SIX, "--strategy", "stay-in-gb", "--batch", 2, "-o", tmp_path / "out", "--objective", "latency"
    )
    assert result.exit_code == 0, result.output
    explored = json.loads((tmp_path / "out/explore.json").read_text())
    (front,) = explored["fronts"]
    assert front["designs"]
    for number in front["designs"]:
        report = api.compile(
            "alexnet:small", tmp_path / f"out/machines/{number}.yaml", strategy="stay-in-gb", batch=2
        ).report
        assert report is not None
        (point,) = explored["designs"][number]["points"]
        found = {metric["name"]: metric["value"] for metric in point["metrics"]}
        assert found["cycles"] == report.latency_cycles
        assert found["latency"] == report.latency_seconds
        assert found["energy"] == report.total_energy_pj * report.clusters
        assert found["traffic"] == report.ddr_bytes * report.clusters
        cores = [2 * 2 * size for size in (int(explored["designs"][number]["values"]["memories.lb.size"]), 8192, 16384)]
        assert found["memory"] == sum(cores) + 2 * 524_288
        assert found["macs"] == 4 * 16 * 8


def test_a_network_that_only_its_exported_batch_can_run_is_explored():
    """In iterations of that batch, as it is compiled."""
    net = Net()
    model = net.model(net.op("ReduceMean", net.input(1, 8), [0]))
    options = ExploreOptions(strategy="tvm", compilation=Options(batch=4))
    explored = tilestitch.explore(model, "toy", {"bandwidth": [4]}, options, workers=1)
    assert not explored.infeasible


def test_a_mapped_point_is_what_map_says_of_that_machine(tmp_path):
    """Cycles, energy and words of DRAM; on a machine with an array that is the default."""
    network, options = "alexnet:small", ("--mode", "published", "--batch", 2)
    words = (network, "--machine", "dmazerunner-256", "--vary", "rf=64,512", "--vary", "bandwidth=8", "--workers", 1)
    result = run("explore", *words, *options, "--least", "energy", "--objective", "energy", "-o", tmp_path)
    assert result.exit_code == 0, result.output
    explored = json.loads((tmp_path / "explore.json").read_text())
    (number,) = explored["fronts"][0]["designs"]
    (point,) = explored["designs"][number]["points"]
    assert {metric["origin"] for metric in point["metrics"]} == {"estimated", "machine"}
    found = {metric["name"]: metric["value"] for metric in point["metrics"]}
    machine = tmp_path / f"machines/{number}.yaml"
    told = json.loads(
        run("map", network, *options, "--machine", machine, "--objective", "energy", "--json", "-").stdout
    )
    assert (found["cycles"], found["energy"]) == (told["cycles"], told["energy_pj"])
    assert found["latency"] == told["latency_seconds"]
    words_moved = sum(
        layer["times"] * (one["dram_load_words"] + one["dram_store_words"])
        for layer in told["layers"]
        for one in layer["mappings"][0]["accesses"].values()
    )
    assert found["traffic"] == 2 * words_moved
    size = int(explored["designs"][number]["values"]["rf"])
    assert (found["macs"], found["memory"]) == (256, 256 * size + 131_072)


def test_layers_of_other_programs_are_explored_too(tmp_path):
    """Whatever map takes: here dMazeRunner's file, and a line."""
    layers = {"CONV": [{"name": "c", "size_tensor_A": [1, 4, 6, 6], "size_tensor_B": [8, 4, 3, 3], "strides": [1, 1]}]}
    (tmp_path / "two.json").write_text(json.dumps(layers))
    for model in (tmp_path / "two.json", "O[m,n] += A[m,k] * B[k,n]; m=8 n=8 k=8"):
        result = run("explore", model, "--machine", "dmazerunner-256", "--vary", "networks=1..3", "--workers", 1)
        assert result.exit_code == 0, result.output
        assert "of 3 feasible" in result.stdout


def test_the_command_prints_the_front_and_writes_files(tmp_path):
    """The same bytes again, whatever the store has: only the counts of points are other ones."""
    folders = [tmp_path / name for name in ("first", "second")]
    words = (*USUAL, "mobilenet-v2:small", *SIX, "--store", tmp_path / "points.sqlite")
    first, second = (run(*words, "--objective", "latency", "--objective", "memory", "-o", folder) for folder in folders)
    assert first.exit_code == second.exit_code == 0, first.output
    assert first.stdout == (folders[0] / "explore.txt").read_text()
    assert "12 evaluated, 0 from the store" in first.stdout
    assert "0 evaluated, 12 from the store" in second.stdout
    assert names_in(folders[0]) == names_in(folders[1])
    pictures = [name for name in names_in(folders[0]) if name.endswith(".svg")]
    assert pictures == [
        f"front-{name}-latency-memory.svg" for name in ("alexnet-small", "all-networks-together", "mobilenet-v2-small")
    ]
    for name in names_in(folders[0]):
        if name not in ("explore.txt", "explore.json"):
            assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name
    one, other = (json.loads((folder / "explore.json").read_text()) for folder in folders)
    assert one.pop("run") == {"evaluated": 12, "from_store": 0, "infeasible": 0}
    assert other.pop("run") == {"evaluated": 0, "from_store": 12, "infeasible": 0}
    assert one == other
    rows = list(csv.DictReader(io.StringIO((folders[0] / "points.csv").read_text())))
    assert len(rows) == 12
    for network, front in zip(one["networks"], one["fronts"][1:], strict=True):
        assert [
            int(row["design"]) for row in rows if row["network"] == network and row["on the front"] == "yes"
        ] == sorted(front["designs"])
    circles = [
        circle
        for circle in ET.parse(folders[0] / pictures[0]).getroot().iter("{http://www.w3.org/2000/svg}circle")
        if circle.get("r") == "2.5"
    ]
    assert len(circles) == 6


def test_a_design_is_compiled_as_compile_does():
    """By the fastest of several strategies, unless one is named."""
    explored = json.loads(run(*SMALL, "--vary", "bandwidth=8", "--json", "-").stdout)
    report = api.compile("alexnet:small", "toy").report
    assert report is not None
    (point,) = explored["designs"][0]["points"]
    assert {"name": "cycles", "value": report.latency_cycles, "unit": "cycles", "origin": "simulated"} in point[
        "metrics"
    ]
    assert explored["evaluator"] == "compiled by the fastest of graphturbo, astitch and stay-in-lb, and simulated"


def test_the_store_is_in_the_folder_of_the_outputs(tmp_path):
    """Unless it is said where; without a folder nothing is written."""
    run(*USUAL, "--vary", "bandwidth=4", "-o", tmp_path / "out", "--quiet")
    with Store(tmp_path / "out/points.sqlite") as points:
        assert len(points) == 1
    text = run(*USUAL, "--vary", "bandwidth=4").stdout
    assert "none; --store FILE keeps points" in text


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_a_choice(method):
    asked = (*USUAL, *SIX, "--method", method, "--trials", 4, "--population", 2, "--json", "-")
    explored = json.loads(run(*asked).stdout)
    assert len(explored["designs"]) == {"grid": 6, "random": 4}.get(method, len(explored["designs"]))
    assert 1 <= len(explored["designs"]) <= 6


def test_a_machine_on_which_the_compiler_errs_does_not_end_the_exploration(monkeypatch):
    """It is told, and the exit code is that of a mistake of ours."""
    from tilestitch.base.errors import InvalidIR
    from tilestitch.exploration import simulated

    compile_network = simulated.compile_network

    def broken(model, name, machine, *others):
        if machine.ddr.bandwidth_bytes_per_cycle == 4:
            raise InvalidIR("kernel k1: two buffers overlap")
        return compile_network(model, name, machine, *others)

    monkeypatch.setattr(simulated, "compile_network", broken)
    result = run(*USUAL, "--vary", "bandwidth=4,8")
    assert result.exit_code == 1
    assert "1 design of 1 feasible" in result.stdout
    assert "1 point: a bug of Tilestitch: kernel k1: two buffers overlap" in result.stdout
    assert "this is a bug of Tilestitch" in result.stderr


SPACE = """
models: [alexnet:small]  # a comment
machine: toy
vary:
  memories.lb.size: 4096..16384*4
  bandwidth: [4, 8]
objective: [latency, memory]
fold-bn: false
scale-energy: true
workers: 1
strategy: tvm
"""


def test_a_file_says_what_the_command_line_could(tmp_path, monkeypatch):
    """What is typed as well is taken from there, or added."""
    monkeypatch.chdir(tmp_path)
    Path("space.yaml").write_text(SPACE)
    typed = (*USUAL, "--scale-energy")
    typed = (*typed, "--vary", "memories.lb.size=4096,16384", "--vary", "bandwidth=4,8", "--no-fold-bn")
    both = (*typed, "--objective", "latency", "--objective", "memory")
    assert run("explore", "--space", "space.yaml").stdout == run(*both).stdout
    assert run(
        "explore", "--space=space.yaml", "--objective", "energy", "--method", "random", "--trials", 2
    ).stdout == (run(*both, "--objective", "energy", "--method", "random", "--trials", 2).stdout)


SPACES = {
    "none.yaml": "",
    "list.yaml": "[1, 2]",
    "unknown.yaml": "modles: [alexnet:small]",
    "twice.yaml": "machine: toy\nmachine: mlu100",
    "nested.yaml": "models: [[alexnet:small]]",
    "vary.yaml": "vary: bandwidth=4",
    "values.yaml": "vary: {bandwidth: {a: 4}}",
    "flag.yaml": "scale-energy: yes",
    "two.yaml": "machine: [toy, mlu100]",
    "method.yaml": "models: [alexnet:small]\nmethod: best",
    "json.yaml": "json: out.json",
    "quoted.yaml": 'models: ["alexnet:small',
}

MISTAKES = (
    "explore alexnet:small --machine toy",
    "explore alexnet:smal --machine toy --vary bandwidth=4",
    "explore alexnet:small --machine tay --vary bandwidth=4",
    "explore alexnet:small --machine toy --vary bandwidth",
    "explore alexnet:small --machine toy --vary bandwidth=4,eight",
    "explore alexnet:small --machine toy --vary bandwidth=4 --strategy tmv",
    "explore alexnet:small --machine toy --vary bandwidth=4 --batch-per-cluster some",
    "explore alexnet:small alexnet:small --machine toy --vary bandwidth=4",
    "explore alexnet:small --machine toy --vary bandwidth=4 --store text.sqlite",
    "explore alexnet:small --machine toy --vary bandwidth=4 --store folder",
    "explore alexnet:small --machine toy --vary bandwidth=4 --store text.sqlite/points.sqlite",
    "explore alexnet:small --machine toy --vary bandwidth=4 -o text.sqlite",
    "explore alexnet:small --machine toy.yaml --vary bandwidth=4 --store toy.yaml",
    "explore alexnet:small --machine toy --vary cores.0.count=3",
    "explore alexnet:small --machine toy --vary clusters=1..1000 --vary memories.lb.size=1..1000",
    "explore alexnet:small --machine toy --vary bandwidth=4 --cluster here",
    "explore alexnet:small --machine toy --vary bandwidth=4 --cluster dask://127.0.0.1:1",
    "explore alexnet:small --machine toy --vary bandwidth=4 --cluster ray",
    "explore alexnet:small --machine toy --vary bandwidth=4 --cluster ray --workers 2",
    "explore alexnet:small --machine toy --vary bandwidth=4 --by map",
    "explore alexnet:small --machine toy --vary clock=1000,2000 --objective edp",
    "explore alexnet:small --machine toy --vary bandwidth=4 --dataflow output",
    "explore alexnet:small --machine eyeriss --vary bandwidth=4 --strategy tvm",
    "explore alexnet:small --machine eyeriss --vary bandwidth=4 --no-fold-bn",
    "explore alexnet:small --machine eyeriss --vary rf=2,4",
    *(f"explore --space {name}" for name in SPACES),
    "explore --space missing.yaml",
    "explore --space flag.yaml --space two.yaml",
    "explore alexnet:small --machine toy --vary bandwidth=4 --space",
)


def test_messages_of_explore(tmp_path, monkeypatch, golden):
    """Each mistake is one error, exit code 2, and nothing is left behind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(clusters, "CONNECT_SECONDS", 1)
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.sqlite").write_text("no database")
    (tmp_path / "toy.yaml").write_text("name: toy")
    for name, text in SPACES.items():
        (tmp_path / name).write_text(text)
    lines = []
    for mistake in MISTAKES:
        result = run(*mistake.split())
        assert result.exit_code == 2, mistake
        assert result.stdout == "", mistake
        lines.append(f"$ tilestitch {mistake}\n{result.stderr}".replace(str(tmp_path), "..."))
    assert names_in(tmp_path) == sorted(["text.sqlite", "toy.yaml", *SPACES])
    golden("explore-messages.txt", "\n".join(lines))


def test_optuna_that_is_not_installed_is_one_error(monkeypatch):
    """Which says what to install; the other methods need no such package."""
    monkeypatch.setitem(sys.modules, "optuna", None)
    result = run(*USUAL, "--vary", "bandwidth=4", "--method", "optuna")
    assert result.exit_code == 2
    assert "pip install 'tilestitch[dse]'" in result.stderr
    assert run(*USUAL, "--vary", "bandwidth=4", "--method", "random").exit_code == 0


@pytest.mark.parametrize("workers", first(1, ["1", "2"]))
def test_an_interrupted_exploration_keeps_what_is_stored(tmp_path, workers):
    """Ctrl-C: exit code 130, one line, nobody left, and the rest is for the next time."""
    store = tmp_path / "points.sqlite"
    words = ("explore", "alexnet:small", "--machine", "toy", "--vary", "bandwidth=1..200+1", "--workers", workers)
    process = subprocess.Popen(
        [sys.executable, "-c", START, *words, "--store", str(store)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    while not store.exists() or stored(store) < 3:
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout, stderr.strip()) == (130, b"", b"error: interrupted")  # click begins a line
    assert 3 <= stored(store) < 200
    for _ in range(100):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    pytest.fail("a process was left behind")


def stored(path) -> int:
    with Store(path) as points:
        return len(points)
