"""The machines as trees that come with the package."""

import importlib.util
import json
import re
from fractions import Fraction
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from tilestitch.base.errors import InputError
from tilestitch.formats.zigzag.tree_machine import zigzag_tree
from tilestitch.formats.zigzag.tree_mapping import chosen_mapping, placed_layer, zigzag_tree_mappings
from tilestitch.formats.zigzag.tree_workload import zigzag_tree_layers
from tilestitch.hardware.load import load_machine
from tilestitch.hardware.preset_files import chip_names, preset_lines, preset_names, preset_text
from tilestitch.hardware.tree import Axis
from tilestitch.hardware.tree_describe import branches
from tilestitch.hardware.tree_load import has_array, load_tree
from tilestitch.mapping.tree.chain import TreeMapping, price
from tilestitch.mapping.tree.search import best_mapping
from tilestitch.mapping.tree.tables import Sums

ROOT = Path(__file__).parent.parent.parent
ZIGZAG = ROOT / "tests" / "data" / "zigzag"
PRESETS = ROOT / "src" / "tilestitch" / "hardware" / "presets" / "trees"
CONVERTED = sorted(path.stem for path in (ZIGZAG / "hardware").glob("*.yaml") if path.stem not in ("aimc", "dimc"))
OURS = ("a100", "gemmini", "h200", "nvdla", "simba", "tpu-v4i")


def preset_of(machine):
    return machine.replace("_", "-")


