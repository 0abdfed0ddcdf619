"""`tilestitch explore` on machines that are no chips: layers are mapped on their trees."""

import json

import pytest
import yaml

import tilestitch
from tests.helpers.command import run
from tests.helpers.npu_tree import TREE
from tests.helpers.zigzag_trees import LAYERS
from tests.helpers.zigzag_trees import TREE as ZIGZAG_TREE
from tilestitch import TreeOptions
from tilestitch.base.errors import InputError
from tilestitch.commands.explore.run import ExploreOptions
from tilestitch.hardware.tree_load import load_tree

PRODUCT = "C[m,n] += A[m,k] * B[k,n]; m=16 n=16 k=16"
WORDS = ("explore", PRODUCT, "--workers", 1, "--json", "-")
AREAS = TREE.replace("mac_pj: 0.5", "mac_pj: 0.5\nmac_area_mm2: 0.001").replace("buffers: 2", "area_mm2: 0.25")
AREAS = AREAS.replace(", loops: [C]", "")


def explored(*words, machine="tpu-v4i"):
    result = run(*WORDS, "--machine", machine, *words)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def metrics(design):
    (point,) = design["points"]
    return {metric["name"]: metric["value"] for metric in point["metrics"]}


def refusal(*words, machine="tpu-v4i"):
    result = run(*WORDS, "--machine", machine, *words)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    return line


@pytest.fixture
def with_areas(tmp_path):
    path = tmp_path / "areas.yaml"
    path.write_text(AREAS)
    return path


def test_a_point_is_what_map_says_of_that_machine(tmp_path):
    """Cycles, energy and seconds for the file that the front has of the machine; axes, sizes and ports are varied."""
    varied = ("axes.rows.size=8,32", "memories.vmem.size=1024", "memories.hbm.ports.hbm.bandwidth=100 GB/s,614 GB/s")
    words = [word for one in varied for word in ("--vary", one)]
    found = explored(*words, "-o", tmp_path, "--least", "energy")
    assert len(found["designs"]) == 4
    (front,) = found["fronts"]
    assert front["designs"]
    for number in front["designs"]:
        machine = tmp_path / "machines" / f"{number}.yaml"
        mapped = json.loads(run("map", PRODUCT, "--machine", machine, "--objective", "energy", "--json", "-").stdout)
        values = metrics(found["designs"][number])
        assert values["energy"] == pytest.approx(mapped["energy_pj"], rel=1e-12)
        assert values["cycles"] == mapped["latency_cycles"]
        assert values["latency"] == mapped["latency_cycles"] / 1.05e9
        rows = int(found["designs"][number]["values"]["axes.rows.size"])
        assert values["macs"] == 4 * rows * 128
        assert values["memory"] == 4 * rows * 128 + 4 * 1024 + 128 * 2**20
        outermost = [flow["accesses"] * 512 for flow in mapped["layers"][0]["flows"] if flow["memory"] == "hbm"]
        assert values["traffic"] == sum(outermost) / 8
    assert len({metrics(design)["cycles"] for design in found["designs"]}) > 1


def test_area_follows_units_and_sizes(with_areas):
    """Of units and memories, as often as they are there; of a memory in proportion to its size."""
    sizes = ("--vary", "memories.buffer.size=64 KiB,128 KiB", "--vary", "axes.columns.size=8,16")
    found = explored(*sizes, "--objective", "cycles", "--objective", "area", machine=with_areas)
    areas = [metrics(design)["area"] for design in found["designs"]]
    assert areas == pytest.approx([0.25 + 0.064, 0.25 + 0.128, 0.5 + 0.064, 0.5 + 0.128], rel=1e-12)
    stated = ("--vary", "memories.buffer.size=128 KiB", "--vary", "memories.buffer.area_mm2=0.3")
    (design,) = explored(*stated, machine=with_areas)["designs"]
    assert metrics(design)["area"] == pytest.approx(0.3 + 0.128, rel=1e-12)


def test_without_a_clock_cycles_are_compared(with_areas):
    """Where nobody says otherwise; seconds are refused."""
    vary = ("--vary", "axes.rows.size=2,8")
    found = explored(*vary, machine=with_areas)
    assert [one["name"] for one in found["objectives"]] == ["cycles", "energy"]
    assert "latency" not in metrics(found["designs"][0])
    assert "the machine has no clock; write clock" in refusal(*vary, "--objective", "latency", machine=with_areas)


