"""`tilestitch traffic`: what it writes."""

import csv
import json

import onnx
import pytest

import tilestitch
from tests.helpers.command import run
from tests.helpers.graphs import Net, conv
from tests.helpers.pages import summary_of

PRODUCT = "O[m,n] += A[m,k] * B[k,n]; m=24 n=16 k=32"


def test_layers_count_as_often_as_they_run():
    """The sums of the report are those of its layers."""
    found = tilestitch.traffic("resnet18:small", [512, 4096], layers=["conv1", "layer1.0.conv1", "fc"])
    assert [one.times for one in found.layers] == [1, 4, 1]
    assert found.compulsory_bytes == sum(one.times * one.compulsory_bytes for one in found.layers)
    for at in range(2):
        assert found.total_bytes(at) == sum(one.times * (one.least_bytes[at] or 0) for one in found.layers)
    assert found.total_bytes(0) != found.total_bytes(1)


def test_a_capacity_without_room_for_single_elements_has_no_least():
    """Neither the layer nor the network; the picture leaves it out."""
    found = tilestitch.traffic(PRODUCT, [4, 64])
    assert found.layers[0].least_bytes[0] is None
    assert found.total_bytes(0) is None
    assert " - " in str(found)
    assert [len(picture) > 0 for picture in found.pictures()] == [True, True]


def test_the_files_say_what_the_json_says(tmp_path):
    """Table, curves, page."""
    folder, page = tmp_path / "out", tmp_path / "page.html"
    line = "O[m,n] += A[m,k] * B[k,n]; m=48 n=64 k=64"
    done = run("traffic", line, "-o", folder, "--html", page, "--json", tmp_path / "found.json")
    report = json.loads((tmp_path / "found.json").read_text())
    assert done.stdout == (folder / "traffic.txt").read_text()
    rows = list(csv.reader((folder / "traffic.csv").read_text().splitlines()))[1:]
    assert [int(row[4]) for row in rows] == report["capacities_bytes"]
    assert [int(row[5]) for row in rows] == report["layers"][0]["least_bytes"] == report["least_bytes"]
    assert report["capacities_bytes"][-1] >= report["layers"][0]["enough_bytes"] > report["capacities_bytes"][-2]
    assert sorted(path.name for path in folder.iterdir()) == ["layers.svg", "network.svg", "traffic.csv", "traffic.txt"]
    assert page.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("size", ["65536", "64KiB", "64 KiB", "524288 b"])
def test_a_capacity_has_units(size):
    """Those of the file of a machine."""
    assert json.loads(run("traffic", PRODUCT, "--capacity", size, "--json", "-").stdout)["capacities_bytes"] == [65536]


@pytest.mark.parametrize("more", [(), ("--fuse", "2")])
def test_a_layer_that_cannot_be_counted_is_refused_before_any_is_searched(more, tmp_path, monkeypatch):
    """The error comes at once, whatever stands before the layer, and names the ways out."""
    net = Net()
    y = conv(net, net.input(1, 4, 9, 9), 4, 4, 3)
    y = net.op("ConvTranspose", y, net.random(4, 4, 4, 4), pads=[1] * 4, strides=[2, 2])
    onnx.save(net.model(y), tmp_path / "up.onnx")
    monkeypatch.setattr("tilestitch.mapping.tree.labels.least_chain", None)
    result = run("traffic", tmp_path / "up.onnx", *more)
    assert result.exit_code == 2
    assert "trees count sums of at most two" in result.stderr
    assert "name the other layers (--layer)" in result.stderr


ATTENTION = "S[m,n] += Q[m,d] * K[n,d]; O[m,e] += softmax(S[m,n]) * V[n,e]; m=64 n=48 d=16 e=8"


def test_what_passes_between_operators_that_run_together_does_not_cross():
    """With room for everything only the operands of the chain cross; one by one the scores cross four times more.

    Written once and read once by the products, and read and written by softmax.
    """
    found = tilestitch.traffic(ATTENTION, [256, 1024, 2048, 16384], fuse=2)
    (chain,) = found.layers
    outside, scores = 2 * (64 * 16 + 48 * 16 + 48 * 8 + 64 * 8), 2 * 64 * 48
    assert found.compulsory_bytes == chain.compulsory_bytes == chain.least_bytes[-1] == outside
    assert chain.apart_bytes[-1] == outside + 4 * scores
    least, apart = ([number or 0 for number in one] for one in (chain.least_bytes, chain.apart_bytes))
    assert least == sorted(least, reverse=True)
    assert all(one <= other for one, other in zip(least, apart, strict=True))
    assert tilestitch.traffic(ATTENTION, [chain.enough_bytes], fuse=2).layers[0].least_bytes == (outside,)
    assert tilestitch.traffic(ATTENTION, [chain.enough_bytes - 1024], fuse=2).layers[0].least_bytes[0] != outside


def test_chains_are_in_every_file(tmp_path):
    """Both figures of the table, the JSON and the page are the same, and the picture has both curves."""
    folder, page = tmp_path / "out", tmp_path / "page.html"
    asked = ("traffic", ATTENTION, "--fuse", "2", "-o", folder, "--html", page, "--json", tmp_path / "found.json")
    done = run(*asked)
    assert done.exit_code == 0, done.output
    assert "all, one by one" in done.stdout
    report = json.loads((tmp_path / "found.json").read_text())
    rows = list(csv.reader((folder / "traffic.csv").read_text().splitlines()))
    assert rows[0][-1] == "one by one (bytes): estimated"
    assert [int(row[5]) for row in rows[1:]] == report["layers"][0]["least_bytes"] == report["least_bytes"]
    assert [int(row[6]) for row in rows[1:]] == report["layers"][0]["apart_bytes"] == report["apart_bytes"]
    assert report == summary_of(page.read_text())["report"]
    assert "one by one" in (folder / "network.svg").read_text()


def test_a_line_of_several_products_is_a_chain():
    refused = run("traffic", ATTENTION)
    assert refused.exit_code == 2
    assert "say --fuse 2" in refused.output
    assert run("traffic", PRODUCT, "--fuse", "2").exit_code == 2
