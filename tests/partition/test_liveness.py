"""The order with the least peak, and sub-graphs that grow without being searched again from nothing."""

from itertools import permutations
from random import Random

import networkx as nx
import pytest

from benchmarks.partition import residual_chain
from tests.helpers.pairs import first
from tests.helpers.random_networks import random_model
from tilestitch.base.dtypes import DType
from tilestitch.frontend.reader import read_onnx
from tilestitch.ir.graph import Access, Axis, Dim, DimKind, Graph, Operator, Tensor
from tilestitch.partition.subgraphs.coarse import _Merging, coarse_groups
from tilestitch.partition.subgraphs.liveness import Arranger, least_peak
from tilestitch.passes import simplify
from tilestitch.passes.views import resolve_views


def operator(name: str, reads: dict[str, int], size: int, *, kind: str = "add", writes: str = "") -> Operator:
    """A loop over `size` elements, which reads an operand of that many element by element, and any other whole."""
    dims = (Dim("n", size, DimKind.PARALLEL),)
    along, whole = (Axis(((0, 1),)),), (Axis(()),)
    accesses = tuple(Access(read, along if extent == size else whole) for read, extent in reads.items())
    return Operator(name, kind, dims, accesses, (Access(writes or name, along),))


def random_dag(random: Random, count: int) -> Graph:
    """Up to `count` operators; each reads up to three tensors, some of them from outside; some are outputs."""
    sizes = {f"in{number}": random.randint(1, 4) for number in range(3)}
    operators = []
    for number in range(count):
        names = random.sample(list(sizes), random.randint(1, 3))
        size = random.choice([random.randint(1, 6), sizes[names[0]]])
        operators.append(operator(f"t{number}", {name: sizes[name] for name in names}, size))
        sizes[f"t{number}"] = size
    outputs = tuple(name for name in sizes if name.startswith("t") and random.random() < 0.3)
    tensors = {name: Tensor(name, (size,), DType.FLOAT16, (0,)) for name, size in sizes.items()}
    return Graph("random", tensors, tuple(operators), ("in0", "in1", "in2"), outputs or (f"t{count - 1}",), {})


def peak_bytes_of(graph: Graph, order: tuple[Operator, ...]) -> int | None:
    """By the definition, tensor by tensor; None for an order that cannot run."""
    inside = {op.name for op in order}
    place = {op.name: at for at, op in enumerate(order)}
    spans: dict[str, tuple[int, int]] = {}
    for name in graph.tensors:
        makers = [place[op.name] for op in graph.producers.get(name, ()) if op.name in inside]
        readers = [place[op.name] for op in graph.consumers.get(name, ()) if op.name in inside]
        if makers and readers and max(makers) > min(readers):
            return None
        if makers or readers:
            outside = name in graph.outputs or any(op.name not in inside for op in graph.consumers.get(name, ()))
            spans[name] = min(makers + readers), len(order) if makers and outside else max(makers + readers)
    peak = 0
    for at, op in enumerate(order):
        live = sum(graph.tensors[name].size_bytes for name, (first, last) in spans.items() if first <= at <= last)
        made = graph.tensors[op.outputs[0]].size_bytes
        ending = [graph.tensors[name].size_bytes for name in op.inputs if spans[name][1] == at]
        aligned = any(read.axes == op.writes[0].axes for read in op.reads)
        peak = max(peak, live - (made if aligned and made in ending else 0))
    return peak


@pytest.mark.parametrize("seed", first(60, range(150)))
def test_no_order_of_a_few_operators_has_a_smaller_peak(seed):
    """All orders of random operators; those of a part of the network as well."""
    random = Random(seed)
    graph = random_dag(random, random.randint(2, 7))
    operators = [op for op in graph.operators if random.random() < 0.9] or list(graph.operators)
    peaks = [peak_bytes_of(graph, order) for order in permutations(operators)]
    found = least_peak(graph, operators)
    assert found.peak_bytes == min(peak for peak in peaks if peak is not None)
    assert peak_bytes_of(graph, tuple(graph.by_name[name] for name in found.order)) == found.peak_bytes


