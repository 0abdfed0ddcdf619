"""Fused blocks: DLFusion's algorithm beside what it is compared with, plans as files, the command."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.command import run
from tests.helpers.fused_plans import MODEL, costs, network, wide
from tests.helpers.pairs import first
from tilestitch.base.errors import DoesNotFit, InputError, InvalidIR
from tilestitch.commands.fuse.fuse import NAMES, every_plan, fuse_blocks, verify_proof
from tilestitch.commands.fuse.fuse_text import fused_json, fused_text
from tilestitch.commands.fuse.plan_file import NamedBlock, parse_plan, plan_json
from tilestitch.partition.blocks.dlfusion import PLANS, Close, Joint, Members, joint
from tilestitch.partition.blocks.model import (
    CORE_COUNTS,
    PICOSECONDS,
    BlockCost,
    BlockModel,
    core_counts,
)
from tilestitch.partition.blocks.synthetic import SATURATED, Convolution, critical_operations, fit, saturation, stack
from tilestitch.partition.ideals import along

# of the families that the paper's references name; the set itself is INFERRED
FIVE = ("resnet18", "resnet50", "mobilenet-v2", "alexnet", "vgg19")


@pytest.mark.parametrize("name", first(3, FIVE))
def test_plans_are_in_the_order_that_they_must_be(name):
    """Core numbers help, the best per layer more; the reduced search is above DLFusion, and nothing beats the best."""
    cost = costs(name)
    fused = fuse_blocks(cost, "mlu100", "exact", "exact")
    assert fused.proof is not None
    times = {plan_name: plan.cost for plan_name, plan in every_plan(fused)}
    assert tuple(times) == NAMES
    assert times["baseline"] > times["fixed-cores"] >= times["dynamic-cores"] >= times["exact"]
    assert times["dlfusion"] >= times["oracle"] >= times["exact"]
    assert min(times["annealing"], times["genetic"]) >= times["exact"]
    assert times["dlfusion"] < times["baseline"]
    if name in ("resnet50", "mobilenet-v2", "alexnet"):  # on ResNet-18 and VGG-19 it does not hold
        assert times["dlfusion"] < times["dynamic-cores"]
    if name in ("resnet18", "resnet50", "vgg19"):
        assert 1.1 < times["baseline"] / times["one-block"] < 2.0  # what everything in one block gains at most


@pytest.mark.parametrize("name", first(3, FIVE))
def test_every_variant_is_a_plan_of_its_network(name):
    """Each layer once, each block what the model prices it at, nothing below the best."""
    cost = costs(name)
    best = along(cost.network.before(), cost.price).cost
    for members in Members:
        for close in Close:
            for units in (False, True):
                plan = joint(cost, Joint(members, close, units))
                assert [layer for block in plan.blocks for layer in block] == list(range(len(cost.network.layers)))
                assert plan.cost >= best
                for block, cores, paid in zip(plan.blocks, plan.choices, plan.costs, strict=True):
                    row = np.zeros((1, len(cost.network.layers)), np.uint8)
                    row[0, list(block)] = 1
                    assert cost.times(row)[0, MODEL.core_counts.index(cores)] == paid


def test_the_algorithm_prices_each_layer_a_few_times():
    """It is one pass: its work grows with the layers, not with their pairs."""
    calls = 0

    class Counted(BlockCost):
        def times(self, blocks: np.ndarray) -> np.ndarray:
            nonlocal calls
            calls += len(blocks)
            return super().times(blocks)

    cost = Counted(network("densenet121"), MODEL)
    joint(cost)
    assert calls <= 3 * len(cost.network.layers)


def test_random_searches_give_the_same_plan_each_time():
    """And another for another seed, at the same number of evaluations."""
    from tilestitch.partition.blocks.dlfusion import anneal, genetic

    cost = costs("resnet18")
    for search in (anneal, genetic):
        assert search(cost, 1) == search(cost, 1)
        assert len({search(cost, seed, 300).cost for seed in range(4)}) > 1


def test_the_core_number_grows_with_the_work():
    """The fitted exponent of operations is that of docs/dlfusion.md."""
    predictor = fit(MODEL)
    assert 0.25 < predictor.operations < 0.4
    assert predictor.error < 1


def closed_form(model: BlockModel, share: float = SATURATED) -> float:
    """Operations from which on a core is saturated by layers that are as fast as a core can be."""
    overhead = (model.launch_ps + model.sync_ps * min(model.core_counts) + model.layer_ps) / PICOSECONDS
    return share / (1 - share) * model.core_flops * overhead


@pytest.mark.parametrize(
    "model",
    [MODEL, replace(MODEL, launch_ps=10**7, sync_ps=500_000, layer_ps=10**6), replace(MODEL, core_flops=1e11)],
    ids=["mlu100", "half the overheads", "slow cores"],
)
@pytest.mark.parametrize("share", [0.5, 0.9, 0.95])
def test_enough_work_is_where_a_core_is_saturated_by_synthetic_layers(model, share):
    """What is read off their times is the closed form of a layer that keeps a core busy."""
    assert critical_operations(model, share) == pytest.approx(closed_form(model, share), rel=2e-3)


def test_enough_work_is_more_where_transfers_slow_small_layers_down():
    """There the closed form, which knows of arithmetic alone, says too little."""
    model = replace(MODEL, bandwidth=MODEL.bandwidth / 32, channel_bandwidth=MODEL.channel_bandwidth / 32)
    assert critical_operations(model) > 2 * closed_form(model)


def test_saturation_is_read_off_the_fastest_layers():
    """Here of time 10 + operations / 2; layers that are slower than smaller ones do not count."""
    points = [(10**power, 10 + 10**power // 2) for power in range(1, 5)]
    enough = 0.9 * 10**4 / 5010
    assert saturation(points, 0.9) == pytest.approx(10 * enough / (1 - enough / 2))
    assert saturation([*points, (100, 80), (500, 10_000), (2000, 5000)], 0.9) == saturation(points, 0.9)


@pytest.mark.parametrize(
    ("cores", "numbers"),
    [(1, (1,)), (2, (1, 2)), (9, (1, 2, 4, 8, 9)), (32, CORE_COUNTS), (100, (*CORE_COUNTS, 64, 100))],
)
def test_a_block_may_run_on_every_core(cores, numbers):
    assert core_counts(cores) == numbers


@pytest.mark.parametrize("threshold", [1e6, 3e7, 2e8, 1e9])
@pytest.mark.parametrize("layer", [Convolution(14, 128, 3), Convolution(56, 64, 3), Convolution(28, 256, 1)], ids=str)
def test_a_block_ends_where_its_cores_have_enough_or_it_is_full(layer, threshold):
    """A chain of equal layers, all of which are predicted the same core number, is cut into equal blocks."""
    cost = stack(MODEL, layer, 40)
    plan = joint(cost, Joint(threshold=threshold))
    (cores,) = set(plan.choices)
    enough = math.ceil(threshold * cores / layer.operations)
    column = MODEL.core_counts.index(cores)
    full = sum(
        stack(MODEL, layer, depth).times(np.ones((1, depth), np.uint8))[0, column] >= 0 for depth in range(1, 41)
    )
    assert {len(block) for block in plan.blocks[:-1]} <= {min(enough, full)}
    assert len(plan.blocks) == math.ceil(40 / min(enough, full))


def test_one_block_is_priced_and_said_not_to_fit():
    """VGG-19 as a whole needs more than its cores hold."""
    fused = fuse_blocks(costs("vgg19"), "mlu100", "one-block", "one-block")
    assert not fused.fits
    assert "does not fit" in fused_text(fused)


def test_a_wide_network_has_a_plan_and_an_honest_gap():
    """Nothing is called the best where the ideals are too many to try."""
    fused = fuse_blocks(wide(16), "mlu100", "exact", "exact")
    assert fused.proof is None
    assert fused.bounds.relaxed is None
    assert 0 < fused.bounds.best <= fused.plan.cost
    text = fused_text(fused)
    assert "not proven" in text
    assert "proven over" not in text
    value = json.loads(fused_json(fused))
    assert value["best_is_proven"] is False
    assert value["gap"] > 0


def test_a_proof_that_does_not_hold_is_our_own_fault():
    """And one that is not there cannot be checked."""
    fused = fuse_blocks(costs("resnet18"), "mlu100", "exact", "exact")
    assert fused.proof is not None
    verify_proof(fused)
    ideal = max(fused.proof.potentials)
    worse = {**fused.proof.potentials, ideal: fused.proof.potentials[ideal] + 1}
    with pytest.raises(InvalidIR, match="certificate"):
        verify_proof(replace(fused, proof=replace(fused.proof, potentials=worse)))
    with pytest.raises(InputError, match="too many ideals"):
        verify_proof(replace(fused, proof=None))


def test_stopping_at_what_does_not_fit_changes_no_plan():
    """More layers in front of a block that does not fit never make it fit."""
    for name in ("vgg19", "resnet18", "mobilenet-v2"):
        cost = costs(name)
        before = cost.network.before()
        assert along(before, cost.price, shrinks=True) == along(before, cost.price)


def test_a_plan_reads_back_to_the_same_bytes():
    """From the best plan of a branched network."""
    cost = costs("resnet50")
    fused = fuse_blocks(cost, "mlu100", "dlfusion", "dlfusion")
    text = plan_json(cost.network, fused.plan)
    again = fuse_blocks(cost, "mlu100", parse_plan(text, "plan.json"), "plan.json")
    assert again.plan == fused.plan
    assert plan_json(cost.network, again.plan) == text


def test_a_plan_of_another_core_number_is_priced():
    """A file may name any number of cores, not only those that the strategies try."""
    cost = costs("alexnet")
    blocks = [NamedBlock((layer.name,), 7) for layer in cost.network.layers]
    fused = fuse_blocks(cost, "mlu100", blocks, "mine.json")
    assert fused.plan.choices == (7,) * 11
    assert fused.least <= fused.plan.cost < fused.baseline.cost


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda blocks: blocks[1:], "reads 'conv1', which runs later"),
        (lambda blocks: blocks[:-1], "layer 'fc8' is in no block"),
        (lambda blocks: [*blocks, blocks[0]], "layer 'conv1' is in two places"),
        (lambda blocks: [NamedBlock(("conv9",), 1), *blocks], "there is no layer 'conv9'"),
        (lambda blocks: [NamedBlock(blocks[0].layers, 64), *blocks[1:]], "expected 1 to 32, found 64"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(change, message):
    """With the block, and what would be right."""
    cost = costs("alexnet")
    blocks = [NamedBlock((layer.name,), 4) for layer in cost.network.layers]
    with pytest.raises(InputError, match=message):
        fuse_blocks(cost, "mlu100", change(blocks), "mine.json")


def test_a_block_of_a_file_that_does_not_fit_is_refused():
    """All of VGG-19 on one core."""
    cost = costs("vgg19")
    with pytest.raises(DoesNotFit, match="24 layers on 1 cores do not fit"):
        fuse_blocks(cost, "mlu100", [NamedBlock(tuple(layer.name for layer in cost.network.layers), 1)], "mine.json")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "[" * 10_000]
    + [
        json.dumps({"format": "tilestitch.fusion-plan", "version": 1, **fields})
        for fields in (
            {},
            {"blocks": []},
            {"blocks": [7]},
            {"blocks": [{"cores": 1}]},
            {"blocks": [{"cores": 0, "layers": ["a"]}]},
            {"blocks": [{"cores": True, "layers": ["a"]}]},
            {"blocks": [{"cores": 1, "layers": []}]},
            {"blocks": [{"cores": 1, "layers": [1]}]},
            {"blocks": [{"cores": 1, "layers": ["a"]}], "extra": 1},
        )
    ],
)
def test_a_file_that_is_no_plan_is_refused(text):
    """Before anything is priced."""
    with pytest.raises(InputError, match=r"mine\.json"):
        parse_plan(text, "mine.json")


def test_the_command_writes_a_plan_that_it_reads(tmp_path):
    """And what it prints holds the blocks, the bounds and the proof."""
    plan, value = tmp_path / "plan.json", tmp_path / "value.json"
    result = run("fuse", "resnet18:small", "--compare", "--verify", "-o", plan, "--json", value)
    assert result.exit_code == 0, result.output
    assert "proven over" in result.output
    assert "the proof was checked" in result.output
    assert "INFERRED" in result.output
    assert "LB3" in result.output
    found = json.loads(value.read_text())
    assert found["best_is_proven"] is True
    assert [row["plan"] for row in found["plans"]] == list(NAMES)
    again = run("fuse", "resnet18:small", "--plan", plan, "--json", "-")
    assert again.exit_code == 0, again.output
    assert json.loads(again.output)["time_ps"] == found["time_ps"]
    for wrong in (("--plan", "best"), ("--machine", "goya"), ("--plan", tmp_path / "none.json")):
        refused = run("fuse", "resnet18:small", *wrong)
        assert refused.exit_code == 2
        assert refused.stderr.startswith("error: ")


def test_the_help_names_every_plan():
    """It is written out, so that the help needs no import."""
    shown = " ".join(run("fuse", "--help").output.split())
    assert all(f"{name}," in shown for name in NAMES)
    assert set(PLANS) < set(NAMES)
