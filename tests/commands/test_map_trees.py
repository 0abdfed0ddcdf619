"""`tilestitch map --spatial`: ZigZag's three files."""

import json
from pathlib import Path

import pytest

import tilestitch
from tests.helpers.command import run
from tests.helpers.zigzag_trees import LAYERS, TREE
from tilestitch.hardware.preset_files import preset_text

DATA = Path(__file__).parent.parent / "data" / "zigzag"
ON_EYERISS = (
    *("--machine", DATA / "hardware" / "eyeriss_like.yaml"),
    *("--spatial", DATA / "mapping" / "eyeriss_like.yaml"),
)


@pytest.fixture
def layers(tmp_path):
    path = tmp_path / "layers.yaml"
    path.write_text(LAYERS)
    return path


def mapped(layers, *more, machine="tpu_like", mapping=DATA / "mapping" / "tpu_like.yaml"):
    given = ("--machine", DATA / "hardware" / f"{machine}.yaml", "--spatial", mapping)
    return run("map", layers, *given, "--objective", "energy", *more)


def test_json_says_energy_and_its_proof(layers):
    """The energy of all layers, of each layer, and of what each layer is made of; every number adds up."""
    result = mapped(layers, "--json", "-")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    conv, add = found["layers"]
    assert round(conv["energy_pj"]) == 68_294_569
    assert found["proven_best"]
    assert found["energy_pj"] == pytest.approx(conv["energy_pj"] + add["energy_pj"])
    for layer in (conv, add):
        parts = sum(flow["energy_pj"] for flow in layer["flows"]) + layer["mac_pj"]
        assert parts == pytest.approx(layer["energy_pj"])
        loops = {str(sorted(loop for level in levels for loop in level)) for levels in layer["temporal"].values()}
        assert len(loops) == 1
    assert add["spatial"] == [{"axis": "D1", "loop": "G", "factor": 32.0}]


def test_two_runs_print_the_same(layers):
    assert mapped(layers).output == mapped(layers).output


def test_text_shows_loops_and_energy(layers, golden):
    result = mapped(layers, "--sums", "final")
    assert result.exit_code == 0, result.output
    golden("map_on_tree.txt", result.output)


@pytest.mark.parametrize(
    "found, right, words",
    [
        ("K, 32", "K 32", "expected a loop and its factor, as in 'K, 32'"),
        ("    D2:", "    D7:", "has no axis D7; known: D1, D2"),
        ("- name: default", "- name: other", "no entry for layer conv2_2 (Conv) and no default"),
        ("    I: I1", "    I: I3", "I has no home: no memory of tpu_like holds I3"),
    ],
)
def test_a_wrong_mapping_is_refused_in_one_line(layers, tmp_path, found, right, words):
    text = (DATA / "mapping" / "tpu_like.yaml").read_text()
    assert found in text
    path = tmp_path / "mapping.yaml"
    path.write_text(text.replace(found, right, 1))
    result = mapped(layers, mapping=path)
    assert result.exit_code == 2
    assert words in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_an_open_axis_is_searched(layers, tmp_path):
    """What the mapping leaves open is never worse than any choice along it."""
    text = (DATA / "mapping" / "tpu_like.yaml").read_text()
    path = tmp_path / "open.yaml"
    path.write_text(text.replace("    D2:\n      - C, 32\n", "", 1))
    given = ("--layer", "1", "--json", "-")
    free, fixed = (
        json.loads(mapped(layers, *given, mapping=one).output) for one in (path, DATA / "mapping" / "tpu_like.yaml")
    )
    assert free["energy_pj"] <= fixed["energy_pj"]
    assert free["proven_best"]
    assert "D2: chosen by the search, one loop along each" in free["layers"][0]["notes"]


