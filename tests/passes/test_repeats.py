"""What a view repeats is read where it lies: grouped attention copies no keys, however it is written."""

import pytest

from tests.helpers.graphs import Net, assert_same_meaning
from tilestitch import api
from tilestitch.passes.views import resolve_views
from tilestitch.pipeline.strategies import STRATEGIES

KEYS, SIZE, GROUPS, REPEATS = 6, 8, 2, 3
HEADS = GROUPS * REPEATS


def repeated(net: Net, x: str) -> str:
    """[1, groups, keys, size] to [1, heads, keys, size], as exporters write it."""
    stretched = net.op("Expand", net.op("Unsqueeze", x, [2]), [1, 1, REPEATS, 1, 1])
    return net.op("Reshape", stretched, [1, HEADS, KEYS, SIZE])


def written_out(net: Net, q: str, k: str, v: str) -> str:
    keys = net.op("Transpose", repeated(net, k), perm=[0, 1, 3, 2])
    scores = net.op("Div", net.op("MatMul", q, keys), SIZE**0.5)
    return net.op("MatMul", net.op("Softmax", scores, axis=-1), repeated(net, v))


def native(net: Net, q: str, k: str, v: str) -> str:
    return net.op("Attention", q, k, v)


def net_of(form) -> tuple[Net, str]:
    net = Net(opset=23)
    operands = [net.input(1, heads, KEYS, SIZE) for heads in (HEADS, GROUPS, GROUPS)]
    return net, form(net, *operands)


@pytest.mark.parametrize("form", [written_out, native])
def test_grouped_attention_copies_no_keys(form):
    """Three operators are left: two products, each with a loop over groups and one over repeats, and the softmax."""
    net, output = net_of(form)
    graph = net.graph(output)
    resolved, _ = resolve_views(graph)
    assert_same_meaning(graph, resolved)
    assert [op.kind for op in resolved.operators] == ["matmul", "div", "softmax", "matmul"]
    for product in (resolved.operators[0], resolved.operators[-1]):
        assert [dim.extent for dim in product.dims[1:3]] == [GROUPS, REPEATS]
        assert product.reads[1].tensor in graph.inputs


@pytest.mark.parametrize("strategy", [strategy.name for strategy in STRATEGIES])
def test_both_forms_of_grouped_attention_give_one_schedule(strategy):
    """The same cycles and the same traffic, and both right."""
    reports = []
    for form in (written_out, native):
        net, output = net_of(form)
        reports.append(api.compile(net.model(output), "toy", strategy=strategy, verify=True).report)
    assert all(report.verified for report in reports)
    assert len({(report.latency_cycles, report.ddr_bytes) for report in reports}) == 1


def test_a_loop_over_a_part_of_what_is_repeated_stays_whole():
    """A slice of the heads cuts through a group, so that no two loops cover it."""
    net = Net()
    x = net.input(1, GROUPS, KEYS, SIZE)
    graph = net.graph(net.op("Exp", net.op("Slice", repeated(net, x), [1], [HEADS], [1])))
    resolved, _ = resolve_views(graph)
    assert_same_meaning(graph, resolved)
    assert "copy" in {op.kind for op in resolved.operators}


def test_a_softmax_over_what_is_repeated_stays_whole():
    """Its axis is needed whole, and is not split."""
    net = Net()
    x = net.input(1, GROUPS, KEYS, SIZE)
    graph = net.graph(net.op("Softmax", repeated(net, x), axis=1))
    resolved, _ = resolve_views(graph)
    assert_same_meaning(graph, resolved)
    assert [dim.extent for op in resolved.operators if op.kind == "softmax" for dim in op.dims] == [
        1,
        HEADS,
        KEYS,
        SIZE,
    ]


def test_what_is_repeated_inside_a_head_is_read_in_place():
    """Rows of an image, each twice: the inner loop of the two repeats."""
    net = Net()
    x = net.input(2, 3, 4)
    doubled = net.op("Reshape", net.op("Expand", net.op("Unsqueeze", x, [2]), [2, 3, 2, 4]), [2, 6, 4])
    graph = net.graph(net.op("Mul", doubled, net.random(2, 6, 4)))
    resolved, _ = resolve_views(graph)
    assert_same_meaning(graph, resolved)
    assert [op.kind for op in resolved.operators] == ["mul"]
