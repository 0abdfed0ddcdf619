"""Exact partitions: equal to brute force, proven by a certificate that an independent checker accepts or rejects."""

import random
import time
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from tests.helpers.fused_plans import MODEL, arbitrary, best_by_brute_force, network, random_graph
from tests.helpers.pairs import first, slow_for
from tilestitch.base.errors import DoesNotFit, InputError
from tilestitch.partition.blocks.bounds import fusion_bounds
from tilestitch.partition.blocks.checker import check
from tilestitch.partition.blocks.model import BlockCost, FusionLayer, FusionNetwork, Read
from tilestitch.partition.ideals import along, exact, ideals

# nodes and ideals of a prototype in pure Python, with the same rule for nodes
COUNTS = {
    "alexnet": (11, 12),
    "resnet18": (31, 38),
    "mobilenet-v2": (64, 65),
    "resnet50": (72, 85),
    "densenet121": (184, 185),
    "googlenet": (81, 496),
    "vgg19": (24, 25),
}


def test_the_search_equals_brute_force_on_random_graphs():
    """300 of them, of up to 12 operators, for costs without any structure."""
    for seed in range(300):
        chosen = random.Random(seed)
        before = random_graph(chosen, 2 + seed % 9 if seed % 25 else 12)
        price = arbitrary(seed)
        found = exact(before, price)
        assert found is not None
        assert found.plan.cost == best_by_brute_force(before, price), seed


@pytest.mark.parametrize("seed", range(40))
def test_ideals_are_what_antichains_have_run(seed):
    """Each set of nodes, none of which waits for another, with all that they wait for: networkx finds them."""
    before = random_graph(random.Random(seed), 1 + seed % 9)
    waits = nx.DiGraph()
    waits.add_nodes_from(range(len(before)))
    waits.add_edges_from((first, node) for node, others in enumerate(before) for first in others)
    expected = {
        frozenset(antichain).union(*(nx.ancestors(waits, node) for node in antichain))
        for antichain in nx.antichains(waits)
    }
    found = ideals(before)
    assert found is not None
    assert {frozenset(np.flatnonzero(row).tolist()) for row in found} == expected
    assert len(found) == len(expected)


@pytest.mark.parametrize("nodes", range(1, 15))
def test_the_search_equals_brute_force_on_chains(nodes):
    """Of up to 14 operators, where one order is all there is."""
    before = [(node - 1,) if node else () for node in range(nodes)]
    price = arbitrary(nodes)
    found = exact(before, price)
    assert found is not None
    assert found.plan.cost == best_by_brute_force(before, price) == along(before, price).cost


def test_a_certificate_is_accepted_and_a_tampered_one_is_not():
    """Every number of it matters, and every block of the plan."""
    for seed in range(30):
        chosen = random.Random(seed)
        before = random_graph(chosen, 7)
        price = arbitrary(seed)
        found = exact(before, price)
        assert found is not None
        plan = found.plan
        good = (before, plan.blocks, plan.choices, plan.costs, found.potentials, price)
        check(*good)
        ideal = chosen.choice(sorted(found.potentials))
        worse = {**found.potentials, ideal: found.potentials[ideal] + 1}
        fewer = {key: value for key, value in found.potentials.items() if key != ideal}
        cheaper = (plan.costs[0] - 1, *plan.costs[1:])
        tampered = [
            (*good[:4], worse, price),
            (*good[:4], fewer, price),
            (*good[:3], cheaper, found.potentials, price),
            (before, plan.blocks, tuple(choice + 1 for choice in plan.choices), *good[3:]),
            (before, plan.blocks[1:], plan.choices[1:], plan.costs[1:], found.potentials, price),
            (before, (*plan.blocks, (0,)), (*plan.choices, 1), (*plan.costs, 1), found.potentials, price),
        ]
        if len(plan.blocks) > 1:
            other = along(before, lambda blocks, price=price: price(blocks))
            if other.cost > plan.cost:
                tampered.append((before, other.blocks, other.choices, other.costs, found.potentials, price))
            tampered.append((before, plan.blocks[::-1], plan.choices[::-1], plan.costs[::-1], found.potentials, price))
        for wrong in tampered:
            with pytest.raises(InputError):
                check(*wrong)


def test_what_no_block_allows_does_not_fit():
    """Not a plan of cost zero."""
    with pytest.raises(DoesNotFit):
        exact([(), (0,)], lambda blocks: (np.full(len(blocks), -1), np.zeros(len(blocks), int)))


def test_a_graph_of_too_many_ideals_is_told_so():
    """Twenty nodes side by side have a million."""
    assert ideals([()] * 20) is None
    assert exact([()] * 20, arbitrary(0)) is None


@pytest.mark.parametrize("name", first(6, list(COUNTS)))
def test_networks_have_the_published_number_of_nodes_and_ideals(name):
    """Those of docs/dlfusion.md."""
    before = network(name).before()
    found = ideals(before)
    assert found is not None
    assert (len(before), len(found)) == COUNTS[name]


# The block model


