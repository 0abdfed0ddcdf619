"""`tilestitch reproduce dmazerunner`: spaces, optima and the memory sweep to the digit, figures nearly."""

import json
from dataclasses import replace
from functools import cache

import pytest

from tests.helpers.command import run
from tilestitch.hardware.array_machine import ArrayMachine, array_of_core
from tilestitch.hardware.load import load_machine
from tilestitch.ir.choices import CostMode, Objective
from tilestitch.ir.loop_nest import LoopNest
from tilestitch.mapping.dataflow import dataflow_limits
from tilestitch.mapping.evaluate import Pricer
from tilestitch.mapping.search import search, search_space
from tilestitch.reproduction import dmazerunner
from tilestitch.reproduction.array_layers import RULES, best_orders, nest_of, of_the_paper, rule_limits
from tilestitch.reproduction.memory_sweep import sweep_rows
from tilestitch.reproduction.published import read
from tilestitch.reproduction.published_dmazerunner import PublishedDMazeRunner, PublishedSweep
from tilestitch.reproduction.rows import Row, near


@cache
def published() -> PublishedDMazeRunner:
    return read(PublishedDMazeRunner, "dmazerunner")


@cache
def sweep() -> PublishedSweep:
    return read(PublishedSweep, "dmazerunner-sweep")


@cache
def machine() -> ArrayMachine:
    return array_of_core(load_machine(published().machine))


@cache
def nests() -> dict[str, LoopNest]:
    found = published()
    return {layer.name: nest_of(layer.name, layer.shape, found.batch) for layer in found.layers}


@pytest.fixture(scope="module")
def of_conv5_2() -> dict[tuple[str, str], Row]:
    rows = dmazerunner.dmazerunner_rows(
        networks=["conv5_2"], machines=[], must_match=False, progress=lambda step, done, total: None
    )
    return {(row.source, row.what): row for row in rows}


def test_what_must_match_of_one_layer_does(of_conv5_2):
    """Counts, optima, 21 energies, the example, bars of Fig. 9a and 10, and 49 points of the sweep."""
    must = [row for row in of_conv5_2.values() if row.must_match]
    assert [row for row in must if not row.ok] == []
    assert len(must) == 4 + 6 + 24 + 5 + 1 + 4 + 50


def test_sums_need_all_layers(of_conv5_2):
    """Of one layer there is none of them."""
    sources = {source for source, _ in of_conv5_2}
    assert not sources & {
        published().spaces.sums_source,
        published().losses.source,
        published().averages.source,
        published().eyeriss.source,
        sweep().best.source,
        sweep().figure_12.source,
    }


def test_what_does_not_reproduce_says_why(of_conv5_2):
    """The reductions of DRAM traffic in the example are 4 x both."""
    source = published().example.source
    for what in ("DRAM, inputs: reduction", "DRAM, weights: reduction"):
        row = of_conv5_2[source, what]
        assert (row.ours, row.must_match) == (4.0, False)
        assert row.why


def test_the_paper_s_conv1_comes_from_its_register_check():
    """The released check finds a better mapping; a mirrored layer under the one is the layer under the other."""
    nest = nests()["conv1"]
    limits = rule_limits(nest, "OPT1-3")
    released, paper = (
        search(search_space(nest, machine(), CostMode.PUBLISHED, limits=one), Objective.EDP).best[0]
        for one in (limits, of_the_paper(limits, nest))
    )
    assert f"{released.edp:.6e}" == "1.848817e+16"
    assert f"{paper.edp:.6e}" == "1.901468e+16"
    inputs = released.mapping.rf
    own, other = (
        sum(operand_words(one, inputs) for one in checked.operands)
        for checked in (nest, of_the_paper(limits, nest).held or nest)
    )
    assert own <= 256 < other


def operand_words(operand, tile) -> int:
    words = 1
    for extent in operand.extents(tile):
        words *= extent
    return words


@pytest.mark.quick
def test_what_is_held_is_counted_by_the_nest_that_is_given():
    """In the count of tilings, too: as many for the paper's check of a square layer whose windows stay whole."""
    nest = nests()["conv5_1"]
    for rules, other in zip(RULES, (14_288_041, 14_647, 5_097, 877), strict=True):
        limits = of_the_paper(rule_limits(nest, rules), nest)
        assert search_space(nest, machine(), CostMode.PUBLISHED, limits=limits).tilings() == other


@pytest.mark.quick
def test_a_tiling_is_priced_in_its_best_orders():
    """No other pair of orders of the three takes less energy."""
    nest = nests()["conv5_2"]
    price = Pricer(nest, machine(), CostMode.PUBLISHED)
    row = published().validation.rows[2]
    mapping, priced = best_orders(price, row)
    assert priced.energy_pj == row.energy_pj
    worse = replace(mapping, spm_order=tuple(reversed(mapping.spm_order)))
    assert price(worse).energy_pj > priced.energy_pj


def test_the_row_stationary_dataflow_spreads_output_rows_and_window_rows():
    """As Fig. 9a of the paper, whose y counts rows: with columns of one and rows of the other its bars do not agree."""
    assert dataflow_limits(nests()["conv5_2"], "row").spread == {3, 5}


@pytest.mark.parametrize(("ours", "ok"), [(1.009, True), (0.991, True), (1.011, False), (0.989, False)])
def test_a_number_off_a_figure_is_near_or_not(ours, ok):
    """And must be."""
    row = near("bar", "figure", 1.0, ours, 0.01)
    assert (row.must_match, row.ok, row.ratio) == (True, ok, ours)


def test_the_sweep_has_288_points_with_a_mapping():
    """Of 294."""
    points = [edp for layer in sweep().layers.values() for line in layer.edp for edp in line]
    assert (len(points), sum(edp is not None for edp in points)) == (294, 288)


def test_another_point_of_the_sweep_does_not_match():
    """Its digits, and its number of tilings."""
    layer = sweep().layers["conv5_2"].model_copy(deep=True)
    layer.edp[3][5] = 6.844957271165825e15
    layer.tilings[3][5] = 341
    changed = sweep().model_copy(update={"layers": {"conv5_2": layer}})
    found = sweep_rows(changed, {"conv5_2": nests()["conv5_2"]}, machine(), whole=False)
    assert [row.what for row in found if not row.ok] == [
        "conv5_2, 128 KiB, 512 B: pJ x cycles",
        "conv5_2: points with as many tilings",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--network", "resnet18"), "network 'resnet18': expected some of: conv1, conv2_2"),
        (("--machine", "toy"), "machine 'toy': expected some of: dmazerunner-256, eyeriss"),
    ],
)
def test_what_has_no_rows_is_refused(words, message):
    result = run("reproduce", "dmazerunner", *words)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.slow
def test_all_of_it(tmp_path):
    """What must match does; nothing else ends with 1."""
    result = run("reproduce", "dmazerunner", "--json", str(tmp_path / "rows.json"))
    assert result.exit_code == 0, result.output
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert sum(row["must_match"] for row in rows) == 507
