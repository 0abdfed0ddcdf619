"""The command `simulate`: what it prints, writes and refuses, and that the Python API says the same."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import tilestitch
from tilestitch.cli import main as cli
from tilestitch.commands.simulate import array_trace
from tilestitch.commands.simulate.layers import SimulateOptions
from tilestitch.ir.choices import Objective, Values
from tilestitch.mapping.network import MapOptions

PRODUCT = "O[m,n] += A[m,k] * B[k,n]; m=24 n=16 k=32"
MAPPING = {
    "factors": {
        "dram": {"m": 3},
        "spm": {"k": 4},
        "rf": {"m": 4, "n": 2, "k": 4},
        "spatial": {"m": 2, "n": 8, "k": 2},
    },
    "orders": {"dram": ["m"], "spm": ["k"]},
}


def simulated(*arguments: str) -> Result:
    return CliRunner().invoke(cli.main, ["simulate", *arguments], prog_name="tilestitch")


def simulated_json(*arguments: str) -> dict[str, Any]:
    result = simulated(*arguments, "--json", "-")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture
def mapping(tmp_path: Path) -> str:
    """A file with a mapping of the product: three tiles, of four passes each, sums over two elements."""
    path = tmp_path / "mapping.json"
    path.write_text(json.dumps(MAPPING), encoding="utf-8")
    return str(path)


def test_a_network_is_simulated_layer_by_layer_and_added_up() -> None:
    """Each different layer once, as often as the network runs it."""
    found = simulated_json("resnet18:small", "--layer", "layer1.0.conv1", "--layer", "fc")
    layers = found["layers"]
    assert [(one["name"], one["times"]) for one in layers] == [("layer1.0.conv1", 4), ("fc", 1)]
    for key in ("cycles", "energy_pj"):
        for which in ("simulated", "estimated"):
            total = sum(one["times"] * one[which][key] for one in layers)
            assert found[which][key] == pytest.approx(total)
    assert found["verified"]
    assert all(one["verified"] for one in layers)


def test_the_estimate_is_that_of_the_mapper() -> None:
    """And the mapping too."""
    one = simulated_json(PRODUCT, "--objective", "latency")["layers"][0]
    result = CliRunner().invoke(cli.main, ["map", PRODUCT, "--objective", "latency", "--json", "-"])
    best = json.loads(result.stdout)["layers"][0]["mappings"][0]
    assert one["mapping"] == {"factors": best["factors"], "orders": best["orders"]}
    assert one["estimated"] == {"cycles": best["cycles"], "energy_pj": best["energy_pj"], "energy": best["energy"]}
    assert one["simulated"]["energy"] == pytest.approx(best["energy"])


def test_a_given_mapping_is_simulated(mapping: str) -> None:
    """As it is in the file, with the statistics of every element."""
    one = simulated_json(PRODUCT, "--mapping", mapping, "--stats")["layers"][0]
    assert one["mapping"]["factors"] == MAPPING["factors"]
    assert (one["mapping"]["orders"]["dram"][-1], one["mapping"]["orders"]["spm"][-1]) == ("m", "k")
    assert sum(one["simulated"]["cycles_by_cause"].values()) == one["simulated"]["cycles"]
    statistics = one["statistics"]
    assert statistics["element_busy_cycles"] == [3 * 4 * 32] * 32
    assert sum(statistics["element_busy_cycles"]) == one["macs"] == 24 * 16 * 32
    assert statistics["partial_sum_words"] == 24 * 16
    assert [use["loaded_words"] for use in statistics["operands"]] == [24 * 32, 32 * 16, 0]
    assert statistics["operands"][2]["stored_words"] == 24 * 16
    assert 0 < statistics["dma_occupancy"] < 1


def test_what_was_not_computed_is_not_called_verified(mapping: str) -> None:
    """In the text and in the JSON, with the reason."""
    for options, reason in (
        (["--extrapolate"], "repeating passes were not simulated again; values were not computed"),
        (["--values", "none"], "not computed, so no result was verified"),
    ):
        text = simulated(PRODUCT, "--mapping", mapping, *options).stdout
        assert reason in text
        assert "not verified" in text
        found = simulated_json(PRODUCT, "--mapping", mapping, *options)
        assert not found["verified"]
        assert not found["layers"][0]["verified"]
        assert found["values"] == "none"


def test_leaving_out_repeating_passes_and_other_values_give_the_same_cycles(mapping: str) -> None:
    """To the cycle."""
    found = [
        simulated_json(PRODUCT, "--mapping", mapping, *options)["simulated"]
        for options in ([], ["--extrapolate"], ["--values", "floats"], ["--values", "none"])
    ]
    assert all(one == found[0] for one in found)


def test_a_trace_has_a_track_for_each_element_network_and_channel(mapping: str, tmp_path: Path) -> None:
    """Whose events do not overlap, and add up to what was counted."""
    path = tmp_path / "trace.json"
    window = ["--trace", str(path), "--window", "0:1000000"]
    one = simulated_json(PRODUCT, "--mapping", mapping, "--stats", *window)["layers"][0]
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            tracks[processes[event["pid"]], names[event["pid"], event["tid"]]].append(event)
    for track in tracks.values():
        ends = [event["ts"] + event["dur"] for event in track]
        assert all(event["ts"] >= end for event, end in zip(track[1:], ends, strict=False))
        assert max(ends) <= one["simulated"]["cycles"]
    elements = [name for process, name in tracks if process == "elements"]
    assert len(elements) == 32
    assert elements[1] == "element 1 (m=0 n=0 k=1)"
    assert all(len(tracks["elements", name]) == 12 for name in elements)  # passes
    for at, network in enumerate(("first read", "other reads", "result")):
        track = tracks["networks", f"network: {network}"]
        words = sum(event["args"]["words_in"] + event["args"]["words_out"] for event in track)
        assert words == one["statistics"]["networks"][at]["words"]
    assert len(tracks["networks", "partial sums"]) == 3
    assert sum(event["dur"] for event in tracks["DMA", "channel 0"]) == one["statistics"]["dma_busy_cycles"]
    assert tracks["controller", "waits"][0]["name"] == "first load"
    assert tracks["controller", "waits"][-1]["name"] == "last store"


def test_a_window_shows_what_it_has_some_of(mapping: str, tmp_path: Path) -> None:
    """And nothing else."""
    path = tmp_path / "trace.json"
    assert simulated(PRODUCT, "--mapping", mapping, "--trace", str(path), "--window", "700:800").exit_code == 0
    found = json.loads(path.read_text(encoding="utf-8"))
    events = [event for event in found["traceEvents"] if event["ph"] == "X"]
    assert events
    assert all(event["ts"] <= 800 and event["ts"] + event["dur"] > 700 for event in events)
    assert (found["otherData"]["first_cycle"], found["otherData"]["last_cycle"]) == (700, 800)


def test_a_window_behind_the_end_or_with_too_much_in_it_is_refused(
    mapping: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the cycles that there are, and nothing is written."""
    path = tmp_path / "trace.json"
    asked = [PRODUCT, "--mapping", mapping, "--trace", str(path), "--window"]
    result = simulated(*asked, "1000000:1000001")
    assert result.exit_code == 2
    assert "so the window is beyond its end; choose cycles from 0 to" in result.stderr
    monkeypatch.setattr(array_trace, "MAX_EVENTS", 100)
    result = simulated(*asked, "0:1000000")
    assert result.exit_code == 2
    assert "events, and a trace holds at most 100; choose a shorter window" in result.stderr
    assert not path.exists()