def reference(cost: BlockCost, members: list[int], cores: int) -> int:
    """The time of a block by the formulas of docs/dlfusion.md, in plain Python; -1 where it does not fit."""
    layers, model, count = cost.network.layers, cost.model, len(cost.network.layers)
    inside = set(members)

    def extent(tensor: int) -> tuple[int, int]:
        if tensor >= count:
            return cost.network.inputs[tensor - count]
        return layers[tensor].rows, layers[tensor].result_bytes

    need: dict[int, int] = {}
    parts: dict[int, int] = {}
    leaving = {
        n
        for n in members
        if n in cost.network.outputs
        or any(read.tensor == n for other, layer in enumerate(layers) if other not in inside for read in layer.reads)
    }
    compute = 0.0
    for n in reversed(members):
        layer = layers[n]
        rows = max(need.get(n, 0), -(-layer.rows // cores) if n in leaving else 0)
        need[n] = min(rows, layer.rows)
        work = layer.operations / (model.core_flops * layer.utilization) * 10**12
        compute += work * need[n] / layer.rows + model.layer_ps
        for read in layer.reads:
            rows = extent(read.tensor)[0]
            wanted = rows if read.whole else min(rows, (need[n] - 1) * read.stride + read.kernel)
            need[read.tensor] = max(need.get(read.tensor, 0), wanted)
            parts[read.tensor] = max(parts.get(read.tensor, 0), min(cores, layer.rows))
    outside = [tensor for tensor in need if tensor not in inside]
    moved = sum(extent(t)[1] * parts[t] * need[t] / extent(t)[0] for t in sorted(outside))
    moved += sum(layers[n].result_bytes for n in leaving) + sum(layers[n].weight_bytes for n in members)
    if len(members) > 1:
        for place, _ in enumerate(members):
            held = 0.0
            for tensor in need:
                users = [p for p, n in enumerate(members) if any(r.tensor == tensor for r in layers[n].reads)]
                first = members.index(tensor) if tensor in inside else min(users)
                last = max([*users, first])
                if first <= place <= last:
                    held += extent(tensor)[1] * need[tensor] / extent(tensor)[0]
            if held > model.local_bytes - model.weight_area_bytes:
                return -1
    transfer = moved / min(model.bandwidth, model.channel_bandwidth * cores) * 10**12
    return int(max(compute, transfer) + model.launch_ps + model.sync_ps * cores)


@pytest.mark.parametrize("name", first(2, ["resnet18", "googlenet", "mobilenet-v2", "bert-base-128"]))
def test_the_compiled_time_is_that_of_the_formulas(name):
    """For stretches of several lengths of four networks, on every number of cores, up to rounding."""
    found = network(name)
    cost = BlockCost(found, MODEL)
    chosen = random.Random(0)
    for _ in range(60):
        start = chosen.randrange(len(found.layers))
        members = list(range(start, min(len(found.layers), start + chosen.choice((1, 2, 5, 12)))))
        row = np.zeros((1, len(found.layers)), np.uint8)
        row[0, members] = 1
        for column, cores in enumerate(MODEL.core_counts):
            ours, expected = int(cost.times(row)[0, column]), reference(cost, members, cores)
            assert abs(ours - expected) <= 1e-9 * abs(expected) + 1, (members, cores)


def test_halo_is_the_closed_form_of_a_stack():
    """Layer i from the end of n layers of k x k computes r + (i - 1)(k - 1) rows, as in docs/dlfusion.md."""
    n, k, rows, cores = 8, 3, 56, 8
    layers = tuple(FusionLayer(f"l{i}", (), 1, 1.0, 16, rows, 1, 0, (Read(i - 1 if i else n, k),)) for i in range(n))
    model = replace(MODEL, core_flops=1e6, layer_ps=0, launch_ps=0, sync_ps=0, core_counts=(cores,))
    cost = BlockCost(FusionNetwork("stack", layers, ((rows, 1),), frozenset([n - 1])), model)
    own = rows // cores
    expected = sum(min(rows, own + i * (k - 1)) for i in range(n)) / rows * 1e6
    assert cost.times(np.ones((1, n), np.uint8))[0, 0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", slow_for(["vgg19"], ["alexnet", "vgg19", "resnet18", "mobilenet-v2", "resnet50"]))
def test_every_bound_is_below_the_best_plan(name):
    """And the certificate of the best plan of a real network holds where it is small enough to check."""
    found = network(name)
    cost = BlockCost(found, MODEL)
    best = exact(found.before(), cost.price)
    assert best is not None
    bounds = fusion_bounds(cost)
    for value in (bounds.roofline, bounds.overheads, bounds.traffic, bounds.relaxed):
        assert value is not None
        assert 0 < value <= best.plan.cost
    assert best.plan.cost <= along(found.before(), cost.price).cost
    if len(found.layers) < 32:
        plan = best.plan
        check(found.before(), plan.blocks, plan.choices, plan.costs, best.potentials, cost.price)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*COUNTS, "bert-base-128"])
def test_the_best_plan_is_found_in_time(name):
    """2 s of one core, 5 s for BERT-base."""
    found = network(name)
    cost = BlockCost(found, MODEL)
    cost.price(np.eye(len(found.layers), dtype=np.uint8)[:1])  # compiled
    begin = time.process_time()
    assert exact(found.before(), cost.price) is not None
    assert time.process_time() - begin < (5 if name.startswith("bert") else 2)