def test_positions_are_written_as_in_messages_too(with_areas):
    """`ports[0]`, as mistakes in a file are told, and `ports.0` are one place."""
    found = [
        explored("--vary", f"memories.buffer.{port}.width_bits=64,128", machine=with_areas)["designs"]
        for port in ("ports[0]", "ports.0")
    ]
    assert [metrics(one) for one in found[0]] == [metrics(one) for one in found[1]]
    assert len(found[0]) == 2
    assert "expected a position" in refusal("--vary", "memories.buffer.ports[7].width_bits=64", machine=with_areas)


def test_a_design_on_which_nothing_fits_says_why(with_areas):
    found = explored("--vary", "memories.buffer.size=1,64 KiB", machine=with_areas)
    reasons = [design["points"][0]["infeasible"] for design in found["designs"]]
    assert "no choice of what to spread has a mapping that fits the memories" in reasons[0]
    assert not reasons[1]


def test_sizes_scale_energies():
    """x 1.5 for a memory twice as large, of all but the outermost, as on chips."""
    vary = {"memories.scratchpad.size": ["256 KiB", "512 KiB"]}
    found = tilestitch.explore(PRODUCT, load_tree("gemmini"), vary, ExploreOptions(scale_energy=True), workers=1)
    trees = [yaml.safe_load(found.space.machine_text(design)) for design in (0, 1)]
    assert [float(tree["memories"][2]["read_pj"]) for tree in trees] == [108, 162]
    assert [tree["memories"][3]["read_pj"] for tree in trees] == [1600, 1600]


@pytest.mark.parametrize(
    "words, message",
    [
        (("--vary", "bandwidth=4,8"), "--vary bandwidth: is a short name of what chips have; vary something by its"),
        (("--vary", "axes.rows.size=8", "--by", "simulate"), "--by simulate runs on chips; this machine has no cores"),
        (("--vary", "axes.rows.size=8", "--mode", "published"), "are of machines with a PE array; leave out --mode"),
        (("--vary", "axes.rows.size=0"), "axes.rows.size: expected a whole number of units above 0, found 0"),
        (("--vary", "axes.row.size=8"), "axes.row"),
        (("--vary", "axes=8"), "is not a single value; vary one inside"),
        (("--vary", "axes.rows.size=8", "--storage", "uneven"), "tpu-v4i: uneven storage goes with a PE array"),
    ],
)
def test_what_a_tree_has_not_is_refused_in_one_line(words, message):
    assert message in refusal(*words)


@pytest.fixture
def fixed(tmp_path):
    """Constraints on the TPU v4i, which arrays of fewer than 8 rows cannot keep."""
    path = tmp_path / "fixed.yaml"
    path.write_text("{spatial: {rows: {k: 8}}, memories: {vmem: {share: {I: 0.5}}}, order: [m]}")
    return path


def test_what_is_fixed_counts_on_every_design(fixed, tmp_path):
    """A point is what `map` says with the same options; a design that they leave no mapping says why."""
    given = ("--constraints", fixed, "--utilization", "0.0005", "--sums", "final", "--ragged")
    found = explored("--vary", "axes.rows.size=4,8,32", "-o", tmp_path / "out", *given)
    assert "k 8 along rows needs 8 units, of which rows has 4" in found["designs"][0]["points"][0]["infeasible"]
    said = "at least 0.0005 of the units have work, constraints of fixed.yaml, sums final"
    assert said in json.dumps(found)
    (front,) = found["fronts"]
    for number in front["designs"]:
        machine = tmp_path / "out" / "machines" / f"{number}.yaml"
        mapped = json.loads(run("map", PRODUCT, "--machine", machine, *given, "--json", "-").stdout)
        values = metrics(found["designs"][number])
        assert values["energy"] == pytest.approx(mapped["energy_pj"], rel=1e-12)
        assert values["cycles"] == mapped["latency_cycles"]


def test_points_with_other_constraints_are_others(fixed, tmp_path):
    """The text counts, not the name of its file."""
    words = ("--vary", "axes.rows.size=8", "--store", tmp_path / "points.sqlite", "--constraints", fixed)
    first, again = explored(*words), explored(*words)
    assert first["run"]["from_store"] == 0
    assert again["run"]["from_store"] == 1
    fixed.write_text("{spatial: {rows: {k: 4}}}")
    assert explored(*words)["run"]["from_store"] == 0


