"""`--explain`: our mapping beside one of ZigZag, row by row; the result is of ZigZag 3.9.1, a layer of ResNet-18."""

import json
from functools import partial

import pytest

from tests.helpers.zigzag_trees import DATA
from tilestitch.base.errors import InputError
from tilestitch.commands.map.run import nests_of
from tilestitch.commands.map.tree_explain import explained, explained_json, explained_text
from tilestitch.commands.map.tree_run import map_on_tree, open_free_task, open_tree_task
from tilestitch.formats.zigzag.result import zigzag_result
from tilestitch.hardware.tree import Flow
from tilestitch.ir.choices import Objective
from tilestitch.mapping.tree.choices import SpatialSpace
from tilestitch.mapping.tree.tables import Sums

RESULT = DATA / "resnet18_11_complete.json"


@pytest.fixture(scope="module")
def mapped():
    files = [str(DATA / name) for name in ("resnet18_11.yaml", "hardware/tpu_like.yaml", "mapping/tpu_like.yaml")]
    return map_on_tree(open_tree_task(*files, ()))


def test_a_result_of_zigzag_is_our_price_of_its_mapping_row_by_row(mapped):
    """Its total and every row to 1e-9; its mapping is not ours, and costs what ours does."""
    (one,) = explained(mapped, zigzag_result(RESULT.read_text(), RESULT.name))
    assert one.agrees
    assert one.stated_pj == pytest.approx(16_507_176.352, rel=1e-12)
    assert one.theirs.energy_pj == pytest.approx(one.stated_pj, rel=1e-12)
    assert len([row for row in one.rows if row.stated_pj]) == 12
    assert sum(row.stated_pj for row in one.rows) + one.ours.mac_pj == pytest.approx(one.stated_pj, rel=1e-12)
    assert ("sram_2MB", "O", 32.0, 25_088.0) in one.held
    assert "ZigZag says 19,583" in explained_text(one)


def test_a_row_that_zigzag_prices_otherwise_is_named(mapped):
    """One figure of the file changed: the verdict says which, and both values."""
    result = json.loads(RESULT.read_text())
    rows = result["outputs"]["energy"]["memory_energy_breakdown_per_level_per_operand"]
    rows["W"][0]["wr_in_by_high"] += 100
    (one,) = explained(mapped, zigzag_result(json.dumps(result), "changed.json"))
    assert not one.agrees
    assert "differ most in W at rf_128B, wr_in_by_high: 12,551.840 there, 12,451.840 here" in explained_text(one)


def test_without_a_result_the_other_rule_for_sums_stands_beside_ours(mapped):
    (one,) = explained(mapped, None)
    assert one.ours.energy_pj > one.theirs.energy_pj
    drained = next(row for row in one.rows if (row.memory, row.flow) == ("rf_2B", Flow.DRAIN))
    assert (drained.ours_accesses, drained.other_accesses) == (802_816, 401_408)
    (back,) = explained(map_on_tree(mapped.task, Sums.FINAL), None)
    assert (back.ours.energy_pj, back.theirs.energy_pj) == (one.theirs.energy_pj, one.ours.energy_pj)
    assert json.loads(json.dumps(explained_json([one])))[0]["rows"]


def test_what_windows_cost_by_its_evaluator_is_said_where_it_is_not_what_they_cost_here(mapped):
    """Of a search of ours: seven taps over several units are rounded down there, and not here."""
    line = "O[n,m,x,y] += I[n,c,x+fx,y+fy] * W[m,c,fx,fy]; n=1 m=4 c=3 x=8 y=8 fx=7 fy=7"
    load = partial(nests_of, layers=(), batch=None, dims={}, fold_bn=True)
    free = map_on_tree(open_free_task(line, "gemmini", SpatialSpace(), (), load), objective=Objective.EDP)
    (one,) = explained(free, None)
    assert one.counted_pj < one.ours.energy_pj
    said = f"ZigZag's counts windows otherwise: ours {one.counted_pj:,.3f} pJ by it"
    assert said in explained_text(one)
    assert explained_json([one])[0]["energy_by_zigzag_pj"] == one.counted_pj
    (fixed,) = explained(mapped, None)
    assert fixed.counted_pj == fixed.ours.energy_pj
    assert "ZigZag's charges each row as we do" in explained_text(fixed)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ('"(OX, 7)"', '"(OX, 14)"', "the loops of the result make"),
        ('"(C, 4)"', '"(Q, 4)"', "the result has a loop Q; layer resnet18_11 has"),
        ('"(C, 4)"', '"C4"', "expected a loop and its factor"),
        ('"energy_total"', '"energy_sum"', "the field energy_total is missing"),
        ('"outputs"', '"results"', "expected outputs and inputs"),
    ],
)
def test_a_result_of_something_else_is_refused(mapped, old, new, message):
    text = RESULT.read_text()
    assert old in text
    with pytest.raises(InputError, match=message):
        explained(mapped, zigzag_result(text.replace(old, new), "other.json"))
