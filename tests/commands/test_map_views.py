"""Results that others read behind reshapes and transpositions, in chains of `map --fuse`."""

import numpy as np
import pytest

from tilestitch import FuseOptions, map_fused
from tilestitch.api import load_graph
from tilestitch.base.dtypes import DType
from tilestitch.commands.map.chains import chains_of
from tilestitch.commands.map.views import Split, plain_view, seen_through, split_nest, split_of
from tilestitch.commands.simulate.fused_layers import simulate_fused
from tilestitch.formats.einsum import einsum_nest
from tilestitch.ir.choices import Values
from tilestitch.ir.graph import Access, Axis, Dim, DimKind, Graph, Operator, Tensor
from tilestitch.passes import simplify
from tilestitch.sim.tree.chain_values import chain_operands, expected, passed_on
from tilestitch.sim.tree.wiring import ChainLink, Wiring


def attention_of(name):
    graph = simplify(load_graph(name), fold_bn=True)
    return next(chain for chain in chains_of(graph) if "softmax" in sum(chain.between, ()))


def test_nests_with_split_loops_compute_the_attention_of_a_network():
    """Queries, keys and values divided into heads, scores, context, and what is made of all heads, beside numpy."""
    chain = attention_of("bert-base-8:small")
    links = tuple(ChainLink(one.read, "", 0, one.passes, one.whole) for one in chain.links)
    wiring = Wiring(chain.nests, links, chain.readers)
    operands = chain_operands(wiring, Values.FLOATS)
    (of_query, query), (of_key, key), _, (of_value, value), _, (_, out) = operands
    heads, each = chain.nests[2].write.shape[1], query.shape[-1]
    assert query.shape == (heads * each, heads, each)

    def made(rows, weights):
        return (rows @ weights.reshape(len(weights), -1)).reshape(1, -1, heads, each)

    scores = made(of_query, query).transpose(0, 2, 1, 3) @ made(of_key, key).transpose(0, 2, 3, 1)
    context = passed_on(scores, links[2]) @ made(of_value, value).transpose(0, 2, 1, 3)
    whole = context.transpose(0, 2, 1, 3).reshape(1, -1, heads * each) @ out.reshape(heads * each, -1)
    assert expected(wiring, operands)[0] == pytest.approx(whole, rel=1e-4, abs=1e-4)


def test_attention_with_its_projections_is_simulated():
    """Values are right where scores run together with queries and keys, and the context with what is made of it."""
    layer = "encoder.layer.0.attention.self.scores"
    mapped = map_fused("bert-base-8:small", "tpu-v4i", FuseOptions(3), layers=[layer])
    (found,) = simulate_fused(mapped, Values.INTEGERS, lambda *_: None)
    assert [group.found.numbers for group in found.groups] == [(0, 1, 2), (3, 4, 5)]
    assert "add, reshape, transpose there" in str(mapped)


def test_what_repeats_heads_is_not_followed():
    """Several queries of a Llama read one key: that is no other order of its elements. The context is followed."""
    attention = attention_of("llama-block-prefill-8:small")
    assert attention.names == ("attention.scores", "attention.context", "attention.out")
    assert attention.between == (("mul", "add", "softmax"), ("transpose", "reshape"))


def moved(shape, read, write, kind="reshape"):
    """A network of one operator that moves elements: by axis the dims and steps with which it reads and writes."""
    sizes = {dim: size for axes in (read, write) for axis in axes for dim, _, size in axis}
    dims = tuple(Dim(f"d{at}", sizes[at], DimKind.PARALLEL) for at in sorted(sizes))
    reads, writes = (
        Access(name, tuple(Axis(tuple((dim, step) for dim, step, _ in axis)) for axis in axes))
        for name, axes in (("x", read), ("y", write))
    )
    after = tuple(int(np.prod([size for _, _, size in axis])) for axis in write)
    op = Operator("move", kind, dims, (reads,), (writes,))
    tensors = {
        name: Tensor(name, its, DType.FLOAT16, tuple(range(len(its)))) for name, its in (("x", shape), ("y", after))
    }
    return Graph("moved", tensors, (op,), ("x",), ("y",), {}), op


def test_digits_of_an_index():
    """An index of 24 in two, in another two, and as one again; and one whose parts changed places."""
    first, op = moved((24,), [[(0, 6, 4), (1, 1, 6)]], [[(0, 1, 4)], [(1, 1, 6)]])
    view = seen_through(first, plain_view((24,)), op, "x")
    assert view == (((0, 6, 4),), ((0, 1, 6),))
    second, op = moved((4, 6), [[(0, 2, 2), (1, 1, 2)], [(2, 1, 6)]], [[(0, 1, 2)], [(1, 6, 2), (2, 1, 6)]])
    view = seen_through(second, view, op, "x")
    assert view == (((0, 12, 2),), ((0, 6, 2), (0, 1, 6)))
    turned, op = moved((2, 12), [[(0, 1, 2)], [(1, 1, 12)]], [[(1, 2, 12), (0, 1, 2)]], "transpose")
    view = seen_through(turned, view, op, "x")
    assert view == (((0, 6, 2), (0, 1, 6), (0, 12, 2)),)
    nest = einsum_nest("C[m,n] += A[m,k] * B[k,n]; m=5 n=24 k=2")
    reader = einsum_nest("E[m,n] += C[m,k] * D[k,n]; m=5 n=3 k=24")
    view = (*plain_view((5,)), tuple((1, *digit[1:]) for digit in view[0]))
    split = split_of(view, nest, reader, 0)
    assert split == Split({1: (2, 2, 6)}, {2: (2, 6, 2)}, ((0, 0), (2, 2), (2, 0), (2, 1)))
    assert split_of(view, nest, einsum_nest("E[m,n] += C[m,k] * D[k,n]; m=5 n=3 k=23"), 0) is None
    uneven, op = moved((24,), [[(0, 1, 24)]], [[(0, 1, 24)]], "relu")
    assert seen_through(uneven, plain_view((24,)), op, "x") is None


def test_a_loop_that_is_part_of_a_window_is_not_split():
    """An image row of a convolution is read by two loops together."""
    nest = einsum_nest("C[x] += A[x+r] * B[r]; x=8 r=3")
    assert split_nest(nest, {0: (2, 4)}) is None
    rows = einsum_nest("C[x,n] += A[x,k] * B[k,n]; x=8 n=2 k=3")
    found, numbers = split_nest(rows, {0: (2, 4)})
    assert [loop.extent for loop in found.loops] == [2, 4, 2, 3]
    assert numbers == {0: [0, 1], 1: [2], 2: [3]}
    assert found.reads[0].axes == (((0, 1),), ((1, 1),), ((3, 1),))
    assert found.write.shape == (2, 4, 2)