def test_quiet_prints_nothing(mapping: str) -> None:
    """But works."""
    result = simulated(PRODUCT, "--mapping", mapping, "--quiet")
    assert (result.exit_code, result.output) == (0, "")


def test_python_simulates_the_same() -> None:
    """A mapping, and the layers of a network."""
    nest = {"kind": "gemm", "extents": {"M": 24, "N": 16, "K": 32}}
    upper = {
        "factors": {level: {name.upper(): n for name, n in row.items()} for level, row in MAPPING["factors"].items()},
        "orders": {level: [name.upper() for name in row] for level, row in MAPPING["orders"].items()},
    }
    done = tilestitch.simulate_mapping({"nest": nest, **upper}, values="floats")
    assert done.run.result is not None
    assert done.run.result.shape == (24, 16)
    assert tilestitch.simulate_mapping({"nest": nest, **upper}, extrapolate=True).cycles == done.cycles
    layers = tilestitch.simulate(
        "resnet18:small",
        "eyeriss",
        SimulateOptions(Values.NONE, extrapolate=True, mapping=MapOptions(Objective.ENERGY)),
    )
    estimates = tilestitch.map("resnet18:small", "eyeriss", MapOptions(Objective.ENERGY))
    assert [one.estimated for one in layers] == [one.prices[0] for one in estimates]
    assert [one.layer for one in layers] == [one.layer for one in estimates]
