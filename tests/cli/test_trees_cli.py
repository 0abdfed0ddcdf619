"""Machines as trees on the command line: listed, shown, mapped on by name, and refused where they do not run yet."""

import json
import re
import subprocess
import sys

import pytest

from tests.helpers.command import run
from tests.helpers.zigzag_trees import CONV, DATA
from tilestitch.hardware.preset_files import chip_names, preset_names, preset_text

TREES = sorted(set(preset_names()) - set(chip_names()))
SPREAD = {
    "gemmini": {"rows": "C, 16", "columns": "K, 16"},
    "nvdla": {"atomic-c": "C, 64", "atomic-k": "K, 32"},
    "simba": {"lane": "C, 8", "vector": "K, 8", "element": "OY, 14", "chip-row": "OX, 4", "chip-column": "OX, 2"},
    "tpu-v4i": {"array": "OY, 4", "rows": "C, 64", "columns": "K, 64"},
    "h200": {"sm": "OY, 56", "tensor-core": "K, 4", "m": "OX, 8", "n": "K, 4", "k": "C, 16"},
}


@pytest.fixture
def conv(tmp_path):
    path = tmp_path / "conv.yaml"
    path.write_text(CONV)
    return path


def test_the_list_marks_trees(golden):
    result = run("machines")
    golden("machines.txt", result.stdout)
    lines = {line.split()[0]: line for line in result.stdout.splitlines()}
    assert all("tree, " in lines[name] for name in TREES)
    found = json.loads(run("machines", "--json", "-").stdout)["machines"]
    assert {one["name"] for one in found if one["form"] == "tree"} == set(TREES)
    assert next(one for one in found if one["name"] == "tpu-like")["units"] == 1024


def test_the_list_imports_nothing_large():
    """It takes a fifth of a second."""
    lines = ("from tilestitch.cli.main import main", "main(['machines'], standalone_mode=False)", "import sys")
    code = "\n".join([*lines, "print(*sys.modules)"])
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout.split()
    assert {"numpy", "onnx", "numba", "pydantic"}.isdisjoint(modules)


def test_both_forms_are_shown(tmp_path):
    """By name and from a file, as text and as JSON."""
    file = tmp_path / "mine.yaml"
    file.write_text(preset_text("nvdla").replace("name: nvdla", "name: mine"))
    result = run("show", "machine", "toy", "tpu-like", file)
    assert result.exit_code == 0, result.output
    for words in ("2 clusters x 2 cores", "sram_2MB: 2.00 MiB", "mine\nNVDLA, nv_large"):
        assert words in result.stdout
    found = json.loads(run("show", "machine", "tpu-like", "--json", "-").stdout)["machine"]
    assert [memory["name"] for memory in found["memories"]] == ["rf_128B", "rf_2B", "sram_2MB", "dram"]
    assert "yaml" not in found


