"""Sub-graphs of least cost: what the cost counts, the best of them by brute force, and programs of them."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.fused_plans import best_by_brute_force
from tests.helpers.graphs import Net, cramped
from tests.helpers.pairs import first
from tests.helpers.random_networks import random_model
from tilestitch import api
from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.base.units import ceil_div
from tilestitch.hardware.load import load_machine
from tilestitch.ir.choices import GroupingRule
from tilestitch.partition.blocks.checker import check
from tilestitch.partition.groups.fuse_ops import fuse_ops
from tilestitch.partition.subgraphs import cuts
from tilestitch.partition.subgraphs.grouping import Grouping, before, best_grouping, grouping_cost
from tilestitch.passes import simplify
from tilestitch.pipeline.compile import compile_network
from tilestitch.pipeline.options import Options
from tilestitch.pipeline.strategies import strategy_named
from tilestitch.pipeline.views import compose_views

TOY = load_machine("toy")  # LB 2 x 64 KiB, GB 512 KiB; DDR 8 B, GB 64 B a cycle; 16 x 8 weights for each row


def kernels(graph, machine=TOY):
    """A network's graph without views, and its kernels."""
    graph = simplify(graph)
    composed = compose_views(graph, fuse_ops(graph), machine)
    return composed.graph, composed.kernels


def grouped(graph, machine=TOY, **options) -> Grouping:
    return best_grouping(*kernels(graph, machine), machine, **options)


def cost_of(graph, *blocks: tuple[int, ...], machine=TOY) -> list[tuple[int, int, int]]:
    """Cycles, axis and number of pieces of some blocks."""
    cost = grouping_cost(*kernels(graph, machine), machine)
    rows = np.zeros((len(blocks), len(cost.nodes)), np.uint8)
    for row, block in zip(rows, blocks, strict=True):
        row[list(block)] = 1
    cycles, choices = cost.price(rows)
    pieces = [cost.pieces(choice) for choice in choices.tolist()]
    return [(found, one.axis, one.count) for found, one in zip(cycles.tolist(), pieces, strict=True)]


