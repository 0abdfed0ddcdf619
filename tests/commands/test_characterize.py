"""The study of synthetic layers: the shapes that it must show, its pictures and tables, the command."""

import csv
import io
import json
import math
import xml.etree.ElementTree as ET
from functools import cache

import numpy as np
import pytest

from tests.helpers.command import names_in, run
from tests.helpers.fused_plans import MODEL
from tilestitch.base.errors import InputError
from tilestitch.commands.characterize.characterize_text import ORIGIN, curve_csv, layers_csv, study_json, study_text
from tilestitch.commands.characterize.study import Study, repeated, study_of
from tilestitch.hardware.load import load_machine
from tilestitch.partition.blocks.dlfusion import repeated_arithmetic
from tilestitch.partition.blocks.synthetic import GRID, Convolution, Score, fit, layer_times, stack, stack_times
from tilestitch.report.curves import Axis, Curve, Series
from tilestitch.report.svg import curve_svg

pytestmark = pytest.mark.quick


@cache
def study(machine: str) -> Study:
    return study_of(load_machine(machine))


def curve(name: str, machine: str = "mlu100") -> Curve:
    (found,) = (curve for curve in study(machine).curves if curve.name == name)
    return found


def place(dot: ET.Element) -> tuple[float, float]:
    """Where a circle is."""
    return float(dot.attrib["cx"]), float(dot.attrib["cy"])


# The shapes


@pytest.mark.parametrize("column, cores", list(enumerate(MODEL.core_counts)))
def test_the_rate_rises_with_operations_and_flattens_at_the_peak(column, cores):
    """Of layers that keep cores busy: as a line through the origin at first, near all cores' peak in the end."""
    every = zip(GRID, layer_times(MODEL)[:, column], strict=True)
    rates = dict(curve("saturation").series[column].points)
    values = [rates[operations] for operations in sorted(rates)]
    assert values == sorted(values)
    assert values[1] / values[0] == pytest.approx(4, rel=0.01)  # four times the operations in the same time
    busy = max(layer.extent / math.ceil(layer.extent / cores) for layer in GRID)  # cores; the last strip may be small
    assert 0.99 < values[-1] * 1e9 / (MODEL.core_flops * busy) < 1
    assert max(1e3 * layer.operations / time for layer, time in every) == pytest.approx(values[-1])


def test_layers_of_equal_operations_are_slower_with_few_channels():
    """They fill the multipliers in part only: 4 channels a sixteenth of 16 by 16."""
    for series in curve("channels").series:
        rates = dict(series.points)
        if 4 in rates:
            assert rates[8] > 3 * rates[4]
            assert rates[16] > 2 * rates[8]
        assert rates[64] > rates[16]


def test_the_best_core_number_grows_with_operations_to_all_cores():
    """By powers of ten, from one to 32; the fitted function grows so, and hardly depends on channels."""
    bands: dict[int, list[float]] = {}
    for layer, cores in zip(GRID, study("mlu100").best_cores, strict=True):
        bands.setdefault(len(str(layer.operations)), []).append(math.log2(cores))
    means = [sum(bands[power]) / len(bands[power]) for power in sorted(bands)]
    assert means == sorted(means)
    assert means[0] == 0
    assert means[-1] == 5
    found = fit(MODEL)
    assert 0.25 < found.operations < 0.35
    assert abs(found.channels) < 0.5 * found.operations


def test_small_layers_lose_on_many_cores():
    """And large ones gain: the curves of speed-up cross."""
    gains = [dict(series.points) for series in curve("cores").series]
    assert gains[0][32] < 1 < gains[0][2]
    assert max(gains[-1], key=gains[-1].__getitem__) == 32
    best = [max(found.values()) for found in gains]
    assert best == sorted(best)


@pytest.mark.parametrize("layer, cores", [(Convolution(56, 64, 3), 8), (Convolution(112, 32, 5), 4), (GRID[9], 7)])
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_what_is_computed_again_is_the_closed_form(layer, cores, depth):
    """(n - 1)(k - 1) / 2r as long as the halo ends inside the image; and it is what the block model computes."""
    rows = layer.extent // cores
    assert layer.extent % cores == 0
    if rows + (depth - 1) * (layer.kernel - 1) <= layer.extent:
        assert repeated(layer, cores, depth) == pytest.approx((depth - 1) * (layer.kernel - 1) / (2 * rows))
    block = repeated_arithmetic(stack(MODEL, layer, depth), range(depth), cores)
    assert repeated(layer, cores, depth) == pytest.approx(block)


def test_fusion_helps_first_and_harms_later_and_sooner_on_more_cores():
    """On one core it only helps; on several the best depth is inside, and deep stacks lose."""
    gains = {series.label: dict(series.points) for series in curve("fusion-14x256").series}
    alone = gains.pop("1 core")
    assert [alone[depth] for depth in sorted(alone)] == sorted(alone.values())
    for found in gains.values():
        best = max(found, key=found.__getitem__)
        assert 1 < best < 8
        assert found[best] > 1 > found[max(found)]
    early = {series.label: dict(series.points) for series in curve("fusion-56x64").series}
    best = [max(found, key=found.__getitem__) for found in early.values()]
    assert best[0] > best[-1]


