"""`tilestitch.map` on machine trees gives what the command prints, as a value that shows itself."""

import json
from dataclasses import replace

import pytest

import tilestitch
from tests.helpers.command import run
from tests.helpers.pages import expect_alone, summary_of
from tilestitch import MapOptions, TreeOptions
from tilestitch.hardware.preset_files import preset_text

PRODUCT = "O[m,n] += A[m,k] * B[k,n]; m=6 n=4 k=8"


def test_a_tree_by_name_and_by_value_gives_what_the_command_prints(tmp_path):
    """To the byte, text and JSON."""
    path = tmp_path / "found.json"
    done = run("map", PRODUCT, "--machine", "tpu-like", "--objective", "energy", "--json", path)
    assert done.exit_code == 0
    for machine in ("tpu-like", tilestitch.load_tree("tpu-like")):
        found = tilestitch.map(PRODUCT, machine, TreeOptions("energy"))
        assert found.to_json() == path.read_text()
        assert str(found) in done.output


def test_a_result_on_a_tree_is_a_table_in_a_notebook():
    found = tilestitch.map(PRODUCT, "tpu-like", TreeOptions("energy"))
    (row,) = found.records()
    assert (len(found), next(iter(found)), found[0].found.is_proven) == (1, found[0], True)
    assert row["energy_pj"] == json.loads(found.to_json())["energy_pj"]
    assert "tpu-like" in found._repr_html_()
    assert len(repr(found)) < 100
    assert f"{row['cycles']:,} cycles" in found.heading()


def test_a_result_on_a_tree_has_the_page_of_the_command(tmp_path):
    """To the byte; without a command the page says a call that gives it again, whatever named network and machine."""
    path = tmp_path / "page.html"
    arguments = ("--machine", "tpu-like", "--objective", "latency", "--effort", 5000, "--html", path)
    assert run("map", PRODUCT, *arguments).exit_code == 0
    page = path.read_text()
    options = TreeOptions("latency", effort=5000)
    found = tilestitch.map(PRODUCT, "tpu-like", options)
    assert found.to_html(summary_of(page)["command"]) == page
    expect_alone(found.to_html())
    assert eval(summary_of(found.to_html())["command"], {"tilestitch": tilestitch}) == found.to_html()
    by_value = tilestitch.map("alexnet:small", tilestitch.load_tree("tpu-like"), options, layers=["fc8"], fold_bn=False)
    said = summary_of(by_value.to_html())["command"]
    assert "'alexnet:small', 'tpu-like'" in said
    assert "layers=['fc8'], fold_bn=False" in said
    assert eval(said, {"tilestitch": tilestitch}) == by_value.to_html()


def test_an_array_still_gives_mappings_of_arrays():
    assert isinstance(tilestitch.map(PRODUCT), tilestitch.NetworkMapping)


def test_uneven_storage_of_an_array_gives_mappings_on_its_tree():
    found = tilestitch.map(PRODUCT, "eyeriss", TreeOptions("energy", uneven=True))
    assert isinstance(found, tilestitch.NetworkOnTree)
    even = tilestitch.map(PRODUCT, "eyeriss", MapOptions("energy"))
    assert found[0].found.is_proven
    assert found[0].found.price.energy_pj <= even[0].prices[0].energy_pj * (1 + 1e-12)


@pytest.mark.parametrize(
    "machine, options, message",
    [
        ("tpu-like", MapOptions(), "options: expected TreeOptions for a tree"),
        ("dmazerunner-256", TreeOptions(), "TreeOptions go with a machine that is a tree"),
        ("tpu-like", TreeOptions("energy", uneven=True), "--storage goes with a PE array"),
        (tilestitch.load_tree("eyeriss"), TreeOptions("energy", uneven=True), "uneven goes with the name or file"),
        ("tpu-like", TreeOptions("speed"), "objective 'speed': expected one of"),
        ("tpu-like", TreeOptions(effort=0), "effort: expected at least 1"),
        ("tpu-like", TreeOptions(utilization=2.0), "utilization: expected a share from 0 to 1"),
        ("tpu-like", replace(TreeOptions(spatial="mapping.yaml"), ragged=True), "spatial fixes what is spread"),
        ("tpu-like", TreeOptions(utilization=1.0), "no choice of what to spread uses 100% of 1,024 units"),
    ],
)
def test_what_makes_no_sense_is_refused(machine, options, message):
    with pytest.raises(tilestitch.TilestitchError, match=message):
        tilestitch.map(PRODUCT, machine, options)


@pytest.mark.parametrize("machine", ["ascend-like", "edge-tpu-like", "meta-prototype", "tesla-npu-like"])
def test_networks_map_on_machines_whose_registers_hold_a_byte(machine):
    """Layers of networks have 16 bits where the machine says nothing, and no room in a register of 8 then."""
    (row,) = tilestitch.map("resnet18:small", machine, TreeOptions("energy"), layers=["fc"]).records()
    assert row["proven_best"]


@pytest.mark.parametrize("objective", ["edp", "pareto"])
def test_a_memory_without_room_for_an_element_is_named(tmp_path, objective):
    path = tmp_path / "wide.yaml"
    text = preset_text("tesla-npu-like")
    path.write_text(text.replace("\nbits: 8", "\nbits: 16").replace("sum_bits: 16", "sum_bits: 32"), encoding="utf-8")
    with pytest.raises(tilestitch.TilestitchError, match="rf_1B has 8 bits, an element of B 16") as found:
        tilestitch.map("resnet18:small", str(path), TreeOptions(objective), layers=["fc"])
    assert "`bits` in a file" in str(found.value)


def test_a_memory_without_room_for_a_result_is_named(tmp_path):
    path = tmp_path / "narrow.yaml"
    text = preset_text("tesla-npu-like").replace("name: rf_4B\n    size: 4", "name: rf_4B\n    size: 4 b")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(tilestitch.TilestitchError, match="rf_4B has 4 bits, an element of O 8"):
        tilestitch.map(PRODUCT, str(path), TreeOptions("edp"))
