"""`tilestitch reproduce dlfusion`: plans beside the published end points, counts that must match."""

import json
from functools import cache

import pytest

from tests.helpers.command import run
from tilestitch.reproduction import dlfusion
from tilestitch.reproduction.published import PublishedDLFusion, read
from tilestitch.reproduction.rows import Row


@cache
def published() -> PublishedDLFusion:
    return read(PublishedDLFusion, "dlfusion")


def rows(*networks: str, must_match: bool = False) -> tuple[Row, ...]:
    return dlfusion.dlfusion_rows(
        networks=networks, machines=[], must_match=must_match, progress=lambda step, done, total: None
    )


@pytest.fixture(scope="module")
def of_alexnet() -> dict[tuple[str, str], Row]:
    return {(row.source, row.what): row for row in rows("alexnet")}


def test_every_plan_has_a_row_and_only_the_algorithm_a_published_range(of_alexnet):
    """Which is not a number to match; ours is inside it or not."""
    source = "speed-up over one core without fusion, alexnet on mlu100, estimated"
    found = {what: row for (where, what), row in of_alexnet.items() if where == source}
    assert list(found) == [plan for plan in (*dlfusion.PLANS, "exact") if plan != "baseline"]
    for plan, row in found.items():
        assert not row.must_match
        assert row.published == ("3.6 to 7.9" if plan == "dlfusion" else None)
        assert isinstance(row.ours, float)
        assert row.ok is (3.6 <= row.ours <= 7.9 if plan == "dlfusion" else None)


def test_speed_ups_are_those_of_the_prototype_within_ten_percent(of_alexnet):
    """Of plans that do not depend on the algorithm, under each set of constants that it had."""
    compared = [row for (source, _), row in of_alexnet.items() if "with other constants" in source and row.published]
    assert len(compared) == 4 * 3
    for row in compared:
        assert row.ratio == pytest.approx(1, abs=0.1), row


def test_the_end_points_are_the_least_and_the_most_of_all_five(of_alexnet):
    """And rows of fewer networks do not have them."""
    times = {str(time): {"baseline": 100, "dlfusion": time} for time in (50, 20, 10, 25, 40)}
    least, most = dlfusion._end_points(published().speed_ups, times)
    assert (least.published, least.ours, least.must_match) == (3.6, 2.0, False)
    assert (most.published, most.ours, most.must_match) == (7.9, 10.0, False)
    assert published().speed_ups.source not in {source for source, _ in of_alexnet}


def test_each_reading_of_enough_work_has_its_speed_up(of_alexnet):
    """The first is the algorithm as it is."""
    found = [row for (source, _), row in of_alexnet.items() if "other thresholds" in source]
    plan = of_alexnet["speed-up over one core without fusion, alexnet on mlu100, estimated", "dlfusion"]
    assert len(found) == 4
    assert found[0].ours == plan.ours
    assert "424 million" in found[0].what


def test_counts_and_orders_must_match(tmp_path):
    """Those alone with --must-match; of a network that is only counted there are no plans."""
    result = run(
        "reproduce", "dlfusion", "--network", "alexnet", "--network", "googlenet", "--must-match", "--json", "-"
    )
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["rows"]
    assert all(row["must_match"] and row["ok"] for row in found)
    assert [row["what"] for row in found] == [
        "alexnet: layers",
        "alexnet: ideals",
        "googlenet: layers",
        "googlenet: ideals",
        "alexnet: fixed-cores no slower than baseline",
        "alexnet: dynamic-cores no slower than fixed-cores",
        "alexnet: oracle no slower than dlfusion",
        "alexnet: exact no slower than any other plan that fits",
    ]


def test_an_order_that_does_not_hold_is_said():
    """And a count that differs ends the command with 1."""
    times = {
        "baseline": 9,
        "fixed-cores": 8,
        "dynamic-cores": 7,
        "one-block": 1,
        "dlfusion": 5,
        "oracle": 6,
        "exact": 4,
    }
    found = dlfusion._provable("net", times)
    assert [row.ok for row in found] == [True, True, False, True]
    assert dlfusion._provable("net", {**times, "exact": 6})[-1].ours == "does not hold"


@pytest.mark.slow
def test_another_count_ends_with_1(monkeypatch):
    """Each row that must match and does not is named."""
    count = published().counts.networks["alexnet"].model_copy(update={"ideals": 13})
    counts = published().counts.model_copy(update={"networks": {"alexnet": count}})
    monkeypatch.setattr(dlfusion, "read", lambda *_: published().model_copy(update={"counts": counts}))
    result = run("reproduce", "dlfusion", "--network", "alexnet", "--must-match", "--quiet")
    assert result.exit_code == 1
    assert "alexnet: ideals: published 13, ours 12" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--network", "bert-base-128"), "network 'bert-base-128': expected some of: resnet18, resnet50"),
        (("--machine", "stcp920"), "machine 'stcp920': expected some of: mlu100"),
    ],
)
def test_what_has_no_rows_is_refused(words, message):
    result = run("reproduce", "dlfusion", *words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_every_set_of_constants_is_another_model():
    """But the first; each has a value for each network where it has any."""
    model = dlfusion.block_model(dlfusion.load_machine("mlu100"))
    changed = [dlfusion._changed(model, variant.name) for variant in published().variants]
    assert changed[0] == model
    assert len(set(changed)) == len(changed)
    for variant in published().variants:
        assert {len(values) for values in variant.prototype.values()} <= {len(published().networks)}


@pytest.mark.slow
def test_all_of_it():
    """What must match does; nothing else ends with 1."""
    result = run("reproduce", "dlfusion")
    assert result.exit_code == 0, result.output
    assert "speed-up by dlfusion over 5 networks: least" in result.output