def test_layers_and_mappings_of_zigzag_are_taken_as_they_are(tmp_path):
    """With the widths of their sums; what their file spreads is fixed on every design."""
    (tmp_path / "layers.yaml").write_text(LAYERS.replace("64", "8").replace("56", "4"))
    (tmp_path / "small.yaml").write_text(ZIGZAG_TREE)
    (tmp_path / "spread.yaml").write_text("[{name: default, spatial_mapping: {D1: ['K, 4'], D2: ['C, 4']}}]")
    machine = ("--machine", tmp_path / "small.yaml")
    for given in ((), ("--spatial", tmp_path / "spread.yaml")):
        vary = ("--vary", "memories.buffer.size=128 KiB", "--objective", "cycles", "--workers", 1, "--json", "-")
        result = run("explore", tmp_path / "layers.yaml", *machine, *vary, *given)
        assert result.exit_code == 0, result.stderr
        (design,) = json.loads(result.stdout)["designs"]
        mapped = json.loads(run("map", tmp_path / "layers.yaml", *machine, *given, "--json", "-").stdout)
        assert metrics(design)["energy"] == pytest.approx(mapped["energy_pj"], rel=1e-12)
        assert metrics(design)["cycles"] == mapped["latency_cycles"]


def test_an_array_is_explored_with_uneven_storage(tmp_path):
    """The least energy is that of `map --storage uneven`, and no more than that of even storage."""
    words = ("--vary", "spm=131072", "--least", "energy", "--objective", "energy")
    (design,) = explored(*words, "--storage", "uneven", "-o", tmp_path, machine="eyeriss")["designs"]
    asked = ("map", PRODUCT, "--machine", tmp_path / "machines" / "0.yaml", "--objective", "energy", "--json", "-")
    mapped = json.loads(run(*asked, "--storage", "uneven").stdout)
    assert metrics(design)["energy"] == pytest.approx(mapped["energy_pj"], rel=1e-12)
    (even,) = explored(*words, machine="eyeriss")["designs"]
    assert metrics(design)["energy"] <= metrics(even)["energy"] * (1 + 1e-12)


@pytest.mark.parametrize(
    "text, message",
    [
        ("{spatial: {row: {k: 8}}}", "fixed.yaml: spatial.row: no axis has this name; known: "),
        ("{order: [q]}", "fixed.yaml: no layer has a loop q; known: m, n, k"),
    ],
)
def test_constraints_that_say_nothing_are_refused_before_anything_runs(fixed, text, message):
    fixed.write_text(text)
    assert message in refusal("--vary", "axes.rows.size=8", "--constraints", fixed)


def test_options_of_trees_are_refused_on_chips_and_arrays(fixed):
    assert "go with --storage uneven, or a tree as --machine; leave out --constraints" in refusal(
        "--vary", "spm=65536", "--constraints", fixed, machine="eyeriss"
    )
    assert "--sums belongs to --by map, and this is --by simulate" in refusal(
        "--vary", "bandwidth=4", "--sums", "final", machine="toy"
    )


@pytest.mark.parametrize(
    "machine, options, message",
    [
        ("gemmini", TreeOptions("pareto"), "pareto is a front"),
        ("gemmini", TreeOptions("energy", uneven=True), "uneven storage goes with a PE array"),
        ("gemmini", TreeOptions(utilization=2), "utilization: expected a share from 0 to 1"),
        ("gemmini", TreeOptions(spatial="x.yaml", ragged=True), "leave out ragged, utilization and energies"),
        ("eyeriss", TreeOptions(), "TreeOptions go with a tree, or with a PE array and uneven"),
    ],
)
def test_options_that_say_nothing_are_refused(machine, options, message):
    vary = {"clock": ["1 GHz"]} if machine == "gemmini" else {"spm": [65536]}
    with pytest.raises(InputError, match=message):
        tilestitch.explore(PRODUCT, machine, vary, ExploreOptions(mapping=options), workers=1)


def test_area_needs_areas():
    words = ("--objective", "area")
    assert "which this machine does not say" in refusal("--vary", "axes.rows.size=8", *words, machine="gemmini")
    assert "it is a chip" in refusal("--vary", "bandwidth=4", *words, machine="toy")


def test_a_machine_is_a_dict_as_well():
    machine = yaml.safe_load(AREAS)
    found = tilestitch.explore(PRODUCT, machine, {"axes.rows.size": [2, 8]}, workers=1)
    again = tilestitch.explore(PRODUCT, machine, {"axes.rows.size": "2,8"}, workers=1)
    assert str(found) == str(again)
    assert "axes.rows.size: 2, 8" in str(found)