def test_a_page_shows_machines_as_tables_and_pictures(tmp_path):
    page = tmp_path / "machines.html"
    result = run("show", "machine", "toy", "simba", "--html", page, "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    text = page.read_text()
    assert text.count("<svg") == text.count("<table") == 2
    assert "x 36: chip-row, chip-column" in text
    assert "src=" not in text.replace("xmlns=", "")


def test_a_chip_that_lacks_something_is_shown_as_a_tree(tmp_path):
    """What compile misses is the last line."""
    file = tmp_path / "mine.yaml"
    file.write_text(re.sub(r"\nlink:.*", "\n", preset_text("toy"), flags=re.DOTALL))
    result = run("show", "machine", file)
    assert result.exit_code == 0, result.output
    assert "chains, from the units" in result.stdout
    last = result.stdout.splitlines()[-1]
    assert last == "compile does not take it: it says no link, setup"
    refused = run("compile", "resnet18:small", "--machine", file)
    assert refused.exit_code == 2
    assert "because it says no link, setup" in refused.stderr


def test_an_unknown_name_is_told_all_known_ones():
    result = run("show", "machine", "tpu-lik")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert "found neither; the closest is 'tpu-like'; known presets: a100, ascend-like, " in line
    assert all(name in line for name in preset_names())


def test_the_schema_is_json_and_the_same_each_time(tmp_path):
    text = run("show", "schema").stdout
    assert json.loads(text)["$defs"]["Memory"]["properties"]["size"]["examples"] == ["64 KiB"]
    assert run("show", "schema", "--json", tmp_path / "schema.json", "--quiet").output == ""
    assert (tmp_path / "schema.json").read_text() == text


def test_a_machine_of_zigzag_is_mapped_on_by_name(conv):
    """With the energy that its own file gives."""
    spatial = DATA / "mapping" / "tpu_like.yaml"
    given = ("map", conv, "--spatial", spatial, "--objective", "energy", "--json", "-")
    ours, theirs = (run(*given, "--machine", one) for one in ("tpu-like", DATA / "hardware" / "tpu_like.yaml"))
    assert ours.exit_code == 0, ours.output
    found, expected = json.loads(ours.stdout), json.loads(theirs.stdout)
    assert f"{found['energy_pj']:.3f}" == "68294568.736"
    assert found["layers"] == expected["layers"]
    assert found["proven_best"]


@pytest.mark.parametrize("machine", SPREAD)
def test_a_layer_is_mapped_on_our_machines(machine, conv, tmp_path):
    """Every operand finds its way, and no energy is less than that of the arithmetic and of what DRAM must move."""
    axes = "".join(f"\n    {axis}: ['{loop}']" for axis, loop in SPREAD[machine].items())
    spatial = tmp_path / "spread.yaml"
    spatial.write_text(f"- name: default\n  spatial_mapping:{axes}\n")
    result = run("map", conv, "--machine", machine, "--spatial", spatial, "--objective", "energy", "--json", "-")
    assert result.exit_code == 0, result.output
    (layer,) = json.loads(result.stdout)["layers"]
    assert layer["proven_best"]
    outermost = [flow for flow in layer["flows"] if flow["memory"] in ("dram", "hbm")]
    assert {flow["operand"] for flow in outermost} == {"W", "I", "O"}
    assert layer["energy_pj"] > layer["mac_pj"] + sum(flow["energy_pj"] for flow in outermost) > 0


@pytest.mark.parametrize(
    "command",
    [
        ("compile", "resnet18:small"),
        ("compare", "resnet18:small"),
        ("characterize",),
        ("check", "resnet18:small"),
    ],
    ids=lambda command: command[0],
)
def test_what_does_not_run_on_trees_says_what_does(command):
    """One line, exit code 2."""
    result = run(*command, "--machine", "tpu-like")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: tpu-like.yaml: is a machine for map, simulate, validate and show machine; compile")
    assert line.endswith("does not take it yet, because it says no clock")


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "nothing.yaml: expected a mapping with the keys"),
        ("name: [", "nothing.yaml: line 1, column 8: not valid YAML"),
        ("name: one\nmac_pj: 1\nmemories: []\n", "nothing.yaml: memories: expected a list of memories, at least one"),
    ],
)
def test_a_file_that_is_no_machine_is_one_line(text, words, conv, tmp_path):
    """For show and for map; exit code 2, and no file is written."""
    file, out = tmp_path / "nothing.yaml", tmp_path / "out.json"
    file.write_text(text)
    spatial = DATA / "mapping" / "default.yaml"
    shown = run("show", "machine", file, "--json", out)
    mapped = run("map", conv, "--machine", file, "--spatial", spatial, "--objective", "energy", "--json", out)
    for result in (shown, mapped):
        assert result.exit_code == 2
        (line,) = result.stderr.splitlines()
        assert words in line
    assert not out.exists()


def test_an_operand_without_a_home_is_named(conv, tmp_path):
    """With the machine and the layer."""
    file = tmp_path / "mine.yaml"
    text = preset_text("nvdla").replace(", operands: [I, W]}", "}").replace(", operands: [W, O]}", "}")
    file.write_text(text.replace("[I, W, O]", "[I, O]").replace("[I, W]", "[I]").replace("[W]", "[I]"))
    spatial = tmp_path / "spread.yaml"
    spatial.write_text("- name: default\n  spatial_mapping:\n    atomic-c: ['C, 64']\n    atomic-k: ['K, 32']\n")
    result = run("map", conv, "--machine", file, "--spatial", spatial, "--objective", "energy")
    assert result.exit_code == 2
    assert "W has no home: no memory of nvdla holds" in result.stderr.splitlines()[-1]


PRODUCT = "O[m,n] += A[m,k] * B[k,n]; m=8 n=4 k=8"


def test_a_layer_is_simulated_on_a_tree():
    """Text and JSON say the same, beside the estimate, and that numpy's result came out."""
    found = json.loads(run("simulate", PRODUCT, "--machine", "nvdla", "--stats", "--json", "-").stdout)
    (layer,) = found["layers"]
    assert found["verified"]
    assert layer["verified"]
    assert layer["simulated"]["cycles"] == sum(layer["simulated"]["cycles_by_cause"].values())
    assert found["cycle_error"] == found["estimated"]["cycles"] / found["simulated"]["cycles"] - 1
    assert layer["estimated"]["energy_pj"] == pytest.approx(layer["simulated"]["energy_pj"], rel=1e-9)
    text = run("simulate", PRODUCT, "--machine", "nvdla", "--stats").stdout
    for said in (
        f"{found['simulated']['cycles']:,} cycles",
        "every result equals numpy's",
        "spread: ",
        "port (simulated)",
    ):
        assert said in text