def test_constraints_hold_beside_a_spatial_mapping(layers, tmp_path):
    """An order of the innermost loops costs no less, and is that of the mapping; what is spread is said elsewhere."""
    fixed = tmp_path / "fixed.yaml"
    fixed.write_text("order: [FY, [OX, 8], FX]")
    given = ("--layer", "1", "--json", "-")
    free, held = (mapped(layers, *given, *more) for more in ((), ("--constraints", fixed)))
    assert held.exit_code == 0, held.output
    (layer,) = json.loads(held.output)["layers"]
    assert layer["proven_best"]
    assert json.loads(free.output)["energy_pj"] <= layer["energy_pj"]
    inner = [tuple(loop) for level in layer["temporal"]["O"] for loop in level]
    assert inner[:3] == [("FY", 3), ("OX", 8), ("FX", 3)]
    fixed.write_text("spatial: {D1: {K: 16}}")
    refused = mapped(layers, "--constraints", fixed)
    assert refused.exit_code == 2
    assert "fixes what is spread; leave spatial out" in refused.output
    fixed.write_text("order: [[FY, 2]]")
    refused = mapped(layers, "--constraints", fixed, "--layer", "1")
    assert refused.exit_code == 2
    assert "the order FY 2 does not divide the steps" in refused.output


@pytest.mark.parametrize(
    "given, words",
    [
        (("--top", "2"), "leave out --top"),
        (("--layer", "conv9"), "no such layer; known: 1 conv2_2, 2 Layer1"),
    ],
)
def test_what_has_no_meaning_on_trees_is_refused(layers, given, words):
    result = mapped(layers, *given)
    assert result.exit_code == 2
    assert words in result.output


@pytest.mark.parametrize("objective, power, of_cycles", [("latency", 0, 1), ("edp", 1, 1), ("ed2p", 1, 2)])
def test_each_objective_is_no_worse_than_any_other(layers, objective, power, of_cycles):
    """The best in an objective is a point of the front, and no point of the front is better in it."""
    (best,), (layer,) = (
        json.loads(run("map", layers, *ON_EYERISS, "--objective", one, "--layer", "conv2_2", "--json", "-").output)[
            "layers"
        ]
        for one in (objective, "pareto")
    )
    assert best["proven_best"]
    assert layer["proven_best"]
    values = [one["energy_pj"] ** power * one["latency_cycles"] ** of_cycles for one in layer["front"]]
    assert len(values) > 1
    assert best["energy_pj"] ** power * best["latency_cycles"] ** of_cycles == pytest.approx(min(values), rel=1e-12)
    assert best["edp_pj_cycles"] == pytest.approx(best["energy_pj"] * best["latency_cycles"])
    assert best["utilization"] == pytest.approx(best["macs"] / 168 / best["latency_cycles"])
    assert best["bound_cycles"] <= min(one["latency_cycles"] for one in layer["front"])


def test_the_front_is_shown(layers, golden):
    result = run("map", layers, *ON_EYERISS, "--objective", "pareto", "--layer", "conv2_2")
    assert result.exit_code == 0, result.output
    golden("front_on_tree.txt", result.output)


def test_a_layer_that_fits_no_memory_is_refused(layers, tmp_path):
    """The error says which memory, what it would have to hold and what it holds."""
    text = (DATA / "hardware" / "tpu_like.yaml").read_text().replace("size: 1024", "size: 7")
    path = tmp_path / "small.yaml"
    path.write_text(text)
    result = run(
        "map", layers, "--machine", path, "--spatial", DATA / "mapping" / "tpu_like.yaml", "--objective", "energy"
    )
    assert result.exit_code != 0
    assert "W needs at least 8 bits in rf_128B, which has 7" in result.output


@pytest.mark.parametrize("objective", ["energy", "latency", "pareto"])
def test_a_layer_that_operands_together_make_too_large_is_refused_at_once(objective, tmp_path):
    """The error has what each operand takes of a memory that each of them alone fits, and its size."""
    path = tmp_path / "small.yaml"
    path.write_text(TREE.replace("size: 4 GiB", "size: 1 KiB"))
    assert "size: 1 KiB" in path.read_text()
    line = "O[m,n] += I[m,k] * W[k,n]; m=16 n=16 k=32"
    result = run("map", line, "--machine", path, "--objective", objective)
    assert result.exit_code == 2
    assert (
        "in dram (I 8,192, W 8,192, O 4,096), which has 8,192. Try: a larger memory; a smaller layer." in result.stderr
    )