@cache
def converter():
    spec = importlib.util.spec_from_file_location("zigzag_trees", ROOT / "examples" / "zigzag_trees.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def recorded():
    return json.loads((ZIGZAG / "chains.json").read_text())


@cache
def placed(tree, mapping, layer):
    entries, _ = zigzag_tree_mappings((ZIGZAG / "mapping" / f"{mapping}.yaml").read_text(), mapping)
    given = next(one for one in recorded()["layers"] if one["name"] == layer)
    (found,), _ = zigzag_tree_layers(json.dumps([given]), layer)
    (nest,), _ = placed_layer(found, chosen_mapping(found, entries, mapping), tree)
    return nest


def test_the_presets_are_zigzags_nine_and_five_of_ours():
    assert len(CONVERTED) == 9
    assert set(preset_names()) - set(chip_names()) == {*map(preset_of, CONVERTED), *OURS}


@pytest.mark.parametrize("machine", CONVERTED)
def test_a_preset_of_zigzag_is_what_the_converter_writes(machine):
    """Byte for byte, from the file of the package."""
    text = (ZIGZAG / "hardware" / f"{machine}.yaml").read_text()
    assert converter().tree_file(text, f"{machine}.yaml") == preset_text(preset_of(machine))


@pytest.mark.parametrize("machine", CONVERTED)
def test_a_preset_of_zigzag_has_the_prices_of_its_file(machine):
    """Of recorded chains, to the last bit: what a comment says is left out changes no price."""
    original, _ = zigzag_tree((ZIGZAG / "hardware" / f"{machine}.yaml").read_text(), machine)
    preset = load_tree(preset_of(machine))
    chains = [one for one in recorded()["chains"] if one["machine"] == machine]
    assert len(chains) >= 28
    for chain in chains[:: len(chains) // 14]:
        nests = [placed(tree, chain["mapping"], chain["layer"]) for tree in (original, preset)]
        assert nests[0].unrolled == nests[1].unrolled
        numbers = {loop.name: number for number, loop in enumerate(nests[0].nest.loops)}
        words = chain["loops"].split()
        loops = tuple((numbers[name], int(size)) for name, size in zip(words[::2], words[1::2], strict=True))
        mapping = TreeMapping(loops, tuple(tuple(chain["cuts"][array.name]) for array in nests[0].operands))
        assert price(nests[0], mapping) == price(nests[1], mapping)


@pytest.mark.parametrize(
    "machine, energy_pj",
    [("tpu-like", 68_294_568.736), ("eyeriss-like", 703_363_157.0)],
)
def test_the_least_energy_on_a_preset_is_that_on_zigzags_file(machine, energy_pj):
    """Of conv2_2, with sums at full width."""
    found = best_mapping(placed(load_tree(machine), machine.replace("-", "_"), "conv2_2"), Sums.FULL)
    assert found.price.energy_pj == pytest.approx(energy_pj, abs=5e-4)
    assert found.is_proven


@pytest.mark.parametrize("name", OURS)
def test_every_number_of_our_presets_has_a_source_or_is_assumed(name):
    """A comment on its line; the energies of machines that publish none are assumed."""
    text = preset_text(name)
    for line in text[text.index("\nname:") :].splitlines():
        key = line.strip().removeprefix("- ").partition(":")[0]
        if key in ("size", "read_pj", "write_pj", "clock", "mac_pj", "area_mm2", "mac_area_mm2"):
            assert "# " in line, line
        if key in ("read_pj", "write_pj", "mac_pj"):
            assert "# assumed" in line or name == "tpu-v4i", line


@pytest.mark.parametrize(
    "name, units, peak",
    [
        ("gemmini", 256, Fraction(512 * 10**9)),
        ("nvdla", 2048, Fraction(4096 * 10**9)),
        ("simba", 36 * 1024, Fraction(36 * 401, 100) * 10**12),
        ("tpu-v4i", 65536, Fraction(1376, 10) * 10**12),
        ("a100", 108 * 1024, Fraction(312) * 10**12),
        ("h200", 132 * 2048, Fraction(9894, 10) * 10**12),
    ],
)
def test_a_preset_has_the_peak_of_its_source(name, units, peak):
    """Units and operations a second: Simba 4.01 TOPS a chip, TPU v4i 138 TFLOPS, A100 312 in float16, H200 989.4."""
    tree = load_tree(name)
    assert tree.units == units
    assert float(2 * tree.units * tree.clock_hz / peak) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("name", preset_names())
def test_a_tree_shows_itself(name, golden):
    """As text with every memory and port, as a picture that is XML, and as a page for a notebook."""
    tree = load_tree(name)
    page = tree.page()
    golden(f"trees/{name}.txt", page)
    for memory in tree.memories:
        assert f"{memory.name}: " in page
        for port in memory.ports:
            assert f"port {port.name}: " in page
    (picture,) = tree.pictures()
    drawn = "".join(ElementTree.fromstring(picture).itertext())
    assert all(memory.name in drawn for memory in tree.memories)
    assert "units" in drawn
    html = tree._repr_html_()
    assert picture.strip() in html
    assert tree.heading().partition(":")[0] in html


def test_the_picture_leads_every_operand_to_the_units():
    """Of tpu-like results by a branch, and by dashed lines weights, and inputs, which have no register there."""
    (picture,) = load_tree("tpu-like").pictures()
    lines = re.findall(r"<line [^>]*>", picture)
    assert len(lines) == 4 + 2
    assert sum("dasharray" in line for line in lines) == 2
    assert "x 1,024: D1, D2" in picture


@pytest.mark.parametrize("name", preset_names())
def test_a_branch_has_every_memory_once_and_the_units(name):
    tree = load_tree(name)

    def walked(branch):
        yield branch.memory
        for inner in branch.inside:
            yield from walked(inner)

    found = [memory for branch in branches(tree) for memory in walked(branch)]
    assert found.count(None) == 1
    assert sorted(memory.name for memory in found if memory is not None) == sorted(one.name for one in tree.memories)


def test_what_lists_say_is_what_the_files_say():
    """Lists read only what they say."""
    for line in preset_lines():
        numbers = dict(line.numbers)
        if line.form == "tree":
            tree = load_tree(line.name)
            assert (line.description, numbers) == (
                tree.description,
                {"units": tree.units, "memories": len(tree.memories)},
            )
        else:
            chip = load_machine(line.name)
            cores = len(chip.cores)
            assert line.description == chip.description
            assert numbers == {"clusters": chip.clusters, "cores_per_cluster": cores, "clock_hz": chip.clock_hz}


def test_what_compile_does_not_take_is_refused(tmp_path):
    """In one sentence that says what is missing; every machine has a tree."""
    file = tmp_path / "mine.yaml"
    file.write_text(preset_text("tpu-like"))
    for machine in ("tpu-like", str(file)):
        with pytest.raises(InputError, match="does not take it yet, because it says no clock") as told:
            load_machine(machine)
        assert "\n" not in str(told.value)
    assert [name for name in preset_names() if has_array(name)] == ["dmazerunner-256", "eyeriss"]
    with pytest.raises(InputError, match="found neither; the closest is 'tpu-like'"):
        load_tree("tpu-lik")
    with pytest.raises(InputError, match="none of its cores has a matrix unit or an array, so nothing can be mapped"):
        load_tree(yaml.safe_load(preset_text("toy").replace("matrix: mme, ", "")))


def test_a_matrix_unit_has_its_axes_and_what_it_holds_still_in_the_tree():
    """A weight in each multiplier, or a sum in those of a row and a column; loops by the operands that they index."""
    still, sums = load_tree("toy"), load_tree("ascend910")
    assert still.axes == (
        Axis("mme.k", 16, (), ("I", "W")),
        Axis("mme.n", 8, (), ("W", "O")),
        Axis("core", 2),
        Axis("cluster", 2),
    )
    assert [memory.name for memory in still.chain("W")] == ["mme.weights", "weights", "gb", "ddr"]
    assert [memory.name for memory in still.chain("O")] == ["accumulators", "lb", "gb", "ddr"]
    assert still.instances(still.memories[0]) == still.units == 512
    assert sums.chain("O")[0].serves == ("cube.k",)
    assert sums.axes[0] == Axis("cube.m", 16, (), ("I", "O"))


def test_of_unlike_cores_the_tree_has_those_that_multiply():
    """Goya has one engine, which works in the shared memory, beside eight vector cores."""
    goya = load_tree("goya")
    assert [axis.name for axis in goya.axes] == ["gemm.k", "gemm.n"]
    assert [memory.name for memory in goya.memories] == ["gemm.weights", "accumulators", "gb", "ddr"]


def test_a_tree_is_read_from_a_dict_and_says_its_yaml():
    given = {
        "name": "one",
        "mac_pj": 1,
        "memories": [
            {
                "name": "dram",
                "size": "1 MiB",
                "operands": ["I", "W", "O"],
                "read_pj": 2,
                "write_pj": 2,
                "serves": [],
                "ports": [{"width_bits": 8}],
            }
        ],
    }
    tree = load_tree(given)
    assert tree.memories[0].size_bits == 2**23
    assert tree.records()[0]["bandwidth_bits_per_cycle"] == 8
    assert "size: 1 MiB" in tree.yaml