def test_random_mappings_of_a_tree_are_compared():
    """As many as were asked for, the same each time, with the worst of them."""
    command = ("validate", PRODUCT, "--machine", "eyeriss-like", "--mappings", "6", "--worst", "2", "--json", "-")
    found = json.loads(run(*command).stdout)
    assert found == json.loads(run(*command).stdout)
    assert found["mappings"] == sum(row["mappings"] for row in found["distribution"]) == 6
    assert found["energy"] == {"all": {"mappings_that_agree": 6, "worst_absolute_error": pytest.approx(0, abs=1e-6)}}
    assert [abs(one["error"]) for one in found["worst"]] == sorted([abs(one["error"]) for one in found["worst"]])[::-1]
    text = run(*command[:-2]).stdout
    assert "6 random ones, seed 0" in text
    assert "Worst mappings" in text


@pytest.mark.parametrize("machine, sum_of", [("gemmini", "latency_cycles"), ("eyeriss", "cycles")])
def test_map_says_what_compile_takes_and_why(machine, sum_of):
    """Its own sum of latencies, the latency of compile, and parts that add up to the difference; in text and JSON."""
    command = ("resnet18:small", "--machine", machine)
    found = json.loads(run("map", *command, "--objective", "latency", "--beside-compile", "--json", "-").stdout)
    compiled = json.loads(run("compile", *command, "--json", "-").stdout)
    beside = found["beside_compile"]
    assert beside["mapped_cycles"] == found[sum_of]
    assert beside["compiled_cycles"] == compiled["simulated"]["latency_cycles"]
    assert beside["strategy"] == compiled["what"]["strategy"]
    differences = sum(one["compiled_cycles"] - one["mapped_cycles"] for one in beside["times"])
    assert differences == pytest.approx(beside["compiled_cycles"] - beside["mapped_cycles"])
    text = run("map", *command, "--beside-compile").stdout
    assert f"compile takes {beside['compiled_cycles']:,} cycles for the whole network by {beside['strategy']}" in text


@pytest.mark.parametrize(
    "command, said",
    [
        ((PRODUCT, "--machine", "gemmini"), "compiles a network, of the zoo or in an ONNX file"),
        (("resnet18:small", "--machine", "tpu-like"), "says no clock"),
        (("resnet18:small", "--machine", "stcp920"), "has no number for all of its units"),
        (("resnet18:small", "--machine", "gemmini", "--layer", "1"), "leave out --layer"),
        (("resnet18:small", "--machine", "gemmini", "--ragged"), "leave out --ragged"),
    ],
)
def test_a_comparison_that_cannot_be_made_is_refused(command, said):
    """In a line, before anything is mapped."""
    result = run("map", *command, "--beside-compile")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert said in line


PRIMES = "O[m,n] += A[m,k] * B[k,n]; m=37 n=53 k=41"


@pytest.mark.parametrize("options", [(), ("--ragged",), ("--objective", "energy")])
def test_simulate_and_map_have_one_answer(options):
    """The same estimate for extents that nothing divides, simulated on the units that it spreads them over."""
    mapped = json.loads(run("map", PRIMES, "--machine", "gemmini", *options, "--json", "-").stdout)
    found = json.loads(run("simulate", PRIMES, "--machine", "gemmini", *options, "--json", "-").stdout)
    (layer,), (other,) = mapped["layers"], found["layers"]
    assert other["estimated"] == {"cycles": layer["latency_cycles"], "energy_pj": pytest.approx(layer["energy_pj"])}
    assert other["verified"]
    assert found["notes"] == mapped["notes"]
    assert abs(other["cycle_error"]) < 0.02
    assert other["mapping"]["spread"] == [["rows", "k", 14], ["columns", "n", 14]]


def test_random_mappings_may_be_ragged():
    """With the option mappings are drawn whose factors do not divide."""
    command = ("validate", PRIMES, "--machine", "gemmini", "--mappings", "4", "--ragged")
    found = json.loads(run(*command, "--json", "-").stdout)
    assert found["mappings"] == 4
    spread = [factor for one in found["worst"] for _, _, factor in one["mapping"]["spread"]]
    assert any(extent % factor for factor in spread for extent in (37, 53, 41))
    assert "ragged factors" in run(*command).stdout


@pytest.mark.parametrize(
    "option, said",
    [
        (("--extrapolate",), "leave out --extrapolate"),
        (("--trace", "trace.json"), "leave out --trace"),
    ],
)
def test_what_only_arrays_have_is_refused_on_a_tree(option, said):
    """One line that names the option; nothing is written."""
    result = run("simulate", PRODUCT, "--machine", "gemmini", *option)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.endswith(said)