def test_a_folder_may_be_called_like_the_word_for_zigzag_s_rule(layers, tmp_path, monkeypatch):
    """As in a copy of ZigZag itself, where a folder `zigzag` has its program."""
    monkeypatch.chdir(tmp_path)
    for name in ("zigzag", "free"):
        Path(name).mkdir()
    result = mapped(layers, "--explain", "zigzag", "--layer", "conv2_2")
    assert result.exit_code == 0, result.output
    assert "the best with --sums final" in result.output
    result = run("map", "O[m,n] += I[m,k] * W[k,n]; m=8 n=8 k=8", "--machine", "gemmini", "--spatial", "free")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("objective", ["energy", "edp"])
def test_a_unit_of_narrower_elements_than_a_layer_has_says_so(objective, tmp_path):
    """A multiplier of int8 alone holds two weights of 8 bits: there is no room for two of 16."""
    chip = preset_text("toy").replace("rates: {float16: 1, int8: 2}", "rates: {int8: 1}")
    (tmp_path / "int8.yaml").write_text(chip)
    line = "C[m,n] += A[m,k] * B[k,n]; m=4 n=64 k=64"
    result = run("map", line, "--machine", tmp_path / "int8.yaml", "--objective", objective)
    assert result.exit_code == 2
    for said in ("mme.weights", "has 16", "16 in each of 2 buffers"):
        assert said in result.stderr
    assert "narrower elements (a quantised network, or `bits` in a file that says no units)" in result.stderr


def test_a_tree_of_our_own_is_mapped(layers, tmp_path):
    """Operands have the names of the layer; an axis takes only the loops that it names."""
    machine = tmp_path / "small.yaml"
    machine.write_text(TREE)
    given = ("--machine", machine, "--spatial", DATA / "mapping" / "tpu_like.yaml", "--objective", "energy")
    result = run("map", layers, *given, "--layer", "conv2_2", "--json", "-")
    assert result.exit_code == 0, result.output
    (layer,) = json.loads(result.output)["layers"]
    assert layer["proven_best"]
    assert layer["memories"]["O"] == ["rf", "buffer", "dram"]
    assert [(one["axis"], one["loop"], one["factor"]) for one in layer["spatial"]] == [
        ("D1", "K", 8.0),
        ("D2", "C", 8.0),
    ]
    machine.write_text(TREE.replace("loops: [C]", "loops: [K]"))
    (layer,) = json.loads(run("map", layers, *given, "--layer", "conv2_2", "--json", "-").output)["layers"]
    assert [one["factor"] for one in layer["spatial"]] == [8.0, 1.0]


def test_a_machine_with_windows_is_not_written_for_another_program(tmp_path):
    """None of them says windows, networks or even storage as ours does."""
    text = tilestitch.load_tree("tpu-like").yaml
    assert "size: 32" in text
    (tmp_path / "rows.yaml").write_text(text.replace("size: 32", "size: 32\n    networks: [{operands: [I1]}]", 1))
    layer = "O[m,n] += A[m,k] * B[k,n]; m=6 n=4 k=8"
    done = run("map", layer, "--machine", tmp_path / "rows.yaml", "--emit", "zigzag", "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert "--emit zigzag has no words for networks; emit from a machine without" in done.stderr


@pytest.mark.parametrize("sum_bits, said", [(8, False), (16, True)])
def test_files_for_other_programs_that_cost_more_there_say_so(tmp_path, sum_bits, said):
    """Sums have one width there; where it is that of elements the costs are ours."""
    (tmp_path / "two.yaml").write_text(
        f"""name: two
mac_pj: 1
bits: 8
sum_bits: {sum_bits}
latches: false
memories:
  - {{name: buffer, size: 1 KiB, operands: [I, W, O], serves: [], read_pj: 1, write_pj: 1, ports: [{{width_bits: 64}}]}}
  - {{name: dram, size: 1 MiB, operands: [I, W, O], serves: [], read_pj: 9, write_pj: 9, ports: [{{width_bits: 64}}]}}
"""
    )
    given = ("O[m,n] += I[m,k] * W[k,n]; m=4 n=4 k=4", "--machine", tmp_path / "two.yaml", "--emit", "timeloop")
    done = run("map", *given, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    assert ("these files cost more there than here" in done.stderr) == said