@pytest.mark.parametrize("seed", range(60))
def test_stretches_end_where_all_before_lead_to_all_behind(seed):
    """At operators that every earlier one leads to, and that lead to every later one: networkx knows which."""
    random = Random(seed)
    graph = random_dag(random, random.randint(2, 12))
    leads = nx.DiGraph()
    leads.add_nodes_from(range(len(graph.operators)))
    place = {op.name: number for number, op in enumerate(graph.operators)}
    leads.add_edges_from(
        (place[maker], place[op.name]) for op in graph.operators for maker in op.inputs if maker in place
    )
    ends = [
        at
        for at in leads
        if len(nx.ancestors(leads, at)) == at and len(nx.descendants(leads, at)) == len(graph.operators) - at - 1
    ]
    stretches, sources, sinks = Arranger(graph, graph.operators)._cuts(range(len(graph.operators)))
    assert [stretch[-1] for stretch in stretches] == sorted({*ends, len(graph.operators) - 1})
    assert sources == [at for at in leads if leads.in_degree(at) == 0]
    assert sinks == [at for at in leads if leads.out_degree(at) == 0]


def test_a_search_that_is_given_up_still_gives_an_order_that_can_run():
    """Of forty chains side by side the best order is not found within 8,000 steps."""
    random = Random(1)
    sizes = {"in": 4}
    operators = []
    for chain in range(40):
        for number in range(3):
            name, read = f"t{chain}.{number}", f"t{chain}.{number - 1}" if number else "in"
            sizes[name] = random.randint(5, 60)
            operators.append(operator(name, {read: sizes[read]}, sizes[name]))
    ends = {f"t{chain}.2": sizes[f"t{chain}.2"] for chain in range(40)}
    sizes["end"] = 3
    operators.append(operator("end", ends, 3))
    tensors = {name: Tensor(name, (size,), DType.FLOAT16, (0,)) for name, size in sizes.items()}
    graph = Graph("wide", tensors, tuple(operators), ("in",), ("end",), {})
    found = least_peak(graph, operators)
    given = peak_bytes_of(graph, tuple(operators))
    assert given is not None
    assert found.peak_bytes <= given
    assert peak_bytes_of(graph, tuple(graph.by_name[name] for name in found.order)) == found.peak_bytes


def test_a_concatenation_counts_once():
    """Its copies make parts of one tensor, which is not there once for each."""
    operators = (
        operator("a", {"in": 2}, 2),
        operator("b", {"in": 2}, 3),
        operator("joined.0", {"a": 2}, 2, kind="copy", writes="joined"),
        operator("joined.1", {"b": 3}, 3, kind="copy", writes="joined"),
        operator("end", {"joined": 5}, 1),
    )
    sizes = {"in": 2, "a": 2, "b": 3, "joined": 5, "end": 1}
    tensors = {name: Tensor(name, (size,), DType.FLOAT16, (0,)) for name, size in sizes.items()}
    graph = Graph("concatenation", tensors, operators, ("in",), ("end",), {})
    assert least_peak(graph, operators).peak_bytes == 2 * (2 + 3 + 5)


def sub_graphs(graph: Graph, capacity_bytes: int) -> list[tuple[tuple[str, ...], int, int, int, int]]:
    found = coarse_groups(graph, capacity_bytes)
    splits = (one.split for one in found)
    return [
        (one.operators, split.axis, split.factor, split.operators, split.peak_bytes)
        for one, split in zip(found, splits, strict=True)
    ]


@pytest.mark.parametrize("seed", range(30))
def test_sub_graphs_that_grow_are_those_that_are_searched_from_nothing(seed, monkeypatch):
    random = Random(seed)
    graph = resolve_views(simplify(read_onnx(random_model(seed), batch=random.choice([1, 4, 16]))))[0]
    largest = max(least_peak(graph, [op]).peak_bytes for op in graph.operators)
    capacities = [max(1, int(largest * share)) for share in (0.2, 0.9, 2.0, 20.0)]
    grown = [sub_graphs(graph, capacity) for capacity in capacities]
    monkeypatch.setattr(_Merging, "_behind", lambda *_: None)
    assert grown == [sub_graphs(graph, capacity) for capacity in capacities]


def test_a_long_network_is_not_searched_again_for_every_operator(monkeypatch):
    """Three sub-graphs, of hundreds of operators each, and each operator is looked at a few times."""
    looked_at = []
    arrange = _Merging._operators
    monkeypatch.setattr(
        _Merging, "_operators", lambda self, found: looked_at.append(len(found.inside)) or arrange(self, found)
    )
    graph = residual_chain(1_000)
    assert [factor for _, _, factor, _, _ in sub_graphs(graph, 10 * 2**20)] == [4, 2, 1]
    assert sum(looked_at) < 20 * len(graph.operators)