def test_more_layers_no_longer_help_once_a_core_has_enough():
    """A stack of layers each of which saturates a core gains next to nothing on one core, and loses on eight."""
    enough = Convolution(112, 256, 3)
    assert enough.operations / 8 > study("mlu100").critical_operations
    times = stack_times(MODEL, enough, 4)
    one, eight = (MODEL.core_counts.index(cores) for cores in (1, 8))
    assert times[3, one] > 0.98 * 4 * times[0, one] or times[3, one] < 0
    assert times[3, eight] > 4 * times[0, eight] or times[3, eight] < 0


def test_least_squares_is_the_better_fit():
    """It has the least error by what it is; the first principal component is another line through the same layers."""
    least, principal = (fit(MODEL, score) for score in Score)
    assert least.error < principal.error < 1
    wanted = np.log2(study("mlu100").best_cores)
    for found in (least, principal):
        off = [
            math.log2(found.cores(layer.operations, layer.channels)) - value
            for layer, value in zip(GRID, wanted, strict=True)
        ]
        assert math.sqrt(sum(value**2 for value in off) / len(off)) == pytest.approx(found.error)
    assert all(1 <= found.mean_slowdown < found.worst_slowdown for found in study("mlu100").fits)


# What is written


@pytest.mark.parametrize("machine", ["toy", "tpu-v1", "ipu-mk1", "stcp920"])
def test_other_machines_can_be_studied(machine):
    """Of one core to more than a thousand; each value is a number, and a machine of one core needs no prediction."""
    found = study(machine)
    value = json.loads(study_json(found))
    assert value["estimated"] is True
    assert value["critical_operations"] > 0
    assert len(value["layers"]) == len(GRID)
    assert "estimated" in study_text(found)
    if machine == "tpu-v1":
        assert set(found.best_cores) == {1}
        assert all(fit.worst_slowdown == 1 for fit in found.fits)


def test_a_machine_without_a_block_model_is_refused():
    """In one sentence, with the way out."""
    with pytest.raises(InputError, match=r"machine goya: has a core without a matrix unit.*such as mlu100"):
        study_of(load_machine("goya"))


def test_tables_hold_what_was_priced():
    """A row for each layer, its times, the best core number."""
    rows = list(csv.DictReader(io.StringIO(layers_csv(study("mlu100")))))
    assert len(rows) == len(GRID)
    for layer, row, times in zip(GRID, rows, layer_times(MODEL), strict=True):
        assert int(row["operations"]) == layer.operations
        found = [int(value) for name, value in row.items() if name.endswith("(ps): estimated")]
        assert found == times.tolist()
        assert int(row["best cores: estimated"]) == MODEL.core_counts[found.index(min(found))]
    for one in study("mlu100").curves:
        assert len(list(csv.DictReader(io.StringIO(curve_csv(one))))) == sum(
            len(series.points) for series in one.series
        )


def test_a_picture_has_a_point_for_each_value_inside_its_frame():
    """At places in the order of the values."""
    shown = Curve(
        "x",
        "rate & more",
        Axis("operations", "", logarithmic=True),
        Axis("rate", "GFLOP/s", logarithmic=False),
        (Series("<one>", ((10, 0), (1000, 7))), Series("two", ((100, 3.5),))),
    )
    tree = ET.fromstring(curve_svg(shown, "toy", origin=ORIGIN))
    space = "{http://www.w3.org/2000/svg}"
    dots = [place(dot) for dot in tree.iter(f"{space}circle") if dot.get("r") == "2.5"]
    assert dots[0][0] < dots[2][0] < dots[1][0]
    assert dots[0][1] > dots[2][1] > dots[1][1]
    assert dots[2][0] == pytest.approx((dots[0][0] + dots[1][0]) / 2)  # halfway, on a logarithmic axis
    assert dots[2][1] == pytest.approx((dots[0][1] + dots[1][1]) / 2)
    texts = {text.text for text in tree.iter(f"{space}text")}
    assert {"toy: rate & more", "<one>", "two", "operations", "rate (GFLOP/s)", "estimated by the block model"} <= texts
    for one in study("mlu100").curves:
        tree = ET.fromstring(curve_svg(one, "mlu100", origin=ORIGIN))
        for dot in tree.iter(f"{space}circle"):
            assert 0 <= place(dot)[0] <= 860
            assert 0 <= place(dot)[1] <= 520


def test_the_command_writes_tables_and_pictures(tmp_path):
    """Each curve as CSV and SVG; two runs write the same bytes."""
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        result = run("characterize", "-o", folder)
        assert result.exit_code == 0, result.output
        assert (folder / "characterize.txt").read_text() == result.stdout == study_text(study("mlu100"))
    names = [f"{one.name}.{ending}" for one in study("mlu100").curves for ending in ("csv", "svg")]
    assert names_in(first) == sorted([*names, "characterize.txt", "characterize.json", "layers.csv"])
    for name in names_in(first):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    value = json.loads(run("characterize", "--json", "-").stdout)
    assert value == json.loads((first / "characterize.json").read_text())


def test_the_command_refuses_what_it_cannot_do(tmp_path):
    """Before the work where it can."""
    (tmp_path / "file").write_text("")
    for words in (("--machine", "goya"), ("--machine", "none"), ("-o", tmp_path / "file")):
        refused = run("characterize", *words)
        assert refused.exit_code == 2
        assert refused.stderr.startswith("error: ")
        assert refused.stdout == ""