def convolutions(batch: int, size: int, *, layers: int, kernel: int = 1):
    """So many convolutions of 16 channels without bias, one after the other."""
    net = Net()
    x = net.input(batch, 16, size, size)
    for _ in range(layers):
        pads = [kernel // 2] * 4
        x = net.op("Conv", x, net.random(16, 16, kernel, kernel), pads=pads, kernel_shape=[kernel, kernel])
    return net.graph(x)


MAP, WEIGHTS = 4 * 16 * 8 * 8 * 2, 16 * 16 * 2


def test_apart_the_border_is_paid_and_written_and_read():
    """Two convolutions that DDR bounds: 4 images of 8 x 8, in 8 KiB and out, 512 B of weights each."""
    together, first, second = cost_of(convolutions(4, 8, layers=2), (0, 1), (0,), (1,))
    assert together == ((2 * MAP + 2 * WEIGHTS) // 8, 0, 1)
    assert first == second == ((MAP + WEIGHTS) // 8 + MAP // 64, 0, 1)


def test_every_piece_reads_the_weights():
    """64 images in and out are twice what the local buffers hold, so each of two pieces reads the weights."""
    ((cycles, axis, pieces),) = cost_of(convolutions(64, 8, layers=1), (0,))
    assert (axis, pieces) == (0, 2)
    assert cycles == (2 * 16 * MAP + 2 * WEIGHTS) // 8


def test_pieces_of_rows_read_their_halo():
    """One image of 64 x 64: in four pieces, of which each reads a row of its neighbour above and below."""
    ((cycles, axis, pieces),) = cost_of(convolutions(1, 64, layers=1, kernel=3), (0,))
    assert (axis, pieces) == (2, 4)
    image, weights = 16 * 64 * 64 * 2, 9 * WEIGHTS
    assert cycles == (4 * (16 + 2) * image // 64 + image + 4 * weights) // 8


def test_halos_of_several_operators_are_computed_again():
    """The first of two convolutions by 5 x 5 makes 4 rows more than the second, in every piece."""
    graph = convolutions(1, 64, layers=2, kernel=5)
    ((cycles, _, pieces),) = cost_of(graph, (0, 1))
    rows = 64 // pieces
    folds = ceil_div(25 * 16, 16) * ceil_div(16, 8)
    work = pieces * (rows + rows + 4) * 64 * folds // 2  # on two cores
    assert pieces == 4
    assert abs(cycles - work) < 0.06 * work  # times between halves are taken from the two halves around them


def test_what_does_not_fit_in_any_number_of_pieces_passes_through_gb():
    """A row of a softmax cannot be cut; 96 KiB in and out are more than half of what is there."""
    net = Net()
    x = net.input(1, 98304 // 2)
    ((cycles, _, pieces),) = cost_of(
        net.graph(net.op("Softmax", x, axis=-1)), (0,), machine=cramped(TOY, local_bytes=49152)
    )
    assert pieces == 1
    assert cycles > 2 * 98304 // 8


def random_graph(seed: int):
    return api.load_graph(random_model(seed), batch=2)


@pytest.mark.parametrize("local_bytes", first(1, [512, 65536]))
def test_the_grouping_equals_brute_force(local_bytes):
    """On random networks of up to 10 nodes, with room and with little."""
    machine, compared = cramped(TOY, local_bytes=local_bytes), 0
    for seed in range(60):
        graph, parts = kernels(random_graph(seed), machine)
        cost = grouping_cost(graph, parts, machine)
        if not 2 <= len(cost.nodes) <= 10:
            continue
        found = best_grouping(graph, parts, machine)
        assert found.plan.cost == best_by_brute_force(before(cost), cost.price), seed
        compared += len(found.groups) > 1 or local_bytes > 512
    assert compared > 10


@pytest.mark.parametrize("name", first(1, ["resnet18:small", "vit-b16:small"]))
def test_the_proof_is_accepted_by_the_checker(name):
    """And nothing else finds anything better."""
    found = grouped(api.load_graph(name, batch=4))
    assert found.proof is not None
    plan, waits = found.plan, before(found.cost)
    check(waits, plan.blocks, plan.choices, plan.costs, found.proof.potentials, found.cost.price)
    worse = {ideal: least + (least > 0) for ideal, least in found.proof.potentials.items()}
    with pytest.raises(InputError, match="certificate"):
        check(waits, plan.blocks, plan.choices, plan.costs, worse, found.cost.price)
    assert grouped(api.load_graph(name, batch=4), limit=3).plan.cost >= plan.cost


@pytest.mark.parametrize("name", first(1, ["bert-base-128:small", "googlenet:small", "densenet121:small"]))
def test_groups_hold_every_operator_once_in_an_order_in_which_they_run(name):
    found = grouped(api.load_graph(name, batch=4), cramped(TOY, local_bytes=16384))
    graph, done = found.cost.graph, set()
    for group in found.groups:
        for operator in group:
            makers = {op.name for read in graph.by_name[operator].inputs for op in graph.producers.get(read, ())}
            assert makers <= done | {operator}, operator
            done.add(operator)
    assert done == set(graph.by_name)
    assert sum(map(len, found.groups)) == len(graph.operators)


@pytest.mark.slow
def test_programs_of_the_best_grouping_are_right(monkeypatch):
    """On random networks and small local buffers, so that most have several sub-graphs or pieces."""
    monkeypatch.setattr(cuts, "whole_may_be_better", lambda *arguments: False)
    machine, pieces = cramped(TOY, local_bytes=6144), []
    for seed in range(16):
        options = Options(batch=8, batch_per_cluster=4, grouping=GroupingRule.EXACT, verify=True)
        strategy = replace(strategy_named("graphturbo" if seed % 2 else "graphturbo-ordering"), fallback=None)
        try:
            done = compile_network(random_model(seed), f"random {seed}", machine, strategy, options)
        except DoesNotFit:
            continue
        assert done.report is not None
        assert done.schedule is not None
        assert done.report.verified, seed
        pieces.append(len(done.schedule.pieces))
    assert len(pieces) > 8
    assert sum(count > 1 for count in pieces) > 4


@pytest.mark.parametrize(
    "network",
    first(2, ["resnet18:small", "mobilenet-v2:small", "bert-base-128:small", "googlenet:small"]),
)
def test_small_networks_in_the_best_grouping_are_right(network):
    done = api.compile(network, "toy", strategy="graphturbo", batch=4, options=Options(grouping="exact"), verify=True)
    assert done.report is not None
    assert done.report.verified
